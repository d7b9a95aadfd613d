//! The lag of each follower as its leader sees it, for metrics.

use std::time::Duration;

use model::{BrokerId, Instant};

use super::Progress;

/// The distance of a follower from the end of its leader's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerLag {
    pub broker: BrokerId,
    /// Offsets that the follower has not synced.
    pub records: u64,
    /// Time since the follower had everything, 0 while it does; as exact as looks are frequent.
    pub time: Duration,
    /// Time since the follower's synced end last rose, whatever it lacks.
    pub still: Duration,
}

impl Progress {
    /// Notes the followers that have everything now. Such a follower reports nothing more until there is more.
    pub(super) fn note_caught_up(&mut self, now: Instant) {
        for follower in self.followers.values_mut() {
            if Some(self.points.end) <= follower.synced {
                follower.caught_up_at = now;
            }
        }
    }

    /// The lags of all followers; none where this broker does not lead.
    pub(crate) fn lags(&mut self, now: Instant) -> impl Iterator<Item = FollowerLag> {
        self.note_caught_up(now);
        let points = self.points;
        self.followers.iter().map(move |(broker, follower)| {
            let synced = follower.synced.unwrap_or(points.start).max(points.start);
            let records = points.end.0.saturating_sub(synced.0);
            let is_behind = follower.synced < Some(points.end);
            FollowerLag {
                broker: *broker,
                records: u64::try_from(records).unwrap_or(0),
                time: match is_behind {
                    true => now.since(follower.caught_up_at),
                    false => Duration::ZERO,
                },
                still: now.since(follower.moved_at),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{LeaderEpoch, Offset};

    use super::super::{FollowerAt, Replicas, Role};
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(0).plus(Duration::from_secs(seconds))
    }

    /// A leader of ten records, with follower 2 in sync and 3 not.
    fn leader() -> Progress {
        let mut progress = Progress::new((Offset(4), Offset(10)), Offset(4), LeaderEpoch(0), 1);
        let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
        let role = Role::Leading(Replicas {
            me: BrokerId(1),
            all: brokers(&[1, 2, 3]),
            in_sync: brokers(&[1, 2]),
            partition_epoch: 0,
        });
        progress.on_role(LeaderEpoch(1), role, at(100), &mut Vec::new());
        progress
    }

    fn said(progress: &mut Progress, broker: i32, synced: i64, now: u64) {
        let said = FollowerAt {
            epoch: LeaderEpoch(1),
            broker: BrokerId(broker),
            broker_epoch: 7,
            log_start: Offset(4),
            synced: Offset(synced),
        };
        progress.on_follower_at(said, at(now));
    }

    /// Broker, records, seconds of lag, seconds without a move.
    fn lags(progress: &mut Progress, now: u64) -> Vec<(i32, u64, u64, u64)> {
        let lags = progress.lags(at(now));
        lags.map(|lag| {
            let (time, still) = (lag.time.as_secs(), lag.still.as_secs());
            (lag.broker.0, lag.records, time, still)
        })
        .collect()
    }

    #[test]
    fn a_follower_lags_from_the_last_time_that_it_had_everything() {
        let mut progress = leader();
        assert_eq!(lags(&mut progress, 105), [(2, 6, 5, 5), (3, 6, 5, 5)]);
        said(&mut progress, 2, 10, 110);
        said(&mut progress, 3, 7, 112);
        assert_eq!(lags(&mut progress, 120), [(2, 0, 0, 10), (3, 3, 20, 8)]);
        progress.on_appended(Offset(15));
        assert_eq!(
            lags(&mut progress, 121),
            [(2, 5, 1, 11), (3, 8, 21, 9)],
            "it had everything at the last look"
        );
        // A report of the same offset is no move.
        said(&mut progress, 3, 7, 125);
        assert_eq!(lags(&mut progress, 130), [(2, 5, 10, 20), (3, 8, 30, 18)]);
    }

    #[test]
    fn only_a_leader_has_followers() {
        let mut progress = leader();
        progress.on_role(LeaderEpoch(2), Role::NotLeading, at(130), &mut Vec::new());
        assert_eq!(lags(&mut progress, 131), []);
    }
}
