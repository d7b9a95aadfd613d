//! Markers of decided transactions: written to every partition, until all have them.
//!
//! A decision whose markers are not all committed is marked again, in this process or after its next start; one more marker ends
//! nothing and harms nobody. Invariant: no marker is written before the decision is durable.

use std::sync::Arc;
use std::time::Duration;

use coord::{Moment, txn};
use model::{Instant, Ticket, WaiterKey};
use partition::{Acks, Marker, NeverCommitted, News, Partition, Stamp};
use wire::ErrorCode;
use wire::records::EndTxn;

use super::Coordinators;
use super::question::{Answered, Asked, Question, Said};
use crate::ops::Desk;

/// How soon a marker that found no room, or a completion that could not be written, is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// After so long without a marker somebody has to know: readers of committed records wait at it.
const STUCK: Duration = Duration::from_secs(30);

/// Part of the decision itself, and of the completion; partitions count from 0.
const DECISION: u32 = u32::MAX;
const COMPLETION: u32 = u32::MAX - 1;

/// One decided transaction.
pub(crate) struct Marking {
    /// Partition of the transaction's coordinator.
    coordinator: i32,
    transactional_id: String,
    marker: Marker,
    /// Partitions by the part of their ticket; taken out when their marker is committed.
    left: Vec<Option<txn::Place>>,
    /// Markers under way.
    open: usize,
    /// When the markers were first written.
    since: Option<Instant>,
    /// Why the last of those that are missing was not taken.
    refusal: Option<ErrorCode>,
    is_told: bool,
}

impl Marking {
    /// What the operator is to know, once.
    fn complaint(&mut self, now: Instant) -> Option<String> {
        let (topic, index) = self.left.iter().flatten().next()?;
        let refusal = self.refusal?;
        let is_stuck = self.since?.plus(STUCK) <= now;
        if !is_stuck || std::mem::replace(&mut self.is_told, true) {
            return None;
        }
        let id = &self.transactional_id;
        let end = match self.marker.end.committed {
            true => "commit",
            false => "abort",
        };
        Some(format!(
            "transaction {id} does not end: {topic}-{index} has not taken its {end} marker for {} s ({refusal:?}), and readers of \
             committed records wait there; it is tried on until its log directory is online and has room, or the topic is deleted",
            STUCK.as_secs()
        ))
    }
}

impl Desk {
    /// Writes markers as soon as everything in `log`, the decision with it, is durable.
    pub(super) fn begin_marking(&mut self, log: &Arc<Partition>, markers: txn::Markers) {
        if self.is_stopping {
            // The shards of its partitions may have ended, and nobody would answer: the next start writes them.
            return;
        }
        let waiter = self.coordinators.markings.next_key();
        let marking = Marking {
            coordinator: log.index.0,
            transactional_id: markers.transactional_id,
            marker: Marker {
                producer_id: markers.producer.id,
                producer_epoch: markers.producer.epoch,
                end: EndTxn {
                    committed: markers.committed,
                    coordinator_epoch: log.bounds().epoch.0,
                },
                transaction_version: markers.version,
            },
            left: markers.places.into_iter().map(Some).collect(),
            open: 0,
            since: None,
            refusal: None,
            is_told: false,
        };
        self.coordinators.markings.insert(marking);
        let decision = self.coordinators.ticket(waiter, DECISION);
        match log.await_end(decision) {
            Ok(true) => {}
            Ok(false) => self.write_markers(waiter),
            // Whether it was decided is not known before the next start.
            Err(NeverCommitted) => self.coordinators.drop_marking(waiter),
        }
    }

    /// Writes the markers that are missing.
    fn write_markers(&mut self, waiter: WaiterKey) {
        let now = self.now;
        let Some(marking) = self.coordinators.markings.get_mut(waiter) else {
            return;
        };
        marking.since.get_or_insert(now);
        let marker = marking.marker;
        let left: Vec<(u32, txn::Place)> = (0..)
            .zip(&marking.left)
            .filter_map(|(index, place)| Some((index, place.clone()?)))
            .collect();
        // One more than there are, so that answers on the way do not end it.
        marking.open = left.len() + 1;
        for (index, place) in left {
            let partition = place.1;
            let ticket = self.coordinators.ticket(waiter, index);
            self.send_question(Asked {
                partition,
                ticket,
                question: Question::MarkerAt(place, marker),
            });
        }
        self.close_marker(waiter);
    }

    fn on_marked(&mut self, ticket: Ticket, done: Option<ErrorCode>) {
        let topics = self.topics();
        let Some(marking) = self.coordinators.markings.get_mut(ticket.key) else {
            return;
        };
        let place = marking.left.get_mut(ticket.part as usize);
        let partition = place.as_ref().and_then(|place| {
            let (topic, index) = place.as_ref()?;
            topics.partition(topic, *index).ok()
        });
        let is_over = done.is_none_or(|code| is_moot(code, &marking.marker, partition));
        match place {
            Some(place) if is_over => *place = None,
            _ => marking.refusal = done,
        }
        self.close_marker(ticket.key);
    }

    fn close_marker(&mut self, waiter: WaiterKey) {
        let now = self.now;
        let Some(marking) = self.coordinators.markings.get_mut(waiter) else {
            return;
        };
        marking.open -= 1;
        if marking.open > 0 {
            return;
        }
        if marking.left.iter().any(Option::is_some) {
            if let Some(complaint) = marking.complaint(now) {
                env::tell!("{complaint}");
            }
            return self.coordinators.retries.set(now.plus(RETRY), waiter);
        }
        let ask = txn::Ask::Marked {
            transactional_id: marking.transactional_id.clone(),
            producer: txn::Producer {
                id: marking.marker.producer_id,
                epoch: marking.marker.producer_epoch,
            },
        };
        let partition = marking.coordinator;
        let ticket = self.coordinators.ticket(waiter, COMPLETION);
        self.send_question(Asked {
            partition,
            ticket,
            question: Question::Txn(ask),
        });
    }

    /// What became of one marker, or of the completion.
    pub(crate) fn on_marking_answer(&mut self, answered: Answered) {
        let Answered {
            ticket,
            said: told,
            log,
        } = answered;
        if ticket.part == COMPLETION {
            match told {
                Ok(_) => self.coordinators.drop_marking(ticket.key),
                Err(_) => {
                    let at = self.now.plus(RETRY);
                    self.coordinators.retries.set(at, ticket.key);
                }
            }
            return;
        }
        let waits = match (&told, log) {
            (Ok(_), Some(log)) => log.await_end(ticket),
            _ => Ok(false),
        };
        match waits {
            Ok(true) => {}
            Ok(false) => self.on_marked(ticket, told.err()),
            Err(NeverCommitted) => self.on_marked(ticket, Some(ErrorCode::KafkaStorageError)),
        }
    }

    pub(crate) fn on_marking_news(&mut self, news: News) {
        let Some((ticket, code)) = crate::error::outcome(news) else {
            return;
        };
        match (ticket.part, code) {
            (DECISION, ErrorCode::None) => self.write_markers(ticket.key),
            // Whether it was decided is not known before the next start.
            (DECISION, _) => self.coordinators.drop_marking(ticket.key),
            (_, ErrorCode::None) => self.on_marked(ticket, None),
            (_, code) => self.on_marked(ticket, Some(code)),
        }
    }

    /// Tries again the markings whose pause is over.
    pub(crate) fn retry_markings(&mut self) {
        while let Some(waiter) = self.coordinators.retries.due(self.now) {
            self.write_markers(waiter);
        }
    }
}

impl Coordinators {
    /// True if the ticket is one of a marking.
    pub(crate) fn waits_for(&self, ticket: Ticket) -> bool {
        ticket.inbox == self.inbox
    }

    fn ticket(&self, key: WaiterKey, part: u32) -> Ticket {
        Ticket {
            inbox: self.inbox,
            key,
            part,
        }
    }

    fn drop_marking(&mut self, waiter: WaiterKey) {
        self.markings.remove(waiter);
    }

    /// The broker stops: markers that are missing are written after the next start.
    pub(crate) fn drop_markings(&mut self) {
        for waiter in self.markings.keys(|_| true) {
            self.markings.remove(waiter);
        }
    }

    pub(crate) fn markings_count(&self) -> usize {
        self.markings.len()
    }

    pub(crate) fn retries_count(&self) -> usize {
        self.retries.len()
    }

    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.retries.next()
    }
}

impl Desk {
    /// Appends a marker; one for offsets of groups goes through their coordinator, which must know in the order of its log.
    pub(super) fn on_marker(
        &mut self,
        ticket: Ticket,
        (topic, index): &txn::Place,
        marker: Marker,
    ) {
        let topics = self.topics();
        let partition = topics.partition(topic, *index);
        let at = self.moment();
        // The marker comes behind it.
        self.write_decisions();
        let groups = &mut self.coordinators.groups;
        let written = match partition {
            // Deleted, and the records with it. What is elsewhere needs its marker, and is tried again.
            Err(why) => Err(crate::error::absent(why)),
            Ok(_) if topic == meta::name::OFFSETS => match groups.get_mut(index) {
                Some(coordinator) => {
                    let marked = coordinator.mark(marker, at);
                    let deadline = coordinator.next_deadline();
                    self.coordinators.expect(deadline);
                    marked
                }
                None => Err(ErrorCode::NotCoordinator),
            },
            Ok(partition) => append_marker(partition, marker, at),
        };
        self.send_answer(Answered {
            ticket,
            said: written.map(|()| Said::Marked),
            log: partition.ok().cloned(),
        });
    }
}

pub(super) fn append_marker(
    partition: &Arc<Partition>,
    marker: Marker,
    at: Moment,
) -> Result<(), ErrorCode> {
    let moment = partition::Moment {
        now: at.now,
        wall: at.wall,
        stamp: &mut Stamp::default(),
    };
    match partition.append_marker(marker, Acks::All(None), moment) {
        Ok(_) => Ok(()),
        Err(error) => Err(crate::error::append(&error)),
    }
}

/// The partition needs no marker of ours: it is gone, or a later incarnation was here, and nothing is open that this marker ends.
fn is_moot(code: ErrorCode, marker: &Marker, partition: Option<&Arc<Partition>>) -> bool {
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

#[cfg(test)]
mod tests {
    use model::{ProducerEpoch, ProducerId, Sequence};
    use partition::Warrant;
    use wire::records::BatchBuilder;

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

    /// A transaction that was begun with the epoch of its marker.
    #[test]
    fn a_refused_marker_is_not_done_with_while_something_is_open_that_it_ends() {
        let mut bench = Bench::new();
        bench.create("t", 1);
        let partition = bench.partition("t", 0);
        let at = bench.shard.desk.moment();
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
            assert_eq!(append_marker(&partition, marker, at), Err(refused));
            assert_eq!(is_moot(refused, &marker, Some(&partition)), is_done);
        }
        assert_eq!(append_marker(&partition, marker(6, 2), at), Ok(()));
        let late = marker(5, 2);
        assert_eq!(append_marker(&partition, late, at), Err(refused));
        assert!(is_moot(refused, &late, Some(&partition)), "it has ended");
        assert!(is_moot(ErrorCode::UnknownTopicOrPartition, &late, None));
    }

    #[test]
    fn a_marker_that_is_not_taken_is_told_once() {
        let mut marking = Marking {
            coordinator: 0,
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
