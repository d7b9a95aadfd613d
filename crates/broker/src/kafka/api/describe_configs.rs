//! DescribeConfigs: settings with their sources, synonyms and meaning (KIP-133, KIP-226, KIP-569).

use std::collections::HashSet;

use config::{Description, Kind, Source};
use meta::{BROKER_LOGGER, Resource, ResourceKind};
use wire::ErrorCode;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use wire::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use super::refusal;
use crate::asker::access::Resource as Access;
use crate::ops::guard::{Allowed, Leave};
use crate::ops::view::View;
use security::authorize::Operation;

/// A million settings looked at for one answer, told or not: half a second of a network thread, and the topics of a large cluster.
/// Past it resources are refused, as past [`BYTES_MAX`], and the client asks again for fewer.
const SETTINGS_MAX: usize = 1_000_000;
/// A value is read before it is told, item by item where it is a list: that many bytes of one count as another setting.
const VALUE_BYTES: usize = 32;
/// 128 MiB of settings to be told, as they are held until the answer is encoded: 20,000 topics with all that stands behind their
/// settings, or 15,000 with what those mean. Encoded they take half of that once more.
const BYTES_MAX: usize = 128 << 20;

/// The settings that may still be looked at and described. A resource is looked at as a whole, so the last one may take more than there is.
struct Room {
    settings: usize,
    bytes: usize,
}

impl Room {
    fn is_used_up(&self) -> bool {
        self.settings == 0 || self.bytes == 0
    }

    fn look_at(&mut self, one: &Description) {
        let read = one.value.as_ref().map_or(0, String::len) / VALUE_BYTES;
        self.settings = self.settings.saturating_sub(1 + read);
    }

    fn tell(&mut self, one: &DescribeConfigsResourceResult) {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let synonym = |synonym: &DescribeConfigsSynonym| {
            size_of::<DescribeConfigsSynonym>() + synonym.name.len() + length(&synonym.value)
        };
        let told = size_of::<DescribeConfigsResourceResult>()
            + one.name.len()
            + length(&one.value)
            + length(&one.documentation);
        let synonyms: usize = one.synonyms.iter().map(synonym).sum();
        self.bytes = self.bytes.saturating_sub(told + synonyms);
    }
}

#[must_use]
pub(crate) fn handle(request: &DescribeConfigsRequest, view: &View<'_>) -> DescribeConfigsResponse {
    let mut room = Room {
        settings: SETTINGS_MAX,
        bytes: BYTES_MAX,
    };
    let (allowed, denied) =
        Allowed::divide(&request.resources, |resource| may_describe(view, resource));
    let allowed = allowed.into_inner().into_iter();
    let allowed = allowed.map(|resource| describe(resource, request, view, &mut room));
    DescribeConfigsResponse {
        results: allowed.chain(denied.into_iter().map(refused)).collect(),
        ..DescribeConfigsResponse::default()
    }
}

/// Nothing for a resource of no kind that has settings: that is refused whoever asks.
fn may_describe(view: &View<'_>, resource: &DescribeConfigsResource) -> Result<Leave, ErrorCode> {
    let name = resource.resource_name.as_str();
    let of = match ResourceKind::from_wire(resource.resource_type) {
        Some(ResourceKind::Topic) => Access::topic(name),
        Some(ResourceKind::Group) => Access::group(name),
        Some(ResourceKind::Broker | ResourceKind::ClientMetrics) => Access::CLUSTER,
        None if resource.resource_type == BROKER_LOGGER => Access::CLUSTER,
        None => return Ok(Leave::UNASKED),
    };
    view.asker
        .grant(Operation::DescribeConfigs, of)
        .map(Leave::from)
}

fn refused(resource: &DescribeConfigsResource) -> DescribeConfigsResult {
    let code = refusal::denied_settings(resource.resource_type);
    DescribeConfigsResult {
        error_code: code.code(),
        error_message: Some(code.message().to_owned()),
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        configs: Vec::new(),
    }
}

struct Refusal {
    code: ErrorCode,
    words: String,
}

fn describe(
    resource: &DescribeConfigsResource,
    request: &DescribeConfigsRequest,
    view: &View<'_>,
    room: &mut Room,
) -> DescribeConfigsResult {
    let (resource_type, resource_name) = (resource.resource_type, resource.resource_name.clone());
    match settings(resource, view, room) {
        Ok(all) => {
            let asked: HashSet<&str> = (resource.configuration_keys.iter().flatten())
                .map(String::as_str)
                .collect();
            let most = match asked.len() {
                0 => all.len(),
                some => some.min(all.len()),
            };
            let mut configs = Vec::with_capacity(most);
            for one in all {
                room.look_at(&one);
                // An empty list of names asks for all of them, like none.
                if asked.is_empty() || asked.contains(one.name.as_str()) {
                    let told = result(one, request);
                    room.tell(&told);
                    configs.push(told);
                }
            }
            DescribeConfigsResult {
                error_code: 0,
                error_message: Some(String::new()),
                resource_type,
                resource_name,
                configs,
            }
        }
        Err(Refusal { code, words }) => DescribeConfigsResult {
            error_code: code.code(),
            error_message: Some(words),
            resource_type,
            resource_name,
            configs: Vec::new(),
        },
    }
}

/// No setting relaxes an internal topic, so the value that would is not its value.
fn tell_that_it_is_synced(setting: &mut Description) {
    if setting.name == "esker.durability" {
        setting.value = Some("sync".to_owned());
    }
}

fn settings(
    resource: &DescribeConfigsResource,
    view: &View<'_>,
    room: &Room,
) -> Result<Vec<Description>, Refusal> {
    let name = resource.resource_name.as_str();
    let invalid = |words: String| Refusal {
        code: ErrorCode::InvalidRequest,
        words,
    };
    let own_id = view.broker.node_id.0;
    let id = || {
        name.parse::<i32>()
            .map_err(|_| invalid(format!("Broker id must be an integer, but it is: {name}")))
    };
    if room.is_used_up() {
        return Err(invalid("too many resources in one request".into()));
    }
    if resource.resource_type == BROKER_LOGGER {
        return match id()? {
            id if id == own_id => Ok(loggers(view)),
            id => Err(invalid(format!(
                "Unexpected broker id, expected {own_id} but received {id}"
            ))),
        };
    }
    match ResourceKind::from_wire(resource.resource_type) {
        Some(ResourceKind::Topic) => {
            let code = ErrorCode::InvalidTopicException;
            meta::name::check(name).map_err(|error| Refusal {
                code,
                words: error.to_string(),
            })?;
            let unknown = || Refusal {
                code: ErrorCode::UnknownTopicOrPartition,
                words: String::new(),
            };
            view.image.topic(name).ok_or_else(unknown)?;
            let mut settings = view
                .broker
                .describe_topic(&view.image.overrides(&Resource::topic(name)));
            if meta::name::is_internal(name) {
                settings.iter_mut().for_each(tell_that_it_is_synced);
            }
            Ok(settings)
        }
        Some(ResourceKind::Broker) if name.is_empty() => Ok(view.broker.describe_cluster()),
        Some(ResourceKind::Broker) => match id()? {
            id if id == own_id => Ok(view.broker.describe()),
            id => Err(invalid(format!(
                "Unexpected broker id, expected {own_id} or empty string, but received {id}"
            ))),
        },
        Some(ResourceKind::Group) if name.is_empty() => {
            Err(invalid("Group name must not be empty".into()))
        }
        Some(ResourceKind::Group) => Ok(view
            .broker
            .describe_group(&view.image.overrides(&Resource::group(name)))),
        Some(ResourceKind::ClientMetrics) if name.is_empty() => Err(invalid(
            "Client metrics subscription name must not be empty".into(),
        )),
        Some(kind @ ResourceKind::ClientMetrics) => {
            let name = name.to_owned();
            let overrides = view.image.overrides(&Resource { kind, name });
            Ok(view.broker.describe_client_metrics(&overrides))
        }
        None => Err(invalid(format!(
            "settings of resource type {} are not served",
            resource.resource_type
        ))),
    }
}

/// Every logger with the level it has, its own or that of one above, as Kafka lists them.
fn loggers(view: &View<'_>) -> Vec<Description> {
    let described = |(name, level): (&str, env::logs::Level)| Description {
        name: name.to_owned(),
        value: Some(level.name().to_owned()),
        source: Source::DynamicBrokerLogger,
        sensitive: false,
        read_only: false,
        kind: None,
        synonyms: Vec::new(),
        doc: None,
    };
    view.loggers.all().map(described).collect()
}

fn result(one: Description, request: &DescribeConfigsRequest) -> DescribeConfigsResourceResult {
    let synonyms = if request.include_synonyms {
        one.synonyms
    } else {
        Vec::new()
    };
    let synonym = |synonym: config::SynonymValue| DescribeConfigsSynonym {
        name: synonym.name,
        value: synonym.value,
        source: synonym.source as i8,
    };
    DescribeConfigsResourceResult {
        name: one.name,
        value: one.value,
        read_only: one.read_only,
        config_source: one.source as i8,
        is_sensitive: one.sensitive,
        synonyms: synonyms.into_iter().map(synonym).collect(),
        config_type: one.kind.map_or(0, type_number),
        documentation: one
            .doc
            .filter(|_| request.include_documentation)
            .map(Into::into),
    }
}

fn type_number(kind: Kind) -> i8 {
    match kind {
        Kind::Boolean => 1,
        Kind::String => 2,
        Kind::Int => 3,
        Kind::Short => 4,
        Kind::Long => 5,
        Kind::Double => 6,
        Kind::List => 7,
        Kind::Class => 8,
        Kind::Password => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;

    fn ask(
        fixture: &Fixture,
        resource: (i8, &str),
        names: Option<&[&str]>,
    ) -> DescribeConfigsResult {
        let configuration_keys =
            names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let resources = vec![DescribeConfigsResource {
            resource_type: resource.0,
            resource_name: resource.1.into(),
            configuration_keys,
        }];
        let request = DescribeConfigsRequest {
            resources,
            include_synonyms: true,
            include_documentation: false,
        };
        handle(&request, &fixture.view()).results.remove(0)
    }

    #[test]
    fn resources_are_refused_as_kafka_4_3_refuses_them() {
        let fixture = Fixture::new("");
        for (resource, code, words) in [
            ((2, "none"), 3, ""),
            (
                (2, ""),
                17,
                "Topic name is invalid: the empty string is not allowed",
            ),
            (
                (4, "2"),
                42,
                "Unexpected broker id, expected 1 or empty string, but received 2",
            ),
            ((4, "x"), 42, "Broker id must be an integer, but it is: x"),
            (
                (8, "2"),
                42,
                "Unexpected broker id, expected 1 but received 2",
            ),
            ((32, ""), 42, "Group name must not be empty"),
            (
                (16, ""),
                42,
                "Client metrics subscription name must not be empty",
            ),
            ((4, ""), 0, ""),
        ] {
            let result = ask(&fixture, resource, None);
            assert_eq!(
                (result.error_code, result.error_message.as_deref()),
                (code, Some(words)),
                "{resource:?}"
            );
            assert!(result.configs.is_empty());
        }
        assert_eq!(ask(&fixture, (77, "x"), None).error_code, 42);
    }

    #[test]
    fn loggers_are_listed_with_their_levels() {
        let fixture = Fixture::new("");
        let level = |name: &str| {
            let one = ask(&fixture, (8, "1"), Some(&[name])).configs.remove(0);
            (
                one.value.unwrap_or_default(),
                one.config_source,
                one.read_only,
            )
        };
        assert_eq!(level("root"), ("INFO".into(), 6, false));
        let set = |name, level| fixture.loggers.set(name, level).expect("a logger");
        set("broker", Some(env::logs::Level::Debug));
        assert_eq!(level("broker.requests"), ("DEBUG".into(), 6, false));
        assert_eq!(level("storage"), ("INFO".into(), 6, false));
    }

    #[test]
    fn an_empty_list_of_names_asks_for_all() {
        let fixture = Fixture::new("");
        let all = ask(&fixture, (2, "t"), None).configs;
        assert_eq!(ask(&fixture, (2, "t"), Some(&[])).configs, all);
        assert_eq!(all.len(), 36);
        assert_eq!(
            ask(&fixture, (2, "t"), Some(&["nosuch", "flush.ms"]))
                .configs
                .len(),
            1
        );
        assert_eq!(ask(&fixture, (4, "1"), None).configs.len(), 361);
    }

    #[test]
    fn a_group_has_settings_whether_it_exists_or_not() {
        let mut fixture = Fixture::new("");
        let session = |fixture: &Fixture| {
            let names = ["consumer.session.timeout.ms"];
            let one = ask(fixture, (32, "g"), Some(&names)).configs.remove(0);
            (one.value.unwrap_or_default(), one.config_source)
        };
        assert_eq!(ask(&fixture, (16, "m"), None).configs.len(), 3);
        assert_eq!(ask(&fixture, (32, "g"), None).configs.len(), 17);
        assert_eq!(session(&fixture), ("45000".to_owned(), 5));
        let record = wire::metadata::ConfigRecord {
            resource_type: 32,
            resource_name: "g".into(),
            name: "consumer.session.timeout.ms".into(),
            value: Some("50000".into()),
        };
        fixture.replay(&[record.into()]);
        assert_eq!(session(&fixture), ("50000".to_owned(), 8));
    }

    /// How many of `count` resources are described, and how many settings are told, before the others are refused.
    fn described(
        fixture: &Fixture,
        resource: (i8, &str),
        key: Option<&str>,
        count: usize,
    ) -> (usize, usize) {
        let resource = DescribeConfigsResource {
            resource_type: resource.0,
            resource_name: resource.1.into(),
            configuration_keys: key.map(|key| vec![key.to_owned()]),
        };
        let request = DescribeConfigsRequest {
            resources: vec![resource; count],
            include_synonyms: true,
            include_documentation: false,
        };
        let results = handle(&request, &fixture.view()).results;
        let told = results.iter().map(|result| result.configs.len()).sum();
        let answered = results.iter().take_while(|result| result.error_code == 0);
        let answered = answered.count();
        let rest = &results[answered..];
        assert!(rest.iter().all(|result| result.error_code == 42));
        (answered, told)
    }

    #[test]
    fn an_answer_has_an_end_whether_what_is_looked_at_is_told_or_not() {
        let mut fixture = Fixture::new("");
        let unknown = Some("nosuch");
        let (brokers, told) = described(&fixture, (4, "1"), unknown, 3_000);
        assert!(brokers < 1 + SETTINGS_MAX / 355, "{brokers} brokers");
        assert_eq!(told, 0);
        let (topics, told) = described(&fixture, (2, "t"), Some("flush.ms"), 30_000);
        assert_eq!((topics, told), (1 + SETTINGS_MAX / 36, topics));

        let items: Vec<String> = (1000..7500).map(|item| item.to_string()).collect();
        let record = wire::metadata::ConfigRecord {
            resource_type: 16,
            resource_name: "m".into(),
            name: "metrics".into(),
            value: Some(items.join(",")),
        };
        fixture.replay(&[record.into()]);
        let long = described(&fixture, (16, "m"), Some("interval.ms"), 2_000).0;
        assert!(long < 1_100, "a long value is read {long} times");
    }

    /// The settings of a topic are some 6 KiB, and 9 with what they mean.
    #[test]
    fn an_answer_holds_no_more_bytes_than_it_may() {
        let fixture = Fixture::new("");
        let topic = DescribeConfigsResource {
            resource_type: 2,
            resource_name: "t".into(),
            configuration_keys: None,
        };
        let answered = |include_documentation| {
            let request = DescribeConfigsRequest {
                resources: vec![topic.clone(); 25_000],
                include_synonyms: true,
                include_documentation,
            };
            let results = handle(&request, &fixture.view()).results;
            let answered = results.iter().filter(|result| result.error_code == 0);
            answered.count()
        };
        let (plain, explained) = (answered(false), answered(true));
        assert!((18_000..25_000).contains(&plain), "{plain} topics");
        assert!((14_000..plain).contains(&explained), "{explained} topics");
    }

    #[test]
    fn a_setting_is_described_as_kafka_4_3_describes_it() {
        let fixture = Fixture::new("log.retention.hours=168");
        let retention = ask(&fixture, (2, "t"), Some(&["retention.ms"]))
            .configs
            .remove(0);
        let own = DescribeConfigsSynonym {
            name: "retention.ms".into(),
            value: Some("1000".into()),
            source: 1,
        };
        assert_eq!(
            retention,
            DescribeConfigsResourceResult {
                name: "retention.ms".into(),
                value: Some("1000".into()),
                config_source: 1,
                synonyms: vec![own],
                config_type: 5,
                documentation: None,
                ..DescribeConfigsResourceResult::default()
            }
        );
        let secret = ask(&fixture, (4, "1"), Some(&["ssl.keystore.password"]))
            .configs
            .remove(0);
        assert_eq!(
            (
                secret.value,
                secret.is_sensitive,
                secret.config_type,
                secret.config_source
            ),
            (None, true, 9, 5)
        );
        let fixed = ask(&fixture, (4, "1"), Some(&["log.retention.hours"]))
            .configs
            .remove(0);
        assert_eq!(
            (fixed.read_only, fixed.config_source, fixed.config_type),
            (true, 4, 3)
        );
    }
}
