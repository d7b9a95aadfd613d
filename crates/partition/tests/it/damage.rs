//! Acknowledged bytes that rot: what is lost is told at every read and after every start, and nothing else is lost with it.

use env::sim::Rot;
use partition::{ReadError, accept_loss};

use super::*;

fn is_damaged(rig: &Rig, offset: i64) -> bool {
    matches!(
        plan(&rig.partitions[0], Offset(offset)),
        Err(ReadError::Damaged { .. })
    )
}

#[test]
fn a_hole_is_told_after_every_restart() {
    let machine = machine(7);
    let configs = vec![small_segments()];
    let mut known = vec![Known::default(); 1];
    let mut rig = open(&machine, &configs).unwrap();
    for number in 0..4 {
        rig.append(0, &[value("v", number)], &mut known).unwrap();
        rig.commit(&mut known);
    }
    drop(rig);
    machine.kill();
    // Page 0 names the piece; each of the small rounds has a page of its own, so this is the record at offset 1.
    let piece = Path::new(DIR).join("journal/00000000.journal");
    let page = 2 * 4096..2 * 4096 + 40;
    machine.rot(&piece, page, Rot::Flip { bit: 3 }).unwrap();

    for start in 0..3 {
        let rig = open(&machine, &configs).unwrap();
        assert_eq!(
            rig.partitions[0].bounds().log_end,
            Offset(4),
            "start {start}"
        );
        let read = |offset| plan(&rig.partitions[0], Offset(offset)).unwrap();
        assert_eq!(
            read(0).last().unwrap().next_offset(),
            Offset(1),
            "start {start}"
        );
        assert!(is_damaged(&rig, 1), "start {start}");
        assert_eq!(read(2)[0].base_offset(), Offset(2), "start {start}");
        drop(rig);
        machine.kill();
    }

    // A checkpoint of a later life keeps it as well.
    let mut rig = open(&machine, &configs).unwrap();
    rig.append(0, &[value("later", 1)], &mut known).unwrap();
    rig.commit(&mut known);
    rig.stop();
    drop(rig);
    machine.kill();
    let rig = open(&machine, &configs).unwrap();
    assert!(is_damaged(&rig, 1));
}

/// One record per round: `rounds` says to which partition each goes.
pub(super) fn rounds(rig: &mut Rig, rounds: &[usize], known: &mut [Known]) {
    for (number, at) in rounds.iter().enumerate() {
        rig.append(*at, &[value("v", number % 10)], known).unwrap();
        rig.commit(known);
    }
}

fn ends(rig: &Rig) -> Vec<i64> {
    let ends = rig.partitions.iter();
    ends.map(|partition| partition.bounds().log_end.0).collect()
}

/// Pages of the first journal piece; the round of number n has page n where rounds are small.
fn zero_pages(machine: &Machine, pages: std::ops::Range<u64>) {
    let piece = Path::new(DIR).join("journal/00000000.journal");
    let bytes = pages.start * 4096..pages.end * 4096;
    machine.rot(&piece, bytes, Rot::Zero).unwrap();
}

#[test]
fn a_damaged_round_that_was_the_last_of_its_partition_does_not_shorten_the_log() {
    for (seed, lost) in [(1, 1..2), (2, 2..3), (3, 1..3)] {
        let machine = machine(seed);
        let configs = vec![small_segments(), small_segments(), small_segments()];
        let mut known = vec![Known::default(); 3];
        let mut rig = open(&machine, &configs).unwrap();
        rounds(&mut rig, &[0, 1, 2], &mut known);
        drop(rig);
        if seed == 2 {
            machine.power_cut();
        } else {
            machine.kill();
        }
        zero_pages(&machine, lost.clone());
        let is_lost = |at: usize| lost.contains(&(at as u64 + 1));
        for start in 0..3 {
            let rig = open(&machine, &configs).unwrap();
            assert_eq!(ends(&rig), [1, 1, 1], "seed {seed}, start {start}");
            for at in 0..3 {
                let read = plan(&rig.partitions[at], Offset(0));
                if is_lost(at) {
                    assert!(matches!(read, Err(ReadError::Damaged { .. })), "t{at}")
                } else {
                    assert_eq!(read.unwrap().len(), 1, "t{at}")
                }
            }
            drop(rig);
            machine.power_cut();
        }
        // The log goes on behind its hole, and no offset is used twice.
        let mut rig = open(&machine, &configs).unwrap();
        for at in 0..3 {
            assert_eq!(rig.append(at, &[value("later", 1)], &mut known).unwrap(), 1);
        }
        rig.commit(&mut known);
        rig.stop();
        drop(rig);
        machine.kill();
        let rig = open(&machine, &configs).unwrap();
        assert_eq!(ends(&rig), [2, 2, 2]);
        for at in 0..3 {
            let read = plan(&rig.partitions[at], Offset(0));
            assert_eq!(read.is_err(), is_lost(at), "t{at}");
            let later = plan(&rig.partitions[at], Offset(1)).unwrap();
            assert_eq!(later[0].base_offset(), Offset(1));
        }
    }
}

#[test]
fn an_end_in_a_hole_outlives_checkpoints_and_a_trim_of_everything() {
    let machine = machine(5);
    let configs = vec![small_segments(), small_segments()];
    let mut known = vec![Known::default(); 2];
    let mut rig = open(&machine, &configs).unwrap();
    rounds(&mut rig, &[0, 0, 1], &mut known);
    drop(rig);
    machine.kill();
    zero_pages(&machine, 2..3);
    let mut rig = open(&machine, &configs).unwrap();
    assert_eq!(ends(&rig), [2, 1]);
    rig.stop();
    drop(rig);
    machine.kill();
    let mut rig = open(&machine, &configs).unwrap();
    assert_eq!(ends(&rig), [2, 1]);
    assert!(is_damaged(&rig, 1));
    rig.trim(0, 2, &mut known).unwrap();
    rig.commit(&mut known);
    rig.stop();
    drop(rig);
    machine.kill();
    for start in 0..2 {
        let rig = open(&machine, &configs).unwrap();
        let bounds = rig.partitions[0].bounds();
        assert_eq!(
            (bounds.log_start, bounds.log_end),
            (Offset(2), Offset(2)),
            "start {start}"
        );
        drop(rig);
        machine.power_cut();
    }
    let mut rig = open(&machine, &configs).unwrap();
    assert_eq!(rig.append(0, &[value("later", 1)], &mut known).unwrap(), 2);
    rig.commit(&mut known);
    rig.stop();
    drop(rig);
    machine.kill();
    let rig = open(&machine, &configs).unwrap();
    assert_eq!(rig.read(0).into_keys().collect::<Vec<_>>(), [2]);
}

#[test]
fn a_trim_in_a_damaged_round_is_not_forgotten() {
    let machine = machine(6);
    let configs = vec![small_segments(), small_segments()];
    let mut known = vec![Known::default(); 2];
    let mut rig = open(&machine, &configs).unwrap();
    rounds(&mut rig, &[0, 0], &mut known);
    rig.trim(0, 1, &mut known).unwrap();
    rig.commit(&mut known);
    rounds(&mut rig, &[1], &mut known);
    drop(rig);
    machine.kill();
    zero_pages(&machine, 3..4);
    let rig = open(&machine, &configs).unwrap();
    assert_eq!(rig.partitions[0].bounds().log_start, Offset(1));
    assert_eq!(rig.read(0).into_keys().collect::<Vec<_>>(), [1]);
}

#[test]
fn damage_that_nothing_names_keeps_the_directory_closed_until_it_is_accepted() {
    let machine = machine(7);
    let settings = DirSettings {
        journal_first_piece_bytes: 1 << 20,
        checkpoint_bytes: 1 << 30,
        ..settings()
    };
    let configs = vec![small_segments(), small_segments()];
    let mut known = vec![Known::default(); 2];
    let path = Path::new(DIR);
    let mut rig = open_at(&machine, path, settings, &configs).unwrap();
    let mut order = vec![0; 1];
    order.resize(200, 1);
    rounds(&mut rig, &order, &mut known);
    drop(rig);
    machine.kill();
    // Of 149 rounds some are named by the one behind them, and not the first, the only one of its partition.
    zero_pages(&machine, 1..150);
    for _ in 0..2 {
        let refused = open_at(&machine, path, settings, &configs).err();
        let Some(OpenError::Damaged { what, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert!(what.contains("rounds 1 to 149"), "{what}");
        assert!(what.contains("--accept-loss"), "{what}");
    }
    let accepted = accept_loss(&machine.env(), path).unwrap();
    assert_eq!(accepted.len(), 1);
    for _ in 0..2 {
        let rig = open_at(&machine, path, settings, &configs).unwrap();
        assert_eq!(ends(&rig), [0, 199], "the operator knows");
        drop(rig);
        machine.power_cut();
    }
    assert_eq!(accept_loss(&machine.env(), path).unwrap(), []);
    let names = machine.env().disk.read_dir(path).unwrap();
    assert!(names.iter().all(|entry| !entry.name.contains("accepted")));
}

pub(super) const COUNT: usize = 60;

/// A partition whose records are all in files that nobody has looked at in this life of the process.
pub(super) fn cold(machine: &Machine) -> Rig {
    let configs = vec![small_segments()];
    let mut known = vec![Known::default(); 1];
    let mut rig = open(machine, &configs).unwrap();
    rounds(&mut rig, &[0; COUNT], &mut known);
    rig.stop();
    drop(rig);
    machine.kill();
    open(machine, &configs).unwrap()
}

/// A start found the first file missing and took the log to begin behind it.
#[test]
fn files_that_are_missing_above_the_log_start_are_a_hole_after_every_start() {
    let machine = machine(17);
    drop(cold(&machine));
    machine.kill();
    let disk = machine.env().disk;
    let dir = Path::new(DIR).join("t0-0");
    let mut names: Vec<_> = disk
        .read_dir(&dir)
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    names.retain(|name| name.ends_with(".log"));
    names.sort();
    disk.remove_file(&dir.join(&names[0])).unwrap();
    let second: i64 = names[1].trim_end_matches(".log").parse().unwrap();
    let mut known = vec![Known::default(); 1];
    for start in 0..3 {
        let mut rig = open(&machine, &[small_segments()]).unwrap();
        let bounds = rig.partitions[0].bounds();
        assert_eq!(
            (bounds.log_start, bounds.local_start, bounds.log_end),
            (Offset(0), Offset(0), Offset(COUNT as i64)),
            "start {start}"
        );
        for from in [0, second - 1] {
            let Err(ReadError::Damaged { hole }) = plan(&rig.partitions[0], Offset(from)) else {
                panic!("start {start}: offset {from} is missing");
            };
            assert_eq!((hole.from, hole.to), (Offset(0), Offset(second)));
        }
        let behind = plan(&rig.partitions[0], Offset(second)).unwrap();
        assert_eq!(behind[0].base_offset(), Offset(second));
        rig.stop();
        drop(rig);
        machine.kill();
    }
    // A trim goes over it as over records.
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    rig.trim(0, second, &mut known).unwrap();
    rig.commit(&mut known);
    drop(rig);
    machine.kill();
    let rig = open(&machine, &[small_segments()]).unwrap();
    assert_eq!(rig.partitions[0].bounds().log_start, Offset(second));
    assert!(plan(&rig.partitions[0], Offset(second)).is_ok());
}

/// The row of the checkpoint has the old start when files below the new one go.
#[test]
fn files_that_are_missing_below_a_log_start_in_the_journal_are_expected() {
    let machine = machine(18);
    let mut known = vec![Known::default(); 1];
    let mut rig = cold(&machine);
    rig.trim(0, 40, &mut known).unwrap();
    rig.commit(&mut known);
    // The files go, and no checkpoint is taken.
    let disk = machine.env().disk;
    let first = Path::new(DIR).join("t0-0/00000000000000000000.log");
    rig.work(&machine, SECOND, &mut known);
    assert!(disk.open(&first, env::disk::Open::Read).is_err());
    drop(rig);
    machine.kill();
    let rig = open(&machine, &[small_segments()]).unwrap();
    assert!(
        rig.rounds > 0,
        "the journal has the trim, no checkpoint does"
    );
    assert_eq!(rig.partitions[0].bounds().log_start, Offset(40));
    assert_eq!(rig.read(0).len(), COUNT - 40);
    let extent = rig.extents.values().next().unwrap();
    assert_eq!(extent.lost_count, 0);
}
