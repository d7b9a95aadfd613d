//! Levels of loggers, changed while the broker runs (KIP-412). They are not kept: a start has those of its settings.

use std::collections::BTreeMap;

use env::logs::{Level, ROOT};
use meta::decide::alter_configs::{AlterError, Change, Named, Operation};

use super::Mode;
use super::view::View;

/// Changes what `resources` ask of this broker's loggers: each resource as a whole, or not at all.
pub(super) fn change(
    view: &View<'_>,
    resources: &[(Named, Vec<Change>)],
    mode: Mode,
) -> Vec<(Named, Result<(), AlterError>)> {
    let mut times = BTreeMap::new();
    for (named, _) in resources {
        *times.entry(&named.name).or_insert(0) += 1;
    }
    let answer = |(named, changes): &(Named, Vec<Change>)| {
        let answer = if 1 < times[&named.name] {
            Err(AlterError::Duplicate)
        } else {
            change_one(view, named, changes, mode)
        };
        (named.clone(), answer)
    };
    resources.iter().map(answer).collect()
}

fn change_one(
    view: &View<'_>,
    named: &Named,
    changes: &[Change],
    mode: Mode,
) -> Result<(), AlterError> {
    check_broker(view, named)?;
    let is_null = |change: &&Change| {
        change.value.is_none() && change.operation.is_some_and(|of| of != Operation::Delete)
    };
    let nulls: Vec<_> = changes.iter().filter(is_null).collect();
    if !nulls.is_empty() {
        let names = nulls.into_iter().map(|change| change.name.clone());
        return Err(AlterError::NullValue(names.collect()));
    }
    let wanted: Result<Vec<_>, _> = changes.iter().map(|change| wanted(view, change)).collect();
    let wanted = wanted?;
    if mode == Mode::Apply {
        for (name, level) in wanted {
            let set = view.loggers.set(name, level);
            set.map_err(|_| AlterError::UnknownLogger(name.to_owned()))?;
        }
    }
    Ok(())
}

fn check_broker(view: &View<'_>, named: &Named) -> Result<(), AlterError> {
    let want = view.broker.node_id.0;
    match named.name.parse() {
        Ok(got) if got == want => Ok(()),
        Ok(got) => Err(AlterError::OtherBroker { want, got }),
        Err(_) => Err(AlterError::BrokerName(named.name.clone())),
    }
}

/// The level that a change gives to its logger; `None` takes the own one away.
fn wanted<'a>(view: &View<'_>, change: &'a Change) -> Result<(&'a str, Option<Level>), AlterError> {
    let name = change.name.as_str();
    let operation = change.operation;
    let operation = operation.ok_or_else(|| AlterError::Operation(name.to_owned()))?;
    if let Operation::Append | Operation::Subtract = operation {
        return Err(AlterError::LoggerOperation(operation.name()));
    }
    if !view.loggers.knows(name) {
        return Err(AlterError::UnknownLogger(name.to_owned()));
    }
    if operation == Operation::Delete {
        return if name == ROOT {
            Err(AlterError::RootLogger(name.to_owned()))
        } else {
            Ok((name, None))
        };
    }
    let text = change.value.as_deref().unwrap_or_default();
    // Kafka takes the names of its levels as they are written, and no others.
    let level = Level::ALL.into_iter().find(|level| level.name() == text);
    let level = level.ok_or_else(|| AlterError::LogLevel {
        logger: name.to_owned(),
        level: text.to_owned(),
    })?;
    Ok((name, Some(level)))
}
