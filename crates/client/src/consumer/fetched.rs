//! The records that one answer brought of one partition, and the walk over them.
//!
//! Invariant: only records from the asked offset on are shown, in offset order; control batches and records of aborted
//! transactions are not. The last batch may be cut off and is then left for the next fetch.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use wire::records::{
    Batch, BatchError, Batches, Caps, ControlRecord, Head, Headers, RecordIter, Source,
    TimestampType,
};

use super::damage::Skipped;
use crate::error::{Damage, Error};

#[derive(Clone, Debug)]
pub struct Fetched {
    pub topic: Arc<str>,
    pub partition: i32,
    pub log_start: i64,
    pub high_watermark: i64,
    pub last_stable: i64,
    /// Records below this were not asked for; a batch that begins earlier brings them along.
    from: i64,
    records: Bytes,
    /// First offset and producer of every aborted transaction in the range, by offset.
    aborted: Vec<(i64, i64)>,
    /// Called for each batch that is passed over because it is damaged; without it the first of them ends the walk.
    skip: Option<fn(&Skipped)>,
}

/// One record, its bytes borrowed from the batch.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    pub offset: i64,
    pub timestamp: i64,
    pub timestamp_type: TimestampType,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// The offset after the last whole batch, without looking at records or checksums. `None`: there is no whole batch.
pub(super) fn end_of(records: &Bytes) -> Result<Option<i64>, BatchError> {
    let (mut rest, mut end) = (&records[..], None);
    while let Some(head) = Head::read(rest) {
        head.check_shape()?;
        let Some((_, after)) = rest.split_at_checked(head.size()) else {
            break;
        };
        rest = after;
        end = Some(head.next_offset().0);
    }
    if end.is_none() && !records.is_empty() {
        let want = Head::read(records).map_or(wire::records::HEAD_SIZE, |head| head.size());
        return Err(BatchError::Truncated {
            want,
            have: records.len(),
        });
    }
    Ok(end)
}

impl Fetched {
    pub(super) fn new(
        topic: Arc<str>,
        partition: i32,
        from: i64,
        records: Bytes,
        mut aborted: Vec<(i64, i64)>,
    ) -> Fetched {
        aborted.sort_unstable();
        Fetched {
            topic,
            partition,
            log_start: -1,
            high_watermark: -1,
            last_stable: -1,
            from,
            records,
            aborted,
            skip: None,
        }
    }

    pub(super) fn with_skip(mut self, skip: Option<fn(&Skipped)>) -> Fetched {
        self.skip = skip;
        self
    }

    pub(super) fn with_marks(
        mut self,
        log_start: i64,
        high_watermark: i64,
        last_stable: i64,
    ) -> Fetched {
        (self.log_start, self.high_watermark, self.last_stable) =
            (log_start, high_watermark, last_stable);
        self
    }

    /// Bytes of the batches as they came.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.records
    }

    /// Shows every record to `visit` until it breaks; verifies each batch before its first record.
    pub fn each<B>(
        &self,
        mut visit: impl FnMut(&Taken<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        let mut aborted = self.aborted.iter().peekable();
        let mut ended: BTreeSet<i64> = BTreeSet::new();
        let mut batches = Batch::cut(&self.records, Source::Log);
        loop {
            let at = self.records.len() - batches.rest().len();
            let Some(batch) = batches.next() else { break };
            let batch = match batch {
                Ok(batch) => batch,
                // Cut off at the end of the answer.
                Err(BatchError::Truncated { .. }) => break,
                Err(fault) => {
                    batches = self.behind(at, fault.into())?;
                    continue;
                }
            };
            while let Some((_, producer)) =
                aborted.next_if(|(first, _)| *first <= batch.last_offset().0)
            {
                ended.insert(*producer);
            }
            let producer = batch.producer_id().0;
            if batch.attributes().is_control() {
                if matches!(ControlRecord::read(&batch), Some(ControlRecord::EndTxn(end)) if !end.committed)
                {
                    ended.remove(&producer);
                }
                continue;
            }
            if batch.attributes().is_transactional() && ended.contains(&producer) {
                continue;
            }
            match self.each_of(&batch, &mut visit) {
                Ok(ControlFlow::Continue(())) => {}
                Err(error) => {
                    self.pass_over(batch.base_offset().0, batch.next_offset().0, error)?
                }
                stopped => return stopped,
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The batches behind the damaged one at `at`, where its caller passes over such; its size and offsets were checked when it
    /// came.
    fn behind(&self, at: usize, fault: Damage) -> Result<Batches, Error> {
        let rest = self.records.slice(at..);
        let Some(head) = Head::read(&rest) else {
            return Err(self.damaged(self.from, fault));
        };
        let error = self.damaged(head.base_offset().0.max(self.from), fault);
        self.pass_over(head.base_offset().0, head.next_offset().0, error)?;
        Ok(Batch::cut(&rest.slice(head.size()..), Source::Log))
    }

    fn pass_over(&self, base: i64, to: i64, error: Error) -> Result<(), Error> {
        let Some(report) = self.skip else {
            return Err(error);
        };
        report(&Skipped {
            topic: self.topic.to_string(),
            partition: self.partition,
            from: base.max(self.from),
            to,
            why: error.to_string(),
        });
        Ok(())
    }

    fn each_of<B>(
        &self,
        batch: &Batch,
        visit: &mut impl FnMut(&Taken<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        let base = batch.base_offset().0;
        let plain = batch
            .plain(Caps::default())
            .map_err(|fault| self.damaged(base, fault.into()))?;
        let timestamp_type = batch.attributes().timestamp_type();
        for record in RecordIter::new(&plain, batch.record_count()) {
            let record = record.map_err(|fault| self.damaged(base, fault.into()))?;
            let offset = base.saturating_add(i64::from(record.offset_delta));
            if offset < self.from {
                continue;
            }
            let timestamp = match timestamp_type {
                TimestampType::CreateTime => batch
                    .base_timestamp()
                    .0
                    .saturating_add(record.timestamp_delta),
                TimestampType::LogAppendTime => batch.max_timestamp().0,
            };
            let taken = Taken {
                offset,
                timestamp,
                timestamp_type,
                key: record.key,
                value: record.value,
                headers: record.headers,
            };
            if let ControlFlow::Break(value) = visit(&taken) {
                return Ok(ControlFlow::Break(value));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn damaged(&self, offset: i64, fault: Damage) -> Error {
        Error::Damaged {
            topic: self.topic.to_string(),
            partition: self.partition,
            offset,
            fault,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
    use wire::records::{BatchBuilder, Codec, EndTxn, end_txn_batch};

    use super::*;

    fn batch(base: i64, values: &[&str], producer: Option<i64>) -> Batch {
        let mut builder = BatchBuilder::new()
            .base_offset(Offset(base))
            .compression(Codec::Lz4);
        if let Some(id) = producer {
            builder = builder
                .producer(ProducerId(id), ProducerEpoch(0), Sequence(0))
                .transactional();
        }
        for value in values {
            builder.push(Timestamp(base), None, Some(value.as_bytes()), &[]);
        }
        builder.build()
    }

    fn marker(base: i64, producer: i64, committed: bool) -> Batch {
        let end = EndTxn {
            committed,
            coordinator_epoch: 0,
        };
        let mut batch = end_txn_batch(ProducerId(producer), ProducerEpoch(0), end, Timestamp(base));
        batch.set_base_offset(Offset(base));
        batch
    }

    fn seen(from: i64, batches: &[Batch], aborted: Vec<(i64, i64)>) -> Vec<(i64, String)> {
        let bytes: Bytes = batches.iter().flat_map(|batch| batch.to_bytes()).collect();
        let fetched = Fetched::new("t".into(), 0, from, bytes, aborted);
        let mut seen = Vec::new();
        let end: ControlFlow<()> = fetched
            .each(|record| {
                seen.push((
                    record.offset,
                    String::from_utf8_lossy(record.value.unwrap()).into_owned(),
                ));
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(end.is_continue());
        seen
    }

    #[test]
    fn records_below_the_asked_offset_are_skipped() {
        let batches = [batch(10, &["a", "b", "c"], None), batch(13, &["d"], None)];
        assert_eq!(
            seen(12, &batches, vec![]),
            [(12, "c".into()), (13, "d".into())]
        );
    }

    #[test]
    fn records_of_aborted_transactions_and_markers_are_hidden() {
        let batches = [
            batch(0, &["keep"], Some(2)),
            batch(1, &["gone"], Some(1)),
            batch(2, &["plain"], None),
            marker(3, 1, false),
            batch(4, &["again"], Some(1)),
            marker(5, 1, true),
            marker(6, 2, true),
        ];
        let kept = seen(0, &batches, vec![(1, 1)]);
        assert_eq!(
            kept.iter()
                .map(|(_, value)| value.as_str())
                .collect::<Vec<_>>(),
            ["keep", "plain", "again"]
        );
    }

    #[test]
    fn a_cut_off_batch_is_left_for_the_next_fetch() {
        let (first, second) = (
            batch(0, &["a"], None).to_bytes(),
            batch(1, &["b"], None).to_bytes(),
        );
        let whole: Bytes = [&first[..], &second[..]].concat().into();
        for cut in first.len()..whole.len() {
            let part = whole.slice(..cut);
            assert_eq!(end_of(&part), Ok(Some(1)));
            let fetched = Fetched::new("t".into(), 0, 0, part, vec![]);
            let mut count = 0;
            let _: ControlFlow<()> = fetched
                .each(|_| (count += 1, ControlFlow::Continue(())).1)
                .unwrap();
            assert_eq!(count, 1);
        }
        assert_eq!(end_of(&whole), Ok(Some(2)));
        assert!(
            end_of(&first.slice(..first.len() - 1)).is_err(),
            "not even one batch arrived"
        );
        assert_eq!(end_of(&Bytes::new()), Ok(None));
    }

    #[test]
    fn a_damaged_batch_is_passed_over_where_that_is_wanted() {
        static SKIPPED: std::sync::Mutex<Vec<(i64, i64)>> = std::sync::Mutex::new(Vec::new());
        let mut damaged = batch(3, &["x", "y"], None).to_bytes().to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        let (first, last) = (batch(0, &["a", "b", "c"], None), batch(5, &["d"], None));
        let bytes: Bytes = [&first.to_bytes()[..], &damaged, &last.to_bytes()]
            .concat()
            .into();
        let fetched = Fetched::new("t".into(), 0, 1, bytes, vec![]);
        let offsets = |fetched: &Fetched| {
            let mut offsets = Vec::new();
            let walked = fetched.each(|record| {
                offsets.push(record.offset);
                ControlFlow::<()>::Continue(())
            });
            (offsets, walked.is_ok())
        };
        assert_eq!(offsets(&fetched), (vec![1, 2], false));
        let report = |skipped: &Skipped| SKIPPED.lock().unwrap().push((skipped.from, skipped.to));
        let fetched = fetched.with_skip(Some(report));
        assert_eq!(offsets(&fetched), (vec![1, 2, 5], true));
        assert_eq!(*SKIPPED.lock().unwrap(), [(3, 5)]);
    }

    #[test]
    fn damaged_bytes_are_an_error_that_names_the_place() {
        let mut bytes = batch(7, &["abc"], None).to_bytes().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        let fetched = Fetched::new("t".into(), 3, 7, bytes.into(), vec![]);
        let error = fetched
            .each(|_| ControlFlow::<()>::Continue(()))
            .unwrap_err();
        assert!(matches!(
            error,
            Error::Damaged {
                partition: 3,
                offset: 7,
                fault: Damage::Batch(BatchError::Checksum { .. }),
                ..
            }
        ));
    }
}
