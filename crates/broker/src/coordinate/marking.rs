//! One decided transaction on its way to the partitions it wrote to, and what becomes of one marker.

use std::sync::Arc;
use std::time::Duration;

use coord::{Moment, txn};
use model::Instant;
use partition::{Acks, Marker, Partition, Stamp};
use wire::ErrorCode;

use crate::mail::question::Basis;

/// After so long without a marker somebody has to know: readers of committed records wait at it.
const STUCK: Duration = Duration::from_secs(30);

/// One decided transaction.
pub(crate) struct Marking {
    /// The log of the transaction's coordinator, and the epoch in which that decided.
    pub(super) decided: Basis,
    pub(super) transactional_id: String,
    pub(super) marker: Marker,
    /// Partitions by the part of their ticket; taken out when their marker is committed.
    pub(super) left: Vec<Option<txn::TxnPartition>>,
    /// Markers under way.
    pub(super) open: usize,
    /// When the markers were first written.
    pub(super) since: Option<Instant>,
    /// Why the last of those that are missing was not taken.
    pub(super) refusal: Option<ErrorCode>,
    pub(super) is_told: bool,
}

impl Marking {
    /// A line for the operator, once.
    pub(super) fn complaint(&mut self, now: Instant) -> Option<String> {
        let (topic, index) = self.left.iter().flatten().next()?;
        let refusal = self.refusal?;
        let is_stuck = self.since?.plus(STUCK) <= now;
        if !is_stuck || std::mem::replace(&mut self.is_told, true) {
            return None;
        }
        let id = &self.transactional_id;
        let end = if self.marker.end.committed {
            "commit"
        } else {
            "abort"
        };
        Some(format!(
            "transaction {id} does not end: {topic}-{index} has not taken its {end} marker for {} s ({refusal:?}), and readers of \
             committed records wait there; it is tried on until the leader of that partition can be reached and has room, or the topic \
             is deleted",
            STUCK.as_secs()
        ))
    }
}

pub(super) fn append_marker(to: &Basis, marker: Marker, at: Moment) -> Result<(), ErrorCode> {
    let moment = partition::Moment {
        now: at.now,
        wall: at.wall,
        stamp: &mut Stamp::default(),
    };
    let appended = (to.log).append_marker(to.epoch, marker, Acks::All(None), moment);
    match appended {
        Ok(_) => Ok(()),
        Err(error) => Err(crate::error::append(&error)),
    }
}

/// The partition needs no marker of ours: it is gone, or a later incarnation was here, and nothing is open that this marker ends.
pub(super) fn is_moot(
    code: ErrorCode,
    marker: &Marker,
    partition: Option<&Arc<Partition>>,
) -> bool {
    let is_open = |partition: &Arc<Partition>| {
        let (id, epoch) = (marker.producer_id, marker.producer_epoch);
        partition.producers(|all| all.has_open_txn(id, epoch))
    };
    match code {
        ErrorCode::UnknownTopicOrPartition | ErrorCode::TransactionCoordinatorFenced => true,
        ErrorCode::InvalidProducerEpoch => !partition.is_some_and(is_open),
        _ => false,
    }
}

/// The same as the leader of the partition says, which is another broker. It is not believed that the partition is gone: the metadata
/// that it knows may be older than ours.
pub(super) fn is_moot_elsewhere(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced
    )
}

#[cfg(test)]
mod tests {
    use model::{ProducerEpoch, ProducerId, Sequence};
    use partition::Warrant;
    use wire::records::{BatchBuilder, EndTxn};

    use super::*;
    use crate::event_loop::bench::Bench;

    fn marker(epoch: i16, transaction_version: i16) -> Marker {
        Marker {
            producer_id: ProducerId(1),
            producer_epoch: ProducerEpoch(epoch),
            end: EndTxn {
                committed: true,
                coordinator_epoch: 0,
            },
            transaction_version,
        }
    }

    fn basis(log: &Arc<Partition>) -> Basis {
        Basis {
            log: Arc::clone(log),
            epoch: log.bounds().epoch,
        }
    }

    /// A transaction that was begun with the epoch of its marker.
    #[test]
    fn a_refused_marker_is_not_done_with_while_something_is_open_that_it_ends() {
        let mut bench = Bench::new();
        bench.create("t", 1);
        let partition = bench.partition("t", 0);
        let at = bench.shard.coordinating().moment();
        let producer = BatchBuilder::new().producer(ProducerId(1), ProducerEpoch(5), Sequence(0));
        let mut open = producer.transactional();
        open.push(at.wall, None, Some(b"v"), &[]);
        let moment = partition::Moment {
            now: at.now,
            wall: at.wall,
            stamp: &mut Stamp::default(),
        };
        let origin = log::producer::Origin::Client;
        let appended =
            partition.append_as(open.build(), origin, Warrant::Waived, Acks::None, moment);
        appended.expect("nobody was here before");

        let refused = ErrorCode::InvalidProducerEpoch;
        for (epoch, version, is_done) in [(4, 0, true), (5, 2, false)] {
            let marker = marker(epoch, version);
            assert_eq!(append_marker(&basis(&partition), marker, at), Err(refused));
            assert_eq!(is_moot(refused, &marker, Some(&partition)), is_done);
        }
        assert_eq!(append_marker(&basis(&partition), marker(6, 2), at), Ok(()));
        let late = marker(5, 2);
        assert_eq!(append_marker(&basis(&partition), late, at), Err(refused));
        assert!(is_moot(refused, &late, Some(&partition)), "it has ended");
        assert!(is_moot(ErrorCode::UnknownTopicOrPartition, &late, None));
    }

    #[test]
    fn a_marker_that_is_not_taken_is_told_once() {
        let mut bench = Bench::new();
        bench.create("t", 1);
        let partition = bench.partition("t", 0);
        let mut marking = Marking {
            decided: basis(&partition),
            transactional_id: "id".to_owned(),
            marker: marker(0, 2),
            left: vec![None, Some(("t".to_owned(), 3))],
            open: 0,
            since: Some(Instant(0)),
            refusal: None,
            is_told: false,
        };
        let stuck = Instant(0).plus(STUCK);
        assert_eq!(marking.complaint(stuck), None, "it is on its way");
        marking.refusal = Some(ErrorCode::KafkaStorageError);
        assert_eq!(marking.complaint(Instant(0)), None, "it may be soon");
        let told = marking.complaint(stuck).unwrap_or_default();
        assert!(told.contains("id does not end: t-3"), "{told}");
        assert_eq!(marking.complaint(stuck.plus(STUCK)), None, "once");
    }
}
