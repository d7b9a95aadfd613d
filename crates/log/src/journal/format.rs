//! Bytes of the journal: a piece header, and rounds that each chain to the one before.
//!
//! A round is `head | table | echo | bodies`, padded to [`PAGE`]. Its checksum covers all but the bodies; the table holds every
//! batch header, and a batch header holds the CRC of its body, so one short checksum binds every byte without reading the
//! bodies again. The echo (see `echo`) says what the rounds before did. All integers are little endian. Does no IO.
//!
//! Bodies are what clients sent, and may look like rounds: those of a piece are known by a random number that only its header and
//! its rounds have. The header stands in the first page and once more in the last.

use model::{LeaderEpoch, Offset, PartitionIndex};
use wire::Uuid;
use wire::records::{HEAD_SIZE, Head};

use crate::crc32c;

/// Rounds start on page boundaries, so that no later write touches a page that an earlier sync made durable.
pub const PAGE: u64 = 4096;

const PIECE_MAGIC: [u8; 8] = *b"ESKPIEC1";
const ROUND_MAGIC: [u8; 4] = *b"ESKR";
pub(super) const PIECE_HEADER_BYTES: usize = 60;
pub(super) const ROUND_HEAD_BYTES: usize = 64;
/// Topic id, partition, kind, body length, batch header (or offsets and a leader epoch).
pub(super) const ENTRY_BYTES: usize = 16 + 4 + 4 + 4 + HEAD_SIZE;

const KIND_BATCH: u32 = 1;
const KIND_TRIM: u32 = 2;
const KIND_CUT: u32 = 3;
const KIND_RESTART: u32 = 4;
const KIND_GAP: u32 = 5;

/// Opens a piece: which use of the file this is, and which round comes first in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PieceHeader {
    /// Identity of the log directory: a piece copied from elsewhere is not ours.
    pub(super) dir: Uuid,
    /// Grows by one with every piece begun, across recycling.
    pub(super) number: u64,
    pub(super) first_sequence: u64,
    /// Checksum of the last round of the piece before.
    pub(super) previous: u32,
    /// Random, anew with every use of a piece, and in each of its rounds: records that look like a round cannot know it. Zero
    /// in pieces of versions that drew none.
    pub(super) salt: u64,
}

impl PieceHeader {
    pub(super) fn encode(&self) -> [u8; PAGE as usize] {
        let mut page = [0u8; PAGE as usize];
        page[0..8].copy_from_slice(&PIECE_MAGIC);
        page[12..28].copy_from_slice(&self.dir.0);
        page[28..36].copy_from_slice(&self.number.to_le_bytes());
        page[36..44].copy_from_slice(&self.first_sequence.to_le_bytes());
        page[44..48].copy_from_slice(&self.previous.to_le_bytes());
        page[48..56].copy_from_slice(&self.salt.to_le_bytes());
        let checksum = crc32c(&page[12..PIECE_HEADER_BYTES]);
        page[8..12].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    /// `None` when the bytes are not a piece header: a fresh or damaged piece.
    pub(super) fn decode(bytes: &[u8]) -> Option<PieceHeader> {
        if bytes.len() < PIECE_HEADER_BYTES
            || bytes[0..8] != PIECE_MAGIC
            || u32_at(bytes, 8) != crc32c(&bytes[12..PIECE_HEADER_BYTES])
        {
            return None;
        }
        Some(PieceHeader {
            dir: Uuid(array_at(bytes, 12)),
            number: u64_at(bytes, 28),
            first_sequence: u64_at(bytes, 36),
            previous: u32_at(bytes, 44),
            salt: u64_at(bytes, 48),
        })
    }
}

/// The description of a round, in front of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoundHead {
    pub(super) checksum: u32,
    /// Checksum of the round before: a chain, so that a stale or misdirected round is seen.
    pub(super) previous: u32,
    pub(super) sequence: u64,
    /// Last round whose sync had returned when this one was written: what may never be cut at recovery.
    pub(super) durable: u64,
    pub(super) piece: u64,
    pub(super) entries: u32,
    pub(super) body_bytes: u64,
    /// Zero in rounds of versions that wrote none.
    pub(super) echo_bytes: u32,
    /// That of its piece.
    pub(super) salt: u64,
}

impl RoundHead {
    /// True if this is round `sequence`, behind the one with checksum `previous`.
    pub(super) fn is(&self, sequence: u64, previous: u32) -> bool {
        self.sequence == sequence && self.previous == previous
    }

    /// Bytes of head and table together.
    pub(super) fn table_end(&self) -> usize {
        ROUND_HEAD_BYTES + self.entries as usize * ENTRY_BYTES
    }

    /// Bytes in front of the bodies: head, table and echo.
    pub(super) fn front(&self) -> u64 {
        ROUND_HEAD_BYTES as u64
            + u64::from(self.entries) * ENTRY_BYTES as u64
            + u64::from(self.echo_bytes)
    }

    /// Bytes of the whole round with its padding.
    pub(super) fn span(&self) -> u64 {
        (self.front() + self.body_bytes).next_multiple_of(PAGE)
    }

    /// Writes this head over the first bytes of `buffer` (all but the bodies) and returns the checksum.
    pub(super) fn seal(&self, buffer: &mut [u8]) -> u32 {
        buffer[0..4].copy_from_slice(&ROUND_MAGIC);
        buffer[8..12].copy_from_slice(&self.previous.to_le_bytes());
        buffer[12..16].copy_from_slice(&self.entries.to_le_bytes());
        buffer[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        buffer[24..32].copy_from_slice(&self.durable.to_le_bytes());
        buffer[32..40].copy_from_slice(&self.piece.to_le_bytes());
        buffer[40..48].copy_from_slice(&self.body_bytes.to_le_bytes());
        buffer[48..52].copy_from_slice(&self.echo_bytes.to_le_bytes());
        buffer[52..60].copy_from_slice(&self.salt.to_le_bytes());
        buffer[60..ROUND_HEAD_BYTES].fill(0);
        let checksum = crc32c(&buffer[8..]);
        buffer[4..8].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }

    /// Reads a head without judging it: [`RoundHead::verifies`] does, once table and echo are there too.
    pub(super) fn decode(bytes: &[u8]) -> Option<RoundHead> {
        if bytes.len() < ROUND_HEAD_BYTES || bytes[0..4] != ROUND_MAGIC {
            return None;
        }
        Some(RoundHead {
            checksum: u32_at(bytes, 4),
            previous: u32_at(bytes, 8),
            entries: u32_at(bytes, 12),
            sequence: u64_at(bytes, 16),
            durable: u64_at(bytes, 24),
            piece: u64_at(bytes, 32),
            body_bytes: u64_at(bytes, 40),
            echo_bytes: u32_at(bytes, 48),
            salt: u64_at(bytes, 52),
        })
    }

    /// True if head, table and echo are what was written.
    pub(super) fn verifies(&self, front: &[u8]) -> bool {
        front.len() as u64 == self.front() && crc32c(&front[8..]) == self.checksum
    }
}

/// One row of a round's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) topic: Uuid,
    pub(super) partition: PartitionIndex,
    pub(super) kind: RowKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    /// A batch: its header here, `body_bytes` of records in the body area.
    Batch { head: Head, body_bytes: u32 },
    /// The log now starts at `start` (DeleteRecords).
    Trim { start: Offset },
    /// The log now ends at `to`: the leader of `epoch` goes another way from there.
    Cut { to: Offset, epoch: LeaderEpoch },
    /// No batch lies between the end of the log and `to`, where the next one is.
    Gap { to: Offset },
    /// Nothing before counts: the log begins anew and ends at `at`.
    Restart {
        log_start: Offset,
        at: Offset,
        epoch: LeaderEpoch,
    },
}

impl Row {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.topic.0);
        out.extend_from_slice(&self.partition.0.to_le_bytes());
        match &self.kind {
            RowKind::Batch { head, body_bytes } => {
                out.extend_from_slice(&KIND_BATCH.to_le_bytes());
                out.extend_from_slice(&body_bytes.to_le_bytes());
                out.extend_from_slice(&head.0);
            }
            RowKind::Trim { start } => {
                encode_numbers(out, KIND_TRIM, &[start.0], LeaderEpoch(0));
            }
            RowKind::Gap { to } => encode_numbers(out, KIND_GAP, &[to.0], LeaderEpoch(0)),
            RowKind::Cut { to, epoch } => encode_numbers(out, KIND_CUT, &[to.0], *epoch),
            RowKind::Restart {
                log_start,
                at,
                epoch,
            } => encode_numbers(out, KIND_RESTART, &[log_start.0, at.0], *epoch),
        }
    }

    /// `None` for a kind this version does not know. The bytes must be [`ENTRY_BYTES`] long.
    pub(super) fn decode(bytes: &[u8]) -> Option<Row> {
        let kind = match u32_at(bytes, 20) {
            KIND_BATCH => RowKind::Batch {
                head: Head(array_at(bytes, 28)),
                body_bytes: u32_at(bytes, 24),
            },
            KIND_TRIM => RowKind::Trim {
                start: Offset(u64_at(bytes, 28) as i64),
            },
            KIND_GAP => RowKind::Gap {
                to: Offset(u64_at(bytes, 28) as i64),
            },
            KIND_CUT => RowKind::Cut {
                to: Offset(u64_at(bytes, 28) as i64),
                epoch: LeaderEpoch(u32_at(bytes, 36) as i32),
            },
            KIND_RESTART => RowKind::Restart {
                log_start: Offset(u64_at(bytes, 28) as i64),
                at: Offset(u64_at(bytes, 36) as i64),
                epoch: LeaderEpoch(u32_at(bytes, 44) as i32),
            },
            _ => return None,
        };
        Some(Row {
            topic: Uuid(array_at(bytes, 0)),
            partition: PartitionIndex(u32_at(bytes, 16) as i32),
            kind,
        })
    }
}

/// A row without a body: its kind, offsets, and a leader epoch behind them.
fn encode_numbers(out: &mut Vec<u8>, kind: u32, offsets: &[i64], epoch: LeaderEpoch) {
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    let begin = out.len();
    for offset in offsets {
        out.extend_from_slice(&offset.to_le_bytes());
    }
    out.extend_from_slice(&epoch.0.to_le_bytes());
    out.resize(begin + HEAD_SIZE, 0);
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}
