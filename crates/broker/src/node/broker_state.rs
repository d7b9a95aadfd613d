//! This broker in its cluster, as far as all threads ask for it: alone or not, registered, heard, a leader or silent.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use env::Clock;
use model::{Instant, ProducerId};
use parking_lot::Mutex;
use wire::{ErrorCode, Uuid};

use super::catalog::Catalog;

pub(crate) struct BrokerState {
    clock: Arc<dyn Clock>,
    /// Of this life of the broker.
    pub(crate) incarnation: Uuid,
    /// No other node has a part in this cluster: whatever is decided is decided here. Never true again once it was not.
    is_alone: AtomicBool,
    /// Set once, when it is known.
    cluster_id: OnceLock<String>,
    producer_ids: Mutex<Range<i64>>,
    /// Clients are served.
    is_serving: AtomicBool,
    /// When the first were, as an [`Instant`].
    serving_since: AtomicU64,
    /// Why the controller does not register this broker, where it is refused for what it is.
    refusal: Mutex<Option<ErrorCode>>,
    /// Of the registration that the controller knows; -1 before the first.
    broker_epoch: AtomicI64,
    /// This broker may act as a leader before that [`Instant`], and no longer unless it is heard of.
    leads_until: AtomicU64,
    /// When this broker found that this had passed, as an [`Instant`]; 0 while it has not.
    silent_since: AtomicU64,
    /// While it acts as no leader: when requests that wait are answered next, as an [`Instant`].
    releases_at: AtomicU64,
}

/// So long a broker that may not act as a leader any more waits for the controller's word before it says so: after a pause of all of them it
/// mostly is a leader still.
const WORD_WAIT: Duration = Duration::from_millis(500);

/// Requests that wait at a broker that acts as no leader are looked for this often.
const RELEASE_EVERY: Duration = Duration::from_millis(100);

/// A cluster that has just begun is whole by then, or waits for somebody who is long in coming.
const GATHERING_MAX: Duration = Duration::from_secs(5);

impl BrokerState {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        cluster_id: Option<String>,
        (is_alone, incarnation): (bool, Uuid),
    ) -> BrokerState {
        BrokerState {
            clock,
            incarnation,
            is_alone: AtomicBool::new(is_alone),
            cluster_id: cluster_id.map(OnceLock::from).unwrap_or_default(),
            producer_ids: Mutex::new(0..0),
            is_serving: AtomicBool::new(is_alone),
            serving_since: AtomicU64::new(0),
            refusal: Mutex::new(None),
            broker_epoch: AtomicI64::new(-1),
            leads_until: AtomicU64::new(0),
            silent_since: AtomicU64::new(0),
            releases_at: AtomicU64::new(0),
        }
    }

    /// The id of the cluster; empty where this node is of none yet.
    pub(crate) fn cluster_id(&self) -> &str {
        self.cluster_id.get().map_or("", String::as_str)
    }

    /// The id of the cluster is in the directory of the metadata log.
    pub(crate) fn set_cluster_id(&self, cluster_id: &str) {
        let known = self.cluster_id.get_or_init(|| cluster_id.to_owned());
        assert!(
            known == cluster_id,
            "a node has the id of one cluster in its life"
        );
    }

    /// True while no other node has a part in this cluster.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Acquire)
    }

    /// Another node has a part in this cluster from now on. The things that a broker among several needs have to be there before.
    pub(crate) fn end_solitude(&self) {
        self.is_alone.store(false, Ordering::Release);
    }

    /// Why the controller does not register this broker, where asking again does not change that.
    pub(crate) fn refusal(&self) -> Option<ErrorCode> {
        *self.refusal.lock()
    }

    pub(crate) fn set_refusal(&self, code: Option<ErrorCode>) {
        *self.refusal.lock() = code;
    }

    /// True once clients may come: in a cluster of several when the controller counts this broker in.
    pub(crate) fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(crate) fn await_serving(&self) {
        self.is_serving.store(false, Ordering::Release);
    }

    pub(crate) fn set_serving(&self, now: Instant) {
        self.serving_since.store(now.0, Ordering::Release);
        self.is_serving.store(true, Ordering::Release);
    }

    pub(crate) fn broker_epoch(&self) -> i64 {
        self.broker_epoch.load(Ordering::Acquire)
    }

    pub(crate) fn set_broker_epoch(&self, epoch: i64) {
        self.broker_epoch.store(epoch, Ordering::Release);
    }

    /// Until when this broker may act as a leader; `None` where it may not at all.
    pub(crate) fn leads_until(&self) -> Option<Instant> {
        let until = self.leads_until.load(Ordering::Acquire);
        (0 < until).then_some(Instant(until))
    }

    /// `None`: it may not.
    pub(crate) fn set_leads_until(&self, until: Option<Instant>) {
        let until = until.map_or(0, |until| until.0);
        if self.leads_until.swap(until, Ordering::AcqRel) != until {
            self.silent_since.store(0, Ordering::Release);
        }
    }

    /// A block of ids that the controller gave to this broker.
    pub(crate) fn add_producer_ids(&self, block: Range<i64>) {
        let mut ids = self.producer_ids.lock();
        // Two requests may have asked; one block is lost, as Kafka loses it.
        if ids.is_empty() {
            *ids = block;
        }
    }

    /// The block of ids that a broker alone takes for itself.
    pub(crate) fn set_producer_ids(&self, block: Range<i64>) {
        *self.producer_ids.lock() = block;
    }

    /// A producer id that nobody had before; `None` until a new block is durable.
    pub(crate) fn take_producer_id(&self) -> Option<ProducerId> {
        self.producer_ids.lock().next().map(ProducerId)
    }

    /// True while a new cluster gathers: topics that come to be by the way would get fewer replicas than they could have, and keep them.
    pub(crate) fn awaits_brokers(&self, catalog: &Catalog) -> bool {
        let since = Instant(self.serving_since.load(Ordering::Acquire));
        let voters = catalog.settings().broker.quorum.voters.len();
        let image = catalog.image();
        let active_count = image.brokers().filter(|broker| broker.is_active()).count();
        self.clock.now() < since.plus(GATHERING_MAX) && active_count < voters
    }

    /// True while the controller may have made others leaders without this broker's knowledge: it could not reach the controller for
    /// most of its session. Looks at the clock, not at the time of a turn: a process that was stopped goes on in the middle of one.
    pub(crate) fn is_self_fenced(&self) -> bool {
        !self.is_alone() && Instant(self.leads_until.load(Ordering::Acquire)) <= self.clock.now()
    }

    /// While this broker acts as no leader and the controller may say in a moment that it is one still: until when. Records are not refused so
    /// long, and not taken either. A client takes a refusal for a promise that the record is not stored, though it may be, and some send it again
    /// under a new epoch of their producer.
    pub(crate) fn awaits_word_until(&self) -> Option<Instant> {
        let may_lead = self.leads_until().is_some();
        if !may_lead || !self.is_serving() || !self.is_self_fenced() {
            return None;
        }
        let now = self.clock.now();
        let order = Ordering::AcqRel;
        let since = (self.silent_since).compare_exchange(0, now.0, order, Ordering::Acquire);
        if since.is_ok() && !self.is_self_fenced() {
            // The word has come meanwhile. The next silence would begin with this time, and be taken for a long one at once.
            self.silent_since.store(0, Ordering::Release);
            return None;
        }
        let until = Instant(since.map_or_else(|since| since, |_| now.0)).plus(WORD_WAIT);
        (now < until).then_some(until)
    }

    /// True if this broker acts as no leader and requests that wait for what it leads are to be answered so now, as those are that come now.
    /// Again and again: a request that was let in a moment before begins to wait a moment after. Shards do it, one of them at a time,
    /// because the thread that hears the controller may wait for a disk just then.
    pub(crate) fn takes_release(&self) -> bool {
        let awaits_word = self.awaits_word_until().is_some();
        let is_silent = self.is_serving() && self.is_self_fenced();
        if awaits_word || !is_silent {
            return false;
        }
        let now = self.clock.now();
        let at = self.releases_at.load(Ordering::Acquire);
        let next = now.plus(RELEASE_EVERY).0;
        let order = Ordering::AcqRel;
        let is_due = Instant(at) <= now;
        is_due
            && (self
                .releases_at
                .compare_exchange(at, next, order, Ordering::Relaxed))
            .is_ok()
    }

    /// When [`BrokerState::takes_release`] may be true, unless the controller answers before.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        if self.is_alone() || !self.is_serving() {
            return None;
        }
        let releases_at = Instant(self.releases_at.load(Ordering::Acquire));
        let until = Instant(self.leads_until.load(Ordering::Acquire));
        let word_until = self.awaits_word_until();
        Some(until.max(releases_at).max(word_until.unwrap_or(until)))
    }
}
