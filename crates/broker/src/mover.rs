//! The loop that moves partitions from one log directory to another, one after the other.
//!
//! Drives `partition::Move`, and makes it so in the metadata between its two halves: that record is the commit. Invariant: once
//! it is in the queue of the metadata log a move is not called off any more; whether it is durable is known by waiting. Keeps the
//! list of moves of each directory up to date, and takes up those that an earlier life left. Obeys
//! `replica.alter.log.dirs.io.max.bytes.per.second`, which may change meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use env::{Turn, Worker};
use model::Instant;
use partition::{LogDir, Move, MoveError, MoveStep};
use wire::Uuid;

use crate::control::log::Assigned;
use crate::ids::random_uuid;
use crate::pending_moves::{self, Key};
use crate::shared::Shared;

/// How soon the commit of a move is looked for again.
const COMMIT_CHECK: Duration = Duration::from_millis(1);
/// And a move that was refused is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// Copied in one step, and less when a second may not bring as much.
const STEP_BYTES: u64 = 1 << 20;
/// How long the quota is waited for before it is asked again.
const QUOTA_CHECK: Duration = Duration::from_secs(1);
const QUOTA: &str = "replica.alter.log.dirs.io.max.bytes.per.second";

pub(crate) struct Mover {
    shared: Arc<Shared>,
    current: Option<Current>,
    debt: Debt,
    /// By directory, what its file says.
    stored: BTreeMap<Uuid, BTreeSet<Key>>,
    /// Left by an earlier life, and cannot be taken up in this one: the partition is offline.
    kept: Vec<(Uuid, Key)>,
    /// The changes that the files have, and when one that could not be written is tried again.
    stored_changes: Option<u64>,
    store_at: Option<Instant>,
}

/// Bytes that were copied ahead of the quota.
struct Debt {
    bytes: u64,
    since: Instant,
}

impl Debt {
    /// Pays off what `per_second` allows since the last time; returns how long the rest takes.
    fn pay(&mut self, per_second: u64, now: Instant) -> Duration {
        let nanos = u128::from(per_second.max(1)) * now.since(self.since).as_nanos();
        let paid = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_sub(paid);
        // Time that is too short for one byte counts the next time.
        if paid > 0 || self.bytes == 0 {
            self.since = now;
        }
        let nanos = u128::from(self.bytes) * 1_000_000_000 / u128::from(per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
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
        let mut mover = Mover {
            current: None,
            debt: Debt {
                bytes: 0,
                since: shared.env.clock.now(),
            },
            stored: BTreeMap::new(),
            kept: Vec::new(),
            stored_changes: None,
            store_at: None,
            shared,
        };
        mover.take_up();
        mover
    }

    /// Goes on with what was on its way when the last life ended.
    fn take_up(&mut self) {
        let topics = self.shared.catalog.topics();
        for dir in self
            .shared
            .volumes
            .dirs()
            .iter()
            .filter(|dir| !dir.is_failed())
        {
            let wanted = match pending_moves::load(&*self.shared.env.disk, &dir.path) {
                Ok(wanted) => wanted,
                Err(error) => {
                    tracing::error!(target: env::logs::MOVES, "moves to {} are forgotten: {error}", dir.path.display());
                    continue;
                }
            };
            for key in &wanted {
                let topic = topics.with_id(key.0);
                match topic.and_then(|topic| topic.partition(key.1.0).ok()) {
                    Some(partition) if partition.is_offline() => self.kept.push((dir.id, *key)),
                    Some(partition) => self.shared.moves.wish(partition, dir),
                    None => {}
                }
            }
            self.stored.insert(dir.id, wanted.into_iter().collect());
        }
    }

    /// Writes the lists that changed. A directory that takes none is no worse for it: after a restart its moves are asked for again.
    fn store(&mut self) {
        let now = self.now();
        let changes = self.shared.moves.changes();
        let is_due = match self.store_at {
            Some(at) => at <= now,
            None => self.stored_changes != Some(changes),
        };
        if !is_due {
            return;
        }
        self.stored_changes = Some(changes);
        self.store_at = None;
        let shared = Arc::clone(&self.shared);
        for dir in shared.volumes.dirs().iter().filter(|dir| !dir.is_failed()) {
            if let Err(error) = self.store_of(dir) {
                if self.store_at.is_none() {
                    tracing::error!(target: env::logs::MOVES, "the moves to {} are not kept: {error}", dir.path.display());
                }
                self.store_at = Some(now.plus(RETRY));
            }
        }
    }

    fn store_of(&mut self, dir: &Arc<LogDir>) -> io::Result<()> {
        let moves = &self.shared.moves;
        let mut wanted: BTreeSet<Key> =
            moves.coming_to(dir).iter().map(|wish| wish.key()).collect();
        let kept = self
            .kept
            .iter()
            .filter(|(to, key)| *to == dir.id && moves.wanted(*key).is_none());
        wanted.extend(kept.map(|(_, key)| *key));
        let stored = self.stored.entry(dir.id).or_default();
        if *stored != wanted {
            let list: Vec<Key> = wanted.iter().copied().collect();
            pending_moves::store(&*self.shared.env.disk, &dir.path, &list)?;
            *stored = wanted;
        }
        Ok(())
    }

    fn bytes_per_second(&self) -> u64 {
        let quota = self.shared.catalog.config().broker.number(QUOTA);
        u64::try_from(quota.unwrap_or(i64::MAX)).unwrap_or(0).max(1)
    }

    fn now(&self) -> Instant {
        self.shared.env.clock.now()
    }

    fn begin(&mut self) -> Turn {
        let wish = match self.shared.moves.next(self.now()) {
            Ok(wish) => wish,
            Err(until) => {
                let until = [until, self.store_at].into_iter().flatten().min();
                return Turn::Sleep { until };
            }
        };
        if wish.is_fulfilled() || wish.partition.is_going() || wish.partition.is_offline() {
            self.shared.moves.forget(wish.key(), &wish.to);
            return Turn::Again;
        }
        let id = random_uuid(&self.shared.env);
        let mut residents = self.shared.volumes.residents().iter();
        let Some(to) = residents.find(|of| Arc::ptr_eq(&of.dir, &wish.to)) else {
            unreachable!("moves go to directories of this broker")
        };
        let moving = Move::begin(&wish.partition, to, id, wish.moved);
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
        if !is_wanted || self.shared.lifetime.is_stopping() {
            self.call_off(current.moving, None);
            return Turn::Again;
        }
        if now < current.rests_until {
            let until = Some(current.rests_until);
            self.current = Some(current);
            return Turn::Sleep { until };
        }
        let per_second = self.bytes_per_second();
        let waits = self.debt.pay(per_second, now);
        if current.moving.is_copying() && !waits.is_zero() {
            let until = Some(now.plus(waits.min(QUOTA_CHECK)));
            self.current = Some(current);
            return Turn::Sleep { until };
        }
        let step_bytes = STEP_BYTES.min(per_second) as usize;
        match current.moving.step(now, step_bytes) {
            // The disks are for others, too: half of the time.
            Ok(MoveStep::On { bytes }) => {
                self.debt.bytes = self.debt.bytes.saturating_add(bytes);
                current.rests_until = self.now().plus(self.now().since(now));
            }
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
        match (self.shared)
            .metadata
            .assign_dir(partition.topic_id, partition.index, dir)
        {
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
        let is_assigned = self.shared.metadata.is_assigned(&assigned, &mut news);
        let turn = match is_assigned {
            Some(true) => {
                let topic = current.moving.partition().topic_id;
                current.moving.switch_over(&mut news);
                if let Assigned::Asked { key, .. } = assigned {
                    self.shared.moves.end_asking(key);
                    self.shared.mail.followers.on_topics([topic]);
                }
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
        self.shared.mail.spread(news);
        self.shared.volumes.check_health();
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
                tracing::error!(target: env::logs::MOVES,
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
        self.shared.mail.spread(news);
        self.shared.volumes.check_health();
    }
}

impl Worker for Mover {
    fn turn(&mut self) -> Turn {
        self.store();
        if let Some(current) = self.current.take() {
            return self.go_on(current);
        }
        if self.shared.lifetime.is_stopping() {
            self.shared.lifetime.on_loop_ended();
            return Turn::Done;
        }
        self.begin()
    }

    fn park(&mut self, until: Option<Instant>) {
        self.shared.moves.bell.wait(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_paid_at_the_rate_that_holds_now() {
        let at = |millis: u64| Instant(millis * 1_000_000);
        let mut debt = Debt {
            bytes: 0,
            since: at(0),
        };
        assert_eq!(
            debt.pay(1000, at(5_000)),
            Duration::ZERO,
            "no credit is gathered"
        );
        debt.bytes += 4000;
        assert_eq!(debt.pay(1000, at(5_000)), Duration::from_secs(4));
        assert_eq!(debt.pay(1000, at(6_000)), Duration::from_secs(3));
        assert_eq!(debt.pay(3000, at(6_000)), Duration::from_secs(1));
        assert_eq!(debt.pay(u64::MAX, at(6_001)), Duration::ZERO);
        debt.bytes += 1;
        for step in 1..10 {
            assert!(!debt.pay(1, at(6_001 + step * 100)).is_zero(), "{step}");
        }
        assert_eq!(debt.pay(1, at(7_001)), Duration::ZERO, "short waits add up");
    }
}
