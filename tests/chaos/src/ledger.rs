//! The records that were sent, acknowledged and shown to readers; and the verdict over all of it.
//!
//! Every value is unique and names its producer and number, so the log can be judged without trusting any offset it names.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Fills large records.
const PAD: u8 = b'=';

/// One value: producer, then number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Value {
    pub(crate) producer: u16,
    pub(crate) number: u64,
}

impl Value {
    /// The bytes of the record: the name of the value, then a filler whose length and content follow from it.
    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut bytes = format!("{}:{}:", self.producer, self.number).into_bytes();
        let mut state =
            (self.number << 16 | u64::from(self.producer)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for _ in 0..state >> 57 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push(state as u8);
        }
        bytes
    }

    /// The same with so many bytes behind.
    pub(crate) fn padded_bytes(self, padding: usize) -> Vec<u8> {
        let mut bytes = self.bytes();
        bytes.resize(bytes.len() + padding, PAD);
        bytes
    }

    pub(crate) fn of_padded(bytes: &[u8], padding: usize) -> Option<Value> {
        let (value, pad) = bytes.split_at_checked(bytes.len().checked_sub(padding)?)?;
        let is_pad = pad.iter().all(|byte| *byte == PAD);
        Value::of(value).filter(|_| is_pad)
    }

    /// `None` for bytes that no producer ever sent.
    pub(crate) fn of(bytes: &[u8]) -> Option<Value> {
        let mut parts = bytes.splitn(3, |byte| *byte == b':');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
        let value = Value {
            producer: u16::try_from(number()?).ok()?,
            number: number()?,
        };
        (value.bytes() == bytes).then_some(value)
    }
}

/// One producer's account.
#[derive(Clone, Default)]
pub(crate) struct Account {
    pub(crate) idempotent: bool,
    /// A plain producer with several requests under way: one that is sent again may come behind a later one.
    pub(crate) reorders: bool,
    /// Values by partition, in the order of sending; acknowledged ones are a beginning of it.
    pub(crate) sent: BTreeMap<i32, Vec<u64>>,
    /// How many of them were acknowledged, and the offsets that were told.
    pub(crate) acked: BTreeMap<i32, Vec<Option<i64>>>,
    /// Why it stopped, if it did not stop by order.
    pub(crate) failure: Option<String>,
}

impl Account {
    pub(crate) fn sent_count(&self) -> usize {
        self.sent.values().map(Vec::len).sum()
    }

    pub(crate) fn acked_count(&self) -> usize {
        self.acked.values().map(Vec::len).sum()
    }
}

/// All records of a topic as read back: value by partition and offset.
pub(crate) type Log = BTreeMap<i32, BTreeMap<i64, Value>>;

/// The counts that the verdict rests on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) acked: usize,
    pub(crate) records: usize,
    /// Records of plain producers that are there twice, which is allowed.
    pub(crate) repeated: usize,
    pub(crate) shown: usize,
    /// Records that were removed before a reader was shown them.
    pub(crate) unseen: usize,
}

/// Judges the log against what producers and readers were told.
pub(crate) fn judge(accounts: &[Account], shown: &Log, log: &Log) -> Result<Counts, String> {
    judge_from(accounts, shown, log, &BTreeMap::new())
}

/// The same of a topic whose oldest records are removed: `starts` has the first offset that is left of each partition. What was removed is
/// judged by what the reader was shown before.
pub(crate) fn judge_from(
    accounts: &[Account],
    shown: &Log,
    log: &Log,
    starts: &BTreeMap<i32, i64>,
) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let mut places: HashMap<(i32, Value), Vec<i64>> = HashMap::new();
    let start_of = |partition: &i32| starts.get(partition).copied().unwrap_or(0);
    let nothing = BTreeMap::new();
    for (partition, start) in starts {
        let removed = shown.get(partition).unwrap_or(&nothing).range(..start);
        let mut seen = 0;
        for (offset, value) in removed {
            seen += 1;
            places
                .entry((*partition, *value))
                .or_default()
                .push(*offset);
        }
        counts.records += seen;
        counts.unseen += *start as usize - seen;
    }
    for (partition, records) in log {
        for (at, (offset, value)) in (start_of(partition)..).zip(records) {
            if at != *offset {
                return Err(format!(
                    "partition {partition} has no record at offset {at}"
                ));
            }
            places
                .entry((*partition, *value))
                .or_default()
                .push(*offset);
        }
        counts.records += records.len();
    }
    // True if nobody can know any more which record was there.
    let is_any_unseen = counts.unseen > 0;
    let is_unseen = |partition: &i32, told: &Option<i64>| {
        let start = start_of(partition);
        let shown = shown.get(partition).unwrap_or(&nothing);
        told.map_or(is_any_unseen && start > 0, |told| {
            told < start && !shown.contains_key(&told)
        })
    };
    for (partition, records) in shown {
        for (offset, value) in records.range(start_of(partition)..) {
            let now = log.get(partition).and_then(|log| log.get(offset));
            if now != Some(value) {
                return Err(format!(
                    "a reader was shown {value:?} at {partition}/{offset}, now there is {now:?}"
                ));
            }
        }
    }
    counts.shown = shown.values().map(BTreeMap::len).sum();
    for (producer, account) in accounts.iter().enumerate() {
        let producer = producer as u16;
        if let Some(failure) = &account.failure {
            return Err(format!("producer {producer} stopped: {failure}"));
        }
        for (partition, sent) in &account.sent {
            let acked = account.acked.get(partition).map_or(&[][..], Vec::as_slice);
            counts.acked += acked.len();
            let mut last = -1;
            for (at, number) in sent.iter().enumerate() {
                let value = Value {
                    producer,
                    number: *number,
                };
                let found = places.remove(&(*partition, value)).unwrap_or_default();
                let Some(first) = found.first().copied() else {
                    if at < acked.len() && !is_unseen(partition, &acked[at]) {
                        return Err(format!(
                            "{value:?} was acknowledged at {partition}/{:?} and is lost",
                            acked[at]
                        ));
                    }
                    continue;
                };
                if found.len() > 1 && account.idempotent {
                    return Err(format!(
                        "{value:?} of an idempotent producer is in {partition} at {found:?}"
                    ));
                }
                counts.repeated += found.len() - 1;
                if let Some(Some(told)) = acked.get(at)
                    && !found.contains(told)
                    && !is_unseen(partition, &Some(*told))
                {
                    return Err(format!(
                        "{value:?} was acknowledged at {partition}/{told} and is at {found:?}"
                    ));
                }
                if first <= last && !account.reorders {
                    return Err(format!(
                        "{value:?} is at {partition}/{first}, before what was sent earlier"
                    ));
                }
                last = first;
            }
        }
    }
    let phantoms: BTreeSet<_> = places.into_keys().collect();
    match phantoms.first() {
        Some(phantom) => Err(format!("{phantom:?} was never sent there")),
        None => Ok(counts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(producer: u16, number: u64) -> Value {
        Value { producer, number }
    }

    /// Two producers, one partition, everything as it should be.
    fn clean() -> (Vec<Account>, Log, Log) {
        let account = |idempotent| Account {
            idempotent,
            sent: BTreeMap::from([(0, vec![0, 1, 2])]),
            ..Account::default()
        };
        let mut accounts = vec![account(true), account(false)];
        accounts[0].acked.insert(0, vec![Some(0), Some(2)]);
        accounts[1].acked.insert(0, vec![Some(1)]);
        let records = [
            value(0, 0),
            value(1, 0),
            value(0, 1),
            value(1, 1),
            value(1, 1),
        ];
        let log: BTreeMap<i64, Value> = (0..).zip(records).collect();
        let shown = log.clone().into_iter().take(3).collect();
        (accounts, Log::from([(0, shown)]), Log::from([(0, log)]))
    }

    fn change(edit: impl FnOnce(&mut Vec<Account>, &mut Log, &mut BTreeMap<i64, Value>)) -> String {
        let (mut accounts, mut shown, mut log) = clean();
        edit(&mut accounts, &mut shown, log.get_mut(&0).unwrap());
        judge(&accounts, &shown, &log).map(|_| ()).unwrap_err()
    }

    #[test]
    fn a_clean_history_passes_and_is_counted() {
        let (accounts, shown, log) = clean();
        let counts = judge(&accounts, &shown, &log).unwrap();
        assert_eq!(
            (counts.acked, counts.records, counts.repeated, counts.shown),
            (3, 5, 1, 3)
        );
    }

    #[test]
    fn every_kind_of_damage_is_named() {
        let lost = change(|accounts, shown, log| {
            shown.clear();
            accounts[1].acked.clear();
            log.insert(2, value(1, 0));
        });
        assert!(lost.contains("is lost"), "{lost}");
        let twice = change(|_, _, log| {
            log.insert(5, value(0, 1));
        });
        assert!(twice.contains("of an idempotent producer"), "{twice}");
        let hole = change(|_, _, log| {
            log.remove(&3);
        });
        assert!(hole.contains("no record at offset 3"), "{hole}");
        let unshown = change(|_, shown, _| {
            shown.get_mut(&0).unwrap().insert(1, value(1, 1));
        });
        assert!(unshown.contains("was shown"), "{unshown}");
        let moved = change(|accounts, _, _| accounts[0].acked.get_mut(&0).unwrap()[1] = Some(4));
        assert!(moved.contains("acknowledged at 0/4"), "{moved}");
        let phantom = change(|_, _, log| {
            log.insert(5, value(7, 7));
        });
        assert!(phantom.contains("never sent"), "{phantom}");
        let disorder = change(|accounts, _, _| {
            accounts[1].sent.insert(0, vec![1, 0, 2]);
        });
        assert!(
            disorder.contains("before what was sent") || disorder.contains("acknowledged"),
            "{disorder}"
        );
        let failed = change(|accounts, _, _| accounts[0].failure = Some("fenced".to_owned()));
        assert!(failed.contains("fenced"), "{failed}");
    }

    /// The two oldest records are removed, and the reader was shown them.
    #[test]
    fn what_was_removed_is_judged_by_what_was_shown() {
        let trim = |edit: fn(&mut Vec<Account>, &mut Log)| {
            let (mut accounts, mut shown, mut log) = clean();
            log.get_mut(&0).unwrap().retain(|offset, _| *offset >= 2);
            edit(&mut accounts, &mut shown);
            judge_from(&accounts, &shown, &log, &BTreeMap::from([(0, 2)]))
        };
        let counts = trim(|_, _| {}).unwrap();
        assert_eq!((counts.acked, counts.records, counts.unseen), (3, 5, 0));
        let lost = trim(|_, shown| {
            shown.get_mut(&0).unwrap().insert(1, value(0, 0));
        });
        assert!(lost.is_err(), "another record was shown where one was told");
        let unseen = trim(|_, shown| {
            shown.get_mut(&0).unwrap().remove(&1);
        });
        assert_eq!(unseen.unwrap().unseen, 1);
        let phantom = trim(|accounts, _| accounts[0].sent.insert(0, vec![1, 2]).map_or((), drop));
        assert!(phantom.is_err(), "a removed record that nobody sent");
        let lost = trim(|accounts, _| {
            accounts[1].acked.insert(0, vec![Some(1), Some(3), Some(9)]);
        });
        assert!(lost.is_err(), "acknowledged beyond the start");
    }

    #[test]
    fn values_are_their_bytes() {
        for number in 0..2000 {
            let value = value(3, number);
            assert_eq!(Value::of(&value.bytes()), Some(value));
            assert_eq!(Value::of_padded(&value.padded_bytes(70), 70), Some(value));
            assert_eq!(Value::of_padded(&value.padded_bytes(71), 70), None);
        }
        let mut bytes = value(3, 5).bytes();
        bytes.push(0);
        assert_eq!(Value::of(&bytes), None);
    }
}
