//! Passwords that clients set and delete, and who may.

use security::login::scram::Hash;
use wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use wire::messages::create_acls_request::AclCreation;
use wire::messages::{CreateAclsRequest, DescribeUserScramCredentialsRequest};

use super::*;
use crate::event_loop::bench::{Bench, encoded};

const PASSWORD: &[u8] = b"wonderland";
const SALT: &[u8] = b"0123456789abcdef";

fn upsertion(user: &str, hash: Hash, iterations: i32) -> ScramCredentialUpsertion {
    let salted = hash.salted(PASSWORD, SALT, iterations);
    ScramCredentialUpsertion {
        name: user.to_owned(),
        mechanism: hash.number(),
        iterations,
        salt: SALT.to_vec().into(),
        salted_password: salted.expose().clone().into(),
    }
}

fn deletion(user: &str, mechanism: i8) -> ScramCredentialDeletion {
    ScramCredentialDeletion {
        name: user.to_owned(),
        mechanism,
    }
}

fn alter(
    bench: &mut Bench,
    deletions: &[ScramCredentialDeletion],
    upsertions: &[ScramCredentialUpsertion],
) -> Vec<(String, i16, Option<String>)> {
    let request = AlterUserScramCredentialsRequest {
        deletions: deletions.to_vec(),
        upsertions: upsertions.to_vec(),
    };
    bench.put(&encoded(&request, 0));
    bench.commit();
    let answer = bench.answer::<AlterUserScramCredentialsRequest>(0);
    let results = answer.expect("it is durable").results.into_iter();
    results
        .map(|result| (result.user, result.error_code, result.error_message))
        .collect()
}

fn of(user: &str, code: i16, words: Option<&str>) -> (String, i16, Option<String>) {
    (user.to_owned(), code, words.map(str::to_owned))
}

/// True if the broker would let the user in with the password.
fn lets_in(bench: &Bench, user: &str, hash: Hash) -> bool {
    let image = bench.shard.desk.shared.catalog.image();
    let known = image.scram(hash, user);
    known.is_some_and(|known| known.is_of(PASSWORD))
}

#[test]
fn a_password_is_set_without_an_authorizer_and_lets_its_user_in_after_a_restart() {
    let mut bench = Bench::new();
    for hash in Hash::ALL {
        let answer = alter(&mut bench, &[], &[upsertion("alice", hash, 4096)]);
        assert_eq!(answer, [of("alice", 0, None)]);
    }
    let mut bench = bench.restart();
    for hash in Hash::ALL {
        assert!(lets_in(&bench, "alice", hash) && !lets_in(&bench, "bob", hash));
    }
    let request = DescribeUserScramCredentialsRequest::default();
    bench.put(&encoded(&request, 0));
    let told = bench.answer::<DescribeUserScramCredentialsRequest>(0);
    let told = told.expect("an answer at once").results;
    let infos: Vec<i8> = told[0]
        .credential_infos
        .iter()
        .map(|one| one.mechanism)
        .collect();
    assert_eq!(
        (told.len(), &*told[0].user, infos),
        (1, "alice", vec![1, 2])
    );
    let answer = alter(&mut bench, &[deletion("alice", 1)], &[]);
    assert_eq!(answer, [of("alice", 0, None)]);
    assert!(!lets_in(&bench, "alice", Hash::Sha256) && lets_in(&bench, "alice", Hash::Sha512));
}

#[test]
fn each_user_has_an_answer_in_kafka_s_words() {
    let mut bench = Bench::new();
    let unknown = ScramCredentialUpsertion {
        mechanism: 7,
        ..upsertion("mechanism", Hash::Sha256, 4096)
    };
    let answers = alter(
        &mut bench,
        &[deletion("gone", 1), deletion("twice", 9)],
        &[
            upsertion("", Hash::Sha256, 4096),
            upsertion("few", Hash::Sha256, 4095),
            upsertion("many", Hash::Sha512, 16_385),
            unknown,
            upsertion("right", Hash::Sha512, 16_384),
            upsertion("two", Hash::Sha256, 4096),
            upsertion("two", Hash::Sha512, 4096),
        ],
    );
    let twice = "A user credential cannot be altered twice in the same request";
    let expected = [
        of("", 93, Some("Username must not be empty")),
        of("few", 93, Some("Too few iterations")),
        of(
            "gone",
            91,
            Some("Attempt to delete a user credential that does not exist"),
        ),
        of("many", 93, Some("Too many iterations")),
        of("mechanism", 33, Some("Unknown SCRAM mechanism")),
        of("right", 0, None),
        of("twice", 33, Some("Unknown SCRAM mechanism")),
        of("two", 92, Some(twice)),
    ];
    assert_eq!(answers, expected);
    assert!(lets_in(&bench, "right", Hash::Sha512));
    assert!(!lets_in(&bench, "two", Hash::Sha256) && !lets_in(&bench, "two", Hash::Sha512));
}

#[test]
fn the_password_of_a_super_user_is_changed_by_super_users_only() {
    let mut bench = Bench::with(&[
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        ("super.users", "User:root;User:second"),
    ]);
    bench.become_user("root");
    let may_alter = AclCreation {
        resource_type: 4,
        resource_name: "kafka-cluster".to_owned(),
        resource_pattern_type: 3,
        principal: "User:admin".to_owned(),
        host: "*".to_owned(),
        operation: 7,
        permission_type: 3,
    };
    let request = CreateAclsRequest {
        creations: vec![may_alter],
    };
    bench.put(&encoded(&request, 3));
    bench.commit();
    let answer = bench.answer::<CreateAclsRequest>(3).expect("it is durable");
    assert_eq!(answer.results[0].error_code, 0);
    let both = [
        upsertion("root", Hash::Sha256, 4096),
        upsertion("alice", Hash::Sha256, 4096),
    ];
    bench.become_user("bob");
    let closed = ErrorCode::ClusterAuthorizationFailed.code();
    let codes = |answers: Vec<(String, i16, Option<String>)>| {
        let codes = answers.into_iter().map(|(user, code, _)| (user, code));
        codes.collect::<Vec<_>>()
    };
    let told = |root, alice| vec![("alice".to_owned(), alice), ("root".to_owned(), root)];
    assert_eq!(codes(alter(&mut bench, &[], &both)), told(closed, closed));
    bench.become_user("admin");
    let expected = [of("alice", 0, None), of("root", closed, Some(SUPER_USER))];
    assert_eq!(alter(&mut bench, &[], &both), expected);
    assert!(lets_in(&bench, "alice", Hash::Sha256) && !lets_in(&bench, "root", Hash::Sha256));
    bench.become_user("second");
    assert_eq!(codes(alter(&mut bench, &[], &both)), told(0, 0));
    assert!(lets_in(&bench, "root", Hash::Sha256));
    // Nor does anybody else close a super user out, however often it tries.
    bench.become_user("admin");
    let answers = alter(&mut bench, &[deletion("root", 1), deletion("root", 1)], &[]);
    assert_eq!(answers, [of("root", closed, Some(SUPER_USER))]);
    assert!(lets_in(&bench, "root", Hash::Sha256));
}
