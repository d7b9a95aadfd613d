//! A map by ids that the broker itself gave out.
//!
//! Every event and every answer looks its connection up. Nobody outside chooses these ids, so none are made to collide, and a
//! multiplication spreads them; the hash of the standard library, which withstands chosen keys, is dearer than the rest of a look-up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type ById<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Odd, and its bits are spread: neighbours get far from each other, and no two ids become one.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write_u64(&mut self, id: u64) {
        // The table takes its place from the low bits: what the high ones say goes there too.
        let spread = (self.0 ^ id).wrapping_mul(FACTOR);
        self.0 = spread ^ (spread >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    use env::ConnId;

    use super::*;

    /// A slot in the low half, and how often it was used in the high half.
    #[test]
    fn ids_of_connections_are_spread() {
        let build = BuildHasherDefault::<IdHasher>::default();
        for ids in [
            (0..1024).collect::<Vec<u64>>(),
            (0..1024).map(|uses| uses << 32).collect(),
            (0..1024).map(|id| (id % 32) | ((id / 32) << 32)).collect(),
        ] {
            let hashes = ids.iter().map(|id| build.hash_one(ConnId(*id)));
            let hashes: Vec<u64> = hashes.collect();
            // By chance 647 of 1024 places are taken.
            let places: BTreeSet<u64> = hashes.iter().map(|hash| hash % 1024).collect();
            assert!(600 < places.len(), "{} places", places.len());
            let tags: BTreeSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            assert!(100 < tags.len(), "{} tags", tags.len());
        }
    }
}
