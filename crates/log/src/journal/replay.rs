//! Reading the journal back after a stop: every round after a checkpoint, in order, each verified.
//!
//! A tail above the last durable point may be torn and is left out. A round below it that does not verify is corruption: it is
//! reported as [`Damage`], and what it did to which logs is told as far as its own table or the echo in a later round knows,
//! so that no log comes back shorter. What follows is delivered all the same. Reads only; running it twice gives the same
//! answer.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use env::disk::Open;
use env::{Disk, FileHandle};
use model::{LeaderEpoch, Offset, PartitionIndex};
use wire::Uuid;
use wire::records::Batch;

use super::echo::{self, Moved, To};
use super::format::{
    ENTRY_BYTES, PAGE, PIECE_HEADER_BYTES, PieceHeader, ROUND_HEAD_BYTES, RoundHead, Row, RowKind,
};
use super::piece::Piece;
use super::writer::{Entry, Resume, What};

/// Bytes that are read and written at a time when rounds are written once more.
const HARDEN_BYTES: usize = 128 << 10;

/// Rounds `from..to` (sequences) are unreadable, whole or in part, although they were durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    pub from: u64,
    pub to: u64,
    /// All they did was told, as [`Lost`] or as an entry. If not, any log of the directory may be longer than is known.
    pub is_named: bool,
}

/// A log reached `end` in a batch that cannot be read any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    pub topic: Uuid,
    pub partition: PartitionIndex,
    pub end: Offset,
}

/// One delivery of a replay.
#[derive(Clone, Debug)]
pub enum Step {
    Entry(Entry),
    Lost(Lost),
}

impl Step {
    /// The log that it is of.
    #[must_use]
    pub fn log(&self) -> (Uuid, PartitionIndex) {
        match self {
            Step::Entry(entry) => (entry.topic, entry.partition),
            Step::Lost(lost) => (lost.topic, lost.partition),
        }
    }
}

/// The findings.
pub struct Replayed {
    pub resume: Resume,
    pub damage: Vec<Damage>,
    /// Piece files that hold nothing behind the checkpoint: they may be used again.
    pub idle: Vec<Piece>,
    /// The others, oldest first, each with the last round that it may hold. They are needed until there is a later checkpoint.
    pub live: Vec<(Piece, u64)>,
    pub rounds: u64,
    /// Where the rounds lie that no later one calls durable: they were read, perhaps from a cache whose sync had failed.
    pub unproven: Option<Unproven>,
}

/// Bytes of a piece that may be nowhere but in memory.
pub struct Unproven {
    file: FileHandle,
    bytes: Range<u64>,
}

impl Unproven {
    /// Writes them once more, as they are: a sync alone passes over pages that a failed one left clean.
    pub fn harden(&self) -> io::Result<()> {
        let mut piece = vec![0; HARDEN_BYTES];
        let mut at = self.bytes.start;
        while at < self.bytes.end {
            let take = (self.bytes.end - at).min(HARDEN_BYTES as u64) as usize;
            self.file.read_exact_at(&mut piece[..take], at)?;
            self.file.write_at(&[IoSlice::new(&piece[..take])], at)?;
            at += take as u64;
        }
        self.file.sync_data()
    }
}

/// Where to begin: the round a checkpoint covers up to, with its checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct From {
    pub sequence: u64,
    pub checksum: u32,
}

struct Found {
    header: PieceHeader,
    slot: u32,
    file: FileHandle,
    bytes: u64,
}

/// Delivers everything after `from` to `each`; the rows of a round come in the order they were committed.
pub fn replay(
    disk: &dyn Disk,
    dir: &Path,
    dir_id: Uuid,
    from: From,
    mut each: impl FnMut(Step) -> io::Result<()>,
) -> io::Result<Replayed> {
    let (found, mut idle, free_slot) = list(disk, dir, dir_id)?;
    let mut walk = Walk {
        expected: from.sequence + 1,
        chain: from.checksum,
        from: from.sequence,
        last_piece: found.last().map_or(0, |found| found.header.number),
        damage: Vec::new(),
        rounds: 0,
        unproven: VecDeque::new(),
    };
    let mut unproven = None;
    for (at, piece) in found.iter().enumerate() {
        let next_first = found.get(at + 1).map(|next| next.header.first_sequence);
        // A piece that ends before the checkpoint is only waiting to be recycled.
        if next_first.is_some_and(|first| first <= walk.expected) {
            continue;
        }
        walk.piece(piece, next_first, &mut each)?;
        unproven = walk.unproven().map(|bytes| Unproven {
            file: piece.file.clone(),
            bytes,
        });
    }
    // Of a piece that was begun nothing can be read, not even what it repeats of the one before.
    let begun = found.last().map_or(0, |found| found.header.first_sequence);
    if begun > walk.expected {
        walk.damage.push(Damage {
            from: walk.expected,
            to: begun,
            is_named: false,
        });
        walk.expected = begun;
    }
    let nexts = found.iter().skip(1).map(|next| next.header.first_sequence);
    let ends: Vec<u64> = nexts.chain([walk.expected]).collect();
    let mut live = Vec::new();
    for (found, end) in found.into_iter().zip(ends) {
        let piece = Piece {
            slot: found.slot,
            file: found.file,
            bytes: found.bytes,
        };
        if end <= from.sequence + 1 {
            idle.push(piece);
        } else {
            live.push((piece, end - 1));
        }
    }
    Ok(Replayed {
        resume: Resume {
            last_sequence: walk.expected - 1,
            last_checksum: walk.chain,
            last_piece: walk.last_piece,
            free_slot,
        },
        damage: walk.damage,
        idle,
        live,
        rounds: walk.rounds,
        unproven,
    })
}

/// The pieces that are in use, in their order, and the other ones.
fn list(disk: &dyn Disk, dir: &Path, dir_id: Uuid) -> io::Result<(Vec<Found>, Vec<Piece>, u32)> {
    let mut found = Vec::new();
    let mut idle = Vec::new();
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
        match read_header(&file, bytes, dir_id)? {
            Some(header) => found.push(Found {
                header,
                slot,
                file,
                bytes,
            }),
            None => idle.push(Piece { slot, file, bytes }),
        }
    }
    found.sort_by_key(|found| found.header.number);
    Ok((found, idle, free_slot))
}

/// The header of a piece that is ours. One that is damaged, or of an earlier use because its last write went astray, is told
/// by the first round, which says the same, or by the copy in the last page: else the newest piece would be taken for an unused
/// one, and nothing behind it could show that it was durable. No other place is asked, as records may look like anything.
fn read_header(file: &FileHandle, bytes: u64, dir_id: Uuid) -> io::Result<Option<PieceHeader>> {
    let read_at = |position: u64| {
        let mut head = [0; PIECE_HEADER_BYTES];
        file.read_exact_at(&mut head, position)?;
        Ok::<_, io::Error>(PieceHeader::decode(&head))
    };
    let first = read_verified(file, bytes, PAGE)?.map(|Front { head, .. }| PieceHeader {
        dir: dir_id,
        number: head.piece,
        first_sequence: head.sequence,
        previous: head.previous,
        salt: head.salt,
    });
    let header = match read_at(0) {
        Ok(Some(header)) => Some(header),
        _ if first.is_some() => None,
        _ => read_at(bytes - PAGE)?,
    };
    if let Some(header) = header
        && header.dir != dir_id
    {
        // Its rounds may be ours all the same: the identity file has no checksum, and a flipped bit there must not make
        // us forget what was acknowledged.
        let what = format!(
            "journal piece {} belongs to directory {}, not to {dir_id}",
            header.number, header.dir
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    match (header, first) {
        (Some(header), Some(first)) if first.number > header.number => Ok(Some(first)),
        (header, first) => Ok(header.or(first)),
    }
}

struct Walk {
    /// Sequence of the round that must come next.
    expected: u64,
    chain: u32,
    /// Rounds up to here are covered by the checkpoint: walked over, not delivered.
    from: u64,
    last_piece: u64,
    damage: Vec<Damage>,
    rounds: u64,
    /// Of the piece that is walked: sequence and bytes of the rounds that no later one called durable so far.
    unproven: VecDeque<(u64, Range<u64>)>,
}

impl Walk {
    fn unproven(&self) -> Option<Range<u64>> {
        let from = self.unproven.iter().map(|(_, bytes)| bytes.start).min()?;
        let to = self.unproven.iter().map(|(_, bytes)| bytes.end).max()?;
        Some(from..to)
    }

    /// `next_first`: first round of the next piece, if there is one.
    fn piece(
        &mut self,
        piece: &Found,
        next_first: Option<u64>,
        each: &mut impl FnMut(Step) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut sequence = piece.header.first_sequence;
        let mut chain = piece.header.previous;
        let mut position = PAGE;
        self.unproven.clear();
        // A piece is synced to its end before another one is begun.
        let synced = next_first.map_or(self.from, |first| self.from.max(first - 1));
        // Later ones were cut off at a start, which then began the next piece.
        let below = next_first.unwrap_or(u64::MAX);
        loop {
            let here = read_front(piece, position)?.filter(|front| front.head.is(sequence, chain));
            let Some(front) = here else {
                if sequence >= below {
                    break;
                }
                let later = find_later(piece, position, sequence..below, chain)?;
                match later.next {
                    Some((at, head))
                        if head.sequence == sequence || sequence <= later.durable.max(synced) =>
                    {
                        (position, sequence, chain) = (at, head.sequence, head.previous);
                        continue;
                    }
                    _ => break, // a torn tail, or the next piece knows
                }
            };
            self.on_front(&front, each)?;
            let next = position + front.head.span();
            if sequence >= self.expected {
                let steps = read_steps(piece, position, &front)?;
                let is_durable = |durable: u64| sequence <= durable.max(synced);
                if steps.lost > 0 {
                    let later = sequence + 1..below;
                    let later = find_later(piece, next, later, front.head.checksum)?;
                    if !is_durable(later.durable) {
                        break;
                    }
                }
                self.on_round(&front.head, steps, each)?;
            }
            let proven = |(sequence, _): &(u64, Range<u64>)| *sequence <= front.head.durable;
            while self.unproven.front().is_some_and(proven) {
                self.unproven.pop_front();
            }
            // The head of the piece came with its first round.
            let begin = if position == PAGE { 0 } else { position };
            self.unproven.push_back((sequence, begin..next));
            position = next;
            chain = front.head.checksum;
            sequence += 1;
        }
        Ok(())
    }

    /// Between the last readable round and this one some may be lost; its echo knows them.
    fn on_front(
        &mut self,
        front: &Front,
        each: &mut impl FnMut(Step) -> io::Result<()>,
    ) -> io::Result<()> {
        let to = front.head.sequence;
        if to <= self.expected {
            return Ok(());
        }
        let mut groups = echo::decode(front.echo());
        groups.retain(|group| (self.expected..to).contains(&group.sequence));
        groups.sort_by_key(|group| group.sequence);
        groups.dedup_by_key(|group| group.sequence);
        self.damage.push(Damage {
            from: self.expected,
            to,
            is_named: groups.len() as u64 == to - self.expected,
        });
        self.expected = to;
        let rows = groups.into_iter().flat_map(|group| group.rows);
        rows.map(Step::from).try_for_each(each)
    }

    fn on_round(
        &mut self,
        head: &RoundHead,
        steps: Steps,
        each: &mut impl FnMut(Step) -> io::Result<()>,
    ) -> io::Result<()> {
        if steps.lost > 0 {
            self.damage.push(Damage {
                from: head.sequence,
                to: head.sequence + 1,
                is_named: steps.are_named,
            });
        }
        self.expected = head.sequence + 1;
        self.chain = head.checksum;
        self.rounds += 1;
        steps.steps.into_iter().try_for_each(each)
    }
}

/// The entries of a round, and what stands for those whose bytes are damaged.
struct Steps {
    steps: Vec<Step>,
    lost: usize,
    /// Every damaged entry is among the steps.
    are_named: bool,
}

/// Reads the bodies behind `front` and checks them against its table.
fn read_steps(piece: &Found, position: u64, front: &Front) -> io::Result<Steps> {
    let mut bodies = vec![0; front.head.body_bytes as usize];
    piece
        .file
        .read_exact_at(&mut bodies, position + front.head.front())?;
    let bodies = Bytes::from(bodies);
    let mut at = 0;
    let mut out = Steps {
        steps: Vec::with_capacity(front.head.entries as usize),
        lost: 0,
        are_named: true,
    };
    for row in front.table().chunks_exact(ENTRY_BYTES) {
        let Some(row) = Row::decode(row) else {
            // A kind of a later version: nobody knows what it did to its log.
            out.lost += 1;
            out.are_named = false;
            continue;
        };
        let (topic, partition) = (row.topic, row.partition);
        let what = match row.kind {
            RowKind::Trim { start } => What::Trim { start },
            RowKind::Cut { to, epoch } => What::Cut { to, epoch },
            RowKind::Gap { to } => What::Gap { to },
            RowKind::Restart {
                log_start,
                at,
                epoch,
            } => What::Restart {
                log_start,
                at,
                epoch,
            },
            RowKind::Batch { head, body_bytes } => {
                let body = at..(at + body_bytes as usize).min(bodies.len());
                at = body.end;
                match Batch::from_parts(head, bodies.slice(body)) {
                    Ok(batch) if batch.is_intact() => What::Batch(batch),
                    _ => {
                        out.lost += 1;
                        out.steps.push(Step::Lost(Lost {
                            topic,
                            partition,
                            end: head.next_offset(),
                        }));
                        continue;
                    }
                }
            }
        };
        out.steps.push(Step::Entry(Entry {
            topic,
            partition,
            what,
        }));
    }
    Ok(out)
}

impl std::convert::From<Moved> for Step {
    fn from(moved: Moved) -> Step {
        let Moved {
            topic,
            partition,
            to,
        } = moved;
        let what = match to {
            To::End(end) => {
                return Step::Lost(Lost {
                    topic,
                    partition,
                    end,
                });
            }
            To::Start(start) => What::Trim { start },
            // An echo has no epochs. That of a cut is for people, and a log that begins anew asks its leader.
            To::Cut(to) => What::Cut {
                to,
                epoch: LeaderEpoch::NONE,
            },
            To::Restart(at) => What::Restart {
                log_start: at,
                at,
                epoch: LeaderEpoch::NONE,
            },
        };
        Step::Entry(Entry {
            topic,
            partition,
            what,
        })
    }
}

/// The part of a round that its checksum covers.
struct Front {
    head: RoundHead,
    bytes: Vec<u8>,
}

impl Front {
    fn table(&self) -> &[u8] {
        &self.bytes[ROUND_HEAD_BYTES..self.head.table_end()]
    }

    fn echo(&self) -> &[u8] {
        &self.bytes[self.head.table_end()..]
    }
}

/// The front of the round at `position`; `None` when there is no valid one of this use of the piece.
fn read_front(piece: &Found, position: u64) -> io::Result<Option<Front>> {
    let found = read_verified(&piece.file, piece.bytes, position)?;
    let PieceHeader { number, salt, .. } = piece.header;
    Ok(found.filter(|front| (front.head.piece, front.head.salt) == (number, salt)))
}

/// The front at `position` of a piece file of `bytes`, of whatever use; none behind its end. Allocates only what the file holds.
fn read_verified(file: &FileHandle, bytes: u64, position: u64) -> io::Result<Option<Front>> {
    let left = bytes.saturating_sub(position);
    if left < PAGE {
        return Ok(None);
    }
    let mut first = [0; ROUND_HEAD_BYTES];
    file.read_exact_at(&mut first, position)?;
    let Some(head) = RoundHead::decode(&first) else {
        return Ok(None);
    };
    if head.front() > left || head.body_bytes > left - head.front() {
        return Ok(None);
    }
    let mut front = vec![0; head.front() as usize];
    file.read_exact_at(&mut front, position)?;
    Ok(head
        .verifies(&front)
        .then_some(Front { head, bytes: front }))
}

/// The other possibilities when a round is not what it was, or not where it belongs.
#[derive(Default)]
struct Later {
    /// The round with the lowest sequence that can be read, and its position. Not the nearest: a write that went astray may
    /// have put a much later one there.
    next: Option<(u64, RoundHead)>,
    /// The highest durable point that any of them names: relaxed rounds may come before the first synced one.
    durable: u64,
}

/// Looks for rounds of this use of the piece with sequences of `wanted`, the first of them only if it follows `chain`. Looks
/// everywhere, as a write that went astray may be all that shows what it overwrote; but what cannot be read before `position`
/// is no matter.
fn find_later(piece: &Found, position: u64, wanted: Range<u64>, chain: u32) -> io::Result<Later> {
    let mut later = Later::default();
    for at in (0..piece.bytes).step_by(PAGE as usize) {
        let head = match read_front(piece, at) {
            Ok(front) => front.map(|front| front.head),
            Err(_) if at < position => None,
            Err(error) => return Err(error),
        };
        let Some(head) = head.filter(|head| {
            head.is(wanted.start, chain) || (wanted.start + 1..wanted.end).contains(&head.sequence)
        }) else {
            continue;
        };
        later.durable = later.durable.max(head.durable);
        if later
            .next
            .is_none_or(|(_, next)| head.sequence < next.sequence)
        {
            later.next = Some((at, head));
        }
    }
    Ok(later)
}
