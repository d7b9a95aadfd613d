//! The maker of journal pieces: keeps so many ready that a commit practically never makes one itself.
//!
//! Zeroes in small steps with pauses between them, so that the syncs of commits and the writes of segments beside it stay
//! short; the less room the journal has, the shorter the pauses. Makes nothing while the volume is full, nor when pieces come
//! back from checkpoints fast enough, and never touches a piece that it has handed over.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use env::{Turn, Worker};
use log::journal::{Making, is_full};
use model::Instant;

use super::announce::Announce;
use super::log_dir::LogDir;
use crate::sync::Ordering;

/// Whole pieces kept ready: while one is used up the next is made.
const READY_PIECES: u64 = 2;
/// Zeroes written between two pauses: about a millisecond of a fast disk.
const STEP_BYTES: u64 = 1 << 20;
/// Pause after a step while the journal has room for a whole piece of rounds; it shrinks and grows with that room. So a piece
/// of 64 MiB is made within 0.3 s, and in time for commits of 600 MiB/s.
const STEP_PAUSE: Duration = Duration::from_millis(2);

pub struct PieceMaker {
    dir: Arc<LogDir>,
    announce: Arc<dyn Announce>,
    making: Option<Making>,
}

impl PieceMaker {
    pub fn new(dir: Arc<LogDir>, announce: Arc<dyn Announce>) -> PieceMaker {
        PieceMaker {
            dir,
            announce,
            making: None,
        }
    }

    fn work(&mut self) -> io::Result<Turn> {
        let dir = &self.dir;
        let disk = &*dir.env.disk;
        if dir.is_full() {
            self.abandon();
            return Ok(Turn::Sleep { until: None });
        }
        let piece_bytes = dir.settings.journal_piece_bytes;
        let Some(making) = &mut self.making else {
            let spare = dir.spares.bytes();
            if spare >= READY_PIECES * piece_bytes || spare > 0 && !self.has_room_to_spare() {
                return Ok(Turn::Sleep { until: None });
            }
            let slot = dir.spares.reserve_slot();
            let journal = LogDir::journal_path(&dir.path);
            self.making = Some(Making::begin(disk, &journal, slot, piece_bytes)?);
            return Ok(Turn::Again);
        };
        if let Some(piece) = making.step(disk, STEP_BYTES)? {
            dir.spares.put(piece);
            self.making = None;
            return Ok(Turn::Again);
        }
        let left = dir.point.lock().room + dir.spares.bytes();
        let share = left as f64 / piece_bytes.max(1) as f64;
        let pause = STEP_PAUSE.mul_f64(share.min(READY_PIECES as f64));
        let until = Some(dir.env.clock.now().plus(pause));
        Ok(Turn::Sleep { until })
    }

    /// True if another piece beside those that are ready would leave what is kept free on the volume.
    fn has_room_to_spare(&self) -> bool {
        let settings = &self.dir.settings;
        let space = self.dir.env.disk.space(&self.dir.path);
        space.is_ok_and(|space| {
            space.available >= settings.reserve_bytes + settings.journal_piece_bytes
        })
    }

    fn abandon(&mut self) {
        if let Some(making) = self.making.take() {
            making.abandon(&*self.dir.env.disk);
        }
    }
}

impl Worker for PieceMaker {
    fn turn(&mut self) -> Turn {
        if self.dir.stopping.load(Ordering::Acquire) {
            self.abandon();
            return Turn::Done;
        }
        if self.dir.is_failed() {
            return Turn::Sleep { until: None };
        }
        self.work().unwrap_or_else(|error| {
            self.abandon();
            if is_full(&error) {
                // Appends continue while a piece is ready.
                if self.dir.spares.count() == 0 {
                    self.dir.set_full(true, &error.to_string());
                    // The segment writer looks from now on whether there is room again.
                    self.dir.writer_bell.ring();
                }
            } else {
                let mut news = Vec::new();
                self.dir.fail(&error, &mut news);
                self.announce.announce(news);
            }
            Turn::Sleep { until: None }
        })
    }

    fn park(&mut self, until: Option<Instant>) {
        self.dir.maker_bell.wait(until);
    }
}
