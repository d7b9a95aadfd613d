//! How far compaction came in a log: the file `esker.compaction` of its directory.
//!
//! Two offsets: up to where the last pass saw everything, and below which offsets may be missing. The second is durable before
//! any file changes and never shrinks, so at and above it a missing offset is damage, as in a log that was never compacted; it
//! holds on when the topic's policy changes back. A file that does not verify means that gaps may be anywhere.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::Ordering;

use env::Disk;
use env::disk::Open;
use model::Offset;

use super::read::{ReadError, at};
use super::{Store, StoreError};
use crate::clean::{LogFacts, SegmentFacts};
use crate::epochs::read_text;

pub const FILE_NAME: &str = "esker.compaction";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// First offset that no pass has seen; -1 before the first pass ended.
    pub(super) clean_end: Offset,
    pub(super) gaps_end: Offset,
}

impl Progress {
    pub(super) const NONE: Progress = Progress {
        clean_end: Offset(-1),
        gaps_end: Offset(0),
    };

    fn encode(self) -> String {
        let line = format!("{} {}", self.clean_end, self.gaps_end);
        format!("0\n{line} {:08x}\n", crate::crc32c(line.as_bytes()))
    }

    fn decode(text: &str) -> Option<Progress> {
        let line = text.strip_prefix("0\n")?.strip_suffix('\n')?;
        let (offsets, checksum) = line.rsplit_once(' ')?;
        let (clean, gaps) = offsets.split_once(' ')?;
        let progress = Progress {
            clean_end: Offset(clean.parse().ok()?),
            gaps_end: Offset(gaps.parse().ok()?),
        };
        let is_sound = u32::from_str_radix(checksum, 16) == Ok(crate::crc32c(offsets.as_bytes()));
        is_sound.then_some(progress)
    }

    pub(super) fn load(disk: &dyn Disk, dir: &Path) -> io::Result<Progress> {
        let unknown = Progress {
            clean_end: Offset(-1),
            gaps_end: Offset(i64::MAX),
        };
        match read_text(disk, &dir.join(FILE_NAME)) {
            Ok(None) => Ok(Progress::NONE),
            Ok(Some(text)) => Ok(Progress::decode(&text).unwrap_or(unknown)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(unknown),
            Err(error) => Err(error),
        }
    }

    pub(super) fn store(self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        let temporary = dir.join(format!("{FILE_NAME}.tmp"));
        let file = disk.open(&temporary, Open::Truncate)?;
        file.write_at(&[IoSlice::new(self.encode().as_bytes())], 0)?;
        file.sync_data()?;
        disk.rename(&temporary, &dir.join(FILE_NAME))?;
        disk.sync_dir(dir)
    }
}

impl Store {
    /// Below this offset compaction may have left gaps; from here on offsets follow each other.
    #[must_use]
    pub fn gaps_end(&self) -> Offset {
        Offset(self.gaps_end.load(Ordering::Acquire))
    }

    /// Up to where the last pass of compaction saw everything.
    #[must_use]
    pub fn clean_end(&self) -> Option<Offset> {
        let clean = Offset(self.clean_end.load(Ordering::Acquire));
        (Offset::ZERO <= clean).then_some(clean)
    }

    /// A pass is about to change segments below `end`. Readers expect gaps there once this returns, also after a crash.
    pub(crate) fn begin_cleaning(&self, end: Offset) -> Result<(), StoreError> {
        if end <= self.gaps_end() {
            return Ok(());
        }
        self.note_progress(Progress {
            clean_end: self.clean_end().unwrap_or(Offset(-1)),
            gaps_end: end,
        })
    }

    /// Batches that are about to be written have gaps between them up to `end`: a log that this one follows was compacted.
    pub fn expect_gaps(&self, end: Offset) -> Result<(), StoreError> {
        self.begin_cleaning(end)
    }

    /// A pass is through.
    pub(crate) fn end_cleaning(&self, clean_end: Offset) -> Result<(), StoreError> {
        self.note_progress(Progress {
            clean_end,
            gaps_end: self.gaps_end(),
        })
    }

    /// Batches written at and above `to` from now on are not those that a pass saw there. Durable before the old records go. Their gaps
    /// stay told: a crash in between leaves the old log.
    pub(super) fn forget_cleaning(&self, to: Offset) -> Result<(), StoreError> {
        match self.clean_end() {
            Some(clean_end) if to < clean_end => self.note_progress(Progress {
                clean_end: to,
                gaps_end: self.gaps_end(),
            }),
            _ => Ok(()),
        }
    }

    fn note_progress(&self, progress: Progress) -> Result<(), StoreError> {
        let stored = progress.store(&**self.disk(), &self.dir);
        stored.map_err(|error| self.io(error))?;
        self.gaps_end.store(progress.gaps_end.0, Ordering::Release);
        self.clean_end
            .store(progress.clean_end.0, Ordering::Release);
        Ok(())
    }

    /// The facts that the choice of the next log to compact needs; times only where the settings ask for them. Only reads.
    pub fn compaction_facts(&self, limit: Offset) -> Result<LogFacts, ReadError> {
        let config = self.config();
        let (local_start, clean_end) = (self.local_start(), self.clean_end());
        let asks_first = config.max_compaction_lag_ms != i64::MAX;
        let asks_max = config.min_compaction_lag_ms > 0;
        let segments = self.segments();
        let count = segments.len();
        let facts = segments.iter().enumerate().map(|(number, segment)| {
            let base = segment.base();
            let is_asked =
                number + 1 < count && clean_end.is_none_or(|clean| clean < segment.end());
            let first = (asks_first && is_asked).then(|| segment.first_time());
            let max = (asks_max && is_asked).then(|| self.largest_time(segment));
            Ok(SegmentFacts {
                base,
                bytes: segment.len(),
                first_time: first.transpose().map_err(at(base))?.flatten(),
                max_time: (max.transpose()).map_err(|error| at(base)(error.into()))?,
            })
        });
        Ok(LogFacts {
            segments: facts.collect::<Result<_, ReadError>>()?,
            local_start,
            log_end: self.log_end(),
            limit,
            clean_end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_survives_its_text_and_damage_is_seen() {
        let progress = Progress {
            clean_end: Offset(70),
            gaps_end: Offset(120),
        };
        let text = progress.encode();
        assert_eq!(Progress::decode(&text), Some(progress));
        assert_eq!(
            Progress::decode(&Progress::NONE.encode()),
            Some(Progress::NONE)
        );
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let other = String::from_utf8(bytes).unwrap_or_default();
            assert_eq!(Progress::decode(&other), None, "{other:?}");
            assert_eq!(Progress::decode(&text[..at]), None);
        }
    }
}
