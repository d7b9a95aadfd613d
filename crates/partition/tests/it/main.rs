//! Log directories and their partitions on a simulated machine: commits, checkpoints, recovery, failing and full disks.

mod compaction;
mod cuts;
mod damage;
mod descriptors;
mod failure;
mod flush;
mod folding;
mod full;
mod gaps;
mod hot;
mod leaving;
mod lifecycle;
mod lost;
mod moving;
mod needs;
mod owners;
mod pieces;
mod power;
mod removal;
mod repairs;
mod replicas;
mod rescue;
mod scrub;
mod strays;
mod tiered;
mod together;
mod transactions;
mod waiting;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::sim::{Faults, Machine};
use env::{Turn, Worker};
use log::config::{Durability, LogConfig};
use model::{BrokerId, InboxId, LeaderEpoch, Offset, PartitionIndex, Ticket, Timestamp, WaiterKey};
use parking_lot::Mutex;
use partition::{
    Acks, Announce, AppendError, Asked, Commit, DirSettings, EverNamed, Extent, FollowError,
    Followed, Found, Identity, Isolation, LogDir, Moment, News, OpenError, Opened, Partition,
    PieceMaker, ReadRequest, ReceiveBuffer, Records, Recovery, Residents, Role, Scope,
    SegmentWriter, Stamp, Start, Syncer, TrimError,
};
use wire::Uuid;
use wire::records::{Batch, BatchBuilder, Caps, Codec, RecordIter, Source};

const DIR: &str = "/data";

fn settings() -> DirSettings {
    DirSettings {
        journal_piece_bytes: 32 << 10,
        journal_first_piece_bytes: 16 << 10,
        checkpoint_bytes: 48 << 10,
        hot_tail_bytes: 2 << 10,
        unwritten_bytes_max: 128 << 20,
        reserve_bytes: 0,
        segment_files_open_max: 4,
        retention_check: Duration::from_secs(300),
        producer_expiration_ms: i64::MAX,
        producer_expiration_check: Duration::from_secs(600),
        scrub_bytes_per_second: 0,
    }
}

fn small_segments() -> LogConfig {
    LogConfig {
        segment_bytes: 4 << 10,
        index_interval_bytes: 300,
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    }
}

/// All that was ever reported of one partition, across restarts.
#[derive(Clone, Default)]
struct Known {
    /// Value at each offset, as last appended there.
    sent: BTreeMap<i64, Vec<u8>>,
    /// Everything below was acknowledged.
    acked: i64,
    /// Trims that were acknowledged.
    start: i64,
    /// Trims that were asked for.
    start_asked: i64,
}

#[derive(Default)]
struct Heard(Mutex<Vec<News>>);

impl Announce for Heard {
    fn announce(&self, news: Vec<News>) {
        self.0.lock().extend(news);
    }
}

/// Why a ticket waits.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Append { partition: usize, end: i64 },
    Trim { partition: usize, start: i64 },
}

/// Topics `t0`, `t1`, ... with one partition each, in one directory.
struct Rig {
    residents: Arc<Residents>,
    dir: Arc<LogDir>,
    partitions: Vec<Arc<Partition>>,
    writer: SegmentWriter,
    maker: PieceMaker,
    syncer: Syncer,
    heard: Arc<Heard>,
    stamp: Stamp,
    waiting: BTreeMap<u32, Wait>,
    tickets: u32,
    failed: Vec<Wait>,
    rounds: u64,
    /// Of all logs that were found, those of partitions that live elsewhere too.
    extents: BTreeMap<(Uuid, PartitionIndex), Extent>,
}

fn topic(at: usize) -> Uuid {
    Uuid([at as u8 + 1; 16])
}

/// More than any test has.
const TOPICS: Range<usize> = 0..200;

/// The metadata log told of these, and of their first partitions.
fn told(topics: Range<usize>) -> Arc<EverNamed> {
    let mut told = EverNamed::default();
    for at in topics {
        told.note_topic(topic(at), &format!("t{at}"));
        told.note_partition(topic(at), PartitionIndex(0));
    }
    Arc::new(told)
}

fn found(at: usize, config: &LogConfig) -> Found {
    Found {
        topic: format!("t{at}").into(),
        epoch: LeaderEpoch(at as i32),
        config: Arc::new(config.clone()),
        has_others: false,
    }
}

/// Opens `path` on the machine with one partition per config.
fn open_at(
    machine: &Machine,
    path: &Path,
    settings: DirSettings,
    configs: &[LogConfig],
) -> Result<Rig, OpenError> {
    open_where(machine, path, settings, configs, |_| true)
}

/// The same, where some of the partitions live elsewhere.
fn open_where(
    machine: &Machine,
    path: &Path,
    settings: DirSettings,
    configs: &[LogConfig],
    lives: impl Fn(usize) -> bool,
) -> Result<Rig, OpenError> {
    open_told(machine, path, settings, configs, lives, told(TOPICS))
}

/// The same, where the metadata never told of some.
fn open_told(
    machine: &Machine,
    path: &Path,
    settings: DirSettings,
    configs: &[LogConfig],
    lives: impl Fn(usize) -> bool,
    told: Arc<EverNamed>,
) -> Result<Rig, OpenError> {
    let rig = open_unled(machine, path, settings, configs, lives, told)?;
    for partition in &rig.partitions {
        lead(partition, partition.bounds().epoch.0);
    }
    Ok(rig)
}

/// The same, before anyone says who leads.
fn open_unled(
    machine: &Machine,
    path: &Path,
    settings: DirSettings,
    configs: &[LogConfig],
    lives: impl Fn(usize) -> bool,
    told: Arc<EverNamed>,
) -> Result<Rig, OpenError> {
    let env = machine.env();
    let fresh = || Identity {
        cluster_id: Some("cluster".to_owned()),
        node_id: 1,
    };
    let (recovery, _) = Recovery::begin(&env, path, settings, &fresh)?;
    let lookup = |id: Uuid, _| {
        let at = usize::from(id.0[0]).checked_sub(1)?;
        configs.get(at).map(|config| found(at, config))
    };
    let mut restored = recovery.restore(lookup, told)?;
    let extents = restored.extents().collect();
    for at in (0..configs.len()).filter(|at| !lives(*at)) {
        restored.leave((topic(at), PartitionIndex(0)));
    }
    let opened = restored.finish(env.threads.bell())?;
    Ok(rig_with(opened, configs, lives, extents))
}

/// A directory that is open, and partitions in it, new ones among them.
fn rig_with(
    opened: Opened,
    configs: &[LogConfig],
    lives: impl Fn(usize) -> bool,
    extents: BTreeMap<(Uuid, PartitionIndex), Extent>,
) -> Rig {
    let residents = opened.residents;
    let dir = Arc::clone(&residents.dir);
    let here = (configs.iter().enumerate()).filter(|(at, _)| lives(*at));
    let partitions = here.map(|(at, config)| {
        residents
            .partition(topic(at), PartitionIndex(0))
            .unwrap_or_else(|| {
                let start = Start::empty(LeaderEpoch(at as i32), Arc::new(config.clone()));
                let name = format!("t{at}").into();
                residents.create(topic(at), name, PartitionIndex(0), start)
            })
    });
    let partitions = partitions.collect();
    let heard = Arc::new(Heard::default());
    let announce: Arc<dyn Announce> = heard.clone();
    Rig {
        writer: SegmentWriter::new(Arc::clone(&residents), Arc::clone(&announce)),
        maker: PieceMaker::new(Arc::clone(&dir), announce),
        syncer: Syncer::new(Arc::clone(&dir)),
        residents,
        dir,
        partitions,
        heard,
        stamp: Stamp::default(),
        waiting: BTreeMap::new(),
        tickets: 0,
        failed: Vec::new(),
        rounds: opened.rounds,
        extents,
    }
}

fn open(machine: &Machine, configs: &[LogConfig]) -> Result<Rig, OpenError> {
    open_at(machine, Path::new(DIR), settings(), configs)
}

/// This broker leads it, with no other replica.
fn lead(partition: &Partition, epoch: i32) {
    set_role(partition, epoch, Role::alone(BrokerId(1)));
}

fn set_role(partition: &Partition, epoch: i32, role: Role) -> Vec<News> {
    let mut news = Vec::new();
    partition.set_role(LeaderEpoch(epoch), role, &mut news);
    news
}

/// Has a partition follow with bytes that are alone in their buffer.
fn take(
    partition: &Arc<Partition>,
    bytes: &Bytes,
    asked: impl Into<Asked>,
    moment: Moment<'_>,
) -> Result<Followed, FollowError> {
    let mut buffer = ReceiveBuffer::new(bytes.len());
    partition.follow((bytes, &mut buffer), asked, moment)
}

fn ticket(index: u32) -> Ticket {
    Ticket {
        inbox: InboxId(0),
        key: WaiterKey(0),
        part: index,
    }
}

fn batch_of(values: &[Vec<u8>]) -> Batch {
    let mut builder = BatchBuilder::new();
    for value in values {
        builder.push(Timestamp(1_700_000_000_000), None, Some(value), &[]);
    }
    builder.build()
}

impl Rig {
    fn ticket(&mut self, wait: Wait) -> Ticket {
        self.tickets += 1;
        self.waiting.insert(self.tickets, wait);
        ticket(self.tickets)
    }

    fn append(
        &mut self,
        at: usize,
        values: &[Vec<u8>],
        known: &mut [Known],
    ) -> Result<i64, AppendError> {
        let partition = Arc::clone(&self.partitions[at]);
        let end = partition.bounds().log_end.0 + values.len() as i64;
        let ticket = self.ticket(Wait::Append { partition: at, end });
        let moment = Moment {
            now: model::Instant(0),
            wall: Timestamp(1_700_000_000_000),
            stamp: &mut self.stamp,
        };
        let appended = partition.append(batch_of(values), Acks::All(Some(ticket)), moment);
        match appended {
            Ok(appended) => {
                let base = appended.base_offset.0;
                assert_eq!(base + values.len() as i64, end);
                for (offset, value) in (base..).zip(values) {
                    known[at].sent.insert(offset, value.clone());
                }
                Ok(base)
            }
            Err(error) => {
                self.waiting.remove(&self.tickets);
                Err(error)
            }
        }
    }

    fn trim(&mut self, at: usize, to: i64, known: &mut [Known]) -> Result<Offset, TrimError> {
        let partition = Arc::clone(&self.partitions[at]);
        let ticket = self.ticket(Wait::Trim {
            partition: at,
            start: to,
        });
        known[at].start_asked = known[at].start_asked.max(to);
        let trimmed = partition.trim(Some(Offset(to)), ticket);
        if trimmed.is_err() {
            self.waiting.remove(&self.tickets);
        }
        trimmed
    }

    /// Commits everything that is queued; what is acknowledged goes to `known`.
    fn commit(&mut self, known: &mut [Known]) {
        let mut news = Vec::new();
        while self.dir.commit(&mut news) == Commit::Done && self.dir.has_queued() {}
        self.hear(news, known);
    }

    fn hear(&mut self, mut news: Vec<News>, known: &mut [Known]) {
        news.append(&mut self.heard.0.lock());
        for item in news {
            match item {
                News::Reached(ticket) => match self.waiting.remove(&ticket.part) {
                    Some(Wait::Append { partition, end }) => {
                        known[partition].acked = known[partition].acked.max(end);
                    }
                    Some(Wait::Trim { partition, start }) => {
                        known[partition].start = known[partition].start.max(start);
                    }
                    None => panic!("{ticket:?} was redeemed twice"),
                },
                News::Failed(ticket) => {
                    let wait = self.waiting.remove(&ticket.part);
                    self.failed.push(wait.expect("a ticket fails once"));
                }
                News::Readable(_) => {}
                News::NotLeader(_) | News::TooFewReplicas(_) => panic!("one broker leads"),
            }
        }
    }

    /// Lets the maker of journal pieces do what it would do without pauses.
    fn make_pieces(&mut self) {
        while !matches!(self.maker.turn(), Turn::Done | Turn::Sleep { until: None }) {}
    }

    /// Lets the segment writer and the maker of pieces do what it would do within `time`.
    fn work(&mut self, machine: &Machine, time: Duration, known: &mut [Known]) {
        let end = machine.now().plus(time);
        let mut turns = 0;
        loop {
            turns += 1;
            assert!(turns < 10_000, "the segment writer spins");
            self.make_pieces();
            while self.syncer.turn() == Turn::Again {}
            match self.writer.turn() {
                Turn::Again => {}
                Turn::Done => break,
                Turn::Sleep { until } => {
                    let until = until.unwrap_or(end).min(end);
                    if machine.is_off() || machine.now() >= end {
                        break;
                    }
                    machine.step_until(until);
                }
            }
        }
        self.hear(Vec::new(), known);
    }

    /// Stops as the broker does: everything written, a checkpoint taken.
    fn stop(&mut self) {
        self.dir.stop();
        while self.writer.turn() != Turn::Done {}
    }

    /// All records that a reader of the partition sees, by offset.
    fn read(&self, at: usize) -> BTreeMap<i64, Vec<u8>> {
        let partition = &self.partitions[at];
        let bounds = partition.bounds();
        let mut next = bounds.log_start;
        let mut seen = BTreeMap::new();
        while next < bounds.high_watermark {
            let batches = plan(partition, next).expect("readable");
            assert!(
                !batches.is_empty(),
                "t{at} gives nothing at {next} of {bounds:?}"
            );
            for batch in batches {
                assert!(batch.is_intact());
                let plain = batch.plain(Caps::default()).unwrap();
                for record in RecordIter::new(&plain, batch.record_count()) {
                    let record = record.unwrap();
                    let offset = batch.base_offset().0 + i64::from(record.offset_delta);
                    if offset >= bounds.log_start.0 {
                        seen.insert(offset, record.value.unwrap().to_vec());
                    }
                }
                next = batch.next_offset();
            }
        }
        seen
    }
}

fn read_from(from: Offset) -> ReadRequest {
    ReadRequest {
        from,
        bytes_max: 3000,
        memory_bytes_max: usize::MAX,
        at_least_one: true,
        current_epoch: LeaderEpoch::NONE,
        scope: Scope::of_leader(Isolation::Uncommitted),
    }
}

fn plan(partition: &Partition, from: Offset) -> Result<Vec<Batch>, partition::ReadError> {
    Ok(match partition.read(read_from(from))?.records {
        Records::AtEnd => Vec::new(),
        Records::Memory(batches) => batches,
        Records::File(slice) => {
            let bytes: Bytes = slice.read().unwrap();
            Batch::cut(&bytes, Source::Log)
                .map_while(Result::ok)
                .collect()
        }
    })
}

/// After a recovery: everything acknowledged is there, everything there was sent, in its place. What was not acknowledged and
/// is gone is forgotten.
fn check(rig: &Rig, known: &mut [Known], context: &str) {
    for (at, known) in known.iter_mut().enumerate() {
        let bounds = rig.partitions[at].bounds();
        let (start, end) = (bounds.log_start.0, bounds.log_end.0);
        assert!(
            known.acked <= end,
            "{context}: t{at} ends at {end}, {} was acked",
            known.acked
        );
        assert!(
            known.start <= start && start <= known.start_asked,
            "{context}: t{at} starts at {start} of {}..{}",
            known.start,
            known.start_asked
        );
        let seen = rig.read(at);
        let want: BTreeMap<_, _> = known
            .sent
            .range(start..end)
            .map(|(offset, value)| (*offset, value.clone()))
            .collect();
        assert_eq!(
            seen.len() as i64,
            (end - start).max(0),
            "{context}: t{at} has holes"
        );
        assert!(seen == want, "{context}: t{at} holds other bytes");
        known.sent.retain(|offset, _| *offset < end);
        known.acked = end;
        (known.start, known.start_asked) = (start, start);
    }
}

fn value(tag: &str, number: usize) -> Vec<u8> {
    format!("{tag} {number} {}", "x".repeat(number * 37 % 400)).into_bytes()
}

fn machine(seed: u64) -> Machine {
    Machine::new(seed, Faults::default())
}

const SECOND: Duration = Duration::from_secs(1);
