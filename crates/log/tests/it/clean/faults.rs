//! A pass of compaction that is cut off leaves the log before a swap or after it: by a crash at any moment, by a process that is
//! out of descriptors.

use super::*;

#[test]
fn every_state_that_a_crash_of_a_pass_can_leave_is_a_log_before_or_after_it() {
    let machine = Machine::new(11, Faults::default());
    let place = |machine: &Machine| TestDir {
        env: machine.env(),
        dir: PathBuf::from("/data/t-0"),
        machine: None,
        is_real: false,
    };
    let first = place(&machine);
    let chosen = Chosen {
        codec: Codec::None,
        keys: 15,
        batches: 90,
    };
    let batches = history(&first, &chosen);
    let whole = rows_of(&batches);
    let store = first.create(compacted(1500), 0);
    append(&store, &batches);
    store.roll(NOW).unwrap();
    // Checksums of the heads of those that are replaced are there, too.
    store.write_indexes().unwrap();
    store.sync().unwrap();
    first
        .env
        .disk
        .sync_dir(std::path::Path::new("/data"))
        .unwrap();
    first.env.disk.sync_dir(std::path::Path::new("/")).unwrap();
    let known = store.known();
    machine.record();
    compact(&store, &How::default()).unwrap();
    // A second one over the first, with other groups.
    let small = How {
        now: 60_000,
        ..How::default()
    };
    store.set_config(Arc::new(LogConfig {
        segment_bytes: 4000,
        ..compacted(1500)
    }));
    let facts = store.compaction_facts(store.log_end()).unwrap();
    let again = Order {
        first_dirty: Offset(0),
        upto: facts.segments.last().unwrap().base,
        now: Timestamp(60_000),
        seed: [3, 4],
        map_bytes_max: 1 << 20,
        map_load: 0.9,
        holes: Vec::new(),
    };
    drive(&store, Pass::new(&store, again), &small).unwrap();
    drop(store);
    let tape = machine.tape();
    let mut images = 0;
    let mut shapes = std::collections::BTreeSet::new();
    for point in 0..tape.points() {
        for image in tape.images(point, 5, 21) {
            let machine = Machine::on(5, Faults::default(), image.volume);
            let place = place(&machine);
            let context = format!("point {point} image {images}");
            let (store, found) = place.open(compacted(1500), Some(known));
            assert!(
                !found.known_is_stale && found.is_clean(),
                "{context}: {found:?}"
            );
            assert_eq!(store.log_end(), known.log_end, "{context}");
            shapes.insert((store.segments().len(), store.size()));
            check(&store, &whole, &context);
            let names = place.names();
            assert!(
                names
                    .iter()
                    .all(|name| !name.contains("cleaned") && !name.contains("swap")),
                "{context}: {names:?}"
            );
            // Once more from there, and nobody notices.
            if let Some(order) = order(&store, &How::default()) {
                drive(&store, Pass::new(&store, order), &How::default()).unwrap();
            }
            let (store, found) = place.open(compacted(1500), None);
            assert_eq!(found.damage, None, "{context}");
            check(&store, &whole, &context);
            images += 1;
        }
    }
    assert!(
        images > 200 && shapes.len() > 5,
        "{images} images, {shapes:?}"
    );
}

#[test]
fn a_pass_without_descriptors_leaves_a_log_that_goes_on() {
    // A log of many segments and a directory that is opened again: what a pass opens, it opens itself.
    let compacted_log = |place: &TestDir, refused: std::ops::Range<u64>| {
        let store = place.create(compacted(400), 0);
        let batches: Vec<Batch> = (0..30).map(|at| batch_of(at, 1, at, Codec::None)).collect();
        append(&store, &batches);
        store.roll(NOW).unwrap();
        store.write_indexes().unwrap();
        store.sync().unwrap();
        place.env.disk.sync_volume(&place.dir).unwrap();
        let machine = place.machine.as_ref().unwrap();
        let first = machine.counts().opens + 1;
        let how = How::default();
        let due = order(&store, &how).unwrap();
        let refused = first + refused.start..first.saturating_add(refused.end);
        machine.faults(|faults| faults.opens_fail = refused);
        let mut pass = Pass::new(&store, due);
        let done = loop {
            match pass.step(&store, 100, &mut || how.producers.clone()) {
                Ok(step) if step.outcome.is_some() => break Ok(()),
                Ok(_) => {}
                Err(error) => {
                    pass.abandon(&store);
                    break Err(error);
                }
            }
        };
        let opens = machine.counts().opens + 1 - first;
        machine.faults(|faults| faults.opens_fail = 0..0);
        (store, done, opens)
    };
    let (_, done, opens) = compacted_log(&TestDir::simulated(1), 0..0);
    assert!(done.is_ok() && opens > 10, "{opens} opens");
    let mut refusals = 0;
    for at in 0..opens {
        for count in [1, u64::MAX / 2] {
            let context = format!("{count} from {at} on");
            let place = TestDir::simulated(1);
            let (store, done, _) = compacted_log(&place, at..at + count);
            let is_passing = match &done {
                Ok(()) => true,
                Err(CleanError::Store(error)) => error.is_full(),
                Err(CleanError::Read(ReadError::Io { error, .. })) => log::journal::is_full(error),
                Err(_) => false,
            };
            assert!(is_passing, "{context}: {done:?}");
            refusals += usize::from(done.is_err());
            append(&store, &[batch_of(30, 1, 30, Codec::None)]);
            store.sync().unwrap();
            let machine = place.machine.as_ref().unwrap();
            machine.power_cut();
            let place = TestDir {
                env: machine.env(),
                dir: place.dir.clone(),
                machine: None,
                is_real: false,
            };
            let (again, found) = place.open(compacted(400), None);
            assert_eq!(found.damage, None, "{context}");
            assert_eq!(again.log_end(), Offset(31), "{context}");
            let last = read_all(&again, 30, 31, 400);
            assert_eq!(last[0].base_offset(), Offset(30), "{context}");
        }
    }
    assert!(refusals > 10, "{refusals}");
}
