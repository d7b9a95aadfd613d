//! Pieces of the journal: files of zeroes, made ahead of the rounds that are written over them.
//!
//! A piece is zeroed in steps, so that its maker may pause between them, and handed out only when it is durable with its name:
//! syncs of rounds then write no file-system metadata. Does not decide when pieces are made, nor how many.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use env::disk::Open;
use env::{Disk, FileHandle};
use parking_lot::Mutex;

use super::format::PAGE;

/// Zeroes are written in slices of this size.
const ZERO_BYTES: usize = 128 << 10;
pub(super) static ZEROES: [u8; ZERO_BYTES] = [0; ZERO_BYTES];

/// A file that holds rounds, named by a slot that outlives its uses.
#[derive(Clone)]
pub struct Piece {
    pub slot: u32,
    pub file: FileHandle,
    pub bytes: u64,
}

impl Piece {
    /// Behind the last place of a round. The page there is the header once more, for when the first is lost with the first round.
    pub(super) fn rounds_end(&self) -> u64 {
        self.bytes - PAGE
    }
}

/// Pieces that are ready to be written: zeroed or recycled. Filled in the background, emptied by the commit path.
#[derive(Clone)]
pub struct Spares {
    pieces: Arc<Mutex<VecDeque<Piece>>>,
    next_slot: Arc<AtomicU32>,
}

impl Spares {
    pub(super) fn new(free_slot: u32) -> Spares {
        Spares {
            pieces: Arc::default(),
            next_slot: Arc::new(AtomicU32::new(free_slot)),
        }
    }

    /// The slot number for a piece that is about to be made.
    pub fn reserve_slot(&self) -> u32 {
        self.next_slot.fetch_add(1, Ordering::Relaxed)
    }

    pub fn count(&self) -> usize {
        self.pieces.lock().len()
    }

    /// Bytes of all of them: they are not all of one size.
    pub fn bytes(&self) -> u64 {
        self.pieces.lock().iter().map(|piece| piece.bytes).sum()
    }

    pub fn put(&self, piece: Piece) {
        self.pieces.lock().push_back(piece);
    }

    pub(super) fn take(&self, bytes_min: u64) -> Option<Piece> {
        let mut pieces = self.pieces.lock();
        let fits = pieces.iter().position(|piece| piece.bytes >= bytes_min)?;
        pieces.remove(fits)
    }
}

/// A piece on its way.
pub struct Making {
    path: PathBuf,
    piece: Piece,
    zeroed: u64,
}

impl Making {
    pub fn begin(disk: &dyn Disk, dir: &Path, slot: u32, bytes: u64) -> io::Result<Making> {
        let path = piece_path(dir, slot);
        let file = disk.open(&path, Open::Truncate)?;
        let bytes = bytes.next_multiple_of(PAGE);
        Ok(Making {
            path,
            piece: Piece { slot, file, bytes },
            zeroed: 0,
        })
    }

    /// Zeroes up to `bytes` more and starts their write-back. The last step makes the piece durable with its directory entry,
    /// and returns it.
    pub fn step(&mut self, disk: &dyn Disk, bytes: u64) -> io::Result<Option<Piece>> {
        let file = &self.piece.file;
        let from = self.zeroed;
        let to = self.piece.bytes.min(from.saturating_add(bytes));
        let slices: Vec<IoSlice<'_>> = (from..to)
            .step_by(ZERO_BYTES)
            .map(|at| IoSlice::new(&ZEROES[..ZERO_BYTES.min((to - at) as usize)]))
            .collect();
        file.write_pages(&slices, from)?;
        self.zeroed = to;
        if self.zeroed < self.piece.bytes {
            file.start_writeback(from, to - from);
            return Ok(None);
        }
        file.sync_data()?;
        if let Some(dir) = self.path.parent() {
            disk.sync_dir(dir)?;
        }
        Ok(Some(self.piece.clone()))
    }

    /// Gives back the room that half a piece takes.
    pub fn abandon(self, disk: &dyn Disk) {
        // A file that cannot be removed is found by the next start, and used.
        let _ = disk.remove_file(&self.path);
    }
}

/// Makes a piece in one go.
pub fn make_piece(disk: &dyn Disk, dir: &Path, slot: u32, bytes: u64) -> io::Result<Piece> {
    let mut making = Making::begin(disk, dir, slot, bytes)?;
    match making.step(disk, u64::MAX) {
        Ok(Some(piece)) => Ok(piece),
        Ok(None) => unreachable!("a step without bound is the last one"),
        Err(error) => {
            making.abandon(disk);
            Err(error)
        }
    }
}

pub fn piece_path(dir: &Path, slot: u32) -> PathBuf {
    dir.join(format!("{slot:08}.journal"))
}

/// The volume, or our share of it, is full; or the process, or the machine, has no descriptor left. Nothing is wrong with the
/// disk, and the same may be tried again.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    ) || lacks_descriptors(error)
}

/// A file or directory could not be opened for want of a descriptor; nothing else was tried.
#[must_use]
pub fn lacks_descriptors(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}
