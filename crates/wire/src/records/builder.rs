//! Building a batch from records: for clients, for the broker's own topics, and when a batch is compressed anew.
//!
//! Writes what Kafka's own writer would write. Does not bound the size: the caller asks `size_estimate` and stops.

use bytes::Bytes;
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

use super::HEAD_SIZE;
use super::batch::{Attributes, Batch, Head, TimestampType, checksum};
use super::codec::{Caps, CodecError, Compression};
use super::record::{put_varint, put_varlong, varlong_size};

pub struct BatchBuilder {
    compression: Compression,
    attributes: Attributes,
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    producer: (ProducerId, ProducerEpoch, Sequence),
    append_time: Option<Timestamp>,
    plain: Vec<u8>,
    count: i32,
    last_delta: i32,
    base_timestamp: Timestamp,
    max_timestamp: Timestamp,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        BatchBuilder::new()
    }
}

impl BatchBuilder {
    #[must_use]
    pub fn new() -> Self {
        BatchBuilder {
            compression: Compression::default(),
            attributes: Attributes::default(),
            base_offset: Offset::ZERO,
            leader_epoch: LeaderEpoch::NONE,
            producer: (ProducerId::NONE, ProducerEpoch(-1), Sequence(-1)),
            append_time: None,
            plain: Vec::new(),
            count: 0,
            last_delta: -1,
            base_timestamp: Timestamp::NONE,
            max_timestamp: Timestamp::NONE,
        }
    }

    #[must_use]
    pub fn compression(mut self, compression: impl Into<Compression>) -> Self {
        self.compression = compression.into();
        self
    }

    #[must_use]
    pub fn base_offset(mut self, offset: Offset) -> Self {
        self.base_offset = offset;
        self
    }

    #[must_use]
    pub fn leader_epoch(mut self, epoch: LeaderEpoch) -> Self {
        self.leader_epoch = epoch;
        self
    }

    /// Makes the batch one of an idempotent producer.
    #[must_use]
    pub fn producer(mut self, id: ProducerId, epoch: ProducerEpoch, sequence: Sequence) -> Self {
        self.producer = (id, epoch, sequence);
        self
    }

    #[must_use]
    pub fn transactional(mut self) -> Self {
        self.attributes = self.attributes.with_transactional();
        self
    }

    /// A control batch: transactional, of a producer, without sequence.
    #[must_use]
    pub fn control(mut self, id: ProducerId, epoch: ProducerEpoch) -> Self {
        self.attributes = self.attributes.with_transactional().with_control();
        self.producer = (id, epoch, Sequence(-1));
        self
    }

    /// A control batch of the controller's log: neither transactional nor of a producer.
    #[must_use]
    pub fn quorum_control(mut self) -> Self {
        self.attributes = self.attributes.with_control();
        self
    }

    /// All records get the time at which the log took them.
    #[must_use]
    pub fn append_time(mut self, time: Timestamp) -> Self {
        self.append_time = Some(time);
        self
    }

    /// Appends a record right after the last one.
    pub fn push(
        &mut self,
        time: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) {
        self.push_at(self.last_delta + 1, time, key, value, headers);
    }

    /// Appends a record at an offset delta above the last one's (compaction leaves holes).
    pub fn push_at(
        &mut self,
        delta: i32,
        time: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) {
        assert!(delta > self.last_delta, "offset deltas of a batch rise");
        if self.count == 0 {
            self.base_timestamp = time;
        }
        let since_base = time.0.wrapping_sub(self.base_timestamp.0);
        let field = |bytes: Option<&[u8]>| {
            bytes.map_or(1, |bytes| varlong_size(bytes.len() as i64) + bytes.len())
        };
        let headers_size: usize = headers
            .iter()
            .map(|(name, value)| field(Some(name.as_bytes())) + field(*value))
            .sum();
        let size = 1
            + varlong_size(since_base)
            + varlong_size(i64::from(delta))
            + field(key)
            + field(value)
            + varlong_size(headers.len() as i64)
            + headers_size;
        let out = &mut self.plain;
        put_varlong(out, size as i64);
        out.push(0);
        put_varlong(out, since_base);
        put_varint(out, delta);
        put_nullable(out, key);
        put_nullable(out, value);
        put_varlong(out, headers.len() as i64);
        for (name, value) in headers {
            put_nullable(out, Some(name.as_bytes()));
            put_nullable(out, *value);
        }
        self.count += 1;
        self.last_delta = delta;
        self.max_timestamp = self.max_timestamp.max(time);
    }

    #[must_use]
    pub fn record_count(&self) -> i32 {
        self.count
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the batch if it were built now and did not compress.
    #[must_use]
    pub fn size_estimate(&self) -> usize {
        HEAD_SIZE + self.plain.len()
    }

    /// The finished batch. Panics when nothing was pushed: an empty batch is not legal on the wire.
    #[must_use]
    pub fn build(self) -> Batch {
        assert!(self.count > 0, "a batch holds at least one record");
        let mut attributes = self.attributes.with_codec(self.compression.codec);
        let mut max_timestamp = self.max_timestamp;
        if let Some(time) = self.append_time {
            attributes = attributes.with_timestamp_type(TimestampType::LogAppendTime);
            max_timestamp = time;
        }
        let mut head = Head([0; HEAD_SIZE]);
        head.set_magic(2);
        head.set_base_offset(self.base_offset);
        head.set_leader_epoch(self.leader_epoch);
        head.set_attributes(attributes);
        head.set_last_offset_delta(self.last_delta);
        head.set_timestamps(self.base_timestamp, max_timestamp);
        let (id, epoch, sequence) = self.producer;
        head.set_producer(id, epoch, sequence);
        head.set_record_count(self.count);
        seal(head, self.compression.compress(fitted(self.plain)))
    }
}

/// The same records under another codec; offsets, times and producer stay. The records are not validated here.
pub fn recompress(
    batch: &Batch,
    compression: Compression,
    caps: Caps,
) -> Result<Batch, CodecError> {
    let plain = batch.plain(caps)?;
    let mut head = batch.head;
    head.set_attributes(batch.attributes().with_codec(compression.codec));
    Ok(seal(head, compression.compress(plain)))
}

/// Room up to this part of the bytes may stay: an allocator rounds up by as much.
const ROOM_PART: usize = 8;

/// The bytes without the room that nothing filled: a batch may stay in memory for long, and is counted for its bytes alone.
pub(super) fn fitted(mut bytes: Vec<u8>) -> Bytes {
    if bytes.len() + bytes.len() / ROOM_PART < bytes.capacity() {
        bytes.shrink_to_fit();
    }
    bytes.into()
}

pub(super) fn seal(mut head: Head, body: Bytes) -> Batch {
    head.set_size(HEAD_SIZE + body.len());
    head.set_crc(checksum(&head, &body));
    Batch::joined(head, body)
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_varlong(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
        None => out.push(1),
    }
}
