//! Operations of a door of our own, on a broker that coordinates nothing of what they ask about.

use std::net::SocketAddr;

use coord::group::ask::{
    Commit, CommitPartition, CommitTopic, ConsumerHeartbeat, DeleteOffsets, DeleteTopic,
    FetchOffsets, FetchTopic, FetchedTopic, Filter, Heartbeat, Leave, Leaver, TopicKey,
};
use coord::txn::Producer;
use model::{LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Ticket, WaiterKey};
use security::authorize::Operation;
use wire::ErrorCode;
use wire::messages::FindCoordinatorRequest;

use super::pair::*;
use crate::asker::Asker;
use crate::asker::access::Resource;
use crate::event_loop::bench::encoded;
use crate::mail::question::Reach;
use crate::ops::asking::{Asking, Awaited, Awaiting, only};
use crate::ops::query::{Query, Told};
use crate::ops::txns::{self, End, Init, InitProducer, Named, Protocol};
use crate::ops::{Desk, Step, Tickets, groups, offsets};

/// Rounds in which everything is carried, more than any question needs.
const ROUNDS_MAX: usize = 50;
/// The Kafka door of the same desk has no request under this key.
const KEY: WaiterKey = WaiterKey(u64::MAX);

/// A door on one of the two.
struct Door {
    pair: Pair,
    at: usize,
    asker: Asker,
}

impl Door {
    fn new(at: usize) -> Door {
        let here = SocketAddr::from(([127, 0, 0, 1], 9092));
        let mut pair = Pair::new();
        pair.benches[at].shard.desk.reach = Reach::Cluster;
        Door {
            pair,
            at,
            asker: Asker::anonymous(here, here),
        }
    }

    fn desk(&mut self) -> &mut Desk {
        &mut self.pair.benches[self.at].shard.desk
    }

    fn ticket(&mut self) -> Ticket {
        self.desk().ticket(KEY, 0)
    }

    fn ask<Q: Query, T>(
        &mut self,
        begin: impl FnOnce(&mut Desk, &Asker, Tickets<'_>) -> Awaited<Q, T>,
    ) -> T {
        let first = self.ticket();
        let asker = self.asker.clone();
        match begin(self.desk(), &asker, &|part| Ticket { part, ..first }) {
            Step::Done(done) => done,
            Step::Parked(Awaiting { asking, read }) => read.read(self.await_all(asking)),
            Step::Dropped => panic!("the broker does not stop"),
        }
    }

    fn ask_one<Q: Query>(&mut self, (partition, question): (i32, Q)) -> Told<Q> {
        let first = self.ticket();
        let questions = vec![(partition, question)];
        let asking = Asking::begin(self.desk(), questions, |part| Ticket { part, ..first });
        only(self.await_all(asking))
    }

    /// Lets both brokers do what they can until all is answered.
    fn await_all<Q: Query>(&mut self, mut asking: Asking<Q>) -> Vec<Told<Q>> {
        for _ in 0..ROUNDS_MAX {
            for side in [FIRST, SECOND] {
                let bench = &mut self.pair.benches[side];
                bench.shard.send_questions();
                bench.shard.coordinating().turn();
                bench.shard.coordinating().write_decisions();
                bench.sync();
                if side == self.at {
                    let desk = &mut bench.shard.desk;
                    take_answers(desk, &mut asking);
                    let news = std::mem::take(&mut desk.news).into_iter();
                    for (ticket, code) in news.filter_map(crate::error::outcome) {
                        asking.on_news(ticket, code);
                    }
                } else {
                    bench.tell();
                }
                let errands = bench.shard.coordinating().take_errands();
                for errand in errands {
                    self.pair.carry(side, errand);
                }
                // The Kafka door of the same desk would drop them.
                take_answers(self.desk(), &mut asking);
            }
            if asking.is_done() {
                return asking.into_told();
            }
        }
        panic!("nobody answers");
    }

    fn commit(&mut self, topics: Vec<CommitTopic>) -> Result<offsets::Results, ErrorCode> {
        let commit = Commit {
            group_id: GROUP.to_owned(),
            member_id: String::new(),
            instance_id: None,
            generation: -1,
            knows_member_epochs: true,
            retention_ms: None,
            topics,
        };
        self.ask(|desk, asker, tickets| offsets::commit(desk, asker, commit, tickets))
    }

    fn fetch(&mut self, topics: Option<Vec<FetchTopic>>) -> Result<Vec<FetchedTopic>, ErrorCode> {
        let fetch = FetchOffsets {
            group_id: GROUP.to_owned(),
            member_id: None,
            member_epoch: -1,
            topics,
            require_stable: true,
        };
        let fetched =
            self.ask(|desk, asker, tickets| offsets::fetch(desk, asker, vec![fetch], tickets));
        fetched.into_iter().next().expect("one for one")
    }

    fn named() -> TopicKey {
        TopicKey::Name(TOPIC.to_owned())
    }
}

fn take_answers<Q: Query>(desk: &mut Desk, asking: &mut Asking<Q>) {
    for answered in std::mem::take(&mut desk.answered) {
        asking.on_answer(desk, answered);
    }
}

fn committed(topic: TopicKey, offsets: &[(i32, i64)]) -> CommitTopic {
    let partition = |(index, offset): &(i32, i64)| CommitPartition {
        index: PartitionIndex(*index),
        offset: Offset(*offset),
        leader_epoch: LeaderEpoch(3),
        metadata: "m".to_owned(),
    };
    let partitions = offsets.iter().map(partition).collect();
    CommitTopic { topic, partitions }
}

fn fetch_of(topic: TopicKey, indexes: &[i32]) -> FetchTopic {
    let partitions = indexes.iter().copied().map(PartitionIndex).collect();
    FetchTopic { topic, partitions }
}

/// Partition and offset of each, where one is committed.
fn offsets_of(topic: &FetchedTopic) -> Vec<(i32, Option<i64>)> {
    let offset = |partition: &coord::group::ask::FetchedPartition| {
        let found = partition.found.as_ref().expect("it is not refused");
        (partition.index.0, found.as_ref().map(|at| at.offset.0))
    };
    topic.partitions.iter().map(offset).collect()
}

#[test]
fn offsets_are_committed_found_and_deleted_at_the_broker_that_coordinates_their_group() {
    let mut door = Door::new(FIRST);
    let by_name = committed(Door::named(), &[(1, 5), (0, 7)]);
    assert_eq!(door.commit(vec![by_name]), Ok(vec![Ok(()), Ok(())]));
    let by_id = committed(TopicKey::Id(TOPIC_ID), &[(0, 8)]);
    assert_eq!(door.commit(vec![by_id]), Ok(vec![Ok(())]));

    let asked = vec![fetch_of(Door::named(), &[1, 0])];
    for asked in [Some(asked), None] {
        let fetched = door.fetch(asked).expect("they are there");
        let [topic] = fetched.as_slice() else {
            panic!("{fetched:?}")
        };
        assert_eq!(topic.name.as_deref(), Some(TOPIC));
        assert_eq!(topic.topic_id, Some(TOPIC_ID));
        let mut offsets = offsets_of(topic);
        offsets.sort_unstable();
        assert_eq!(offsets, [(0, Some(8)), (1, Some(5))]);
        let found = topic.partitions[0].found.as_ref().expect("it is there");
        let found = found.as_ref().expect("it is there");
        assert_eq!((found.leader_epoch.0, found.metadata.as_str()), (3, "m"));
    }
    let by_id = vec![fetch_of(TopicKey::Id(TOPIC_ID), &[0])];
    let fetched = door.fetch(Some(by_id)).expect("they are there");
    assert_eq!(fetched[0].name.as_deref(), Some(TOPIC));
    assert_eq!(offsets_of(&fetched[0]), [(0, Some(8))]);

    let delete = DeleteOffsets {
        group_id: GROUP.to_owned(),
        topics: vec![DeleteTopic {
            name: TOPIC.to_owned(),
            partitions: vec![PartitionIndex(1)],
        }],
    };
    let deleted = door.ask(|desk, asker, tickets| offsets::delete(desk, asker, delete, tickets));
    assert_eq!(deleted, Ok(vec![Ok(())]));
    let asked = vec![fetch_of(Door::named(), &[0, 1])];
    let fetched = door.fetch(Some(asked)).expect("one is there");
    assert_eq!(offsets_of(&fetched[0]), [(0, Some(8)), (1, None)]);
}

#[test]
fn groups_are_described_listed_and_deleted_at_the_broker_that_coordinates_them() {
    let mut door = Door::new(FIRST);
    let describe = |door: &mut Door, id: &str| {
        let ids = vec![id.to_owned()];
        let mut described =
            door.ask(|desk, asker, tickets| groups::describe(desk, asker, ids, tickets));
        described.pop().expect("one for one").1
    };
    let absent = describe(&mut door, "nobody").expect("its coordinator answers");
    let refusal = absent.expect_err("there is no such group");
    assert_eq!(refusal.code, ErrorCode::GroupIdNotFound);
    assert!(refusal.message.contains("nobody"), "{}", refusal.message);

    let commit = committed(Door::named(), &[(0, 7)]);
    assert_eq!(door.commit(vec![commit]), Ok(vec![Ok(())]));
    let group = describe(&mut door, GROUP).expect("its coordinator answers");
    let group = group.expect("it is there");
    assert_eq!((group.state.name(), group.members.len()), ("Empty", 0));

    let list = |door: &mut Door, states: &[&str]| {
        let list = groups::List {
            states: states.iter().map(|&name| name.to_owned()).collect(),
            types: Filter::default(),
        };
        let listed = door.ask(|desk, asker, tickets| groups::list(desk, asker, list, tickets));
        let listed = listed.expect("all answer").into_iter();
        listed.map(|group| group.group_id).collect::<Vec<_>>()
    };
    assert_eq!(list(&mut door, &[]), [GROUP]);
    assert_eq!(list(&mut door, &["empty"]), [GROUP]);
    assert_eq!(list(&mut door, &["stable"]), [""; 0]);

    let ids = || vec![GROUP.to_owned()];
    let deleted = door.ask(|desk, asker, tickets| groups::delete(desk, asker, ids(), tickets));
    assert_eq!(deleted, [(GROUP.to_owned(), Ok(()))]);
    assert_eq!(list(&mut door, &[]), [""; 0]);
    let deleted = door.ask(|desk, asker, tickets| groups::delete(desk, asker, ids(), tickets));
    let absent = ErrorCode::GroupIdNotFound;
    assert_eq!(deleted, [(GROUP.to_owned(), Err(absent))]);
}

#[test]
fn a_member_joins_stays_and_leaves_at_the_broker_that_coordinates_its_group() {
    let mut door = Door::new(FIRST);
    let beat = |member_epoch, is_first: bool| ConsumerHeartbeat {
        group_id: GROUP.to_owned(),
        member_id: "m".to_owned(),
        member_epoch,
        rebalance_timeout_ms: is_first.then_some(1_000),
        topic_names: is_first.then(|| vec![TOPIC.to_owned()]),
        owned: is_first.then(Vec::new),
        brings_member_id: true,
        ..ConsumerHeartbeat::default()
    };
    let standing = |door: &mut Door, beat| {
        door.ask(|desk, asker, tickets| groups::consumer_heartbeat(desk, asker, beat, tickets))
            .expect("its coordinator answers")
    };
    let joined = standing(&mut door, beat(0, true)).expect("it joins");
    assert_eq!(joined.member_id, "m");
    let given = joined.assignment.expect("all of it");
    assert_eq!(
        (given[0].topic_id, given[0].partitions.len()),
        (TOPIC_ID, 2)
    );
    let epoch = joined.member_epoch;
    let fenced = standing(&mut door, beat(epoch + 7, false)).expect_err("nobody is there yet");
    assert_eq!(fenced.code, ErrorCode::FencedMemberEpoch);

    let ids = vec![GROUP.to_owned()];
    let mut described =
        door.ask(|desk, asker, tickets| groups::describe_consumers(desk, asker, ids, tickets));
    let (_, group) = described.pop().expect("one for one");
    let group = group
        .expect("its coordinator answers")
        .expect("it is there");
    assert_eq!((group.state.name(), group.assignor), ("Stable", "uniform"));
    let [member] = group.members.as_slice() else {
        panic!("one has joined")
    };
    assert_eq!((member.member_epoch, &member.pattern), (epoch, &None));
    assert_eq!(member.topic_names, [TOPIC]);
    assert_eq!(member.assignment[0].topic_name, TOPIC);

    let leave = Leave {
        group_id: GROUP.to_owned(),
        members: ["nobody", "m"]
            .map(|member_id| Leaver {
                member_id: member_id.to_owned(),
                ..Leaver::default()
            })
            .to_vec(),
    };
    let left = door.ask(|desk, asker, tickets| groups::leave(desk, asker, leave, tickets));
    let unknown = Err(ErrorCode::UnknownMemberId);
    assert_eq!(left, Ok(vec![unknown, Ok(())]));
    let beat = Heartbeat {
        group_id: GROUP.to_owned(),
        member_id: "m".to_owned(),
        ..Heartbeat::default()
    };
    let beaten = door.ask(|desk, asker, tickets| groups::heartbeat(desk, asker, beat, tickets));
    assert_eq!(beaten, unknown);
}

#[test]
fn a_transaction_is_begun_and_ended_at_the_broker_that_coordinates_it() {
    let mut door = Door::new(SECOND);
    let asker = door.asker.clone();
    let request = InitProducer {
        in_two_phases: false,
        is_sound: true,
        transactional_id: Some(ID.to_owned()),
        timeout_ms: 60_000,
        expected: None,
    };
    let Init::Ask(question) = txns::init(door.desk(), &asker, request) else {
        panic!("the other broker gives the id")
    };
    let producer = door.ask_one(*question).flatten().expect("an identity");
    assert_eq!(producer.epoch, ProducerEpoch(0));
    let named = |producer| {
        let granted = asker.grant(Operation::Write, Resource::transactional_id(ID));
        Named::new(granted.expect("nobody is refused"), producer)
    };
    let places = vec![(TOPIC.to_owned(), 0), (TOPIC.to_owned(), 1)];
    let adds = Protocol::ClientAdds;
    let add = txns::add(door.desk(), named(producer), places.clone(), adds);
    let added = door.ask_one(add);
    assert_eq!(added, Ok(Ok(())));

    let describe = coord::txn::Describe {
        transactional_id: ID.to_owned(),
    };
    let described = door.ask_one((0, describe.clone()));
    let open = described.expect("it answers").expect("it is there");
    assert_eq!((open.state.name(), open.places), ("Ongoing", places));
    assert_eq!((open.producer, open.timeout_ms), (producer, 60_000));

    let end = |protocol| End {
        committed: true,
        protocol,
        fresh: None,
    };
    let stranger = Producer {
        id: ProducerId(producer.id.0 + 1),
        ..producer
    };
    let ended = txns::end(door.desk(), named(stranger), end(adds));
    let ended = door.ask_one(ended).flatten();
    assert_eq!(ended, Err(ErrorCode::InvalidProducerIdMapping));
    let ended = txns::end(door.desk(), named(producer), end(adds));
    let ended = door.ask_one(ended).flatten();
    assert_eq!(ended, Ok(producer), "a client that adds keeps its epoch");
    door.pair.run();
    let described = door.ask_one((0, describe));
    let over = described.expect("it answers").expect("it is there");
    assert_eq!(over.state.name(), "CompleteCommit");
}

#[test]
fn a_coordinator_that_cannot_be_reached_is_not_available_and_one_that_is_none_says_so() {
    let mut door = Door::new(FIRST);
    let commit = || vec![committed(Door::named(), &[(0, 7)])];
    door.pair.net = Net::Down;
    let unavailable = ErrorCode::CoordinatorNotAvailable;
    assert_eq!(door.commit(commit()), Err(unavailable));
    door.pair.net = Net::Works;
    assert_eq!(door.commit(commit()), Ok(vec![Ok(())]));
    // Only the other broker knows that this one leads now.
    door.pair.benches[SECOND].publish(&[groups_led_by(broker_id(FIRST))]);
    let elsewhere = ErrorCode::NotCoordinator;
    assert_eq!(door.commit(commit()), Err(elsewhere));
    door.pair.benches[FIRST].publish(&[groups_led_by(broker_id(FIRST))]);
    assert_eq!(door.commit(commit()), Ok(vec![Ok(())]), "it coordinates");
}

#[test]
fn a_question_under_way_to_a_broker_that_coordinates_no_longer_is_given_up() {
    let mut door = Door::new(FIRST);
    let first = door.ticket();
    let describe = coord::group::ask::Describe {
        group_id: GROUP.to_owned(),
    };
    let mut asking = Asking::begin(door.desk(), vec![(0, describe)], |part| Ticket {
        part,
        ..first
    });
    let shard = &mut door.pair.benches[FIRST].shard;
    shard.send_questions();
    let errands = shard.coordinating().take_errands();
    assert_eq!(errands.len(), 1, "nobody has it yet");
    // Published without its turn, in which a question would go to the new coordinator.
    door.pair.benches[FIRST].publish(&[groups_led_by(-1)]);
    let shard = &mut door.pair.benches[FIRST].shard;
    shard.coordinating().turn();
    for answered in std::mem::take(&mut shard.desk.answered) {
        asking.on_answer(&shard.desk, answered);
    }
    assert!(asking.is_done());
    let told = asking.into_told();
    assert_eq!(told, [Err(ErrorCode::NotCoordinator)]);
    for errand in errands {
        door.pair.carry(FIRST, errand);
    }
    assert!(door.desk().answered.is_empty(), "it was answered before");
}

#[test]
fn a_client_of_the_kafka_protocol_is_sent_to_its_coordinator() {
    let mut pair = Pair::new();
    let describe = wire::messages::DescribeGroupsRequest {
        groups: vec![GROUP.to_owned()],
        include_authorized_operations: false,
    };
    let bench = &mut pair.benches[FIRST];
    bench.put(&encoded(&describe, 5));
    bench.commit();
    let answer = bench.answer::<wire::messages::DescribeGroupsRequest>(5);
    let code = answer.expect("an answer at once").groups[0].error_code;
    assert_eq!(code, ErrorCode::NotCoordinator.code());
    assert!(bench.shard.coordinating().take_errands().is_empty());
    let find = FindCoordinatorRequest {
        key: GROUP.to_owned(),
        ..FindCoordinatorRequest::default()
    };
    let found = pair.ask::<FindCoordinatorRequest>(FIRST, &find, 3);
    assert_eq!(found.node_id, broker_id(SECOND));
}
