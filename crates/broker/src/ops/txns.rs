//! Transactions: identities of producers, partitions and offsets that join a transaction, its end, and markers by hand.
//!
//! Each operation is one question to the coordinator of its transactional id, asked by [`super::asking::Asking`].

use coord::txn::{Answer, Ask, EPOCH_PER_TXN, Producer, TxnPartition};
use meta::Record;
use model::ProducerId;
use partition::Marker;
use wire::ErrorCode;

use super::Desk;
use super::view::View;
use crate::asker::Asker;
use crate::asker::access::{Operation, Resource};
use crate::coordinate::question::Question;
use crate::coordinate::txn_settings;

/// A question, and the partition of its coordinator.
pub(crate) type Asked = (i32, Question);

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
    Ask(Box<Asked>),
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
            return Init::Refused(ErrorCode::NotCoordinator);
        }
    }
    let Some(fresh) = desk.shared.state.take_producer_id() else {
        return Init::NeedsIds(request);
    };
    let Some(transactional_id) = request.transactional_id else {
        return Init::Fresh(fresh);
    };
    let ask = Ask::Init {
        transactional_id,
        timeout_ms: request.timeout_ms,
        expected: request.expected,
        fresh: Some(fresh),
    };
    Init::Ask(Box::new(desk.txn_question(ask)))
}

/// The next block of producer ids for this broker.
pub(crate) fn allocate(view: &View<'_>) -> Vec<Record> {
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
    fn check(&self, asker: &Asker) -> Result<(), ErrorCode> {
        if asker.may(
            Operation::Write,
            Resource::transactional_id(&self.transactional_id),
        ) {
            Ok(())
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
) -> Result<Asked, ErrorCode> {
    txn.check(asker)?;
    Ok(desk.txn_question(Ask::Add {
        transactional_id: txn.transactional_id,
        producer: txn.producer,
        places,
        version: protocol.level(),
        may_wait: false,
    }))
}

/// Asks if the partitions have joined the transaction.
pub(crate) fn verify(
    desk: &mut Desk,
    asker: &Asker,
    txn: Named,
    places: Vec<TxnPartition>,
) -> Result<Asked, ErrorCode> {
    txn.check(asker)?;
    Ok(desk.txn_question(Ask::Verify {
        transactional_id: txn.transactional_id,
        producer: txn.producer,
        places,
    }))
}

/// The offsets of a group become part of the transaction, which is the partition of their log.
pub(crate) fn add_offsets(
    desk: &mut Desk,
    asker: &Asker,
    txn: Named,
    group_id: &str,
) -> Result<Asked, ErrorCode> {
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
) -> Result<Asked, ErrorCode> {
    txn.check(asker)?;
    Ok(desk.txn_question(Ask::End {
        transactional_id: txn.transactional_id,
        producer: txn.producer,
        committed: end.committed,
        version: end.protocol.level(),
        fresh: end.fresh,
    }))
}

/// A marker in one partition, as an operator writes it where a transaction hangs (KIP-664).
pub(crate) fn mark(place: TxnPartition, marker: Marker) -> Asked {
    (place.1, Question::MarkerAt(place, marker))
}

/// The refusal behind an answer that is not of the kind that was asked for; only a bug makes a machine answer something else.
pub(crate) fn unexpected(told: Result<Answer, ErrorCode>) -> ErrorCode {
    match told {
        // The state of the transaction does not fit a batch of its log, which the client knows nothing of.
        Err(ErrorCode::MessageTooLarge) => ErrorCode::UnknownServerError,
        Err(code) => code,
        Ok(answer) => unreachable!("a transaction coordinator answered {answer:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_too_large_for_its_log_is_the_servers_own_trouble() {
        for (code, told) in [
            (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError),
            (ErrorCode::NotCoordinator, ErrorCode::NotCoordinator),
        ] {
            assert_eq!(unexpected(Err(code)), told);
        }
    }
}
