//! Cutting batches out of a run of bytes: a produce request, a fetch reply, a piece of a segment.
//!
//! Checks bounds, version, checksum and what the header says about itself. Records are not walked (see `validate`): that
//! costs six times the checksum.

use bytes::{Buf, Bytes};

use super::HEAD_SIZE;
use super::batch::{Batch, CRC_START, Head, LENGTH_END};

/// The fault of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error("batch of {want} bytes is cut off after {have}")]
    Truncated { want: usize, have: usize },
    #[error("batch length {length} is below the size of a header")]
    TooShort { length: i32 },
    #[error("batch of version {magic} is not supported")]
    UnsupportedMagic { magic: u8 },
    #[error("batch has the unknown version {magic}")]
    UnknownMagic { magic: u8 },
    #[error("batch checksum is {stored:#010x}, its bytes give {computed:#010x}")]
    Checksum { stored: u32, computed: u32 },
    #[error("batch has base offset {offset}, a produced batch starts at 0")]
    BaseOffset { offset: i64 },
    #[error("batch has the last offset delta {delta}")]
    OffsetRange { delta: i32 },
    #[error("batch claims {count} records")]
    Count { count: i32 },
    #[error("batch claims {count} records and a last offset delta of {delta}")]
    CountMismatch { count: i32, delta: i32 },
    #[error("batch claims {count} records in {bytes} bytes")]
    Overfull { count: i32, bytes: usize },
    #[error("batch has producer id {producer} but sequence {sequence}")]
    Sequence { producer: i64, sequence: i32 },
    #[error("batch of a client is marked as control batch")]
    Control,
    #[error("batch has the unknown codec {id}")]
    UnknownCodec { id: u8 },
}

/// How the peer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes were damaged on their way; sending them again may help.
    Corrupt,
    /// The bytes are what the client meant, and are not acceptable.
    Invalid,
    /// A version of the format from before 2017.
    OldFormat,
    UnknownCodec,
}

impl BatchError {
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            BatchError::Truncated { .. }
            | BatchError::TooShort { .. }
            | BatchError::UnknownMagic { .. }
            | BatchError::Checksum { .. } => Fault::Corrupt,
            BatchError::UnsupportedMagic { .. } => Fault::OldFormat,
            BatchError::UnknownCodec { .. } => Fault::UnknownCodec,
            BatchError::BaseOffset { .. }
            | BatchError::OffsetRange { .. }
            | BatchError::Count { .. }
            | BatchError::CountMismatch { .. }
            | BatchError::Overfull { .. }
            | BatchError::Sequence { .. }
            | BatchError::Control => Fault::Invalid,
        }
    }
}

/// Where the bytes come from, which says what they may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A produce request: whole batches, offsets from 0, as many records as offsets, no control batches.
    Produce,
    /// A fetch reply or a segment: offsets are set, compaction may have removed records, the last batch may be cut off.
    Log,
}

impl Head {
    /// Reads a header off the front of `bytes`.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Head> {
        bytes.first_chunk::<HEAD_SIZE>().map(|head| Head(*head))
    }

    /// Version and length: what must hold before anything else is believed.
    pub fn check_shape(&self) -> Result<(), BatchError> {
        match self.magic() {
            2 => {}
            magic @ (0 | 1) => return Err(BatchError::UnsupportedMagic { magic }),
            magic => return Err(BatchError::UnknownMagic { magic }),
        }
        if self.length_field() < (HEAD_SIZE - LENGTH_END) as i32 {
            return Err(BatchError::TooShort {
                length: self.length_field(),
            });
        }
        Ok(())
    }

    /// The rules for every batch, wherever it was found.
    fn check_fields(&self) -> Result<(), BatchError> {
        let (count, delta) = (self.record_count(), self.last_offset_delta());
        if delta < 0
            || self
                .base_offset()
                .0
                .checked_add(i64::from(delta) + 1)
                .is_none()
        {
            return Err(BatchError::OffsetRange { delta });
        }
        if count < 0 {
            return Err(BatchError::Count { count });
        }
        if i64::from(count) > i64::from(delta) + 1 {
            return Err(BatchError::CountMismatch { count, delta });
        }
        let Some(codec) = self.attributes().codec() else {
            return Err(BatchError::UnknownCodec {
                id: (self.attributes().0 & 7) as u8,
            });
        };
        // A record takes at least seven bytes.
        let bytes = self.size() - HEAD_SIZE;
        if codec == super::Codec::None && count as usize > bytes / 7 {
            return Err(BatchError::Overfull { count, bytes });
        }
        Ok(())
    }

    /// The additional rules for a batch from a client.
    fn check_produced(&self) -> Result<(), BatchError> {
        if self.attributes().is_control() {
            return Err(BatchError::Control);
        }
        let (count, delta) = (self.record_count(), self.last_offset_delta());
        if count == 0 {
            return Err(BatchError::Count { count });
        }
        if i64::from(count) != i64::from(delta) + 1 {
            return Err(BatchError::CountMismatch { count, delta });
        }
        if self.base_offset().0 != 0 {
            return Err(BatchError::BaseOffset {
                offset: self.base_offset().0,
            });
        }
        if self.has_producer_id() && self.base_sequence().0 < 0 {
            return Err(BatchError::Sequence {
                producer: self.producer_id().0,
                sequence: self.base_sequence().0,
            });
        }
        Ok(())
    }
}

impl Batch {
    /// All batches in `bytes`, each a slice of them. Stops at the first error.
    #[must_use]
    pub fn cut(bytes: &Bytes, source: Source) -> Batches {
        Batches {
            rest: bytes.clone(),
            source,
        }
    }
}

/// Iterator of [`Batch::cut`]. `rest()` is what was not cut (of a log: the cut-off last batch).
#[derive(Clone, Debug)]
pub struct Batches {
    rest: Bytes,
    source: Source,
}

impl Batches {
    #[must_use]
    pub fn rest(&self) -> &Bytes {
        &self.rest
    }

    fn cut_one(&mut self) -> Result<Batch, BatchError> {
        let have = self.rest.len();
        let Some(head) = Head::read(&self.rest) else {
            return Err(short(&self.rest));
        };
        head.check_shape()?;
        let size = head.size();
        if have < size {
            return Err(BatchError::Truncated { want: size, have });
        }
        let computed = crc_fast::crc32_iscsi(&self.rest[CRC_START..size]);
        if computed != head.crc() {
            return Err(BatchError::Checksum {
                stored: head.crc(),
                computed,
            });
        }
        head.check_fields()?;
        if self.source == Source::Produce {
            head.check_produced()?;
        }
        let body = self.rest.slice(HEAD_SIZE..size);
        self.rest.advance(size);
        Ok(Batch::joined(head, body))
    }
}

/// Names the fault of bytes that are shorter than a header: an old message may be shorter than ours.
fn short(bytes: &[u8]) -> BatchError {
    match bytes.get(16) {
        Some(&magic @ (0 | 1)) => BatchError::UnsupportedMagic { magic },
        _ => BatchError::Truncated {
            want: HEAD_SIZE,
            have: bytes.len(),
        },
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let cut = self.cut_one();
        match (&cut, self.source) {
            (Err(BatchError::Truncated { .. }), Source::Log) => return None,
            (Err(_), _) => self.rest = Bytes::new(),
            (Ok(_), _) => {}
        }
        Some(cut)
    }
}
