//! AllocateProducerIds: a broker takes a block of ids for its producers (KIP-730). The active controller answers.

use meta::decide::producer_ids::AllocateError;
use model::BrokerId;
use wire::messages::{AllocateProducerIdsRequest, AllocateProducerIdsResponse};
use wire::{ApiKey, ErrorCode};

use super::overdue::Overdue;
use crate::control::controller::code_of;
use crate::kafka::call::Call;
use crate::net::Outcome;

pub(crate) fn on_allocate(call: &mut Call<'_>, request: AllocateProducerIdsRequest) -> Outcome {
    let ticket = call.ticket();
    let broker = BrokerId(request.broker_id);
    let shared = &call.desk.shared;
    let decided = shared
        .metadata
        .allocate_producer_ids(ticket, broker, request.broker_epoch);
    call.answer_change(
        ApiKey::AllocateProducerIds,
        decided,
        |answer| match answer {
            Ok(Ok((producer_id_start, producer_id_len))) => AllocateProducerIdsResponse {
                producer_id_start,
                producer_id_len,
                ..AllocateProducerIdsResponse::default()
            },
            Ok(Err(AllocateError::Epoch(error))) => refusal(code_of(error)),
            Ok(Err(AllocateError::Exhausted)) => refusal(ErrorCode::UnknownServerError),
            Err(code) => refusal(code),
        },
    )
}

fn refusal(code: ErrorCode) -> AllocateProducerIdsResponse {
    AllocateProducerIdsResponse {
        error_code: code.code(),
        ..AllocateProducerIdsResponse::default()
    }
}

impl Overdue for AllocateProducerIdsResponse {
    fn time_out(&mut self) {
        *self = refusal(ErrorCode::RequestTimedOut);
    }
}
