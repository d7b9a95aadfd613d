//! Cutting the end of a log off, or all of it.
//!
//! Readers see the shorter log before bytes go. Each step may be repeated after a crash and ends in the same log. Where damage hides the place
//! of a cut the log ends there all the same, and has damage in front of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{Offset, Timestamp};

use super::{Reserved, Store, StoreError, Tail, WRITEBACK_BYTES};
use crate::segment::{CutPlace, Segment};

/// The outcome of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where the log ends now.
    pub end: Offset,
    /// From here to the end is damage: bytes rotted, and the place of the cut was not found behind them.
    pub lacks_from: Option<Offset>,
}

impl Store {
    /// Drops everything at and above `to`. The newest segments go first, so a crash in between leaves a shorter log and
    /// nothing else; the caller has made its intent durable before. A batch that holds `to` inside goes as a whole, so the
    /// end that is returned may be lower.
    pub fn truncate_to(&self, to: Offset) -> Result<Offset, StoreError> {
        let _files = self.files.lock();
        let mut tail = self.tail.lock();
        if tail.failed {
            return Err(StoreError::Offline {
                dir: self.dir.to_path_buf(),
            });
        }
        if to >= self.log_end() && tail.uncut == 0 && tail.extra.is_empty() {
            return Ok(self.log_end());
        }
        let _upheaval = self.upheaval();
        let to = to.min(self.log_end());
        let segments = self.segments.load();
        let keep = segments.partition_point(|segment| segment.base() <= to);
        let done = self.truncate_locked(&mut tail, to, keep.max(1));
        let done = done.and_then(|cut| match cut.lacks_from {
            // Behind damage that is the end of its segment anything fits that was there.
            Some(_) => self.roll_locked(&mut tail, to, Timestamp::NONE).map(drop),
            None => Ok(()),
        });
        tail.failed |= matches!(done, Err(StoreError::Io { .. }));
        done.map(|()| self.log_end())
    }

    /// Keeps the first segments, of which the last is cut.
    fn truncate_locked(&self, tail: &mut Tail, to: Offset, keep: usize) -> Result<Cut, StoreError> {
        let cut = Cut {
            end: to,
            lacks_from: None,
        };
        let segments = self.segments.load_full();
        let (kept, gone) = segments.split_at(keep);
        self.forget_cleaning(to)?;
        self.lives.fetch_add(1, Ordering::AcqRel);
        // Readers see the shorter log first.
        self.log_end.store(to.0, Ordering::Release);
        self.synced.fetch_min(to.0, Ordering::AcqRel);
        self.segments.store(Arc::new(kept.to_vec()));
        for base in std::mem::take(&mut tail.extra).into_iter().rev() {
            self.remove_base(base).map_err(|error| self.io(error))?;
            tail.dir_dirty = true;
        }
        for segment in gone.iter().rev() {
            self.remove_files(segment).map_err(|error| self.io(error))?;
        }
        self.forget_epochs(to);
        let Some(active) = kept.last() else {
            return Ok(cut);
        };
        if to < active.base() {
            // Below everything we have: the same as a fresh log at `to`.
            self.restart_locked(tail, to)?;
            return Ok(cut);
        }
        let scan = |error| self.scan(active.base(), error);
        let check_epoch = |position, head: &_| self.check_epoch(active, position, head);
        let place = active.place_of_cut(to, self.gaps_end(), check_epoch);
        let place = place.map_err(scan)?;
        active.truncate(to, place).map_err(scan)?;
        let CutPlace {
            len,
            end,
            lacks_from,
        } = place;
        if let Some(from) = lacks_from {
            tracing::error!(target: env::logs::SEGMENTS,
                "{}: damaged from offset {from} on, where the log is cut at {to}",
                active.path("log").display()
            );
        }
        self.log_end.fetch_min(active.end().0, Ordering::AcqRel);
        tail.uncut = 0;
        tail.dir_dirty |= !gone.is_empty();
        tail.dirty
            .retain(|dirty| kept.iter().any(|segment| Arc::ptr_eq(segment, dirty)));
        if !tail.dirty.iter().any(|dirty| Arc::ptr_eq(dirty, active)) {
            tail.dirty.push(Arc::clone(active));
        }
        tail.written_back = tail
            .written_back
            .min(len / WRITEBACK_BYTES * WRITEBACK_BYTES);
        tail.reserved = Reserved::default();
        tail.first_time = None;
        self.local_start
            .fetch_min(self.log_end().0, Ordering::AcqRel);
        self.synced.fetch_min(self.log_end().0, Ordering::AcqRel);
        Ok(Cut { end, lacks_from })
    }

    /// The same for a log that goes on at once: what is written behind `to` goes to another file, so that a reader of the old bytes
    /// gets too few of them, and never new ones in their place (KAFKA-18723). May be repeated.
    pub fn cut(&self, to: Offset, now: Timestamp) -> Result<Cut, StoreError> {
        let _files = self.files.lock();
        let mut tail = self.tail.lock();
        self.check_writable(&tail)?;
        if self.log_end() <= to {
            return Ok(Cut {
                end: self.log_end(),
                lacks_from: None,
            });
        }
        let _upheaval = self.upheaval();
        let done = self.cut_locked(&mut tail, to, now);
        tail.failed |= done.as_ref().is_err_and(StoreError::is_final);
        done
    }

    fn cut_locked(&self, tail: &mut Tail, to: Offset, now: Timestamp) -> Result<Cut, StoreError> {
        let first = self.segments.load().first().map(|first| first.base());
        if first.is_none_or(|first| to <= first) {
            let local_start = self.local_start();
            self.restart_locked(tail, to)?;
            self.local_start.fetch_min(local_start.0, Ordering::AcqRel);
            return Ok(Cut {
                end: to,
                lacks_from: None,
            });
        }
        // Below the segment that begins at `to`: its file goes, and another one takes the name.
        let segments = self.segments.load_full();
        let keep = segments.partition_point(|segment| segment.base() < to);
        let cut = self.truncate_locked(tail, to, keep)?;
        if !self.active().is_empty() {
            self.roll_locked(tail, cut.end, now)?;
        }
        Ok(cut)
    }

    /// The log was cut at `to`, in a gap that compaction left behind its last batch, and goes on there. By the writer of the log alone.
    pub fn go_on_at(&self, to: Offset) {
        let _tail = self.tail.lock();
        assert!(to <= self.gaps_end(), "a gap that nobody told of");
        self.active().go_on_at(to);
        self.log_end.fetch_max(to.0, Ordering::AcqRel);
    }

    /// Drops the whole log and begins it anew at `start`: a replica that is too far behind its leader.
    pub fn restart_at(&self, start: Offset) -> Result<(), StoreError> {
        let _files = self.files.lock();
        let mut tail = self.tail.lock();
        if tail.failed {
            return Err(StoreError::Offline {
                dir: self.dir.to_path_buf(),
            });
        }
        let _upheaval = self.upheaval();
        let done = self.restart_locked(&mut tail, start);
        tail.failed |= matches!(done, Err(StoreError::Io { .. }));
        done
    }

    fn restart_locked(&self, tail: &mut Tail, start: Offset) -> Result<(), StoreError> {
        self.forget_cleaning(start)?;
        self.lives.fetch_add(1, Ordering::AcqRel);
        self.forget_epochs(start);
        let old = self.segments.load_full();
        for base in std::mem::take(&mut tail.extra).into_iter().rev() {
            self.remove_base(base).map_err(|error| self.io(error))?;
        }
        for segment in old.iter().rev() {
            self.remove_files(segment).map_err(|error| self.io(error))?;
        }
        let fresh = Segment::create(&self.pool, &self.dir, start)
            .map_err(|error| self.scan(start, error.into()))?;
        let fresh = Arc::new(fresh);
        self.local_start.store(start.0, Ordering::Release);
        self.log_end.store(start.0, Ordering::Release);
        self.synced.store(start.0, Ordering::Release);
        self.segments.store(Arc::new(vec![Arc::clone(&fresh)]));
        tail.dirty.clear();
        tail.uncut = 0;
        tail.begin(&fresh, &self.config.load(), Timestamp::NONE);
        Ok(())
    }
}
