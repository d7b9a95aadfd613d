//! Walking the batches of a segment file, either by their headers or whole with their checksums.
//!
//! Never trusts a header further than the bytes that are there. Says where and why it stopped; cutting anything off is the
//! caller's decision.

use std::io;

use bytes::Bytes;
use env::File;
use model::{LeaderEpoch, Offset};
use wire::records::{Batch, BatchError, HEAD_SIZE, Head, Source};

/// Larger batches cannot arrive (a request is bounded by 100 MiB), so a header that claims one is damaged.
pub const BATCH_BYTES_MAX: u64 = 256 << 20;

/// Where a file stops being batches, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("position {position}: {why}")]
pub struct Damage {
    /// Start of the first batch that does not verify.
    pub position: u64,
    pub why: DamageKind,
}

impl Damage {
    /// The disk may do better another time.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        self.why == DamageKind::Unreadable
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageKind {
    #[error("zeros, as in blocks never written")]
    Zeros,
    #[error("the file ends inside a batch of {size} bytes")]
    CutOff { size: u64 },
    #[error("{0}")]
    Batch(BatchError),
    #[error("batch of {size} bytes is larger than any that can arrive")]
    Oversized { size: u64 },
    #[error("offsets {from} to {to} are missing behind the last batch")]
    Missing { from: Offset, to: Offset },
    #[error("base offset {got} where {want} was expected")]
    Order { got: Offset, want: Offset },
    #[error("the batch of offset {offset} is not the one that was written here")]
    Stranger { offset: Offset },
    #[error("the disk does not give the bytes back")]
    Unreadable,
    #[error("leader epoch {got} where the checkpoint of epochs has {want}")]
    Epoch { got: LeaderEpoch, want: LeaderEpoch },
}

#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Damage(#[from] Damage),
}

impl ScanError {
    /// It is of these bytes: what lies behind them may be read.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            ScanError::Damage(_) => true,
            ScanError::Io(error) => is_unreadable(error),
        }
    }

    /// As a walk that goes on behind it takes note of it.
    pub(crate) fn into_damage(self, position: u64) -> io::Result<Damage> {
        match self {
            ScanError::Damage(damage) => Ok(damage),
            ScanError::Io(error) if is_unreadable(&error) => Ok(Damage {
                position,
                why: DamageKind::Unreadable,
            }),
            ScanError::Io(error) => Err(error),
        }
    }
}

impl From<ScanError> for io::Error {
    fn from(error: ScanError) -> io::Error {
        match error {
            ScanError::Io(error) => error,
            ScanError::Damage(damage) => io::Error::new(io::ErrorKind::InvalidData, damage),
        }
    }
}

/// Steps over headers in `from..end` without reading records.
pub struct HeadScan<'a> {
    file: &'a dyn File,
    position: u64,
    end: u64,
    next_offset: Offset,
    last_end: Offset,
    buf: Vec<u8>,
    buf_at: u64,
}

/// Small batches come many to a read, large ones one.
const HEAD_READ_BYTES: usize = 2048;

impl<'a> HeadScan<'a> {
    /// `floor` is the least base offset that the first batch may have.
    pub fn new(file: &'a dyn File, from: u64, end: u64, floor: Offset) -> Self {
        HeadScan {
            file,
            position: from,
            end,
            next_offset: floor,
            last_end: Offset(i64::MAX),
            buf: Vec::new(),
            buf_at: 0,
        }
    }

    /// The last batch ends with the offset before `offset`, or below: a base offset that rotted upwards is damage.
    pub(crate) fn up_to(self, offset: Offset) -> Self {
        HeadScan {
            last_end: offset,
            ..self
        }
    }

    /// Where the next batch begins.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Position and header of the next batch, `None` at the end.
    pub fn step(&mut self) -> Result<Option<(u64, Head)>, ScanError> {
        let position = self.position;
        if position >= self.end {
            return Ok(None);
        }
        let Some(head) = self.head_at(position)? else {
            let size = self.end - position;
            return Err(Damage {
                position,
                why: DamageKind::CutOff { size },
            }
            .into());
        };
        check_head(&head, self.end - position, self.next_offset)
            .map_err(|why| Damage { position, why })?;
        if head.next_offset() > self.last_end {
            let (got, want) = (head.base_offset(), self.next_offset);
            let why = DamageKind::Order { got, want };
            return Err(Damage { position, why }.into());
        }
        self.position += head.size() as u64;
        self.next_offset = head.next_offset();
        Ok(Some((position, head)))
    }

    fn head_at(&mut self, position: u64) -> io::Result<Option<Head>> {
        let skip = position
            .checked_sub(self.buf_at)
            .and_then(|skip| usize::try_from(skip).ok());
        if let Some(head) = skip
            .and_then(|skip| self.buf.get(skip..))
            .and_then(Head::read)
        {
            return Ok(Some(head));
        }
        let want = (self.end - position).min(HEAD_READ_BYTES as u64) as usize;
        self.buf.resize(want, 0);
        self.buf_at = position;
        let (got, failed) = read_readable(self.file, &mut self.buf, position);
        self.buf.truncate(got);
        match (Head::read(&self.buf), failed) {
            (None, Some(error)) => Err(error),
            (head, _) => Ok(head),
        }
    }
}

pub(crate) fn check_head(head: &Head, room: u64, floor: Offset) -> Result<(), DamageKind> {
    if head.0.iter().all(|byte| *byte == 0) {
        return Err(DamageKind::Zeros);
    }
    head.check_shape().map_err(DamageKind::Batch)?;
    let size = head.size() as u64;
    if size > BATCH_BYTES_MAX {
        return Err(DamageKind::Oversized { size });
    }
    if size > room {
        return Err(DamageKind::CutOff { size });
    }
    if head.last_offset_delta() < 0 {
        return Err(DamageKind::Batch(BatchError::OffsetRange {
            delta: head.last_offset_delta(),
        }));
    }
    if head.base_offset() < floor {
        return Err(DamageKind::Order {
            got: head.base_offset(),
            want: floor,
        });
    }
    Ok(())
}

/// Fills `buf` as far as the file goes.
pub fn read_up_to(file: &dyn File, buf: &mut [u8], position: u64) -> io::Result<usize> {
    match read_readable(file, buf, position) {
        (filled, None) => Ok(filled),
        (_, Some(error)) => Err(error),
    }
}

/// The same for bytes that nobody reads soon, `at_once` at a time.
pub(crate) fn read_once_up_to(
    file: &dyn File,
    buf: &mut [u8],
    position: u64,
    at_once: usize,
) -> io::Result<usize> {
    let read = |buf: &mut [u8], position| file.read_once(buf, position, at_once);
    match fill(buf, position, read) {
        (filled, None) => Ok(filled),
        (_, Some(error)) => Err(error),
    }
}

/// As far as the bytes can be read, and why no further.
pub(crate) fn read_readable(
    file: &dyn File,
    buf: &mut [u8],
    position: u64,
) -> (usize, Option<io::Error>) {
    fill(buf, position, |buf, position| file.read_at(buf, position))
}

fn fill(
    buf: &mut [u8],
    position: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
) -> (usize, Option<io::Error>) {
    let mut filled = 0;
    while filled < buf.len() {
        match read(&mut buf[filled..], position + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(error)),
        }
    }
    (filled, None)
}

/// The disk does not give these bytes back. Others of the same file it may.
pub(crate) fn is_unreadable(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    const ENODATA: i32 = 61;
    const EBADMSG: i32 = 74;
    const EILSEQ: i32 = 84;
    const EREMOTEIO: i32 = 121;
    matches!(
        error.raw_os_error(),
        Some(EIO | ENODATA | EBADMSG | EILSEQ | EREMOTEIO)
    )
}

/// Reads one whole batch whose header was checked by a scan, and verifies its checksum.
pub fn read_batch(file: &dyn File, position: u64, head: &Head) -> Result<Batch, ScanError> {
    let mut bytes = vec![0; head.size()];
    let got = read_up_to(file, &mut bytes, position)?;
    bytes.truncate(got);
    match Batch::cut(&bytes.into(), Source::Log).next() {
        Some(Ok(batch)) => Ok(batch),
        Some(Err(error)) => Err(Damage {
            position,
            why: DamageKind::Batch(error),
        }
        .into()),
        None => Err(Damage {
            position,
            why: DamageKind::CutOff {
                size: head.size() as u64,
            },
        }
        .into()),
    }
}

/// Walks whole batches in `from..end`, verifying every checksum; `on_batch` gets each with its position. Returns the end of
/// the last good batch and what stopped the walk, if not the end.
pub fn scan_batches(
    file: &dyn File,
    from: u64,
    end: u64,
    floor: Offset,
    mut on_batch: impl FnMut(u64, Batch),
) -> io::Result<(u64, Option<Damage>)> {
    const READ_BYTES: u64 = 256 << 10;
    let mut position = from;
    let mut next_offset = floor;
    let mut want = READ_BYTES;
    while position < end {
        let mut chunk = vec![0; (end - position).min(want) as usize];
        let got = read_up_to(file, &mut chunk, position)?;
        chunk.truncate(got);
        let at_end = position + got as u64 >= end || (got as u64) < want;
        let mut batches = Batch::cut(&Bytes::from(chunk), Source::Log);
        want = READ_BYTES;
        loop {
            let rest = batches.rest();
            let Some(head) = Head::read(rest) else {
                if at_end && !rest.is_empty() {
                    let why = if rest.iter().all(|byte| *byte == 0) {
                        DamageKind::Zeros
                    } else {
                        DamageKind::CutOff {
                            size: HEAD_SIZE as u64,
                        }
                    };
                    return Ok((position, Some(Damage { position, why })));
                }
                if at_end {
                    return Ok((position, None));
                }
                break;
            };
            if let Err(why) = check_head(&head, end - position, next_offset) {
                return Ok((position, Some(Damage { position, why })));
            }
            match batches.next() {
                Some(Ok(batch)) => {
                    next_offset = batch.next_offset();
                    let size = batch.size() as u64;
                    on_batch(position, batch);
                    position += size;
                }
                Some(Err(error)) => {
                    return Ok((
                        position,
                        Some(Damage {
                            position,
                            why: DamageKind::Batch(error),
                        }),
                    ));
                }
                None if at_end => {
                    let why = DamageKind::CutOff {
                        size: head.size() as u64,
                    };
                    return Ok((position, Some(Damage { position, why })));
                }
                None => {
                    want = (head.size() as u64).max(READ_BYTES);
                    break;
                }
            }
        }
    }
    Ok((position, None))
}
