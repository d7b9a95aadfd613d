//! Power cuts: what a sync covered is there afterwards, and what is there is an exact beginning of what was appended.

use super::*;

pub(crate) fn machine(seed: u64) -> Machine {
    let machine = Machine::new(seed, Faults::default());
    let disk = machine.env().disk;
    disk.create_dir_all(std::path::Path::new("/data")).unwrap();
    disk.sync_dir(std::path::Path::new("/")).unwrap();
    machine
}

pub(crate) fn place(machine: &Machine) -> TestDir {
    TestDir {
        env: machine.env(),
        dir: PathBuf::from("/data/t-0"),
        machine: None,
        is_real: false,
    }
}

#[test]
fn synced_batches_survive_a_cut_and_the_rest_is_a_beginning() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..300 {
        let machine = machine(seed);
        let config = || LogConfig {
            preallocate: seed % 2 == 0,
            ..small_segments(900)
        };
        let batches: Vec<Batch> = (0..40).map(|i| batch(i * 2, 2, i)).collect();
        let synced = {
            let place = place(&machine);
            let store = place.create(config(), 0);
            store.sync().unwrap();
            place
                .env
                .disk
                .sync_dir(std::path::Path::new("/data"))
                .unwrap();
            let upto = (seed as usize * 7) % 40;
            append(&store, &batches[..upto]);
            let synced = store.sync().unwrap();
            append(&store, &batches[upto..]);
            machine.power_cut();
            synced
        };
        let place = place(&machine);
        let (store, _) = place.open(config(), None);
        let end = store.log_end();
        assert!(
            synced <= end,
            "seed {seed}: {end} of {synced} synced offsets are left"
        );
        let whole = &batches[..(end.0 / 2) as usize];
        if store.segments().len() > 1 {
            // A cut may take bytes of a segment before the last: found by a check, not by luck.
            let _ = store.verify(Offset(0), end);
        }
        assert_eq!(
            read_all(&store, 0, synced.0, 5000),
            batches[..(synced.0 / 2) as usize],
            "seed {seed}"
        );
        store.truncate_to(end).unwrap();
        append(&store, &[batch(end.0, 1, 0)]);
        assert_eq!(store.log_end(), end.advance(1));
        lost += usize::from(whole.len() < batches.len());
        kept += usize::from(end > synced);
    }
    assert!(
        lost > 20 && kept > 20,
        "cuts must lose some tails and keep others: {lost} lost, {kept} kept"
    );
}

#[test]
fn a_truncation_that_was_cut_off_leaves_a_shorter_log_and_nothing_else() {
    for seed in 0..200 {
        let machine = machine(seed);
        let batches: Vec<Batch> = (0..40).map(|i| batch(i * 2, 2, i)).collect();
        let before = place(&machine);
        let store = before.create(small_segments(900), 0);
        append(&store, &batches);
        store.sync().unwrap();
        before
            .env
            .disk
            .sync_dir(std::path::Path::new("/data"))
            .unwrap();
        let to = Offset((seed as i64 * 13) % 80);
        store.truncate_to(to).unwrap();
        if seed % 3 == 0 {
            store.sync().unwrap();
        }
        machine.power_cut();
        let after = place(&machine);
        let (store, _) = after.open(small_segments(900), None);
        let kept = &batches[..(to.0 / 2) as usize];
        let end = store.log_end();
        assert!(
            end.0 / 2 * 2 >= to.0 / 2 * 2,
            "seed {seed}: {end} is below {to}"
        );
        assert_eq!(
            read_all(&store, 0, to.0.min(end.0), 5000),
            kept,
            "seed {seed}"
        );
        // Repeating the truncation ends in the same log, whatever was left.
        store.truncate_to(to).unwrap();
        assert_eq!(
            read_all(&store, 0, store.log_end().0, 5000),
            kept,
            "seed {seed}"
        );
    }
}
