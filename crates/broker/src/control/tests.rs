//! The vote of the only voter: over starts, losses and power cuts.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use env::sim::{Faults, Machine};
use env::{Turn, Worker};
use model::{BrokerId, LeaderEpoch, Offset};
use parking_lot::Mutex;
use raft::quorum_state::{CHECK_NAME, FILE_NAME};
use raft::{Election, SnapshotId, VoteFile, VoterSet};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use wire::messages::CreateTopicsRequest;
use wire::metadata::PartitionChangeRecord;

use super::plan::Aftermath;
use super::snapshot_files::SnapshotDir;
use super::vote_file::{load, store};
use crate::event_loop::bench::Bench;
use crate::mail::quorum::Order;
use crate::metrics::{Form, Process, Watch};
use crate::quorum::QuorumWorker;

const DIR: &str = "/data";

fn epoch(bench: &Bench) -> LeaderEpoch {
    bench.shard.desk.shared.metadata.log_bounds().epoch
}

#[test]
fn each_start_leads_the_metadata_log_in_a_new_epoch_and_keeps_what_it_says() {
    let mut bench = Bench::new();
    bench.create("t", 3);
    bench.commit();
    assert_eq!(epoch(&bench), LeaderEpoch(1));
    for starts in 2..5 {
        bench = bench.restart();
        assert_eq!(epoch(&bench), LeaderEpoch(starts));
        let image = bench.shard.desk.shared.catalog.image();
        assert_eq!(
            image.topic("t").map(|topic| topic.partitions.len()),
            Some(3)
        );
        assert_eq!(image.last_epoch(), LeaderEpoch(starts));
    }
}

#[test]
fn the_only_voter_leads_though_its_vote_file_is_lost_or_damaged() {
    for lost in [&[FILE_NAME][..], &[CHECK_NAME], &[FILE_NAME, CHECK_NAME]] {
        let bench = Bench::new().restart();
        let disk = bench.shard.desk.shared.env.disk.clone();
        for name in lost {
            disk.remove_file(&Path::new(DIR).join(name))
                .expect("it is there");
        }
        assert_eq!(epoch(&bench.restart()), LeaderEpoch(3), "{lost:?}");
    }
    let bench = Bench::new().restart();
    bench.rot("/data/quorum-state", 1);
    assert_eq!(epoch(&bench.restart()), LeaderEpoch(3));
}

#[test]
fn a_vote_file_is_the_old_or_the_new_one_wherever_the_power_goes() {
    let election = |epoch| Election {
        epoch: LeaderEpoch(epoch),
        leader: Some(BrokerId(1)),
        voted: None,
    };
    let voters = VoterSet::default();
    let mut seen = [0, 0];
    for seed in 0..40 {
        for at in 1..30 {
            let machine = Machine::new(seed, Faults::default());
            let env = machine.env();
            let dir = Path::new(DIR);
            env.disk.create_dir_all(dir).expect("a new directory");
            env.disk
                .sync_dir(Path::new("/"))
                .expect("a disk that works");
            let begun = store(&*env.disk, dir, &election(1), 0, &voters);
            begun.expect("a disk that works");
            let operation = machine.counts().disk_ops + at;
            machine.faults(|faults| faults.crash_at_op = Some(operation));
            let done = store(&*env.disk, dir, &election(2), 0, &voters);
            machine.power_cut();
            machine.faults(|faults| faults.crash_at_op = None);
            let found = load(&*machine.env().disk, dir).expect("a disk that works");
            let VoteFile::Known(found) = found else {
                panic!("seed {seed}, operation {at}: {found:?}");
            };
            assert!(done.is_err() || found == election(2));
            seen[usize::from(found == election(2))] += 1;
        }
    }
    assert!(seen.iter().all(|times| *times > 10), "{seen:?}");
}

/// A broker that takes a snapshot for every few records.
const OFTEN: [(&str, &str); 1] = [("metadata.log.max.record.bytes.between.snapshots", "2000")];

/// Topics come and go; the worker does what was ordered.
fn churn(bench: &mut Bench, name: &str, rounds: usize) {
    let mut worker = worker(bench);
    for round in 0..rounds {
        bench.create(&format!("{name}-{round}"), 2);
        bench.commit();
        let answer = bench
            .answer::<CreateTopicsRequest>(4)
            .expect("it is durable");
        assert_eq!(answer.topics[0].error_code, 0, "round {round}");
        take_orders(&mut worker);
    }
}

/// Does what was ordered, and lets the chore of the snapshots do its part.
fn take_orders(worker: &mut QuorumWorker) {
    worker.take_orders();
    worker.snapshot_writer().turn();
    worker.take_orders();
}

fn worker(bench: &Bench) -> QuorumWorker {
    let shared = Arc::clone(&bench.shard.desk.shared);
    let poller = shared.env.net.poller().expect("a poller");
    QuorumWorker::new(shared, poller, (None, None))
}

fn names(bench: &Bench) -> Vec<String> {
    let image = bench.shard.desk.shared.catalog.image();
    image.topics().map(|topic| topic.name.to_string()).collect()
}

fn snapshots(bench: &Bench) -> Vec<SnapshotId> {
    let dir = SnapshotDir::of(Path::new(DIR));
    let disk = bench.shard.desk.shared.env.disk.clone();
    let found = dir.list(&*disk).expect("a disk that works");
    found.into_iter().map(|(id, _)| id).collect()
}

#[test]
fn the_metadata_log_begins_at_a_snapshot_and_two_of_them_are_kept() {
    let mut bench = Bench::with(&OFTEN);
    churn(&mut bench, "first", 60);
    let kept = snapshots(&bench);
    assert_eq!(kept.len(), 2, "{kept:?}");
    let metadata = &bench.shard.desk.shared.metadata;
    assert_eq!(metadata.log_bounds().log_start, kept[0].end);
    let (before, end) = (names(&bench), bench.shard.desk.shared.catalog.image().end());
    let mut bench = bench.restart();
    let image = bench.shard.desk.shared.catalog.image();
    assert_eq!(names(&bench), before);
    assert!(end < image.end() && image.end() < end + 10, "it goes on");
    churn(&mut bench, "second", 5);
    let newest = snapshots(&bench).pop().expect("two are kept");
    let name = format!("{:020}-{:010}.checkpoint", newest.end.0, newest.epoch.0);
    bench.rot(&format!("{DIR}/snapshots/{name}"), 100);
    let before = names(&bench);
    assert_eq!(
        names(&bench.restart()),
        before,
        "the log has what the damaged one had"
    );
}

#[test]
fn metadata_are_whole_wherever_the_power_goes_while_a_snapshot_is_taken() {
    let mut with_snapshot = 0;
    for at in 0..40 {
        let mut bench = Bench::with(&OFTEN);
        churn(&mut bench, "t", 12);
        let before = names(&bench);
        let end = Offset(bench.shard.desk.shared.catalog.image().end());
        let mut worker = worker(&bench);
        take_orders(&mut worker);
        bench.crash_after(at);
        (bench.shard.desk.shared.mail.quorum).order([Order::TakeSnapshot]);
        take_orders(&mut worker);
        drop(worker);
        let bench = bench.power_cut();
        assert_eq!(names(&bench), before, "operation {at}");
        let is_there = snapshots(&bench).iter().any(|id| id.end == end);
        with_snapshot += usize::from(is_there);
    }
    assert!(0 < with_snapshot && with_snapshot < 40, "{with_snapshot}");
}

/// The disk has no room: one line, a pause, and the next try writes it.
#[test]
fn a_snapshot_that_cannot_be_written_is_said_once_and_tried_again() {
    let mut bench = Bench::new();
    bench.create("t", 1);
    bench.commit();
    let before = names(&bench);
    let written = Written::default();
    let kept = tracing::subscriber::set_default(written.clone());
    let mut worker = worker(&bench);
    worker.take_orders();
    let mut writer = worker.snapshot_writer();
    (bench.shard.desk.shared.mail.quorum).order([Order::TakeSnapshot]);
    worker.take_orders();
    bench.fill_disk();
    let mut watch = Watch::new(&bench.shard.desk.shared);
    let mut seen = || {
        let page = watch.page(Form::accepted(""), Process::default());
        let mut values = page.lines().filter_map(|line| {
            let value = line.strip_prefix("esker_metadata_snapshot_failing_seconds ")?;
            value.parse::<f64>().ok()
        });
        let told = watch.readiness().unwrap_or_else(|why| why);
        (values.next(), told)
    };
    for seconds in [0, 5, 10] {
        let Turn::Sleep { until: Some(until) } = writer.turn() else {
            panic!("it rests and tries again");
        };
        let (value, told) = seen();
        assert_eq!(value.map(f64::floor), Some(f64::from(seconds)));
        let note = format!("no snapshot of the metadata could be written for {seconds} s");
        assert!(told.contains(&note), "{told}");
        assert_eq!(snapshots(&bench), []);
        assert_eq!(
            writer.turn(),
            Turn::Sleep { until: Some(until) },
            "not before"
        );
        bench.wait_in_turn(Duration::from_secs(5));
    }
    bench.empty_disk();
    assert_eq!(writer.turn(), Turn::Sleep { until: None });
    assert_eq!(snapshots(&bench).len(), 1);
    let (value, told) = seen();
    assert_eq!(value, Some(0.0));
    assert!(!told.contains("snapshot"), "{told}");
    drop(kept);
    let lines = written.0.lock().clone();
    let lines: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains("snapshot"))
        .collect();
    assert!(
        lines[0].starts_with("cannot write a snapshot of the metadata:"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("snapshots of the metadata are written again"),
        "{lines:?}"
    );
    assert!(
        lines[2..]
            .iter()
            .all(|line| line.starts_with("wrote a snapshot")),
        "{lines:?}"
    );
    drop(worker);
    assert_eq!(names(&bench.restart()), before);
}

/// Found by a seed: a start that registers anew was not heard of, and nine seconds later its broker led nothing.
#[test]
fn the_only_broker_is_never_taken_for_silent() {
    let bench = Bench::new().restart_with("broker.rack", "elsewhere");
    let shared = Arc::clone(&bench.shard.desk.shared);
    let now = shared.env.clock.now();
    shared
        .metadata
        .tick(now.plus(std::time::Duration::from_secs(3_600)));
    shared
        .metadata
        .commit_at_start()
        .expect("a disk that works");
    let image = shared.catalog.image();
    let own = image.broker(BrokerId(1)).expect("it registered");
    assert_eq!(
        (own.rack.as_deref(), own.is_fenced),
        (Some("elsewhere"), false)
    );
}

#[test]
fn a_snapshot_is_taken_when_the_last_is_old_and_something_was_committed_since() {
    let setting = ("metadata.log.max.snapshot.interval.ms", "60000");
    let mut bench = Bench::with(&[setting]);
    churn(&mut bench, "t", 1);
    assert_eq!(snapshots(&bench).len(), 0);
    let is_due = |bench: &Bench, seconds| {
        let shared = &bench.shard.desk.shared;
        let later = shared.env.clock.now().plus(Duration::from_secs(seconds));
        shared.metadata.is_snapshot_due(later)
    };
    assert!(!is_due(&bench, 59) && is_due(&bench, 60));
    let mut worker = worker(&bench);
    let now = bench.shard.desk.shared.env.clock.now();
    worker.take_snapshot_if_due(now.plus(Duration::from_secs(59)));
    assert_eq!(snapshots(&bench).len(), 0);
    worker.take_snapshot_if_due(now.plus(Duration::from_secs(60)));
    assert_eq!(snapshots(&bench).len(), 0, "another thread writes it");
    take_orders(&mut worker);
    assert_eq!(snapshots(&bench).len(), 1);
    assert!(!is_due(&bench, 600), "nothing was committed since");
    churn(&mut bench, "u", 1);
    assert!(is_due(&bench, 600));

    let mut never = Bench::with(&[("metadata.log.max.snapshot.interval.ms", "0")]);
    churn(&mut never, "t", 1);
    assert!(!is_due(&never, 1_000_000));
}

#[test]
fn a_node_that_is_alone_writes_no_idle_records_and_one_that_has_met_another_does() {
    let mut bench = Bench::new();
    bench.create("t", 1);
    bench.commit();
    let shared = Arc::clone(&bench.shard.desk.shared);
    let end = || shared.metadata.log_bounds().log_end;
    let before = end();
    let later = |ms| shared.env.clock.now().plus(Duration::from_millis(ms));
    shared.metadata.tick(later(10_000));
    assert_eq!(end(), before);
    shared.metadata.meet_others();
    // Voters that no settings name went into the log.
    assert_eq!(shared.metadata.plan.lock().quorum.history().version(), 1);
    let met = end();
    assert!(before < met);
    shared.metadata.tick(later(499));
    assert_eq!(end(), met);
    shared.metadata.tick(later(500));
    assert_eq!(end().0, met.0 + 1);
    let own = shared.catalog.image();
    let own = own.broker(BrokerId(1)).expect("it is registered");
    assert_eq!(shared.state.broker_epoch(), own.epoch);
    assert!(!shared.state.is_self_fenced() && !shared.state.is_alone());
}

/// The texts that were written to the log.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<String>>>);

impl Subscriber for Written {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Text(&mut self.0.lock()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text<'a>(&'a mut Vec<String>);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.push(format!("{value:?}"));
        }
    }
}

/// The lines and the number of elections when a controller that is no longer alone fences the only broker and has it lead again: after the
/// decisions, and once they are committed.
fn fencing(ends_leadership: bool) -> [(Vec<String>, u64); 2] {
    let mut bench = Bench::new();
    bench.create("t", 2);
    bench.commit();
    let shared = Arc::clone(&bench.shard.desk.shared);
    shared.metadata.meet_others();
    shared
        .metadata
        .commit_at_start()
        .expect("a disk that works");
    let written = Written::default();
    let _kept = tracing::subscriber::set_default(written.clone());
    let seen = || {
        let lines = std::mem::take(&mut *written.0.lock());
        let words = ["fenced", "without a leader", "another broker"];
        let mut kept = lines;
        kept.retain(|line| words.iter().any(|word| line.contains(word)));
        (kept, shared.meters.counts.read().elections)
    };
    let now = shared.env.clock.now();
    shared.metadata.tick(now.plus(Duration::from_secs(3_600)));
    let mut plan = shared.metadata.plan.lock();
    let election = PartitionChangeRecord {
        topic_id: plan.image.topic("t").expect("created").id,
        partition_id: 1,
        leader: 1,
        ..PartitionChangeRecord::default()
    };
    let mut aftermath = Aftermath::default();
    let done = plan.write(&shared.metadata.parts, &[election.into()], &mut aftermath);
    done.expect("it is the active controller");
    drop(plan);
    shared.metadata.conclude(aftermath);
    let decided = seen();
    if ends_leadership {
        shared.metadata.plan.lock().leadership = None;
    }
    shared
        .metadata
        .commit_at_start()
        .expect("a disk that works");
    let image = shared.catalog.image();
    assert!(image.broker(BrokerId(1)).expect("registered").is_fenced);
    [decided, seen()]
}

#[test]
fn what_a_controller_decides_is_written_to_the_log_once_it_is_committed() {
    let [decided, committed] = fencing(false);
    assert_eq!(decided, (Vec::new(), 0));
    let lines = [
        "broker 1 is fenced: it sent no heartbeat within its session",
        "2 partitions without a leader from now on: t-0 (broker 1 led it), t-1 (broker 1 led it)",
        "1 partition led by another broker: t-1 by broker 1, after none",
    ];
    assert_eq!(committed, (lines.map(String::from).to_vec(), 1));
    assert_eq!(fencing(true), [(Vec::new(), 0), (Vec::new(), 0)]);
}
