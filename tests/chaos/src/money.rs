//! Money: each transaction moves an amount between two accounts in different partitions, and writes both new balances. Tellers share
//! ids, crash, dawdle and are fenced while the broker is killed; readers of committed data never see money appear or vanish.
//!
//! A teller that takes over reads the balances of its id first. So a zombie whose commit came through after all, half a transfer or
//! a forgotten one leaves a balance that does not begin where the one before it ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sim::checker::Outcome as Told;

use crate::kills::Moments;
use crate::load::{PARTITIONS, create_topic};
use crate::place::Place;
use crate::reading::{Reading, Taken};
use crate::site::Site;
use crate::txn::{PATIENCE, PAUSE, Tally, TxnProducer};
use crate::{Outcome, Plan, Verdict};

const TOPIC: &str = "money";
/// Transactional id and its protocol. Two share each but the first.
const TELLERS: [(&str, bool); 5] = [
    ("money-0", false),
    ("money-1", false),
    ("money-1", false),
    ("money-2", true),
    ("money-2", true),
];
/// In each account of each id, of which there is one in each partition.
const START: i64 = 1_000;
/// Transfers between two deaths.
const COMMITS: u64 = 10;

/// One of the two balances that a transfer writes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    id: String,
    /// Of the transfer.
    number: u64,
    before: i64,
    after: i64,
}

impl Entry {
    fn bytes(&self) -> Vec<u8> {
        let Entry {
            id,
            number,
            before,
            after,
        } = self;
        format!("{id}:{number}:{before}:{after}").into_bytes()
    }

    fn of(bytes: &[u8]) -> Option<Entry> {
        let mut parts = std::str::from_utf8(bytes).ok()?.split(':');
        Some(Entry {
            id: parts.next()?.to_owned(),
            number: parts.next()?.parse().ok()?,
            before: parts.next()?.parse().ok()?,
            after: parts.next()?.parse().ok()?,
        })
    }
}

/// The knowledge that a reader has of all accounts.
#[derive(Clone, Debug, Default)]
struct Book {
    /// By id and partition.
    balances: BTreeMap<(String, i32), i64>,
    /// Transfers of each id of which one balance was seen, with what it gained.
    halves: BTreeMap<String, BTreeMap<u64, i64>>,
    whole: BTreeSet<u64>,
    /// How often all accounts of an id were summed.
    audits: u64,
}

impl Book {
    fn balance(&self, id: &str, partition: i32) -> i64 {
        let known = self.balances.get(&(id.to_owned(), partition));
        known.copied().unwrap_or(START)
    }

    fn enter(&mut self, taken: &Taken) -> Result<(), String> {
        let at = (taken.partition, taken.offset);
        let entry = Entry::of(&taken.value).ok_or_else(|| format!("nobody wrote {at:?}"))?;
        let (id, number) = (entry.id.clone(), entry.number);
        let known = self.balance(&id, taken.partition);
        if entry.before != known {
            return Err(format!(
                "{at:?}: {entry:?} does not begin with the balance that was committed, {known}"
            ));
        }
        self.balances
            .insert((id.clone(), taken.partition), entry.after);
        let gained = entry.after - entry.before;
        let halves = self.halves.entry(id.clone()).or_default();
        match halves.remove(&number) {
            Some(other) if other + gained == 0 && self.whole.insert(number) => {}
            None if !self.whole.contains(&number) => {
                halves.insert(number, gained);
            }
            _ => return Err(format!("{at:?}: {entry:?} is there too often")),
        }
        if halves.is_empty() {
            self.audits += 1;
            let sum: i64 = (0..PARTITIONS).map(|at| self.balance(&id, at)).sum();
            if sum != START * i64::from(PARTITIONS) {
                return Err(format!("{at:?}: the accounts of {id} hold {sum}"));
            }
        }
        Ok(())
    }

    /// Everything was read: holds it against what tellers were told.
    fn close(&self, told: &BTreeMap<u64, Told>) -> Result<(), String> {
        if let Some((id, halves)) = self.halves.iter().find(|(_, halves)| !halves.is_empty()) {
            return Err(format!("transfers of {id} are torn: {halves:?}"));
        }
        for (number, outcome) in told {
            match (outcome, self.whole.contains(number)) {
                (Told::Ok, false) => return Err(format!("transfer {number} is lost")),
                (Told::Fail, true) => return Err(format!("transfer {number} was never committed")),
                _ => {}
            }
        }
        match self.whole.iter().find(|number| !told.contains_key(number)) {
            Some(number) => Err(format!("transfer {number} was never asked for")),
            None => Ok(()),
        }
    }
}

struct Notes {
    tally: Mutex<Tally>,
    told: Mutex<BTreeMap<u64, Told>>,
    stop: AtomicBool,
    /// No teller is left.
    is_over: AtomicBool,
}

impl Notes {
    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

struct Teller {
    id: &'static str,
    producer: TxnProducer,
    reading: Reading,
    book: Book,
    next: u64,
    moments: Moments,
    notes: Arc<Notes>,
}

impl Teller {
    fn work(&mut self) -> Result<(), String> {
        while !self.notes.is_stopping() {
            self.producer.init()?;
            let (reading, book) = (&mut self.reading, &mut self.book);
            reading.read_to_end(|taken| book.enter(&taken))?;
            let id = self.id;
            let mut balances: Vec<i64> = (0..PARTITIONS)
                .map(|at| self.book.balance(id, at))
                .collect();
            while !self.notes.is_stopping() && self.transfer(&mut balances)? {}
        }
        Ok(())
    }

    /// One transfer; false when this teller ends with it.
    fn transfer(&mut self, balances: &mut [i64]) -> Result<bool, String> {
        let from = self.moments.next(PARTITIONS as u64) as usize;
        let to = (from + 1 + self.moments.next(PARTITIONS as u64 - 1) as usize) % balances.len();
        let amount = 1 + self.moments.next(20) as i64;
        let number = self.next;
        self.next += 1;
        let changes = [(from, -amount), (to, amount)];
        self.producer.begin();
        let mut parts: Vec<_> = changes
            .iter()
            .map(|(at, gained)| {
                let entry = Entry {
                    id: self.id.to_owned(),
                    number,
                    before: balances[*at],
                    after: balances[*at] + gained,
                };
                self.producer.part(*at as i32, &[entry.bytes()])
            })
            .collect();
        self.notes.tally.lock().open += 1;
        let ended = match self.producer.write(&mut parts) {
            Ok(()) if self.moments.next(40) == 0 => Ok(None),
            Ok(()) => {
                if self.moments.next(15) == 0 {
                    // Long enough to become a zombie.
                    std::thread::sleep(Duration::from_millis(self.moments.next(500)));
                }
                let committed = self.moments.next(5) > 0;
                self.producer.end(committed).map(Some)
            }
            Err(end) => Err(end),
        };
        let (outcome, goes_on) = self.notes.tally.lock().settle(ended)?;
        self.notes.told.lock().insert(number, outcome);
        if outcome == Told::Ok {
            for (at, gained) in changes {
                balances[at] += gained;
            }
        }
        if !goes_on {
            self.producer.drop_connection();
            // So that two of one id do not keep each other from everything.
            std::thread::sleep(Duration::from_millis(self.moments.next(400)));
        }
        Ok(goes_on)
    }
}

fn from_the_start(address: &str) -> Reading {
    Reading::new(address, TOPIC, (0..PARTITIONS).map(|at| (at, 0)).collect())
}

/// Reads as the log grows, until nobody writes any more, and then to its end.
fn follow(address: &str, notes: &Notes) -> Result<Book, String> {
    let (mut reading, mut book) = (from_the_start(address), Book::default());
    while !notes.is_over.load(Ordering::Acquire) {
        for taken in reading.poll()? {
            book.enter(&taken)?;
        }
    }
    reading.read_to_end(|taken| book.enter(&taken))?;
    Ok(book)
}

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    let mut site = Site::of_kills(plan, place)?;
    let address = site.launch.address();
    let mut moments = Moments(plan.seed);
    let mut broker = site.launch.start()?;
    create_topic(&address, TOPIC)?;
    let notes = Arc::new(Notes {
        tally: Mutex::default(),
        told: Mutex::default(),
        stop: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    });
    let tellers = (1..).zip(TELLERS).map(|(number, (id, is_old))| {
        let mut producer = TxnProducer::new(&address, id, TOPIC);
        producer.is_old = is_old;
        let mut teller = Teller {
            id,
            producer,
            reading: from_the_start(&address),
            book: Book::default(),
            next: number << 32,
            moments: Moments(plan.seed ^ number << 20),
            notes: Arc::clone(&notes),
        };
        std::thread::spawn(move || teller.work().map_err(|why| format!("{id}: {why}")))
    });
    let tellers: Vec<JoinHandle<Result<(), String>>> = tellers.collect();
    let reader = {
        let (address, notes) = (address.clone(), Arc::clone(&notes));
        std::thread::spawn(move || follow(&address, &notes))
    };
    let is_lost = || reader.is_finished() || tellers.iter().any(JoinHandle::is_finished);
    let mut struck = Ok(());
    for _ in 0..plan.kills {
        struck = wait_for_commits(&notes, COMMITS, is_lost);
        if struck.is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(moments.next(600)));
        broker = site.strike(broker, &mut moments, || notes.tally.lock().open > 0)?;
    }
    struck = struck.and_then(|()| wait_for_commits(&notes, COMMITS, is_lost));
    notes.stop.store(true, Ordering::Release);
    let ended: Vec<_> = tellers.into_iter().map(JoinHandle::join).collect();
    notes.is_over.store(true, Ordering::Release);
    for ended in ended {
        ended.map_err(|_| "a teller panicked".to_owned())??;
    }
    let live = reader
        .join()
        .map_err(|_| "the reader panicked".to_owned())??;
    struck?;
    let mut book = Book::default();
    from_the_start(&address).read_to_end(|taken| book.enter(&taken))?;
    broker.kill();
    let tally = *notes.tally.lock();
    place.say(&site.describe());
    place.say(&format!(
        "{} transfers, all accounts of an id summed {} times by a reader, {} times at last; {tally}",
        book.whole.len(),
        live.audits,
        book.audits
    ));
    let told = notes.told.lock();
    live.close(&told)?;
    book.close(&told)?;
    site.launch.check_words()?;
    site.check_hits()?;
    tally.check()?;
    match live.audits {
        0 => Err("vacuous: no reader ever summed the accounts".to_owned()),
        _ => Ok(Verdict::Passed),
    }
}

fn wait_for_commits(notes: &Notes, more: u64, is_lost: impl Fn() -> bool) -> Result<(), String> {
    let committed = || notes.tally.lock().committed;
    let goal = committed() + more;
    let begun = Instant::now();
    while committed() < goal {
        if is_lost() {
            return Err("a client stopped".to_owned());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("{more} transfers were not committed in time"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, partition, balance before and after.
    fn book(entries: &[(u64, i32, i64, i64)]) -> Result<Book, String> {
        let mut book = Book::default();
        for (offset, (number, partition, before, after)) in (0..).zip(entries.iter().copied()) {
            let entry = Entry {
                id: "id".to_owned(),
                number,
                before,
                after,
            };
            assert_eq!(Entry::of(&entry.bytes()), Some(entry.clone()));
            book.enter(&Taken {
                partition,
                offset,
                value: entry.bytes(),
            })?;
        }
        Ok(book)
    }

    #[test]
    fn money_that_appears_or_vanishes_is_seen() {
        let one = [(1, 0, 1_000, 990), (1, 1, 1_000, 1_010)];
        let told = BTreeMap::from([(1, Told::Ok)]);
        assert_eq!(book(&one).and_then(|book| book.close(&told)), Ok(()));
        assert!(book(&one[..1]).unwrap().close(&told).is_err(), "torn");
        assert!(book(&[]).unwrap().close(&told).is_err(), "lost");
        let aborted = BTreeMap::from([(1, Told::Fail)]);
        assert!(book(&one).unwrap().close(&aborted).is_err());
        // A zombie that knew nothing of the first transfer.
        let stale = [one[0], one[1], (2, 0, 1_000, 995), (2, 1, 1_010, 1_015)];
        assert!(book(&stale).is_err());
        assert!(book(&[one[0], (1, 1, 1_000, 1_011)]).is_err(), "gained");
        assert!(book(&[one[0], one[1], (1, 0, 990, 980)]).is_err(), "twice");
    }
}
