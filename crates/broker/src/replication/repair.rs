//! Damage of this broker's logs, between the log directories that found it and the replicas that are asked for what was there.
//!
//! Owns the machine that decides whom to ask ([`Repairs`]). The segment writer of the directory says what is damaged and writes what is
//! brought; this is the way between, on connections of its own, so that nothing that follows a leader waits behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{Poller, Readiness};
use model::{Instant, Offset, Ticket};
use partition::DamageStage;
use replica::{Answer, Ask, Effect, Key, Missing, Place, Repairs, Sources};
use wire::messages::{FetchRequest, FetchResponse};
use wire::{ErrorCode, Records};

use crate::peers::{self, Lane, Links, Outbound, Reply};
use crate::shared::Shared;

/// A broker that has not answered by then is taken for lost.
const ANSWER_MAX: Duration = Duration::from_secs(10);

pub(super) struct Repairer {
    repairs: Repairs,
    /// Under the numbers of requests.
    links: Links<u64>,
    /// Requests that follow from answers.
    asks: Vec<Ask>,
}

impl Repairer {
    /// From now on the ticket gets the news of damage.
    pub(super) fn begin(shared: &Shared, ticket: Ticket) -> Repairer {
        for dir in shared.volumes.dirs() {
            dir.watch_damage(ticket);
        }
        Repairer {
            repairs: Repairs::default(),
            links: Links::new(
                shared.ceilings.clone(),
                shared.identity.clone(),
                Arc::clone(&shared.names),
            ),
            asks: Vec::new(),
        }
    }

    /// There is damage to be repaired, or less.
    pub(super) fn look(&mut self, shared: &Shared) {
        for (at, dir) in shared.volumes.dirs().iter().enumerate() {
            let mut known = BTreeMap::new();
            let mut refused = Vec::new();
            for damage in dir.damages() {
                let place = Place {
                    dir: at,
                    key: damage.key,
                    from: damage.range.from,
                };
                let missing = Missing {
                    to: damage.range.to,
                    bytes: damage.range.bytes(),
                };
                known.insert(place, missing);
                if let DamageStage::Refused(why) = damage.stage {
                    refused.push((place, why));
                }
            }
            self.repairs.on_damages(at, &known);
            for (place, why) in refused {
                if self.repairs.on_refused(place) {
                    tracing::warn!(
                        target: env::logs::REPLICATION,
                        "{}: what another replica has at offset {} does not repair this one: {why}",
                        name(shared, place.key), place.from,
                    );
                }
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let deadlines = [self.repairs.next_deadline(), self.links.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// A connection may be one of these.
    pub(super) fn on_ready(&mut self, poller: &mut dyn Poller, ready: Readiness) {
        self.links.on_ready(poller, ready);
    }

    /// Takes answers and sends the requests that go now.
    pub(super) fn ask(&mut self, shared: &Shared, poller: &mut dyn Poller) {
        let now = shared.env.clock.now();
        self.links.dial_named(poller);
        self.links.expire(poller, now);
        loop {
            for reply in self.links.take_replies() {
                let (number, answer) = match reply {
                    Reply::Failed { of, .. } => (of, None),
                    Reply::Answered { of, answer, .. } => (of, read(answer)),
                };
                self.on_answer(shared, number, answer.unwrap_or(Answer::Lost));
            }
            let effects = self.repairs.advance(now, |key| sources(shared, key));
            for effect in effects {
                self.carry_out(shared, effect);
            }
            if self.asks.is_empty() {
                return;
            }
            for ask in std::mem::take(&mut self.asks) {
                match outbound(shared, ask, now) {
                    Some(outbound) => self.links.send(poller, outbound),
                    None => self.on_answer(shared, ask.number, Answer::Lost),
                }
            }
        }
    }

    fn on_answer(&mut self, shared: &Shared, number: u64, answer: Answer) {
        if let Some(effect) = self.repairs.on_answer(number, answer) {
            self.carry_out(shared, effect);
        }
    }

    fn carry_out(&mut self, shared: &Shared, effect: Effect) {
        match effect {
            Effect::Ask(ask) => self.asks.push(ask),
            Effect::Bring {
                place,
                broker,
                records,
            } => {
                if let Some(dir) = shared.volumes.dirs().get(place.dir) {
                    dir.bring(place.key, place.from, broker, records);
                }
            }
            Effect::GiveUp { place, why } => {
                if let Some(dir) = shared.volumes.dirs().get(place.dir) {
                    dir.give_up_damage(place.key, place.from);
                }
                env::tell!(
                    "{}: what rotted at offset {} is not repaired: {why}. Readers are refused there. If another replica has it, reassign \
                     the partition to other brokers and then back to this one, which drops this log and fetches it again",
                    name(shared, place.key),
                    place.from
                );
            }
        }
    }
}

/// Of the partition, for people.
fn name(shared: &Shared, key: Key) -> String {
    let topics = shared.catalog.topics();
    let name = topics.with_id(key.0).map(|topic| topic.name.to_string());
    format!("{}-{}", name.unwrap_or_default(), key.1)
}

/// The replicas in sync elsewhere, the leader first.
fn sources(shared: &Shared, key: Key) -> Sources {
    let me = shared.catalog.config().broker.node_id;
    let image = shared.catalog.image();
    let topic = image.topic_by_id(key.0);
    let planned = topic.and_then(|topic| {
        let at = usize::try_from(key.1.0).ok()?;
        topic.partitions.get(at)
    });
    let Some(planned) = planned else {
        return Sources::default();
    };
    let others = |brokers: &[model::BrokerId]| {
        let others = brokers.iter().filter(|broker| **broker != me);
        others.copied().collect::<Vec<_>>()
    };
    let mut in_sync = others(&planned.isr);
    in_sync.sort_by_key(|broker| *broker != planned.leader);
    Sources {
        others_count: others(&planned.replicas).len(),
        in_sync,
    }
}

fn outbound(shared: &Shared, ask: Ask, now: Instant) -> Option<Outbound<FetchRequest, u64>> {
    let endpoint = shared.catalog.endpoint_of(ask.broker)?;
    Some(Outbound {
        target: (endpoint, Lane::Repair),
        request: ask.request(shared.state.broker_epoch()),
        until: Some(now.plus(ANSWER_MAX)),
        of: ask.number,
    })
}

/// The word of a broker about the one partition that it was asked for.
fn read(answer: peers::Answer) -> Option<Answer> {
    let response: FetchResponse = answer.read()?;
    let refused = |code: i16| Some(Answer::Refused(ErrorCode::try_from(code).ok()?));
    if response.error_code != 0 {
        return refused(response.error_code);
    }
    let topic = response.responses.into_iter().next()?;
    let partition = topic.partitions.into_iter().next()?;
    if partition.error_code != 0 {
        return refused(partition.error_code);
    }
    let records = match partition.records {
        Some(Records::Bytes(records)) => records,
        _ => Bytes::new(),
    };
    Some(Answer::Records {
        records,
        high_watermark: Offset(partition.high_watermark),
    })
}
