//! Old segments: which may go, and their removal.
//!
//! Chooses by time, size and log start, never above the bound it is given (the high watermark, or what is in the tier).
//! Removal has two steps: the files leave the log under a new name at once and are unlinked later, so that readers that just
//! found them finish.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use model::{Offset, Timestamp};

use super::open::{DELETED, base_of};
use super::{Store, StoreError};
use crate::config::Retention;
use crate::file_name::file_name;
use crate::scan::{HeadScan, ScanError, read_batch};
use crate::segment::Segment;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All of its records are older than `retention.ms`; where none has a time, the file is.
    Time,
    /// The log is larger than `retention.bytes` without it.
    Size,
    /// All of its records are below the local start.
    LogStart,
}

/// A segment that may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retire {
    pub base: Offset,
    /// First offset that stays when it is gone.
    pub next: Offset,
    pub bytes: u64,
    pub reason: Reason,
}

/// Renamed files, to be unlinked after `file.delete.delay.ms`.
#[derive(Debug, Default)]
#[must_use = "the files stay on disk until they are unlinked"]
pub struct Deleted {
    pub paths: Vec<PathBuf>,
    /// Why the rest kept their names; their segments are still in the log, for another try.
    pub stopped_by: Option<StoreError>,
}

pub(super) const EXTENSIONS: [&str; 7] = [
    "log",
    "index",
    "timeindex",
    "txnindex",
    "txncheck",
    "headcheck",
    "snapshot",
];

/// True if the heads of a segment's batches are those that were written. A batch whose head has no checksum of its own is read.
fn has_true_heads(segment: &Segment) -> io::Result<bool> {
    let (file, heads) = (segment.file()?, segment.all_heads()?);
    let mut scan = HeadScan::new(&*file, 0, segment.len(), segment.base());
    loop {
        let checked = match scan.step() {
            Ok(None) => return Ok(true),
            Ok(Some((position, head))) if heads.covers(position) => {
                heads.check(position, &head).map_err(ScanError::from)
            }
            Ok(Some((position, head))) => read_batch(&*file, position, &head).map(drop),
            Err(error) => Err(error),
        };
        match checked {
            Ok(()) => {}
            Err(error) if error.is_local() => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

impl Store {
    /// The oldest segments that settings allow to go, all of their records below `limit`. The active segment is among them
    /// only when all its records are too old.
    pub fn retirable(&self, now: Timestamp, limit: Offset) -> Result<Vec<Retire>, StoreError> {
        let config = self.config();
        let kept = Retention {
            ms: config.retention_ms,
            bytes: config.retention_bytes,
        };
        let deletes = config.cleanup_policy.delete;
        self.beyond(
            if deletes { kept } else { Retention::default() },
            now,
            limit,
        )
    }

    /// The oldest segments that go beyond `kept`, all of their records below `limit`.
    pub fn beyond(
        &self,
        kept: Retention,
        now: Timestamp,
        limit: Offset,
    ) -> Result<Vec<Retire>, StoreError> {
        let segments = self.segments();
        let log_end = self.log_end();
        let mut spare = kept
            .bytes
            .map_or(0, |keep| self.size().saturating_sub(keep));
        let mut retired = Vec::new();
        for (at, segment) in segments.iter().enumerate() {
            let next = segments.get(at + 1).map_or(log_end, |next| next.base());
            let (bytes, is_active) = (segment.len(), at + 1 == segments.len());
            if next > limit || bytes == 0 && is_active {
                break;
            }
            let oversize = !is_active && bytes <= spare && spare > 0;
            let reason = if next <= self.local_start() && !is_active {
                Reason::LogStart
            } else if self.is_expired(segment, kept.ms, now)? {
                Reason::Time
            } else if oversize {
                Reason::Size
            } else {
                break;
            };
            spare = spare.saturating_sub(bytes);
            retired.push(Retire {
                base: segment.base(),
                next,
                bytes,
                reason,
            });
        }
        Ok(retired)
    }

    fn is_expired(
        &self,
        segment: &Segment,
        retention_ms: Option<i64>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let Some(retention_ms) = retention_ms else {
            return Ok(false);
        };
        match self.expires(segment, retention_ms, now) {
            // Compaction puts another file in its place: it is looked at again later.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.scan(segment.base(), error.into())),
            Ok(expires) => Ok(expires),
        }
    }

    fn expires(&self, segment: &Segment, retention_ms: i64, now: Timestamp) -> io::Result<bool> {
        let largest = self.claimed_time(segment)?;
        let expires = |largest: Timestamp| now.0.saturating_sub(largest.0) > retention_ms;
        // Before it goes, and where it never would, the claims of its headers do not do.
        let are_doubtful = !segment.are_times_sure() && (expires(largest) || now < largest);
        let has_expired = if are_doubtful {
            expires(self.largest_time(segment)?)
        } else {
            expires(largest)
        };
        // Records that are older than their file are written now and then, and a time that rotted looks the same: no other replica
        // would keep what this one deletes.
        Ok(has_expired && (expires(self.modified(segment)?) || has_true_heads(segment)?))
    }

    /// The newest time of a segment's records.
    pub(super) fn largest_time(&self, segment: &Segment) -> io::Result<Timestamp> {
        match segment.look_into_times() {
            // Of what is damaged the claims are all there is.
            Ok(()) | Err(ScanError::Damage(_)) => self.claimed_time(segment),
            Err(ScanError::Io(error)) => Err(error),
        }
    }

    /// The newest time that a segment's index claims for its records; where none has a time, when its file was last written. Where
    /// damage hides some it is the later of the two: a time that rot made would else take all of the segment.
    fn claimed_time(&self, segment: &Segment) -> io::Result<Timestamp> {
        let max = match segment.max_time() {
            Ok(max) => max,
            // Damaged bytes have no time that could be known.
            Err(ScanError::Damage(_)) => None,
            Err(ScanError::Io(error)) => return Err(error),
        };
        match max.filter(|max| max.timestamp.0 >= 0) {
            Some(max) if segment.is_damaged() => Ok(self.modified(segment)?.max(max.timestamp)),
            Some(max) => Ok(max.timestamp),
            None => self.modified(segment),
        }
    }

    /// When the file of a segment was last written.
    pub(crate) fn modified(&self, segment: &Segment) -> io::Result<Timestamp> {
        let ms = self.disk().modified_ms(&segment.path("log"))?;
        Ok(Timestamp(ms))
    }

    /// The oldest segment has records below the local start alone, as when its removal did not come to its end.
    #[must_use]
    pub fn has_spent(&self) -> bool {
        let segments = self.segments.load();
        let next = segments.get(1).map_or(self.log_end(), |next| next.base());
        let only_begun = segments.len() == 1 && self.active().is_empty();
        next <= self.local_start() && !only_begun
    }

    /// Takes all segments below `upto` out of the log, moves the local start there and renames the files. When the active
    /// segment is among them a fresh one is begun first.
    pub fn retire(&self, upto: Offset, now: Timestamp) -> Result<Deleted, StoreError> {
        if upto >= self.log_end() {
            self.roll(now)?;
        }
        let _files = self.files.lock();
        let mut tail = self.tail.lock();
        let segments = self.segments.load_full();
        // A segment goes when the next one begins at or below the bound.
        let keep_from = segments
            .iter()
            .skip(1)
            .take_while(|next| next.base() <= upto)
            .count();
        let (gone, kept) = segments.split_at(keep_from);
        let Some(first) = kept.first().filter(|_| !gone.is_empty()) else {
            return Ok(Deleted::default());
        };
        let _upheaval = self.upheaval();
        self.local_start
            .fetch_max(first.base().0, std::sync::atomic::Ordering::AcqRel);
        self.segments.store(Arc::new(kept.to_vec()));
        tail.dirty
            .retain(|dirty| !gone.iter().any(|segment| Arc::ptr_eq(segment, dirty)));
        tail.dir_dirty = true;
        drop(tail);
        let mut deleted = Deleted::default();
        for (at, segment) in gone.iter().enumerate() {
            if let Err(error) = self.rename_files(segment, &mut deleted) {
                let _tail = self.tail.lock();
                let mut segments = gone[at..].to_vec();
                segments.extend(self.segments.load().iter().cloned());
                self.segments.store(Arc::new(segments));
                deleted.stopped_by = Some(self.io(error));
                break;
            }
        }
        Ok(deleted)
    }

    fn rename_files(&self, segment: &Segment, deleted: &mut Deleted) -> io::Result<()> {
        segment.close();
        // The batches last: while their name stands, a restart still sees the segment and retires it again.
        for extension in EXTENSIONS.iter().rev() {
            let from = segment.path(extension);
            let to = self
                .dir
                .join(file_name(segment.base(), extension) + DELETED);
            match self.disk().rename(&from, &to) {
                Ok(()) => deleted.paths.push(to),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Closes all files, which are about to be removed: where open files matter, their directory has no other name before that.
    /// Readers that have one open keep it.
    pub fn close_files(&self) {
        for segment in self.segments.load().iter() {
            segment.close();
        }
    }

    /// Unlinks what [`Store::retire`] renamed.
    pub fn unlink(&self, deleted: &Deleted) -> Result<(), StoreError> {
        for path in &deleted.paths {
            match self.disk().remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.io(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Unlinks a segment at once (truncation): batches first, since an index without batches is nothing.
    pub(super) fn remove_files(&self, segment: &Segment) -> io::Result<()> {
        segment.close();
        self.remove_base(segment.base())
    }

    pub(super) fn remove_base(&self, base: Offset) -> io::Result<()> {
        for extension in EXTENSIONS {
            match self
                .disk()
                .remove_file(&self.dir.join(file_name(base, extension)))
            {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Base offsets of the producer snapshots in the directory.
    pub fn snapshots(&self) -> Result<Vec<Offset>, StoreError> {
        let entries = self
            .disk()
            .read_dir(&self.dir)
            .map_err(|error| self.io(error))?;
        Ok(entries
            .iter()
            .filter_map(|entry| base_of(&entry.name, "snapshot"))
            .collect())
    }
}
