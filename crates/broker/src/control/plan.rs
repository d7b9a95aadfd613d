//! The plan of the metadata: the machine of the quorum, the log it decides about, and the image that decisions look at.
//!
//! One lock covers them all, and is never held during IO. Invariant: the image is that of every record in the log, committed or not,
//! while this node leads; only a leader makes decisions. What is committed is published before anybody is told of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use meta::controller::VOTERS_OF_SEVERAL;
use meta::{Image, Place, Record};
use model::{Instant, LeaderEpoch, Offset, Ticket};
use partition::{News, Partition, Restart, Role, Stamp, Synced};
use raft::{
    AppendTag, Effect, Event, Lack, Left, Life, Quorum, RoleName, SnapshotFacts, SnapshotId,
};
use wire::ErrorCode;
use wire::records::{Batch, BatchBuilder};

use super::alarms;
use super::change_lines::{Level, Line, paced};
use super::controller::Leadership;
use super::log::{Parts, QuorumLevel, Written};
use super::replay::{self, replay};
use super::sight::QuorumSight;
use crate::complaints::Pace;
use crate::mail::quorum::Order;

pub(crate) struct Plan {
    /// While it leads: of all records in the log.
    pub(crate) image: Arc<Image>,
    pub(crate) log: Arc<Partition>,
    pub(crate) quorum: Quorum,
    /// Set while this node is the active controller.
    pub(crate) leadership: Option<Leadership>,
    /// The role that the log was given last, and its epoch.
    role: Option<(LeaderEpoch, Role)>,
    /// Of the records that are committed and known to be.
    committed: Arc<Image>,
    /// Batches behind those.
    uncommitted: VecDeque<Batch>,
    /// The log's life: as the machine counts, and as the partition does.
    life: (Life, partition::Life),
    /// How much of the log is synced, as the machine knows.
    seen: Synced,
    /// More than that is waited for.
    is_looking: bool,
    tags: u64,
    voters_count: usize,
    /// Bytes that were committed since the last snapshot.
    since_snapshot: u64,
    snapshot_timer: SnapshotTimer,
    left_lines: Pace,
    /// A snapshot that was fetched and verified, until the log begins at it.
    installed: Option<(SnapshotId, Arc<Image>)>,
}

/// A smaller log is read at once: no snapshot makes a start faster.
const SNAPSHOT_BYTES_MIN: u64 = 1 << 20;

/// The time of snapshots: one is due so long after the last, if anything was committed since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotTimer {
    /// Zero: never.
    every: Duration,
    since: Instant,
}

impl SnapshotTimer {
    pub(crate) fn new(every: Duration, since: Instant) -> SnapshotTimer {
        SnapshotTimer { every, since }
    }

    fn deadline(&self, since_snapshot: u64) -> Option<Instant> {
        let is_wanted = !self.every.is_zero() && 0 < since_snapshot;
        is_wanted.then(|| self.since.plus(self.every))
    }
}

/// The consequences of a step, for when the lock is free again.
#[derive(Default)]
pub(crate) struct Aftermath {
    pub(crate) published: Option<Arc<Image>>,
    pub(crate) orders: Vec<Order>,
    pub(crate) news: Vec<News>,
    pub(crate) failure: Option<String>,
    /// For the log of this process.
    pub(super) lines: Vec<Line>,
    /// The batch that was asked for is in the log.
    is_accepted: bool,
}

impl Plan {
    /// `committed` is the image of what is known to be committed, `uncommitted` the rest of the log.
    pub(crate) fn new(
        committed: Arc<Image>,
        uncommitted: VecDeque<Batch>,
        log: Arc<Partition>,
        quorum: Quorum,
        (since_snapshot, snapshot_timer): (u64, SnapshotTimer),
    ) -> Plan {
        let seen = log.synced();
        Plan {
            image: Arc::clone(&committed),
            life: (quorum.log().life(), seen.life),
            seen,
            log,
            quorum,
            leadership: None,
            role: None,
            committed,
            uncommitted,
            is_looking: false,
            tags: 0,
            voters_count: 0,
            since_snapshot,
            snapshot_timer,
            left_lines: Pace::default(),
            installed: None,
        }
    }

    /// The image of what is known to be committed.
    pub(crate) fn committed(&self) -> &Image {
        &self.committed
    }

    /// True if this node is the active controller.
    pub(crate) fn is_active(&self) -> bool {
        self.leadership.is_some()
    }

    /// Appends records to the metadata log; they hold for later decisions at once.
    pub(crate) fn write(
        &mut self,
        parts: &Parts,
        records: &[Record],
        aftermath: &mut Aftermath,
    ) -> Result<(), ErrorCode> {
        let before = Arc::clone(&self.image);
        let written = self.append(parts, records, aftermath);
        let now = parts.clock.now();
        if let Some(leadership) = self.leadership.as_mut() {
            let controller = &mut leadership.controller;
            match written {
                Ok(()) => {
                    let last = Offset(self.image.end().saturating_sub(1));
                    let idle_every = parts.catalog.settings().metadata_idle_max;
                    controller.on_written(&before, records, (last, now), Some(idle_every));
                }
                Err(_) => controller.on_refused(now),
            }
        }
        written
    }

    fn append(
        &mut self,
        parts: &Parts,
        records: &[Record],
        aftermath: &mut Aftermath,
    ) -> Result<(), ErrorCode> {
        let leadership = self.leadership.as_ref().ok_or(ErrorCode::NotController)?;
        let epoch = leadership.controller.epoch();
        if records.is_empty() {
            return Ok(());
        }
        (self.log.check_append()).map_err(|error| crate::error::append(&error))?;
        let time = parts.clock.wall_ms();
        let place = Place {
            base: self.quorum.log().end(),
            epoch,
            time,
        };
        let written =
            meta::write(&self.image, place, records).map_err(|_| ErrorCode::UnknownServerError)?;
        let mut builder = BatchBuilder::new();
        for value in &written.values {
            builder.push(time, None, Some(value), &[]);
        }
        self.tags += 1;
        let append = Event::Append {
            tag: AppendTag(self.tags),
            epoch,
            batch: builder.build(),
        };
        self.step(parts, append, aftermath);
        if !std::mem::take(&mut aftermath.is_accepted) {
            return Err(ErrorCode::NotController);
        }
        self.image = Arc::new(written.image);
        Ok(())
    }

    /// Has the quorum raise `kraft.version` to 1. The error names what is missing.
    pub(crate) fn make_dynamic(
        &mut self,
        parts: &Parts,
        aftermath: &mut Aftermath,
    ) -> Result<(), String> {
        if let Some((voter, lack)) = self.quorum.lacks_dynamic(parts.clock.now()) {
            return Err(match lack {
                Lack::Level => {
                    format!(
                        "Controller {voter} has not said that it supports this level: is it up?"
                    )
                }
                Lack::Fetches => format!(
                    "Controller {voter} has not fetched the metadata in the last seconds, or two processes run with its number: see that it \
                     runs once, and try again."
                ),
                Lack::Directory => format!(
                    "Controller {voter} fetches for another directory than the one that it described: stop what else runs with its number, \
                     restart controller {voter}, and try again."
                ),
            });
        }
        self.tags += 1;
        let event = Event::MakeDynamic {
            tag: AppendTag(self.tags),
            epoch: self.quorum.epoch(),
        };
        self.step(parts, event, aftermath);
        if std::mem::take(&mut aftermath.is_accepted) {
            Ok(())
        } else {
            Err("The controller has just begun its leadership, or ended it: try again.".to_owned())
        }
    }

    /// The level of `kraft.version`, as far as it is committed.
    pub(crate) fn kraft_version(&self) -> i16 {
        let committed = self.quorum.watermark().unwrap_or_default();
        let facts = self.quorum.history().facts_at(committed);
        facts.version.unwrap_or(0)
    }

    pub(crate) fn sight(&self) -> QuorumSight {
        let (quorum, log) = (&self.quorum, self.quorum.log());
        let size = quorum.last_snapshot().and_then(|id| log.snapshot_size(id));
        QuorumSight {
            is_active: self.is_active(),
            epoch: quorum.epoch(),
            leader: quorum.leader(),
            hears_leader: quorum.hears_leader(),
            voters: quorum.voter_ids().into_iter().collect(),
            missing_at_first: quorum.missing_at_first(),
            watermark: quorum.watermark(),
            end: log.end(),
            snapshot_bytes: size.unwrap_or(0),
        }
    }

    /// The quorum's part in what features are at.
    pub(crate) fn quorum_level(&self) -> QuorumLevel {
        QuorumLevel {
            kraft_version: self.kraft_version(),
            voters: self.quorum.voter_ids().into_iter().collect(),
        }
    }

    /// Writes the records of a change, if it has any; `ticket` is redeemed when they, and all that they rest on, are committed.
    pub(crate) fn write_for(
        &mut self,
        parts: &Parts,
        ticket: Ticket,
        records: &[Record],
        aftermath: &mut Aftermath,
    ) -> Written {
        let writes = !records.is_empty();
        if self.write(parts, records, aftermath).is_err() && writes {
            return Written::Offline;
        }
        match self.log.await_end(ticket) {
            Ok(true) => Written::Waits { writes },
            Ok(false) => Written::Durable,
            Err(_) => Written::Offline,
        }
    }

    /// Steps the machine and performs what it wants.
    pub(crate) fn step(&mut self, parts: &Parts, event: Event, aftermath: &mut Aftermath) {
        let before = self.quorum.next_deadline();
        let effects = self.quorum.step(parts.moment(), event);
        self.perform(parts, effects, aftermath);
        let after = self.quorum.next_deadline();
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            parts.mail.quorum.wake();
        }
    }

    pub(crate) fn perform(
        &mut self,
        parts: &Parts,
        effects: Vec<Effect>,
        aftermath: &mut Aftermath,
    ) {
        for effect in effects {
            self.perform_one(parts, effect, aftermath);
        }
        self.follow_role(aftermath);
        let voters = self.quorum.history().voters().len();
        if voters > 1 {
            self.meet_others(parts, aftermath);
        }
        let had = std::mem::replace(&mut self.voters_count, voters);
        if had < VOTERS_OF_SEVERAL
            && VOTERS_OF_SEVERAL <= voters
            && let Some(leadership) = self.leadership.as_mut()
        {
            leadership.controller.on_several_voters(parts.clock.now());
        }
        self.look(parts.ticket(), aftermath);
        // Under the lock: the worker carries out the orders of all steps in their order.
        parts.mail.quorum.order(aftermath.orders.drain(..));
    }

    /// A leader that was never active has no line that it began either.
    fn report_left(&mut self, parts: &Parts, epoch: LeaderEpoch, why: Left) {
        if self.leadership.is_none() || parts.state.is_alone() {
            return;
        }
        let level = match why {
            Left::Resigned => Level::Info,
            Left::Led { .. } | Left::Opposed { .. } | Left::Unheard { .. } => Level::Warn,
        };
        let (mut lines, text) = (Vec::new(), alarms::leadership_ended(epoch, why));
        let now = parts.clock.now();
        paced(&mut self.left_lines, now, &mut lines, level, text);
        lines.iter().for_each(Line::write);
    }

    fn perform_one(&mut self, parts: &Parts, effect: Effect, aftermath: &mut Aftermath) {
        match effect {
            Effect::StoreVote {
                number,
                election,
                version,
            } => aftermath.orders.push(Order::StoreVote {
                number,
                election,
                version,
            }),
            Effect::StoreCluster { number, cluster } => {
                aftermath
                    .orders
                    .push(Order::StoreCluster { number, cluster });
            }
            Effect::Append { batches, life } => {
                self.life.0 = life;
                let moment = partition::Moment {
                    now: parts.clock.now(),
                    wall: parts.clock.wall_ms(),
                    stamp: &mut Stamp::default(),
                };
                if let Err(error) = self.log.append_decided(&batches, moment) {
                    aftermath.failure = Some(format!("the metadata log: {error}"));
                    return;
                }
                self.uncommitted.extend(batches);
            }
            Effect::Accepted { .. } => aftermath.is_accepted = true,
            Effect::Refused { .. } => {}
            Effect::Committed { up_to } => self.commit(parts, up_to, aftermath),
            Effect::LeadershipEnded { epoch, why } => self.report_left(parts, epoch, why),
            Effect::LeaderChanged { epoch, leader } => {
                self.leadership = None;
                if leader == Some(parts.node()) {
                    aftermath.orders.push(Order::TakeLeadership(epoch));
                }
            }
            Effect::Send {
                call,
                peer,
                request,
            } => aftermath.orders.push(Order::Send {
                call,
                peer,
                request: Box::new(request),
            }),
            Effect::Answer {
                caller,
                response,
                fill,
            } => aftermath.orders.push(Order::Answer {
                caller,
                response: Box::new(response),
                fill,
            }),
            Effect::Cut { to, life } => self.cut(to, life, aftermath),
            Effect::Remembered => tracing::info!(
                target: env::logs::METADATA,
                "this voter has the metadata of a leader that the others elected, and counts as they do",
            ),
            Effect::Alarm(alarm) => {
                let log_dir = &parts.log_dir.path;
                let cluster_id = parts.state.cluster_id();
                let text = alarms::text(&alarm, log_dir, cluster_id);
                if alarms::heals(&alarm) {
                    tracing::warn!(target: env::logs::METADATA, "{text}");
                } else {
                    tracing::error!(target: env::logs::METADATA, "{text}");
                }
            }
            Effect::Restart { at, life } => self.restart(at, life, aftermath),
            Effect::WriteSnapshot {
                id,
                position,
                bytes,
            } => aftermath.orders.push(Order::WriteSnapshot {
                id,
                position,
                bytes,
            }),
            Effect::FinishSnapshot { id, size } => {
                aftermath.orders.push(Order::FinishSnapshot { id, size });
            }
            Effect::DropSnapshot { id } => aftermath.orders.push(Order::DropSnapshot(id)),
            Effect::DeleteSnapshot { id } => aftermath.orders.push(Order::DeleteSnapshot(id)),
            Effect::Trim { to } => self.log.advance_start(to),
        }
    }

    /// Begins the log anew at a snapshot, whose image was read when it was verified.
    fn restart(&mut self, at: SnapshotId, life: Life, aftermath: &mut Aftermath) {
        self.follow_role(aftermath);
        let Some((_, image)) = self.installed.take_if(|(id, _)| *id == at) else {
            aftermath.failure = Some(format!("the snapshot {at} of the metadata is not here"));
            return;
        };
        let restart = Restart {
            log_start: at.end,
            at: at.end,
            epoch: at.epoch,
        };
        match self.log.restart(restart) {
            Ok(own) => self.life = (life, own),
            Err(error) => aftermath.failure = Some(format!("the metadata log: {error}")),
        }
        self.uncommitted.clear();
        self.committed = image;
        self.since_snapshot = 0;
        aftermath.published = Some(Arc::clone(&self.committed));
    }

    /// The committed metadata, if a snapshot of them may be taken now.
    pub(crate) fn for_snapshot(
        &mut self,
        now: Instant,
    ) -> Option<(SnapshotId, Arc<Image>, SnapshotFacts)> {
        // One that cannot be taken now is tried again when the next is due.
        self.snapshot_timer.since = now;
        let end = Offset(self.committed.end());
        let id = self.quorum.snapshot_id(end)?;
        let is_new = self
            .quorum
            .last_snapshot()
            .is_none_or(|last| last.end < end);
        if !is_new || self.committed.is_in_transaction() {
            return None;
        }
        self.since_snapshot = 0;
        let mut facts = self.quorum.history().facts_at(end);
        // The log of an earlier version does not say it.
        let known = || self.quorum.cluster().map(str::to_owned);
        facts.cluster = facts.cluster.or_else(known);
        Some((id, Arc::clone(&self.committed), facts))
    }

    /// When a snapshot is due for its time, whatever the size of the log.
    pub(crate) fn snapshot_deadline(&self) -> Option<Instant> {
        self.snapshot_timer.deadline(self.since_snapshot)
    }

    /// A fetched snapshot was verified; the machine says what becomes of it.
    pub(crate) fn install(&mut self, id: SnapshotId, image: Arc<Image>) {
        self.installed = Some((id, image));
    }

    /// A snapshot is due when the log behind the last one has grown by so much: by several times its own size, so that the two
    /// together stay small, and never by more than the settings say.
    fn snapshot_due_at(&self, parts: &Parts) -> u64 {
        let most = parts.catalog.settings().snapshot_bytes_max;
        let last = self.quorum.last_snapshot();
        let last = last.and_then(|id| self.quorum.log().snapshot_size(id));
        most.min(SNAPSHOT_BYTES_MIN.max(last.unwrap_or_default().saturating_mul(4)))
    }

    /// Cuts off what the leader does not have.
    fn cut(&mut self, to: Offset, life: Life, aftermath: &mut Aftermath) {
        self.follow_role(aftermath);
        match self.log.cut(to, self.quorum.epoch()) {
            Ok(own) => self.life = (life, own),
            Err(error) => aftermath.failure = Some(format!("the metadata log: {error}")),
        }
        self.uncommitted.retain(|batch| batch.next_offset() <= to);
    }

    /// The image of the whole log, for decisions.
    pub(crate) fn plan_all(&mut self) -> Result<(), String> {
        let mut image = Image::clone(&self.committed);
        for batch in &self.uncommitted {
            replay(&mut image, batch).map_err(|error| format!("the metadata log: {error}"))?;
        }
        self.image = Arc::new(image);
        Ok(())
    }

    fn commit(&mut self, parts: &Parts, up_to: Offset, aftermath: &mut Aftermath) {
        let mut image = Image::clone(&self.committed);
        while let Some(batch) = self
            .uncommitted
            .pop_front_if(|batch| batch.next_offset() <= up_to)
        {
            let applied = replay::records(&batch).and_then(|records| {
                self.report(parts, &image, (&batch, &records), aftermath);
                replay::apply(&mut image, &batch, &records)
            });
            if let Err(error) = applied {
                aftermath.failure = Some(format!("the metadata log: {error}"));
                return;
            }
            self.since_snapshot += batch.size() as u64;
        }
        self.committed = Arc::new(image);
        if self.snapshot_due_at(parts) <= self.since_snapshot {
            aftermath.orders.push(Order::TakeSnapshot);
        }
        aftermath.published = Some(Arc::clone(&self.committed));
        self.log.on_committed(up_to, &mut aftermath.news);
    }

    /// A batch is committed, on `before`. What this leadership decided there is counted and written to the log: not earlier, because a controller
    /// without a majority decides much that never holds, and not what earlier ones decided, which a start finds again.
    fn report(
        &mut self,
        parts: &Parts,
        before: &Image,
        (batch, records): (&Batch, &[Record]),
        aftermath: &mut Aftermath,
    ) {
        let epoch = batch.leader_epoch();
        let leadership = self.leadership.as_mut();
        let leadership = leadership.filter(|it| it.controller.epoch() == epoch);
        let Some(leadership) = leadership.filter(|_| !records.is_empty()) else {
            return;
        };
        parts.meters.counts.on_committed(before, records);
        if !parts.state.is_alone() {
            let now = parts.clock.now();
            let next = batch.next_offset();
            let lines = leadership.lines.committed(before, records, next, now);
            aftermath.lines.extend(lines);
        }
    }

    /// Has a line written once all that was decided is committed, unless this leadership ends before.
    pub(super) fn announce(&mut self, line: Line) {
        let last = Offset(self.image.end().saturating_sub(1));
        if let Some(leadership) = self.leadership.as_mut() {
            leadership.lines.announce(last, line);
        }
    }

    /// The log lets tickets in while the machine leads, and fails those of an epoch that ended.
    fn follow_role(&mut self, aftermath: &mut Aftermath) {
        let role = if self.quorum.role() == RoleName::Leader {
            Role::Elected
        } else {
            Role::NotLeading
        };
        let wanted = Some((self.quorum.epoch(), role));
        if self.role != wanted
            && let Some((epoch, role)) = wanted.clone()
        {
            self.log.set_role(epoch, role, &mut aftermath.news);
            self.role = wanted;
        }
    }

    /// The worker looks: it is to be told of what comes after.
    pub(crate) fn on_watched(&mut self) {
        self.is_looking = false;
    }

    /// Reports to the machine how far the log is synced.
    pub(crate) fn on_synced(&mut self, parts: &Parts, aftermath: &mut Aftermath) {
        self.seen = self.log.synced();
        let (life, own) = self.life;
        // Before a cut is durable itself nothing behind it is known to be.
        if self.seen.life == own {
            let up_to = self.seen.up_to;
            return self.step(parts, Event::Synced { up_to, life }, aftermath);
        }
        self.look(parts.ticket(), aftermath);
        parts.mail.quorum.order(aftermath.orders.drain(..));
    }

    /// Has the worker look again when more of the log is synced.
    fn look(&mut self, ticket: Ticket, aftermath: &mut Aftermath) {
        if self.is_looking {
            return;
        }
        self.is_looking = self.log.watch_synced(ticket, self.seen);
        if !self.is_looking && self.log.synced() != self.seen {
            aftermath.orders.push(Order::Look);
        }
    }
}
