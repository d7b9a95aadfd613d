//! Compaction while the broker runs: threads that choose the dirtiest log, go over it step by step, and swap segments in.
//!
//! All cleaners share what is being compacted, the pace and the settings, which may change at any time. Invariant: a step holds
//! the `cleaning` lock of the partition's files, and their removal takes it first, so nothing is written into a directory that
//! has become another topic's. A partition that moves to another directory is left alone until it is there, a log that turns out
//! damaged until it is repaired, or the next start. Does not touch what a checkpoint does not know as closed: a start cuts files back to that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use env::{Bell, Env, Turn, Worker};
use log::ReadError;
use log::clean::{self, Candidate, CleanError, Order, Outcome, Pass};
use log::journal::is_full;
use log::store::{Deleted, Store, StoreError};
use model::{Instant, Offset};

use super::announce::Announce;
use super::durable::Key;
use super::residents::Residents;
use crate::partition::{Home, Partition};
use crate::sync::{AtomicBool, Mutex, Ordering};

/// Settings of all cleaners together (`log.cleaner.*`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerSettings {
    pub is_enabled: bool,
    pub threads: usize,
    /// Pause of a cleaner that found nothing to do.
    pub backoff: Duration,
    /// Memory for keys, shared by all threads.
    pub map_bytes: u64,
    pub map_load: f64,
    /// Bytes read and written, by all threads together.
    pub bytes_per_second: f64,
}

/// Longest wait for the pace: a rate near zero must not stop a shutdown or a change of the rate from being seen.
const PACE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Bytes that the disk is asked for at once while others commit: a sync waits behind them (docs/decisions/disk-sharing.md).
const BESIDE_BYTES: usize = 128 << 10;
/// The same while nobody commits: half as fast again.
const ALONE_BYTES: usize = 1 << 20;
/// A directory that has committed nothing for this long is not in use at the moment.
const ALONE_AFTER: Duration = Duration::from_millis(100);

/// Batches of the hot tail that are forgotten under one hold of the partition's lock.
const FORGET_BYTES: usize = 1 << 20;

/// The facts about a log that decide whether its records can be read for a compaction.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Condition {
    /// Places that were repaired so far.
    repaired: u64,
    /// Largest record that a compressed batch may hold.
    record_bytes_max: Option<i32>,
}

impl Condition {
    fn of(home: &Home) -> Condition {
        let store = home.store.get();
        Condition {
            repaired: home.repaired.load(Ordering::Acquire),
            record_bytes_max: store.map(|store| store.config().max_decompressed_message_bytes),
        }
    }
}

/// State that the cleaners of a broker share.
pub struct Cleaning {
    env: Env,
    dirs: Vec<Arc<Residents>>,
    announce: Arc<dyn Announce>,
    settings: Mutex<CleanerSettings>,
    bells: Mutex<Vec<Arc<dyn Bell>>>,
    taken: Mutex<BTreeSet<Key>>,
    /// Logs that cannot be compacted, which is reported once, and their condition then.
    shunned: Mutex<BTreeMap<Key, Condition>>,
    /// When the bytes that were moved so far are paid for.
    paid_at: Mutex<Instant>,
    stopping: AtomicBool,
}

impl Cleaning {
    pub fn new(
        env: &Env,
        dirs: Vec<Arc<Residents>>,
        announce: Arc<dyn Announce>,
        settings: CleanerSettings,
    ) -> Arc<Cleaning> {
        Arc::new(Cleaning {
            env: env.clone(),
            dirs,
            announce,
            settings: Mutex::new(settings),
            bells: Mutex::default(),
            taken: Mutex::default(),
            shunned: Mutex::default(),
            paid_at: Mutex::new(env.clock.now()),
            stopping: AtomicBool::new(false),
        })
    }

    /// The next cleaner, numbered from 0.
    pub fn cleaner(self: &Arc<Self>) -> Cleaner {
        let bell = self.env.threads.bell();
        let number = {
            let mut bells = self.bells.lock();
            bells.push(Arc::clone(&bell));
            bells.len() - 1
        };
        Cleaner {
            cleaning: Arc::clone(self),
            number,
            bell,
            job: None,
            look_at: self.env.clock.now(),
            resume_at: None,
            unlinks: VecDeque::new(),
        }
    }

    /// Starts the cleaners that the settings ask for and that do not run yet. Surplus ones rest.
    pub fn spawn(self: &Arc<Self>) {
        let settings = *self.settings.lock();
        if !settings.is_enabled || self.stopping.load(Ordering::Acquire) {
            return;
        }
        while self.bells.lock().len() < settings.threads {
            let cleaner = self.cleaner();
            self.env.threads.spawn_patient("cleaner", Box::new(cleaner));
        }
    }

    /// New settings hold for what begins from now on, and for the pace at once.
    pub fn set_settings(self: &Arc<Self>, settings: CleanerSettings) {
        let before = std::mem::replace(&mut *self.settings.lock(), settings);
        if before != settings {
            *self.paid_at.lock() = self.env.clock.now();
            self.spawn();
            self.ring();
        }
    }

    /// Asks the cleaners to end; what is half written is left to the next start.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        self.bells.lock().iter().for_each(|bell| bell.ring());
    }

    /// True if the log could not be compacted, and nothing has changed that could let it be.
    fn shuns(&self, key: Key, home: &Home) -> bool {
        self.shunned.lock().get(&key) == Some(&Condition::of(home))
    }

    /// Notes that `bytes` were moved; returns when the next ones may be.
    fn pay(&self, bytes: u64, now: Instant) -> Instant {
        let rate = self.settings.lock().bytes_per_second;
        let cost = bytes as f64 / rate.max(1.0);
        let mut paid_at = self.paid_at.lock();
        let from = (*paid_at).max(now);
        // A step is about 1 MiB, so an hour is a rate below 300 bytes.
        *paid_at = from.plus(Duration::from_secs_f64(cost.clamp(0.0, 3600.0)));
        *paid_at
    }
}

struct Job {
    key: Key,
    partition: Arc<Partition>,
    home: Arc<Home>,
    pass: Pass,
    /// The directory's commits after the last step, and when they were last found to have grown.
    committed: u64,
    committed_at: Instant,
}

/// One thread that compacts.
pub struct Cleaner {
    cleaning: Arc<Cleaning>,
    number: usize,
    bell: Arc<dyn Bell>,
    job: Option<Box<Job>>,
    look_at: Instant,
    resume_at: Option<Instant>,
    unlinks: VecDeque<(Instant, Arc<Home>, Deleted)>,
}

/// How a job went on.
enum Progress {
    On { bytes: u64 },
    Over,
}

impl Cleaner {
    fn unlink_due(&mut self, now: Instant) {
        while let Some((_, home, deleted)) = self.unlinks.pop_front_if(|(at, _, _)| *at <= now) {
            let is_gone = home.cleaning.lock();
            // A file that cannot be removed now is removed at the next start.
            if let Some(store) = home.store.get().filter(|_| !*is_gone) {
                let _ = store.unlink(&deleted);
            }
        }
    }

    /// The log with the largest share of dirty bytes, of those that are due.
    fn choose(&self) -> Option<Box<Job>> {
        let cleaning = &self.cleaning;
        let wall = cleaning.env.clock.wall_ms();
        let mut best: Option<(Key, Arc<Partition>, Arc<Home>, Candidate)> = None;
        for residents in &cleaning.dirs {
            if residents.dir.is_failed() || residents.dir.is_full() {
                continue;
            }
            for partition in residents.all() {
                let key = partition.key();
                let home = partition.home();
                let Some(store) = home.store.get() else {
                    continue;
                };
                if !store.config().cleanup_policy.compact
                    || cleaning.taken.lock().contains(&key)
                    || cleaning.shuns(key, &home)
                {
                    continue;
                }
                let candidate = match partition.compaction_due(&home, store, wall) {
                    Ok(candidate) => candidate,
                    Err(error) => {
                        self.on_error(&partition, &home, error.into());
                        None
                    }
                };
                if let Some(candidate) = candidate
                    && best
                        .as_ref()
                        .is_none_or(|(_, _, _, best)| best.dirty_ratio < candidate.dirty_ratio)
                {
                    best = Some((key, partition, home, candidate));
                }
            }
        }
        let (key, partition, home, candidate) = best?;
        // Another cleaner may have been quicker.
        if !cleaning.taken.lock().insert(key) {
            return None;
        }
        let settings = *cleaning.settings.lock();
        let rng = &cleaning.env.rng;
        let order = Order {
            first_dirty: candidate.first_dirty,
            upto: candidate.upto,
            now: wall,
            seed: [rng.next_u64(), rng.next_u64()],
            map_bytes_max: settings.map_bytes / settings.threads.max(1) as u64,
            map_load: settings.map_load,
            holes: partition.lost_ranges(),
        };
        let pass = Pass::new(home.store.get()?, order);
        Some(Box::new(Job {
            key,
            committed: home.dir.committed(),
            committed_at: cleaning.env.clock.now(),
            home,
            partition,
            pass,
        }))
    }

    /// When a step that began at `began` and is over may be followed by the next: at once, or after as long again while the directory
    /// commits. A pass without pauses takes as much of the disk as there is, and commits wait for it.
    fn rested_at(&mut self, began: Instant) -> Instant {
        let now = self.cleaning.env.clock.now();
        let Some(job) = &mut self.job else {
            return now;
        };
        let committed = job.home.dir.committed();
        if std::mem::replace(&mut job.committed, committed) == committed {
            return now;
        }
        job.committed_at = now;
        now.plus(now.since(began))
    }

    fn step(&mut self, now: Instant) -> Progress {
        let Some(job) = &mut self.job else {
            return Progress::Over;
        };
        let is_gone = job.home.cleaning.lock();
        let Some(store) = job.home.store.get().filter(|_| !*is_gone) else {
            return Progress::Over;
        };
        let config = store.config();
        if !config.cleanup_policy.compact
            || job.home.dir.is_failed()
            || !job.partition.rests_in(&job.home)
        {
            job.pass.abandon(store);
            return Progress::Over;
        }
        let partition = Arc::clone(&job.partition);
        let mut producers = || partition.producers(clean::last_of).into_iter().collect();
        let at_once = if now.since(job.committed_at) < ALONE_AFTER {
            BESIDE_BYTES
        } else {
            ALONE_BYTES
        };
        match job.pass.step(store, at_once, &mut producers) {
            Ok(step) => {
                let counters = &job.home.dir.counters;
                counters.on_compacted(step.bytes, step.outcome.is_some());
                if !step.deleted.paths.is_empty() {
                    let delay = u64::try_from(config.file_delete_delay_ms).unwrap_or(0);
                    let at = now.plus(Duration::from_millis(delay));
                    self.unlinks
                        .push_back((at, Arc::clone(&job.home), step.deleted));
                }
                match step.outcome {
                    Some(Outcome { clean_end, .. }) => {
                        partition.forget_hot(clean_end);
                        Progress::Over
                    }
                    None => Progress::On { bytes: step.bytes },
                }
            }
            Err(error) => {
                job.pass.abandon(store);
                drop(is_gone);
                let home = Arc::clone(&job.home);
                self.on_error(&partition, &home, error);
                Progress::Over
            }
        }
    }

    fn on_error(&self, partition: &Arc<Partition>, home: &Home, error: CleanError) {
        let shun = |error: &CleanError| {
            let condition = Condition::of(home);
            let shunned = &self.cleaning.shunned;
            let before = shunned.lock().insert(partition.key(), condition);
            if let Some(at) = home.store.get().and_then(|store| error.offset_in(store)) {
                partition.has_repaired(at);
            }
            if before != Some(condition) {
                tracing::error!(target: env::logs::COMPACTION,
                    "{}-{} cannot be compacted: {error}",
                    partition.topic,
                    partition.index
                );
            }
        };
        match &error {
            CleanError::Damaged { .. }
            | CleanError::Records { .. }
            | CleanError::TooLarge { .. }
            | CleanError::Read(ReadError::Damaged { .. })
            | CleanError::Store(StoreError::Damaged { .. }) => shun(&error),
            // The log moved on; a later pass finds it as it is then.
            CleanError::Overtaken | CleanError::Read(ReadError::OutOfRange { .. }) => {}
            CleanError::Read(ReadError::Io { error: io, .. })
            | CleanError::Store(StoreError::Io { error: io, .. })
                if is_passing(io, partition) => {}
            CleanError::Store(error) if error.is_full() => {}
            CleanError::Read(ReadError::Io { error: io, .. }) if is_full(io) => {}
            // Bytes that cannot be read are lost already, whether we go on or not; everything else of the directory is not.
            CleanError::Read(ReadError::Io { .. }) => shun(&error),
            error => {
                let mut news = Vec::new();
                let error = io::Error::other(error.to_string());
                home.dir.fail(&error, &mut news);
                self.cleaning.announce.announce(news);
            }
        }
    }

    fn end_job(&mut self) {
        if let Some(job) = self.job.take() {
            self.cleaning.taken.lock().remove(&job.key);
        }
        self.resume_at = None;
    }

    fn sleep(&self, until: Option<Instant>) -> Turn {
        let unlink = self.unlinks.front().map(|(at, _, _)| *at);
        Turn::Sleep {
            until: [until, unlink].into_iter().flatten().min(),
        }
    }
}

/// Files that retention or a deletion took away under a reader.
fn is_passing(error: &io::Error, partition: &Partition) -> bool {
    error.kind() == io::ErrorKind::NotFound || partition.is_deleted()
}

impl Worker for Cleaner {
    fn turn(&mut self) -> Turn {
        if self.cleaning.stopping.load(Ordering::Acquire) {
            self.end_job();
            return Turn::Done;
        }
        let now = self.cleaning.env.clock.now();
        self.unlink_due(now);
        if self.job.is_some() {
            if let Some(at) = self.resume_at.filter(|at| now < *at) {
                return self.sleep(Some(at.min(now.plus(PACE_WAIT_MAX))));
            }
            match self.step(now) {
                Progress::On { bytes } => {
                    let paid_at = self.cleaning.pay(bytes, now);
                    self.resume_at = Some(self.rested_at(now).max(paid_at));
                }
                Progress::Over => self.end_job(),
            }
            return Turn::Again;
        }
        let settings = *self.cleaning.settings.lock();
        if !settings.is_enabled || self.number >= settings.threads {
            return self.sleep(None);
        }
        if now < self.look_at {
            return self.sleep(Some(self.look_at));
        }
        self.job = self.choose();
        if self.job.is_none() {
            // Never without a pause: each look asks all logs.
            self.look_at = now.plus(settings.backoff.max(Duration::from_millis(1)));
            return self.sleep(Some(self.look_at));
        }
        Turn::Again
    }

    fn park(&mut self, until: Option<Instant>) {
        self.bell.wait(until);
    }
}

impl Partition {
    /// A pass that is due. Asks for a checkpoint when only that is missing.
    fn compaction_due(
        &self,
        home: &Arc<Home>,
        store: &Store,
        wall: model::Timestamp,
    ) -> Result<Option<Candidate>, ReadError> {
        let is_gone = home.cleaning.lock();
        if *is_gone || self.is_deleted() || !self.rests_in(home) {
            return Ok(None);
        }
        let stable = {
            let state = self.state.lock();
            let unstable = state.first_unstable();
            // That a transaction was aborted is asked of the segments: as long as none has its marker, it counts as open.
            let unwritten = state.aborted.iter().map(|txn| txn.first_offset).min();
            let bounds = [unstable, unwritten].into_iter().flatten();
            bounds.fold(state.progress.points().committed, Offset::min)
        };
        let known = Offset(home.checkpointed.load(Ordering::Acquire) as i64);
        let config = store.config();
        let mut facts = store.compaction_facts(stable.min(known))?;
        let due = clean::judge(&facts, &config, wall);
        if due.is_none() && known < stable {
            facts.limit = stable;
            if clean::judge(&facts, &config, wall).is_some() {
                home.dir.want_checkpoint();
            }
        }
        Ok(due)
    }

    /// Readers get what a pass left, not what was received: the copies in memory below `end` are evicted. The segment writer counts them
    /// until it would have evicted them itself, so for that long the hot tail is smaller than it may be.
    fn forget_hot(&self, end: Offset) {
        loop {
            let mut state = self.state.lock();
            let start = state.tail.start();
            // Freed when the lock is not held any more.
            let batches = state.tail.read(start, end, FORGET_BYTES);
            let Some(last) = batches.last() else {
                return;
            };
            if state.tail.evict(last.next_offset()) == 0 {
                return;
            }
            drop(state);
        }
    }

    /// Offsets that were acknowledged and cannot be read any more.
    fn lost_ranges(&self) -> Vec<(Offset, Offset)> {
        let state = self.state.lock();
        state
            .holes
            .iter()
            .map(|hole| (hole.from, hole.to))
            .collect()
    }
}
