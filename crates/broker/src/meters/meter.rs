//! Counters of one shard: its connections and requests.
//!
//! The shard adds, a scrape reads: no lock, but for errors, of which there are few. Apart from those of other shards, so that none
//! waits for another's cache line.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::histogram::Counts;
use model::{Histogram, Instant};
use parking_lot::Mutex;
use security::login::server::Reason;
use wire::ApiKey;

/// Above every number of an API that Kafka has.
const APIS: usize = 128;

/// Reasons why connections are turned away or cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    PerIp,
    Places,
    Garbage,
    Version,
    Memory,
    Login,
}

impl Refusal {
    pub(crate) const ALL: [(Refusal, &'static str); 6] = [
        (Refusal::PerIp, "per_ip"),
        (Refusal::Places, "places"),
        (Refusal::Garbage, "garbage"),
        (Refusal::Version, "version"),
        (Refusal::Memory, "memory"),
        (Refusal::Login, "login"),
    ];
}

#[derive(Default)]
struct OfApi {
    latency: Histogram,
    received: AtomicU64,
    sent: AtomicU64,
}

#[repr(align(128))]
pub(crate) struct Meter {
    apis: Box<[OfApi]>,
    /// By API and code.
    errors: Mutex<BTreeMap<(i16, i16), u64>>,
    opened: AtomicU64,
    logins: AtomicU64,
    closed: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
    refused_logins: [AtomicU64; Reason::KINDS.len()],
    pauses: AtomicU64,
    replicated: AtomicU64,
    /// When the last turn ended.
    turn_at: AtomicU64,
}

/// The sums over all shards.
#[derive(Default)]
pub(crate) struct Total {
    /// By API, where there was a request.
    pub(crate) apis: BTreeMap<i16, TotalOfApi>,
    pub(crate) errors: BTreeMap<(i16, i16), u64>,
    pub(crate) opened: u64,
    pub(crate) logins: u64,
    pub(crate) closed: u64,
    pub(crate) refused: [u64; Refusal::ALL.len()],
    /// In the order of [`Reason::KINDS`].
    pub(crate) refused_logins: [u64; Reason::KINDS.len()],
    pub(crate) pauses: u64,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct TotalOfApi {
    pub(crate) latency: Counts,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            apis: (0..APIS).map(|_| OfApi::default()).collect(),
            errors: Mutex::default(),
            opened: AtomicU64::new(0),
            logins: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            refused: Default::default(),
            refused_logins: Default::default(),
            pauses: AtomicU64::new(0),
            replicated: AtomicU64::new(0),
            turn_at: AtomicU64::new(0),
        }
    }
}

impl Meter {
    fn api(&self, key: i16) -> Option<&OfApi> {
        self.apis.get(usize::try_from(key).ok()?)
    }

    pub(crate) fn on_request(&self, key: i16, bytes: usize) {
        if let Some(api) = self.api(key) {
            api.received.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Bytes of the requests of an API.
    pub(crate) fn received(&self, key: ApiKey) -> u64 {
        let api = self.api(key as i16);
        api.map_or(0, |api| api.received.load(Ordering::Relaxed))
    }

    pub(crate) fn on_answer(&self, key: i16, took: Duration, bytes: usize) {
        if let Some(api) = self.api(key) {
            api.latency.record(took);
            api.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// The error codes of an answer, each with its count.
    pub(crate) fn on_errors(&self, key: i16, errors: &BTreeMap<i16, u32>) {
        if !errors.is_empty() {
            let mut all = self.errors.lock();
            for (code, count) in errors {
                *all.entry((key, *code)).or_default() += u64::from(*count);
            }
        }
    }

    pub(crate) fn on_opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody has logged in, for the first time or again.
    pub(crate) fn on_login(&self) {
        self.logins.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn on_closed(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn on_refused(&self, why: Refusal) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn on_login_refused(&self, why: &Reason) {
        self.on_refused(Refusal::Login);
        let kinds = Reason::KINDS.iter().zip(&self.refused_logins);
        for (_, cell) in kinds.filter(|(kind, _)| **kind == why.kind()) {
            cell.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn on_pause(&self) {
        self.pauses.fetch_add(1, Ordering::Relaxed);
    }

    /// Batches went to a follower.
    pub(crate) fn on_replicated(&self, bytes: usize) {
        (self.replicated).fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of batches that went to followers.
    pub(crate) fn replicated(&self) -> u64 {
        self.replicated.load(Ordering::Relaxed)
    }

    pub(crate) fn on_turn(&self, now: Instant) {
        self.turn_at.store(now.0, Ordering::Relaxed);
    }

    /// When the last turn ended; None before the first.
    pub(crate) fn turn_at(&self) -> Option<Instant> {
        let at = self.turn_at.load(Ordering::Relaxed);
        (0 < at).then_some(Instant(at))
    }

    pub(crate) fn add_to(&self, total: &mut Total) {
        let number = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        for (key, api) in (0..).zip(&self.apis) {
            let (received, latency) = (number(&api.received), api.latency.read());
            if 0 < received || 0 < latency.count() {
                let of_api = total.apis.entry(key).or_default();
                of_api.latency += latency;
                of_api.received += received;
                of_api.sent += number(&api.sent);
            }
        }
        for (key, count) in &*self.errors.lock() {
            *total.errors.entry(*key).or_default() += count;
        }
        total.opened += number(&self.opened);
        total.logins += number(&self.logins);
        total.closed += number(&self.closed);
        for (sum, cell) in total.refused.iter_mut().zip(&self.refused) {
            *sum += number(cell);
        }
        for (sum, cell) in total.refused_logins.iter_mut().zip(&self.refused_logins) {
            *sum += number(cell);
        }
        total.pauses += number(&self.pauses);
    }
}

/// The name of an API, or its number.
pub(crate) fn api_name(key: i16) -> String {
    ApiKey::from_key(key).map_or_else(|| key.to_string(), |key| format!("{key:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_shards_add_up() {
        let meters = [Meter::default(), Meter::default()];
        for meter in &meters {
            meter.on_request(1, 10);
            meter.on_answer(1, Duration::from_millis(3), 100);
            meter.on_errors(1, &BTreeMap::from([(3, 2)]));
            meter.on_request(i16::MAX, 10);
            meter.on_refused(Refusal::Version);
        }
        let mut total = Total::default();
        meters.iter().for_each(|meter| meter.add_to(&mut total));
        assert_eq!(total.apis.len(), 1);
        let fetch = total.apis[&1];
        assert_eq!(
            (fetch.received, fetch.sent, fetch.latency.count()),
            (20, 200, 2)
        );
        assert_eq!(total.errors, BTreeMap::from([((1, 3), 4)]));
        assert_eq!(total.refused, [0, 0, 0, 2, 0, 0]);
        assert_eq!((api_name(1), api_name(120)), ("Fetch".into(), "120".into()));
    }
}
