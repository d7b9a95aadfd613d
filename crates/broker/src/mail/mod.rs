//! The mailboxes of one broker's threads.

pub(crate) mod calls;
pub(crate) mod followers;
pub(crate) mod inboxes;
pub(crate) mod question;
pub(crate) mod quorum;

use std::sync::Arc;

use model::InboxId;
use partition::News;

use self::inboxes::{Inboxes, Redeemed};

pub(crate) struct Mail {
    /// For those that wait for something under a ticket.
    pub(crate) inboxes: Inboxes,
    /// Orders for the worker of the quorum.
    pub(crate) quorum: Arc<quorum::Mailbox>,
    /// Requests for other nodes.
    pub(crate) calls: Arc<calls::Mailbox>,
    /// News for the worker that follows leaders.
    pub(crate) followers: Arc<followers::Mailbox>,
}

impl Mail {
    /// With one shard nobody else waits for the disk, so commits need no thread of their own while they are short.
    pub(crate) fn commits_inline(&self) -> bool {
        self.inboxes.shards_count() == 1
    }

    pub(crate) fn put(&self, to: InboxId, redeemed: Redeemed) {
        self.inboxes.put(to, vec![redeemed]);
    }

    /// Puts each piece of news where its ticket waits.
    pub(crate) fn spread(&self, news: Vec<News>) {
        self.inboxes.spread(news);
    }
}
