//! The order of the values of each key, as offsets have it, for each isolation level.
//!
//! Gaps in the offsets are control records or aborted data, so the rank among the offsets that hold a value is the order.
//! Values that only uncommitted readers saw stay out of the committed order. Dense by offset, so that a polled record costs an
//! array access and no hashing after its first sight.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::history::{History, Isolation, Key, Op, Outcome, Value};
use super::report::{Anomaly, Report};

pub(super) const NONE: u32 = u32::MAX;

/// The knowledge about one value.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) key: Key,
    pub(super) value: Value,
    /// The operation that sent it, [`NONE`] for a value that nobody sent.
    pub(super) writer: u32,
    /// The offset its sender was told.
    pub(super) told: Option<i64>,
    /// Earliest and latest rank per level, [`NONE`] when it has none.
    pub(super) first: [u32; 2],
    pub(super) last: [u32; 2],
    pub(super) ok_read: [bool; 2],
}

#[derive(Clone, Copy)]
struct Slot {
    value: Value,
    id: u32,
}

const EMPTY: Slot = Slot { value: 0, id: NONE };

/// One key at one level.
#[derive(Default)]
pub(super) struct Order {
    dense: Vec<Slot>,
    ranks: Vec<u32>,
    /// Offsets too far out to be worth an array.
    far: BTreeMap<i64, (u32, u32)>,
    values: u32,
    /// Pairs to come, which bounds the array.
    expected: usize,
}

impl Order {
    fn dense_max(&self) -> usize {
        self.expected * 4 + 1024
    }

    fn slot(&mut self, offset: i64) -> Option<&mut Slot> {
        let at = usize::try_from(offset)
            .ok()
            .filter(|at| *at < self.dense_max())?;
        if at >= self.dense.len() {
            let grown = (at + 1).max(self.dense.len() * 2).min(self.dense_max());
            self.dense.resize(grown, EMPTY);
        }
        Some(&mut self.dense[at])
    }

    /// The number of the value at `offset`, [`NONE`] where none is known.
    fn held(&self, offset: i64) -> u32 {
        let near = usize::try_from(offset).ok();
        let near = near.and_then(|at| self.dense.get(at));
        near.filter(|slot| slot.id != NONE).map_or_else(
            || self.far.get(&offset).map_or(NONE, |(id, _)| *id),
            |slot| slot.id,
        )
    }

    /// Rank of what stands at `offset`.
    pub(super) fn rank(&self, offset: i64) -> Option<u32> {
        let near = usize::try_from(offset)
            .ok()
            .and_then(|at| self.ranks.get(at))
            .copied();
        near.or_else(|| self.far.get(&offset).map(|(_, rank)| *rank))
            .filter(|rank| *rank != NONE)
    }

    /// Rank of the first value at or beyond `offset`.
    pub(super) fn rank_from(&self, offset: i64) -> u32 {
        let at = usize::try_from(offset.max(0))
            .unwrap_or(usize::MAX)
            .min(self.ranks.len());
        let near = self.ranks[at..].iter().copied().find(|rank| *rank != NONE);
        let far = || self.far.range(offset..).next().map(|(_, (_, rank))| *rank);
        near.or_else(far).unwrap_or(self.values)
    }

    pub(super) fn values(&self) -> u32 {
        self.values
    }

    fn number(&mut self, known: &mut [Known], level: usize) {
        self.ranks = vec![NONE; self.dense.len()];
        let mut next = 0;
        let mut place = |id: u32| {
            let known = &mut known[id as usize];
            if known.first[level] == NONE {
                known.first[level] = next;
            }
            known.last[level] = next;
            next += 1;
            next - 1
        };
        for (slot, rank) in self.dense.iter().zip(&mut self.ranks) {
            if slot.id != NONE {
                *rank = place(slot.id);
            }
        }
        for (id, rank) in self.far.values_mut() {
            *rank = place(*id);
        }
        self.values = next;
        self.dense = Vec::new();
    }
}

pub(super) struct Orders {
    pub(super) known: Vec<Known>,
    keys: Vec<[Order; 2]>,
    /// For each operation, whether it certainly took effect.
    pub(super) committed: Vec<bool>,
    /// Value numbers of all polled records, in the order of the history.
    pub(super) polled: Vec<u32>,
    /// Value numbers of all sends, in the order of the history.
    pub(super) sent: Vec<u32>,
}

type Numbers = HashMap<(Key, Value), u32, BuildHasherDefault<Spread>>;

/// Hash of numbers that nobody chose against us.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(32) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Orders {
    pub(super) fn build(history: &History, report: &mut Report) -> Orders {
        let keys_count = keys_count(history);
        let mut orders = Orders {
            known: Vec::new(),
            keys: (0..keys_count).map(|_| <[Order; 2]>::default()).collect(),
            committed: Vec::new(),
            polled: Vec::new(),
            sent: Vec::new(),
        };
        orders.expect(history);
        let mut numbers = Numbers::default();
        orders.add_writers(history, &mut numbers, report);
        orders.add_polls(history, &mut numbers, report);
        orders.find_committed(history);
        orders.add_sends(history, report);
        for order in &mut orders.keys {
            for (level, order) in order.iter_mut().enumerate() {
                order.number(&mut orders.known, level);
            }
        }
        for known in &orders.known {
            if (0..2).any(|level| known.first[level] != known.last[level]) {
                report.add(Anomaly::Duplicate, || {
                    format!("key {} value {} stands twice", known.key, known.value)
                });
            }
        }
        orders
    }

    pub(super) fn order(&self, key: Key, level: usize) -> &Order {
        &self.keys[key as usize][level]
    }

    fn expect(&mut self, history: &History) {
        for op in &history.ops {
            for sent in &op.sends {
                self.keys[sent.key as usize]
                    .iter_mut()
                    .for_each(|order| order.expected += 1);
            }
            for polled in &op.polls {
                self.keys[polled.key as usize][op.isolation.index()].expected +=
                    polled.records.len();
            }
        }
    }

    fn number(&mut self, numbers: &mut Numbers, key: Key, value: Value) -> u32 {
        *numbers.entry((key, value)).or_insert_with(|| {
            self.known.push(Known {
                key,
                value,
                writer: NONE,
                told: None,
                first: [NONE; 2],
                last: [NONE; 2],
                ok_read: [false; 2],
            });
            self.known.len() as u32 - 1
        })
    }

    fn add_writers(&mut self, history: &History, numbers: &mut Numbers, report: &mut Report) {
        for (number, op) in history.ops.iter().enumerate() {
            for sent in &op.sends {
                let id = self.number(numbers, sent.key, sent.value);
                self.sent.push(id);
                let known = &mut self.known[id as usize];
                if known.writer != NONE {
                    report.add(Anomaly::InvalidHistory, || format!("sent twice: {sent:?}"));
                }
                known.writer = number as u32;
                known.told = sent.offset;
                if sent.offset.is_some_and(|offset| offset < 0) {
                    report.add(Anomaly::InvalidHistory, || {
                        format!("acknowledged below zero: {sent:?}")
                    });
                }
            }
        }
    }

    /// Puts a value at an offset and returns its number; `id` is known for sends.
    fn put(
        &mut self,
        numbers: Option<&mut Numbers>,
        at: Sighting,
        id: u32,
        report: &mut Report,
    ) -> u32 {
        let Sighting {
            level,
            key,
            offset,
            value,
        } = at;
        let held = match self.keys[key as usize][level].slot(offset) {
            Some(slot) if slot.id != NONE && slot.value == value => return slot.id,
            Some(slot) => slot.id,
            None => self.keys[key as usize][level]
                .far
                .get(&offset)
                .map_or(NONE, |(id, _)| *id),
        };
        let id = match numbers {
            Some(numbers) => self.number(numbers, key, value),
            None => id,
        };
        if held == id {
            return id;
        }
        let mut is_consistent = |held: u32| {
            if held != NONE && held != id {
                let other = self.known[held as usize].value;
                report.add(Anomaly::InconsistentOffsets, || {
                    format!("key {key} offset {offset} held {other} and {value}")
                });
            }
            held == NONE
        };
        if !is_consistent(held) {
            return id;
        }
        // An offset is one record for readers of both levels, though one of them may not be shown it.
        is_consistent(self.keys[key as usize][1 - level].held(offset));
        let order = &mut self.keys[key as usize][level];
        match order.slot(offset) {
            Some(slot) => *slot = Slot { value, id },
            None => drop(order.far.insert(offset, (id, NONE))),
        }
        id
    }

    fn add_polls(&mut self, history: &History, numbers: &mut Numbers, report: &mut Report) {
        for op in &history.ops {
            let level = op.isolation.index();
            report.events += 1;
            for polled in &op.polls {
                report.events += polled.records.len() as u64;
                for (offset, value) in &polled.records {
                    let at = Sighting {
                        level,
                        key: polled.key,
                        offset: *offset,
                        value: *value,
                    };
                    let id = self.put(Some(numbers), at, NONE, report);
                    self.polled.push(id);
                    self.known[id as usize].ok_read[level] |= op.outcome == Outcome::Ok;
                }
            }
        }
    }

    /// An operation took effect when it said so, or when somebody read what it wrote.
    fn find_committed(&mut self, history: &History) {
        let mut sent = self.sent.iter();
        let known = &self.known;
        let committed = |op: &Op| {
            let mut read = false;
            for id in sent.by_ref().take(op.sends.len()) {
                let [committed, uncommitted] = known[*id as usize].ok_read;
                // An uncommitted reader proves nothing about the end of a transaction.
                read |= committed || (uncommitted && !op.is_txn());
            }
            op.outcome == Outcome::Ok || (op.outcome == Outcome::Info && read)
        };
        self.committed = history.ops.iter().map(committed).collect();
    }

    fn add_sends(&mut self, history: &History, report: &mut Report) {
        let mut next = 0;
        for (number, op) in history.ops.iter().enumerate() {
            for sent in &op.sends {
                let id = self.sent[next];
                next += 1;
                let Some(offset) = sent.offset.filter(|offset| *offset >= 0) else {
                    continue;
                };
                for level in Isolation::ALL {
                    let shown =
                        self.committed[number] || (level == Isolation::Uncommitted && op.is_txn());
                    if shown {
                        let at = Sighting {
                            level: level.index(),
                            key: sent.key,
                            offset,
                            value: sent.value,
                        };
                        self.put(None, at, id, report);
                    }
                }
            }
        }
    }
}

struct Sighting {
    level: usize,
    key: Key,
    offset: i64,
    value: Value,
}

fn keys_count(history: &History) -> usize {
    let keys = |op: &Op| {
        let sent = op.sends.iter().map(|sent| sent.key);
        sent.chain(op.polls.iter().map(|polled| polled.key)).max()
    };
    history
        .ops
        .iter()
        .filter_map(keys)
        .max()
        .map_or(0, |key| key as usize + 1)
}
