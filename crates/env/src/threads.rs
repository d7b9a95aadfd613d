//! Workers: the loops of the broker, each a thread in reality and a turn taken in simulation.
//!
//! A worker does what it can in [`Worker::turn`] and never waits inside; waiting is [`Worker::park`]. The simulator parks
//! with an instant that has passed: to let the worker take what arrived, and to learn which bells and poller can wake it.

use std::sync::Arc;

use model::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is more to do now.
    Again,
    /// Nothing to do until something arrives, or until the instant.
    Sleep { until: Option<Instant> },
    /// The worker has ended.
    Done,
}

pub trait Worker: Send {
    fn turn(&mut self) -> Turn;
    /// Blocks until there may be work or `until` has come; returns at once when `until` has passed, even at the first call.
    fn park(&mut self, until: Option<Instant>);
}

/// Wakes one parked worker. A ring before the wait is not lost.
pub trait Bell: Send + Sync {
    fn ring(&self);
    fn wait(&self, until: Option<Instant>);
}

pub trait Threads: Send + Sync {
    fn bell(&self) -> Arc<dyn Bell>;
    /// Starts `worker`; it runs until its turn says [`Turn::Done`].
    fn spawn(&self, name: &str, worker: Box<dyn Worker>);
    /// The same, for work that is in no hurry: when processors are short, other threads go first.
    fn spawn_patient(&self, name: &str, worker: Box<dyn Worker>) {
        self.spawn(name, worker);
    }
    /// The same, for a worker that does nothing more in a turn after a sync: the simulator lets others run while it takes.
    fn spawn_syncer(&self, name: &str, worker: Box<dyn Worker>) {
        self.spawn(name, worker);
    }
    /// The same, for a worker that may wait for ever: [`Threads::join`] does not wait for it. It has to hold nothing that others wait to be free.
    fn spawn_aside(&self, name: &str, worker: Box<dyn Worker>);
    /// Waits until every spawned worker has ended (the simulator takes turns instead).
    fn join(&self);
}
