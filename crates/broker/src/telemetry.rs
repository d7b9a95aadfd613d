//! Clients that push their metrics (KIP-714): which of them are asked for what, and how often each may speak.
//!
//! A machine: a request and the time come in, what to answer goes out. What clients push is kept by the handler. An instance is
//! known by the id it was given, for a while after it was last heard; nothing is remembered beyond that, so a client that comes
//! to another broker, or after a start, is told its subscription anew. Ids are whatever a client says, so what all of them make the
//! broker keep has a bound of its own.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use config::{ClientMetrics, Overrides};
use coord::Pattern;
use model::Instant;
use wire::{ErrorCode, Uuid};

/// Instances remembered, about 300 bytes each; past it the one that was silent longest is forgotten, which asks again then.
const INSTANCES_MAX: usize = 16_384;
/// An instance that is silent for this long, and for this many intervals, is forgotten.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const SILENT_INTERVALS_MAX: u32 = 3;
/// For clients that nothing is asked of.
const INTERVAL: Duration = Duration::from_secs(300);
/// Bytes that are kept of all instances together, a second over time and at once: between two looks of retention, by default five
/// minutes apart, about as much comes as the topic is to hold. Pushes beyond are throttled.
const KEPT_PER_SECOND: u64 = 1 << 20;
const KEPT_AT_ONCE: u64 = 64 << 20;
const ALL: &str = "*";

/// The facts by which subscriptions distinguish clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) client_id: String,
    pub(crate) software_name: String,
    pub(crate) software_version: String,
    pub(crate) address: String,
    pub(crate) port: u16,
}

/// The metrics that an instance is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    pub(crate) metrics: BTreeSet<String>,
    pub(crate) interval: Duration,
}

/// The push of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Push {
    pub(crate) subscription_id: i32,
    pub(crate) is_last: bool,
    pub(crate) is_codec_known: bool,
    pub(crate) fits: bool,
}

struct Subscription {
    metrics: Vec<String>,
    interval: Duration,
    /// All must match.
    patterns: Vec<(String, Pattern)>,
}

struct Instance {
    subscription_id: i32,
    wanted: Wanted,
    asked: Option<Instant>,
    pushed: Option<Instant>,
    is_gone: bool,
    /// The code that refused the last push.
    refused: Option<ErrorCode>,
    heard: Instant,
}

#[derive(Default)]
pub(crate) struct Telemetry {
    subscriptions: Vec<Subscription>,
    /// End of the metadata log that the subscriptions are of.
    as_of: i64,
    instances: HashMap<Uuid, Instance>,
    /// Bytes kept that time has not made up for, as of then.
    owed: (u64, Instant),
}

impl Telemetry {
    /// Takes over the subscriptions of the metadata as they are at `end`. One whose pattern is none asks nobody.
    pub(crate) fn subscribe<'a>(
        &mut self,
        end: i64,
        configured: impl Iterator<Item = &'a Overrides>,
    ) {
        if self.as_of == end {
            return;
        }
        self.as_of = end;
        let compile = |overrides: &Overrides| {
            let settings = ClientMetrics::resolve(overrides);
            let patterns = settings.patterns.into_iter();
            let compiled: Result<Vec<_>, String> = patterns
                .map(|(name, pattern)| Ok((name, Pattern::new(&pattern)?)))
                .collect();
            Some(Subscription {
                metrics: settings.metrics,
                interval: settings.interval,
                patterns: compiled.ok()?,
            })
        };
        self.subscriptions = configured.filter_map(compile).collect();
    }

    /// GetTelemetrySubscriptions: what the instance is asked for, with the id of its subscription.
    pub(crate) fn ask(
        &mut self,
        id: Uuid,
        who: &Identity,
        now: Instant,
    ) -> Result<(i32, Wanted), ErrorCode> {
        let instance = self.instance(id, who, now);
        let last = instance.asked.max(instance.pushed);
        // A client whose push was refused needs to know better at once.
        let may_repeat = matches!(
            instance.refused,
            Some(ErrorCode::UnknownSubscriptionId | ErrorCode::UnsupportedCompressionType)
        );
        if !may_repeat && last.is_some_and(|last| now.since(last) < instance.wanted.interval) {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        instance.asked = Some(now);
        instance.refused = None;
        Ok((instance.subscription_id, instance.wanted.clone()))
    }

    /// PushTelemetry: whether the instance may push this now.
    pub(crate) fn push(
        &mut self,
        id: Uuid,
        who: &Identity,
        push: Push,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        let instance = self.instance(id, who, now);
        let told = instance.push(push, now);
        instance.refused = told.err();
        // For good: a last push may come early, and there is one.
        instance.is_gone |= push.is_last;
        told
    }

    /// True if there is room for what an instance pushed; then it is taken.
    pub(crate) fn may_keep(&mut self, bytes: usize, now: Instant) -> Result<(), ErrorCode> {
        let (owed, since) = self.owed;
        let made_up = now.since(since).as_nanos() * u128::from(KEPT_PER_SECOND) / 1_000_000_000;
        let owed = owed.saturating_sub(u64::try_from(made_up).unwrap_or(u64::MAX));
        let owes = owed.saturating_add(bytes as u64);
        if owes > KEPT_AT_ONCE {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        self.owed = (owes, now.max(since));
        Ok(())
    }

    fn instance(&mut self, id: Uuid, who: &Identity, now: Instant) -> &mut Instance {
        let wanted = self.wanted(id, who);
        let subscription_id = subscription_id(id, &wanted);
        let is_current =
            |known: &Instance| known.subscription_id == subscription_id && !known.is_forgotten(now);
        if !self.instances.get(&id).is_some_and(is_current) {
            self.instances.remove(&id);
            self.make_room(now);
        }
        let instance = self.instances.entry(id).or_insert(Instance {
            subscription_id,
            wanted,
            asked: None,
            pushed: None,
            is_gone: false,
            refused: None,
            heard: now,
        });
        instance.heard = now;
        instance
    }

    fn make_room(&mut self, now: Instant) {
        if self.instances.len() < INSTANCES_MAX {
            return;
        }
        self.instances.retain(|_, known| !known.is_forgotten(now));
        if self.instances.len() == INSTANCES_MAX {
            let by_age = |(id, known): (&Uuid, &Instance)| (known.heard, *id);
            let oldest = self.instances.iter().map(by_age).min();
            if let Some((_, oldest)) = oldest {
                self.instances.remove(&oldest);
            }
        }
    }

    /// All that the subscriptions that match ask for, at the shortest of their intervals.
    fn wanted(&self, id: Uuid, who: &Identity) -> Wanted {
        let mut wanted = Wanted {
            metrics: BTreeSet::new(),
            interval: INTERVAL,
        };
        for subscription in &self.subscriptions {
            if subscription.matches(id, who) {
                wanted.metrics.extend(subscription.metrics.iter().cloned());
                wanted.interval = wanted.interval.min(subscription.interval);
            }
        }
        if wanted.metrics.contains(ALL) {
            wanted.metrics = BTreeSet::from([ALL.to_owned()]);
        }
        wanted
    }
}

impl Subscription {
    fn matches(&self, id: Uuid, who: &Identity) -> bool {
        self.patterns.iter().all(|(name, pattern)| {
            let (id, port) = (id.to_string(), who.port.to_string());
            pattern.matches(match name.as_str() {
                "client_instance_id" => &id,
                "client_id" => &who.client_id,
                "client_software_name" => &who.software_name,
                "client_software_version" => &who.software_version,
                "client_source_address" => &who.address,
                "client_source_port" => &port,
                _ => return false,
            })
        })
    }
}

impl Instance {
    fn is_forgotten(&self, now: Instant) -> bool {
        let silence = (self.wanted.interval * SILENT_INTERVALS_MAX).max(SILENCE_MAX);
        now.since(self.heard) > silence
    }

    fn push(&mut self, push: Push, now: Instant) -> Result<(), ErrorCode> {
        if self.is_gone {
            return Err(ErrorCode::InvalidRequest);
        }
        // The first push may come early: clients do not all begin at the same moment.
        let is_first = self.pushed < self.asked;
        let is_due = |pushed: Instant| now.since(pushed) >= self.wanted.interval;
        if is_first || self.pushed.is_none_or(is_due) {
            self.pushed = Some(now);
        } else if !push.is_last {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        if push.subscription_id != self.subscription_id {
            return Err(ErrorCode::UnknownSubscriptionId);
        }
        if !push.is_codec_known {
            return Err(ErrorCode::UnsupportedCompressionType);
        }
        if !push.fits {
            return Err(ErrorCode::TelemetryTooLarge);
        }
        Ok(())
    }
}

/// Another one whenever what is wanted changes.
fn subscription_id(id: Uuid, wanted: &Wanted) -> i32 {
    let mut hasher = DefaultHasher::new();
    (id.0, wanted).hash(&mut hasher);
    hasher.finish() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid([7; 16]);

    fn subscription(metrics: &str, interval_ms: u32, matches: &str) -> Overrides {
        let pairs = [
            ("metrics", metrics.to_owned()),
            ("interval.ms", interval_ms.to_string()),
            ("match", matches.to_owned()),
        ];
        let named = pairs.map(|(name, value)| (name.to_owned(), value));
        named.into()
    }

    fn telemetry(subscriptions: &[Overrides]) -> Telemetry {
        let mut telemetry = Telemetry::default();
        telemetry.subscribe(1, subscriptions.iter());
        telemetry
    }

    fn java() -> Identity {
        Identity {
            client_id: "orders-1".into(),
            software_name: "apache-kafka-java".into(),
            software_version: "4.3.0".into(),
            address: "10.0.0.7".into(),
            port: 5000,
        }
    }

    fn at(ms: u64) -> Instant {
        Instant(0).plus(Duration::from_millis(ms))
    }

    fn push(subscription_id: i32) -> Push {
        Push {
            subscription_id,
            is_last: false,
            is_codec_known: true,
            fits: true,
        }
    }

    #[test]
    fn matching_subscriptions_are_put_together() {
        let mut telemetry = telemetry(&[
            subscription("a.,b.", 5_000, "client_id=orders-.*"),
            subscription(
                "b.,c.",
                2_000,
                "client_software_name=apache-kafka-java,client_software_version=4\\..*",
            ),
            subscription("d.", 100, "client_id=orders"),
            subscription(
                "e.",
                100,
                "client_source_port=5000,client_source_address=10.0.0.8",
            ),
            subscription("f.", 100, "client_id=("),
        ]);
        let (_, wanted) = telemetry.ask(ID, &java(), at(0)).unwrap();
        let metrics: Vec<&str> = wanted.metrics.iter().map(String::as_str).collect();
        assert_eq!(metrics, ["a.", "b.", "c."]);
        assert_eq!(wanted.interval, Duration::from_secs(2));

        telemetry.subscribe(2, [subscription("a.,*", 5_000, "")].iter());
        let (_, wanted) = telemetry.ask(ID, &java(), at(1)).unwrap();
        assert_eq!(wanted.metrics, BTreeSet::from(["*".to_owned()]));
    }

    #[test]
    fn nobody_is_asked_without_a_subscription() {
        let (_, wanted) = telemetry(&[]).ask(ID, &java(), at(0)).unwrap();
        assert_eq!((wanted.metrics.len(), wanted.interval), (0, INTERVAL));
    }

    #[test]
    fn pushes_keep_to_their_interval_but_for_the_first_and_the_last() {
        let mut telemetry = telemetry(&[subscription("*", 1_000, "")]);
        let (id, _) = telemetry.ask(ID, &java(), at(0)).unwrap();
        let throttled = Err(ErrorCode::ThrottlingQuotaExceeded);
        assert_eq!(
            telemetry.push(ID, &java(), push(id), at(500)),
            Ok(()),
            "first"
        );
        assert_eq!(telemetry.push(ID, &java(), push(id), at(1_499)), throttled);
        assert_eq!(telemetry.ask(ID, &java(), at(1_499)).map(drop), throttled);
        assert_eq!(telemetry.push(ID, &java(), push(id), at(1_500)), Ok(()));
        let last = Push {
            is_last: true,
            ..push(id)
        };
        assert_eq!(telemetry.push(ID, &java(), last, at(1_600)), Ok(()), "last");
        for again in [push(id), last, push(id)] {
            let after = telemetry.push(ID, &java(), again, at(9_000));
            assert_eq!(after, Err(ErrorCode::InvalidRequest), "{again:?}");
        }
    }

    #[test]
    fn what_all_instances_push_is_kept_at_a_bounded_rate() {
        let mut telemetry = telemetry(&[]);
        let mebibyte = 1 << 20;
        let mut keeps = |seconds: u64| {
            let now = at(seconds * 1_000);
            (0..100)
                .take_while(|_| telemetry.may_keep(mebibyte, now).is_ok())
                .count()
        };
        assert_eq!(keeps(0), 64);
        assert_eq!(keeps(0), 0);
        assert_eq!(keeps(5), 5);
        assert_eq!(keeps(500), 64);
    }

    #[test]
    fn an_instance_that_was_refused_may_ask_at_once() {
        let mut telemetry = telemetry(&[subscription("*", 1_000, "")]);
        let (id, _) = telemetry.ask(ID, &java(), at(0)).unwrap();
        let told = telemetry.push(ID, &java(), push(id.wrapping_add(1)), at(1));
        assert_eq!(told, Err(ErrorCode::UnknownSubscriptionId));
        assert!(telemetry.ask(ID, &java(), at(2)).is_ok());
        let odd = Push {
            is_codec_known: false,
            ..push(id)
        };
        let told = telemetry.push(ID, &java(), odd, at(3));
        assert_eq!(told, Err(ErrorCode::UnsupportedCompressionType));
        let large = Push {
            fits: false,
            ..push(id)
        };
        let told = telemetry.push(ID, &java(), large, at(5_000));
        assert_eq!(told, Err(ErrorCode::TelemetryTooLarge));
    }

    #[test]
    fn a_changed_subscription_has_another_id_and_is_told_at_once() {
        let mut telemetry = telemetry(&[subscription("a.", 1_000, "")]);
        let (old, _) = telemetry.ask(ID, &java(), at(0)).unwrap();
        telemetry.subscribe(2, [subscription("b.", 1_000, "")].iter());
        let told = telemetry.push(ID, &java(), push(old), at(1));
        assert_eq!(told, Err(ErrorCode::UnknownSubscriptionId));
        let (new, _) = telemetry.ask(ID, &java(), at(2)).unwrap();
        assert_ne!(old, new);
    }

    #[test]
    fn the_one_that_was_silent_longest_makes_room() {
        let mut telemetry = telemetry(&[]);
        let id = |number: usize| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            Uuid(bytes)
        };
        for number in 0..=INSTANCES_MAX {
            let now = at(number as u64);
            assert!(telemetry.ask(id(number), &java(), now).is_ok());
        }
        assert_eq!(telemetry.instances.len(), INSTANCES_MAX);
        assert!(!telemetry.instances.contains_key(&id(0)));
    }
}
