//! Requests that wait: for a commit, for more to read, for a deadline.
//!
//! A slab with generations: keys of requests that were answered long ago are recognised and ignored.

use env::ConnId;
use partition::{ShardId, WaiterKey};

use super::connection::SlotNumber;

/// Where the answer goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) conn: ConnId,
    pub(crate) slot: SlotNumber,
    pub(crate) correlation_id: i32,
    pub(crate) version: i16,
}

impl Address {
    /// Of what waits without a request: connections are numbered from the other end.
    pub(crate) fn nobody() -> Address {
        Address {
            conn: ConnId(u64::MAX),
            slot: 0,
            correlation_id: 0,
            version: 0,
        }
    }
}

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

pub(crate) struct Pending<T> {
    shard: ShardId,
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Pending<T> {
    pub(crate) fn new(shard: ShardId) -> Pending<T> {
        Pending {
            shard,
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The key that the next `insert` will give.
    pub(crate) fn next_key(&mut self) -> WaiterKey {
        let slot = match self.free.last() {
            Some(slot) => *slot,
            None => {
                self.places.push(Place {
                    generation: 0,
                    value: None,
                });
                let slot = self.places.len() as u32 - 1;
                self.free.push(slot);
                slot
            }
        };
        WaiterKey {
            shard: self.shard,
            slot,
            generation: self.places[slot as usize].generation,
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> WaiterKey {
        let key = self.next_key();
        self.free.pop();
        self.places[key.slot as usize].value = Some(value);
        key
    }

    pub(crate) fn get_mut(&mut self, key: WaiterKey) -> Option<&mut T> {
        let place = self.places.get_mut(key.slot as usize)?;
        if place.generation == key.generation {
            place.value.as_mut()
        } else {
            None
        }
    }

    pub(crate) fn contains(&self, key: WaiterKey) -> bool {
        let place = self.places.get(key.slot as usize);
        place.is_some_and(|place| place.generation == key.generation && place.value.is_some())
    }

    pub(crate) fn remove(&mut self, key: WaiterKey) -> Option<T> {
        let place = self.places.get_mut(key.slot as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.slot);
        Some(value)
    }

    /// Keys of the requests that `wanted` accepts.
    pub(crate) fn keys(&self, wanted: impl Fn(&T) -> bool) -> Vec<WaiterKey> {
        self.places
            .iter()
            .enumerate()
            .filter(|(_, place)| place.value.as_ref().is_some_and(&wanted))
            .map(|(slot, place)| WaiterKey {
                shard: self.shard,
                slot: slot as u32,
                generation: place.generation,
            })
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
