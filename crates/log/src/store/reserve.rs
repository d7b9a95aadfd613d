//! Blocks reserved ahead of a growing segment, so that its file lies in few pieces however many files grow beside it.
//!
//! Only of segments that have some size already, in steps as large as what they hold: a small log takes no room it does not
//! use, and a large one at most double; with `preallocate` the whole segment when it is begun. Lengths never show what is
//! reserved. It is given back when the segment is sealed, when nothing was appended for a while (but for `preallocate`, whose
//! point is that the room is there), when the disk is full and at a clean stop; after a crash it stays until then. Promises
//! nothing: a disk that refuses is not asked again for this segment, and takes the bytes when they come.

use env::File;

use super::{Store, Tail};
use crate::config::LogConfig;
use crate::segment::Segment;

/// Segments below this size reserve nothing; of small segments it is a quarter. File systems reserve some MiB themselves:
/// smaller steps than this would make more pieces, not fewer.
const SEGMENT_BYTES_MIN: u64 = 8 << 20;
/// One step: as much as the segment holds, up to this. Larger ones would not make reading quicker.
const STEP_BYTES_MAX: u64 = 64 << 20;

/// The reservation of the active segment.
#[derive(Default)]
pub(super) struct Reserved {
    /// Blocks are there up to this position; 0 when nothing was reserved.
    upto: u64,
    /// The disk had no room, or someone needed it.
    is_refused: bool,
    /// By `preallocate`, from the beginning.
    is_whole: bool,
    /// Length of the segment when [`Store::trim_idle`] came by.
    len_seen: u64,
}

impl Reserved {
    /// The reservation for a segment without bytes.
    pub(super) fn at_start(segment: &Segment, config: &LogConfig) -> Reserved {
        let mut reserved = Reserved::default();
        if !config.preallocate {
            return reserved;
        }
        let Ok(file) = segment.file() else {
            return reserved;
        };
        let segment_bytes = config.segment_bytes.min(i32::MAX as u64);
        match file.allocate(0, segment_bytes) {
            Ok(()) => {
                reserved.upto = segment_bytes;
                reserved.is_whole = true;
            }
            // Some of it may be there: that is the room the bytes are to go to.
            Err(_) => reserved.give_back(&*file),
        }
        reserved
    }

    /// `segment` is about to grow to `len` bytes.
    pub(super) fn before_write(&mut self, segment: &Segment, config: &LogConfig, len: u64) {
        let segment_bytes = config.segment_bytes.min(i32::MAX as u64);
        if self.is_refused || len <= self.upto || len < SEGMENT_BYTES_MIN.min(segment_bytes / 4) {
            return;
        }
        let upto = (len + len.min(STEP_BYTES_MAX)).min(segment_bytes);
        if upto <= len {
            return;
        }
        let Ok(file) = segment.file() else { return };
        // From where the last step ended, which is the beginning at first: what was written and has no blocks yet then gets them
        // in one piece too.
        match file.allocate(self.upto, upto - self.upto) {
            Ok(()) => self.upto = upto,
            Err(_) => self.give_back(&*file),
        }
    }

    fn give_back(&mut self, file: &dyn File) {
        self.is_refused = true;
        self.upto = 0;
        // Without effect at worst: the room stays taken until the segment goes.
        let _ = file.trim();
    }

    /// `segment` takes no more appends.
    pub(super) fn on_seal(&mut self, segment: &Segment, config: &LogConfig) {
        if (self.upto > segment.len() || config.preallocate)
            && let Ok(file) = segment.file()
        {
            self.give_back(&*file);
        }
        *self = Reserved::default();
    }
}

impl Store {
    /// Gives back what is reserved ahead, and reserves no more of this segment: the room is needed, or the log is closed.
    pub fn trim(&self) {
        let mut tail = self.tail.lock();
        self.trim_locked(&mut tail);
        tail.reserved.is_refused = true;
    }

    /// Gives back what is reserved ahead when nothing was appended since the last call.
    pub fn trim_idle(&self) {
        let mut tail = self.tail.lock();
        let len = self.active().len();
        if tail.reserved.len_seen == len && !tail.reserved.is_whole {
            self.trim_locked(&mut tail);
        }
        tail.reserved.len_seen = len;
    }

    fn trim_locked(&self, tail: &mut Tail) {
        let active = self.active();
        if tail.reserved.upto > active.len()
            && let Ok(file) = active.file()
        {
            let _ = file.trim();
        }
        tail.reserved.upto = 0;
    }
}
