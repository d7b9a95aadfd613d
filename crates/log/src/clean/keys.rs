//! The newest offset of each key in a range of a log, in memory of fixed size.
//!
//! Holds 128 bits of a keyed hash instead of the key, so an entry takes 24 bytes whatever the key; two keys of one log share a
//! hash about never (n²/2¹²⁹), and who does not know the seed cannot make them. Full means full: the caller stops there and
//! cleans what he has; nothing is evicted.

use model::Offset;

/// Bytes of one entry: the hash and the offset.
pub const ENTRY_BYTES: u64 = 24;
/// A map below this would find no room for the keys of one batch.
const SLOTS_MIN: u64 = 64;

pub struct KeyMap {
    seed: [u64; 2],
    /// Hash, and offset plus one; 0 there is a free slot.
    slots: Vec<[u64; 3]>,
    len: usize,
    len_max: usize,
    latest: Option<Offset>,
}

/// The map has no room for a further key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl KeyMap {
    /// A map for at most `keys_max` keys within `bytes_max`, of which a share of `load` may fill.
    #[must_use]
    pub fn new(seed: [u64; 2], keys_max: u64, bytes_max: u64, load: f64) -> KeyMap {
        let load = load.clamp(0.1, 0.95);
        let wanted = (keys_max as f64 / load.min(0.7)).ceil() as u64;
        let slots = wanted.min(bytes_max / ENTRY_BYTES).max(SLOTS_MIN);
        KeyMap {
            seed,
            slots: vec![[0; 3]; usize::try_from(slots).unwrap_or(usize::MAX / 24)],
            len: 0,
            len_max: ((slots as f64 * load) as usize).max(1),
            latest: None,
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The last offset that the map knows of: records above it say nothing to it.
    #[must_use]
    pub fn latest(&self) -> Option<Offset> {
        self.latest
    }

    /// Everything up to `offset` was seen, also where there is no key.
    pub fn reach(&mut self, offset: Offset) {
        self.latest = self.latest.max(Some(offset));
    }

    /// `key` has a record at `offset`, above all that were put before.
    pub fn put(&mut self, key: &[u8], offset: Offset) -> Result<(), Full> {
        let hash = sip128::<1, 3>(self.seed, key);
        let at = self.slot(hash);
        let Some(slot) = self.slots.get_mut(at) else {
            return Err(Full);
        };
        if slot[2] == 0 {
            if self.len >= self.len_max {
                return Err(Full);
            }
            self.len += 1;
        }
        *slot = [hash[0], hash[1], offset.0 as u64 + 1];
        self.latest = self.latest.max(Some(offset));
        Ok(())
    }

    /// The newest offset of `key`, if it was put.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Offset> {
        let at = self.slot(sip128::<1, 3>(self.seed, key));
        let slot = self.slots.get(at)?;
        slot[2].checked_sub(1).map(|offset| Offset(offset as i64))
    }

    /// Where the hash is, or the free slot where it would be. There is always one: the load is below 1.
    fn slot(&self, hash: [u64; 2]) -> usize {
        let count = self.slots.len();
        // The high bits of a product spread over any number of slots.
        let mut at = ((u128::from(hash[0]) * count as u128) >> 64) as usize;
        loop {
            let slot = &self.slots[at];
            if slot[2] == 0 || (slot[0] == hash[0] && slot[1] == hash[1]) {
                return at;
            }
            at += 1;
            if at == count {
                at = 0;
            }
        }
    }
}

/// SipHash with 128 bits of output, `C` rounds per word and `D` at each end.
fn sip128<const C: usize, const D: usize>(seed: [u64; 2], bytes: &[u8]) -> [u64; 2] {
    let mut v = [
        seed[0] ^ 0x736f_6d65_7073_6575,
        seed[1] ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        seed[0] ^ 0x6c79_6765_6e65_7261,
        seed[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    let mut absorb = |word: u64| {
        v[3] ^= word;
        rounds::<C>(&mut v);
        v[0] ^= word;
    };
    for word in words {
        absorb(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    absorb(u64::from_le_bytes(last));
    v[2] ^= 0xee;
    rounds::<D>(&mut v);
    let low = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    rounds::<D>(&mut v);
    [low, v[0] ^ v[1] ^ v[2] ^ v[3]]
}

#[inline]
fn rounds<const N: usize>(v: &mut [u64; 4]) {
    for _ in 0..N {
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn hashes_are_those_of_the_reference() {
        let seed = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let hash = |bytes: &[u8]| {
            let [low, high] = sip128::<2, 4>(seed, bytes);
            [low.to_le_bytes(), high.to_le_bytes()].concat()
        };
        assert_eq!(
            hash(&[]),
            [
                0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55,
                0x02, 0x93
            ]
        );
        assert_eq!(
            hash(&[0]),
            [
                0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22,
                0xfc, 0x45
            ]
        );
    }

    #[test]
    fn the_map_holds_what_a_hash_map_holds() {
        let mut map = KeyMap::new([1, 2], 1000, 1 << 20, 0.9);
        let mut model = HashMap::new();
        for offset in 0..5000i64 {
            let key = format!("key {}", (offset * 7919) % 613);
            assert_eq!(map.put(key.as_bytes(), Offset(offset)), Ok(()));
            model.insert(key, Offset(offset));
        }
        assert_eq!(map.len(), model.len());
        assert_eq!(map.latest(), Some(Offset(4999)));
        for (key, offset) in &model {
            assert_eq!(map.get(key.as_bytes()), Some(*offset));
        }
        assert_eq!(map.get(b"never put"), None);
    }

    #[test]
    fn a_full_map_takes_known_keys_only() {
        let mut map = KeyMap::new([3, 4], u64::MAX, 100 * ENTRY_BYTES, 0.5);
        let mut offset = 0;
        while map
            .put(format!("{offset}").as_bytes(), Offset(offset))
            .is_ok()
        {
            offset += 1;
        }
        assert_eq!((offset, map.len()), (50, 50), "half of its slots");
        assert_eq!(map.put(b"0", Offset(offset)), Ok(()));
        assert_eq!(map.get(b"0"), Some(Offset(offset)));
        assert_eq!(map.put(b"another", Offset(offset + 1)), Err(Full));
        assert_eq!(map.latest(), Some(Offset(offset)));
    }
}
