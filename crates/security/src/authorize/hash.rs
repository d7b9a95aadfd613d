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
        // With the length: texts that differ in zero bytes at the end differ.
        self.mix(tail(rest) ^ ((bytes.len() as u64) << 56));
    }

    fn write_u8(&mut self, _end_of_text: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Up to seven bytes as a number, by two reads that may overlap: a copy of a length that is not known would be a call.
fn tail(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let [first, last] = [first, last].map(|half| u64::from(u32::from_le_bytes(*half)));
        return first | (last << 24);
    }
    match *bytes {
        [] => 0,
        [one] => u64::from(one),
        [one, two] => u64::from(one) | (u64::from(two) << 8),
        [one, two, three, ..] => u64::from(one) | (u64::from(two) << 8) | (u64::from(three) << 16),
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
        // Each byte counts, wherever it stands.
        for length in 1..20 {
            let whole = vec![b'a'; length];
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            for at in 0..length {
                let mut other = whole.clone();
                other[at] = b'b';
                let (whole, other) = (text(&whole), text(&other));
                assert_ne!(
                    hasher.hash_one(&*whole),
                    hasher.hash_one(&*other),
                    "{other}"
                );
            }
        }
        assert_ne!(hasher.hash_one(""), hasher.hash_one("\0\0\0\0\0\0\0\0"));
    }
}
