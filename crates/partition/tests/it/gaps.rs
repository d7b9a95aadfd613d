//! Followers of logs that are compacted, or were: there is nothing between some of their batches.

use partition::{Asked, FollowError, Replicas};

use super::cuts::{EPOCH, commit, contents, follow, follow_in, follower, led, shape, unled};
use super::*;

/// What a leader's compaction left out is nothing that this log has lost, in this life or in the next.
#[test]
fn follower_of_a_compacted_log_has_its_gaps() {
    let machine = machine(1);
    let open = || {
        let mut config = small_segments();
        config.cleanup_policy.compact = true;
        let configs = [config.clone(), config];
        let rig = open_unled(
            &machine,
            Path::new(DIR),
            settings(),
            &configs,
            |_| true,
            told(TOPICS),
        );
        let rig = rig.unwrap();
        follow_in(&rig, EPOCH);
        rig
    };
    let mut rig = open();
    let sent = [
        led(0, 2, &[value("a", 0)]),
        led(9, EPOCH, &[value("a", 1), value("a", 2)]),
        led(11, EPOCH, &[value("b", 3)]),
    ];
    follow(&mut rig, &sent[..2], EPOCH).unwrap();
    commit(&rig);
    follow(&mut rig, &sent[2..], EPOCH).unwrap();
    commit(&rig);
    assert_eq!(rig.partitions[0].synced().up_to, Offset(12));
    let want = sent.each_ref().map(shape);
    assert_eq!(contents(&rig.partitions[0]), want);
    drop(rig);
    machine.power_cut();
    let mut rig = open();
    assert_eq!(contents(&rig.partitions[0]), want);
    let later = led(20, EPOCH, &[value("c", 4)]);
    follow(&mut rig, std::slice::from_ref(&later), EPOCH).unwrap();
    commit(&rig);
    drop(rig);
    machine.kill();
    let rig = open();
    assert_eq!(contents(&rig.partitions[0]).last(), Some(&shape(&later)));
    assert_eq!(rig.partitions[0].bounds().log_end, Offset(21));
}

/// The policy may have been another one when the leader's log got its gaps, or may be another one here than at the leader.
#[test]
fn gaps_that_are_certain_are_none_of_this_logs_losses_whatever_its_policy() {
    let machine = machine(1);
    let mut rig = follower(&machine);
    let sent = [
        led(7, 2, &[value("a", 0)]),
        led(19, EPOCH, &[value("a", 1), value("a", 2)]),
        led(30, EPOCH, &[value("b", 3)]),
    ];
    let bytes = |of: &[Batch]| -> Bytes {
        let all: Vec<u8> = of.iter().flat_map(|of| of.to_bytes()).collect();
        all.into()
    };
    let mut take = |of: &[Batch], from: Option<i64>| {
        let asked = Asked {
            epoch: LeaderEpoch(EPOCH),
            from: from.map(Offset),
        };
        let moment = Moment {
            now: model::Instant(0),
            wall: Timestamp(1_700_000_000_000),
            stamp: &mut rig.stamp,
        };
        super::take(&rig.partitions[0], &bytes(of), asked, moment)
    };
    for from in [None, Some(1)] {
        let refused = take(&sent[..2], from);
        assert!(matches!(refused, Err(FollowError::Gap { .. })), "{from:?}");
    }
    assert_eq!(take(&sent[..2], Some(0)).unwrap().end, Offset(21));
    let refused = take(&sent[2..], Some(0));
    assert!(matches!(refused, Err(FollowError::Gap { .. })));
    assert_eq!(take(&sent[2..], Some(21)).unwrap().end, Offset(31));
    commit(&rig);
    let want = sent.each_ref().map(shape);
    let is_whole = |rig: &Rig| {
        let bounds = rig.partitions[0].bounds();
        assert_eq!((bounds.log_start, bounds.log_end), (Offset(0), Offset(31)));
        assert!(!rig.partitions[0].has_holes());
        assert_eq!(contents(&rig.partitions[0]), want);
    };
    is_whole(&rig);
    drop(rig);
    machine.power_cut();
    // From the journal, and from files that the segment writer made.
    for _ in 0..2 {
        let mut rig = unled(&machine).unwrap();
        is_whole(&rig);
        rig.work(&machine, SECOND, &mut vec![Known::default(); 2]);
        rig.stop();
        drop(rig);
        machine.power_cut();
    }
    let mut rig = unled(&machine).unwrap();
    is_whole(&rig);
    // A log that begins in the middle of a gap in this life.
    assert!(rig.partitions[1].bounds().log_end == Offset(0));
    let first = led(12, EPOCH, &[value("c", 0)]);
    set_role(&rig.partitions[1], EPOCH, Role::NotLeading);
    let asked = Asked {
        epoch: LeaderEpoch(EPOCH),
        from: Some(Offset(0)),
    };
    let moment = Moment {
        now: model::Instant(0),
        wall: Timestamp(1_700_000_000_000),
        stamp: &mut rig.stamp,
    };
    let sent = bytes(std::slice::from_ref(&first));
    super::take(&rig.partitions[1], &sent, asked, moment).unwrap();
    commit(&rig);
    rig.work(&machine, SECOND, &mut vec![Known::default(); 2]);
    rig.stop();
    drop(rig);
    let rig = unled(&machine).unwrap();
    assert!(!rig.partitions[1].has_holes());
    assert_eq!(rig.partitions[1].bounds().log_start, Offset(0));
    assert_eq!(contents(&rig.partitions[1]), [shape(&first)]);
}

/// The committed offset of before a crash may be one that compaction has left no batch for: what is there ends above it. A reader was
/// told that all of it is damaged.
#[test]
fn a_reader_waits_where_the_next_batch_ends_above_what_is_committed() {
    let machine = machine(1);
    let mut rig = follower(&machine);
    let mut take = |batch: &Batch, from: i64| {
        let asked = Asked {
            epoch: LeaderEpoch(EPOCH),
            from: Some(Offset(from)),
        };
        let moment = Moment {
            now: model::Instant(0),
            wall: Timestamp(1_700_000_000_000),
            stamp: &mut rig.stamp,
        };
        let followed = super::take(&rig.partitions[0], &batch.to_bytes(), asked, moment);
        followed.unwrap();
    };
    take(&led(0, EPOCH, &[value("a", 0)]), 0);
    take(&led(9, EPOCH, &[value("a", 1), value("a", 2)]), 1);
    commit(&rig);
    let partition = Arc::clone(&rig.partitions[0]);
    partition.on_committed(Offset(5), &mut Vec::new());
    // The first batch is in files then, and in memory no more.
    rig.work(&machine, SECOND, &mut vec![Known::default(); 2]);
    rig.stop();
    drop((rig, partition));
    let mut rig = unled(&machine).unwrap();
    let me = BrokerId(1);
    let other = BrokerId(2);
    let role = Role::Leading(Replicas {
        me,
        all: vec![me, other],
        in_sync: vec![me, other],
        partition_epoch: 1,
    });
    set_role(&rig.partitions[0], EPOCH + 1, role);
    let seen = |rig: &Rig, from: i64| {
        let read = rig.partitions[0].read(read_from(Offset(from)));
        let read = read.unwrap_or_else(|error| panic!("{error}"));
        (read.bounds.high_watermark.0, !read.records.is_empty())
    };
    assert_eq!(seen(&rig, 0), (5, true));
    assert_eq!(seen(&rig, 1), (5, false), "in the gap");
    assert_eq!(seen(&rig, 4), (5, false));
    let said = partition::FollowerAt {
        epoch: LeaderEpoch(EPOCH + 1),
        broker: other,
        broker_epoch: 1,
        log_start: Offset(0),
        synced: Offset(11),
    };
    rig.partitions[0].on_follower_at(said, &mut Vec::new());
    assert_eq!(seen(&rig, 1), (11, true));
    rig.stop();
}

/// The batches up to a gap at the end.
fn readable(partition: &Partition) -> Vec<(i64, i32, Vec<u8>)> {
    let (mut next, mut all) = (Offset(0), Vec::new());
    loop {
        let request = ReadRequest {
            scope: Scope::of_any(Isolation::Log),
            ..read_from(next)
        };
        let batches = match partition.read(request).unwrap().records {
            Records::AtEnd => return all,
            Records::Memory(batches) => batches,
            Records::File(slice) => {
                let bytes = slice.read().unwrap();
                Batch::cut(&bytes, Source::Log)
                    .map_while(Result::ok)
                    .collect()
            }
        };
        next = batches.last().expect("a batch").next_offset();
        all.extend(batches.iter().map(shape));
    }
}

/// Between the last batch of a log and the place of a cut there may be a gap: nothing in front of it is lost, wherever a crash comes.
#[test]
fn a_log_that_is_cut_at_the_end_of_a_gap_has_lost_nothing() {
    let sent = [
        led(0, 2, &[value("a", 0)]),
        led(9, 3, &[value("a", 1), value("a", 2)]),
        led(20, 3, &[value("b", 3)]),
        led(21, 3, &[value("b", 4)]),
    ];
    let other = led(20, EPOCH + 1, &[value("c", 5)]);
    for case in 0..32 {
        let is = |bit: u32| case & 1 << bit != 0;
        let (is_stored, is_stored_first, is_cut_in_files, goes_on, loses_power) =
            (is(0), is(1), is(2), is(3), is(4));
        let machine = machine(case);
        let open = || {
            let mut config = small_segments();
            config.cleanup_policy.compact = true;
            let configs = [config.clone(), config];
            let lives = |_| true;
            let dir = Path::new(DIR);
            open_unled(&machine, dir, settings(), &configs, lives, told(TOPICS)).unwrap()
        };
        let work = |rig: &mut Rig| {
            let mut known = vec![Known::default(); 2];
            rig.work(&machine, SECOND, &mut known);
        };
        let mut rig = open();
        follow_in(&rig, EPOCH);
        let first = if is_stored_first { 2 } else { 4 };
        follow(&mut rig, &sent[..first], EPOCH).unwrap();
        commit(&rig);
        if is_stored {
            // The next start takes a checkpoint.
            work(&mut rig);
            drop(rig);
            machine.kill();
            rig = open();
            follow_in(&rig, EPOCH);
        }
        follow(&mut rig, &sent[first..], EPOCH).unwrap();
        commit(&rig);
        work(&mut rig);
        follow_in(&rig, EPOCH + 1);
        rig.partitions[0]
            .cut(Offset(20), LeaderEpoch(EPOCH + 1))
            .unwrap();
        commit(&rig);
        if is_cut_in_files {
            work(&mut rig);
        }
        let mut want: Vec<_> = sent[..2].iter().map(shape).collect();
        let mut end = 20;
        if goes_on {
            follow(&mut rig, std::slice::from_ref(&other), EPOCH + 1).unwrap();
            commit(&rig);
            want.push(shape(&other));
            end = 21;
        }
        drop(rig);
        if loses_power {
            machine.power_cut();
        } else {
            machine.kill();
        }
        for life in 0..2 {
            let mut rig = open();
            let partition = Arc::clone(&rig.partitions[0]);
            assert!(!partition.has_holes(), "case {case}, life {life}");
            assert_eq!(
                partition.bounds().log_end,
                Offset(end),
                "case {case}, life {life}"
            );
            assert_eq!(readable(&partition), want, "case {case}, life {life}");
            work(&mut rig);
            drop(rig);
            machine.kill();
        }
    }
}

/// The offsets that are known to be committed after a start may end in the middle of a gap, and a cut may leave the gap at the end of the files: in both
/// cases nothing is damaged, and there is nothing to show, or what is behind the gap.
#[test]
fn a_reader_in_a_gap_is_told_of_no_damage() {
    let machine = machine(1);
    let open = || {
        let mut config = small_segments();
        config.cleanup_policy.compact = true;
        let configs = [config.clone(), config];
        let dir = Path::new(DIR);
        open_unled(&machine, dir, settings(), &configs, |_| true, told(TOPICS)).unwrap()
    };
    let sent = [
        led(0, 2, &[value("a", 0)]),
        led(20, 3, &[value("b", 3)]),
        led(21, 3, &[value("b", 4)]),
    ];
    let mut rig = open();
    follow_in(&rig, EPOCH);
    follow(&mut rig, &sent, EPOCH).unwrap();
    commit(&rig);
    drop(rig);
    machine.kill();
    let mut rig = open();
    follow_in(&rig, EPOCH + 1);
    let partition = Arc::clone(&rig.partitions[0]);
    let read = |from: i64| {
        let request = ReadRequest {
            scope: Scope::of_any(Isolation::Uncommitted),
            ..read_from(Offset(from))
        };
        match partition.read(request).unwrap().records {
            Records::AtEnd => None,
            Records::Memory(batches) => Some(batches[0].base_offset().0),
            Records::File(slice) => Some(slice.slice().base_offset.0),
        }
    };
    let mut news = Vec::new();
    partition.on_committed(Offset(9), &mut news);
    assert_eq!((read(0), read(1), read(8)), (Some(0), None, None));
    partition.cut(Offset(20), LeaderEpoch(EPOCH + 1)).unwrap();
    commit(&rig);
    rig.work(&machine, SECOND, &mut vec![Known::default(); 2]);
    partition.on_committed(Offset(20), &mut news);
    assert_eq!((read(0), read(1), read(19)), (Some(0), None, None));
    let other = led(20, EPOCH + 1, &[value("c", 5)]);
    follow(&mut rig, &[other], EPOCH + 1).unwrap();
    commit(&rig);
    partition.on_committed(Offset(21), &mut news);
    assert_eq!(
        (read(1), read(19), read(20)),
        (Some(20), Some(20), Some(20))
    );
    assert_eq!(rig.dir.rot_found(), 0);
}
