//! Fetches of clients: what they leave behind when they are parked, and what they must not miss.

use partition::{Bounds, ReadError};
use wire::messages::CreateTopicsRequest;
use wire::messages::fetch_request::FetchTopic;

use super::*;
use crate::event_loop::bench::{Bench, encoded};

const TOPIC: &str = "t";

/// A fetch of all that is new, which waits for so many bytes and as long as a client may ask for.
fn request(min_bytes: i32) -> FetchRequest {
    FetchRequest {
        max_wait_ms: i32::MAX,
        min_bytes,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: TOPIC.to_owned(),
            partitions: vec![FetchPartition {
                partition_max_bytes: 1 << 20,
                current_leader_epoch: -1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn a_follower_that_has_not_proved_to_be_one_is_answered_as_kafka_does() {
    let mut asked = request(1);
    asked.replica_id = 2;
    for (is_node, code) in [
        (false, ErrorCode::TopicAuthorizationFailed),
        (true, ErrorCode::NotLeaderOrFollower),
    ] {
        let mut bench = Bench::new();
        bench.create(TOPIC, 1);
        bench.answer::<CreateTopicsRequest>(4);
        bench.append(TOPIC, b"not for everybody");
        if is_node {
            bench.become_node(2);
        }
        bench.put(&encoded(&asked, 11));
        let told = bench.answer::<FetchRequest>(11).expect("an answer at once");
        let partition = &told.responses[0].partitions[0];
        let told = (partition.error_code, partition.high_watermark);
        assert_eq!(told, (code.code(), -1));
    }
}

#[test]
fn a_fetch_that_was_answered_leaves_no_timer_behind() {
    let mut bench = Bench::new();
    bench.create(TOPIC, 1);
    bench.put(&encoded(&request(1), 11));
    assert_eq!((bench.waiting_count(), bench.timers_count()), (1, 1));
    bench.append(TOPIC, b"here it is");
    assert_eq!((bench.waiting_count(), bench.timers_count()), (0, 0));
}

#[test]
fn a_fetch_of_a_client_that_has_gone_waits_no_more() {
    let mut bench = Bench::new();
    bench.create(TOPIC, 1);
    bench.put(&encoded(&request(1), 11));
    assert_eq!((bench.waiting_count(), bench.timers_count()), (1, 1));
    bench.hang_up();
    assert_eq!((bench.waiting_count(), bench.timers_count()), (0, 0));
}

#[test]
fn a_fetch_that_would_wait_does_not_keep_a_stopping_broker() {
    let mut bench = Bench::new();
    bench.create(TOPIC, 1);
    bench.begin_stop();
    bench.put(&encoded(&request(1), 11));
    assert_eq!((bench.waiting_count(), bench.timers_count()), (0, 0));
    assert!(bench.is_cut_off());
}

#[test]
fn a_fetch_that_heard_of_too_little_in_several_partitions_hears_of_more_in_each() {
    for last in [TOPIC, "other"] {
        let mut bench = Bench::new();
        for name in [TOPIC, "other"] {
            bench.create(name, 1);
        }
        let mut asked = request(1000);
        let other = FetchTopic {
            topic: "other".to_owned(),
            ..asked.topics[0].clone()
        };
        asked.topics.push(other);
        bench.put(&encoded(&asked, 11));
        for name in [TOPIC, "other"] {
            bench.append_undurably(name, b"too little");
        }
        bench.commit();
        assert_eq!(bench.waiting_count(), 1);
        bench.append(last, &[7; 1000]);
        assert_eq!(bench.waiting_count(), 0, "it is answered");
    }
}

/// Clients may set `fetch.max.bytes=0`: no limit keeps them from the next batch (KIP-74).
#[test]
fn a_fetch_of_no_bytes_gets_its_first_batch_and_no_other() {
    const OTHER: &str = "other";
    let mut bench = Bench::new();
    for name in [TOPIC, OTHER] {
        bench.create(name, 1);
        bench.answer::<CreateTopicsRequest>(4);
    }
    let size = crate::event_loop::bench::batch(b"first").len();
    let fetch = |bench: &mut Bench, names: [&str; 2]| {
        let mut asked = request(1);
        asked.max_bytes = 0;
        let topic = asked.topics.remove(0);
        asked.topics = Vec::from(names.map(|name| FetchTopic {
            topic: name.to_owned(),
            ..topic.clone()
        }));
        bench.put(&encoded(&asked, 11));
        let answer = bench.answer::<FetchRequest>(11).expect("at once");
        let sizes = answer.responses.iter().map(|topic| {
            let records = &topic.partitions[0].records;
            records.as_ref().map_or(0, wire::Records::len)
        });
        sizes.collect::<Vec<_>>()
    };
    bench.append(TOPIC, b"first");
    bench.append(TOPIC, b"second");
    assert_eq!(fetch(&mut bench, [TOPIC, OTHER]), [size, 0]);
    assert_eq!(fetch(&mut bench, [OTHER, TOPIC]), [0, size]);
    bench.append(OTHER, b"first");
    assert_eq!(fetch(&mut bench, [OTHER, TOPIC]), [size, 0]);
}

/// A broker whose topic is in files that nobody has looked at since its start.
fn cold() -> Bench {
    let mut bench = Bench::new();
    bench.create(TOPIC, 1);
    bench.append(TOPIC, &[7; 1000]);
    bench.restart().restart()
}

#[test]
fn a_cold_fetch_is_answered_with_what_the_reader_pool_gives() {
    let mut bench = cold();
    bench.put(&encoded(&request(1), 11));
    assert_eq!(bench.answer::<FetchRequest>(11), None);
    // The records that it waits for come: no time-out is needed.
    assert_eq!((bench.waiting_count(), bench.timers_count()), (1, 0));
    assert_eq!(bench.execute_needs(), 1);
    assert_eq!(bench.waiting_count(), 0);
    bench.put(&encoded(&request(1), 11));
    assert_eq!(bench.waiting_count(), 0, "it is verified now");
}

#[test]
fn a_piece_for_a_client_that_has_gone_is_dropped() {
    let mut bench = cold();
    bench.create("hot", 1);
    bench.append("hot", b"in memory");
    let mut asked = request(1);
    let hot = FetchTopic {
        topic: "hot".to_owned(),
        ..asked.topics[0].clone()
    };
    asked.topics.push(hot);
    let unsent = bench.unsent_memory();
    bench.put(&encoded(&asked, 11));
    let size = crate::event_loop::bench::batch(b"in memory").len();
    assert_eq!(
        bench.unsent_memory(),
        unsent + size,
        "it waits with the fetch"
    );
    bench.hang_up();
    assert_eq!((bench.waiting_count(), bench.unsent_memory()), (0, 0));
    assert_eq!(bench.execute_needs(), 1);
    assert_eq!(bench.waiting_count(), 0);
}

#[test]
fn a_fetch_whose_bytes_are_being_verified_does_not_keep_a_stopping_broker() {
    let mut bench = cold();
    bench.put(&encoded(&request(1), 11));
    assert_eq!(bench.waiting_count(), 1);
    bench.begin_stop();
    bench.shard.hall().drop_readers();
    assert_eq!(bench.waiting_count(), 0);
    assert!(bench.is_cut_off());
    assert_eq!(bench.execute_needs(), 1);
}

#[test]
fn an_offset_out_of_range_is_told_nothing_of_the_log() {
    let bounds = Bounds {
        log_start: Offset(1),
        local_start: Offset(1),
        restart_point: Offset(0),
        high_watermark: Offset(5),
        last_stable: Offset(5),
        durable: Offset(5),
        log_end: Offset(5),
        epoch: LeaderEpoch(0),
    };
    let why = Refused::Because(FetchRefusal::Read(ReadError::OutOfRange { bounds }));
    let data = refused(&FetchPartition::default(), &why, 18);
    assert_eq!(data.error_code, ErrorCode::OffsetOutOfRange.code());
    assert_eq!(
        [
            data.high_watermark,
            data.log_start_offset,
            data.last_stable_offset
        ],
        [-1; 3]
    );
    assert_eq!(data.aborted_transactions, None);
}

#[test]
fn whoever_may_not_read_is_told_of_no_aborted_transactions() {
    let data = refused(&FetchPartition::default(), &Refused::Unauthorised, 18);
    assert_eq!(data.aborted_transactions, Some(Vec::new()));
}
