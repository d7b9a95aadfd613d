//! Settings of topics, groups, brokers and client metrics: replaced as a whole, or changed one by one.

use std::collections::{HashMap, HashSet};

use coord::Pattern;
use meta::decide::alter_configs::{
    AlterError, Change, Named, Operation as ChangeKind, Replacement, change_configs,
    replace_configs,
};
use meta::{BROKER_LOGGER, Record, ResourceKind};

use super::guard::{Allowed, Leave};
use super::view::View;
use super::{Mode, Refused, loggers};
use crate::asker::access::Resource;
use security::authorize::Operation;

/// The question about each resource.
type Asked<T> = Vec<(Named, T)>;

/// Answers by resource.
pub(crate) type ByResource = Vec<(Named, Result<(), Refused<AlterError>>)>;

/// Replaces all settings of each resource.
pub(crate) fn replace(
    view: &View<'_>,
    resources: Vec<(Named, Replacement)>,
    mode: Mode,
) -> (Vec<Record>, ByResource) {
    let order = order(&resources);
    let is_unsound = |settings: &Replacement| {
        let names = settings.iter().map(|(name, _)| name.as_str());
        settings.iter().any(|(_, value)| value.is_none()) || repeats(names)
    };
    let (resources, denied) = allowed(view, resources, is_unsound);
    let resources = resources.into_inner();
    let decision = replace_configs(view.image, view.broker, Pattern::compiles, &resources);
    (
        mode.records(decision.records),
        answers(decision.answers, denied, &order),
    )
}

/// Sets, removes, appends and subtracts single settings. Levels of loggers change at once, and need no record.
pub(crate) fn change(
    view: &View<'_>,
    resources: Vec<(Named, Vec<Change>)>,
    mode: Mode,
) -> (Vec<Record>, ByResource) {
    let order = order(&resources);
    let is_unsound = |changes: &Vec<Change>| {
        let is_null = |of: &Change| of.operation != Some(ChangeKind::Delete) && of.value.is_none();
        let names = changes.iter().map(|change| change.name.as_str());
        changes.iter().any(is_null) || repeats(names)
    };
    let (resources, denied) = allowed(view, resources, is_unsound);
    let (loggers, resources): (Asked<_>, Asked<_>) =
        (resources.into_inner().into_iter()).partition(|(named, _)| named.kind == BROKER_LOGGER);
    let decision = change_configs(view.image, view.broker, Pattern::compiles, &resources);
    let mut all = loggers::change(view, &loggers, mode);
    all.extend(decision.answers);
    (mode.records(decision.records), answers(all, denied, &order))
}

/// The resources as they stand in the request.
fn order<T>(resources: &Asked<T>) -> Vec<Named> {
    resources.iter().map(|(named, _)| named.clone()).collect()
}

fn repeats<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    let mut seen = HashSet::new();
    !names.all(|name| seen.insert(name))
}

/// Those that the asker may change, and those that it may not. A resource that stands twice, or is of no kind that has settings, or is to
/// have settings that none could have, is refused whoever asks.
fn allowed<T>(
    view: &View<'_>,
    resources: Asked<T>,
    is_unsound: impl Fn(&T) -> bool,
) -> (Allowed<(Named, T)>, Asked<T>) {
    let mut times: HashMap<Named, usize> = HashMap::new();
    for (named, _) in &resources {
        *times.entry(named.clone()).or_default() += 1;
    }
    Allowed::divide(resources, |(named, asked)| {
        let is_twice = times.get(named).is_some_and(|times| 1 < *times);
        if is_twice || is_unsound(asked) {
            return Ok(Leave::UNASKED);
        }
        let kind = ResourceKind::from_wire(named.kind);
        let (operation, resource) = match kind {
            Some(ResourceKind::Topic) => (Operation::AlterConfigs, Resource::topic(&named.name)),
            Some(ResourceKind::Group) => (Operation::AlterConfigs, Resource::group(&named.name)),
            // Brokers, their loggers and client metrics are settings of the cluster.
            Some(ResourceKind::Broker | ResourceKind::ClientMetrics) => {
                (Operation::AlterConfigs, Resource::CLUSTER)
            }
            None if named.kind == BROKER_LOGGER => (logger_operation(view), Resource::CLUSTER),
            None => return Ok(Leave::UNASKED),
        };
        view.asker.grant(operation, resource).map(Leave::from)
    })
}

/// Loggers of a controller are for those who act for the cluster, as in Kafka.
fn logger_operation(view: &View<'_>) -> Operation {
    if view.is_at_controllers() || !view.broker.quorum.roles.broker {
        Operation::ClusterAction
    } else {
        Operation::AlterConfigs
    }
}

/// In the order of the request, where somebody is refused something.
fn answers<T>(
    answers: Vec<(Named, Result<(), AlterError>)>,
    denied: Asked<T>,
    order: &[Named],
) -> ByResource {
    let answers = answers.into_iter();
    let mut all: ByResource = answers
        .map(|(named, answer)| (named, answer.map_err(Refused::Because)))
        .collect();
    if denied.is_empty() {
        return all;
    }
    let denied = denied.into_iter();
    all.extend(denied.map(|(named, _)| (named, Err(Refused::Unauthorised))));
    let mut places = HashMap::new();
    for (place, named) in order.iter().enumerate() {
        places.entry(named).or_insert(place);
    }
    all.sort_by_key(|(named, _)| places.get(named).copied());
    all
}
