//! SaslHandshake and SaslAuthenticate on a connection that takes no SASL: listed, since clients guess the age of a broker by the APIs that
//! it lists, and refused as in Kafka, so that a client that was set up with SASL by mistake learns of it.

use bytes::Bytes;
use wire::ErrorCode;
use wire::messages::{SaslAuthenticateResponse, SaslHandshakeResponse};

#[must_use]
pub(crate) fn handshake() -> SaslHandshakeResponse {
    SaslHandshakeResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        mechanisms: Vec::new(),
    }
}

#[must_use]
pub(crate) fn authenticate() -> SaslAuthenticateResponse {
    SaslAuthenticateResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        error_message: Some(
            "SaslAuthenticate request received after successful authentication".to_owned(),
        ),
        auth_bytes: Bytes::new(),
        session_lifetime_ms: 0,
    }
}

#[cfg(test)]
mod tests {
    use wire::frame::encode_response;
    use wire::{ApiKey, Message};

    use super::*;
    use crate::kafka::api::TABLE;

    fn check<M: Message>(key: ApiKey, response: &M) {
        let row = TABLE.iter().find(|row| row.key == key).expect("served");
        for version in row.min..=row.max {
            let written = encode_response(key, response, version, 1);
            assert!(written.is_ok(), "{key:?} version {version}");
        }
    }

    #[test]
    fn a_client_that_wants_sasl_is_told_that_there_is_none() {
        check(ApiKey::SaslHandshake, &handshake());
        check(ApiKey::SaslAuthenticate, &authenticate());
        let codes = [handshake().error_code, authenticate().error_code];
        assert_eq!(codes, [34; 2]);
        assert!(handshake().mechanisms.is_empty());
    }
}
