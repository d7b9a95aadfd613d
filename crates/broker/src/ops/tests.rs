//! A door without frames: it keeps what waits and brings it its news, and asks for everything in types of our own.

mod nodes;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use coord::group::ask::{Commit, CommitPartition, CommitTopic, TopicKey};
use meta::decide::create_topics::NewTopic;
use model::{LeaderEpoch, Offset, PartitionIndex, Ticket};
use partition::{Isolation, Read, Records, Scope, SearchTime, Stamp};
use wire::{ErrorCode, Uuid};

use super::asking::{Awaited, Awaiting};
use super::change::Begun;
use super::command::Commanded;
use super::fetch::{Client, FetchRefusal, Fetching, Kind, Progress, Terms, Wanted};
use super::produce::{Acks, BatchFor, Joining, Produce, Produced, Producing};
use super::search::{Asked, FoundOffset, Searching, Spot};
use super::view::Scene;
use super::*;
use crate::asker::{Asker, Origin};
use crate::event_loop::bench::{Bench, batch, encoded, executed};
use crate::net::Pending;
use crate::ops::query::Query;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::{
    CreateTopicsRequest, IncrementalAlterConfigsRequest, incremental_alter_configs_request,
};

const TOPIC: &str = "t";
const GROUP: &str = "g";
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits for one operation at a time.
struct Door {
    bench: Bench,
    asker: Asker,
    keys: Pending<()>,
}

impl Door {
    fn new() -> Door {
        let here = SocketAddr::from(([127, 0, 0, 1], 9092));
        Door {
            bench: Bench::new(),
            asker: Asker::anonymous(here, here),
            keys: Pending::new(),
        }
    }

    fn desk(&mut self) -> &mut Desk {
        &mut self.bench.shard.desk
    }

    /// The ticket of the next operation.
    fn ticket(&mut self) -> Ticket {
        let key = self.keys.insert(());
        self.desk().ticket(key, 0)
    }

    /// Commits what was written, and returns what that means for the ticket's operation.
    fn news(&mut self, ticket: Ticket) -> Vec<(Ticket, ErrorCode)> {
        self.bench.shard.coordinating().write_decisions();
        self.bench.sync();
        let desk = self.desk();
        let news = std::mem::take(&mut desk.news).into_iter();
        let told = news.filter_map(crate::error::outcome);
        told.filter(|(told, _)| told.key == ticket.key).collect()
    }

    fn create(&mut self, topics: Vec<NewTopic>) {
        let ticket = self.ticket();
        let asker = self.asker.clone();
        let (answers, begun) =
            change::begin(self.desk(), &asker, ticket, PATIENCE, |view, uuids| {
                topics::create(view, topics, Mode::Apply, uuids)
            });
        assert!(answers.iter().all(|(_, answer)| answer.is_ok()));
        let Begun::Waits(change) = begun else {
            panic!("a new topic is written")
        };
        let news = self.news(ticket);
        assert_eq!(news, [(ticket, ErrorCode::None)]);
        change.end(self.desk());
    }

    fn produce(&mut self, value: &[u8]) -> Produced {
        let first = self.ticket();
        let tickets = |part| Ticket { part, ..first };
        let request = Produce {
            acks: Acks::All,
            patience: PATIENCE,
            transactional_id: None,
            joining: Joining::Adds,
            knows_zstd: true,
            topics: vec![(Uuid::ZERO, TOPIC.to_owned())],
            batches: vec![BatchFor {
                topic: 0,
                index: 0,
                records: batch(value),
            }],
        };
        let asker = self.asker.clone();
        let begun = produce::begin(
            self.desk(),
            &asker,
            request,
            origin(&mut Stamp::default()),
            &tickets,
        );
        let Ok(Step::Parked(mut producing)) = begun else {
            panic!("it is not durable at once")
        };
        assert!(!producing.is_ready());
        for (ticket, code) in self.news(first) {
            producing.on_news(ticket, code);
        }
        assert!(producing.is_ready());
        let step = producing.go_on(self.desk(), &asker, origin(&mut Stamp::default()), &tickets);
        done(step)
    }

    fn fetch(&mut self, from: Offset) -> Read {
        let key = self.ticket().key;
        let asker = self.asker.clone();
        let terms = Terms {
            kind: Kind::Consumer,
            scope: Scope::of_leader(Isolation::Committed),
            bytes_min: 1,
            bytes_max: 1 << 20,
            near: Vec::new(),
            deadline: self.desk().now,
        };
        let wanted = Wanted {
            topic_id: Uuid::ZERO,
            topic: TOPIC,
            index: 0,
            from,
            bytes_max: 1 << 20,
            current_epoch: LeaderEpoch::NONE,
        };
        let mut fetching = Fetching::new(self.desk(), &asker, [wanted], terms);
        let client = Client {
            readers: None,
            memory_max: usize::MAX,
        };
        let progress = fetching.advance(self.desk(), key, client);
        assert_eq!(progress, Progress::Whole);
        let mut results = fetching.into_results().map(|fetched| fetched.result);
        let read = results.next().expect("one for one");
        read.unwrap_or_else(|why| panic!("{why:?}"))
    }

    fn search(&mut self, spot: Spot) -> Option<FoundOffset> {
        let key = self.ticket().key;
        let asker = self.asker.clone();
        let asked = Asked {
            topic: TOPIC,
            index: 0,
            current_epoch: LeaderEpoch::NONE,
            spot: Some(spot),
        };
        let scope = Scope::of_leader(Isolation::Committed);
        let mut searching = Searching::begin(self.desk(), &asker, [asked], scope, key);
        for (ticket, piece) in executed(&self.desk().shared.readers) {
            searching.put(ticket.part, piece);
        }
        assert!(searching.is_whole());
        let mut results = searching.into_results();
        let place = results.next().expect("one for one");
        place.unwrap_or_else(|why| panic!("{why:?}"))
    }

    /// Asks coordinators, and waits for what they say to be durable.
    fn ask<Q: Query, T>(
        &mut self,
        begin: impl FnOnce(&mut Desk, &Asker, Tickets<'_>) -> Awaited<Q, T>,
    ) -> T {
        let first = self.ticket();
        let asker = self.asker.clone();
        let Awaiting { mut asking, read } =
            match begin(self.desk(), &asker, &|part| Ticket { part, ..first }) {
                Step::Done(done) => return done,
                Step::Parked(awaiting) => awaiting,
                Step::Dropped => panic!("the broker does not stop"),
            };
        while !asking.is_done() {
            let shard = &mut self.bench.shard;
            shard.send_questions();
            shard.coordinating().turn();
            shard.coordinating().write_decisions();
            for answered in std::mem::take(&mut self.desk().answered) {
                asking.on_answer(self.desk(), answered);
            }
            for (ticket, code) in self.news(first) {
                asking.on_news(ticket, code);
            }
        }
        read.read(asking.into_told())
    }
}

fn origin(stamp: &mut Stamp) -> Origin<'_> {
    let source = None;
    Origin { stamp, source }
}

fn done(step: Step<Producing, Produced>) -> Produced {
    match step {
        Step::Done(produced) => produced,
        Step::Parked(_) | Step::Dropped => panic!("everything it waited for has come"),
    }
}

/// A commit by nobody in particular.
fn commit(offset: Offset) -> Commit {
    Commit {
        group_id: GROUP.to_owned(),
        member_id: String::new(),
        instance_id: None,
        generation: -1,
        knows_member_epochs: true,
        retention_ms: None,
        topics: vec![CommitTopic {
            topic: TopicKey::Name(TOPIC.to_owned()),
            partitions: vec![CommitPartition {
                index: PartitionIndex(0),
                offset,
                leader_epoch: LeaderEpoch::NONE,
                metadata: String::new(),
            }],
        }],
    }
}

fn topic(name: &str) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        partitions: 1,
        replication_factor: 1,
        ..NewTopic::default()
    }
}

#[test]
fn a_door_without_frames_can_ask_for_everything() {
    let mut door = Door::new();
    door.create(vec![topic(TOPIC)]);
    for (value, offset) in [(b"one".as_slice(), 0), (b"two", 1)] {
        let produced = door.produce(value);
        let placed = produced.answers[0].result.as_ref().expect("it is taken");
        assert_eq!(placed.base_offset, Offset(offset));
    }

    let read = door.fetch(Offset(1));
    let Records::Memory(batches) = read.records else {
        panic!("it was just written")
    };
    assert_eq!(batches[0].base_offset(), Offset(1));
    let newest = door.search(Spot::Time(SearchTime::Largest));
    assert_eq!(newest.map(|place| place.offset), Some(Offset(0)));

    let asker = door.asker.clone();
    let ticket = door.ticket();
    let scene = Scene::new(door.desk(), &Arc::new(asker.clone()));
    let command = topics::create_internal(&scene.view(""), meta::name::OFFSETS);
    let commanded = command::carry_out(door.desk(), &asker, command, (ticket, PATIENCE));
    let Commanded::Here(Begun::Waits(change), None) = commanded else {
        panic!("the topic of offsets is written")
    };
    door.news(ticket);
    change.end(door.desk());

    let committed =
        door.ask(|desk, asker, tickets| offsets::commit(desk, asker, commit(Offset(2)), tickets));
    assert_eq!(committed, Ok(vec![Ok(())]));

    let described = door
        .ask(|desk, asker, tickets| groups::describe(desk, asker, vec![GROUP.to_owned()], tickets));
    let [(id, Ok(Ok(group)))] = described.as_slice() else {
        panic!("{described:?}")
    };
    assert_eq!((id.as_str(), group.members.len()), (GROUP, 0));
    assert_eq!(group.state.name(), "Empty");
}

#[test]
fn a_topic_gets_the_replicas_that_its_creator_asks_for() {
    let mut bench = Bench::new();
    let others = [2, 3].map(|broker_id| {
        let record = wire::metadata::RegisterBrokerRecord {
            broker_id,
            broker_epoch: 1_000,
            fenced: false,
            ..wire::metadata::RegisterBrokerRecord::default()
        };
        meta::Record::from(record)
    });
    let shared = std::sync::Arc::clone(&bench.shard.desk.shared);
    shared
        .metadata
        .change_at_start(&others)
        .expect("a disk that works");
    let topic = |name: &str, replication_factor| CreatableTopic {
        name: name.to_owned(),
        num_partitions: 2,
        replication_factor,
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest {
        topics: vec![
            topic("three", 3),
            topic("four", 4),
            topic("one", 1),
            topic("default", -1),
        ],
        timeout_ms: 1_000,
        ..CreateTopicsRequest::default()
    };
    bench.put(&encoded(&request, 7));
    bench.commit();
    let answer = bench
        .answer::<CreateTopicsRequest>(7)
        .expect("it is durable");
    let told = answer.topics.iter().map(|topic| {
        (
            topic.name.as_str(),
            topic.error_code,
            topic.replication_factor,
        )
    });
    let refused = ErrorCode::InvalidReplicationFactor.code();
    let told: Vec<_> = told.collect();
    assert_eq!(
        told,
        [
            ("three", 0, 3),
            ("four", refused, -1),
            ("one", 0, 1),
            ("default", 0, 3)
        ],
        "there are three brokers"
    );
    let image = bench.shard.desk.shared.catalog.image();
    assert!(image.topic("four").is_none());
    for (name, factor) in [("three", 3), ("one", 1), ("default", 3)] {
        let topic = image.topic(name).expect("it was created");
        assert_eq!(topic.partitions.len(), 2);
        for partition in &topic.partitions {
            assert_eq!(partition.replicas.len(), factor);
            assert_eq!(partition.isr, partition.replicas);
        }
    }
}

/// Any broker may have sent its client's request on: the controller decides about the settings of each.
#[test]
fn settings_of_another_broker_of_the_cluster_are_decided_here() {
    let mut bench = Bench::new();
    let set = |bench: &mut Bench| {
        let config = incremental_alter_configs_request::AlterableConfig {
            name: "log.retention.ms".to_owned(),
            value: Some("1000".to_owned()),
            ..Default::default()
        };
        let resource = incremental_alter_configs_request::AlterConfigsResource {
            resource_type: 4,
            resource_name: "2".to_owned(),
            configs: vec![config],
        };
        let request = IncrementalAlterConfigsRequest {
            resources: vec![resource],
            ..Default::default()
        };
        bench.put(&encoded(&request, 1));
        bench.commit();
        let answer = bench.answer::<IncrementalAlterConfigsRequest>(1);
        answer.expect("it is durable").responses[0].error_code
    };
    let unknown = set(&mut bench);
    assert_eq!(unknown, ErrorCode::InvalidRequest.code());
    let other = wire::metadata::RegisterBrokerRecord {
        broker_id: 2,
        broker_epoch: 1_000,
        ..wire::metadata::RegisterBrokerRecord::default()
    };
    let shared = std::sync::Arc::clone(&bench.shard.desk.shared);
    let written = shared.metadata.change_at_start(&[other.into()]);
    written.expect("a disk that works");
    assert_eq!(set(&mut bench), 0);
    let image = shared.catalog.image();
    let own = image.overrides(&meta::Resource::broker(model::BrokerId(2)));
    assert_eq!(
        own.get("log.retention.ms").map(String::as_str),
        Some("1000")
    );
}
