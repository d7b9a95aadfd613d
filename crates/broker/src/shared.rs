//! State that all shards of one broker share: settings, partitions, directories, and the way from one shard to another.
//!
//! Snapshots are read without a lock; posts between shards are rare (a commit that another shard waited for, a new socket)
//! and come with one wake-up each batch.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use env::{Bell, Env};
use log::journal::SYNCS_MAX;
use model::{BrokerId, InboxId, Instant};
use parking_lot::Mutex;
use partition::{Cleaning, LogDir, News, Residents, Wait};
use raft::Endpoint;
use wire::ApiKey;

use crate::connection_counts::Crowd;
use crate::event_loop::memory::Budget;
use crate::inboxes::{Inboxes, Post, Redeemed, ShardId};
use crate::memory_use::{Held, Row};
use crate::metadata::Metadata;
use crate::metrics::counts::NodeCounts;
use crate::metrics::lag::Committed;
use crate::metrics::meter::Meter;
use crate::metrics::software::Software;
use crate::moves::Moves;
use crate::reads::ReaderPool;
use crate::replication;
use crate::settings::Settings;
use crate::telemetry::Telemetry;
use crate::topics::Topics;

/// Connections of other nodes that may be open beyond those that clients may have: a dozen of each, of ten nodes.
const NODES_BEYOND_MAX: usize = 120;

pub(crate) struct Shared {
    pub(crate) env: Env,
    pub(crate) metadata: Metadata,
    pub(crate) readers: Arc<ReaderPool>,
    pub(crate) moves: Moves,
    /// Set once, when the loops start.
    cleaning: OnceLock<Arc<Cleaning>>,
    settings: ArcSwap<Settings>,
    topics: ArcSwap<Topics>,
    dirs: Vec<Arc<LogDir>>,
    /// The partitions in each of them: this keeps them alive.
    residents: Vec<Arc<Residents>>,
    committers: Vec<Arc<dyn Bell>>,
    replication: Arc<replication::Mailbox>,
    pub(crate) throttles: replication::Throttles,
    /// By directory: a commit thread waits for company, and knows until when.
    lingering: Vec<AtomicBool>,
    inboxes: Inboxes,
    next_shard: AtomicUsize,
    crowd: Mutex<Crowd>,
    pub(crate) telemetry: Mutex<Telemetry>,
    /// For requests that are not whole.
    pub(crate) unfinished: Arc<Budget>,
    /// By shard.
    held: Vec<Row>,
    meters: Vec<Meter>,
    pub(crate) counts: NodeCounts,
    /// Offsets that the groups of each shard have committed, as of its last look.
    committed: Vec<Mutex<Vec<Committed>>>,
    /// Somebody may ask for metrics.
    is_watched: AtomicBool,
    /// So many directories had failed at the last look, and the controller of the cluster is to be told of another one.
    failed_dirs: AtomicUsize,
    has_dir_news: AtomicBool,
    pub(crate) software: Mutex<Software>,
    pub(crate) started_at: Instant,
    /// Shards, commit threads, the follower of leaders and the mover: those that have not ended.
    loops: AtomicUsize,
    /// Shards that have not ended: the quorum works as long, so that what they wait for is committed.
    shards: AtomicUsize,
    /// The broker is asked to stop, and reports that to its cluster first.
    leaving: AtomicBool,
    stopping: AtomicBool,
    failure: Mutex<Option<String>>,
}

fn set_dirs(residents: &[Arc<Residents>], settings: &Settings) {
    let expiration_ms = settings.dir().producer_expiration_ms;
    (residents.iter()).for_each(|of| of.set_producer_expiration(expiration_ms));
}

impl Shared {
    pub(crate) fn new(
        env: Env,
        settings: Settings,
        metadata: Metadata,
        topics: Topics,
        residents: Vec<Arc<Residents>>,
        committers: Vec<Arc<dyn Bell>>,
        (inboxes, replication): (Inboxes, Arc<replication::Mailbox>),
    ) -> Shared {
        let shards = inboxes.shards_count();
        let movers = usize::from(residents.len() > 1);
        // And the worker that follows leaders.
        let loops = shards + committers.len() * SYNCS_MAX + movers + 1;
        let started_at = env.clock.now();
        let unfinished = Budget::new(settings.request_bytes_max / 2, shards);
        // They were opened before the settings that the metadata hold were known.
        set_dirs(&residents, &settings);
        let throttles =
            replication::Throttles::new(&settings.broker, &metadata.image(), started_at);
        let dirs: Vec<_> = residents.iter().map(|of| Arc::clone(&of.dir)).collect();
        Shared {
            readers: Arc::new(ReaderPool::new(env.threads.bell())),
            moves: Moves::new(env.threads.bell()),
            env,
            metadata,
            cleaning: OnceLock::new(),
            settings: ArcSwap::from_pointee(settings),
            topics: ArcSwap::from_pointee(topics),
            lingering: dirs.iter().map(|_| AtomicBool::new(false)).collect(),
            dirs,
            residents,
            committers,
            replication,
            throttles,
            inboxes,
            next_shard: AtomicUsize::new(0),
            crowd: Mutex::default(),
            telemetry: Mutex::default(),
            unfinished: Arc::new(unfinished),
            held: (0..shards).map(|_| Row::default()).collect(),
            meters: (0..shards).map(|_| Meter::default()).collect(),
            counts: NodeCounts::default(),
            committed: (0..shards).map(|_| Mutex::default()).collect(),
            is_watched: AtomicBool::new(false),
            failed_dirs: AtomicUsize::new(0),
            has_dir_news: AtomicBool::new(false),
            software: Mutex::default(),
            started_at,
            loops: AtomicUsize::new(loops),
            shards: AtomicUsize::new(shards),
            leaving: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    pub(crate) fn config(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    pub(crate) fn set_cleaning(&self, cleaning: Arc<Cleaning>) {
        let is_first = self.cleaning.set(cleaning).is_ok();
        assert!(is_first, "cleaners are made once");
    }

    pub(crate) fn set_config(&self, settings: Settings) {
        if let Some(cleaning) = self.cleaning.get() {
            cleaning.set_settings(settings.cleaner());
        }
        set_dirs(&self.residents, &settings);
        self.throttles.set_rates(&settings.broker);
        self.settings.store(Arc::new(settings));
    }

    pub(crate) fn dirs(&self) -> &[Arc<LogDir>] {
        &self.dirs
    }

    /// A volume takes names that differ in case alone for one.
    pub(crate) fn folds_names(&self) -> bool {
        self.dirs.iter().any(|dir| dir.folds_names)
    }

    /// In the order of the directories.
    pub(crate) fn residents(&self) -> &[Arc<Residents>] {
        &self.residents
    }

    pub(crate) fn topics(&self) -> Arc<Topics> {
        self.topics.load_full()
    }

    /// Replaces `known` if there is a newer snapshot; costs one load when there is none.
    pub(crate) fn refresh_topics(&self, known: &mut Arc<Topics>) {
        let current = self.topics.load();
        if !Arc::ptr_eq(&current, known) {
            *known = Arc::clone(&current);
        }
    }

    /// Coordinators come and go with leaders, which in a cluster change while nobody asks this broker for anything.
    pub(crate) fn set_topics(&self, topics: Topics) {
        self.topics.store(Arc::new(topics));
        if !self.metadata.is_alone() {
            self.inboxes.wake_shards();
        }
    }

    pub(crate) fn shards_count(&self) -> usize {
        self.inboxes.shards_count()
    }

    /// With one shard nobody else waits for the disk, so commits need no thread of their own while they are short.
    pub(crate) fn commits_inline(&self) -> bool {
        self.shards_count() == 1
    }

    /// Notifies the commit threads that something is queued; not while one waits for more of that, or all are at work.
    pub(crate) fn ring_committer(&self, dir: usize) {
        let waits = match self.dirs[dir].commit_wait(self.env.clock.now()) {
            // It sets the mark (1) before it sleeps and takes it away (2) before it looks at the queue: when we see the mark,
            // what we queued comes before that look.
            Wait::Until(_) => self.lingering[dir].load(Ordering::SeqCst),
            Wait::Busy => true,
            Wait::No => false,
        };
        if !waits {
            self.committers[dir].ring();
        }
    }

    /// A commit thread waits for company, unless another one does already.
    pub(crate) fn linger(&self, dir: usize) -> bool {
        !self.lingering[dir].swap(true, Ordering::SeqCst)
    }

    pub(crate) fn end_linger(&self, dir: usize) {
        self.lingering[dir].store(false, Ordering::SeqCst);
    }

    pub(crate) fn inboxes(&self) -> &Inboxes {
        &self.inboxes
    }

    /// The mail of the worker that follows leaders.
    pub(crate) fn replication(&self) -> &replication::Mailbox {
        &self.replication
    }

    pub(crate) fn post(&self, to: ShardId, post: Post) {
        self.inboxes.post(to, post);
    }

    pub(crate) fn take_posts(&self, shard: ShardId) -> Vec<Post> {
        self.inboxes.take_posts(shard)
    }

    pub(crate) fn put(&self, to: InboxId, redeemed: Redeemed) {
        self.inboxes.put(to, vec![redeemed]);
    }

    /// Puts each piece of news where its ticket waits.
    pub(crate) fn spread(&self, news: Vec<News>) {
        self.inboxes.spread(news);
    }

    /// Which shard takes the next connection: one after the other.
    pub(crate) fn place(&self, accepting: ShardId) -> ShardId {
        match self.shards_count() {
            1 => accepting,
            count => ShardId((self.next_shard.fetch_add(1, Ordering::Relaxed) % count) as u16),
        }
    }

    /// Connections that may be open: `max.connections`, or fewer where the limit of open files leaves no room for so many.
    pub(crate) fn connections_max(&self) -> usize {
        self.settings.load().connections_max
    }

    /// True if one more connection may be open.
    pub(crate) fn has_room_for_connection(&self) -> bool {
        self.crowd.lock().total() < self.connections_max()
    }

    /// True if one more connection of another node may be open: these have places beyond those that clients may take.
    pub(crate) fn has_room_for_node(&self) -> bool {
        self.crowd.lock().total() < self.connections_max().saturating_add(NODES_BEYOND_MAX)
    }

    /// True if there are more than `max.connections`: it was lowered, or other nodes came.
    pub(crate) fn is_overcrowded(&self) -> bool {
        self.crowd.lock().total() > self.connections_max()
    }

    /// Counts a connection from `ip`; false when there are too many of it already. An exception for the address beats the rule.
    pub(crate) fn admit_connection(&self, ip: IpAddr) -> bool {
        let settings = self.settings.load();
        let exceptions = &settings.broker.connections_per_ip_overrides;
        let own = if exceptions.is_empty() {
            None
        } else {
            exceptions.get(&ip.to_string()).copied()
        };
        let most = own.unwrap_or(settings.connections_per_ip_max);
        self.crowd.lock().admit(ip, most)
    }

    pub(crate) fn forget_connection(&self, ip: IpAddr) {
        self.crowd.lock().forget(ip);
    }

    /// A shard reports what it holds.
    pub(crate) fn tell_held(&self, shard: ShardId, held: Held) {
        if let Some(row) = self.held.get(usize::from(shard.0)) {
            row.write(held);
        }
    }

    /// Bytes that the shards held when the last turn of each ended.
    pub(crate) fn held(&self) -> Held {
        let mut all = Held::default();
        self.held.iter().for_each(|row| all += row.read());
        all
    }

    /// What `shard`, one of those there are, counts.
    pub(crate) fn meter(&self, shard: ShardId) -> &Meter {
        &self.meters[usize::from(shard.0)]
    }

    /// Bytes that clients sent to be appended.
    pub(crate) fn produced_bytes(&self) -> u64 {
        let meters = self.meters.iter();
        meters.map(|meter| meter.received(ApiKey::Produce)).sum()
    }

    pub(crate) fn meters(&self) -> impl Iterator<Item = &Meter> {
        self.meters.iter()
    }

    pub(crate) fn set_watched(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    pub(crate) fn publish_committed(&self, shard: ShardId, rows: Vec<Committed>) {
        if let Some(own) = self.committed.get(usize::from(shard.0)) {
            *own.lock() = rows;
        }
    }

    pub(crate) fn committed(&self) -> Vec<Committed> {
        let rows = self.committed.iter().map(|own| own.lock().clone());
        rows.flatten().collect()
    }

    /// Names, partitions and whatever else one request may list.
    pub(crate) fn elements_max(&self) -> usize {
        self.settings.load().elements_max
    }

    pub(crate) fn frame_bytes_max(&self) -> i32 {
        self.settings.load().frame_bytes_max
    }

    pub(crate) fn fetch_bytes_max(&self) -> usize {
        self.settings.load().fetch_bytes_max
    }

    /// Share of one shard in the bytes of requests that are read and not answered: half of what requests may take. The other
    /// half is for those that are not whole.
    pub(crate) fn request_bytes_max(&self) -> usize {
        self.settings.load().request_bytes_max / 2 / self.shards_count()
    }

    /// Share of one shard in the answers that are in memory and that clients have not taken: as much as requests may take.
    pub(crate) fn unsent_memory_max(&self) -> usize {
        self.settings.load().request_bytes_max / self.shards_count()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Asks the broker to end. Among several it goes when the controller has moved its leaderships, or cannot.
    pub(crate) fn stop(&self) {
        if self.metadata.is_alone() || self.failure.lock().is_some() {
            return self.stop_now();
        }
        self.leaving.store(true, Ordering::Release);
        self.metadata.mailbox.wake();
    }

    /// Asks the loops to end; wakes those that sleep. The segment writers follow when all that commit have ended.
    pub(crate) fn stop_now(&self) {
        self.stopping.store(true, Ordering::Release);
        self.inboxes.wake_shards();
        self.committers.iter().for_each(|bell| bell.ring());
        self.readers.close();
        self.moves.ring();
        self.replication.wake();
        if let Some(cleaning) = self.cleaning.get() {
            cleaning.stop();
        }
    }

    /// A shard has ended; after the last one the quorum need not go on.
    pub(crate) fn on_shard_ended(&self) {
        match self.shards.fetch_sub(1, Ordering::AcqRel) {
            1 => self.metadata.mailbox.wake(),
            _ => self.inboxes.wake_shards(),
        }
        self.on_loop_ended();
    }

    /// True if all shards but one have ended.
    pub(crate) fn is_last_shard(&self) -> bool {
        self.shards.load(Ordering::Acquire) == 1
    }

    pub(crate) fn have_shards_ended(&self) -> bool {
        self.shards.load(Ordering::Acquire) == 0
    }

    /// A loop that commits has ended. After the last of them the segment writers may take their last checkpoint: one taken
    /// before would leave rounds for the next start.
    pub(crate) fn on_loop_ended(&self) {
        // A commit thread that found this loop at a round sleeps, and nobody else may have anything more for it.
        self.committers.iter().for_each(|bell| bell.ring());
        if self.loops.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.dirs.iter().for_each(|dir| dir.stop());
        }
    }

    /// The broker cannot go on: its metadata log, or every directory, is offline.
    pub(crate) fn fail(&self, reason: String) {
        self.failure.lock().get_or_insert(reason);
        self.stop_now();
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}

impl Shared {
    /// Where brokers reach each other: at the listener that the settings name, else at the first.
    pub(crate) fn endpoint_of(&self, broker: BrokerId) -> Option<Endpoint> {
        let image = self.metadata.image();
        let known = image.broker(broker)?;
        let settings = self.config();
        let name = settings.broker.text("inter.broker.listener.name");
        let named = name.and_then(|name| known.endpoints.iter().find(|at| at.name == name));
        let endpoint = named.or_else(|| known.endpoints.first())?;
        Some(Endpoint {
            host: endpoint.host.clone(),
            port: endpoint.port,
        })
    }

    /// True if a directory has failed since the last call.
    pub(crate) fn take_dir_news(&self) -> bool {
        self.has_dir_news.swap(false, Ordering::Relaxed)
    }

    /// Stops the broker when it has lost what it cannot work without, and has the controller of the cluster told of a directory that failed.
    pub(crate) fn check_health(&self) {
        let failed = self.dirs.iter().filter(|dir| dir.is_failed()).count();
        if self.failed_dirs.swap(failed, Ordering::Relaxed) != failed {
            self.has_dir_news.store(true, Ordering::Relaxed);
            self.metadata.mailbox.wake();
        }
        let metadata_dir = self.metadata.log_dir();
        if metadata_dir.is_failed() {
            self.fail(format!(
                "log dir {} with the metadata log is offline",
                metadata_dir.path.display()
            ));
        } else if self.dirs.iter().all(|dir| dir.is_failed()) {
            self.fail("every log dir is offline".to_owned());
        }
    }
}
