//! Transactions: identities of producers, partitions and offsets that join a transaction, its end, and markers by hand.
//!
//! Each operation is one question to the coordinator of its transactional id, asked by [`super::asking::Asking`].

use coord::txn::{self, Add, Describe, EPOCH_PER_TXN, Producer, TxnPartition, Verify};
use meta::Record;
use model::ProducerId;
use partition::Marker;
use wire::ErrorCode;

use super::Desk;
use super::query::{LeaderJoin, Mark};
use super::view::View;
use crate::asker::access::Resource;
use crate::asker::{Asker, Granted};
use crate::control::command::Command;
use crate::mail::question::{Join, Reach};
use crate::settings::txn_settings;
use security::authorize::{Kind, Operation};

/// A question, and the partition of its coordinator.
pub(crate) type Asked<Q> = (i32, Q);

/// A producer that wants an identity.
pub(crate) struct InitProducer {
    pub(crate) transactional_id: Option<String>,
    pub(crate) timeout_ms: i32,
    /// It commits when another system says so, in whatever time that takes (KIP-939).
    pub(crate) in_two_phases: bool,
    /// False for one whose last identity is no whole one, which only those hear who may be this producer.
    pub(crate) is_sound: bool,
    /// Its last identity, where it goes on from one (KIP-360).
    pub(crate) expected: Option<Producer>,
}

/// How a producer gets its identity.
pub(crate) enum Init {
    /// It is not transactional: an id that nobody had before.
    Fresh(ProducerId),
    Ask(Box<Asked<txn::Init>>),
    /// No id is at hand: [`allocate`] gets the broker more of them first.
    NeedsIds(InitProducer),
    Refused(ErrorCode),
}

pub(crate) fn init(desk: &mut Desk, asker: &Asker, request: InitProducer) -> Init {
    if let Err(code) = may_init(asker, &request) {
        return Init::Refused(code);
    }
    if !request.is_sound {
        return Init::Refused(ErrorCode::InvalidRequest);
    }
    if let Some(id) = &request.transactional_id {
        let settings = txn_settings(&desk.shared.catalog.config().broker);
        if let Err(code) = settings.check_init(id, request.timeout_ms) {
            return Init::Refused(code);
        }
        let partition = desk.txn_partition(id);
        if desk.other_coordinator(partition).is_some() {
            if desk.reach == Reach::ThisBroker {
                return Init::Refused(ErrorCode::NotCoordinator);
            }
            // That broker has ids of its own.
            let init = txn::Init {
                transactional_id: id.clone(),
                timeout_ms: request.timeout_ms,
                expected: request.expected,
                fresh: None,
            };
            return Init::Ask(Box::new((partition, init)));
        }
    }
    let Some(fresh) = desk.shared.state.take_producer_id() else {
        return Init::NeedsIds(request);
    };
    let Some(transactional_id) = request.transactional_id else {
        return Init::Fresh(fresh);
    };
    let init = txn::Init {
        timeout_ms: request.timeout_ms,
        expected: request.expected,
        fresh: Some(fresh),
        transactional_id,
    };
    let partition = desk.txn_partition(&init.transactional_id);
    Init::Ask(Box::new((partition, init)))
}

/// The leave to be this producer. Without a transactional id, who may write to any topic may be an idempotent producer.
fn may_init<'a>(asker: &Asker, request: &'a InitProducer) -> Result<Granted<'a>, ErrorCode> {
    let Some(id) = &request.transactional_id else {
        let granted = asker.grant(Operation::IdempotentWrite, Resource::CLUSTER);
        let any_topic = || asker.grant_any(Operation::Write, Kind::Topic);
        return granted.or_else(|code| any_topic().map_err(|_| code));
    };
    let resource = Resource::transactional_id(id);
    let granted = asker.grant(Operation::Write, resource)?;
    if request.in_two_phases {
        asker.grant(Operation::TwoPhaseCommit, resource)?;
    }
    Ok(granted)
}

/// A command for the next block of producer ids for this broker.
pub(crate) fn more_ids(desk: &Desk) -> Command {
    let shared = &desk.shared;
    Command::AllocateProducerIds {
        broker: shared.catalog.config().broker.node_id,
        epoch: shared.state.broker_epoch(),
    }
}

/// The same as records, where no other node decides.
pub(super) fn allocate(view: &View<'_>) -> Vec<Record> {
    let node = view.broker.node_id;
    let allocated = meta::decide::producer_ids::allocate_producer_ids(view.image, node);
    allocated.map(|(record, _)| record).into_iter().collect()
}

/// How the client of a transaction keeps it (KIP-890).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The client adds each partition, and keeps its epoch.
    ClientAdds,
    /// The broker adds partitions as they come, and each transaction has an epoch of its own.
    BrokerAdds,
}

impl Protocol {
    pub(crate) fn level(self) -> i16 {
        match self {
            Protocol::ClientAdds => 0,
            Protocol::BrokerAdds => EPOCH_PER_TXN,
        }
    }
}

/// A transaction that somebody may go on with, and the producer that it is of.
pub(crate) struct Named {
    transactional_id: String,
    producer: Producer,
}

impl Named {
    /// For its own client.
    pub(crate) fn new(granted: Granted<'_>, producer: Producer) -> Named {
        Named {
            transactional_id: granted.transactional_id(Operation::Write).to_owned(),
            producer,
        }
    }

    /// For a node, whose client was asked about where it is.
    pub(crate) fn for_node(
        granted: Granted<'_>,
        transactional_id: String,
        producer: Producer,
    ) -> Named {
        granted.cluster(Operation::ClusterAction);
        Named {
            transactional_id,
            producer,
        }
    }
}

/// Partitions join the transaction.
pub(crate) fn add(
    desk: &mut Desk,
    txn: Named,
    places: Vec<TxnPartition>,
    protocol: Protocol,
) -> Asked<Add> {
    let partition = desk.txn_partition(&txn.transactional_id);
    let add = Add {
        transactional_id: txn.transactional_id,
        producer: txn.producer,
        places,
        version: protocol.level(),
        may_wait: false,
    };
    (partition, add)
}

/// Asks if the partitions have joined the transaction.
pub(crate) fn verify(desk: &mut Desk, txn: Named, places: Vec<TxnPartition>) -> Asked<Verify> {
    let partition = desk.txn_partition(&txn.transactional_id);
    let verify = Verify {
        transactional_id: txn.transactional_id,
        producer: txn.producer,
        places,
    };
    (partition, verify)
}

/// The question of a partition that joins a transaction to its coordinator, on whichever broker that is.
pub(super) fn join_question(desk: &mut Desk, join: Join) -> Asked<LeaderJoin> {
    (
        desk.txn_partition(join.transactional_id()),
        LeaderJoin(join),
    )
}

/// The offsets of a group become part of the transaction, which is the partition of their log.
pub(crate) fn add_offsets(desk: &mut Desk, txn: Named, group: Granted<'_>) -> Asked<Add> {
    let partition = desk.coordinator_of(group, Operation::Read);
    let place = (meta::name::OFFSETS.to_owned(), partition);
    add(desk, txn, vec![place], Protocol::ClientAdds)
}

/// The end of a transaction.
pub(crate) struct End {
    pub(crate) committed: bool,
    pub(crate) protocol: Protocol,
    /// For the successor of an id that has no epoch left.
    pub(crate) fresh: Option<ProducerId>,
}

pub(crate) fn end(desk: &mut Desk, txn: Named, end: End) -> Asked<txn::End> {
    let partition = desk.txn_partition(&txn.transactional_id);
    let end = txn::End {
        transactional_id: txn.transactional_id,
        producer: txn.producer,
        committed: end.committed,
        version: end.protocol.level(),
        fresh: end.fresh,
    };
    (partition, end)
}

/// Where a transaction stands.
pub(crate) fn describe(desk: &mut Desk, granted: Granted<'_>) -> Asked<Describe> {
    let transactional_id = granted.transactional_id(Operation::Describe).to_owned();
    let partition = desk.txn_partition(&transactional_id);
    (partition, Describe { transactional_id })
}

/// The leave to write markers: an operator's, or a node's.
#[derive(Clone, Copy)]
pub(crate) struct MayMark(());

impl MayMark {
    pub(crate) fn ask(asker: &Asker) -> Result<MayMark, ErrorCode> {
        let alters = asker.grant(Operation::Alter, Resource::CLUSTER);
        let acts = |_| asker.grant(Operation::ClusterAction, Resource::CLUSTER);
        alters.or_else(acts).map(|_| MayMark(()))
    }
}

/// A marker in one partition, as an operator writes it where a transaction hangs (KIP-664).
pub(crate) fn mark(_: MayMark, place: TxnPartition, marker: Marker) -> Asked<Mark> {
    (place.1, Mark(place, marker))
}
