//! A simulated disk and a power cut: everything synced stays, everything else may go, and both really happen.

use std::collections::BTreeSet;
use std::io::{ErrorKind, IoSlice};
use std::path::Path;

use env::FileHandle;
use env::disk::Open;
use env::sim::{Faults, Machine, Rot};

const FILE: &str = "/data/file";

fn machine(seed: u64, faults: Faults) -> Machine {
    let machine = Machine::new(seed, faults);
    let disk = machine.env().disk;
    disk.create_dir_all(Path::new("/data")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    machine
}

fn open(machine: &Machine, path: &str, how: Open) -> FileHandle {
    machine.env().disk.open(Path::new(path), how).unwrap()
}

fn write(file: &FileHandle, bytes: &[u8], position: u64) {
    file.write_at(&[IoSlice::new(bytes)], position).unwrap();
}

fn content(machine: &Machine, path: &str) -> Option<Vec<u8>> {
    let file = match machine.env().disk.open(Path::new(path), Open::Read) {
        Ok(file) => file,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound);
            return None;
        }
    };
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    Some(bytes)
}

/// The different outcomes of `run` over many seeds.
fn outcomes<T: Ord>(run: impl Fn(u64) -> T) -> BTreeSet<T> {
    (0..200).map(run).collect()
}

fn synced_file(machine: &Machine, bytes: &[u8]) -> FileHandle {
    let file = open(machine, FILE, Open::Create);
    write(&file, bytes, 0);
    file.sync_data().unwrap();
    machine.env().disk.sync_dir(Path::new("/data")).unwrap();
    file
}

#[test]
fn synced_bytes_under_a_synced_name_survive_every_cut() {
    for seed in 0..200 {
        let machine = machine(seed, Faults::default());
        let file = synced_file(&machine, &[7; 10_000]);
        write(&file, &[9; 10_000], 10_000);
        machine.power_cut();
        assert!(
            content(&machine, FILE).unwrap().starts_with(&[7; 10_000]),
            "seed {seed}"
        );
    }
}

#[test]
fn a_synced_file_without_a_synced_name_may_be_gone() {
    let seen = outcomes(|seed| {
        let machine = machine(seed, Faults::default());
        let file = open(&machine, FILE, Open::Create);
        write(&file, b"content", 0);
        file.sync_data().unwrap();
        machine.power_cut();
        content(&machine, FILE)
    });
    assert_eq!(seen, BTreeSet::from([None, Some(b"content".to_vec())]));
}

#[test]
fn unsynced_pages_survive_independently_and_torn_at_sectors() {
    let (mut second_alone, mut torn) = (false, false);
    for seed in 0..300 {
        let machine = machine(seed, Faults::default());
        let file = synced_file(&machine, &[1; 8192]);
        write(&file, &[2; 4096], 0);
        write(&file, &[2; 4096], 4096);
        machine.power_cut();
        let bytes = content(&machine, FILE).unwrap();
        second_alone |= bytes[..4096] == [1; 4096] && bytes[4096..] == [2; 4096];
        for sector in bytes.chunks(512) {
            assert!(
                sector == [1; 512] || sector == [2; 512],
                "a sector is never torn"
            );
        }
        torn |= bytes[..4096].contains(&1) && bytes[..4096].contains(&2);
    }
    assert!(second_alone && torn);
}

#[test]
fn an_unsynced_length_is_any_of_those_it_had() {
    let seen = outcomes(|seed| {
        let machine = machine(seed, Faults::default());
        let file = synced_file(&machine, b"one");
        write(&file, b"two", 3);
        write(&file, b"three", 6);
        machine.power_cut();
        content(&machine, FILE).unwrap().len()
    });
    assert_eq!(seen, BTreeSet::from([3, 6, 11]));
}

#[test]
fn a_cut_of_the_length_comes_before_what_is_written_after_it() {
    let seen = outcomes(|seed| {
        let machine = machine(seed, Faults::default());
        let file = synced_file(&machine, &[1; 9000]);
        file.set_len(4096).unwrap();
        write(&file, &[2; 100], 4096);
        machine.power_cut();
        let bytes = content(&machine, FILE).unwrap();
        let (old, new) = (bytes[4096..].contains(&1), bytes[4096..].contains(&2));
        (bytes.len(), old, new)
    });
    let allowed = [
        (9000, true, false),
        (4096, false, false),
        (4196, false, false),
        (4196, false, true),
    ];
    assert_eq!(seen, BTreeSet::from(allowed));
}

#[test]
fn a_rename_without_a_synced_directory_happened_or_did_not() {
    let seen = outcomes(|seed| {
        let machine = machine(seed, Faults::default());
        synced_file(&machine, b"old");
        let new = open(&machine, "/data/new", Open::Create);
        write(&new, b"new", 0);
        new.sync_data().unwrap();
        let disk = machine.env().disk;
        disk.sync_dir(Path::new("/data")).unwrap();
        disk.rename(Path::new("/data/new"), Path::new(FILE))
            .unwrap();
        machine.power_cut();
        (
            content(&machine, FILE).unwrap(),
            content(&machine, "/data/new").is_some(),
        )
    });
    assert_eq!(
        seen,
        BTreeSet::from([(b"old".to_vec(), true), (b"new".to_vec(), false)])
    );
}

#[test]
fn a_kill_without_a_power_cut_loses_nothing() {
    for seed in 0..50 {
        let machine = machine(seed, Faults::default());
        let file = open(&machine, FILE, Open::Create);
        write(&file, b"unsynced", 0);
        let held = machine.env().disk.lock(Path::new("/data/.lock")).unwrap();
        machine.kill();
        assert!(file.sync_data().is_err(), "a handle ends with its process");
        assert_eq!(content(&machine, FILE).unwrap(), b"unsynced");
        let again = machine.env().disk.lock(Path::new("/data/.lock")).unwrap();
        drop(held);
        assert!(
            machine.env().disk.lock(Path::new("/data/.lock")).is_err(),
            "a stale lock frees nothing"
        );
        drop(again);
    }
}

#[test]
fn after_a_failed_sync_the_next_succeeds_and_the_data_is_gone() {
    let seen = outcomes(|seed| {
        let machine = machine(seed, Faults::default());
        let file = synced_file(&machine, &[1; 4096]);
        let next = machine.counts().syncs + 1;
        machine.faults(|faults| faults.sync_fails_at = Some(next));
        write(&file, &[2; 4096], 0);
        file.sync_data().unwrap_err();
        file.sync_data().unwrap();
        assert_eq!(
            content(&machine, FILE).unwrap(),
            [2; 4096],
            "the page cache still shows it"
        );
        machine.power_cut();
        content(&machine, FILE).unwrap()[0]
    });
    assert_eq!(seen, BTreeSet::from([1, 2]));
}

#[test]
fn the_power_goes_at_the_chosen_operation() {
    for k in 1..12 {
        let machine = Machine::new(
            k,
            Faults {
                crash_at_op: Some(k),
                ..Faults::default()
            },
        );
        let env = machine.env();
        let mut done = 0;
        let result = (|| {
            env.disk.create_dir_all(Path::new("/data"))?;
            done += 1;
            let file = env.disk.open(Path::new(FILE), Open::Create)?;
            done += 1;
            for number in 0..10 {
                file.write_at(&[IoSlice::new(b"x")], number)?;
                done += 1;
            }
            Ok::<_, std::io::Error>(())
        })();
        assert!(result.is_err() && machine.is_off());
        assert_eq!(done, k - 1);
        machine.power_cut();
        assert!(!machine.is_off() && machine.env().disk.exists(Path::new("/")).unwrap());
        assert!(
            env.disk.exists(Path::new("/")).is_err(),
            "the old life is over"
        );
    }
}

#[test]
fn a_full_disk_refuses_to_grow_and_lets_rewrite_and_delete() {
    let machine = machine(
        1,
        Faults {
            disk_bytes: 20 * 4096,
            ..Faults::default()
        },
    );
    let file = open(&machine, FILE, Open::Create);
    write(&file, &[1; 16 * 4096], 0);
    let full = file
        .write_at(&[IoSlice::new(&[1; 5 * 4096])], 16 * 4096)
        .unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    assert_eq!(
        file.allocate(0, 21 * 4096).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    write(&file, &[2; 16 * 4096], 0);
    let other = open(&machine, "/data/other", Open::Create);
    other
        .write_at(&[IoSlice::new(&[1; 5 * 4096])], 0)
        .unwrap_err();
    machine.env().disk.remove_file(Path::new(FILE)).unwrap();
    write(&other, &[3; 5 * 4096], 0);
    assert_eq!(machine.counts().writes_refused_full, 3);
}

#[test]
fn reads_fail_bits_rot_and_writes_go_astray_where_asked() {
    let machine = machine(3, Faults::default());
    let file = synced_file(&machine, &[1; 16_384]);
    machine
        .rot(Path::new(FILE), 5000..5001, Rot::Flip { bit: 7 })
        .unwrap();
    machine.power_cut();
    assert_eq!(content(&machine, FILE).unwrap()[4999..5002], [1, 129, 1]);
    assert!(file.read_at(&mut [0; 10], 0).is_err());

    let file = open(&machine, FILE, Open::Write);
    let next = machine.counts().writes + 1;
    machine.faults(|faults| faults.misdirect_write_at = Some(next));
    write(&file, &[5; 4096], 16_384);
    assert_eq!(file.len().unwrap(), 16_384, "it went elsewhere");
    assert!(
        content(&machine, FILE)
            .unwrap()
            .chunks(4096)
            .any(|page| page == [5; 4096])
    );

    machine.fail_reads(Path::new(FILE), 4096..4097).unwrap();
    assert!(file.read_at(&mut [0; 4096], 0).is_ok());
    assert_eq!(file.read_at(&mut [0; 4096], 1).unwrap(), 4095);
    assert!(file.read_at(&mut [0; 4096], 4096).is_err());
}

#[test]
fn bytes_of_one_file_land_in_another_and_outlive_a_power_cut() {
    const OTHER: &str = "/data/other";
    let machine = machine(5, Faults::default());
    synced_file(&machine, &[1; 10_000]);
    let other = open(&machine, OTHER, Open::Create);
    write(&other, &[2; 9_000], 0);
    other.sync_data().unwrap();
    machine.env().disk.sync_dir(Path::new("/data")).unwrap();
    let (from, to) = (Path::new(FILE), Path::new(OTHER));
    let writes = machine.counts().writes;

    // Across a border of pages, and not at the place it has in its own file.
    assert_eq!(machine.misdirect(from, 3000..6000, to, 4000).unwrap(), 3000);
    let mut expected = vec![2; 9_000];
    expected[4000..7000].fill(1);
    assert_eq!(content(&machine, OTHER).unwrap(), expected, "at once");
    machine.power_cut();
    assert_eq!(
        content(&machine, OTHER).unwrap(),
        expected,
        "on the platter"
    );
    assert_eq!(content(&machine, FILE).unwrap(), [1; 10_000]);

    // Equal bytes are no injury, and neither file gets longer or lends what it does not have.
    assert_eq!(machine.misdirect(from, 0..3000, to, 4000).unwrap(), 0);
    assert_eq!(
        machine.misdirect(from, 9_000..20_000, to, 8_500).unwrap(),
        500
    );
    expected[8_500..].fill(1);
    assert_eq!(content(&machine, OTHER).unwrap(), expected);
    assert_eq!(machine.misdirect(from, 0..10, to, 9_000).unwrap(), 0);
    assert_eq!(machine.misdirect(from, 10_000..10_010, to, 0).unwrap(), 0);
    assert_eq!(content(&machine, OTHER).unwrap(), expected);
    assert_eq!(machine.counts().writes, writes, "nobody wrote it");

    let gone = machine.misdirect(Path::new("/data/none"), 0..1, to, 0);
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_tape_gives_every_state_between_nothing_and_everything() {
    let machine = machine(1, Faults::default());
    let file = synced_file(&machine, &[1; 4096]);
    machine.record();
    write(&file, &[2; 4096], 0);
    write(&file, &[3; 100], 4096);
    machine
        .env()
        .disk
        .rename(Path::new(FILE), Path::new("/data/moved"))
        .unwrap();
    file.sync_data().unwrap();
    machine.env().disk.sync_dir(Path::new("/data")).unwrap();
    let tape = machine.tape();
    assert_eq!(tape.points(), 6);
    let states = |point: usize, most: usize| {
        let mut states = BTreeSet::new();
        for image in tape.images(point, most, 1) {
            let machine = Machine::on(1, Faults::default(), image.volume);
            let name = if content(&machine, FILE).is_some() {
                FILE
            } else {
                "/data/moved"
            };
            let bytes = content(&machine, name).unwrap();
            states.insert((name, bytes[0], bytes[4095], bytes.get(4096).copied()));
        }
        states
    };
    assert_eq!(states(0, 100), BTreeSet::from([(FILE, 1, 1, None)]));
    let whole_or_torn = [
        (FILE, 1, 1, None),
        (FILE, 2, 2, None),
        (FILE, 2, 1, None),
        (FILE, 1, 2, None),
    ];
    assert_eq!(states(1, 100), BTreeSet::from(whole_or_torn));
    // Four states of the first page, times: no second page, an empty one, a written one; times two names.
    assert_eq!(states(3, 1000).len(), 4 * 3 * 2);
    assert!(
        states(3, 5).len() <= 5 && 2 <= states(3, 2).len(),
        "a bound keeps the two extremes"
    );
    assert_eq!(
        states(4, 1000).len(),
        2,
        "after the sync only the name is open"
    );
    assert_eq!(
        states(5, 1000),
        BTreeSet::from([("/data/moved", 2, 2, Some(3))])
    );
}
