//! EndTxn: commit or abort. Answered when that is decided for good; markers follow.

use model::ProducerId;
use wire::messages::{EndTxnRequest, EndTxnResponse};
use wire::{ApiKey, ErrorCode};

use super::init_producer_id::NO_PRODUCER_ID;
use super::txn::{fenced, producer};
use crate::asker::access::Resource;
use crate::kafka::call::Attempt;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::txns::{self, End, Named, Protocol};
use security::authorize::Operation;

/// First version whose clients know PRODUCER_FENCED.
const FENCED_VERSION: i16 = 2;
/// First version that goes on with the epoch of the answer (KIP-890).
const EPOCH_VERSION: i16 = 5;
/// The last transaction of a producer id: its successor is needed.
const LAST_EPOCH: i16 = i16::MAX - 1;

pub(crate) fn on_end_txn(call: &mut Call<'_>, request: EndTxnRequest, attempt: Attempt) -> Outcome {
    let id = Resource::transactional_id(&request.transactional_id);
    let granted = match call.asker.grant(Operation::Write, id) {
        Ok(granted) => granted,
        Err(code) => return refuse(call, code),
    };
    let txn = Named::new(
        granted,
        producer(request.producer_id, request.producer_epoch),
    );
    let is_last = request.producer_epoch >= LAST_EPOCH && call.version() >= EPOCH_VERSION;
    let fresh = if is_last {
        call.desk.shared.state.take_producer_id()
    } else {
        None
    };
    if is_last && fresh.is_none() {
        if attempt == Attempt::Overdue {
            return refuse(call, NO_PRODUCER_ID);
        }
        let again = |call: &mut Call<'_>, attempt| on_end_txn(call, request, attempt);
        return call.change_first(txns::more_ids(call.desk), again);
    }
    let protocol = if call.version() >= EPOCH_VERSION {
        Protocol::BrokerAdds
    } else {
        Protocol::ClientAdds
    };
    let end = End {
        committed: request.committed,
        protocol,
        fresh,
    };
    let question = Ok(txns::end(call.desk, txn, end));
    call.ask_txn(question, |call, told| {
        let mut response = EndTxnResponse {
            producer_id: ProducerId::NONE.0,
            producer_epoch: -1,
            ..Default::default()
        };
        match told.flatten() {
            Ok(producer) if call.version() >= EPOCH_VERSION => {
                response.producer_id = producer.id.0;
                response.producer_epoch = producer.epoch.0;
            }
            Ok(_) => {}
            Err(code) => {
                let knows_fenced = call.version() >= FENCED_VERSION;
                response.error_code = fenced(code, knows_fenced).code();
            }
        }
        call.reply(ApiKey::EndTxn, &response)
    })
}

fn refuse(call: &mut Call<'_>, code: ErrorCode) -> Outcome {
    let response = EndTxnResponse {
        error_code: code.code(),
        producer_id: ProducerId::NONE.0,
        producer_epoch: -1,
        ..Default::default()
    };
    call.reply(ApiKey::EndTxn, &response)
}
