//! The APIs of delegation tokens. A token proves who a connection speaks for, so nobody gets one, or hears of one, over a
//! connection that has not said who it is. Who has is told that tokens are not enabled, after the question whether it may ask for another.

use security::Principal;
use security::authorize::{Kind, Operation};
use wire::ErrorCode;
use wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse, RenewDelegationTokenResponse,
};

use crate::asker::Asker;
use crate::asker::access::Resource;

/// No time at all, in the answers of a broker; those of a controller have 0.
const NEVER: i64 = -1;
/// From this version on an answer says who asked.
const REQUESTER_VERSION: i16 = 3;

#[must_use]
pub(crate) fn create(
    request: &CreateDelegationTokenRequest,
    asker: &Asker,
    version: i16,
) -> CreateDelegationTokenResponse {
    let asked = request.owner_principal_name.as_deref();
    let (code, owner) = match asked.filter(|name| !name.is_empty()) {
        None => (refusal(asker), asker.principal.clone()),
        Some(name) => match request.owner_principal_type.as_deref() {
            Some(kind) => {
                let owner = Principal::new(kind, name);
                (refusal_of_another(asker, &owner), owner)
            }
            // As Kafka answers a name without a kind.
            None => (ErrorCode::UnknownServerError, asker.principal.clone()),
        },
    };
    let requester = |text: &str| match version {
        REQUESTER_VERSION.. => text.to_owned(),
        _ => String::new(),
    };
    let time = time_of(code);
    CreateDelegationTokenResponse {
        error_code: code.code(),
        principal_type: owner.kind().to_owned(),
        principal_name: owner.name().to_owned(),
        token_requester_principal_type: requester(asker.principal.kind()),
        token_requester_principal_name: requester(asker.principal.name()),
        issue_timestamp_ms: time,
        expiry_timestamp_ms: time,
        max_timestamp_ms: time,
        ..CreateDelegationTokenResponse::default()
    }
}

#[must_use]
pub(crate) fn renew(asker: &Asker) -> RenewDelegationTokenResponse {
    let code = refusal(asker);
    RenewDelegationTokenResponse {
        error_code: code.code(),
        expiry_timestamp_ms: time_of(code),
        ..RenewDelegationTokenResponse::default()
    }
}

#[must_use]
pub(crate) fn expire(asker: &Asker) -> ExpireDelegationTokenResponse {
    let code = refusal(asker);
    ExpireDelegationTokenResponse {
        error_code: code.code(),
        expiry_timestamp_ms: time_of(code),
        ..ExpireDelegationTokenResponse::default()
    }
}

#[must_use]
pub(crate) fn describe(asker: &Asker) -> DescribeDelegationTokenResponse {
    DescribeDelegationTokenResponse {
        error_code: refusal(asker).code(),
        ..DescribeDelegationTokenResponse::default()
    }
}

fn refusal(asker: &Asker) -> ErrorCode {
    if asker.principal == Principal::anonymous() {
        ErrorCode::DelegationTokenRequestNotAllowed
    } else {
        ErrorCode::DelegationTokenAuthDisabled
    }
}

fn refusal_of_another(asker: &Asker, owner: &Principal) -> ErrorCode {
    let code = refusal(asker);
    let user = Resource {
        kind: Kind::User,
        name: &owner.to_string(),
    };
    let is_known = code == ErrorCode::DelegationTokenAuthDisabled;
    if is_known && *owner != asker.principal && !asker.may(Operation::CreateTokens, user) {
        return ErrorCode::DelegationTokenAuthorizationFailed;
    }
    code
}

/// Kafka's controller says that tokens are not enabled, all else its broker.
fn time_of(code: ErrorCode) -> i64 {
    match code {
        ErrorCode::DelegationTokenAuthDisabled => 0,
        _ => NEVER,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use security::authorize::Rules;
    use wire::frame::encode_response;
    use wire::{ApiKey, Message};

    use super::*;
    use crate::asker::Authority;
    use crate::kafka::api::TABLE;

    fn asker(principal: Principal) -> Asker {
        let nowhere = ([127, 0, 0, 1], 0).into();
        Asker {
            principal,
            ..Asker::anonymous(nowhere, nowhere)
        }
    }

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
        let nobody = asker(Principal::anonymous());
        check(ApiKey::CreateDelegationToken, |version| {
            create(&request, &nobody, version)
        });
        check(ApiKey::RenewDelegationToken, |_| renew(&nobody));
        check(ApiKey::ExpireDelegationToken, |_| expire(&nobody));
        check(ApiKey::DescribeDelegationToken, |_| describe(&nobody));
    }

    #[test]
    fn nobody_gets_a_token_over_a_connection_without_a_name() {
        let nobody = asker(Principal::anonymous());
        let of = |kind: Option<&str>, name: Option<&str>| {
            let request = CreateDelegationTokenRequest {
                owner_principal_type: kind.map(str::to_owned),
                owner_principal_name: name.map(str::to_owned),
                ..CreateDelegationTokenRequest::default()
            };
            let told = create(&request, &nobody, 3);
            (told.error_code, told.principal_type, told.principal_name)
        };
        let owned = |code, kind: &str, name: &str| (code, kind.to_owned(), name.to_owned());
        assert_eq!(of(None, None), owned(64, "User", "ANONYMOUS"));
        assert_eq!(of(Some("User"), Some("")), owned(64, "User", "ANONYMOUS"));
        assert_eq!(of(Some("User"), Some("a")), owned(64, "User", "a"));
        assert_eq!(of(None, Some("a")), owned(-1, "User", "ANONYMOUS"));
        let codes = [
            renew(&nobody).error_code,
            expire(&nobody).error_code,
            describe(&nobody).error_code,
        ];
        assert_eq!(codes, [64; 3]);
        assert_eq!(
            (
                renew(&nobody).expiry_timestamp_ms,
                expire(&nobody).expiry_timestamp_ms
            ),
            (-1, -1)
        );
    }

    #[test]
    fn who_has_logged_in_is_told_that_tokens_are_not_enabled() {
        let alice = asker(Principal::user("alice"));
        let known = [
            renew(&alice).error_code,
            expire(&alice).error_code,
            describe(&alice).error_code,
        ];
        assert_eq!(known, [61; 3]);
        let of = |asker: &Asker, owner: &str| {
            let request = CreateDelegationTokenRequest {
                owner_principal_type: Some("User".to_owned()),
                owner_principal_name: Some(owner.to_owned()),
                ..CreateDelegationTokenRequest::default()
            };
            let told = create(&request, asker, 3);
            let requester = told.token_requester_principal_name;
            (told.error_code, told.principal_name, requester)
        };
        let told = |code, owner: &str| (code, owner.to_owned(), "alice".to_owned());
        assert_eq!(of(&alice, ""), told(61, "alice"));
        assert_eq!(of(&alice, "bob"), told(61, "bob"));
        // Nobody may ask in another's name where rules are asked, and there are none.
        let restricted = Asker {
            authority: Some(Arc::new(Authority::new(Rules::default()))),
            ..alice
        };
        assert_eq!(of(&restricted, "alice"), told(61, "alice"));
        assert_eq!(of(&restricted, "bob"), told(65, "bob"));
    }
}
