//! Cuts of logs that follow a leader: where records are lost here, and how a cut ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use meta::Resource;
use model::lineage::EpochEnd;
use model::{Instant, LeaderEpoch};
use partition::{CutError, Partition};
use replica::Key;

use super::{ReplicaWorker, point};

/// A log that lost something is cut when the metadata know this life of the broker, which they do soon.
const REGISTRATION_REST: Duration = Duration::from_millis(100);

/// A cut of committed records that nothing explains is looked at again after this pause: an operator may have allowed it.
const REFUSED_REST: Duration = Duration::from_secs(30);

/// Logs that are to be cut where records are lost, once the broker is registered.
#[derive(Default)]
pub(super) struct LateCuts {
    keys: BTreeSet<Key>,
    /// When the registration is looked at again.
    at: Option<Instant>,
}

impl LateCuts {
    fn put(&mut self, key: Key, until: Instant) {
        self.keys.insert(key);
        self.at = Some(until);
    }

    fn take_due(&mut self, now: Instant) -> BTreeSet<Key> {
        match self.at.take_if(|at| *at <= now) {
            Some(_) => std::mem::take(&mut self.keys),
            None => BTreeSet::new(),
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.at
    }
}

impl ReplicaWorker {
    /// True if the metadata know this life of the broker. Until then an earlier one may be in sync, and the next may take its place.
    fn is_registered(&self) -> bool {
        let me = self.shared.catalog.config().broker.node_id;
        let image = self.shared.catalog.image();
        let epoch = self.shared.state.broker_epoch();
        image.broker(me).is_some_and(|known| known.epoch == epoch)
    }

    /// Records are lost here: what the leader has from there on is fetched again.
    pub(super) fn cut_lost(&mut self, key: Key) {
        let Some(epoch) = self.followed.get(&key).map(|followed| followed.epoch) else {
            return;
        };
        // Cut before, the log would have no hole when the broker starts anew, which would claim that it lost nothing.
        if !self.is_registered() {
            let until = self.shared.env.clock.now().plus(REGISTRATION_REST);
            self.late_cuts.put(key, until);
            return self.rest(key, Some(until));
        }
        self.cut(key, |partition| {
            let to = partition.cut_lost(epoch)?;
            if let Some(to) = to {
                tracing::warn!(
                    target: env::logs::REPLICATION,
                    "{}-{}: records at and behind {to} are lost here: the log is cut there and fetched again from the leader",
                    partition.topic, partition.index,
                );
            }
            Ok(())
        });
    }

    /// The log of the leader goes another way than this one: what is behind the place is removed. Committed records go too where an unclean
    /// election made a leader that lacks them; a copy of their files stays then.
    pub(super) fn cut_parted(&mut self, key: Key, epoch: LeaderEpoch, told: EpochEnd) {
        let (is_unclean, may_be) = self.unclean(key);
        self.cut(key, |partition| {
            let to = partition.cut_to(told);
            let is_above = |why: &CutError| !matches!(why, CutError::BelowCommitted { .. });
            if !is_unclean {
                let end = partition.follow_point().end;
                match partition.cut(to, epoch) {
                    Ok(_) if end <= to => return Ok(()),
                    Err(why) if is_above(&why) || !may_be => return Err(why),
                    Err(_) => {}
                    Ok(_) => {
                        tracing::info!(
                            target: env::logs::REPLICATION,
                            "{}-{}: the log of the leader goes another way behind epoch {} and offset {}: records from {to} on, none of \
                             which was committed, are removed here",
                            partition.topic, partition.index, told.epoch, told.end,
                        );
                        return Ok(());
                    }
                }
            }
            let cut = partition.cut_committed(to, epoch)?;
            if cut.count() == 0 {
                return Ok(());
            }
            tracing::warn!(
                target: env::logs::REPLICATION,
                "{}-{}: an unclean election made a leader that lacks records of this replica: {} records from offset {} on are removed \
                 here; {} of them are known to have been committed, and the others may have been. A copy of their files stays beside the partition",
                partition.topic, partition.index, cut.count(), cut.to, cut.committed_count(),
            );
            Ok(())
        });
    }

    /// True if the leader that is followed recovers from an unclean election, and if its topic allows such elections: the leader ceases to
    /// recover with the first replica that is in sync again, and others may come back later.
    fn unclean(&self, key: Key) -> (bool, bool) {
        let image = self.shared.catalog.image();
        let Some(topic) = image.topic_by_id(key.0) else {
            return (false, false);
        };
        let partition = usize::try_from(key.1.0).ok();
        let partition = partition.and_then(|at| topic.partitions.get(at));
        let overrides = image.overrides(&Resource::topic(&topic.name));
        let settings = config::Topic::resolve(&overrides, &self.shared.catalog.config().broker);
        (
            partition.is_some_and(|partition| partition.is_recovering),
            settings.unclean_leader_election,
        )
    }

    /// Cuts the logs that waited for the registration. A leader that has nothing new would not bring them up again.
    pub(super) fn cut_late(&mut self) {
        for key in self.late_cuts.take_due(self.shared.env.clock.now()) {
            self.cut_lost(key);
        }
    }

    /// Cuts a log that follows, and goes on behind what is left.
    pub(super) fn cut(
        &mut self,
        key: Key,
        cut: impl FnOnce(&Arc<Partition>) -> Result<(), CutError>,
    ) {
        let Some(followed) = self.followed.get(&key) else {
            return;
        };
        let partition = Arc::clone(&followed.partition);
        let now = self.shared.env.clock.now();
        match cut(&partition) {
            Ok(()) => {
                if let Some(engine) = self.engines.get_mut(&followed.leader) {
                    engine.on_cut(key, point(partition.follow_point()));
                }
                self.report(key);
            }
            // After the first two the metadata say what is to be done.
            Err(
                CutError::Deleted
                | CutError::Leading
                | CutError::Offline
                | CutError::Moving
                | CutError::Writing,
            ) => {
                let until = now.plus(self.terms().backoff);
                self.rest(key, Some(until));
            }
            Err(why @ CutError::BelowCommitted { .. }) => {
                tracing::error!(
                    target: env::logs::REPLICATION,
                    "{}-{}: this replica does not follow broker {}: {why}, and no unclean election is known that explains it. If the leader's \
                     log is to hold, set unclean.leader.election.enable=true for the topic until this replica is in sync: it then removes them",
                    partition.topic, partition.index, followed.leader,
                );
                self.rest(key, Some(now.plus(REFUSED_REST)));
            }
        }
    }
}
