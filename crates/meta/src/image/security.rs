//! Quotas, access rules, credentials and tokens: carried as they were written, for others to enforce.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use ::security::Secret;
use ::security::login::scram;
use wire::metadata::{ClientQuotaRecord, UserScramCredentialRecord};

use super::Image;

/// A client that quotas hold for: a name for each of `user`, `client-id`, `ip`, or `None` for all without one of their own.
pub type Entity = BTreeMap<String, Option<String>>;

/// Limits by their key, such as `producer_byte_rate`.
pub type Quotas = BTreeMap<String, f64>;

/// A user's credential of one SCRAM mechanism, by its number in the protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credential {
    pub mechanism: i8,
    pub user: Arc<str>,
}

impl Credential {
    #[must_use]
    pub fn new(mechanism: i8, user: &str) -> Credential {
        Credential {
            mechanism,
            user: user.into(),
        }
    }
}

/// The parts of a [`Credential`], wherever the name lies: nobody copies a name to look one up.
trait Named {
    fn parts(&self) -> (i8, &str);
}

impl Named for Credential {
    fn parts(&self) -> (i8, &str) {
        (self.mechanism, &self.user)
    }
}

impl Named for (i8, &str) {
    fn parts(&self) -> (i8, &str) {
        *self
    }
}

impl<'a> Borrow<dyn Named + 'a> for Credential {
    fn borrow(&self) -> &(dyn Named + 'a) {
        self
    }
}

impl PartialEq for dyn Named + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Named + '_ {}

impl PartialOrd for dyn Named + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Named + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl Image {
    /// The record of a user's credential.
    #[must_use]
    pub fn credential(&self, mechanism: i8, user: &str) -> Option<&UserScramCredentialRecord> {
        let named: &dyn Named = &(mechanism, user);
        self.credentials.get(named).map(Arc::as_ref)
    }

    /// The credential that a login checks a user with.
    #[must_use]
    pub fn scram(&self, hash: scram::Hash, user: &str) -> Option<scram::Credential> {
        let record = self.credential(hash.number(), user)?;
        Some(scram::Credential {
            hash,
            salt: record.salt.to_vec(),
            iterations: record.iterations,
            stored_key: Secret::new(record.stored_key.to_vec()),
            server_key: Secret::new(record.server_key.to_vec()),
        })
    }

    pub(super) fn on_client_quota(&mut self, record: &ClientQuotaRecord) {
        let parts = record.entity.iter();
        let entity: Entity = parts
            .map(|part| (part.entity_type.clone(), part.entity_name.clone()))
            .collect();
        if record.remove {
            let Some(quotas) = self.quotas.get_mut(&entity).map(Arc::make_mut) else {
                return;
            };
            quotas.remove(&record.key);
            if quotas.is_empty() {
                self.quotas.remove(&entity);
            }
            return;
        }
        match self.quotas.get_mut(&entity).map(Arc::make_mut) {
            Some(quotas) => drop(quotas.insert(record.key.clone(), record.value)),
            None => {
                let quotas = Quotas::from([(record.key.clone(), record.value)]);
                self.quotas.insert(entity, Arc::new(quotas));
            }
        }
    }
}
