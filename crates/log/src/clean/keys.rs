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

/// Bytes of a map that few keys have been put into. It stays in a processor's caches, and one of full size does not: every key would
/// wait for memory twice in a pass.
const SMALL_BYTES: u64 = 8 << 20;
/// The share of slots up to which they are found quickly.
const LOAD: f64 = 0.7;

pub struct KeyMap {
    seed: [u64; 2],
    slots: Vec<Slot>,
    len: usize,
    len_max: usize,
    /// Slots and keys of the map that takes the place of this one when it is full.
    larger: Option<(usize, usize)>,
    latest: Option<Offset>,
}

/// Hash, and offset plus one; 0 there is a free slot.
type Slot = [u64; 3];

/// The map has no room for a further key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl KeyMap {
    /// A map for at most `keys_max` keys within `bytes_max`, of which a share of `load` may fill.
    #[must_use]
    pub fn new(seed: [u64; 2], keys_max: u64, bytes_max: u64, load: f64) -> KeyMap {
        let load = load.clamp(0.1, 0.95);
        let wanted = (keys_max as f64 / load.min(LOAD)).ceil() as u64;
        let small = SMALL_BYTES / ENTRY_BYTES;
        // While the small one is emptied into the other, both are there.
        let room = bytes_max / ENTRY_BYTES;
        let grows = small < wanted && 2 * small < room;
        let slots = if grows {
            wanted.min(room - small)
        } else {
            wanted.min(room)
        };
        let slots = usize::try_from(slots.max(SLOTS_MIN)).unwrap_or(usize::MAX / 24);
        let keys = |slots: usize, load: f64| ((slots as f64 * load) as usize).max(1);
        let (first, first_load) = if grows {
            (small as usize, load.min(LOAD))
        } else {
            (slots, load)
        };
        KeyMap {
            seed,
            slots: vec![[0; 3]; first],
            len: 0,
            len_max: keys(first, first_load),
            larger: grows.then(|| (slots, keys(slots, load))),
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
        let [low, high] = sip128::<1, 3>(self.seed, key);
        let mut at = slot_of(&self.slots, [low, high]);
        if self.slots[at][2] == 0 {
            if self.len >= self.len_max {
                self.grow()?;
                at = slot_of(&self.slots, [low, high]);
            }
            self.len += 1;
        }
        self.slots[at] = [low, high, offset.0 as u64 + 1];
        self.latest = self.latest.max(Some(offset));
        Ok(())
    }

    fn grow(&mut self) -> Result<(), Full> {
        let (slots, len_max) = self.larger.take().ok_or(Full)?;
        let small = std::mem::replace(&mut self.slots, vec![[0; 3]; slots]);
        for entry in small.into_iter().filter(|slot| slot[2] != 0) {
            let at = slot_of(&self.slots, [entry[0], entry[1]]);
            self.slots[at] = entry;
        }
        self.len_max = len_max;
        Ok(())
    }

    /// The newest offset of `key`, if it was put.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Offset> {
        let at = slot_of(&self.slots, sip128::<1, 3>(self.seed, key));
        let offset = self.slots[at][2].checked_sub(1)?;
        Some(Offset(offset as i64))
    }
}

/// Where the hash is, or the free slot where it would be. There is always one: the load is below 1.
fn slot_of(slots: &[Slot], hash: [u64; 2]) -> usize {
    let count = slots.len();
    // The high bits of a product spread over any number of slots.
    let mut at = ((u128::from(hash[0]) * count as u128) >> 64) as usize;
    loop {
        let slot = &slots[at];
        if slot[2] == 0 || (slot[0] == hash[0] && slot[1] == hash[1]) {
            return at;
        }
        at += 1;
        if at == count {
            at = 0;
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
    fn a_map_that_outgrows_the_caches_keeps_what_it_has_and_its_bound() {
        let bytes_max = 3 * SMALL_BYTES;
        let mut map = KeyMap::new([5, 6], u64::MAX, bytes_max, 0.9);
        let small = map.slots.len();
        let mut count = 0_i64;
        while map.put(&count.to_le_bytes(), Offset(count)).is_ok() {
            count += 1;
        }
        let large = map.slots.len();
        assert!((small + large) as u64 * ENTRY_BYTES <= bytes_max);
        assert_eq!(map.len(), (large as f64 * 0.9) as usize);
        for key in (0..count).step_by(997) {
            assert_eq!(map.get(&key.to_le_bytes()), Some(Offset(key)));
        }
        assert_eq!(map.get(&count.to_le_bytes()), None);
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
