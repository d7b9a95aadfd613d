//! A driver whose log refuses: its answers, its writes and what it forgets; and how a turn becomes one batch.

use std::time::Duration;

use partition::{Isolation, ReadRequest, Records, Scope};
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, DeleteTopicsRequest, FindCoordinatorRequest, JoinGroupRequest,
    OffsetCommitRequest, OffsetFetchRequest,
};

use super::*;
use crate::event_loop::bench::{Bench, encoded};

const TOPIC: &str = "t";
const COMMIT: i16 = 8;
const FETCH: i16 = 5;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.create(TOPIC, 1);
    bench.answer::<wire::messages::CreateTopicsRequest>(4);
    let find = FindCoordinatorRequest {
        key: "g".to_owned(),
        ..Default::default()
    };
    bench.put(&encoded(&find, 3));
    bench.commit();
    assert!(bench.answer::<FindCoordinatorRequest>(3).is_some());
    bench
}

fn commit(offset: i64, metadata: &str) -> Vec<u8> {
    let partition = OffsetCommitRequestPartition {
        committed_offset: offset,
        committed_metadata: Some(metadata.to_owned()),
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: "g".to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: TOPIC.to_owned(),
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    };
    encoded(&request, COMMIT)
}

fn told(bench: &mut Bench) -> Option<ErrorCode> {
    let response = bench.answer::<OffsetCommitRequest>(COMMIT)?;
    let code = response.topics[0].partitions[0].error_code;
    Some(ErrorCode::try_from(code).expect("a known code"))
}

fn committed(bench: &mut Bench) -> i64 {
    let topic = OffsetFetchRequestTopic {
        name: TOPIC.to_owned(),
        partition_indexes: vec![0],
    };
    let request = OffsetFetchRequest {
        group_id: "g".to_owned(),
        topics: Some(vec![topic]),
        ..Default::default()
    };
    bench.put(&encoded(&request, FETCH));
    bench.commit();
    let response = bench.answer::<OffsetFetchRequest>(FETCH);
    let topics = response.expect("an answer").topics;
    topics[0].partitions[0].committed_offset
}

fn log(bench: &mut Bench) -> Arc<Partition> {
    let index = bench.shard.desk.group_partition("g");
    bench.partition(meta::name::OFFSETS, index)
}

fn batches(log: &Partition) -> Vec<i32> {
    let request = ReadRequest {
        from: Offset::ZERO,
        bytes_max: 1 << 20,
        memory_bytes_max: usize::MAX,
        at_least_one: true,
        current_epoch: LeaderEpoch::NONE,
        scope: Scope::of_leader(Isolation::Uncommitted),
    };
    match log.read(request).map(|read| read.records) {
        Ok(Records::Memory(batches)) => batches.iter().map(|batch| batch.record_count()).collect(),
        _ => panic!("what was just written is in memory"),
    }
}

fn set_max_message_bytes(log: &Partition, bytes: u64) {
    let mut config = (*log.config()).clone();
    config.max_message_bytes = bytes;
    log.set_config(Arc::new(config), &mut Vec::new());
}

/// Refuses what was decided and is not written yet.
fn refuse(bench: &mut Bench) {
    let log = log(bench);
    let config = log.config();
    set_max_message_bytes(&log, 50);
    bench.write_decisions();
    log.set_config(config, &mut Vec::new());
}

#[test]
fn who_waits_in_a_classic_group_is_sent_back_though_its_upgrade_is_refused() {
    let mut bench = bench();
    let join = JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 10_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".to_owned(),
            metadata: Bytes::from_static(&[0; 10]),
        }],
        ..Default::default()
    };
    bench.put(&encoded(&join, 3));
    let log = log(&mut bench);
    set_max_message_bytes(&log, 50);
    let beat = ConsumerGroupHeartbeatRequest {
        group_id: "g".to_owned(),
        member_id: "m".to_owned(),
        rebalance_timeout_ms: 1_000,
        subscribed_topic_names: Some(vec![TOPIC.to_owned()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    bench.put(&encoded(&beat, 1));
    bench.commit();
    let joined = bench.answer::<JoinGroupRequest>(3).expect("an answer");
    let code = ErrorCode::RebalanceInProgress.code();
    assert_eq!(joined.error_code, code);
    let beaten = bench.answer::<ConsumerGroupHeartbeatRequest>(1);
    assert_ne!(beaten.expect("an answer").error_code, 0);
}

#[test]
fn commits_that_come_together_are_one_batch() {
    let mut bench = bench();
    bench.put(&[commit(1, ""), commit(2, ""), commit(3, "")].concat());
    assert_eq!(told(&mut bench), None, "nothing is durable");
    bench.commit();
    for _ in 0..3 {
        assert_eq!(told(&mut bench), Some(ErrorCode::None));
    }
    bench.put(&commit(4, ""));
    bench.commit();
    assert_eq!(told(&mut bench), Some(ErrorCode::None));
    let log = log(&mut bench);
    assert_eq!(batches(&log), [3, 1]);
    assert_eq!(committed(&mut bench), 4);
}

#[test]
fn a_batch_holds_no_more_than_it_may() {
    let mut bench = bench();
    let many: Vec<u8> = (1..=6)
        .flat_map(|at| commit(at, &"x".repeat(4000)))
        .collect();
    bench.put(&many);
    bench.commit();
    for _ in 1..=6 {
        assert_eq!(told(&mut bench), Some(ErrorCode::None));
    }
    let log = log(&mut bench);
    assert_eq!(batches(&log), [4, 2]);
    assert_eq!(committed(&mut bench), 6);
}

#[test]
fn a_batch_holds_no_more_than_its_topic_allows() {
    let mut bench = bench();
    let log = log(&mut bench);
    set_max_message_bytes(&log, 900);
    let many: Vec<u8> = (1..=6)
        .flat_map(|at| commit(at, &"x".repeat(100)))
        .collect();
    bench.put(&many);
    bench.commit();
    for _ in 1..=6 {
        assert_eq!(told(&mut bench), Some(ErrorCode::None));
    }
    assert_eq!(batches(&log), [2, 2, 2]);
    assert_eq!(committed(&mut bench), 6);
}

#[test]
fn what_the_log_does_not_take_is_forgotten() {
    let mut bench = bench();
    bench.put(&commit(1, ""));
    bench.commit();
    assert_eq!(told(&mut bench), Some(ErrorCode::None));
    bench.receive(&[commit(2, ""), commit(3, "")].concat());
    refuse(&mut bench);
    for _ in 0..2 {
        let code = told(&mut bench);
        assert_eq!(code, Some(ErrorCode::CoordinatorNotAvailable));
    }
    assert_eq!(committed(&mut bench), 1);
    let log = log(&mut bench);
    assert_eq!(batches(&log), [1]);
}

#[test]
fn what_was_appended_before_a_refused_batch_is_not_forgotten_with_it() {
    let mut bench = bench();
    bench.put(&commit(1, ""));
    bench.receive(&[commit(2, ""), commit(3, "")].concat());
    refuse(&mut bench);
    // They are told behind the first, which is not durable yet.
    bench.put(&commit(4, ""));
    assert_eq!(told(&mut bench), None);
    bench.turn_coordinators();
    assert!(!bench.shard.coordinators.is_loading(), "it does not spin");
    let due = bench.shard.coordinators.next_deadline();
    assert_eq!(due, Some(bench.shard.desk.now.plus(load::PAUSE)));
    bench.commit();
    assert_eq!(told(&mut bench), Some(ErrorCode::None));
    for _ in 0..2 {
        let code = told(&mut bench);
        assert_eq!(code, Some(ErrorCode::CoordinatorNotAvailable));
    }
    let code = told(&mut bench);
    assert_eq!(code, Some(ErrorCode::CoordinatorLoadInProgress));
    assert_eq!(committed(&mut bench), 1);
    let log = log(&mut bench);
    assert_eq!(batches(&log), [1]);
}

#[test]
fn offsets_of_a_deleted_topic_go_though_that_was_refused_first() {
    let mut bench = bench();
    bench.put(&commit(1, ""));
    bench.commit();
    assert_eq!(told(&mut bench), Some(ErrorCode::None));
    let delete = DeleteTopicsRequest {
        topic_names: vec![TOPIC.to_owned()],
        timeout_ms: 1000,
        ..Default::default()
    };
    bench.put(&encoded(&delete, 4));
    bench.commit();
    bench.turn_coordinators();
    assert!(bench.shard.coordinators.has_unwritten(), "the removal");
    refuse(&mut bench);
    let log = log(&mut bench);
    assert_eq!(batches(&log), [1]);
    for _ in 0..2 {
        bench.turn_coordinators();
    }
    bench.write_decisions();
    bench.commit();
    assert_eq!(batches(&log), [1, 1]);
}

#[test]
fn a_load_that_waited_goes_on_though_nobody_asks() {
    let mut bench = bench();
    bench.put(&commit(1, ""));
    bench.receive(&commit(2, ""));
    refuse(&mut bench);
    bench.turn_coordinators();
    bench.turn_coordinators();
    bench.commit();
    bench.pass(load::PAUSE);
    bench.turn_coordinators();
    assert!(bench.shard.coordinators.is_loading());
    bench.turn_coordinators();
    assert!(!bench.shard.coordinators.is_loading());
    let due = bench.shard.coordinators.next_deadline();
    assert!(
        due > Some(bench.shard.desk.now.plus(load::PAUSE)),
        "{due:?}"
    );
}

/// As Kafka answers it: nothing was written, and another time there may be enough.
#[test]
fn a_log_with_too_few_replicas_in_sync_is_no_coordinator_for_now() {
    let mut bench = bench();
    let log = log(&mut bench);
    let mut config = (*log.config()).clone();
    config.in_sync_replicas_min = 2;
    log.set_config(Arc::new(config), &mut Vec::new());
    let lead = |in_sync: &[i32]| {
        let role = partition::Role::Leading(partition::Replicas {
            me: model::BrokerId(1),
            all: vec![model::BrokerId(1), model::BrokerId(2)],
            in_sync: in_sync.iter().copied().map(model::BrokerId).collect(),
            partition_epoch: 1,
        });
        log.set_role(log.bounds().epoch, role, &mut Vec::new());
    };
    lead(&[1]);
    bench.put(&commit(7, ""));
    assert_eq!(told(&mut bench), Some(ErrorCode::CoordinatorNotAvailable));
    lead(&[1, 2]);
    bench.put(&commit(7, ""));
    bench.commit();
    assert_eq!(told(&mut bench), None, "the follower does not have it");
    let end = log.bounds().log_end;
    let said = partition::FollowerAt {
        epoch: log.bounds().epoch,
        broker: model::BrokerId(2),
        broker_epoch: 1,
        log_start: Offset::ZERO,
        synced: end,
    };
    log.on_follower_at(said, &mut bench.shard.desk.news);
    bench.tell();
    assert_eq!(told(&mut bench), Some(ErrorCode::None));
    assert_eq!(committed(&mut bench), 7);
}

/// A turn waited for a disk, and the heartbeat of a member came meanwhile.
#[test]
fn a_session_counts_from_no_earlier_time_than_its_heartbeat() {
    const SESSION: Duration = Duration::from_secs(45);
    const TURN: Duration = Duration::from_secs(2);
    let mut bench = bench();
    let beat = |bench: &mut Bench, member_epoch| {
        let beat = ConsumerGroupHeartbeatRequest {
            group_id: "g".to_owned(),
            member_id: "m".to_owned(),
            member_epoch,
            rebalance_timeout_ms: 1_000,
            subscribed_topic_names: Some(vec![TOPIC.to_owned()]),
            topic_partitions: Some(Vec::new()),
            ..Default::default()
        };
        bench.put(&encoded(&beat, 1));
        bench.commit();
        let told = bench.answer::<ConsumerGroupHeartbeatRequest>(1);
        told.expect("an answer")
    };
    let epoch = beat(&mut bench, 0).member_epoch;
    bench.wait_in_turn(TURN);
    assert_eq!(beat(&mut bench, epoch).error_code, 0);
    // To the turn it is as if it had come when the turn began.
    bench.pass(SESSION + TURN / 2);
    bench.turn_coordinators();
    bench.write_decisions();
    assert_eq!(beat(&mut bench, epoch).error_code, 0);
}
