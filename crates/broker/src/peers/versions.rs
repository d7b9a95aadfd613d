//! Versions of the protocol: the newest that this node speaks, and those that both ends of a link know.

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::ApiKey;
use wire::messages::ApiVersionsResponse;

/// The newest versions that a node lists, takes and sends, where it is to be like an older build. The default is a node of this build.
#[derive(Clone, Debug, Default)]
pub struct Ceilings(Arc<BTreeMap<ApiKey, i16>>);

impl Ceilings {
    pub fn new(newest: impl IntoIterator<Item = (ApiKey, i16)>) -> Ceilings {
        Ceilings(Arc::new(newest.into_iter().collect()))
    }

    /// The newest version of an API that is served up to `max`.
    #[must_use]
    pub(crate) fn newest(&self, key: ApiKey, max: i16) -> i16 {
        self.0.get(&key).map_or(max, |ceiling| max.min(*ceiling))
    }
}

/// The versions of each API that both ends of a link know.
#[derive(Debug, Default)]
pub(super) struct Versions(BTreeMap<ApiKey, (i16, i16)>);

impl Versions {
    /// The one request of a link that asks for no versions first.
    pub(super) fn of_probe() -> Versions {
        Versions(BTreeMap::from([(ApiKey::ApiVersions, (0, 0))]))
    }

    pub(super) fn common(theirs: &ApiVersionsResponse, ours: &Ceilings) -> Versions {
        let both = theirs.api_keys.iter().filter_map(|row| {
            let key = ApiKey::from_key(row.api_key)?;
            let low = row.min_version.max(key.min_version());
            let newest = ours.newest(key, key.max_version_stable());
            let high = row.max_version.min(newest);
            (low <= high).then_some((key, (low, high)))
        });
        Versions(both.collect())
    }

    /// The newest version up to `max` that both ends know.
    pub(super) fn newest(&self, key: ApiKey, max: i16) -> Option<i16> {
        let (low, high) = self.0.get(&key)?;
        Some(max.min(*high)).filter(|newest| low <= newest)
    }
}
