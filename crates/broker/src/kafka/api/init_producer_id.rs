//! InitProducerId: an identity for a producer (KIP-98), and the next incarnation of one with a transactional id (KIP-360).

use wire::messages::{InitProducerIdRequest, InitProducerIdResponse};
use wire::{ApiKey, ErrorCode};

use super::txn::{fenced, producer};
use crate::kafka::call::Attempt;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::txns::{self, Init, InitProducer};

/// First version whose clients know PRODUCER_FENCED.
const FENCED_VERSION: i16 = 4;
/// While the next block of producer ids is not durable. Nothing was done: the client asks again.
pub(super) const NO_PRODUCER_ID: ErrorCode = ErrorCode::CoordinatorLoadInProgress;

pub(crate) fn on_init_producer_id(
    call: &mut Call<'_>,
    request: InitProducerIdRequest,
    attempt: Attempt,
) -> Outcome {
    // Both or none: the last identity, and which incarnation of it.
    let is_known = request.producer_id != -1;
    let is_sound = is_known == (request.producer_epoch != -1);
    let asked = InitProducer {
        transactional_id: request.transactional_id,
        timeout_ms: request.transaction_timeout_ms,
        in_two_phases: request.enable2_pc,
        is_sound,
        expected: is_known.then(|| producer(request.producer_id, request.producer_epoch)),
    };
    init(call, asked, attempt)
}

fn init(call: &mut Call<'_>, asked: InitProducer, attempt: Attempt) -> Outcome {
    let question = match txns::init(call.desk, &call.asker, asked) {
        Init::Ask(question) => *question,
        Init::Fresh(id) => {
            let response = InitProducerIdResponse {
                producer_id: id.0,
                producer_epoch: 0,
                ..Default::default()
            };
            return call.reply(ApiKey::InitProducerId, &response);
        }
        Init::NeedsIds(_) if attempt == Attempt::Overdue => {
            return refuse_producer_id(call, NO_PRODUCER_ID);
        }
        Init::NeedsIds(asked) => {
            let again = |call: &mut Call<'_>, attempt| init(call, asked, attempt);
            return call.change_first(txns::more_ids(call.desk), again);
        }
        Init::Refused(code) => return refuse_producer_id(call, code),
    };
    call.ask_txn(Ok(question), |call, told| match told.flatten() {
        Ok(producer) => {
            let response = InitProducerIdResponse {
                producer_id: producer.id.0,
                producer_epoch: producer.epoch.0,
                ..Default::default()
            };
            call.reply(ApiKey::InitProducerId, &response)
        }
        Err(code) => {
            let code = fenced(code, call.version() >= FENCED_VERSION);
            refuse_producer_id(call, code)
        }
    })
}

fn refuse_producer_id(call: &mut Call<'_>, code: ErrorCode) -> Outcome {
    let response = InitProducerIdResponse {
        error_code: code.code(),
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    call.reply(ApiKey::InitProducerId, &response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::bench::{Bench, encoded};

    /// The first id there is has to be made durable; who gets none does not wait for it.
    #[test]
    fn a_request_that_is_refused_takes_no_producer_id() {
        let mut bench = Bench::new();
        for (id, transaction_timeout_ms, code) in [
            ("", 1_000, ErrorCode::InvalidRequest),
            ("t", 0, ErrorCode::InvalidTransactionTimeout),
            ("t", i32::MAX, ErrorCode::InvalidTransactionTimeout),
        ] {
            let request = InitProducerIdRequest {
                transactional_id: Some(id.to_owned()),
                transaction_timeout_ms,
                producer_id: -1,
                producer_epoch: -1,
                ..Default::default()
            };
            bench.put(&encoded(&request, 4));
            let told = bench.answer::<InitProducerIdRequest>(4);
            assert_eq!(told.expect("told at once").error_code, code.code());
        }
    }
}
