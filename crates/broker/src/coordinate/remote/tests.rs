//! Requests that go together, requests that are tried again, and the meaning of answers that are not whole.

use coord::txn::Producer;
use model::{InboxId, ProducerEpoch, ProducerId};
use wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use wire::messages::{AddPartitionsToTxnResponse, WriteTxnMarkersResponse};
use wire::records::EndTxn;
use wire::{Message, Writer};

use super::*;
use crate::peers;

const OTHER: BrokerId = BrokerId(2);
const START: Instant = Instant(0);

fn ticket(part: u32) -> Ticket {
    Ticket {
        inbox: InboxId(0),
        key: WaiterKey(7),
        part,
    }
}

fn mark(part: u32, producer: i64, index: i32) -> Mark {
    Mark {
        ticket: ticket(part),
        place: ("t".to_owned(), index),
        marker: Marker {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(1),
            end: EndTxn {
                committed: true,
                coordinator_epoch: 4,
            },
            transaction_version: 2,
        },
    }
}

fn add(part: u32, id: &str, until: Instant) -> Join {
    Join {
        ticket: ticket(part),
        partition: 0,
        ask: question::Join::Add(coord::txn::Add {
            transactional_id: id.to_owned(),
            producer: Producer {
                id: ProducerId(1),
                epoch: ProducerEpoch(0),
            },
            places: vec![("t".to_owned(), 0), ("t".to_owned(), 1)],
            version: 2,
            may_wait: true,
        }),
        until,
        pause: None,
    }
}

fn body<M: Message>(message: &M, version: i16) -> Option<peers::Answer> {
    let mut writer = Writer::new();
    message.encode(&mut writer, version).expect("it fits");
    let body = writer.finish().into_bytes().expect("no files");
    Some(peers::Answer { version, body })
}

fn begun(remote: &mut Remote, now: Instant) -> Vec<Errand> {
    remote.begin(now, |_| true)
}

fn only_marks(errands: Vec<Errand>) -> (WaiterKey, WriteTxnMarkersRequest) {
    let [errand] = <[Errand; 1]>::try_from(errands).ok().expect("one of them");
    match errand.request {
        Request::Marks(request) => (errand.key, request),
        Request::Joins(_) | Request::Question(_) => panic!("nothing else was put"),
    }
}

fn markers(codes: &[(i64, i32, ErrorCode)]) -> WriteTxnMarkersResponse {
    let marker = |(producer_id, partition_index, code): &(i64, i32, ErrorCode)| {
        let partition = WritableTxnMarkerPartitionResult {
            partition_index: *partition_index,
            error_code: code.code(),
        };
        WritableTxnMarkerResult {
            producer_id: *producer_id,
            topics: vec![WritableTxnMarkerTopicResult {
                name: "t".to_owned(),
                partitions: vec![partition],
            }],
        }
    };
    WriteTxnMarkersResponse {
        markers: codes.iter().map(marker).collect(),
    }
}

fn added(id: &str, codes: [ErrorCode; 2]) -> AddPartitionsToTxnResponse {
    let results = (0..).zip(codes);
    let results = results.map(|(index, code)| AddPartitionsToTxnPartitionResult {
        partition_index: index,
        partition_error_code: code.code(),
    });
    AddPartitionsToTxnResponse {
        results_by_transaction: vec![AddPartitionsToTxnResult {
            transactional_id: id.to_owned(),
            topic_results: vec![AddPartitionsToTxnTopicResult {
                name: "t".to_owned(),
                results_by_partition: results.collect(),
            }],
        }],
        ..Default::default()
    }
}

#[test]
fn marks_that_come_while_one_request_is_under_way_go_with_the_next() {
    let mut remote = Remote::new();
    remote.mark(OTHER, mark(0, 1, 0));
    let (first, request) = only_marks(begun(&mut remote, START));
    assert_eq!(request.markers.len(), 1);
    for (part, producer, index) in [(1, 1, 1), (2, 2, 0), (3, 1, 2), (4, 2, 0)] {
        remote.mark(OTHER, mark(part, producer, index));
    }
    assert!(begun(&mut remote, START).is_empty(), "one at a time");
    let answer = body(&markers(&[(1, 0, ErrorCode::None)]), 2);
    let done = remote.on_reply(first, answer, START);
    assert_eq!(done, [Outcome::Marked(ticket(0), None)]);

    let (second, request) = only_marks(begun(&mut remote, START));
    let told = request.markers.iter().map(|marker| {
        let indexes = marker.topics[0].partition_indexes.clone();
        (marker.producer_id, indexes)
    });
    assert_eq!(told.collect::<Vec<_>>(), [(1, vec![1, 2]), (2, vec![0])]);
    // In any order, and with a part missing.
    let refused = ErrorCode::NotLeaderOrFollower;
    let answer = body(&markers(&[(2, 0, refused), (1, 2, ErrorCode::None)]), 2);
    let done = remote.on_reply(second, answer, START);
    let unanswered = Some(ErrorCode::NetworkException);
    let expected = [(1, unanswered), (2, Some(refused)), (3, None)];
    let expected = expected.map(|(part, code)| Outcome::Marked(ticket(part), code));
    assert_eq!(done, expected);

    // The same marker twice is found under one name: it goes with the one after.
    let (third, request) = only_marks(begun(&mut remote, START));
    assert_eq!(request.markers[0].producer_id, 2);
    let garbage = peers::Answer {
        version: 2,
        body: bytes::Bytes::from_static(b"\x07"),
    };
    for garbage in [None, Some(garbage)] {
        let done = remote.on_reply(third, garbage, START);
        if !done.is_empty() {
            assert_eq!(done, [Outcome::Marked(ticket(4), unanswered)]);
        }
    }
}

#[test]
fn marks_that_nobody_waits_for_are_not_sent() {
    let mut remote = Remote::new();
    remote.mark(OTHER, mark(0, 1, 0));
    remote.mark(OTHER, mark(1, 1, 1));
    let errands = remote.begin(START, |ticket| ticket.part == 1);
    let (_, request) = only_marks(errands);
    assert_eq!(request.markers[0].topics[0].partition_indexes, [1]);
}

#[test]
fn a_join_before_the_last_transaction_is_completed_is_tried_again_for_its_time() {
    let mut remote = Remote::new();
    let until = START.plus(2 * JOIN_RETRY);
    remote.join(OTHER, add(0, "x", until));
    let busy = ErrorCode::ConcurrentTransactions;
    let answer = body(&added("x", [busy, busy]), 5);
    let mut now = START;
    for _ in 0..2 {
        let errands = begun(&mut remote, now);
        assert_eq!(errands.len(), 1);
        assert_eq!(remote.next_deadline(), None, "it is under way");
        assert_eq!(remote.on_reply(errands[0].key, answer.clone(), now), []);
        assert!(begun(&mut remote, now).is_empty(), "it pauses");
        now = now.plus(JOIN_RETRY);
        assert_eq!(remote.next_deadline(), Some(now));
    }
    let errands = begun(&mut remote, now);
    let done = remote.on_reply(errands[0].key, answer, now);
    let refused = Ok(txn::Answer::Add(Err(busy)));
    assert_eq!(done, [Outcome::Joined(ticket(0), refused)]);
}

#[test]
fn a_join_is_refused_for_the_reason_of_the_partition_that_was_refused() {
    let not_attempted = ErrorCode::OperationNotAttempted;
    let unknown = ErrorCode::UnknownTopicOrPartition;
    for (codes, expected) in [
        ([ErrorCode::None; 2], Ok(())),
        ([not_attempted, unknown], Err(unknown)),
        ([unknown, not_attempted], Err(unknown)),
    ] {
        let mut remote = Remote::new();
        remote.join(OTHER, add(0, "x", START));
        let errands = begun(&mut remote, START);
        let done = remote.on_reply(errands[0].key, body(&added("x", codes), 5), START);
        assert_eq!(
            done,
            [Outcome::Joined(ticket(0), Ok(txn::Answer::Add(expected)))]
        );
    }
    // An answer about another transaction is none.
    let mut remote = Remote::new();
    remote.join(OTHER, add(0, "x", START));
    let errands = begun(&mut remote, START);
    let other = body(&added("y", [ErrorCode::None; 2]), 5);
    let done = remote.on_reply(errands[0].key, other, START);
    let refused = Err(ErrorCode::CoordinatorNotAvailable);
    assert_eq!(done, [Outcome::Joined(ticket(0), refused)]);
}

#[test]
fn one_transaction_is_asked_about_once_in_a_request() {
    let mut remote = Remote::new();
    for (part, id) in [(0, "x"), (1, "y"), (2, "x")] {
        remote.join(OTHER, add(part, id, START));
    }
    let errands = begun(&mut remote, START);
    let Request::Joins(request) = &errands[0].request else {
        panic!("nothing is marked");
    };
    let ids = request.transactions.iter();
    let ids: Vec<_> = ids.map(|txn| txn.transactional_id.as_str()).collect();
    assert_eq!(ids, ["x", "y"]);
}

#[test]
fn all_that_is_meant_for_a_leader_of_before_is_given_up_under_way_or_not() {
    let mut remote = Remote::new();
    remote.mark(OTHER, mark(0, 1, 0));
    remote.join(OTHER, add(1, "x", START));
    let errands = begun(&mut remote, START);
    assert_eq!(errands.len(), 2);
    remote.mark(OTHER, mark(2, 1, 1));
    remote.join(OTHER, add(3, "x", START));
    let given_up =
        remote.give_up(|broker, topic, index| broker == OTHER && (topic, index) == ("t", 0));
    let elsewhere = Err(ErrorCode::NotCoordinator);
    assert_eq!(
        given_up,
        [
            Outcome::Marked(ticket(2), Some(ErrorCode::NotLeaderOrFollower)),
            Outcome::Joined(ticket(3), elsewhere.clone()),
            Outcome::Joined(ticket(1), elsewhere),
        ]
    );
    let answer = body(&markers(&[(1, 0, ErrorCode::None)]), 2);
    let done = remote.on_reply(errands[0].key, answer, START);
    assert_eq!(done, [Outcome::Marked(ticket(0), None)], "that is right");
    assert_eq!(remote.on_reply(errands[1].key, None, START), []);
    assert!(begun(&mut remote, START).is_empty());
}
