//! Credentials that are set and deleted, and what each user is told.

use super::*;

fn set(user: &str, mechanism: i8, iterations: i32) -> Change {
    Change::Set {
        user: user.to_owned(),
        mechanism,
        iterations,
        salt: b"salt".to_vec(),
        salted_password: Secret::new(vec![7; 32]),
    }
}

const PASSWORD: &[u8] = b"secret";

fn delete(user: &str, mechanism: i8) -> Change {
    Change::Delete {
        user: user.to_owned(),
        mechanism,
    }
}

fn applied(image: &mut Image, changes: &[Change]) -> Vec<(String, Result<(), CredentialError>)> {
    let alteration = alter_credentials(image, changes);
    let replayed = image.replay(image.next_place(), &alteration.records);
    replayed.expect("it was decided on this image");
    alteration.answers
}

#[test]
fn a_user_has_a_credential_for_each_mechanism_until_it_is_deleted() {
    let mut image = Image::default();
    let done = || vec![("alice".to_owned(), Ok(()))];
    assert_eq!(applied(&mut image, &[set("alice", 1, 4096)]), done());
    assert_eq!(applied(&mut image, &[set("alice", 2, 16_384)]), done());
    assert_eq!(image.credentials().count(), 2);
    assert_eq!(applied(&mut image, &[delete("alice", 1)]), done());
    let unknown = vec![("alice".to_owned(), Err(CredentialError::Unknown))];
    assert_eq!(applied(&mut image, &[delete("alice", 1)]), unknown);
    assert_eq!(image.credentials().count(), 1);
}

#[test]
fn what_is_wrong_with_one_user_does_not_hold_up_another() {
    let mut image = Image::default();
    let changes = [
        set("", 1, 4096),
        set("few", 1, 4095),
        set("many", 1, 16_385),
        set("mechanism", 3, 4096),
        set("twice", 1, 4096),
        set("twice", 2, 4096),
        set("well", 2, 4096),
    ];
    let answers = applied(&mut image, &changes);
    let expected = [
        ("", Err(CredentialError::NoName)),
        ("few", Err(CredentialError::TooFewIterations)),
        ("many", Err(CredentialError::TooManyIterations)),
        ("mechanism", Err(CredentialError::UnknownMechanism)),
        ("twice", Err(CredentialError::Twice)),
        ("well", Ok(())),
    ];
    let expected = expected.map(|(user, answer)| (user.to_owned(), answer));
    assert_eq!(answers, expected);
    assert_eq!(image.credentials().count(), 1);
}

#[test]
fn the_salted_password_of_a_client_is_what_its_login_is_checked_with() {
    let mut image = Image::default();
    for (hash, other) in [(Hash::Sha256, Hash::Sha512), (Hash::Sha512, Hash::Sha256)] {
        let change = Change::Set {
            user: "alice".to_owned(),
            mechanism: hash.number(),
            iterations: 5000,
            salt: b"salt".to_vec(),
            salted_password: hash.salted(PASSWORD, b"salt", 5000),
        };
        assert!(image.scram(hash, "alice").is_none());
        assert_eq!(applied(&mut image, &[change])[0].1, Ok(()));
        let known = image.scram(hash, "alice").expect("it was set");
        assert_eq!((known.hash, known.iterations), (hash, 5000));
        assert!(known.is_of(PASSWORD) && !known.is_of(b"Secret"));
        assert!(image.scram(hash, "alic").is_none());
        applied(&mut image, &[delete("alice", hash.number())]);
        assert!(image.scram(other, "alice").is_none());
    }
}

#[test]
fn a_password_is_kept_in_no_form_that_lets_anybody_log_in() {
    let salted = Hash::Sha256.salted(PASSWORD, b"salt", 4096);
    let change = Change::Set {
        user: "alice".to_owned(),
        mechanism: 1,
        iterations: 4096,
        salt: b"salt".to_vec(),
        salted_password: salted.clone(),
    };
    let records = alter_credentials(&Image::default(), &[change]).records;
    let Record::UserScramCredential(record) = &records[0] else {
        panic!("a credential");
    };
    for key in [&record.stored_key, &record.server_key] {
        assert_eq!(key.len(), 32);
        assert!(!salted.is(key));
    }
    // Nor does a line of a log, or of a test that fails, show what is kept.
    let shown = format!("{:?}", records[0]);
    assert!(shown.contains("alice") && shown.contains("4096"), "{shown}");
    for key in [&record.salt, &record.stored_key, &record.server_key] {
        assert!(!shown.contains(&format!("{key:?}")), "{shown}");
    }
}

#[test]
fn deletions_count_before_what_is_set() {
    let mut image = Image::default();
    applied(&mut image, &[set("alice", 1, 4096), set("bob", 1, 4096)]);
    let twice = |user: &str| (user.to_owned(), Err(CredentialError::Twice));
    let changes = [
        delete("alice", 1),
        delete("bob", 1),
        delete("bob", 2),
        set("alice", 2, 1),
    ];
    // Other faults of bob's second change, and of alice's, count no more.
    assert_eq!(
        applied(&mut image, &changes),
        [twice("alice"), twice("bob")]
    );
    assert_eq!(image.credentials().count(), 2);
    let unknown = [("carol".to_owned(), Err(CredentialError::Unknown))];
    let changes = [delete("carol", 1), set("carol", 1, 4096)];
    assert_eq!(applied(&mut image, &changes), unknown);
    let mechanism = [("bob".to_owned(), Err(CredentialError::UnknownMechanism))];
    assert_eq!(applied(&mut image, &[delete("bob", 0)]), mechanism);
}

#[test]
fn a_salt_that_every_start_would_have_to_read_is_refused() {
    let of = |bytes| Change::Set {
        user: "alice".to_owned(),
        mechanism: 1,
        iterations: 4096,
        salt: vec![7; bytes],
        salted_password: Secret::new(vec![7; 32]),
    };
    let answer = |bytes| applied(&mut Image::default(), &[of(bytes)])[0].1;
    assert_eq!(answer(SALT_BYTES_MAX), Ok(()));
    assert_eq!(answer(SALT_BYTES_MAX + 1), Err(CredentialError::Salt));
}

#[test]
fn a_request_for_too_many_users_changes_none_of_them() {
    let set = |number: usize| set(&format!("user {number:05}"), 1, 4096);
    let mut changes: Vec<Change> = (0..RECORDS_MAX).map(set).collect();
    let most = alter_credentials(&Image::default(), &changes);
    assert_eq!(most.records.len(), RECORDS_MAX);
    changes.push(set(RECORDS_MAX));
    let none = alter_credentials(&Image::default(), &changes);
    assert_eq!(
        (none.records.len(), none.answers.len()),
        (0, RECORDS_MAX + 1)
    );
    let is_refused = |(_, answer): &(String, _)| *answer == Err(CredentialError::TooManyRecords);
    assert!(none.answers.iter().all(is_refused));
}

#[test]
fn clusters_that_older_nodes_are_part_of_have_no_credentials() {
    let mut image = Image::default();
    let level = wire::metadata::FeatureLevelRecord {
        name: crate::versions::METADATA_VERSION.to_owned(),
        feature_level: MetadataVersion::V3_5_IV2.level() - 1,
    };
    image
        .replay(image.next_place(), &[level.into()])
        .expect("a level");
    let changes = [set("", 1, 4096)];
    let answers = applied(&mut image, &changes);
    assert_eq!(answers, [(String::new(), Err(CredentialError::NotYet))]);
}
