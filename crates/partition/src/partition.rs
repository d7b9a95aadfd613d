//! One partition of which this broker has a replica.
//!
//! Owns the order of the log; how far it has come, and who waits for what, is in its `progress`. Invariant: the log start is not above
//! `local_start`, which moves here before the files below it are removed. The lock is short: taken per append, read plan and commit, never
//! held during IO.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

use log::config::LogConfig;
use log::producer::{ProducerStates, marker_of};
use log::store::{Store, StoreError};
use log::tail::Tail;
use log::{AbortedTxn, Epochs, checkpoint};
use model::{Instant, LeaderEpoch, Offset, PartitionIndex, Ticket};
use wire::Uuid;
use wire::records::Batch;

use crate::cuts::{Cuts, Marks};
use crate::derived::Derived;
use crate::dir::durable::{Durable, Key, NeverDurable, Reached};
use crate::dir::log_dir::LogDir;
use crate::dir::r#move::pause::Pause;
use crate::dir::queue::Slot;
use crate::isolation::Isolation;
use crate::news::News;
use crate::progress::{Progress, TooFew};
use crate::sync::{AtomicU64, Mutex};
use crate::traffic::{Traffic, TrafficBytes};
use crate::verification::Guards;

pub struct Partition {
    pub topic_id: Uuid,
    pub topic: Arc<str>,
    pub index: PartitionIndex,
    pub(crate) state: Mutex<PartitionState>,
    /// The start could not read the files: they, and this row of the checkpoint, stay as they are for one that can.
    pub(crate) unread: Option<checkpoint::Row>,
    pub(crate) traffic: Traffic,
}

/// The owner of the partitions of a directory.
pub(crate) trait Registry: Send + Sync {
    /// A partition was deleted, or lives elsewhere now: its files are removed in the background, before another one of its name writes any.
    /// `home` is `None` for one that did not come to live here.
    fn remove(&self, partition: &Arc<Partition>, home: Option<Arc<Home>>);

    /// A partition begins to leave.
    fn let_go(&self, key: Key);
}

/// The place of a partition's files, and what belongs to them. A partition that moves gets another home.
pub(crate) struct Home {
    pub(crate) dir: Arc<LogDir>,
    /// Weak: it owns the partition.
    pub(crate) registry: Weak<dyn Registry>,
    /// Empty until the first batch reaches a segment file: an unused partition costs no file.
    pub(crate) store: OnceLock<Store>,
    pub(crate) derived: Mutex<Derived>,
    /// Base of the active segment as the last durable checkpoint knows it: what lies below stays closed, also after a crash.
    pub(crate) checkpointed: AtomicU64,
    /// The restart point as that checkpoint knows it: files below may be missing at the next start.
    pub(crate) forgiven: AtomicU64,
    /// Where the log restarts whose file (see [`Partition::keep_carried`]) is there until a checkpoint covers that; 0 if there is none.
    pub(crate) carried_at: AtomicU64,
    /// Held while compaction works on the files; true once they were removed.
    pub(crate) cleaning: Mutex<bool>,
    /// Damaged places of the files that were repaired.
    pub(crate) repaired: AtomicU64,
}

pub(crate) struct PartitionState {
    pub(crate) home: Arc<Home>,
    pub(crate) tail: Tail,
    /// First offset that the files of this broker are to have. Equal to the log start until a tier has what lies between.
    pub(crate) local_start: Offset,
    /// The tier has everything from the log start up to here: local files below may go, and are no loss where they are missing. Never above
    /// what is committed; 0 where nothing tiers.
    pub(crate) restart_point: Offset,
    /// Offset at which the log last restarted.
    pub(crate) restarted_at: Offset,
    /// Below this offset there may be gaps between batches, which the compaction of a leader left.
    pub(crate) gaps_end: Offset,
    /// Cuts that the files have not seen.
    pub(crate) cuts: Cuts,
    /// How far the log has come; its `end` is that of the tail.
    pub(crate) progress: Progress,
    pub(crate) epochs: Epochs,
    pub(crate) are_epochs_changed: bool,
    pub(crate) producers: ProducerStates,
    /// The states of producers lack batches at or behind this offset, which rotted and are not repaired yet.
    pub(crate) producers_lack: Option<Offset>,
    pub(crate) config: Arc<LogConfig>,
    /// Trims that are not durable yet, at most one in each round.
    pub(crate) trims: VecDeque<PendingTrim>,
    /// Trims that are durable here, and not known to be on every replica in sync. Their tickets wait: the next leader could bring the records back.
    pub(crate) trims_elsewhere: Vec<PendingTrim>,
    /// True if the log start moved since the segment writer last looked.
    pub(crate) has_trimmed: bool,
    pub(crate) watchers: Vec<Watcher>,
    /// Tickets that wait for the next sync.
    pub(crate) sync_watchers: Vec<Ticket>,
    /// Tickets that wait for the next append.
    pub(crate) end_watchers: Vec<Ticket>,
    /// Aborted transactions whose markers are not in a segment file yet, in the order of these.
    pub(crate) aborted: VecDeque<AbortedTxn>,
    pub(crate) guards: Guards,
    /// When a batch of a client was refused last for the state of the partition: too few replicas, or a broker that did not act as leader.
    pub(crate) refused: Option<(Instant, Option<TooFew>)>,
    pub(crate) slot: Slot,
    /// Records appended since the last sync, where the topic is relaxed and counts them to its next flush.
    pub(crate) unflushed_records: i64,
    /// When `flush.ms` wants the next sync of a relaxed topic; set by its first append since the last one.
    pub(crate) flush_at: Option<Instant>,
    /// True if the partition is on the segment writer's list, or in its hands.
    pub(crate) dirty: bool,
    pub(crate) is_deleted: bool,
    /// True if this broker has no replica any more: the log and its files are removed.
    pub(crate) is_leaving: bool,
    /// True if the partition moves to another directory: compaction leaves the files alone.
    pub(crate) is_moving: bool,
    /// The last step of a move: what is appended waits.
    pub(crate) pause: Option<Pause>,
    /// The directory that may have files of this partition under their final name, before it is the home.
    pub(crate) arrives_at: Option<Weak<dyn Registry>>,
    /// Offsets `from..to` that were durable and cannot be read any more; reported, never skipped over.
    pub(crate) holes: Vec<Hole>,
    /// Holes behind cuts that the files have not seen.
    pub(crate) cut_off: Vec<Hole>,
    /// The offset at which rot was reported last, and where readers can go on.
    pub(crate) reported: Option<(Offset, Option<Offset>)>,
}

/// A reader that waits to see more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watcher {
    pub(crate) ticket: Ticket,
    pub(crate) isolation: Isolation,
}

/// A log start that is not durable everywhere, and who waits for it.
pub(crate) struct PendingTrim {
    pub(crate) start: Offset,
    pub(crate) tickets: Vec<Ticket>,
}

/// Offsets whose bytes are lost although they were acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    pub from: Offset,
    pub to: Offset,
}

/// How a partition begins its life in this process.
pub struct Start {
    pub log_start: Offset,
    /// First offset of the files.
    pub local_start: Offset,
    /// The tier has everything from the log start up to here.
    pub restart_point: Offset,
    /// Where a restart has a file that no checkpoint covers yet; 0 if there is none.
    pub(crate) carried_at: Offset,
    /// Offset at which the log last restarted; 0 if it never did.
    pub restarted_at: Offset,
    /// Everything below is known to be committed.
    pub committed: Offset,
    pub log_end: Offset,
    pub epoch: LeaderEpoch,
    pub epochs: Epochs,
    pub(crate) derived: Derived,
    pub config: Arc<LogConfig>,
    pub store: Option<Store>,
    pub holes: Vec<Hole>,
    /// The last batches, where a full disk had no room for them.
    pub unwritten: Vec<Batch>,
    /// Below this offset there may be gaps between the unwritten batches.
    pub gaps_end: Offset,
    /// True if the files are not what the last checkpoint says of them.
    pub is_unsettled: bool,
    /// The files cannot be read; what the checkpoint says of them.
    pub unread: Option<checkpoint::Row>,
}

impl Start {
    /// The log of a new partition.
    pub fn empty(epoch: LeaderEpoch, config: Arc<LogConfig>) -> Start {
        Start {
            log_start: Offset::ZERO,
            local_start: Offset::ZERO,
            restart_point: Offset::ZERO,
            carried_at: Offset::ZERO,
            restarted_at: Offset::ZERO,
            committed: Offset::ZERO,
            log_end: Offset::ZERO,
            epoch,
            epochs: Epochs::default(),
            derived: Derived::default(),
            config,
            store: None,
            holes: Vec::new(),
            unwritten: Vec::new(),
            gaps_end: Offset::ZERO,
            is_unsettled: false,
            unread: None,
        }
    }
}

/// The offsets that requests ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub log_start: Offset,
    /// First offset on the disks of this broker; never below the log start.
    pub local_start: Offset,
    /// The tier has everything from the log start up to here; 0 where nothing tiers.
    pub restart_point: Offset,
    /// The end of what is committed.
    pub high_watermark: Offset,
    /// The end for readers of committed data: the first open transaction, or the high watermark.
    pub last_stable: Offset,
    /// Synced here; above the high watermark while other replicas are waited for.
    pub durable: Offset,
    pub log_end: Offset,
    pub epoch: LeaderEpoch,
}

impl Partition {
    pub(crate) fn new(
        topic_id: Uuid,
        topic: Arc<str>,
        index: PartitionIndex,
        dir: Arc<LogDir>,
        registry: Weak<dyn Registry>,
        start: Start,
    ) -> Partition {
        let mut producers = start.derived.producers.clone();
        let producers_lack = start.derived.unread_from;
        let mut aborted = VecDeque::new();
        for batch in &start.unwritten {
            let ended = producers.apply(batch, marker_of(batch));
            aborted.extend(ended.filter(|txn| txn.aborted).map(AbortedTxn::from));
        }
        let ends = (start.log_start, start.log_end);
        let in_sync_min = start.config.in_sync_replicas_min;
        let progress = Progress::new(ends, start.committed, start.epoch, in_sync_min);
        producers.on_high_watermark(progress.points().committed);
        let is_unsettled = start.is_unsettled;
        // A process that ended between a trim and the removal of the files leaves that to this one.
        let has_spent = start.store.as_ref().is_some_and(Store::has_spent);
        let home = Arc::new(Home {
            dir,
            registry,
            // A start ends with a checkpoint, or found everything as the last one left it; else the next one says.
            checkpointed: AtomicU64::new(
                start
                    .store
                    .as_ref()
                    .filter(|_| !is_unsettled)
                    .map_or(0, |store| store.known().active_base.0 as u64),
            ),
            forgiven: AtomicU64::new(if is_unsettled {
                0
            } else {
                start.restart_point.0 as u64
            }),
            carried_at: AtomicU64::new(start.carried_at.0 as u64),
            cleaning: Mutex::new(false),
            repaired: AtomicU64::new(0),
            store: start.store.map_or_else(OnceLock::new, OnceLock::from),
            derived: Mutex::new(start.derived),
        });
        Partition {
            topic_id,
            topic,
            index,
            unread: start.unread,
            traffic: Traffic::default(),
            state: Mutex::new(PartitionState {
                home,
                tail: Tail::unwritten_from(start.unwritten, start.log_end),
                local_start: start.local_start.max(start.log_start),
                restart_point: start.restart_point,
                restarted_at: start.restarted_at,
                gaps_end: start.gaps_end,
                cuts: Cuts::default(),
                progress,
                epochs: start.epochs,
                are_epochs_changed: is_unsettled,
                producers,
                producers_lack,
                config: start.config,
                trims: VecDeque::new(),
                trims_elsewhere: Vec::new(),
                // So that the segment writer takes the files for written since the checkpoint.
                has_trimmed: is_unsettled,
                watchers: Vec::new(),
                sync_watchers: Vec::new(),
                end_watchers: Vec::new(),
                aborted,
                guards: Guards::default(),
                refused: None,
                slot: Slot::default(),
                unflushed_records: 0,
                flush_at: None,
                dirty: is_unsettled || has_spent,
                is_deleted: false,
                is_leaving: false,
                is_moving: false,
                pause: None,
                arrives_at: None,
                holes: start.holes,
                cut_off: Vec::new(),
                reported: None,
            }),
        }
    }

    /// The name of the partition in the journal.
    pub(crate) fn key(&self) -> Key {
        (self.topic_id, self.index)
    }

    /// Bytes that a start left to the segment writer; `None` where the writer has nothing to do.
    pub(crate) fn unwritten_at_start(&self) -> Option<usize> {
        let state = self.state.lock();
        state.dirty.then(|| state.tail.unwritten_bytes())
    }

    pub fn bounds(&self) -> Bounds {
        self.state.lock().bounds()
    }

    /// The epoch in which this replica takes appends of clients, if it does.
    pub fn leads_in(&self) -> Option<LeaderEpoch> {
        let state = self.state.lock();
        let leads = state.progress.is_leading();
        leads.then(|| state.progress.epoch())
    }

    /// True if records that were acknowledged are known to be missing, or the files cannot be read.
    pub fn has_holes(&self) -> bool {
        self.unread.is_some() || !self.state.lock().holes.is_empty()
    }

    pub fn config(&self) -> Arc<LogConfig> {
        Arc::clone(&self.state.lock().config)
    }

    /// New settings hold for the next append, roll and retention check.
    pub fn set_config(&self, config: Arc<LogConfig>, news: &mut Vec<News>) {
        let mut state = self.state.lock();
        state.config = Arc::clone(&config);
        let in_sync_min = config.in_sync_replicas_min;
        state.advance(news, |progress, news| {
            progress.on_in_sync_min(in_sync_min, news);
        });
        if let Some(store) = state.home.store.get() {
            store.set_config(config);
        }
    }

    pub(crate) fn home(&self) -> Arc<Home> {
        Arc::clone(&self.state.lock().home)
    }

    /// The directory where the partition lives now.
    pub fn dir(&self) -> Arc<LogDir> {
        Arc::clone(&self.state.lock().home.dir)
    }

    /// Bytes in segment files and in memory that are not written yet.
    pub fn size(&self) -> u64 {
        let (home, unwritten) = {
            let state = self.state.lock();
            let unwritten = state.tail.unwritten_size() as u64;
            (Arc::clone(&state.home), unwritten)
        };
        home.store.get().map_or(0, Store::size) + unwritten
    }

    /// Bytes that came in and went out since the start.
    pub fn traffic(&self) -> TrafficBytes {
        self.traffic.read()
    }

    /// A reader was given so many bytes of batches.
    pub fn on_fetched(&self, bytes: usize) {
        self.traffic.on_fetched(bytes);
    }

    /// Idempotent producers that this partition knows.
    pub fn producers<T>(&self, look: impl FnOnce(&ProducerStates) -> T) -> T {
        look(&self.state.lock().producers)
    }

    /// True if the partition is neither read nor written: its directory failed, or its files could not be read at the start.
    pub fn is_offline(&self) -> bool {
        self.is_offline_in(&self.state.lock())
    }

    pub(crate) fn is_offline_in(&self, state: &PartitionState) -> bool {
        state.home.dir.is_failed() || self.unread.is_some()
    }

    pub fn is_deleted(&self) -> bool {
        self.state.lock().is_deleted
    }

    /// The topic is deleted: waiting requests are notified now, later ones find nothing.
    pub fn delete(&self, news: &mut Vec<News>) {
        let mut state = self.state.lock();
        state.is_deleted = true;
        state.release_all(news);
    }

    /// Takes a deleted partition out of its directory, and out of the one it was about to arrive at; files are removed in the
    /// background.
    pub fn discard(self: &Arc<Self>) {
        let (home, arrives_at) = {
            let mut state = self.state.lock();
            (Arc::clone(&state.home), state.arrives_at.take())
        };
        if let Some(residents) = arrives_at.and_then(|of| of.upgrade()) {
            residents.remove(self, None);
        }
        if let Some(residents) = home.registry.upgrade() {
            residents.remove(self, Some(home));
        }
    }

    /// A directory failed. Directories that the partition has left, or is on its way to, are of no concern.
    pub(crate) fn on_dir_failed(&self, news: &mut Vec<News>) {
        let mut state = self.state.lock();
        if state.home.dir.is_failed() {
            state.release_all(news);
        }
    }

    /// The segment files, created at the first need.
    pub(crate) fn store_or_create<'a>(&self, home: &'a Home) -> Result<&'a Store, StoreError> {
        if let Some(store) = home.store.get() {
            return Ok(store);
        }
        let (config, start) = {
            let state = self.state.lock();
            (Arc::clone(&state.config), state.tail.written())
        };
        let path = home.dir.partition_path(&self.topic, self.index);
        let store = Store::create(&home.dir.files, &path, config, start)?;
        store.belongs_to(self.topic_id, self.index);
        Ok(home.store.get_or_init(|| store))
    }
}

impl Durable for Partition {
    fn on_durable(self: Arc<Self>, reached: Result<Reached, NeverDurable>, news: &mut Vec<News>) {
        match reached {
            Ok(reached) => self.on_reached(reached, news),
            Err(NeverDurable) => self.on_dir_failed(news),
        }
    }
}

impl PartitionState {
    /// A new epoch begins where the log ends, and not with its first batch: a client that knows the epoch asks later where it ended, also
    /// when nothing was appended in it (KIP-320).
    pub(crate) fn begin_epoch(&mut self) {
        let (latest, epoch) = (self.epochs.latest(), self.progress.epoch());
        if latest.is_none_or(|latest| latest.epoch < epoch) {
            self.are_epochs_changed |= self.epochs.assign(epoch, self.tail.end());
        }
    }

    /// True if this broker leads, and knows the producers of its log. A replica that was cut has their states again when its files are
    /// cut too: until then it would take records that are gone for repeated ones, and transactions for ended.
    pub(crate) fn serves_clients(&self) -> bool {
        self.progress.is_leading() && self.knows_producers()
    }

    pub(crate) fn knows_producers(&self) -> bool {
        !self.cuts.awaits_producers()
    }

    pub(crate) fn now(&self) -> Instant {
        self.home.dir.env.clock.now()
    }

    pub(crate) fn bounds(&self) -> Bounds {
        let points = self.progress.points();
        Bounds {
            log_start: points.start,
            local_start: self.local_start,
            restart_point: self.restart_point,
            high_watermark: points.committed,
            last_stable: self.last_stable(),
            durable: points.durable,
            log_end: points.end,
            epoch: self.progress.epoch(),
        }
    }

    /// The last stable offset: never above what is committed. A transaction that began below the log start holds nothing back there.
    fn last_stable(&self) -> Offset {
        let points = self.progress.points();
        self.first_unstable().map_or(points.committed, |first| {
            first.max(points.start).min(points.committed)
        })
    }

    /// Where the first open transaction begins, or may begin: nobody knows of those in batches that rotted.
    pub(crate) fn first_unstable(&self) -> Option<Offset> {
        let known = self.producers.first_unstable();
        known.into_iter().chain(self.producers_lack).min()
    }

    /// True if there are states of producers that a cut of the log may change.
    pub(crate) fn has_producers(&self) -> bool {
        !self.producers.is_empty() || self.first_unstable().is_some()
    }

    /// The log is cut at `to`, and no state of a producer is of what is in front.
    pub(crate) fn begin_producers(&mut self, to: Offset) {
        self.producers = ProducerStates::new(to);
        self.producers_lack = None;
        // Batches that were refused may be in front.
        self.guards.await_nobody();
    }

    /// The offsets that a checkpoint notes beside those of the files.
    pub(crate) fn marks(&self) -> Marks {
        let points = self.progress.points();
        self.cuts.before().unwrap_or(Marks {
            log_start: points.start,
            local_start: self.local_start,
            restart_point: self.restart_point,
            committed: points.committed,
            restarted_at: self.restarted_at,
        })
    }

    /// A new log start is durable.
    pub(crate) fn raise_log_start(&mut self, to: Offset) {
        self.progress.on_start(to);
        let start = self.progress.points().start;
        self.local_start = self.local_start.max(start);
        // Nobody reads there any more.
        self.tail.evict(start);
    }

    /// Merges the newest trim into the one before it, as their entries were.
    pub(crate) fn join_trims(&mut self) {
        if let (Some(last), Some(before)) = (self.trims.pop_back(), self.trims.back_mut()) {
            before.start = last.start;
            before.tickets.extend(last.tickets);
        }
    }

    pub(crate) fn release_all(&mut self, news: &mut Vec<News>) {
        self.progress.fail_all(News::Failed, news);
        news.extend(
            self.trims
                .drain(..)
                .chain(self.trims_elsewhere.drain(..))
                .flat_map(|trim| trim.tickets)
                .map(News::Failed),
        );
        news.extend(
            self.watchers
                .drain(..)
                .map(|watcher| News::Readable(watcher.ticket)),
        );
        self.tell_sync_watchers(news);
        self.tell_end_watchers(news);
    }
}
