//! Partitions that move between the log directories of a running broker, asked for and watched through the Kafka door.

use std::io::IoSlice;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use broker::Broker;
use env::disk::Open;
use env::sim::{Faults, Machine};
use wire::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use wire::messages::create_partitions_request::CreatePartitionsTopic;
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    AlterReplicaLogDirsRequest, ApiVersionsRequest, CreatePartitionsRequest, DeleteTopicsRequest,
    DescribeLogDirsRequest, DescribeProducersRequest, DescribeTopicPartitionsRequest, FetchRequest,
    IncrementalAlterConfigsRequest, ListOffsetsRequest, MetadataRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, describe_topic_partitions_request,
};
use wire::records::BatchBuilder;

use crate::client::{Client, NONE, creation};
use crate::small_broker::start;

const DIRS: [&str; 3] = ["/data/a", "/data/b", "/data/c"];
const UNKNOWN_TOPIC: i16 = 3;
const NO_LEADER: i16 = 5;
const INVALID_TOPIC: i16 = 17;
const INVALID_FACTOR: i16 = 38;
const INVALID_ASSIGNMENT: i16 = 39;
const INVALID_REQUEST: i16 = 42;
const STORAGE: i16 = 56;
const NO_DIR: i16 = 57;

struct House {
    client: Client<Machine>,
    broker: Broker,
}

impl Deref for House {
    type Target = Client<Machine>;

    fn deref(&self) -> &Client<Machine> {
        &self.client
    }
}

impl House {
    fn open(machine: Machine) -> House {
        let broker = start(&machine, &[("log.dirs", &DIRS.join(","))]);
        House {
            client: Client::of(machine),
            broker,
        }
    }

    fn alter(&self, topic: &str, index: i32, path: &str) -> i16 {
        let topics = vec![AlterReplicaLogDirTopic {
            name: topic.to_owned(),
            partitions: vec![index],
        }];
        let request = AlterReplicaLogDirsRequest {
            dirs: vec![AlterReplicaLogDir {
                path: path.to_owned(),
                topics,
            }],
        };
        let response = self.ask(&request, 2);
        assert_eq!(response.results[0].topic_name, topic);
        assert_eq!(response.results[0].partitions[0].partition_index, index);
        response.results[0].partitions[0].error_code
    }

    /// Where a partition is, and where it is on its way to, with the lag.
    fn places(&self, topic: &str, index: i32) -> (Vec<String>, Vec<(String, i64)>) {
        let (mut here, mut coming) = (Vec::new(), Vec::new());
        for dir in self
            .ask(&DescribeLogDirsRequest { topics: None }, 4)
            .results
        {
            let topics = dir.topics.iter().filter(|found| found.name == topic);
            for found in topics.flat_map(|topic| &topic.partitions) {
                if found.partition_index != index {
                    continue;
                }
                if found.is_future_key {
                    coming.push((dir.log_dir.clone(), found.offset_lag));
                } else {
                    here.push(dir.log_dir.clone());
                }
            }
        }
        (here, coming)
    }

    fn place(&self, topic: &str, index: i32) -> String {
        let (here, coming) = self.places(topic, index);
        assert!(here.len() == 1 && coming.is_empty(), "{here:?} {coming:?}");
        here[0].clone()
    }

    /// Error code, high watermark and bytes of a fetch from `offset` on.
    fn fetch(&self, topic: &str, offset: i64) -> (i16, i64, usize) {
        let request = FetchRequest {
            max_wait_ms: 10,
            min_bytes: 1,
            max_bytes: 1 << 20,
            session_epoch: -1,
            topics: vec![FetchTopic {
                topic: topic.to_owned(),
                partitions: vec![FetchPartition {
                    fetch_offset: offset,
                    partition_max_bytes: 1 << 20,
                    current_leader_epoch: -1,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = self.ask(&request, 11);
        let partition = &response.responses[0].partitions[0];
        let bytes = partition
            .records
            .as_ref()
            .map_or(0, |records| records.len());
        (partition.error_code, partition.high_watermark, bytes)
    }

    /// Sets a setting of the broker, and returns the error code.
    fn set(&self, name: &str, value: &str) -> i16 {
        let config = AlterableConfig {
            name: name.to_owned(),
            config_operation: 0,
            value: Some(value.to_owned()),
        };
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: 4,
                resource_name: "1".to_owned(),
                configs: vec![config],
            }],
            validate_only: false,
        };
        self.ask(&request, 1).responses[0].error_code
    }

    /// Bytes per second for all moves.
    fn throttle(&self, rate: u64) {
        let name = "replica.alter.log.dirs.io.max.bytes.per.second";
        assert_eq!(self.set(name, &rate.to_string()), NONE);
    }

    /// The directories that are said to be cordoned.
    fn cordoned(&self) -> Vec<String> {
        let dirs = self
            .ask(&DescribeLogDirsRequest { topics: None }, 5)
            .results;
        let cordoned = dirs.into_iter().filter(|dir| dir.is_cordoned);
        cordoned.map(|dir| dir.log_dir).collect()
    }

    fn other(&self, topic: &str) -> &'static str {
        let home = self.place(topic, 0);
        DIRS.into_iter().find(|dir| *dir != home).expect("three")
    }
}

fn house() -> House {
    House::open(Machine::new(1, Faults::default()))
}

#[test]
fn a_partition_moves_while_it_is_written_and_read_and_stays_there() {
    let house = house();
    house.create("t", 1);
    for number in 0..300 {
        assert_eq!(house.produce("t", &[7; 2000]), (NONE, number));
    }
    let to = house.other("t");
    let from = house.place("t", 0);
    assert_eq!(house.alter("t", 0, to), NONE);
    let (here, coming) = house.places("t", 0);
    assert_eq!(here, [from]);
    assert!(
        coming.len() == 1 && coming[0].0 == to && coming[0].1 > 0,
        "{coming:?}"
    );
    let mut number = 300;
    while !house.places("t", 0).1.is_empty() {
        assert_eq!(house.produce("t", &[7; 2000]), (NONE, number));
        number += 1;
        let (code, high_watermark, bytes) = house.fetch("t", number - 1);
        assert_eq!((code, high_watermark), (NONE, number));
        assert!(bytes > 2000);
        assert!(number < 10_000, "the move does not end");
    }
    assert_eq!(house.place("t", 0), to);
    let House { client, broker } = house;
    let machine = client.machine;
    machine.power_cut();
    drop(broker);
    let house = House::open(machine);
    assert_eq!(house.place("t", 0), to);
    for offset in [0, 150, number - 1] {
        let (code, high_watermark, bytes) = house.fetch("t", offset);
        assert_eq!((code, high_watermark), (NONE, number));
        assert!(bytes > 2000);
    }
}

#[test]
fn what_cannot_be_moved_is_refused_with_the_codes_of_kafka_4_3() {
    let house = house();
    house.create("t", 1);
    assert_eq!(house.alter("t", 0, "/nowhere"), NO_DIR);
    assert_eq!(house.alter("t", 0, "/data/a/"), NO_DIR);
    assert_eq!(house.alter("t", 1, DIRS[0]), UNKNOWN_TOPIC);
    assert_eq!(house.alter("t", -1, DIRS[0]), UNKNOWN_TOPIC);
    assert_eq!(house.alter("none", 0, DIRS[0]), UNKNOWN_TOPIC);
    assert_eq!(house.alter("__cluster_metadata", 0, DIRS[0]), UNKNOWN_TOPIC);
    assert_eq!(house.alter(&"l".repeat(213), 0, DIRS[0]), UNKNOWN_TOPIC);
    assert_eq!(house.alter(&"l".repeat(214), 0, "/nowhere"), INVALID_TOPIC);
    assert_eq!(house.alter("t", 0, &house.place("t", 0)), NONE);
    house.run(Duration::from_secs(1));
    house.place("t", 0);
    let served = house.ask(&ApiVersionsRequest::default(), 2).api_keys;
    let row = served.iter().find(|row| row.api_key == 34).expect("served");
    assert_eq!((row.min_version, row.max_version), (1, 2));
}

#[test]
fn a_cordoned_directory_takes_no_new_partitions_and_none_that_move() {
    const CORDONED: &str = "cordoned.log.dirs";
    let house = house();
    assert_eq!(house.cordoned(), [""; 0]);
    for wrong in ["/data/d", "/data/a,/data/d", "*,/data/a", "/data/a,"] {
        assert_eq!(house.set(CORDONED, wrong), INVALID_REQUEST, "{wrong}");
    }
    assert_eq!(house.set(CORDONED, "/data/a, /data/c"), NONE);
    assert_eq!(house.cordoned(), ["/data/a", "/data/c"]);
    house.create("t", 6);
    for index in 0..6 {
        assert_eq!(house.place("t", index), "/data/b");
    }
    assert_eq!(house.alter("t", 0, "/data/a"), INVALID_ASSIGNMENT);
    assert_eq!(house.alter("t", 0, "/data/b"), NONE);
    assert_eq!(house.alter("none", 0, "/data/a"), INVALID_ASSIGNMENT);

    // Partitions that are there go on, and none comes.
    assert_eq!(house.set(CORDONED, "*"), NONE);
    assert_eq!(house.cordoned(), DIRS);
    assert_eq!(house.produce("t", b"goes on"), (NONE, 0));
    let refused = house.ask(&creation("u", 1), 5);
    assert_eq!(refused.topics[0].error_code, INVALID_FACTOR);
    let grown = CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: "t".to_owned(),
            count: 7,
            assignments: None,
        }],
        timeout_ms: 1000,
        validate_only: false,
    };
    assert_eq!(house.ask(&grown, 3).results[0].error_code, INVALID_FACTOR);
    let House { client, broker } = house;
    let machine = client.machine;
    machine.power_cut();
    drop(broker);
    let house = House::open(machine);
    assert_eq!(house.cordoned(), DIRS);
    assert_eq!(house.set(CORDONED, "/data/b"), NONE);
    house.create("u", 2);
    assert_eq!(
        [0, 1].map(|index| house.place("u", index)),
        ["/data/a", "/data/c"]
    );
    assert_eq!(house.set(CORDONED, ""), NONE);
    assert_eq!(house.ask(&grown, 3).results[0].error_code, NONE);
}

#[test]
fn asking_for_where_it_is_calls_a_move_off_and_for_a_third_place_turns_it() {
    let house = house();
    house.create("t", 1);
    for _ in 0..100 {
        house.produce("t", &[7; 4000]);
    }
    let from = house.place("t", 0);
    let to = house.other("t");
    assert_eq!(house.alter("t", 0, to), NONE);
    assert_eq!(house.alter("t", 0, &from), NONE);
    assert_eq!(house.places("t", 0), (vec![from.clone()], vec![]));
    house.run(Duration::from_secs(2));
    assert_eq!(house.place("t", 0), from);
    let third = DIRS.into_iter().find(|dir| *dir != from && *dir != to);
    let third = third.expect("three");
    assert_eq!(house.alter("t", 0, to), NONE);
    assert_eq!(house.alter("t", 0, third), NONE);
    assert_eq!(house.produce("t", b"goes on"), (NONE, 100));
    house.run(Duration::from_secs(2));
    assert_eq!(house.place("t", 0), third);
    let left = |dir: &str| {
        let entries = house.machine.env().disk.read_dir(dir.as_ref()).unwrap();
        entries
            .iter()
            .filter(|of| of.name.starts_with("t-0"))
            .count()
    };
    assert_eq!((left(&from), left(to), left(third)), (0, 0, 1));
}

#[test]
fn a_partition_is_made_where_it_was_wanted_before_it_existed() {
    let house = house();
    for (index, dir) in DIRS.iter().rev().enumerate() {
        assert_eq!(house.alter("t", index as i32, dir), UNKNOWN_TOPIC);
    }
    house.create("t", 2);
    assert_eq!(house.place("t", 0), DIRS[2]);
    assert_eq!(house.place("t", 1), DIRS[1]);
    let request = CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: "t".to_owned(),
            count: 3,
            assignments: None,
        }],
        timeout_ms: 1000,
        validate_only: false,
    };
    assert_eq!(house.ask(&request, 3).results[0].error_code, NONE);
    assert_eq!(house.place("t", 2), DIRS[0]);
}

#[test]
fn a_topic_that_is_deleted_and_made_again_on_its_way_is_a_fresh_one() {
    let house = house();
    for round in 0..6 {
        house.create("t", 1);
        for _ in 0..40 {
            assert_eq!(house.produce("t", &[7; 4000]).0, NONE);
        }
        assert_eq!(house.alter("t", 0, house.other("t")), NONE);
        house.run(Duration::from_millis(round * 3));
        let request = DeleteTopicsRequest {
            topics: vec![DeleteTopicState {
                name: Some("t".to_owned()),
                ..Default::default()
            }],
            timeout_ms: 1000,
            ..Default::default()
        };
        assert_eq!(house.ask(&request, 6).responses[0].error_code, NONE);
    }
    house.create("t", 1);
    assert_eq!(house.produce("t", b"first"), (NONE, 0));
    house.run(Duration::from_secs(2));
    house.place("t", 0);
    let all = DIRS
        .iter()
        .flat_map(|dir| house.machine.env().disk.read_dir(dir.as_ref()).unwrap());
    let own: Vec<_> = all
        .map(|of| of.name)
        .filter(|of| of.starts_with("t-0"))
        .collect();
    assert_eq!(own, ["t-0"]);
}

/// Topic `a` with three partitions, and the one of them whose directory is offline from now on.
fn house_with_a_failed_directory() -> (House, i32) {
    let house = house();
    house.create("a", 3);
    house.create("b", 1);
    let victim = (0..3)
        .map(|index| house.place("a", index))
        .position(|dir| dir == DIRS[2]);
    let victim = victim.expect("one in each directory") as i32;
    // Its own journal cannot be written: only a partition that lives there would notice.
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: "a".to_owned(),
            partition_data: vec![PartitionProduceData {
                index: victim,
                records: Some({
                    let mut builder = BatchBuilder::new();
                    builder.push(house.machine.env().clock.wall_ms(), None, Some(b"v"), &[]);
                    builder.build().to_bytes().into()
                }),
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let writes = house.machine.counts().writes;
    house
        .machine
        .faults(|faults| faults.write_fails_at = Some(writes + 1));
    let answer = house.ask(&request, 9);
    assert_eq!(
        answer.responses[0].partition_responses[0].error_code,
        STORAGE
    );
    (house, victim)
}

#[test]
fn a_partition_of_a_failed_directory_tells_nothing_of_its_log() {
    let (house, victim) = house_with_a_failed_directory();
    for (index, code) in [
        (victim, STORAGE),
        ((victim + 1) % 3, NONE),
        (3, UNKNOWN_TOPIC),
    ] {
        for timestamp in [-1, -2, -3, 0] {
            let request = ListOffsetsRequest {
                replica_id: -1,
                topics: vec![ListOffsetsTopic {
                    name: "a".to_owned(),
                    partitions: vec![ListOffsetsPartition {
                        partition_index: index,
                        current_leader_epoch: -1,
                        timestamp,
                    }],
                }],
                ..Default::default()
            };
            let answer = house.ask(&request, 7);
            let answer = &answer.topics[0].partitions[0];
            assert_eq!(answer.error_code, code, "partition {index} at {timestamp}");
            assert!(code == NONE || answer.offset == -1, "{answer:?}");
        }
        let request = OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: vec![OffsetForLeaderTopic {
                topic: "a".to_owned(),
                partitions: vec![OffsetForLeaderPartition {
                    partition: index,
                    current_leader_epoch: -1,
                    leader_epoch: 0,
                }],
            }],
        };
        let answer = house.ask(&request, 3);
        let answer = &answer.topics[0].partitions[0];
        assert_eq!(answer.error_code, code, "the end of partition {index}");
        assert!(code == NONE || answer.end_offset == -1, "{answer:?}");
        let request = DescribeProducersRequest {
            topics: vec![TopicRequest {
                name: "a".to_owned(),
                partition_indexes: vec![index],
            }],
        };
        let answer = house.ask(&request, 0);
        let answer = answer.topics[0].partitions[0].error_code;
        assert_eq!(answer, code, "producers of partition {index}");
    }
}

#[test]
fn a_partition_of_a_failed_directory_has_no_leader() {
    let (house, victim) = house_with_a_failed_directory();
    let wanted = |code: i16| -> Vec<_> {
        let one = |index| {
            if index == victim {
                (code, -1, vec![1])
            } else {
                (NONE, 1, vec![])
            }
        };
        (0..3).map(one).collect()
    };
    let request = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    let metadata = house.ask(&request, 12);
    let topic = metadata
        .topics
        .iter()
        .find(|topic| topic.name.as_deref() == Some("a"));
    let partitions = topic.expect("it is there").partitions.iter();
    let told: Vec<_> = partitions
        .map(|one| (one.error_code, one.leader_id, one.offline_replicas.clone()))
        .collect();
    assert_eq!(told, wanted(NO_LEADER));
    let request = DescribeTopicPartitionsRequest {
        topics: vec![describe_topic_partitions_request::TopicRequest {
            name: "a".to_owned(),
        }],
        response_partition_limit: 2000,
        cursor: None,
    };
    let pages = house.ask(&request, 0);
    let partitions = pages.topics[0].partitions.iter();
    let told: Vec<_> = partitions
        .map(|one| (one.error_code, one.leader_id, one.offline_replicas.clone()))
        .collect();
    assert_eq!(told, wanted(NONE));
}

#[test]
fn with_a_directory_offline_no_move_begins() {
    let (house, victim) = house_with_a_failed_directory();
    assert_eq!(house.alter("b", 0, DIRS[2]), STORAGE);
    assert_eq!(house.alter("a", victim, DIRS[0]), STORAGE);
    let home = house.place("b", 0);
    let other = [DIRS[0], DIRS[1]].into_iter().find(|dir| *dir != home);
    assert_eq!(house.alter("b", 0, other.unwrap_or(DIRS[1])), STORAGE);
    assert_eq!(house.alter("b", 0, &home), NONE);
}

/// One partition of 600 KB, and moves that may copy 100 KB a second.
fn throttled_house() -> House {
    let house = house();
    house.create("t", 1);
    for _ in 0..300 {
        house.produce("t", &[7; 2000]);
    }
    house.throttle(100_000);
    house
}

#[test]
fn a_move_keeps_to_its_quota_which_may_change_meanwhile() {
    let house = throttled_house();
    let (from, to) = (house.place("t", 0), house.other("t"));
    assert_eq!(house.alter("t", 0, to), NONE);
    house.run(Duration::from_millis(4_500));
    let (here, coming) = house.places("t", 0);
    assert_eq!(
        (here, coming.len()),
        (vec![from.clone()], 1),
        "600 KB take 6 s"
    );
    house.run(Duration::from_secs(3));
    assert_eq!(house.place("t", 0), to);
    house.throttle(1_000);
    assert_eq!(house.alter("t", 0, &from), NONE);
    house.run(Duration::from_secs(60));
    assert_eq!(house.places("t", 0).0, [to], "600 KB take 10 minutes");
    house.throttle(u64::MAX / 2);
    house.run(Duration::from_secs(3));
    assert_eq!(house.place("t", 0), from);
}

#[test]
fn a_move_goes_on_after_a_restart() {
    for ending in 0..3 {
        let house = throttled_house();
        let (from, to) = (house.place("t", 0), house.other("t"));
        assert_eq!(house.alter("t", 0, to), NONE);
        house.run(Duration::from_secs(2));
        let restart = |house: House| {
            let House { client, broker } = house;
            let machine = client.machine;
            match ending {
                0 => drop(machine.power_cut()),
                1 => machine.kill(),
                _ => {
                    broker.stop();
                    let is_over = |machine: &Machine| machine.workers_count() == 0;
                    assert!(machine.run_until(Duration::from_secs(30), is_over));
                    machine.kill();
                }
            }
            drop(broker);
            House::open(machine)
        };
        let house = restart(house);
        let (here, coming) = house.places("t", 0);
        assert_eq!(here, [from], "ending {ending}");
        assert_eq!((coming.len(), &*coming[0].0), (1, to), "ending {ending}");
        assert_eq!(house.produce("t", b"meanwhile"), (NONE, 300));
        house.run(Duration::from_secs(10));
        assert_eq!(house.place("t", 0), to, "ending {ending}");
        let house = restart(house);
        assert_eq!(house.place("t", 0), to, "once and for all");
        for offset in [0, 150, 300] {
            let (code, high_watermark, bytes) = house.fetch("t", offset);
            assert_eq!((code, high_watermark), (NONE, 301));
            assert!(bytes > 0);
        }
        let moves = std::path::Path::new(to).join("esker.moves");
        assert!(!house.machine.env().disk.exists(&moves).unwrap());
    }
}

#[test]
fn a_power_cut_at_any_moment_of_a_move_leaves_one_place_and_an_end() {
    let mut ends = [0; 2];
    for millis in 0..60 {
        let house = house();
        house.create("t", 1);
        for _ in 0..20 {
            house.produce("t", &[7; 2000]);
        }
        let (from, to) = (house.place("t", 0), house.other("t"));
        assert_eq!(house.alter("t", 0, to), NONE);
        house.run(Duration::from_micros(200) * millis);
        let House { client, broker } = house;
        let machine = client.machine;
        machine.power_cut();
        drop(broker);
        let house = House::open(machine);
        house.run(Duration::from_secs(5));
        let place = house.place("t", 0);
        assert!(place == from || place == to, "{place}");
        ends[usize::from(place == to)] += 1;
        assert_eq!(house.fetch("t", 19).1, 20, "after {millis}");
        assert_eq!(house.produce("t", b"more"), (NONE, 20));
    }
    assert!(ends[1] > 30, "{ends:?}");
}

/// The content of a log directory, to be put back later.
struct Copy {
    dirs: Vec<PathBuf>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Copy {
    fn of(machine: &Machine, dir: &str) -> Copy {
        let disk = machine.env().disk;
        let mut copy = Copy {
            dirs: vec![PathBuf::from(dir)],
            files: Vec::new(),
        };
        let mut at = 0;
        while let Some(dir) = copy.dirs.get(at).cloned() {
            for entry in disk.read_dir(&dir).unwrap() {
                let path = dir.join(&entry.name);
                if entry.is_dir {
                    copy.dirs.push(path);
                    continue;
                }
                let file = disk.open(&path, Open::Read).unwrap();
                let mut bytes = vec![0; file.len().unwrap() as usize];
                file.read_exact_at(&mut bytes, 0).unwrap();
                copy.files.push((path, bytes));
            }
            at += 1;
        }
        copy
    }

    fn put_back(&self, machine: &Machine) {
        let disk = machine.env().disk;
        disk.remove_dir_all(&self.dirs[0]).unwrap();
        for dir in &self.dirs {
            disk.create_dir_all(dir).unwrap();
        }
        for (path, bytes) in &self.files {
            let file = disk.open(path, Open::Truncate).unwrap();
            file.write_at(&[IoSlice::new(bytes)], 0).unwrap();
            file.sync_data().unwrap();
        }
        self.dirs.iter().for_each(|dir| disk.sync_dir(dir).unwrap());
    }
}

/// Ends the broker in an orderly way; its disk stays.
fn stop(house: House) -> Machine {
    let House { client, broker } = house;
    let machine = client.machine;
    broker.stop();
    let is_over = |machine: &Machine| machine.workers_count() == 0;
    assert!(machine.run_until(Duration::from_secs(30), is_over));
    machine.kill();
    machine
}

fn names(machine: &Machine, dir: &str) -> Vec<String> {
    let entries = machine.env().disk.read_dir(dir.as_ref()).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

/// A partition of 30 records moves from `from` to `to` and gets 10 more, if `goes_on`, and then the directory of the metadata log is
/// put back as it was before.
fn house_with_older_metadata(from: &str, to: &str, goes_on: bool) -> House {
    let metadata = DIRS[0];
    let house = house();
    assert_eq!(house.alter("t", 0, from), UNKNOWN_TOPIC);
    house.create("t", 1);
    assert_eq!(house.place("t", 0), from);
    for number in 0..30 {
        assert_eq!(house.produce("t", &[7; 2000]), (NONE, number));
    }
    let machine = stop(house);
    let copy = Copy::of(&machine, metadata);
    let house = House::open(machine);
    assert_eq!(house.alter("t", 0, to), NONE);
    house.run(Duration::from_secs(3));
    assert_eq!(house.place("t", 0), to);
    if goes_on {
        for number in 30..40 {
            assert_eq!(house.produce("t", &[7; 2000]), (NONE, number));
        }
    }
    let House { client, broker } = house;
    let machine = client.machine;
    machine.power_cut();
    drop(broker);
    copy.put_back(&machine);
    House::open(machine)
}

#[test]
fn older_metadata_follow_a_partition_to_where_it_has_moved_since() {
    // Between two other directories, away from that of the metadata log, whose copy has the first records, and with nothing since.
    for (from, to, goes_on) in [(1, 2, true), (1, 2, false), (0, 2, true)] {
        let (from, to) = (DIRS[from], DIRS[to]);
        let end = if goes_on { 40 } else { 30 };
        let house = house_with_older_metadata(from, to, goes_on);
        let case = format!("{from} to {to}, then {end}");
        assert_eq!(house.place("t", 0), to, "{case}");
        for offset in [0, 15, end - 1] {
            let (code, high_watermark, bytes) = house.fetch("t", offset);
            assert_eq!((code, high_watermark), (NONE, end), "{case}");
            assert!(bytes > 2000, "{case}");
        }
        assert_eq!(house.produce("t", b"more"), (NONE, end), "{case}");
        let strays = |house: &House| {
            let mut names = names(&house.machine, from);
            names.retain(|name| name.starts_with("t-0"));
            names
        };
        let aside = strays(&house);
        assert_eq!(aside.len(), usize::from(from == DIRS[0]), "{aside:?}");
        assert!(
            aside.iter().all(|name| name.ends_with("-stray")),
            "{aside:?}"
        );

        // The metadata say so now: without that directory it is nowhere, not empty where it was.
        let machine = stop(house);
        let house = House::open(machine);
        assert_eq!(house.place("t", 0), to, "{case}");
        assert_eq!(house.fetch("t", end).1, end + 1, "{case}");
        assert_eq!(strays(&house), aside, "{case}");
    }
}
