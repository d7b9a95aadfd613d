//! EndTxn: commit or abort. Answered when that is decided for good; markers follow.

use model::ProducerId;
use wire::ApiKey;
use wire::messages::{EndTxnRequest, EndTxnResponse};

use super::init_producer_id::NO_PRODUCER_ID;
use super::txn::{fenced, producer};
use crate::kafka::call::Attempt;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::txns::{self, End, Named, Protocol};

/// First version whose clients know PRODUCER_FENCED.
const FENCED_VERSION: i16 = 2;
/// First version that goes on with the epoch of the answer (KIP-890).
const EPOCH_VERSION: i16 = 5;
/// The last transaction of a producer id: its successor is needed.
const LAST_EPOCH: i16 = i16::MAX - 1;

pub(crate) fn on_end_txn(call: &mut Call<'_>, request: EndTxnRequest, attempt: Attempt) -> Outcome {
    let is_last = request.producer_epoch >= LAST_EPOCH && call.version() >= EPOCH_VERSION;
    let fresh = if is_last {
        call.desk.shared.state.take_producer_id()
    } else {
        None
    };
    if is_last && fresh.is_none() {
        if attempt == Attempt::Overdue {
            let response = EndTxnResponse {
                error_code: NO_PRODUCER_ID.code(),
                producer_id: ProducerId::NONE.0,
                producer_epoch: -1,
                ..Default::default()
            };
            return call.reply(ApiKey::EndTxn, &response);
        }
        let again = |call: &mut Call<'_>, attempt| on_end_txn(call, request, attempt);
        return call.change_first(txns::more_ids(call.desk), again);
    }
    let protocol = if call.version() >= EPOCH_VERSION {
        Protocol::BrokerAdds
    } else {
        Protocol::ClientAdds
    };
    let txn = Named {
        transactional_id: request.transactional_id,
        producer: producer(request.producer_id, request.producer_epoch),
    };
    let end = End {
        committed: request.committed,
        protocol,
        fresh,
    };
    let question = txns::end(call.desk, &call.asker, txn, end);
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
