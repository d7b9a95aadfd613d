//! Cuts of logs that follow a leader: where records are lost here, and how a cut ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::Instant;
use partition::{CutError, Partition};
use replica::Key;

use super::{ReplicaWorker, point};

/// A log that lost something is cut when the metadata know this life of the broker, which they do soon.
const REGISTRATION_REST: Duration = Duration::from_millis(100);

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
        let me = self.shared.config().broker.node_id;
        let image = self.shared.metadata.image();
        let epoch = self.shared.metadata.broker_epoch();
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
            Err(CutError::Deleted | CutError::Leading) => self.rest(key, None),
            Err(CutError::Offline | CutError::Moving | CutError::Writing) => {
                let until = now.plus(self.terms().backoff);
                self.rest(key, Some(until));
            }
            Err(why @ CutError::BelowCommitted { .. }) => {
                tracing::error!(
                    target: env::logs::REPLICATION,
                    "{}-{}: this replica does not follow broker {} any more: {why}; one of the two logs is not what it was. If the leader's \
                     is right, reassign the partition to other brokers and then back to this one, which drops this log and fetches it again",
                    partition.topic, partition.index, followed.leader,
                );
                self.rest(key, None);
            }
        }
    }
}
