//! The journal of a log directory: what was synced comes back, a torn end does not, damage in between is told.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

use ::model::PartitionIndex;
use env::disk::Open;
use env::sim::Rot;
use log::journal::{
    CommitError, Damage, Entry, From, Lost, PAGE, Replayed, Resume, Step, What, Writer, piece_path,
    replay,
};
use wire::Uuid;

use super::*;

pub(crate) const DIR: &str = "/data/journal";
const ID: Uuid = Uuid([9; 16]);

pub(crate) fn machine(seed: u64) -> Machine {
    let machine = Machine::new(seed, Faults::default());
    let disk = machine.env().disk;
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.sync_dir(Path::new("/data")).unwrap();
    machine
}

pub(crate) fn writer(machine: &Machine, piece_bytes: u64, resume: Resume) -> Writer {
    Writer::new(&machine.env(), DIR.into(), ID, piece_bytes, resume)
}

/// Entries of round `number`: as many as its last digit says, over three partitions, and now and then a trim.
pub(crate) fn round(number: u64) -> Vec<Entry> {
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

pub(crate) fn commit_rounds(writer: &mut Writer, rounds: Range<u64>) {
    for number in rounds {
        assert_eq!(writer.commit(&round(number), true).unwrap(), number);
    }
}

fn steps(machine: &Machine, from: From) -> (Vec<Step>, Replayed) {
    let mut steps = Vec::new();
    let disk = machine.env().disk;
    let replayed = replay(&*disk, Path::new(DIR), ID, from, |step| {
        steps.push(step);
        Ok(())
    });
    (steps, replayed.unwrap())
}

pub(crate) fn found(machine: &Machine, from: From) -> (Vec<String>, Replayed) {
    let (steps, replayed) = steps(machine, from);
    (steps.iter().map(step_text).collect(), replayed)
}

fn step_text(step: &Step) -> String {
    match step {
        Step::Entry(entry) => text(entry),
        Step::Lost(lost) => format!("{} {} lost to {}", lost.topic, lost.partition, lost.end),
    }
}

/// How far each log goes, and where it starts: what no damage may change.
fn reached(steps: &[Step]) -> BTreeMap<(Uuid, i32), (Offset, Offset)> {
    let mut reached = BTreeMap::new();
    for step in steps {
        let (topic, partition, end, start) = match step {
            Step::Entry(Entry {
                topic,
                partition,
                what,
            }) => match what {
                What::Batch(batch) => (topic, partition, batch.next_offset(), Offset::ZERO),
                What::Trim { start } => (topic, partition, Offset::ZERO, *start),
                What::Cut { .. } | What::Gap { .. } | What::Restart { .. } => continue,
            },
            Step::Lost(Lost {
                topic,
                partition,
                end,
            }) => (topic, partition, *end, Offset::ZERO),
        };
        let log: &mut (Offset, Offset) = reached
            .entry((*topic, partition.0))
            .or_insert((Offset::ZERO, Offset::ZERO));
        *log = (log.0.max(end), log.1.max(start));
    }
    reached
}

/// An entry with all of its bytes, for comparisons.
pub(crate) fn text(entry: &Entry) -> String {
    let what = match &entry.what {
        What::Batch(batch) => format!("{:?}", batch.to_bytes()),
        What::Trim { start } => format!("trim {start}"),
        What::Gap { to } => format!("gap to {to}"),
        What::Cut { to, epoch } => format!("cut to {to} by epoch {epoch}"),
        What::Restart {
            log_start,
            at,
            epoch,
        } => format!("restart {log_start} at {at} behind epoch {epoch}"),
    };
    format!("{} {} {what}", entry.topic, entry.partition)
}

pub(crate) fn texts(rounds: impl IntoIterator<Item = u64>) -> Vec<String> {
    rounds
        .into_iter()
        .flat_map(round)
        .map(|entry| text(&entry))
        .collect()
}

fn pieces(replayed: &Replayed) -> usize {
    replayed.idle.len() + replayed.live.len()
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
    assert_eq!((&replayed.damage, replayed.rounds), (&Vec::new(), 59));
    assert!(pieces(&replayed) > 5, "{}", pieces(&replayed));
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
        pieces(&replayed) <= 9,
        "{} pieces for 400 rounds",
        pieces(&replayed)
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
    assert_eq!(pieces(&found(&machine, From::default()).1), 3);
}

#[test]
fn pieces_of_an_earlier_life_stay_until_they_are_released() {
    let machine = machine(1);
    let mut first = writer(&machine, 5 * PAGE, Resume::default());
    commit_rounds(&mut first, 1..31);
    machine.kill();
    let (entries, replayed) = found(&machine, From::default());
    let live = replayed.live.len();
    assert!(replayed.idle.is_empty() && live > 3);
    let mut next = writer(&machine, 5 * PAGE, replayed.resume).behind(replayed.live);
    assert_eq!(next.live_bytes(), live as u64 * 5 * PAGE);
    commit_rounds(&mut next, 31..34);
    let both = texts(1..34);
    assert_eq!(found(&machine, From::default()).0, both);
    assert_eq!(entries, both[..entries.len()]);
    let point = From {
        sequence: next.sequence(),
        checksum: next.checksum(),
    };
    next.release(point.sequence, 2).unwrap();
    assert_eq!(next.spares().count(), 2);
    let (entries, replayed) = found(&machine, point);
    assert!(entries.is_empty() && replayed.damage.is_empty());
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
    // The last page is the header once more.
    bytes.truncate(bytes.len() - PAGE as usize);
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
fn every_flipped_byte_is_told_or_repaired_and_no_log_gets_shorter() {
    let machine = machine(1);
    let mut writer = writer(&machine, 30 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..8);
    let path = piece_path(Path::new(DIR), 0);
    let file = machine.env().disk.open(&path, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let whole = reached(&steps(&machine, From::default()).0);
    let (mut told, mut repaired) = (0, 0);
    for (position, number) in meaning(&bytes) {
        let context = format!("byte {position} of round {number}");
        let flip = || {
            let bit = (position % 8) as u8;
            machine
                .rot(&path, position..position + 1, Rot::Flip { bit })
                .unwrap();
        };
        flip();
        let (found, replayed) = steps(&machine, From::default());
        flip();
        let entries: Vec<String> = found.iter().map(step_text).collect();
        if entries == texts(1..8) {
            // The header of the piece says nothing that the first round does not; unused fields say nothing at all.
            assert_eq!(replayed.damage, Vec::new(), "{context}");
            continue;
        }
        if number == 7 {
            // Nothing says of the last round that it was durable: its damage cannot be told from a torn write.
            assert_eq!(entries, texts(1..7), "{context}");
            assert_eq!(replayed.damage, Vec::new(), "{context}");
            continue;
        }
        let damage = Damage {
            from: number,
            to: number + 1,
            is_named: true,
        };
        assert_eq!(replayed.damage, vec![damage], "{context}");
        assert_eq!(reached(&found), whole, "{context}");
        let is_lost = |step: &&Step| matches!(step, Step::Lost(_));
        let others = texts((1..8).filter(|round| *round != number));
        let kept: Vec<_> = entries
            .iter()
            .filter(|text| others.contains(text))
            .collect();
        assert_eq!(
            kept.len(),
            others.len(),
            "{context}: all other rounds come back"
        );
        // Of a round whose table is sound one batch is lost and no more.
        repaired += usize::from(entries.len() == texts(1..8).len());
        assert!(found.iter().filter(is_lost).count() > 0, "{context}");
        told += 1;
    }
    assert!(
        told > 2000 && repaired > 500,
        "{told} told, {repaired} in part"
    );
}

#[test]
fn several_rounds_that_are_gone_are_told_by_the_one_behind_them() {
    for (from, pages) in [(1, 1), (1, 2), (2, 5), (5, 9)] {
        let machine = machine(1);
        let mut writer = writer(&machine, 60 * PAGE, Resume::default());
        commit_rounds(&mut writer, 1..30);
        let whole = reached(&steps(&machine, From::default()).0);
        let path = piece_path(Path::new(DIR), 0);
        let gone = from * PAGE..(from + pages) * PAGE;
        machine.rot(&path, gone, Rot::Zero).unwrap();
        let (found, replayed) = steps(&machine, From::default());
        let [damage] = replayed.damage[..] else {
            panic!("one gap, not {:?}", replayed.damage)
        };
        assert!(damage.is_named, "pages {from} to {}", from + pages);
        assert_eq!(reached(&found), whole, "pages {from} to {}", from + pages);
    }
}

#[test]
fn the_last_round_of_a_piece_is_told_by_the_next_piece() {
    let machine = machine(1);
    let mut writer = writer(&machine, 5 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..5);
    let whole = reached(&steps(&machine, From::default()).0);
    let path = piece_path(Path::new(DIR), 0);
    machine.rot(&path, 3 * PAGE..4 * PAGE, Rot::Zero).unwrap();
    let (found, replayed) = steps(&machine, From::default());
    let damage = Damage {
        from: 3,
        to: 4,
        is_named: true,
    };
    assert_eq!(replayed.damage, vec![damage]);
    assert_eq!(reached(&found), whole);

    // With the next piece's only round gone too, its header still says that there was more, and not what.
    let next = piece_path(Path::new(DIR), 1);
    machine.rot(&next, PAGE..2 * PAGE, Rot::Zero).unwrap();
    let (_, replayed) = steps(&machine, From::default());
    let damage = Damage {
        is_named: false,
        ..damage
    };
    assert_eq!(replayed.damage, vec![damage]);
    assert_eq!(replayed.resume.last_sequence, 3);
}

#[test]
fn relaxed_rounds_between_a_bad_one_and_a_synced_one_do_not_hide_it() {
    let machine = machine(1);
    let mut writer = writer(&machine, 40 * PAGE, Resume::default());
    for (number, sync) in [(1, true), (2, false), (3, false), (4, true), (5, true)] {
        writer.commit(&round(number), sync).unwrap();
    }
    let path = piece_path(Path::new(DIR), 0);
    machine.rot(&path, 2 * PAGE..3 * PAGE, Rot::Zero).unwrap();
    let (found, replayed) = found(&machine, From::default());
    for text in texts([1, 3, 4, 5]) {
        assert!(found.contains(&text), "acknowledged: {text}");
    }
    let damage = Damage {
        from: 2,
        to: 3,
        is_named: true,
    };
    assert_eq!(replayed.damage, vec![damage]);
}

#[test]
fn rounds_of_versions_without_echo_are_read_and_their_loss_has_no_names() {
    let machine = machine(1);
    let mut writer = writer(&machine, 40 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..3);
    // The second round repeats one row of the first; without it the round is as an earlier version wrote it.
    let path = piece_path(Path::new(DIR), 0);
    let file = machine.env().disk.open(&path, Open::Write).unwrap();
    let second = 2 * PAGE;
    let mut page = vec![0; PAGE as usize];
    file.read_exact_at(&mut page, second).unwrap();
    let front = 64 + 3 * 89;
    let echo = u32::from_le_bytes(page[48..52].try_into().unwrap()) as usize;
    assert_eq!(echo, 12 + 2 * 28);
    page.drain(front..front + echo);
    page.resize(PAGE as usize, 0);
    page[48..52].fill(0);
    let checksum = log::crc32c(&page[8..front]);
    page[4..8].copy_from_slice(&checksum.to_le_bytes());
    file.write_at(&[io::IoSlice::new(&page)], second).unwrap();
    assert_eq!(found(&machine, From::default()).0, texts(1..3));
    // The sound second round says nothing of a first one that is gone.
    let mut writer = {
        let (_, replayed) = steps(&machine, From::default());
        super::journal::writer(&machine, 40 * PAGE, replayed.resume)
    };
    commit_rounds(&mut writer, 3..4);
    machine.rot(&path, PAGE..2 * PAGE, Rot::Zero).unwrap();
    let (entries, replayed) = found(&machine, From::default());
    assert_eq!(entries, texts(2..4));
    let damage = Damage {
        from: 1,
        to: 2,
        is_named: false,
    };
    assert_eq!(replayed.damage, vec![damage]);
}

#[test]
fn a_piece_that_is_gone_is_told() {
    let machine = machine(1);
    let mut writer = writer(&machine, 9 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..41);
    let (_, before) = found(&machine, From::default());
    assert!(pieces(&before) > 4);
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
    let told = |text: &String| text.contains(" lost to ") || text.contains(" trim ");
    let batches = |texts: Vec<String>| -> Vec<String> {
        texts.into_iter().filter(|text| !told(text)).collect()
    };
    assert_eq!(batches(entries), batches(texts(left)));
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
    let mut writer = writer(&machine, 5 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..4);
    machine.faults(|faults| faults.disk_bytes = 6 * PAGE);
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

#[test]
fn a_round_that_was_written_to_the_wrong_place_costs_itself_and_what_it_overwrote() {
    let mut moved = 0;
    for seed in 0..40 {
        for at in 0..14 {
            let machine = machine(seed);
            let mut writer = writer(&machine, 24 * PAGE, Resume::default());
            // Of more than a page each, with tables of more than a page.
            let round =
                |number: u64| -> Vec<Entry> { (0..6).flat_map(|_| round(number)).collect() };
            for number in 1..8 {
                if number == 4 {
                    let next = machine.counts().writes + 1 + at % 4;
                    machine.faults(|faults| faults.misdirect_write_at = Some(next));
                }
                writer.commit(&round(number), true).unwrap();
            }
            moved += machine.counts().writes_misdirected;
            let (steps, replayed) = steps(&machine, From::default());
            let damaged: u64 = replayed.damage.iter().map(|it| it.to - it.from).sum();
            let context = format!("seed {seed}, write {at}: {:?}", replayed.damage);
            assert!(
                replayed.damage.iter().all(|damage| damage.is_named),
                "{context}"
            );
            // The write of the last round has nobody behind it.
            let last = replayed.resume.last_sequence;
            assert!(last >= 6, "{context}: {last}");
            assert!(damaged <= 4, "{context}");
            let whole: Vec<Step> = (1..last + 1).flat_map(round).map(Step::Entry).collect();
            assert_eq!(reached(&steps), reached(&whole), "{context}");
        }
    }
    assert!(moved > 300, "{moved}");
}

#[test]
fn a_piece_whose_new_header_went_astray_is_known_by_its_first_round() {
    let machine = machine(1);
    let mut writer = writer(&machine, 4 * PAGE, Resume::default());
    commit_rounds(&mut writer, 1..8);
    let from = From {
        sequence: writer.sequence(),
        checksum: writer.checksum(),
    };
    writer.release(from.sequence, 8).unwrap();
    let path = piece_path(Path::new(DIR), 0);
    let disk = machine.env().disk;
    let mut old = vec![0; PAGE as usize];
    disk.open(&path, Open::Read)
        .unwrap()
        .read_exact_at(&mut old, 0)
        .unwrap();
    commit_rounds(&mut writer, 8..20);
    let file = disk.open(&path, Open::Write).unwrap();
    let mut new = vec![0; PAGE as usize];
    file.read_exact_at(&mut new, 0).unwrap();
    assert_ne!(old, new, "the piece was used again");
    file.write_at(&[io::IoSlice::new(&old)], 0).unwrap();
    let (entries, replayed) = found(&machine, from);
    assert_eq!(entries, texts(8..20));
    assert_eq!(replayed.damage, Vec::new());
}

#[test]
fn rounds_that_an_earlier_start_cut_off_do_not_stand_in_for_damaged_ones() {
    let machine = machine(1);
    let mut first = writer(&machine, 40 * PAGE, Resume::default());
    commit_rounds(&mut first, 1..6);
    for number in 6..9 {
        first.commit(&round(number), false).unwrap();
    }
    let path = piece_path(Path::new(DIR), 0);
    // Six is torn, seven and eight are whole.
    machine.rot(&path, 6 * PAGE..7 * PAGE, Rot::Zero).unwrap();
    let (entries, replayed) = found(&machine, From::default());
    assert_eq!(entries, texts(1..6));
    assert_eq!(replayed.damage, Vec::new());
    let mut next = writer(&machine, 40 * PAGE, replayed.resume).behind(replayed.live);
    for (sequence, number) in [(6, 21), (7, 22), (8, 23)] {
        assert_eq!(next.commit(&round(number), true).unwrap(), sequence);
    }
    machine.rot(&path, 5 * PAGE..6 * PAGE, Rot::Zero).unwrap();
    let (entries, replayed) = found(&machine, From::default());
    for text in texts([1, 2, 3, 4, 21, 22, 23]) {
        assert!(entries.contains(&text), "acknowledged: {text}");
    }
    for text in texts([7, 8]) {
        assert!(!entries.contains(&text), "cut off before: {text}");
    }
    assert_eq!(replayed.damage.len(), 1);
    assert_eq!((replayed.damage[0].from, replayed.damage[0].to), (5, 6));
}

/// Rounds of one log that grows, is cut, grows again, and begins anew.
fn cut_rounds(writer: &mut Writer) -> Vec<Entry> {
    let whats = [
        What::Batch(batch(0, 8, 0)),
        What::Cut {
            to: Offset(8),
            epoch: LeaderEpoch(4),
        },
        What::Batch(batch(8, 2, 1)),
        What::Restart {
            log_start: Offset(90),
            at: Offset(90),
            epoch: LeaderEpoch(7),
        },
        What::Batch(batch(90, 1, 2)),
    ];
    let entries = whats.map(|what| Entry {
        topic: Uuid([1; 16]),
        partition: PartitionIndex(3),
        what,
    });
    for entry in &entries {
        writer.commit(std::slice::from_ref(entry), true).unwrap();
    }
    entries.into()
}

#[test]
fn cuts_come_back_in_their_place_and_a_damaged_round_is_told_with_its_cut() {
    for damaged in 1..5u64 {
        let machine = machine(1);
        let mut writer = writer(&machine, 30 * PAGE, Resume::default());
        let entries = cut_rounds(&mut writer);
        let want: Vec<String> = entries.iter().map(text).collect();
        assert_eq!(found(&machine, From::default()).0, want);
        let path = piece_path(Path::new(DIR), 0);
        // The head of a round: nothing of it can be read.
        let at = damaged * PAGE + 20;
        machine
            .rot(&path, at..at + 1, Rot::Flip { bit: 3 })
            .unwrap();
        let (steps, replayed) = steps(&machine, From::default());
        assert!(replayed.damage.iter().all(|damage| damage.is_named));
        let told = &steps[damaged as usize - 1];
        match (&entries[damaged as usize - 1].what, told) {
            (What::Batch(batch), Step::Lost(lost)) => assert_eq!(lost.end, batch.next_offset()),
            (
                What::Cut { to, .. },
                Step::Entry(Entry {
                    partition: PartitionIndex(3),
                    what: What::Cut { to: told, .. },
                    ..
                }),
            ) => assert_eq!(told, to),
            (What::Restart { at, .. }, Step::Entry(told)) => {
                let is_same = matches!(told.what, What::Restart { at: told, .. } if told == *at);
                assert!(is_same, "{told:?}");
            }
            (want, told) => panic!("{told:?} for {want:?}"),
        }
        assert_eq!(steps.len(), entries.len());
    }
}
