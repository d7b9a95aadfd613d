//! A full volume: appends are refused, reads and deletes go on, and everything comes back with the room.

use super::*;

fn refuses(rig: &mut Rig, known: &mut [Known]) -> bool {
    match rig.append(0, &[value("probe", 1)], known) {
        Ok(_) => {
            rig.commit(known);
            false
        }
        Err(AppendError::Storage { full: true }) => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_full_volume_refuses_appends_and_takes_them_again_without_a_restart() {
    for room in 0..60 {
        let machine = machine(room);
        let mut known = vec![Known::default(); 2];
        let configs = [small_segments(), small_segments()];
        let mut rig = open(&machine, &configs).unwrap();
        machine.faults(|faults| faults.disk_bytes = (24 << 10) + room * 1500);
        let mut step = 0;
        while step < 400 && !rig.dir.is_full() {
            for at in 0..2 {
                let _ = rig.append(at, &[value("v", step)], &mut known);
            }
            rig.commit(&mut known);
            if step % 5 == 0 {
                rig.work(&machine, SECOND / 4, &mut known);
            }
            step += 1;
        }
        assert!(
            rig.dir.is_full() && !rig.dir.is_failed(),
            "room {room}: {step} steps"
        );
        rig.work(&machine, SECOND, &mut known);
        assert!(refuses(&mut rig, &mut known), "room {room}");
        for (at, known) in known.iter().enumerate() {
            let seen = rig.read(at).len() as i64;
            assert!(seen >= known.acked, "room {room}: reads go on");
        }
        machine.faults(|faults| faults.disk_bytes = 1 << 30);
        rig.work(&machine, 5 * SECOND, &mut known);
        assert!(!rig.dir.is_full(), "room {room}");
        assert!(
            rig.waiting.is_empty(),
            "room {room}: what waited for room is committed"
        );
        assert!(!refuses(&mut rig, &mut known), "room {room}");
        rig.work(&machine, SECOND, &mut known);
        drop(rig);
        machine.power_cut();
        let rig = open(&machine, &configs).unwrap();
        check(&rig, &mut known, &format!("room {room}"));
    }
}

#[test]
fn a_round_without_room_for_its_journal_piece_waits_and_is_committed_later() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 1];
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    machine.faults(|faults| faults.disk_bytes = 30 << 10);
    let mut steps = 0;
    while rig.waiting.is_empty() {
        rig.append(0, &[value("v", steps)], &mut known).unwrap();
        rig.commit(&mut known);
        steps += 1;
        assert!(steps < 20, "the first piece holds a few rounds");
    }
    assert!(rig.dir.is_full() && !rig.dir.is_failed());
    assert!(
        !rig.dir.has_queued(),
        "loops that wait for the queue may end"
    );
    assert!(refuses(&mut rig, &mut known));
    let acked = known[0].acked;
    rig.work(&machine, SECOND, &mut known);
    assert_eq!(known[0].acked, acked, "not before there is room");
    machine.faults(|faults| faults.disk_bytes = 1 << 30);
    rig.work(&machine, 5 * SECOND, &mut known);
    assert!(rig.waiting.is_empty() && rig.failed.is_empty());
    assert_eq!(known[0].acked, acked + 1);
    drop(rig);
    machine.power_cut();
    let rig = open(&machine, &[small_segments()]).unwrap();
    check(&rig, &mut known, "with room again");
}

/// The request that waits may be the deletion that makes room.
#[test]
fn a_journal_piece_that_a_checkpoint_gives_back_is_used_on_a_full_volume() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 1];
    let configs = [LogConfig {
        may_use_reserve: true,
        ..small_segments()
    }];
    let settings = DirSettings {
        reserve_bytes: 1 << 30,
        ..settings()
    };
    let mut rig = open_at(&machine, Path::new(DIR), settings, &configs).unwrap();
    machine.faults(|faults| faults.disk_bytes = 200 << 10);
    rig.work(&machine, SECOND, &mut known);
    assert!(rig.dir.is_full());
    for round in 0..3 {
        let mut steps = 0;
        while rig.waiting.is_empty() {
            let values = [value("v", steps), vec![3; 1000]];
            rig.append(0, &values, &mut known).unwrap();
            rig.commit(&mut known);
            steps += 1;
            assert!(steps < 1000, "the journal has room for some rounds");
        }
        // For the segments, and still far from enough.
        let room = machine.disk_taken() + (400 << 10);
        machine.faults(|faults| faults.disk_bytes = room);
        rig.work(&machine, 5 * SECOND, &mut known);
        assert!(rig.dir.is_full());
        assert!(rig.waiting.is_empty(), "round {round} waits for ever");
    }
    drop(rig);
    machine.power_cut();
    let rig = open_at(&machine, Path::new(DIR), settings, &configs).unwrap();
    check(&rig, &mut known, "after the full disk");
}

#[test]
fn the_metadata_may_use_the_reserve() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let metadata = LogConfig {
        may_use_reserve: true,
        ..small_segments()
    };
    let settings = DirSettings {
        reserve_bytes: 1 << 20,
        ..settings()
    };
    let configs = [small_segments(), metadata];
    let mut rig = open_at(&machine, Path::new(DIR), settings, &configs).unwrap();
    machine.faults(|faults| faults.disk_bytes = 1 << 20);
    rig.work(&machine, SECOND, &mut known);
    assert!(refuses(&mut rig, &mut known));
    rig.append(1, &[value("delete a topic", 1)], &mut known)
        .unwrap();
    rig.commit(&mut known);
    assert_eq!(known[1].acked, 1);
}

/// A client that finds the disk full asks again for hours.
#[test]
fn trims_of_a_partition_that_find_no_room_are_one_entry_with_all_who_wait() {
    const TRIMS: usize = 4000;
    let machine = machine(1);
    let mut known = vec![Known::default(); 1];
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let values: Vec<_> = (0..TRIMS).map(|n| value("v", n)).collect();
    rig.append(0, &values, &mut known).unwrap();
    rig.commit(&mut known);
    rig.work(&machine, SECOND, &mut known);
    let before = machine.disk_taken();
    machine.faults(|faults| faults.disk_bytes = before);
    for to in 1..=TRIMS {
        rig.trim(0, to as i64, &mut known).unwrap();
    }
    let piece = settings().journal_piece_bytes;
    machine.faults(|faults| faults.disk_bytes = before + 2 * piece);
    rig.commit(&mut known);
    rig.work(&machine, 5 * SECOND, &mut known);
    rig.commit(&mut known);
    assert_eq!(known[0].start, TRIMS as i64);
    assert!(rig.waiting.is_empty() && rig.failed.is_empty());
    drop(rig);
    machine.power_cut();
    let rig = open(&machine, &[small_segments()]).unwrap();
    check(&rig, &mut known, "with room again");
}

/// Fills a volume under load until appends are refused; returns with the broker gone and the volume as full as it was.
fn fill(machine: &Machine, configs: &[LogConfig], room: u64, known: &mut [Known]) {
    let mut rig = open(machine, configs).unwrap();
    machine.faults(|faults| faults.disk_bytes = (30 << 10) + room * 1500);
    let mut step = 0;
    while !rig.dir.is_full() {
        for at in 0..2 {
            let _ = rig.append(at, &[value("v", step)], known);
        }
        rig.commit(known);
        if step % 5 == 0 {
            rig.work(machine, SECOND / 4, known);
        }
        step += 1;
        assert!(step < 400, "room {room}");
    }
    rig.work(machine, SECOND, known);
}

#[test]
fn a_start_on_a_volume_that_is_still_full_serves_reads_and_takes_appends_when_there_is_room() {
    let mut unsettled = 0;
    for room in 0..40 {
        let machine = machine(room);
        let mut known = vec![Known::default(); 2];
        let configs = [small_segments(), small_segments()];
        fill(&machine, &configs, room, &mut known);
        if room % 2 == 0 {
            machine.kill();
        } else {
            machine.power_cut();
        }
        // Not one byte more than there is.
        let taken = machine.disk_taken();
        machine.faults(|faults| faults.disk_bytes = taken);
        for start in 0..3 {
            let mut rig = open(&machine, &configs)
                .unwrap_or_else(|error| panic!("room {room}, start {start}: {error}"));
            unsettled += usize::from(rig.dir.is_full());
            check(&rig, &mut known, &format!("room {room}, start {start}"));
            if rig.dir.is_full() {
                assert!(refuses(&mut rig, &mut known), "room {room}");
            }
            rig.work(&machine, SECOND, &mut known);
            check(
                &rig,
                &mut known,
                &format!("room {room}, start {start}, later"),
            );
            drop(rig);
            if (room + start) % 3 == 0 {
                machine.power_cut();
            } else {
                machine.kill();
            }
        }
        let mut rig = open(&machine, &configs).unwrap();
        machine.faults(|faults| faults.disk_bytes = 1 << 30);
        rig.work(&machine, 5 * SECOND, &mut known);
        assert!(!rig.dir.is_full(), "room {room}");
        assert!(!refuses(&mut rig, &mut known), "room {room}");
        for number in 0..40 {
            rig.append(0, &[value("more", number)], &mut known).unwrap();
            rig.commit(&mut known);
        }
        rig.work(&machine, SECOND, &mut known);
        check(&rig, &mut known, &format!("room {room}, with room again"));
        if room % 2 == 0 {
            rig.stop();
        }
        drop(rig);
        machine.power_cut();
        let rig = open(&machine, &configs).unwrap();
        check(&rig, &mut known, &format!("room {room}, at the end"));
    }
    assert!(unsettled > 40, "{unsettled} starts found no room");
}

/// Seed 5102 of the simulator: a round whose sync had failed was read from the cache, shown, and gone with the power.
#[test]
fn what_a_start_on_a_full_volume_shows_outlives_the_power_though_its_sync_had_failed() {
    let mut shown_unproven = 0;
    for room in 0..20 {
        let machine = machine(room);
        let mut known = vec![Known::default(); 2];
        let configs = [small_segments(), small_segments()];
        fill(&machine, &configs, room, &mut known);
        machine.kill();
        machine.faults(|faults| faults.disk_bytes = 1 << 30);
        let mut rig = open(&machine, &configs).unwrap();
        rig.append(0, &[value("acked", 1)], &mut known).unwrap();
        rig.commit(&mut known);
        let sync = machine.counts().syncs + 1;
        machine.faults(|faults| faults.sync_fails_at = Some(sync));
        rig.append(0, &[value("never acked", 1)], &mut known)
            .unwrap();
        rig.commit(&mut known);
        assert!(rig.dir.is_failed(), "room {room}");
        let acked = known[0].acked;
        drop(rig);
        machine.kill();
        let taken = machine.disk_taken();
        machine.faults(|faults| (faults.sync_fails_at, faults.disk_bytes) = (None, taken));
        let rig = open(&machine, &configs).unwrap();
        let shown = rig.partitions[0].bounds().high_watermark;
        shown_unproven += usize::from(rig.dir.is_full() && shown.0 as usize > acked as usize);
        drop(rig);
        machine.power_cut();
        let rig = open(&machine, &configs).unwrap();
        let kept = rig.partitions[0].bounds().high_watermark;
        assert!(kept >= shown, "room {room}: {shown:?} became {kept:?}");
    }
    assert!(shown_unproven > 5, "{shown_unproven}");
}
