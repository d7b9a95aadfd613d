//! AddOffsetsToTxn: the offsets of a group become part of the transaction, which is the partition of their log.

use wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use wire::{ApiKey, ErrorCode};

use super::txn::{fenced, producer};
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::txns::{self, Named};

/// First version whose clients know PRODUCER_FENCED.
const FENCED_VERSION: i16 = 2;

pub(crate) fn on_add_offsets_to_txn(
    call: &mut Call<'_>,
    request: AddOffsetsToTxnRequest,
) -> Outcome {
    let txn = Named {
        transactional_id: request.transactional_id,
        producer: producer(request.producer_id, request.producer_epoch),
    };
    let question = txns::add_offsets(call.desk, &call.asker, txn, &request.group_id);
    call.ask_txn(question, |call, told| {
        let code = told.flatten().err().unwrap_or(ErrorCode::None);
        let response = AddOffsetsToTxnResponse {
            error_code: fenced(code, call.version() >= FENCED_VERSION).code(),
            ..Default::default()
        };
        call.reply(ApiKey::AddOffsetsToTxn, &response)
    })
}
