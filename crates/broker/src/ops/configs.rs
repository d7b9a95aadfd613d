//! Settings of topics, groups, brokers and client metrics: replaced as a whole, or changed one by one.

use coord::Pattern;
use meta::decide::alter_configs::{
    AlterError, Change, Named, Replacement, change_configs, replace_configs,
};
use meta::{BROKER_LOGGER, Record, ResourceKind};

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
    let (resources, denied) = allowed(view, resources);
    let decision = replace_configs(view.image, view.broker, Pattern::compiles, &resources);
    (
        mode.records(decision.records),
        answers(decision.answers, denied),
    )
}

/// Sets, removes, appends and subtracts single settings. Levels of loggers change at once, and need no record.
pub(crate) fn change(
    view: &View<'_>,
    resources: Vec<(Named, Vec<Change>)>,
    mode: Mode,
) -> (Vec<Record>, ByResource) {
    let (resources, denied) = allowed(view, resources);
    let (loggers, resources): (Asked<_>, Asked<_>) =
        (resources.into_iter()).partition(|(named, _)| named.kind == BROKER_LOGGER);
    let decision = change_configs(view.image, view.broker, Pattern::compiles, &resources);
    let mut all = loggers::change(view, &loggers, mode);
    all.extend(decision.answers);
    (mode.records(decision.records), answers(all, denied))
}

/// Those that the asker may change, and those that it may not.
fn allowed<T>(view: &View<'_>, resources: Asked<T>) -> (Asked<T>, Asked<T>) {
    resources.into_iter().partition(|(named, _)| {
        let kind = ResourceKind::from_wire(named.kind);
        let resource = match kind {
            Some(ResourceKind::Topic) => Resource::topic(&named.name),
            Some(ResourceKind::Group) => Resource::group(&named.name),
            // Brokers, their loggers and client metrics are settings of the cluster.
            _ => Resource::CLUSTER,
        };
        view.asker.may(Operation::AlterConfigs, resource)
    })
}

fn answers<T>(
    answers: Vec<(Named, Result<(), AlterError>)>,
    denied: Vec<(Named, T)>,
) -> ByResource {
    let answers = answers.into_iter();
    let answers = answers.map(|(named, answer)| (named, answer.map_err(Refused::Because)));
    let denied = denied.into_iter();
    let denied = denied.map(|(named, _)| (named, Err(Refused::Unauthorised)));
    answers.chain(denied).collect()
}
