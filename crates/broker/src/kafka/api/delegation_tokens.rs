//! The APIs of delegation tokens. A token proves who a connection speaks for, so nobody gets one, or hears of one, over a
//! connection that has not said who it is: on those without authentication each request is refused with the same code. There are
//! no tokens yet, so to others the answers are those of a Kafka without `delegation.token.secret.key`.

use security::authorize::{Kind, Operation};
use security::{ANONYMOUS, Principal, USER};
use wire::ErrorCode;
use wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse, RenewDelegationTokenResponse,
};

use crate::asker::Asker;
use crate::asker::access::Resource;

/// No time at all.
const NEVER: i64 = -1;
/// From this version on an answer says who asked.
const REQUESTER_VERSION: i16 = 3;

#[must_use]
pub(crate) fn create(
    request: &CreateDelegationTokenRequest,
    version: i16,
    asker: &Asker,
) -> CreateDelegationTokenResponse {
    let named = request.owner_principal_name.as_deref();
    let owner = match named.filter(|name| !name.is_empty()) {
        None => asker.principal.clone(),
        Some(name) => match request.owner_principal_type.as_deref() {
            Some(kind) => Principal::new(kind, name),
            // As Kafka answers a name without a kind.
            None => {
                let nobody = Principal::anonymous();
                return created(ErrorCode::UnknownServerError, version, (&nobody, &nobody));
            }
        },
    };
    let code = if owner != asker.principal && is_named(asker) && !may_create_for(asker, &owner) {
        ErrorCode::DelegationTokenAuthorizationFailed
    } else {
        refusal(asker)
    };
    created(code, version, (&owner, &asker.principal))
}

fn created(
    code: ErrorCode,
    version: i16,
    (owner, requester): (&Principal, &Principal),
) -> CreateDelegationTokenResponse {
    let said = |text: &str| match version {
        REQUESTER_VERSION.. => text.to_owned(),
        _ => String::new(),
    };
    let time = never_unless_disabled(code);
    CreateDelegationTokenResponse {
        error_code: code.code(),
        principal_type: owner.kind().to_owned(),
        principal_name: owner.name().to_owned(),
        token_requester_principal_type: said(requester.kind()),
        token_requester_principal_name: said(requester.name()),
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
        expiry_timestamp_ms: never_unless_disabled(code),
        ..RenewDelegationTokenResponse::default()
    }
}

#[must_use]
pub(crate) fn expire(asker: &Asker) -> ExpireDelegationTokenResponse {
    let code = refusal(asker);
    ExpireDelegationTokenResponse {
        error_code: code.code(),
        expiry_timestamp_ms: never_unless_disabled(code),
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
    if is_named(asker) {
        ErrorCode::DelegationTokenAuthDisabled
    } else {
        ErrorCode::DelegationTokenRequestNotAllowed
    }
}

fn is_named(asker: &Asker) -> bool {
    (asker.principal.kind(), asker.principal.name()) != (USER, ANONYMOUS)
}

fn may_create_for(asker: &Asker, owner: &Principal) -> bool {
    let name = owner.to_string();
    let resource = Resource {
        kind: Kind::User,
        name: &name,
    };
    asker.may(Operation::CreateTokens, resource)
}

/// Times of an answer: Kafka's broker refuses with -1, its controller, which knows that there are no tokens, with none set.
fn never_unless_disabled(code: ErrorCode) -> i64 {
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

    fn asker(name: &str) -> Asker {
        let at = ([127, 0, 0, 1], 9092).into();
        Asker {
            principal: Principal::user(name),
            ..Asker::anonymous(at, at)
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
        check(ApiKey::CreateDelegationToken, |version| {
            create(&request, version, &asker("a"))
        });
        check(ApiKey::RenewDelegationToken, |_| renew(&asker("a")));
        check(ApiKey::ExpireDelegationToken, |_| expire(&asker("a")));
        check(ApiKey::DescribeDelegationToken, |_| describe(&asker("a")));
    }

    #[test]
    fn nobody_gets_a_token_over_a_connection_without_a_name() {
        let of = |kind: Option<&str>, name: Option<&str>| {
            let request = CreateDelegationTokenRequest {
                owner_principal_type: kind.map(str::to_owned),
                owner_principal_name: name.map(str::to_owned),
                ..CreateDelegationTokenRequest::default()
            };
            let told = create(&request, 3, &asker(ANONYMOUS));
            (told.error_code, told.principal_type, told.principal_name)
        };
        let owned = |code, kind: &str, name: &str| (code, kind.to_owned(), name.to_owned());
        assert_eq!(of(None, None), owned(64, "User", "ANONYMOUS"));
        assert_eq!(of(Some("User"), Some("")), owned(64, "User", "ANONYMOUS"));
        assert_eq!(of(Some("User"), Some("a")), owned(64, "User", "a"));
        assert_eq!(of(None, Some("a")), owned(-1, "User", "ANONYMOUS"));
        let nobody = asker(ANONYMOUS);
        let (renewed, expired) = (renew(&nobody), expire(&nobody));
        let codes = [
            renewed.error_code,
            expired.error_code,
            describe(&nobody).error_code,
        ];
        assert_eq!(codes, [64; 3]);
        let times = (renewed.expiry_timestamp_ms, expired.expiry_timestamp_ms);
        assert_eq!(times, (-1, -1));
    }

    #[test]
    fn who_is_logged_in_hears_that_there_are_no_tokens() {
        let alice = asker("alice");
        let created = create(&CreateDelegationTokenRequest::default(), 3, &alice);
        assert_eq!((created.error_code, created.issue_timestamp_ms), (61, 0));
        let (owner, requester) = (
            created.principal_name,
            created.token_requester_principal_name,
        );
        assert_eq!((&*owner, &*requester), ("alice", "alice"));
        let codes = [
            renew(&alice).error_code,
            expire(&alice).error_code,
            describe(&alice).error_code,
        ];
        assert_eq!(codes, [61; 3]);
    }

    #[test]
    fn a_token_for_another_needs_the_right_to_make_it() {
        let request = CreateDelegationTokenRequest {
            owner_principal_type: Some(USER.to_owned()),
            owner_principal_name: Some("bob".to_owned()),
            ..CreateDelegationTokenRequest::default()
        };
        let may = |name: &str, authority: Option<Arc<Authority>>| {
            let asker = Asker {
                authority,
                ..asker(name)
            };
            let created = create(&request, 3, &asker);
            (created.error_code, created.issue_timestamp_ms)
        };
        let strict = Arc::new(Authority::new(Rules::new(Default::default(), false)));
        assert_eq!(may("alice", Some(Arc::clone(&strict))), (65, -1));
        assert_eq!(may("bob", Some(strict)), (61, 0));
        assert_eq!(may("alice", None), (61, 0));
    }
}
