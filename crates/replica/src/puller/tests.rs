//! A puller and a leader that answers by hand.

use wire::messages::fetch_response::{EpochEndOffset, FetchableTopicResponse};

use super::*;

const TOPIC: Uuid = Uuid([7; 16]);
const EPOCH: LeaderEpoch = LeaderEpoch(3);
const TERMS: Terms = Terms {
    wait_max: Duration::from_millis(500),
    bytes_max: 1 << 20,
    partition_bytes_max: 1 << 16,
    backoff: Duration::from_secs(1),
};

fn key(index: i32) -> Key {
    (TOPIC, PartitionIndex(index))
}

fn at(end: i64, synced: i64) -> Point {
    Point {
        end: Offset(end),
        last_epoch: EPOCH,
        log_start: Offset(0),
        synced: Offset(synced),
    }
}

fn seconds(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

fn ask(puller: &mut Puller) -> Option<FetchRequest> {
    puller.request(9, TERMS, seconds(0))
}

/// `partition: offset synced restart`, in the order of the request.
fn listed(request: &FetchRequest) -> Vec<String> {
    let parts = request.topics.iter().flat_map(|topic| &topic.partitions);
    let text = |part: &FetchPartition| {
        let restart = if part.is_restart { " restart" } else { "" };
        format!(
            "{}: {} {}{restart}",
            part.partition, part.fetch_offset, part.synced_offset
        )
    };
    parts.map(text).collect()
}

fn unlisted(request: &FetchRequest) -> Vec<i32> {
    let topics = request.forgotten_topics_data.iter();
    topics.flat_map(|topic| topic.partitions.clone()).collect()
}

fn answer(partitions: Vec<PartitionData>) -> FetchResponse {
    FetchResponse {
        session_id: 77,
        counts_synced: true,
        responses: vec![FetchableTopicResponse {
            topic_id: TOPIC,
            partitions,
            ..FetchableTopicResponse::default()
        }],
        ..FetchResponse::default()
    }
}

fn data(index: i32, bytes: &'static [u8]) -> PartitionData {
    PartitionData {
        partition_index: index,
        high_watermark: 4,
        log_start_offset: 1,
        records: Some(Records::Bytes(Bytes::from_static(bytes))),
        ..PartitionData::default()
    }
}

/// A replica that was removed and added again has less than the one before had.
#[test]
fn a_log_that_has_less_than_was_said_of_it_is_named_anew() {
    for less in [at(0, 0), at(6, 2)] {
        let mut puller = in_session();
        puller.on_moved(key(0), at(6, 6));
        ask(&mut puller).expect("news of a sync");
        puller.on_moved(key(0), less);
        puller.on_answer(answer(Vec::new()), TERMS, seconds(0));
        puller.on_answer(answer(Vec::new()), TERMS, seconds(0));
        let request = ask(&mut puller).expect("the log is another one");
        let expected = format!("0: {} {} restart", less.end, less.synced);
        assert_eq!(listed(&request), [expected]);
    }
}

/// A puller of two partitions whose session is made.
fn in_session() -> Puller {
    let mut puller = Puller::new(BrokerId(1), Way::Tail);
    puller.follow(key(0), EPOCH, at(5, 5));
    puller.follow(key(1), EPOCH, at(0, 0));
    let first = ask(&mut puller).expect("the first");
    assert_eq!((first.session_id, first.session_epoch), (0, 0));
    assert_eq!(
        (
            first.replica_state.replica_id,
            first.replica_state.replica_epoch
        ),
        (1, 9)
    );
    assert_eq!(listed(&first), ["0: 5 5 restart", "1: 0 0 restart"]);
    assert!(ask(&mut puller).is_none(), "there is no session yet");
    assert_eq!(puller.on_answer(answer(vec![]), TERMS, seconds(0)), []);
    puller
}

#[test]
fn a_request_names_what_changed_and_one_waits_beside_it() {
    let mut puller = in_session();
    let second = ask(&mut puller).expect("one always waits");
    assert_eq!((second.session_id, second.session_epoch), (77, 1));
    assert!(listed(&second).is_empty());
    assert!(ask(&mut puller).is_none(), "nothing is new");
    let steps = puller.on_answer(answer(vec![data(0, b"bytes")]), TERMS, seconds(0));
    let records = Some(Bytes::from_static(b"bytes"));
    let take = Step::Take {
        key: key(0),
        epoch: EPOCH,
        records,
        high_watermark: Offset(4),
        log_start: Offset(1),
    };
    assert_eq!(steps, [take]);
    puller.on_moved(key(0), at(8, 5));
    assert!(
        listed(&ask(&mut puller).expect("the next")).is_empty(),
        "the leader knows"
    );
    puller.on_moved(key(0), at(8, 8));
    let report = ask(&mut puller).expect("more is synced");
    assert_eq!(
        (report.session_epoch, listed(&report)),
        (3, vec!["0: 8 8".to_owned()])
    );
    puller.on_moved(key(0), at(9, 9));
    assert!(ask(&mut puller).is_none(), "two are under way");
    assert_eq!(puller.on_answer(answer(vec![]), TERMS, seconds(0)), []);
    assert_eq!(listed(&ask(&mut puller).expect("one is back")), ["0: 9 9"]);
}

#[test]
fn answers_to_what_was_before_a_cut_mean_nothing() {
    let mut puller = in_session();
    ask(&mut puller).expect("one waits");
    puller.on_moved(key(0), at(8, 8));
    ask(&mut puller).expect("two are under way");
    let mut parted = data(0, b"");
    parted.diverging_epoch = EpochEndOffset {
        epoch: 2,
        end_offset: 3,
    };
    let told = EpochEnd {
        epoch: LeaderEpoch(2),
        end: Offset(3),
    };
    let cut = Step::Cut {
        key: key(0),
        epoch: EPOCH,
        told,
    };
    assert_eq!(
        puller.on_answer(answer(vec![parted]), TERMS, seconds(0)),
        [cut]
    );
    puller.on_cut(key(0), at(3, 3));
    assert_eq!(
        listed(&ask(&mut puller).expect("it goes on")),
        ["0: 3 3 restart"]
    );
    let late = puller.on_answer(answer(vec![data(0, b"old")]), TERMS, seconds(0));
    assert_eq!(late, []);
    let steps = puller.on_answer(answer(vec![data(0, b"new")]), TERMS, seconds(0));
    assert!(matches!(
        &steps[..],
        [Step::Take {
            records: Some(_),
            ..
        }]
    ));
}

#[test]
fn a_refused_partition_rests_alone() {
    let mut puller = in_session();
    ask(&mut puller).expect("one waits");
    let mut refused = data(1, b"");
    refused.error_code = ErrorCode::KafkaStorageError.code();
    let steps = puller.on_answer(answer(vec![data(0, b"x"), refused]), TERMS, seconds(0));
    assert!(matches!(
        &steps[..],
        [Step::Take { .. }, Step::Refused { .. }]
    ));
    let next = ask(&mut puller).expect("the other goes on");
    assert_eq!((listed(&next), unlisted(&next)), (vec![], vec![1]));
    assert_eq!(puller.next_deadline(), Some(seconds(1)));
    let again = puller.request(9, TERMS, seconds(1)).expect("it has rested");
    assert_eq!(listed(&again), ["1: 0 0 restart"]);
}

#[test]
fn a_partition_with_another_leader_is_forgotten_and_a_new_epoch_begins_anew() {
    let mut puller = in_session();
    puller.unfollow(key(1));
    puller.follow(key(0), LeaderEpoch(4), at(8, 6));
    let request = ask(&mut puller).expect("both are news");
    assert_eq!(
        (listed(&request), unlisted(&request)),
        (vec!["0: 8 6 restart".to_owned()], vec![1])
    );
    puller.unfollow(key(0));
    assert!(puller.is_empty());
}

#[test]
fn after_a_lost_link_or_session_everything_is_asked_for_anew() {
    let mut puller = in_session();
    ask(&mut puller).expect("one waits");
    puller.on_lost(TERMS, seconds(0));
    assert!(ask(&mut puller).is_none(), "the link rests");
    let anew = puller
        .request(9, TERMS, seconds(1))
        .expect("it is tried again");
    assert_eq!((anew.session_id, anew.session_epoch), (0, 0));
    assert_eq!(listed(&anew), ["0: 5 5 restart", "1: 0 0 restart"]);
    puller.on_answer(answer(vec![]), TERMS, seconds(1));
    puller.request(9, TERMS, seconds(1)).expect("one waits");
    let lost = FetchResponse {
        error_code: ErrorCode::FetchSessionIdNotFound.code(),
        ..FetchResponse::default()
    };
    puller.on_answer(lost, TERMS, seconds(1));
    let anew = puller.request(9, TERMS, seconds(1)).expect("at once");
    assert_eq!((anew.session_id, listed(&anew).len()), (0, 2));
}

#[test]
fn partitions_rest_by_themselves_and_no_longer_than_they_are_followed() {
    let mut puller = in_session();
    ask(&mut puller).expect("one waits");
    puller.rest(key(0), Some(seconds(2)));
    puller.rest(key(1), Some(seconds(1)));
    assert_eq!(puller.next_deadline(), Some(seconds(1)));
    puller.rest(key(1), Some(seconds(3)));
    assert_eq!(
        puller.next_deadline(),
        Some(seconds(2)),
        "the last word counts"
    );
    puller.unfollow(key(0));
    assert_eq!(puller.next_deadline(), Some(seconds(3)));
    puller.follow(key(1), LeaderEpoch(4), at(0, 0));
    assert_eq!(
        puller.next_deadline(),
        None,
        "another leader is asked at once"
    );
    puller.rest(key(1), None);
    assert_eq!(puller.next_deadline(), None, "it waits for another leader");
}

#[test]
fn a_broker_that_registers_says_all_of_it_again() {
    let mut puller = Puller::new(BrokerId(1), Way::Tail);
    puller.follow(key(0), EPOCH, at(5, 5));
    let ask = |puller: &mut Puller, epoch| puller.request(epoch, TERMS, seconds(0));
    assert!(ask(&mut puller, -1).is_none(), "it has not registered");
    ask(&mut puller, 9).expect("the first");
    puller.on_answer(answer(vec![]), TERMS, seconds(0));
    ask(&mut puller, 9).expect("one waits");
    let anew = ask(&mut puller, 12).expect("another registration");
    assert_eq!((anew.session_id, anew.replica_state.replica_epoch), (0, 12));
    assert_eq!(listed(&anew), ["0: 5 5 restart"]);
    // The answer to the request before makes no session, and means nothing.
    let late = puller.on_answer(answer(vec![data(0, b"old")]), TERMS, seconds(0));
    assert_eq!(late, []);
    assert!(ask(&mut puller, 12).is_none());
    puller.on_answer(answer(vec![]), TERMS, seconds(0));
    assert_eq!(ask(&mut puller, 12).expect("one waits").session_id, 77);
}

#[test]
fn the_end_of_a_former_session_leaves_the_next_one_as_it_is() {
    let mut puller = Puller::new(BrokerId(1), Way::Tail);
    puller.follow(key(0), EPOCH, at(5, 5));
    let ask = |puller: &mut Puller, epoch| puller.request(epoch, TERMS, seconds(0));
    ask(&mut puller, 9).expect("the first");
    puller.on_answer(answer(vec![]), TERMS, seconds(0));
    ask(&mut puller, 9).expect("one waits");
    ask(&mut puller, 12).expect("another registration");
    let refused = FetchResponse {
        error_code: ErrorCode::FetchSessionIdNotFound.code(),
        counts_synced: true,
        ..FetchResponse::default()
    };
    assert_eq!(puller.on_answer(refused, TERMS, seconds(0)), []);
    let steps = puller.on_answer(answer(vec![data(0, b"bytes")]), TERMS, seconds(0));
    assert!(matches!(steps[..], [Step::Take { .. }]), "{steps:?}");
    let next = ask(&mut puller, 12).expect("one waits");
    assert_eq!((next.session_id, next.session_epoch), (77, 1));
}

#[test]
fn a_session_that_ended_is_not_made_by_what_was_under_way() {
    let mut puller = in_session();
    ask(&mut puller).expect("one waits");
    puller.on_moved(key(0), at(8, 8));
    ask(&mut puller).expect("more is synced");
    let refused = FetchResponse {
        error_code: ErrorCode::InvalidFetchSessionEpoch.code(),
        counts_synced: true,
        ..FetchResponse::default()
    };
    puller.on_answer(refused, TERMS, seconds(0));
    assert_eq!(puller.on_answer(answer(vec![]), TERMS, seconds(0)), []);
    let anew = puller
        .request(9, TERMS, seconds(2))
        .expect("everything anew");
    assert_eq!(anew.session_id, 0);
    assert_eq!(listed(&anew), ["0: 8 8 restart", "1: 0 0 restart"]);
}

/// The answer of a leader that knows nothing of synced offsets.
fn plain(partitions: Vec<PartitionData>) -> FetchResponse {
    FetchResponse {
        counts_synced: false,
        ..answer(partitions)
    }
}

#[test]
fn a_leader_that_counts_the_fetch_offset_is_asked_one_at_a_time_and_for_what_follows_the_synced() {
    let mut puller = Puller::new(BrokerId(1), Way::Tail);
    puller.follow(key(0), EPOCH, at(5, 5));
    ask(&mut puller).expect("the first");
    puller.on_answer(plain(vec![data(0, b"bytes")]), TERMS, seconds(0));
    puller.on_moved(key(0), at(8, 5));
    assert!(ask(&mut puller).is_none(), "it would take 8 for synced");
    puller.on_moved(key(0), at(8, 8));
    assert_eq!(listed(&ask(&mut puller).expect("it is")), ["0: 8 8"]);
    puller.on_moved(key(0), at(8, 8));
    puller.follow(key(1), EPOCH, at(0, 0));
    assert!(ask(&mut puller).is_none(), "one is under way");
    puller.on_answer(plain(vec![]), TERMS, seconds(0));
    assert_eq!(
        listed(&ask(&mut puller).expect("the next")),
        ["1: 0 0 restart"]
    );
    puller.on_answer(plain(vec![]), TERMS, seconds(0));
    for index in [0, 1] {
        puller.rest(key(index), Some(seconds(3)));
    }
    assert!(ask(&mut puller).is_none(), "nothing is asked for");
}

#[test]
fn a_bulk_session_asks_when_all_is_synced_and_what_wakes_need_not_wait() {
    let mut puller = Puller::new(BrokerId(1), Way::Bulk);
    puller.follow(key(0), EPOCH, at(0, 0));
    puller.follow(key(1), EPOCH, at(0, 0));
    ask(&mut puller).expect("the first");
    puller.on_answer(
        answer(vec![data(0, b"x"), data(1, b"y")]),
        TERMS,
        seconds(0),
    );
    puller.on_moved(key(0), at(5, 0));
    puller.on_moved(key(1), at(5, 5));
    assert!(ask(&mut puller).is_none(), "one is not synced");
    puller.rest(key(0), Some(seconds(2)));
    let next = ask(&mut puller).expect("what rests is not waited for");
    assert_eq!(
        (listed(&next), unlisted(&next)),
        (vec!["1: 5 5".to_owned()], vec![0])
    );
    puller.on_moved(key(0), at(5, 5));
    let woken = puller.request(9, TERMS, seconds(2)).expect("it has rested");
    assert_eq!(listed(&woken), ["0: 5 5 restart"]);
}

#[test]
fn what_has_rested_is_no_deadline_while_two_are_under_way() {
    let mut puller = in_session();
    ask(&mut puller).expect("one waits");
    puller.on_moved(key(0), at(8, 8));
    ask(&mut puller).expect("two are under way");
    puller.rest(key(1), Some(seconds(1)));
    assert!(puller.request(9, TERMS, seconds(1)).is_none());
    assert_eq!(puller.next_deadline(), None, "a worker would not sleep");
    puller.on_answer(answer(vec![]), TERMS, seconds(1));
    let next = puller
        .request(9, TERMS, seconds(1))
        .expect("it is asked for");
    assert_eq!(listed(&next), ["1: 0 0 restart"]);
}
