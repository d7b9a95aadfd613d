//! A member of a group that copies what it owns, each transaction with the offsets and with its place in the group (KIP-447): it alone
//! has its transactional id, so only the group can refuse one that was away for too long.
//!
//! Says `ready` with the time before it commits what it has written, and lingers then, so that it can be stopped there; afterwards
//! `copied` or, with the code, `refused`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{CLASSIC, Member, PATIENCE, Protocol};
use crate::children::say;
use crate::kills::Moments;
use crate::load::{PARTITIONS, TOPIC};
use crate::reading::Reading;
use crate::txn::{End, PAUSE, TxnProducer};

/// By protocol.
pub(crate) const OUTPUTS: [&str; 2] = ["copied-classic", "copied-consumer"];
pub(crate) const LINGER: Duration = Duration::from_millis(500);
/// One that is stopped must not be fenced because its transaction is over.
const TIMEOUT_MS: i32 = 30_000;
/// How many transactions linger: one of so many.
const LINGERS: u64 = 3;

struct Copier {
    member: Member,
    protocol: Protocol,
    producer: TxnProducer,
    moments: Moments,
    /// Its epoch and its partitions when it last asked where to go on.
    held: (i32, Vec<i32>),
    reading: Reading,
}

/// Until it is told to stop: address, group, protocol, an id of its own, and a seed.
pub(crate) fn alone(words: &[String], stop: &AtomicBool) -> Result<(), String> {
    let [address, group, protocol, id, seed] = words else {
        return Err("a copier needs address, group, protocol, id and seed".to_owned());
    };
    let output = OUTPUTS[usize::from(protocol != CLASSIC)];
    let (member, protocol) = Member::new(address, group, protocol, id)?;
    let mut producer = TxnProducer::new(address, id, output);
    producer.timeout_ms = TIMEOUT_MS;
    producer.init()?;
    let mut copier = Copier {
        member,
        protocol,
        producer,
        moments: Moments(seed.parse().map_err(|_| "no number")?),
        held: (0, Vec::new()),
        reading: Reading::new(address, TOPIC, BTreeMap::new()),
    };
    let mut heard = Instant::now();
    while !stop.load(Ordering::Acquire) {
        match copier.member.beat(&mut copier.protocol) {
            Ok(()) => {
                heard = Instant::now();
                copier.copy()?;
            }
            Err(error) => {
                copier.member.connection = None;
                if heard.elapsed() > PATIENCE {
                    return Err(format!("no answer for {} s: {error}", PATIENCE.as_secs()));
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
    copier.member.leave(&copier.protocol);
    Ok(())
}

impl Copier {
    /// One transaction, if it owns anything and there is anything to copy.
    fn copy(&mut self) -> Result<(), String> {
        let owned: Vec<i32> = self.member.positions.keys().copied().collect();
        if self.member.epoch <= 0 || owned.is_empty() {
            return Ok(());
        }
        let place = (self.member.epoch, owned);
        if self.held != place {
            let group = self.member.group.clone();
            let from = self.producer.committed(&group, TOPIC, &place.1)?;
            self.reading = Reading::new(&self.member.address, TOPIC, from);
            self.held = place;
        }
        let mut offsets = BTreeMap::new();
        let mut values: BTreeMap<i32, Vec<Vec<u8>>> = BTreeMap::new();
        for taken in self.reading.poll()? {
            offsets.insert(taken.partition, taken.offset + 1);
            let target = (taken.partition + taken.offset as i32).rem_euclid(PARTITIONS);
            values.entry(target).or_default().push(taken.value);
        }
        if offsets.is_empty() {
            return Ok(());
        }
        self.transact(&values, &offsets).map_err(|end| match end {
            End::Fenced => "fenced, though nobody else has its transactional id".to_owned(),
            End::Wrong(why) => why,
        })
    }

    fn transact(
        &mut self,
        values: &BTreeMap<i32, Vec<Vec<u8>>>,
        offsets: &BTreeMap<i32, i64>,
    ) -> Result<(), End> {
        self.producer.begin();
        let parts = values.iter();
        let mut parts: Vec<_> = parts
            .map(|(target, values)| self.producer.part(*target, values))
            .collect();
        self.producer.write(&mut parts)?;
        if self.moments.next(LINGERS) == 0 {
            say(&format!("ready {}", self.member.clock.now()));
            std::thread::sleep(LINGER);
        }
        let member = (self.member.id.as_str(), self.member.epoch);
        let group = &self.member.group;
        let refusal = self
            .producer
            .commit_offsets_as(group, member, TOPIC, offsets)?;
        self.producer.end(refusal.is_none())?;
        match refusal {
            None => say("copied"),
            Some(code) => {
                // Whatever it read since it was a member is another's.
                self.held = (0, Vec::new());
                say(&format!("refused {code}"));
            }
        }
        Ok(())
    }
}
