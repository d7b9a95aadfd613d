//! Requests about access, tokens, users and quotas.

use bytes::Bytes;
use wire::any::AnyRequest::{
    AlterUserScramCredentials, CreateAcls, CreateDelegationToken, DeleteAcls, DescribeAcls,
    DescribeClientQuotas, DescribeDelegationToken, DescribeUserScramCredentials,
    ExpireDelegationToken, RenewDelegationToken, SaslAuthenticate, SaslHandshake,
};
use wire::messages::*;
use wire::messages::{
    alter_user_scram_credentials_request as passwords, create_acls_request as creating,
    create_delegation_token_request as issuing, delete_acls_request as deleting,
    describe_client_quotas_request as quotas, describe_delegation_token_request as owners,
    describe_user_scram_credentials_request as users,
};

use super::{Cases, names, text};

/// Numbers of kinds, of which the middle ones mean something.
const KINDS: [i8; 6] = [i8::MIN, -1, 0, 2, 99, i8::MAX];

pub(super) fn describe_acls() -> Cases {
    let of = |kind, name: Option<&str>, principal: Option<&str>| {
        DescribeAcls(DescribeAclsRequest {
            resource_type_filter: kind,
            resource_name_filter: name.map(text),
            pattern_type_filter: kind,
            principal_filter: principal.map(text),
            host_filter: principal.map(text),
            operation: kind,
            permission_type: kind,
        })
    };
    let mut cases = vec![
        ("any", of(1, None, None)),
        ("odd names", of(2, Some("a\0"), Some("nobody"))),
    ];
    cases.extend(KINDS.map(|kind| ("a kind", of(kind, None, None))));
    cases
}

pub(super) fn create_acls() -> Cases {
    let creation = |kind, name: &str, principal: &str| creating::AclCreation {
        resource_type: kind,
        resource_name: text(name),
        resource_pattern_type: kind,
        principal: text(principal),
        host: text("*"),
        operation: kind,
        permission_type: kind,
    };
    let of = |creations| CreateAcls(CreateAclsRequest { creations });
    vec![
        ("nothing", of(Vec::new())),
        (
            "odd kinds",
            of(KINDS.map(|kind| creation(kind, "a", "User:a")).to_vec()),
        ),
        (
            "odd names",
            of(names().iter().map(|name| creation(2, name, name)).collect()),
        ),
    ]
}

pub(super) fn delete_acls() -> Cases {
    let filter = |kind, name: Option<String>| deleting::DeleteAclsFilter {
        resource_type_filter: kind,
        resource_name_filter: name.clone(),
        pattern_type_filter: kind,
        principal_filter: name.clone(),
        host_filter: name,
        operation: kind,
        permission_type: kind,
    };
    let of = |filters| DeleteAcls(DeleteAclsRequest { filters });
    vec![
        ("nothing", of(Vec::new())),
        (
            "odd kinds",
            of(KINDS.map(|kind| filter(kind, None)).to_vec()),
        ),
        (
            "odd names",
            of(names()
                .into_iter()
                .map(|name| filter(2, Some(name)))
                .collect()),
        ),
    ]
}

pub(super) fn create_delegation_token() -> Cases {
    let of = |owner: Option<&str>, renewers: &[&str], max_lifetime_ms| {
        let renewer = |name: &&str| issuing::CreatableRenewers {
            principal_type: text(name),
            principal_name: text(name),
        };
        CreateDelegationToken(CreateDelegationTokenRequest {
            owner_principal_type: owner.map(text),
            owner_principal_name: owner.map(text),
            renewers: renewers.iter().map(renewer).collect(),
            max_lifetime_ms,
        })
    };
    vec![
        ("its own", of(None, &[], -1)),
        ("an odd owner", of(Some("\0"), &["", "a/b"], i64::MIN)),
        ("a long life", of(Some(""), &[], i64::MAX)),
    ]
}

pub(super) fn renew_delegation_token() -> Cases {
    let of = |hmac: &'static [u8], renew_period_ms| {
        RenewDelegationToken(RenewDelegationTokenRequest {
            hmac: Bytes::from_static(hmac),
            renew_period_ms,
        })
    };
    vec![
        ("no token", of(b"", -1)),
        ("an unknown token", of(&[0xff; 64], i64::MAX)),
    ]
}

pub(super) fn expire_delegation_token() -> Cases {
    let of = |hmac: &'static [u8], expiry_time_period_ms| {
        ExpireDelegationToken(ExpireDelegationTokenRequest {
            hmac: Bytes::from_static(hmac),
            expiry_time_period_ms,
        })
    };
    vec![
        ("no token", of(b"", -1)),
        ("an unknown token", of(&[0xff; 64], i64::MIN)),
    ]
}

pub(super) fn describe_delegation_token() -> Cases {
    let of = |names: Option<Vec<String>>| {
        let owner = |name: String| owners::DescribeDelegationTokenOwner {
            principal_type: text("User"),
            principal_name: name,
        };
        DescribeDelegationToken(DescribeDelegationTokenRequest {
            owners: names.map(|names| names.into_iter().map(owner).collect()),
        })
    };
    vec![
        ("all", of(None)),
        ("none", of(Some(Vec::new()))),
        ("odd owners", of(Some(names()))),
    ]
}

pub(super) fn sasl_handshake() -> Cases {
    let of = |mechanism| SaslHandshake(SaslHandshakeRequest { mechanism });
    vec![
        ("none", of(String::new())),
        ("one", of(text("PLAIN"))),
        ("an odd one", of(text("\0"))),
    ]
}

pub(super) fn sasl_authenticate() -> Cases {
    let of = |auth_bytes: &'static [u8]| {
        SaslAuthenticate(SaslAuthenticateRequest {
            auth_bytes: Bytes::from_static(auth_bytes),
        })
    };
    vec![
        ("nothing", of(b"")),
        ("a name and a password", of(b"\0user\0password")),
        ("nonsense", of(&[0xff; 64])),
    ]
}

pub(super) fn describe_user_scram_credentials() -> Cases {
    let of = |names: Option<Vec<String>>| {
        let user = |name| users::UserName { name };
        DescribeUserScramCredentials(DescribeUserScramCredentialsRequest {
            users: names.map(|names| names.into_iter().map(user).collect()),
        })
    };
    vec![
        ("all", of(None)),
        ("none", of(Some(Vec::new()))),
        ("odd users", of(Some(names()))),
    ]
}

pub(super) fn alter_user_scram_credentials() -> Cases {
    let deletion = |name: &str, mechanism| passwords::ScramCredentialDeletion {
        name: text(name),
        mechanism,
    };
    let upsertion =
        |name: &str, mechanism, iterations, salt: usize| passwords::ScramCredentialUpsertion {
            name: text(name),
            mechanism,
            iterations,
            salt: vec![7; salt].into(),
            salted_password: Bytes::from_static(b""),
        };
    let of = |deletions, upsertions| {
        AlterUserScramCredentials(AlterUserScramCredentialsRequest {
            deletions,
            upsertions,
        })
    };
    let set = |upsertions| of(Vec::new(), upsertions);
    let rounds = [i32::MIN, -1, 0, 1, 4095, 16_385, 1_000_000_000, i32::MAX];
    vec![
        ("nothing", of(Vec::new(), Vec::new())),
        (
            "odd users",
            set(names()
                .iter()
                .map(|name| upsertion(name, 1, 4096, 8))
                .collect()),
        ),
        (
            "deletions",
            of(
                names().iter().map(|name| deletion(name, 2)).collect(),
                Vec::new(),
            ),
        ),
        (
            "odd mechanisms",
            set(KINDS
                .map(|kind| upsertion(&format!("kind {kind}"), kind, 4096, 8))
                .to_vec()),
        ),
        (
            "odd rounds",
            set(rounds
                .map(|count| upsertion(&format!("of {count}"), 1, count, 8))
                .to_vec()),
        ),
        (
            "odd salts",
            set([0, 1024, 1025]
                .map(|salt| upsertion(&format!("{salt}"), 2, 4096, salt))
                .to_vec()),
        ),
        (
            "both",
            of(
                vec![deletion("user", 1)],
                vec![upsertion("user", 1, 4096, 8)],
            ),
        ),
    ]
}

pub(super) fn describe_client_quotas() -> Cases {
    let component = |entity: &str, match_type, name: Option<&str>| quotas::ComponentData {
        entity_type: text(entity),
        match_type,
        r#match: name.map(text),
    };
    let of = |components, strict| {
        DescribeClientQuotas(DescribeClientQuotasRequest { components, strict })
    };
    let mut cases = vec![
        ("all", of(Vec::new(), true)),
        (
            "a user twice",
            of(
                vec![
                    component("user", 0, Some("a")),
                    component("user", 0, Some("b")),
                ],
                false,
            ),
        ),
        (
            "a user of no name",
            of(vec![component("user", 0, None)], false),
        ),
        (
            "a default of a name",
            of(vec![component("user", 1, Some("a"))], false),
        ),
        (
            "an address that is none",
            of(vec![component("ip", 0, Some("a\0"))], false),
        ),
        (
            "an address and a user",
            of(
                vec![component("ip", 2, None), component("user", 2, None)],
                false,
            ),
        ),
    ];
    cases.extend(
        ["", "none", "USER"].map(|entity| ("a kind", of(vec![component(entity, 2, None)], false))),
    );
    cases.extend(
        [-1, 3, i8::MAX].map(|kind| ("a match", of(vec![component("user", kind, None)], false))),
    );
    cases
}
