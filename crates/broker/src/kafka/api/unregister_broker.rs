//! UnregisterBroker: nobody can be taken out of a cluster of one broker. Kafka takes even the broker that leads everything out
//! when it is told to, and is of no use afterwards; here that one is refused.

use model::BrokerId;
use wire::ErrorCode;
use wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};

use crate::ops::view::View;

#[must_use]
pub(crate) fn handle(
    request: &UnregisterBrokerRequest,
    view: &View<'_>,
) -> UnregisterBrokerResponse {
    let id = request.broker_id;
    let (code, words) = match view.image.broker(BrokerId(id)) {
        None => (
            ErrorCode::BrokerIdNotRegistered,
            format!("Broker ID {id} is not currently registered"),
        ),
        Some(_) => (
            ErrorCode::InvalidRequest,
            format!("Broker ID {id} is the only one of this cluster and cannot be unregistered"),
        ),
    };
    UnregisterBrokerResponse {
        error_code: code.code(),
        error_message: Some(words),
        ..UnregisterBrokerResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;

    #[test]
    fn the_only_broker_stays_and_another_one_is_not_there() {
        let fixture = Fixture::new("");
        for (broker_id, code) in [(1, 42), (2, 102), (-1, 102)] {
            let response = handle(&UnregisterBrokerRequest { broker_id }, &fixture.view());
            assert_eq!(response.error_code, code, "{broker_id}");
            let words = response.error_message.expect("told why");
            assert!(words.starts_with(&format!("Broker ID {broker_id} is ")));
        }
    }
}
