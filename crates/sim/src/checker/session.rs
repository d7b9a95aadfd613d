//! Order as one client feels it: polls that skip or repeat, sends that change places.
//!
//! Ranks are compared, not offsets: neighbours in the log are one apart. Between two operations of a process the last place
//! is remembered per key, until an assignment leaves the key out.

use std::collections::BTreeMap;

use super::history::{History, Key, Kind, Op, Outcome};
use super::order::{NONE, Orders};
use super::report::{Anomaly, Report};

/// Where a process stands in its keys.
#[derive(Default)]
struct Places {
    polled: BTreeMap<Key, u32>,
    sent: BTreeMap<Key, u32>,
}

pub(super) fn check(history: &History, orders: &Orders, report: &mut Report) {
    let mut session = Session {
        history,
        orders,
        known_since: known_since(history, orders),
        send_level: send_level(history),
        report,
    };
    let mut places: BTreeMap<u32, Places> = BTreeMap::new();
    let mut sent = orders.sent.iter();
    for op in &history.ops {
        let place = places.entry(op.process).or_default();
        if matches!(op.kind, Kind::Assign | Kind::Subscribe) {
            place.polled.retain(|key, _| op.keys.contains(key));
        }
        session.polls(op, place);
        let ids: Vec<u32> = sent.by_ref().take(op.sends.len()).copied().collect();
        session.sends(op, &ids, place);
    }
}

struct Session<'a> {
    history: &'a History,
    orders: &'a Orders,
    /// Per level and key: for each rank, since when something at or beyond it was known to exist.
    known_since: [BTreeMap<Key, Vec<u64>>; 2],
    /// The level whose order sends are held against: the one that was read most.
    send_level: usize,
    report: &'a mut Report,
}

/// Two ranks in a row, as they should follow each other.
#[derive(Clone, Copy)]
struct Pair {
    key: Key,
    before: u32,
    after: u32,
}

impl Session<'_> {
    fn polls(&mut self, op: &Op, place: &mut Places) {
        let level = op.isolation.index();
        for polled in &op.polls {
            let order = self.orders.order(polled.key, level);
            let moved = op.rebalanced.contains(&polled.key);
            let mut last: Option<u32> = None;
            for (offset, _) in &polled.records {
                let Some(after) = order.rank(*offset) else {
                    continue;
                };
                match (last, place.polled.get(&polled.key)) {
                    (Some(before), _) => {
                        let pair = Pair {
                            key: polled.key,
                            before,
                            after,
                        };
                        if after != before + 1 && !moved {
                            self.judge_poll(op, pair, true);
                        }
                    }
                    (None, Some(before)) if !moved => {
                        self.judge_poll(
                            op,
                            Pair {
                                key: polled.key,
                                before: *before,
                                after,
                            },
                            false,
                        );
                    }
                    (None, _) => {}
                }
                last = Some(after);
            }
            if let Some(last) = last {
                self.lag(op, level, polled.key, last);
                if op.outcome == Outcome::Ok {
                    place.polled.insert(polled.key, last);
                }
            }
        }
    }

    fn judge_poll(&mut self, op: &Op, pair: Pair, inside: bool) {
        if !inside && self.history.subscribed {
            return;
        }
        let Pair { key, before, after } = pair;
        let what = || {
            format!(
                "process {} key {key}: rank {before}, then {after}",
                op.process
            )
        };
        if after <= before {
            let anomaly = if inside {
                Anomaly::NonmonotonicPollInside
            } else {
                Anomaly::NonmonotonicPoll
            };
            self.report.add(anomaly, what);
        } else if after > before + 1 {
            // Records deleted on request may be skipped.
            let trim = self.history.trim(key);
            if trim > 0 && after <= self.orders.order(key, op.isolation.index()).rank_from(trim) {
                return;
            }
            let anomaly = if inside {
                Anomaly::PollSkipInside
            } else {
                Anomaly::PollSkip
            };
            self.report.add(anomaly, what);
        }
    }

    fn lag(&mut self, op: &Op, level: usize, key: Key, newest: u32) {
        let since = self.known_since[level]
            .get(&key)
            .and_then(|since| since.get(newest as usize + 1));
        if let Some(since) = since {
            self.report.lag_max = self.report.lag_max.max(op.invoked.saturating_sub(*since));
        }
    }

    fn sends(&mut self, op: &Op, ids: &[u32], place: &mut Places) {
        let mut last: BTreeMap<Key, u32> = BTreeMap::new();
        for (sent, id) in op.sends.iter().zip(ids) {
            let known = &self.orders.known[*id as usize];
            let after = known.first[self.send_level];
            if after == NONE {
                continue;
            }
            match last.insert(sent.key, after) {
                Some(before) if after <= before => {
                    let what = || {
                        format!(
                            "process {} key {}: rank {before}, then {after}",
                            op.process, sent.key
                        )
                    };
                    self.report.add(Anomaly::NonmonotonicSendInside, what);
                }
                Some(before) if after != before + 1 => self.report.sends_apart += 1,
                Some(_) => {}
                None => {
                    if let Some(before) =
                        place.sent.get(&sent.key).filter(|before| after <= **before)
                    {
                        let what = || {
                            format!(
                                "process {} key {}: rank {before}, then {after}",
                                op.process, sent.key
                            )
                        };
                        self.report.add(Anomaly::NonmonotonicSend, what);
                    }
                }
            }
        }
        if op.outcome != Outcome::Fail {
            place.sent.extend(last);
        }
    }
}

fn send_level(history: &History) -> usize {
    let mut records = [0; 2];
    for op in &history.ops {
        records[op.isolation.index()] += op
            .polls
            .iter()
            .map(|polled| polled.records.len())
            .sum::<usize>();
    }
    usize::from(records[0] < records[1])
}

fn known_since(history: &History, orders: &Orders) -> [BTreeMap<Key, Vec<u64>>; 2] {
    let mut all = <[BTreeMap<Key, Vec<u64>>; 2]>::default();
    for known in orders.known.iter().filter(|known| known.writer != NONE) {
        let writer = &history.ops[known.writer as usize];
        if writer.outcome != Outcome::Ok {
            continue;
        }
        for (level, since) in all.iter_mut().enumerate() {
            if known.first[level] != NONE {
                let values = orders.order(known.key, level).values() as usize;
                let since = since
                    .entry(known.key)
                    .or_insert_with(|| vec![u64::MAX; values]);
                let at = &mut since[known.first[level] as usize];
                *at = (*at).min(writer.returned);
            }
        }
    }
    for since in all.iter_mut().flat_map(BTreeMap::values_mut) {
        let mut earliest = u64::MAX;
        for at in since.iter_mut().rev() {
            earliest = earliest.min(*at);
            *at = earliest;
        }
    }
    all
}
