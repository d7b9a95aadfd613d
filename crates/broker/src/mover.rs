//! The loop that moves partitions from one log directory to another, one after the other.
//!
//! Drives `partition::Move`, and makes it so in the metadata between its two halves: that record is the commit. Invariant: once
//! it is in the queue of the metadata log a move is not called off any more; whether it is durable is known by waiting.

use std::sync::Arc;
use std::time::Duration;

use env::{Turn, Worker};
use model::Instant;
use partition::{Move, MoveError, MoveStep};

use crate::kafka::api::admin::random_uuid;
use crate::kafka::change::Assigned;
use crate::shared::Shared;

/// How soon the commit of a move is looked for again.
const COMMIT_CHECK: Duration = Duration::from_millis(1);
/// And a move that was refused is tried again.
const RETRY: Duration = Duration::from_secs(10);

pub(crate) struct Mover {
    shared: Arc<Shared>,
    current: Option<Current>,
}

struct Current {
    moving: Move,
    /// The record that commits it is on its way.
    assigned: Option<Assigned>,
    /// The disks are left alone until then.
    rests_until: Instant,
}

impl Mover {
    pub(crate) fn new(shared: Arc<Shared>) -> Mover {
        Mover {
            shared,
            current: None,
        }
    }

    fn now(&self) -> Instant {
        self.shared.env.clock.now()
    }

    fn begin(&mut self) -> Turn {
        let wish = match self.shared.moves.next(self.now()) {
            Ok(wish) => wish,
            Err(until) => return Turn::Sleep { until },
        };
        if wish.is_fulfilled() || wish.partition.is_deleted() || wish.partition.is_offline() {
            self.shared.moves.forget(wish.key(), &wish.to);
            return Turn::Again;
        }
        let id = random_uuid(&self.shared);
        let moving = Move::begin(&wish.partition, &wish.to, id, wish.moved);
        self.current = Some(Current {
            moving,
            assigned: None,
            rests_until: self.now(),
        });
        Turn::Again
    }

    fn go_on(&mut self, mut current: Current) -> Turn {
        if let Some(assigned) = current.assigned.take() {
            return self.await_commit(current, assigned);
        }
        let now = self.now();
        let partition = current.moving.partition();
        let key = (partition.topic_id, partition.index);
        let wanted = self.shared.moves.wanted(key);
        let is_wanted = wanted.is_some_and(|wish| Arc::ptr_eq(&wish.to, current.moving.target()));
        if !is_wanted || self.shared.is_stopping() {
            self.call_off(current.moving, None);
            return Turn::Again;
        }
        if now < current.rests_until {
            let until = Some(current.rests_until);
            self.current = Some(current);
            return Turn::Sleep { until };
        }
        match current.moving.step(now) {
            // The disks are for others, too: half of the time.
            Ok(MoveStep::On { .. }) => current.rests_until = self.now().plus(self.now().since(now)),
            Ok(MoveStep::Wait(time)) => current.rests_until = now.plus(time),
            Ok(MoveStep::Placed) => return self.commit(current),
            Err(error) => {
                self.call_off(current.moving, Some(error));
                return Turn::Again;
            }
        }
        self.current = Some(current);
        Turn::Again
    }

    /// The files are in place: writes the record that says so.
    fn commit(&mut self, mut current: Current) -> Turn {
        let partition = current.moving.partition();
        let dir = current.moving.target().id;
        match (self.shared).assign_dir(partition.topic_id, partition.index, dir) {
            Ok(Some(assigned)) => {
                current.assigned = Some(assigned);
                self.current = Some(current);
            }
            Ok(None) => self.call_off(current.moving, Some(MoveError::Deleted)),
            Err(_) => self.call_off(current.moving, Some(MoveError::Refused)),
        }
        Turn::Again
    }

    fn await_commit(&mut self, mut current: Current, assigned: Assigned) -> Turn {
        let mut news = Vec::new();
        let is_assigned = self.shared.is_assigned(&assigned, &mut news);
        let turn = match is_assigned {
            Some(true) => {
                current.moving.settle(&mut news);
                Turn::Again
            }
            Some(false) => {
                current.assigned = Some(assigned);
                self.current = Some(current);
                let until = Some(self.now().plus(COMMIT_CHECK));
                Turn::Sleep { until }
            }
            // The broker ends, and its next start sees what became of the record. Until then nobody appends in either place.
            None => Turn::Again,
        };
        self.shared.spread(news);
        self.shared.check_health();
        turn
    }

    fn call_off(&mut self, moving: Move, error: Option<MoveError>) {
        let partition = Arc::clone(moving.partition());
        let to = Arc::clone(moving.target());
        let key = (partition.topic_id, partition.index);
        match &error {
            Some(MoveError::Refused) => {
                self.shared.moves.delay(key, self.now().plus(RETRY));
            }
            Some(error) => {
                self.shared.moves.forget(key, &to);
                eprintln!(
                    "{}-{} does not move to {}: {error}",
                    partition.topic,
                    partition.index,
                    to.path.display()
                );
            }
            None => {}
        }
        let mut news = Vec::new();
        moving.call_off(error, &mut news);
        self.shared.spread(news);
        self.shared.check_health();
    }
}

impl Worker for Mover {
    fn turn(&mut self) -> Turn {
        if let Some(current) = self.current.take() {
            return self.go_on(current);
        }
        if self.shared.is_stopping() {
            self.shared.on_loop_ended();
            return Turn::Done;
        }
        self.begin()
    }

    fn park(&mut self, until: Option<Instant>) {
        self.shared.moves.bell.wait(until);
    }
}
