//! Records that look like rounds of the journal: a piece knows its own by a number that no client can know.

use std::path::Path;

use ::model::PartitionIndex;
use env::disk::Open;
use env::sim::Rot;
use log::journal::{Entry, From, PAGE, Resume, What, piece_path};
use wire::Uuid;

use super::journal::{DIR, commit_rounds, found, machine, round, text, texts, writer};
use super::*;

/// Bytes of a piece header and of a round head, and where each has the number.
const HEADER_BYTES: usize = 60;
const HEADER_SALT: std::ops::Range<usize> = 48..56;
const HEAD_BYTES: usize = 64;
const HEAD_SALT: std::ops::Range<usize> = 52..60;
/// A row of a round's table.
const ROW_BYTES: usize = 16 + 4 + 4 + 4 + 61;

fn bytes_of(machine: &Machine, slot: u32) -> Vec<u8> {
    let path = piece_path(Path::new(DIR), slot);
    let file = machine.env().disk.open(&path, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn store(machine: &Machine, slot: u32, bytes: &[u8]) {
    let path = piece_path(Path::new(DIR), slot);
    let file = machine.env().disk.open(&path, Open::Write).unwrap();
    file.write_at(&[std::io::IoSlice::new(bytes)], 0).unwrap();
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The end of what the checksum of the round at the beginning of `bytes` covers.
fn front(bytes: &[u8]) -> usize {
    HEAD_BYTES + number(bytes, 12) as usize * ROW_BYTES + number(bytes, 48) as usize
}

fn seal(round: &mut [u8]) {
    let checksum = log::crc32c(&round[8..front(round)]);
    round[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// A whole round of piece 1 with one batch of somebody else's topic.
fn forged(sequence: u64) -> Vec<u8> {
    let batch = batch(0, 1, 0);
    let mut round = b"ESKR".to_vec();
    round.extend([0; 8]);
    round.extend(1u32.to_le_bytes());
    round.extend(sequence.to_le_bytes());
    round.extend((sequence + 1000).to_le_bytes()); // durable, it says
    round.extend(1u64.to_le_bytes());
    round.extend((batch.body().len() as u64).to_le_bytes());
    round.resize(HEAD_BYTES, 0);
    round.extend([0xee; 16]);
    round.extend(0u32.to_le_bytes());
    round.extend(1u32.to_le_bytes());
    round.extend((batch.body().len() as u32).to_le_bytes());
    round.extend(batch.head());
    seal(&mut round);
    round.extend(batch.body());
    round
}

/// A round with one record, uncompressed, of this value.
fn sent(value: &[u8]) -> Vec<Entry> {
    let mut builder = BatchBuilder::new().base_offset(Offset(40));
    builder.push(Timestamp(1), None, Some(value), &[]);
    vec![Entry {
        topic: Uuid([1; 16]),
        partition: PartitionIndex(0),
        what: What::Batch(builder.build()),
    }]
}

#[test]
fn records_that_look_like_rounds_are_no_rounds() {
    const VALUE_BYTES: usize = 60_000;
    let append = |value: &[u8]| {
        let machine = machine(1);
        let mut writer = writer(&machine, 40 * PAGE, Resume::default());
        commit_rounds(&mut writer, 1..4);
        assert_eq!(writer.commit(&sent(value), true).unwrap(), 4);
        machine
    };
    let probe = bytes_of(&append(&[0xaa; VALUE_BYTES]), 0);
    let begin = probe.windows(64).position(|bytes| bytes == [0xaa; 64]);
    let begin = begin.unwrap();

    let mut value = vec![0xaa; VALUE_BYTES];
    let first_page = begin.next_multiple_of(PAGE as usize) - begin;
    let pages = (first_page..VALUE_BYTES - PAGE as usize).step_by(PAGE as usize);
    let mut forgeries = 0;
    for (sequence, at) in (5..).zip(pages) {
        let round = forged(sequence);
        value[at..at + round.len()].copy_from_slice(&round);
        forgeries += 1;
    }
    assert!(forgeries > 10, "{forgeries}");
    let machine = append(&value);
    assert!(bytes_of(&machine, 0)[begin..].starts_with(&value));
    machine.kill();

    let (entries, replayed) = found(&machine, From::default());
    assert_eq!(replayed.damage, Vec::new());
    let mut want = texts(1..4);
    want.extend(sent(&value).iter().map(text));
    assert!(entries == want, "nothing comes from a record");
    assert_eq!(replayed.resume.last_sequence, 4);

    // Nor when the piece is told by the copy of its header alone.
    let path = piece_path(Path::new(DIR), 0);
    machine.rot(&path, 0..2 * PAGE, Rot::Zero).unwrap();
    let (entries, replayed) = found(&machine, From::default());
    assert!(entries.ends_with(&want[texts([1]).len()..]));
    assert_eq!(
        (replayed.damage.len(), replayed.resume.last_sequence),
        (1, 4)
    );
}

#[test]
fn each_use_of_a_piece_has_another_number() {
    let machine = machine(1);
    let mut writer = writer(&machine, 5 * PAGE, Resume::default());
    let mut seen = std::collections::BTreeSet::new();
    for turn in 0..6 {
        let first = turn * 20 + 1;
        commit_rounds(&mut writer, first..first + 20);
        let piece = bytes_of(&machine, 0);
        let salt = &piece[HEADER_SALT];
        assert_eq!(piece[PAGE as usize..][HEAD_SALT], *salt);
        seen.insert(salt.to_vec());
        writer.release(writer.sequence(), 8).unwrap();
    }
    assert!(seen.len() > 3, "{seen:?}");
    assert!(!seen.contains(&vec![0; 8]));
}

#[test]
fn a_piece_that_lost_its_header_and_first_round_is_known_by_the_copy_at_its_end() {
    let machine = machine(1);
    let mut writer = writer(&machine, 40 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..8);
    let path = piece_path(Path::new(DIR), 0);
    machine.rot(&path, 0..2 * PAGE, Rot::Zero).unwrap();
    let (entries, replayed) = found(&machine, From::default());
    let [damage] = replayed.damage[..] else {
        panic!("one gap, not {:?}", replayed.damage)
    };
    assert_eq!((damage.from, damage.to, damage.is_named), (1, 2, true));
    assert!(entries.ends_with(&texts(2..8)));
    assert_eq!(replayed.resume.last_sequence, 7);
}

#[test]
fn pieces_of_versions_without_the_number_are_read() {
    let machine = machine(1);
    let mut writer = writer(&machine, 40 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..8);
    let mut piece = bytes_of(&machine, 0);
    piece[HEADER_SALT].fill(0);
    let checksum = log::crc32c(&piece[12..HEADER_BYTES]);
    piece[8..12].copy_from_slice(&checksum.to_le_bytes());
    let copy = piece.len() - PAGE as usize;
    piece[copy..].fill(0);
    let mut previous = piece[44..48].to_vec();
    for round in piece.chunks_mut(PAGE as usize) {
        if round.starts_with(b"ESKR") {
            assert!(front(round) <= round.len());
            round[HEAD_SALT].fill(0);
            round[8..12].copy_from_slice(&previous);
            seal(round);
            previous = round[4..8].to_vec();
        }
    }
    store(&machine, 0, &piece);
    let (entries, replayed) = found(&machine, From::default());
    assert_eq!(entries, texts(1..8));
    assert_eq!(replayed.damage, Vec::new());
    // The following rounds go to a piece of this version.
    let mut next = super::journal::writer(&machine, 40 * PAGE, replayed.resume);
    next.commit(&round(8), true).unwrap();
    assert_eq!(found(&machine, From::default()).0, texts(1..9));
}
