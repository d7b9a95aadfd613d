//! Which log is compacted next, and how far: the decisions, by what is known of its segments.
//!
//! Only whole segments below the active one are compacted, of which everything is stable (below the high watermark and any
//! open transaction), durable in a checkpoint, and older than `min.compaction.lag.ms`. Reads nothing itself.

use model::{Offset, Timestamp};

use crate::config::LogConfig;

/// The facts about a segment that a decision needs.
#[derive(Clone, Copy, Debug)]
pub struct SegmentFacts {
    pub base: Offset,
    pub bytes: u64,
    /// Asked for only where a lag is set.
    pub first_time: Option<Timestamp>,
    pub max_time: Option<Timestamp>,
}

/// A log as it stands. The active segment is the last.
#[derive(Clone, Debug)]
pub struct LogFacts {
    pub segments: Vec<SegmentFacts>,
    pub local_start: Offset,
    pub log_end: Offset,
    /// Nothing at or above may be compacted, whatever the segments are.
    pub limit: Offset,
    /// Up to where the last pass came.
    pub clean_end: Option<Offset>,
}

/// A log that is worth a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub first_dirty: Offset,
    /// End of the segments that the pass may touch.
    pub upto: Offset,
    /// Bytes not yet compacted, as a share of those that would be read.
    pub dirty_ratio: f64,
}

/// The first offset that no pass has seen.
#[must_use]
pub fn first_dirty(facts: &LogFacts) -> Offset {
    match facts.clean_end {
        // A log that was cut or begun anew is all dirty.
        Some(clean) if facts.local_start <= clean && clean <= facts.log_end => clean,
        Some(_) | None => facts.local_start,
    }
}

/// True if a pass over this log is due, by its ratio or by `max.compaction.lag.ms`.
#[must_use]
pub fn judge(facts: &LogFacts, config: &LogConfig, now: Timestamp) -> Option<Candidate> {
    if !config.cleanup_policy.compact {
        return None;
    }
    let first_dirty = first_dirty(facts);
    let (active, sealed) = facts.segments.split_last()?;
    let end_of = |at: usize| sealed.get(at + 1).unwrap_or(active).base;
    let min_lag = config.min_compaction_lag_ms.max(0);
    let is_young = |segment: &SegmentFacts| {
        min_lag > 0
            && segment
                .max_time
                .is_none_or(|max| max.0 > now.0.saturating_sub(min_lag))
    };
    let count = (0..sealed.len())
        .take_while(|at| {
            let is_dirty = first_dirty < end_of(*at);
            end_of(*at) <= facts.limit && !(is_dirty && is_young(&sealed[*at]))
        })
        .count();
    let upto = count.checked_sub(1).map(end_of)?;
    let touched = sealed.get(..count)?;
    let bytes = |is_dirty: bool| -> u64 {
        touched
            .iter()
            .enumerate()
            .filter(|(at, _)| (first_dirty < end_of(*at)) == is_dirty)
            .map(|(_, segment)| segment.bytes)
            .sum()
    };
    let (clean, dirty) = (bytes(false), bytes(true));
    if dirty == 0 || upto <= first_dirty {
        return None;
    }
    let dirty_ratio = dirty as f64 / (clean + dirty) as f64;
    let oldest = touched
        .iter()
        .enumerate()
        .filter(|(at, _)| first_dirty < end_of(*at))
        .filter_map(|(_, segment)| segment.first_time)
        .filter(|time| time.0 > 0)
        .min();
    let max_lag = config.max_compaction_lag_ms.max(0);
    let is_overdue = oldest.is_some_and(|oldest| oldest.0 < now.0.saturating_sub(max_lag));
    let is_due = is_overdue || dirty_ratio > config.min_cleanable_dirty_ratio;
    is_due.then_some(Candidate {
        first_dirty,
        upto,
        dirty_ratio,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Cleanup;

    /// Segments of ten offsets; `bytes` each, the last one active.
    fn facts(bytes: &[u64]) -> LogFacts {
        let segments = bytes.iter().enumerate().map(|(at, bytes)| SegmentFacts {
            base: Offset(at as i64 * 10),
            bytes: *bytes,
            first_time: Some(Timestamp(1000 + at as i64 * 100)),
            max_time: Some(Timestamp(1099 + at as i64 * 100)),
        });
        let end = Offset(bytes.len() as i64 * 10);
        LogFacts {
            segments: segments.collect(),
            local_start: Offset(0),
            log_end: end,
            limit: end,
            clean_end: None,
        }
    }

    fn compacted() -> LogConfig {
        LogConfig {
            cleanup_policy: Cleanup {
                delete: false,
                compact: true,
            },
            ..LogConfig::default()
        }
    }

    fn range(facts: &LogFacts, config: &LogConfig, now: i64) -> Option<(i64, i64)> {
        judge(facts, config, Timestamp(now)).map(|of| (of.first_dirty.0, of.upto.0))
    }

    #[test]
    fn the_active_segment_and_what_is_unstable_stay_out() {
        let mut log = facts(&[100, 100, 100, 100]);
        assert_eq!(range(&log, &compacted(), 0), Some((0, 30)));
        log.limit = Offset(29);
        assert_eq!(
            range(&log, &compacted(), 0),
            Some((0, 20)),
            "whole segments"
        );
        log.limit = Offset(9);
        assert_eq!(range(&log, &compacted(), 0), None);
        assert_eq!(range(&facts(&[100]), &compacted(), 0), None);
        assert_eq!(range(&facts(&[100, 100]), &LogConfig::default(), 0), None);
    }

    #[test]
    fn a_log_is_due_when_more_than_its_ratio_is_dirty() {
        let mut log = facts(&[100, 100, 100, 100]);
        log.clean_end = Some(Offset(10));
        let of = judge(&log, &compacted(), Timestamp(0)).expect("two thirds are dirty");
        assert_eq!((of.first_dirty, of.upto), (Offset(10), Offset(30)));
        assert!((of.dirty_ratio - 2.0 / 3.0).abs() < 1e-9);
        log.clean_end = Some(Offset(20));
        assert_eq!(range(&log, &compacted(), 0), None, "a third only");
        log.clean_end = Some(Offset(30));
        let always = LogConfig {
            min_cleanable_dirty_ratio: 0.0,
            ..compacted()
        };
        assert_eq!(range(&log, &always, 0), None, "nothing is dirty");
    }

    #[test]
    fn young_segments_wait_and_old_ones_must_not() {
        let log = facts(&[100, 100, 100, 100]);
        let patient = LogConfig {
            min_compaction_lag_ms: 500,
            ..compacted()
        };
        assert_eq!(range(&log, &patient, 1700), Some((0, 20)));
        assert_eq!(range(&log, &patient, 1300), None);
        let mut log = log;
        log.clean_end = Some(Offset(20));
        let hasty = LogConfig {
            max_compaction_lag_ms: 500,
            ..compacted()
        };
        assert_eq!(range(&log, &hasty, 1700), None);
        assert_eq!(range(&log, &hasty, 1701), Some((20, 30)));
    }

    #[test]
    fn a_log_that_was_cut_or_trimmed_is_dirty_from_its_start() {
        let mut log = facts(&[100, 100, 100, 100]);
        log.clean_end = Some(Offset(41));
        assert_eq!(first_dirty(&log), Offset(0));
        log.clean_end = Some(Offset(5));
        log.local_start = Offset(10);
        assert_eq!(first_dirty(&log), Offset(10));
    }
}
