//! Compression of the records of a batch, in the framings that Kafka clients agree on.
//!
//! Reads into a sink that is capped by bytes and by ratio, so that a small request cannot become a large allocation. Keeps
//! contexts per thread where the library lets us.

use std::cell::RefCell;
use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::{Compress, FlushCompress, Status};

use super::builder::fitted;
use super::record::sizes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Codec {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// Limits of what one batch may become when it is decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    pub bytes_max: usize,
    /// Times the compressed size; counts only above `RATIO_FREE_BYTES`, as small batches of equal bytes shrink a lot.
    pub ratio_max: usize,
    /// Largest record of it, without the number that gives its size.
    pub record_bytes_max: i32,
}

const RATIO_FREE_BYTES: usize = 4 << 20;

impl Default for Caps {
    /// 128 MiB: over a hundred times the default largest batch. Past it the producer is told that its record is too large.
    fn default() -> Self {
        Caps {
            bytes_max: 128 << 20,
            ratio_max: 2000,
            record_bytes_max: i32::MAX,
        }
    }
}

impl Caps {
    fn limit(self, input: usize) -> usize {
        self.bytes_max
            .min(input.saturating_mul(self.ratio_max).max(RATIO_FREE_BYTES))
    }

    /// True if a batch that is small enough may hold a record that is too large.
    #[must_use]
    pub fn limit_records(self) -> bool {
        usize::try_from(self.record_bytes_max).is_ok_and(|max| max < self.bytes_max)
    }

    /// Refuses records with one that is too large. What cannot be read ends the look: who walks them finds it.
    pub(super) fn check_records(self, plain: &[u8], count: i32) -> Result<(), Oversized> {
        let max = self.record_bytes_max;
        if usize::try_from(max).is_ok_and(|max| plain.len() <= max) {
            return Ok(());
        }
        let large = sizes(plain, count).find(|bytes| *bytes > max);
        large.map_or(Ok(()), |bytes| Err(Oversized { bytes, max }))
    }
}

/// A compressed record is larger than it may be. The sentence is Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid record size: {bytes} exceeds the configured maximum record size of {max}.")]
pub struct Oversized {
    pub bytes: i32,
    pub max: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error(transparent)]
    Oversized(#[from] Oversized),
    #[error("codec {id} is unknown")]
    Unknown { id: u8 },
    #[error("{codec} data is damaged")]
    Damaged { codec: Codec },
    #[error("{codec} data would grow beyond {limit} bytes")]
    TooLarge { codec: Codec, limit: usize },
}

/// A codec and how hard it tries; `level: None` is the codec's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Compression {
    pub codec: Codec,
    pub level: Option<i32>,
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Self {
        Compression { codec, level: None }
    }
}

impl std::fmt::Display for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// Magic, version and lowest compatible version (both 1).
const XERIAL_HEADER: [u8; 16] = [
    0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1,
];
const XERIAL_BLOCK: usize = 32 << 10;
const ZSTD_LEVEL: i32 = 3;

struct Gzip {
    level: u32,
    state: Compress,
}

thread_local! {
    static GZIP: RefCell<Option<Gzip>> = const { RefCell::new(None) };
    static SNAPPY: RefCell<snap::raw::Encoder> = RefCell::new(snap::raw::Encoder::new());
    static ZSTD: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static UNZSTD: RefCell<zstd::zstd_safe::DCtx<'static>> = RefCell::new(zstd::zstd_safe::DCtx::create());
}

impl Codec {
    pub const ALL: [Codec; 5] = [
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ];

    #[must_use]
    pub fn id(self) -> u8 {
        self as u8
    }

    #[must_use]
    pub fn from_id(id: u8) -> Option<Codec> {
        Codec::ALL.get(usize::from(id)).copied()
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// Levels that a setting may name.
    #[must_use]
    pub fn levels(self) -> std::ops::RangeInclusive<i32> {
        match self {
            Codec::None | Codec::Snappy => 0..=0,
            Codec::Gzip => 1..=9,
            Codec::Lz4 => 1..=17,
            Codec::Zstd => -131_072..=22,
        }
    }

    /// The plain bytes; `data` itself when there is no compression.
    pub fn decompress(self, data: &Bytes, caps: Caps) -> Result<Bytes, CodecError> {
        if self == Codec::None {
            return Ok(data.clone());
        }
        let limit = caps.limit(data.len());
        let mut sink = Sink {
            codec: self,
            limit,
            out: Vec::with_capacity(limit.min(data.len().saturating_mul(4))),
        };
        match self {
            Codec::None => {}
            Codec::Gzip => sink.fill(flate2::bufread::MultiGzDecoder::new(&data[..]))?,
            Codec::Snappy => unsnappy(data, &mut sink)?,
            Codec::Lz4 => unlz4(data, &mut sink)?,
            Codec::Zstd => UNZSTD.with_borrow_mut(|context| {
                let damaged = |_| CodecError::Damaged { codec: self };
                context
                    .reset(zstd::zstd_safe::ResetDirective::SessionOnly)
                    .map_err(damaged)?;
                sink.fill(zstd::stream::read::Decoder::with_context(
                    &data[..],
                    context,
                ))
            })?,
        }
        Ok(sink.out.into())
    }

    fn damaged<E>(self) -> impl FnOnce(E) -> CodecError {
        move |_| CodecError::Damaged { codec: self }
    }
}

impl Compression {
    /// Compresses the records of a batch.
    #[must_use]
    pub fn compress(self, plain: Bytes) -> Bytes {
        match self.codec {
            Codec::None => plain,
            Codec::Gzip => fitted(gzip(&plain, self.level)),
            Codec::Snappy => fitted(snappy(&plain)),
            // These write to memory; they fail only when they cannot allocate, as any vector does.
            Codec::Lz4 => fitted(lz4(&plain, self.level).expect("lz4 into memory")),
            Codec::Zstd => fitted(zstd(&plain, self.level).expect("zstd into memory")),
        }
    }
}

/// Collects output up to a limit.
struct Sink {
    codec: Codec,
    limit: usize,
    out: Vec<u8>,
}

impl Sink {
    fn too_large(&self) -> CodecError {
        CodecError::TooLarge {
            codec: self.codec,
            limit: self.limit,
        }
    }

    /// A buffer that doubles is copied each time, and the allocator keeps the copies for a while: a large batch would cost four
    /// times the limit. What is reserved and never written takes no memory.
    fn reserve_all(&mut self) {
        self.out.reserve_exact(self.limit + 1 - self.out.len());
    }

    fn fill(&mut self, reader: impl Read) -> Result<(), CodecError> {
        let room = self.limit - self.out.len() + 1;
        let mut reader = reader.take(room.min(RATIO_FREE_BYTES) as u64);
        reader
            .read_to_end(&mut self.out)
            .map_err(self.codec.damaged())?;
        if reader.limit() == 0 && room > RATIO_FREE_BYTES {
            self.reserve_all();
            reader.set_limit((room - RATIO_FREE_BYTES) as u64);
            reader
                .read_to_end(&mut self.out)
                .map_err(self.codec.damaged())?;
        }
        if self.out.len() > self.limit {
            Err(self.too_large())
        } else {
            Ok(())
        }
    }
}

/// Both forms that clients send: blocks behind the header of the Java library, or one bare block.
fn unsnappy(data: &[u8], sink: &mut Sink) -> Result<(), CodecError> {
    if !data.starts_with(&XERIAL_MAGIC) {
        return unsnappy_block(data, sink);
    }
    let damaged = CodecError::Damaged {
        codec: Codec::Snappy,
    };
    let mut rest = data.get(XERIAL_HEADER.len()..).ok_or(damaged)?;
    while !rest.is_empty() {
        if rest.starts_with(&XERIAL_MAGIC) {
            rest = rest.get(XERIAL_HEADER.len()..).ok_or(damaged)?;
            continue;
        }
        let (len, tail) = rest.split_first_chunk::<4>().ok_or(damaged)?;
        let len = usize::try_from(i32::from_be_bytes(*len)).map_err(|_| damaged)?;
        let (block, tail) = tail.split_at_checked(len).ok_or(damaged)?;
        unsnappy_block(block, sink)?;
        rest = tail;
    }
    Ok(())
}

fn unsnappy_block(block: &[u8], sink: &mut Sink) -> Result<(), CodecError> {
    let len = snap::raw::decompress_len(block).map_err(Codec::Snappy.damaged())?;
    let start = sink.out.len();
    if len > sink.limit - start {
        return Err(sink.too_large());
    }
    if start + len > RATIO_FREE_BYTES {
        sink.reserve_all();
    }
    sink.out.resize(start + len, 0);
    let written = snap::raw::Decoder::new().decompress(block, &mut sink.out[start..]);
    match written {
        Ok(written) if written == len => Ok(()),
        _ => Err(CodecError::Damaged {
            codec: Codec::Snappy,
        }),
    }
}

fn unlz4(data: &[u8], sink: &mut Sink) -> Result<(), CodecError> {
    let mut decoder = lz4::Decoder::new(data).map_err(Codec::Lz4.damaged())?;
    sink.fill(&mut decoder)?;
    // A frame without its end mark was cut off.
    decoder.finish().1.map_err(Codec::Lz4.damaged())
}

fn gzip(plain: &[u8], level: Option<i32>) -> Vec<u8> {
    let level = level.map_or(6, |level| level.clamp(1, 9) as u32);
    GZIP.with_borrow_mut(|kept| {
        if kept.as_ref().is_none_or(|kept| kept.level != level) {
            *kept = Some(Gzip {
                level,
                state: Compress::new_gzip(flate2::Compression::new(level), 15),
            });
        }
        let state = &mut kept.as_mut().expect("set above").state;
        state.reset();
        let mut out = Vec::with_capacity(plain.len() / 2 + 64);
        loop {
            let used = state.total_in() as usize;
            let status = state.compress_vec(&plain[used..], &mut out, FlushCompress::Finish);
            match status.expect("deflate into memory") {
                Status::StreamEnd => return out,
                Status::Ok | Status::BufError => out.reserve(out.capacity().max(64)),
            }
        }
    })
}

fn snappy(plain: &[u8]) -> Vec<u8> {
    SNAPPY.with_borrow_mut(|encoder| {
        let mut out = Vec::with_capacity(plain.len() / 2 + 64);
        out.extend_from_slice(&XERIAL_HEADER);
        for block in plain.chunks(XERIAL_BLOCK) {
            let at = out.len();
            out.resize(at + 4 + snap::raw::max_compress_len(block.len()), 0);
            let len = encoder
                .compress(block, &mut out[at + 4..])
                .expect("room for the worst case");
            out[at..at + 4].copy_from_slice(&(len as u32).to_be_bytes());
            out.truncate(at + 4 + len);
        }
        out
    })
}

/// Independent blocks of 64 KiB, no checksums: the frame that Java clients write and insist on when they read.
fn lz4(plain: &[u8], level: Option<i32>) -> io::Result<Vec<u8>> {
    // Level 9 is the name Kafka gives to the fast compressor; all others are the slow, dense one.
    let level = match level {
        None | Some(9) => 0,
        Some(level) => level.clamp(3, 12) as u32,
    };
    let mut encoder = lz4::EncoderBuilder::new()
        .block_size(lz4::BlockSize::Max64KB)
        .block_mode(lz4::BlockMode::Independent)
        .checksum(lz4::ContentChecksum::NoChecksum)
        .level(level)
        .build(Vec::with_capacity(plain.len() / 2 + 64))?;
    encoder.write_all(plain)?;
    let (out, end) = encoder.finish();
    end.map(|()| out)
}

fn zstd(plain: &[u8], level: Option<i32>) -> io::Result<Vec<u8>> {
    let level = level.unwrap_or(ZSTD_LEVEL);
    ZSTD.with_borrow_mut(|kept| {
        let context = match kept {
            Some(context) => context,
            None => kept.insert(zstd::bulk::Compressor::new(level)?),
        };
        context.set_compression_level(level)?;
        context.compress(plain)
    })
}
