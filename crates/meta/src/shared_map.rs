//! An ordered map whose clones share everything that did not change.
//!
//! Owns the shape: keys rise within a chunk and from chunk to chunk, and each chunk is behind an `Arc`. A change copies one chunk
//! and the list of chunks. Two maps are compared by passing over the chunks that they share, so a comparison costs what changed
//! and one pointer for each chunk, of which 100,000 keys have some 3,000.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Entries of a chunk: a change copies so many at most.
const CHUNK_MAX: usize = 64;
/// Two neighbours with so many entries together become one, so that removals leave no trail of small chunks.
const MERGED_MAX: usize = CHUNK_MAX / 2;

type Chunk<K, V> = Arc<Vec<(K, V)>>;

#[derive(Clone)]
pub struct SharedMap<K, V> {
    /// None is empty.
    chunks: Arc<Vec<Chunk<K, V>>>,
    len: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> SharedMap<K, V> {
        SharedMap {
            chunks: Arc::default(),
            len: 0,
        }
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (at, index) = self.find(key)?;
        self.chunks.get(at)?.get(index).map(|(_, value)| value)
    }

    pub(crate) fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_some()
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (at, index) = self.find(key)?;
        let chunk = Arc::make_mut(Arc::make_mut(&mut self.chunks).get_mut(at)?);
        chunk.get_mut(index).map(|(_, value)| value)
    }

    /// The value that was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let at = self.chunk_of(&key);
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(chunk) = chunks.get_mut(at) else {
            chunks.push(Arc::new(vec![(key, value)]));
            self.len += 1;
            return None;
        };
        let chunk = Arc::make_mut(chunk);
        match chunk.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(index) => Some(std::mem::replace(&mut chunk[index].1, value)),
            Err(index) => {
                chunk.insert(index, (key, value));
                self.len += 1;
                if CHUNK_MAX < chunk.len() {
                    let upper = chunk.split_off(chunk.len() / 2);
                    chunks.insert(at + 1, Arc::new(upper));
                }
                None
            }
        }
    }

    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (at, index) = self.find(key)?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(&mut chunks[at]);
        let (_, value) = chunk.remove(index);
        self.len -= 1;
        if chunk.is_empty() {
            chunks.remove(at);
        } else {
            merge(chunks, at);
            if let Some(before) = at.checked_sub(1) {
                merge(chunks, before);
            }
        }
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let entries = self.chunks.iter().flat_map(|chunk| chunk.iter());
        entries.map(|(key, value)| (key, value))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Entries from `key` on, its own included.
    pub(crate) fn from<'a, Q: Ord + ?Sized>(
        &'a self,
        key: &Q,
    ) -> impl Iterator<Item = (&'a K, &'a V)> + use<'a, K, V, Q>
    where
        K: Borrow<Q>,
    {
        let at = self.chunk_of(key);
        let skipped = self.chunks.get(at).map_or(0, |chunk| {
            chunk.partition_point(|(known, _)| known.borrow() < key)
        });
        let chunks = self.chunks.get(at..).unwrap_or_default();
        let entries = chunks.iter().flat_map(|chunk| chunk.iter());
        entries.skip(skipped).map(|(key, value)| (key, value))
    }

    /// The chunk that has `key`, or would have it.
    fn chunk_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let begins_at_or_before = |chunk: &Chunk<K, V>| {
            let first = chunk.first();
            first.is_some_and(|(first, _)| first.borrow() <= key)
        };
        let behind = self.chunks.partition_point(begins_at_or_before);
        behind.saturating_sub(1)
    }

    /// Its chunk and its place there.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(usize, usize)>
    where
        K: Borrow<Q>,
    {
        let at = self.chunk_of(key);
        let chunk = self.chunks.get(at)?;
        let index = chunk.binary_search_by(|(known, _)| known.borrow().cmp(key));
        Some((at, index.ok()?))
    }
}

/// Makes the chunk at `at` one with the next, if they are small.
fn merge<K: Clone, V: Clone>(chunks: &mut Vec<Chunk<K, V>>, at: usize) {
    if let Some(next) = chunks.get(at + 1)
        && chunks[at].len() + next.len() <= MERGED_MAX
    {
        let next = chunks.remove(at + 1);
        Arc::make_mut(&mut chunks[at]).extend(next.iter().cloned());
    }
}

/// A key whose values differ; at least one of them is there.
pub struct Change<'a, K, V> {
    pub key: &'a K,
    pub old: Option<&'a V>,
    pub new: Option<&'a V>,
}

impl<K: Ord, V: PartialEq> SharedMap<K, V> {
    /// The differences of `new` from this map, in the order of the keys.
    pub fn changes<'a>(&'a self, new: &'a SharedMap<K, V>) -> Changes<'a, K, V> {
        let cursor = |map: &'a SharedMap<K, V>| Cursor {
            chunks: &map.chunks,
            index: 0,
        };
        Changes {
            old: cursor(self),
            new: cursor(new),
        }
    }
}

struct Cursor<'a, K, V> {
    chunks: &'a [Chunk<K, V>],
    /// In the first of them.
    index: usize,
}

impl<'a, K, V> Cursor<'a, K, V> {
    fn head(&self) -> Option<&'a (K, V)> {
        self.chunks.first()?.get(self.index)
    }

    fn advance(&mut self) {
        self.index += 1;
        if let Some((chunk, rest)) = self.chunks.split_first()
            && chunk.len() <= self.index
        {
            (self.chunks, self.index) = (rest, 0);
        }
    }

    /// Passes over the chunks that both are about to begin.
    fn skip_shared(&mut self, other: &mut Cursor<'a, K, V>) {
        while self.index == 0
            && other.index == 0
            && let (Some((own, rest)), Some((theirs, others))) =
                (self.chunks.split_first(), other.chunks.split_first())
            && Arc::ptr_eq(own, theirs)
        {
            (self.chunks, other.chunks) = (rest, others);
        }
    }
}

pub struct Changes<'a, K, V> {
    old: Cursor<'a, K, V>,
    new: Cursor<'a, K, V>,
}

impl<'a, K: Ord, V: PartialEq> Iterator for Changes<'a, K, V> {
    type Item = Change<'a, K, V>;

    fn next(&mut self) -> Option<Change<'a, K, V>> {
        loop {
            self.old.skip_shared(&mut self.new);
            let (old, new) = (self.old.head(), self.new.head());
            let order = match (old, new) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            let old = old.filter(|_| order != Ordering::Greater);
            let new = new.filter(|_| order != Ordering::Less);
            if old.is_some() {
                self.old.advance();
            }
            if new.is_some() {
                self.new.advance();
            }
            let (key, _) = old.or(new)?;
            let (old, new) = (old.map(|(_, value)| value), new.map(|(_, value)| value));
            if old != new {
                return Some(Change { key, old, new });
            }
        }
    }
}

impl<K: Ord, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &SharedMap<K, V>) -> bool {
        self.len == other.len && self.changes(other).next().is_none()
    }
}

impl<K: Ord, V: Eq> Eq for SharedMap<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.chunks.iter().flat_map(|chunk| chunk.iter());
        f.debug_map()
            .entries(entries.map(|(key, value)| (key, value)))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Step = (u16, Option<u8>);

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Few keys for many removals, many for several chunks.
        let key = prop_oneof![0..40u16, 0..600u16];
        proptest::collection::vec((key, proptest::option::weighted(0.6, any::<u8>())), 0..900)
    }

    fn apply(map: &mut SharedMap<u16, u8>, model: &mut BTreeMap<u16, u8>, steps: &[Step]) {
        for (key, value) in steps {
            match value {
                Some(value) => assert_eq!(map.insert(*key, *value), model.insert(*key, *value)),
                None => assert_eq!(map.remove(key), model.remove(key)),
            }
            assert_eq!(map.len(), model.len());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_map_equals_the_ordered_map_of_the_library(steps in steps(), from in 0..620u16) {
            let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
            apply(&mut map, &mut model, &steps);
            prop_assert!(map.iter().eq(model.iter()));
            prop_assert!(map.from(&from).eq(model.range(from..)));
            for key in 0..600 {
                prop_assert_eq!(map.get(&key), model.get(&key));
                prop_assert_eq!(map.contains(&key), model.contains_key(&key));
            }
            let small = |pair: &[Chunk<u16, u8>]| pair[0].len() + pair[1].len() <= MERGED_MAX;
            prop_assert!(!map.chunks.windows(2).any(small), "{:?}", map.chunks);
            prop_assert!(map.chunks.iter().all(|chunk| (1..=CHUNK_MAX).contains(&chunk.len())));
        }

        #[test]
        fn changes_are_what_a_walk_over_both_finds(before in steps(), after in steps()) {
            let (mut old, mut model) = (SharedMap::default(), BTreeMap::new());
            apply(&mut old, &mut model, &before);
            let (mut new, old_model) = (old.clone(), model.clone());
            apply(&mut new, &mut model, &after);
            prop_assert!(old.iter().eq(old_model.iter()), "a clone keeps what it had");
            let changes: Vec<_> = (old.changes(&new))
                .map(|change| (*change.key, change.old.copied(), change.new.copied()))
                .collect();
            let differs = |key: &u16| old_model.get(key) != model.get(key);
            let expected: Vec<_> = ((0..600).filter(differs))
                .map(|key| (key, old_model.get(&key).copied(), model.get(&key).copied()))
                .collect();
            prop_assert_eq!(old == new, expected.is_empty());
            prop_assert_eq!(changes, expected);
        }
    }

    #[test]
    fn one_change_copies_one_chunk_of_many() {
        let mut old: SharedMap<u32, u32> = SharedMap::default();
        for key in 0..10_000 {
            old.insert(key, key);
        }
        let mut new = old.clone();
        new.insert(5_000, 0);
        let copied = (old.chunks.iter())
            .zip(new.chunks.iter())
            .filter(|(old, new)| !Arc::ptr_eq(old, new))
            .count();
        assert_eq!((copied, old.chunks.len()), (1, new.chunks.len()));
    }
}
