//! Durations counted by size, for metrics: many threads add, one reads.
//!
//! The bounds are the same everywhere, so that histograms can be added up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in microseconds, each part of its bucket; one more bucket has what is above.
pub const BOUNDS_MICROS: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS_MICROS.len() + 1],
    sum_nanos: AtomicU64,
}

/// A histogram as it was at one moment, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By bucket; the last has what is above all bounds.
    pub buckets: [u64; BOUNDS_MICROS.len() + 1],
    pub sum_nanos: u64,
}

impl Histogram {
    pub fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    #[must_use]
    pub fn read(&self) -> Counts {
        Counts {
            buckets: std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed)),
            sum_nanos: self.sum_nanos.load(Ordering::Relaxed),
        }
    }
}

impl Counts {
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        for (own, more) in self.buckets.iter_mut().zip(other.buckets) {
            *own += more;
        }
        self.sum_nanos = self.sum_nanos.wrapping_add(other.sum_nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::default();
        for micros in [0, 100, 101, 1_000, 10_000_000, 10_000_001, u64::MAX / 2] {
            histogram.record(Duration::from_micros(micros));
        }
        let mut counts = histogram.read();
        let filled: Vec<_> = (counts.buckets.iter().enumerate())
            .filter(|(_, count)| **count > 0)
            .map(|(at, count)| (at, *count))
            .collect();
        assert_eq!(filled, [(0, 2), (1, 1), (3, 1), (15, 1), (16, 2)]);
        counts += histogram.read();
        assert_eq!(counts.count(), 14);
    }
}
