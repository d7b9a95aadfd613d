//! Values that are missing, and values that should not be there.

use super::ends::transacted_keys;
use super::history::{History, Isolation, Outcome};
use super::order::{Known, NONE, Orders};
use super::report::{Anomaly, Report};

pub(super) fn check(history: &History, orders: &Orders, report: &mut Report) {
    for level in Isolation::ALL {
        lost(history, orders, level, report);
    }
    for level in &history.read_to_the_end {
        unseen(history, orders, *level, report);
    }
    if history.read_to_the_end.contains(&Isolation::Committed) {
        torn(history, orders, report);
    }
    if Isolation::ALL
        .iter()
        .all(|level| history.read_to_the_end.contains(level))
    {
        differing(history, orders, report);
    }
    shown(history, orders, report);
}

fn name(known: &Known) -> String {
    format!(
        "key {} value {} (told offset {:?})",
        known.key, known.value, known.told
    )
}

/// A deleted range takes away what is below it, and the judgement on values whose place nobody knows.
fn is_trimmed(history: &History, known: &Known) -> bool {
    let trim = history.trim(known.key);
    trim > 0 && known.told.is_none_or(|told| told < trim)
}

/// Nobody is blamed for not reading past the furthest read.
fn lost(history: &History, orders: &Orders, level: Isolation, report: &mut Report) {
    let at = level.index();
    let mut furthest: Vec<Option<u32>> = Vec::new();
    for known in orders.known.iter().filter(|known| known.ok_read[at]) {
        let key = known.key as usize;
        if furthest.len() <= key {
            furthest.resize(key + 1, None);
        }
        furthest[key] = furthest[key].max(Some(known.first[at]));
    }
    for known in &orders.known {
        let Some(furthest) = furthest.get(known.key as usize).copied().flatten() else {
            continue;
        };
        let is_due = known.writer != NONE
            && orders.committed[known.writer as usize]
            && !is_trimmed(history, known);
        if is_due && !known.ok_read[at] && known.last[at] != NONE && known.last[at] <= furthest {
            report.add(Anomaly::LostWrite, || {
                format!("{} at rank {}", name(known), known.last[at])
            });
        }
    }
}

fn unseen(history: &History, orders: &Orders, level: Isolation, report: &mut Report) {
    for known in &orders.known {
        let was_acked =
            known.writer != NONE && history.ops[known.writer as usize].outcome == Outcome::Ok;
        if was_acked && !known.ok_read[level.index()] && !is_trimmed(history, known) {
            report.add(Anomaly::Unseen, || name(known));
        }
    }
}

/// Where nobody writes in transactions, readers of both levels are shown the same, also of what nobody acknowledged.
fn differing(history: &History, orders: &Orders, report: &mut Report) {
    let of_transactions = transacted_keys(history);
    for known in &orders.known {
        let [committed, uncommitted] = known.ok_read;
        let is_due = !of_transactions.contains(&known.key) && !is_trimmed(history, known);
        if is_due && committed != uncommitted {
            report.add(Anomaly::LevelsDiffer, || {
                let level = ["uncommitted", "committed"][usize::from(committed)];
                format!("{} was read at level {level} only", name(known))
            });
        }
    }
}

/// All sends of a transaction or none, once everything was read.
fn torn(history: &History, orders: &Orders, report: &mut Report) {
    let mut sent = orders.sent.iter();
    for op in &history.ops {
        let ids: Vec<&u32> = sent.by_ref().take(op.sends.len()).collect();
        if !op.is_txn() {
            continue;
        }
        let (mut read, mut missing) = (0, 0);
        for id in ids {
            let known = &orders.known[*id as usize];
            if known.ok_read[0] {
                read += 1;
            } else if !is_trimmed(history, known) {
                missing += 1;
            }
        }
        if read > 0 && missing > 0 {
            report.add(Anomaly::TornTransaction, || {
                format!("{read} read, {missing} missing of {:?}", op.sends)
            });
        }
    }
}

fn shown(history: &History, orders: &Orders, report: &mut Report) {
    let mut polled = orders.polled.iter();
    for (number, op) in history.ops.iter().enumerate() {
        let count = op.polls.iter().map(|polled| polled.records.len()).sum();
        for id in polled.by_ref().take(count) {
            let known = &orders.known[*id as usize];
            if known.writer == NONE {
                report.add(Anomaly::Phantom, || {
                    format!("process {} read {}", op.process, name(known))
                });
                continue;
            }
            let writer = &history.ops[known.writer as usize];
            // An uncommitted reader is shown open and aborted transactions; that is what it asked for.
            if op.isolation == Isolation::Uncommitted && writer.is_txn() {
                continue;
            }
            if known.writer as usize == number {
                report.add(Anomaly::PrecommittedRead, || {
                    format!("process {} read {}", op.process, name(known))
                });
            } else if writer.outcome == Outcome::Fail {
                report.add(Anomaly::AbortedRead, || {
                    format!("process {} read {}", op.process, name(known))
                });
            }
        }
    }
}
