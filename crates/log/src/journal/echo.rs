//! The part of a round that repeats the rounds before it: which logs they moved, and how far.
//!
//! A round that cannot be read any more would take its partitions' names with it, and a log whose last batches it held would
//! come back shorter: later appends would then use acknowledged offsets again. So every round repeats the one before it in
//! full, and in the padding of its last page, which costs nothing, as many older ones as fit [`OLDER_BYTES_MAX`]. Only what
//! both a round and its echoes lose stays without a name. Does no IO and no checksums: the round's own covers the echo.

use std::collections::VecDeque;

use model::{Offset, PartitionIndex};
use wire::Uuid;

use super::format::PAGE;

/// Sequence of the round, number of rows.
const GROUP_HEAD_BYTES: usize = 8 + 4;
/// Topic id, partition with [`START_BIT`] and [`CUT_BIT`], offset.
const ROW_BYTES: usize = 16 + 4 + 8;
/// The offset is a log start. Partition numbers are not negative, so the bit is free.
const START_BIT: u32 = 1 << 31;
/// The log was cut to the offset, or with [`START_BIT`] begins anew there. No topic has a thousand million partitions.
const CUT_BIT: u32 = 1 << 30;
/// Half a page: the names of some 60 rounds of one batch, at the price of copying them once per round.
const OLDER_BYTES_MAX: usize = 2 << 10;
/// Partitions of a round that are found again without a search; more of them may repeat rows.
const PLACES: usize = 1 << 10;

/// One log, and how far a round took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) topic: Uuid,
    pub(super) partition: PartitionIndex,
    pub(super) to: To,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// Next offset after the round's last batch.
    End(Offset),
    /// New log start.
    Start(Offset),
    /// New log end, in front of the old one.
    Cut(Offset),
    /// Start and end of a log that begins anew.
    Restart(Offset),
}

/// The moves of one round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) sequence: u64,
    pub(super) rows: Vec<Moved>,
}

/// The rounds that the next ones repeat.
pub(super) struct Echo {
    /// Newest first. The first is repeated whatever its size, the others are bounded by [`OLDER_BYTES_MAX`].
    kept: VecDeque<Group>,
    older_bytes: usize,
    /// The round that is being written.
    current: Group,
    /// Where in `current` a partition was noted last, by hash. May be stale, so the row itself is asked.
    places: Vec<u32>,
}

impl Default for Echo {
    fn default() -> Echo {
        Echo {
            kept: VecDeque::new(),
            older_bytes: 0,
            current: Group::default(),
            places: vec![0; PLACES],
        }
    }
}

impl Echo {
    /// A round is about to be written, perhaps for the second time.
    pub(super) fn begin(&mut self) {
        self.current.rows.clear();
    }

    pub(super) fn note(&mut self, moved: Moved) {
        let place = &mut self.places[place(&moved)];
        match self.current.rows.get_mut(*place as usize) {
            Some(row) if row.is_superseded_by(&moved) => row.to = moved.to,
            _ => {
                *place = self.current.rows.len() as u32;
                self.current.rows.push(moved);
            }
        }
    }

    /// Appends what a round repeats to its head and table; `body_bytes` follow.
    pub(super) fn encode(&self, out: &mut Vec<u8>, body_bytes: u64) {
        let mut groups = self.kept.iter();
        if let Some(newest) = groups.next() {
            newest.encode(out);
        }
        let used = out.len() as u64 + body_bytes;
        let mut room = (used.next_multiple_of(PAGE) - used) as usize;
        for group in groups {
            let Some(left) = room.checked_sub(group.size()) else {
                break;
            };
            room = left;
            group.encode(out);
        }
    }

    /// The round is written.
    pub(super) fn keep(&mut self, sequence: u64) {
        self.older_bytes += self.kept.front().map_or(0, Group::size);
        let mut spare = Vec::new();
        while self.older_bytes > OLDER_BYTES_MAX
            && let Some(oldest) = self.kept.pop_back()
        {
            self.older_bytes -= oldest.size();
            spare = oldest.rows;
        }
        let rows = std::mem::replace(&mut self.current.rows, spare);
        self.kept.push_front(Group { sequence, rows });
    }
}

impl Moved {
    /// `later` says the same of the same log, further on.
    fn is_superseded_by(&self, later: &Moved) -> bool {
        self.topic == later.topic
            && self.partition == later.partition
            && matches!(
                (self.to, later.to),
                (To::End(_), To::End(_)) | (To::Start(_), To::Start(_))
            )
    }
}

fn place(moved: &Moved) -> usize {
    let topic = u128::from_le_bytes(moved.topic.0);
    let mixed = (topic as u64 ^ (topic >> 64) as u64 ^ u64::from(moved.partition.0 as u32))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % PLACES
}

impl Group {
    fn size(&self) -> usize {
        GROUP_HEAD_BYTES + self.rows.len() * ROW_BYTES
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&(self.rows.len() as u32).to_le_bytes());
        for row in &self.rows {
            let (bit, offset) = match row.to {
                To::End(end) => (0, end),
                To::Start(start) => (START_BIT, start),
                To::Cut(to) => (CUT_BIT, to),
                To::Restart(at) => (START_BIT | CUT_BIT, at),
            };
            out.extend_from_slice(&row.topic.0);
            out.extend_from_slice(&(row.partition.0 as u32 | bit).to_le_bytes());
            out.extend_from_slice(&offset.0.to_le_bytes());
        }
    }
}

/// The rounds that an echo repeats, newest first; what is no echo ends the list.
pub(super) fn decode(mut bytes: &[u8]) -> Vec<Group> {
    let mut groups = Vec::new();
    while let Some(group) = decode_group(&mut bytes) {
        groups.push(group);
    }
    groups
}

fn decode_group(bytes: &mut &[u8]) -> Option<Group> {
    let sequence = u64::from_le_bytes(take(bytes)?);
    let count = u32::from_le_bytes(take(bytes)?) as usize;
    if count > bytes.len() / ROW_BYTES {
        return None;
    }
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let topic = Uuid(take(bytes)?);
        let partition = u32::from_le_bytes(take(bytes)?);
        let offset = Offset(i64::from_le_bytes(take(bytes)?));
        rows.push(Moved {
            topic,
            partition: PartitionIndex((partition & !(START_BIT | CUT_BIT)) as i32),
            to: match (partition & START_BIT != 0, partition & CUT_BIT != 0) {
                (false, false) => To::End(offset),
                (true, false) => To::Start(offset),
                (false, true) => To::Cut(offset),
                (true, true) => To::Restart(offset),
            },
        });
    }
    Some(Group { sequence, rows })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(topic: u8, partition: i32, to: To) -> Moved {
        Moved {
            topic: Uuid([topic; 16]),
            partition: PartitionIndex(partition),
            to,
        }
    }

    fn round(echo: &mut Echo, sequence: u64, rows: &[Moved], body_bytes: u64) -> Vec<u8> {
        echo.begin();
        rows.iter().for_each(|row| echo.note(*row));
        let mut out = Vec::new();
        echo.encode(&mut out, body_bytes);
        echo.keep(sequence);
        out
    }

    #[test]
    fn a_round_is_repeated_by_the_next_with_each_log_once() {
        let mut echo = Echo::default();
        let rows = [
            moved(1, 0, To::End(Offset(4))),
            moved(1, 0, To::Start(Offset(2))),
            moved(2, 7, To::End(Offset(1))),
            moved(1, 0, To::End(Offset(9))),
        ];
        assert!(round(&mut echo, 5, &rows, 0).is_empty());
        let bytes = round(&mut echo, 6, &[], 0);
        let groups = decode(&bytes);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].sequence, 5);
        for row in &rows[1..] {
            assert!(groups[0].rows.contains(row), "{row:?} in {groups:?}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), [], "cut at {cut}");
        }
    }

    #[test]
    fn older_rounds_use_padding_only() {
        let mut echo = Echo::default();
        let row = [moved(1, 0, To::End(Offset(1)))];
        for sequence in 1..200 {
            let bytes = round(&mut echo, sequence, &row, 100);
            assert!(bytes.len() <= OLDER_BYTES_MAX + 40, "{}", bytes.len());
        }
        let groups = decode(&round(&mut echo, 200, &row, 100));
        let sequences: Vec<u64> = groups.iter().map(|group| group.sequence).collect();
        let want: Vec<u64> = (200 - groups.len() as u64..200).rev().collect();
        assert_eq!(sequences, want);
        assert!(groups.len() > 40, "{}", groups.len());
        // A page with room for the round before alone.
        let tight = round(&mut echo, 201, &row, PAGE - 40);
        assert_eq!(decode(&tight).len(), 1);
        let tighter = round(&mut echo, 202, &row, PAGE - 39);
        assert!(decode(&tighter).len() > 40, "another page is used anyway");
    }

    #[test]
    fn a_large_round_is_repeated_in_full_once() {
        let mut echo = Echo::default();
        let rows: Vec<Moved> = (0..1000)
            .map(|at| moved(3, at, To::End(Offset(i64::from(at)))))
            .collect();
        round(&mut echo, 1, &rows, 0);
        let groups = decode(&round(&mut echo, 2, &rows[..1], 0));
        assert_eq!(groups[0].rows, rows);
        let after = decode(&round(&mut echo, 3, &rows[..1], 0));
        assert_eq!(after.len(), 1, "it is no older round that fits half a page");
    }
}
