//! The records of an uncompressed batch, read lazily as slices.
//!
//! Refuses what no writer makes: varints that run over, lengths beyond the record, header counts beyond its bytes, bytes
//! left over. After the first error nothing more is read.

/// The fault of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("record ends in the middle of a field")]
    Truncated,
    #[error("record holds a number that does not fit")]
    Varint,
    #[error("record has the length {len}, {have} bytes are there")]
    Length { len: i64, have: usize },
    #[error("record claims {count} headers")]
    HeaderCount { count: i32 },
    #[error("record has a header without a key")]
    HeaderKey,
    #[error("record has {bytes} bytes left over")]
    LeftOver { bytes: usize },
    #[error("batch claims {want} records, it holds {have}")]
    Count { want: i32, have: i32 },
    #[error("record {index} has the offset delta {delta}")]
    OffsetDelta { index: i32, delta: i32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub offset_delta: i32,
    pub timestamp_delta: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// The headers of one record in their order; keys may repeat. Checked when the record was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    count: i32,
    bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// UTF-8 by convention; kept as bytes because nobody checks.
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

impl<'a> Headers<'a> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = Header<'a>> + use<'a> {
        let mut bytes = self.bytes;
        (0..self.count).map_while(move |_| read_header(&mut bytes).ok())
    }
}

/// Walks the records of a body without compression.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    rest: &'a [u8],
    count: i32,
    seen: i32,
}

impl<'a> RecordIter<'a> {
    /// `count` is what the header of the batch claims; fewer, more or left-over bytes end in an error.
    #[must_use]
    pub fn new(body: &'a [u8], count: i32) -> Self {
        RecordIter {
            rest: body,
            count,
            seen: 0,
        }
    }

    /// The bytes that were not walked yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn end(&mut self) -> Option<Result<Record<'a>, RecordError>> {
        let left = std::mem::take(&mut self.rest).len();
        (left > 0).then_some(Err(RecordError::LeftOver { bytes: left }))
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.seen >= self.count {
            return self.end();
        }
        if self.rest.is_empty() {
            let error = RecordError::Count {
                want: self.count,
                have: self.seen,
            };
            self.count = self.seen;
            return Some(Err(error));
        }
        let record = read_record(&mut self.rest);
        match record {
            Ok(_) => self.seen += 1,
            Err(_) => {
                self.count = self.seen;
                self.rest = &[];
            }
        }
        Some(record)
    }
}

/// The sizes that records give, as far as they can be read.
pub(super) fn sizes(mut body: &[u8], count: i32) -> impl Iterator<Item = i32> {
    (0..count).map_while(move |_| {
        let len = varint(&mut body).ok()?;
        // One that lies is larger than what is left.
        let rest = usize::try_from(len).ok().and_then(|len| body.get(len..));
        body = rest.unwrap_or_default();
        Some(len)
    })
}

fn read_record<'a>(rest: &mut &'a [u8]) -> Result<Record<'a>, RecordError> {
    let len = varint(rest)?;
    let mut bytes = take(rest, i64::from(len))?;
    let bytes = &mut bytes;
    let _attributes = take(bytes, 1)?;
    let timestamp_delta = varlong(bytes)?;
    let offset_delta = varint(bytes)?;
    let key = read_nullable(bytes)?;
    let value = read_nullable(bytes)?;
    let count = varint(bytes)?;
    // A header takes at least two bytes.
    if count < 0 || count as usize > bytes.len() / 2 {
        return Err(RecordError::HeaderCount { count });
    }
    let headers = Headers { count, bytes };
    for _ in 0..count {
        read_header(bytes)?;
    }
    if !bytes.is_empty() {
        return Err(RecordError::LeftOver { bytes: bytes.len() });
    }
    Ok(Record {
        offset_delta,
        timestamp_delta,
        key,
        value,
        headers,
    })
}

fn read_header<'a>(bytes: &mut &'a [u8]) -> Result<Header<'a>, RecordError> {
    let key = read_nullable(bytes)?.ok_or(RecordError::HeaderKey)?;
    let value = read_nullable(bytes)?;
    Ok(Header { key, value })
}

/// Any negative length means null, as in Kafka.
fn read_nullable<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, RecordError> {
    let len = varint(bytes)?;
    if len < 0 {
        Ok(None)
    } else {
        take(bytes, i64::from(len)).map(Some)
    }
}

fn take<'a>(bytes: &mut &'a [u8], len: i64) -> Result<&'a [u8], RecordError> {
    let taken = usize::try_from(len)
        .ok()
        .and_then(|len| bytes.split_at_checked(len));
    let Some((taken, rest)) = taken else {
        return Err(RecordError::Length {
            len,
            have: bytes.len(),
        });
    };
    *bytes = rest;
    Ok(taken)
}

fn varint(bytes: &mut &[u8]) -> Result<i32, RecordError> {
    // Nearly all numbers of a record take one byte.
    if let Some((&first, rest)) = bytes.split_first()
        && first < 0x80
    {
        *bytes = rest;
        return Ok(unzigzag(u64::from(first)) as i32);
    }
    let raw = unsigned(bytes, 5)?;
    u32::try_from(raw)
        .map(|raw| unzigzag(u64::from(raw)) as i32)
        .map_err(|_| RecordError::Varint)
}

fn varlong(bytes: &mut &[u8]) -> Result<i64, RecordError> {
    if let Some((&first, rest)) = bytes.split_first()
        && first < 0x80
    {
        *bytes = rest;
        return Ok(unzigzag(u64::from(first)));
    }
    Ok(unzigzag(unsigned(bytes, 10)?))
}

/// Steps over the length in front of a record.
pub(super) fn skip_length(bytes: &mut &[u8]) -> Result<(), RecordError> {
    varint(bytes).map(|_| ())
}

/// Steps over a record's time and returns it.
pub(super) fn take_timestamp(bytes: &mut &[u8]) -> Result<i64, RecordError> {
    varlong(bytes)
}

fn unsigned(bytes: &mut &[u8], bytes_max: u32) -> Result<u64, RecordError> {
    let mut value = 0u64;
    for i in 0..bytes_max {
        let (&byte, rest) = bytes.split_first().ok_or(RecordError::Truncated)?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        if i == 9 && low > 1 {
            return Err(RecordError::Varint);
        }
        value |= low << (7 * i);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(RecordError::Varint)
}

fn unzigzag(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

pub(super) fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_varlong(out, i64::from(value));
}

pub(super) fn put_varlong(out: &mut Vec<u8>, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// Bytes that [`put_varlong`] writes.
pub(super) fn varlong_size(value: i64) -> usize {
    let raw = ((value << 1) ^ (value >> 63)) as u64;
    (64 - (raw | 1).leading_zeros() as usize).div_ceil(7)
}
