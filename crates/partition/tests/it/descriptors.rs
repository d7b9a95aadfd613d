//! A limit of descriptors that is lowered under a running broker breaks no disk: what cannot be opened is tried again.

use super::power::{configs, forgive_relaxed, work};
use super::*;

#[test]
fn a_process_without_descriptors_keeps_its_directory_and_every_record() {
    let (first, last) = {
        let machine = machine(7);
        let mut known = vec![Known::default(); 4];
        let mut rig = open(&machine, &configs()).unwrap();
        let first = machine.counts().opens + 1;
        work(&mut rig, &machine, &mut known, "one", |_| ());
        (first, machine.counts().opens)
    };
    assert!(last - first > 50, "{first} to {last}");
    let mut refused = 0;
    for (at, count) in (first..=last).flat_map(|at| [(at, 1), (at, 25)]) {
        let context = format!("{count} from {at} on");
        let machine = machine(7);
        machine.faults(|faults| faults.opens_fail = at..at + count);
        let mut known = vec![Known::default(); 4];
        let mut rig = open(&machine, &configs()).unwrap();
        work(&mut rig, &machine, &mut known, "one", |_| ());
        assert!(!rig.dir.is_failed(), "{context}");
        assert!(rig.failed.is_empty(), "{context}");
        refused += machine.counts().opens_failed;
        machine.faults(|faults| faults.opens_fail = 0..0);
        rig.work(&machine, 5 * SECOND, &mut known);
        assert!(!rig.dir.is_full(), "{context}");
        for at in 0..4 {
            rig.append(at, &[value("again", at)], &mut known).unwrap();
        }
        rig.commit(&mut known);
        assert!(rig.waiting.is_empty(), "{context}");
        rig.work(&machine, SECOND, &mut known);
        drop(rig);
        machine.power_cut();
        let rig = open(&machine, &configs()).unwrap();
        forgive_relaxed(&rig, &mut known);
        check(&rig, &mut known, &context);
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn a_clean_stop_without_descriptors_ends_and_loses_nothing() {
    let machine = machine(7);
    let mut known = vec![Known::default(); 4];
    let mut rig = open(&machine, &configs()).unwrap();
    work(&mut rig, &machine, &mut known, "one", |_| ());
    machine.faults(|faults| faults.opens_fail = 0..u64::MAX);
    rig.stop();
    drop(rig);
    machine.kill();
    machine.faults(|faults| faults.opens_fail = 0..0);
    let rig = open(&machine, &configs()).unwrap();
    check(&rig, &mut known, "after the stop");
}
