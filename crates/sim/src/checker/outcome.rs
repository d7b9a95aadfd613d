//! The meaning of an answer: done, certainly not done, or nobody knows.
//!
//! The rule: an operation failed only if no byte of any of its requests that could have appended was ever accepted for processing. After
//! which codes that is so is what the broker promises (`broker::INDEFINITE`, `docs/errors.md`): an append that is there after
//! a definite refusal breaks that promise. A checker that gets this wrong lies in both directions.

use broker::leaves_unknown;
use wire::ErrorCode;

use super::history::Outcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Produce,
    /// A produce inside a transaction whose end was not asked for yet.
    ProduceInTransaction,
    EndTransaction,
}

/// True if anything came before this attempt that may have taken effect.
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

/// Nothing else than what users are told of the codes.
fn of_code(request: Request, attempt: Attempt, code: ErrorCode) -> Outcome {
    match (code, attempt) {
        (ErrorCode::None | ErrorCode::DuplicateSequenceNumber, _) => Outcome::Ok,
        // Our broker never gives it; its name says what it means.
        (ErrorCode::NotEnoughReplicasAfterAppend, _) => Outcome::Info,
        // The producer is out: what it sent before belongs to a transaction that nobody will commit.
        (
            ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::ProducerFenced,
            _,
        ) if request == Request::ProduceInTransaction => Outcome::Fail,
        (code, Attempt::First) if leaves_unknown(code).is_none() => Outcome::Fail,
        _ => Outcome::Info,
    }
}
