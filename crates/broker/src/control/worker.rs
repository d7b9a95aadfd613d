//! The worker of the quorum: it writes the vote file, reports what is synced, and keeps the quorum's time.

use std::sync::Arc;
use std::time::Duration;

use env::{Turn, Worker};
use model::Instant;
use raft::Event;

use super::mailbox::Order;
use super::vote_file;
use crate::shared::Shared;

/// Where the vote file cannot be written it is tried again after this pause; nothing that rests on it happens until then.
const RETRY: Duration = Duration::from_millis(500);

pub(crate) struct QuorumWorker {
    shared: Arc<Shared>,
    /// A vote that could not be written, and when it is tried again.
    unwritten: Option<(Order, Instant)>,
}

impl QuorumWorker {
    pub(crate) fn new(shared: Arc<Shared>) -> QuorumWorker {
        QuorumWorker {
            shared,
            unwritten: None,
        }
    }

    /// Does what was ordered, and what follows from that.
    pub(crate) fn take_orders(&mut self) {
        loop {
            let orders = self.shared.metadata.mailbox.take();
            if orders.is_empty() {
                return;
            }
            for order in orders {
                self.carry_out(order);
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        let shared = &self.shared;
        let Order::StoreVote {
            number,
            election,
            version,
        } = &order
        else {
            return shared.on_metadata_watched();
        };
        let voters = shared.metadata.voters();
        let dir = &shared.metadata.log_dir().path;
        match vote_file::store(&*shared.env.disk, dir, election, *version, &voters) {
            Ok(()) => shared.step_quorum(Event::VoteStored { number: *number }),
            Err(error) => {
                let path = dir.join(raft::quorum_state::FILE_NAME);
                tracing::error!(target: env::logs::METADATA, "cannot write {}: {error}", path.display());
                self.unwritten = Some((order, shared.env.clock.now().plus(RETRY)));
            }
        }
    }
}

impl Worker for QuorumWorker {
    fn turn(&mut self) -> Turn {
        self.take_orders();
        let now = self.shared.env.clock.now();
        if let Some((order, _)) = self.unwritten.take_if(|(_, at)| *at <= now) {
            self.carry_out(order);
            return Turn::Again;
        }
        let deadline = self.shared.metadata.next_deadline();
        if deadline.is_some_and(|at| at <= now) {
            self.shared.step_quorum(Event::Tick);
            return Turn::Again;
        }
        if self.shared.have_shards_ended() {
            return Turn::Done;
        }
        let retry_at = self.unwritten.as_ref().map(|(_, at)| *at);
        Turn::Sleep {
            until: [deadline, retry_at].into_iter().flatten().min(),
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        self.shared.metadata.mailbox.bell().wait(until);
    }
}
