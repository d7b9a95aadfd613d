//! One batch: a header of 61 bytes, kept apart so that it can be patched, and the records as they were received.
//!
//! Invariant: `head.size() == HEAD_SIZE + body.len()`. Base offset and leader epoch lie outside the checksum, so a broker sets
//! them without touching it; changing attributes or timestamps computes it anew.

use std::ops::Deref;

use bytes::{BufMut, Bytes, BytesMut};
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

use super::HEAD_SIZE;
use super::codec::{Caps, Codec, CodecError};
use super::cut::BatchError;
use super::record::RecordIter;

/// Bytes before the part that the length field counts.
pub(super) const LENGTH_END: usize = 12;
/// The checksum covers everything from the attributes on.
pub(super) const CRC_START: usize = 21;

const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const TIMESTAMP_TYPE: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TimestampType {
    #[default]
    CreateTime,
    LogAppendTime,
}

/// The attribute bits of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Attributes(pub i16);

impl Attributes {
    /// `None` for an id that no codec has.
    #[must_use]
    pub fn codec(self) -> Option<Codec> {
        Codec::from_id((self.0 & 7) as u8)
    }

    #[must_use]
    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & TIMESTAMP_TYPE == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    #[must_use]
    pub fn is_transactional(self) -> bool {
        self.0 & TRANSACTIONAL != 0
    }

    #[must_use]
    pub fn is_control(self) -> bool {
        self.0 & CONTROL != 0
    }

    /// The base timestamp field holds the time after which tombstones of this batch may go (KIP-534).
    #[must_use]
    pub fn has_delete_horizon(self) -> bool {
        self.0 & DELETE_HORIZON != 0
    }

    #[must_use]
    pub fn with_codec(self, codec: Codec) -> Self {
        Attributes((self.0 & !7) | i16::from(codec.id()))
    }

    #[must_use]
    pub fn with_timestamp_type(self, kind: TimestampType) -> Self {
        match kind {
            TimestampType::CreateTime => Attributes(self.0 & !TIMESTAMP_TYPE),
            TimestampType::LogAppendTime => Attributes(self.0 | TIMESTAMP_TYPE),
        }
    }

    #[must_use]
    pub fn with_transactional(self) -> Self {
        Attributes(self.0 | TRANSACTIONAL)
    }

    #[must_use]
    pub fn with_control(self) -> Self {
        Attributes(self.0 | CONTROL)
    }

    #[must_use]
    pub fn with_delete_horizon(self) -> Self {
        Attributes(self.0 | DELETE_HORIZON)
    }

    #[must_use]
    pub fn without_delete_horizon(self) -> Self {
        Attributes(self.0 & !DELETE_HORIZON)
    }
}

/// The header of a batch as raw bytes; says nothing about whether the records follow it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head(pub [u8; HEAD_SIZE]);

impl Head {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.0[at..at + N]);
        out
    }

    fn put<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        self.0[at..at + N].copy_from_slice(&value);
    }

    #[must_use]
    pub fn base_offset(&self) -> Offset {
        Offset(i64::from_be_bytes(self.bytes(0)))
    }

    /// The length field as it stands: bytes after the field itself. May be anything until checked.
    #[must_use]
    pub fn length_field(&self) -> i32 {
        i32::from_be_bytes(self.bytes(8))
    }

    /// Bytes of the whole batch as the length field has them.
    #[must_use]
    pub fn size(&self) -> usize {
        usize::try_from(self.length_field()).unwrap_or(0) + LENGTH_END
    }

    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch(i32::from_be_bytes(self.bytes(12)))
    }

    #[must_use]
    pub fn magic(&self) -> u8 {
        self.0[MAGIC_AT]
    }

    #[must_use]
    pub fn crc(&self) -> u32 {
        u32::from_be_bytes(self.bytes(CRC_AT))
    }

    #[must_use]
    pub fn attributes(&self) -> Attributes {
        Attributes(i16::from_be_bytes(self.bytes(21)))
    }

    #[must_use]
    pub fn last_offset_delta(&self) -> i32 {
        i32::from_be_bytes(self.bytes(23))
    }

    /// Offset of the last record, also when compaction has removed that record.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        Offset(
            self.base_offset()
                .0
                .saturating_add(i64::from(self.last_offset_delta())),
        )
    }

    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    #[must_use]
    pub fn base_timestamp(&self) -> Timestamp {
        Timestamp(i64::from_be_bytes(self.bytes(27)))
    }

    /// From when on the tombstones of this batch may go; `None` before the first compaction that met them.
    #[must_use]
    pub fn delete_horizon(&self) -> Option<Timestamp> {
        self.attributes()
            .has_delete_horizon()
            .then(|| self.base_timestamp())
    }

    #[must_use]
    pub fn max_timestamp(&self) -> Timestamp {
        Timestamp(i64::from_be_bytes(self.bytes(35)))
    }

    /// True if the largest time of the header cannot be that of its records, or says nothing of them: producers are known that
    /// send -1 whatever the records have.
    #[must_use]
    pub fn hides_time(&self) -> bool {
        let (base, max) = (self.base_timestamp(), self.max_timestamp());
        let is_below = max < base && !self.attributes().has_delete_horizon();
        self.has_times_of_records() && (max.0 <= 0 || is_below)
    }

    /// True if the header gives several records the time of the first one: most small batches, and those of producers that never
    /// look at the others.
    #[must_use]
    pub fn may_understate_time(&self) -> bool {
        self.has_times_of_records()
            && self.record_count() > 1
            && self.max_timestamp() == self.base_timestamp()
            && !self.attributes().has_delete_horizon()
    }

    fn has_times_of_records(&self) -> bool {
        self.record_count() > 0 && self.attributes().timestamp_type() == TimestampType::CreateTime
    }

    #[must_use]
    pub fn producer_id(&self) -> ProducerId {
        ProducerId(i64::from_be_bytes(self.bytes(43)))
    }

    #[must_use]
    pub fn producer_epoch(&self) -> ProducerEpoch {
        ProducerEpoch(i16::from_be_bytes(self.bytes(51)))
    }

    #[must_use]
    pub fn has_producer_id(&self) -> bool {
        self.producer_id() != ProducerId::NONE
    }

    #[must_use]
    pub fn base_sequence(&self) -> Sequence {
        Sequence(i32::from_be_bytes(self.bytes(53)))
    }

    /// -1 when the batch carries no sequence.
    #[must_use]
    pub fn last_sequence(&self) -> Sequence {
        let base = self.base_sequence();
        if base.0 < 0 {
            base
        } else {
            base.advance(self.last_offset_delta().max(0))
        }
    }

    #[must_use]
    pub fn record_count(&self) -> i32 {
        i32::from_be_bytes(self.bytes(57))
    }

    pub fn set_base_offset(&mut self, offset: Offset) {
        self.put(0, offset.0.to_be_bytes());
    }

    pub fn set_leader_epoch(&mut self, epoch: LeaderEpoch) {
        self.put(12, epoch.0.to_be_bytes());
    }

    pub(super) fn set_size(&mut self, size: usize) {
        let length = i32::try_from(size - LENGTH_END).expect("a batch we built is below 2 GiB");
        self.put(8, length.to_be_bytes());
    }

    pub(super) fn set_magic(&mut self, magic: u8) {
        self.0[MAGIC_AT] = magic;
    }

    pub(super) fn set_attributes(&mut self, attributes: Attributes) {
        self.put(21, attributes.0.to_be_bytes());
    }

    pub(super) fn set_last_offset_delta(&mut self, delta: i32) {
        self.put(23, delta.to_be_bytes());
    }

    pub(super) fn set_timestamps(&mut self, base: Timestamp, max: Timestamp) {
        self.put(27, base.0.to_be_bytes());
        self.put(35, max.0.to_be_bytes());
    }

    pub(super) fn set_producer(
        &mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        sequence: Sequence,
    ) {
        self.put(43, id.0.to_be_bytes());
        self.put(51, epoch.0.to_be_bytes());
        self.put(53, sequence.0.to_be_bytes());
    }

    pub(super) fn set_record_count(&mut self, count: i32) {
        self.put(57, count.to_be_bytes());
    }

    pub(super) fn set_crc(&mut self, crc: u32) {
        self.put(CRC_AT, crc.to_be_bytes());
    }
}

impl std::fmt::Debug for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Head")
            .field("offsets", &(self.base_offset().0..=self.last_offset().0))
            .field("size", &self.size())
            .field("leader_epoch", &self.leader_epoch().0)
            .field("records", &self.record_count())
            .finish_non_exhaustive()
    }
}

/// One batch whose bounds were checked. Reads like its [`Head`].
#[derive(Clone, Debug)]
pub struct Batch {
    pub(super) head: Head,
    pub(super) body: Bytes,
    /// Memory that the records keep and that this batch is counted for: see [`Batch::held`].
    kept: usize,
}

/// The same bytes, wherever they lie.
impl PartialEq for Batch {
    fn eq(&self, other: &Batch) -> bool {
        self.head == other.head && self.body == other.body
    }
}

impl Eq for Batch {}

/// Memory for a batch beside its records: its place in a queue that has up to half as many free ones, and the count of those that share
/// the records, with what an allocator adds.
const PLACE_BYTES: usize = size_of::<Batch>() * 3 / 2 + 48;

impl Deref for Batch {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.head
    }
}

impl Batch {
    /// Joins a header and its records; refuses when the length field says otherwise. The checksum is not looked at.
    pub fn from_parts(head: Head, body: Bytes) -> Result<Batch, BatchError> {
        head.check_shape()?;
        let have = HEAD_SIZE + body.len();
        if head.size() != have {
            return Err(BatchError::Truncated {
                want: head.size(),
                have,
            });
        }
        Ok(Batch::joined(head, body))
    }

    /// Joins parts that fit. The records are counted as alone in their memory.
    pub(super) fn joined(head: Head, body: Bytes) -> Batch {
        let kept = body.len();
        Batch { head, body, kept }
    }

    /// Bytes of memory that a queue of batches keeps for this one: the records, and a place. Batches that lie in one buffer keep all of it
    /// until the last of them goes: one of them is counted for the buffer, the others for their places.
    #[must_use]
    pub fn held(&self) -> usize {
        PLACE_BYTES + self.kept
    }

    /// The records lie in a buffer with others: from now on this batch is counted for so many bytes of it.
    pub fn count_for(&mut self, bytes: usize) {
        self.kept = bytes;
    }

    /// The same batch, alone in its memory.
    #[must_use]
    pub fn detached(&self) -> Batch {
        Batch::joined(self.head, Bytes::copy_from_slice(&self.body))
    }

    #[must_use]
    pub fn head(&self) -> &[u8; HEAD_SIZE] {
        &self.head.0
    }

    /// The records, compressed as the attributes say.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    pub fn set_base_offset(&mut self, offset: Offset) {
        self.head.set_base_offset(offset);
    }

    pub fn set_leader_epoch(&mut self, epoch: LeaderEpoch) {
        self.head.set_leader_epoch(epoch);
    }

    /// Turns the batch into one of `LogAppendTime`: every record then reads `time`.
    pub fn set_append_time(&mut self, time: Timestamp) {
        let attributes = self
            .attributes()
            .with_timestamp_type(TimestampType::LogAppendTime);
        self.head.set_attributes(attributes);
        self.head.set_timestamps(self.base_timestamp(), time);
        self.head.set_crc(checksum(&self.head, &self.body));
    }

    /// Turns the batch into one of `CreateTime`: every record then reads its own time.
    pub fn set_create_time(&mut self) {
        let attributes = self
            .attributes()
            .with_timestamp_type(TimestampType::CreateTime);
        self.head.set_attributes(attributes);
        self.head.set_crc(checksum(&self.head, &self.body));
    }

    /// Corrects a wrong maximum of a `CreateTime` batch after its records were walked.
    pub fn set_max_timestamp(&mut self, time: Timestamp) {
        if self.max_timestamp() != time {
            self.head.set_timestamps(self.base_timestamp(), time);
            self.head.set_crc(checksum(&self.head, &self.body));
        }
    }

    /// Gives the batch a producer's identity; for clients that resend under a new epoch.
    pub fn set_producer(&mut self, id: ProducerId, epoch: ProducerEpoch, sequence: Sequence) {
        self.head.set_producer(id, epoch, sequence);
        self.head.set_crc(checksum(&self.head, &self.body));
    }

    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.crc() == checksum(&self.head, &self.body)
    }

    /// The records without compression; a slice of the batch when there is none, which no limit is for.
    pub fn plain(&self, caps: Caps) -> Result<Bytes, CodecError> {
        match self.attributes().codec() {
            Some(Codec::None) => Ok(self.body.clone()),
            Some(codec) => {
                let plain = codec.decompress(&self.body, caps)?;
                caps.check_records(&plain, self.record_count())?;
                Ok(plain)
            }
            None => Err(CodecError::Unknown {
                id: (self.attributes().0 & 7) as u8,
            }),
        }
    }

    /// The largest time of its records: the header's, or of a header that hides it what the records have.
    #[must_use]
    pub fn latest_time(&self) -> Timestamp {
        if self.hides_time() {
            self.latest_of_records()
        } else {
            self.max_timestamp()
        }
    }

    /// The largest time of its records, whatever the header gives. The header's where the records cannot be read.
    #[must_use]
    pub fn latest_of_records(&self) -> Timestamp {
        let claimed = self.max_timestamp();
        if !self.has_times_of_records() {
            return claimed;
        }
        let Ok(plain) = self.plain(Caps::default()) else {
            return claimed;
        };
        let base = self.base_timestamp();
        let mut latest = Timestamp::NONE;
        for record in RecordIter::new(&plain, self.record_count()) {
            let Ok(record) = record else { return claimed };
            let time = base.0.saturating_add(record.timestamp_delta);
            latest = latest.max(Timestamp(time));
        }
        latest
    }

    pub fn write_to(&self, out: &mut impl BufMut) {
        out.put_slice(&self.head.0);
        out.put_slice(&self.body);
    }

    /// The batch as one run of bytes (copies).
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(HEAD_SIZE + self.body.len());
        self.write_to(&mut out);
        out.freeze()
    }
}

/// CRC-32C over the attributes and all that follows.
#[must_use]
pub fn checksum(head: &Head, body: &[u8]) -> u32 {
    let covered = &head.0[CRC_START..];
    // A digest costs more to set up than a short body costs to copy and read in one go.
    const SHORT: usize = 512;
    if body.len() <= SHORT {
        let mut joined = [0u8; HEAD_SIZE - CRC_START + SHORT];
        let len = covered.len() + body.len();
        joined[..covered.len()].copy_from_slice(covered);
        joined[covered.len()..len].copy_from_slice(body);
        return crc_fast::crc32_iscsi(&joined[..len]);
    }
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(covered);
    digest.update(body);
    digest.finalize() as u32
}
