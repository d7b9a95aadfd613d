//! SCRAM credentials of users: set and deleted (KIP-554).
//!
//! Owns that a user is altered once in a request: one that stands there twice keeps what it has.

use std::collections::BTreeMap;

use security::Secret;
use security::login::scram::{Credential as Keys, Hash, ITERATIONS};
use wire::metadata::{RemoveUserScramCredentialRecord, UserScramCredentialRecord};

use crate::image::{Credential, Image};
use crate::record::Record;

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
    fn user(&self) -> &str {
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
    #[error("A user credential cannot be altered twice in the same request")]
    Twice,
    #[error("Attempt to delete a user credential that does not exist")]
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alteration {
    pub records: Vec<Record>,
    /// One for each user, in the order of their names.
    pub answers: Vec<(String, Result<(), CredentialError>)>,
}

/// Deletions come before the others in a request, as in Kafka's.
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
    for (user, decision) in decided {
        let answer = decision.map(|record| alteration.records.push(record));
        alteration.answers.push((user.to_owned(), answer));
    }
    alteration
}

fn decide(image: &Image, change: &Change) -> Result<Record, CredentialError> {
    if change.user().is_empty() {
        return Err(CredentialError::NoName);
    }
    match change {
        Change::Delete { user, mechanism } => {
            Hash::numbered(*mechanism).ok_or(CredentialError::UnknownMechanism)?;
            let known = image.credential(&Credential::new(*mechanism, user));
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
        let place = crate::image::Place {
            base: model::Offset(0),
            epoch: model::LeaderEpoch(1),
            time: model::Timestamp(0),
        };
        let replayed = image.replay(place, &alteration.records);
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
}
