//! New segments in the place of old ones, so that a crash at any moment leaves either.
//!
//! A new segment is written as `.log.cleaned`, with its aborted transactions and the checksums of its heads as `.txnindex.swap`, `.txncheck.swap` and
//! `.headcheck.swap`, all synced. Renaming it to `.log.swap` (and syncing the directory) commits: from then on a start finishes what follows. The old files get other
//! names, the new one takes the name of the first of them. Files that end in `.cleaned` were never committed and go at start.
//! The directory is open from before the commit on: a process without descriptors cannot be stopped half-way.
//! Readers keep the old segments, whose files are open, until they are done; no lock that an append waits for is held meanwhile.

use std::io;
use std::path::Path;
use std::sync::Arc;

use env::disk::{Dir, Open};
use env::{Disk, FileHandle};
use model::Offset;

use super::open::base_of;
use super::retire::EXTENSIONS;
use super::{Deleted, Store, StoreError};
use crate::file_name::file_name;
use crate::heads;
use crate::scan::scan_batches;
use crate::segment::Segment;
use crate::txn_index::Files;

/// A new segment while it is written.
const CLEANED: &str = "log.cleaned";
/// A new segment that is complete and stands for the old ones.
const SWAP: &str = "log.swap";
const TXNS_SWAP: &str = "txnindex.swap";
const CHECKS_SWAP: &str = "txncheck.swap";
const HEADS_SWAP: &str = "headcheck.swap";
/// Times of a segment that a crash kept from being sealed.
const TIMES_TMP: &str = "timeindex.tmp";

/// The aborted transactions of a new segment before it has its place.
fn swap_txns(dir: &Path, base: Offset) -> Files {
    Files::on_the_way(dir, base, ".swap")
}

impl Store {
    /// Creates the file of a new segment that is to begin at `base`.
    pub(crate) fn create_cleaned(&self, base: Offset) -> Result<(Segment, FileHandle), StoreError> {
        let path = self.dir.join(file_name(base, CLEANED));
        let file = self.disk().open(&path, Open::Truncate);
        let file = file.map_err(|error| StoreError::Io { path, error })?;
        Ok((Segment::cleaned(&self.pool, &self.dir, base), file))
    }

    /// Removes what was not swapped in. What cannot be removed goes at the next start.
    pub(crate) fn discard_cleaned(&self, base: Offset) {
        let _files = self.files.lock();
        self.discard_locked(base);
    }

    fn discard_locked(&self, base: Offset) {
        for extension in [CLEANED, TXNS_SWAP, CHECKS_SWAP, HEADS_SWAP] {
            let _ = self
                .disk()
                .remove_file(&self.dir.join(file_name(base, extension)));
        }
    }

    /// Puts `new`, whose file is written and synced, in the place of `old`. `None` when these are not in the log any more.
    /// That, and an error before the commit, leave the log as it was and nothing of `new`; an error after the commit is final,
    /// as the next start finishes the swap.
    pub(crate) fn swap(
        &self,
        old: &[Arc<Segment>],
        new: &Arc<Segment>,
    ) -> Result<Option<Deleted>, StoreError> {
        for segment in old {
            let known = self.sound_txns(segment);
            known.map_err(|error| self.scan(segment.base(), error))?;
        }
        let _files = self.files.lock();
        let segments = self.segments.load_full();
        let Some(first) = old.first() else {
            return Ok(None);
        };
        let at = segments.partition_point(|segment| segment.base() < first.base());
        let is_there = segments.get(at..at + old.len()).is_some_and(|present| {
            present
                .iter()
                .zip(old)
                .all(|(present, old)| Arc::ptr_eq(present, old))
        });
        // The active segment is never among them.
        if !is_there || at + old.len() >= segments.len() {
            self.discard_locked(new.base());
            return Ok(None);
        }
        let committed = self.commit_swap(old, new);
        if committed.is_err() {
            old.iter().for_each(|segment| segment.attach());
            self.discard_locked(new.base());
        }
        let opened = committed?;
        let finished = self.finish_swap(old, new, &*opened);
        if finished.is_err() {
            self.tail.lock().failed = true;
        }
        let deleted = finished.map_err(|error| self.io(error))?;
        {
            let mut tail = self.tail.lock();
            let mut segments = Vec::clone(&self.segments.load());
            segments.splice(at..at + old.len(), [Arc::clone(new)]);
            self.segments.store(Arc::new(segments));
            tail.dirty
                .retain(|dirty| !old.iter().any(|old| Arc::ptr_eq(old, dirty)));
        }
        new.on_heads_stored();
        // Only a cache: a start without it makes it anew.
        let _ = new.store_indexes();
        Ok(Some(deleted))
    }

    fn commit_swap(&self, old: &[Arc<Segment>], new: &Segment) -> Result<Box<dyn Dir>, StoreError> {
        for segment in old {
            segment
                .detach()
                .map_err(|error| self.scan(segment.base(), error))?;
        }
        let disk = self.disk();
        let path = |extension| self.dir.join(file_name(new.base(), extension));
        let aborted = new
            .all_aborted()
            .map_err(|error| self.scan(new.base(), error))?;
        let noted = new.all_heads().map_err(|error| self.io(error))?;
        let blocks = noted.blocks();
        let commit = || -> io::Result<Box<dyn Dir>> {
            // Also when it is empty, so that it replaces the old one.
            swap_txns(&self.dir, new.base()).create(&**disk, &aborted)?;
            heads::create(&**disk, &path(HEADS_SWAP), new.whose(), blocks)?;
            let opened = disk.open_dir(&self.dir)?;
            opened.sync()?;
            disk.rename(&path(CLEANED), &path(SWAP))?;
            Ok(opened)
        };
        commit().map_err(|error| self.io(error))
    }

    fn finish_swap(
        &self,
        old: &[Arc<Segment>],
        new: &Segment,
        opened: &dyn Dir,
    ) -> io::Result<Deleted> {
        let disk = self.disk();
        opened.sync()?;
        let mut deleted = Deleted::default();
        for segment in old.iter().skip(1) {
            self.move_away(segment.base(), &mut deleted)?;
        }
        take_place(&**disk, &self.dir, opened, new.base())?;
        Ok(deleted)
    }

    /// Gives the files of an old segment the names of deleted ones. Producer snapshots stay: they are of the log.
    fn move_away(&self, base: Offset, deleted: &mut Deleted) -> io::Result<()> {
        for extension in EXTENSIONS.iter().filter(|of| **of != "snapshot") {
            let from = self.dir.join(file_name(base, extension));
            let to = self
                .dir
                .join(file_name(base, extension) + super::open::DELETED);
            match self.disk().rename(&from, &to) {
                Ok(()) => deleted.paths.push(to),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The last steps of a swap: the new segment gets its name when nothing of the old ones is left beside it.
fn take_place(disk: &dyn Disk, dir: &Path, opened: &dyn Dir, base: Offset) -> io::Result<()> {
    let path = |extension| dir.join(file_name(base, extension));
    for cache in ["index", "timeindex"] {
        unless_missing(disk.remove_file(&path(cache)))?;
    }
    swap_txns(dir, base).rename_to(disk, &Files::of(dir, base))?;
    unless_missing(disk.rename(&path(HEADS_SWAP), &path(heads::EXTENSION)))?;
    // The old names are gone for good before the one goes that says so.
    opened.sync()?;
    disk.rename(&path(SWAP), &path("log"))?;
    opened.sync()
}

fn unless_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Finishes the swaps that a crash interrupted after their commit, and forgets the others. Before the segments are listed.
pub(super) fn finish_swaps(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let entries = disk.read_dir(dir)?;
    let named = |extension: &str| -> Vec<Offset> {
        entries
            .iter()
            .filter_map(|entry| base_of(&entry.name, extension))
            .collect()
    };
    for extension in [CLEANED, TIMES_TMP] {
        for base in named(extension) {
            disk.remove_file(&dir.join(file_name(base, extension)))?;
        }
    }
    let committed = named(SWAP);
    let uncommitted = [TXNS_SWAP, CHECKS_SWAP, HEADS_SWAP]
        .map(named)
        .into_iter()
        .flatten();
    for base in uncommitted.filter(|base| !committed.contains(base)) {
        swap_txns(dir, base).remove(disk)?;
        unless_missing(disk.remove_file(&dir.join(file_name(base, HEADS_SWAP))))?;
    }
    for base in committed {
        let path = dir.join(file_name(base, SWAP));
        let Some(end) = end_of(disk, &path, base)? else {
            // It was synced before it got this name, so it has rotted since. What is left of the old ones is worth more.
            tracing::error!(target: env::logs::SEGMENTS,
                "{}: a compacted segment does not verify, it is left out",
                path.display()
            );
            disk.remove_file(&path)?;
            continue;
        };
        for entry in &entries {
            let replaced = EXTENSIONS
                .iter()
                .filter(|extension| **extension != "snapshot")
                .find_map(|extension| base_of(&entry.name, extension))
                .is_some_and(|other| base < other && other < end);
            if replaced {
                unless_missing(disk.remove_file(&dir.join(&entry.name)))?;
            }
        }
        take_place(disk, dir, &*disk.open_dir(dir)?, base)?;
    }
    Ok(())
}

/// The end of a segment, all of whose batches verify. A new segment always ends with the last batch of the old ones.
fn end_of(disk: &dyn Disk, path: &Path, base: Offset) -> io::Result<Option<Offset>> {
    let file = disk.open(path, Open::Read)?;
    let mut end = base;
    let (_, damage) = scan_batches(&*file, 0, file.len()?, base, |_, batch| {
        end = batch.next_offset();
    })?;
    Ok(damage.is_none().then_some(end))
}
