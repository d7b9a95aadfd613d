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

/// Credentials that are set and deleted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alteration {
    /// One for each of them.
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
mod tests;
