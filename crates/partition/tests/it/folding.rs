//! Volumes that take names that differ in case alone for one.

use super::*;

fn begin(rig: &mut Rig, machine: &Machine, known: &mut [Known]) {
    for step in 0..40 {
        rig.append(0, &[value("v", step)], known).unwrap();
        rig.commit(known);
        rig.work(machine, SECOND / 10, known);
    }
    rig.work(machine, SECOND, known);
}

/// A topic that is called as the first one of the rig, but for the case.
fn create_like_the_first(rig: &Rig) -> Arc<Partition> {
    let start = Start::empty(LeaderEpoch(0), Arc::new(small_segments()));
    let made = rig
        .residents
        .create(topic(7), "T0".into(), PartitionIndex(0), start);
    lead(&made, 0);
    made
}

fn append(rig: &mut Rig, to: &Arc<Partition>) -> Result<(), AppendError> {
    let moment = Moment {
        now: model::Instant(0),
        wall: Timestamp(1_700_000_000_000),
        stamp: &mut rig.stamp,
    };
    let batch = batch_of(&[b"value".to_vec()]);
    to.append(batch, Acks::All(None), moment).map(|_| ())
}

fn is_offline(appended: &Result<(), AppendError>) -> bool {
    matches!(appended, Err(AppendError::Storage { full: false }))
}

#[test]
fn a_topic_with_the_name_of_another_is_offline_alone_and_goes_alone() {
    let machine = machine(1);
    machine.fold_case();
    let mut known = vec![Known::default()];
    let config = [small_segments()];
    let mut rig = open(&machine, &config).unwrap();
    assert!(rig.dir.folds_names);
    begin(&mut rig, &machine, &mut known);
    let other = create_like_the_first(&rig);
    let appended = append(&mut rig, &other);
    assert!(is_offline(&appended), "{appended:?}");
    other.delete(&mut Vec::new());
    other.discard();
    begin(&mut rig, &machine, &mut known);
    assert!(!rig.dir.is_failed());
    check(&rig, &mut known, "beside the other");
    drop(rig);
    machine.power_cut();
    let rig = open(&machine, &config).unwrap();
    check(&rig, &mut known, "after a start");
}

#[test]
fn volumes_that_tell_names_apart_have_both() {
    let machine = machine(1);
    let mut known = vec![Known::default()];
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    assert!(!rig.dir.folds_names);
    begin(&mut rig, &machine, &mut known);
    let other = create_like_the_first(&rig);
    append(&mut rig, &other).unwrap();
    begin(&mut rig, &machine, &mut known);
    assert!(!rig.dir.is_failed());
    let path = Path::new(DIR).join("T0-0");
    assert!(machine.env().disk.exists(&path).unwrap());
}

/// The records of two such topics in the journal are kept, and every start gets through.
#[test]
fn a_start_gets_through_with_two_such_topics_in_the_journal() {
    let machine = machine(1);
    let mut known = vec![Known::default()];
    let config = small_segments();
    let mut rig = open(&machine, std::slice::from_ref(&config)).unwrap();
    let other = create_like_the_first(&rig);
    rig.append(0, &[value("v", 0)], &mut known).unwrap();
    append(&mut rig, &other).unwrap();
    rig.commit(&mut known);
    drop((rig, other));
    machine.kill();
    machine.fold_case();
    for start in 0..3 {
        let env = machine.env();
        let fresh = || Identity {
            cluster_id: None,
            node_id: 1,
        };
        let (recovery, _) = Recovery::begin(&env, Path::new(DIR), settings(), &fresh).unwrap();
        let lookup = |id: Uuid, _| {
            let name = if id == topic(0) {
                "t0"
            } else if id == topic(7) {
                "T0"
            } else {
                return None;
            };
            Some(Found {
                topic: name.into(),
                ..found(0, &config)
            })
        };
        let opened = recovery
            .restore(lookup, told(TOPICS))
            .and_then(|restored| restored.finish(env.threads.bell()))
            .unwrap();
        let get = |at| opened.residents.partition(topic(at), PartitionIndex(0));
        let ends = [get(0), get(7)].map(|of| of.unwrap().bounds().log_end.0);
        assert_eq!(ends[0].max(ends[1]), 1, "start {start}");
        assert!(!opened.residents.dir.is_failed());
        drop(opened);
        machine.kill();
    }
}
