//! Chore: the list of partitions to write is taken over, and the files of those that are gone go first.
//!
//! The segment writer alone renames and removes directories of partitions, so each partition's files have one writer.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use log::store::StoreError;
use model::Instant;

use super::chore::{Chore, Flow, Moment};
use super::ledger::Ledger;
use crate::dir::names::grave_name;
use crate::dir::residents::Doomed;
use crate::partition::{Home, Partition};

pub(super) struct TakeOver;

impl Chore for TakeOver {
    /// Whatever puts something on the list rings.
    fn due(&self, _: &Ledger, _: Instant) -> Option<Instant> {
        None
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
        let dirty = self.residents.named(&listed);
        for partition in &dirty {
            let flush_at = partition.state.lock().flush_at;
            self.note_flush(partition, flush_at);
        }
        // In this order: a topic that was deleted and made again (1) may be on the list already (2); its files would get into
        // the old directory, which then goes (3).
        let removed = self.remove_doomed();
        if removed.is_err() {
            self.dir.backlog.put_back(listed);
            return removed;
        }
        self.pending.extend(dirty);
        Ok(())
    }

    pub(super) fn remove_doomed(&mut self) -> Result<(), StoreError> {
        let mut doomed = VecDeque::from(std::mem::take(&mut *self.residents.doomed.lock()));
        while let Some(Doomed { partition, home }) = doomed.pop_front() {
            let key = partition.key();
            self.unsynced.remove(&key);
            self.flushes.remove(&key);
            self.hot.forget(&partition);
            // From here on nobody compacts it: the next topic of this name gets the same directory.
            let mut is_gone = home.as_ref().map(|home| home.cleaning.lock());
            if let (Some(home), Some(is_gone)) = (&home, &mut is_gone) {
                self.drop_unwritten(&partition, home);
                self.spent.retain(|(_, of, _)| !Arc::ptr_eq(of, home));
                **is_gone = true;
            }
            let has_files = match &home {
                Some(home) => home.store.get().is_some() || partition.unread.is_some(),
                // It did not come to live here, and may have left its files on the way.
                None => true,
            };
            if let Some(Err(error)) = has_files.then(|| self.bury(&partition)) {
                drop(is_gone);
                doomed.push_front(Doomed { partition, home });
                self.residents.doomed.lock().splice(0..0, doomed);
                return Err(self.io(error));
            }
            self.residents
                .guests
                .lock()
                .retain(|_, guest| !Arc::ptr_eq(&guest.partition, &partition));
        }
        Ok(())
    }

    /// Removes a partition's directory, so that a crash leaves its whole name or none.
    pub(super) fn bury(&self, partition: &Partition) -> io::Result<()> {
        let path = self.dir.partition_path(&partition.topic, partition.index);
        let disk = &self.dir.env.disk;
        let grave = grave_name(&partition.topic, partition.index, partition.topic_id);
        let grave = self.dir.path.join(grave);
        if disk.exists(&path)? {
            disk.rename(&path, &grave)?;
        } else if !disk.exists(&grave)? {
            return Ok(());
        }
        disk.sync_dir(&self.dir.path)?;
        disk.remove_dir_all(&grave)
    }

    /// What a deleted partition has in memory is not written any more. Nothing comes after: its rounds are not counted.
    pub(super) fn drop_unwritten(&self, partition: &Partition, home: &Arc<Home>) {
        let mut state = partition.state.lock();
        if !state.is_deleted || !Arc::ptr_eq(&state.home, home) {
            return;
        }
        let end = state.progress.points().durable;
        let gone = state.tail.unwritten(end, usize::MAX);
        let bytes: usize = gone.iter().map(|batch| batch.size()).sum();
        self.dir.backlog.remove(bytes);
        state.tail.on_written(end);
        state.tail.evict(end);
        state.dirty = false;
    }
}
