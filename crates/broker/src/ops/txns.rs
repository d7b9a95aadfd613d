//! Transactions: identities of producers, partitions and offsets that join a transaction, its end, and markers by hand.
//!
//! Each operation is one question to the coordinator of its transactional id, asked by [`super::asking::Asking`].

use coord::txn::{self, Add, EPOCH_PER_TXN, Producer, TxnPartition, Verify};
use meta::Record;
use model::ProducerId;
use partition::Marker;
use wire::ErrorCode;

use super::Desk;
use super::query::{LeaderJoin, Mark};
use super::view::View;
use crate::asker::Asker;
use crate::asker::access::Resource;
use crate::control::command::Command;
use crate::mail::question::{Join, Reach};
use crate::settings::txn_settings;
use security::authorize::Operation;

/// A question, and the partition of its coordinator.
pub(crate) type Asked<Q> = (i32, Q);

/// A producer that wants an identity.
pub(crate) struct InitProducer {
    pub(crate) transactional_id: Option<String>,
    pub(crate) timeout_ms: i32,
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
    let may = match &request.transactional_id {
        Some(id) => asker.may(Operation::Write, Resource::transactional_id(id)),
        None => asker.may(Operation::IdempotentWrite, Resource::CLUSTER),
    };
    if !may {
        return Init::Refused(match request.transactional_id {
            Some(_) => ErrorCode::TransactionalIdAuthorizationFailed,
            None => ErrorCode::ClusterAuthorizationFailed,
        });
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

/// A transaction as its client names it.
pub(crate) struct Named {
    pub(crate) transactional_id: String,
    pub(crate) producer: Producer,
}

impl Named {
    /// The partition whose coordinator looks after the transaction, for an asker that may write in it.
    fn place(&self, desk: &mut Desk, asker: &Asker) -> Result<i32, ErrorCode> {
        if asker.may(
            Operation::Write,
            Resource::transactional_id(&self.transactional_id),
        ) {
            Ok(desk.txn_partition(&self.transactional_id))
        } else {
            Err(ErrorCode::TransactionalIdAuthorizationFailed)
        }
    }
}

/// Partitions join the transaction.
pub(crate) fn add(
    desk: &mut Desk,
    asker: &Asker,
    txn: Named,
    places: Vec<TxnPartition>,
    protocol: Protocol,
) -> Result<Asked<Add>, ErrorCode> {
    let partition = txn.place(desk, asker)?;
    let add = Add {
        transactional_id: txn.transactional_id,
        producer: txn.producer,
        places,
        version: protocol.level(),
        may_wait: false,
    };
    Ok((partition, add))
}

/// Asks if the partitions have joined the transaction.
pub(crate) fn verify(
    desk: &mut Desk,
    asker: &Asker,
    txn: Named,
    places: Vec<TxnPartition>,
) -> Result<Asked<Verify>, ErrorCode> {
    let partition = txn.place(desk, asker)?;
    let verify = Verify {
        transactional_id: txn.transactional_id,
        producer: txn.producer,
        places,
    };
    Ok((partition, verify))
}

/// The question of a partition that joins a transaction to its coordinator, on whichever broker that is.
pub(super) fn join_question(desk: &mut Desk, join: Join) -> Asked<LeaderJoin> {
    (
        desk.txn_partition(join.transactional_id()),
        LeaderJoin(join),
    )
}

/// The offsets of a group become part of the transaction, which is the partition of their log.
pub(crate) fn add_offsets(
    desk: &mut Desk,
    asker: &Asker,
    txn: Named,
    group_id: &str,
) -> Result<Asked<Add>, ErrorCode> {
    if !asker.may(Operation::Read, Resource::group(group_id)) {
        return Err(ErrorCode::GroupAuthorizationFailed);
    }
    let place = (
        meta::name::OFFSETS.to_owned(),
        desk.group_partition(group_id),
    );
    add(desk, asker, txn, vec![place], Protocol::ClientAdds)
}

/// The end of a transaction.
pub(crate) struct End {
    pub(crate) committed: bool,
    pub(crate) protocol: Protocol,
    /// For the successor of an id that has no epoch left.
    pub(crate) fresh: Option<ProducerId>,
}

pub(crate) fn end(
    desk: &mut Desk,
    asker: &Asker,
    txn: Named,
    end: End,
) -> Result<Asked<txn::End>, ErrorCode> {
    let partition = txn.place(desk, asker)?;
    let end = txn::End {
        transactional_id: txn.transactional_id,
        producer: txn.producer,
        committed: end.committed,
        version: end.protocol.level(),
        fresh: end.fresh,
    };
    Ok((partition, end))
}

/// A marker in one partition, as an operator writes it where a transaction hangs (KIP-664).
pub(crate) fn mark(place: TxnPartition, marker: Marker) -> Asked<Mark> {
    (place.1, Mark(place, marker))
}
