//! A failing sync: the directory is offline for good, everyone who waits is told, nothing is acknowledged afterwards.

use super::*;
use model::lineage::EpochEnd;

fn configs() -> Vec<LogConfig> {
    vec![small_segments(), small_segments()]
}

/// Works until the directory fails or the script ends.
fn work(rig: &mut Rig, machine: &Machine, known: &mut [Known]) {
    for step in 0..60 {
        for at in 0..known.len() {
            let _ = rig.append(at, &[value("v", step)], known);
        }
        if step % 2 == 0 {
            rig.commit(known);
        }
        if step % 3 == 0 {
            rig.work(machine, SECOND / 5, known);
        }
        if rig.dir.is_failed() {
            return;
        }
    }
}

fn fails_for_good(rig: &mut Rig, machine: &Machine, known: &mut [Known], context: &str) {
    assert!(
        rig.waiting.is_empty(),
        "{context}: {:?} were told nothing",
        rig.waiting
    );
    let acked: Vec<_> = known.iter().map(|known| known.acked).collect();
    let before: Vec<_> = known.iter().map(|known| known.sent.len()).collect();
    for at in 0..known.len() {
        let refused = rig.append(at, &[value("late", at)], known);
        assert!(
            matches!(refused, Err(AppendError::Storage { full: false })),
            "{context}"
        );
        assert_eq!(rig.trim(at, 0, known), Err(TrimError::Offline), "{context}");
        assert!(matches!(
            plan(&rig.partitions[at], Offset::ZERO),
            Err(partition::ReadError::Offline)
        ));
        assert!(matches!(
            rig.partitions[at].check_epoch(LeaderEpoch::NONE),
            Err(partition::ReadError::Offline)
        ));
        let of_follower = EpochEnd {
            epoch: LeaderEpoch(0),
            end: Offset(1 << 20),
        };
        assert!(matches!(
            rig.partitions[at].judge(of_follower, LeaderEpoch::NONE),
            Err(partition::ReadError::Offline)
        ));
        let bounds = rig.partitions[at].bounds();
        if bounds.high_watermark < bounds.log_end {
            let told = rig.partitions[at].await_end(ticket(0));
            assert_eq!(told, Err(partition::NeverCommitted), "{context}");
        }
        assert!(!rig.partitions[at].watch(
            ticket(0),
            rig.partitions[at].bounds().high_watermark,
            Scope::of_leader(Isolation::Uncommitted)
        ));
    }
    // The disk works again, and that changes nothing.
    machine.faults(|faults| faults.sync_fails_at = None);
    let syncs = machine.counts().syncs;
    rig.commit(known);
    rig.work(machine, SECOND, known);
    assert!(
        !rig.dir.has_queued(),
        "{context}: a loop that waits for the queue would never end"
    );
    assert_eq!(
        machine.counts().syncs,
        syncs,
        "{context}: a failed sync is never tried again"
    );
    assert_eq!(
        known.iter().map(|known| known.acked).collect::<Vec<_>>(),
        acked,
        "{context}"
    );
    assert_eq!(
        known
            .iter()
            .map(|known| known.sent.len())
            .collect::<Vec<_>>(),
        before
    );
    rig.stop();
}

#[test]
fn any_failing_sync_takes_the_directory_offline_and_loses_nothing_acknowledged() {
    any_failing_sync(2);
}

/// Of so many logs that checkpoints sync the volume.
#[test]
fn any_failing_sync_among_many_logs_takes_the_directory_offline() {
    any_failing_sync(20);
}

fn any_failing_sync(logs: usize) {
    let configs = vec![small_segments(); logs];
    let (first, last) = {
        let machine = machine(5);
        let mut known = vec![Known::default(); logs];
        let mut rig = open(&machine, &configs).unwrap();
        let first = machine.counts().syncs + 1;
        work(&mut rig, &machine, &mut known);
        assert!(rig.failed.is_empty());
        (first, machine.counts().syncs)
    };
    assert!(last > first + 40, "syncs {first} to {last}");
    let mut told = 0;
    for at in first..=last {
        for cut in [false, true] {
            let context = format!("sync {at} fails, power cut {cut}");
            let machine = machine(5);
            let mut known = vec![Known::default(); logs];
            machine.faults(|faults| faults.sync_fails_at = Some(at));
            let mut rig = open(&machine, &configs).unwrap();
            work(&mut rig, &machine, &mut known);
            assert!(rig.dir.is_failed(), "{context}");
            told += rig.failed.len();
            fails_for_good(&mut rig, &machine, &mut known, &context);
            drop(rig);
            if cut {
                machine.power_cut();
            } else {
                machine.kill();
            }
            let rig = open(&machine, &configs).unwrap();
            check(&rig, &mut known, &context);
        }
    }
    assert!(told > 50, "{told} waiting appends were told");
}

#[test]
fn a_failing_sync_at_the_start_refuses_the_start_and_a_second_start_loses_nothing() {
    let prepare = |machine: &Machine, known: &mut [Known]| {
        let mut rig = open(machine, &configs()).unwrap();
        work(&mut rig, machine, known);
        rig.commit(known);
        drop(rig);
        machine.kill();
    };
    let mut refused = 0;
    for at in 1..12 {
        let machine = machine(5);
        let mut known = vec![Known::default(); 2];
        prepare(&machine, &mut known);
        let sync = machine.counts().syncs + at;
        machine.faults(|faults| faults.sync_fails_at = Some(sync));
        let opened = open(&machine, &configs());
        refused += usize::from(opened.is_err());
        drop(opened);
        machine.power_cut();
        let rig = open(&machine, &configs()).unwrap();
        check(&rig, &mut known, &format!("sync {at} of the start failed"));
    }
    assert!(refused > 4, "{refused} starts were refused");
}

#[test]
fn one_directory_fails_alone() {
    let machine = machine(2);
    let places = ["/one", "/two"].map(Path::new);
    let mut known = [vec![Known::default()], vec![Known::default()]];
    let config = [small_segments()];
    let mut rigs = places.map(|path| open_at(&machine, path, settings(), &config).unwrap());
    for (rig, known) in rigs.iter_mut().zip(&mut known) {
        rig.append(0, &[value("a", 1)], known).unwrap();
        rig.commit(known);
    }
    let sync = machine.counts().syncs + 1;
    machine.faults(|faults| faults.sync_fails_at = Some(sync));
    let [broken, healthy] = &mut rigs;
    broken.append(0, &[value("a", 2)], &mut known[0]).unwrap();
    broken.commit(&mut known[0]);
    assert!(broken.dir.is_failed() && broken.failed.len() == 1);
    healthy.append(0, &[value("a", 2)], &mut known[1]).unwrap();
    healthy.commit(&mut known[1]);
    healthy.work(&machine, SECOND, &mut known[1]);
    assert!(!healthy.dir.is_failed());
    assert_eq!(known[1][0].acked, 2);
    assert_eq!(healthy.read(0).len(), 2);
    drop(rigs);
    machine.power_cut();
    for (path, known) in places.iter().zip(&mut known) {
        let rig = open_at(&machine, path, settings(), &config).unwrap();
        check(&rig, known, &path.display().to_string());
    }
}
