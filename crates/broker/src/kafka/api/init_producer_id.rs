//! InitProducerId: an identity for a producer (KIP-98), and the next incarnation of one with a transactional id (KIP-360).

use coord::txn::{Answer, Ask};
use wire::messages::{InitProducerIdRequest, InitProducerIdResponse};
use wire::{ApiKey, ErrorCode};

use super::txn::{fenced, producer};
use crate::coordinate::txn_settings;
use crate::event_loop::Outcome;
use crate::kafka::Attempt;
use crate::kafka::call::Call;
use crate::ops::txns::unexpected;

/// First version whose clients know PRODUCER_FENCED.
const FENCED_VERSION: i16 = 4;
/// While the next block of producer ids is not durable. Nothing was done: the client asks again.
pub(super) const NO_PRODUCER_ID: ErrorCode = ErrorCode::CoordinatorLoadInProgress;

pub(crate) fn on_init_producer_id(
    call: &mut Call<'_>,
    request: InitProducerIdRequest,
    attempt: Attempt,
) -> Outcome {
    // Both or none: who he was, and in which incarnation.
    if (request.producer_id == -1) != (request.producer_epoch == -1) {
        return refuse_producer_id(call, ErrorCode::InvalidRequest);
    }
    if let Some(id) = &request.transactional_id {
        let settings = txn_settings(&call.desk.shared.config().broker);
        if let Err(code) = settings.check_init(id, request.transaction_timeout_ms) {
            return refuse_producer_id(call, code);
        }
    }
    let Some(id) = call.desk.shared.take_producer_id() else {
        return match attempt {
            Attempt::Overdue => refuse_producer_id(call, NO_PRODUCER_ID),
            Attempt::First | Attempt::Second => allocate_producer_ids(call, |call, attempt| {
                on_init_producer_id(call, request, attempt)
            }),
        };
    };
    let Some(transactional_id) = request.transactional_id else {
        let response = InitProducerIdResponse {
            producer_id: id.0,
            producer_epoch: 0,
            ..Default::default()
        };
        return call.reply(ApiKey::InitProducerId, &response);
    };
    let is_known = request.producer_id != -1;
    let ask = Ask::Init {
        transactional_id,
        timeout_ms: request.transaction_timeout_ms,
        expected: is_known.then(|| producer(request.producer_id, request.producer_epoch)),
        fresh: Some(id),
    };
    call.ask_txn(ask, |call, told| {
        let begun = match told {
            Ok(Answer::Init(begun)) => begun,
            other => Err(unexpected(other)),
        };
        match begun {
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
        }
    })
}

/// Gets the broker another block of producer ids, and handles the request again.
pub(crate) fn allocate_producer_ids(
    call: &mut Call<'_>,
    again: impl FnOnce(&mut Call<'_>, Attempt) -> Outcome + Send + 'static,
) -> Outcome {
    call.change_first(again, |view, _| {
        let node = view.broker.node_id;
        meta::decide::producer_ids::allocate_producer_ids(view.image, node)
            .map(|(record, _)| record)
            .into_iter()
            .collect()
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
