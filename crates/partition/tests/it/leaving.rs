//! Replicas that are none any more: their files go, and a replica that comes again under the same id begins with nothing.

use partition::{Move, MoveError};

use super::*;

const EPOCH: i32 = 5;

fn unled(machine: &Machine) -> Result<Rig, OpenError> {
    let configs = [small_segments(), small_segments()];
    let rig = open_unled(
        machine,
        Path::new(DIR),
        settings(),
        &configs,
        |_| true,
        told(TOPICS),
    )?;
    lead(&rig.partitions[1], 9);
    Ok(rig)
}

fn follow_in(rig: &Rig, epoch: i32) {
    set_role(&rig.partitions[0], epoch, Role::NotLeading);
}

/// Appends one batch of the leader of `epoch`; false if it is not taken.
fn follow(rig: &mut Rig, epoch: i32, value: &[u8]) -> bool {
    let mut batch = batch_of(&[value.to_vec()]);
    batch.set_base_offset(rig.partitions[0].bounds().log_end);
    batch.set_leader_epoch(LeaderEpoch(epoch));
    let moment = Moment {
        now: model::Instant(0),
        wall: Timestamp(1_700_000_000_000),
        stamp: &mut rig.stamp,
    };
    let bytes = batch.to_bytes();
    (super::take(&rig.partitions[0], &bytes, LeaderEpoch(epoch), moment)).is_ok()
}

fn commit(rig: &Rig) {
    let mut news = Vec::new();
    while rig.dir.commit(&mut news) == Commit::Done && rig.dir.has_queued() {}
    let partition = &rig.partitions[0];
    partition.on_committed(partition.bounds().durable, &mut news);
}

fn leave(rig: &mut Rig, epoch: i32, known: &mut [Known]) -> bool {
    let mut news = Vec::new();
    follow_in(rig, epoch);
    let leaves = rig.partitions[0].leave(LeaderEpoch(epoch), &mut news);
    rig.hear(news, known);
    leaves
}

/// What a broker does that has a replica again.
fn come_again(rig: &mut Rig, epoch: i32) {
    let known = rig.residents.partition(topic(0), PartitionIndex(0));
    rig.partitions[0] = known.filter(|known| known.stay()).unwrap_or_else(|| {
        let start = Start::empty(LeaderEpoch(epoch), Arc::new(small_segments()));
        (rig.residents).create(topic(0), "t0".into(), PartitionIndex(0), start)
    });
    follow_in(rig, epoch);
}

fn names(machine: &Machine) -> Vec<String> {
    let entries = machine.env().disk.read_dir(Path::new(DIR)).unwrap();
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.starts_with("t0")).collect()
}

fn fill(rig: &mut Rig, machine: &Machine, epoch: i32, known: &mut [Known]) {
    for step in 0..40 {
        follow(rig, epoch, &value("v", step));
        let _ = rig.append(1, &[value("other", step)], known);
        commit(rig);
        rig.work(machine, SECOND / 10, known);
    }
    rig.work(machine, SECOND, known);
}

#[test]
fn files_of_a_replica_that_is_none_any_more_go() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let mut rig = unled(&machine).unwrap();
    follow_in(&rig, EPOCH);
    fill(&mut rig, &machine, EPOCH, &mut known);
    assert_eq!(names(&machine), ["t0-0"]);
    assert!(leave(&mut rig, EPOCH + 1, &mut known));
    assert!(!follow(&mut rig, EPOCH + 1, b"late"), "it takes no more");
    rig.work(&machine, SECOND, &mut known);
    assert_eq!(names(&machine), [""; 0]);
    assert!(
        rig.residents
            .partition(topic(0), PartitionIndex(0))
            .is_none()
    );
    assert!(!rig.dir.is_failed());
    rig.append(1, &[value("other", 99)], &mut known).unwrap();
    rig.stop();
    drop(rig);
    let rig = unled(&machine).unwrap();
    assert_eq!(rig.partitions[0].bounds().log_end, Offset(0));
}

#[test]
fn a_log_that_is_younger_than_the_metadata_stays() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let mut rig = unled(&machine).unwrap();
    follow_in(&rig, EPOCH);
    fill(&mut rig, &machine, EPOCH, &mut known);
    rig.stop();
    drop(rig);
    let mut rig = unled(&machine).unwrap();
    assert!(!leave(&mut rig, EPOCH - 1, &mut known));
    rig.work(&machine, SECOND, &mut known);
    assert_eq!(names(&machine), ["t0-0"]);
    assert_eq!(rig.partitions[0].bounds().log_end, Offset(40));
}

#[test]
fn a_replica_that_is_assigned_again_at_once_stays() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let mut rig = unled(&machine).unwrap();
    follow_in(&rig, EPOCH);
    fill(&mut rig, &machine, EPOCH, &mut known);
    leave(&mut rig, EPOCH + 1, &mut known);
    come_again(&mut rig, EPOCH + 2);
    rig.work(&machine, SECOND, &mut known);
    assert_eq!(names(&machine), ["t0-0"]);
    assert_eq!(rig.partitions[0].bounds().log_end, Offset(40));
    assert!(follow(&mut rig, EPOCH + 2, b"next"));
}

#[test]
fn a_removal_that_fails_is_tried_again_and_the_replica_comes_again_meanwhile() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let mut rig = unled(&machine).unwrap();
    follow_in(&rig, EPOCH);
    fill(&mut rig, &machine, EPOCH, &mut known);
    machine.faults(|faults| faults.open_files_stay = true);
    let path = Path::new(DIR).join("t0-0/00000000000000000000.log");
    let reader = machine.env().disk.open(&path, env::disk::Open::Read);
    leave(&mut rig, EPOCH + 1, &mut known);
    rig.work(&machine, 3 * SECOND, &mut known);
    assert!(!names(&machine).is_empty() && !rig.dir.is_failed());
    come_again(&mut rig, EPOCH + 2);
    assert_eq!(rig.partitions[0].bounds().log_end, Offset(0));
    for step in 0..9 {
        assert!(follow(&mut rig, EPOCH + 2, &value("new", step)));
    }
    commit(&rig);
    rig.work(&machine, 3 * SECOND, &mut known);
    drop(reader);
    rig.work(&machine, 3 * SECOND, &mut known);
    assert_eq!(names(&machine), ["t0-0"]);
    assert!(!rig.dir.is_failed());
    rig.stop();
    drop(rig);
    let rig = unled(&machine).unwrap();
    assert_eq!(rig.partitions[0].bounds().log_end, Offset(9));
}

#[test]
fn a_replica_leaves_though_it_is_on_its_way_to_another_directory() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let mut rig = unled(&machine).unwrap();
    follow_in(&rig, EPOCH);
    fill(&mut rig, &machine, EPOCH, &mut known);
    let there = open_at(&machine, Path::new("/other"), settings(), &[]).unwrap();
    let id = Uuid([9; 16]);
    let mut moving = Move::begin(&rig.partitions[0], &there.residents, id, Arc::default());
    moving.step(machine.now(), 1 << 20).unwrap();
    leave(&mut rig, EPOCH + 1, &mut known);
    rig.work(&machine, SECOND / 2, &mut known);
    assert_eq!(names(&machine), ["t0-0"], "while it moves");
    let stepped = moving.step(machine.now(), 1 << 20);
    assert!(matches!(stepped, Err(MoveError::Deleted)));
    moving.call_off(None, &mut Vec::new());
    rig.work(&machine, 3 * SECOND, &mut known);
    assert_eq!(names(&machine), [""; 0]);
    let others = machine.env().disk.read_dir(Path::new("/other")).unwrap();
    assert!(others.iter().all(|entry| !entry.name.starts_with("t0")));
}

/// Follows, leaves, comes again and follows another log; ends early when the machine is off.
fn work(rig: &mut Rig, machine: &Machine, known: &mut [Known]) {
    for round in 0..3 {
        let epoch = EPOCH + 2 * round;
        come_again(rig, epoch);
        for step in 0..12 {
            follow(rig, epoch, &value(&format!("of {round}"), step));
            let _ = rig.append(1, &[value("other", step)], known);
            commit(rig);
            if step % 4 == 3 {
                rig.work(machine, SECOND / 3, known);
            }
            if machine.is_off() || rig.dir.is_failed() {
                return;
            }
        }
        leave(rig, epoch + 1, known);
        let pause = [SECOND / 1000, SECOND, SECOND / 3][round as usize];
        rig.work(machine, pause, known);
    }
}

fn contents(rig: &Rig) -> Vec<Vec<u8>> {
    let partition = &rig.partitions[0];
    let bounds = partition.bounds();
    assert!(!partition.has_holes(), "{bounds:?}");
    let mut next = bounds.log_start;
    let mut all = Vec::new();
    while next < bounds.log_end {
        let request = ReadRequest {
            scope: Scope::of_any(Isolation::Log),
            ..read_from(next)
        };
        let batches = match partition.read(request).unwrap().records {
            Records::AtEnd => Vec::new(),
            Records::Memory(batches) => batches,
            Records::File(slice) => Batch::cut(&slice.read().unwrap(), Source::Log)
                .map_while(Result::ok)
                .collect(),
        };
        assert!(!batches.is_empty(), "nothing at {next} of {bounds:?}");
        for batch in batches {
            assert_eq!(batch.base_offset(), next);
            next = batch.next_offset();
            let plain = batch.plain(Caps::default()).unwrap();
            let record = RecordIter::new(&plain, batch.record_count()).next();
            all.push(record.unwrap().unwrap().value.unwrap().to_vec());
        }
    }
    all
}

#[test]
fn a_power_cut_at_any_disk_operation_leaves_one_log_or_none_and_never_two_in_one() {
    let operations = {
        let machine = machine(7);
        let mut rig = unled(&machine).unwrap();
        let mut known = vec![Known::default(); 2];
        work(&mut rig, &machine, &mut known);
        assert!(!rig.dir.is_failed());
        machine.counts().disk_ops
    };
    assert!(operations > 200, "{operations} operations");
    let mut longest = 0;
    for at in 1..=operations {
        let machine = machine(7);
        machine.faults(|faults| faults.crash_at_op = Some(at));
        let mut known = vec![Known::default(); 2];
        if let Ok(mut rig) = unled(&machine) {
            work(&mut rig, &machine, &mut known);
        }
        machine.power_cut();
        let rig = unled(&machine).unwrap_or_else(|error| panic!("operation {at}: {error}"));
        let found = contents(&rig);
        let is_of = |round: usize| {
            let mut all = found.iter().enumerate();
            all.all(|(step, of)| *of == value(&format!("of {round}"), step))
        };
        assert!(
            (0..3).any(is_of),
            "operation {at}: {} of two logs",
            found.len()
        );
        longest = longest.max(found.len());
        drop(rig);
        machine.kill();
        let rig = unled(&machine).unwrap_or_else(|error| panic!("operation {at}: {error}"));
        assert!(
            contents(&rig) == found,
            "operation {at}: another log the next time"
        );
    }
    assert_eq!(longest, 12);
}
