//! Chore: the list of partitions to write is taken over, and the files of deleted ones are removed before anything is written.
//!
//! The segment writer alone renames and removes directories of partitions, so each partition's files have one writer. A removal that fails
//! now is reported once and tried again; a new topic of the same name is written when the name is free.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use log::journal::lacks_descriptors;
use log::store::StoreError;
use model::Instant;

use super::chore::{Chore, Flow, Moment};
use super::ledger::Ledger;
use crate::dir::durable::Key;
use crate::dir::names::{grave_name, is_there};
use crate::dir::residents::Doomed;
use crate::partition::{Home, Partition};

/// How soon a removal that failed is tried again. Where open files cannot be renamed or removed (SMB, NFS), a reader has them.
const REMOVAL_RETRY: Duration = Duration::from_secs(1);

/// Files that could not be removed, and partitions that wait for that. None of it is a reason to take the directory offline.
#[derive(Default)]
pub(super) struct Removals {
    /// When removals are tried again.
    retry_at: Option<Instant>,
    /// Removed partitions whose files still have the names of their partitions.
    stuck: Vec<Doomed>,
    /// Directories of removed partitions that are not empty yet.
    graves: Vec<PathBuf>,
    /// Directories in `graves` that were reported.
    reported: BTreeSet<PathBuf>,
    /// Partitions whose spent segments could not be renamed.
    unspent: BTreeMap<Key, Arc<Partition>>,
    /// Partitions with something to write that have the name of one in `stuck`.
    waiting: Vec<Arc<Partition>>,
}

impl Removals {
    /// True if the files of a partition would get into a directory that is to be removed.
    fn is_in_the_way_of(&self, partition: &Partition) -> bool {
        let stuck = self.stuck.iter().map(|doomed| &doomed.partition);
        stuck
            .map(|of| (&of.topic, of.index))
            .any(|name| name == (&partition.topic, partition.index))
    }

    /// True if something that is committed is neither written nor on the list.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Spent segments of the partition keep their names until the next try.
    pub(super) fn keeps_spent(&self, partition: &Partition) -> bool {
        self.unspent.contains_key(&partition.key())
    }

    pub(super) fn on_spent_stuck(&mut self, partition: &Arc<Partition>, now: Instant) {
        self.unspent.insert(partition.key(), Arc::clone(partition));
        self.try_again(now);
    }

    fn try_again(&mut self, now: Instant) {
        self.retry_at.get_or_insert(now.plus(REMOVAL_RETRY));
    }
}

pub(super) struct TakeOver;

impl Chore for TakeOver {
    /// Each addition to the list rings; a removal that failed has its time.
    fn due(&self, ledger: &Ledger, _: Instant) -> Option<Instant> {
        ledger.removals.retry_at
    }

    fn runs(&self, _: &Ledger, _: Instant) -> bool {
        true
    }

    fn run(&mut self, ledger: &mut Ledger, _: &mut Moment) -> Result<Flow, StoreError> {
        ledger.take_dirty()?;
        Ok(Flow::Continue(()))
    }
}

impl Ledger {
    /// Takes the list of partitions to write.
    pub(super) fn take_dirty(&mut self) -> Result<(), StoreError> {
        let listed = self.dir.backlog.take_listed();
        let mut dirty = self.residents.named(&listed);
        for partition in &dirty {
            let flush_at = partition.state.lock().flush_at;
            self.note_flush(partition, flush_at);
        }
        // The list is taken before the removals. The other way round, a topic that is deleted and created again in between (1) may be on
        // the list (2); its files would get into the old directory, which is then removed (3).
        let removed = self.remove_doomed();
        if removed.is_err() {
            self.dir.backlog.put_back(listed);
            return removed;
        }
        dirty.append(&mut self.removals.waiting);
        let is_blocked = |of: &Arc<Partition>| self.removals.is_in_the_way_of(of);
        let (blocked, free) = dirty.into_iter().partition(is_blocked);
        self.removals.waiting = blocked;
        let free: Vec<Arc<Partition>> = free;
        self.pending.extend(free);
        Ok(())
    }

    pub(super) fn remove_doomed(&mut self) -> Result<(), StoreError> {
        let now = self.dir.env.clock.now();
        if self.removals.retry_at.is_some_and(|at| at <= now) {
            self.removals.retry_at = None;
            self.remove_again(now);
        }
        let mut doomed = VecDeque::from(std::mem::take(&mut *self.residents.doomed.lock()));
        while let Some(Doomed { partition, home }) = doomed.pop_front() {
            let key = partition.key();
            self.unsynced.remove(&key);
            self.flushes.remove(&key);
            self.removals.unspent.remove(&key);
            self.hot.forget(&partition);
            // Compaction must not touch the files any more: the next topic of this name gets the same directory.
            let mut is_gone = home.as_ref().map(|home| home.cleaning.lock());
            if let (Some(home), Some(is_gone)) = (&home, &mut is_gone) {
                self.drop_unwritten(&partition, home);
                self.spent.retain(|(_, of, _)| !Arc::ptr_eq(of, home));
                **is_gone = true;
            }
            drop(is_gone);
            let doomed_one = Doomed { partition, home };
            match self.bury_doomed(&doomed_one, now) {
                Ok(()) => self.forget_guest(&doomed_one.partition),
                Err(error) if lacks_descriptors(&error) => {
                    doomed.push_front(doomed_one);
                    self.residents.doomed.lock().splice(0..0, doomed);
                    return Err(self.io(error));
                }
                Err(error) => {
                    let Partition { topic, index, .. } = &*doomed_one.partition;
                    env::tell!(
                        "{}: the files of {topic}-{index}, which is deleted, stay as yet: {error}",
                        self.dir.path.display()
                    );
                    self.removals.stuck.push(doomed_one);
                    self.removals.try_again(now);
                }
            }
        }
        Ok(())
    }

    /// Tries again to remove what could not be removed before; it was reported then.
    fn remove_again(&mut self, now: Instant) {
        for doomed in std::mem::take(&mut self.removals.stuck) {
            match self.bury_doomed(&doomed, now) {
                Ok(()) => self.forget_guest(&doomed.partition),
                Err(_) => {
                    self.removals.stuck.push(doomed);
                    self.removals.try_again(now);
                }
            }
        }
        for grave in std::mem::take(&mut self.removals.graves) {
            self.remove_grave(grave, now);
        }
        let unspent = std::mem::take(&mut self.removals.unspent);
        for partition in unspent.into_values() {
            let mut state = partition.state.lock();
            // A partition that has more to write is on the list already.
            if !std::mem::replace(&mut state.dirty, true) {
                drop(state);
                self.pending.push_back(partition);
            }
        }
    }

    fn bury_doomed(&mut self, doomed: &Doomed, now: Instant) -> io::Result<()> {
        let Doomed { partition, home } = doomed;
        let has_files = match home {
            Some(home) => home.store.get().is_some() || partition.unread.is_some(),
            // A partition that did not come to live here may have left its files on the way.
            None => true,
        };
        if !has_files {
            return Ok(());
        }
        if let Some(store) = home.as_ref().and_then(|home| home.store.get()) {
            store.close_files();
        }
        self.bury(partition, now)
    }

    fn forget_guest(&self, partition: &Arc<Partition>) {
        self.residents
            .guests
            .lock()
            .retain(|_, guest| !Arc::ptr_eq(&guest.partition, partition));
    }

    /// Removes a partition's directory, so that a crash leaves its whole name or none. When it returns, the name is free; files that
    /// cannot be removed are left to later tries.
    pub(super) fn bury(&mut self, partition: &Partition, now: Instant) -> io::Result<()> {
        let path = self.dir.partition_path(&partition.topic, partition.index);
        let disk = &self.dir.env.disk;
        let grave = grave_name(&partition.topic, partition.index, partition.topic_id);
        let grave = self.dir.path.join(grave);
        if is_there(&**disk, &path, self.dir.folds_names)? {
            disk.rename(&path, &grave)?;
        } else if !disk.exists(&grave)? {
            return Ok(());
        }
        disk.sync_dir(&self.dir.path)?;
        self.remove_grave(grave, now);
        Ok(())
    }

    fn remove_grave(&mut self, grave: PathBuf, now: Instant) {
        let removed = self.dir.env.disk.remove_dir_all(&grave);
        if let Err(error) = removed.or_else(unless_gone) {
            let is_first = self.removals.reported.insert(grave.clone());
            if is_first {
                env::tell!("{} cannot be removed as yet: {error}", grave.display());
            }
            self.removals.graves.push(grave);
            self.removals.try_again(now);
        } else {
            self.removals.reported.remove(&grave);
        }
    }

    /// Batches of a deleted partition in memory are not written any more. Nothing comes after: its rounds are not counted.
    pub(super) fn drop_unwritten(&self, partition: &Partition, home: &Arc<Home>) {
        let mut state = partition.state.lock();
        if !state.is_deleted || !Arc::ptr_eq(&state.home, home) {
            return;
        }
        let end = state.progress.points().durable;
        let gone = state.tail.unwritten(end, usize::MAX);
        let bytes: usize = gone.iter().map(|batch| batch.held()).sum();
        self.dir.backlog.remove(bytes);
        state.tail.on_written(end);
        state.tail.evict(end);
        state.dirty = false;
    }
}

fn unless_gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound {
        Ok(())
    } else {
        Err(error)
    }
}
