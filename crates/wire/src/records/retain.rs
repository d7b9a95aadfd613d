//! Leaving records out of a batch that keeps its place in the log: what compaction does to a batch.
//!
//! Invariant: base offset, last offset, producer, sequences and leader epoch stay as they were, so that readers, replicas and
//! producer states see the same batch with fewer records. The bytes are those that Kafka's cleaner writes: the base timestamp
//! is that of the first record left, or the delete horizon (KIP-534). Does not decide what stays.

use std::ops::Range;

use bytes::Bytes;
use model::Timestamp;

use super::batch::{Batch, Head, TimestampType};
use super::builder::seal;
use super::codec::{Caps, Codec, Compression};
use super::record::{Record, RecordError, RecordIter, put_varlong, varlong_size};
use super::record::{skip_length, take_timestamp};
use super::validate::RecordFault;

/// The records of a batch that stay.
pub struct Retained<'a> {
    batch: &'a Batch,
    plain: Bytes,
    kept: Vec<Kept>,
    has_tombstone: bool,
}

struct Kept {
    bytes: Range<usize>,
    time: Timestamp,
}

impl<'a> Retained<'a> {
    /// Walks the records and keeps those that `stays` accepts.
    pub fn of(
        batch: &'a Batch,
        caps: Caps,
        mut stays: impl FnMut(&Record<'_>) -> bool,
    ) -> Result<Retained<'a>, RecordFault> {
        let plain = batch.plain(caps)?;
        let mut kept = Vec::new();
        let mut has_tombstone = false;
        let mut records = RecordIter::new(&plain, batch.record_count());
        let mut last_delta = -1;
        let mut start = 0;
        while let Some(record) = records.next() {
            let record = record?;
            let end = plain.len() - records.rest().len();
            let delta = record.offset_delta;
            if delta <= last_delta || delta > batch.last_offset_delta() {
                let index = kept.len() as i32;
                return Err(RecordError::OffsetDelta { index, delta }.into());
            }
            last_delta = delta;
            if stays(&record) {
                has_tombstone |= record.value.is_none();
                kept.push(Kept {
                    bytes: start..end,
                    time: time_of(batch, record.timestamp_delta),
                });
            }
            start = end;
        }
        Ok(Retained {
            batch,
            plain,
            kept,
            has_tombstone,
        })
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Nothing was left out.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.kept.len() == self.batch.record_count() as usize
    }

    /// A record without value is among those that stay.
    #[must_use]
    pub fn has_tombstone(&self) -> bool {
        self.has_tombstone
    }

    /// The batch of these records, compressed as it was. A `horizon` begins the time after which its tombstones may go; a batch
    /// that has one keeps it. `None` when no record stays.
    #[must_use]
    pub fn build(self, horizon: Option<Timestamp>) -> Option<Batch> {
        let first = self.kept.first()?;
        let old = self.batch;
        let attributes = old.attributes();
        let base = match horizon {
            _ if attributes.has_delete_horizon() => old.base_timestamp(),
            Some(horizon) => horizon,
            None => first.time,
        };
        // Deltas count from the base: while that stays, the records stay byte for byte.
        let is_append_time = attributes.timestamp_type() == TimestampType::LogAppendTime;
        let is_verbatim =
            base == old.base_timestamp() && (!is_append_time || attributes.has_delete_horizon());
        let mut body = Vec::with_capacity(self.plain.len());
        for record in &self.kept {
            let bytes = self.plain.get(record.bytes.clone())?;
            if is_verbatim {
                body.extend_from_slice(bytes)
            } else {
                put_retimed(&mut body, bytes, record.time.0.wrapping_sub(base.0))?
            }
        }
        let max = if is_append_time {
            old.max_timestamp()
        } else {
            self.kept
                .iter()
                .map(|record| record.time)
                .fold(Timestamp::NONE, Timestamp::max)
        };
        let mut head: Head = **old;
        if horizon.is_some() {
            head.set_attributes(attributes.with_delete_horizon());
        }
        head.set_timestamps(base, max);
        head.set_record_count(self.kept.len() as i32);
        let codec = attributes.codec().unwrap_or_default();
        Some(seal(head, Compression::from(codec).compress(body.into())))
    }
}

/// The batch without any record: it still has which offsets and sequences it had.
#[must_use]
pub fn emptied(batch: &Batch) -> Batch {
    let mut head: Head = **batch;
    head.set_attributes(
        batch
            .attributes()
            .with_codec(Codec::None)
            .without_delete_horizon(),
    );
    let latest = batch.latest_of_records();
    head.set_timestamps(latest, latest);
    head.set_record_count(0);
    debug_assert!(head.last_offset() == batch.last_offset());
    seal(head, Bytes::new())
}

fn time_of(batch: &Batch, delta: i64) -> Timestamp {
    match batch.attributes().timestamp_type() {
        TimestampType::LogAppendTime => batch.max_timestamp(),
        TimestampType::CreateTime => Timestamp(batch.base_timestamp().0.wrapping_add(delta)),
    }
}

/// A record whose time counts from another base. `None` for bytes that are no record.
fn put_retimed(out: &mut Vec<u8>, record: &[u8], delta: i64) -> Option<()> {
    let mut rest = record;
    skip_length(&mut rest).ok()?;
    let (attributes, mut rest) = rest.split_first()?;
    take_timestamp(&mut rest).ok()?;
    put_varlong(out, (1 + varlong_size(delta) + rest.len()) as i64);
    out.push(*attributes);
    put_varlong(out, delta);
    out.extend_from_slice(rest);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::{BatchBuilder, HEAD_SIZE, Source};
    use super::*;
    use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence};

    fn batch(codec: Codec, times: &[i64], append_time: Option<i64>) -> Batch {
        let mut builder = BatchBuilder::new()
            .compression(codec)
            .base_offset(Offset(100))
            .leader_epoch(LeaderEpoch(3))
            .producer(ProducerId(7), ProducerEpoch(2), Sequence(40));
        if let Some(time) = append_time {
            builder = builder.append_time(Timestamp(time));
        }
        for (at, time) in times.iter().enumerate() {
            let (key, value) = (format!("key {at}"), format!("value {at}"));
            let value = (at % 3 != 2).then_some(value.as_bytes());
            builder.push(
                Timestamp(*time),
                Some(key.as_bytes()),
                value,
                &[("h", Some(b"x"))],
            );
        }
        builder.build()
    }

    /// Offset, time, key and value of each record.
    type Row = (i64, i64, Vec<u8>, Option<Vec<u8>>);

    fn rows(batch: &Batch) -> Vec<Row> {
        let plain = batch.plain(Caps::default()).expect("readable");
        RecordIter::new(&plain, batch.record_count())
            .map(|record| {
                let record = record.expect("sound");
                (
                    batch.base_offset().0 + i64::from(record.offset_delta),
                    time_of(batch, record.timestamp_delta).0,
                    record.key.expect("keyed").to_vec(),
                    record.value.map(<[u8]>::to_vec),
                )
            })
            .collect()
    }

    #[test]
    fn what_stays_keeps_offset_time_key_value_and_the_batch_its_place() {
        let times = [5000, 4000, 9000, 8000, 7000, 1];
        for codec in Codec::ALL {
            for append_time in [None, Some(77_000)] {
                for horizon in [None, Some(Timestamp(1_000_000))] {
                    for mask in 0..64u32 {
                        let whole = batch(codec, &times, append_time);
                        let stays = |record: &Record<'_>| mask >> record.offset_delta & 1 == 1;
                        let retained = Retained::of(&whole, Caps::default(), stays).expect("sound");
                        assert_eq!(retained.is_whole(), mask == 63);
                        let left = retained.build(horizon);
                        let want: Vec<Row> = rows(&whole)
                            .into_iter()
                            .filter(|row| mask >> (row.0 - 100) & 1 == 1)
                            .collect();
                        let Some(left) = left else {
                            assert!(want.is_empty());
                            continue;
                        };
                        assert_eq!(rows(&left), want);
                        let bytes = left.to_bytes();
                        let again = Batch::cut(&bytes, Source::Log).next();
                        assert_eq!(again, Some(Ok(left.clone())), "a reader takes it");
                        assert_eq!(left.base_offset(), whole.base_offset());
                        assert_eq!(left.last_offset(), whole.last_offset());
                        assert_eq!(left.last_sequence(), whole.last_sequence());
                        assert_eq!(left.leader_epoch(), whole.leader_epoch());
                        assert_eq!(left.attributes().has_delete_horizon(), horizon.is_some());
                        let base = match horizon {
                            Some(horizon) => horizon.0,
                            None => want[0].1,
                        };
                        assert_eq!(left.base_timestamp().0, base);
                        let max = want.iter().map(|row| row.1).max();
                        assert_eq!(Some(left.max_timestamp().0), max);
                        // Once more, with the horizon that it has.
                        let all = Retained::of(&left, Caps::default(), |_| true).expect("sound");
                        assert!(all.is_whole());
                        assert_eq!(all.build(None), Some(left));
                    }
                }
            }
        }
    }

    #[test]
    fn an_emptied_batch_still_tells_its_offsets_and_sequences() {
        let whole = batch(Codec::Zstd, &[10, 20, 30], None);
        let empty = emptied(&whole);
        assert!(empty.is_intact() && empty.body().is_empty());
        assert_eq!(
            (empty.record_count(), empty.size()),
            (0, HEAD_SIZE),
            "a header alone"
        );
        assert_eq!(empty.last_offset(), whole.last_offset());
        assert_eq!(empty.base_sequence(), whole.base_sequence());
        assert_eq!(empty.last_sequence(), whole.last_sequence());
        assert_eq!(empty.max_timestamp(), whole.max_timestamp());
        assert!(Batch::cut(&empty.to_bytes(), Source::Log).all(|cut| cut.is_ok()));
    }
}
