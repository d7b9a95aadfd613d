//! Cuts of a log reach its segment files, in the turn of their only writer.
//!
//! Invariant: the journal has the cut durably, and no batch that was queued in front of it is on its way to the files.

use std::sync::Arc;

use log::AbortedTxn;
use log::producer::marker_of;
use log::store::{Cut, Store, StoreError};
use model::{Offset, Timestamp};

use super::ledger::Ledger;
use crate::cuts::FileCut;
use crate::derived::Derived;
use crate::dir::names::aside_name;
use crate::partition::{Hole, Home, Partition, PartitionState};
use crate::sync::Ordering;

impl Ledger {
    /// May be repeated where the disk was full.
    pub(super) fn cut_files(
        &mut self,
        partition: &Arc<Partition>,
        home: &Home,
        cut: FileCut,
        wall: Timestamp,
    ) -> Result<(), StoreError> {
        // Compaction swaps no segment in meanwhile.
        let _cleaning = home.cleaning.lock();
        let mut derived = home.derived.lock();
        let (mut damaged, mut lost) = (None, None);
        let carried = partition.state.lock().cuts.carried();
        if matches!(cut, FileCut::Restart { carries: true, .. }) {
            // What it goes on with needs a place beside its files.
            partition.store_or_create(home)?;
        }
        if let Some(store) = home.store.get() {
            if let FileCut::Lost(to) = cut {
                let name = aside_name(&partition.topic, partition.key(), to);
                let aside = self.dir.path.join(name);
                if store.set_aside(to, &aside)? {
                    tracing::warn!(target: env::logs::BROKER,
                        "{}: offsets from {to} on are set aside here: what is in front of them is lost, and the partition is fetched \
                         again from its leader",
                        aside.display(),
                    );
                }
            }
            let to = match cut {
                FileCut::To(to) | FileCut::Lost(to) => {
                    let before = store.log_end();
                    let Cut { end, lacks_from } = store.cut(to, wall)?;
                    damaged = lacks_from;
                    // A batch that holds the place has gone as a whole.
                    lost = (end < to && to < before).then_some(Hole { from: end, to });
                    if lost.is_none() {
                        partition.skip_gap(store, to)?;
                    }
                    to
                }
                FileCut::Restart { at, .. } => {
                    store.restart_at(at)?;
                    at
                }
            };
            derived.cut(&*self.dir.env.disk, store, cut, carried)?;
            damaged = damaged.or(derived.unread_from);
            // A file behind the place may take a name that a checkpoint, stored or under way, vouches for.
            let vouched_for = home.checkpointed.load(Ordering::Acquire);
            if to.0 as u64 <= vouched_for || self.under_way.is_some() {
                store.sync()?;
                self.trim_row(partition.key(), store.known().active_base)?;
            }
            home.checkpointed.fetch_min(to.0 as u64, Ordering::AcqRel);
            self.unsynced.insert(partition.key(), Arc::clone(partition));
        }
        partition.state.lock().on_files_cut(cut, lost, &derived);
        if let Some(at) = damaged {
            self.dir.on_rot_found();
            partition.has_repaired(at);
        }
        // The files are shorter than the last checkpoint says.
        self.dir.want_checkpoint();
        Ok(())
    }
}

impl Partition {
    /// Files that have all in front of a cut may end before it, where compaction left a gap.
    fn skip_gap(&self, store: &Store, to: Offset) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        let first = state.tail.unwritten(state.tail.end(), 1);
        let has_more = first.first().is_some_and(|batch| batch.base_offset() < to);
        if has_more || to <= store.log_end() {
            return Ok(());
        }
        store.expect_gaps(state.gaps_end)?;
        if to <= store.gaps_end() {
            store.go_on_at(to);
            let written = state.tail.written();
            state.tail.on_written(written.max(to));
        }
        Ok(())
    }
}

impl PartitionState {
    /// The files have seen a cut. `lost` is what they lack in front of it.
    fn on_files_cut(&mut self, cut: FileCut, lost: Option<Hole>, derived: &Derived) {
        if let FileCut::Lost(to) = cut {
            self.cut_holes(to);
        }
        self.holes.extend(lost);
        self.are_epochs_changed = true;
        let are_over = self.cuts.on_done(cut);
        if are_over {
            self.cut_off.clear();
        }
        if are_over && self.cuts.awaits_producers() {
            self.take_producers(derived);
            self.cuts.await_producers(false);
        }
    }

    /// Takes the states of producers from the files and the batches that these lack.
    pub(crate) fn take_producers(&mut self, derived: &Derived) {
        self.producers = derived.producers.clone();
        self.producers_lack = derived.unread_from;
        let unwritten = self.tail.unwritten(self.tail.end(), usize::MAX);
        for batch in &unwritten {
            let ended = self.producers.apply(batch, marker_of(batch));
            let aborted = ended.filter(|txn| txn.aborted).map(AbortedTxn::from);
            let is_known = |txn: &AbortedTxn| {
                (self.aborted.iter()).any(|known| known.last_offset == txn.last_offset)
            };
            let unknown = aborted.filter(|txn| !is_known(txn));
            self.aborted.extend(unknown);
        }
        let committed = self.progress.points().committed;
        self.producers.on_high_watermark(committed);
    }
}
