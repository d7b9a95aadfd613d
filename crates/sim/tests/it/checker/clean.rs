//! Makes clean histories: an ideal log with writers, transactions and readers at both levels.

use env::sim::Chance;
use sim::checker::{
    EndSeen, Guard, History, Isolation, Key, Kind, Op, Outcome, Polled, Sent, check,
};

pub(super) struct Ideal {
    chance: Chance,
    pub(super) history: History,
    /// Per key the records by offset: the value, and whether a transaction that aborted wrote it.
    log: Vec<Vec<Option<(u64, bool)>>>,
    now: u64,
    next: u64,
    records_max: u64,
}

pub(super) const KEYS: u32 = 4;
const FINAL_COMMITTED: u32 = 90;
const FINAL_UNCOMMITTED: u32 = 91;

impl Ideal {
    fn tick(&mut self) -> u64 {
        self.now += 10;
        self.now
    }

    fn append(&mut self, key: Key, aborted: bool) -> Sent {
        self.next += 1;
        let log = &mut self.log[key as usize];
        log.push(Some((self.next, aborted)));
        Sent {
            key,
            offset: Some(log.len() as i64 - 1),
            value: self.next,
        }
    }

    fn send(&mut self, process: u32) {
        let mut op = Op::new(process, Kind::Send, self.tick());
        let key = process % KEYS;
        let lot = self.chance.below(20);
        for _ in 0..self.chance.between(1, 3) {
            let mut sent = match lot {
                // Refused, or lost without a trace.
                0 | 1 => {
                    self.next += 1;
                    Sent {
                        key,
                        offset: None,
                        value: self.next,
                    }
                }
                _ => self.append(key, false),
            };
            if lot == 2 {
                sent.offset = None;
            }
            op.sends.push(sent);
        }
        op.outcome = match lot {
            0 => Outcome::Fail,
            1 | 2 => Outcome::Info,
            _ => Outcome::Ok,
        };
        op.returned = self.tick();
        self.history.ops.push(op);
    }

    /// Reads one key on and writes to two others, then ends one way or the other.
    fn transact(&mut self, process: u32, position: &mut usize) {
        let mut op = Op::new(process, Kind::Txn, self.tick());
        let aborted = self.chance.one_in(4);
        let start = *position;
        let polled = self.poll_from(0, position, Isolation::Committed);
        if aborted {
            // Its reads did not happen either: the next transaction reads them again.
            *position = start;
        }
        op.polls.extend(polled);
        for key in 1..3 {
            let sent = self.append(key, aborted);
            op.sends.push(sent);
            self.log[key as usize].push(None);
        }
        op.outcome = if aborted { Outcome::Fail } else { Outcome::Ok };
        op.returned = self.tick();
        self.history.ops.push(op);
    }

    fn poll_from(
        &mut self,
        key: Key,
        position: &mut usize,
        isolation: Isolation,
    ) -> Option<Polled> {
        let end = self.log[key as usize]
            .len()
            .min(*position + self.chance.between(1, self.records_max) as usize);
        let records: Vec<(i64, u64)> = (*position..end)
            .filter_map(|offset| {
                self.log[key as usize][offset].map(|record| (offset as i64, record))
            })
            .filter(|(_, (_, aborted))| isolation == Isolation::Uncommitted || !aborted)
            .map(|(offset, (value, _))| (offset, value))
            .collect();
        *position = end;
        (!records.is_empty()).then_some(Polled { key, records })
    }

    fn poll(&mut self, process: u32, positions: &mut [usize], isolation: Isolation) {
        let mut op = Op::new(process, Kind::Poll, self.tick());
        op.isolation = isolation;
        for key in 0..KEYS {
            let polled = self.poll_from(key, &mut positions[key as usize], isolation);
            op.polls.extend(polled);
        }
        op.returned = self.tick();
        self.history.ops.push(op);
    }

    fn ends(&mut self) {
        for key in 0..KEYS {
            let log_end = Some(self.log[key as usize].len() as i64);
            let invoked = self.tick();
            let returned = self.tick();
            self.history.ends.push(EndSeen {
                key,
                invoked,
                returned,
                log_start: Some(0),
                log_end,
                stable_end: log_end,
            });
        }
    }

    fn read_to_the_end(&mut self) {
        for (process, isolation) in [
            (FINAL_COMMITTED, Isolation::Committed),
            (FINAL_UNCOMMITTED, Isolation::Uncommitted),
        ] {
            let mut positions = [0; KEYS as usize];
            while (0..KEYS as usize).any(|key| positions[key] < self.log[key].len()) {
                self.poll(process, &mut positions, isolation);
            }
            self.history.read_to_the_end.push(isolation);
        }
    }
}

/// A clean history of about `ops` operations, each poll with at most `records_max` records of a key.
pub(super) fn history(seed: u64, ops: usize, records_max: u64) -> History {
    let mut ideal = Ideal {
        chance: Chance::new(seed),
        history: History::default(),
        log: vec![Vec::new(); KEYS as usize],
        now: 0,
        next: 0,
        records_max,
    };
    let (mut readers, mut txn) = ([[0; KEYS as usize]; 2], 0);
    for _ in 0..ops {
        match ideal.chance.below(10) {
            0..6 => {
                let process = ideal.chance.below(u64::from(KEYS)) as u32;
                ideal.send(process);
            }
            6 => ideal.transact(10, &mut txn),
            7 => ideal.ends(),
            8 => ideal.poll(20, &mut readers[0], Isolation::Committed),
            _ => ideal.poll(21, &mut readers[1], Isolation::Uncommitted),
        }
    }
    ideal.read_to_the_end();
    ideal.history
}

#[test]
fn clean_histories_are_clean() {
    for seed in 0..100 {
        let history = history(seed, 300, 5);
        let report = check(&history);
        assert!(report.is_clean(), "seed {seed}: {report}");
        assert!(report.events > 300);
    }
}

#[test]
fn an_unknown_outcome_is_judged_neither_way() {
    // The history says "unknown" of sends that are there and of sends that are not; both kinds occur.
    let history = history(1, 300, 5);
    let read: std::collections::BTreeSet<u64> = history
        .ops
        .iter()
        .flat_map(|op| &op.polls)
        .flat_map(|polled| &polled.records)
        .map(|(_, value)| *value)
        .collect();
    let unknown = history.ops.iter().filter(|op| op.outcome == Outcome::Info);
    let (there, gone): (Vec<u64>, Vec<u64>) = unknown
        .flat_map(|op| &op.sends)
        .map(|sent| sent.value)
        .partition(|value| read.contains(value));
    assert!(!there.is_empty() && !gone.is_empty());
}

#[test]
fn what_was_deleted_on_request_is_nobodys_loss() {
    let mut history = history(5, 300, 5);
    let trim = 20;
    for op in history.ops.iter_mut().filter(|op| op.process >= 90) {
        for polled in op.polls.iter_mut().filter(|polled| polled.key == 3) {
            polled.records.retain(|(offset, _)| *offset >= trim);
        }
    }
    // Readers on their way lose the same range from their second poll on.
    let mut skipped = history.clone();
    for process in [20, 21] {
        let polls = skipped.ops.iter_mut().filter(|op| op.process == process);
        for polled in polls
            .flat_map(|op| &mut op.polls)
            .filter(|polled| polled.key == 3)
        {
            polled
                .records
                .retain(|(offset, _)| *offset < 3 || *offset >= trim);
        }
    }
    assert!(!check(&skipped).is_clean());
    skipped.trimmed.insert(3, trim);
    let report = check(&skipped);
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_run_in_which_nothing_happened_is_refused() {
    let guard = Guard {
        acked_sends_min: 10,
        polled_records_min: 10,
        kinds: vec![Kind::Send, Kind::Poll, Kind::Txn, Kind::Subscribe],
        faults: vec![
            sim::checker::Fault {
                name: "power cut",
                bit: 0,
            },
            sim::checker::Fault {
                name: "failed sync",
                bit: 2,
            },
        ],
    };
    let complaints = guard.complaints(&history(1, 300, 5));
    assert_eq!(
        complaints,
        ["no Subscribe succeeded", "fault without effect: power cut"]
    );
    assert_eq!(guard.complaints(&History::default()).len(), 7);
}

#[test]
fn a_run_owes_no_more_than_it_had_turns_for() {
    let owes = |turns| {
        let guard = Guard::of(3, turns);
        (guard.acked_sends_min, guard.polled_records_min)
    };
    // Each partition had to take a record in the end.
    assert_eq!(owes(0), (3, 6));
    assert_eq!(owes(20), (8, 16));
    assert_eq!(owes(28), (10, 20));
    assert_eq!(owes(u64::MAX), (10, 20));
}
