//! Which partition a record goes to: by its key as Kafka's own producer does, or in turns without one.
//!
//! Invariant: a key maps to the partition that the Java client would choose, so that both can write one topic.

/// Kafka's `murmur2` over the key bytes.
#[must_use]
pub fn murmur2(data: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    for (i, byte) in tail.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * i);
    }
    if !tail.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    (hash ^ hash >> 15) as i32
}

/// Partition of a key among `count` (at least one) partitions.
#[must_use]
pub fn of_key(key: &[u8], count: i32) -> i32 {
    assert!(count > 0, "a topic has at least one partition");
    (murmur2(key) & i32::MAX) % count
}

/// Keyless records fill one partition's batch, then move on: large batches, and all partitions in turn.
#[derive(Clone, Debug)]
pub struct Sticky {
    /// Batches so far, from a start of chance.
    turn: u64,
}

impl Sticky {
    /// `start` is any number; different producers should start at different partitions.
    #[must_use]
    pub fn new(start: u64) -> Sticky {
        Sticky { turn: start >> 1 }
    }

    #[must_use]
    pub fn current(&self, count: i32) -> i32 {
        assert!(count > 0, "a topic has at least one partition");
        (self.turn % count as u64) as i32
    }

    /// The batch of the current partition is full.
    pub fn move_on(&mut self) {
        self.turn += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_equal_those_of_the_java_client() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()), hash, "{key}");
        }
    }

    #[test]
    fn partitions_are_never_negative() {
        for i in 0..10_000u32 {
            let partition = of_key(&i.to_le_bytes(), 7);
            assert!((0..7).contains(&partition));
        }
    }

    #[test]
    fn sticky_visits_every_partition_in_turn() {
        let mut sticky = Sticky::new(u64::MAX);
        let visited: Vec<i32> = std::iter::repeat_with(|| (sticky.current(3), sticky.move_on()).0)
            .take(6)
            .collect();
        let first = visited[0];
        assert_eq!(
            visited,
            [
                first,
                (first + 1) % 3,
                (first + 2) % 3,
                first,
                (first + 1) % 3,
                (first + 2) % 3
            ]
        );
    }
}
