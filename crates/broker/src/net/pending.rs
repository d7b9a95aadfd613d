//! Requests that wait: for a commit, for more to read, for a deadline.
//!
//! A slab with generations: keys of requests that were answered long ago are recognised and ignored.

use model::WaiterKey;

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Keys name a place in the slab, and which of its uses is meant.
pub(crate) struct Pending<T> {
    places: Vec<Slot<T>>,
    free: Vec<u32>,
}

fn key(slot: u32, generation: u32) -> WaiterKey {
    WaiterKey(u64::from(slot) << 32 | u64::from(generation))
}

// Each cast takes the bits that `key` put there.
fn slot(key: WaiterKey) -> usize {
    (key.0 >> 32) as usize
}

fn generation(key: WaiterKey) -> u32 {
    key.0 as u32
}

impl<T> Pending<T> {
    pub(crate) fn new() -> Pending<T> {
        Pending {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The key that the next `insert` will give.
    pub(crate) fn next_key(&mut self) -> WaiterKey {
        let slot = match self.free.last() {
            Some(slot) => *slot,
            None => {
                self.places.push(Slot {
                    generation: 0,
                    value: None,
                });
                let slot = self.places.len() as u32 - 1;
                self.free.push(slot);
                slot
            }
        };
        key(slot, self.places[slot as usize].generation)
    }

    pub(crate) fn insert(&mut self, value: T) -> WaiterKey {
        let key = self.next_key();
        self.free.pop();
        self.places[slot(key)].value = Some(value);
        key
    }

    pub(crate) fn get_mut(&mut self, key: WaiterKey) -> Option<&mut T> {
        let place = self.places.get_mut(slot(key))?;
        if place.generation == generation(key) {
            place.value.as_mut()
        } else {
            None
        }
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places
            .iter_mut()
            .filter_map(|place| place.value.as_mut())
    }

    pub(crate) fn contains(&self, key: WaiterKey) -> bool {
        let place = self.places.get(slot(key));
        place.is_some_and(|place| place.generation == generation(key) && place.value.is_some())
    }

    pub(crate) fn remove(&mut self, key: WaiterKey) -> Option<T> {
        let place = self.places.get_mut(slot(key))?;
        if place.generation != generation(key) {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot(key) as u32);
        Some(value)
    }

    /// Keys of the requests that `wanted` accepts.
    pub(crate) fn keys(&self, wanted: impl Fn(&T) -> bool) -> Vec<WaiterKey> {
        self.places
            .iter()
            .enumerate()
            .filter(|(_, place)| place.value.as_ref().is_some_and(&wanted))
            .map(|(slot, place)| key(slot as u32, place.generation))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_an_earlier_use_of_a_place_names_nothing() {
        let mut pending = Pending::new();
        let (first, other) = (pending.insert('a'), pending.insert('b'));
        assert_eq!(pending.remove(first), Some('a'));
        let second = pending.next_key();
        assert_eq!(pending.insert('c'), second);
        assert_ne!(first, second, "the place is the same, its use is not");
        assert!(!pending.contains(first) && pending.contains(second));
        assert_eq!(pending.remove(first), None);
        assert_eq!(pending.get_mut(first), None);
        assert_eq!(pending.get_mut(second), Some(&mut 'c'));
        let mut keys = pending.keys(|_| true);
        keys.sort_unstable();
        assert_eq!((keys, pending.len()), (vec![second, other], 2));
        assert_eq!(
            pending.remove(WaiterKey(u64::MAX)),
            None,
            "it is no key of ours"
        );
    }
}
