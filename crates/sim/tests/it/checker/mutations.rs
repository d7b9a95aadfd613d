//! One way of breaking a clean history after the other, and the name the checker gives it.

use std::collections::BTreeSet;

use sim::checker::{Anomaly, History, Isolation, Kind, Op, Outcome, Polled, Sent, check};

use super::clean;

/// Breaks a history, seeds of which are tried until the mutation finds what it needs; false when it does not.
type Mutation = fn(&mut History) -> bool;

fn polls(history: &mut History, process: u32) -> impl Iterator<Item = &mut Polled> {
    history
        .ops
        .iter_mut()
        .filter(move |op| op.process == process)
        .flat_map(|op| &mut op.polls)
}

/// Takes a value away from every reader.
fn hide(history: &mut History, hidden: u64) {
    for polled in history.ops.iter_mut().flat_map(|op| &mut op.polls) {
        polled.records.retain(|(_, value)| *value != hidden);
    }
}

/// A value that was acknowledged and is not the last of its key.
fn acked(history: &History) -> Option<Sent> {
    history
        .ops
        .iter()
        .find(|op| op.kind == Kind::Send && op.outcome == Outcome::Ok)
        .map(|op| op.sends[0])
}

fn insert_final(history: &mut History, at: Sent) -> bool {
    let Some(polled) = polls(history, 90)
        .filter(|polled| polled.key == at.key)
        .last()
    else {
        return false;
    };
    polled.records.push((at.offset.unwrap_or(0), at.value));
    true
}

fn end_of(history: &History, key: u32) -> i64 {
    let all = history
        .ops
        .iter()
        .flat_map(|op| &op.polls)
        .filter(|polled| polled.key == key);
    all.flat_map(|polled| &polled.records)
        .map(|(offset, _)| offset + 1)
        .max()
        .unwrap_or(0)
}

fn failed(history: &History, kind: Kind) -> Option<Sent> {
    let op = history
        .ops
        .iter()
        .find(|op| op.kind == kind && op.outcome == Outcome::Fail)?;
    Some(op.sends[0])
}

/// The longest poll of a process, with its first record if `whole`, of at least three records.
fn long_poll(history: &mut History, process: u32) -> Option<&mut Polled> {
    polls(history, process).find(|polled| polled.records.len() >= 3)
}

/// Exchanges two values wherever they were read and acknowledged.
fn exchange(history: &mut History, a: Sent, b: Sent) {
    for op in &mut history.ops {
        for (_, value) in op.polls.iter_mut().flat_map(|polled| &mut polled.records) {
            *value = if *value == a.value {
                b.value
            } else if *value == b.value {
                a.value
            } else {
                *value
            };
        }
        for sent in &mut op.sends {
            if sent.value == a.value {
                sent.offset = b.offset;
            } else if sent.value == b.value {
                sent.offset = a.offset;
            }
        }
    }
}

fn acked_ops(history: &History, process: u32) -> Vec<Op> {
    let acked =
        |op: &&Op| op.process == process && op.kind == Kind::Send && op.outcome == Outcome::Ok;
    history.ops.iter().filter(acked).cloned().collect()
}

/// Sends outside of transactions, to keys that have none, of which nobody was told anything, that are there or are not.
fn unknown_values(history: &History, is_there: bool) -> Vec<Sent> {
    let polls = history.ops.iter().flat_map(|op| &op.polls);
    let read: BTreeSet<u64> = polls
        .flat_map(|polled| &polled.records)
        .map(|(_, value)| *value)
        .collect();
    let unknown = |op: &&Op| op.kind == Kind::Send && op.outcome == Outcome::Info;
    let sends = history
        .ops
        .iter()
        .filter(unknown)
        .flat_map(|op| op.sends.clone());
    sends
        .filter(|sent| matches!(sent.key, 0 | 3) && read.contains(&sent.value) == is_there)
        .collect()
}

fn uncommitted_polls(history: &mut History) -> impl Iterator<Item = &mut Polled> {
    let ops = history.ops.iter_mut();
    ops.filter(|op| op.isolation == Isolation::Uncommitted)
        .flat_map(|op| &mut op.polls)
}

const MUTATIONS: &[(&str, Anomaly, Mutation)] = &[
    (
        "an acknowledged value vanishes",
        Anomaly::LostWrite,
        |history| {
            let Some(sent) = acked(history) else {
                return false;
            };
            hide(history, sent.value);
            true
        },
    ),
    ("the tail vanishes", Anomaly::Unseen, |history| {
        let Some(op) = acked_ops(history, 3).pop() else {
            return false;
        };
        let from = op.sends[0].value;
        let ops = history
            .ops
            .iter_mut()
            .flat_map(|op| &mut op.polls)
            .filter(|polled| polled.key == 3);
        ops.for_each(|polled| polled.records.retain(|(_, value)| *value < from));
        true
    }),
    ("a poll has a hole", Anomaly::PollSkipInside, |history| {
        long_poll(history, 20).is_some_and(|polled| {
            polled.records.remove(1);
            true
        })
    }),
    ("a poll starts late", Anomaly::PollSkip, |history| {
        let mut polls =
            polls(history, 20).filter(|polled| polled.key == 1 && polled.records.len() >= 2);
        polls.nth(1).is_some_and(|polled| {
            polled.records.remove(0);
            true
        })
    }),
    (
        "a poll repeats a record",
        Anomaly::NonmonotonicPollInside,
        |history| {
            long_poll(history, 20).is_some_and(|polled| {
                polled.records.insert(1, polled.records[0]);
                true
            })
        },
    ),
    (
        "a poll repeats the one before",
        Anomaly::NonmonotonicPoll,
        |history| {
            let Some(last) = polls(history, 21)
                .find(|polled| polled.key == 2)
                .and_then(|it| it.records.last().copied())
            else {
                return false;
            };
            polls(history, 21)
                .filter(|polled| polled.key == 2)
                .nth(1)
                .is_some_and(|polled| {
                    polled.records.insert(0, last);
                    true
                })
        },
    ),
    (
        "a value stands at two offsets",
        Anomaly::Duplicate,
        |history| {
            let Some(sent) = acked(history) else {
                return false;
            };
            let end = end_of(history, sent.key);
            insert_final(
                history,
                Sent {
                    offset: Some(end),
                    ..sent
                },
            )
        },
    ),
    (
        "an acknowledged offset is wrong",
        Anomaly::InconsistentOffsets,
        |history| {
            let op = history
                .ops
                .iter_mut()
                .find(|op| op.kind == Kind::Send && op.outcome == Outcome::Ok);
            op.is_some_and(|op| {
                op.sends[0].offset = op.sends[0].offset.map(|offset| offset + 1);
                true
            })
        },
    ),
    (
        "two readers differ about an offset",
        Anomaly::InconsistentOffsets,
        |history| {
            let Some(mine) = long_poll(history, 20).map(|polled| polled.records[0].1) else {
                return false;
            };
            let mut other = polls(history, 20)
                .flat_map(|polled| &mut polled.records)
                .filter(|(_, value)| *value != mine);
            other.next().is_some_and(|(_, value)| {
                *value = mine;
                true
            })
        },
    ),
    ("a refused value is read", Anomaly::AbortedRead, |history| {
        let Some(sent) = failed(history, Kind::Send) else {
            return false;
        };
        let end = end_of(history, sent.key);
        insert_final(
            history,
            Sent {
                offset: Some(end),
                ..sent
            },
        )
    }),
    (
        "an aborted value is read",
        Anomaly::AbortedRead,
        |history| failed(history, Kind::Txn).is_some_and(|sent| insert_final(history, sent)),
    ),
    (
        "half a transaction vanishes",
        Anomaly::TornTransaction,
        |history| {
            let Some(op) = history
                .ops
                .iter()
                .find(|op| op.kind == Kind::Txn && op.outcome == Outcome::Ok)
            else {
                return false;
            };
            let hidden = op.sends[1].value;
            hide(history, hidden);
            true
        },
    ),
    (
        "a transaction reads its own write",
        Anomaly::PrecommittedRead,
        |history| {
            let op = history
                .ops
                .iter_mut()
                .find(|op| op.kind == Kind::Txn && op.outcome == Outcome::Ok);
            op.is_some_and(|op| {
                let sent = op.sends[0];
                op.polls.push(Polled {
                    key: sent.key,
                    records: vec![(sent.offset.unwrap_or(0), sent.value)],
                });
                true
            })
        },
    ),
    (
        "two transactions read each other",
        Anomaly::WriteReadCycle,
        |history| {
            let mut ops = history
                .ops
                .iter_mut()
                .filter(|op| op.kind == Kind::Txn && op.outcome == Outcome::Ok);
            let (Some(a), Some(b)) = (ops.next(), ops.next()) else {
                return false;
            };
            let read = |sent: Sent| Polled {
                key: sent.key,
                records: vec![(sent.offset.unwrap_or(0), sent.value)],
            };
            let (from_a, from_b) = (read(a.sends[0]), read(b.sends[0]));
            a.polls = vec![from_b];
            b.polls = vec![from_a];
            // At the same time, so that only the circle itself is wrong.
            (a.returned, b.invoked) = (b.returned, a.invoked);
            true
        },
    ),
    (
        "a reader ends before its writer begins",
        Anomaly::WriteReadCycleRealtime,
        |history| {
            let Some(last) = history
                .ops
                .iter()
                .rev()
                .find(|op| op.process == 90 && !op.polls.is_empty())
                .cloned()
            else {
                return false;
            };
            let first = history.ops[0].invoked;
            history.ops.push(Op {
                process: 99,
                invoked: first,
                returned: first,
                ..last
            });
            true
        },
    ),
    (
        "a chain of readers ends before it begins",
        Anomaly::WriteReadCycleRealtime,
        |history| {
            let mut ops = history
                .ops
                .iter_mut()
                .filter(|op| op.kind == Kind::Txn && op.outcome == Outcome::Ok);
            let (Some(a), Some(b)) = (ops.next(), ops.next_back()) else {
                return false;
            };
            // `b` runs all the time and reads `a`; a reader that ended before `a` began has read `b`.
            b.polls = vec![Polled {
                key: 1,
                records: vec![(a.sends[0].offset.unwrap_or(0), a.sends[0].value)],
            }];
            b.invoked = 0;
            let (start, sent) = (a.invoked, b.sends[0]);
            let mut early = Op::new(98, Kind::Poll, 1);
            early.returned = start - 1;
            early.polls = vec![Polled {
                key: 1,
                records: vec![(sent.offset.unwrap_or(0), sent.value)],
            }];
            history.ops.push(early);
            true
        },
    ),
    ("a record that nobody sent", Anomaly::Phantom, |history| {
        let end = end_of(history, 0);
        insert_final(
            history,
            Sent {
                key: 0,
                offset: Some(end),
                value: u64::MAX,
            },
        )
    }),
    (
        "two sends of one operation change places",
        Anomaly::NonmonotonicSendInside,
        |history| {
            let Some(op) = acked_ops(history, 0)
                .into_iter()
                .find(|op| op.sends.len() >= 2)
            else {
                return false;
            };
            exchange(history, op.sends[0], op.sends[1]);
            true
        },
    ),
    (
        "two sends of a process change places",
        Anomaly::NonmonotonicSend,
        |history| {
            let ops = acked_ops(history, 3);
            let mut single = ops
                .windows(2)
                .filter(|pair| pair.iter().all(|op| op.sends.len() == 1));
            let Some([a, b]) = single.next() else {
                return false;
            };
            exchange(history, a.sends[0], b.sends[0]);
            true
        },
    ),
    (
        "one value is sent twice",
        Anomaly::InvalidHistory,
        |history| {
            let Some(sent) = acked(history) else {
                return false;
            };
            history.ops[0].sends.push(sent);
            true
        },
    ),
    (
        "success without an offset",
        Anomaly::InvalidHistory,
        |history| {
            let op = history
                .ops
                .iter_mut()
                .find(|op| op.kind == Kind::Send && op.outcome == Outcome::Ok);
            op.is_some_and(|op| {
                op.sends[0].offset = Some(-1);
                true
            })
        },
    ),
    (
        "a stable end forgets an acknowledged record",
        Anomaly::StaleEndOffset,
        |history| {
            // Of a key without transactions.
            let last = history.ends.iter().rfind(|end| end.key == 3).copied();
            last.is_some_and(|last| {
                history.ends.push(sim::checker::EndSeen {
                    invoked: u64::MAX - 1,
                    returned: u64::MAX,
                    stable_end: Some(0),
                    ..last
                });
                true
            })
        },
    ),
    (
        "the levels differ about an offset",
        Anomaly::InconsistentOffsets,
        |history| {
            let landed = unknown_values(history, true);
            let gone = unknown_values(history, false);
            let pair = landed.iter().find_map(|landed| {
                let other = gone.iter().find(|gone| gone.key == landed.key)?;
                Some((landed.value, other.value))
            });
            let Some((landed, other)) = pair else {
                return false;
            };
            let polled = uncommitted_polls(history).flat_map(|polled| &mut polled.records);
            for (_, value) in polled.filter(|(_, value)| *value == landed) {
                *value = other;
            }
            true
        },
    ),
    (
        "one level lacks what was not acknowledged",
        Anomaly::LevelsDiffer,
        |history| {
            let Some(landed) = unknown_values(history, true).first().copied() else {
                return false;
            };
            uncommitted_polls(history)
                .for_each(|polled| polled.records.retain(|(_, value)| *value != landed.value));
            true
        },
    ),
    (
        "a log end forgets an acknowledged record",
        Anomaly::StaleEndOffset,
        |history| {
            let last = history.ends.last().copied();
            last.is_some_and(|last| {
                let (invoked, log_end) = (u64::MAX - 1, last.log_end.map(|end| end.min(1) - 1));
                history.ends.push(sim::checker::EndSeen {
                    invoked,
                    returned: u64::MAX,
                    log_end,
                    ..last
                });
                true
            })
        },
    ),
    (
        "a log end forgets what an aborted transaction wrote",
        Anomaly::StaleEndOffset,
        |history| {
            let mut ops = history.ops.iter();
            let failed = ops.find_map(|op| {
                let is_failed = op.kind == Kind::Txn && op.outcome == Outcome::Fail;
                let sent = op.sends.iter().find(|sent| sent.offset.is_some());
                is_failed.then_some((op.returned, *sent?))
            });
            failed.is_some_and(|(returned, sent)| {
                history.ends.push(sim::checker::EndSeen {
                    key: sent.key,
                    invoked: returned + 1,
                    returned: returned + 1,
                    log_start: None,
                    log_end: sent.offset,
                    stable_end: None,
                });
                true
            })
        },
    ),
    ("a log end goes back", Anomaly::EndWentBack, |history| {
        let Some(last) = history
            .ends
            .iter()
            .rev()
            .find(|end| end.log_end > Some(1))
            .copied()
        else {
            return false;
        };
        let log_end = last.log_end.map(|end| end - 1);
        history.ends.push(sim::checker::EndSeen {
            invoked: u64::MAX - 1,
            returned: u64::MAX,
            log_end,
            ..last
        });
        true
    }),
    ("a stable end goes back", Anomaly::EndWentBack, |history| {
        let seen = history.ends.iter().rev().copied();
        let Some(last) = { seen }.find(|end| end.stable_end > Some(1)) else {
            return false;
        };
        history.ends.push(sim::checker::EndSeen {
            invoked: u64::MAX - 1,
            returned: u64::MAX,
            stable_end: last.stable_end.map(|end| end - 1),
            ..last
        });
        true
    }),
    ("a log start goes back", Anomaly::EndWentBack, |history| {
        let Some(last) = history.ends.last().copied() else {
            return false;
        };
        history.ends.push(sim::checker::EndSeen {
            log_start: Some(7),
            ..last
        });
        let (invoked, returned) = (u64::MAX - 1, u64::MAX);
        history.ends.push(sim::checker::EndSeen {
            invoked,
            returned,
            ..last
        });
        true
    }),
];

#[test]
fn every_mutation_is_named() {
    for (name, anomaly, mutate) in MUTATIONS {
        let mut tried = 0;
        for seed in 0..40 {
            let mut history = clean::history(seed, 300, 5);
            if mutate(&mut history) {
                tried += 1;
                let report = check(&history);
                assert!(report.found(*anomaly), "{name}, seed {seed}: {report}");
            }
        }
        assert!(tried >= 5, "{name} was only possible {tried} times");
    }
}

#[test]
fn uncommitted_readers_may_see_open_and_aborted_transactions() {
    let mut history = clean::history(3, 300, 5);
    let sent = failed(&history, Kind::Txn).unwrap();
    let is_seen = |history: &History, isolation| {
        let ops = history.ops.iter().filter(|op| op.isolation == isolation);
        ops.flat_map(|op| &op.polls)
            .flat_map(|polled| &polled.records)
            .any(|(_, value)| *value == sent.value)
    };
    assert!(is_seen(&history, Isolation::Uncommitted) && !is_seen(&history, Isolation::Committed));
    assert!(check(&history).is_clean());
    // A refused send outside a transaction is nobody's to see.
    let sent = failed(&history, Kind::Send).unwrap();
    let end = end_of(&history, sent.key);
    let last = polls(&mut history, 91)
        .filter(|polled| polled.key == sent.key)
        .last()
        .unwrap();
    last.records.push((end, sent.value));
    assert!(check(&history).found(Anomaly::AbortedRead));
}

#[test]
fn a_subscription_may_move_the_position_between_operations_but_not_inside() {
    let mut history = clean::history(4, 300, 5);
    let is_long = |polled: &&mut Polled| polled.key == 1 && polled.records.len() >= 2;
    polls(&mut history, 20)
        .filter(is_long)
        .nth(1)
        .unwrap()
        .records
        .remove(0);
    assert!(check(&history).found(Anomaly::PollSkip));
    history.subscribed = true;
    assert!(check(&history).is_clean());
    long_poll(&mut history, 20).unwrap().records.remove(1);
    assert!(check(&history).found(Anomaly::PollSkipInside));
}
