//! The comparison of the replicas of one partition: batches go in, the first offset that differs comes out.
//!
//! A machine without IO. Replicas are the same where their batches are, byte for byte. Compaction runs on each broker by itself: where
//! a topic is compacted, records of the same offset have to be the same, and one replica may have some that another has dropped.

use std::collections::VecDeque;

use bytes::Bytes;
use wire::records::{Batch, Caps, RecordIter, Source};

/// How two replicas are held against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Batches,
    /// For a compacted topic.
    Records,
}

/// The first place at which a replica is not as the first one, or cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) offset: i64,
    /// The replica in which it shows.
    pub(super) broker: i32,
    pub(super) what: String,
}

/// A record: its offset, and everything else of it in one form.
type Content = (i64, Vec<u8>);

struct Replica {
    broker: i32,
    /// It is compared up to here.
    end: i64,
    /// The first offset of which nothing was fetched.
    next: i64,
    batches: VecDeque<Batch>,
    records: VecDeque<Content>,
    /// Of the batches that came.
    bytes: u64,
}

/// See the module.
pub(super) struct Comparison {
    mode: Mode,
    /// Everything in front of it was compared.
    at: i64,
    replicas: Vec<Replica>,
}

impl Comparison {
    /// Of the offsets from `start` on; each replica is compared up to an end of its own. The first one is what the others are held
    /// against.
    pub(super) fn new(mode: Mode, start: i64, ends: &[(i32, i64)]) -> Comparison {
        let replica = |(broker, end): &(i32, i64)| Replica {
            broker: *broker,
            end: *end,
            next: start,
            batches: VecDeque::new(),
            records: VecDeque::new(),
            bytes: 0,
        };
        Comparison {
            mode,
            at: start,
            replicas: ends.iter().map(replica).collect(),
        }
    }

    pub(super) fn at(&self) -> i64 {
        self.at
    }

    /// Bytes of batches of the largest replica.
    pub(super) fn bytes(&self) -> u64 {
        let sizes = self.replicas.iter().map(|replica| replica.bytes);
        sizes.max().unwrap_or(0)
    }

    /// Brokers to be asked next, and from which offset on; nobody once all is compared.
    pub(super) fn wants(&self) -> Vec<(i32, i64)> {
        if self.taking_part().count() < 2 {
            return Vec::new();
        }
        let lacks = |replica: &&Replica| {
            let has_something = match self.mode {
                Mode::Batches => !replica.batches.is_empty(),
                Mode::Records => self.at < replica.next,
            };
            !has_something && replica.next < replica.end
        };
        let lacking = self.taking_part().filter(lacks);
        lacking.map(|it| (it.broker, it.next)).collect()
    }

    /// Goes on without the replicas of a broker that cannot be asked any more.
    pub(super) fn leave_out(&mut self, broker: i32) {
        self.replicas.retain(|replica| replica.broker != broker);
    }

    /// Offsets in front of `start` have gone from some replica.
    pub(super) fn skip_to(&mut self, start: i64) {
        self.at = self.at.max(start);
        for replica in &mut self.replicas {
            replica.next = replica.next.max(start);
            replica.batches.retain(|it| start < it.next_offset().0);
            replica.records.retain(|(offset, _)| start <= *offset);
        }
    }

    /// The broker has sent what comes next of its replica.
    pub(super) fn put(&mut self, broker: i32, bytes: &Bytes) -> Result<(), Difference> {
        let (mode, at) = (self.mode, self.at);
        let mut replicas = self.replicas.iter_mut();
        let Some(replica) = replicas.find(|replica| replica.broker == broker) else {
            return Ok(());
        };
        let before = replica.next;
        for batch in Batch::cut(bytes, Source::Log) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(fault) => return Err(replica.differs(replica.next, fault.to_string())),
            };
            if batch.next_offset().0 <= replica.next {
                let what = format!("sends a batch that ends at {}", batch.next_offset());
                return Err(replica.differs(replica.next, what));
            }
            if mode == Mode::Records {
                let records = contents(&batch);
                let records =
                    records.map_err(|what| replica.differs(batch.base_offset().0, what))?;
                let wanted = records.into_iter().filter(|(offset, _)| at <= *offset);
                replica.records.extend(wanted);
            }
            replica.next = batch.next_offset().0;
            replica.bytes += batch.size() as u64;
            if mode == Mode::Batches {
                replica.batches.push_back(batch);
            }
        }
        if replica.next == before {
            let what = format!("has nothing here, and its log ends at {}", replica.end);
            return Err(replica.differs(before, what));
        }
        Ok(())
    }

    /// Compares what has come of all.
    pub(super) fn advance(&mut self) -> Result<(), Difference> {
        match self.mode {
            Mode::Batches => self.compare_batches(),
            Mode::Records => self.compare_records(),
        }
    }

    fn compare_batches(&mut self) -> Result<(), Difference> {
        loop {
            let at = self.at;
            // A batch that is not whole in front of the end is not committed there.
            for replica in &mut self.replicas {
                let front = replica.batches.front();
                if front.is_some_and(|front| replica.end < front.next_offset().0) {
                    replica.end = at;
                }
            }
            let mut fronts = self
                .taking_part()
                .map(|replica| (replica, replica.batches.front()));
            let Some((_, Some(first))) = fronts.next() else {
                return Ok(());
            };
            let mut is_alone = true;
            for (replica, front) in fronts {
                let Some(front) = front else { return Ok(()) };
                if let Some((offset, what)) = difference(first, front) {
                    return Err(replica.differs(offset.max(at), what));
                }
                is_alone = false;
            }
            if is_alone {
                return Ok(());
            }
            self.at = first.next_offset().0;
            for replica in &mut self.replicas {
                if at < replica.end {
                    replica.batches.pop_front();
                }
            }
        }
    }

    fn compare_records(&mut self) -> Result<(), Difference> {
        while 2 <= self.taking_part().count() {
            let at = self.at;
            let known = |replica: &Replica| replica.next.min(replica.end);
            let Some(frontier) = self.taking_part().map(known).min() else {
                break;
            };
            if frontier <= at {
                break;
            }
            let lowest = |replica: &Replica| replica.records.front().map(|(offset, _)| *offset);
            while let Some(offset) = self.taking_part().filter_map(lowest).min()
                && offset < frontier
            {
                let has_it =
                    |replica: &&mut Replica| at < replica.end && lowest(replica) == Some(offset);
                let mut having = self.replicas.iter_mut().filter(has_it);
                let first = having
                    .next()
                    .and_then(|replica| replica.records.pop_front());
                for replica in having {
                    if replica.records.pop_front() != first {
                        return Err(replica.differs(offset, "has another record".to_owned()));
                    }
                }
            }
            self.at = frontier;
        }
        Ok(())
    }

    /// Replicas that are not compared to their ends yet.
    fn taking_part(&self) -> impl Iterator<Item = &Replica> {
        let at = self.at;
        self.replicas.iter().filter(move |replica| at < replica.end)
    }
}

impl Replica {
    fn differs(&self, offset: i64, what: String) -> Difference {
        Difference {
            offset,
            broker: self.broker,
            what,
        }
    }
}

/// The first offset at which two batches differ, and how the second one does.
fn difference(first: &Batch, other: &Batch) -> Option<(i64, String)> {
    if first.head() == other.head() && first.body() == other.body() {
        return None;
    }
    let (base, other_base) = (first.base_offset().0, other.base_offset().0);
    if base != other_base {
        let what = format!("goes on at {other_base}, not at {base}");
        return Some((base.min(other_base), what));
    }
    let (first, other) = match (contents(first), contents(other)) {
        (Ok(first), Ok(other)) => (first, other),
        (Err(what), _) | (_, Err(what)) => return Some((base, what)),
    };
    let is_same = |(first, other): (&Content, &Content)| first == other;
    let same = (first.iter().zip(&other)).take_while(|pair| is_same(*pair));
    let same = same.count();
    let offset_of = |(offset, _): &Content| *offset;
    Some(match (first.get(same), other.get(same)) {
        (Some(first), Some(other)) if first.0 == other.0 => {
            (first.0, "has another record".to_owned())
        }
        (Some(first), Some(other)) => (
            first.0.min(other.0),
            format!("goes on at {}, not at {}", other.0, first.0),
        ),
        (Some(first), None) => (offset_of(first), "has no record".to_owned()),
        (None, Some(other)) => (offset_of(other), "has a record too many".to_owned()),
        (None, None) => (
            base,
            "has the same records in another batch: epoch, producer or compression differ"
                .to_owned(),
        ),
    })
}

/// The records of a batch with all that a reader sees of them.
fn contents(batch: &Batch) -> Result<Vec<Content>, String> {
    let plain = batch
        .plain(Caps::default())
        .map_err(|why| why.to_string())?;
    let base_time = batch.base_timestamp().0;
    let mut all = Vec::new();
    for record in RecordIter::new(&plain, batch.record_count()) {
        let record = record.map_err(|why| why.to_string())?;
        let offset = batch
            .base_offset()
            .0
            .saturating_add(i64::from(record.offset_delta));
        let mut form = Vec::new();
        let time = base_time.saturating_add(record.timestamp_delta);
        form.extend_from_slice(&time.to_be_bytes());
        put(&mut form, record.key);
        put(&mut form, record.value);
        for header in record.headers.iter() {
            put(&mut form, Some(header.key));
            put(&mut form, header.value);
        }
        all.push((offset, form));
    }
    Ok(all)
}

/// With its length in front, so that two fields are never taken for two others.
fn put(form: &mut Vec<u8>, field: Option<&[u8]>) {
    let length = field.map_or(-1, |field| field.len() as i64);
    form.extend_from_slice(&length.to_be_bytes());
    form.extend_from_slice(field.unwrap_or_default());
}

#[cfg(test)]
mod tests;
