//! A map by text that hashes fast, for keys that administrators choose.
//!
//! Nobody without the right to make rules can fill a bucket of it, and who has that right may do worse. Keys that clients choose belong
//! into the map of the standard library.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(super) type Map<V> = HashMap<Box<str>, V, BuildHasherDefault<Mixer>>;

/// Eight bytes a step: multiplied, and folded so that the upper bits reach the lower ones.
#[derive(Clone, Copy, Default)]
pub(super) struct Mixer(u64);

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Mixer {
    fn mix(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word).wrapping_mul(u128::from(ODD));
        self.0 = (wide as u64) ^ ((wide >> 64) as u64) ^ word.rotate_left(32);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // With the length: texts that differ in zero bytes at the end differ.
        self.mix(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn write_u8(&mut self, _end_of_text: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn names_that_look_alike_fall_into_buckets_of_their_own() {
        let hasher = BuildHasherDefault::<Mixer>::default();
        let names = (0..10_000).map(|number| format!("topic-of-team-{number}"));
        let hashes: Vec<u64> = names.map(|name| hasher.hash_one(name.as_str())).collect();
        let distinct = |bits: fn(u64) -> u64| {
            let all: HashSet<u64> = hashes.iter().map(|hash| bits(*hash)).collect();
            all.len()
        };
        assert_eq!(distinct(|hash| hash), 10_000);
        // As many as chance gives, of 16,384 buckets and of 128 marks: 7,500 and all.
        assert!(7_000 < distinct(|hash| hash & 0x3fff));
        assert_eq!(distinct(|hash| hash >> 57), 128);
        assert_ne!(hasher.hash_one("a"), hasher.hash_one("a\0"));
        assert_ne!(hasher.hash_one(""), hasher.hash_one("\0\0\0\0\0\0\0\0"));
    }
}
