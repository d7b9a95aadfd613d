//! The active controller: it begins with what its office needs, and hears of brokers and of their silence.
//!
//! Soft state and decisions about members of the cluster; all of it under the lock of the plan, which has the image.

use std::time::Duration;

use meta::decide::alter_partition::{AnswerFor, Proposal, alter_partitions};
use meta::decide::assign_dirs::{AssignDirError, AssignDirsError, Assignment, assign_dirs};
use meta::decide::controller::{RegisteringController, UnfitController};
use meta::decide::elect_leaders::{balance_leaders, elect_unclean};
use meta::decide::heartbeat::{UnregisterError, fence, heartbeat, leads_any, relieve, unregister};
use meta::decide::register_broker::FEATURES;
use meta::decide::registration::{RegisterError, Registering, register};
use meta::decide::update_features::{Controllers, raise_elr};
use meta::decide::{controller, producer_ids};
use meta::record::Record;
use meta::sessions::{Heartbeat, HeartbeatError, Sessions, State};
use meta::versions::ELR_VERSION;
use meta::{Image, MetadataVersion, Trouble};
use model::{BrokerId, Instant, LeaderEpoch, Offset, Ticket};
use raft::RoleName;
use wire::ErrorCode;
use wire::metadata::NoOpRecord;

use super::change_lines::{ChangeLines, Line};
use super::clocks::{self, Clocks, Due};
use super::lifecycle::leads_for;
use super::mailbox::Order;
use super::plan::{Aftermath, Plan};
use super::taken::{Taken, losers};
use super::tenure::{Idle, Office, VOTERS_OF_SEVERAL};
use crate::metadata::Written;
use crate::shared::Shared;

/// A record batch that cannot be written now is tried again after this pause.
const RETRY: Duration = Duration::from_secs(1);
/// Leaders that move at once, Kafka's number: some 70 KiB of records, and clients of so many partitions look for their leaders.
const ELECTIONS_MAX: usize = 1_000;

/// A decision about a member of the cluster, and what became of its records.
type Decided<T, E> = (Result<T, E>, Written);

/// The state of a broker after its heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) is_caught_up: bool,
    /// Also a broker that others have replaced somewhere acts as a leader again once it has heard of it.
    pub(crate) is_fenced: bool,
    pub(crate) may_stop: bool,
}

impl Plan {
    /// Begins the work of the active controller of `epoch`, unless that is over already.
    pub(super) fn take_office(
        &mut self,
        shared: &Shared,
        epoch: LeaderEpoch,
        aftermath: &mut Aftermath,
    ) -> Result<(), String> {
        if self.quorum.role() != RoleName::Leader || self.quorum.epoch() != epoch {
            return Ok(());
        }
        self.plan_all()?;
        let broker = &shared.config().broker;
        let timeout = broker.quorum.session_timeout;
        // Alone, the broker and the controller are one process: nobody is listened for.
        let heard = if shared.metadata.is_alone() {
            &Image::default()
        } else {
            &*self.image
        };
        self.office = Some(Office {
            epoch,
            sessions: Sessions::new(heard, timeout, shared.env.clock.now()),
            trouble: Trouble::default(),
            taken: if shared.metadata.is_alone() {
                Taken::nothing()
            } else {
                Taken::at_beginning(self.committed(), &self.image)
            },
            pause: None,
            balance_at: balance_every(shared).map(|every| shared.env.clock.now().plus(every)),
            // The controller before may have missed one.
            unclean_at: Some(shared.env.clock.now()).filter(|_| !shared.metadata.is_alone()),
            idle: idle(shared),
            lines: ChangeLines::default(),
            clocks: Clocks::default(),
            raise_elr_at: None,
        });
        let first = if shared.metadata.is_alone() {
            // The only broker names the features itself when it registers.
            Vec::new()
        } else {
            controller::bootstrap(MetadataVersion::LATEST, &FEATURES, first_min_isr(broker))
        };
        let records = controller::activate(&self.image, &first);
        if records.is_empty() {
            return Ok(());
        }
        self.write(shared, &records, aftermath)
            .map_err(|code| format!("cannot write the first records of its office: {code:?}"))
    }

    /// Another node has a part in the cluster from now on: this broker is one of several, whose life ends with its heartbeats too.
    /// Voters that no settings name go into the log, so that others can be added.
    pub(super) fn meet_others(&mut self, shared: &Shared, aftermath: &mut Aftermath) {
        if !shared.metadata.is_alone() {
            return;
        }
        let broker = &shared.config().broker;
        let now = shared.env.clock.now();
        let session = broker.quorum.session_timeout;
        if let Some(office) = self.office.as_mut() {
            office.sessions = Sessions::new(&self.image, session, now);
        }
        let own = self.image.broker(broker.node_id);
        let metadata = &shared.metadata;
        metadata.set_broker_epoch(own.map_or(-1, |own| own.epoch));
        metadata.set_leads_until(Some(now.plus(leads_for(session))));
        metadata.end_solitude();
        metadata.mailbox.order([Order::Join]);
        let every = balance_every(shared);
        if let Some(office) = self.office.as_mut() {
            office.balance_at = every.map(|every| now.plus(every));
            office.unclean_at = Some(now);
            office.idle = idle(shared);
        }
        if broker.quorum.voters.is_empty()
            && !self.quorum.history().is_dynamic()
            && let Err(why) = self.make_dynamic(shared, aftermath)
        {
            tracing::error!(target: env::logs::METADATA, "cannot raise kraft.version, so no voter can be added: {why}");
        }
    }

    /// When the next broker is to be fenced if it stays silent, or leaders are looked at.
    pub(crate) fn office_deadline(&self) -> Option<Instant> {
        let office = self.office.as_ref()?;
        let silence = office.sessions.next_deadline();
        let silence = silence.map(|at| office.pause.map_or(at, |pause| pause.max(at)));
        let others = [
            office.balance_at,
            office.unclean_at,
            office.raise_elr_at,
            office.idle.deadline(),
        ];
        silence
            .into_iter()
            .chain(others.into_iter().flatten())
            .min()
    }
}

/// The time between two looks for partitions that an unclean election gives a leader.
fn unclean_every(shared: &Shared) -> Duration {
    let ms = (shared.config().broker).number("unclean.leader.election.interval.ms");
    let ms = ms.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(300_000);
    Duration::from_millis(ms.max(1))
}

/// The time between two looks at leaders that are not the preferred ones. Alone there is nobody else to lead.
fn balance_every(shared: &Shared) -> Option<Duration> {
    let broker = &shared.config().broker;
    let is_wanted = broker.flag("auto.leader.rebalance.enable") && !shared.metadata.is_alone();
    let seconds = broker.number("leader.imbalance.check.interval.seconds")?;
    let seconds = u64::try_from(seconds).unwrap_or(1).max(1);
    is_wanted.then_some(Duration::from_secs(seconds))
}

/// Alone there is nobody who could be cut off, and a disk that may rest.
fn idle(shared: &Shared) -> Idle {
    let every = shared.config().metadata_idle_max;
    let every = Some(every).filter(|_| !shared.metadata.is_alone());
    Idle::new(every, shared.env.clock.now())
}

/// `min.insync.replicas` of a cluster that begins, as a setting of the whole cluster: what an operator set, else 2 where its topics have three
/// replicas (`docs/decisions/min-isr.md`).
fn first_min_isr(broker: &config::Broker) -> usize {
    let given = broker.given_number("min.insync.replicas");
    if let Some(given) = given.and_then(|given| usize::try_from(given).ok()) {
        return given;
    }
    let voters = i16::try_from(broker.quorum.voters.len()).unwrap_or(i16::MAX);
    let factor = broker.replication_factor_default.unwrap_or(voters);
    if 3 <= factor { 2 } else { 1 }
}

/// The same setting of a cluster that began alone: as it is.
fn min_isr(broker: &config::Broker) -> usize {
    usize::try_from(broker.topic.min_insync_replicas).unwrap_or(1)
}

/// It is tried again to raise a feature after this pause: the last voter may not have registered yet.
const RAISE_RETRY: Duration = Duration::from_secs(2);

impl Shared {
    pub(super) fn take_office(&self, epoch: LeaderEpoch) {
        let mut aftermath = Aftermath::default();
        let mut plan = self.metadata.plan.lock();
        let taken = plan.take_office(self, epoch, &mut aftermath);
        let is_taken = plan.is_active();
        drop(plan);
        self.conclude(aftermath);
        match taken {
            // A full disk: whoever is elected next may have room.
            Err(why) => {
                tracing::error!(target: env::logs::METADATA, "this node gives up its office as the active controller: {why}");
                self.resign(epoch);
            }
            Ok(()) if is_taken && !self.metadata.is_alone() => {
                tracing::info!(target: env::logs::METADATA, epoch = epoch.0, "this node is the active controller");
            }
            Ok(()) => {}
        }
    }

    pub(super) fn resign(&self, epoch: LeaderEpoch) {
        self.step_quorum(raft::Event::Resign { epoch });
    }

    /// Fences the brokers that were silent for too long.
    pub(super) fn fence_silent(&self, now: Instant) {
        self.fence_over(now, "it sent no heartbeat within its session");
    }

    /// Has preferred leaders come back that are in sync, when it is time to look. What is left is looked at in the next turn.
    pub(super) fn balance_leaders(&self, now: Instant) {
        let mut aftermath = Aftermath::default();
        let mut plan = self.metadata.plan.lock();
        let settings = self.config();
        let can_write = plan.log.check_append().is_ok();
        let Some(office) = plan.office.as_mut() else {
            return;
        };
        if office.balance_at.is_none_or(|at| now < at) {
            return;
        }
        office.balance_at = balance_every(self).map(|every| now.plus(every));
        if !can_write {
            return;
        }
        let image = std::sync::Arc::clone(&plan.image);
        let (records, has_more) = balance_leaders(&image, &*settings.broker, ELECTIONS_MAX);
        if records.is_empty() {
            return;
        }
        let written = plan.write(self, &records, &mut aftermath);
        if let (Ok(()), true, Some(office)) = (&written, has_more, plan.office.as_mut()) {
            office.balance_at = Some(now);
        }
        if written.is_ok() {
            let count = records.len();
            plan.announce(Line::info(format!(
                "{count} partitions are led by their preferred replica again"
            )));
        }
        drop(plan);
        self.conclude(aftermath);
        match written {
            // The next controller looks as well.
            Ok(()) | Err(ErrorCode::NotController) => {}
            Err(code) => {
                tracing::error!(target: env::logs::METADATA, "cannot write that preferred replicas lead: {code:?}");
            }
        }
    }

    /// `unclean.leader.election.enable` has changed somewhere: partitions that have no leader are looked at now, not in the next interval.
    pub(crate) fn look_for_unclean(&self) {
        let now = self.env.clock.now();
        let mut plan = self.metadata.plan.lock();
        let office = plan.office.as_mut();
        let is_due = office.is_some_and(|office| {
            let at = office.unclean_at.as_mut();
            at.map(|at| *at = (*at).min(now)).is_some()
        });
        drop(plan);
        if is_due {
            self.metadata.mailbox.wake();
        }
    }

    /// Gives partitions a leader that have none and whose topic has `unclean.leader.election.enable`, when it is time to look. What is left
    /// is looked at in the next turn.
    pub(super) fn elect_unclean(&self, now: Instant) {
        let mut aftermath = Aftermath::default();
        let mut plan = self.metadata.plan.lock();
        let settings = self.config();
        let can_write = plan.log.check_append().is_ok();
        let Some(office) = plan.office.as_mut() else {
            return;
        };
        if office.unclean_at.is_none_or(|at| now < at) {
            return;
        }
        office.unclean_at = Some(now.plus(if can_write {
            unclean_every(self)
        } else {
            RETRY
        }));
        if !can_write {
            return;
        }
        let image = std::sync::Arc::clone(&plan.image);
        let (records, has_more) = elect_unclean(&image, &*settings.broker, ELECTIONS_MAX);
        if records.is_empty() {
            return;
        }
        let written = plan.write(self, &records, &mut aftermath);
        if let (Ok(()), true, Some(office)) = (&written, has_more, plan.office.as_mut()) {
            office.unclean_at = Some(now);
        }
        drop(plan);
        self.conclude(aftermath);
        match written {
            // The next controller looks as well.
            Ok(()) | Err(ErrorCode::NotController) => {}
            Err(code) => {
                tracing::error!(target: env::logs::METADATA, "cannot write unclean elections: {code:?}");
            }
        }
    }

    /// A cluster that began alone has three voters now: it gets eligible leaders (KIP-966), as one has that begins with three. The setting that
    /// has to hold for the whole cluster then is written in front, as Kafka does.
    pub(super) fn raise_elr(&self, now: Instant) {
        let mut aftermath = Aftermath::default();
        let mut plan = self.metadata.plan.lock();
        let broker = std::sync::Arc::clone(&self.config().broker);
        let can_write = plan.log.check_append().is_ok();
        let level = plan.quorum_level();
        let image = std::sync::Arc::clone(&plan.image);
        let Some(office) = plan.office.as_mut() else {
            return;
        };
        if office.raise_elr_at.is_none_or(|at| now < at) {
            return;
        }
        if image.feature(ELR_VERSION) != 0 || level.voters.len() < VOTERS_OF_SEVERAL {
            office.raise_elr_at = None;
            return;
        }
        office.raise_elr_at = Some(now.plus(RAISE_RETRY));
        let controllers = Controllers {
            local: broker.node_id,
            kraft_version: level.kraft_version,
            voters: &level.voters,
        };
        let Some(records) = raise_elr(&image, controllers, min_isr(&broker)).filter(|_| can_write)
        else {
            return;
        };
        let written = plan.write(self, &records, &mut aftermath);
        if let (Ok(()), Some(office)) = (&written, plan.office.as_mut()) {
            office.raise_elr_at = None;
            plan.announce(Line::info(format!(
                "three nodes vote now: {ELR_VERSION} is raised to 1, as in a cluster that begins with three; min.insync.replicas stays {}",
                min_isr(&broker),
            )));
        }
        drop(plan);
        self.conclude(aftermath);
    }

    /// Writes that there is nothing to write, when that has been so for long enough.
    pub(super) fn write_idle(&self, now: Instant) {
        let mut aftermath = Aftermath::default();
        let mut plan = self.metadata.plan.lock();
        let can_write = plan.log.check_append().is_ok();
        let Some(office) = plan.office.as_mut() else {
            return;
        };
        if office.idle.deadline().is_none_or(|at| now < at) {
            return;
        }
        office.idle.put_off(now);
        if !can_write {
            return;
        }
        let written = plan.write(self, &[NoOpRecord::default().into()], &mut aftermath);
        drop(plan);
        self.conclude(aftermath);
        // An office that ends has another controller write.
        if let Err(code) = written {
            tracing::debug!(target: env::logs::METADATA, ?code, "no idle record is written");
        }
    }

    /// A connection has ended on which a broker was heard of.
    pub(crate) fn on_lost(&self, broker: BrokerId, epoch: i64) {
        self.metadata.mailbox.order([Order::Lost(broker, epoch)]);
    }

    /// Fences a broker whose process is gone, unless it was heard of after `since`.
    pub(super) fn fence_dead(&self, broker: BrokerId, epoch: i64, since: Instant) {
        let mut plan = self.metadata.plan.lock();
        let Some(office) = plan.office.as_mut() else {
            return;
        };
        let is_over = office.sessions.on_dead(broker, epoch, since);
        drop(plan);
        if is_over {
            let now = self.env.clock.now();
            self.fence_over(now, "its process is gone, nobody listens at its address");
        }
    }

    /// Fences the brokers whose sessions have ended.
    fn fence_over(&self, now: Instant, why: &str) {
        let mut aftermath = Aftermath::default();
        let mut plan = self.metadata.plan.lock();
        let settings = self.config();
        let can_write = plan.log.check_append().is_ok();
        let Some(office) = plan.office.as_mut() else {
            return;
        };
        if !can_write {
            office.pause = Some(now.plus(RETRY));
            return;
        }
        let over = office.sessions.on_tick(now);
        for broker in over {
            let records = fence(&plan.image, &*settings.broker, broker);
            match plan.write(self, &records, &mut aftermath) {
                Ok(()) => plan.announce(Line::warn(format!("broker {broker} is fenced: {why}"))),
                // The next controller fences it.
                Err(ErrorCode::NotController) => {}
                Err(code) => {
                    tracing::error!(target: env::logs::METADATA, broker = broker.0, "cannot write that it is fenced: {code:?}");
                }
            }
            let last = Offset(plan.image.end().saturating_sub(1));
            if let Some(office) = plan.office.as_mut() {
                office.sessions.on_fencing_written(broker, last);
            }
        }
        drop(plan);
        self.conclude(aftermath);
    }

    /// Decides, as the active controller, about members of the cluster. `None` where this node is not the active controller.
    fn decide_in_office<T>(
        &self,
        ticket: Ticket,
        decide: impl FnOnce(&mut Plan, &config::Broker, Instant) -> (Vec<Record>, T),
    ) -> Option<(T, Written)> {
        let mut plan = self.metadata.plan.lock();
        plan.office.as_ref()?;
        let broker = std::sync::Arc::clone(&self.config().broker);
        let (records, answer) = decide(&mut plan, &broker, self.env.clock.now());
        let mut aftermath = Aftermath::default();
        let written = plan.write_for(self, ticket, &records, &mut aftermath);
        drop(plan);
        self.conclude(aftermath);
        Some((answer, written))
    }

    pub(super) fn meet_others(&self) {
        let mut aftermath = Aftermath::default();
        (self.metadata.plan.lock()).meet_others(self, &mut aftermath);
        self.conclude(aftermath);
    }

    /// A broker registers; its epoch is the answer.
    pub(crate) fn register_broker(
        &self,
        ticket: Ticket,
        broker: &Registering,
    ) -> Option<Decided<i64, RegisterError>> {
        let is_own = broker.id == self.config().broker.node_id;
        if is_own && self.metadata.is_alone() {
            // This broker wrote its registration itself: another process has its number.
            return Some((Err(RegisterError::Duplicate), Written::Durable));
        }
        if !is_own {
            self.meet_others();
        }
        self.decide_in_office(ticket, |plan, settings, now| {
            let image = std::sync::Arc::clone(&plan.image);
            let Some(office) = plan.office.as_mut() else {
                return (Vec::new(), Err(RegisterError::Duplicate));
            };
            let has_session = image.broker(broker.id).is_some_and(|known| {
                // A process locks its directories: the one that has them now is the only one that lives.
                let is_heir = !known.log_dirs.is_empty() && known.log_dirs == broker.log_dirs;
                !is_heir && (office.sessions).has_session(broker.id, known.epoch, now)
            });
            match register(&image, settings, broker, has_session) {
                Err(error) => (Vec::new(), Err(error)),
                Ok(registered) => {
                    let count = i64::try_from(registered.records.len()).unwrap_or(i64::MAX);
                    let at = Offset(image.end().saturating_add(count - 1));
                    let (epoch, is_fenced) = (registered.epoch, registered.is_fenced);
                    office
                        .sessions
                        .on_registered(broker.id, epoch, is_fenced, at);
                    office.sessions.on_heard(broker.id, epoch, now);
                    (registered.records, Ok(epoch))
                }
            }
        })
    }

    /// A broker is heard of.
    pub(crate) fn hear_broker(
        &self,
        ticket: Ticket,
        beat: &Heartbeat,
    ) -> Option<Decided<Standing, HeartbeatError>> {
        self.decide_in_office(ticket, |plan, settings, now| {
            let image = std::sync::Arc::clone(&plan.image);
            let Some(office) = plan.office.as_mut() else {
                let unknown = HeartbeatError::NotRegistered(beat.broker);
                return (Vec::new(), Err(unknown));
            };
            let leads = || leads_any(&image, beat.broker);
            let step = match office.sessions.on_heartbeat(beat, leads, now) {
                Ok(step) => step,
                Err(error) => return (Vec::new(), Err(error)),
            };
            let mut records = heartbeat(&image, settings, beat, step);
            let begun = office.trouble.on_told(beat.broker, &beat.troubled_log_dirs);
            for dir in begun {
                tracing::warn!(
                    target: env::logs::METADATA,
                    broker = beat.broker.0,
                    "its log directory {dir} is full or slow: others lead its partitions where they can",
                );
            }
            // Else the next heartbeat has the image that this one leads to.
            let is_in_trouble = !beat.troubled_log_dirs.is_empty();
            if is_in_trouble && records.is_empty() && step.to == State::Unfenced {
                records = relieve(&image, settings, beat.broker, &office.trouble);
            }
            if step.to == State::ShuttingDown {
                let count = i64::try_from(records.len()).unwrap_or(i64::MAX);
                let last = Offset(image.end().saturating_add(count - 1));
                office.sessions.on_shut_down_written(beat.broker, last);
            }
            let is_replaced = office.taken.is_unheard(beat.broker, beat.metadata_offset)
                || losers(&image, &records).any(|loser| loser == beat.broker);
            let standing = Standing {
                is_caught_up: step.is_caught_up,
                is_fenced: is_replaced || matches!(step.to, State::Fenced | State::Down),
                may_stop: step.to == State::Down,
            };
            (records, Ok(standing))
        })
    }

    /// A broker said what time it is there, in milliseconds since 1970.
    pub(crate) fn hear_clock(&self, broker: BrokerId, wall_ms: i64) {
        let ahead_ms = wall_ms.saturating_sub(self.env.clock.wall_ms().0);
        let mut plan = self.metadata.plan.lock();
        let Some(office) = plan.office.as_mut() else {
            return;
        };
        let due = (office.clocks).on_heard(broker, ahead_ms, self.env.clock.now());
        drop(plan);
        match due {
            Some(Due::Apart { ahead_ms }) => tracing::warn!(
                target: env::logs::METADATA,
                broker = broker.0,
                "the clock of broker {broker} is {} that of this controller: timestamps, retention and the age of transactions differ by \
                 that. Set the clocks of all nodes by NTP",
                clocks::words(ahead_ms),
            ),
            Some(Due::Equal) => tracing::info!(
                target: env::logs::METADATA,
                broker = broker.0,
                "the clock of broker {broker} agrees with that of this controller again",
            ),
            None => {}
        }
    }

    /// The leader of partitions, a broker with the epoch of its registration, asks for other ISRs.
    pub(crate) fn alter_partitions(
        &self,
        ticket: Ticket,
        leader: (BrokerId, i64),
        proposals: &[Proposal],
    ) -> Option<Decided<Vec<AnswerFor>, HeartbeatError>> {
        self.decide_in_office(ticket, |plan, settings, _| {
            let trouble = plan.office.as_ref().map(|office| office.trouble.clone());
            let trouble = trouble.unwrap_or_default();
            match alter_partitions(&plan.image, settings, &trouble, leader, proposals) {
                Ok(altered) => (altered.records, Ok(altered.answers)),
                Err(error) => (Vec::new(), Err(error)),
            }
        })
    }

    /// A broker says where its replicas are.
    pub(crate) fn assign_dirs(
        &self,
        ticket: Ticket,
        (broker, epoch): (BrokerId, i64),
        assignments: &[Assignment],
    ) -> Option<Decided<Vec<Result<(), AssignDirError>>, AssignDirsError>> {
        self.decide_in_office(ticket, |plan, settings, _| {
            match assign_dirs(&plan.image, settings, broker, epoch, assignments) {
                Ok(assigned) => (assigned.records, Ok(assigned.answers)),
                Err(error) => (Vec::new(), Err(error)),
            }
        })
    }

    /// A broker is gone for good.
    pub(crate) fn unregister_broker(
        &self,
        ticket: Ticket,
        broker: BrokerId,
    ) -> Option<Decided<(), UnregisterError>> {
        self.decide_in_office(ticket, |plan, settings, _| {
            match unregister(&plan.image, settings, broker) {
                Ok(records) => {
                    if let Some(office) = plan.office.as_mut() {
                        office.sessions.on_unregistered(broker);
                    }
                    (records, Ok(()))
                }
                Err(error) => (Vec::new(), Err(error)),
            }
        })
    }

    /// A controller registers.
    pub(crate) fn register_controller(
        &self,
        ticket: Ticket,
        controller: &RegisteringController,
    ) -> Option<Decided<(), UnfitController>> {
        self.decide_in_office(ticket, |plan, _, _| {
            let known = plan
                .image
                .controllers()
                .find(|known| known.id == controller.id);
            let is_known = known.is_some_and(|known| known.incarnation == controller.incarnation);
            match controller::register_controller(&plan.image, controller) {
                Ok(_) if is_known => (Vec::new(), Ok(())),
                Ok(record) => (vec![record], Ok(())),
                Err(error) => (Vec::new(), Err(error)),
            }
        })
    }

    /// A broker takes a block of producer ids: the first, and how many.
    pub(crate) fn allocate_producer_ids(
        &self,
        ticket: Ticket,
        broker: BrokerId,
        epoch: i64,
    ) -> Option<Decided<(i64, i32), ErrorCode>> {
        self.decide_in_office(ticket, |plan, _, _| {
            match producer_ids::allocate_for(&plan.image, broker, epoch) {
                Ok((record, block)) => {
                    let count = i32::try_from(block.end - block.start).unwrap_or(i32::MAX);
                    (vec![record], Ok((block.start, count)))
                }
                Err(producer_ids::AllocateError::Epoch(error)) => (Vec::new(), Err(code_of(error))),
                Err(producer_ids::AllocateError::Exhausted) => {
                    (Vec::new(), Err(ErrorCode::UnknownServerError))
                }
            }
        })
    }
}

/// The code for a broker that the controller does not know, or not in that epoch. Kafka has one for both.
pub(crate) fn code_of(_: HeartbeatError) -> ErrorCode {
    ErrorCode::StaleBrokerEpoch
}
