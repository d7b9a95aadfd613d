//! Volumes where open files matter: what cannot be removed now is removed later, and nothing goes offline.

use super::*;

fn names(machine: &Machine) -> Vec<String> {
    let entries = machine.env().disk.read_dir(Path::new(DIR)).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn has_files_of(machine: &Machine, topic: &str) -> bool {
    names(machine).iter().any(|name| name.starts_with(topic))
}

fn fill(rig: &mut Rig, machine: &Machine, known: &mut [Known]) {
    for step in 0..40 {
        for at in 0..known.len() {
            rig.append(at, &[value("v", step)], known).unwrap();
        }
        rig.commit(known);
        rig.work(machine, SECOND / 10, known);
    }
    rig.work(machine, SECOND, known);
}

/// A file of the partition, open as a slow reader has it.
fn open_file_of(machine: &Machine, topic: &str) -> env::FileHandle {
    let path = Path::new(DIR).join(format!("{topic}-0/00000000000000000000.log"));
    machine
        .env()
        .disk
        .open(&path, env::disk::Open::Read)
        .unwrap()
}

fn delete(rig: &mut Rig, at: usize, known: &mut [Known]) {
    let mut news = Vec::new();
    rig.partitions[at].delete(&mut news);
    rig.partitions[at].discard();
    rig.hear(news, known);
}

#[test]
fn files_are_closed_before_their_directory_gets_another_name() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let mut rig = open(&machine, &[small_segments(), small_segments()]).unwrap();
    machine.faults(|faults| faults.open_files_stay = true);
    fill(&mut rig, &machine, &mut known);
    delete(&mut rig, 1, &mut known);
    rig.work(&machine, SECOND / 2, &mut known);
    assert!(!has_files_of(&machine, "t1"), "{:?}", names(&machine));
    assert!(!rig.dir.is_failed());
}

#[test]
fn a_removal_that_fails_is_tried_again_and_no_other_partition_feels_it() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let configs = [small_segments(), small_segments()];
    let mut rig = open(&machine, &configs).unwrap();
    fill(&mut rig, &machine, &mut known);
    machine.faults(|faults| faults.open_files_stay = true);
    let reader = open_file_of(&machine, "t1");
    delete(&mut rig, 1, &mut known);
    // A topic of the same name, which must not get into the files of the old one.
    let start = Start::empty(LeaderEpoch(0), Arc::new(small_segments()));
    rig.partitions[1] = rig
        .residents
        .create(topic(7), "t1".into(), PartitionIndex(0), start);
    lead(&rig.partitions[1], 0);
    known[1] = Known::default();
    fill(&mut rig, &machine, &mut known);
    rig.work(&machine, 10 * SECOND, &mut known);
    assert!(!rig.dir.is_failed() && !rig.dir.is_full());
    assert!(has_files_of(&machine, "t1"));
    check(&rig, &mut known, "while a reader has a file");

    drop(reader);
    rig.work(&machine, 10 * SECOND, &mut known);
    assert!(
        names(&machine)
            .iter()
            .all(|name| !name.ends_with("-delete"))
    );
    fill(&mut rig, &machine, &mut known);
    check(&rig, &mut known, "afterwards");
    let entries = machine.env().disk.read_dir(&Path::new(DIR).join("t1-0"));
    assert!(
        entries
            .unwrap()
            .iter()
            .any(|entry| entry.name.ends_with(".log"))
    );
    rig.stop();
    assert!(!rig.dir.is_failed());
}

#[test]
fn a_stop_waits_for_no_removal_and_loses_nothing() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let configs = [small_segments(), small_segments()];
    let mut rig = open(&machine, &configs).unwrap();
    fill(&mut rig, &machine, &mut known);
    machine.faults(|faults| faults.open_files_stay = true);
    let _reader = open_file_of(&machine, "t1");
    delete(&mut rig, 1, &mut known);
    let start = Start::empty(LeaderEpoch(0), Arc::new(small_segments()));
    let again = rig
        .residents
        .create(topic(7), "t1".into(), PartitionIndex(0), start);
    lead(&again, 0);
    rig.partitions[1] = again;
    known[1] = Known::default();
    fill(&mut rig, &machine, &mut known);
    rig.stop();
    drop(rig);
    machine.kill();
    machine.faults(|faults| faults.open_files_stay = false);
    let env = machine.env();
    let fresh = || Identity {
        cluster_id: None,
        node_id: 1,
    };
    let (recovery, _) = Recovery::begin(&env, Path::new(DIR), settings(), &fresh).unwrap();
    let lookup = |id: Uuid, _| {
        let at = [topic(0), topic(7)].iter().position(|of| *of == id)?;
        Some(found(at, &configs[at]))
    };
    let opened = recovery
        .restore(lookup, told(0..TOPICS.end))
        .and_then(|restored| restored.finish(env.threads.bell()))
        .unwrap();
    let made = opened.residents.partition(topic(7), PartitionIndex(0));
    assert_eq!(made.unwrap().bounds().log_end, Offset(40));
}

/// A node among several acts on a deletion (1), dies (2), and does not know at its start whether that was committed (3). Files that are
/// gone say that it was; files that are there stay.
#[test]
fn a_start_goes_without_the_files_of_a_deletion_that_it_does_not_know_to_be_committed() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let configs = [small_segments(), small_segments()];
    let mut rig = open(&machine, &configs).unwrap();
    fill(&mut rig, &machine, &mut known);
    rig.stop();
    drop(rig);
    machine.kill();
    let start = |in_doubt: &[usize]| {
        let env = machine.env();
        let fresh = || Identity {
            cluster_id: None,
            node_id: 1,
        };
        let (mut recovery, _) = Recovery::begin(&env, Path::new(DIR), settings(), &fresh)?;
        let in_doubt = in_doubt
            .iter()
            .map(|at| (topic(*at), format!("t{at}").into()));
        recovery.expect_removed(&in_doubt.collect())?;
        let lookup = |id: Uuid, _| {
            let at = (0..2).find(|at| topic(*at) == id)?;
            Some(found(at, &configs[at]))
        };
        let restored = recovery.restore(lookup, told(0..TOPICS.end))?;
        restored.finish(env.threads.bell())
    };
    let ends = |in_doubt: &[usize]| -> Result<[Option<Offset>; 2], OpenError> {
        let residents = start(in_doubt)?.residents;
        Ok([0, 1].map(|at| {
            let partition = residents.partition(topic(at), PartitionIndex(0));
            partition.map(|of| of.bounds().log_end)
        }))
    };
    let end = Some(Offset(40));
    assert_eq!(ends(&[1]).unwrap(), [end, end], "it may yet be kept");
    machine.kill();
    let disk = machine.env().disk;
    let dir = Path::new(DIR).join("t1-0");
    disk.rename(&dir, &Path::new(DIR).join("elsewhere"))
        .unwrap();
    assert_eq!(ends(&[1]).unwrap(), [end, None]);
}

/// Old segments of a log that lives on: they go when their readers are through.
#[test]
fn spent_segments_stay_while_they_cannot_go_and_the_log_goes_on() {
    let machine = machine(1);
    let mut known = vec![Known::default()];
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    fill(&mut rig, &machine, &mut known);
    machine.faults(|faults| faults.open_files_stay = true);
    let reader = open_file_of(&machine, "t0");
    rig.trim(0, 40, &mut known).unwrap();
    rig.commit(&mut known);
    fill(&mut rig, &machine, &mut known);
    rig.work(&machine, 10 * SECOND, &mut known);
    assert!(!rig.dir.is_failed());
    check(&rig, &mut known, "while a reader has an old segment");
    drop(reader);
    fill(&mut rig, &machine, &mut known);
    rig.work(&machine, 200 * SECOND, &mut known);
    let entries = machine.env().disk.read_dir(&Path::new(DIR).join("t0-0"));
    let first = entries
        .unwrap()
        .into_iter()
        .find(|of| of.name.contains(".log"));
    assert_ne!(first.unwrap().name, "00000000000000000000.log.deleted");
}
