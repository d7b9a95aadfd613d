//! Followers: batches as they come, cuts where the leader's log parts, restarts at a snapshot; and every crash in between.

mod crashes;

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
    let mut next = bounds.local_start;
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
    later[7] = b'4';
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
