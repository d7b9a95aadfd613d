//! Damage on its way from the one who meets it, to the one who knows other replicas, and to the file.

use std::path::PathBuf;

use env::disk::Open;
use env::sim::Rot;
use model::{ProducerEpoch, ProducerId, Sequence};
use partition::{DamageStage, ReadError, Replicas, SearchTime};

use super::cuts::{EPOCH, commit, contents, follow, follow_in, follower, shape};
use super::*;

fn path() -> PathBuf {
    Path::new(DIR).join("t0-0/00000000000000000000.log")
}

fn open_with(machine: &Machine, all: &[i32]) -> Rig {
    let rig = open_at(machine, Path::new(DIR), settings(), &[small_segments()]).unwrap();
    let replicas = Replicas {
        me: BrokerId(1),
        all: all.iter().copied().map(BrokerId).collect(),
        in_sync: vec![BrokerId(1)],
        partition_epoch: 0,
    };
    set_role(&rig.partitions[0], 3, Role::Leading(replicas));
    rig.dir.watch_damage(ticket(7));
    rig
}

/// A log whose first segment was changed by `harm`, and that segment as it was.
fn damaged(machine: &Machine, all: &[i32], harm: impl FnOnce()) -> (Rig, Vec<u8>) {
    let mut known = vec![Known::default()];
    let mut rig = open_with(machine, all);
    for step in 0..80 {
        rig.append(0, &[value("v", step)], &mut known).unwrap();
        rig.commit(&mut known);
        rig.work(machine, SECOND / 10, &mut known);
    }
    rig.work(machine, SECOND, &mut known);
    rig.stop();
    drop(rig);
    machine.kill();
    let truth = content(machine);
    harm();
    (open_with(machine, all), truth)
}

fn content(machine: &Machine) -> Vec<u8> {
    let file = machine.env().disk.open(&path(), Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// The batches of these offsets, out of a whole segment.
fn batches(truth: &[u8], from: Offset, to: Offset) -> Vec<Bytes> {
    let all = Batch::cut(&Bytes::copy_from_slice(truth), Source::Log);
    let all = all.map(Result::unwrap);
    let within = all.filter(|batch| from <= batch.base_offset() && batch.base_offset() < to);
    within.map(|batch| batch.to_bytes()).collect()
}

fn work(rig: &mut Rig, machine: &Machine) {
    rig.work(machine, SECOND, &mut [Known::default()]);
}

fn read(rig: &Rig, from: i64) -> Result<Vec<Batch>, ReadError> {
    plan(&rig.partitions[0], Offset(from))
}

/// The offset of the first batch that cannot be read.
fn rotten(rig: &Rig) -> i64 {
    let is_refused = |at: &i64| matches!(read(rig, *at), Err(ReadError::UnderRepair { .. }));
    (0..10).find(is_refused).expect("rot")
}

#[test]
fn damage_is_asked_for_and_written_and_readers_are_refused_meanwhile() {
    let machine = machine(3);
    let harm = || (machine.rot(&path(), 200..240, Rot::Flip { bit: 3 })).unwrap();
    let (mut rig, truth) = damaged(&machine, &[1, 2], harm);
    let at = rotten(&rig);
    assert!(rig.dir.damages().is_empty(), "nobody has looked yet");
    work(&mut rig, &machine);
    let [damage] = &rig.dir.damages()[..] else {
        panic!("{:?}", rig.dir.damages());
    };
    let (key, range) = (damage.key, damage.range);
    assert_eq!((range.from.0, range.to.0), (at, at + 1));
    assert_eq!(damage.stage, DamageStage::Wanted);
    // Others meet the same.
    assert!(matches!(read(&rig, at), Err(ReadError::UnderRepair { .. })));
    assert_eq!(rig.dir.damages().len(), 1);
    // Not what was there.
    let other = batches(&truth, range.to, range.to.advance(1));
    rig.dir.bring(key, range.from, BrokerId(2), other);
    assert_eq!(rig.dir.damages()[0].stage, DamageStage::Brought);
    work(&mut rig, &machine);
    assert!(matches!(
        rig.dir.damages()[0].stage,
        DamageStage::Refused(_)
    ));
    assert!(content(&machine) != truth);
    let right = batches(&truth, range.from, range.to);
    rig.dir.bring(key, range.from, BrokerId(3), right);
    work(&mut rig, &machine);
    assert!(rig.dir.damages().is_empty());
    assert!(content(&machine) == truth);
    assert_eq!(read(&rig, at).unwrap()[0].base_offset(), Offset(at));
    assert_eq!((rig.dir.rot_found(), rig.dir.rot_repaired()), (1, 1));
    assert_eq!(rig.dir.rot_unrepaired(), 0);
}

#[test]
fn what_nobody_has_is_told_for_a_while_and_then_asked_for_again() {
    let machine = machine(4);
    let harm = || (machine.rot(&path(), 200..240, Rot::Zero)).unwrap();
    let (mut rig, _) = damaged(&machine, &[1, 2], harm);
    let at = rotten(&rig);
    work(&mut rig, &machine);
    let damage = rig.dir.damages()[0].clone();
    rig.dir.give_up_damage(damage.key, damage.range.from);
    assert_eq!(rig.dir.rot_unrepaired(), 1);
    assert!(matches!(read(&rig, at), Err(ReadError::Store(_))));
    let next = rig.partitions[0].goes_on_behind(Offset(at));
    assert_eq!(next, Some(damage.range.to));
    rig.work(&machine, 11 * 60 * SECOND, &mut [Known::default()]);
    assert!(rig.dir.damages().is_empty(), "nobody has met it again");
    assert!(matches!(read(&rig, at), Err(ReadError::UnderRepair { .. })));
    work(&mut rig, &machine);
    assert_eq!(rig.dir.damages(), [damage]);
}

#[test]
fn the_only_replica_asks_nobody() {
    let machine = machine(5);
    let harm = || (machine.rot(&path(), 200..240, Rot::Flip { bit: 3 })).unwrap();
    let (mut rig, _) = damaged(&machine, &[1], harm);
    let refused = (0..10).find_map(|at| read(&rig, at).err());
    assert!(matches!(refused, Some(ReadError::Store(_))));
    work(&mut rig, &machine);
    assert!(rig.dir.damages().is_empty());
}

/// Nobody knows what of the file is on the disk then.
#[test]
fn a_repair_whose_sync_fails_takes_the_directory_offline() {
    let machine = machine(6);
    let harm = || (machine.rot(&path(), 200..240, Rot::Flip { bit: 3 })).unwrap();
    let (mut rig, truth) = damaged(&machine, &[1, 2], harm);
    rotten(&rig);
    work(&mut rig, &machine);
    let damage = rig.dir.damages()[0].clone();
    let range = damage.range;
    let right = batches(&truth, range.from, range.to);
    rig.dir.bring(damage.key, range.from, BrokerId(2), right);
    let syncs = machine.counts().syncs;
    machine.faults(|faults| faults.sync_fails_at = Some(syncs + 1));
    work(&mut rig, &machine);
    assert!(rig.dir.is_failed());
    assert_eq!(rig.dir.rot_repaired(), 0);
}

/// A disk that takes bytes and does not give them back.
#[test]
fn bytes_that_stay_unreadable_are_not_repaired() {
    let machine = machine(7);
    let harm = || machine.fail_reads(&path(), 0..4096).unwrap();
    let (mut rig, truth) = damaged(&machine, &[1, 2], harm);
    let at = rotten(&rig);
    work(&mut rig, &machine);
    let damage = rig.dir.damages()[0].clone();
    let range = damage.range;
    assert_eq!(range.from, Offset(at));
    let right = batches(&truth, range.from, range.to);
    rig.dir.bring(damage.key, range.from, BrokerId(2), right);
    work(&mut rig, &machine);
    assert!(!rig.dir.is_failed());
    let stage = rig.dir.damages()[0].stage.clone();
    assert!(matches!(stage, DamageStage::Refused(_)), "{stage:?}");
    assert_eq!(rig.dir.rot_repaired(), 0);
}

/// The rot hides where the cut goes through. Only that partition has damage then, and goes on; and what was there comes back, with what
/// its producers wrote there.
#[test]
fn a_cut_that_lands_in_rot_harms_its_partition_alone() {
    let of_producer = |at: i64, epoch: i32| {
        let mut builder = BatchBuilder::new()
            .base_offset(Offset(at))
            .leader_epoch(LeaderEpoch(epoch))
            .producer(ProducerId(7), ProducerEpoch(0), Sequence(at as i32));
        builder.push(Timestamp(1), None, Some(b"value"), &[]);
        builder.build()
    };
    let append = |rig: &mut Rig, batch: Batch| {
        let moment = Moment {
            now: model::Instant(0),
            wall: Timestamp(1),
            stamp: &mut rig.stamp,
        };
        rig.partitions[0].append(batch, Acks::None, moment)
    };
    let sent: Vec<Batch> = (0..8).map(|at| of_producer(at, 3)).collect();
    for is_start in [false, true] {
        let machine = machine(8);
        let mut rig = follower(&machine);
        follow(&mut rig, &sent, EPOCH).unwrap();
        commit(&rig);
        drop(rig);
        machine.kill();
        // A start brings all to the files.
        drop(follower(&machine));
        machine.kill();
        let truth = content(&machine);
        let size = truth.len() as u64 / 8;
        let rotten = size * 2 + 20..size * 5;
        machine.rot(&path(), rotten, Rot::Zero).unwrap();
        let begin = || {
            let rig = follower(&machine);
            rig.dir.watch_damage(ticket(7));
            follow_in(&rig, EPOCH + 1);
            rig
        };
        let mut rig = begin();
        let cut = rig.partitions[0].cut(Offset(4), LeaderEpoch(EPOCH + 1));
        cut.unwrap();
        commit(&rig);
        if is_start {
            drop(rig);
            machine.kill();
            rig = begin();
        }
        work(&mut rig, &machine);
        let partition = Arc::clone(&rig.partitions[0]);
        assert!(!rig.dir.is_failed() && !partition.has_holes());
        assert_eq!(partition.bounds().log_end, Offset(4));
        let next = of_producer(4, EPOCH + 1);
        follow(&mut rig, std::slice::from_ref(&next), EPOCH + 1).unwrap();
        commit(&rig);
        partition.on_committed(Offset(5), &mut Vec::new());
        let request = ReadRequest {
            scope: Scope::of_any(Isolation::Log),
            ..read_from(Offset(2))
        };
        work(&mut rig, &machine);
        let refused = partition.read(request).err();
        assert!(matches!(refused, Some(ReadError::UnderRepair { .. })));
        work(&mut rig, &machine);
        let damage = rig.dir.damages()[0].clone();
        let range = damage.range;
        assert_eq!((range.from, range.to), (Offset(2), Offset(4)));
        // Whether a batch of that producer is there, nobody knows; nor whether a transaction began there.
        assert_eq!(partition.bounds().last_stable, Offset(2));
        lead(&partition, EPOCH + 2);
        for at in [3, 5] {
            let refused = append(&mut rig, of_producer(at, 3)).unwrap_err();
            assert!(matches!(
                refused,
                AppendError::ProducersUnread { at: Offset(2) }
            ));
        }
        let right = batches(&truth, range.from, range.to);
        rig.dir.bring(damage.key, range.from, BrokerId(2), right);
        work(&mut rig, &machine);
        assert!(rig.dir.damages().is_empty());
        assert_eq!(partition.bounds().last_stable, Offset(5));
        let all = sent[..4].iter().chain([&next]).map(shape);
        assert_eq!(contents(&partition), all.collect::<Vec<_>>());
        let retried = append(&mut rig, of_producer(3, 3)).unwrap();
        assert!(retried.is_duplicate && retried.base_offset == Offset(3));
    }
}

/// A search for a time meets rot as a reader does.
#[test]
fn a_search_by_time_has_the_rot_that_it_meets_repaired() {
    let machine = machine(9);
    let harm = || (machine.rot(&path(), 200..240, Rot::Flip { bit: 3 })).unwrap();
    let (mut rig, truth) = damaged(&machine, &[1, 2], harm);
    let search = |rig: &Rig| {
        let time = SearchTime::From(Timestamp(1_700_000_000_000));
        match rig.partitions[0].plan_search(time).execute() {
            partition::Piece::Found(found) => found,
            _ => panic!("not what was looked for"),
        }
    };
    machine.rot(&path(), 0..40, Rot::Zero).unwrap();
    assert!(matches!(search(&rig), Err(ReadError::UnderRepair { .. })));
    work(&mut rig, &machine);
    let damage = rig.dir.damages()[0].clone();
    let range = damage.range;
    let right = batches(&truth, range.from, range.to);
    rig.dir.bring(damage.key, range.from, BrokerId(2), right);
    work(&mut rig, &machine);
    assert_eq!(
        search(&rig).unwrap().map(|found| found.offset),
        Some(Offset(0))
    );
}
