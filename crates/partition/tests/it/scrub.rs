//! Closed segments are read again while there is nothing else to do, and rot is found before a reader meets it.

use env::sim::Rot;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn fill(rig: &mut Rig, machine: &Machine, known: &mut [Known]) {
    for step in 0..80 {
        rig.append(0, &[value("v", step)], known).unwrap();
        rig.commit(known);
        rig.work(machine, SECOND / 10, known);
    }
    rig.work(machine, SECOND, known);
}

fn open_with(machine: &Machine, scrub_bytes_per_second: u64) -> Rig {
    let settings = DirSettings {
        scrub_bytes_per_second,
        ..settings()
    };
    open_at(machine, Path::new(DIR), settings, &[small_segments()]).unwrap()
}

#[test]
fn rot_in_a_closed_segment_is_found_while_nobody_reads() {
    for (rate, finds) in [(0, false), (1 << 20, true)] {
        let machine = machine(3);
        let mut known = vec![Known::default()];
        let mut rig = open_with(&machine, rate);
        fill(&mut rig, &machine, &mut known);
        rig.work(&machine, HOUR, &mut known);
        assert_eq!(rig.dir.rot_found(), 0, "there is none");
        rig.stop();
        drop(rig);
        machine.kill();
        let segment = Path::new(DIR).join("t0-0/00000000000000000000.log");
        machine
            .rot(&segment, 200..240, Rot::Flip { bit: 3 })
            .unwrap();
        let mut rig = open_with(&machine, rate);
        rig.work(&machine, HOUR, &mut known);
        assert_eq!(rig.dir.rot_found() > 0, finds, "{rate}");
        assert!(!rig.dir.is_failed());
    }
}

#[test]
fn rot_in_a_segment_that_was_closed_since_the_last_checkpoint_is_found() {
    let machine = machine(3);
    let mut known = vec![Known::default()];
    let settings = DirSettings {
        checkpoint_bytes: u64::MAX,
        scrub_bytes_per_second: 1 << 20,
        ..settings()
    };
    let opened = open_at(&machine, Path::new(DIR), settings, &[small_segments()]);
    let mut rig = opened.unwrap();
    fill(&mut rig, &machine, &mut known);
    let segment = Path::new(DIR).join("t0-0/00000000000000000000.log");
    machine
        .rot(&segment, 200..240, Rot::Flip { bit: 3 })
        .unwrap();
    rig.work(&machine, HOUR, &mut known);
    assert!(0 < rig.dir.rot_found());
}

/// Behind the rot a reader goes on where the report says.
#[test]
fn a_reader_that_meets_rot_can_go_on_behind_it() {
    let machine = machine(3);
    let mut known = vec![Known::default()];
    let mut rig = open_with(&machine, 0);
    fill(&mut rig, &machine, &mut known);
    rig.stop();
    drop(rig);
    machine.kill();
    let segment = Path::new(DIR).join("t0-0/00000000000000000000.log");
    machine
        .rot(&segment, 200..240, Rot::Flip { bit: 3 })
        .unwrap();
    let rig = open_with(&machine, 0);
    let partition = &rig.partitions[0];
    let rotten = (0..10).find(|at| plan(partition, Offset(*at)).is_err());
    let rotten = Offset(rotten.expect("the first batches are there"));
    let next = partition.goes_on_behind(rotten).expect("others follow");
    assert!(rotten < next && next < Offset(10), "{next}");
    let read = plan(partition, next).unwrap();
    assert_eq!(read[0].base_offset(), next);
    assert_eq!(partition.goes_on_behind(next), None);
    assert_eq!(rig.dir.rot_found(), 1);
}
