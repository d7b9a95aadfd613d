//! Damaged places of this broker's logs, and which other replica is asked for what was there.
//!
//! Replicas in sync have the same batches, so any of them may be asked, also by the leader; they are asked as one that compares replicas
//! asks, who is shown what the disk has. One place at a time for each log directory, one request at a time for each place. A replica that
//! has not those very batches is not asked again; one that cannot be reached, or that is itself under repair, is, after a
//! pause that grows. When all have refused, or it took too long, the place is given up, and its readers get an error.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use model::{BrokerId, Instant, Offset};
use wire::ErrorCode;
use wire::messages::FetchRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
use wire::records::{Batch, BatchError, Source};

use crate::puller::Key;

/// Replica id of a reader that compares replicas, Kafka's debugging consumer.
const COMPARISON: i32 = -2;
/// Asked for at once; a larger batch comes whole.
const FETCH_BYTES: i32 = 1 << 20;
/// Kept in memory until it is written, for each log directory. A replica whose file lost more has to be made from scratch.
const BYTES_MAX: u64 = 64 << 20;
/// Between two rounds of requests that nobody answered: the first pause, doubled up to the last.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// About two minutes: long enough for a broker that restarts.
const ROUNDS_MAX: u32 = 12;
/// Some seconds: replicas that have the same damage ask each other, and none of them is going to have it well.
const DAMAGED_ROUNDS_MAX: u32 = 4;

/// A damaged place: the number of its log directory, the partition and the first offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub dir: usize,
    pub key: Key,
    pub from: Offset,
}

/// The offsets and bytes that are missing from a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub to: Offset,
    /// The size, where it is known.
    pub bytes: Option<u64>,
}

/// The brokers that may have it, as the metadata say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Replicas elsewhere, in sync or not.
    pub others_count: usize,
    /// Replicas in sync, in the order in which they are to be asked.
    pub in_sync: Vec<BrokerId>,
}

/// A request to a broker. Its answer, or its loss, has to be reported under its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub number: u64,
    pub broker: BrokerId,
    pub key: Key,
    pub at: Offset,
}

impl Ask {
    /// Brokers alone are shown what is not committed: the request names the registration of this one.
    #[must_use]
    pub fn request(&self, broker_epoch: i64) -> FetchRequest {
        FetchRequest {
            replica_state: ReplicaState {
                replica_id: COMPARISON,
                replica_epoch: broker_epoch,
            },
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: FETCH_BYTES,
            session_epoch: -1,
            topics: vec![FetchTopic {
                topic_id: self.key.0,
                partitions: vec![FetchPartition {
                    partition: self.key.1.0,
                    fetch_offset: self.at.0,
                    partition_max_bytes: FETCH_BYTES,
                    ..FetchPartition::default()
                }],
                ..FetchTopic::default()
            }],
            ..FetchRequest::default()
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Records {
        records: Bytes,
        high_watermark: Offset,
    },
    Refused(ErrorCode),
    /// The broker did not answer.
    Lost,
}

/// Why a place is not repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GaveUp {
    #[error("no other broker has a replica")]
    Alone,
    #[error("{bytes} bytes are more than are repaired in place")]
    TooLarge { bytes: u64 },
    #[error("no replica in sync has the batches that were there")]
    Nobody,
    #[error("no other replica in sync could be asked")]
    Unreachable,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    Ask(Ask),
    /// Batches for a place. The driver reports whether they fit: the place is no longer damaged, or [`Repairs::on_refused`].
    Bring {
        place: Place,
        broker: BrokerId,
        records: Vec<Bytes>,
    },
    GiveUp {
        place: Place,
        why: GaveUp,
    },
}

#[derive(Debug)]
enum Stage {
    Idle,
    Asking {
        ask: Ask,
        gathered: Vec<Bytes>,
        bytes: u64,
    },
    Brought {
        broker: BrokerId,
    },
}

#[derive(Debug)]
struct Want {
    missing: Missing,
    stage: Stage,
    /// Brokers that have other batches there.
    denied: BTreeSet<BrokerId>,
    /// Brokers that gave nothing in this round.
    lost: BTreeSet<BrokerId>,
    /// Those of `lost` whose own batches cannot be read either.
    damaged: BTreeSet<BrokerId>,
    rounds: u32,
    /// Rounds in which all said so.
    damaged_rounds: u32,
    rests_until: Option<Instant>,
}

impl Want {
    fn new(missing: Missing) -> Want {
        Want {
            missing,
            stage: Stage::Idle,
            denied: BTreeSet::new(),
            lost: BTreeSet::new(),
            damaged: BTreeSet::new(),
            rounds: 0,
            damaged_rounds: 0,
            rests_until: None,
        }
    }

    fn may_ask(&self, now: Instant) -> bool {
        matches!(self.stage, Stage::Idle) && self.rests_until.is_none_or(|until| until <= now)
    }
}

/// The outcome of a look at the sources of a place.
enum Choice {
    Ask(BrokerId),
    Rest(Instant),
    GiveUp(GaveUp),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Repairs {
    wants: BTreeMap<Place, Want>,
    last_number: u64,
}

impl Repairs {
    /// The places of a directory that are to be repaired; others are forgotten.
    pub fn on_damages(&mut self, dir: usize, damages: &BTreeMap<Place, Missing>) {
        (self.wants).retain(|place, _| place.dir != dir || damages.contains_key(place));
        for (place, missing) in damages {
            match self.wants.get(place) {
                Some(want) if want.missing == *missing => {}
                _ => drop(self.wants.insert(*place, Want::new(*missing))),
            }
        }
    }

    /// The batches that were brought are not what was there. Returns false where that is known.
    pub fn on_refused(&mut self, place: Place) -> bool {
        if let Some(want) = self.wants.get_mut(&place)
            && let Stage::Brought { broker } = want.stage
        {
            want.denied.insert(broker);
            want.stage = Stage::Idle;
            return true;
        }
        false
    }

    /// When a place that rests is asked for again.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let resting = self.wants.values().filter_map(|want| want.rests_until);
        resting.min()
    }

    /// The requests that go now.
    pub fn advance(&mut self, now: Instant, sources: impl Fn(Key) -> Sources) -> Vec<Effect> {
        let mut effects = Vec::new();
        let is_busy = |want: &Want| !matches!(want.stage, Stage::Idle);
        let busy = self.wants.iter().filter(|(_, want)| is_busy(want));
        let mut busy: BTreeSet<usize> = busy.map(|(place, _)| place.dir).collect();
        let mut given_up = Vec::new();
        for (place, want) in &mut self.wants {
            if busy.contains(&place.dir) || !want.may_ask(now) {
                continue;
            }
            want.rests_until = None;
            match choose(want, &sources(place.key), now) {
                Choice::Rest(until) => want.rests_until = Some(until),
                Choice::GiveUp(why) => given_up.push((*place, why)),
                Choice::Ask(broker) => {
                    busy.insert(place.dir);
                    self.last_number += 1;
                    let ask = Ask {
                        number: self.last_number,
                        broker,
                        key: place.key,
                        at: place.from,
                    };
                    want.stage = Stage::Asking {
                        ask,
                        gathered: Vec::new(),
                        bytes: 0,
                    };
                    effects.push(Effect::Ask(ask));
                }
            }
        }
        for (place, why) in given_up {
            self.wants.remove(&place);
            effects.push(Effect::GiveUp { place, why });
        }
        effects
    }

    /// A request was answered, or was not.
    pub fn on_answer(&mut self, number: u64, answer: Answer) -> Option<Effect> {
        let is_asked =
            |want: &Want| matches!(&want.stage, Stage::Asking { ask, .. } if ask.number == number);
        let (place, want) = (self.wants.iter_mut()).find(|(_, want)| is_asked(want))?;
        let place = *place;
        let stage = std::mem::replace(&mut want.stage, Stage::Idle);
        let Stage::Asking {
            ask,
            mut gathered,
            bytes,
        } = stage
        else {
            return None;
        };
        let broker = ask.broker;
        let (records, high_watermark) = match answer {
            Answer::Records {
                records,
                high_watermark,
            } => (records, high_watermark),
            // A broker with the same damage that finds no sound replica, or one whose refusal is final. Other refusals may end.
            Answer::Refused(code) if code == ErrorCode::CorruptMessage || !code.is_retriable() => {
                want.denied.insert(broker);
                return None;
            }
            Answer::Refused(code) => {
                want.lost.insert(broker);
                if code == ErrorCode::KafkaStorageError {
                    want.damaged.insert(broker);
                }
                return None;
            }
            Answer::Lost => {
                want.lost.insert(broker);
                return None;
            }
        };
        // The broker has to know that the batches are committed: committed batches are the same everywhere.
        if high_watermark < want.missing.to {
            want.lost.insert(broker);
            return None;
        }
        let Some(taken) = take(&records, ask.at, want.missing.to) else {
            want.denied.insert(broker);
            return None;
        };
        let bytes = bytes + taken.bytes as u64;
        if want.missing.bytes.is_some_and(|wanted| wanted < bytes) {
            want.denied.insert(broker);
            return None;
        }
        if BYTES_MAX < bytes {
            self.wants.remove(&place);
            let why = GaveUp::TooLarge { bytes };
            return Some(Effect::GiveUp { place, why });
        }
        gathered.push(records.slice(..taken.bytes));
        if taken.is_all {
            want.stage = Stage::Brought { broker };
            return Some(Effect::Bring {
                place,
                broker,
                records: gathered,
            });
        }
        self.last_number += 1;
        let ask = Ask {
            number: self.last_number,
            at: taken.next,
            ..ask
        };
        want.stage = Stage::Asking {
            ask,
            gathered,
            bytes,
        };
        Some(Effect::Ask(ask))
    }
}

fn choose(want: &mut Want, sources: &Sources, now: Instant) -> Choice {
    if sources.others_count == 0 {
        return Choice::GiveUp(GaveUp::Alone);
    }
    if let Some(bytes) = want.missing.bytes.filter(|bytes| BYTES_MAX < *bytes) {
        return Choice::GiveUp(GaveUp::TooLarge { bytes });
    }
    let in_sync = &sources.in_sync;
    let may_have = |broker: &&BrokerId| !want.denied.contains(broker);
    let next = in_sync
        .iter()
        .find(|broker| may_have(broker) && !want.lost.contains(broker));
    if let Some(broker) = next {
        return Choice::Ask(*broker);
    }
    if !in_sync.is_empty() && !in_sync.iter().any(|broker| may_have(&broker)) {
        return Choice::GiveUp(GaveUp::Nobody);
    }
    let has_damage = |broker: &BrokerId| want.damaged.contains(broker) || !may_have(&broker);
    want.damaged_rounds += u32::from(!in_sync.is_empty() && in_sync.iter().all(has_damage));
    want.lost.clear();
    want.damaged.clear();
    want.rounds += 1;
    if DAMAGED_ROUNDS_MAX < want.damaged_rounds {
        return Choice::GiveUp(GaveUp::Nobody);
    }
    if ROUNDS_MAX < want.rounds {
        return Choice::GiveUp(GaveUp::Unreachable);
    }
    let pause = PAUSE_MIN.saturating_mul(1 << (want.rounds - 1).min(16));
    Choice::Rest(now.plus(pause.min(PAUSE_MAX)))
}

/// Whole batches of an answer that lie within what was asked for.
struct Taken {
    bytes: usize,
    next: Offset,
    is_all: bool,
}

/// `None` if there are none, or they reach beyond `to`.
fn take(records: &Bytes, at: Offset, to: Offset) -> Option<Taken> {
    let mut taken = Taken {
        bytes: 0,
        next: at,
        is_all: false,
    };
    for batch in Batch::cut(records, Source::Log) {
        let batch = match batch {
            Ok(batch) => batch,
            Err(BatchError::Truncated { .. }) => break,
            Err(_) => return None,
        };
        if batch.base_offset() < taken.next {
            return None;
        }
        if to <= batch.base_offset() {
            taken.is_all = true;
            break;
        }
        taken.bytes += batch.size();
        taken.next = batch.next_offset();
        if to <= taken.next {
            taken.is_all = taken.next == to;
            return taken.is_all.then_some(taken);
        }
    }
    (0 < taken.bytes).then_some(taken)
}

#[cfg(test)]
mod tests;
