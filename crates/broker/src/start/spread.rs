//! News of threads that wait for nothing themselves.

use std::sync::{Arc, Weak};

use partition::{Announce, News};

use crate::mail::Mail;
use crate::node::Volumes;

/// News of the segment writers, on their way to the shards.
pub(super) struct Spread {
    pub(super) mail: Arc<Mail>,
    /// They have the threads that announce.
    pub(super) volumes: Weak<Volumes>,
}

impl Announce for Spread {
    fn announce(&self, news: Vec<News>) {
        self.mail.spread(news);
        if let Some(volumes) = self.volumes.upgrade() {
            volumes.check_health();
        }
    }
}
