//! Partitions with a replica on another broker: what is durable here and not committed, and the end of a leader epoch.

use model::{ProducerEpoch, ProducerId, Sequence};
use partition::{FollowerAt, ReadError, Replicas};

use super::*;

const ME: BrokerId = BrokerId(1);
const OTHER: BrokerId = BrokerId(2);

fn leading(in_sync: &[BrokerId]) -> Role {
    Role::Leading(Replicas {
        me: ME,
        all: vec![ME, OTHER],
        in_sync: in_sync.to_vec(),
        partition_epoch: 1,
    })
}

/// A directory with one partition, before the metadata say anything of it.
fn unled(machine: &Machine, config: LogConfig) -> Rig {
    let all = told(TOPICS);
    open_unled(
        machine,
        Path::new(DIR),
        settings(),
        &[config],
        |_| true,
        all,
    )
    .unwrap()
}

/// The same, led by this broker; the other replica is in sync.
fn led_by_two(machine: &Machine, config: LogConfig) -> Rig {
    let rig = unled(machine, config);
    set_role(&rig.partitions[0], 1, leading(&[ME, OTHER]));
    rig
}

/// Leads, appends five records that it syncs, and loses power.
fn sync_five_and_lose_power(machine: &Machine) {
    let mut rig = led_by_two(machine, small_segments());
    for number in 0..5 {
        append(&mut rig, number, Acks::None).unwrap();
    }
    commit(&rig);
    drop(rig);
    machine.power_cut();
}

fn append(rig: &mut Rig, number: usize, acks: Acks) -> Result<partition::Appended, AppendError> {
    let moment = Moment {
        now: model::Instant(0),
        wall: Timestamp(1_700_000_000_000),
        stamp: &mut rig.stamp,
    };
    let mut builder = BatchBuilder::new();
    let time = Timestamp(1_700_000_000_000 + number as i64);
    builder.push(time, Some(b"key"), Some(&value("v", number)), &[]);
    rig.partitions[0].append(builder.build(), acks, moment)
}

fn commit(rig: &Rig) -> Vec<News> {
    let mut news = Vec::new();
    while rig.dir.commit(&mut news) == Commit::Done && rig.dir.has_queued() {}
    news
}

fn follower_at(rig: &Rig, synced: i64) -> Vec<News> {
    follower_from(rig, 0, synced)
}

fn follower_from(rig: &Rig, log_start: i64, synced: i64) -> Vec<News> {
    let mut news = Vec::new();
    let said = FollowerAt {
        epoch: rig.partitions[0].bounds().epoch,
        broker: OTHER,
        broker_epoch: 1,
        log_start: Offset(log_start),
        synced: Offset(synced),
    };
    rig.partitions[0].on_follower_at(said, &mut news);
    news
}

/// Log start, committed, durable and end.
fn points(rig: &Rig) -> [i64; 4] {
    let bounds = rig.partitions[0].bounds();
    [
        bounds.log_start,
        bounds.high_watermark,
        bounds.durable,
        bounds.log_end,
    ]
    .map(|offset| offset.0)
}

#[test]
fn one_ack_waits_for_our_sync_and_all_for_the_follower_too() {
    let machine = machine(1);
    let mut rig = led_by_two(&machine, small_segments());
    assert!(append(&mut rig, 1, Acks::Leader(ticket(1))).unwrap().waits);
    let all = Acks::All(Some(ticket(2)));
    assert!(append(&mut rig, 2, all).unwrap().waits);
    assert!(!append(&mut rig, 3, Acks::None).unwrap().waits);
    assert_eq!(rig.partitions[0].await_end(ticket(3)), Ok(true));
    assert_eq!(points(&rig), [0, 0, 0, 3]);
    assert_eq!(commit(&rig), [News::Reached(ticket(1))]);
    assert_eq!(points(&rig), [0, 0, 3, 3]);
    assert_eq!(follower_at(&rig, 1), []);
    assert_eq!(follower_at(&rig, 2), [News::Reached(ticket(2))]);
    assert_eq!(follower_at(&rig, 3), [News::Reached(ticket(3))]);
    assert_eq!(points(&rig), [0, 3, 3, 3]);
}

/// The next leader would show again what a client was told is deleted.
#[test]
fn a_trim_is_done_when_it_is_durable_on_every_replica_in_sync() {
    let machine = machine(1);
    let mut rig = led_by_two(&machine, small_segments());
    for number in 0..4 {
        append(&mut rig, number, Acks::None).unwrap();
    }
    commit(&rig);
    follower_at(&rig, 4);
    let trim =
        |rig: &Rig, to: i64, number: u32| rig.partitions[0].trim(Some(Offset(to)), ticket(number));
    assert_eq!(trim(&rig, 2, 1), Ok(Offset(2)));
    assert_eq!(trim(&rig, 3, 2), Ok(Offset(3)));
    assert_eq!(commit(&rig), []);
    assert_eq!(points(&rig), [3, 4, 4, 4]);
    assert_eq!(follower_from(&rig, 1, 4), []);
    assert_eq!(
        follower_from(&rig, 3, 4),
        [News::Reached(ticket(1)), News::Reached(ticket(2))]
    );

    // One that is not in sync is not waited for.
    assert_eq!(trim(&rig, 4, 3), Ok(Offset(4)));
    assert_eq!(commit(&rig), []);
    let news = set_role(&rig.partitions[0], 1, leading(&[ME]));
    assert_eq!(news, [News::Reached(ticket(3))]);
}

#[test]
fn a_trim_that_the_replicas_in_sync_lack_is_not_done_when_another_leads() {
    let machine = machine(1);
    let mut rig = led_by_two(&machine, small_segments());
    append(&mut rig, 1, Acks::None).unwrap();
    commit(&rig);
    follower_at(&rig, 1);
    rig.partitions[0].trim(None, ticket(1)).unwrap();
    assert_eq!(commit(&rig), []);
    let news = set_role(&rig.partitions[0], 2, Role::NotLeading);
    assert_eq!(news, [News::NotLeader(ticket(1))]);
}

/// The same batch of an idempotent producer each time; true if news of it will come.
fn send(rig: &mut Rig, acks: Acks) -> bool {
    let (id, epoch) = (ProducerId(5), ProducerEpoch(0));
    let mut builder = BatchBuilder::new().producer(id, epoch, Sequence(0));
    builder.push(Timestamp(1_700_000_000_000), None, Some(b"value"), &[]);
    let moment = Moment {
        now: model::Instant(0),
        wall: Timestamp(1_700_000_000_000),
        stamp: &mut rig.stamp,
    };
    let sent = rig.partitions[0].append(builder.build(), acks, moment);
    sent.unwrap().waits
}

#[test]
fn a_duplicate_waits_for_what_it_asks_of_its_original() {
    let machine = machine(1);
    let mut rig = led_by_two(&machine, small_segments());
    assert!(send(&mut rig, Acks::All(Some(ticket(1)))));
    assert!(send(&mut rig, Acks::Leader(ticket(2))));
    assert!(send(&mut rig, Acks::All(Some(ticket(3)))));
    assert_eq!(commit(&rig), [News::Reached(ticket(2))]);
    assert!(!send(&mut rig, Acks::Leader(ticket(4))), "it is durable");
    assert!(
        send(&mut rig, Acks::All(Some(ticket(5)))),
        "and not committed"
    );
    let all = [1, 3, 5].map(|number| News::Reached(ticket(number)));
    assert_eq!(follower_at(&rig, 1), all);
}

/// Segments take what is durable: memory is let go of although the follower is slow. Readers, look-ups by time, retention and
/// DeleteRecords see none of it.
#[test]
fn what_is_not_committed_goes_to_the_files_and_is_shown_to_nobody() {
    let machine = machine(1);
    let config = LogConfig {
        retention_bytes: Some(1 << 10),
        ..small_segments()
    };
    let settings = DirSettings {
        hot_tail_bytes: 0,
        ..settings()
    };
    let all = told(TOPICS);
    let mut rig = open_unled(&machine, Path::new(DIR), settings, &[config], |_| true, all).unwrap();
    set_role(&rig.partitions[0], 1, leading(&[ME, OTHER]));
    for number in 0..300 {
        append(&mut rig, number, Acks::None).unwrap();
        commit(&rig);
    }
    follower_at(&rig, 7);
    rig.work(&machine, 301 * SECOND, &mut []);
    let memory = rig.residents.in_memory();
    assert_eq!(
        (memory.hot_bytes, memory.unwritten_bytes),
        (0, 0),
        "all is in files"
    );
    assert_eq!(points(&rig), [0, 7, 300, 300], "retention keeps it");

    let partition = &rig.partitions[0];
    assert_eq!(
        rig.read(0).into_keys().collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5, 6]
    );
    for from in [7, 8, 299, 300] {
        assert!(plan(partition, Offset(from)).unwrap().is_empty(), "{from}");
    }
    for from in [-1, 301] {
        let read = plan(partition, Offset(from));
        assert!(matches!(read, Err(ReadError::OutOfRange { .. })), "{from}");
    }
    let at = |number: i64| {
        let time = Timestamp(1_700_000_000_000 + number);
        let found = partition.find_timestamp(time).unwrap();
        found.map(|found| found.offset.0)
    };
    assert_eq!((at(6), at(7)), (Some(6), None));
    assert_eq!(partition.max_timestamp().unwrap(), None);
    let trimmed = partition.trim(Some(Offset(8)), ticket(1));
    assert!(
        matches!(trimmed, Err(TrimError::OutOfRange { high_watermark }) if high_watermark == Offset(7))
    );
    assert_eq!(
        partition.end_for_epoch(LeaderEpoch(1)),
        (LeaderEpoch(1), Offset(300)),
        "an epoch ends where its log does"
    );

    follower_at(&rig, 300);
    assert_eq!(rig.read(0).len(), 300);
    let newest = rig.partitions[0].max_timestamp().unwrap();
    assert_eq!(newest.map(|newest| newest.offset), Some(Offset(299)));
    rig.work(&machine, 301 * SECOND, &mut []);
    assert!(points(&rig)[0] > 200, "now it may go");
}

#[test]
fn compaction_stays_below_what_is_committed() {
    let machine = machine(1);
    let mut rig = led_by_two(&machine, compaction::compacted());
    let mut cleaner = compaction::cleaners(&rig, &machine, f64::MAX);
    for number in 0..300 {
        append(&mut rig, number, Acks::None).unwrap();
        commit(&rig);
    }
    follower_at(&rig, 100);
    compaction::work(&mut rig, &mut cleaner, &machine, 60 * SECOND);
    let kept = |rig: &Rig| {
        let role = Role::alone(ME);
        // All of it is shown, to count it.
        set_role(&rig.partitions[0], 1, role);
        rig.read(0).into_keys().collect::<Vec<_>>()
    };
    let seen = kept(&rig);
    let below = seen.iter().filter(|offset| **offset < 100).count();
    assert!(below < 50, "what is committed was compacted: {seen:?}");
    assert!((100..300).all(|offset| seen.contains(&offset)), "{seen:?}");
}

#[test]
fn too_few_replicas_refuse_only_appends_that_want_all() {
    let machine = machine(1);
    let two = LogConfig {
        in_sync_replicas_min: 2,
        ..small_segments()
    };
    let mut rig = led_by_two(&machine, two.clone());
    append(&mut rig, 1, Acks::All(Some(ticket(1)))).unwrap();
    append(&mut rig, 2, Acks::Leader(ticket(2))).unwrap();
    assert_eq!(rig.partitions[0].await_end(ticket(3)), Ok(true));
    let shrunk = set_role(&rig.partitions[0], 1, leading(&[ME]));
    assert_eq!(shrunk, [News::TooFewReplicas(ticket(1))]);
    for acks in [Acks::All(None), Acks::All(Some(ticket(4)))] {
        assert!(matches!(
            append(&mut rig, 3, acks),
            Err(AppendError::TooFewReplicas {
                in_sync: 1,
                needed: 2
            })
        ));
    }
    assert!(rig.partitions[0].check_append().is_err());
    append(&mut rig, 3, Acks::None).unwrap();
    append(&mut rig, 4, Acks::Leader(ticket(5))).unwrap();
    let one_ack = [2, 5].map(|number| News::Reached(ticket(number)));
    assert_eq!(commit(&rig), one_ack);
    assert_eq!(points(&rig), [0, 0, 4, 4], "nothing is committed meanwhile");

    // The setting applies at once, both ways.
    let mut news = Vec::new();
    let one = Arc::new(small_segments());
    rig.partitions[0].set_config(one, &mut news);
    assert_eq!(news, [News::Reached(ticket(3))]);
    assert_eq!(points(&rig), [0, 4, 4, 4]);
    append(&mut rig, 5, Acks::All(Some(ticket(6)))).unwrap();
    news.clear();
    rig.partitions[0].set_config(Arc::new(two), &mut news);
    assert_eq!(news, [News::TooFewReplicas(ticket(6))]);
    assert!(append(&mut rig, 6, Acks::All(None)).is_err());
}

#[test]
fn the_end_of_a_leader_epoch_fails_what_waits_and_refuses_what_comes() {
    let machine = machine(1);
    let mut rig = led_by_two(&machine, small_segments());
    append(&mut rig, 1, Acks::All(None)).unwrap();
    commit(&rig);
    follower_at(&rig, 1);
    append(&mut rig, 2, Acks::Leader(ticket(1))).unwrap();
    append(&mut rig, 3, Acks::All(Some(ticket(2)))).unwrap();
    assert_eq!(rig.partitions[0].await_end(ticket(3)), Ok(true));
    rig.partitions[0].trim(None, ticket(4)).unwrap();
    assert!(rig.partitions[0].watch(
        ticket(5),
        Offset(1),
        Scope::of_leader(Isolation::Uncommitted)
    ));
    let told = set_role(&rig.partitions[0], 2, Role::NotLeading);
    let failed = [1, 2, 3, 4].map(|number| News::NotLeader(ticket(number)));
    assert_eq!(told[..4], failed);
    assert_eq!(told[4..], [News::Readable(ticket(5))]);
    assert_eq!(commit(&rig), [], "no later sync redeems them");
    assert_eq!(points(&rig), [1, 1, 3, 3], "durable, and nothing more");

    for acks in [Acks::None, Acks::Leader(ticket(6)), Acks::All(None)] {
        let refused = append(&mut rig, 4, acks);
        let epoch = LeaderEpoch(2);
        assert!(matches!(refused, Err(AppendError::NotLeader { epoch: of }) if of == epoch));
    }
    let partition = &rig.partitions[0];
    assert!(matches!(
        plan(partition, Offset(1)),
        Err(ReadError::NotLeader)
    ));
    assert!(matches!(
        partition.check_epoch(LeaderEpoch::NONE),
        Err(ReadError::NotLeader)
    ));
    assert!(matches!(
        partition.check_epoch(LeaderEpoch(1)),
        Err(ReadError::FencedEpoch { .. })
    ));
    assert_eq!(partition.trim(None, ticket(7)), Err(TrimError::NotLeader));
    assert_eq!(
        partition.await_end(ticket(8)),
        Err(partition::NeverCommitted)
    );
    assert!(!partition.watch(
        ticket(9),
        Offset(3),
        Scope::of_leader(Isolation::Uncommitted)
    ));
    assert_eq!(partition.behind(SECOND), []);

    // It leads again, alone in sync: all that is durable is committed, in an epoch that begins at the end.
    assert_eq!(set_role(partition, 3, leading(&[ME])), []);
    assert_eq!(points(&rig), [1, 3, 3, 3]);
    append(&mut rig, 4, Acks::All(Some(ticket(10)))).unwrap();
    assert_eq!(commit(&rig), [News::Reached(ticket(10))]);
    let partition = &rig.partitions[0];
    assert_eq!(partition.epoch_at(Offset(2)), LeaderEpoch(1));
    assert_eq!(partition.epoch_at(Offset(3)), LeaderEpoch(3));
}

#[test]
fn after_a_start_a_role_says_what_is_committed() {
    let machine = machine(1);
    sync_five_and_lose_power(&machine);
    let rig = led_by_two(&machine, small_segments());
    assert_eq!(points(&rig), [0, 0, 5, 5], "the follower may not have it");
    assert_eq!(follower_at(&rig, 4), []);
    assert_eq!(points(&rig), [0, 4, 5, 5]);
    drop(rig);
    machine.power_cut();
    let rig = open(&machine, &[small_segments()]).unwrap();
    assert_eq!(points(&rig), [0, 5, 5, 5], "alone");
}

/// Between its start and its first word with a leader a replica knows no end but an old one: a consumer that may read from any replica
/// was shown an empty log by the only replica of a partition, just before that led again.
#[test]
fn after_a_start_a_replica_shows_consumers_nothing_before_it_knows_what_is_committed() {
    let machine = machine(1);
    sync_five_and_lose_power(&machine);
    let rig = unled(&machine, small_segments());
    let partition = &rig.partitions[0];
    let read = |isolation| {
        let request = ReadRequest {
            scope: Scope::of_any(isolation),
            ..read_from(Offset::ZERO)
        };
        let read = partition.read(request)?;
        Ok((read.bounds.high_watermark, !read.records.is_empty()))
    };
    let shown = read(Isolation::Uncommitted);
    assert!(matches!(shown, Err(ReadError::NotLeader)), "{shown:?}");
    assert!(read(Isolation::Log).unwrap().1, "replicas are compared");
    set_role(partition, 2, Role::NotLeading);
    let mut news = Vec::new();
    partition.on_leader_at(LeaderEpoch(2), Offset(4), Offset::ZERO, &mut news);
    let shown = read(Isolation::Uncommitted).unwrap();
    assert_eq!(shown, (Offset(4), true), "a leader has named it");
}

/// A coordinator that decided in one epoch, and learns late that the log was another's meanwhile.
#[test]
fn a_writer_of_an_earlier_leader_epoch_is_refused_though_this_broker_leads_again() {
    let machine = machine(1);
    let mut rig = led_by_two(&machine, small_segments());
    let first = LeaderEpoch(1);
    let write = |rig: &mut Rig, epoch: LeaderEpoch| {
        let moment = Moment {
            now: model::Instant(0),
            wall: Timestamp(1_700_000_000_000),
            stamp: &mut rig.stamp,
        };
        let origin = log::producer::Origin::Coordinator;
        let batch = batch_of(&[value("decision", 1)]);
        let written = (origin, partition::Warrant::None);
        let log = &rig.partitions[0];
        log.append_in(epoch, batch, written, Acks::All(None), moment)
    };
    write(&mut rig, first).unwrap();
    assert_eq!(rig.partitions[0].await_end_in(first, ticket(1)), Ok(true));
    let told = set_role(&rig.partitions[0], 2, Role::NotLeading);
    assert_eq!(told, [News::NotLeader(ticket(1))]);
    set_role(&rig.partitions[0], 3, leading(&[ME]));
    let now = LeaderEpoch(3);
    let refused = write(&mut rig, first);
    assert!(matches!(refused, Err(AppendError::NotLeader { epoch }) if epoch == now));
    let gone = rig.partitions[0].await_end_in(first, ticket(2));
    assert_eq!(gone, Err(partition::NeverCommitted));
    write(&mut rig, now).unwrap();
    assert_eq!(rig.partitions[0].await_end_in(now, ticket(3)), Ok(true));
    assert_eq!(commit(&rig), [News::Reached(ticket(3))]);
    assert_eq!(rig.partitions[0].await_end_in(now, ticket(4)), Ok(false));
}
