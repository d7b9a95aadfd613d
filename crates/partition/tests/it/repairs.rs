//! Damage on its way from the one who meets it, to the one who knows other replicas, and to the file.

use std::path::PathBuf;

use env::disk::Open;
use env::sim::Rot;
use partition::{DamageStage, ReadError, Replicas};

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
