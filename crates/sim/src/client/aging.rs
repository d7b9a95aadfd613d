//! Topics whose old records go: where their logs may start, given what the broker's own clock ever told it.
//!
//! A segment goes when the newest of its records is older than the retention, so none of the records that went may be younger. By size
//! it goes when what is left is as large as the topic keeps. What went by these rules is nobody's loss any more.

use std::collections::BTreeMap;

use super::admin::Topic;
use crate::checker::Op;

/// The records that a topic keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Millis(i64),
    Bytes(u64),
}

/// Producers stamp records with a time two hours before the broker's first: they run with the true time, so that segments roll by it,
/// and stay well within the usual retention however often the wall clock jumps.
pub(crate) const BORN_OLD_MS: i64 = 7_200_000;
/// When virtual time began, by the wall.
const WALL_START_MS: i64 = 1_700_000_000_000;
const NOW_START_MS: i64 = 3_600_000;
/// Of a log that keeps its size: what the next crash takes was part of it when the last segment went.
const TAIL_BYTES_MAX: u64 = 128 << 10;

/// The time that a record gets that is made at `nanos` of virtual time.
pub(crate) fn stamp(nanos: u64) -> i64 {
    WALL_START_MS - NOW_START_MS - BORN_OLD_MS + (nanos / 1_000_000) as i64
}

impl Topic {
    /// Makes its records go soon.
    pub(crate) fn aging(&mut self, keep: Keep, segment_ms: u64) {
        self.configs
            .retain(|(name, _)| !["segment.ms", "message.timestamp.type"].contains(name));
        self.configs.push(("segment.ms", segment_ms.to_string()));
        match keep {
            Keep::Millis(millis) => self.configs.push(("retention.ms", millis.to_string())),
            Keep::Bytes(bytes) => {
                self.configs.push(("retention.ms", "-1".to_owned()));
                self.configs.push(("retention.bytes", bytes.to_string()));
            }
        }
    }

    pub(crate) fn keeps(&self) -> Option<Keep> {
        let number = |wanted: &str| {
            let mut configs = self.configs.iter();
            let (_, value) = configs.find(|(name, _)| *name == wanted)?;
            value.parse::<i64>().ok()
        };
        match (number("retention.ms"), number("retention.bytes")) {
            (_, Some(bytes)) => Some(Keep::Bytes(bytes as u64)),
            (Some(millis), None) => Some(Keep::Millis(millis)),
            (None, None) => None,
        }
    }
}

/// A partition of such a topic.
pub(crate) struct Aging {
    keep: Keep,
    /// Where its log was last seen to start, if records went by themselves.
    start: i64,
    /// No record that was acknowledged at an offset is older than this.
    times: BTreeMap<i64, i64>,
}

impl Aging {
    pub(crate) fn new(keep: Keep) -> Aging {
        Aging {
            keep,
            start: 0,
            times: BTreeMap::new(),
        }
    }

    /// Takes note of where records were acknowledged.
    pub(crate) fn acked(&mut self, op: &Op, offset: i64) {
        self.times.insert(offset, stamp(op.invoked));
    }

    /// The log starts at `start`, and records below `trimmed` were deleted on request; the broker was told no wall time beyond `wall_max`.
    /// Says how many acknowledged records went by themselves, or what is wrong.
    pub(crate) fn starts(
        &mut self,
        start: i64,
        trimmed: i64,
        wall_max: i64,
    ) -> Result<usize, String> {
        if start <= self.start.max(trimmed) {
            return Ok(0);
        }
        self.start = start;
        let kept = self.times.split_off(&start);
        let gone = std::mem::replace(&mut self.times, kept);
        let gone = gone.range(trimmed..);
        if let Keep::Millis(keep) = self.keep
            && let Some((offset, time)) = gone.clone().max_by_key(|(_, time)| **time)
            && wall_max - time <= keep
        {
            return Err(format!(
                "the log starts at {start}, and offset {offset} is {} ms old at most, of {keep} that it is kept",
                wall_max - time
            ));
        }
        Ok(gone.count())
    }

    /// Everything from the start on was read, and was so large.
    pub(crate) fn size(&self, bytes: u64) -> Result<(), String> {
        match self.keep {
            Keep::Bytes(keep) if self.start > 0 && bytes + TAIL_BYTES_MAX < keep => Err(format!(
                "{bytes} bytes are left from {} on, of {keep} that are kept",
                self.start
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Kind;

    fn aging(keep: Keep) -> Aging {
        let mut aging = Aging::new(keep);
        for offset in 0..10 {
            // One each second.
            let op = Op::new(1, Kind::Send, offset as u64 * 1_000_000_000);
            aging.acked(&op, offset);
        }
        aging
    }

    #[test]
    fn a_record_that_is_not_old_enough_may_not_go() {
        let wall = stamp(0) + 6_000;
        let keep = Keep::Millis(2_000);
        // Offset 3 is 3 seconds old, offset 4 two.
        assert_eq!(aging(keep).starts(4, 0, wall), Ok(4));
        assert!(aging(keep).starts(5, 0, wall).is_err());
        assert_eq!(aging(keep).starts(5, 5, wall), Ok(0), "deleted on request");
        assert_eq!(aging(keep).starts(5, 4, wall + 1), Ok(1));
        let mut twice = aging(keep);
        assert_eq!(twice.starts(4, 0, wall), Ok(4));
        assert!(twice.starts(6, 0, wall).is_err());
    }

    #[test]
    fn a_log_that_keeps_its_size_is_not_smaller() {
        let keep = 1 << 20;
        let mut aging = aging(Keep::Bytes(keep));
        assert_eq!(aging.size(0), Ok(()), "nothing went");
        assert_eq!(aging.starts(5, 0, i64::MIN), Ok(5));
        assert_eq!(aging.size(keep), Ok(()));
        assert!(aging.size(keep / 2).is_err());
    }
}
