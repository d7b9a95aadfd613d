//! One partition's batches: the open one, those that wait, those under way.
//!
//! Invariant: `queue` is in sequence order, and batches leave it only when they are delivered.

use std::collections::VecDeque;

use bytes::Bytes;
use model::{Instant, ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::error_code::ErrorCode;
use wire::messages::produce_response::PartitionProduceResponse;
use wire::records::{BatchBuilder, Compression};

use super::Record;
use crate::error::Error;

/// Room in a batch for a record's lengths and deltas: seven varints of at most five bytes, and one of ten.
const RECORD_OVERHEAD_MAX: usize = 45;

pub(super) struct Lane {
    pub(super) leader: Option<i32>,
    /// Whether the producer's list of waiting lanes names this one.
    pub(super) is_listed: bool,
    open: Option<(BatchBuilder, Instant)>,
    queue: VecDeque<Waiting>,
    under_way: usize,
    /// Nothing got through yet, or a batch came back: one at a time. A log that knows nothing of a producer takes any sequence
    /// from it, so the second batch must not come before the first.
    is_cautious: bool,
    next_sequence: Sequence,
}

pub(super) struct Waiting {
    pub(super) serial: u64,
    pub(super) bytes: Bytes,
    pub(super) records: i32,
    pub(super) opened: Instant,
    is_sent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Delivered(Option<i64>),
    /// It came before its predecessor, which has to be sent again first.
    Early,
}

impl Lane {
    pub(super) fn new(leader: Option<i32>) -> Lane {
        Lane {
            leader,
            is_listed: false,
            open: None,
            queue: VecDeque::new(),
            under_way: 0,
            is_cautious: true,
            next_sequence: Sequence(0),
        }
    }

    pub(super) fn opened(&self) -> Option<Instant> {
        self.open.as_ref().map(|(_, opened)| *opened)
    }

    /// Whether the record should start a new batch.
    pub(super) fn is_full_for(&self, record: &Record<'_>, batch_bytes: usize) -> bool {
        let headers: usize = record
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.map_or(0, <[u8]>::len) + 10)
            .sum();
        let size = RECORD_OVERHEAD_MAX
            + record.key.map_or(0, <[u8]>::len)
            + record.value.map_or(0, <[u8]>::len)
            + headers;
        self.open
            .as_ref()
            .is_some_and(|(builder, _)| builder.size_estimate() + size > batch_bytes)
    }

    /// Adds a record to the open batch; returns the size of that batch.
    pub(super) fn push(
        &mut self,
        record: &Record<'_>,
        time: Timestamp,
        now: Instant,
        compression: Compression,
    ) -> usize {
        let (builder, _) = self
            .open
            .get_or_insert_with(|| (BatchBuilder::new().compression(compression), now));
        builder.push(time, record.key, record.value, record.headers);
        builder.size_estimate()
    }

    /// Closes the open batch; `false` when there is none.
    pub(super) fn seal(
        &mut self,
        serial: u64,
        identity: Option<(ProducerId, ProducerEpoch)>,
    ) -> bool {
        let Some((mut builder, opened)) = self.open.take() else {
            return false;
        };
        let records = builder.record_count();
        if let Some((id, epoch)) = identity {
            builder = builder.producer(id, epoch, self.next_sequence);
            self.next_sequence = self.next_sequence.advance(records);
        }
        let bytes = builder.build().to_bytes();
        self.queue.push_back(Waiting {
            serial,
            bytes,
            records,
            opened,
            is_sent: false,
        });
        true
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.queue.iter().any(|waiting| !waiting.is_sent)
    }

    /// The next batch to send, marked as under way.
    pub(super) fn next(&mut self) -> Option<&Waiting> {
        if self.is_cautious && self.under_way > 0 {
            return None;
        }
        let waiting = self.queue.iter_mut().find(|waiting| !waiting.is_sent)?;
        waiting.is_sent = true;
        self.under_way += 1;
        Some(waiting)
    }

    pub(super) fn batch(&self, serial: u64) -> &Waiting {
        self.queue
            .iter()
            .find(|waiting| waiting.serial == serial)
            .expect("batches stay until they are delivered")
    }

    pub(super) fn give_back(&mut self, serial: u64) {
        let waiting = self
            .queue
            .iter_mut()
            .find(|waiting| waiting.serial == serial)
            .expect("batches stay until they are delivered");
        waiting.is_sent = false;
        self.under_way -= 1;
        self.is_cautious = true;
    }

    pub(super) fn take(&mut self, serial: u64) -> Waiting {
        let at = self
            .queue
            .iter()
            .position(|waiting| waiting.serial == serial)
            .expect("batches stay until they are delivered");
        self.under_way -= 1;
        self.is_cautious = false;
        self.queue.remove(at).expect("found above")
    }

    /// What the broker's answer means for a batch of this lane.
    pub(super) fn judge(
        &self,
        serial: u64,
        answer: &PartitionProduceResponse,
        what: impl FnOnce() -> String,
    ) -> Result<Outcome, Error> {
        let is_first = self
            .queue
            .front()
            .is_some_and(|first| first.serial == serial);
        match ErrorCode::try_from(answer.error_code) {
            Ok(ErrorCode::None) => Ok(Outcome::Delivered(
                Some(answer.base_offset).filter(|offset| *offset >= 0),
            )),
            // A first attempt got through and its answer was lost.
            Ok(ErrorCode::DuplicateSequenceNumber) => Ok(Outcome::Delivered(
                Some(answer.base_offset).filter(|offset| *offset >= 0),
            )),
            Ok(ErrorCode::OutOfOrderSequenceNumber) if !is_first => Ok(Outcome::Early),
            _ => {
                let records = self.batch(serial).records;
                let what = || format!("{} ({records} records)", what());
                let error = Error::check(answer.error_code, what, answer.error_message.as_deref());
                Err(error.expect_err("code 0 was handled"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(batches: u64) -> Lane {
        let mut lane = Lane::new(Some(1));
        for serial in 0..batches {
            for value in [b"a", b"b"] {
                let record = Record {
                    value: Some(value),
                    ..Default::default()
                };
                lane.push(
                    &record,
                    Timestamp(1),
                    Instant(serial),
                    Compression::default(),
                );
            }
            assert!(lane.seal(serial, Some((ProducerId(9), ProducerEpoch(0)))));
        }
        lane
    }

    fn sequence(bytes: &Bytes) -> i32 {
        wire::records::Head::read(bytes).unwrap().base_sequence().0
    }

    fn answer(code: ErrorCode) -> PartitionProduceResponse {
        PartitionProduceResponse {
            error_code: code as i16,
            base_offset: 40,
            ..Default::default()
        }
    }

    #[test]
    fn sequences_count_records_over_batches() {
        let mut lane = lane(3);
        let sequences: Vec<i32> = (0..3)
            .map(|serial| {
                let sequence = sequence(&lane.next().unwrap().bytes);
                lane.take(serial);
                sequence
            })
            .collect();
        assert_eq!(sequences, [0, 2, 4]);
        assert!(!lane.seal(9, None), "nothing is open");
    }

    #[test]
    fn after_a_failure_batches_go_again_in_order_and_one_at_a_time() {
        let mut lane = lane(4);
        assert_eq!(lane.next().unwrap().serial, 0);
        assert!(lane.next().is_none(), "the first batch of all goes alone");
        lane.take(0);
        while lane.next().is_some() {}
        lane.give_back(1);
        assert!(lane.next().is_none(), "two are still under way");
        lane.give_back(2);
        lane.give_back(3);
        assert_eq!(lane.next().unwrap().serial, 1);
        assert!(lane.next().is_none(), "the next attempt goes alone");
        lane.take(1);
        assert_eq!(lane.next().unwrap().serial, 2);
        assert_eq!(lane.next().unwrap().serial, 3);
        assert!(!lane.has_unsent());
    }

    #[test]
    fn a_gap_is_a_failure_only_for_the_first_batch() {
        let lane = lane(2);
        let judge = |serial, code| lane.judge(serial, &answer(code), || "x".into());
        assert_eq!(
            judge(0, ErrorCode::None).unwrap(),
            Outcome::Delivered(Some(40))
        );
        assert_eq!(
            judge(1, ErrorCode::DuplicateSequenceNumber).unwrap(),
            Outcome::Delivered(Some(40))
        );
        assert_eq!(
            judge(1, ErrorCode::OutOfOrderSequenceNumber).unwrap(),
            Outcome::Early
        );
        assert_eq!(
            judge(0, ErrorCode::OutOfOrderSequenceNumber)
                .unwrap_err()
                .code(),
            Some(ErrorCode::OutOfOrderSequenceNumber)
        );
        assert!(
            judge(0, ErrorCode::NotLeaderOrFollower)
                .unwrap_err()
                .is_retriable()
        );
    }

    #[test]
    fn a_record_that_does_not_fit_starts_a_new_batch() {
        let mut lane = Lane::new(None);
        let record = Record {
            value: Some(&[0; 100]),
            ..Default::default()
        };
        assert!(
            !lane.is_full_for(&record, 10),
            "an empty lane takes any record"
        );
        lane.push(&record, Timestamp(1), Instant(0), Compression::default());
        assert!(lane.is_full_for(&record, 250) && !lane.is_full_for(&record, 400));
    }
}
