//! The APIs of delegation tokens. A token proves who a connection speaks for, so nobody gets one, or hears of one, over a
//! connection that has not said who it is: on those without authentication each request is refused with the same code.

use wire::ErrorCode;
use wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse, RenewDelegationTokenResponse,
};

/// No time at all.
const NEVER: i64 = -1;
/// From this version on an answer says who asked.
const REQUESTER_VERSION: i16 = 3;
const USER: &str = "User";
const ANONYMOUS: &str = "ANONYMOUS";

#[must_use]
pub(crate) fn create(
    request: &CreateDelegationTokenRequest,
    version: i16,
) -> CreateDelegationTokenResponse {
    let asked = request.owner_principal_name.as_deref();
    let (code, kind, name) = match asked.filter(|name| !name.is_empty()) {
        None => (ErrorCode::DelegationTokenRequestNotAllowed, USER, ANONYMOUS),
        Some(name) => match request.owner_principal_type.as_deref() {
            Some(kind) => (ErrorCode::DelegationTokenRequestNotAllowed, kind, name),
            // As Kafka answers a name without a kind.
            None => (ErrorCode::UnknownServerError, USER, ANONYMOUS),
        },
    };
    let requester = |text: &str| match version {
        REQUESTER_VERSION.. => text.to_owned(),
        _ => String::new(),
    };
    CreateDelegationTokenResponse {
        error_code: code.code(),
        principal_type: kind.to_owned(),
        principal_name: name.to_owned(),
        token_requester_principal_type: requester(USER),
        token_requester_principal_name: requester(ANONYMOUS),
        issue_timestamp_ms: NEVER,
        expiry_timestamp_ms: NEVER,
        max_timestamp_ms: NEVER,
        ..CreateDelegationTokenResponse::default()
    }
}

#[must_use]
pub(crate) fn renew() -> RenewDelegationTokenResponse {
    RenewDelegationTokenResponse {
        error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
        expiry_timestamp_ms: NEVER,
        ..RenewDelegationTokenResponse::default()
    }
}

#[must_use]
pub(crate) fn expire() -> ExpireDelegationTokenResponse {
    ExpireDelegationTokenResponse {
        error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
        expiry_timestamp_ms: NEVER,
        ..ExpireDelegationTokenResponse::default()
    }
}

#[must_use]
pub(crate) fn describe() -> DescribeDelegationTokenResponse {
    DescribeDelegationTokenResponse {
        error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
        ..DescribeDelegationTokenResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use wire::frame::encode_response;
    use wire::{ApiKey, Message};

    use super::*;
    use crate::kafka::api::TABLE;

    fn check<M: Message>(key: ApiKey, response: impl Fn(i16) -> M) {
        let row = TABLE.iter().find(|row| row.key == key).expect("served");
        for version in row.min..=row.max {
            let written = encode_response(key, &response(version), version, 1);
            assert!(written.is_ok(), "{key:?} version {version}");
        }
    }

    #[test]
    fn every_answer_can_be_written_in_every_version_that_is_served() {
        let request = CreateDelegationTokenRequest::default();
        check(ApiKey::CreateDelegationToken, |version| {
            create(&request, version)
        });
        check(ApiKey::RenewDelegationToken, |_| renew());
        check(ApiKey::ExpireDelegationToken, |_| expire());
        check(ApiKey::DescribeDelegationToken, |_| describe());
    }

    #[test]
    fn nobody_gets_a_token_over_a_connection_without_a_name() {
        let of = |kind: Option<&str>, name: Option<&str>| {
            let request = CreateDelegationTokenRequest {
                owner_principal_type: kind.map(str::to_owned),
                owner_principal_name: name.map(str::to_owned),
                ..CreateDelegationTokenRequest::default()
            };
            let told = create(&request, 3);
            (told.error_code, told.principal_type, told.principal_name)
        };
        let owned = |code, kind: &str, name: &str| (code, kind.to_owned(), name.to_owned());
        assert_eq!(of(None, None), owned(64, "User", "ANONYMOUS"));
        assert_eq!(of(Some("User"), Some("")), owned(64, "User", "ANONYMOUS"));
        assert_eq!(of(Some("User"), Some("a")), owned(64, "User", "a"));
        assert_eq!(of(None, Some("a")), owned(-1, "User", "ANONYMOUS"));
        let codes = [
            renew().error_code,
            expire().error_code,
            describe().error_code,
        ];
        assert_eq!(codes, [64; 3]);
        assert_eq!(
            (renew().expiry_timestamp_ms, expire().expiry_timestamp_ms),
            (-1, -1)
        );
    }
}
