//! A thing that a request names again is answered once: an answer grows with what there is, and not with how often it is asked for. Clients
//! keep answers by name, so none misses the second one.

use std::collections::HashSet;

pub(crate) fn keep_once(names: &mut Vec<String>) {
    let mut seen = HashSet::with_capacity(names.len());
    names.retain(|name| seen.insert(name.clone()));
}
