//! How long a commit waits, for company or for the syncs of others.
//!
//! Closed-loop clients split into two halves that take turns when each commit starts at once, which costs up to half of the
//! throughput. So a commit waits until every connection of the last two rounds has queued something. It waits for the first of
//! them, and then for each next one, a share of the usual commit time, and for all together a larger share.
//!
//! A slow disk is idle even so while the clients think. There several rounds are under way together, and each begins as soon as there is
//! something to write: nobody waits for the sync of another. A machine: events report appends and commits, and it answers whether to wait.

use std::time::Duration;

use log::journal::SYNCS_MAX;
use model::Instant;

/// Average commit time below which a wait costs more than the split: measured at 70 us, where it takes 10-40 % away.
const WORTHWHILE: Duration = Duration::from_micros(300);
/// Share of the average commit time that a commit waits for the next append, in percent.
const SHARE: u32 = 30;
/// The same for all appends of a commit together: some hundred requests take that long to come in.
const SHARE_MAX: u32 = 60;

/// Average commit time from which rounds are under way together. Below it the clients are back before a wait for them costs much, and many
/// small rounds would cost more.
const SLOW: Duration = Duration::from_millis(1);

/// The next step of a commit that is about to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    No,
    /// Company may come until then.
    Until(Instant),
    /// The most rounds that may be are under way; the end of one is the time to look again.
    Busy,
}

/// Per connection: the round it last appended in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp(u64);

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Connections that appended.
    connections: u32,
    /// Connections of the round that appended in the round before as well.
    again: u32,
}

#[derive(Debug)]
pub struct Linger {
    number: u64,
    current: Round,
    /// Connections of the current round that were seen in the last two.
    present: u32,
    last: Round,
    before_last: Round,
    average: Duration,
    first_queued: Option<Instant>,
    last_queued: Instant,
    disk_free: Instant,
    /// Rounds that are written and whose logs are not notified yet.
    under_way: usize,
}

impl Default for Linger {
    fn default() -> Linger {
        Linger {
            number: 3,
            current: Round::default(),
            present: 0,
            last: Round::default(),
            before_last: Round::default(),
            average: Duration::ZERO,
            first_queued: None,
            last_queued: Instant(0),
            disk_free: Instant(0),
            under_way: 0,
        }
    }
}

impl Linger {
    pub fn on_append(&mut self, stamp: &mut Stamp, now: Instant) {
        self.first_queued.get_or_insert(now);
        self.last_queued = now;
        if stamp.0 == self.number {
            return;
        }
        self.current.connections += 1;
        self.current.again += u32::from(stamp.0 + 1 == self.number);
        self.present += u32::from(stamp.0 + 2 >= self.number);
        stamp.0 = self.number;
    }

    /// The queued appends leave as a round.
    pub fn on_round(&mut self) {
        self.before_last = self.last;
        self.last = self.current;
        self.current = Round::default();
        self.present = 0;
        self.number += 1;
        self.first_queued = None;
    }

    /// A round is written, and under way until `on_told`.
    pub fn on_begin(&mut self) {
        self.under_way += 1;
    }

    /// The sync of a round is over. A round without a sync does not count, as it says nothing of the disk.
    pub fn on_commit(&mut self, took: Duration) {
        // Weight of a quarter: follows a device that slows down within a few rounds.
        self.average = if self.average.is_zero() {
            took
        } else {
            (self.average * 3 + took) / 4
        };
    }

    /// The logs of a round are notified.
    pub fn on_told(&mut self, now: Instant) {
        self.under_way -= 1;
        self.disk_free = now;
    }

    /// True if no round is under way.
    pub fn is_alone(&self) -> bool {
        self.under_way == 0
    }

    /// True if the most rounds that may be are under way.
    pub fn is_busy(&self) -> bool {
        self.under_way >= self.syncs_max()
    }

    /// True if rounds may be under way together.
    pub fn is_slow(&self) -> bool {
        self.average >= SLOW
    }

    fn syncs_max(&self) -> usize {
        if self.is_slow() { SYNCS_MAX } else { 1 }
    }

    /// Usual time of a commit.
    pub fn average(&self) -> Duration {
        self.average
    }

    /// True if the commit should wait; when nothing is queued there is nothing to wait for.
    pub fn wait(&self, now: Instant) -> Wait {
        if self.is_busy() {
            return Wait::Busy;
        }
        match self.company_until() {
            Some(until) if now < until => Wait::Until(until),
            _ => Wait::No,
        }
    }

    fn company_until(&self) -> Option<Instant> {
        let first = self.first_queued?;
        let expected = self.last.connections + self.before_last.connections - self.last.again;
        if self.average < WORTHWHILE || self.is_slow() || expected <= 1 || self.present >= expected
        {
            return None;
        }
        let begin = first.max(self.disk_free);
        let next = begin.max(self.last_queued).plus(self.average * SHARE / 100);
        Some(next.min(begin.plus(self.average * SHARE_MAX / 100)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slow enough to wait for company, and not slow enough for rounds side by side.
    const USUAL: Duration = Duration::from_micros(600);

    fn commit(linger: &mut Linger, stamps: &mut [Stamp], now: u64, took: Duration) {
        for stamp in stamps {
            linger.on_append(stamp, Instant(now));
        }
        linger.on_round();
        linger.on_begin();
        linger.on_commit(took);
        linger.on_told(Instant(now));
    }

    #[test]
    fn waits_for_the_other_half_on_a_slow_disk() {
        let mut linger = Linger::default();
        let mut stamps = [Stamp::default(); 8];
        let (left, right) = stamps.split_at_mut(4);
        commit(&mut linger, left, 1_000, USUAL);
        commit(&mut linger, right, 2_000, USUAL);
        for stamp in left.iter_mut() {
            linger.on_append(stamp, Instant(3_000));
        }
        assert_eq!(
            linger.wait(Instant(3_000)),
            Wait::Until(Instant(3_000 + 180_000))
        );
        for stamp in right.iter_mut() {
            linger.on_append(stamp, Instant(4_000));
        }
        assert_eq!(linger.wait(Instant(4_000)), Wait::No);
    }

    #[test]
    fn waits_longer_while_others_keep_coming_and_not_for_ever() {
        let mut linger = Linger::default();
        let mut stamps = [Stamp::default(); 8];
        commit(&mut linger, &mut stamps, 1_000, USUAL);
        let mut now = 0;
        for stamp in &mut stamps[..7] {
            now += 90_000;
            linger.on_append(stamp, Instant(now));
            let until = (now + 180_000).min(90_000 + 360_000);
            let expected = if now < until {
                Wait::Until(Instant(until))
            } else {
                Wait::No
            };
            assert_eq!(linger.wait(Instant(now)), expected);
        }
        assert_eq!(linger.wait(Instant(now)), Wait::No);
    }

    #[test]
    fn never_waits_for_one_connection_nor_on_a_fast_disk() {
        let mut linger = Linger::default();
        let mut alone = [Stamp::default()];
        commit(&mut linger, &mut alone, 1_000, USUAL);
        commit(&mut linger, &mut alone, 2_000, USUAL);
        linger.on_append(&mut alone[0], Instant(3_000));
        assert_eq!(linger.wait(Instant(3_000)), Wait::No);

        let mut fast = Linger::default();
        let mut stamps = [Stamp::default(); 2];
        commit(&mut fast, &mut stamps, 1_000, Duration::from_micros(70));
        fast.on_append(&mut stamps[0], Instant(2_000));
        assert_eq!(fast.wait(Instant(2_000)), Wait::No);
    }

    #[test]
    fn a_connection_that_left_is_waited_for_twice_at_most() {
        let mut linger = Linger::default();
        let mut stamps = [Stamp::default(); 3];
        commit(&mut linger, &mut stamps, 1_000, USUAL);
        commit(&mut linger, &mut stamps[..2], 2_000, USUAL);
        commit(&mut linger, &mut stamps[..2], 3_000, USUAL);
        for stamp in &mut stamps[..2] {
            linger.on_append(stamp, Instant(4_000));
        }
        assert_eq!(linger.wait(Instant(4_000)), Wait::No);
    }

    #[test]
    fn rounds_of_a_slow_disk_begin_without_delay_and_so_many_at_most_are_under_way() {
        let mut linger = Linger::default();
        let mut stamps = [Stamp::default(); 8];
        commit(&mut linger, &mut stamps, 1_000, Duration::from_millis(2));
        for now in 0..SYNCS_MAX as u64 {
            linger.on_append(&mut stamps[0], Instant(now));
            assert_eq!(linger.wait(Instant(now)), Wait::No);
            linger.on_round();
            linger.on_begin();
        }
        linger.on_append(&mut stamps[0], Instant(9_000));
        assert_eq!(linger.wait(Instant(9_000)), Wait::Busy);
        linger.on_told(Instant(9_000));
        assert_eq!(linger.wait(Instant(9_000)), Wait::No);
    }

    #[test]
    fn on_a_usual_disk_one_round_is_under_way() {
        let mut linger = Linger::default();
        let mut stamps = [Stamp::default(); 2];
        commit(&mut linger, &mut stamps, 1_000, USUAL);
        linger.on_append(&mut stamps[0], Instant(2_000));
        linger.on_round();
        linger.on_begin();
        for stamp in &mut stamps {
            linger.on_append(stamp, Instant(3_000));
        }
        assert_eq!(linger.wait(Instant(4_000)), Wait::Busy);
        linger.on_told(Instant(4_000));
        assert_eq!(linger.wait(Instant(4_000)), Wait::No);
    }
}
