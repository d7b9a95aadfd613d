//! Checksums of the heads of a segment's batches: in memory until they are written, which a checkpoint does before it syncs.
//!
//! Invariant: what the file says below the end that a checkpoint vouches for is of the batches that are there. So what lies beyond the
//! first batch of this life goes with the next write, and a cut is synced as writes are, by the checkpoint that comes next.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use env::FileHandle;
use env::disk::Open;
use wire::records::{Batch, Head};

use super::Segment;
use crate::heads::{self, Block, Heads, Whose};
use crate::journal::lacks_descriptors;
use crate::scan::ScanError;

#[derive(Default)]
pub(super) struct Noted {
    /// Not in the file yet.
    pending: Vec<Block>,
    /// Blocks of the file, once it was looked at.
    stored: Option<u64>,
    /// The file is not kept open for that, as one is that holds batches: when the kernel forgets a failed write-back, blocks are
    /// missing or do not verify.
    is_unsynced: bool,
    place: Location,
}

/// Where the file is.
#[derive(Default)]
enum Location {
    #[default]
    ByName,
    /// The name is another segment's: at most this one is ours.
    Apart(Option<FileHandle>),
}

impl Segment {
    pub(crate) fn whose(&self) -> Whose {
        let (topic, partition) = self.dir.whose();
        Whose {
            topic,
            partition,
            base: self.base,
        }
    }

    /// Takes note of batches that were written at `position`.
    pub(super) fn note_heads(&self, mut position: u64, batches: &[Batch]) {
        let mut noted = self.heads.lock();
        for batch in batches {
            heads::note(&mut noted.pending, position, batch);
            position += batch.size() as u64;
        }
    }

    /// The known heads in `positions`.
    pub(crate) fn heads(&self, positions: Range<u64>) -> io::Result<Heads> {
        let noted = self.heads.lock();
        let file = self.heads_file(&noted)?;
        let overlaps =
            |block: &&Block| block.from() < positions.end && positions.start < block.to();
        let first = noted.pending.first().map(Block::from);
        let pending: Vec<Block> = noted.pending.iter().filter(overlaps).cloned().collect();
        // The writer does not wait for the disk.
        drop(noted);
        let stored = file.map(|file| heads::read(&*file, self.whose(), positions.clone()));
        // Where it cannot be read it covers nothing.
        let mut blocks = stored.and_then(Result::ok).unwrap_or_default();
        // Blocks that the file has beyond are the same, written meanwhile, or of an earlier life.
        blocks.retain(|block| first.is_none_or(|first| block.to() <= first));
        blocks.extend(pending);
        Ok(Heads::new(blocks))
    }

    fn heads_file(&self, noted: &Noted) -> io::Result<Option<FileHandle>> {
        if let Location::Apart(file) = &noted.place {
            return Ok(file.clone());
        }
        let path = || self.path(heads::EXTENSION);
        match self.pool.get(&self.heads_file, Open::Write, path) {
            Err(error) if lacks_descriptors(&error) => Err(error),
            opened => Ok(opened.ok()),
        }
    }

    /// Holds one batch that was there before this life against its checksum.
    pub(crate) fn check_head(&self, position: u64, head: &Head) -> Result<(), ScanError> {
        if position >= self.trust.appended_from() {
            return Ok(());
        }
        Ok(self.heads(position..position + 1)?.check(position, head)?)
    }

    /// Writes what the file lacks. Returns whether the directory must be synced for a new file.
    pub(crate) fn write_heads(&self) -> io::Result<bool> {
        let detached = self.detached.lock();
        let mut noted = self.heads.lock();
        let Some(first) = noted
            .pending
            .first()
            .filter(|_| !*detached)
            .map(Block::from)
        else {
            return Ok(false);
        };
        let path = || self.path(heads::EXTENSION);
        let file = self.pool.get(&self.heads_file, Open::Create, path)?;
        let len = file.len()?;
        let stored = match noted.stored {
            Some(stored) => stored,
            None => heads::count_below(&*file, self.whose(), first).unwrap_or(0),
        };
        if stored * (heads::BLOCK_SIZE as u64) < len {
            file.set_len(stored * heads::BLOCK_SIZE as u64)?;
        }
        heads::write(&*file, self.whose(), stored, &noted.pending)?;
        noted.stored = Some(stored + noted.pending.len() as u64);
        noted.pending.clear();
        noted.is_unsynced = true;
        Ok(stored == 0)
    }

    /// The file whose bytes a sync must cover; the next one does where this finds no descriptor.
    pub(crate) fn take_unsynced_heads(&self) -> Option<FileHandle> {
        let mut noted = self.heads.lock();
        let file = (noted.is_unsynced).then(|| self.heads_file(&noted))?.ok()?;
        noted.is_unsynced = false;
        file
    }

    /// A sync of the volume covered them.
    pub(crate) fn on_heads_synced(&self) {
        self.heads.lock().is_unsynced = false;
    }

    /// Forgets batches that end beyond `len`.
    pub(super) fn cut_heads(&self, len: u64) -> io::Result<()> {
        let mut noted = self.heads.lock();
        noted.pending.retain(|block| block.to() <= len);
        let path = || self.path(heads::EXTENSION);
        let file = match self.pool.get(&self.heads_file, Open::Write, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let kept = heads::count_below(&*file, self.whose(), len).unwrap_or(0);
        file.set_len(kept * heads::BLOCK_SIZE as u64)?;
        noted.stored = Some(kept);
        noted.is_unsynced = true;
        Ok(())
    }

    /// All that is known, for a copy of the segment.
    pub(crate) fn all_heads(&self) -> io::Result<Heads> {
        self.heads(0..self.len.load(Ordering::Acquire))
    }

    /// The name goes to another segment.
    pub(super) fn detach_heads(&self) -> io::Result<()> {
        let mut noted = self.heads.lock();
        noted.place = Location::Apart(self.heads_file(&noted)?);
        Ok(())
    }

    /// It stays ours.
    pub(super) fn attach_heads(&self) {
        self.heads.lock().place = Location::ByName;
    }

    /// The name is another's as yet.
    pub(super) fn keep_heads_apart(&self) {
        self.heads.lock().place = Location::Apart(None);
    }

    /// The segment was swapped in, with a file that has them all.
    pub(crate) fn on_heads_stored(&self) {
        let mut noted = self.heads.lock();
        noted.place = Location::ByName;
        noted.stored = Some(noted.pending.len() as u64);
        noted.pending.clear();
    }
}
