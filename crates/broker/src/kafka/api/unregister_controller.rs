//! UnregisterController: a controller that is gone for good is taken off the list. The active controller answers, and stays on it; one
//! that still runs registers again.

use meta::decide::controller::UnregisterControllerError;
use model::BrokerId;
use wire::messages::{UnregisterControllerRequest, UnregisterControllerResponse};
use wire::{ApiKey, ErrorCode};

use super::overdue::Overdue;
use crate::kafka::call::Call;
use crate::net::Outcome;

pub(crate) fn on_unregister(call: &mut Call<'_>, request: UnregisterControllerRequest) -> Outcome {
    let ticket = call.ticket();
    let controller = BrokerId(request.controller_id);
    let decided = call
        .desk
        .shared
        .metadata
        .unregister_controller(ticket, controller);
    call.answer_change(
        ApiKey::UnregisterController,
        decided,
        |decided| match decided {
            Ok(decided) => answer(decided),
            Err(code) => refusal(code, None),
        },
    )
}

pub(super) fn answer(
    decided: Result<(), UnregisterControllerError>,
) -> UnregisterControllerResponse {
    let Err(error) = decided else {
        return UnregisterControllerResponse::default();
    };
    let code = match error {
        UnregisterControllerError::Active => ErrorCode::InvalidRequest,
        UnregisterControllerError::TooOld => ErrorCode::UnsupportedVersion,
        UnregisterControllerError::NotRegistered(_) => ErrorCode::ControllerIdNotRegistered,
    };
    refusal(code, Some(error.to_string()))
}

fn refusal(code: ErrorCode, error_message: Option<String>) -> UnregisterControllerResponse {
    UnregisterControllerResponse {
        error_code: code.code(),
        error_message,
        ..UnregisterControllerResponse::default()
    }
}

impl Overdue for UnregisterControllerResponse {
    fn time_out(&mut self) {
        *self = refusal(ErrorCode::RequestTimedOut, None);
    }
}

#[cfg(test)]
mod tests {
    use wire::metadata::RegisterControllerRecord;

    use super::*;
    use crate::event_loop::bench::{Bench, encoded};

    #[test]
    fn the_active_controller_stays_and_another_one_goes_once() {
        let mut bench = Bench::new();
        let other = RegisterControllerRecord {
            controller_id: 2,
            ..RegisterControllerRecord::default()
        };
        let shared = std::sync::Arc::clone(&bench.shard.desk.shared);
        let written = shared.metadata.change_at_start(&[other.into()]);
        written.expect("a disk that works");
        let mut unregister = |controller_id| {
            bench.put(&encoded(&UnregisterControllerRequest { controller_id }, 0));
            bench.commit();
            let answer = bench.answer::<UnregisterControllerRequest>(0);
            answer.expect("it is durable")
        };
        for (controller_id, code) in [
            (1, ErrorCode::InvalidRequest),
            (3, ErrorCode::ControllerIdNotRegistered),
            (2, ErrorCode::None),
            (2, ErrorCode::ControllerIdNotRegistered),
        ] {
            let response = unregister(controller_id);
            assert_eq!(response.error_code, code.code(), "{controller_id}");
            let words = response.error_message.unwrap_or_default();
            assert_eq!(words.is_empty(), !code.is_error());
        }
        assert_eq!(shared.catalog.image().controllers().count(), 0);
    }
}
