//! Finding records of a segment by their times.
//!
//! A header may hide the times of its records: producers are known that send -1 for the largest one, and versions before 0.1.0
//! stored what came. Such a header counts as unknown, and its records are looked into. Times of an index that was made from headers
//! alone are bounds that may be too low or too high until [`Segment::look_into_times`] has made them anew; a sealed index says
//! by its last entry, which it then has twice, that its times are those of records.

use std::io;
use std::ops::Range;

use env::File;
use model::{Offset, Timestamp};
use wire::records::{Batch, Caps, CodecError, Head, Oversized, RecordIter, TimestampType};

use super::find_error::FindError;
use super::{Found, Index, MaxTime, RecordTime, Segment};
use crate::scan::{HeadScan, ScanError, read_batch};

impl Segment {
    /// First record of `within` whose time is `timestamp` or later, exact to the record.
    pub fn find_time(
        &self,
        timestamp: Timestamp,
        within: Range<Offset>,
        caps: Caps,
    ) -> Result<Option<RecordTime>, FindError> {
        let Range {
            start: from,
            end: upto,
        } = within;
        self.load()?;
        let len = self.len();
        let after = self.start_for_time(timestamp)?;
        let Some(first) = self.find(after.max(from), len)? else {
            return Ok(None);
        };
        let file = self.file()?;
        let mut scan = HeadScan::new(&*file, first.position, len, self.base);
        while let Some((position, head)) = scan.step()? {
            if head.base_offset() >= upto {
                break;
            }
            let may_reach = head.max_timestamp() >= timestamp || is_doubtful(&head);
            if !may_reach || head.last_offset() < from {
                continue;
            }
            let batch = read_batch(&*file, position, &head)?;
            let found = first_record(&batch, caps, |time, offset| {
                time >= timestamp && from <= offset && offset < upto
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Below this offset no record is as late as `timestamp`. The time entry that says so must name a batch that is there.
    fn start_for_time(&self, timestamp: Timestamp) -> Result<Offset, ScanError> {
        let Some(entry) = self.time_floor(timestamp)? else {
            return Ok(self.base);
        };
        let offset = self.base.advance(i64::from(entry.relative));
        if self.names_batch(Timestamp(entry.timestamp), offset)? {
            return Ok(offset);
        }
        self.rebuild_all()?;
        Ok(self.base)
    }

    /// There is a batch that ends with `offset` and has this largest time, by its header or by its records.
    pub(super) fn names_batch(
        &self,
        timestamp: Timestamp,
        offset: Offset,
    ) -> Result<bool, ScanError> {
        let Some(Found { position, head }) = self.find(offset, self.len())? else {
            return Ok(false);
        };
        if head.last_offset() != offset {
            return Ok(false);
        }
        if head.max_timestamp() == timestamp {
            return Ok(true);
        }
        let file = self.file()?;
        match read_batch(&*file, position, &head) {
            Ok(batch) => Ok(batch.latest_of_records() == timestamp),
            Err(error) if error.is_local() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The first record that has the largest time of the segment.
    pub fn find_max_time(&self, caps: Caps) -> Result<Option<RecordTime>, FindError> {
        let Some(max) = self.max_time()? else {
            return Ok(None);
        };
        let Some(found) = self.find(max.offset, self.len())? else {
            return Ok(None);
        };
        let file = self.file()?;
        let mut best = None;
        if found.head.record_count() > 0 {
            let batch = read_batch(&*file, found.position, &found.head)?;
            let at_max = first_record(&batch, caps, |time, _| time >= max.timestamp)?;
            if at_max.is_some() {
                return Ok(at_max);
            }
            best = latest_record(&batch, caps)?;
        }
        // Compaction emptied the batch that had the largest time, or its header claims a time that no record has.
        let mut scan = HeadScan::new(&*file, 0, self.len(), self.base);
        while let Some((position, head)) = scan.step()? {
            let is_earlier = |best: &RecordTime| {
                head.max_timestamp() == best.timestamp && head.base_offset() < best.offset
            };
            let may_be = best.is_none_or(|best: RecordTime| {
                head.max_timestamp() > best.timestamp || is_earlier(&best) || is_doubtful(&head)
            });
            if head.record_count() == 0 || !may_be {
                continue;
            }
            let latest = latest_record(&read_batch(&*file, position, &head)?, caps)?;
            let is_better = |latest: &RecordTime| {
                best.is_none_or(|best| {
                    (best.timestamp, latest.offset) < (latest.timestamp, best.offset)
                })
            };
            best = latest.filter(is_better).or(best);
        }
        Ok(best)
    }

    pub fn max_time(&self) -> Result<Option<MaxTime>, ScanError> {
        if self.is_empty() {
            return Ok(None);
        }
        self.load()?;
        self.read_again()?;
        let (max, is_checked) = {
            let inner = self.inner.read();
            let is_checked = inner.max.is_some() || !matches!(inner.index, Index::Files { .. });
            (inner.max, is_checked)
        };
        if is_checked {
            return Ok(max);
        }
        self.check_max()?;
        Ok(self.inner.read().max)
    }

    /// Times of the index are those of records, and no claim of a header stands for them.
    pub(crate) fn are_times_sure(&self) -> bool {
        self.inner.read().are_times_sure
    }

    /// Makes the times of the index those of records, looking into the records of each batch whose header hides them.
    pub(crate) fn look_into_times(&self) -> Result<(), ScanError> {
        self.load()?;
        if !self.are_times_sure() {
            self.rebuild()?;
        }
        Ok(())
    }
}

/// The header may hide later times than it gives. A batch that comes from a client is not asked this: what its header gives was
/// verified then, or is all that is known without unpacking it.
fn is_doubtful(head: &Head) -> bool {
    head.hides_time() || head.may_understate_time()
}

/// The largest time of the records of a batch in a file, by its header unless that is in doubt or beyond `claimed_max`. Records
/// that cannot be read leave the header's word: their readers meet the damage.
pub(super) fn latest_in(
    file: &dyn File,
    position: u64,
    head: &Head,
    claimed_max: Timestamp,
) -> io::Result<Timestamp> {
    if !is_doubtful(head) && head.max_timestamp() <= claimed_max {
        return Ok(head.max_timestamp());
    }
    match read_batch(file, position, head) {
        Ok(batch) => Ok(batch.latest_of_records()),
        Err(error) if error.is_local() => Ok(head.max_timestamp()),
        Err(error) => Err(error.into()),
    }
}

/// The first of its records with the largest time.
pub fn latest_record(batch: &Batch, caps: Caps) -> Result<Option<RecordTime>, Oversized> {
    let latest = batch.latest_of_records();
    first_record(batch, caps, |time, _| time >= latest)
}

/// The first record of a batch that `wanted` accepts, by time and offset.
pub fn first_record(
    batch: &Batch,
    caps: Caps,
    wanted: impl Fn(Timestamp, Offset) -> bool,
) -> Result<Option<RecordTime>, Oversized> {
    let leader_epoch = batch.leader_epoch();
    let append_time = batch.attributes().timestamp_type() == TimestampType::LogAppendTime;
    // Records that cannot be read (nobody walked them when they came) are found by their batch.
    let whole = RecordTime {
        timestamp: batch.max_timestamp(),
        offset: batch.base_offset(),
        leader_epoch,
    };
    let plain = match batch.plain(caps) {
        Ok(plain) => plain,
        Err(CodecError::Oversized(record)) => return Err(record),
        Err(_) => return Ok(Some(whole)),
    };
    for record in RecordIter::new(&plain, batch.record_count()) {
        let Ok(record) = record else {
            return Ok(Some(whole));
        };
        let timestamp = if append_time {
            batch.max_timestamp()
        } else {
            let base = batch.base_timestamp().0;
            Timestamp(base.saturating_add(record.timestamp_delta))
        };
        let offset = batch.base_offset().advance(i64::from(record.offset_delta));
        if wanted(timestamp, offset) {
            return Ok(Some(RecordTime {
                timestamp,
                offset,
                leader_epoch,
            }));
        }
    }
    Ok(None)
}
