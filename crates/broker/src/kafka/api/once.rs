//! What a request names again is told of once: an answer grows with what there is, and not with how often it is asked for. Clients
//! keep answers by name, so none misses the second one.

use std::collections::HashSet;
use std::hash::Hash;

/// Keeps the first of those with the same key.
pub(crate) fn keep_once<T, K: Eq + Hash>(asked: &mut Vec<T>, key: impl Fn(&T) -> K) {
    let mut seen = HashSet::with_capacity(asked.len());
    asked.retain(|one| seen.insert(key(one)));
}
