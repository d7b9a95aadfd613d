//! Reassigns partitions to other brokers, to more or to fewer, and takes reassignments back.
//!
//! Whatever it asks for leaves a partition two replicas at least, so that one node may lose everything at any time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use env::sim::{Chance, Outside};
use model::Instant;
use wire::messages::AlterPartitionReassignmentsRequest;
use wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use wire::{ApiKey, ErrorCode};

use super::keep::{Client, Link};
use super::line::{LineError, RawAnswer, code, nonsense};
use super::notes::Notes;

const RECONNECT: Duration = Duration::from_millis(150);
const ANSWER_MAX: Duration = Duration::from_secs(10);
const REPLICAS_MIN: usize = 2;

pub(crate) struct Reassigner {
    /// And how many partitions they have.
    topics: Vec<(String, i32)>,
    /// All brokers, the first of which is number 1.
    doors: Arc<[SocketAddr]>,
    chance: Chance,
    link: Link,
    pub(crate) is_quiet: bool,
    /// Requests that were granted.
    pub(crate) granted: u64,
}

impl Reassigner {
    pub(crate) fn new(
        topics: Vec<(String, i32)>,
        doors: Arc<[SocketAddr]>,
        chance: Chance,
    ) -> Reassigner {
        Reassigner {
            topics,
            doors,
            chance,
            link: Link::new(Instant(0), RECONNECT),
            is_quiet: false,
            granted: 0,
        }
    }

    fn wish(&mut self) -> AlterPartitionReassignmentsRequest {
        let (name, partitions) = self.chance.pick(&self.topics).clone();
        let mut brokers: Vec<i32> = (1..=self.doors.len() as i32).collect();
        let count = self
            .chance
            .between(REPLICAS_MIN as u64, brokers.len() as u64);
        let mut replicas = Vec::new();
        for _ in 0..count {
            let at = self.chance.below(brokers.len() as u64) as usize;
            replicas.push(brokers.swap_remove(at));
        }
        // None takes back what is on its way.
        let replicas = (!self.chance.one_in(4)).then_some(replicas);
        AlterPartitionReassignmentsRequest {
            timeout_ms: 10_000,
            topics: vec![ReassignableTopic {
                name,
                partitions: vec![ReassignablePartition {
                    partition_index: self.chance.below(partitions as u64) as i32,
                    replicas,
                }],
            }],
            ..Default::default()
        }
    }
}

impl Client for Reassigner {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn name(&self) -> String {
        "reassigner".to_owned()
    }

    fn on_answer(
        &mut self,
        answer: &RawAnswer,
        _world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        self.link.asked = None;
        if answer.key() != ApiKey::AlterPartitionReassignments {
            return Err(nonsense("an answer to something else"));
        }
        let told = answer.decode::<AlterPartitionReassignmentsRequest>()?;
        let of = told.responses.iter().flat_map(|topic| &topic.partitions);
        for told in std::iter::once(told.error_code).chain(of.map(|of| of.error_code)) {
            match code(told)? {
                ErrorCode::None | ErrorCode::NoReassignmentInProgress => {}
                // Taking it back would leave no replica that is in sync.
                ErrorCode::InvalidReplicaAssignment => return Ok(()),
                refused if refused.is_retriable() => return Ok(()),
                refused => notes.violation(format!("a reassignment was refused: {refused:?}")),
            }
        }
        self.granted += 1;
        Ok(())
    }

    fn on_wake(&mut self, world: &Outside, notes: &mut Notes) {
        if self.link.line.is_none() {
            self.link.address = *self.chance.pick(&self.doors);
        }
        let pause = Duration::from_millis(self.chance.between(50, 1_000));
        if self.may_ask(pause, ANSWER_MAX, world, notes) && !self.is_quiet {
            let wish = self.wish();
            self.link.ask(&wish, 0, world.now());
        }
    }
}
