//! Changes of the metadata: decided on the newest image, written to the metadata log, published when they are durable.
//!
//! Invariant: an image is published only after the records that made it are committed, and images are published in order.
//! A decision sees every change decided before it, durable or not; its answer, even a refusal, waits for those.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use meta::decide::assign_dir::assign_dir;
use meta::decide::register_broker::TRANSACTION_VERSION;
use meta::{Delta, Image, Record, Resource, ResourceKind};
use model::{
    BrokerId, InboxId, Instant, LeaderEpoch, Offset, PartitionIndex, ProducerId, Ticket, WaiterKey,
};
use parking_lot::Mutex;
use partition::dir::Key;
use partition::{Bounds, LogDir, News, Partition};
use raft::{Endpoint, RoleName, SnapshotId, VoterSet};
use wire::{ErrorCode, Uuid};

use crate::control::{Aftermath, Mailbox, Plan, QuorumSight};
use crate::place::Places;
use crate::shared::Shared;

/// The metadata as requests see it, and as changes plan it.
pub(crate) struct Metadata {
    published: ArcSwap<Image>,
    pub(crate) plan: Mutex<Plan>,
    publishing: Mutex<()>,
    pub(crate) places: Places,
    producer_ids: Mutex<Range<i64>>,
    /// Set once, when it is known.
    cluster_id: OnceLock<String>,
    log: Arc<Partition>,
    log_dir: Arc<LogDir>,
    pub(crate) mailbox: Arc<Mailbox>,
    inbox: InboxId,
    /// No other node has a part in this cluster: whatever is decided is decided here. Never true again once it was not.
    is_alone: AtomicBool,
    /// Of this life of the broker.
    incarnation: Uuid,
    /// Clients are served.
    is_serving: AtomicBool,
    /// When the first were, as an [`Instant`].
    serving_since: AtomicU64,
    /// Of the registration that the controller knows; -1 before the first.
    broker_epoch: AtomicI64,
    /// This broker may act as a leader before that [`Instant`], and no longer unless it is heard of.
    leads_until: AtomicU64,
    /// When this broker found that this had passed, as an [`Instant`]; 0 while it has not.
    silent_since: AtomicU64,
    /// While it acts as no leader: when requests that wait are answered next, as an [`Instant`].
    releases_at: AtomicU64,
}

/// The outcome of writing the records of a change.
pub(crate) enum Written {
    /// There are none, and everything that the decision rests on is durable.
    Durable,
    /// The ticket is redeemed when they are committed and published.
    Waits {
        /// There are records.
        writes: bool,
    },
    /// The metadata log is offline, or another node leads it.
    Offline,
}

/// Levels of features that are to be set.
#[derive(Default)]
pub(crate) struct Levels {
    pub(crate) records: Vec<Record>,
    /// `kraft.version` is to be raised to 1.
    pub(crate) makes_dynamic: bool,
}

/// The quorum's part in what features are at.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuorumLevel {
    /// Of `kraft.version`.
    pub(crate) kraft_version: i16,
    pub(crate) voters: Vec<BrokerId>,
}

/// A directory of a partition, on its way to the metadata.
pub(crate) enum Assigned {
    /// Written here, as the record before `end`.
    Written { end: Offset },
    /// Asked of the controller.
    Asked { key: Key, dir: Uuid },
}

impl Metadata {
    pub(crate) fn new(
        plan: Plan,
        places: Places,
        cluster_id: Option<String>,
        (is_alone, incarnation): (bool, Uuid),
        (mailbox, inbox): (Arc<Mailbox>, InboxId),
    ) -> Metadata {
        let log = Arc::clone(&plan.log);
        Metadata {
            published: ArcSwap::new(Arc::clone(&plan.image)),
            log_dir: log.dir(),
            log,
            plan: Mutex::new(plan),
            publishing: Mutex::new(()),
            places,
            producer_ids: Mutex::new(0..0),
            cluster_id: cluster_id.map(OnceLock::from).unwrap_or_default(),
            mailbox,
            inbox,
            is_alone: AtomicBool::new(is_alone),
            incarnation,
            is_serving: AtomicBool::new(is_alone),
            serving_since: AtomicU64::new(0),
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

    /// Another node has a part in this cluster from now on. What a broker among several needs has to be there before.
    pub(crate) fn end_solitude(&self) {
        self.is_alone.store(false, Ordering::Release);
        self.places.have_others();
    }

    /// Ticket of the worker of the quorum.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket {
            inbox: self.inbox,
            key: WaiterKey(0),
            part: 0,
        }
    }

    pub(crate) fn voters(&self) -> VoterSet {
        self.plan.lock().quorum.history().voters().clone()
    }

    fn next_quorum_deadline(&self) -> Option<Instant> {
        self.plan.lock().quorum.next_deadline()
    }

    /// When the quorum, or the active controller, wants to look at the time.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let plan = self.plan.lock();
        let deadlines = [
            plan.quorum.next_deadline(),
            plan.office_deadline(),
            plan.snapshot_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// The level of `kraft.version`, as far as it is committed.
    pub(crate) fn kraft_version(&self) -> i16 {
        self.plan.lock().kraft_version()
    }

    pub(crate) fn is_active(&self) -> bool {
        self.plan.lock().is_active()
    }

    pub(crate) fn is_quorum_due(&self, now: Instant) -> bool {
        self.next_quorum_deadline().is_some_and(|at| at <= now)
    }

    pub(crate) fn is_snapshot_due(&self, now: Instant) -> bool {
        let deadline = self.plan.lock().snapshot_deadline();
        deadline.is_some_and(|at| at <= now)
    }

    pub(crate) fn is_office_due(&self, now: Instant) -> bool {
        let deadline = self.plan.lock().office_deadline();
        deadline.is_some_and(|at| at <= now)
    }

    /// The epoch in which this node leads the metadata log, active or not yet.
    pub(crate) fn led_epoch(&self) -> Option<LeaderEpoch> {
        let plan = self.plan.lock();
        let leads = plan.quorum.role() == RoleName::Leader;
        leads.then(|| plan.quorum.epoch())
    }

    /// True while other nodes have to be notified that this one gives up its office.
    pub(crate) fn is_handing_over(&self) -> bool {
        let role = self.plan.lock().quorum.role();
        matches!(role, RoleName::Leader | RoleName::Resigned)
    }

    /// The newest snapshot of the metadata.
    pub(crate) fn last_snapshot(&self) -> Option<SnapshotId> {
        self.plan.lock().quorum.last_snapshot()
    }

    pub(crate) fn quorum_sight(&self) -> QuorumSight {
        self.plan.lock().sight()
    }

    /// Where the leader of the metadata log is dialled.
    pub(crate) fn controller_endpoint(&self) -> Option<Endpoint> {
        self.plan.lock().quorum.leader()?.1
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

    pub(crate) fn log(&self) -> &Arc<Partition> {
        &self.log
    }

    pub(crate) fn log_dir(&self) -> &LogDir {
        &self.log_dir
    }

    /// How far the metadata log goes.
    pub(crate) fn log_bounds(&self) -> Bounds {
        self.log.bounds()
    }

    pub(crate) fn image(&self) -> Arc<Image> {
        self.published.load_full()
    }
}

/// So long a broker that may not act as a leader any more waits for the controller's word before it says so: after a pause of all of them it
/// mostly is a leader still.
const WORD_WAIT: Duration = Duration::from_millis(500);

/// Requests that wait at a broker that acts as no leader are looked for this often.
const RELEASE_EVERY: Duration = Duration::from_millis(100);

/// A cluster that has just begun is whole by then, or waits for somebody who is long in coming.
const GATHERING_MAX: Duration = Duration::from_secs(5);

impl Shared {
    /// True while a new cluster gathers: topics that come to be by the way would get fewer replicas than they could have, and keep them.
    pub(crate) fn awaits_brokers(&self) -> bool {
        let since = Instant(self.metadata.serving_since.load(Ordering::Acquire));
        let voters = self.config().broker.quorum.voters.len();
        let image = self.metadata.image();
        let active_count = image.brokers().filter(|broker| broker.is_active()).count();
        self.env.clock.now() < since.plus(GATHERING_MAX) && active_count < voters
    }

    /// True while the controller may have made others leaders without this broker's knowledge: it could not reach the controller for
    /// most of its session. Looks at the clock, not at the time of a turn: a process that was stopped goes on in the middle of one.
    pub(crate) fn is_self_fenced(&self) -> bool {
        let metadata = &self.metadata;
        !metadata.is_alone()
            && Instant(metadata.leads_until.load(Ordering::Acquire)) <= self.env.clock.now()
    }

    /// While this broker acts as no leader and the controller may say in a moment that it is one still: until when. Records are not refused so
    /// long, and not taken either. A client takes a refusal for a promise that the record is not stored, though it may be, and some send it again
    /// under a new epoch of their producer.
    pub(crate) fn awaits_word_until(&self) -> Option<Instant> {
        let metadata = &self.metadata;
        let may_lead = metadata.leads_until().is_some();
        if !may_lead || !metadata.is_serving() || !self.is_self_fenced() {
            return None;
        }
        let now = self.env.clock.now();
        let order = Ordering::AcqRel;
        let since = (metadata.silent_since).compare_exchange(0, now.0, order, Ordering::Acquire);
        if since.is_ok() && !self.is_self_fenced() {
            // The word has come meanwhile. The next silence would begin with this time, and be taken for a long one at once.
            metadata.silent_since.store(0, Ordering::Release);
            return None;
        }
        let until = Instant(since.map_or_else(|since| since, |_| now.0)).plus(WORD_WAIT);
        (now < until).then_some(until)
    }

    /// Where this broker acts as no leader, requests that wait for what it leads are answered so, as those are that come now. Again and
    /// again: a request that was let in a moment before begins to wait a moment after. Shards do it, one of them at a time, because the
    /// thread that hears the controller may wait for a disk just then.
    pub(crate) fn release_waiting(&self) {
        let awaits_word = self.awaits_word_until().is_some();
        let is_silent = self.metadata.is_serving() && self.is_self_fenced();
        if awaits_word || !is_silent {
            return;
        }
        let now = self.env.clock.now();
        let at = self.metadata.releases_at.load(Ordering::Acquire);
        let is_due = Instant(at) <= now;
        let next = now.plus(RELEASE_EVERY).0;
        let order = Ordering::AcqRel;
        let releases_at = &self.metadata.releases_at;
        if !is_due || (releases_at.compare_exchange(at, next, order, Ordering::Relaxed)).is_err() {
            return;
        }
        let me = self.config().broker.node_id;
        let mut news = Vec::new();
        for topic in self.topics().sorted() {
            for (partition, _) in topic.led_by(me) {
                partition.release_waiting(&mut news);
            }
        }
        self.spread(news);
    }

    /// When [`Shared::release_waiting`] may have something to do, unless the controller answers before.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        if self.metadata.is_alone() || !self.metadata.is_serving() {
            return None;
        }
        let releases_at = Instant(self.metadata.releases_at.load(Ordering::Acquire));
        let until = Instant(self.metadata.leads_until.load(Ordering::Acquire));
        let word_until = self.awaits_word_until();
        Some(until.max(releases_at).max(word_until.unwrap_or(until)))
    }

    /// Decides on the newest image and writes the records. With `is_stuck` none are written: the change waits for its time to be up.
    pub(crate) fn change<T>(
        &self,
        ticket: Ticket,
        is_stuck: bool,
        decide: impl FnOnce(&Image, &Shared) -> (Vec<Record>, T),
    ) -> (T, Written) {
        let mut plan = self.metadata.plan.lock();
        let broker = Arc::clone(&self.config().broker);
        let usable = self.metadata.places.usable(&plan.image, &broker);
        let (mut records, answer) = decide(&usable, self);
        let is_usable = |id| (self.dirs().iter()).any(|dir| dir.id == id && !dir.is_failed());
        (self.moves).prefer_dirs(broker.node_id, &plan.image, &mut records, is_usable);
        let writes = !records.is_empty();
        if is_stuck && writes {
            return (answer, Written::Waits { writes: false });
        }
        let mut aftermath = Aftermath::default();
        let written = plan.write_for(self, ticket, &records, &mut aftermath);
        drop(plan);
        self.conclude(aftermath);
        (answer, written)
    }

    /// Decides on levels of features, as [`Shared::change`] decides. One of them may be `kraft.version`, which the quorum raises in a
    /// batch of its own: that comes first, and where it is refused nothing is written.
    pub(crate) fn change_features<T>(
        &self,
        ticket: Ticket,
        decide: impl FnOnce(&Image, &Shared, &QuorumLevel) -> (Levels, T),
        refuse: impl FnOnce(String) -> T,
    ) -> (T, Written) {
        let mut plan = self.metadata.plan.lock();
        let image = Arc::clone(&plan.image);
        let (levels, mut answer) = decide(&image, self, &plan.quorum_level());
        let mut aftermath = Aftermath::default();
        let mut records = levels.records;
        if levels.makes_dynamic
            && let Err(why) = plan.make_dynamic(self, &mut aftermath)
        {
            answer = refuse(why);
            records = Vec::new();
        }
        let written = plan.write_for(self, ticket, &records, &mut aftermath);
        drop(plan);
        self.conclude(aftermath);
        (answer, written)
    }

    /// A producer id that nobody had before; `None` until a new block is durable.
    pub(crate) fn take_producer_id(&self) -> Option<ProducerId> {
        self.metadata.producer_ids.lock().next().map(ProducerId)
    }

    /// Writes records before the broker serves anyone; commits them itself.
    pub(crate) fn change_at_start(&self, records: &[Record]) -> Result<(), ErrorCode> {
        if records.is_empty() {
            return Ok(());
        }
        let mut aftermath = Aftermath::default();
        (self.metadata.plan.lock()).write(self, records, &mut aftermath)?;
        self.conclude(aftermath);
        self.commit_at_start()
    }

    /// Commits the metadata log while no loop runs that does.
    pub(crate) fn commit_at_start(&self) -> Result<(), ErrorCode> {
        let mut news = Vec::new();
        let dir = Arc::clone(&self.metadata.log_dir);
        while dir.has_queued() && !dir.is_failed() {
            dir.commit(&mut news);
        }
        self.spread(news);
        if dir.is_failed() || dir.lacks_room() {
            return Err(ErrorCode::KafkaStorageError);
        }
        self.on_metadata_synced();
        Ok(())
    }

    /// Has a commit thread take what the quorum appended; shards see to their own appends.
    pub(crate) fn commit_metadata(&self) {
        let dir = &self.metadata.log_dir;
        if dir.has_queued()
            && let Some(at) = self.dirs().iter().position(|known| Arc::ptr_eq(known, dir))
        {
            self.ring_committer(at);
        }
    }

    /// Notes where a partition lives from now on, as soon as that is durable. `None`: there is no such partition any more.
    pub(crate) fn assign_dir(
        &self,
        topic: Uuid,
        index: PartitionIndex,
        dir: Uuid,
    ) -> Result<Option<Assigned>, ErrorCode> {
        let node = self.config().broker.node_id;
        if !self.metadata.is_alone() {
            let key = (topic, index);
            if self.metadata.image().directory(key, node).is_none() {
                return Ok(None);
            }
            self.moves.ask(key, dir);
            self.replication().on_topics([topic]);
            return Ok(Some(Assigned::Asked { key, dir }));
        }
        let mut plan = self.metadata.plan.lock();
        let Some(record) = assign_dir(&plan.image, node, topic, index, dir) else {
            return Ok(None);
        };
        let mut aftermath = Aftermath::default();
        let written = plan.write(self, &[record], &mut aftermath);
        let end = plan.log.bounds().log_end;
        drop(plan);
        self.conclude(aftermath);
        written.map(|()| Some(Assigned::Written { end }))
    }

    /// True if the assignment is durable, or the replica is gone; `None` when that cannot be known any more.
    pub(crate) fn is_assigned(&self, assigned: &Assigned, news: &mut Vec<News>) -> Option<bool> {
        let end = match assigned {
            Assigned::Written { end } => *end,
            Assigned::Asked { key, dir } => {
                let node = self.config().broker.node_id;
                let named = self.metadata.image().directory(*key, node);
                let is_assigned = named.is_none_or(|named| named == *dir);
                return (is_assigned || !self.is_stopping()).then_some(is_assigned);
            }
        };
        let dir = &self.metadata.log_dir;
        dir.commit(news);
        self.on_metadata_synced();
        let is_durable = end <= self.metadata.log_bounds().high_watermark;
        let is_stuck = dir.is_failed() || self.is_stopping() && dir.lacks_room();
        (is_durable || !is_stuck).then_some(is_durable)
    }

    /// Makes a durable image the one that requests see: partitions come and go, settings take effect.
    pub(crate) fn publish(&self, image: Arc<Image>, news: &mut Vec<News>) {
        let _one_at_a_time = self.metadata.publishing.lock();
        let old = self.metadata.published.load_full();
        if image.end() <= old.end() {
            return;
        }
        let delta = Delta::between(&old, &image);
        (self.counts).on_published(&delta, self.config().broker.node_id);
        let gone = delta.deleted.iter().map(|deleted| deleted.topic.id);
        let changed = delta.changed.iter().map(|changed| changed.new.id);
        let created = delta.created.iter().map(|topic| topic.id);
        let mut followed: Vec<Uuid> = gone.chain(created).chain(changed).collect();
        let have_brokers_changed = !delta.brokers.is_empty();
        let before = Arc::clone(&self.config().broker);
        self.publish_settings(&image, &delta);
        let unclean = "unclean.leader.election.enable";
        let has_unclean_changed =
            (delta.configs.iter()).any(|change| change.old.get(unclean) != change.new.get(unclean));
        let own = image.broker(self.config().broker.node_id);
        let is_member = own.is_some_and(|own| own.incarnation == self.metadata.incarnation);
        if is_member && self.metadata.places.join() {
            followed.extend(image.topics().map(|topic| topic.id));
            self.publish_topics(&image, &delta, image.topics(), news);
        } else if delta.has_topics() {
            let changed = delta.changed.iter().map(|changed| &changed.new);
            let topics = delta.created.iter().chain(changed);
            self.publish_topics(&image, &delta, topics, news);
        }
        let broker = Arc::clone(&self.config().broker);
        if broker.topic == before.topic {
            let changed = delta.configs_of(ResourceKind::Topic);
            let names = changed.map(|change| change.resource.name.as_str());
            self.configure(&image, names, news);
        } else {
            let names = image.topics().map(|topic| topic.name.as_ref());
            self.configure(&image, names, news);
        }
        // Among several brokers each takes its own blocks from the controller.
        if self.metadata.is_alone() && !delta.producer_ids.is_empty() {
            *self.metadata.producer_ids.lock() = delta.producer_ids;
        }
        self.metadata.published.store(image);
        if has_unclean_changed {
            self.look_for_unclean();
        }
        // Followers look leaders up in what is published.
        if !self.metadata.is_alone() {
            self.replication().on_topics(followed);
            if have_brokers_changed {
                self.replication().on_brokers();
            }
        }
    }

    /// Settings of this broker, of all brokers and of groups.
    fn publish_settings(&self, image: &Image, delta: &Delta) {
        let before = Arc::clone(&self.config().broker);
        let (own, cluster) = (Resource::broker(before.node_id), Resource::cluster());
        if delta.has_config(&own)
            || delta.has_config(&cluster)
            || delta.configs_of(ResourceKind::Group).next().is_some()
            || delta.has_feature(TRANSACTION_VERSION)
        {
            let broker = before.with_dynamic(image.overrides(&cluster), image.overrides(&own));
            if let Some(why) = &broker.passed_over {
                tracing::warn!(target: env::logs::METADATA, "{why}");
            }
            if let (None, Some(cost)) = (before.warning_of_unclean(), broker.warning_of_unclean()) {
                tracing::warn!(target: env::logs::METADATA, "{cost}");
            }
            self.set_config(crate::settings::Settings::new(broker, image));
        }
    }

    /// Opens `touched` topics as the metadata have them, and drops those that are gone.
    fn publish_topics<'a>(
        &self,
        image: &Image,
        delta: &Delta,
        touched: impl Iterator<Item = &'a Arc<meta::Topic>>,
        news: &mut Vec<News>,
    ) {
        let broker = Arc::clone(&self.config().broker);
        let mut topics = (*self.topics()).clone();
        for deleted in &delta.deleted {
            let gone = topics.remove(deleted.topic.id);
            self.throttles.forget(deleted.topic.id);
            self.metadata.places.forget(deleted.topic.id);
            for partition in gone.iter().flat_map(|topic| topic.here()) {
                partition.delete(news);
                partition.discard();
            }
        }
        for topic in touched {
            let overrides = image.overrides(&Resource::topic(&topic.name));
            let known = topics.with_id(topic.id);
            let places = &self.metadata.places;
            let open = places.open(topic, &overrides, &broker, known, news);
            topics.insert(Arc::new(open));
        }
        self.set_topics(topics);
    }

    /// Gives the partitions of topics the settings that the image has for them.
    fn configure<'a>(
        &self,
        image: &Image,
        names: impl Iterator<Item = &'a str>,
        news: &mut Vec<News>,
    ) {
        let broker = Arc::clone(&self.config().broker);
        let topics = self.topics();
        for topic in names.filter_map(|name| topics.named(name)) {
            let overrides = image.overrides(&Resource::topic(&topic.name));
            let config = crate::settings::log_config_of(&topic.name, &overrides, &broker);
            self.throttles.configure(topic.id, &overrides);
            for partition in topic.here() {
                partition.set_config(Arc::clone(&config), news);
            }
        }
    }
}

/// The metadata log is partition 0 of a topic that no client sees.
pub(crate) const METADATA_PARTITION: PartitionIndex = PartitionIndex(0);
pub(crate) const METADATA_TOPIC: &str = "__cluster_metadata";
