//! The cluster: its quorum, its coordinators, the leaders of its partitions and the levels of its features.

use std::collections::BTreeMap;

use meta::Record;
use meta::decide::elect_leaders::{Elected, Election, elect_leaders};
use meta::decide::update_features::{Controllers, Update, UpdateError, update_features};
use meta::versions::KRAFT_VERSION;
use model::{BrokerId, Timestamp};
use raft::{Listener, Replica};

use super::view::{Endpoint, View};
use super::{Desk, Mode};
use crate::asker::Granted;
use crate::control::log::{Levels, QuorumLevel};
use security::authorize::Operation;

/// The quorum of the metadata log, as this node sees it now.
pub(crate) struct Quorum {
    pub(crate) own: Replica,
    pub(crate) view: raft::View,
    /// Where voters are found. Empty listeners: at the doors of the broker.
    pub(crate) voters: Vec<(BrokerId, Vec<Listener>)>,
    pub(crate) wall: Timestamp,
}

pub(crate) fn quorum(desk: &Desk) -> Quorum {
    let shared = &desk.shared;
    let plan = shared.metadata.plan.lock();
    let voters = plan.quorum.history().voters().iter();
    let voters = voters.map(|voter| (voter.replica.id, voter.listeners.clone()));
    Quorum {
        own: Replica {
            id: shared.catalog.config().broker.node_id,
            directory: shared.metadata.log_dir().id,
        },
        view: plan.quorum.view(),
        voters: voters.collect(),
        wall: shared.env.clock.wall_ms(),
    }
}

/// The active controller, as this node knows it.
pub(crate) fn leader(desk: &Desk) -> Option<BrokerId> {
    let plan = desk.shared.metadata.plan.lock();
    plan.quorum.leader().map(|(id, _)| id)
}

/// A kind of ids that coordinators look after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coordinated {
    Group,
    Transaction,
}

impl Coordinated {
    /// The topic whose partitions are the coordinators.
    pub(crate) fn topic(self) -> &'static str {
        match self {
            Coordinated::Group => meta::name::OFFSETS,
            Coordinated::Transaction => meta::name::TRANSACTIONS,
        }
    }
}

/// The broker that looks after an id, and where the asker reaches it; None while there is none.
pub(crate) fn find_coordinator(
    view: &View<'_>,
    kind: Coordinated,
    granted: Granted<'_>,
) -> Option<(BrokerId, Endpoint)> {
    let id = match kind {
        Coordinated::Group => granted.group(Operation::Describe),
        Coordinated::Transaction => granted.transactional_id(Operation::Describe),
    };
    let topic = view.image.topic(kind.topic())?;
    let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
    let partition = coord::partition_of(id, count);
    let partition = topic.partitions.get(partition.unsigned_abs() as usize)?;
    let leader = view.image.broker(partition.leader)?;
    if !view.acts_as_leader(leader.id) {
        return None;
    }
    Some((leader.id, view.endpoint(leader)?))
}

/// Elects leaders of the named partitions, or of all.
pub(crate) fn elect(
    view: &View<'_>,
    granted: Granted<'_>,
    election: Election,
    partitions: Option<&[(String, Vec<i32>)]>,
) -> (Vec<Record>, Vec<(String, Vec<Elected>)>) {
    granted.cluster(Operation::Alter);
    let decision = elect_leaders(view.image, view.broker, election, partitions);
    (decision.records, decision.answers)
}

/// Sets levels of features, all of them or none.
pub(crate) fn update(
    view: &View<'_>,
    granted: Granted<'_>,
    level: &QuorumLevel,
    updates: &BTreeMap<String, Update>,
    mode: Mode,
) -> Result<Levels, UpdateError> {
    granted.cluster(Operation::Alter);
    let quorum = Controllers {
        local: view.broker.node_id,
        kraft_version: level.kraft_version,
        voters: &level.voters,
    };
    let records = update_features(view.image, quorum, updates)?;
    let raised = updates.get(KRAFT_VERSION);
    Ok(Levels {
        records: mode.records(records),
        makes_dynamic: mode == Mode::Apply
            && raised.is_some_and(|update| level.kraft_version < update.level),
    })
}
