//! A follower that names positions by hand, and what it is sent.

use wire::metadata::PartitionChangeRecord;

use super::*;
use crate::event_loop::bench::{Bench, executed};

const COLD: &str = "cold";
const HOT: &str = "hot";
const OWN: WaiterKey = WaiterKey(7);
const ALL: usize = 1 << 20;
const FOLLOWER: BrokerId = BrokerId(2);

/// A leader with a topic in files that nobody has looked at since its start, and one whose records are in memory.
struct Leader {
    bench: Bench,
    feed: Feed,
}

impl Leader {
    fn new() -> Leader {
        let mut bench = Bench::new();
        bench.create(COLD, 1);
        for number in 0..20 {
            bench.append(COLD, &[number; 100]);
        }
        // The first start brings records from the journal to files; for the second they are old.
        let mut bench = bench.restart().restart();
        bench.create(HOT, 1);
        bench.append(HOT, b"here it is");
        let mut leader = Leader {
            bench,
            feed: Feed::new((FOLLOWER, 1), 1),
        };
        leader.have_followed(COLD);
        leader.have_followed(HOT);
        leader
    }

    fn create(&mut self, topic: &str) {
        self.bench.create(topic, 1);
        self.have_followed(topic);
    }

    /// Has the metadata name the follower as a replica.
    fn have_followed(&mut self, topic: &str) {
        let me = self.bench.shard.desk.shared.catalog.config().broker.node_id;
        self.have_replicas(topic, &[me, FOLLOWER], 1);
    }

    /// Feeds that are to look at the partition then.
    fn have_replicas(&mut self, topic: &str, all: &[BrokerId], partition_epoch: i32) -> Vec<News> {
        let me = self.bench.shard.desk.shared.catalog.config().broker.node_id;
        let partition = self.bench.partition(topic, 0);
        let role = partition::Role::Leading(partition::Replicas {
            me,
            all: all.to_vec(),
            in_sync: vec![me],
            partition_epoch,
        });
        let mut news = Vec::new();
        partition.set_role(partition.bounds().epoch, role, &mut news);
        news
    }

    fn key(&mut self, topic: &str) -> Key {
        let partition = self.bench.partition(topic, 0);
        (partition.topic_id, partition.index)
    }

    fn list(&mut self, topic: &str, end: i64, is_restart: bool) {
        let key = self.key(topic);
        let epoch = self.bench.partition(topic, 0).bounds().epoch;
        self.list_in(key, epoch, end, is_restart);
    }

    fn list_in(&mut self, key: Key, epoch: LeaderEpoch, end: i64, is_restart: bool) {
        let at = EpochEnd {
            epoch: LeaderEpoch::NONE,
            end: Offset(end),
        };
        self.list_at(key, epoch, at, is_restart);
    }

    fn list_at(&mut self, key: Key, epoch: LeaderEpoch, at: EpochEnd, is_restart: bool) {
        self.take(Listed {
            key,
            epoch,
            at,
            log_start: Offset::ZERO,
            synced: at.end,
            bytes_max: ALL,
            is_restart,
            is_plain: false,
        });
    }

    fn take(&mut self, listed: Listed) {
        let topics = self.bench.shard.desk.topics();
        self.feed.on_listed(&topics, listed, &mut Vec::new());
    }

    /// Bytes of records for each partition that is answered; none for a refusal.
    fn gather(&mut self, bytes_max: usize) -> Vec<(Key, Option<usize>)> {
        let fed = self.feed.gather(&self.bench.shard.desk, OWN, bytes_max);
        let bytes = fed.into_iter().map(|(key, fed)| match fed {
            Fed::Records(read) => (key, Some(read.records.len())),
            Fed::Parts(..) | Fed::Refused(_) => (key, None),
        });
        bytes.collect()
    }

    /// The same over some answers, with the pieces that come between them.
    fn gather_all(&mut self, bytes_max: usize) -> Vec<(Key, Option<usize>)> {
        let mut all = Vec::new();
        for _ in 0..3 {
            for (ticket, piece) in self.pieces() {
                self.feed.on_piece(ticket.part, piece);
            }
            all.extend(self.gather(bytes_max));
        }
        all
    }

    /// The pieces that the reader pool has made.
    fn pieces(&mut self) -> Vec<(Ticket, Piece)> {
        executed(&self.bench.shard.desk.shared.readers)
    }
}

#[test]
fn records_of_files_come_as_a_piece_and_are_waited_for_until_they_arrive() {
    let mut leader = Leader::new();
    let cold = leader.key(COLD);
    leader.list(COLD, 0, true);
    assert_eq!(leader.gather(ALL), [], "the disk is asked first");
    for (ticket, piece) in leader.pieces() {
        assert!(is_of_feed(ticket));
        leader.feed.on_piece(ticket.part, piece);
    }
    let fed = leader.gather(ALL);
    assert!(matches!(fed[..], [(key, Some(1..))] if key == cold));
    // A report that left before they arrived has nothing sent again.
    leader.list(COLD, 0, false);
    assert_eq!(leader.gather(ALL), []);
    leader.list(COLD, 20, false);
    assert_eq!(leader.gather(ALL), [], "it has all, and was told so");
}

#[test]
fn a_log_start_is_told_again_to_a_follower_that_could_not_take_it_before() {
    let mut leader = Leader::new();
    leader.bench.append(HOT, b"another");
    let hot = leader.key(HOT);
    leader.list(HOT, 2, true);
    leader.gather(ALL);
    leader.bench.partition(HOT, 0).advance_start(Offset(1));
    leader.bench.commit();
    leader.list(HOT, 0, false);
    let says = [(hot, Some(0))];
    assert_eq!(leader.gather(ALL), says);
    let from = |leader: &mut Leader, log_start| {
        let epoch = leader.bench.partition(HOT, 0).bounds().epoch;
        let at = EpochEnd {
            epoch: LeaderEpoch::NONE,
            end: Offset(2),
        };
        leader.take(Listed {
            key: hot,
            epoch,
            at,
            log_start: Offset(log_start),
            synced: at.end,
            bytes_max: ALL,
            is_restart: false,
            is_plain: false,
        });
        leader.gather(ALL)
    };
    assert_eq!(from(&mut leader, 0), says);
    assert_eq!(from(&mut leader, 1), []);
}

#[test]
fn a_piece_for_a_position_that_was_left_is_not_sent() {
    let mut leader = Leader::new();
    leader.list(COLD, 7, true);
    assert_eq!(leader.gather(ALL), []);
    leader.list(COLD, 3, true);
    assert_eq!(leader.gather(ALL), [], "the piece of before is on its way");
    for (ticket, piece) in leader.pieces() {
        leader.feed.on_piece(ticket.part, piece);
    }
    let fed = leader.gather(ALL);
    let fed = if fed.is_empty() {
        for (ticket, piece) in leader.pieces() {
            leader.feed.on_piece(ticket.part, piece);
        }
        leader.feed.gather(&leader.bench.shard.desk, OWN, ALL)
    } else {
        panic!("{fed:?} is of the position before")
    };
    let [(_, Fed::Records(read))] = &fed[..] else {
        panic!("one partition has records");
    };
    let Records::File(slice) = &read.records else {
        panic!("they are in files");
    };
    let bytes = slice.read().expect("the disk works");
    let mut batches = wire::records::Batch::cut(&bytes, wire::records::Source::Log);
    let first = batches.next().expect("a batch").expect("it is whole");
    assert_eq!(first.base_offset(), Offset(3));
}

#[test]
fn a_piece_of_one_partition_is_never_that_of_another() {
    let mut leader = Leader::new();
    let (cold, hot) = (leader.key(COLD), leader.key(HOT));
    leader.list(COLD, 0, true);
    assert_eq!(leader.gather(ALL), []);
    let inbox = leader.bench.shard.desk.inbox;
    leader.feed.on_unlisted(cold, (inbox, OWN));
    leader.list(HOT, 0, true);
    assert!(matches!(leader.gather(ALL)[..], [(key, Some(1..))] if key == hot));
    for (ticket, piece) in leader.pieces() {
        leader.feed.on_piece(ticket.part, piece);
    }
    assert_eq!(leader.gather(ALL), [], "nobody follows it any more");
    assert_eq!(leader.feed.free.len(), 1, "its place is free");
}

#[test]
fn what_does_not_fit_beside_others_comes_with_the_next_answer() {
    let mut leader = Leader::new();
    leader.create("other");
    leader.bench.append("other", &[7; 200]);
    leader.list(HOT, 0, true);
    leader.list("other", 0, true);
    let first = leader.gather(150);
    let second = leader.gather(150);
    let sent: Vec<usize> = (first.iter().chain(&second))
        .filter_map(|(_, bytes)| *bytes)
        .collect();
    assert_eq!(
        sent.iter().filter(|bytes| **bytes > 0).count(),
        2,
        "{first:?} {second:?}"
    );
}

/// Its watermark was told already, so that an answer without room for its records had nothing to say of it: it was not looked at again
/// before the follower named it, which had no reason to.
#[test]
fn what_does_not_fit_is_not_forgotten_where_its_watermark_is_no_news() {
    for topic in [HOT, COLD] {
        let mut leader = Leader::new();
        let key = leader.key(topic);
        leader.create("other");
        for number in 0..9 {
            leader.bench.append(HOT, &[number; 100]);
        }
        leader.list("other", 0, true);
        leader.list(topic, 0, true);
        let mut sent = leader.gather_all(1);
        sent.retain(|(of, bytes)| *of == key && bytes.is_some_and(|bytes| 0 < bytes));
        let end = sent.len() as i64;
        assert!((1..4).contains(&end), "one batch at a time: {sent:?}");
        leader.bench.append("other", &[7; 200]);
        leader.list("other", 0, false);
        leader.list(topic, end, false);
        let beside = leader.gather(280);
        assert!(
            beside.iter().all(|(of, _)| *of != key),
            "no room, no news: {beside:?}"
        );
        let rest = leader.gather_all(ALL);
        assert!(
            rest.iter()
                .any(|(of, bytes)| *of == key && bytes.is_some_and(|bytes| 0 < bytes)),
            "{topic}: {rest:?}"
        );
    }
}

#[test]
fn a_partition_that_grows_is_looked_at_again() {
    let mut leader = Leader::new();
    leader.list(HOT, 1, true);
    assert!(
        matches!(leader.gather(ALL)[..], [(_, Some(0))]),
        "its watermark is news"
    );
    assert_eq!(leader.gather(ALL), []);
    leader.bench.append_undurably(HOT, b"more");
    let mut woken = Vec::new();
    leader.bench.shard.desk.shared.volumes.dirs()[0].take_woken(&mut woken);
    let [News::Readable(ticket)] = woken[..] else {
        panic!("{woken:?}");
    };
    assert!(is_of_feed(ticket));
    leader.feed.on_grown(ticket.part);
    assert!(
        matches!(leader.gather(ALL)[..], [(_, Some(1..))]),
        "synced or not"
    );
}

/// A follower that asks for no check of its epoch is refused all the same where this broker does not lead.
#[test]
fn a_partition_that_is_led_elsewhere_is_refused() {
    let mut leader = Leader::new();
    let hot = leader.key(HOT);
    let partition = leader.bench.partition(HOT, 0);
    partition.set_role(LeaderEpoch(9), partition::Role::NotLeading, &mut Vec::new());
    for epoch in [LeaderEpoch::NONE, LeaderEpoch(8), LeaderEpoch(9)] {
        leader.list_in(hot, epoch, 1, true);
        assert_eq!(leader.gather(ALL), [(hot, None)], "in {epoch}");
    }
}

/// The records of a follower may be committed: nothing but the log of their leader cuts them off.
#[test]
fn only_the_leader_that_is_asked_for_judges_where_logs_part() {
    let mut leader = Leader::new();
    let hot = leader.key(HOT);
    let partition = leader.bench.partition(HOT, 0);
    let current = partition.bounds().epoch;
    let longer = EpochEnd {
        epoch: current,
        end: Offset(5),
    };
    let fed_in = |leader: &mut Leader, epoch| {
        leader.list_at(hot, epoch, longer, true);
        let mut fed = leader.feed.gather(&leader.bench.shard.desk, OWN, ALL);
        fed.pop().expect("an answer").1
    };
    let parts = fed_in(&mut leader, current);
    assert!(matches!(parts, Fed::Parts(told, _) if told.end == Offset(1)));
    let early = fed_in(&mut leader, LeaderEpoch(current.0 + 1));
    assert!(
        matches!(early, Fed::Refused(_)),
        "it does not lead there yet"
    );
}

/// It becomes the leader between the word of the follower and the answer. The follower has to say where it is once more, or it would never
/// count: nothing else has it name a partition of which it has all.
#[test]
fn a_place_that_was_named_too_early_is_refused_though_the_answer_comes_in_time() {
    let mut leader = Leader::new();
    let hot = leader.key(HOT);
    let partition = leader.bench.partition(HOT, 0);
    let next = LeaderEpoch(partition.bounds().epoch.0 + 1);
    leader.list_in(hot, next, 1, true);
    let elected = PartitionChangeRecord {
        topic_id: hot.0,
        partition_id: hot.1.0,
        leader: 1,
        replicas: Some(vec![1, FOLLOWER.0]),
        ..PartitionChangeRecord::default()
    };
    leader.bench.publish(&[elected.into()]);
    assert_eq!(partition.leads_in(), Some(next));
    assert_eq!(leader.gather(ALL), [(hot, None)]);
    leader.list_in(hot, next, 1, true);
    assert_eq!(leader.gather(ALL), [(hot, Some(0))]);
}

/// A reassignment of a quiet partition hung: the follower had spoken before the leader knew it, and had no reason to speak again.
#[test]
fn a_follower_that_spoke_before_the_metadata_came_is_asked_again() {
    let mut leader = Leader::new();
    let hot = leader.key(HOT);
    let me = leader
        .bench
        .shard
        .desk
        .shared
        .catalog
        .config()
        .broker
        .node_id;
    leader.have_replicas(HOT, &[me], 2);
    leader.list(HOT, 1, true);
    assert_eq!(leader.gather(ALL), [(hot, None)]);
    // The metadata come between its next word and the answer.
    leader.list(HOT, 1, true);
    assert_eq!(leader.have_replicas(HOT, &[me, FOLLOWER], 3), []);
    assert_eq!(leader.gather(ALL), [(hot, None)]);
    leader.list(HOT, 1, true);
    assert_eq!(leader.gather(ALL), [(hot, Some(0))]);
    assert_eq!(leader.gather(ALL), []);
}

/// The follower sees that it was removed and added again in one step, and goes on.
#[test]
fn a_follower_that_this_leader_forgot_is_asked_again() {
    let mut leader = Leader::new();
    let hot = leader.key(HOT);
    let me = leader
        .bench
        .shard
        .desk
        .shared
        .catalog
        .config()
        .broker
        .node_id;
    leader.list(HOT, 1, true);
    assert_eq!(leader.gather(ALL), [(hot, Some(0))]);
    let same = leader.have_replicas(HOT, &[me, FOLLOWER], 2);
    assert_eq!(same, [], "a change of the ISR alone is no reason");
    let removed = leader.have_replicas(HOT, &[me], 3);
    let [News::Readable(ticket)] = removed[..] else {
        panic!("{removed:?}");
    };
    leader.have_replicas(HOT, &[me, FOLLOWER], 4);
    leader.feed.on_grown(ticket.part);
    assert_eq!(leader.gather(ALL), [(hot, None)]);
    leader.list(HOT, 1, true);
    assert_eq!(leader.gather(ALL), [(hot, Some(0))]);
}

/// An answer counts for nothing at a follower that has begun anew meanwhile, and what it said of the committed offset with it.
#[test]
fn a_follower_that_begins_anew_is_told_again_what_is_committed() {
    let mut leader = Leader::new();
    let hot = leader.key(HOT);
    for _ in 0..2 {
        leader.list(HOT, 1, true);
        assert_eq!(leader.gather(ALL), [(hot, Some(0))]);
        leader.list(HOT, 1, false);
        assert_eq!(leader.gather(ALL), []);
    }
}
