//! What an answer means: done, certainly not done, or nobody knows.
//!
//! The rule behind the table: an operation failed only if no byte of any of its requests that could have appended was ever
//! accepted for processing. A checker that gets this wrong lies in both directions.

use wire::ErrorCode;

use super::history::Outcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Produce,
    /// A produce inside a transaction whose end was not asked for yet.
    ProduceInTransaction,
    EndTransaction,
}

/// Whether anything came before this attempt that may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    First,
    AfterUnanswered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success; the offset of the first record, or -1.
    Offset(i64),
    Code(ErrorCode),
    /// The connection was refused before anything was written.
    Refused,
    /// No answer: time ran out or the connection broke after something was written.
    Silence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Known(Outcome),
    /// Success without an offset where one was due: the run proves nothing.
    Invalid,
}

#[must_use]
pub fn classify(request: Request, attempt: Attempt, answer: Answer) -> Meaning {
    let definite = if attempt == Attempt::First {
        Outcome::Fail
    } else {
        Outcome::Info
    };
    let outcome = match answer {
        Answer::Offset(offset) if offset < 0 && request != Request::EndTransaction => {
            return Meaning::Invalid;
        }
        Answer::Offset(_) => Outcome::Ok,
        Answer::Refused => definite,
        Answer::Silence => Outcome::Info,
        Answer::Code(code) => of_code(request, attempt, code),
    };
    Meaning::Known(outcome)
}

fn of_code(request: Request, attempt: Attempt, code: ErrorCode) -> Outcome {
    use ErrorCode::{
        ClusterAuthorizationFailed, CorruptMessage, DuplicateSequenceNumber,
        GroupAuthorizationFailed, InvalidProducerEpoch, InvalidRecord, InvalidTopicException,
        MessageTooLarge, None as NoError, NotEnoughReplicas, OutOfOrderSequenceNumber,
        ProducerFenced, RecordListTooLarge, TopicAuthorizationFailed,
        TransactionalIdAuthorizationFailed, UnknownTopicId, UnknownTopicOrPartition,
        UnsupportedCompressionType, UnsupportedForMessageFormat, UnsupportedVersion,
    };
    let definite = if attempt == Attempt::First {
        Outcome::Fail
    } else {
        Outcome::Info
    };
    match code {
        NoError | DuplicateSequenceNumber => Outcome::Ok,
        TopicAuthorizationFailed
        | GroupAuthorizationFailed
        | TransactionalIdAuthorizationFailed
        | ClusterAuthorizationFailed
        | InvalidTopicException
        | MessageTooLarge
        | RecordListTooLarge
        | InvalidRecord
        | CorruptMessage
        | UnsupportedVersion
        | UnsupportedForMessageFormat
        | UnsupportedCompressionType
        | UnknownTopicOrPartition
        | UnknownTopicId
        | NotEnoughReplicas => definite,
        OutOfOrderSequenceNumber | InvalidProducerEpoch | ProducerFenced => match request {
            Request::ProduceInTransaction => Outcome::Fail,
            Request::Produce | Request::EndTransaction => definite,
        },
        // NOT_LEADER_OR_FOLLOWER may follow an append, and so may every other code that is not named above.
        _ => Outcome::Info,
    }
}
