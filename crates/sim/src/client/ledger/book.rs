//! The writes to the ledger by transaction, and what a reading of it may show.
//!
//! The first record of each transaction has a key of its own and is never superseded: whether it is there shows what became of a
//! transaction whose commit was not answered. Invariant: a fate that is known never changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Few, so that most records are soon superseded.
pub(super) const KEYS: u64 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Open,
    /// Its commit was asked for, and not answered yet or never.
    Asked,
    Committed,
    Aborted,
}

#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) key: u64,
    /// False deletes the key.
    pub(super) is_value: bool,
    txn: usize,
    /// Where it stands, once that is known.
    offset: Option<i64>,
}

struct Txn {
    writes: Range<usize>,
    fate: Fate,
}

/// A reading from the start to the end.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) is_committed: bool,
    pub(super) next: i64,
    /// The last write of each key that it met.
    last: BTreeMap<u64, usize>,
    found: BTreeSet<usize>,
}

#[derive(Default)]
pub(super) struct Book {
    writes: Vec<Write>,
    txns: Vec<Txn>,
    /// True if a deletion that is the last of its key must still be there.
    retains_deletions: bool,
    stable_max: i64,
    /// Deleted keys that the committed reading before found. It may have met them on their way out.
    stale: BTreeMap<u64, usize>,
    /// Writes of aborted transactions that a reading of everything did not find any more.
    pub(super) cleaned: BTreeSet<usize>,
    /// Readings of everything that met a transaction which was still open, behind what was cleaned.
    pub(super) met_open: u64,
}

impl Book {
    pub(super) fn new(retains_deletions: bool) -> Book {
        Book {
            retains_deletions,
            ..Book::default()
        }
    }

    pub(super) fn begin(&mut self) {
        let at = self.writes.len();
        self.txns.push(Txn {
            writes: at..at,
            fate: Fate::Open,
        });
    }

    /// True if the transaction has written nothing yet: its next write gets a key that nobody else has.
    pub(super) fn key_of_its_own(&self) -> Option<u64> {
        let txn = self.txns.last()?;
        txn.writes.is_empty().then(|| KEYS + self.txns.len() as u64)
    }

    /// Its number.
    pub(super) fn write(&mut self, key: u64, is_value: bool) -> usize {
        let number = self.writes.len();
        let txn = self.txns.len().saturating_sub(1);
        self.writes.push(Write {
            key,
            is_value,
            txn,
            offset: None,
        });
        if let Some(txn) = self.txns.last_mut() {
            txn.writes.end = number + 1;
        }
        number
    }

    pub(super) fn written(&self, number: usize) -> Option<&Write> {
        self.writes.get(number)
    }

    pub(super) fn acked(&mut self, numbers: Range<usize>, base: i64) -> Result<(), String> {
        for (delta, number) in numbers.enumerate() {
            self.stands(number, base + delta as i64)?;
        }
        Ok(())
    }

    /// Of the last transaction.
    pub(super) fn ends(&mut self, fate: Fate) {
        if let Some(txn) = self.txns.last_mut()
            && matches!(txn.fate, Fate::Open | Fate::Asked)
        {
            txn.fate = fate;
        }
    }

    /// Nobody asks for its end any more: what was not asked to be committed never will be.
    pub(super) fn gives_up(&mut self) {
        if self.txns.last().is_some_and(|txn| txn.fate == Fate::Open) {
            self.ends(Fate::Aborted);
        }
    }

    /// Where the open transaction begins.
    pub(super) fn open_from(&self) -> Option<i64> {
        let txn = self.txns.last().filter(|txn| txn.fate == Fate::Open)?;
        self.writes.get(txn.writes.start)?.offset
    }

    fn stands(&mut self, number: usize, offset: i64) -> Result<(), String> {
        let Some(write) = self.writes.get_mut(number) else {
            return Err(format!("write {number} was never made"));
        };
        match write.offset.replace(offset) {
            Some(before) if before != offset => Err(format!(
                "write {number} stood at {before} and stands at {offset}"
            )),
            _ => Ok(()),
        }
    }

    /// A reading met a write.
    pub(super) fn meets(
        &mut self,
        reading: &mut Reading,
        number: usize,
        offset: i64,
    ) -> Result<(), String> {
        self.stands(number, offset)?;
        reading.found.insert(number);
        reading.last.insert(self.writes[number].key, number);
        Ok(())
    }

    /// A reading came to the end of what it may see.
    pub(super) fn judge(&mut self, reading: &Reading, stable: i64, end: i64) -> Result<(), String> {
        if stable < self.stable_max || stable > end {
            let before = self.stable_max;
            return Err(format!(
                "the log ends at {end}, is stable up to {stable}, and was up to {before}"
            ));
        }
        self.stable_max = stable;
        if reading.is_committed {
            self.judge_fates(reading, stable)?;
            self.judge_last(reading, stable)
        } else {
            self.judge_all(reading, stable, end)
        }
    }

    /// A reader of committed records sees of each transaction all or nothing, and what its producer was told.
    fn judge_fates(&mut self, reading: &Reading, stable: i64) -> Result<(), String> {
        for number in &reading.found {
            let at = self.writes[*number].txn;
            let fate = &mut self.txns[at].fate;
            match fate {
                Fate::Committed => {}
                Fate::Asked => *fate = Fate::Committed,
                Fate::Open | Fate::Aborted => {
                    return Err(format!(
                        "write {number} of transaction {at} is shown, which is {fate:?}"
                    ));
                }
            }
        }
        for (at, txn) in self.txns.iter_mut().enumerate() {
            let Some(own) = self.writes[txn.writes.clone()].first() else {
                continue;
            };
            let is_past = own.offset.is_some_and(|offset| offset < stable);
            if !is_past || reading.found.contains(&txn.writes.start) {
                continue;
            }
            match txn.fate {
                Fate::Committed => {
                    return Err(format!(
                        "transaction {at} is committed and what has a key of its own, at {:?}, is not shown",
                        own.offset
                    ));
                }
                // It was not decided so, and will not be any more.
                Fate::Asked => txn.fate = Fate::Aborted,
                Fate::Open => {
                    return Err(format!(
                        "transaction {at} is open at {:?}, and the log is stable up to {stable}",
                        own.offset
                    ));
                }
                Fate::Aborted => {}
            }
        }
        Ok(())
    }

    /// The last committed write of each key is the last that is shown.
    fn judge_last(&mut self, reading: &Reading, stable: i64) -> Result<(), String> {
        let mut wanted = BTreeMap::new();
        for (number, write) in self.writes.iter().enumerate() {
            let is_past = write.offset.is_some_and(|offset| offset < stable);
            if is_past && self.txns[write.txn].fate == Fate::Committed {
                wanted.insert(write.key, number);
            }
        }
        let mut stale = BTreeMap::new();
        for (key, number) in wanted {
            let found = reading.last.get(&key).copied();
            if found == Some(number) {
                continue;
            }
            let write = &self.writes[number];
            let is_back = found.is_some() && self.stale.get(&key) == found.as_ref();
            if write.is_value || self.retains_deletions || is_back {
                return Err(format!(
                    "key {key}: {write:?} is its last, number {number}; a reading found {found:?}"
                ));
            }
            // A reader may pass a value that goes together with its deletion before it gets to that.
            stale.extend(found.map(|found| (key, found)));
        }
        self.stale = stale;
        Ok(())
    }

    /// Nothing is taken from what is not stable yet; of what was aborted nothing needs to be there.
    fn judge_all(&mut self, reading: &Reading, stable: i64, end: i64) -> Result<(), String> {
        let all = self.writes.iter().enumerate();
        let missing = all.filter(|(number, _)| !reading.found.contains(number));
        let mut cleaned = Vec::new();
        for (number, write) in missing {
            let Some(offset) = write.offset.filter(|offset| *offset < end) else {
                continue;
            };
            if offset >= stable {
                return Err(format!(
                    "write {number} at {offset} is gone, and the log is stable up to {stable} only"
                ));
            }
            if self.txns[write.txn].fate == Fate::Aborted {
                cleaned.push(number);
            }
        }
        self.met_open += u64::from(stable < end && !cleaned.is_empty());
        self.cleaned.extend(cleaned);
        Ok(())
    }

    /// Transactions that were aborted.
    pub(super) fn aborted(&self) -> usize {
        let fates = self.txns.iter().map(|txn| txn.fate);
        fates.filter(|fate| *fate == Fate::Aborted).count()
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "{} transactions, {} writes, the last one {:?}",
            self.txns.len(),
            self.writes.len(),
            self.txns.last().map(|txn| txn.fate)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transactions of two writes each, the second of key 1; each ends with a marker, but for the last.
    fn book(fates: &[Fate]) -> Book {
        let mut book = Book::new(false);
        for (at, fate) in fates.iter().enumerate() {
            book.begin();
            let own = book.key_of_its_own().unwrap();
            let first = book.write(own, true);
            let second = book.write(1, true);
            book.acked(first..second + 1, 3 * at as i64).unwrap();
            book.ends(*fate);
        }
        book
    }

    fn reading(book: &mut Book, is_committed: bool, numbers: &[usize]) -> Reading {
        let mut reading = Reading {
            is_committed,
            ..Reading::default()
        };
        for number in numbers {
            let offset = book.writes[*number].offset.unwrap();
            book.meets(&mut reading, *number, offset).unwrap();
        }
        reading
    }

    fn judge(fates: &[Fate], found: &[usize], stable: i64, end: i64) -> Result<(), String> {
        let mut book = book(fates);
        let reading = reading(&mut book, true, found);
        book.judge(&reading, stable, end)
    }

    #[test]
    fn the_last_committed_write_of_a_key_is_shown_and_no_other_one() {
        use Fate::{Aborted, Asked, Committed, Open};
        let two = [Committed, Committed];
        assert_eq!(judge(&two, &[0, 1, 2, 3], 6, 6), Ok(()), "nothing went");
        assert_eq!(judge(&two, &[0, 2, 3], 6, 6), Ok(()), "compacted");
        assert!(judge(&two, &[0, 1, 2], 6, 6).is_err());
        assert!(judge(&two, &[2, 3], 6, 6).is_err());
        let aborted = [Committed, Aborted];
        assert_eq!(judge(&aborted, &[0, 1], 6, 6), Ok(()));
        assert!(judge(&aborted, &[0], 6, 6).is_err(), "the aborted one won");
        assert!(judge(&aborted, &[0, 1, 3], 6, 6).is_err());
        let open = [Committed, Open];
        assert_eq!(judge(&open, &[0, 1], 3, 5), Ok(()));
        assert!(judge(&open, &[0, 1], 5, 5).is_err());
        assert_eq!(judge(&[Asked], &[], 3, 3), Ok(()));
        assert_eq!(judge(&[Asked], &[0, 1], 3, 3), Ok(()));
        assert!(judge(&[Asked], &[0], 3, 3).is_err(), "torn");
    }

    #[test]
    fn a_fate_that_a_reading_told_does_not_change() {
        let mut book = book(&[Fate::Asked]);
        let none = reading(&mut book, true, &[]);
        let all = reading(&mut book, true, &[0, 1]);
        assert_eq!(book.judge(&none, 3, 3), Ok(()));
        assert!(book.judge(&all, 3, 3).is_err());
    }

    #[test]
    fn what_is_not_stable_is_not_cleaned() {
        let mut book = book(&[Fate::Aborted, Fate::Open]);
        let cleaned = reading(&mut book, false, &[2, 3]);
        assert_eq!(book.judge(&cleaned, 3, 5), Ok(()));
        assert_eq!((book.cleaned.len(), book.met_open), (2, 1));
        let too_far = reading(&mut book, false, &[2]);
        assert!(book.judge(&too_far, 3, 5).is_err());
        let back = reading(&mut book, false, &[2, 3]);
        assert!(book.judge(&back, 2, 5).is_err(), "stable up to 3 before");
    }
}
