//! Seeded chance: the only source of randomness of a simulated machine.
//!
//! Invariant: the same seed gives the same numbers for ever, on every platform. Not fit for secrets.

/// SplitMix64: one addition and a mix per number, and any seed is a good one.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    #[must_use]
    pub fn new(seed: u64) -> Chance {
        Chance { state: seed }
    }

    /// An independent stream, so that drawing from one does not move the other.
    #[must_use]
    pub fn split(&mut self) -> Chance {
        Chance {
            state: self.next_u64() ^ 0x6a09_e667_f3bc_c909,
        }
    }

    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number in `0..bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True once in `times` on average; never for 0.
    pub fn one_in(&mut self, times: u64) -> bool {
        times != 0 && self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

/// Spreads every bit of `value` over the result.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Answers the questions of a crash: what survived.
pub trait Chooser {
    /// One of `0..options`, `options >= 1`; by convention 0 is the oldest state and the last the newest.
    fn choose(&mut self, options: u32) -> u32;

    /// Which of the eight sectors of a written page reached the disk, as a bit mask; all ones is a whole page.
    fn tear(&mut self) -> u8;
}

/// A power cut as it may happen: biased per cut, so that some cuts lose nearly all and some nearly nothing.
pub(crate) struct Cut<'a> {
    chance: &'a mut Chance,
    /// Of 16 choices, how many take the newest and how many the oldest state; the rest take any.
    newest: u64,
    oldest: u64,
    tear_one_in: u64,
}

impl<'a> Cut<'a> {
    pub(crate) fn new(chance: &'a mut Chance) -> Cut<'a> {
        let newest = chance.between(0, 16);
        let oldest = chance.between(0, 16 - newest);
        let tear_one_in = *chance.pick(&[0, 2, 8]);
        Cut {
            chance,
            newest,
            oldest,
            tear_one_in,
        }
    }
}

impl Chooser for Cut<'_> {
    fn choose(&mut self, options: u32) -> u32 {
        let draw = self.chance.below(16);
        if draw < self.newest {
            options - 1
        } else if draw < self.newest + self.oldest {
            0
        } else {
            self.chance.below(u64::from(options)) as u32
        }
    }

    fn tear(&mut self) -> u8 {
        if self.chance.one_in(self.tear_one_in) {
            self.chance.next_u64() as u8
        } else {
            u8::MAX
        }
    }
}
