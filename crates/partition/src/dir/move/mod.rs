//! A partition on its way from one log directory of the broker to another, while it is written and read.
//!
//! The files are copied under a name of their own until little is missing; then appends wait, what is left is copied, and the segment
//! writer of the target takes the files in (`arrival`). The driver of the move makes it so in the metadata: that is the commit. The
//! partition lives at the target from then on, and the appends that waited are queued in the journal there. Invariant: until the commit the
//! old place holds, and nothing is taken from it; after it the new one does, and has everything that was committed. Appends wait and do not
//! fail. Knows nothing of the metadata, and keeps no list of moves.

pub(crate) mod arrival;
pub(crate) mod pause;

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use log::Syncing;
use log::journal::is_full;
use log::store::{CopyError, LogCopy};
use model::{Instant, Offset};
use wire::Uuid;

use super::log_dir::{Commit, LogDir};
use super::names::future_name;
use super::queue::Slot;
use super::residents::Residents;
use super::rows;
use crate::news::News;
use crate::partition::{Home, Partition, PartitionState, Registry};
use crate::sync::{AtomicU64, Ordering};
use arrival::{Arrival, ArrivalState};
use pause::Pause;

/// The most bytes that a step copies, and has room for.
const STEP_BYTES: usize = 1 << 20;
/// How soon a step that waits for another loop looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How soon a step that waits for room looks again.
const ROOM_CHECK: Duration = Duration::from_secs(1);
/// Longest time that appends wait for what was appended before them to reach the segment files; then they go on for as long.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(3);
/// Longest time that they wait for the target to take the files in: its checkpoint may have much to sync.
const ARRIVAL_WAIT_MAX: Duration = Duration::from_secs(15);

/// How far a move is, for those who ask.
#[derive(Default)]
pub struct Moved {
    bytes: AtomicU64,
    end: AtomicU64,
}

impl Moved {
    /// Bytes in the segments of the copy.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Everything below is copied.
    pub fn end(&self) -> Offset {
        Offset(self.end.load(Ordering::Relaxed) as i64)
    }
}

/// How a move went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStep {
    On {
        bytes: u64,
    },
    Wait(Duration),
    /// The target has everything: make it so in the metadata, and switch_over.
    Placed,
}

#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error("partition was deleted")]
    Deleted,
    #[error("log directory is offline")]
    Offline,
    /// Worth another try, from the beginning.
    #[error("the target is busy or full")]
    Refused,
    #[error(transparent)]
    Copy(CopyError),
}

impl From<CopyError> for MoveError {
    fn from(error: CopyError) -> MoveError {
        match error {
            CopyError::Source(error) | CopyError::Target(error) if is_full(&error) => {
                MoveError::Refused
            }
            error => MoveError::Copy(error),
        }
    }
}

enum Stage {
    Copying {
        not_before: Instant,
    },
    Pausing {
        since: Instant,
    },
    Arriving {
        arrival: Arc<Arrival>,
        since: Instant,
    },
    Placed {
        arrival: Arc<Arrival>,
        home: Arc<Home>,
    },
}

pub struct Move {
    partition: Arc<Partition>,
    from: Arc<Home>,
    to: Arc<Residents>,
    files: PathBuf,
    copy: Option<LogCopy>,
    stage: Stage,
    moved: Arc<Moved>,
}

impl Move {
    /// Begins a move of `partition`, which has no other, to `to`, where it does not live. `id` is like no other.
    pub fn begin(
        partition: &Arc<Partition>,
        to: &Arc<Residents>,
        id: Uuid,
        moved: Arc<Moved>,
    ) -> Move {
        let from = {
            let mut state = partition.state.lock();
            state.is_moving = true;
            Arc::clone(&state.home)
        };
        // A step of compaction that has begun ends first; there is no other before the move is over.
        drop(from.cleaning.lock());
        let name = future_name(&partition.topic, partition.index, id);
        moved.bytes.store(0, Ordering::Relaxed);
        moved.end.store(0, Ordering::Relaxed);
        Move {
            partition: Arc::clone(partition),
            files: to.dir.path.join(name),
            to: Arc::clone(to),
            stage: Stage::Copying {
                not_before: to.dir.env.clock.now(),
            },
            from,
            copy: None,
            moved,
        }
    }

    pub fn target(&self) -> &Arc<LogDir> {
        &self.to.dir
    }

    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// True if the next step may copy many bytes while the partition is used as before.
    pub fn is_copying(&self) -> bool {
        matches!(self.stage, Stage::Copying { .. })
    }

    /// Makes a step of about `bytes_max`, at most 1 MiB. After an error the move must be called off.
    pub fn step(&mut self, now: Instant, bytes_max: usize) -> Result<MoveStep, MoveError> {
        if self.partition.is_going() {
            return Err(MoveError::Deleted);
        }
        if self.from.dir.is_failed() || self.to.dir.is_failed() {
            return Err(MoveError::Offline);
        }
        match &self.stage {
            Stage::Copying { not_before } if now < *not_before => {
                Ok(MoveStep::Wait(not_before.since(now)))
            }
            // A cut from before the move has to reach the files first; none comes while the partition moves.
            Stage::Copying { .. } if !self.partition.state.lock().cuts.are_over() => {
                Ok(MoveStep::Wait(LOOK_AGAIN))
            }
            Stage::Copying { .. } => self.copy(now, bytes_max.min(STEP_BYTES)),
            Stage::Pausing { since } => self.end_copy(*since, now),
            Stage::Arriving { arrival, since } => match arrival.place() {
                ArrivalState::Waiting if now <= since.plus(ARRIVAL_WAIT_MAX) => {
                    Ok(MoveStep::Wait(LOOK_AGAIN))
                }
                ArrivalState::Here(home) => {
                    let arrival = Arc::clone(arrival);
                    self.stage = Stage::Placed { arrival, home };
                    Ok(MoveStep::Placed)
                }
                ArrivalState::Waiting | ArrivalState::Refused | ArrivalState::Abandoned => {
                    Err(MoveError::Refused)
                }
            },
            Stage::Placed { .. } => Ok(MoveStep::Placed),
        }
    }

    fn copy(&mut self, now: Instant, bytes_max: usize) -> Result<MoveStep, MoveError> {
        if self.to.dir.is_full() || !self.has_room() {
            return Ok(MoveStep::Wait(ROOM_CHECK));
        }
        if let Some(store) = self.from.store.get() {
            let copy = match &mut self.copy {
                Some(copy) => copy,
                none => none.insert(LogCopy::begin(&self.to.dir.env.disk, &self.files)?),
            };
            let stepped = match copy.step(store, bytes_max) {
                // Bytes that were not written are copied again.
                Err(CopyError::Source(error) | CopyError::Target(error)) if is_full(&error) => {
                    return Ok(MoveStep::Wait(ROOM_CHECK));
                }
                stepped => stepped?,
            };
            self.moved.bytes.store(copy.bytes(), Ordering::Relaxed);
            let end = copy.end().0 as u64;
            self.moved.end.store(end, Ordering::Relaxed);
            if stepped > 0 {
                return Ok(MoveStep::On { bytes: stepped });
            }
            copy.sync()?;
        }
        let mut state = self.partition.state.lock();
        state.pause = Some(Pause::new(state.tail.end()));
        self.stage = Stage::Pausing { since: now };
        Ok(MoveStep::On { bytes: 0 })
    }

    /// True if the target has room beside the space that it keeps free.
    fn has_room(&self) -> bool {
        let settings = &self.to.dir.settings;
        let needed = settings.reserve_bytes + settings.journal_piece_bytes + STEP_BYTES as u64;
        let space = self.to.dir.env.disk.space(&self.to.dir.path);
        space.is_ok_and(|space| needed <= space.available)
    }

    /// Nobody appends: copies what is left once it is in the files, and hands it to the target.
    fn end_copy(&mut self, since: Instant, now: Instant) -> Result<MoveStep, MoveError> {
        let is_quiet = self.partition.state.lock().is_quiet();
        if !is_quiet && now <= since.plus(QUIET_WAIT_MAX) {
            self.from.dir.backlog.hurry();
            return Ok(MoveStep::Wait(LOOK_AGAIN));
        }
        if !is_quiet {
            // The old disk is slow, or full.
            self.resume();
            let not_before = now.plus(QUIET_WAIT_MAX);
            self.stage = Stage::Copying { not_before };
            return Ok(MoveStep::Wait(QUIET_WAIT_MAX));
        }
        let (row, derived) = self.complete()?;
        let arrival = Arrival::new(&self.partition, self.files.clone(), row, derived);
        {
            let mut state = self.partition.state.lock();
            if state.is_deleted || state.is_leaving {
                return Err(MoveError::Deleted);
            }
            let to: Weak<dyn Registry> = Arc::downgrade(&self.to) as _;
            state.arrives_at = Some(to);
        }
        self.to.arrivals.lock().push(Arc::clone(&arrival));
        self.to.dir.writer_bell.ring();
        self.stage = Stage::Arriving {
            arrival,
            since: now,
        };
        Ok(MoveStep::Wait(LOOK_AGAIN))
    }

    /// Writes the end of the files, and what is derived from them; returns what a checkpoint says of them.
    fn complete(
        &mut self,
    ) -> Result<(Option<log::checkpoint::Row>, crate::derived::Derived), CopyError> {
        let partition = &self.partition;
        let disk = &self.to.dir.env.disk;
        let known = match self.from.store.get() {
            Some(store) => {
                let copy = match &mut self.copy {
                    Some(copy) => copy,
                    none => none.insert(LogCopy::begin(disk, &self.files)?),
                };
                let known = copy.finish(store)?;
                self.moved.bytes.store(copy.bytes(), Ordering::Relaxed);
                let end = known.log_end.0 as u64;
                self.moved.end.store(end, Ordering::Relaxed);
                Some(known)
            }
            None => None,
        };
        let mut derived = self.from.derived.lock().elsewhere();
        let (marks, epochs) = {
            let state = partition.state.lock();
            let mut epochs = state.epochs.clone();
            // Appends that wait are of no directory yet.
            let at = state.pause.as_ref().map_or(state.tail.end(), Pause::at);
            epochs.truncate_from_end(at);
            (state.marks(), epochs)
        };
        if known.is_some() {
            derived
                .store(
                    &**disk,
                    &self.files,
                    partition.topic_id,
                    Some(&epochs),
                    None,
                    Syncing::Now,
                )
                .map_err(CopyError::Target)?;
        }
        let row = rows::row(
            partition.topic_id,
            partition.index,
            marks,
            known,
            derived.has_producers(),
        );
        Ok((row, derived))
    }

    /// Queues the appends that waited, where the partition lives.
    fn resume(&self) {
        let mut state = self.partition.state.lock();
        state.end_pause(&self.partition, &self.from.dir);
    }

    /// Ends a move before its commit: the partition stays where it is, and nothing is left at the target, which is taken offline when it
    /// could not be written.
    pub fn call_off(self, error: Option<MoveError>, news: &mut Vec<News>) {
        if let Some(MoveError::Copy(CopyError::Target(error))) = &error
            && !is_full(error)
            && !self.to.dir.is_failed()
        {
            self.to.dir.fail(error, news);
        }
        if let Stage::Arriving { arrival, .. } | Stage::Placed { arrival, .. } = &self.stage {
            arrival.abandon();
            // A deletion of the partition may have done this already.
            if self.partition.state.lock().arrives_at.take().is_some() {
                self.to.remove(&self.partition, None);
            }
        }
        self.resume();
        self.partition.state.lock().is_moving = false;
        commit(&self.from.dir, news);
        let disk = &self.to.dir.env.disk;
        let removed = disk.exists(&self.files).and_then(|is_there| {
            if is_there {
                disk.remove_dir_all(&self.files)
            } else {
                Ok(())
            }
        });
        // Files that cannot be removed now are removed at the next start.
        if let (Err(error), false) = (removed, self.to.dir.is_failed()) {
            tracing::warn!(target: env::logs::MOVES, "cannot remove {}: {error}", self.files.display());
        }
    }

    /// The metadata say that the partition lives at the target: from here on it does.
    pub fn switch_over(self, news: &mut Vec<News>) {
        let Stage::Placed { home, .. } = &self.stage else {
            unreachable!("only what is in place is settled")
        };
        let partition = &self.partition;
        let is_settled = {
            // Together: a checkpoint of the target that knows of a round with what waited must find the partition there.
            let mut partitions = self.to.partitions.lock();
            let mut state = partition.state.lock();
            let is_settled = !state.is_deleted;
            if is_settled {
                self.to.insert(&mut partitions, partition);
                state.move_to(home);
                state.end_pause(partition, &self.from.dir);
            }
            is_settled
        };
        if !is_settled {
            return self.call_off(None, news);
        }
        self.to.guests.lock().remove(&partition.key());
        if let Some(residents) = self.from.registry.upgrade() {
            residents.remove(partition, Some(Arc::clone(&self.from)));
        }
        if partition.is_going() {
            self.to.let_go(partition.key());
        }
        // A directory that fails walks over its logs; this one may have come too late for that.
        if self.to.dir.is_failed() {
            partition.on_dir_failed(news);
        }
        commit(&self.to.dir, news);
    }
}

/// Commits what was queued; whoever else is committing takes it along.
fn commit(dir: &LogDir, news: &mut Vec<News>) {
    while dir.commit(news) == Commit::Done && dir.has_queued() {}
}

impl PartitionState {
    /// True if all that came before the pause is durable, and in the segment files.
    fn is_quiet(&self) -> bool {
        let Some(pause) = &self.pause else {
            return false;
        };
        let durable = self.progress.points().durable;
        let is_durable = pause.at() <= durable && self.trims.len() == pause.trims_count();
        let is_written = !self.has_trimmed && self.tail.unwritten(pause.at(), 1).is_empty();
        is_durable && is_written
    }

    /// Puts everything that waited in the queue of the directory where the partition lives.
    fn end_pause(&mut self, partition: &Arc<Partition>, counted_at: &LogDir) {
        let Some(pause) = self.pause.take() else {
            return;
        };
        let dir = Arc::clone(&self.home.dir);
        pause.release(&counted_at.backlog, |push| {
            if dir.enqueue(partition, &mut self.slot, push, None) {
                self.join_trims();
            }
        });
    }

    /// Everything durable is in the files of `home`.
    fn move_to(&mut self, home: &Arc<Home>) {
        if let Some(store) = home.store.get() {
            store.set_config(Arc::clone(&self.config));
        }
        self.home = Arc::clone(home);
        self.arrives_at = None;
        self.is_moving = false;
        // All of these are of the old directory's queue and segment writer.
        self.slot = Slot::default();
        self.dirty = false;
        // The files have those of what was durable.
        self.are_epochs_changed = true;
        self.tail.evict(self.tail.written());
    }
}

impl Partition {
    /// True if the partition's files are those of `home`, and stay so for now.
    pub(crate) fn rests_in(&self, home: &Arc<Home>) -> bool {
        let state = self.state.lock();
        !state.is_moving && Arc::ptr_eq(&state.home, home)
    }
}
