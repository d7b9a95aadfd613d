//! Followers: batches as they come, cuts where the leader's log parts, restarts at a snapshot; and every crash in between.

use std::io::IoSlice;

use env::disk::Open;
use log::checkpoint;
use log::journal::{Entry, SYNCS_MAX, What};
use model::lineage::EpochEnd;
use model::{ProducerEpoch, ProducerId, Sequence};
use partition::{
    Begun, CutError, Durable, FollowError, Isolation, Life, NeverDurable, Push, Reached, ReadError,
    Restart, Scope, Slot, Synced,
};

use super::together::slow_machine;
use super::*;

pub(super) const EPOCH: i32 = 5;

pub(super) fn unled(machine: &Machine) -> Result<Rig, OpenError> {
    unled_with(machine, settings())
}

fn unled_with(machine: &Machine, settings: DirSettings) -> Result<Rig, OpenError> {
    let all = told(TOPICS);
    let configs = [small_segments(), small_segments()];
    open_unled(machine, Path::new(DIR), settings, &configs, |_| true, all)
}

pub(super) fn follower(machine: &Machine) -> Rig {
    let rig = unled(machine).unwrap();
    follow_in(&rig, EPOCH);
    rig
}

pub(super) fn follow_in(rig: &Rig, epoch: i32) -> Vec<News> {
    set_role(&rig.partitions[0], epoch, Role::NotLeading)
}

pub(super) fn led(base: i64, epoch: i32, values: &[Vec<u8>]) -> Batch {
    let mut batch = batch_of(values);
    batch.set_base_offset(Offset(base));
    batch.set_leader_epoch(LeaderEpoch(epoch));
    batch
}

pub(super) fn follow(rig: &mut Rig, batches: &[Batch], asked: i32) -> Result<i64, FollowError> {
    let bytes: Vec<u8> = batches.iter().flat_map(|of| of.to_bytes()).collect();
    let moment = Moment {
        now: model::Instant(0),
        wall: Timestamp(1_700_000_000_000),
        stamp: &mut rig.stamp,
    };
    let followed = super::take(
        &rig.partitions[0],
        &bytes.into(),
        LeaderEpoch(asked),
        moment,
    )?;
    assert_eq!(followed.count, batches.len());
    Ok(followed.end.0)
}

pub(super) fn commit(rig: &Rig) -> Vec<News> {
    let mut news = Vec::new();
    while rig.dir.commit(&mut news) == Commit::Done && rig.dir.has_queued() {}
    news
}

fn cut(rig: &Rig, to: i64, epoch: i32) -> Result<Life, CutError> {
    rig.partitions[0].cut(Offset(to), LeaderEpoch(epoch))
}

fn committed(rig: &Rig, up_to: i64) -> i64 {
    let mut news = Vec::new();
    rig.partitions[0].on_committed(Offset(up_to), &mut news);
    rig.partitions[0].bounds().high_watermark.0
}

/// Base offset, epoch and values of each batch, committed or not, to the end of the log.
pub(super) fn contents(partition: &Partition) -> Vec<(i64, i32, Vec<u8>)> {
    let bounds = partition.bounds();
    let mut next = bounds.log_start;
    let mut all = Vec::new();
    while next < bounds.log_end {
        let request = ReadRequest {
            scope: Scope::of_any(Isolation::Log),
            ..read_from(next)
        };
        let read = partition.read(request);
        let batches = match read
            .unwrap_or_else(|error| panic!("{error} in {bounds:?}"))
            .records
        {
            Records::AtEnd => Vec::new(),
            Records::Memory(batches) => batches,
            Records::File(slice) => Batch::cut(&slice.read().unwrap(), Source::Log)
                .map_while(Result::ok)
                .collect(),
        };
        assert!(!batches.is_empty(), "nothing at {next} of {bounds:?}");
        for batch in batches {
            assert!(batch.is_intact() && next <= batch.base_offset());
            next = batch.next_offset();
            let values = batch.plain(Caps::default()).unwrap();
            all.push((
                batch.base_offset().0,
                batch.leader_epoch().0,
                values.to_vec(),
            ));
        }
    }
    all
}

pub(super) fn shape(batch: &Batch) -> (i64, i32, Vec<u8>) {
    let values = batch.plain(Caps::default()).unwrap();
    (
        batch.base_offset().0,
        batch.leader_epoch().0,
        values.to_vec(),
    )
}

#[test]
fn follower_keeps_what_its_leader_sent() {
    let machine = machine(1);
    let mut rig = follower(&machine);
    let sent = [
        led(0, 3, &[value("a", 0)]),
        led(1, 4, &[value("a", 1), value("a", 2)]),
    ];
    assert_eq!(follow(&mut rig, &sent, EPOCH).unwrap(), 3);
    let partition = Arc::clone(&rig.partitions[0]);
    assert_eq!(partition.synced().up_to, Offset(0));
    assert!(partition.watch_synced(ticket(7), Synced::default()));
    assert_eq!(commit(&rig), [News::Readable(ticket(7))]);
    assert!(!partition.watch_synced(ticket(8), Synced::default()));
    assert_eq!(partition.synced().up_to, Offset(3));
    assert_eq!(contents(&partition), sent.each_ref().map(shape));
    assert_eq!(partition.epoch_at(Offset(0)), LeaderEpoch(3));
    assert_eq!(partition.epoch_at(Offset(2)), LeaderEpoch(4));
    // Shown to readers is what the leader calls committed, and is durable here.
    assert_eq!(committed(&rig, 1), 1);
    assert_eq!(committed(&rig, 9), 3);
    assert!(matches!(
        partition.read(read_from(Offset(0))),
        Err(ReadError::NotLeader)
    ));
}

#[test]
fn follower_refuses_what_does_not_continue_its_log() {
    let machine = machine(1);
    let mut rig = follower(&machine);
    follow(&mut rig, &[led(0, EPOCH, &[value("a", 0)])], EPOCH).unwrap();
    let next = led(1, EPOCH, &[value("a", 1)]);
    let gap = led(2, EPOCH, &[value("a", 1)]);
    let later = led(1, EPOCH + 1, &[value("a", 1)]);
    let mut broken = next.to_bytes().to_vec();
    broken[70] ^= 1;
    let refused = follow(&mut rig, std::slice::from_ref(&gap), EPOCH);
    assert!(matches!(refused, Err(FollowError::Gap { .. })));
    let refused = follow(&mut rig, &[later], EPOCH);
    assert!(matches!(refused, Err(FollowError::Epoch { .. })));
    let refused = follow(&mut rig, &[next.clone(), gap, next.clone()], EPOCH);
    assert!(
        matches!(refused, Err(FollowError::Gap { .. })),
        "nor the first"
    );
    let moment = Moment {
        now: model::Instant(0),
        wall: Timestamp(0),
        stamp: &mut rig.stamp,
    };
    let refused = super::take(
        &rig.partitions[0],
        &broken.into(),
        LeaderEpoch(EPOCH),
        moment,
    );
    assert!(matches!(refused, Err(FollowError::Batch(_))));
    // The answer to a fetch of the epoch before (KAFKA-18723).
    follow_in(&rig, EPOCH + 1);
    let refused = follow(&mut rig, std::slice::from_ref(&next), EPOCH);
    assert!(matches!(refused, Err(FollowError::EpochChanged { .. })));
    lead(&rig.partitions[0], EPOCH + 2);
    let refused = follow(&mut rig, &[next], EPOCH + 2);
    assert!(matches!(refused, Err(FollowError::Leading)));
    assert_eq!(cut(&rig, 0, EPOCH), Err(CutError::Leading));
    assert_eq!(rig.partitions[0].bounds().log_end, Offset(1));
}

/// Redpanda moved its flushed offset past a truncation that ran beside the sync: the end was the same again, and not the records.
#[test]
fn sync_of_an_older_life_makes_nothing_of_the_new_one_durable() {
    let machine = machine(1);
    let mut rig = follower(&machine);
    let old: Vec<Batch> = (0..10).map(|at| led(at, 3, &[value("old", 1)])).collect();
    follow(&mut rig, &old, EPOCH).unwrap();
    let mut news = Vec::new();
    let Begun::Written(flight) = rig.dir.begin_commit(&mut news) else {
        panic!("a round was queued")
    };
    let life = cut(&rig, 4, EPOCH).unwrap();
    let new: Vec<Batch> = (4..10).map(|at| led(at, 5, &[value("new", 1)])).collect();
    follow(&mut rig, &new, EPOCH).unwrap();
    rig.dir.finish(&flight, flight.sync(), &mut news);
    let partition = &rig.partitions[0];
    assert_eq!(partition.bounds().durable, Offset(0));
    assert_eq!(partition.synced().life, Life(0));
    assert_eq!(committed(&rig, 10), 0);
    commit(&rig);
    let up_to = Offset(10);
    assert_eq!(partition.synced(), Synced { up_to, life });
}

#[test]
fn cut_below_what_is_committed_is_refused() {
    let machine = machine(1);
    let mut rig = follower(&machine);
    let pair = [value("a", 0), value("a", 1)];
    follow(&mut rig, &[led(0, 3, &pair), led(2, 3, &pair)], EPOCH).unwrap();
    commit(&rig);
    assert_eq!(committed(&rig, 2), 2);
    let (to, committed) = (Offset(1), Offset(2));
    let refused = Err(CutError::BelowCommitted { to, committed });
    assert_eq!(cut(&rig, 1, EPOCH), refused);
    // A batch that holds the place goes as a whole.
    cut(&rig, 3, EPOCH).unwrap();
    assert_eq!(rig.partitions[0].bounds().log_end, Offset(2));
}

/// A replica led an epoch in which it wrote nothing, and the next leader never heard of that epoch.
#[test]
fn an_empty_log_forgets_the_epoch_that_its_leader_does_not_know() {
    for is_unclean in [false, true] {
        let machine = machine(1);
        let rig = follower(&machine);
        let partition = &rig.partitions[0];
        super::lead(partition, EPOCH + 1);
        follow_in(&rig, EPOCH + 2);
        let own = LeaderEpoch(EPOCH + 1);
        assert_eq!(partition.follow_point().last_epoch, own);
        let to = partition.cut_to(EpochEnd {
            epoch: LeaderEpoch(EPOCH),
            end: Offset(0),
        });
        let epoch = LeaderEpoch(EPOCH + 2);
        if is_unclean {
            assert_eq!(partition.cut_committed(to, epoch).unwrap().count(), 0);
        } else {
            partition.cut(to, epoch).unwrap();
        }
        assert_eq!(partition.follow_point().last_epoch, LeaderEpoch::NONE);
    }
}

/// A log that nobody asks.
struct Silent;

impl Durable for Silent {
    fn on_durable(self: Arc<Self>, _: Result<Reached, NeverDurable>, _: &mut Vec<News>) {}
}

/// Puts a batch of the log in the journal behind its back.
fn smuggle(rig: &Rig, batch: &Batch) {
    let push = Push {
        bytes: batch.size(),
        up_to: batch.next_offset(),
        is_trim: false,
        sync: true,
        life: Life::default(),
        entry: Entry {
            topic: topic(0),
            partition: PartitionIndex(0),
            what: What::Batch(batch.clone()),
        },
    };
    let mut slot = Slot::default();
    assert!(!rig.dir.enqueue(&Arc::new(Silent), &mut slot, push, None));
    commit(rig);
}

/// Damage took the round of a cut, and the next one, which repeats it.
#[test]
fn batch_of_a_later_leader_in_front_of_the_end_stands_for_a_lost_cut() {
    for is_in_files in [false, true] {
        let machine = machine(1);
        let mut rig = follower(&machine);
        let old: Vec<Batch> = (0..6).map(|at| led(at, 3, &[value("old", 1)])).collect();
        follow(&mut rig, &old, EPOCH).unwrap();
        commit(&rig);
        if is_in_files {
            rig.dir.stop();
            while rig.writer.turn() != Turn::Done {}
        }
        let new = [led(2, 6, &[value("new", 1)]), led(3, 6, &[value("new", 2)])];
        new.iter().for_each(|batch| smuggle(&rig, batch));
        // One of the same epoch is one that the log has.
        smuggle(&rig, &led(2, 6, &[value("again", 1)]));
        drop(rig);
        machine.kill();
        let want: Vec<_> = old[..2].iter().chain(&new).map(shape).collect();
        assert_eq!(contents(&unled(&machine).unwrap().partitions[0]), want);
    }
}

/// Files that a cut has not reached yet hold records of the life before.
#[test]
fn reader_never_sees_what_was_cut_wherever_the_cut_is_on_its_way() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let mut rig = follower(&machine);
    let old: Vec<Batch> = (0..40).map(|at| led(at, 3, &[value("old", 9)])).collect();
    follow(&mut rig, &old, EPOCH).unwrap();
    commit(&rig);
    rig.work(&machine, SECOND, &mut known);
    let partition = Arc::clone(&rig.partitions[0]);
    cut(&rig, 10, EPOCH).unwrap();
    let mut want: Vec<_> = old[..10].iter().map(shape).collect();
    assert_eq!(contents(&partition), want);
    let new: Vec<Batch> = (10..25).map(|at| led(at, 5, &[value("new", 9)])).collect();
    follow(&mut rig, &new, EPOCH).unwrap();
    want.extend(new.iter().map(shape));
    assert_eq!(contents(&partition), want, "the cut is queued");
    commit(&rig);
    assert_eq!(contents(&partition), want, "the cut is durable");
    rig.work(&machine, SECOND, &mut known);
    assert_eq!(contents(&partition), want, "the cut is in the files");
    assert_eq!(committed(&rig, 25), 25);
}

#[test]
fn producers_are_those_in_front_of_the_cut() {
    for is_in_files in [false, true] {
        let machine = machine(1);
        let mut known = vec![Known::default(); 2];
        let mut rig = follower(&machine);
        let of_producer = |at: i64| {
            let (id, epoch) = (ProducerId(7), ProducerEpoch(0));
            let mut builder = BatchBuilder::new()
                .base_offset(Offset(at))
                .leader_epoch(LeaderEpoch(3))
                .producer(id, epoch, Sequence(at as i32));
            builder.push(Timestamp(1), None, Some(b"value"), &[]);
            builder.build()
        };
        let sent: Vec<Batch> = (0..6).map(of_producer).collect();
        follow(&mut rig, &sent, EPOCH).unwrap();
        commit(&rig);
        if is_in_files {
            rig.work(&machine, SECOND, &mut known);
        }
        cut(&rig, 3, EPOCH).unwrap();
        let next = std::slice::from_ref(&sent[3]);
        let refused = follow(&mut rig, next, EPOCH);
        assert!(matches!(refused, Err(FollowError::Cutting)));
        commit(&rig);
        rig.work(&machine, SECOND, &mut known);
        let last = |rig: &Rig| {
            rig.partitions[0].producers(|states| {
                let producer = states.get(ProducerId(7)).expect("it wrote");
                producer.last().map(|last| last.last_offset)
            })
        };
        assert_eq!(last(&rig), Some(Offset(2)));
        follow(&mut rig, next, EPOCH).unwrap();
        assert_eq!(last(&rig), Some(Offset(3)));
    }
}

/// Files that are cut already, with the states of producers of before beside them, are what a crash can leave (simulated
/// `replicated-groups`, seed 27).
#[test]
fn producers_are_those_of_the_log_wherever_a_crash_falls_beside_a_cut() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let mut rig = follower(&machine);
    let of_producer = |at: i64| {
        let (id, epoch) = (ProducerId(7), ProducerEpoch(0));
        let mut builder = BatchBuilder::new()
            .base_offset(Offset(at))
            .leader_epoch(LeaderEpoch(3))
            .producer(id, epoch, Sequence(at as i32));
        builder.push(Timestamp(1), None, Some(b"value"), &[]);
        builder.build()
    };
    let sent: Vec<Batch> = (0..6).map(of_producer).collect();
    follow(&mut rig, &sent, EPOCH).unwrap();
    commit(&rig);
    drop(rig);
    machine.kill();
    // The first checkpoint of a start has all of it, and the states of its producers.
    let mut rig = follower(&machine);
    rig.work(&machine, SECOND, &mut known);
    machine.record();
    cut(&rig, 3, EPOCH).unwrap();
    commit(&rig);
    rig.work(&machine, SECOND, &mut known);
    drop(rig);
    let tape = machine.tape();
    let mut shorter = 0;
    for point in 0..tape.points() {
        for image in tape.images(point, 6, 11) {
            let machine = Machine::on(5, Faults::default(), image.volume);
            let rig = follower(&machine);
            let end = rig.partitions[0].bounds().log_end;
            let last = rig.partitions[0].producers(|states| {
                let producer = states.get(ProducerId(7)).expect("it wrote");
                producer.last().map(|last| last.last_offset)
            });
            assert_eq!(last, Some(Offset(end.0 - 1)), "point {point}");
            shorter += usize::from(end == Offset(3));
        }
    }
    assert!(
        3 < shorter && shorter < tape.points() * 6,
        "{shorter} images"
    );
}

/// A retry of a record that was cut off is no repeated one: it would be acknowledged and be nowhere. The states of producers are those
/// of the log again when its files are cut; who leads before that waits (simulated `replicas`, seed 66).
#[test]
fn a_replica_that_was_cut_leads_once_it_knows_its_producers() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let mut rig = follower(&machine);
    let of_producer = |at: i64| {
        let (id, epoch) = (ProducerId(7), ProducerEpoch(0));
        let mut builder = BatchBuilder::new()
            .base_offset(Offset(at))
            .leader_epoch(LeaderEpoch(3))
            .producer(id, epoch, Sequence(at as i32));
        builder.push(Timestamp(1), None, Some(b"value"), &[]);
        builder.build()
    };
    let sent: Vec<Batch> = (0..6).map(of_producer).collect();
    follow(&mut rig, &sent, EPOCH).unwrap();
    commit(&rig);
    cut(&rig, 3, EPOCH).unwrap();
    lead(&rig.partitions[0], EPOCH + 1);
    let retry = |rig: &mut Rig| {
        let moment = Moment {
            now: model::Instant(0),
            wall: Timestamp(1),
            stamp: &mut rig.stamp,
        };
        rig.partitions[0].append(of_producer(3), Acks::None, moment)
    };
    assert!(matches!(
        retry(&mut rig),
        Err(AppendError::NotLeader { .. })
    ));
    let read = rig.partitions[0].read(read_from(Offset(0)));
    assert!(matches!(read, Err(ReadError::NotLeader)));
    commit(&rig);
    rig.work(&machine, SECOND, &mut known);
    let appended = retry(&mut rig).unwrap();
    assert_eq!(
        (appended.base_offset, appended.is_duplicate),
        (Offset(3), false)
    );
    assert!(rig.partitions[0].read(read_from(Offset(0))).is_ok());
}

fn stored(machine: &Machine) -> Vec<u8> {
    let path = Path::new(DIR).join(checkpoint::FILE_NAME);
    let file = machine.env().disk.open(&path, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn store(machine: &Machine, bytes: &[u8]) {
    let path = Path::new(DIR).join(checkpoint::FILE_NAME);
    let file = machine.env().disk.open(&path, Open::Truncate).unwrap();
    file.write_at(&[IoSlice::new(bytes)], 0).unwrap();
    file.sync_data().unwrap();
}

#[test]
fn what_is_committed_outlives_the_process() {
    let machine = machine(1);
    let mut rig = follower(&machine);
    let sent: Vec<Batch> = (0..6).map(|at| led(at, 3, &[value("v", 1)])).collect();
    follow(&mut rig, &sent, EPOCH).unwrap();
    commit(&rig);
    assert_eq!(committed(&rig, 4), 4);
    rig.stop();
    drop(rig);
    machine.power_cut();
    let rig = unled(&machine).unwrap();
    let bounds = rig.partitions[0].bounds();
    assert_eq!(
        (bounds.high_watermark, bounds.log_end),
        (Offset(4), Offset(6))
    );
    drop(rig);
    machine.kill();
    // A binary of before cannot read this version, and this one none that comes later.
    let mut later = stored(&machine);
    assert_eq!(later[..8], *b"ESKCHKP2");
    later[7] = b'3';
    store(&machine, &later);
    let refused = unled(&machine).err().expect("a later version");
    assert!(refused.to_string().contains("later version"), "{refused}");
}

#[test]
fn checkpoint_of_the_first_version_is_replaced_before_anything_else() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 2];
    let mut rig = follower(&machine);
    lead(&rig.partitions[0], EPOCH);
    for number in 0..9 {
        rig.append(0, &[value("v", number)], &mut known).unwrap();
    }
    rig.commit(&mut known);
    rig.stop();
    let want = contents(&rig.partitions[0]);
    drop(rig);
    machine.power_cut();
    store(&machine, &first_version(&stored(&machine)));
    let rig = unled(&machine).unwrap();
    assert_eq!(contents(&rig.partitions[0]), want);
    assert_eq!(rig.partitions[0].bounds().high_watermark, Offset(0));
    assert_eq!(stored(&machine)[..8], *b"ESKCHKP2");
}

/// The same checkpoint as version 0.1.0 wrote it: its rows end behind the length of the active segment.
fn first_version(bytes: &[u8]) -> Vec<u8> {
    let (head, rest) = bytes.split_at(48);
    let count = u64::from_le_bytes(head[40..48].try_into().unwrap()) as usize;
    let mut out = head.to_vec();
    for row in rest[..count * 80].chunks_exact(80) {
        out.extend_from_slice(&row[..56]);
    }
    out.extend_from_slice(&rest[count * 80..]);
    out[7] = b'1';
    let sum = log::crc32c(&out[16..]);
    out[8..12].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Everything that was done to the log, in order, and how much of it was told to be durable.
#[derive(Clone, Default)]
struct History {
    ops: Vec<Op>,
    durable: usize,
    committed: i64,
}

#[derive(Clone)]
enum Op {
    Append(Batch),
    Cut(i64),
    Restart(i64),
}

/// Log start, and batches.
type Log = (i64, Vec<(i64, i32, Vec<u8>)>);

impl History {
    /// The log behind the first of the operations.
    fn log(&self, count: usize) -> Log {
        let (mut start, mut log) = (0, Vec::new());
        for op in &self.ops[..count] {
            match op {
                Op::Append(batch) => log.push(shape(batch)),
                Op::Cut(to) => log.retain(|(base, ..)| base < to),
                Op::Restart(at) => (start, log) = (*at, Vec::new()),
            }
        }
        (start, log)
    }

    /// A crash may take what was not durable, and nothing else. True if the log is what some of the operations left.
    fn allows(&self, found: &Log) -> bool {
        (self.durable..=self.ops.len()).any(|count| self.log(count) == *found)
    }
}

fn found(rig: &Rig) -> Log {
    let partition = &rig.partitions[0];
    (partition.bounds().log_start.0, contents(partition))
}

/// Follows, is cut, begins anew; ends early when the machine is off.
fn work(
    rig: &mut Rig,
    machine: &Machine,
    history: &mut History,
    mut on_step: impl FnMut(&History),
) {
    let mut known = vec![Known::default(); 2];
    lead(&rig.partitions[1], 9);
    let mut epoch = EPOCH;
    for step in 0..36_usize {
        let end = rig.partitions[0].bounds().log_end.0;
        let batches: Vec<Batch> = (0..step as i64 % 4)
            .map(|at| led(end + at, epoch, &[value("v", step * 10)]))
            .collect();
        if follow(rig, &batches, epoch).is_ok() {
            history.ops.extend(batches.into_iter().map(Op::Append));
        }
        // Another log shares the rounds.
        let _ = rig.append(1, &[value("other", step)], &mut known);
        if step % 3 == 1 {
            let bounds = rig.partitions[0].bounds();
            let (low, end) = (bounds.high_watermark.0, bounds.log_end.0);
            let back = if step % 2 == 0 { 2 } else { 9 };
            epoch += 1;
            follow_in(rig, epoch);
            let to = (end - back).max(low);
            if to < end && cut(rig, to, epoch).is_ok() {
                history.ops.push(Op::Cut(to));
            }
        }
        if step == 14 || step == 27 {
            let end = rig.partitions[0].bounds().log_end.0;
            let at = end + 50 - step as i64;
            let restart = Restart {
                log_start: Offset(at),
                at: Offset(at),
                epoch: LeaderEpoch(epoch),
            };
            if rig.partitions[0].restart(restart).is_ok() {
                history.ops.push(Op::Restart(at));
                history.committed = at;
            }
        }
        if step % 4 != 2 || step == 14 {
            rig.commit(&mut known);
            if !rig.dir.is_failed() && !machine.is_off() {
                history.durable = history.ops.len();
            }
            on_step(history);
        }
        if step % 7 == 3 {
            let durable = rig.partitions[0].bounds().durable.0;
            history.committed = history.committed.max(committed(rig, durable - 4));
        }
        if step % 5 == 2 {
            rig.work(machine, SECOND / 3, &mut known);
            on_step(history);
        }
        if machine.is_off() || rig.dir.is_failed() {
            return;
        }
    }
}

fn recover_and_go_on(machine: &Machine, history: &History, context: &str) {
    let mut rig = unled(machine).unwrap_or_else(|error| panic!("{context}: {error}"));
    let first = found(&rig);
    let bounds = rig.partitions[0].bounds();
    let states: Vec<_> = (history.durable..=history.ops.len())
        .map(|count| history.log(count))
        .map(|(start, log)| (start, log.last().map(|last| (last.0, last.1))))
        .collect();
    assert!(
        history.allows(&first),
        "{context}: {bounds:?} with {} batches to {:?} is none of {states:?}",
        first.1.len(),
        first.1.last().map(|last| (last.0, last.1)),
    );
    let most = history.committed.max(bounds.log_start.0);
    assert!(bounds.high_watermark.0 <= most, "{context}: {bounds:?}");
    drop(rig);
    machine.kill();
    rig = unled(machine).unwrap_or_else(|error| panic!("{context}, again: {error}"));
    assert_eq!(rig.rounds, 0, "{context}: recovering twice is once");
    assert!(found(&rig) == first, "{context}: another log the next time");
    follow_in(&rig, 1000);
    let end = rig.partitions[0].bounds().log_end.0;
    let next = led(end, 1000, &[value("later", 1)]);
    follow(&mut rig, std::slice::from_ref(&next), 1000).unwrap();
    commit(&rig);
    drop(rig);
    machine.kill();
    let rig = unled(machine).unwrap();
    let mut want = first;
    want.1.push(shape(&next));
    assert!(found(&rig) == want, "{context}: what was followed later");
}

#[test]
fn log_that_was_cut_and_begun_anew_survives_a_power_cut_at_any_disk_operation() {
    let operations = {
        let machine = machine(7);
        let mut history = History::default();
        let mut rig = follower(&machine);
        work(&mut rig, &machine, &mut history, |_| ());
        assert_eq!(history.durable, history.ops.len());
        assert!(found(&rig) == history.log(history.durable));
        let cuts = history.ops.iter().filter(|op| matches!(op, Op::Cut(_)));
        assert!(cuts.count() > 6, "the faults of leaders are too kind");
        machine.counts().disk_ops
    };
    assert!(operations > 200, "{operations} operations");
    for at in 1..=operations {
        let machine = machine(7);
        machine.faults(|faults| faults.crash_at_op = Some(at));
        let mut history = History::default();
        if let Ok(mut rig) = unled(&machine) {
            follow_in(&rig, EPOCH);
            work(&mut rig, &machine, &mut history, |_| ());
        }
        machine.power_cut();
        recover_and_go_on(&machine, &history, &format!("cut at operation {at}"));
    }
}

#[test]
fn every_state_that_a_crash_can_leave_of_cuts_and_restarts_recovers() {
    let machine = machine(3);
    machine.record();
    let mut promised = vec![(0, History::default())];
    let mut history = History::default();
    let mut rig = follower(&machine);
    work(&mut rig, &machine, &mut history, |history| {
        promised.push((machine.recorded(), history.clone()));
    });
    drop(rig);
    let tape = machine.tape();
    let mut images = 0;
    for point in (0..tape.points()).step_by(2) {
        for image in tape.images(point, 3, 11) {
            let machine = Machine::on(5, Faults::default(), image.volume);
            let at = promised.partition_point(|(length, _)| *length <= point);
            // Sent later than promised, and perhaps there already.
            let later = &promised[at.min(promised.len() - 1)].1;
            let history = History {
                durable: promised[at - 1].1.durable,
                ..later.clone()
            };
            recover_and_go_on(&machine, &history, &format!("point {point} image {images}"));
            images += 1;
        }
    }
    assert!(images > 200, "{images} images");
}

/// Eight rounds on their way to a slow disk, with cuts among them, twice in one round; their syncs return in another order, and the
/// power fails after some.
fn cut_under_way(seed: u64, finished: usize) {
    let context = format!("seed {seed}, {finished} syncs");
    let machine = slow_machine(seed);
    let roomy = DirSettings {
        journal_piece_bytes: 1 << 20,
        journal_first_piece_bytes: 1 << 20,
        ..settings()
    };
    let mut rig = unled_with(&machine, roomy).unwrap();
    let mut known = vec![Known::default(); 2];
    lead(&rig.partitions[1], 9);
    while !rig.dir.is_slow() {
        rig.append(1, &[b"warm".to_vec()], &mut known).unwrap();
        rig.commit(&mut known);
    }
    let mut history = History::default();
    let (mut flights, mut ends) = (Vec::new(), Vec::new());
    for round in 0..SYNCS_MAX {
        let epoch = EPOCH + round as i32;
        follow_in(&rig, epoch);
        let cuts = (round + seed as usize) % 3;
        for _ in 0..=cuts {
            let end = rig.partitions[0].bounds().log_end.0;
            let to = (end - 2).max(0);
            if cuts > 0 && to < end {
                cut(&rig, to, epoch).unwrap();
                history.ops.push(Op::Cut(to));
            }
            let end = rig.partitions[0].bounds().log_end.0;
            let sent: Vec<Batch> = (end..end + 3)
                .map(|at| led(at, epoch, &[value("v", round)]))
                .collect();
            follow(&mut rig, &sent, epoch).unwrap();
            history.ops.extend(sent.into_iter().map(Op::Append));
        }
        let Begun::Written(flight) = rig.dir.begin_commit(&mut Vec::new()) else {
            panic!("{context}: round {round} can be begun")
        };
        flights.push(flight);
        ends.push(history.ops.len());
    }
    let mut is_done = [false; SYNCS_MAX];
    let order = (0..SYNCS_MAX).map(|at| (at * 3 + seed as usize) % SYNCS_MAX);
    for at in order.take(finished) {
        let synced = flights[at].sync();
        rig.dir.finish(&flights[at], synced, &mut Vec::new());
        is_done[at] = true;
    }
    let told = is_done.iter().take_while(|is_done| **is_done).count();
    history.durable = told.checked_sub(1).map_or(0, |last| ends[last]);
    let partition = &rig.partitions[0];
    let bounds = partition.bounds();
    let whole = contents(partition);
    assert!(whole == history.log(history.ops.len()).1, "{context}");
    if told == SYNCS_MAX {
        assert_eq!(bounds.durable, bounds.log_end, "{context}");
    }
    let durable = whole.iter().filter(|(base, ..)| *base < bounds.durable.0);
    let durable: Vec<_> = durable.cloned().collect();
    drop(flights);
    drop(rig);
    machine.power_cut();
    let after = contents(&unled(&machine).unwrap().partitions[0]);
    assert!(after.starts_with(&durable), "{context}: told too early");
    machine.kill();
    recover_and_go_on(&machine, &history, &context);
}

#[test]
fn rounds_under_way_beside_cuts_are_told_in_their_order_and_recover() {
    for seed in 0..8 {
        for finished in 0..=SYNCS_MAX {
            cut_under_way(seed, finished);
        }
    }
}
