//! Data and metadata beyond the single topic: sessions, parked fetches, creation by the way, what is shown of the cluster.

use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::*;
use wire::{ErrorCode, Uuid};

use super::topics::{fetch_of, metadata_of, produce_to};
use super::*;
use crate::event_loop::bench::encoded;

const FETCH: i16 = 11;

fn code_of(told: &FetchResponse) -> i16 {
    told.responses[0].partitions[0].error_code
}

/// A fetch that waits for records longer than any test.
fn waiting() -> FetchRequest {
    FetchRequest {
        max_wait_ms: i32::MAX,
        min_bytes: 1,
        ..fetch_of(&[TOPIC])
    }
}

#[test]
fn a_parked_fetch_brings_nothing_once_its_reader_has_lost_the_right() {
    for is_removed in [true, false] {
        let mut bench = bench(&[]);
        let rule = bench.add_rule("alice allow Read Topic t");
        bench.become_user("alice");
        bench.put(&encoded(&waiting(), FETCH));
        assert_eq!(bench.waiting_count(), 1);
        if is_removed {
            bench.remove_rule(rule);
        }
        bench.append(TOPIC, b"for readers");
        let told = bench.answer::<FetchRequest>(FETCH).expect("it goes on");
        let records = told.responses[0].partitions[0].records.as_ref();
        let has_records = matches!(records, Some(wire::Records::Bytes(bytes)) if !bytes.is_empty());
        let want = if is_removed { TOPIC_DENIED } else { 0 };
        assert_eq!((code_of(&told), has_records), (want, !is_removed));
        assert_eq!(bench.waiting_count(), 0);
    }
}

#[test]
fn a_partition_that_a_session_remembers_is_asked_about_each_time() {
    let mut bench = bench(&[]);
    let rule = bench.add_rule("alice allow Read Topic t");
    let first = FetchRequest {
        session_epoch: 0,
        ..fetch_of(&[TOPIC])
    };
    let told = bench.ask_as("alice", &first, FETCH);
    assert_eq!(code_of(&told), 0);
    assert_ne!(told.session_id, 0);
    let next = |session_epoch| FetchRequest {
        session_id: told.session_id,
        session_epoch,
        topics: Vec::new(),
        ..fetch_of(&[])
    };
    let unchanged = bench.ask_as("alice", &next(1), FETCH);
    assert!(unchanged.responses.is_empty(), "nothing is new");
    bench.remove_rule(rule);
    assert_eq!(
        code_of(&bench.ask_as("alice", &next(2), FETCH)),
        TOPIC_DENIED
    );
    bench.add_rule("alice allow Read Topic t");
    assert_eq!(code_of(&bench.ask_as("alice", &next(3), FETCH)), 0);
}

#[test]
fn a_follower_that_may_not_act_for_the_cluster_is_refused_partition_by_partition() {
    let follower = FetchRequest {
        replica_id: 2,
        ..fetch_of(&[TOPIC, MISSING])
    };
    let codes = |rules: &[&str]| {
        let told = bench(rules).ask_as("alice", &follower, FETCH).responses;
        let codes = told.iter().map(|of| of.partitions[0].error_code);
        codes.collect::<Vec<i16>>()
    };
    assert_eq!(codes(&["alice allow Read Topic t"]), [TOPIC_DENIED; 2]);
    let not_here = ErrorCode::NotLeaderOrFollower.code();
    let acts = ["alice allow ClusterAction Cluster kafka-cluster"];
    assert_eq!(codes(&acts), [not_here, UNKNOWN_TOPIC]);
}

fn told(topics: &[metadata_response::MetadataResponseTopic]) -> Vec<(Option<&str>, i16, bool)> {
    let told = topics.iter();
    told.map(|of| (of.name.as_deref(), of.error_code, of.topic_id.is_zero()))
        .collect()
}

#[test]
fn metadata_say_nothing_of_hidden_topics_but_what_was_asked() {
    let mut bench = bench(&["alice allow Describe Topic other"]);
    let asked = metadata_of(&["__consumer_offsets", TOPIC, MISSING, OTHER]);
    let shown = bench.ask_as("alice", &asked, 12);
    let want = [
        (Some(OTHER), 0, false),
        (Some("__consumer_offsets"), TOPIC_DENIED, true),
        (Some(TOPIC), TOPIC_DENIED, true),
        (Some(MISSING), TOPIC_DENIED, true),
    ];
    assert_eq!(told(&shown.topics), want);
    assert!(shown.topics.iter().all(|of| !of.is_internal));
    let all = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    let shown = bench.ask_as("alice", &all, 12);
    assert_eq!(told(&shown.topics), [(Some(OTHER), 0, false)]);

    let image = bench.shard.desk.shared.catalog.image();
    let id = |name| image.topic(name).expect("there").id;
    let unknown = Uuid([7; 16]);
    let by_id = [id(TOPIC), id(OTHER), unknown].map(|topic_id| MetadataRequestTopic {
        topic_id,
        name: None,
    });
    let by_id = MetadataRequest {
        topics: Some(by_id.to_vec()),
        ..Default::default()
    };
    let shown = bench.ask_as("alice", &by_id, 12);
    let ids: Vec<_> = shown.topics.iter().map(|of| of.topic_id).collect();
    assert_eq!(ids, [unknown, id(OTHER), id(TOPIC)]);
    let want = [
        (None, ErrorCode::UnknownTopicId.code(), false),
        (Some(OTHER), 0, false),
        (None, TOPIC_DENIED, false),
    ];
    assert_eq!(told(&shown.topics), want);
}

#[test]
fn operations_are_those_of_the_asker_and_of_the_cluster_none_without_describe() {
    let request = MetadataRequest {
        include_cluster_authorized_operations: true,
        include_topic_authorized_operations: true,
        ..metadata_of(&[TOPIC])
    };
    let operations = |rules: &[&str]| {
        let told = bench(rules).ask_as("alice", &request, 9);
        let of_topic = told.topics[0].topic_authorized_operations;
        (of_topic, told.cluster_authorized_operations)
    };
    let read_and_describe = 1 << 3 | 1 << 8;
    assert_eq!(
        operations(&["alice allow Read Topic t"]),
        (read_and_describe, 0)
    );
    let sees = [
        "alice allow Describe Topic t",
        "alice allow Describe Cluster kafka-cluster",
    ];
    assert_eq!(operations(&sees), (1 << 8, 1 << 8));
    let only_creates = ["alice allow Create Cluster kafka-cluster"];
    assert_eq!(operations(&only_creates), (i32::MIN, 0));
    let cluster = DescribeClusterRequest {
        include_cluster_authorized_operations: true,
        ..Default::default()
    };
    let of_cluster = |rules: &[&str]| {
        let told = bench(rules).ask_as("alice", &cluster, 0);
        (told.error_code, told.cluster_authorized_operations)
    };
    assert_eq!(of_cluster(&only_creates), (0, 0));
    assert_eq!(of_cluster(&sees), (0, 1 << 8));
}

#[test]
fn a_topic_comes_to_be_by_the_way_for_those_alone_who_may_see_and_create_it() {
    let asks = |rules: &[&str]| {
        let settings = [("auto.create.topics.enable", "true")];
        let mut bench = with(&settings, rules);
        let request = MetadataRequest {
            allow_auto_topic_creation: true,
            ..metadata_of(&[MISSING])
        };
        let told = bench.ask_as("alice", &request, 9);
        let image = bench.shard.desk.shared.catalog.image();
        (told.topics[0].error_code, image.topic(MISSING).is_some())
    };
    let sees = "alice allow Describe Topic missing";
    assert_eq!(asks(&[]), (TOPIC_DENIED, false));
    assert_eq!(asks(&[sees]), (TOPIC_DENIED, false));
    assert_eq!(
        asks(&["alice allow Create Topic missing"]),
        (TOPIC_DENIED, false)
    );
    assert_eq!(asks(&[sees, "alice allow Create Topic miss*"]), (0, true));
    assert_eq!(
        asks(&[sees, "alice allow Create Cluster kafka-cluster"]),
        (0, true)
    );
}

/// The request waits for the topic that it creates, and is then handled a second time.
#[test]
fn a_second_attempt_is_that_of_its_asker_whoever_the_connection_belongs_to_by_then() {
    let settings = [("auto.create.topics.enable", "true")];
    let rules = [
        "alice allow Create Topic missing",
        "alice allow Describe Topic missing",
    ];
    let mut bench = with(&settings, &rules);
    bench.become_user("alice");
    let request = MetadataRequest {
        allow_auto_topic_creation: true,
        ..metadata_of(&[MISSING, TOPIC])
    };
    bench.put(&encoded(&request, 9));
    bench.become_user("boss");
    bench.commit();
    let answer = bench.answer::<MetadataRequest>(9).expect("it is durable");
    let want = [(Some(MISSING), 0, true), (Some(TOPIC), TOPIC_DENIED, true)];
    assert_eq!(told(&answer.topics), want);
}

#[test]
fn a_new_topic_is_for_its_creators_and_its_settings_for_those_who_may_see_them() {
    let request = |names: &[&str]| CreateTopicsRequest {
        topics: (names.iter())
            .map(|name| CreatableTopic {
                name: (*name).to_owned(),
                num_partitions: 1,
                replication_factor: 1,
                ..Default::default()
            })
            .collect(),
        timeout_ms: 1_000,
        ..Default::default()
    };
    let codes = |rules: &[&str], names: &[&str]| {
        let told = bench(rules).ask_as("alice", &request(names), 7).topics;
        let code =
            |of: &create_topics_response::CreatableTopicResult| (of.name.clone(), of.error_code);
        told.iter().map(code).collect::<Vec<_>>()
    };
    let named = |name: &str, code| (name.to_owned(), code);
    // There or not, hidden alike; what stands twice is refused whoever asks.
    assert_eq!(codes(&[], &[TOPIC]), [named(TOPIC, TOPIC_DENIED)]);
    assert_eq!(codes(&[], &[MISSING]), [named(MISSING, TOPIC_DENIED)]);
    assert_eq!(codes(&[], &[MISSING, MISSING]), [named(MISSING, 42)]);
    let prefix = ["alice allow Create Topic miss*"];
    assert_eq!(
        codes(&prefix, &[OTHER, MISSING]),
        [named(MISSING, 0), named(OTHER, TOPIC_DENIED)]
    );
    let mut bench = bench(&["alice allow Create Cluster kafka-cluster"]);
    let blind = bench.ask_as("alice", &request(&["a"]), 7).topics.remove(0);
    assert_eq!(
        (blind.error_code, blind.topic_config_error_code),
        (0, TOPIC_DENIED)
    );
    assert_eq!((blind.num_partitions, blind.replication_factor), (-1, -1));
    assert!(!blind.topic_id.is_zero() && blind.configs.is_some_and(|all| all.is_empty()));
    bench.add_rule("alice allow DescribeConfigs Topic b");
    let seen = bench.ask_as("alice", &request(&["b"]), 7).topics.remove(0);
    assert_eq!((seen.topic_config_error_code, seen.num_partitions), (0, 1));
    assert!(seen.configs.is_some_and(|all| !all.is_empty()));
}

#[test]
fn a_produce_is_refused_topic_by_topic() {
    let mut bench = bench(&["alice allow Write Topic t"]);
    let told = bench.ask_as("alice", &produce_to(&[OTHER, TOPIC, MISSING]), 9);
    let codes = told.responses.iter();
    let codes: Vec<_> = codes
        .map(|of| (of.name.as_str(), of.partition_responses[0].error_code))
        .collect();
    assert_eq!(
        codes,
        [(OTHER, TOPIC_DENIED), (TOPIC, 0), (MISSING, TOPIC_DENIED)]
    );
}
