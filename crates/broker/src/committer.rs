//! A commit thread of one log directory: takes rounds when shards do not commit themselves.
//!
//! There are as many as syncs may be under way together; all wait for one bell, which wakes one of them. Sleeps until rung.
//! After each round it looks at the queue again, so that whoever found it at work may go on. Write, sync and news are turns of
//! their own: what other threads do between them, the simulator does too.

use std::io;
use std::sync::Arc;

use env::{Bell, Clock, Turn, Worker};
use model::Instant;
use partition::{Begun, Flight, LogDir, Wait};

use crate::mail::Mail;
use crate::node::{Lifetime, Volumes};

pub(crate) struct Committer {
    /// Which of the directories.
    pub(crate) at: usize,
    pub(crate) dir: Arc<LogDir>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) lifetime: Arc<Lifetime>,
    pub(crate) mail: Arc<Mail>,
    pub(crate) bell: Arc<dyn Bell>,
    pub(crate) stage: Stage,
}

#[derive(Default)]
pub(crate) enum Stage {
    #[default]
    Looking,
    /// Waits for company, as the only one of its directory.
    Lingering,
    Written(Flight),
    Synced(Flight, io::Result<()>),
}

impl Committer {
    fn look(&mut self) -> Turn {
        if self.dir.has_queued() {
            match self.dir.commit_wait(self.clock.now()) {
                Wait::Until(until) if self.volumes.linger(self.at) => {
                    self.stage = Stage::Lingering;
                    return Turn::Sleep { until: Some(until) };
                }
                // Somebody else looks again.
                Wait::Until(_) | Wait::Busy => return Turn::Sleep { until: None },
                Wait::No => {}
            }
            let mut news = Vec::new();
            match self.dir.begin_commit(&mut news) {
                Begun::Written(flight) => {
                    self.stage = Stage::Written(flight);
                    return Turn::Again;
                }
                Begun::Failed => {
                    self.tell(news);
                    return Turn::Again;
                }
                Begun::Idle | Begun::Busy => {}
            }
        }
        if self.lifetime.is_stopping() && !self.dir.has_queued() {
            // A ring wakes one of us.
            self.bell.ring();
            self.lifetime.on_loop_ended();
            Turn::Done
        } else {
            Turn::Sleep { until: None }
        }
    }

    fn tell(&self, news: Vec<partition::News>) {
        self.mail.spread(news);
        self.volumes.check_health();
    }
}

impl Worker for Committer {
    fn turn(&mut self) -> Turn {
        match std::mem::take(&mut self.stage) {
            Stage::Looking => self.look(),
            Stage::Lingering => {
                self.volumes.end_linger(self.at);
                self.look()
            }
            Stage::Written(flight) => {
                let synced = flight.sync();
                self.stage = Stage::Synced(flight, synced);
                Turn::Again
            }
            Stage::Synced(flight, synced) => {
                let mut news = Vec::new();
                self.dir.finish(&flight, synced, &mut news);
                self.tell(news);
                Turn::Again
            }
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        self.bell.wait(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::bench::Bench;

    /// Shards and the follower of leaders commit in their own turns as well.
    #[test]
    fn commit_threads_end_though_another_loop_was_at_a_round_when_they_looked() {
        let mut bench = Bench::new();
        bench.create("t", 1);
        bench.append_undurably("t", b"a");
        let shared = Arc::clone(&bench.shard.desk.shared);
        let dir = Arc::clone(&shared.volumes.dirs()[0]);
        let mut news = Vec::new();
        let Begun::Written(flight) = dir.begin_commit(&mut news) else {
            panic!("something is queued");
        };
        bench.append_undurably("t", b"b");
        bench.stop_broker();
        assert!(!bench.ends(), "they wait for the end of the round");
        let synced = flight.sync();
        dir.finish(&flight, synced, &mut news);
        dir.commit(&mut news);
        assert!(!dir.has_queued());
        shared.lifetime.on_loop_ended();
        assert!(bench.ends());
    }
}
