//! AddOffsetsToTxn: the offsets of a group become part of the transaction, which is the partition of their log.

use coord::txn::Add;
use wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use wire::{ApiKey, ErrorCode};

use super::txn::{fenced, producer};
use crate::asker::access::Resource;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::txns::{self, Asked, Named};
use security::authorize::Operation;

/// First version whose clients know PRODUCER_FENCED.
const FENCED_VERSION: i16 = 2;

pub(crate) fn on_add_offsets_to_txn(
    call: &mut Call<'_>,
    request: AddOffsetsToTxnRequest,
) -> Outcome {
    let question = question(call, &request);
    call.ask_txn(question, |call, told| {
        let code = told.flatten().err().unwrap_or(ErrorCode::None);
        let response = AddOffsetsToTxnResponse {
            error_code: fenced(code, call.version() >= FENCED_VERSION).code(),
            ..Default::default()
        };
        call.reply(ApiKey::AddOffsetsToTxn, &response)
    })
}

fn question(
    call: &mut Call<'_>,
    request: &AddOffsetsToTxnRequest,
) -> Result<Asked<Add>, ErrorCode> {
    let id = Resource::transactional_id(&request.transactional_id);
    let granted = call.asker.grant(Operation::Write, id)?;
    let txn = Named::new(
        granted,
        producer(request.producer_id, request.producer_epoch),
    );
    let group = Resource::group(&request.group_id);
    let group = call.asker.grant(Operation::Read, group)?;
    Ok(txns::add_offsets(call.desk, txn, group))
}
