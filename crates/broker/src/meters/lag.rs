//! How far groups are behind: in records and in time.
//!
//! Shards publish now and then what their groups have committed; who scrapes holds that against the ends of the partitions. The
//! time of an offset is known from when the high watermark was seen to pass it, so no record is read.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::Instant;

/// Rows that one shard publishes: 64 bytes each, some 1 MiB; groups beyond have no lag here.
pub(crate) const ROWS_MAX: usize = 20_000;
/// Ends remembered of each partition; when there are as many, every second one goes.
const ENDS_MAX: usize = 128;

/// An offset that a group has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) group: Arc<str>,
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// Where a partition begins and ends for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: i64,
    pub(crate) end: i64,
}

/// The lag of a group in a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lag {
    pub(crate) records: i64,
    pub(crate) time: Duration,
}

type Ends = VecDeque<(Instant, i64)>;

/// Ends of partitions as scrapes saw them.
#[derive(Default)]
pub(crate) struct History {
    ends: HashMap<(Arc<str>, i32), Ends>,
}

impl History {
    /// The lag of each group in each topic.
    pub(crate) fn lags(
        &mut self,
        rows: &[Committed],
        extent: impl Fn(&str, i32) -> Option<Extent>,
        now: Instant,
    ) -> BTreeMap<(Arc<str>, Arc<str>), Lag> {
        let mut ends = std::mem::take(&mut self.ends);
        let mut lags: BTreeMap<_, Lag> = BTreeMap::new();
        for row in rows {
            let key = (Arc::clone(&row.topic), row.partition);
            let Some(extent) = extent(&row.topic, row.partition) else {
                continue;
            };
            // The end of a log that no group commits to any more is forgotten.
            let seen = self.ends.entry(key.clone()).or_insert_with(|| {
                let mut seen = ends.remove(&key).unwrap_or_default();
                note(&mut seen, now, extent.end);
                seen
            });
            let next = row.offset.max(extent.start);
            let lag = lags
                .entry((Arc::clone(&row.group), Arc::clone(&row.topic)))
                .or_default();
            if next < extent.end {
                lag.records += extent.end - next;
                lag.time = lag.time.max(since(seen, next, now));
            }
        }
        lags
    }
}

fn note(seen: &mut Ends, now: Instant, end: i64) {
    if seen.len() == ENDS_MAX {
        let mut at = 0;
        seen.retain(|_| {
            at += 1;
            at % 2 == 1
        });
    }
    seen.push_back((now, end));
}

/// Since when there is a record at `next`: from the last time that there was none, or from the first look.
fn since(seen: &Ends, next: i64, now: Instant) -> Duration {
    let before = seen.iter().rev().find(|(_, end)| *end <= next);
    let from = before.or(seen.front()).map_or(now, |(at, _)| *at);
    now.since(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(group: &str, partition: i32, offset: i64) -> Committed {
        Committed {
            group: group.into(),
            topic: "t".into(),
            partition,
            offset,
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant(0).plus(Duration::from_secs(seconds))
    }

    fn lag(history: &mut History, rows: &[Committed], end: i64, now: u64) -> (i64, u64) {
        let extent = |_: &str, partition| (partition < 2).then_some(Extent { start: 3, end });
        let lags = history.lags(rows, extent, at(now));
        let lag = lags.values().next().copied().unwrap_or_default();
        (lag.records, lag.time.as_secs())
    }

    #[test]
    fn a_group_is_as_far_behind_as_the_record_it_reads_next_is_old() {
        let mut history = History::default();
        let rows = [row("g", 0, 10)];
        assert_eq!(lag(&mut history, &rows, 10, 100), (0, 0));
        assert_eq!(lag(&mut history, &rows, 15, 110), (5, 10));
        assert_eq!(lag(&mut history, &rows, 20, 120), (10, 20));
        assert_eq!(lag(&mut history, &[row("g", 0, 15)], 20, 130), (5, 20));
        assert_eq!(lag(&mut history, &[row("g", 0, 20)], 20, 140), (0, 0));
    }

    #[test]
    fn lag_is_never_counted_below_the_log_start_nor_of_partitions_that_are_gone() {
        let mut history = History::default();
        let rows = [row("g", 0, -1), row("g", 1, 9), row("g", 2, 0)];
        assert_eq!(lag(&mut history, &rows, 10, 100), (7 + 1, 0));
        assert_eq!(lag(&mut history, &rows, 10, 160), (7 + 1, 60));
    }

    #[test]
    fn old_ends_are_thinned_out_and_not_forgotten() {
        let mut history = History::default();
        let rows = [row("g", 0, 4)];
        for minute in 0..10_000 {
            lag(&mut history, &rows, 4 + minute, 60 * minute as u64);
        }
        let (_, seconds) = lag(&mut history, &rows, 20_000, 600_000);
        assert_eq!(seconds, 600_000);
        assert!(history.ends.values().all(|seen| seen.len() <= ENDS_MAX));
        lag(&mut history, &[], 1, 600_001);
        assert!(history.ends.is_empty());
    }
}
