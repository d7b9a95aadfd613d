//! Brokers that this one does not hear: leaders that answer no fetch, and followers that send none.
//!
//! Machines without IO: the worker reports what comes, and asks what is to be written to the log and who is silent. Two brokers that do not
//! hear each other both live for the controller, so that nothing else shows why appends with `acks=all` wait.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{BrokerId, Instant};

/// A leader that does not answer for so long is reported.
const REPORTED_AFTER: Duration = Duration::from_secs(5);
/// One line about the same broker in so long.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// Followers are looked at this often while one of them may be silent.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A broker that did not look for so much longer was stopped itself: it cannot know who was silent meanwhile.
const STOPPED_FOR: Duration = Duration::from_secs(2);

/// The time since which this broker has run without a pause: nobody is silent for the time of one.
#[derive(Debug, Default)]
struct Awake {
    looked_at: Option<Instant>,
    since: Instant,
}

impl Awake {
    /// This is called every [`LOOK_EVERY`] at least, unless the process is stopped.
    fn on_look(&mut self, now: Instant) {
        let last = self.looked_at.replace(now);
        if last.is_none_or(|last| LOOK_EVERY + STOPPED_FOR < now.since(last)) {
            self.since = now;
        }
    }

    /// The time that has passed since `at` and in which this broker has run.
    fn run_since(&self, at: Instant, now: Instant) -> Duration {
        now.since(at.max(self.since))
    }

    fn next_look(&self) -> Option<Instant> {
        self.looked_at.map(|at| at.plus(LOOK_EVERY))
    }
}

/// Leaders that are asked, and do not answer.
#[derive(Debug, Default)]
pub(super) struct Leaders {
    known: BTreeMap<BrokerId, Leader>,
    awake: Awake,
}

#[derive(Clone, Copy, Debug)]
struct Leader {
    /// When it answered last, or was asked first.
    heard_at: Instant,
    reported_at: Option<Instant>,
}

impl Leaders {
    /// The worker runs.
    pub(super) fn on_turn(&mut self, now: Instant) {
        self.awake.on_look(now);
    }

    /// When the worker is to run again, so that a pause of the process shows.
    pub(super) fn next_turn(&self) -> Option<Instant> {
        let at = self.awake.next_look();
        at.filter(|_| !self.known.is_empty())
    }

    pub(super) fn on_asked(&mut self, leader: BrokerId, now: Instant) {
        self.known.entry(leader).or_insert(Leader {
            heard_at: now,
            reported_at: None,
        });
    }

    /// It answered. Returns for how long it had not, if that was reported.
    pub(super) fn on_answered(&mut self, leader: BrokerId, now: Instant) -> Option<Duration> {
        let known = self.known.get_mut(&leader)?;
        let silent_for = now.since(known.heard_at);
        known.heard_at = now;
        known.reported_at.take().map(|_| silent_for)
    }

    /// A request failed. Returns for how long the leader did not answer, if that is to be reported now.
    pub(super) fn on_failed(&mut self, leader: BrokerId, now: Instant) -> Option<Duration> {
        let known = self.known.get_mut(&leader)?;
        let silent_for = self.awake.run_since(known.heard_at, now);
        let is_due = |at: Instant| REPORT_EVERY <= now.since(at);
        if silent_for < REPORTED_AFTER || !known.reported_at.is_none_or(is_due) {
            return None;
        }
        known.reported_at = Some(now);
        Some(silent_for)
    }

    /// Nothing is followed at the others any more.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&BrokerId) -> bool) {
        self.known.retain(|leader, _| is_kept(leader));
    }
}

/// Followers that are in sync with what this broker leads, and those of them that send no fetch.
#[derive(Debug, Default)]
pub(super) struct Followers {
    in_sync: BTreeSet<BrokerId>,
    silent: BTreeSet<BrokerId>,
    awake: Awake,
    /// Partitions out of whose ISR a broker is to go, which are not reported yet, and when it was reported last.
    fallen: BTreeMap<BrokerId, (usize, Option<Instant>)>,
}

/// A broker that falls out of ISRs, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fallen {
    pub(super) broker: BrokerId,
    pub(super) partitions: usize,
    pub(super) is_silent: bool,
}

impl Followers {
    /// All partitions that this broker leads are looked at now.
    pub(super) fn begin(&mut self) {
        self.in_sync.clear();
    }

    /// These are in sync with something that this broker leads.
    pub(super) fn on_in_sync(&mut self, brokers: impl IntoIterator<Item = BrokerId>) {
        self.in_sync.extend(brokers);
    }

    /// True if it is time to look.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.awake.next_look().is_none_or(|at| at <= now)
    }

    /// Looks who sent no fetch for `silence_max`, by the time of the last one of each. True if the partitions that this broker leads are
    /// to be looked at.
    pub(super) fn look(
        &mut self,
        heard: &BTreeMap<BrokerId, Instant>,
        silence_max: Duration,
        now: Instant,
    ) -> bool {
        self.awake.on_look(now);
        let is_silent = |broker: &BrokerId| {
            let at = heard.get(broker);
            at.is_some_and(|at| silence_max < self.awake.run_since(*at, now))
        };
        let in_sync = self.in_sync.iter().copied();
        self.silent = in_sync.filter(is_silent).collect();
        !self.silent.is_empty()
    }

    pub(super) fn is_silent(&self, broker: BrokerId) -> bool {
        self.silent.contains(&broker)
    }

    /// When it is time to look, if any broker follows what this one leads.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let at = self.awake.next_look();
        at.filter(|_| !self.in_sync.is_empty())
    }

    /// A leader here wants an ISR without this broker.
    pub(super) fn on_fallen(&mut self, broker: BrokerId) {
        self.fallen.entry(broker).or_default().0 += 1;
    }

    /// The reports that are due of brokers that fell out: no lag is reported that may be one of this broker, which did not run for a part of
    /// `lag_max`.
    pub(super) fn take_fallen(&mut self, lag_max: Duration, now: Instant) -> Vec<Fallen> {
        let silent = &self.silent;
        if self.awake.run_since(Instant(0), now) < lag_max {
            let lag = self.fallen.iter_mut();
            let lag = lag.filter(|(broker, _)| !silent.contains(broker));
            lag.for_each(|(_, (count, _))| *count = 0);
        }
        let is_over = |at: &Instant| REPORT_EVERY <= now.since(*at);
        self.fallen
            .retain(|_, (count, at)| 0 < *count || at.is_some_and(|at| !is_over(&at)));
        let due = self
            .fallen
            .iter_mut()
            .filter(|(_, (count, at))| 0 < *count && at.as_ref().is_none_or(is_over));
        due.map(|(broker, (count, at))| {
            *at = Some(now);
            Fallen {
                broker: *broker,
                partitions: std::mem::take(count),
                is_silent: silent.contains(broker),
            }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: BrokerId = BrokerId(1);
    const TWO: BrokerId = BrokerId(2);
    const SILENCE: Duration = Duration::from_secs(10);
    const LAG: Duration = Duration::from_secs(30);

    fn at(ms: u64) -> Instant {
        Instant(0).plus(Duration::from_millis(ms))
    }

    #[test]
    fn a_leader_that_does_not_answer_is_reported_once_and_when_it_answers_again() {
        let mut leaders = Leaders::default();
        leaders.on_asked(ONE, at(0));
        assert_eq!(leaders.on_answered(ONE, at(1_000)), None);
        assert_eq!(leaders.on_failed(ONE, at(5_999)), None, "a moment");
        let told = Some(Duration::from_secs(5));
        assert_eq!(leaders.on_failed(ONE, at(6_000)), told);
        leaders.on_asked(ONE, at(7_000));
        assert_eq!(
            leaders.on_failed(ONE, at(65_000)),
            None,
            "said a minute ago"
        );
        let told = Some(Duration::from_secs(65));
        assert_eq!(leaders.on_failed(ONE, at(66_000)), told);
        let told = Some(Duration::from_secs(69));
        assert_eq!(leaders.on_answered(ONE, at(70_000)), told);
        assert_eq!(leaders.on_answered(ONE, at(71_000)), None);
        leaders.keep(|_| false);
        assert_eq!(leaders.on_failed(ONE, at(99_000)), None, "not followed");
    }

    #[test]
    fn a_leader_is_not_silent_for_the_time_in_which_this_broker_was_stopped() {
        let mut leaders = Leaders::default();
        assert_eq!(leaders.next_turn(), None);
        leaders.on_turn(at(0));
        leaders.on_asked(ONE, at(0));
        assert_eq!(leaders.next_turn(), Some(at(1_000)));
        leaders.on_turn(at(17_000));
        assert_eq!(leaders.on_failed(ONE, at(17_000)), None);
        for ms in (18_000..22_000).step_by(1_000) {
            leaders.on_turn(at(ms));
            assert_eq!(leaders.on_failed(ONE, at(ms)), None, "{ms}");
        }
        leaders.on_turn(at(22_000));
        let told = Some(Duration::from_secs(5));
        assert_eq!(leaders.on_failed(ONE, at(22_000)), told);
    }

    #[test]
    fn a_follower_is_silent_once_it_sent_no_fetch_for_long_and_is_in_sync_here() {
        let mut followers = Followers::default();
        let mut heard = BTreeMap::from([(ONE, at(0)), (TWO, at(0))]);
        let look = |followers: &mut Followers, heard: &BTreeMap<_, _>, ms: u64| {
            for second in (0..ms).step_by(1_000) {
                followers.look(heard, SILENCE, at(second));
            }
            followers.look(heard, SILENCE, at(ms))
        };
        assert!(!look(&mut followers, &heard, 12_000), "none is in sync");
        followers.on_in_sync([ONE]);
        assert!(look(&mut followers, &heard, 12_000));
        assert!(followers.is_silent(ONE) && !followers.is_silent(TWO));
        heard.insert(ONE, at(12_000));
        assert!(!look(&mut followers, &heard, 12_500));
        assert!(!followers.is_silent(ONE));
    }

    #[test]
    fn a_broker_that_was_stopped_itself_takes_nobody_for_silent() {
        let mut followers = Followers::default();
        followers.on_in_sync([ONE]);
        let heard = BTreeMap::from([(ONE, at(0))]);
        assert!(!followers.look(&heard, SILENCE, at(1_000)));
        assert!(!followers.look(&heard, SILENCE, at(31_000)));
        for ms in (32_000..=41_000).step_by(1_000) {
            assert!(!followers.look(&heard, SILENCE, at(ms)), "{ms}");
        }
        assert!(followers.look(&heard, SILENCE, at(42_000)));
    }

    #[test]
    fn brokers_that_fall_out_of_isrs_are_counted_and_reported_now_and_then() {
        let mut followers = Followers::default();
        let start = at(100_000);
        let at = |ms| start.plus(Duration::from_millis(ms));
        followers.on_fallen(ONE);
        followers.on_fallen(ONE);
        let fallen = |partitions| Fallen {
            broker: ONE,
            partitions,
            is_silent: false,
        };
        assert_eq!(followers.take_fallen(LAG, at(0)), [fallen(2)]);
        followers.on_fallen(ONE);
        assert_eq!(followers.take_fallen(LAG, at(1_000)), []);
        assert_eq!(followers.take_fallen(LAG, at(60_000)), [fallen(1)]);
        assert_eq!(followers.take_fallen(LAG, at(130_000)), []);
        assert!(followers.fallen.is_empty());
    }

    #[test]
    fn no_follower_lags_for_the_time_in_which_this_broker_was_stopped() {
        let mut followers = Followers::default();
        followers.look(&BTreeMap::new(), SILENCE, at(0));
        followers.look(&BTreeMap::new(), SILENCE, at(40_000));
        followers.on_fallen(ONE);
        assert_eq!(followers.take_fallen(LAG, at(40_000)), []);
        for ms in (41_000..=70_000).step_by(1_000) {
            followers.look(&BTreeMap::new(), SILENCE, at(ms));
            assert_eq!(followers.take_fallen(LAG, at(ms)), [], "{ms}");
        }
        followers.on_fallen(ONE);
        assert_eq!(followers.take_fallen(LAG, at(70_000)).len(), 1);
    }
}
