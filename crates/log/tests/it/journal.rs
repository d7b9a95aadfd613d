//! The journal of a log directory: what was synced comes back, a torn end does not, damage in between is told.

use std::io;
use std::ops::Range;
use std::path::Path;

use ::model::PartitionIndex;
use env::disk::Open;
use env::sim::Rot;
use log::journal::{
    CommitError, Damage, Entry, From, PAGE, Replayed, Resume, What, Writer, piece_path, replay,
};
use wire::Uuid;

use super::*;

const DIR: &str = "/data/journal";
const ID: Uuid = Uuid([9; 16]);

fn machine(seed: u64) -> Machine {
    let machine = Machine::new(seed, Faults::default());
    let disk = machine.env().disk;
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.sync_dir(Path::new("/data")).unwrap();
    machine
}

fn writer(machine: &Machine, piece_bytes: u64, resume: Resume) -> Writer {
    Writer::new(machine.env().disk, DIR.into(), ID, piece_bytes, resume)
}

/// Entries of round `number`: as many as its last digit says, over three partitions, and now and then a trim.
fn round(number: u64) -> Vec<Entry> {
    let entry = |at: u64, what| Entry {
        topic: Uuid([at as u8 % 3 + 1; 16]),
        partition: PartitionIndex((number % 2) as i32),
        what,
    };
    let mut entries: Vec<Entry> = (0..number % 10 + 1)
        .map(|at| entry(at, What::Batch(batch(number as i64 * 10, 1, at as i64))))
        .collect();
    if number.is_multiple_of(7) {
        entries.push(entry(
            1,
            What::Trim {
                start: Offset(number as i64),
            },
        ));
    }
    entries
}

fn commit_rounds(writer: &mut Writer, rounds: Range<u64>) {
    for number in rounds {
        assert_eq!(writer.commit(&round(number), true).unwrap(), number);
    }
}

fn found(machine: &Machine, from: From) -> (Vec<String>, Replayed) {
    let mut entries = Vec::new();
    let disk = machine.env().disk;
    let replayed = replay(&*disk, Path::new(DIR), ID, from, |entry| {
        entries.push(text(&entry));
        Ok(())
    });
    (entries, replayed.unwrap())
}

/// An entry with all of its bytes, for comparisons.
fn text(entry: &Entry) -> String {
    let what = match &entry.what {
        What::Batch(batch) => format!("{:?}", batch.to_bytes()),
        What::Trim { start } => format!("trim {start}"),
    };
    format!("{} {} {what}", entry.topic, entry.partition)
}

fn texts(rounds: impl IntoIterator<Item = u64>) -> Vec<String> {
    rounds
        .into_iter()
        .flat_map(round)
        .map(|entry| text(&entry))
        .collect()
}

fn resume_point(replayed: &Replayed) -> From {
    From {
        sequence: replayed.resume.last_sequence,
        checksum: replayed.resume.last_checksum,
    }
}

#[test]
fn rounds_over_several_pieces_come_back_in_order_with_all_their_bytes() {
    let machine = machine(1);
    let mut writer = writer(&machine, 5 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..60);
    let (entries, replayed) = found(&machine, From::default());
    assert_eq!(entries, texts(1..60));
    assert_eq!((replayed.damage, replayed.rounds), (Vec::new(), 59));
    assert!(replayed.pieces.len() > 5, "{}", replayed.pieces.len());
    assert_eq!(replayed.resume.last_sequence, 59);
    assert_eq!(replayed.resume.last_checksum, writer.checksum());
    assert_eq!(replayed.resume.last_piece, writer.piece_number());
}

#[test]
fn a_replay_after_a_checkpoint_gives_only_later_rounds() {
    let machine = machine(1);
    let mut writer = writer(&machine, 5 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..31);
    let from = From {
        sequence: writer.sequence(),
        checksum: writer.checksum(),
    };
    commit_rounds(&mut writer, 31..50);
    let (entries, replayed) = found(&machine, from);
    assert_eq!(entries, texts(31..50));
    assert_eq!(replayed.rounds, 19);
}

#[test]
fn released_pieces_are_used_again_and_their_old_rounds_never_come_back() {
    let machine = machine(1);
    let mut writer = writer(&machine, 9 * PAGE, Resume::default());
    let mut from = From::default();
    for turn in 0..20 {
        let first = turn * 20 + 1;
        commit_rounds(&mut writer, first..first + 20);
        let (entries, replayed) = found(&machine, from);
        assert_eq!(entries, texts(first..first + 20), "turn {turn}");
        assert_eq!(replayed.damage, Vec::new());
        from = From {
            sequence: writer.sequence(),
            checksum: writer.checksum(),
        };
        writer.release(from.sequence, 8).unwrap();
    }
    let (entries, replayed) = found(&machine, from);
    assert!(entries.is_empty());
    assert!(
        replayed.pieces.len() <= 9,
        "{} pieces for 400 rounds",
        replayed.pieces.len()
    );
    assert!(writer.piece_number() > 40);
}

#[test]
fn spares_beyond_the_bound_are_removed() {
    let machine = machine(1);
    let mut writer = writer(&machine, 3 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..40);
    writer.release(writer.sequence(), 2).unwrap();
    assert_eq!(writer.spares().count(), 2);
    assert_eq!(found(&machine, From::default()).1.pieces.len(), 3);
}

#[test]
fn a_round_larger_than_a_piece_gets_a_piece_of_its_own() {
    let machine = machine(1);
    let mut writer = writer(&machine, 4 * PAGE, Resume::default());
    let big: Vec<Entry> = (0..900).flat_map(|_| round(1)).collect();
    writer.commit(&round(1), true).unwrap();
    writer.commit(&big, true).unwrap();
    writer.commit(&round(3), true).unwrap();
    let (entries, replayed) = found(&machine, From::default());
    let mut want = texts([1]);
    want.extend(big.iter().map(text));
    want.extend(texts([3]));
    assert_eq!(entries, want);
    assert_eq!(replayed.damage, Vec::new());
}

#[test]
fn a_cut_anywhere_leaves_exactly_the_rounds_before_it() {
    let machine = machine(1);
    let mut writer = writer(&machine, 40 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..9);
    let disk = machine.env().disk;
    let path = piece_path(Path::new(DIR), 0);
    let file = disk.open(&path, Open::Write).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut counts = Vec::new();
    for cut in (1..used).rev() {
        // From the end to the start, so that one byte more is gone each time.
        file.write_at(&[io::IoSlice::new(&[0])], cut as u64)
            .unwrap();
        if bytes[cut] == 0 && cut % 64 != 0 {
            continue;
        }
        let (entries, replayed) = found(&machine, From::default());
        assert_eq!(entries, texts(1..replayed.rounds + 1), "cut at {cut}");
        assert_eq!(replayed.damage, Vec::new(), "cut at {cut}");
        assert_eq!(replayed.resume.last_sequence, replayed.rounds);
        counts.push(replayed.rounds);
    }
    assert!(counts.is_sorted_by(|left, right| left >= right));
    assert_eq!((counts[0], counts.last()), (7, Some(&0)));
}

/// Which bytes of the piece mean something, and to which round they belong (0 is the header of the piece).
fn meaning(bytes: &[u8]) -> Vec<(u64, u64)> {
    let mut round = 0;
    let mut out = Vec::new();
    for (page, chunk) in bytes.chunks(PAGE as usize).enumerate() {
        round += u64::from(chunk.starts_with(b"ESKR"));
        let used = chunk
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        out.extend((0..used).map(|at| (page as u64 * PAGE + at as u64, round)));
    }
    out
}

#[test]
fn every_flipped_byte_is_told_or_repaired_and_all_other_rounds_come_back() {
    let machine = machine(1);
    let mut writer = writer(&machine, 30 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..7);
    let path = piece_path(Path::new(DIR), 0);
    let file = machine.env().disk.open(&path, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let mut told = 0;
    for (position, number) in meaning(&bytes) {
        let flip = || {
            let bit = (position % 8) as u8;
            machine
                .rot(&path, position..position + 1, Rot::Flip { bit })
                .unwrap();
        };
        flip();
        let (entries, replayed) = found(&machine, From::default());
        flip();
        if entries == texts(1..7) {
            // The header of the piece says nothing that the first round does not; unused fields say nothing at all.
            assert_eq!(
                replayed.damage,
                Vec::new(),
                "byte {position} of round {number}"
            );
            continue;
        }
        assert_eq!(
            entries,
            texts((1..7).filter(|round| *round != number)),
            "byte {position} of round {number}"
        );
        // Nothing says of the last round that it was durable: its damage cannot be told from a torn write.
        let damage = match number {
            6 => Vec::new(),
            number => vec![Damage {
                from: number,
                to: number + 1,
            }],
        };
        assert_eq!(replayed.damage, damage, "byte {position} of round {number}");
        told += 1;
    }
    assert!(told > 2000, "{told} flips were told");
}

#[test]
fn a_piece_that_is_gone_is_told() {
    let machine = machine(1);
    let mut writer = writer(&machine, 9 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..41);
    let (_, before) = found(&machine, From::default());
    assert!(before.pieces.len() > 4);
    machine
        .env()
        .disk
        .remove_file(&piece_path(Path::new(DIR), 1))
        .unwrap();
    let (entries, replayed) = found(&machine, From::default());
    let [damage] = replayed.damage[..] else {
        panic!("one gap, not {:?}", replayed.damage)
    };
    let left = (1..41).filter(|round| !(damage.from..damage.to).contains(round));
    assert_eq!(entries, texts(left));
    assert!(damage.to - damage.from >= 3);
}

#[test]
fn a_piece_of_another_directory_is_refused() {
    let machine = machine(1);
    let mut writer = writer(&machine, 9 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..5);
    let disk = machine.env().disk;
    let other = Uuid([8; 16]);
    let refused = replay(&*disk, Path::new(DIR), other, From::default(), |_| Ok(()));
    assert_eq!(
        refused.err().map(|error| error.kind()),
        Some(std::io::ErrorKind::InvalidData),
        "ignoring it would lose what was acknowledged when our own identity is what is damaged"
    );
}

#[test]
fn power_cuts_leave_every_synced_round_and_a_beginning_of_the_rest() {
    let (mut torn, mut kept) = (0, 0);
    for seed in 0..200 {
        let machine = machine(seed);
        let rng = machine.env().rng;
        let mut from = From::default();
        let mut resume = Resume::default();
        for life in 0..3 {
            let mut writer = writer(&machine, 12 * PAGE, resume);
            let first = from.sequence + 1;
            let mut synced = from.sequence;
            let upto = first + rng.next_u64() % 40;
            for number in first..upto {
                let sync = rng.next_u64().is_multiple_of(4);
                writer.commit(&round(number), sync).unwrap();
                synced = synced.max(writer.durable());
                assert!(!sync || synced == number);
            }
            machine.power_cut();
            let (entries, replayed) = found(&machine, from);
            let last = replayed.resume.last_sequence;
            assert!(
                synced <= last && last < upto,
                "seed {seed} life {life}: {synced} {last} {upto}"
            );
            assert_eq!(entries, texts(first..last + 1), "seed {seed} life {life}");
            assert_eq!(replayed.damage, Vec::new(), "seed {seed} life {life}");
            assert_eq!(
                found(&machine, from).0,
                entries,
                "a second look sees the same"
            );
            torn += u64::from(last + 1 < upto);
            kept += u64::from(last > synced);
            from = resume_point(&replayed);
            resume = replayed.resume;
        }
    }
    assert!(
        torn > 50 && kept > 50,
        "cuts must bite: {torn} torn, {kept} kept"
    );
}

#[test]
fn a_failed_sync_is_final_and_no_later_round_calls_the_failed_one_durable() {
    let machine = machine(1);
    let mut writer = writer(&machine, 40 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..4);
    let next = machine.counts().syncs + 1;
    machine.faults(|faults| faults.sync_fails_at = Some(next));
    assert!(matches!(
        writer.commit(&round(4), true),
        Err(CommitError::Failed(_))
    ));
    assert_eq!(writer.durable(), 3);
}

#[test]
fn a_full_volume_refuses_a_new_piece_and_takes_the_same_round_later() {
    let machine = machine(1);
    let mut writer = writer(&machine, 4 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..4);
    machine.faults(|faults| faults.disk_bytes = 5 * PAGE);
    for _ in 0..3 {
        assert!(matches!(
            writer.commit(&round(4), true),
            Err(CommitError::NoRoom(_))
        ));
    }
    let left = machine.env().disk.read_dir(Path::new(DIR)).unwrap();
    assert_eq!(left.len(), 1, "half a piece is not kept: {left:?}");
    machine.faults(|faults| faults.disk_bytes = 1 << 30);
    commit_rounds(&mut writer, 4..12);
    machine.power_cut();
    let (entries, replayed) = found(&machine, From::default());
    assert_eq!(entries, texts(1..12));
    assert_eq!(replayed.damage, Vec::new());
}
