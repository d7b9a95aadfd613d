//! Latencies in buckets: powers of two, each cut into 128 equal parts, so that a value is off by less than 0.8 %.
//!
//! Counts only grow; the smallest and largest value are kept exactly. 58 powers of 128 counts of 8 bytes are 58 KiB.

use std::time::Duration;

use serde::Serialize;

const PARTS_BITS: u32 = 7;
const PARTS: u64 = 1 << PARTS_BITS;
/// Characters of a line that stands for all values.
const LINE_WIDTH: f64 = 50.0;

#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

/// The figures of a histogram that a report shows, in milliseconds.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) min: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram {
            counts: vec![0; slot(u64::MAX) + 1],
            total: 0,
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }

    /// Adds `count` values of the same length.
    pub(crate) fn add(&mut self, value: Duration, count: u64) {
        if count == 0 {
            return;
        }
        let ns = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.counts[slot(ns)] += count;
        self.total += count;
        self.sum_ns += u128::from(ns) * u128::from(count);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// A value that `share` (0 to 1) of the values do not exceed; zero when empty.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let rank = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (slot, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && rank <= seen {
                return Duration::from_nanos(slot_end(slot).min(self.max_ns));
            }
        }
        Duration::ZERO
    }

    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        if self.total == 0 {
            return None;
        }
        let ms = |share: f64| self.quantile(share).as_secs_f64() * 1e3;
        Some(Percentiles {
            count: self.total,
            mean: self.sum_ns as f64 / self.total as f64 / 1e6,
            min: self.min_ns as f64 / 1e6,
            p50: ms(0.5),
            p90: ms(0.9),
            p99: ms(0.99),
            p999: ms(0.999),
            max: self.max_ns as f64 / 1e6,
        })
    }

    /// Upper end in milliseconds and count of every bucket that holds something.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let end = |slot| slot_end(slot).min(self.max_ns) as f64 / 1e6;
        let counts = self.counts.iter().copied().enumerate();
        let held = counts.filter(|(_, count)| *count > 0);
        held.map(|(slot, count)| (end(slot), count)).collect()
    }

    /// Lines for people: buckets that end at 1, 2 and 5 of every power of ten, from the first that holds something to the last.
    pub(crate) fn lines(&self) -> Vec<String> {
        let ends = (0..19).flat_map(|power| [1, 2, 5].map(|n| n * 10u64.pow(power)));
        let ends: Vec<u64> = ends.chain([u64::MAX]).collect();
        let mut counts = vec![0u64; ends.len()];
        for (slot, count) in self.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let value = slot_end(slot).min(self.max_ns);
            counts[ends.partition_point(|end| *end < value)] += count;
        }
        let (Some(first), Some(last)) = (
            counts.iter().position(|count| *count > 0),
            counts.iter().rposition(|count| *count > 0),
        ) else {
            return Vec::new();
        };
        let line = |(end, count): (&u64, &u64)| {
            let share = *count as f64 / self.total as f64;
            let bar = "#".repeat((share * LINE_WIDTH).ceil() as usize);
            let line = format!(
                "<= {:>9} ms {count:>12} {:>7.3} % {bar}",
                *end as f64 / 1e6,
                share * 100.0
            );
            line.trim_end().to_owned()
        };
        ends.iter()
            .zip(&counts)
            .take(last + 1)
            .skip(first)
            .map(line)
            .collect()
    }

    /// Upper end in milliseconds and share of values beyond it, for every bucket that holds something.
    pub(crate) fn tail(&self) -> Vec<(f64, f64)> {
        let mut seen = 0;
        let mut tail = Vec::new();
        for (slot, count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            seen += count;
            let end = slot_end(slot).min(self.max_ns) as f64 / 1e6;
            tail.push((end, (self.total - seen) as f64 / self.total as f64));
        }
        tail
    }
}

/// Values below `PARTS` have a slot each; above, the leading `PARTS_BITS + 1` bits choose it.
fn slot(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let power = ns.ilog2() - PARTS_BITS;
    ((u64::from(power) + 1) * PARTS + ((ns >> power) - PARTS)) as usize
}

/// Largest value of a slot.
fn slot_end(slot: usize) -> u64 {
    let slot = slot as u64;
    if slot < PARTS {
        return slot;
    }
    let power = slot / PARTS - 1;
    let start = (slot % PARTS + PARTS) << power;
    start + ((1 << power) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_each_other_without_gap_or_overlap() {
        for index in 0..slot(u64::MAX) {
            assert_eq!(slot(slot_end(index)), index);
            assert_eq!(slot(slot_end(index) + 1), index + 1);
        }
        assert_eq!(slot_end(slot(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut histogram = Histogram::new();
        for us in 1..=100_000u64 {
            histogram.add(Duration::from_micros(us), 1);
        }
        for (share, us) in [
            (0.5, 50_000.0),
            (0.9, 90_000.0),
            (0.99, 99_000.0),
            (0.999, 99_900.0),
            (1.0, 100_000.0),
        ] {
            let got = histogram.quantile(share).as_secs_f64() * 1e6;
            assert!(
                (got - us).abs() / us < 0.01,
                "{share}: {got} instead of {us}"
            );
        }
        let shown = histogram.percentiles().unwrap();
        assert_eq!((shown.count, shown.max, shown.min), (100_000, 100.0, 0.001));
        assert!((shown.mean - 50.0005).abs() < 1e-6);
    }

    #[test]
    fn merging_equals_adding_to_one() {
        let (mut left, mut right, mut both) =
            (Histogram::new(), Histogram::new(), Histogram::new());
        for i in 0..1000u64 {
            let value = Duration::from_nanos(i * i * 37);
            if i % 3 == 0 {
                left.add(value, i)
            } else {
                right.add(value, i)
            }
            both.add(value, i);
        }
        left.merge(&right);
        assert_eq!(left.percentiles(), both.percentiles());
        assert_eq!(left.counts, both.counts);
    }

    #[test]
    fn buckets_and_lines_hold_every_value_once() {
        let mut histogram = Histogram::new();
        for us in [3u64, 3, 40, 41, 1999, 2000] {
            histogram.add(Duration::from_micros(us), 5);
        }
        let total: u64 = histogram.buckets().iter().map(|(_, count)| count).sum();
        assert_eq!(total, 30);
        assert_eq!(histogram.buckets().last().unwrap().0, 2.0);
        let lines = histogram.lines();
        assert_eq!(lines.len(), 9, "0.005 ms to 2 ms: {lines:#?}");
        assert!(lines[0].starts_with("<=     0.005 ms           10  33.333 % #"));
        assert!(lines[8].starts_with("<=         2 ms           10  33.333 % #"));
        assert_eq!(Histogram::new().lines(), Vec::<String>::new());
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles() {
        let mut histogram = Histogram::new();
        histogram.add(Duration::from_secs(1), 0);
        assert_eq!(histogram.percentiles(), None);
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn the_tail_falls_to_zero() {
        let mut histogram = Histogram::new();
        histogram.add(Duration::from_millis(1), 3);
        histogram.add(Duration::from_millis(9), 1);
        assert_eq!(
            histogram
                .tail()
                .iter()
                .map(|(_, share)| *share)
                .collect::<Vec<_>>(),
            [0.25, 0.0]
        );
    }
}
