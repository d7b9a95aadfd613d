//! Changes of the metadata that operations make: decided at once, done when they are committed and published.

use std::sync::Arc;
use std::time::Duration;

use meta::decide::Uuids;
use meta::{Image, Record};
use model::Instant;
use model::Ticket;

use super::Desk;
use super::view::View;
use crate::asker::Asker;
use crate::control::log::{Levels, QuorumLevel, Written};
use crate::ids::random_uuid;

/// Changes of one desk that wait for room on a full disk, each with its image. One more waits for its time to be up, and is not
/// made: a client that asks for hours would have each of its requests written.
const STUCK_MAX: usize = 64;

/// A change whose records are on their way to the disk.
pub(crate) struct Change {
    pub(crate) until: Instant,
    /// It has records of its own. One that has none waits for those of others, or for its time to be up.
    pub(crate) writes: bool,
}

/// How far a change came.
pub(crate) enum Begun {
    /// It rests on nothing that is not durable.
    Durable,
    Waits(Change),
    /// The metadata log is offline: nothing can be said for certain any more.
    Offline,
}

/// Decides on the newest image, durable or not; returns the decision's answer, which holds once the change is durable.
pub(crate) fn begin<T>(
    desk: &mut Desk,
    asker: &Asker,
    ticket: Ticket,
    patience: Duration,
    decide: impl FnOnce(&View<'_>, &mut dyn Uuids) -> (Vec<Record>, T),
) -> (T, Begun) {
    let shared = Arc::clone(&desk.shared);
    let decide = |image: &Image| {
        let settings = shared.catalog.config();
        let cluster_id = shared.state.cluster_id();
        let view = View::new(image, &settings, cluster_id, asker, &shared.env.loggers);
        let view = view.folding_names(shared.volumes.folds_names());
        decide(&view, &mut || random_uuid(&shared.env))
    };
    let is_stuck = shared.metadata.log_dir().lacks_room() && STUCK_MAX <= desk.changes_written;
    let (answer, written) = shared.metadata.change(ticket, is_stuck, decide);
    (answer, begun(desk, patience, written))
}

/// As [`begin`], for levels of features; `decide` is given what the quorum knows of them.
pub(crate) fn begin_features<T>(
    desk: &mut Desk,
    asker: &Asker,
    (ticket, patience): (Ticket, Duration),
    decide: impl FnOnce(&View<'_>, &QuorumLevel) -> (Levels, T),
    refuse: impl FnOnce(String) -> T,
) -> (T, Begun) {
    let shared = Arc::clone(&desk.shared);
    let decide = |image: &Image, level: &QuorumLevel| {
        let settings = shared.catalog.config();
        let cluster_id = shared.state.cluster_id();
        let view = View::new(image, &settings, cluster_id, asker, &shared.env.loggers);
        decide(&view, level)
    };
    let (answer, written) = shared.metadata.change_features(ticket, decide, refuse);
    (answer, begun(desk, patience, written))
}

/// A change that was decided, to be waited for.
pub(crate) fn begun(desk: &mut Desk, patience: Duration, written: Written) -> Begun {
    match written {
        Written::Durable => Begun::Durable,
        Written::Offline => Begun::Offline,
        Written::Waits { writes } => {
            desk.changes_written += usize::from(writes);
            let until = desk.now.plus(patience);
            Begun::Waits(Change { until, writes })
        }
    }
}

impl Change {
    /// It is committed and published, or will not be in this process.
    pub(crate) fn end(self, desk: &mut Desk) {
        desk.changes_written -= usize::from(self.writes);
    }
}
