//! Writing the types of the protocol: one head buffer, and payloads spliced into it without a copy.
//!
//! Invariant: splices are in order of `at`, a place in the head; `spliced` is the sum of their lengths. A payload of at least
//! `SPLICE_BYTES_MIN` stays where it is; a promise of bytes (`Records::External`) is always a splice.

use crate::encoded::{Encoded, Splice, SpliceAt};
use crate::reader::STRING_BYTES_MAX;
use crate::{EncodeError, Message, Records, Uuid};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Below this a copy costs less than one more piece in a vectored write.
const SPLICE_BYTES_MIN: usize = 1 << 10;

/// A message under construction.
#[derive(Debug, Default)]
pub struct Writer {
    head: Vec<u8>,
    splices: Vec<SpliceAt>,
    spliced: usize,
    /// Error codes that were written, each with its count.
    errors: BTreeMap<i16, u32>,
}

/// A frame whose length is not known yet.
#[derive(Clone, Copy, Debug)]
#[must_use = "the length is written by `end_frame`"]
pub struct OpenFrame {
    at: usize,
    splices: usize,
    spliced: usize,
}

/// A tagged field whose size is not known yet.
#[derive(Clone, Copy, Debug)]
#[must_use = "the size is written by `end_tag`"]
pub struct OpenTag {
    at: usize,
    splices: usize,
    spliced: usize,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            head: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// A field that says what went wrong.
    pub fn error_code(&mut self, code: i16) {
        if code != 0 {
            *self.errors.entry(code).or_default() += 1;
        }
        self.i16(code);
    }

    /// Leaves four bytes for the length that `finish_frame` fills in.
    pub fn for_frame() -> Self {
        let mut w = Self::with_capacity(256);
        w.i32(0);
        w
    }

    /// Bytes written so far, payloads included.
    pub fn position(&self) -> usize {
        self.head.len() + self.spliced
    }

    pub fn finish(self) -> Encoded {
        Encoded {
            len: self.head.len() + self.spliced,
            head: Bytes::from(self.head),
            splices: self.splices,
            errors: self.errors,
        }
    }

    /// Ends what `for_frame` began.
    pub fn finish_frame(mut self) -> Result<Encoded, EncodeError> {
        let length = self.position().saturating_sub(4);
        let prefix = i32::try_from(length).map_err(|_| EncodeError::TooLong { length })?;
        self.patch_i32(0, prefix);
        Ok(self.finish())
    }

    /// Starts a frame behind what is already written, so that several leave in one write.
    pub fn begin_frame(&mut self) -> OpenFrame {
        let open = OpenFrame {
            at: self.head.len(),
            splices: self.splices.len(),
            spliced: self.spliced,
        };
        self.i32(0);
        open
    }

    /// Fills in the length of a frame.
    pub fn end_frame(&mut self, open: OpenFrame) -> Result<(), EncodeError> {
        let length = self.position() - open.at - open.spliced - 4;
        let prefix = i32::try_from(length).map_err(|_| EncodeError::TooLong { length })?;
        self.patch_i32(open.at, prefix);
        Ok(())
    }

    /// Takes back a frame whose message could not be written.
    pub fn abandon_frame(&mut self, open: OpenFrame) {
        self.head.truncate(open.at);
        self.splices.truncate(open.splices);
        self.spliced = open.spliced;
    }

    /// Overwrites four bytes of the head that were written before.
    pub fn patch_i32(&mut self, at: usize, value: i32) {
        self.head[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.head.extend_from_slice(&bytes);
    }

    pub fn bool(&mut self, value: bool) {
        self.put([u8::from(value)]);
    }

    pub fn i8(&mut self, value: i8) {
        self.put(value.to_be_bytes());
    }

    pub fn i16(&mut self, value: i16) {
        self.put(value.to_be_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.put(value.to_be_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.put(value.to_be_bytes());
    }

    pub fn u16(&mut self, value: u16) {
        self.put(value.to_be_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.put(value.to_be_bytes());
    }

    pub fn f64(&mut self, value: f64) {
        self.put(value.to_be_bytes());
    }

    pub fn uuid(&mut self, value: Uuid) {
        self.put(value.0);
    }

    pub fn uvarint(&mut self, value: u32) {
        if value < 0x80 {
            return self.put([value as u8]);
        }
        let (bytes, length) = base128(u64::from(value));
        self.head.extend_from_slice(&bytes[..length]);
    }

    /// Zigzag form of a signed number.
    pub fn varint(&mut self, value: i32) {
        self.uvarint((value << 1 ^ value >> 31) as u32);
    }

    /// Zigzag form of a signed number.
    pub fn varlong(&mut self, value: i64) {
        let (bytes, length) = base128((value << 1 ^ value >> 63) as u64);
        self.head.extend_from_slice(&bytes[..length]);
    }

    /// Bytes without a length before them: copied when short, spliced when long.
    #[inline(never)]
    pub fn raw(&mut self, bytes: &Bytes) {
        if bytes.len() < SPLICE_BYTES_MIN {
            self.head.extend_from_slice(bytes);
        } else {
            self.splice(Splice::Bytes(bytes.clone()));
        }
    }

    fn splice(&mut self, content: Splice) {
        self.spliced += content.len();
        self.splices.push(SpliceAt {
            at: self.head.len(),
            content,
        });
    }

    /// A length or count; null is one less than zero.
    #[inline(never)]
    fn length(&mut self, length: Option<usize>, compact: bool) -> Result<(), EncodeError> {
        let length = match length {
            None => -1,
            Some(length) => match i32::try_from(length) {
                Ok(length) if length < i32::MAX => length,
                _ => return Err(EncodeError::TooLong { length }),
            },
        };
        if compact {
            self.uvarint((length + 1) as u32)
        } else {
            self.i32(length)
        }
        Ok(())
    }

    #[inline(never)]
    pub fn string(&mut self, text: &str, compact: bool) -> Result<(), EncodeError> {
        let length = text.len();
        if length > STRING_BYTES_MAX {
            return Err(EncodeError::TooLong { length });
        }
        if compact {
            self.uvarint(length as u32 + 1)
        } else {
            self.i16(length as i16)
        }
        self.head.extend_from_slice(text.as_bytes());
        Ok(())
    }

    pub fn nullable_string(
        &mut self,
        text: Option<&str>,
        compact: bool,
        nullable: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        match (text, compact) {
            (Some(text), _) => return self.string(text, compact),
            (None, _) if !nullable => return Err(EncodeError::Null { field }),
            (None, true) => self.uvarint(0),
            (None, false) => self.i16(-1),
        }
        Ok(())
    }

    #[inline(never)]
    pub fn bytes(&mut self, bytes: &Bytes, compact: bool) -> Result<(), EncodeError> {
        self.length(Some(bytes.len()), compact)?;
        self.raw(bytes);
        Ok(())
    }

    pub fn nullable_bytes(
        &mut self,
        bytes: Option<&Bytes>,
        compact: bool,
        nullable: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        match bytes {
            Some(bytes) => self.bytes(bytes, compact),
            None => self.null(compact, nullable, field),
        }
    }

    #[inline(never)]
    fn null(
        &mut self,
        compact: bool,
        nullable: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        if nullable {
            self.length(None, compact)
        } else {
            Err(EncodeError::Null { field })
        }
    }

    #[inline(never)]
    pub fn records(
        &mut self,
        records: Option<&Records>,
        compact: bool,
        nullable: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        match records {
            Some(Records::Bytes(bytes)) => self.bytes(bytes, compact),
            Some(Records::External(len)) => {
                self.length(Some(*len as usize), compact)?;
                self.splice(Splice::External(*len));
                Ok(())
            }
            None => self.null(compact, nullable, field),
        }
    }

    pub fn nullable_struct<T: Message>(
        &mut self,
        value: Option<&T>,
        version: i16,
        nullable: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        match value {
            Some(value) => {
                if nullable {
                    self.i8(1);
                }
                value.encode(self, version)
            }
            None if nullable => {
                self.i8(-1);
                Ok(())
            }
            None => Err(EncodeError::Null { field }),
        }
    }

    pub fn nullable_tagged_struct<T: Message>(
        &mut self,
        value: Option<&T>,
        version: i16,
    ) -> Result<(), EncodeError> {
        self.uvarint(u32::from(value.is_some()));
        value.map_or(Ok(()), |value| value.encode(self, version))
    }

    #[inline(never)]
    pub fn structs<T: Message>(
        &mut self,
        values: &[T],
        version: i16,
        compact: bool,
    ) -> Result<(), EncodeError> {
        self.length(Some(values.len()), compact)?;
        values
            .iter()
            .try_for_each(|value| value.encode(self, version))
    }

    pub fn nullable_structs<T: Message>(
        &mut self,
        values: Option<&[T]>,
        version: i16,
        compact: bool,
        nullable: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        match values {
            Some(values) => self.structs(values, version, compact),
            None => self.null(compact, nullable, field),
        }
    }

    /// Starts a tagged field. Its size is put in front of it when it ends.
    pub fn begin_tag(&mut self, number: u32) -> OpenTag {
        self.uvarint(number);
        OpenTag {
            at: self.head.len(),
            splices: self.splices.len(),
            spliced: self.spliced,
        }
    }

    #[inline(never)]
    pub fn end_tag(&mut self, tag: OpenTag) {
        let size = self.head.len() - tag.at + self.spliced - tag.spliced;
        let (bytes, length) = base128(size as u64);
        let end = self.head.len();
        self.head.extend_from_slice(&bytes[..length]);
        self.head.copy_within(tag.at..end, tag.at + length);
        self.head[tag.at..tag.at + length].copy_from_slice(&bytes[..length]);
        for splice in &mut self.splices[tag.splices..] {
            splice.at += length;
        }
    }
}

macro_rules! lists {
    ($($element:ty, $write:expr, $list:ident, $nullable_list:ident;)*) => {
        impl Writer {
            $(
                #[inline(never)]
                pub fn $list(&mut self, list: &[$element], compact: bool) -> Result<(), EncodeError> {
                    self.length(Some(list.len()), compact)?;
                    list.iter().try_for_each(|element| $write(self, element, compact))
                }

                pub fn $nullable_list(
                    &mut self,
                    list: Option<&[$element]>,
                    compact: bool,
                    nullable: bool,
                    field: &'static str,
                ) -> Result<(), EncodeError> {
                    match list {
                        Some(list) => self.$list(list, compact),
                        None => self.null(compact, nullable, field),
                    }
                }
            )*
        }
    };
}

macro_rules! plain {
    ($method:ident) => {
        |w: &mut Writer, element: &_, _| {
            w.$method(*element);
            Ok(())
        }
    };
}

lists! {
    i8, plain!(i8), i8s, nullable_i8s;
    i16, plain!(i16), i16s, nullable_i16s;
    i32, plain!(i32), i32s, nullable_i32s;
    i64, plain!(i64), i64s, nullable_i64s;
    Uuid, plain!(uuid), uuids, nullable_uuids;
    String, |w: &mut Writer, text: &String, compact| w.string(text, compact), strings, nullable_strings;
}

/// Seven bits per byte, lowest first: the bytes and how many of them count.
fn base128(mut value: u64) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    (bytes, length + 1)
}

#[cfg(test)]
mod tests;
