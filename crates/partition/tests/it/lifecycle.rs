//! Trims, retention, deletion, checkpoints: what goes is gone for good, what stays is untouched.

use env::disk::Open;
use partition::Warrant;

use super::transactions::{append, records};
use super::*;

fn names(machine: &Machine, path: &str) -> Vec<String> {
    let entries = machine.env().disk.read_dir(Path::new(path)).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn fill(rig: &mut Rig, machine: &Machine, known: &mut [Known], count: usize) {
    for step in 0..count {
        for at in 0..known.len() {
            rig.append(at, &[value("v", step)], known).unwrap();
        }
        rig.commit(known);
        rig.work(machine, SECOND / 10, known);
    }
    rig.work(machine, SECOND, known);
}

#[test]
fn a_trim_is_durable_when_it_is_acknowledged_and_its_files_go() {
    for written in [false, true] {
        let machine = machine(1);
        let mut known = vec![Known::default(); 2];
        let configs = [small_segments(), small_segments()];
        let mut rig = open(&machine, &configs).unwrap();
        fill(&mut rig, &machine, &mut known, 100);
        let files = names(&machine, "/data/t0-0").len();
        assert!(files > 6);
        rig.trim(0, 90, &mut known).unwrap();
        assert_eq!(
            rig.partitions[0].bounds().log_start,
            Offset::ZERO,
            "not before it is durable"
        );
        rig.commit(&mut known);
        assert_eq!(known[0].start, 90);
        assert!(matches!(
            plan(&rig.partitions[0], Offset(89)),
            Err(partition::ReadError::OutOfRange { .. })
        ));
        if written {
            rig.work(&machine, SECOND, &mut known);
            let left = names(&machine, "/data/t0-0").len();
            assert!(left < files / 2, "{files} files before, {left} after");
        }
        drop(rig);
        machine.power_cut();
        let mut rig = open(&machine, &configs).unwrap();
        check(&rig, &mut known, "trimmed");
        assert_eq!(rig.partitions[0].bounds().log_start, Offset(90));
        assert_eq!(rig.partitions[1].bounds().log_start, Offset::ZERO);
        rig.work(&machine, SECOND, &mut known);
        let left = names(&machine, "/data/t0-0").len();
        assert!(left < files / 2, "{left} of {files} outlive the restart");
    }
}

/// The files learn of a trim later, and on a full disk perhaps never.
#[test]
fn a_time_is_looked_for_from_the_log_start_on_as_soon_as_a_trim_is_acknowledged() {
    let machine = machine(1);
    let mut known = vec![Known::default()];
    let configs = [small_segments()];
    let mut rig = open(&machine, &configs).unwrap();
    fill(&mut rig, &machine, &mut known, 100);
    rig.stop();
    drop(rig);
    machine.kill();

    let mut rig = open(&machine, &configs).unwrap();
    let found = |rig: &Rig| {
        let found = rig.partitions[0].find_timestamp(Timestamp(1));
        found.unwrap().map(|found| found.offset.0)
    };
    assert_eq!(found(&rig), Some(0));
    for (to, first) in [(50, Some(50)), (100, None)] {
        rig.trim(0, to, &mut known).unwrap();
        rig.commit(&mut known);
        assert_eq!(found(&rig), first);
    }
}

#[test]
fn what_a_full_disk_keeps_of_trimmed_segments_goes_when_there_is_room() {
    let mut kept = 0;
    for fails in 1..200 {
        let machine = machine(1);
        let mut known = vec![Known::default(); 1];
        let configs = [small_segments()];
        let mut rig = open(&machine, &configs).unwrap();
        for number in 0..40 {
            rig.append(0, &[value("v", number)], &mut known).unwrap();
            rig.commit(&mut known);
        }
        rig.work(&machine, SECOND, &mut known);
        let at = machine.counts().names + fails;
        machine.faults(|faults| faults.names_fail = at..at + 1);
        rig.trim(0, 40, &mut known).unwrap();
        rig.commit(&mut known);
        rig.work(&machine, 5 * SECOND, &mut known);
        if machine.counts().names_refused_full == 0 {
            break;
        }
        kept += 1;
        assert!(!rig.dir.is_failed(), "{fails}");
        assert!(!rig.dir.is_full(), "{fails}");
        let left = names(&machine, "/data/t0-0");
        let is_old = |name: &&String| {
            let base = name.split('.').next().and_then(|base| base.parse().ok());
            base.is_some_and(|base: i64| base < 40) && !name.ends_with(".snapshot")
        };
        assert_eq!(left.iter().find(is_old), None, "{fails}: {left:?}");
        check(&rig, &mut known, "without the files");
    }
    assert!(kept > 5, "{kept}");
}

#[test]
fn a_trim_above_the_high_watermark_is_refused() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 1];
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    rig.append(0, &[value("v", 1)], &mut known).unwrap();
    let refused = rig.trim(0, 1, &mut known);
    assert_eq!(
        refused,
        Err(TrimError::OutOfRange {
            high_watermark: Offset::ZERO
        })
    );
    rig.commit(&mut known);
    assert_eq!(rig.trim(0, 1, &mut known), Ok(Offset(1)));
}

#[test]
fn only_an_epoch_that_the_log_knows_has_an_end() {
    let machine = machine(2);
    let mut known = vec![Known::default(); 2];
    let configs = [small_segments(), small_segments()];
    let mut rig = open(&machine, &configs).unwrap();
    fill(&mut rig, &machine, &mut known, 3);
    // The second partition is in epoch 1.
    let end = |asked: i32| {
        let (epoch, end) = rig.partitions[1].end_for_epoch(LeaderEpoch(asked));
        (epoch.0, end.0)
    };
    assert_eq!(end(1), (1, 3));
    assert_eq!(end(0), (0, 0), "it ended where the first of the log begins");
    assert_eq!(end(2), (-1, -1));
    assert_eq!(end(-1), (-1, -1));
}

/// Each start begins an epoch in partitions that may have lost records; whoever was told of one asks the next life for its end.
#[test]
fn an_epoch_begins_where_the_log_ends_and_not_with_its_first_batch() {
    let machine = machine(4);
    let mut known = vec![Known::default()];
    let configs = [small_segments()];
    let end = |rig: &Rig, asked: i32| {
        let (epoch, end) = rig.partitions[0].end_for_epoch(LeaderEpoch(asked));
        (epoch.0, end.0)
    };
    let mut rig = open(&machine, &configs).unwrap();
    assert_eq!(end(&rig, 0), (0, 0));
    fill(&mut rig, &machine, &mut known, 10);
    for life in 1..4 {
        rig.stop();
        drop(rig);
        machine.kill();
        rig = open(&machine, &configs).unwrap();
        // The metadata have it.
        lead(&rig.partitions[0], life);
        assert_eq!(end(&rig, life), (life, 10));
        assert_eq!(end(&rig, life - 1), (0, 10), "nothing was appended in it");
        assert_eq!(rig.partitions[0].epoch_at(Offset(9)), LeaderEpoch(0));
        assert_eq!(rig.partitions[0].epoch_at(Offset(10)), LeaderEpoch(life));
    }
    fill(&mut rig, &machine, &mut known, 2);
    lead(&rig.partitions[0], 4);
    fill(&mut rig, &machine, &mut known, 2);
    drop(rig);
    machine.power_cut();
    let rig = open(&machine, &configs).unwrap();
    assert_eq!(
        [2, 3, 4].map(|asked| end(&rig, asked)),
        [(0, 10), (3, 12), (4, 14)]
    );
    check(&rig, &mut known, "in its epochs");
}

/// A checkpoint writes the epochs of everything appended, and then comes to nothing: what they say of the records behind the last
/// one is learned from the journal again, and what they say of those before it stays.
#[test]
fn epochs_that_a_checkpoint_left_half_done_keep_their_starts() {
    let machine = machine(3);
    let mut known = vec![Known::default()];
    let configs = [small_segments()];
    let append = |rig: &mut Rig, known: &mut [Known], epoch| {
        lead(&rig.partitions[0], epoch);
        fill(rig, &machine, known, 3);
    };
    let mut rig = open(&machine, &configs).unwrap();
    append(&mut rig, &mut known, 0);
    append(&mut rig, &mut known, 1);
    rig.stop();
    drop(rig);
    machine.kill();

    let mut rig = open(&machine, &configs).unwrap();
    append(&mut rig, &mut known, 1);
    append(&mut rig, &mut known, 2);
    let disk = machine.env().disk;
    let epochs = Path::new(DIR).join("t0-0").join(log::epochs::FILE_NAME);
    let file = disk.open(&epochs, env::disk::Open::Truncate).unwrap();
    let text = b"0\n3\n0 0\n1 3\n2 9\n";
    file.write_at(&[std::io::IoSlice::new(text)], 0).unwrap();
    drop((rig, file));
    machine.kill();

    let rig = open(&machine, &configs).unwrap();
    let end = |asked: i32| rig.partitions[0].end_for_epoch(LeaderEpoch(asked)).1.0;
    assert_eq!([end(0), end(1), end(2)], [3, 9, 12]);
    check(&rig, &mut known, "all of it is read");
}

#[test]
fn a_trim_behind_a_higher_one_on_its_way_is_told_where_the_log_will_start() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 1];
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let values: Vec<_> = (0..5).map(|number| value("v", number)).collect();
    rig.append(0, &values, &mut known).unwrap();
    rig.commit(&mut known);
    assert_eq!(rig.trim(0, 4, &mut known), Ok(Offset(4)));
    assert_eq!(rig.trim(0, 2, &mut known), Ok(Offset(4)));
    rig.commit(&mut known);
    assert_eq!(rig.partitions[0].bounds().log_start, Offset(4));
}

#[test]
fn retention_by_size_keeps_the_newest_and_survives_a_power_cut() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 1];
    let config = [LogConfig {
        retention_bytes: Some(10 << 10),
        ..small_segments()
    }];
    let mut rig = open(&machine, &config).unwrap();
    fill(&mut rig, &machine, &mut known, 300);
    rig.work(&machine, 301 * SECOND, &mut known);
    rig.work(&machine, SECOND, &mut known);
    let start = rig.partitions[0].bounds().log_start.0;
    assert!(start > 100, "{start}");
    let size = rig.partitions[0].size();
    assert!((10 << 10..16 << 10).contains(&size), "{size}");
    assert!(names(&machine, "/data/t0-0").len() < 20);
    known[0].start_asked = start;
    known[0].start = start;
    drop(rig);
    machine.power_cut();
    let rig = open(&machine, &config).unwrap();
    check(&rig, &mut known, "retained");
}

#[test]
fn a_deleted_partition_leaves_nothing_and_its_neighbours_everything() {
    for when in 0..3 {
        let machine = machine(1);
        let mut known = vec![Known::default(); 3];
        let configs = [small_segments(), small_segments(), small_segments()];
        let mut rig = open(&machine, &configs).unwrap();
        fill(&mut rig, &machine, &mut known, 50);
        rig.append(2, &[value("queued", 1)], &mut known).unwrap();
        let mut news = Vec::new();
        let gone = Arc::clone(&rig.partitions[2]);
        gone.delete(&mut news);
        gone.discard();
        rig.hear(news, &mut known);
        assert_eq!(rig.failed.len(), 1, "who waited is told");
        assert!(matches!(
            rig.append(2, &[value("late", 1)], &mut known),
            Err(AppendError::Deleted)
        ));
        if when > 0 {
            rig.work(&machine, SECOND, &mut known);
            assert!(
                !names(&machine, DIR)
                    .iter()
                    .any(|name| name.starts_with("t2"))
            );
        }
        rig.commit(&mut known);
        rig.work(&machine, SECOND, &mut known);
        assert!(
            !rig.dir.is_overloaded(),
            "bytes of deleted partitions are counted off once"
        );
        if when > 1 {
            fill_two(&mut rig, &machine, &mut known);
        }
        drop(rig);
        machine.power_cut();
        // The metadata does not know the topic any more.
        let rig = open(&machine, &configs[..2]).unwrap();
        check(&rig, &mut known[..2], "after a deletion");
        assert!(
            !names(&machine, DIR)
                .iter()
                .any(|name| name.starts_with("t2"))
        );
        assert!(
            rig.residents
                .partition(topic(2), PartitionIndex(0))
                .is_none()
        );
    }
}

fn fill_two(rig: &mut Rig, machine: &Machine, known: &mut [Known]) {
    for step in 0..100 {
        for at in 0..2 {
            rig.append(at, &[value("more", step)], known).unwrap();
        }
        rig.commit(known);
        rig.work(machine, SECOND / 10, known);
    }
}

#[test]
fn a_topic_made_again_under_its_name_keeps_its_own_records() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 1];
    let config = small_segments();
    let mut rig = open(&machine, std::slice::from_ref(&config)).unwrap();
    fill(&mut rig, &machine, &mut known, 30);
    let old = Arc::clone(&rig.partitions[0]);
    old.delete(&mut Vec::new());
    old.discard();
    let start = Start::empty(LeaderEpoch(0), Arc::new(config.clone()));
    rig.partitions[0] = rig
        .residents
        .create(topic(7), "t0".into(), PartitionIndex(0), start);
    lead(&rig.partitions[0], 0);
    known[0] = Known::default();
    fill(&mut rig, &machine, &mut known, 30);
    drop(rig);
    machine.power_cut();
    let env = machine.env();
    let fresh = || Identity {
        cluster_id: None,
        node_id: 1,
    };
    let (recovery, _) = Recovery::begin(&env, Path::new(DIR), settings(), &fresh).unwrap();
    let lookup = |id: Uuid, _| (id == topic(7)).then(|| found(0, &config));
    let opened = recovery
        .restore(lookup, told(TOPICS))
        .and_then(|restored| restored.finish(env.threads.bell()))
        .unwrap();
    let made = opened
        .residents
        .partition(topic(7), PartitionIndex(0))
        .unwrap();
    assert_eq!(made.bounds().log_end, Offset(30));
}

#[test]
fn the_journal_stays_small_under_load_because_checkpoints_recycle_it() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 3];
    let configs = [small_segments(), small_segments(), small_segments()];
    let mut rig = open(&machine, &configs).unwrap();
    fill(&mut rig, &machine, &mut known, 500);
    let journal = machine
        .env()
        .disk
        .read_dir(Path::new("/data/journal"))
        .unwrap();
    let bytes: u64 = journal.iter().map(|entry| entry.len).sum();
    assert!(
        bytes < 512 << 10,
        "{bytes} bytes of journal after 1500 rounds of a page or more"
    );
    drop(rig);
    machine.kill();
    let rig = open(&machine, &configs).unwrap();
    assert!(rig.rounds < 60, "{} rounds were replayed", rig.rounds);
    check(&rig, &mut known, "after a kill");
}

#[test]
fn a_clean_stop_leaves_nothing_to_replay() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let configs = [small_segments(), small_segments()];
    let mut rig = open(&machine, &configs).unwrap();
    fill(&mut rig, &machine, &mut known, 20);
    rig.append(0, &[value("last", 1)], &mut known).unwrap();
    rig.commit(&mut known);
    rig.stop();
    drop(rig);
    machine.kill();
    let rig = open(&machine, &configs).unwrap();
    assert_eq!(rig.rounds, 0);
    check(&rig, &mut known, "after a clean stop");
}

#[test]
fn a_directory_in_use_is_refused_by_name() {
    let machine = machine(1);
    let _rig = open(&machine, &[small_segments()]).unwrap();
    let Err(error) = open(&machine, &[small_segments()]) else {
        panic!("two brokers on one directory")
    };
    assert!(matches!(error, OpenError::Locked { .. }));
    assert!(
        error
            .to_string()
            .starts_with("/data is in use by another broker"),
        "{error}"
    );
}

#[test]
fn many_partitions_with_little_each_wait_for_more_and_not_for_ever() {
    let written = |count: usize| {
        let machine = machine(1);
        let mut known = vec![Known::default(); count];
        let configs = vec![small_segments(); count];
        let no_checkpoint = DirSettings {
            checkpoint_bytes: 1 << 20,
            ..settings()
        };
        let mut rig = open_at(&machine, Path::new(DIR), no_checkpoint, &configs).unwrap();
        for at in 0..count {
            rig.append(at, &[value("v", at)], &mut known).unwrap();
        }
        rig.commit(&mut known);
        let mut have_files = |delay| {
            rig.work(&machine, delay, &mut known);
            let names = names(&machine, "/data");
            names.iter().filter(|name| name.starts_with('t')).count()
        };
        (have_files(SECOND / 2), have_files(2 * SECOND))
    };
    assert_eq!(written(5), (5, 5));
    assert_eq!(written(150), (0, 150));
}

/// Each of them was synced alone, to be closed for the next: minutes for ten thousand logs.
#[test]
fn a_start_with_more_changed_logs_than_files_may_be_open_syncs_the_volume_instead_of_each_file() {
    const LOGS: usize = 60;
    let machine = machine(31);
    let configs = vec![small_segments(); LOGS];
    let mut known = vec![Known::default(); LOGS];
    let mut rig = open(&machine, &configs).unwrap();
    for at in 0..LOGS {
        rig.append(at, &[value("v", at)], &mut known).unwrap();
    }
    rig.commit(&mut known);
    drop(rig);
    machine.kill();

    let before = machine.counts().syncs;
    let rig = open(&machine, &configs).unwrap();
    let syncs = machine.counts().syncs - before;
    assert!(syncs < 30, "{syncs} syncs for {LOGS} logs");
    check(&rig, &mut known, "after the start");
    drop(rig);
    machine.power_cut();
    let rig = open(&machine, &configs).unwrap();
    assert_eq!(rig.rounds, 0, "the files alone are enough");
    check(&rig, &mut known, "after a power cut");
}

/// So many logs that a checkpoint syncs the volume.
const MANY: usize = 30;

/// A directory that takes a checkpoint of whatever is written.
fn open_eager(machine: &Machine, configs: &[LogConfig]) -> Rig {
    let eager = DirSettings {
        checkpoint_bytes: 1,
        ..settings()
    };
    open_at(machine, Path::new(DIR), eager, configs).unwrap()
}

/// The writer used to wait for it, while committed batches filled the memory until no request was read any more.
#[test]
fn what_comes_while_the_volume_is_synced_is_written_and_is_behind_the_checkpoint() {
    let machine = machine(32);
    let configs = vec![small_segments(); MANY];
    let mut known = vec![Known::default(); MANY];
    let mut rig = open_eager(&machine, &configs);
    let append_all = |rig: &mut Rig, what: &str, known: &mut [Known]| {
        for at in 0..MANY {
            rig.append(at, &[value(what, at)], known).unwrap();
        }
        rig.commit(known);
    };
    let sleeps = |turn: Turn| matches!(turn, Turn::Sleep { .. });
    append_all(&mut rig, "before", &mut known);
    while !sleeps(rig.writer.turn()) {}
    // Write them, begin the checkpoint.
    machine.step_until(machine.now().plus(SECOND / 2));
    while !sleeps(rig.writer.turn()) {}
    let syncs = machine.counts().syncs;
    append_all(&mut rig, "meanwhile", &mut known);
    let commits = machine.counts().syncs - syncs;
    let written = |at: usize| {
        let path = format!("/data/t{at}-0/00000000000000000000.log");
        machine
            .env()
            .disk
            .open(Path::new(&path), Open::Read)
            .unwrap()
            .len()
            .unwrap()
    };
    let before = written(0);
    machine.step_until(machine.now().plus(SECOND / 2));
    while !sleeps(rig.writer.turn()) {}
    assert!(before < written(0), "written while the sync is awaited");
    assert_eq!(machine.counts().syncs - syncs, commits, "nobody has synced");

    assert_eq!(rig.syncer.turn(), Turn::Again, "synced, and not told yet");
    append_all(&mut rig, "after", &mut known);
    while rig.syncer.turn() == Turn::Again {}
    while !sleeps(rig.writer.turn()) {}
    drop(rig);
    machine.power_cut();
    let rig = open(&machine, &configs).unwrap();
    assert!(rig.rounds <= 2, "{} rounds are replayed", rig.rounds);
    check(&rig, &mut known, "after a power cut");
}

#[test]
fn a_broker_stops_with_a_checkpoint_though_nobody_syncs_the_volume() {
    let machine = machine(33);
    let configs = vec![small_segments(); MANY];
    let mut known = vec![Known::default(); MANY];
    let mut rig = open_eager(&machine, &configs);
    for at in 0..MANY {
        rig.append(at, &[value("v", at)], &mut known).unwrap();
    }
    rig.commit(&mut known);
    machine.step_until(machine.now().plus(SECOND / 2));
    while !matches!(rig.writer.turn(), Turn::Sleep { .. }) {}
    rig.stop();
    drop(rig);
    machine.kill();
    let rig = open(&machine, &configs).unwrap();
    assert_eq!(rig.rounds, 0, "the files alone are enough");
    check(&rig, &mut known, "after the stop");
}

#[test]
fn silent_producers_are_looked_for_at_an_interval_of_their_own() {
    let known = |check: Duration, silent: Duration| {
        let machine = machine(1);
        let settings = DirSettings {
            producer_expiration_ms: 2_000,
            producer_expiration_check: check,
            ..settings()
        };
        let configs = [small_segments()];
        let mut rig = open_at(&machine, Path::new(DIR), settings, &configs).unwrap();
        append(&mut rig, records(7, 0, 1, false), Warrant::None).unwrap();
        rig.commit(&mut []);
        rig.work(&machine, silent, &mut []);
        rig.partitions[0].producers(|them| them.len())
    };
    let check = Duration::from_millis(100);
    assert_eq!(known(check, Duration::from_millis(1_950)), 1);
    assert_eq!(known(check, Duration::from_millis(2_150)), 0);
    let retention = settings().retention_check;
    assert_eq!(known(2 * retention, retention + SECOND), 1);
    assert_eq!(known(2 * retention, 2 * retention + SECOND), 0);
}

#[test]
fn another_expiration_of_producers_counts_from_the_next_look_on() {
    let machine = machine(1);
    let configs = [small_segments()];
    let mut rig = open(&machine, &configs).unwrap();
    append(&mut rig, records(7, 0, 1, false), Warrant::None).unwrap();
    rig.commit(&mut []);
    rig.work(
        &machine,
        settings().producer_expiration_check + SECOND,
        &mut [],
    );
    assert_eq!(rig.partitions[0].producers(|them| them.len()), 1);
    rig.residents.set_producer_expiration(2_000);
    rig.work(&machine, settings().producer_expiration_check, &mut []);
    assert_eq!(rig.partitions[0].producers(|them| them.len()), 0);
}

#[test]
fn restarts_leave_no_snapshots_of_producers_behind() {
    let machine = machine(1);
    let configs = [small_segments()];
    for life in 0..8 {
        let mut rig = open(&machine, &configs).unwrap();
        append(&mut rig, records(7, life, 1, false), Warrant::None).unwrap();
        rig.commit(&mut []);
        rig.stop();
        drop(rig);
        machine.kill();
        let dir = Path::new(DIR).join("t0-0");
        let names = machine.env().disk.read_dir(&dir).unwrap();
        let snapshots = names.iter().filter(|it| it.name.ends_with(".snapshot"));
        let count = snapshots.count();
        assert!((1..=2).contains(&count), "{count} after life {life}");
    }
}

#[test]
fn a_log_directory_that_lacks_the_files_of_a_partition_stays_closed_while_no_other_has_them() {
    let machine = machine(70);
    let configs = [small_segments()];
    let mut known = vec![Known::default()];
    for is_cut in [false, true] {
        let mut rig = open(&machine, &configs).unwrap();
        for number in 0..60 {
            rig.append(0, &[value("v", number)], &mut known).unwrap();
            rig.commit(&mut known);
        }
        // The second time the journal has records behind the checkpoint.
        if !is_cut {
            rig.stop();
        }
        drop(rig);
        machine.kill();
        let files = Path::new(DIR).join("t0-0");
        let away = Path::new(DIR).join("away");
        machine.env().disk.rename(&files, &away).unwrap();
        for _ in 0..2 {
            let opened = open(&machine, &configs);
            let Some(OpenError::Io { path, .. }) = opened.err() else {
                panic!("the directory opened without {}", files.display());
            };
            assert_eq!(path, files);
            machine.kill();
        }
        machine.env().disk.rename(&away, &files).unwrap();
        let rig = open(&machine, &configs).unwrap();
        check(&rig, &mut known, "the files are back");
        drop(rig);
        machine.kill();
    }
}
