//! Markers of decided transactions: written to every partition, until all have them.
//!
//! A decision whose markers are not all committed is marked again, in this process, after its next start or by the next coordinator;
//! one more marker ends nothing and harms nobody. A partition that another broker leads gets its marker from there, and one that
//! nobody leads waits: only the metadata say that a partition is gone. Invariant: no marker is written before the decision is
//! durable.

use std::sync::Arc;
use std::time::Duration;

use coord::txn;
use model::{BrokerId, Ticket, WaiterKey};
use partition::{Marker, NeverCommitted, News};
use wire::ErrorCode;
use wire::records::EndTxn;

use super::Coordinating;
use super::fleet::Output;
use super::marking::{Marking, append_marker, is_moot, is_moot_elsewhere};
use super::remote::Mark;
use crate::mail::question::{Answered, Asked, Basis, Question, Reach, Said};

/// How soon a marker that found no room, or a completion that could not be written, is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Part of the decision itself, and of the completion; partitions count from 0.
const DECISION: u32 = u32::MAX;
const COMPLETION: u32 = u32::MAX - 1;

/// Where a marker goes.
enum Way {
    Here,
    To(BrokerId),
    /// Nobody takes it, for this reason.
    Nowhere(ErrorCode),
}

/// The place that refused a marker, or took it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Us,
    OtherBroker,
}

impl Coordinating<'_> {
    /// Writes markers as soon as everything in the log of their coordinator, the decision with it, is durable.
    pub(super) fn begin_marking(&mut self, decided: &Basis, markers: txn::Markers) {
        if self.desk.is_stopping {
            // The shards of its partitions may have ended, and nobody would answer: the next start writes them.
            return;
        }
        let waiter = self.coordinators.markings.next_key();
        let marking = Marking {
            decided: decided.clone(),
            transactional_id: markers.transactional_id,
            marker: Marker {
                producer_id: markers.producer.id,
                producer_epoch: markers.producer.epoch,
                end: EndTxn {
                    committed: markers.committed,
                    coordinator_epoch: decided.epoch.0,
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
        self.await_decision(waiter);
    }

    fn await_decision(&mut self, waiter: WaiterKey) {
        let Some(marking) = self.coordinators.markings.get_mut(waiter) else {
            return;
        };
        let decided = marking.decided.clone();
        let decision = self.coordinators.ticket(waiter, DECISION);
        match decided.await_end(decision) {
            Ok(true) => {}
            Ok(false) => self.write_markers(waiter),
            // The next start, or the next coordinator, finds out if it was decided.
            Err(NeverCommitted) => self.coordinators.drop_marking(waiter),
        }
    }

    /// Writes the markers that are missing.
    fn write_markers(&mut self, waiter: WaiterKey) {
        let now = self.desk.now;
        let Some(marking) = self.coordinators.markings.get_mut(waiter) else {
            return;
        };
        marking.since.get_or_insert(now);
        let marker = marking.marker;
        let left: Vec<(u32, txn::TxnPartition)> = (0..)
            .zip(&marking.left)
            .filter_map(|(index, place)| Some((index, place.clone()?)))
            .collect();
        // One more than there are, so that answers on the way do not end it.
        marking.open = left.len() + 1;
        for (index, place) in left {
            let ticket = self.coordinators.ticket(waiter, index);
            match self.way_of(&place) {
                Way::Here => {
                    self.ask_here(place.1, ticket, Question::MarkerAt(place, marker));
                }
                Way::To(broker) => {
                    let mark = Mark {
                        ticket,
                        place,
                        marker,
                    };
                    self.coordinators.remote.mark(broker, mark);
                }
                Way::Nowhere(code) => self.on_marked(ticket, Some(code), By::Us),
            }
        }
        self.close_marker(waiter);
    }

    fn way_of(&mut self, (topic, index): &txn::TxnPartition) -> Way {
        let node = self.desk.shared.catalog.config().broker.node_id;
        match self.desk.topics().leader(topic, *index) {
            None => Way::Nowhere(ErrorCode::UnknownTopicOrPartition),
            Some(leader) => match leader.broker {
                None => Way::Nowhere(ErrorCode::LeaderNotAvailable),
                Some(broker) if broker == node => Way::Here,
                Some(broker) => Way::To(broker),
            },
        }
    }

    /// A marker is written, or refused.
    pub(super) fn on_marked(&mut self, ticket: Ticket, done: Option<ErrorCode>, by: By) {
        let topics = self.desk.topics();
        let Some(marking) = self.coordinators.markings.get_mut(ticket.key) else {
            return;
        };
        let place = marking.left.get_mut(ticket.part as usize);
        let partition = place.as_ref().and_then(|place| {
            let (topic, index) = place.as_ref()?;
            topics.partition(topic, *index).ok()
        });
        let is_over = done.is_none_or(|code| match by {
            By::Us => is_moot(code, &marking.marker, partition),
            By::OtherBroker => is_moot_elsewhere(code),
        });
        match place {
            Some(place) if is_over => *place = None,
            _ => marking.refusal = done,
        }
        self.close_marker(ticket.key);
    }

    fn close_marker(&mut self, waiter: WaiterKey) {
        let now = self.desk.now;
        let Some(marking) = self.coordinators.markings.get_mut(waiter) else {
            return;
        };
        marking.open -= 1;
        if marking.open > 0 {
            return;
        }
        if marking.left.iter().any(Option::is_some) {
            if let Some(complaint) = marking.complaint(now) {
                tracing::warn!(target: env::logs::COORDINATORS, "{complaint}");
            }
            return self.coordinators.retries.set(now.plus(RETRY), waiter);
        }
        let marked = txn::Marked {
            transactional_id: marking.transactional_id.clone(),
            producer: txn::Producer {
                id: marking.marker.producer_id,
                epoch: marking.marker.producer_epoch,
            },
        };
        let partition = marking.decided.log.index.0;
        let ticket = self.coordinators.ticket(waiter, COMPLETION);
        self.ask_here(partition, ticket, txn::Ask::Marked(marked).into());
    }

    fn ask_here(&mut self, partition: i32, ticket: Ticket, question: Question) {
        self.send(Asked {
            partition,
            ticket,
            question,
            reach: Reach::ThisBroker,
        });
    }

    /// The outcome of one marker, or of the completion.
    pub(crate) fn on_marking_answer(&mut self, answered: Answered) {
        let Answered {
            ticket,
            said: told,
            basis,
        } = answered;
        if ticket.part == COMPLETION {
            match told {
                Ok(_) => self.coordinators.drop_marking(ticket.key),
                Err(_) => {
                    let at = self.desk.now.plus(RETRY);
                    self.coordinators.retries.set(at, ticket.key);
                }
            }
            return;
        }
        let waits = match (&told, basis) {
            (Ok(_), Some(basis)) => basis.await_end(ticket),
            _ => Ok(false),
        };
        match waits {
            Ok(true) => {}
            Ok(false) => self.on_marked(ticket, told.err(), By::Us),
            Err(NeverCommitted) => {
                self.on_marked(ticket, Some(ErrorCode::KafkaStorageError), By::Us);
            }
        }
    }

    pub(crate) fn on_marking_news(&mut self, news: News) {
        let Some((ticket, code)) = crate::error::outcome(news) else {
            return;
        };
        match (ticket.part, code) {
            (DECISION, ErrorCode::None) => self.write_markers(ticket.key),
            // This broker acted as no leader for a moment, perhaps, and its coordinator went on: nobody else would write the markers.
            (DECISION, _) => {
                let at = self.desk.now.plus(RETRY);
                self.coordinators.retries.set(at, ticket.key);
            }
            (_, ErrorCode::None) => self.on_marked(ticket, None, By::Us),
            (_, code) => self.on_marked(ticket, Some(code), By::Us),
        }
    }

    /// Tries again the markings whose pause is over.
    pub(crate) fn retry_markings(&mut self) {
        while let Some(waiter) = self.coordinators.retries.due(self.desk.now) {
            let marking = self.coordinators.markings.get_mut(waiter);
            if marking.is_some_and(|marking| marking.since.is_none()) {
                self.await_decision(waiter);
            } else {
                self.write_markers(waiter);
            }
        }
    }
}

impl Coordinating<'_> {
    /// Appends a marker; one for offsets of groups goes through their coordinator, which must know in the order of its log.
    pub(super) fn on_marker(
        &mut self,
        ticket: Ticket,
        (topic, index): &txn::TxnPartition,
        marker: Marker,
    ) {
        let topics = self.desk.topics();
        let log = topics.partition(topic, *index).map(|partition| Basis {
            log: Arc::clone(partition),
            epoch: partition.bounds().epoch,
        });
        let at = self.moment();
        // The marker comes behind it.
        self.write_decisions();
        let mut output = Output::default();
        let groups = &mut self.coordinators.groups;
        let written = match &log {
            // Deleted, and the records with it. What is elsewhere needs its marker, and is tried again.
            Err(why) => Err(crate::error::absent(*why)),
            Ok(_) if topic == meta::name::OFFSETS => groups.mark(*index, marker, at, &mut output),
            Ok(log) => append_marker(log, marker, at),
        };
        self.on_output(output);
        self.send_answer(Answered {
            ticket,
            said: written.map(|()| Said::Marked),
            basis: log.ok(),
        });
    }
}
