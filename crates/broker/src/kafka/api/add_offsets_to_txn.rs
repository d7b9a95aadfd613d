//! AddOffsetsToTxn: the offsets of a group become part of the transaction, which is the partition of their log.

use coord::txn::{Answer, Ask};
use wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use wire::{ApiKey, ErrorCode};

use super::txn::{CLIENT_ADDS, fenced, producer};
use crate::event_loop::Outcome;
use crate::kafka::call::Call;
use crate::ops::txns::unexpected;

/// First version whose clients know PRODUCER_FENCED.
const FENCED_VERSION: i16 = 2;

pub(crate) fn on_add_offsets_to_txn(
    call: &mut Call<'_>,
    request: AddOffsetsToTxnRequest,
) -> Outcome {
    let offsets = call.desk.group_partition(&request.group_id);
    let ask = Ask::Add {
        transactional_id: request.transactional_id,
        producer: producer(request.producer_id, request.producer_epoch),
        places: vec![(meta::name::OFFSETS.to_owned(), offsets)],
        version: CLIENT_ADDS,
        may_wait: false,
    };
    call.ask_txn(ask, |call, told| {
        let code = match told {
            Ok(Answer::Add(added)) => added.err().unwrap_or(ErrorCode::None),
            other => unexpected(other),
        };
        let response = AddOffsetsToTxnResponse {
            error_code: fenced(code, call.version() >= FENCED_VERSION).code(),
            ..Default::default()
        };
        call.reply(ApiKey::AddOffsetsToTxn, &response)
    })
}
