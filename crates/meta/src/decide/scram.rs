//! SCRAM credentials of users: set and deleted (KIP-554).
//!
//! Owns that a user is altered once in a request: one that stands there twice keeps what it has.

use std::collections::BTreeMap;

use security::Secret;
use security::login::scram::{Credential as Keys, Hash, ITERATIONS};
use wire::metadata::{RemoveUserScramCredentialRecord, UserScramCredentialRecord};

use super::RECORDS_MAX;
use crate::image::Image;
use crate::record::Record;
use crate::versions::MetadataVersion;

/// Bytes of a salt: those of a client's dice are some thirty. Each start of a node reads them all.
const SALT_BYTES_MAX: usize = 1024;

/// A change of one user's credential. A mechanism is a number: a request may name one that nobody knows.
pub enum Change {
    Delete {
        user: String,
        mechanism: i8,
    },
    Set {
        user: String,
        mechanism: i8,
        iterations: i32,
        salt: Vec<u8>,
        salted_password: Secret<Vec<u8>>,
    },
}

impl Change {
    /// The user whose credential it is.
    #[must_use]
    pub fn user(&self) -> &str {
        match self {
            Change::Delete { user, .. } | Change::Set { user, .. } => user,
        }
    }
}

/// Why a user's credential stays as it is; the texts are those of Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    #[error("Username must not be empty")]
    NoName,
    #[error("Unknown SCRAM mechanism")]
    UnknownMechanism,
    #[error("Too few iterations")]
    TooFewIterations,
    #[error("Too many iterations")]
    TooManyIterations,
    /// Kafka takes any salt.
    #[error("Too long a salt: {SALT_BYTES_MAX} bytes are enough")]
    Salt,
    #[error("A user credential cannot be altered twice in the same request")]
    Twice,
    #[error("Attempt to delete a user credential that does not exist")]
    Unknown,
    #[error("The current metadata.version does not support SCRAM")]
    NotYet,
    #[error("Unable to perform excessively large batch operation.")]
    TooManyRecords,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alteration {
    pub records: Vec<Record>,
    /// One for each user, in the order of their names.
    pub answers: Vec<(String, Result<(), CredentialError>)>,
}

/// The changes, of which deletions come first in a request, as in Kafka's.
#[must_use]
pub fn alter_credentials(image: &Image, changes: &[Change]) -> Alteration {
    let mut decided: BTreeMap<&str, Result<Record, CredentialError>> = BTreeMap::new();
    for change in changes {
        let user = change.user();
        let decision = match decided.get(user) {
            Some(Err(_)) => continue,
            Some(Ok(_)) => Err(CredentialError::Twice),
            None => decide(image, change),
        };
        decided.insert(user, decision);
    }
    let mut alteration = Alteration::default();
    let is_too_much = RECORDS_MAX < decided.values().filter(|one| one.is_ok()).count();
    for (user, decision) in decided {
        let decision = match decision {
            Ok(_) if is_too_much => Err(CredentialError::TooManyRecords),
            decision => decision,
        };
        let answer = decision.map(|record| alteration.records.push(record));
        alteration.answers.push((user.to_owned(), answer));
    }
    alteration
}

fn decide(image: &Image, change: &Change) -> Result<Record, CredentialError> {
    if image.metadata_version() < MetadataVersion::V3_5_IV2 {
        return Err(CredentialError::NotYet);
    }
    if change.user().is_empty() {
        return Err(CredentialError::NoName);
    }
    match change {
        Change::Delete { user, mechanism } => {
            Hash::numbered(*mechanism).ok_or(CredentialError::UnknownMechanism)?;
            let known = image.credential(*mechanism, user);
            known.ok_or(CredentialError::Unknown)?;
            Ok(Record::from(RemoveUserScramCredentialRecord {
                name: user.clone(),
                mechanism: *mechanism,
            }))
        }
        Change::Set {
            user,
            mechanism,
            iterations,
            salt,
            salted_password,
        } => {
            let hash = Hash::numbered(*mechanism).ok_or(CredentialError::UnknownMechanism)?;
            if *iterations < *ITERATIONS.start() {
                return Err(CredentialError::TooFewIterations);
            }
            if *ITERATIONS.end() < *iterations {
                return Err(CredentialError::TooManyIterations);
            }
            if SALT_BYTES_MAX < salt.len() {
                return Err(CredentialError::Salt);
            }
            let keys = Keys::of_salted(hash, salted_password, salt.clone(), *iterations);
            Ok(Record::from(UserScramCredentialRecord {
                name: user.clone(),
                mechanism: *mechanism,
                salt: keys.salt.into(),
                stored_key: keys.stored_key.expose().clone().into(),
                server_key: keys.server_key.expose().clone().into(),
                iterations: *iterations,
            }))
        }
    }
}

#[cfg(test)]
mod tests {
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

    fn applied(
        image: &mut Image,
        changes: &[Change],
    ) -> Vec<(String, Result<(), CredentialError>)> {
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
            assert_eq!(key.len(), Hash::Sha256.len());
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
        // What else is wrong with bob's second change, and with alice's, counts no more.
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
        let is_refused =
            |(_, answer): &(String, _)| *answer == Err(CredentialError::TooManyRecords);
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
}
