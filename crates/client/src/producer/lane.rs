//! One partition's batches: the open one, those that wait, those under way.
//!
//! Invariant: `queue` is in sequence order, and batches leave it only when they are delivered, or when smaller ones with the same
//! records take their place.

use std::collections::VecDeque;

use bytes::Bytes;
use model::{Instant, ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::error_code::ErrorCode;
use wire::messages::produce_response::PartitionProduceResponse;
use wire::records::{Batch, BatchBuilder, Caps, Compression, HEAD_SIZE, RecordIter, Source};

use super::Record;
use crate::error::Error;

/// Room in a batch for a record's lengths and deltas: seven varints of at most five bytes, and one of ten.
const RECORD_OVERHEAD_MAX: usize = 45;

pub(super) struct Lane {
    pub(super) leader: Option<i32>,
    /// True if the producer's list of waiting lanes names this one.
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
    /// The broker takes no batch of this size, and smaller ones can carry its records.
    TooLarge,
}

/// The outcome of a split of a batch that was too large.
pub(super) struct Split {
    pub(super) pieces: u64,
    /// No piece is larger without compression, unless it is a single record.
    pub(super) piece_bytes: usize,
}

/// Our own batch: however far it grows, it was in memory before.
const OWN: Caps = Caps {
    bytes_max: i32::MAX as usize,
    ratio_max: usize::MAX,
    record_bytes_max: i32::MAX,
};

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

    /// True if the record should start a new batch.
    pub(super) fn is_full_for(&self, record: &Record<'_>, batch_bytes: usize) -> bool {
        self.open
            .as_ref()
            .is_some_and(|(builder, _)| builder.size_estimate() + room_for(record) > batch_bytes)
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

    /// Puts smaller batches in the place of one that is under way and too large, to be sent in its stead. They get serials from
    /// `serial_from` on and share its sequences among them.
    pub(super) fn split(
        &mut self,
        serial: u64,
        serial_from: u64,
        compression: Compression,
    ) -> Split {
        self.give_back(serial);
        let at = self
            .queue
            .iter()
            .position(|waiting| waiting.serial == serial)
            .expect("batches stay until they are delivered");
        let whole = self.queue.remove(at).expect("found above");
        let (pieces, piece_bytes) = halves(&whole.bytes, compression);
        let count = pieces.len() as u64;
        for (index, batch) in pieces.into_iter().enumerate() {
            let piece = Waiting {
                serial: serial_from + index as u64,
                bytes: batch.to_bytes(),
                records: batch.record_count(),
                opened: whole.opened,
                is_sent: false,
            };
            self.queue.insert(at + index, piece);
        }
        Split {
            pieces: count,
            piece_bytes,
        }
    }

    /// The meaning of the broker's answer for a batch of this lane.
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
            Ok(ErrorCode::MessageTooLarge) if self.batch(serial).records > 1 => {
                Ok(Outcome::TooLarge)
            }
            _ => {
                let records = self.batch(serial).records;
                let what = || format!("{} ({records} records)", what());
                let error = Error::check(answer.error_code, what, answer.error_message.as_deref());
                Err(error.expect_err("code 0 was handled"))
            }
        }
    }
}

/// At most what a record adds to a batch.
fn room_for(record: &Record<'_>) -> usize {
    let headers: usize = record
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.map_or(0, <[u8]>::len) + 10)
        .sum();
    RECORD_OVERHEAD_MAX
        + record.key.map_or(0, <[u8]>::len)
        + record.value.map_or(0, <[u8]>::len)
        + headers
}

/// A batch of our own making as smaller ones, each at most half of it or a single record, and how large that half is.
fn halves(bytes: &Bytes, compression: Compression) -> (Vec<Batch>, usize) {
    let whole = Batch::cut(bytes, Source::Produce).next();
    let whole = whole.and_then(Result::ok).expect("we wrote it");
    let plain = whole.plain(OWN).expect("we compressed it");
    let piece_bytes = (HEAD_SIZE + plain.len()) / 2;
    let mut sequence = whole.base_sequence();
    let mut pieces = Vec::new();
    let mut open = BatchBuilder::new();
    let mut close = |open: BatchBuilder| {
        let records = open.record_count();
        let mut closed = open.compression(compression);
        if whole.has_producer_id() {
            closed = closed.producer(whole.producer_id(), whole.producer_epoch(), sequence);
            sequence = sequence.advance(records);
        }
        pieces.push(closed.build());
    };
    for record in RecordIter::new(&plain, whole.record_count()) {
        let record = record.expect("we wrote it");
        let name = |key| std::str::from_utf8(key).expect("names were text");
        let headers: Vec<(&str, Option<&[u8]>)> = record
            .headers
            .iter()
            .map(|header| (name(header.key), header.value))
            .collect();
        let taken = Record {
            key: record.key,
            value: record.value,
            headers: &headers,
            timestamp: None,
        };
        if !open.is_empty() && open.size_estimate() + room_for(&taken) > piece_bytes {
            close(std::mem::take(&mut open));
        }
        let time = Timestamp(
            whole
                .base_timestamp()
                .0
                .wrapping_add(record.timestamp_delta),
        );
        open.push(time, taken.key, taken.value, taken.headers);
    }
    close(open);
    (pieces, piece_bytes)
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
    fn a_batch_that_is_too_large_goes_again_as_its_halves_under_its_own_sequences() {
        let mut lane = lane(3);
        lane.next();
        lane.take(0);
        while lane.next().is_some() {}
        let outcome = lane.judge(1, &answer(ErrorCode::MessageTooLarge), || "x".into());
        assert_eq!(outcome.unwrap(), Outcome::TooLarge);
        let split = lane.split(1, 10, Compression::default());
        assert_eq!(split.pieces, 2);
        lane.give_back(2);
        let mut sent = Vec::new();
        while let Some(waiting) = lane.next() {
            let (serial, records) = (waiting.serial, waiting.records);
            sent.push((serial, sequence(&waiting.bytes), records));
            if serial == 10 {
                let last = lane.judge(10, &answer(ErrorCode::MessageTooLarge), || "x".into());
                assert!(last.is_err(), "a single record cannot become smaller");
            }
            lane.take(serial);
        }
        assert_eq!(sent, [(10, 2, 1), (11, 3, 1), (2, 4, 2)]);
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
