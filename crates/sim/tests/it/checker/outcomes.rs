//! The table of meanings, row by row.

use broker::leaves_unknown;
use sim::checker::{Answer, Attempt, Meaning, Outcome, Request, classify};
use wire::ErrorCode;

fn meaning(request: Request, attempt: Attempt, answer: Answer) -> Outcome {
    match classify(request, attempt, answer) {
        Meaning::Known(outcome) => outcome,
        Meaning::Invalid => panic!("{request:?} {attempt:?} {answer:?} is invalid"),
    }
}

#[test]
fn answers_mean_what_the_table_says() {
    use Answer::{Code, Offset, Refused, Silence};
    use Attempt::{AfterUnanswered, First};
    use ErrorCode as Error;
    use Outcome::{Fail, Info, Ok};
    use Request::{EndTransaction, Produce, ProduceInTransaction};
    let rows = [
        (Produce, Offset(0), Ok, Ok),
        (Produce, Refused, Fail, Info),
        (Produce, Silence, Info, Info),
        (Produce, Code(Error::TopicAuthorizationFailed), Fail, Info),
        (Produce, Code(Error::MessageTooLarge), Fail, Info),
        (Produce, Code(Error::CorruptMessage), Fail, Info),
        (Produce, Code(Error::UnknownTopicOrPartition), Fail, Info),
        (Produce, Code(Error::NotLeaderOrFollower), Info, Info),
        (Produce, Code(Error::NotEnoughReplicas), Fail, Info),
        (
            Produce,
            Code(Error::NotEnoughReplicasAfterAppend),
            Info,
            Info,
        ),
        (Produce, Code(Error::RequestTimedOut), Info, Info),
        (Produce, Code(Error::KafkaStorageError), Info, Info),
        (Produce, Code(Error::UnknownServerError), Info, Info),
        (Produce, Code(Error::DuplicateSequenceNumber), Ok, Ok),
        (Produce, Code(Error::OutOfOrderSequenceNumber), Fail, Info),
        (Produce, Code(Error::InvalidProducerEpoch), Fail, Info),
        (
            ProduceInTransaction,
            Code(Error::ProducerFenced),
            Fail,
            Fail,
        ),
        (EndTransaction, Code(Error::ProducerFenced), Fail, Info),
        (
            EndTransaction,
            Code(Error::ConcurrentTransactions),
            Fail,
            Info,
        ),
        (
            EndTransaction,
            Code(Error::CoordinatorNotAvailable),
            Info,
            Info,
        ),
        (EndTransaction, Code(Error::NotCoordinator), Info, Info),
        (EndTransaction, Offset(-1), Ok, Ok),
    ];
    for (request, answer, first, after) in rows {
        assert_eq!(
            meaning(request, First, answer),
            first,
            "{request:?} {answer:?}"
        );
        assert_eq!(
            meaning(request, AfterUnanswered, answer),
            after,
            "{request:?} {answer:?} after silence"
        );
    }
}

/// The promise of a code to users is what the checker holds the broker to.
#[test]
fn every_code_that_is_promised_to_be_definite_is_judged_as_such() {
    let rest = [
        ErrorCode::None,
        ErrorCode::DuplicateSequenceNumber,
        ErrorCode::NotEnoughReplicasAfterAppend,
    ];
    for code in ErrorCode::ALL.iter().filter(|code| !rest.contains(code)) {
        let first = meaning(Request::Produce, Attempt::First, Answer::Code(*code));
        let promised = match leaves_unknown(*code) {
            Some(_) => Outcome::Info,
            None => Outcome::Fail,
        };
        assert_eq!(first, promised, "{code}");
    }
}

#[test]
fn success_without_an_offset_makes_the_run_invalid() {
    let answer = classify(Request::Produce, Attempt::First, Answer::Offset(-1));
    assert_eq!(answer, Meaning::Invalid);
}
