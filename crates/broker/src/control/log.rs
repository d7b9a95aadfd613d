//! The metadata log as the rest of the broker uses it: changes are decided on the newest image, written, and published when they are durable.
//!
//! Invariant: a decision sees every change decided before it, durable or not; its answer, even a refusal, waits for those.

use std::sync::Arc;

use env::Clock;
use meta::decide::assign_dir::assign_dir;
use meta::{Image, Record};
use model::{BrokerId, InboxId, Instant, LeaderEpoch, Offset, PartitionIndex, Ticket, WaiterKey};
use parking_lot::Mutex;
use partition::dir::Key;
use partition::{Bounds, LogDir, News, Partition};
use raft::{Effect, Endpoint, Event, RoleName, SnapshotId, VoterSet};
use wire::{ErrorCode, Uuid};

use super::change_lines::Line;
use super::plan::{Aftermath, Plan};
use super::sight::QuorumSight;
use crate::mail::Mail;
use crate::meters::Meters;
use crate::moves::Moves;
use crate::node::{BrokerState, Catalog, Lifetime, Volumes};

pub(crate) struct MetadataLog {
    pub(crate) plan: Mutex<Plan>,
    pub(crate) parts: Parts,
    log: Arc<Partition>,
    lifetime: Arc<Lifetime>,
    volumes: Arc<Volumes>,
    moves: Arc<Moves>,
}

/// The parts of the node that the plan works with.
pub(crate) struct Parts {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) state: Arc<BrokerState>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) mail: Arc<Mail>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) log_dir: Arc<LogDir>,
    /// Of the worker of the quorum.
    pub(crate) inbox: InboxId,
}

impl Parts {
    pub(crate) fn moment(&self) -> raft::Moment {
        raft::Moment {
            now: self.clock.now(),
            wall: self.clock.wall_ms(),
        }
    }

    /// Ticket of the worker of the quorum.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket {
            inbox: self.inbox,
            key: WaiterKey(0),
            part: 0,
        }
    }

    pub(crate) fn node(&self) -> BrokerId {
        self.catalog.settings().broker.node_id
    }
}

/// The outcome of writing the records of a change.
pub(crate) enum Written {
    /// There are none, and everything that the decision rests on is durable.
    Durable,
    /// The ticket is redeemed when they are committed and published.
    Waits {
        /// There are records.
        writes: bool,
    },
    /// The metadata log is offline, or another node leads it.
    Offline,
}

/// Levels of features that are to be set.
#[derive(Default)]
pub(crate) struct Levels {
    pub(crate) records: Vec<Record>,
    /// `kraft.version` is to be raised to 1.
    pub(crate) makes_dynamic: bool,
}

/// The quorum's part in what features are at.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuorumLevel {
    /// Of `kraft.version`.
    pub(crate) kraft_version: i16,
    pub(crate) voters: Vec<BrokerId>,
}

/// A directory of a partition, on its way to the metadata.
pub(crate) enum Assigned {
    /// Written here, as the record before `end`.
    Written { end: Offset },
    /// Asked of the controller.
    Asked { key: Key, dir: Uuid },
}

impl MetadataLog {
    pub(crate) fn new(
        plan: Plan,
        parts: Parts,
        (lifetime, volumes): (Arc<Lifetime>, Arc<Volumes>),
        moves: Arc<Moves>,
    ) -> MetadataLog {
        MetadataLog {
            log: Arc::clone(&plan.log),
            plan: Mutex::new(plan),
            parts,
            lifetime,
            volumes,
            moves,
        }
    }

    pub(crate) fn voters(&self) -> VoterSet {
        self.plan.lock().quorum.history().voters().clone()
    }

    fn next_quorum_deadline(&self) -> Option<Instant> {
        self.plan.lock().quorum.next_deadline()
    }

    /// When the quorum, or the active controller, wants to look at the time.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let plan = self.plan.lock();
        let deadlines = [
            plan.quorum.next_deadline(),
            plan.leadership_deadline(),
            plan.snapshot_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// The level of `kraft.version`, as far as it is committed.
    pub(crate) fn kraft_version(&self) -> i16 {
        self.plan.lock().kraft_version()
    }

    pub(crate) fn is_active(&self) -> bool {
        self.plan.lock().is_active()
    }

    pub(crate) fn is_quorum_due(&self, now: Instant) -> bool {
        self.next_quorum_deadline().is_some_and(|at| at <= now)
    }

    pub(crate) fn is_snapshot_due(&self, now: Instant) -> bool {
        let deadline = self.plan.lock().snapshot_deadline();
        deadline.is_some_and(|at| at <= now)
    }

    pub(crate) fn is_leadership_due(&self, now: Instant) -> bool {
        let deadline = self.plan.lock().leadership_deadline();
        deadline.is_some_and(|at| at <= now)
    }

    /// The epoch in which this node leads the metadata log, active or not yet.
    pub(crate) fn led_epoch(&self) -> Option<LeaderEpoch> {
        let plan = self.plan.lock();
        let leads = plan.quorum.role() == RoleName::Leader;
        leads.then(|| plan.quorum.epoch())
    }

    /// True while other nodes have to be notified that this one gives up its leadership.
    pub(crate) fn is_handing_over(&self) -> bool {
        let role = self.plan.lock().quorum.role();
        matches!(role, RoleName::Leader | RoleName::Resigned)
    }

    /// The newest snapshot of the metadata.
    pub(crate) fn last_snapshot(&self) -> Option<SnapshotId> {
        self.plan.lock().quorum.last_snapshot()
    }

    pub(crate) fn quorum_sight(&self) -> QuorumSight {
        self.plan.lock().sight()
    }

    /// True if the leader of the metadata log answers, or is this node.
    pub(crate) fn hears_leader(&self) -> bool {
        self.plan.lock().quorum.hears_leader()
    }

    /// Where the leader of the metadata log is dialled.
    pub(crate) fn controller_endpoint(&self) -> Option<Endpoint> {
        self.plan.lock().quorum.leader()?.1
    }

    pub(crate) fn log(&self) -> &Arc<Partition> {
        &self.log
    }

    pub(crate) fn log_dir(&self) -> &LogDir {
        &self.parts.log_dir
    }

    /// How far the metadata log goes.
    pub(crate) fn log_bounds(&self) -> Bounds {
        self.log.bounds()
    }

    /// Has the machine of the quorum take an event.
    pub(crate) fn step(&self, event: Event) {
        let mut aftermath = Aftermath::default();
        self.plan.lock().step(&self.parts, event, &mut aftermath);
        self.conclude(aftermath);
    }

    /// Performs what the machine wanted when it began.
    pub(crate) fn begin(&self, effects: Vec<Effect>) {
        let mut aftermath = Aftermath::default();
        let mut plan = self.plan.lock();
        plan.perform(&self.parts, effects, &mut aftermath);
        drop(plan);
        self.conclude(aftermath);
    }

    /// More of the log is synced than was seen.
    pub(crate) fn on_watched(&self) {
        self.plan.lock().on_watched();
        self.on_synced();
    }

    /// Reports to the machine how far the log is synced.
    pub(crate) fn on_synced(&self) {
        let mut aftermath = Aftermath::default();
        (self.plan.lock()).on_synced(&self.parts, &mut aftermath);
        self.conclude(aftermath);
    }

    /// Makes a durable image the one that requests see, and notifies those that it concerns.
    pub(crate) fn publish(&self, image: &Arc<Image>, news: &mut Vec<News>) {
        let Parts {
            state,
            catalog,
            mail,
            meters,
            ..
        } = &self.parts;
        let Some(applied) = catalog.apply(image, state.incarnation, news) else {
            return;
        };
        meters
            .counts
            .on_published(&applied.delta, self.parts.node());
        if applied.have_settings_changed {
            self.volumes.set_settings(&catalog.settings());
        }
        // Among several brokers each takes its own blocks from the controller.
        if state.is_alone() && !applied.delta.producer_ids.is_empty() {
            state.set_producer_ids(applied.delta.producer_ids.clone());
        }
        if applied.has_unclean_changed {
            self.look_for_unclean();
        }
        // Coordinators come and go with partitions, which change while nobody asks the shards for anything.
        if applied.have_topics_changed {
            mail.inboxes.wake_shards();
        }
        if state.is_alone() {
            return;
        }
        mail.calls.on_published(image.end());
        let have_brokers_changed = !applied.delta.brokers.is_empty();
        mail.followers.on_topics(applied.topics);
        if have_brokers_changed {
            mail.followers.on_brokers();
        }
    }

    /// Publishes what was committed, then notifies those that wait for it.
    pub(crate) fn conclude(&self, aftermath: Aftermath) {
        let Aftermath {
            published,
            mut news,
            failure,
            lines,
            ..
        } = aftermath;
        lines.iter().for_each(Line::write);
        if let Some(image) = published {
            self.publish(&image, &mut news);
        }
        self.parts.mail.spread(news);
        if let Some(failure) = failure {
            self.lifetime.fail(failure);
        }
    }

    /// Decides on the newest image and writes the records. With `is_stuck` none are written: the change waits for its time to be up.
    pub(crate) fn change<T>(
        &self,
        ticket: Ticket,
        is_stuck: bool,
        decide: impl FnOnce(&Image) -> (Vec<Record>, T),
    ) -> (T, Written) {
        let mut plan = self.plan.lock();
        let broker = Arc::clone(&self.parts.catalog.settings().broker);
        let usable = self.parts.catalog.places.usable(&plan.image, &broker);
        let (mut records, answer) = decide(&usable);
        let is_usable =
            |id| (self.volumes.dirs().iter()).any(|dir| dir.id == id && !dir.is_failed());
        (self.moves).prefer_dirs(broker.node_id, &plan.image, &mut records, is_usable);
        let writes = !records.is_empty();
        if is_stuck && writes {
            return (answer, Written::Waits { writes: false });
        }
        let mut aftermath = Aftermath::default();
        let written = plan.write_for(&self.parts, ticket, &records, &mut aftermath);
        drop(plan);
        self.conclude(aftermath);
        (answer, written)
    }

    /// Decides on levels of features, as [`MetadataLog::change`] decides. One of them may be `kraft.version`, which the quorum raises in a
    /// batch of its own: that comes first, and where it is refused nothing is written.
    pub(crate) fn change_features<T>(
        &self,
        ticket: Ticket,
        decide: impl FnOnce(&Image, &QuorumLevel) -> (Levels, T),
        refuse: impl FnOnce(String) -> T,
    ) -> (T, Written) {
        let mut plan = self.plan.lock();
        let image = Arc::clone(&plan.image);
        let (levels, mut answer) = decide(&image, &plan.quorum_level());
        let mut aftermath = Aftermath::default();
        let mut records = levels.records;
        if levels.makes_dynamic
            && let Err(why) = plan.make_dynamic(&self.parts, &mut aftermath)
        {
            answer = refuse(why);
            records = Vec::new();
        }
        let written = plan.write_for(&self.parts, ticket, &records, &mut aftermath);
        drop(plan);
        self.conclude(aftermath);
        (answer, written)
    }

    /// Writes records before the broker serves anyone; commits them itself.
    pub(crate) fn change_at_start(&self, records: &[Record]) -> Result<(), ErrorCode> {
        if records.is_empty() {
            return Ok(());
        }
        let mut aftermath = Aftermath::default();
        (self.plan.lock()).write(&self.parts, records, &mut aftermath)?;
        self.conclude(aftermath);
        self.commit_at_start()
    }

    /// Commits the metadata log while no loop runs that does.
    pub(crate) fn commit_at_start(&self) -> Result<(), ErrorCode> {
        let mut news = Vec::new();
        let dir = Arc::clone(&self.parts.log_dir);
        while dir.has_queued() && !dir.is_failed() {
            dir.commit(&mut news);
        }
        self.parts.mail.spread(news);
        if dir.is_failed() || dir.lacks_room() {
            return Err(ErrorCode::KafkaStorageError);
        }
        self.on_synced();
        Ok(())
    }

    /// Notes where a partition lives from now on, as soon as that is durable. `None`: there is no such partition any more.
    pub(crate) fn assign_dir(
        &self,
        topic: Uuid,
        index: PartitionIndex,
        dir: Uuid,
    ) -> Result<Option<Assigned>, ErrorCode> {
        let node = self.parts.node();
        if !self.parts.state.is_alone() {
            let key = (topic, index);
            if self.parts.catalog.image().directory(key, node).is_none() {
                return Ok(None);
            }
            self.moves.ask(key, dir);
            self.parts.mail.followers.on_topics([topic]);
            return Ok(Some(Assigned::Asked { key, dir }));
        }
        let mut plan = self.plan.lock();
        let Some(record) = assign_dir(&plan.image, node, topic, index, dir) else {
            return Ok(None);
        };
        let mut aftermath = Aftermath::default();
        let written = plan.write(&self.parts, &[record], &mut aftermath);
        let end = plan.log.bounds().log_end;
        drop(plan);
        self.conclude(aftermath);
        written.map(|()| Some(Assigned::Written { end }))
    }

    /// True if the assignment is durable, or the replica is gone; `None` when that cannot be known any more.
    pub(crate) fn is_assigned(&self, assigned: &Assigned, news: &mut Vec<News>) -> Option<bool> {
        let end = match assigned {
            Assigned::Written { end } => *end,
            Assigned::Asked { key, dir } => {
                let node = self.parts.node();
                let named = self.parts.catalog.image().directory(*key, node);
                let is_assigned = named.is_none_or(|named| named == *dir);
                return (is_assigned || !self.lifetime.is_stopping()).then_some(is_assigned);
            }
        };
        let dir = &self.parts.log_dir;
        dir.commit(news);
        self.on_synced();
        let is_durable = end <= self.log_bounds().high_watermark;
        let is_stuck = dir.is_failed() || self.lifetime.is_stopping() && dir.lacks_room();
        (is_durable || !is_stuck).then_some(is_durable)
    }
}
