//! Subscriptions by pattern.

use std::collections::BTreeSet;

use model::Timestamp;
use wire::ErrorCode;

use super::records::Resolved;
use super::refusal::Refusal;
use crate::{Moment, Pattern, Topics};

/// The topics that the pattern stands for now.
pub(super) fn resolve(pattern: &str, topics: &dyn Topics, at: Moment) -> Result<Resolved, Refusal> {
    let compiled = Pattern::new(pattern).map_err(|error| {
        Refusal::new(
            ErrorCode::InvalidRegularExpression,
            format!("SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."),
        )
    })?;
    let names: BTreeSet<String> = (topics.names().into_iter())
        .filter(|name| compiled.matches(name))
        .map(str::to_owned)
        .collect();
    Ok(Resolved {
        topics: names,
        version: i64::try_from(topics.version()).unwrap_or(i64::MAX),
        at: Timestamp(at.wall.0),
    })
}
