//! Offsets that are committed as part of a transaction.
//!
//! Either this very operation adds them to the transaction (KIP-890), or the coordinator of the transaction is asked whether the
//! client did. Then the coordinator of the group writes them into its log, where they wait for the end of the transaction.

use std::sync::Arc;

use coord::group::ask::{CommitTopic, TopicKey, TxnCommit};
use coord::txn::{Add, EPOCH_PER_TXN, Producer, Verify};
use partition::{Guard, Partition, Warrant};
use wire::ErrorCode;

use super::asking::{Asking, Awaited, Awaiting, Read, only};
use super::groups;
use super::offsets::{Slots, find, may};
use super::produce::Joining;
use super::query::{Joined, LeaderJoin, Told, WarrantedCommit};
use super::txns::join_question;
use super::{Desk, Step, Tickets};
use crate::asker::Asker;
use crate::asker::access::Resource;
use crate::error;
use crate::mail::question::Join;
use crate::topics::{Absent, Topic, Topics};
use security::authorize::Operation;

pub(crate) struct TxnOffsets {
    pub(crate) transactional_id: String,
    pub(crate) joining: Joining,
    pub(crate) commit: TxnCommit,
}

/// Why the offset of one partition is not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The partition is not there.
    Unknown,
    /// No topic has the id.
    UnknownId,
    Unauthorised,
    /// By a coordinator, or because none could be asked.
    Coordinator(ErrorCode),
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Refusal {
        Refusal::Coordinator(code)
    }
}

/// One for each partition, or one refusal of the whole commit.
pub(crate) type Committed = Result<Vec<Result<(), Refusal>>, ErrorCode>;

/// A commit that waits.
pub(crate) enum Committing {
    /// For the coordinator of the transaction.
    Verifying(Asking<LeaderJoin>, Box<Verifying>),
    /// For the coordinator of the group.
    Writing(Awaiting<WarrantedCommit, Committed>),
}

/// A commit whose transaction is verified.
pub(crate) struct Verifying {
    guard: Guard,
    write: Write,
}

/// A commit for the log of its group.
struct Write {
    commit: TxnCommit,
    slots: Slots<Refusal>,
    log: Arc<Partition>,
}

pub(crate) fn begin(
    desk: &mut Desk,
    asker: &Asker,
    request: TxnOffsets,
    tickets: Tickets<'_>,
) -> Step<Committing, Committed> {
    let TxnOffsets {
        transactional_id,
        joining,
        mut commit,
    } = request;
    let topics = desk.topics();
    let partition = match place(desk, asker, &transactional_id, &commit.group_id) {
        Ok(partition) => partition,
        Err(code) => return Step::Done(Err(code)),
    };
    let offsets = topics.named(meta::name::OFFSETS);
    let node = desk.shared.catalog.config().broker.node_id;
    let is_led_here = |topic: &Topic| {
        let leader = topic.leader(partition);
        leader.is_some_and(|leader| leader.broker == Some(node))
    };
    let log = offsets.map(|topic| match topic.partition(partition) {
        Ok(_) if !is_led_here(topic) => Err(Absent::Elsewhere),
        found => found,
    });
    let log = match log {
        Some(Ok(log)) => Arc::clone(log),
        Some(Err(Absent::Elsewhere)) => {
            return Step::Done(Err(ErrorCode::NotCoordinator));
        }
        Some(Err(Absent::Unknown)) | None => {
            return Step::Done(Err(ErrorCode::CoordinatorNotAvailable));
        }
    };
    let slots = take_refused(&mut commit.topics, asker, &topics);
    if commit.topics.is_empty() {
        return Step::Done(Ok(slots.fill(Vec::new())));
    }
    let Producer { id, epoch } = commit.producer;
    let begun = log.begin_verification(id, epoch, None);
    let write = Write { commit, slots, log };
    match begun {
        Ok(Some(guard)) => write.verify(desk, guard, transactional_id, joining, tickets),
        Ok(None) => {
            let step = write.begin(desk, Warrant::None, tickets);
            step.map_parked(Committing::Writing)
        }
        Err(error) => {
            let refused = write.slots.refuse(error::producer(&error));
            Step::Done(Ok(refused))
        }
    }
}

impl Verifying {
    /// The coordinator of the transaction has spoken.
    pub(crate) fn go_on(
        self,
        desk: &mut Desk,
        told: Vec<Told<LeaderJoin>>,
        tickets: Tickets<'_>,
    ) -> Awaited<WarrantedCommit, Committed> {
        let Verifying { guard, write } = self;
        match only(told).and_then(Joined::all) {
            Ok(()) => write.begin(desk, Warrant::Verified(guard), tickets),
            Err(code) => {
                let Producer { id, .. } = write.commit.producer;
                write.log.end_verification(id, guard);
                Step::Done(Ok(write.slots.refuse(code)))
            }
        }
    }
}

impl Write {
    /// The transaction would be opened in this log: its coordinator is asked, where that is not waived.
    fn verify(
        self,
        desk: &mut Desk,
        guard: Guard,
        transactional_id: String,
        joining: Joining,
        tickets: Tickets<'_>,
    ) -> Step<Committing, Committed> {
        let producer = self.commit.producer;
        let places = vec![(meta::name::OFFSETS.to_owned(), self.log.index.0)];
        let join = match joining {
            Joining::Adds => Join::Add(Add {
                transactional_id,
                producer,
                places,
                version: EPOCH_PER_TXN,
                may_wait: true,
            }),
            Joining::Verifies if !desk.verifies_txns() => {
                self.log.end_verification(producer.id, guard);
                let step = self.begin(desk, Warrant::Waived, tickets);
                return step.map_parked(Committing::Writing);
            }
            Joining::Verifies => Join::Verify(Verify {
                transactional_id,
                producer,
                places,
            }),
        };
        if desk.is_stopping {
            return Step::Dropped;
        }
        let question = join_question(desk, join);
        let asking = Asking::begin(desk, vec![question], tickets);
        let verifying = Verifying { guard, write: self };
        Step::Parked(Committing::Verifying(asking, Box::new(verifying)))
    }

    fn begin(
        self,
        desk: &mut Desk,
        warrant: Warrant,
        tickets: Tickets<'_>,
    ) -> Awaited<WarrantedCommit, Committed> {
        let Write { commit, slots, log } = self;
        let producer = commit.producer;
        let question = (log.index.0, WarrantedCommit(commit, warrant));
        let read = Read::with(move |told| {
            if let Warrant::Verified(guard) = warrant {
                log.end_verification(producer.id, guard);
            }
            Ok(match only(told) {
                Ok(results) => slots.fill(results),
                Err(code) => slots.refuse(code),
            })
        });
        Awaiting::begin(desk, vec![question], tickets, read)
    }
}

/// The partition whose coordinator looks after the group, for an asker that may write in the transaction and read as the group.
fn place(
    desk: &mut Desk,
    asker: &Asker,
    transactional_id: &str,
    group_id: &str,
) -> Result<i32, ErrorCode> {
    let transaction = Resource::transactional_id(transactional_id);
    asker.grant(Operation::Write, transaction)?;
    groups::place(desk, asker, Operation::Read, group_id)
}

/// Takes out the partitions that are not there or may not be used.
fn take_refused(asked: &mut Vec<CommitTopic>, asker: &Asker, topics: &Topics) -> Slots<Refusal> {
    let mut slots = Slots::default();
    asked.retain_mut(|asked| {
        let may = may(asker, Operation::Read, &asked.topic, topics);
        let topic = find(&asked.topic, topics);
        let is_of_nobody = topic.is_none() && matches!(asked.topic, TopicKey::Id(_));
        asked.partitions.retain(|asked| {
            let is_there = topic.is_some_and(|topic| topic.has(asked.index.0));
            let result = if !may {
                Err(Refusal::Unauthorised)
            } else if is_there {
                Ok(())
            } else if is_of_nobody {
                Err(Refusal::UnknownId)
            } else {
                Err(Refusal::Unknown)
            };
            slots.push(result);
            result.is_ok()
        });
        !asked.partitions.is_empty()
    });
    slots
}
