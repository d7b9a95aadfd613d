//! Requests about transactions: what their handlers share.

use coord::txn::Producer;
use model::{ProducerEpoch, ProducerId};
use wire::ErrorCode;

/// Clients from before KIP-588 know of producers with an old epoch only.
pub(crate) fn fenced(code: ErrorCode, knows_fenced: bool) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced if !knows_fenced => ErrorCode::InvalidProducerEpoch,
        code => code,
    }
}

pub(crate) fn producer(id: i64, epoch: i16) -> Producer {
    Producer {
        id: ProducerId(id),
        epoch: ProducerEpoch(epoch),
    }
}
