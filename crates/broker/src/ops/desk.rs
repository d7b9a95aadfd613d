//! The desk that operations are carried out at: what one loop of the broker sees of partitions and metadata.
//!
//! Owned by the loop that also owns an inbox; nothing here knows connections, frames or protocol versions, so any door works with
//! it: the Kafka protocol, HTTP, gRPC, a test. Operations leave questions to coordinators in `asked`, and what they caused for
//! others in `news`; the loop hands both on before it sleeps.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{InboxId, Instant, Ticket, Timestamp, WaiterKey};
use partition::News;
use wire::Uuid;

use crate::complaints::Complaints;
use crate::ids::random_uuid;
use crate::mail::question::{Answered, Asked, Reach};
use crate::meters::meter::Meter;
use crate::shared::Shared;
use crate::topics::Topics;

pub(crate) struct Desk {
    /// For tickets of operations that wait.
    pub(crate) inbox: InboxId,
    pub(crate) shared: Arc<Shared>,
    /// How far the questions of its doors go.
    pub(crate) reach: Reach,
    /// Time of the current turn.
    pub(crate) now: Instant,
    pub(crate) wall: Timestamp,
    /// For tickets of any inbox.
    pub(crate) news: Vec<News>,
    /// For coordinators, wherever they are.
    pub(crate) asked: VecDeque<Asked>,
    /// Answers of coordinators beside this desk, for requests that wait in its inbox.
    pub(crate) answered: Vec<Answered>,
    /// Changes with records of their own that wait for the disk.
    pub(crate) changes_written: usize,
    pub(crate) is_stopping: bool,
    /// Set once the broker of a cluster stops: until when requests may wait for other nodes.
    pub(crate) stops_by: Option<Instant>,
    topics: Arc<Topics>,
    meter: Arc<Meter>,
    /// How often troubles that peers cause are reported.
    pub(crate) complaints: Complaints,
}

impl Desk {
    /// The desk of a loop with an inbox and counters of its own.
    pub(crate) fn new(
        inbox: InboxId,
        reach: Reach,
        meter: Arc<Meter>,
        shared: Arc<Shared>,
    ) -> Desk {
        Desk {
            inbox,
            reach,
            meter,
            now: shared.env.clock.now(),
            wall: shared.env.clock.wall_ms(),
            news: Vec::new(),
            asked: VecDeque::new(),
            answered: Vec::new(),
            changes_written: 0,
            is_stopping: false,
            stops_by: None,
            topics: shared.catalog.topics(),
            complaints: Complaints::default(),
            shared,
        }
    }

    pub(crate) fn refresh_time(&mut self) {
        self.now = self.shared.env.clock.now();
        self.wall = self.shared.env.clock.wall_ms();
    }

    /// Counters of this loop.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// A ticket of the operation that waits under `key`.
    pub(crate) fn ticket(&self, key: WaiterKey, part: u32) -> Ticket {
        Ticket {
            inbox: self.inbox,
            key,
            part,
        }
    }

    /// The partitions as they are now; cheap, a clone of a shared pointer.
    pub(crate) fn topics(&mut self) -> Arc<Topics> {
        self.shared.catalog.refresh_topics(&mut self.topics);
        Arc::clone(&self.topics)
    }

    pub(crate) fn fresh_uuid(&self) -> Uuid {
        random_uuid(&self.shared.env)
    }
}
