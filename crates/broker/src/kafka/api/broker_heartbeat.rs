//! BrokerHeartbeat: a broker says that it is there, how far it is, and that it wants to go (KIP-631). The active controller answers.

use meta::sessions::Heartbeat;
use model::BrokerId;
use wire::messages::{BrokerHeartbeatRequest, BrokerHeartbeatResponse};
use wire::{ApiKey, ErrorCode};

use super::overdue::Overdue;
use crate::control::controller::code_of;
use crate::kafka::call::Call;
use crate::net::Outcome;

pub(crate) fn on_heartbeat(call: &mut Call<'_>, request: BrokerHeartbeatRequest) -> Outcome {
    let beat = Heartbeat {
        broker: BrokerId(request.broker_id),
        epoch: request.broker_epoch,
        metadata_offset: request.current_metadata_offset,
        wants_fence: request.want_fence,
        wants_shut_down: request.want_shut_down,
        failed_log_dirs: request.offline_log_dirs,
        troubled_log_dirs: request.troubled_log_dirs,
        cordoned_log_dirs: request.cordoned_log_dirs,
    };
    let ticket = call.ticket();
    let wall_ms = request.wall_time_ms;
    let decided = call.desk.shared.metadata.hear_broker(ticket, &beat);
    if let Some((Ok(_), _)) = &decided {
        (call.door).on_member(call.address.conn, beat.broker, beat.epoch);
        // Brokers of Kafka do not say.
        if 0 <= wall_ms {
            call.desk.shared.metadata.hear_clock(beat.broker, wall_ms);
        }
    }
    let wall_time_ms = call.desk.shared.env.clock.wall_ms().0;
    call.answer_change(ApiKey::BrokerHeartbeat, decided, move |answer| match answer
        .map(|heard| heard.map_err(code_of))
    {
        Ok(Ok(standing)) => BrokerHeartbeatResponse {
            is_caught_up: standing.is_caught_up,
            is_fenced: standing.is_fenced,
            should_shut_down: standing.may_stop,
            wall_time_ms,
            ..BrokerHeartbeatResponse::default()
        },
        Ok(Err(code)) | Err(code) => refusal(code),
    })
}

fn refusal(code: ErrorCode) -> BrokerHeartbeatResponse {
    BrokerHeartbeatResponse {
        error_code: code.code(),
        is_fenced: true,
        ..BrokerHeartbeatResponse::default()
    }
}

impl Overdue for BrokerHeartbeatResponse {
    fn time_out(&mut self) {
        *self = refusal(ErrorCode::RequestTimedOut);
    }
}
