//! Mail for the worker that follows leaders.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::Wake;
use model::{BrokerId, Instant};
use parking_lot::Mutex;
use partition::Partition;
use wire::Uuid;

use crate::mail::inboxes::{Inbox, Redeemed};

/// The mail since the worker looked last.
#[derive(Default)]
pub(crate) struct Mail {
    /// Topics whose partitions may have other leaders, or none of which is left.
    pub(crate) topics: Vec<Uuid>,
    /// Partitions that this broker leads and of which a follower has caught up.
    pub(crate) caught_up: Vec<Arc<Partition>>,
    /// Brokers were fenced, or came back: others may be fit for an ISR.
    pub(crate) have_brokers_changed: bool,
    pub(crate) redeemed: Vec<Redeemed>,
}

impl Mail {
    fn is_empty(&self) -> bool {
        self.topics.is_empty()
            && self.caught_up.is_empty()
            && self.redeemed.is_empty()
            && !self.have_brokers_changed
    }
}

pub(crate) struct Mailbox {
    mail: Mutex<Mail>,
    /// When each follower fetched last.
    heard: Mutex<BTreeMap<BrokerId, Instant>>,
    waker: Arc<dyn Wake>,
}

impl Mailbox {
    pub(crate) fn new(waker: Arc<dyn Wake>) -> Mailbox {
        Mailbox {
            mail: Mutex::default(),
            heard: Mutex::default(),
            waker,
        }
    }

    fn put_in(&self, put: impl FnOnce(&mut Mail)) {
        let mut mail = self.mail.lock();
        let was_empty = mail.is_empty();
        put(&mut mail);
        let is_first = was_empty && !mail.is_empty();
        drop(mail);
        if is_first {
            self.waker.wake();
        }
    }

    /// The metadata changed these topics.
    pub(crate) fn on_topics(&self, topics: impl IntoIterator<Item = Uuid>) {
        self.put_in(|mail| mail.topics.extend(topics));
    }

    /// The metadata have other brokers, or other states of them.
    pub(crate) fn on_brokers(&self) {
        self.put_in(|mail| mail.have_brokers_changed = true);
    }

    /// A follower of this partition may join the ISR.
    pub(crate) fn on_caught_up(&self, partition: Arc<Partition>) {
        self.put_in(|mail| mail.caught_up.push(partition));
    }

    /// A follower has fetched.
    pub(crate) fn on_heard(&self, follower: BrokerId, now: Instant) {
        self.heard.lock().insert(follower, now);
    }

    pub(crate) fn heard(&self) -> BTreeMap<BrokerId, Instant> {
        self.heard.lock().clone()
    }

    pub(crate) fn take(&self) -> Mail {
        std::mem::take(&mut *self.mail.lock())
    }

    /// The broker stops.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }
}

impl Inbox for Mailbox {
    fn put(&self, redeemed: Vec<Redeemed>) {
        self.put_in(|mail| mail.redeemed.extend(redeemed));
    }
}
