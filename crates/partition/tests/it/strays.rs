//! Partitions on disk that the metadata do not know: those that were told of go, others are set aside with all that is known of them.

use env::disk::Open;

use super::*;

fn names(machine: &Machine, path: &Path) -> Vec<String> {
    let entries = machine.env().disk.read_dir(path).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn strays(machine: &Machine) -> Vec<String> {
    let mut names = names(machine, Path::new(DIR));
    names.retain(|name| name.ends_with("-stray"));
    names
}

fn bytes_of(machine: &Machine, path: &Path) -> Vec<u8> {
    let file = machine.env().disk.open(path, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// The files of a directory but for indexes, which nobody syncs and a start makes anew.
fn files(machine: &Machine, dir: &str) -> BTreeMap<String, Vec<u8>> {
    let dir = Path::new(DIR).join(dir);
    let names = names(machine, &dir).into_iter();
    names
        .filter(|name| !name.ends_with("index"))
        .map(|name| (name.clone(), bytes_of(machine, &dir.join(name))))
        .collect()
}

/// Values of the records in a directory's segments, by offset.
fn records(machine: &Machine, dir: &str) -> BTreeMap<i64, Vec<u8>> {
    let files = files(machine, dir).into_iter();
    let mut records = BTreeMap::new();
    for (_, bytes) in files.filter(|(name, _)| name.ends_with(".log")) {
        for batch in Batch::cut(&Bytes::from(bytes), Source::Log).map_while(Result::ok) {
            assert!(batch.is_intact());
            let plain = batch.plain(Caps::default()).unwrap();
            for record in RecordIter::new(&plain, batch.record_count()) {
                let record = record.unwrap();
                let offset = batch.base_offset().0 + i64::from(record.offset_delta);
                records.insert(offset, record.value.unwrap().to_vec());
            }
        }
    }
    records
}

fn configs(count: usize) -> Vec<LogConfig> {
    vec![small_segments(); count]
}

/// Three topics: with files below a checkpoint and records behind it, and the last with nothing but records in the journal.
fn prepare(machine: &Machine) -> Vec<Known> {
    let mut known = vec![Known::default(); 3];
    let mut rig = open(machine, &configs(3)).unwrap();
    for number in 0..60 {
        for at in 0..2 {
            rig.append(at, &[value("early", number)], &mut known)
                .unwrap();
        }
        rig.commit(&mut known);
    }
    rig.stop();
    drop(rig);
    machine.kill();
    let mut rig = open(machine, &configs(3)).unwrap();
    for number in 0..5 {
        for at in 0..3 {
            rig.append(at, &[value("late", number)], &mut known)
                .unwrap();
        }
        rig.commit(&mut known);
    }
    drop(rig);
    machine.kill();
    known
}

/// Opens the directory to metadata that know the first topics, and told of some.
fn open_told(
    machine: &Machine,
    configs: &[LogConfig],
    topics: Range<usize>,
) -> Result<Rig, OpenError> {
    let path = Path::new(DIR);
    super::open_told(machine, path, settings(), configs, |_| true, told(topics))
}

#[test]
fn a_partition_that_the_metadata_never_told_of_is_set_aside_with_all_its_records() {
    let machine = machine(50);
    let mut known = prepare(&machine);
    let before = files(&machine, "t1-0");
    let mut rig = open_told(&machine, &configs(1), 0..1).unwrap();
    check(&rig, &mut known[..1], "the one that is known");
    assert!(!names(&machine, Path::new(DIR)).contains(&"t1-0".to_owned()));

    let aside = strays(&machine);
    let of_topic = |name: &str| -> Vec<_> {
        let name = format!("{name}-0.");
        aside.iter().filter(|dir| dir.starts_with(&name)).collect()
    };
    assert_eq!(aside.len(), 3, "{aside:?}");
    let (old, late): (Vec<_>, Vec<_>) = of_topic("t1")
        .into_iter()
        .partition(|dir| files(&machine, dir) == before);
    assert_eq!((old.len(), late.len()), (1, 1), "{aside:?}");
    let mut seen = records(&machine, old[0]);
    seen.extend(records(&machine, late[0]));
    assert_eq!(
        seen, known[1].sent,
        "the files and the journal have all of it"
    );
    // Nothing but its id names it.
    let [only] = of_topic(&topic(2).to_string())[..] else {
        panic!("{aside:?}")
    };
    assert_eq!(records(&machine, only), known[2].sent);

    // The journal goes round, and later starts take them neither for partitions nor for strays.
    let kept: Vec<_> = aside.iter().map(|dir| files(&machine, dir)).collect();
    for number in 0..200 {
        rig.append(0, &[value("other", number), vec![3; 2000]], &mut known)
            .unwrap();
        rig.commit(&mut known);
        rig.work(&machine, Duration::from_millis(300), &mut known);
    }
    drop(rig);
    machine.power_cut();
    for _ in 0..2 {
        let rig = open_told(&machine, &configs(1), 0..1).unwrap();
        check(&rig, &mut known[..1], "again");
        drop(rig);
        machine.power_cut();
    }
    assert_eq!(strays(&machine), aside);
    let after: Vec<_> = aside.iter().map(|dir| files(&machine, dir)).collect();
    assert!(after == kept);
}

#[test]
fn a_deleted_topic_leaves_nothing_behind_whatever_a_crash_left_of_it() {
    let machine = machine(51);
    let mut known = prepare(&machine);
    // One that has no id yet, as before its first checkpoint.
    let young = Path::new("/data/t2-0");
    let disk = machine.env().disk;
    disk.create_dir_all(young).unwrap();
    (disk.open(&young.join(format!("{:020}.log", 0)), Open::Create)).unwrap();
    // And one that was compacted.
    (disk.open(Path::new("/data/t1-0/esker.compaction"), Open::Create)).unwrap();
    let rig = open_told(&machine, &configs(1), 0..3).unwrap();
    check(&rig, &mut known[..1], "the one that is known");
    let left = names(&machine, Path::new(DIR));
    let is_of_others = |name: &&String| name.contains("t1-0") || name.contains("t2-0");
    assert_eq!(left.iter().find(is_of_others), None, "{left:?}");
    assert_eq!(strays(&machine), Vec::<String>::new());
}

#[test]
fn a_partition_without_an_id_that_nobody_told_of_by_name_is_set_aside() {
    let machine = machine(52);
    prepare(&machine);
    let disk = machine.env().disk;
    disk.remove_file(Path::new("/data/t1-0/partition.metadata"))
        .unwrap();
    let before = files(&machine, "t1-0");
    open_told(&machine, &configs(1), 0..1).unwrap();
    let aside = strays(&machine);
    let count = aside.iter().filter(|dir| files(&machine, dir) == before);
    assert_eq!(count.count(), 1, "{aside:?}");
}

/// The topic was deleted and made again after the metadata were copied: the older one has its name, and no files.
#[test]
fn a_known_partition_does_not_take_the_files_of_a_stray_of_its_name() {
    let machine = machine(53);
    let mut known = prepare(&machine);
    let id = log::metadata::read(&*machine.env().disk, Path::new("/data/t1-0"));
    assert_eq!(id.unwrap(), Some(topic(1)));
    let before = files(&machine, "t1-0");
    let env = machine.env();
    let fresh = || Identity {
        cluster_id: None,
        node_id: 1,
    };
    let (recovery, _) = Recovery::begin(&env, Path::new(DIR), settings(), &fresh).unwrap();
    let lookup = |id: Uuid, _| match id {
        _ if id == topic(0) => Some(found(0, &small_segments())),
        _ if id == topic(2) => Some(Found {
            topic: "t1".into(),
            ..found(2, &small_segments())
        }),
        _ => None,
    };
    let mut told = EverNamed::default();
    for (at, name) in [(0, "t0"), (2, "t1")] {
        told.note_topic(topic(at), name);
        told.note_partition(topic(at), PartitionIndex(0));
    }
    let opened = recovery
        .restore(lookup, Arc::new(told))
        .and_then(|restored| restored.finish(env.threads.bell()));
    let residents = opened.unwrap().residents;
    let own = residents.partition(topic(2), PartitionIndex(0)).unwrap();
    assert_eq!(own.bounds().log_end, Offset(known[2].acked));
    let aside = strays(&machine);
    let kept = aside.iter().filter(|dir| files(&machine, dir) == before);
    assert_eq!(kept.count(), 1, "{aside:?}");
    known.clear();
}

#[test]
fn a_stray_never_takes_the_place_of_another() {
    let machine = machine(54);
    let mut known = prepare(&machine);
    let mut first = Vec::new();
    for round in 1..3 {
        drop(open_told(&machine, &configs(1), 0..1).unwrap());
        machine.kill();
        let aside = strays(&machine);
        assert!(first.iter().all(|name| aside.contains(name)), "{aside:?}");
        assert!(aside.len() > first.len(), "round {round}: {aside:?}");
        first = aside;
        // The newer metadata are back, and the topic begins anew.
        known[1] = Known::default();
        let mut rig = open_told(&machine, &configs(2), 0..3).unwrap();
        rig.append(1, &[value("anew", round)], &mut known).unwrap();
        rig.commit(&mut known);
        rig.stop();
        drop(rig);
        machine.kill();
    }
}

#[test]
fn a_start_that_ends_anywhere_while_it_sets_aside_loses_nothing() {
    let mut cuts = 0;
    for op in 1.. {
        let machine = machine(55);
        let mut known = prepare(&machine);
        let (want, late) = (files(&machine, "t1-0"), known[2].sent.clone());
        let at = machine.counts().disk_ops + op;
        machine.faults(|faults| faults.crash_at_op = Some(at));
        let done = open_told(&machine, &configs(1), 0..1).is_ok();
        machine.faults(|faults| faults.crash_at_op = None);
        machine.power_cut();
        let rig = open_told(&machine, &configs(1), 0..1)
            .unwrap_or_else(|error| panic!("cut at {op}: {error}"));
        check(&rig, &mut known[..1], "the one that is known");
        let aside = strays(&machine);
        let kept = aside.iter().filter(|dir| files(&machine, dir) == want);
        assert_eq!(kept.count(), 1, "cut at {op}: {aside:?}");
        let kept = aside.iter().any(|dir| records(&machine, dir) == late);
        assert!(kept, "cut at {op}: {aside:?}");
        let left = names(&machine, Path::new(DIR));
        let is_part = |name: &String| name.ends_with("-future");
        assert!(!left.iter().any(is_part), "cut at {op}: {left:?}");
        cuts = op;
        if done {
            break;
        }
    }
    assert!(cuts > 20, "{cuts}");
}
