//! Checksums of the heads of batches (`.headcheck`), beside each segment.
//!
//! A batch's own checksum covers neither its base offset nor its leader epoch, and no batch says which log it is of. Here is a
//! CRC-32C of each head with its position, so a head that rotted, and a batch that a write gone astray brought from elsewhere, is
//! told from the one that was written. A batch that no block covers is believed as far as Kafka's format lets anyone see: the file may
//! be missing, or short. A block that does not verify covers nothing.
//!
//! A file is blocks of 64 bytes in order of position, big-endian: the CRC-32C of whose the block is and the other 60 bytes, the
//! positions where the first batch begins and the last one ends, how many they are, and the sums of twelve heads at most.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;

use env::disk::Open;
use env::{Disk, File};
use model::{Offset, PartitionIndex};
use wire::Uuid;
use wire::records::{HEAD_SIZE, Head};

use crate::scan::{Damage, DamageKind, read_up_to};

pub const EXTENSION: &str = "headcheck";
pub const BLOCK_SIZE: usize = 64;
const SUMS_MAX: usize = 12;

/// The owner of the heads that are summed up: blocks that a write gone astray brought from elsewhere do not verify.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    pub topic: Uuid,
    pub partition: PartitionIndex,
    /// Of the segment.
    pub base: Offset,
}

impl Whose {
    /// Of a block without its own checksum.
    fn check(&self, rest: &[u8; BLOCK_SIZE - 4]) -> u32 {
        let mut bytes = [0; 28 + BLOCK_SIZE - 4];
        bytes[..16].copy_from_slice(&self.topic.0);
        bytes[16..20].copy_from_slice(&self.partition.0.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.base.0.to_be_bytes());
        bytes[28..].copy_from_slice(rest);
        crate::crc32c(&bytes)
    }
}

/// Batches one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    from: u32,
    to: u32,
    count: u32,
    sums: [u32; SUMS_MAX],
}

fn sum(position: u32, head: &Head) -> u32 {
    let mut bytes = [0; 4 + HEAD_SIZE];
    bytes[..4].copy_from_slice(&position.to_be_bytes());
    bytes[4..].copy_from_slice(&head.0);
    crate::crc32c(&bytes)
}

impl Block {
    fn begin(from: u32) -> Block {
        Block {
            from,
            to: from,
            count: 0,
            sums: [0; SUMS_MAX],
        }
    }

    fn sums(&self) -> &[u32] {
        self.sums.get(..self.count as usize).unwrap_or_default()
    }

    /// Where its last batch ends.
    #[must_use]
    pub fn to(&self) -> u64 {
        u64::from(self.to)
    }

    #[must_use]
    pub fn from(&self) -> u64 {
        u64::from(self.from)
    }

    fn encode(&self, whose: Whose, out: &mut Vec<u8>) {
        let words = [self.from, self.to, self.count];
        let mut rest = [0; BLOCK_SIZE - 4];
        let (slots, _) = rest.as_chunks_mut::<4>();
        for (slot, word) in slots.iter_mut().zip(words.iter().chain(&self.sums)) {
            *slot = word.to_be_bytes();
        }
        out.extend_from_slice(&whose.check(&rest).to_be_bytes());
        out.extend_from_slice(&rest);
    }

    /// `None` when the bytes are no block of theirs.
    fn decode(whose: Whose, bytes: &[u8; BLOCK_SIZE]) -> Option<Block> {
        let (stored, rest) = bytes.split_first_chunk::<4>()?;
        let (words, _) = rest.as_chunks::<4>();
        let mut words = words.iter().map(|word| u32::from_be_bytes(*word));
        let (from, to, count) = (words.next()?, words.next()?, words.next()?);
        let mut sums = [0; SUMS_MAX];
        sums.iter_mut()
            .zip(words)
            .for_each(|(sum, word)| *sum = word);
        let is_theirs = u32::from_be_bytes(*stored) == whose.check(rest.as_array()?);
        let is_sound = is_theirs && from < to && count as usize <= SUMS_MAX;
        is_sound.then_some(Block {
            from,
            to,
            count,
            sums,
        })
    }
}

/// Takes note of a batch behind those in `blocks`. Positions of segments are below 2 GiB; what lies beyond is not covered.
pub fn note(blocks: &mut Vec<Block>, position: u64, head: &Head) {
    let ends = (
        u32::try_from(position),
        u32::try_from(position + head.size() as u64),
    );
    let (Ok(from), Ok(to)) = ends else { return };
    let goes_on = |block: &Block| block.to == from && (block.count as usize) < SUMS_MAX;
    if !blocks.last().is_some_and(goes_on) {
        blocks.push(Block::begin(from));
    }
    if let Some(block) = blocks.last_mut()
        && let Some(slot) = block.sums.get_mut(block.count as usize)
    {
        *slot = sum(from, head);
        block.count += 1;
        block.to = to;
    }
}

/// The known heads in a range of a segment.
#[derive(Clone, Debug, Default)]
pub struct Heads(Vec<Block>);

impl Heads {
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.0
    }

    /// `blocks` in order of position.
    #[must_use]
    pub fn new(blocks: Vec<Block>) -> Heads {
        Heads(blocks)
    }

    fn covering(&self, position: u64) -> Option<&Block> {
        let after = self.0.partition_point(|block| block.from() <= position);
        let block = after.checked_sub(1).and_then(|at| self.0.get(at));
        block.filter(|block| position < block.to())
    }

    /// True if anything is known of the batch at `position`.
    #[must_use]
    pub fn covers(&self, position: u64) -> bool {
        self.covering(position).is_some()
    }

    /// True if the batch at `position` may be the one that was written there.
    pub fn check(&self, position: u64, head: &Head) -> Result<(), Damage> {
        let covering = self.covering(position);
        let is_known = match (covering, u32::try_from(position)) {
            (Some(block), Ok(at)) => block.sums().contains(&sum(at, head)),
            _ => true,
        };
        let why = DamageKind::Stranger {
            offset: head.base_offset(),
        };
        is_known.then_some(()).ok_or(Damage { position, why })
    }
}

/// Blocks of a file that there are whole.
fn count(file: &dyn File) -> io::Result<u64> {
    Ok(file.len()? / BLOCK_SIZE as u64)
}

/// The block `at`; `None` when it does not verify.
fn read_one(file: &dyn File, whose: Whose, at: u64) -> io::Result<Option<Block>> {
    let mut bytes = [0; BLOCK_SIZE];
    let got = read_up_to(file, &mut bytes, at * BLOCK_SIZE as u64)?;
    // It may be cut meanwhile.
    let block = (got == BLOCK_SIZE).then(|| Block::decode(whose, &bytes));
    Ok(block.flatten())
}

/// How many blocks of a file end at or below `position`, as far as they verify in order. Looks from the end, where the others are.
pub fn count_below(file: &dyn File, whose: Whose, position: u64) -> io::Result<u64> {
    let mut kept = count(file)?;
    while kept > 0 {
        match read_one(file, whose, kept - 1)? {
            Some(block) if block.to() <= position => break,
            _ => kept -= 1,
        }
    }
    Ok(kept)
}

/// The blocks of a file that cover any of `positions`.
pub fn read(file: &dyn File, whose: Whose, positions: Range<u64>) -> io::Result<Vec<Block>> {
    /// One page of the file.
    const READ_BLOCKS: u64 = 64;
    let count = count(file)?;
    let (mut low, mut high) = (0, count);
    while high - low > READ_BLOCKS {
        let middle = low + (high - low) / 2;
        match read_one(file, whose, middle)? {
            Some(block) if block.from() <= positions.start => low = middle,
            Some(_) => high = middle,
            // Nobody knows on which side: it is walked from where it was sure.
            None => break,
        }
    }
    let mut found = Vec::new();
    let mut bytes = [0; READ_BLOCKS as usize * BLOCK_SIZE];
    while low < count {
        let blocks = (count - low).min(READ_BLOCKS);
        let bytes = &mut bytes[..blocks as usize * BLOCK_SIZE];
        let got = read_up_to(file, bytes, low * BLOCK_SIZE as u64)?;
        let (bytes, _) = bytes[..got].as_chunks::<BLOCK_SIZE>();
        for block in bytes.iter().filter_map(|bytes| Block::decode(whose, bytes)) {
            if block.from() >= positions.end {
                return Ok(found);
            }
            if block.to() > positions.start {
                found.push(block);
            }
        }
        low += blocks;
    }
    Ok(found)
}

/// Writes blocks behind the first `at`.
pub fn write(file: &dyn File, whose: Whose, at: u64, blocks: &[Block]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(blocks.len() * BLOCK_SIZE);
    for block in blocks {
        block.encode(whose, &mut bytes);
    }
    file.write_at(&[IoSlice::new(&bytes)], at * BLOCK_SIZE as u64)
}

/// Writes all blocks, also none, as the whole content of `path`, and syncs it.
pub fn create(disk: &dyn Disk, path: &Path, whose: Whose, blocks: &[Block]) -> io::Result<()> {
    let file = disk.open(path, Open::Truncate)?;
    if !blocks.is_empty() {
        write(&*file, whose, 0, blocks)?;
    }
    file.sync_data()
}
