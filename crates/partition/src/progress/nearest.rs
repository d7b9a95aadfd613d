//! The replica that a consumer reads from where the leader is not near it (KIP-392).

use model::{BrokerId, Offset};

use super::{Progress, Role};

impl Progress {
    /// The replica among `near` that is in sync and has what is at `from`, or will have it next; of several the one that has most.
    pub(crate) fn nearest(&self, from: Offset, near: &[BrokerId]) -> Option<BrokerId> {
        let Role::Leading(replicas) = &self.role else {
            return None;
        };
        let in_sync = replicas.in_sync.iter().copied();
        let has_it = in_sync
            .filter(|broker| near.contains(broker))
            .filter_map(|broker| {
                let follower = self.followers.get(&broker)?;
                let synced = follower.synced?;
                let has_it = follower.log_start <= from && from <= synced;
                has_it.then_some((synced, follower.caught_up_at, broker))
            });
        has_it.max().map(|(.., broker)| broker)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{Instant, LeaderEpoch};

    use super::super::{FollowerAt, Replicas};
    use super::*;

    fn brokers(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    /// A leader of ten records whose followers 2 to 5 have said that they have those from an offset on, up to another one; 5 is not in
    /// sync.
    fn leader(said: &[(i32, i64, i64)]) -> Progress {
        let ten = (Offset::ZERO, Offset(10));
        let mut progress = Progress::new(ten, Offset::ZERO, LeaderEpoch(0), 1);
        let now = Instant::default().plus(Duration::from_secs(1));
        let role = Role::Leading(Replicas {
            me: BrokerId(1),
            all: brokers(&[1, 2, 3, 4, 5]),
            in_sync: brokers(&[1, 2, 3, 4]),
            partition_epoch: 0,
        });
        progress.on_role(LeaderEpoch(1), role, now, &mut Vec::new());
        for (broker, log_start, synced) in said {
            let said = FollowerAt {
                epoch: LeaderEpoch(1),
                broker: BrokerId(*broker),
                broker_epoch: 7,
                log_start: Offset(*log_start),
                synced: Offset(*synced),
            };
            progress.on_follower_at(said, now);
        }
        progress
    }

    #[test]
    fn a_reader_goes_to_the_replica_near_it_that_has_most_and_what_it_asks_for() {
        let progress = leader(&[(2, 0, 6), (3, 0, 8), (4, 5, 10), (5, 0, 10)]);
        let nearest = |from, near: &[i32]| {
            let found = progress.nearest(Offset(from), &brokers(near));
            found.map(|broker| broker.0)
        };
        assert_eq!(nearest(4, &[2, 3]), Some(3));
        assert_eq!(nearest(6, &[2]), Some(2), "it waits there");
        assert_eq!(nearest(7, &[2]), None, "it does not have that yet");
        assert_eq!(nearest(4, &[4]), None, "it has no more of that");
        assert_eq!(nearest(5, &[2, 3, 4]), Some(4));
        assert_eq!(nearest(4, &[5]), None, "it is not in sync");
        assert_eq!(nearest(4, &[9]), None, "it is no replica");
        assert_eq!(nearest(4, &[1]), None, "the leader serves it itself");
        assert_eq!(nearest(4, &[]), None);
    }

    #[test]
    fn a_follower_that_has_said_nothing_or_that_leads_no_more_is_not_named() {
        let mut progress = leader(&[]);
        assert_eq!(progress.nearest(Offset::ZERO, &brokers(&[2])), None);
        progress.on_role(
            LeaderEpoch(2),
            Role::NotLeading,
            Instant::default(),
            &mut Vec::new(),
        );
        assert_eq!(progress.nearest(Offset::ZERO, &brokers(&[2])), None);
    }
}
