//! The brokers' statements about where logs start and end, held against what they had acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{EndSeen, History, Key, Op, Outcome};
use super::report::{Anomaly, Report};

pub(super) fn check(history: &History, report: &mut Report) {
    let mut acks: BTreeMap<Key, Vec<(u64, i64)>> = BTreeMap::new();
    // Records of a transaction are in the log however it ended.
    let is_there = |op: &&Op| op.outcome == Outcome::Ok || op.is_txn();
    for op in history.ops.iter().filter(is_there) {
        for sent in &op.sends {
            if let Some(offset) = sent.offset {
                acks.entry(sent.key)
                    .or_default()
                    .push((op.returned, offset));
            }
        }
    }
    for acks in acks.values_mut() {
        acks.sort_unstable();
        let mut highest = i64::MIN;
        for (_, offset) in acks.iter_mut() {
            highest = highest.max(*offset);
            *offset = highest;
        }
    }
    let mut by_key: BTreeMap<Key, Vec<&EndSeen>> = BTreeMap::new();
    history
        .ends
        .iter()
        .for_each(|end| by_key.entry(end.key).or_default().push(end));
    let of_transactions = transacted_keys(history);
    for (key, ends) in by_key {
        let acks: &[(u64, i64)] = acks.get(&key).map_or(&[], Vec::as_slice);
        covers_acks(&ends, acks, of_transactions.contains(&key), report);
        goes_on(ends, report);
    }
}

/// Keys that some transaction writes to.
pub(super) fn transacted_keys(history: &History) -> BTreeSet<Key> {
    let ops = history.ops.iter().filter(|op| op.is_txn());
    ops.flat_map(|op| &op.sends).map(|sent| sent.key).collect()
}

/// A stable end may stay behind what was acknowledged only where a transaction may be open.
fn covers_acks(ends: &[&EndSeen], acks: &[(u64, i64)], may_be_unstable: bool, report: &mut Report) {
    for end in ends {
        let before = acks.partition_point(|(returned, _)| *returned < end.invoked);
        let Some(acked) = before.checked_sub(1).map(|at| acks[at].1) else {
            continue;
        };
        let is_stale = |end: Option<i64>| end.is_some_and(|end| end <= acked);
        if is_stale(end.log_end) || !may_be_unstable && is_stale(end.stable_end) {
            report.add(Anomaly::StaleEndOffset, || {
                format!("offset {acked} was acknowledged before {end:?}")
            });
        }
    }
}

/// An answer that came before the next question was put is never taken back.
fn goes_on(mut ends: Vec<&EndSeen>, report: &mut Report) {
    let mut answered = ends.clone();
    answered.sort_by_key(|end| end.returned);
    ends.sort_by_key(|end| end.invoked);
    let mut answered = answered.into_iter().peekable();
    let (mut start_max, mut end_max, mut stable_max) = (None, None, None);
    for end in ends {
        while let Some(earlier) = answered.next_if(|earlier| earlier.returned < end.invoked) {
            start_max = start_max.max(earlier.log_start);
            end_max = end_max.max(earlier.log_end);
            stable_max = stable_max.max(earlier.stable_end);
        }
        if end.log_end.is_some() && end.log_end < end_max {
            report.add(Anomaly::EndWentBack, || {
                format!("log end {end_max:?} was seen before {end:?}")
            });
        }
        if end.stable_end.is_some() && end.stable_end < stable_max {
            report.add(Anomaly::EndWentBack, || {
                format!("stable end {stable_max:?} was seen before {end:?}")
            });
        }
        if end.log_start.is_some() && end.log_start < start_max {
            report.add(Anomaly::EndWentBack, || {
                format!("log start {start_max:?} was seen before {end:?}")
            });
        }
    }
}
