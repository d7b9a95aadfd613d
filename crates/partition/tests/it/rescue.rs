//! A start that cannot read the files of one partition: it alone is offline, and a start that can read them has all of it.

use partition::ReadError;

use super::*;

const FILES: &str = "/data/t0-0";

fn names(machine: &Machine, path: &str) -> Vec<String> {
    let entries = machine.env().disk.read_dir(Path::new(path)).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn configs() -> Vec<LogConfig> {
    vec![small_segments(), small_segments()]
}

fn rounds(rig: &mut Rig, tag: &str, count: usize, known: &mut [Known]) {
    for number in 0..count {
        for at in 0..2 {
            rig.append(at, &[value(tag, number)], known).unwrap();
        }
        rig.commit(known);
    }
}

/// Two partitions with files below a checkpoint, and rounds behind it that only the journal has.
fn prepare(machine: &Machine) -> Vec<Known> {
    let mut known = vec![Known::default(); 2];
    let mut rig = open(machine, &configs()).unwrap();
    rounds(&mut rig, "early", 60, &mut known);
    rig.stop();
    drop(rig);
    machine.kill();
    let mut rig = open(machine, &configs()).unwrap();
    rounds(&mut rig, "late", 5, &mut known);
    drop(rig);
    machine.kill();
    known
}

/// The journal goes round several times, so nothing of the other partition is left there.
fn fill_other(rig: &mut Rig, machine: &Machine, known: &mut [Known]) {
    for number in 0..200 {
        rig.append(1, &[value("other", number), vec![3; 2000]], known)
            .unwrap();
        rig.commit(known);
        rig.work(machine, Duration::from_millis(300), known);
    }
}

#[test]
fn a_partition_that_cannot_be_read_is_offline_alone_and_comes_back_whole() {
    let sample = machine(40);
    prepare(&sample);
    let mut struck = 0;
    for file in names(&sample, FILES) {
        let machine = machine(40);
        let mut known = prepare(&machine);
        let path = Path::new(FILES).join(&file);
        machine.fail_reads(&path, 0..u64::MAX).unwrap();
        let mut rig = open(&machine, &configs())
            .unwrap_or_else(|error| panic!("{file}: the start is refused: {error}"));
        if !rig.partitions[0].is_offline() {
            // No start needs this file, and batches are taken without what cannot be read.
            rounds(&mut rig, "behind", 3, &mut known);
            drop(rig);
            machine.power_cut();
            machine.mend_reads();
            let rig = open(&machine, &configs()).unwrap();
            check(&rig, &mut known, &file);
            continue;
        }
        struck += 1;
        assert!(matches!(
            rig.append(0, &[value("none", 0)], &mut known),
            Err(AppendError::Storage { full: false })
        ));
        assert!(matches!(
            plan(&rig.partitions[0], Offset(0)),
            Err(ReadError::Offline)
        ));
        assert!(matches!(
            rig.partitions[0].check_epoch(LeaderEpoch::NONE),
            Err(ReadError::Offline)
        ));
        fill_other(&mut rig, &machine, &mut known);
        drop(rig);
        // Rescued records are durable, and a second start that cannot read puts nothing over them.
        machine.power_cut();
        let mut rig = open(&machine, &configs()).unwrap();
        assert!(rig.partitions[0].is_offline(), "{file}");
        fill_other(&mut rig, &machine, &mut known);
        rig.stop();
        drop(rig);
        machine.power_cut();

        machine.mend_reads();
        let mut rig = open(&machine, &configs()).unwrap();
        assert!(!rig.partitions[0].is_offline(), "{file}");
        check(&rig, &mut known, &file);
        rounds(&mut rig, "after", 5, &mut known);
        drop(rig);
        machine.power_cut();
        let rig = open(&machine, &configs()).unwrap();
        check(&rig, &mut known, &file);
        let left = names(&machine, DIR);
        assert!(
            !left.iter().any(|name| name.contains("rescued")),
            "{left:?}"
        );
    }
    assert!(
        struck >= 1,
        "{struck} files kept a start from reading a partition"
    );
}

#[test]
fn a_topic_that_cannot_be_read_can_be_deleted() {
    let machine = machine(41);
    let mut known = prepare(&machine);
    let epochs = Path::new(FILES).join("leader-epoch-checkpoint");
    machine.fail_reads(&epochs, 0..u64::MAX).unwrap();
    let mut rig = open(&machine, &configs()).unwrap();
    let gone = Arc::clone(&rig.partitions[0]);
    assert!(gone.is_offline());
    gone.delete(&mut Vec::new());
    gone.discard();
    rig.work(&machine, Duration::from_secs(1), &mut known);
    assert!(!names(&machine, DIR).contains(&"t0-0".to_owned()));
}
