//! The need of a read that cannot be answered yet, and the piece that comes of it.
//!
//! A need owns all that its execution takes: the loop that planned may not wait for the disk, and hands it to a thread that may. The
//! execution plans nothing again. A tier adds a need for what lies below the local start.

use std::sync::Arc;

use env::FileHandle;
use log::{RecordTime, Verified};

use crate::file_read::FileRead;
use crate::partition::Partition;
use crate::read::{Read, ReadError, Records};
use crate::search::Search;

/// Bytes that are asked of the disk at once: a sync may have to wait behind them.
const STEP_BYTES: u64 = 2 << 20;

pub enum Need {
    Verify(Box<Verify>),
    WarmUp(WarmUp),
    Search(Search),
}

/// The result of an executed need.
pub enum Piece {
    Read(Result<Read, ReadError>),
    Found(Result<Option<RecordTime>, ReadError>),
}

/// A step of the execution was made.
pub enum Progress {
    Done(Piece),
    More(Need),
}

impl Need {
    /// Makes one step, so that other needs get their turn. May wait for the disk.
    #[must_use]
    pub fn advance(self) -> Progress {
        match self {
            Need::Verify(verify) => {
                let read = verify.partition.read_files(&verify.files);
                Progress::Done(Piece::Read(read))
            }
            Need::WarmUp(mut warm_up) => {
                warm_up.range.bring_some();
                if warm_up.range.is_brought() {
                    Progress::Done(Piece::Read(Ok(warm_up.read)))
                } else {
                    Progress::More(Need::WarmUp(warm_up))
                }
            }
            Need::Search(search) => Progress::Done(Piece::Found(search.execute())),
        }
    }

    /// All steps at once.
    #[must_use]
    pub fn execute(mut self) -> Piece {
        loop {
            match self.advance() {
                Progress::Done(piece) => return piece,
                Progress::More(rest) => self = rest,
            }
        }
    }

    /// About how many bytes of records the need gives.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Need::Verify(verify) => verify.bytes,
            Need::WarmUp(warm_up) => warm_up.read.records.len(),
            Need::Search(_) => 0,
        }
    }

    /// Bytes of records that the need keeps in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        match self {
            Need::Verify(verify) => verify.files.memory(),
            Need::WarmUp(_) | Need::Search(_) => 0,
        }
    }
}

/// Records of files that have to be found or verified, or whose aborted transactions have.
pub struct Verify {
    partition: Arc<Partition>,
    files: FileRead,
    bytes: usize,
}

impl Verify {
    pub(crate) fn new(partition: Arc<Partition>, files: FileRead, bytes: usize) -> Verify {
        Verify {
            partition,
            files,
            bytes,
        }
    }
}

/// A read whose file has to be brought to memory, so that sending it waits for no disk.
pub struct WarmUp {
    read: Read,
    range: Range,
}

impl WarmUp {
    /// Gives the read back if it is of no file.
    pub fn new(read: Box<Read>) -> Result<WarmUp, Box<Read>> {
        let Records::File(slice) = &read.records else {
            return Err(read);
        };
        let range = Range::of(slice);
        let read = *read;
        Ok(WarmUp { read, range })
    }
}

/// Bytes of a file that are brought to memory in small steps.
pub struct Range {
    file: FileHandle,
    position: u64,
    left: u64,
}

impl Range {
    /// Steps begin at multiples of it.
    pub const STEP_BYTES: u64 = STEP_BYTES;

    pub fn new(file: FileHandle, position: u64, len: u64) -> Range {
        Range {
            file,
            position,
            left: len,
        }
    }

    fn of(slice: &Verified) -> Range {
        let slice = slice.slice();
        Range::new(Arc::clone(&slice.file), slice.position, slice.len as u64)
    }

    pub fn bring_some(&mut self) {
        // Steps begin where those of other ranges do.
        let some = self.left.min(STEP_BYTES - self.position % STEP_BYTES);
        self.file.bring_in(self.position, some);
        self.position += some;
        self.left -= some;
    }

    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    #[must_use]
    pub fn is_brought(&self) -> bool {
        self.left == 0
    }
}
