//! Reading the types of the protocol from one frame.
//!
//! Owns a position in the frame. Invariant: `pos <= buf.len()`, and a failed read may leave it anywhere in between. Nothing
//! is allocated on the word of a length: a length must fit into the bytes that remain, and element lists start small and
//! grow by what was really decoded.

use crate::{DecodeError, Message, Records, Uuid};
use bytes::Bytes;

/// Room reserved for a list before its elements are seen. Longer lists grow by doubling.
const RESERVE_BYTES_MAX: usize = 64 << 10;

/// Kafka refuses longer texts in both directions.
pub(crate) const STRING_BYTES_MAX: usize = 0x7fff;

/// A cursor over one frame. Byte fields come out as slices that share the frame's memory.
#[derive(Debug)]
pub struct Reader {
    buf: Bytes,
    pos: usize,
    /// Elements of lists so far, and how many there may be.
    elements: usize,
    elements_max: usize,
}

/// A tagged field about to be read.
#[derive(Clone, Copy, Debug)]
pub struct Tag {
    pub number: u32,
    end: usize,
}

impl Reader {
    pub fn new(buf: Bytes) -> Self {
        Self {
            buf,
            pos: 0,
            elements: 0,
            elements_max: usize::MAX,
        }
    }

    /// The lists that follow have so many elements together, or are refused: an element of one byte takes a hundred in memory.
    pub fn bound_elements(&mut self, elements_max: usize) {
        self.elements_max = elements_max;
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.pos
    }

    pub fn remaining(&self) -> usize {
        self.buf.len() - self.pos
    }

    /// The bytes not read yet, without reading them.
    pub fn rest(&self) -> &[u8] {
        &self.buf[self.pos..]
    }

    /// An error unless everything was read.
    pub fn expect_end(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(DecodeError::Trailing {
                at: self.at(),
                count: clamp(left),
            }),
        }
    }

    #[inline(never)]
    pub fn take(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        if self.remaining() < len {
            return Err(self.truncated(len));
        }
        let bytes = self.buf.slice(self.pos..self.pos + len);
        self.pos += len;
        Ok(bytes)
    }

    #[cold]
    fn truncated(&self, needed: usize) -> DecodeError {
        DecodeError::Truncated {
            at: self.at(),
            needed: clamp(needed),
        }
    }

    fn at(&self) -> u32 {
        clamp(self.pos)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest().first_chunk::<N>() {
            Some(chunk) => {
                let chunk = *chunk;
                self.pos += N;
                Ok(chunk)
            }
            None => Err(self.truncated(N)),
        }
    }

    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.i8()? != 0)
    }

    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        self.fixed().map(i8::from_be_bytes)
    }

    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        self.fixed().map(i16::from_be_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.fixed().map(i32::from_be_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.fixed().map(i64::from_be_bytes)
    }

    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.fixed().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.fixed().map(u32::from_be_bytes)
    }

    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        self.fixed().map(f64::from_be_bytes)
    }

    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        self.fixed().map(Uuid)
    }

    /// Seven bits per byte, lowest first, five bytes at most.
    pub fn uvarint(&mut self) -> Result<u32, DecodeError> {
        match self.base128(5)? {
            value if value <= u64::from(u32::MAX) => Ok(value as u32),
            _ => Err(DecodeError::Varint { at: self.at() }),
        }
    }

    /// Zigzag form of a signed number.
    pub fn varint(&mut self) -> Result<i32, DecodeError> {
        self.uvarint()
            .map(|raw| (raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// Zigzag form of a signed number, ten bytes at most.
    pub fn varlong(&mut self) -> Result<i64, DecodeError> {
        self.base128(10)
            .map(|raw| (raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    #[inline(never)]
    fn base128(&mut self, bytes_max: usize) -> Result<u64, DecodeError> {
        let mut value: u64 = 0;
        for (i, &byte) in self.rest().iter().take(bytes_max).enumerate() {
            let part = u64::from(byte & 0x7f);
            if (part << (7 * i)) >> (7 * i) != part {
                return Err(DecodeError::Varint { at: self.at() });
            }
            value |= part << (7 * i);
            if byte < 0x80 {
                self.pos += i + 1;
                return Ok(value);
            }
        }
        if self.remaining() < bytes_max {
            Err(self.truncated(self.remaining() + 1))
        } else {
            Err(DecodeError::Varint { at: self.at() })
        }
    }

    /// A length of bytes, -1 as `None`. Fits into the frame.
    #[inline(never)]
    fn length(&mut self, compact: bool) -> Result<Option<usize>, DecodeError> {
        let at = self.at();
        let length = if compact {
            self.uvarint()?.wrapping_sub(1) as i32
        } else {
            self.i32()?
        };
        self.known_length(length, at)
    }

    fn known_length(&self, length: i32, at: u32) -> Result<Option<usize>, DecodeError> {
        match usize::try_from(length) {
            Ok(length) if length <= self.remaining() => Ok(Some(length)),
            Ok(length) => Err(self.truncated(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(DecodeError::Length { at, length }),
        }
    }

    /// A number of elements that take at least `least` bytes each, null as `None`.
    #[inline(never)]
    pub fn count(&mut self, compact: bool, least: usize) -> Result<Option<usize>, DecodeError> {
        let at = self.at();
        let count = if compact {
            self.uvarint()?.wrapping_sub(1) as i32
        } else {
            self.i32()?
        };
        match usize::try_from(count) {
            Ok(count) if count <= self.remaining() / least.max(1) => {
                self.elements += count;
                if self.elements <= self.elements_max {
                    Ok(Some(count))
                } else {
                    Err(DecodeError::Elements {
                        at,
                        most: clamp(self.elements_max),
                    })
                }
            }
            Ok(_) => Err(DecodeError::Count {
                at,
                count: count as u32,
            }),
            Err(_) if count == -1 => Ok(None),
            Err(_) => Err(DecodeError::Length { at, length: count }),
        }
    }

    fn required<T>(&self, at: usize, value: Option<T>) -> Result<T, DecodeError> {
        value.ok_or(DecodeError::Null { at: clamp(at) })
    }

    fn allowed<T>(
        &self,
        at: usize,
        value: Option<T>,
        nullable: bool,
    ) -> Result<Option<T>, DecodeError> {
        match value {
            None if !nullable => Err(DecodeError::Null { at: clamp(at) }),
            value => Ok(value),
        }
    }

    #[inline(never)]
    fn text(&mut self, compact: bool) -> Result<Option<String>, DecodeError> {
        let at = self.at();
        let length = if compact {
            self.length(true)?
        } else {
            let length = i32::from(self.i16()?);
            self.known_length(length, at)?
        };
        let Some(length) = length else {
            return Ok(None);
        };
        if length > STRING_BYTES_MAX {
            return Err(DecodeError::Length {
                at,
                length: length as i32,
            });
        }
        let at = self.at();
        let text = std::str::from_utf8(&self.rest()[..length])
            .map_err(|_| DecodeError::Utf8 { at })?
            .to_owned();
        self.pos += length;
        Ok(Some(text))
    }

    pub fn string(&mut self, compact: bool) -> Result<String, DecodeError> {
        let at = self.pos;
        let text = self.text(compact)?;
        self.required(at, text)
    }

    pub fn nullable_string(
        &mut self,
        compact: bool,
        nullable: bool,
    ) -> Result<Option<String>, DecodeError> {
        let at = self.pos;
        let text = self.text(compact)?;
        self.allowed(at, text, nullable)
    }

    pub fn nullable_bytes(
        &mut self,
        compact: bool,
        nullable: bool,
    ) -> Result<Option<Bytes>, DecodeError> {
        let at = self.pos;
        let bytes = match self.length(compact)? {
            Some(length) => Some(self.take(length)?),
            None => None,
        };
        self.allowed(at, bytes, nullable)
    }

    pub fn bytes(&mut self, compact: bool) -> Result<Bytes, DecodeError> {
        let at = self.pos;
        let bytes = self.nullable_bytes(compact, true)?;
        self.required(at, bytes)
    }

    pub fn records(
        &mut self,
        compact: bool,
        nullable: bool,
    ) -> Result<Option<Records>, DecodeError> {
        Ok(self.nullable_bytes(compact, nullable)?.map(Records::Bytes))
    }

    pub fn nullable_struct<T: Message>(
        &mut self,
        version: i16,
        nullable: bool,
    ) -> Result<Option<T>, DecodeError> {
        if nullable && self.i8()? < 0 {
            return Ok(None);
        }
        T::decode(self, version).map(Some)
    }

    pub fn nullable_tagged_struct<T: Message>(
        &mut self,
        version: i16,
    ) -> Result<Option<T>, DecodeError> {
        if self.uvarint()? == 0 {
            return Ok(None);
        }
        T::decode(self, version).map(Some)
    }

    pub fn structs<T: Message>(
        &mut self,
        version: i16,
        compact: bool,
        least: usize,
    ) -> Result<Vec<T>, DecodeError> {
        let at = self.pos;
        let count = self.count(compact, least)?;
        let count = self.required(at, count)?;
        self.elements(count, version)
    }

    pub fn nullable_structs<T: Message>(
        &mut self,
        version: i16,
        compact: bool,
        nullable: bool,
        least: usize,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let at = self.pos;
        let count = self.count(compact, least)?;
        match self.allowed(at, count, nullable)? {
            Some(count) => self.elements(count, version).map(Some),
            None => Ok(None),
        }
    }

    #[inline(never)]
    fn elements<T: Message>(&mut self, count: usize, version: i16) -> Result<Vec<T>, DecodeError> {
        let mut elements = Vec::with_capacity(count.min(RESERVE_BYTES_MAX / size_of::<T>().max(1)));
        for _ in 0..count {
            elements.push(T::decode(self, version)?);
        }
        Ok(elements)
    }

    /// How many tagged fields follow. Each takes bytes, so the number needs no bound of its own.
    pub fn tag_count(&mut self) -> Result<u32, DecodeError> {
        self.uvarint()
    }

    /// Number and size of the next tagged field.
    pub fn tag(&mut self) -> Result<Tag, DecodeError> {
        let number = self.uvarint()?;
        let size = self.uvarint()? as usize;
        if self.remaining() < size {
            return Err(self.truncated(size));
        }
        Ok(Tag {
            number,
            end: self.pos + size,
        })
    }

    /// Passes over a field this version does not know.
    pub fn skip_tag(&mut self, tag: Tag) {
        self.pos = self.pos.max(tag.end);
    }

    /// Every tagged field ends where its size said.
    pub fn end_tag(&self, tag: Tag) -> Result<(), DecodeError> {
        if self.pos == tag.end {
            Ok(())
        } else {
            Err(DecodeError::TagSize {
                at: self.at(),
                tag: tag.number,
            })
        }
    }

    /// Passes over all tagged fields of a struct that knows none.
    #[inline(never)]
    pub fn skip_tags(&mut self) -> Result<(), DecodeError> {
        for _ in 0..self.tag_count()? {
            let tag = self.tag()?;
            self.skip_tag(tag);
        }
        Ok(())
    }
}

/// Lists of plain values: an exact allocation, as every element takes its own bytes.
macro_rules! lists {
    ($($element:ty, $least:expr, $read:expr, $list:ident, $nullable_list:ident;)*) => {
        impl Reader {
            $(
                #[inline(never)]
                pub fn $nullable_list(&mut self, compact: bool, nullable: bool) -> Result<Option<Vec<$element>>, DecodeError> {
                    let at = self.pos;
                    let count = self.count(compact, $least)?;
                    let Some(count) = self.allowed(at, count, nullable)? else { return Ok(None) };
                    let mut list = Vec::with_capacity(count.min(RESERVE_BYTES_MAX / size_of::<$element>()));
                    for _ in 0..count {
                        list.push($read(self, compact)?);
                    }
                    Ok(Some(list))
                }

                pub fn $list(&mut self, compact: bool) -> Result<Vec<$element>, DecodeError> {
                    self.$nullable_list(compact, false).map(Option::unwrap_or_default)
                }
            )*
        }
    };
}

lists! {
    i8, 1, |r: &mut Reader, _| r.i8(), i8s, nullable_i8s;
    i16, 2, |r: &mut Reader, _| r.i16(), i16s, nullable_i16s;
    i32, 4, |r: &mut Reader, _| r.i32(), i32s, nullable_i32s;
    i64, 8, |r: &mut Reader, _| r.i64(), i64s, nullable_i64s;
    Uuid, 16, |r: &mut Reader, _| r.uuid(), uuids, nullable_uuids;
    String, 1, |r: &mut Reader, compact| r.string(compact), strings, nullable_strings;
}

fn clamp(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
