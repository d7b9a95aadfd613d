//! The commit thread of one log directory: takes rounds when shards do not commit themselves.
//!
//! Sleeps until rung. After each round it looks at the queue again, so that a shard that found it at work may go on.

use std::sync::Arc;

use env::{Bell, Turn, Worker};
use model::Instant;
use partition::{Commit, LogDir};

use crate::shared::Shared;

pub(crate) struct Committer {
    /// Which of the directories.
    pub(crate) at: usize,
    pub(crate) dir: Arc<LogDir>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) bell: Arc<dyn Bell>,
}

impl Worker for Committer {
    fn turn(&mut self) -> Turn {
        self.shared.set_lingering(self.at, false);
        while self.dir.has_queued() {
            if let Some(until) = self.dir.commit_wait(self.shared.env.clock.now()) {
                self.shared.set_lingering(self.at, true);
                return Turn::Sleep { until: Some(until) };
            }
            let mut news = Vec::new();
            let done = self.dir.commit(&mut news);
            self.shared.spread(news);
            self.shared.check_health();
            if done != Commit::Done {
                break;
            }
        }
        if self.shared.is_stopping() && !self.dir.has_queued() {
            self.shared.on_loop_ended();
            Turn::Done
        } else {
            Turn::Sleep { until: None }
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        self.bell.wait(until);
    }
}
