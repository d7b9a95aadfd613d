//! How long a commit waits for company.
//!
//! Closed-loop clients split into two halves that take turns when each commit starts at once, which costs up to half of the
//! throughput. So a commit waits until every connection of the last two rounds has queued something. It waits for the first of
//! them, and then for each next one, a share of the usual commit time, and for all together a larger share. A machine: told of
//! appends and commits, it answers until when to wait.

use std::time::Duration;

use model::Instant;

/// Below this average a wait costs more than the split: measured at 70 us, where it takes 10-40 % away.
const WORTHWHILE: Duration = Duration::from_micros(300);
/// Share of the average commit time that a commit waits for the next append, in percent.
const SHARE: u32 = 30;
/// And for all of them: what some hundred requests take to come in.
const SHARE_MAX: u32 = 60;

/// Per connection: the round it last appended in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp(u64);

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Connections that appended.
    connections: u32,
    /// Those of them that appended in the round before as well.
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

    pub fn on_commit(&mut self, took: Duration, now: Instant) {
        // Weight of a quarter: follows a device that slows down within a few rounds.
        self.average = if self.average.is_zero() {
            took
        } else {
            (self.average * 3 + took) / 4
        };
        self.disk_free = now;
    }

    /// Usual time of a commit.
    pub fn average(&self) -> Duration {
        self.average
    }

    /// Until when to wait for company; `None` means commit now.
    pub fn wait_until(&self, now: Instant) -> Option<Instant> {
        let first = self.first_queued?;
        let expected = self.last.connections + self.before_last.connections - self.last.again;
        if self.average < WORTHWHILE || expected <= 1 || self.present >= expected {
            return None;
        }
        let begin = first.max(self.disk_free);
        let next = begin.max(self.last_queued).plus(self.average * SHARE / 100);
        let deadline = next.min(begin.plus(self.average * SHARE_MAX / 100));
        (now < deadline).then_some(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(2);

    fn commit(linger: &mut Linger, stamps: &mut [Stamp], now: u64, took: Duration) {
        for stamp in stamps {
            linger.on_append(stamp, Instant(now));
        }
        linger.on_round();
        linger.on_commit(took, Instant(now));
    }

    #[test]
    fn waits_for_the_other_half_on_a_slow_disk() {
        let mut linger = Linger::default();
        let mut stamps = [Stamp::default(); 8];
        let (left, right) = stamps.split_at_mut(4);
        commit(&mut linger, left, 1_000, SLOW);
        commit(&mut linger, right, 2_000, SLOW);
        for stamp in left.iter_mut() {
            linger.on_append(stamp, Instant(3_000));
        }
        assert_eq!(
            linger.wait_until(Instant(3_000)),
            Some(Instant(3_000 + 600_000))
        );
        for stamp in right.iter_mut() {
            linger.on_append(stamp, Instant(4_000));
        }
        assert_eq!(linger.wait_until(Instant(4_000)), None);
    }

    #[test]
    fn waits_longer_while_others_keep_coming_and_not_for_ever() {
        let mut linger = Linger::default();
        let mut stamps = [Stamp::default(); 8];
        commit(&mut linger, &mut stamps, 1_000, SLOW);
        let mut now = 0;
        for stamp in &mut stamps[..7] {
            now += 300_000;
            linger.on_append(stamp, Instant(now));
            let until = (now + 600_000).min(300_000 + 1_200_000);
            let expected = (now < until).then_some(Instant(until));
            assert_eq!(linger.wait_until(Instant(now)), expected);
        }
        assert_eq!(linger.wait_until(Instant(now)), None);
    }

    #[test]
    fn never_waits_for_one_connection_nor_on_a_fast_disk() {
        let mut linger = Linger::default();
        let mut alone = [Stamp::default()];
        commit(&mut linger, &mut alone, 1_000, SLOW);
        commit(&mut linger, &mut alone, 2_000, SLOW);
        linger.on_append(&mut alone[0], Instant(3_000));
        assert_eq!(linger.wait_until(Instant(3_000)), None);

        let mut fast = Linger::default();
        let mut stamps = [Stamp::default(); 2];
        commit(&mut fast, &mut stamps, 1_000, Duration::from_micros(70));
        fast.on_append(&mut stamps[0], Instant(2_000));
        assert_eq!(fast.wait_until(Instant(2_000)), None);
    }

    #[test]
    fn a_connection_that_left_is_waited_for_twice_at_most() {
        let mut linger = Linger::default();
        let mut stamps = [Stamp::default(); 3];
        commit(&mut linger, &mut stamps, 1_000, SLOW);
        commit(&mut linger, &mut stamps[..2], 2_000, SLOW);
        commit(&mut linger, &mut stamps[..2], 3_000, SLOW);
        for stamp in &mut stamps[..2] {
            linger.on_append(stamp, Instant(4_000));
        }
        assert_eq!(linger.wait_until(Instant(4_000)), None);
    }
}
