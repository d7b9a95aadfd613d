//! Group commit: many waiting appends become one write and one sync.
//!
//! Owns the tail of the journal. Invariants: the durable point in every round head is true, because it moves only when syncs
//! have returned; a piece is left only when all it holds is durable. Several rounds may wait for their syncs together, each
//! with a descriptor of its own. Never retries a failed sync: the pages may already be lost, so the directory goes offline.
//! Does not choose offsets, and does not decide when to commit.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use env::disk::Open;
use env::{Disk, Env, FileHandle, Rng};
use model::{LeaderEpoch, Offset, PartitionIndex};
use wire::Uuid;
use wire::records::{Batch, Head};

use super::echo::{Echo, Moved, To};
use super::format::{PAGE, PieceHeader, ROUND_HEAD_BYTES, RoundHead, Row, RowKind};
use super::piece::{Piece, Spares, ZEROES, is_full, make_piece, piece_path};

/// A commit that finds no piece ready makes one itself, this large: what it costs is felt by everyone who waits for the round.
const INLINE_PIECE_BYTES: u64 = 8 << 20;
/// Rounds of one directory whose syncs may be under way together: enough to hide what clients and network need between an
/// answer and the next request, where a sync takes some milliseconds.
pub const SYNCS_MAX: usize = 8;
/// Room that the heads of a round leave for the next one.
const BUFFER_BYTES_KEPT_MAX: usize = 256 << 10;

/// The write-back of rounds without a sync begins when so much of them has gathered: the sync of the piece that is left
/// behind would take long otherwise, and everyone waits for it.
const WRITEBACK_BYTES: u64 = 1 << 20;
/// A round of this size goes around the page cache, where nobody would read it and its pages cost more than its bytes. Smaller
/// ones are left to their sync: the next round may be written meanwhile, which counts where a write takes long.
const AROUND_BYTES_MIN: u64 = 256 << 10;

/// One thing to make durable.
#[derive(Clone, Debug)]
pub struct Entry {
    pub topic: Uuid,
    pub partition: PartitionIndex,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    Batch(Batch),
    Trim {
        start: Offset,
    },
    /// The log ends at `to` from now on: the leader of `epoch` goes another way from there.
    Cut {
        to: Offset,
        epoch: LeaderEpoch,
    },
    /// A log that this one follows was compacted: its next batch begins at `to`, and none lies in front of it.
    Gap {
        to: Offset,
    },
    /// The log begins anew and ends at `at`, behind records of `epoch`; `log_start` is below it where a tier has what is between.
    Restart {
        log_start: Offset,
        at: Offset,
        epoch: LeaderEpoch,
    },
}

impl Entry {
    fn moved(&self) -> Moved {
        Moved {
            topic: self.topic,
            partition: self.partition,
            to: match &self.what {
                What::Batch(batch) => To::End(batch.next_offset()),
                What::Trim { start } => To::Start(*start),
                What::Cut { to, .. } => To::Cut(*to),
                What::Gap { to } => To::End(*to),
                What::Restart { at, .. } => To::Restart(*at),
            },
        }
    }

    fn row(&self) -> (Row, Option<&Bytes>) {
        let (kind, body) = match &self.what {
            What::Batch(batch) => (
                RowKind::Batch {
                    head: Head(*batch.head()),
                    body_bytes: batch.body().len() as u32,
                },
                Some(batch.body()),
            ),
            What::Trim { start } => (RowKind::Trim { start: *start }, None),
            What::Gap { to } => (RowKind::Gap { to: *to }, None),
            What::Cut { to, epoch } => {
                let (to, epoch) = (*to, *epoch);
                (RowKind::Cut { to, epoch }, None)
            }
            What::Restart {
                log_start,
                at,
                epoch,
            } => {
                let (log_start, at, epoch) = (*log_start, *at, *epoch);
                let restart = RowKind::Restart {
                    log_start,
                    at,
                    epoch,
                };
                (restart, None)
            }
        };
        (
            Row {
                topic: self.topic,
                partition: self.partition,
                kind,
            },
            body,
        )
    }
}

/// A piece in use, and the rounds it holds.
struct Live {
    piece: Piece,
    last_sequence: u64,
    /// For syncs beside the one of the piece's own descriptor: a lost page is told once per descriptor, to whoever syncs it
    /// first, and each round must hear of it. Opened before the first round, so that none misses what came before it.
    more: Vec<FileHandle>,
}

/// Why a round was not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The volume has no room for another piece. Nothing was written: the same round may come again.
    #[error("no room for a journal piece: {0}")]
    NoRoom(io::Error),
    /// A write or sync failed: nothing is known about the piece any more, and the journal must not be used again.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

/// Where the journal stands after recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resume {
    pub last_sequence: u64,
    pub last_checksum: u32,
    pub last_piece: u64,
    /// Lowest slot number that no existing file uses.
    pub free_slot: u32,
}

pub struct Writer {
    disk: Arc<dyn Disk>,
    rng: Arc<dyn Rng>,
    dir: PathBuf,
    dir_id: Uuid,
    piece_bytes: u64,
    spares: Spares,
    live: VecDeque<Live>,
    /// Next write position in the newest live piece.
    position: u64,
    piece_number: u64,
    /// Distinguishes rounds of the newest piece from records that look like one.
    salt: u64,
    sequence: u64,
    durable: u64,
    checksum: u32,
    /// Bytes of the newest piece that are on the disk, or on their way there.
    written_back: u64,
    /// The round in `buffer`, not written yet.
    prepared: Option<RoundHead>,
    buffer: Vec<u8>,
    echo: Echo,
}

impl Writer {
    pub fn new(env: &Env, dir: PathBuf, dir_id: Uuid, piece_bytes: u64, resume: Resume) -> Writer {
        Writer {
            disk: Arc::clone(&env.disk),
            rng: Arc::clone(&env.rng),
            dir,
            dir_id,
            piece_bytes,
            spares: Spares::new(resume.free_slot),
            live: VecDeque::new(),
            position: 0,
            piece_number: resume.last_piece,
            salt: 0,
            sequence: resume.last_sequence,
            durable: resume.last_sequence,
            checksum: resume.last_checksum,
            written_back: 0,
            prepared: None,
            buffer: Vec::new(),
            echo: Echo::default(),
        }
    }

    /// Goes on behind pieces of an earlier life that no checkpoint makes needless yet: `(piece, last round)`, oldest first.
    /// They are released like our own, and not written any more.
    #[must_use]
    pub fn behind(mut self, pieces: Vec<(Piece, u64)>) -> Writer {
        let lives = pieces.into_iter().map(|(piece, last_sequence)| Live {
            piece,
            last_sequence,
            more: Vec::new(),
        });
        self.live = lives.collect();
        self.position = self.live.back().map_or(0, |live| live.piece.bytes);
        self
    }

    pub fn spares(&self) -> Spares {
        self.spares.clone()
    }

    /// The last round written.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The last round known to be on the disk.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Number of the piece in use.
    pub fn piece_number(&self) -> u64 {
        self.piece_number
    }

    /// Bytes of the pieces that recovery would read.
    pub fn live_bytes(&self) -> u64 {
        self.live.iter().map(|live| live.piece.bytes).sum::<u64>()
            - self
                .live
                .back()
                .map_or(0, |live| live.piece.bytes - self.position)
    }

    /// Writes `entries` as one round, when no other one waits for its sync; with `sync` it is durable when this returns. Apart
    /// from [`CommitError::NoRoom`] an error is final: see the file's head.
    pub fn commit(&mut self, entries: &[Entry], sync: bool) -> Result<u64, CommitError> {
        self.prepare(entries);
        self.write(entries, sync)?;
        if sync && let Some(file) = self.descriptor(0) {
            file.sync_data()?;
            self.on_synced(self.sequence);
        }
        Ok(self.sequence)
    }

    /// Makes ready to write `entries`; returns whether they need another piece, for which nothing may wait for its sync.
    pub fn prepare(&mut self, entries: &[Entry]) -> bool {
        let head = self.encode(entries);
        self.prepared = Some(head);
        !self.has_room(head.span())
    }

    /// Writes what was prepared as one round. With `will_sync` the caller syncs one of the descriptors next.
    pub fn write(&mut self, entries: &[Entry], will_sync: bool) -> Result<(), CommitError> {
        let head = match self.prepared.take() {
            Some(head) => head,
            None => self.encode(entries),
        };
        self.make_room(head.span())?;
        let head = RoundHead {
            piece: self.piece_number,
            durable: self.durable,
            previous: self.checksum,
            salt: self.salt,
            ..head
        };
        self.checksum = head.seal(&mut self.buffer);

        let Some(live) = self.live.back_mut() else {
            unreachable!("make_room leaves a live piece")
        };
        let padding = head.span() - self.buffer.len() as u64 - head.body_bytes;
        let mut slices = Vec::with_capacity(entries.len() + 2);
        slices.push(IoSlice::new(&self.buffer));
        let bodies = entries.iter().filter_map(|entry| entry.row().1);
        slices.extend(bodies.map(|body| IoSlice::new(body)));
        slices.push(IoSlice::new(&ZEROES[..padding as usize]));
        let file = &live.piece.file;
        if will_sync && AROUND_BYTES_MIN <= head.span() {
            file.write_pages(&slices, self.position)?;
        } else {
            file.write_at(&slices, self.position)?;
        }

        let end = self.position + head.span();

        self.position = end;
        self.sequence = head.sequence;
        self.echo.keep(head.sequence);
        live.last_sequence = head.sequence;
        if will_sync {
            self.written_back = end;
        } else if end - self.written_back >= WRITEBACK_BYTES {
            file.start_writeback(self.written_back, end - self.written_back);
            self.written_back = end;
        }
        Ok(())
    }

    /// One of the newest piece's descriptors; a sync of any makes all durable that was written before it. Syncs under way
    /// together need one each.
    pub fn descriptor(&self, which: usize) -> Option<FileHandle> {
        let live = self.live.back()?;
        match which {
            0 => Some(Arc::clone(&live.piece.file)),
            which => live.more.get(which - 1).cloned(),
        }
    }

    /// A sync that began after round `sequence` was written has returned, and so have those of the rounds before it.
    pub fn on_synced(&mut self, sequence: u64) {
        self.durable = self.durable.max(sequence);
    }

    /// Bytes that rounds may take before another piece is begun.
    pub fn room(&self) -> u64 {
        self.live.back().map_or(0, |live| {
            live.piece.rounds_end().saturating_sub(self.position)
        })
    }

    /// Recycles the pieces whose rounds are all `<= sequence`; the newest piece stays. `keep` whole pieces bound the
    /// spares.
    pub fn release(&mut self, sequence: u64, keep: usize) -> io::Result<()> {
        while self.live.len() > 1
            && self
                .live
                .front()
                .is_some_and(|live| live.last_sequence <= sequence)
        {
            let Some(live) = self.live.pop_front() else {
                break;
            };
            if self.spares.bytes() < keep as u64 * self.piece_bytes {
                self.spares.put(live.piece);
            } else {
                self.disk
                    .remove_file(&piece_path(&self.dir, live.piece.slot))?;
            }
        }
        Ok(())
    }

    fn encode(&mut self, entries: &[Entry]) -> RoundHead {
        self.buffer.clear();
        // A round of thousands of small batches is followed by shorter ones.
        self.buffer.shrink_to(BUFFER_BYTES_KEPT_MAX);
        self.buffer.resize(ROUND_HEAD_BYTES, 0);
        self.echo.begin();
        let mut body_bytes = 0;
        for entry in entries {
            let (row, body) = entry.row();
            row.encode(&mut self.buffer);
            body_bytes += body.map_or(0, |body| body.len() as u64);
            self.echo.note(entry.moved());
        }
        let table_end = self.buffer.len();
        self.echo.encode(&mut self.buffer, body_bytes);
        RoundHead {
            checksum: 0,
            previous: self.checksum,
            sequence: self.sequence + 1,
            durable: self.durable,
            piece: self.piece_number,
            entries: entries.len() as u32,
            body_bytes,
            echo_bytes: (self.buffer.len() - table_end) as u32,
            salt: self.salt,
        }
    }

    fn has_room(&self, span: u64) -> bool {
        self.live
            .back()
            .is_some_and(|live| self.position + span <= live.piece.rounds_end())
    }

    /// Begins a new piece when the newest one cannot take `span` more bytes.
    fn make_room(&mut self, span: u64) -> Result<(), CommitError> {
        if self.has_room(span) {
            return Ok(());
        }
        // Rounds of relaxed topics may still wait for a sync in the piece we leave; after it nobody would sync that file.
        if let Some(left) = self.live.back_mut() {
            if self.durable < self.sequence {
                left.piece.file.sync_data()?;
                self.durable = self.sequence;
            }
            left.more.clear();
        }
        let piece = match self.spares.take(span + 2 * PAGE) {
            Some(piece) => piece,
            None => {
                let slot = self.spares.reserve_slot();
                make_piece(
                    &*self.disk,
                    &self.dir,
                    slot,
                    self.piece_bytes
                        .min(INLINE_PIECE_BYTES)
                        .max(span + 2 * PAGE),
                )
                .map_err(|error| {
                    if is_full(&error) {
                        CommitError::NoRoom(error)
                    } else {
                        CommitError::Failed(error)
                    }
                })?
            }
        };
        self.piece_number += 1;
        self.salt = self.rng.next_u64();
        let header = PieceHeader {
            dir: self.dir_id,
            number: self.piece_number,
            first_sequence: self.sequence + 1,
            previous: self.checksum,
            salt: self.salt,
        };
        let header = header.encode();
        for position in [0, piece.rounds_end()] {
            piece.file.write_at(&[IoSlice::new(&header)], position)?;
        }
        // Without them rounds wait for each other: a process that is short of descriptors has other troubles.
        let path = piece_path(&self.dir, piece.slot);
        let more = (1..SYNCS_MAX).map_while(|_| self.disk.open(&path, Open::Write).ok());
        self.live.push_back(Live {
            more: more.collect(),
            piece,
            last_sequence: self.sequence,
        });
        self.position = PAGE;
        self.written_back = PAGE;
        Ok(())
    }
}
