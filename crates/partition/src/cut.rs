//! Cutting a log where that of its leader differs, and restarting it, empty, at a later offset.
//!
//! Invariant: nothing that is known to be committed is cut, but where records are lost here, or by an unclean election, and then a copy of
//! the files stays. The log is shorter at once, and lives on under another number; the journal
//! has the cut behind all that was queued before, and the files follow it (see `cuts`).

use std::io;
use std::sync::Arc;

use log::Epochs;
use log::journal::{Entry, What};
use log::producer::ProducerStates;
use log::restart::Carried;
use log::tail::Tail;
use model::{LeaderEpoch, Offset, Ticket};

use crate::cuts::FileCut;
use crate::dir::names::restart_name;
use crate::dir::queue::{Push, Slot};
use crate::life::Life;
use crate::news::News;
use crate::partition::{Hole, Partition, PartitionState};
use crate::sync::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    #[error("partition was deleted")]
    Deleted,
    #[error("log directory is offline")]
    Offline,
    #[error("this broker leads the partition")]
    Leading,
    /// The partition is on its way to another directory; it may be tried again.
    #[error("partition is moving to another log directory")]
    Moving,
    /// Files are not as far as the log; it may be tried again.
    #[error("segment files are still written")]
    Writing,
    /// Only an unclean election explains this; without one, one of the two logs is not what it was.
    #[error("a cut to {to} would take records that are committed, below {committed}")]
    BelowCommitted { to: Offset, committed: Offset },
}

/// The part of a log that a cut removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutOff {
    /// Where the log ends now.
    pub to: Offset,
    /// Where the log ended before.
    pub end: Offset,
    /// Everything below was known to be committed.
    pub committed: Offset,
}

impl CutOff {
    /// Offsets that were removed.
    #[must_use]
    pub fn count(&self) -> i64 {
        (self.end.0 - self.to.0).max(0)
    }

    /// Removed offsets that were committed.
    #[must_use]
    pub fn committed_count(&self) -> i64 {
        (self.committed.0 - self.to.0).max(0)
    }
}

/// The point at which a log restarts, empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Log start of the new log; below `at` where a tier has what is between.
    pub log_start: Offset,
    /// The end of the new log, which is empty.
    pub at: Offset,
    /// Epoch of the last record in front of `at`.
    pub epoch: LeaderEpoch,
}

/// How much of a log is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// Everything below is durable.
    pub up_to: Offset,
    /// Life of the log that `up_to` is of: the last one whose beginning, the cut, is durable itself.
    pub life: Life,
}

impl Partition {
    /// Cuts off everything at and above `to`, as the leader of `epoch` asks. A batch that holds `to` is removed as a whole. Returns the
    /// life that begins; its appends come behind the cut. The new end is durable when [`Partition::synced`] says so of this life.
    pub fn cut(self: &Arc<Self>, to: Offset, epoch: LeaderEpoch) -> Result<Life, CutError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        self.check_cut(state, to)?;
        if state.tail.end() <= to {
            state.forget_empty_epochs();
            return Ok(state.progress.life());
        }
        let to = state.tail.cut_place(to);
        self.check_cut(state, to)?;
        let life = state.progress.on_cut(to);
        state.forget_unwritten(|tail| tail.cut(to));
        state.are_epochs_changed |= state.epochs.truncate_from_end(to);
        state.aborted.retain(|txn| txn.last_offset < to);
        let cut_off = state.cut_holes(to);
        state.cut_off.extend(cut_off);
        let has_producers = state.has_producers();
        if !has_producers {
            state.begin_producers(to);
        }
        state.cuts.await_producers(has_producers);
        state.cuts.push(life, FileCut::To(to));
        let what = What::Cut { to, epoch };
        self.push_cut(state, to, life, what);
        Ok(life)
    }

    /// Cuts the log of a follower at the first offset that it lost, if it lost any, though what is behind was committed: other replicas have
    /// it, and this one is not in sync. A copy of the files behind the cut stays beside the partition, under a name that no start
    /// takes for that of a partition. Returns where the log ends now.
    pub fn cut_lost(self: &Arc<Self>, epoch: LeaderEpoch) -> Result<Option<Offset>, CutError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let points = state.progress.points();
        let Some(lost) = state.first_hole() else {
            return Ok(None);
        };
        self.check_cut(state, points.end)?;
        // The copy is of files.
        if state.tail.written() < points.committed {
            return Err(CutError::Writing);
        }
        let to = state.tail.cut_place(lost.from.max(state.local_start));
        let to = to.max(state.local_start);
        self.cut_aside(state, to, epoch);
        Ok(Some(to))
    }

    /// Cuts the log of a follower at and above `to`, committed records too: an unclean election made a replica the leader that lacks them.
    /// May be tried again until all that is durable is in the files. A copy of the files behind the cut stays beside the partition, as
    /// after [`Partition::cut_lost`].
    pub fn cut_committed(
        self: &Arc<Self>,
        to: Offset,
        epoch: LeaderEpoch,
    ) -> Result<CutOff, CutError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let points = state.progress.points();
        self.check_cut(state, points.committed)?;
        // The copy is of files, and after a start more may have been committed than is known here.
        if state.tail.written() < points.durable {
            state.home.dir.want_checkpoint();
            return Err(CutError::Writing);
        }
        let to = state.tail.cut_place(to).max(points.start);
        if to < points.end {
            self.cut_aside(state, to, epoch);
        } else {
            state.forget_empty_epochs();
        }
        Ok(CutOff {
            to,
            end: points.end,
            committed: points.committed,
        })
    }

    /// The log ends at `to`; the files behind it are copied before they are cut.
    fn cut_aside(self: &Arc<Self>, state: &mut PartitionState, to: Offset, epoch: LeaderEpoch) {
        let life = state.progress.on_lost(to);
        // An unclean election may end the log below all files that are here.
        state.local_start = state.local_start.min(to);
        state.restart_point = state.restart_point.min(to);
        state.forget_unwritten(|tail| tail.cut(to));
        state.are_epochs_changed |= state.epochs.truncate_from_end(to);
        state.aborted.retain(|txn| txn.last_offset < to);
        // Holes stay until the files are cut: a start in between has to know that it lost something.
        let has_producers = state.has_producers();
        if !has_producers {
            state.begin_producers(to);
        }
        state.cuts.await_producers(has_producers);
        state.cuts.push(life, FileCut::Lost(to));
        self.push_cut(state, to, life, What::Cut { to, epoch });
    }

    /// Drops the whole log and restarts it, empty, at `at`: for a replica that is behind its leader's log start. A snapshot stands for what
    /// a metadata log drops.
    pub fn restart(self: &Arc<Self>, restart: Restart) -> Result<Life, CutError> {
        let mut epochs = Epochs::default();
        epochs.assign(restart.epoch, restart.at);
        let producers = ProducerStates::new(restart.at);
        self.begin_anew(restart.log_start, Carried { epochs, producers }, false)
    }

    /// Restarts the log, empty, behind records that the tier has from `log_start` on: for a replica that is behind the local start of its
    /// leader. [`Partition::keep_carried`] comes first, so that a crash finds what the log goes on with.
    pub fn rebuild(
        self: &Arc<Self>,
        log_start: Offset,
        carried: Carried,
    ) -> Result<Life, CutError> {
        self.begin_anew(log_start, carried, true)
    }

    fn begin_anew(
        self: &Arc<Self>,
        log_start: Offset,
        carried: Carried,
        is_tiered: bool,
    ) -> Result<Life, CutError> {
        let at = carried.at();
        let latest = carried.epochs.latest();
        let epoch = latest.map_or(LeaderEpoch::NONE, |latest| latest.epoch);
        let mut guard = self.state.lock();
        let state = &mut *guard;
        self.check_cut(state, at)?;
        let before = state.marks();
        state.cuts.keep(before);
        let life = state.progress.on_restart(log_start, at);
        state.begin_behind(carried, is_tiered, life);
        if is_tiered {
            state.home.carried_at.store(at.0 as u64, Ordering::Release);
        }
        let what = What::Restart {
            log_start,
            at,
            epoch,
        };
        self.push_cut(state, at, life, what);
        Ok(life)
    }

    /// Writes the file of a restart that is about to come. For a thread that may wait for the disk.
    pub fn keep_carried(&self, carried: &Carried) -> io::Result<()> {
        let dir = self.dir();
        let name = restart_name(self.key(), carried.at());
        carried.write(&*dir.env.disk, &dir.path, &name)
    }

    /// The tier has everything from the log start up to `to`, if that is committed here, and can stand for local files below.
    pub fn set_restart_point(&self, to: Offset) {
        let mut state = self.state.lock();
        let to = to.min(state.progress.points().committed);
        if state.restart_point < to {
            state.restart_point = to;
            // Files go once a checkpoint knows it.
            let dir = Arc::clone(&state.home.dir);
            drop(state);
            dir.want_row();
        }
    }

    /// Local retention wants the files to begin at `to`. They begin no later than a checkpoint forgives to the next start. Returns where
    /// they begin now. For the segment writer, which alone writes what is derived from the files.
    pub fn advance_local_start(self: &Arc<Self>, to: Offset) -> Offset {
        let home = self.home();
        let forgiven = Offset(home.forgiven.load(Ordering::Acquire) as i64);
        let committed = self.bounds().high_watermark;
        let to = (to.min(forgiven)).min(home.derived.lock().files_begin_max(committed));
        let mut state = self.state.lock();
        let to = to.min(state.restart_point);
        if state.is_deleted || self.is_offline_in(&state) || to <= state.local_start {
            return state.local_start;
        }
        state.local_start = to;
        state.tail.evict(to);
        state.has_trimmed = true;
        let is_first = !std::mem::replace(&mut state.dirty, true);
        let home = Arc::clone(&state.home);
        drop(state);
        if is_first {
            home.dir.backlog.add(0, Some(self.key()));
        }
        to
    }

    pub(crate) fn check_cut(&self, state: &PartitionState, to: Offset) -> Result<(), CutError> {
        let committed = state.progress.points().committed;
        if state.is_deleted {
            Err(CutError::Deleted)
        } else if self.is_offline_in(state) {
            Err(CutError::Offline)
        } else if state.progress.is_leading() {
            Err(CutError::Leading)
        } else if state.is_moving || state.pause.is_some() {
            Err(CutError::Moving)
        } else if state.cuts.keep_what_is_lost() {
            Err(CutError::Writing)
        } else if to < committed {
            Err(CutError::BelowCommitted { to, committed })
        } else {
            Ok(())
        }
    }

    pub(crate) fn push_cut(
        self: &Arc<Self>,
        state: &mut PartitionState,
        up_to: Offset,
        life: Life,
        what: What,
    ) {
        let push = Push {
            bytes: 0,
            up_to,
            is_trim: false,
            sync: true,
            life,
            entry: Entry {
                topic: self.topic_id,
                partition: self.index,
                what,
            },
        };
        self.enqueue(state, push, None);
        // A trim that comes later does not join one in front of the cut.
        state.slot = Slot::default();
    }

    /// Where each leader epoch of the log begins: what a quorum starts from, and what a replica compares with its leader's.
    pub fn epochs(&self) -> Epochs {
        self.state.lock().epochs.clone()
    }

    /// How much is durable here, committed or not.
    pub fn synced(&self) -> Synced {
        self.state.lock().synced()
    }

    /// Notifies `watcher` once, as readable, when more is durable than `seen`, or the directory fails; `false` when it already is.
    pub fn watch_synced(&self, watcher: Ticket, seen: Synced) -> bool {
        let mut state = self.state.lock();
        let is_live = !state.is_deleted && !self.is_offline_in(&state);
        let waits = is_live && state.synced() == seen;
        if waits {
            state.sync_watchers.push(watcher);
        }
        waits
    }

    /// The leader, or the quorum, says that everything below `up_to` is committed. Shown is what of it is durable here.
    pub fn on_committed(&self, up_to: Offset, news: &mut Vec<News>) {
        let mut state = self.state.lock();
        state.advance(news, |progress, _| progress.on_committed(up_to));
    }
}

impl PartitionState {
    pub(crate) fn synced(&self) -> Synced {
        Synced {
            up_to: self.progress.points().durable,
            life: self.cuts.durable(),
        }
    }

    /// Removes epochs in which no record was written here, though the leader has nothing that a cut would take. An empty log would name the
    /// first of them again and again, to a leader that never heard of it.
    fn forget_empty_epochs(&mut self) {
        let end = self.tail.end();
        self.are_epochs_changed |= self.epochs.truncate_from_end(end);
    }

    /// Bytes that are not in segment files never come there.
    pub(crate) fn forget_unwritten(&mut self, cut: impl FnOnce(&mut Tail) -> usize) {
        // Bytes that are not durable yet are counted when their round is; until then the count is too low by them.
        let bytes = cut(&mut self.tail);
        self.home.dir.backlog.remove(bytes);
    }

    /// The first loss that the log spans, unless the files are being cut there.
    pub(crate) fn first_hole(&self) -> Option<Hole> {
        let start = self.local_start;
        let spanned = self.holes.iter().filter(|hole| start < hole.to);
        let first = spanned.min_by_key(|hole| hole.from).copied();
        first.filter(|_| !self.cuts.keep_what_is_lost())
    }

    /// Lost offsets behind the end are nobody's loss. Returns them: until the files are cut a start finds them in its log.
    pub(crate) fn cut_holes(&mut self, to: Offset) -> Vec<Hole> {
        let behind = self.holes.iter().filter(|hole| to < hole.to);
        let behind = behind.map(|hole| Hole {
            from: hole.from.max(to),
            to: hole.to,
        });
        let behind = behind.collect();
        self.holes.retain(|hole| hole.from < to);
        for hole in &mut self.holes {
            hole.to = hole.to.min(to);
        }
        behind
    }

    pub(crate) fn tell_sync_watchers(&mut self, news: &mut Vec<News>) {
        news.extend(self.sync_watchers.drain(..).map(News::Readable));
    }
}
