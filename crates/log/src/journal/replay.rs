//! Reading the journal back after a stop: every round after a checkpoint, in order, each verified.
//!
//! A tail above the last durable point may be torn and is left out. A round below it that does not verify is corruption: it is
//! reported as [`Damage`] and what follows is still delivered, so that the caller sees the hole in each partition's offsets.
//! Reads only; running it twice gives the same answer.

use std::io;
use std::path::Path;

use bytes::Bytes;
use env::disk::Open;
use env::{Disk, FileHandle};
use wire::Uuid;
use wire::records::Batch;

use super::format::{
    ENTRY_BYTES, PAGE, PIECE_HEADER_BYTES, PieceHeader, ROUND_HEAD_BYTES, RoundHead, Row, RowKind,
};
use super::writer::{Entry, Piece, Resume, What};

/// Rounds `from..to` (sequences) are unreadable although they were durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    pub from: u64,
    pub to: u64,
}

/// What was found.
pub struct Replayed {
    pub resume: Resume,
    pub damage: Vec<Damage>,
    /// Every piece file of the directory, to be recycled once a checkpoint makes them obsolete.
    pub pieces: Vec<Piece>,
    pub rounds: u64,
}

/// Where to begin: the round a checkpoint covers up to, with its checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct From {
    pub sequence: u64,
    pub checksum: u32,
}

struct Found {
    header: PieceHeader,
    file: FileHandle,
    bytes: u64,
}

/// Delivers every entry after `from` to `each`; the rows of a round come in the order they were committed.
pub fn replay(
    disk: &dyn Disk,
    dir: &Path,
    dir_id: Uuid,
    from: From,
    mut each: impl FnMut(Entry) -> io::Result<()>,
) -> io::Result<Replayed> {
    let (found, pieces, free_slot) = list(disk, dir, dir_id)?;
    let mut walk = Walk {
        expected: from.sequence + 1,
        chain: from.checksum,
        from: from.sequence,
        durable: from.sequence,
        last_piece: found.last().map_or(0, |found| found.header.number),
        damage: Vec::new(),
        rounds: 0,
    };
    for (at, piece) in found.iter().enumerate() {
        let next_first = found.get(at + 1).map(|next| next.header.first_sequence);
        // A piece that ends before the checkpoint is only waiting to be recycled.
        if next_first.is_some_and(|first| first <= walk.expected) {
            continue;
        }
        walk.piece(piece, &mut each)?;
    }
    Ok(Replayed {
        resume: Resume {
            last_sequence: walk.expected - 1,
            last_checksum: walk.chain,
            last_piece: walk.last_piece,
            free_slot,
        },
        damage: walk.damage,
        pieces,
        rounds: walk.rounds,
    })
}

fn list(disk: &dyn Disk, dir: &Path, dir_id: Uuid) -> io::Result<(Vec<Found>, Vec<Piece>, u32)> {
    let mut found = Vec::new();
    let mut pieces = Vec::new();
    let mut free_slot = 0;
    for entry in disk.read_dir(dir)? {
        let Some(slot) = entry
            .name
            .strip_suffix(".journal")
            .and_then(|slot| slot.parse::<u32>().ok())
        else {
            continue;
        };
        let file = disk.open(&dir.join(&entry.name), Open::Write)?;
        let bytes = file.len()? / PAGE * PAGE;
        free_slot = free_slot.max(slot + 1);
        if bytes <= PAGE {
            continue;
        }
        if let Some(header) = read_header(&file, bytes, dir_id)? {
            found.push(Found {
                header,
                file: file.clone(),
                bytes,
            });
        }
        pieces.push(Piece { slot, file, bytes });
    }
    found.sort_by_key(|found| found.header.number);
    Ok((found, pieces, free_slot))
}

/// The header of a piece that is ours. A damaged one is told by the first round, which says the same: else the newest piece
/// would be taken for an unused one, and nothing behind it could tell that it was durable.
fn read_header(file: &FileHandle, bytes: u64, dir_id: Uuid) -> io::Result<Option<PieceHeader>> {
    let mut head = [0; PIECE_HEADER_BYTES];
    let read = file.read_exact_at(&mut head, 0);
    if let Some(header) = read.ok().and_then(|()| PieceHeader::decode(&head)) {
        if header.dir != dir_id {
            // Its rounds may be ours all the same: the identity file has no checksum, and a flipped bit there must not make
            // us forget what was acknowledged.
            let what = format!(
                "journal piece {} belongs to directory {}, not to {dir_id}",
                header.number, header.dir
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        return Ok(Some(header));
    }
    let first = read_verified(file, bytes, PAGE)?;
    Ok(first.map(|(first, _)| PieceHeader {
        dir: dir_id,
        number: first.piece,
        first_sequence: first.sequence,
        previous: first.previous,
    }))
}

struct Walk {
    /// Sequence of the round that must come next.
    expected: u64,
    chain: u32,
    /// Rounds up to here are covered by the checkpoint: walked over, not delivered.
    from: u64,
    /// Highest durable point that any round has told.
    durable: u64,
    last_piece: u64,
    damage: Vec<Damage>,
    rounds: u64,
}

impl Walk {
    fn piece(
        &mut self,
        piece: &Found,
        each: &mut impl FnMut(Entry) -> io::Result<()>,
    ) -> io::Result<()> {
        let header = piece.header;
        let mut sequence = header.first_sequence;
        let mut chain = header.previous;
        if sequence > self.expected {
            // The piece before ended early. It was synced to its end before this one was begun, so what is missing was durable.
            self.damage.push(Damage {
                from: self.expected,
                to: sequence,
            });
            self.expected = sequence;
        }
        let mut position = PAGE;
        while position < piece.bytes {
            match read_round(piece, position, sequence, chain)? {
                Some(round) => {
                    position += round.head.span();
                    chain = round.head.checksum;
                    self.on_round(sequence, round, chain, each)?;
                    sequence += 1;
                }
                None => match find_later(piece, position, sequence)? {
                    // Written after the bad one was known to be durable: not a torn tail.
                    Some((at, later)) if later.durable >= sequence => {
                        if later.sequence > self.expected {
                            self.damage.push(Damage {
                                from: self.expected.max(sequence),
                                to: later.sequence,
                            });
                        }
                        position = at;
                        sequence = later.sequence;
                        chain = later.previous;
                        self.expected = self.expected.max(sequence);
                    }
                    _ => break,
                },
            }
        }
        Ok(())
    }

    fn on_round(
        &mut self,
        sequence: u64,
        round: Round,
        checksum: u32,
        each: &mut impl FnMut(Entry) -> io::Result<()>,
    ) -> io::Result<()> {
        self.durable = self.durable.max(round.head.durable);
        if sequence < self.expected {
            return Ok(());
        }
        self.expected = sequence + 1;
        self.chain = checksum;
        if sequence > self.from {
            self.rounds += 1;
            round.entries.into_iter().try_for_each(each)?;
        }
        Ok(())
    }
}

struct Round {
    head: RoundHead,
    entries: Vec<Entry>,
}

/// The round at `position`, if it is whole and the one expected there.
fn read_round(
    piece: &Found,
    position: u64,
    sequence: u64,
    chain: u32,
) -> io::Result<Option<Round>> {
    let Some((head, table)) = read_head(piece, position)? else {
        return Ok(None);
    };
    if head.sequence != sequence || head.previous != chain {
        return Ok(None);
    }
    let mut bodies = vec![0; head.body_bytes as usize];
    piece
        .file
        .read_exact_at(&mut bodies, position + head.table_end() as u64)?;
    let bodies = Bytes::from(bodies);
    let mut at = 0;
    let mut entries = Vec::with_capacity(head.entries as usize);
    for row in table[ROUND_HEAD_BYTES..].chunks_exact(ENTRY_BYTES) {
        let Some(row) = Row::decode(row) else {
            return Ok(None);
        };
        let what = match row.kind {
            RowKind::Trim { start } => What::Trim { start },
            RowKind::Batch { head, body_bytes } => {
                let end = at + body_bytes as usize;
                if end > bodies.len() {
                    return Ok(None);
                }
                let Ok(batch) = Batch::from_parts(head, bodies.slice(at..end)) else {
                    return Ok(None);
                };
                if !batch.is_intact() {
                    return Ok(None);
                }
                at = end;
                What::Batch(batch)
            }
        };
        entries.push(Entry {
            topic: row.topic,
            partition: row.partition,
            what,
        });
    }
    Ok(Some(Round { head, entries }))
}

/// Head and table at `position`, verified; `None` when there is no valid head of this use of the piece.
fn read_head(piece: &Found, position: u64) -> io::Result<Option<(RoundHead, Vec<u8>)>> {
    let found = read_verified(&piece.file, piece.bytes, position)?;
    Ok(found.filter(|(head, _)| head.piece == piece.header.number))
}

/// Head and table at `position` of a piece file of `bytes`, of whatever use. Allocates only what the file holds.
fn read_verified(
    file: &FileHandle,
    bytes: u64,
    position: u64,
) -> io::Result<Option<(RoundHead, Vec<u8>)>> {
    let left = bytes - position;
    let mut first = [0; ROUND_HEAD_BYTES];
    file.read_exact_at(&mut first, position)?;
    let Some(head) = RoundHead::decode(&first) else {
        return Ok(None);
    };
    let table_end = ROUND_HEAD_BYTES as u64 + u64::from(head.entries) * ENTRY_BYTES as u64;
    if table_end > left || head.body_bytes > left - table_end {
        return Ok(None);
    }
    let mut table = vec![0; table_end as usize];
    file.read_exact_at(&mut table, position)?;
    Ok(head.verifies(&table).then_some((head, table)))
}

/// The first valid round head of this use of the piece behind `position` with a sequence above `sequence`.
fn find_later(piece: &Found, position: u64, sequence: u64) -> io::Result<Option<(u64, RoundHead)>> {
    let mut at = position + PAGE;
    while at < piece.bytes {
        if let Some((head, _)) = read_head(piece, at)?
            && head.sequence > sequence
        {
            return Ok(Some((at, head)));
        }
        at += PAGE;
    }
    Ok(None)
}
