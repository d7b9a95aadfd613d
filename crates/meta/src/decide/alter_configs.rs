//! Changing settings: all of a resource at once, or one by one.
//!
//! Owns the operations on a setting and the check of what comes out. A resource named twice is refused each time; a resource
//! with one bad change keeps all its settings.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use config::{Broker, ChangeError, ClientMetrics, Kind, Level, Overrides, ValueError};
use model::BrokerId;
use wire::metadata::ConfigRecord;

use super::RECORDS_MAX;

use crate::image::{Image, Resource, ResourceKind};
use crate::name::{self, NameError};
use crate::record::Record;

/// A record holds no longer value, nor does a request: only a list that grows gets there. Kafka counts UTF-16 units.
const VALUE_BYTES_MAX: usize = 0x7fff;

/// Patterns of subscriptions that one request may set, in bytes, with [`PATTERN_COST`] for each: 39 short ones, or one as long as a
/// value. What they compile to is bounded, at some 30 ms for a short one that was made to hurt, so this is a second.
const PATTERN_BYTES_MAX: usize = 40 << 10;
const PATTERN_COST: usize = 1 << 10;

/// True if a pattern is one; the engine is not here.
pub type Compiles = fn(&str) -> bool;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Set,
    Delete,
    Append,
    Subtract,
}

impl Operation {
    #[must_use]
    pub fn from_wire(operation: i8) -> Option<Operation> {
        match operation {
            0 => Some(Operation::Set),
            1 => Some(Operation::Delete),
            2 => Some(Operation::Append),
            3 => Some(Operation::Subtract),
            _ => None,
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Set => "SET",
            Operation::Delete => "DELETE",
            Operation::Append => "APPEND",
            Operation::Subtract => "SUBTRACT",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub name: String,
    /// `None`: a number no operation has.
    pub operation: Option<Operation>,
    pub value: Option<String>,
}

/// The resource that a request names; the kind is as it came, known or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Named {
    pub kind: i8,
    pub name: String,
}

/// All settings a resource shall have.
pub type Replacement = Vec<(String, Option<String>)>;

/// Why settings are not changed; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlterError {
    #[error("Each resource must appear at most once.")]
    Duplicate,
    #[error("Unknown resource type {0}")]
    Kind(i8),
    #[error("Logger {0} does not exist!")]
    UnknownLogger(String),
    #[error(
        "Cannot set the log level of {logger} to {level} as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
    )]
    LogLevel { logger: String, level: String },
    #[error("Removing the log level of the {0} logger is not allowed")]
    RootLogger(String),
    #[error("{0} operation is not allowed for the BROKER_LOGGER resource")]
    LoggerOperation(&'static str),
    #[error("Error due to duplicate config keys")]
    DuplicateKeys,
    #[error("Null value not supported for : {}", .0.join(", "))]
    NullValue(Vec<String>),
    #[error("Unknown operation on setting {0}")]
    Operation(String),
    #[error("Default topic resources are not allowed.")]
    DefaultTopic,
    #[error("Default group resources are not allowed.")]
    DefaultGroup,
    #[error("Subscription name can't be empty")]
    DefaultClientMetrics,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("The topic '{0}' does not exist.")]
    UnknownTopic(String),
    #[error("Node id must be an integer, but it is: {0}")]
    BrokerName(String),
    #[error("Unexpected broker id, expected {want}, but received {got}")]
    OtherBroker { want: i32, got: i32 },
    #[error("Can't {operation} to key {name} because its type is not LIST.")]
    NotAList {
        operation: &'static str,
        name: String,
    },
    #[error(
        "The configuration value cannot be added because it exceeds the maximum value size of {VALUE_BYTES_MAX} bytes."
    )]
    TooLong,
    #[error("Unable to perform excessively large batch operation.")]
    TooManyRecords,
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error(transparent)]
    Broker(#[from] ChangeError),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterConfigs {
    pub records: Vec<Record>,
    /// In the order of the request.
    pub answers: Vec<(Named, Result<(), AlterError>)>,
}

/// Changes single settings (IncrementalAlterConfigs).
#[must_use]
pub fn change_configs(
    image: &Image,
    broker: &Broker,
    compiles: Compiles,
    resources: &[(Named, Vec<Change>)],
) -> AlterConfigs {
    decide(
        image,
        Planned::new(image, broker, compiles),
        resources,
        |broker, resource, before, changes: &Vec<Change>| {
            let nulls = changes.iter().filter(|change| {
                change.operation != Some(Operation::Delete) && change.value.is_none()
            });
            check_keys(
                changes.iter().map(|change| &change.name),
                nulls.map(|change| &change.name),
            )?;
            let mut after = before.clone();
            for change in changes {
                apply(&mut after, broker, resource, change)?;
            }
            Ok(after)
        },
    )
}

/// Replaces all settings of a resource (AlterConfigs).
#[must_use]
pub fn replace_configs(
    image: &Image,
    broker: &Broker,
    compiles: Compiles,
    resources: &[(Named, Replacement)],
) -> AlterConfigs {
    decide(
        image,
        Planned::new(image, broker, compiles),
        resources,
        |_, _, _, settings: &Replacement| {
            let nulls = settings
                .iter()
                .filter(|(_, value)| value.is_none())
                .map(|(name, _)| name);
            check_keys(settings.iter().map(|(name, _)| name), nulls)?;
            Ok(settings
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
                .collect())
        },
    )
}

fn decide<C>(
    image: &Image,
    mut planned: Planned,
    resources: &[(Named, C)],
    change: impl Fn(&Broker, &Resource, &Overrides, &C) -> Result<Overrides, AlterError>,
) -> AlterConfigs {
    let mut decision = AlterConfigs::default();
    let mut counts: BTreeMap<(i8, Cow<'_, str>), usize> = BTreeMap::new();
    for (named, _) in resources {
        *counts.entry(plain(named)).or_default() += 1;
    }
    for (named, changes) in resources {
        let times = counts.get(&plain(named)).copied().unwrap_or(1);
        let outcome = find(image, &planned.broker, named, times).and_then(|resource| {
            let before = image.overrides(&resource);
            let after = change(&planned.broker, &resource, &before, changes)?;
            planned.check(&resource, &after)?;
            check_is_there(image, &resource)?;
            let records = difference(&resource, &before, &after);
            let room = RECORDS_MAX - decision.records.len();
            if room < records.len() {
                return Err(AlterError::TooManyRecords);
            }
            planned.accept(&resource, after);
            Ok(records)
        });
        let answer = outcome.map(|records| decision.records.extend(records));
        decision.answers.push((named.clone(), answer));
    }
    decision
}

/// A broker's number may be spelled in thousands of ways, and a look at all its settings is dear.
fn plain(named: &Named) -> (i8, Cow<'_, str>) {
    let is_broker = named.kind == ResourceKind::Broker as i8;
    let number: Option<i32> = named.name.parse().ok().filter(|_| is_broker);
    let name = number.map_or(Cow::from(&named.name), |number| number.to_string().into());
    (named.kind, name)
}

/// The broker as it will be after what was decided so far, by this request and by those before it: what contradicts that is
/// refused, although what holds right now would take it.
struct Planned {
    cluster: Arc<Overrides>,
    own: Arc<Overrides>,
    broker: Broker,
    compiles: Compiles,
    pattern_bytes_left: usize,
}

impl Planned {
    fn new(image: &Image, broker: &Broker, compiles: Compiles) -> Planned {
        let cluster = image.overrides(&Resource::cluster());
        let own = image.overrides(&Resource::broker(broker.node_id));
        Planned {
            broker: broker.with_dynamic(Arc::clone(&cluster), Arc::clone(&own)),
            cluster,
            own,
            compiles,
            pattern_bytes_left: PATTERN_BYTES_MAX,
        }
    }

    fn check(&mut self, resource: &Resource, after: &Overrides) -> Result<(), AlterError> {
        check_name(resource)?;
        match resource.kind {
            ResourceKind::Broker => {
                let level = if is_cluster(resource) {
                    Level::Cluster { own: &self.own }
                } else {
                    Level::Own {
                        cluster: &self.cluster,
                    }
                };
                Ok(self.broker.check_change(after, level)?)
            }
            ResourceKind::Group => Ok(self.broker.check_group(after)?),
            ResourceKind::ClientMetrics => {
                config::check_client_metrics(after)?;
                self.check_patterns(after)
            }
            ResourceKind::Topic => Ok(self.broker.check_topic(after)?),
        }
    }

    fn check_patterns(&mut self, after: &Overrides) -> Result<(), AlterError> {
        for (name, pattern) in ClientMetrics::resolve(after).patterns {
            self.pattern_bytes_left = (self.pattern_bytes_left)
                .checked_sub(PATTERN_COST + pattern.len())
                .ok_or(AlterError::TooManyRecords)?;
            if !(self.compiles)(&pattern) {
                let pattern = format!("{name}={pattern}");
                return Err(ValueError::Pattern { pattern }.into());
            }
        }
        Ok(())
    }

    fn accept(&mut self, resource: &Resource, after: Overrides) {
        if resource.kind != ResourceKind::Broker {
            return;
        }
        let level = if is_cluster(resource) {
            &mut self.cluster
        } else {
            &mut self.own
        };
        *level = Arc::new(after);
        self.broker = (self.broker).with_dynamic(Arc::clone(&self.cluster), Arc::clone(&self.own));
    }
}

/// Of a broker's settings: the defaults of all brokers have no name.
fn is_cluster(resource: &Resource) -> bool {
    resource.name.is_empty()
}

fn check_keys<'a>(
    mut names: impl Iterator<Item = &'a String>,
    nulls: impl Iterator<Item = &'a String>,
) -> Result<(), AlterError> {
    let mut seen = BTreeSet::new();
    if !names.all(|name| seen.insert(name)) {
        return Err(AlterError::DuplicateKeys);
    }
    let nulls: Vec<String> = nulls.cloned().collect();
    if nulls.is_empty() {
        Ok(())
    } else {
        Err(AlterError::NullValue(nulls))
    }
}

/// Asked after what is to change, as Kafka does: of two faults the other one is told.
fn check_name(resource: &Resource) -> Result<(), AlterError> {
    let name = resource.name.as_str();
    match resource.kind {
        ResourceKind::Topic if name.is_empty() => Err(AlterError::DefaultTopic),
        ResourceKind::Topic => Ok(name::check(name)?),
        ResourceKind::Group if name.is_empty() => Err(AlterError::DefaultGroup),
        ResourceKind::ClientMetrics if name.is_empty() => Err(AlterError::DefaultClientMetrics),
        ResourceKind::Group | ResourceKind::ClientMetrics | ResourceKind::Broker => Ok(()),
    }
}

/// Last of all. There need not be a group of that name yet.
fn check_is_there(image: &Image, resource: &Resource) -> Result<(), AlterError> {
    if resource.kind == ResourceKind::Topic && image.topic(&resource.name).is_none() {
        return Err(AlterError::UnknownTopic(resource.name.clone()));
    }
    Ok(())
}

/// Settings of another broker are decided here as well: that one has sent them on.
fn find(
    image: &Image,
    broker: &Broker,
    named: &Named,
    times: usize,
) -> Result<Resource, AlterError> {
    if 1 < times {
        return Err(AlterError::Duplicate);
    }
    let name = named.name.as_str();
    match ResourceKind::from_wire(named.kind) {
        Some(ResourceKind::Broker) if name.is_empty() => Ok(Resource::cluster()),
        Some(ResourceKind::Broker) => {
            let got = name
                .parse()
                .map_err(|_| AlterError::BrokerName(name.into()))?;
            let want = broker.node_id.0;
            let id = BrokerId(got);
            if got == want || image.broker(id).is_some() {
                Ok(Resource::broker(id))
            } else {
                Err(AlterError::OtherBroker { want, got })
            }
        }
        Some(kind) => Ok(Resource {
            kind,
            name: name.into(),
        }),
        None => Err(AlterError::Kind(named.kind)),
    }
}

fn apply(
    after: &mut Overrides,
    broker: &Broker,
    resource: &Resource,
    change: &Change,
) -> Result<(), AlterError> {
    let name = &change.name;
    let value = change.value.clone().unwrap_or_default();
    match change.operation {
        None => return Err(AlterError::Operation(name.clone())),
        Some(Operation::Set) => drop(after.insert(name.clone(), value)),
        Some(Operation::Delete) => drop(after.remove(name)),
        Some(operation @ (Operation::Append | Operation::Subtract)) => {
            let kind = match resource.kind {
                ResourceKind::Topic => config::topic_setting(name).map(|topic| topic.setting.kind),
                ResourceKind::Group => config::group_setting(name).map(|group| group.setting.kind),
                ResourceKind::ClientMetrics => {
                    config::client_metrics_setting(name).map(|setting| setting.kind)
                }
                ResourceKind::Broker => config::broker_setting(name).map(|setting| setting.kind),
            };
            if kind != Some(Kind::List) {
                return Err(AlterError::NotAList {
                    operation: operation.name(),
                    name: name.clone(),
                });
            }
            let now = current(after, broker, resource, name);
            let mut list: Vec<&str> = items(&now).collect();
            if operation == Operation::Append {
                let mut known: BTreeSet<&str> = list.iter().copied().collect();
                list.extend(items(&value).filter(|item| known.insert(item)));
            } else {
                let gone: BTreeSet<&str> = items(&value).collect();
                list.retain(|item| !gone.contains(item));
            }
            let joined = list.join(",");
            if VALUE_BYTES_MAX < joined.len() {
                return Err(AlterError::TooLong);
            }
            after.insert(name.clone(), joined);
        }
    }
    Ok(())
}

/// The list an item is added to: the setting's own, else what holds without one.
fn current(after: &Overrides, broker: &Broker, resource: &Resource, name: &str) -> String {
    if let Some(value) = after.get(name) {
        return value.clone();
    }
    let all = match resource.kind {
        ResourceKind::Topic => broker.describe_topic(&Overrides::new()),
        ResourceKind::Group => broker.describe_group(&Overrides::new()),
        ResourceKind::ClientMetrics => broker.describe_client_metrics(&Overrides::new()),
        ResourceKind::Broker => broker.describe(),
    };
    all.into_iter()
        .find(|description| description.name == name)
        .and_then(|description| description.value)
        .unwrap_or_default()
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

fn difference(resource: &Resource, before: &Arc<Overrides>, after: &Overrides) -> Vec<Record> {
    let record = |name: &String, value: Option<&String>| {
        Record::from(ConfigRecord {
            resource_type: resource.kind as i8,
            resource_name: resource.name.clone(),
            name: name.clone(),
            value: value.cloned(),
        })
    };
    let set = after
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(value))
        .map(|(name, value)| record(name, Some(value)));
    let gone = before
        .keys()
        .filter(|name| !after.contains_key(*name))
        .map(|name| record(name, None));
    set.chain(gone).collect()
}
