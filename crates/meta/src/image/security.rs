//! Quotas, access rules, credentials and tokens: carried as they were written, for others to enforce.

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::metadata::ClientQuotaRecord;

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

impl Image {
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
