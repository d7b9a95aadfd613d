//! UnregisterBroker: a broker that is gone for good is taken off the list. Kafka takes even the broker that leads everything out when
//! it is told to, and is of no use afterwards; here the only one is refused.

use meta::Image;
use meta::decide::heartbeat::UnregisterError;
use model::BrokerId;
use wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};
use wire::{ApiKey, ErrorCode};

use super::overdue::Overdue;
use crate::kafka::call::Call;
use crate::net::Outcome;

pub(crate) fn on_unregister(call: &mut Call<'_>, request: UnregisterBrokerRequest) -> Outcome {
    let broker = BrokerId(request.broker_id);
    if let Some(refused) = refuse_the_only(&call.scene().image, broker) {
        return call.reply(ApiKey::UnregisterBroker, &refused);
    }
    let ticket = call.ticket();
    let decided = call.desk.shared.metadata.unregister_broker(ticket, broker);
    call.answer_change(ApiKey::UnregisterBroker, decided, |answer| match answer {
        Ok(Ok(())) => UnregisterBrokerResponse::default(),
        Ok(Err(error)) => {
            let code = match error {
                UnregisterError::NotRegistered(_) => ErrorCode::BrokerIdNotRegistered,
                UnregisterError::TooManyRecords => ErrorCode::PolicyViolation,
            };
            refusal(code, Some(error.to_string()))
        }
        Err(code) => refusal(code, None),
    })
}

fn refusal(code: ErrorCode, error_message: Option<String>) -> UnregisterBrokerResponse {
    UnregisterBrokerResponse {
        error_code: code.code(),
        error_message,
        ..UnregisterBrokerResponse::default()
    }
}

pub(super) fn refuse_the_only(image: &Image, broker: BrokerId) -> Option<UnregisterBrokerResponse> {
    let is_only = image.brokers().all(|known| known.id == broker);
    (is_only && image.broker(broker).is_some()).then(|| {
        let words = format!(
            "Broker ID {broker} is the only one of this cluster and cannot be unregistered"
        );
        refusal(ErrorCode::InvalidRequest, Some(words))
    })
}

impl Overdue for UnregisterBrokerResponse {
    fn time_out(&mut self) {
        *self = refusal(ErrorCode::RequestTimedOut, None);
    }
}

#[cfg(test)]
mod tests {
    use wire::metadata::RegisterBrokerRecord;

    use super::*;
    use crate::event_loop::bench::{Bench, encoded};

    fn unregister(bench: &mut Bench, broker_id: i32) -> UnregisterBrokerResponse {
        bench.put(&encoded(&UnregisterBrokerRequest { broker_id }, 0));
        bench.commit();
        let answer = bench.answer::<UnregisterBrokerRequest>(0);
        answer.expect("it is durable")
    }

    #[test]
    fn the_only_broker_stays_and_another_one_goes_once() {
        let mut bench = Bench::new();
        for (broker_id, code) in [(1, 42), (2, 102), (-1, 102)] {
            let response = unregister(&mut bench, broker_id);
            assert_eq!(response.error_code, code, "{broker_id}");
            let words = response.error_message.expect("told why");
            assert!(words.contains(&broker_id.to_string()), "{words}");
        }
        let other = RegisterBrokerRecord {
            broker_id: 2,
            broker_epoch: 1_000,
            ..RegisterBrokerRecord::default()
        };
        let shared = std::sync::Arc::clone(&bench.shard.desk.shared);
        let written = shared.metadata.change_at_start(&[other.into()]);
        written.expect("a disk that works");
        assert_eq!(unregister(&mut bench, 2).error_code, 0);
        let image = shared.catalog.image();
        assert!(image.broker(BrokerId(2)).is_none() && image.broker(BrokerId(1)).is_some());
        assert_eq!(unregister(&mut bench, 2).error_code, 102);
    }
}
