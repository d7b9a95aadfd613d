//! A log directory with two partitions, threads that use it, and the verdict when all have ended.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use env::sim::{Faults, Machine};
use env::{Bell, Turn, Worker};
use log::config::LogConfig;
use model::{
    BrokerId, InboxId, Instant, LeaderEpoch, Offset, PartitionIndex, Ticket, Timestamp, WaiterKey,
};
use shuttle::sync::Condvar;
use wire::Uuid;
use wire::records::BatchBuilder;

use crate::append::{Acks, Moment};
use crate::dir::{
    Announce, Commit, DirSettings, EverNamed, Found, Identity, LogDir, Recovery, Residents,
    SegmentWriter, Stamp,
};
use crate::news::News;
use crate::partition::{Partition, Start};
use crate::progress::Role;
use crate::sync::Mutex;

const DIR: &str = "/data";
/// Where partitions move to.
const OTHER: &str = "/other";

/// A checkpoint at every turn of the segment writer.
const SETTINGS: DirSettings = DirSettings {
    journal_piece_bytes: 16 << 10,
    journal_first_piece_bytes: 16 << 10,
    checkpoint_bytes: 1,
    hot_tail_bytes: 0,
    unwritten_bytes_max: 128 << 20,
    reserve_bytes: 0,
    segment_files_open_max: 4,
    retention_check: Duration::from_secs(300),
    producer_expiration_ms: i64::MAX,
    producer_expiration_check: Duration::from_secs(600),
    scrub_bytes_per_second: 0,
};

/// Blocks as a bell does, so that a missing ring leaves its waiter where it is.
#[derive(Default)]
pub(crate) struct TestBell {
    state: shuttle::sync::Mutex<BellState>,
    rung: Condvar,
}

#[derive(Default)]
struct BellState {
    is_rung: bool,
    is_waiting: bool,
}

impl TestBell {
    /// Someone sleeps and nobody has rung.
    pub(crate) fn has_sleeper(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.is_waiting && !state.is_rung
    }
}

impl Bell for TestBell {
    fn ring(&self) {
        self.state.lock().unwrap().is_rung = true;
        self.rung.notify_all();
    }

    /// Time does not pass here: a wait with a deadline is as long as one without.
    fn wait(&self, _until: Option<Instant>) {
        let mut state = self.state.lock().unwrap();
        state.is_waiting = true;
        while !state.is_rung {
            state = self.rung.wait(state).unwrap();
        }
        *state = BellState::default();
    }
}

#[derive(Default)]
pub(crate) struct Heard(pub(crate) Mutex<Vec<News>>);

impl Announce for Heard {
    fn announce(&self, news: Vec<News>) {
        self.0.lock().extend(news);
    }
}

pub(crate) struct Rig {
    config: Arc<LogConfig>,
    pub(crate) machine: Machine,
    pub(crate) residents: Arc<Residents>,
    pub(crate) dir: Arc<LogDir>,
    pub(crate) partitions: Vec<Arc<Partition>>,
    pub(crate) bell: Arc<TestBell>,
    pub(crate) heard: Arc<Heard>,
}

fn topic(at: usize) -> Uuid {
    Uuid([at as u8 + 1; 16])
}

/// The metadata told of all topics.
fn told() -> Arc<EverNamed> {
    let mut told = EverNamed::default();
    for at in 0..10 {
        told.note_topic(topic(at), &format!("t{at}"));
        told.note_partition(topic(at), PartitionIndex(0));
    }
    Arc::new(told)
}

fn open(
    machine: &Machine,
    bell: Arc<dyn Bell>,
    config: &Arc<LogConfig>,
) -> (Arc<Residents>, Vec<Arc<Partition>>) {
    let env = machine.env();
    let fresh = || Identity {
        cluster_id: Some("cluster".to_owned()),
        node_id: 1,
    };
    let (recovery, _) = Recovery::begin(&env, Path::new(DIR), SETTINGS, &fresh).unwrap();
    let lookup = |id: Uuid, _| {
        Some(Found {
            topic: format!("t{}", id.0[0] - 1).into(),
            epoch: LeaderEpoch(0),
            config: Arc::clone(config),
            has_others: false,
        })
    };
    let residents = recovery
        .restore(lookup, told())
        .unwrap()
        .finish(bell)
        .unwrap()
        .residents;
    let partition = |at: usize| {
        let known = residents.partition(topic(at), PartitionIndex(0));
        let partition = known.unwrap_or_else(|| {
            let start = Start::empty(LeaderEpoch(0), Arc::clone(config));
            let name = format!("t{at}").into();
            residents.create(topic(at), name, PartitionIndex(0), start)
        });
        lead(&partition);
        partition
    };
    let partitions = (0..2).map(partition).collect();
    (residents, partitions)
}

fn lead(partition: &Partition) {
    let role = Role::alone(BrokerId(1));
    partition.set_role(LeaderEpoch(0), role, &mut Vec::new());
}

pub(crate) fn ticket(index: u32) -> Ticket {
    Ticket {
        inbox: InboxId(0),
        key: WaiterKey(0),
        part: index,
    }
}

fn append(to: &Arc<Partition>, time: u32, ticket: Option<Ticket>) -> Option<Offset> {
    let mut builder = BatchBuilder::new();
    builder.push(Timestamp(i64::from(time)), None, Some(b"value"), &[]);
    let moment = Moment {
        now: Instant(0),
        wall: Timestamp(1),
        stamp: &mut Stamp::default(),
    };
    let appended = to.append(builder.build(), Acks::All(ticket), moment);
    appended.ok().map(|appended| appended.base_offset)
}

/// The second directory, with partition 0 in it if it is to live there.
pub(crate) fn open_other(rig: &Rig, bell: Arc<dyn Bell>, is_home: bool) -> Arc<Residents> {
    let env = rig.machine.env();
    let fresh = || Identity {
        cluster_id: Some("cluster".to_owned()),
        node_id: 1,
    };
    let (recovery, _) = Recovery::begin(&env, Path::new(OTHER), SETTINGS, &fresh).unwrap();
    let lookup = |id: Uuid, _| {
        (is_home && id == topic(0)).then(|| Found {
            topic: "t0".into(),
            epoch: LeaderEpoch(0),
            config: Arc::clone(&rig.config),
            has_others: false,
        })
    };
    recovery
        .restore(lookup, told())
        .unwrap()
        .finish(bell)
        .unwrap()
        .residents
}

impl Rig {
    pub(crate) fn new() -> Arc<Rig> {
        Rig::with(LogConfig::default())
    }

    /// On a disk so slow that rounds are on their way to it together.
    pub(crate) fn slow() -> Arc<Rig> {
        let slow = Faults {
            sync_nanos: 2_000_000..3_000_000,
            ..Faults::default()
        };
        let rig = Rig::on(slow, LogConfig::default());
        let start = Start::empty(LeaderEpoch(0), Arc::clone(&rig.config));
        let residents = &rig.residents;
        let other = residents.create(topic(2), "t2".into(), PartitionIndex(0), start);
        lead(&other);
        append(&other, 0, None);
        rig.commit();
        assert!(rig.dir.is_slow());
        rig
    }

    pub(crate) fn with(config: LogConfig) -> Arc<Rig> {
        Rig::on(Faults::default(), config)
    }

    fn on(faults: Faults, config: LogConfig) -> Arc<Rig> {
        let machine = Machine::new(1, faults);
        let bell = Arc::new(TestBell::default());
        let config = Arc::new(config);
        let (residents, partitions) = open(&machine, bell.clone(), &config);
        Arc::new(Rig {
            config,
            machine,
            dir: Arc::clone(&residents.dir),
            residents,
            partitions,
            bell,
            heard: Arc::default(),
        })
    }

    pub(crate) fn writer(&self) -> SegmentWriter {
        let heard: Arc<dyn Announce> = self.heard.clone();
        SegmentWriter::new(Arc::clone(&self.residents), heard)
    }

    /// Appends one record to partition `at`, with `index` as its time; `None` when the directory has failed.
    pub(crate) fn append(&self, at: usize, index: u32) -> Option<Offset> {
        append(&self.partitions[at], index, Some(ticket(index)))
    }

    /// As a shard commits: until nothing is left, or someone else is at it. An answer must not come before its offset is below
    /// the high watermark.
    pub(crate) fn commit(&self) {
        let mut news = Vec::new();
        while self.dir.commit(&mut news) == Commit::Done && self.dir.has_queued() {}
        self.heard.announce(news);
    }

    pub(crate) fn heard(&self, wanted: impl Fn(&News) -> Option<u32>) -> Vec<u32> {
        let mut indexes: Vec<u32> = self.heard.0.lock().iter().filter_map(wanted).collect();
        indexes.sort_unstable();
        indexes
    }

    pub(crate) fn committed(&self) -> Vec<u32> {
        self.heard(|item| match item {
            News::Reached(ticket) => Some(ticket.part),
            _ => None,
        })
    }

    /// Cuts the power and gives the log ends after recovery.
    pub(crate) fn ends_after_a_power_cut(&self) -> Vec<Offset> {
        self.machine.power_cut();
        let (_residents, partitions) =
            open(&self.machine, Arc::new(TestBell::default()), &self.config);
        partitions
            .iter()
            .map(|partition| partition.bounds().log_end)
            .collect()
    }
}

/// The segment writer as a thread, until the directory stops. What it gathers for a moment it writes by itself.
pub(crate) fn run_until_stopped(rig: &Rig, writer: &mut SegmentWriter) {
    loop {
        let soon = rig.machine.now().plus(Duration::from_secs(1));
        match run_until_asleep(writer) {
            Turn::Done => break,
            Turn::Sleep { until: Some(at) } if at <= soon => {
                rig.machine.step_until(at);
            }
            _ => writer.park(None),
        }
    }
}

/// Turns of the segment writer until it has to sleep.
pub(crate) fn run_until_asleep(writer: &mut SegmentWriter) -> Turn {
    loop {
        match writer.turn() {
            Turn::Again => {}
            turn => return turn,
        }
    }
}
