//! This node as the active controller: the machine of [`meta::controller`] beside the log that its decisions go to.

use std::sync::Arc;
use std::time::Duration;

use meta::controller::{Controller, Decision, Purpose, Rules, Standing};
use meta::decide::alter_partition::{AnswerFor, Proposal};
use meta::decide::assign_dirs::{AssignDirError, AssignDirsError, Assignment};
use meta::decide::controller::{
    RegisteringController, UnfitController, UnregisterControllerError, bootstrap,
};
use meta::decide::heartbeat::UnregisterError;
use meta::decide::producer_ids::AllocateError;
use meta::decide::register_broker::FEATURES;
use meta::decide::registration::{RegisterError, Registering};
use meta::decide::update_features::Controllers;
use meta::sessions::{Heartbeat, HeartbeatError};
use meta::versions::ELR_VERSION;
use meta::{Image, MetadataVersion};
use model::{BrokerId, Instant, LeaderEpoch, Ticket};
use raft::RoleName;
use wire::ErrorCode;

use super::change_lines::{ChangeLines, Line};
use super::clocks::{self, Clocks, Due};
use super::lifecycle::leads_for;
use super::log::{MetadataLog, Parts, Written};
use super::plan::{Aftermath, Plan};
use crate::mail::quorum::Order;

/// A decision about a member of the cluster, and what became of its records.
type Decided<T, E> = (Result<T, E>, Written);

/// The state of an active controller that is in no log.
pub(crate) struct Leadership {
    pub(crate) controller: Controller,
    pub(crate) lines: ChangeLines,
    pub(crate) clocks: Clocks,
}

impl Plan {
    /// Has the machine of the controller look at the newest image. `None` where this node is not the active controller.
    pub(crate) fn ask_controller<T>(
        &mut self,
        parts: &Parts,
        ask: impl FnOnce(&mut Controller, &Image, &Rules<'_>) -> T,
    ) -> Option<T> {
        self.leadership.as_ref()?;
        let image = Arc::clone(&self.image);
        self.with_rules(parts, |plan, rules| {
            let leadership = plan.leadership.as_mut()?;
            Some(ask(&mut leadership.controller, &image, rules))
        })
    }

    fn with_rules<T>(&mut self, parts: &Parts, work: impl FnOnce(&mut Plan, &Rules<'_>) -> T) -> T {
        let broker = Arc::clone(&parts.catalog.settings().broker);
        let level = self.quorum_level();
        let milliseconds = |name: &str, standard: u64| {
            let ms = broker.number(name).and_then(|ms| u64::try_from(ms).ok());
            Duration::from_millis(ms.unwrap_or(standard).max(1))
        };
        let idle_every = parts.catalog.settings().metadata_idle_max;
        let rules = Rules {
            topics: &*broker,
            controllers: Controllers {
                local: broker.node_id,
                kraft_version: level.kraft_version,
                voters: &level.voters,
            },
            is_alone: parts.state.is_alone(),
            can_write: self.log.check_append().is_ok(),
            session_timeout: broker.quorum.session_timeout,
            balance_every: balance_every(&broker),
            unclean_every: milliseconds("unclean.leader.election.interval.ms", 300_000),
            idle_every: Some(idle_every).filter(|every| !every.is_zero()),
            min_isr: min_isr(&broker),
        };
        work(self, &rules)
    }

    /// Begins the work of the active controller of `epoch`, unless that is over already.
    pub(crate) fn take_leadership(
        &mut self,
        parts: &Parts,
        epoch: LeaderEpoch,
        aftermath: &mut Aftermath,
    ) -> Result<(), String> {
        if self.quorum.role() != RoleName::Leader || self.quorum.epoch() != epoch {
            return Ok(());
        }
        self.plan_all()?;
        let first = if parts.state.is_alone() {
            // The only broker names the features itself when it registers.
            Vec::new()
        } else {
            let min_isr = first_min_isr(&parts.catalog.settings().broker);
            bootstrap(MetadataVersion::LATEST, &FEATURES, min_isr)
        };
        let now = parts.clock.now();
        let (controller, records) = self.with_rules(parts, |plan, rules| {
            let images = (plan.committed(), &*plan.image);
            Controller::begin(epoch, images, rules, &first, now)
        });
        self.leadership = Some(Leadership {
            controller,
            lines: ChangeLines::default(),
            clocks: Clocks::default(),
        });
        if records.is_empty() {
            return Ok(());
        }
        self.write(parts, &records, aftermath)
            .map_err(|code| format!("cannot write the first records of its leadership: {code:?}"))
    }

    /// Another node has a part in the cluster from now on: this broker is one of several, whose life ends with its heartbeats too.
    /// Voters that no settings name go into the log, so that others can be added.
    pub(crate) fn meet_others(&mut self, parts: &Parts, aftermath: &mut Aftermath) {
        if !parts.state.is_alone() {
            return;
        }
        let broker = &parts.catalog.config().broker;
        let now = parts.clock.now();
        let session = broker.quorum.session_timeout;
        let own = self.image.broker(broker.node_id);
        let state = &parts.state;
        state.set_broker_epoch(own.map_or(-1, |own| own.epoch));
        state.set_leads_until(Some(now.plus(leads_for(session))));
        state.end_solitude();
        parts.catalog.places.have_others();
        parts.mail.quorum.order([Order::Join]);
        self.ask_controller(parts, |controller, image, rules| {
            controller.meet_others(image, rules, now);
        });
        if broker.quorum.voters.is_empty()
            && !self.quorum.history().is_dynamic()
            && let Err(why) = self.make_dynamic(parts, aftermath)
        {
            tracing::error!(target: env::logs::METADATA, "cannot raise kraft.version, so no voter can be added: {why}");
        }
    }

    /// When the active controller is to look at the time.
    pub(crate) fn leadership_deadline(&self) -> Option<Instant> {
        self.leadership.as_ref()?.controller.next_deadline()
    }

    /// Has a line about a decision of the controller written once its records are committed.
    fn announce_decision(&mut self, purpose: Purpose, records: usize, min_isr: usize) {
        let line = match purpose {
            Purpose::Fence(over) => {
                let why = if over.is_dead {
                    "its process is gone, nobody listens at its address"
                } else {
                    "it sent no heartbeat within its session"
                };
                Line::warn(format!("broker {} is fenced: {why}", over.broker))
            }
            Purpose::Balance => Line::info(format!(
                "{records} partitions are led by their preferred replica again"
            )),
            Purpose::RaiseElr => Line::info(format!(
                "three nodes vote now: {ELR_VERSION} is raised to 1, as in a cluster that begins with three; min.insync.replicas stays \
                 {min_isr}"
            )),
            Purpose::Unclean | Purpose::Idle => return,
        };
        self.announce(line);
    }
}

/// The time between two looks at leaders that are not the preferred ones.
fn balance_every(broker: &config::Broker) -> Option<Duration> {
    let is_wanted = broker.flag("auto.leader.rebalance.enable");
    let seconds = broker.number("leader.imbalance.check.interval.seconds")?;
    let seconds = u64::try_from(seconds).unwrap_or(1).max(1);
    is_wanted.then_some(Duration::from_secs(seconds))
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

/// The records of a decision that nobody asked for cannot be written. The next controller decides it where this one is none any more.
fn report_refused(purpose: Purpose, code: ErrorCode) {
    let what = match purpose {
        _ if code == ErrorCode::NotController => return,
        Purpose::Fence(over) => format!("broker {} is fenced", over.broker),
        Purpose::Balance => "preferred replicas lead".to_owned(),
        Purpose::Unclean => "unclean elections were held".to_owned(),
        Purpose::RaiseElr => format!("{ELR_VERSION} is raised"),
        Purpose::Idle => {
            return tracing::debug!(target: env::logs::METADATA, ?code, "no idle record is written");
        }
    };
    tracing::error!(target: env::logs::METADATA, "cannot write that {what}: {code:?}; it is tried again");
}

impl MetadataLog {
    pub(crate) fn take_leadership(&self, epoch: LeaderEpoch) {
        let mut aftermath = Aftermath::default();
        let mut plan = self.plan.lock();
        let taken = plan.take_leadership(&self.parts, epoch, &mut aftermath);
        let is_taken = plan.is_active();
        drop(plan);
        self.conclude(aftermath);
        match taken {
            // A full disk: whoever is elected next may have room.
            Err(why) => {
                tracing::error!(target: env::logs::METADATA, "this node gives up its leadership as the active controller: {why}");
                self.resign(epoch);
            }
            Ok(()) if is_taken && !self.parts.state.is_alone() => {
                tracing::info!(target: env::logs::METADATA, epoch = epoch.0, "this node is the active controller");
            }
            Ok(()) => {}
        }
    }

    pub(crate) fn resign(&self, epoch: LeaderEpoch) {
        self.step(raft::Event::Resign { epoch });
    }

    /// Writes all that the active controller decides because it is `now`.
    pub(crate) fn tick(&self, now: Instant) {
        loop {
            let mut aftermath = Aftermath::default();
            let mut plan = self.plan.lock();
            let tick = |controller: &mut Controller, image: &Image, rules: &Rules<'_>| {
                let decision = controller.tick(image, rules, now);
                decision.map(|decision| (decision, rules.min_isr))
            };
            let Some(Some((decision, min_isr))) = plan.ask_controller(&self.parts, tick) else {
                return;
            };
            let Decision {
                records,
                answer: purpose,
            } = decision;
            match plan.write(&self.parts, &records, &mut aftermath) {
                Ok(()) => plan.announce_decision(purpose, records.len(), min_isr),
                Err(code) => report_refused(purpose, code),
            }
            drop(plan);
            self.conclude(aftermath);
        }
    }

    /// `unclean.leader.election.enable` has changed somewhere.
    pub(crate) fn look_for_unclean(&self) {
        let now = self.parts.clock.now();
        let mut plan = self.plan.lock();
        let leadership = plan.leadership.as_mut();
        let is_due =
            leadership.is_some_and(|leadership| leadership.controller.look_for_unclean(now));
        drop(plan);
        if is_due {
            self.parts.mail.quorum.wake();
        }
    }

    /// A connection has ended on which a broker was heard of.
    pub(crate) fn on_lost(&self, broker: BrokerId, epoch: i64) {
        self.parts.mail.quorum.order([Order::Lost(broker, epoch)]);
    }

    /// Fences a broker whose process is gone, unless it was heard of after `since`.
    pub(crate) fn fence_dead(&self, broker: BrokerId, epoch: i64, since: Instant) {
        let mut plan = self.plan.lock();
        let leadership = plan.leadership.as_mut();
        let is_over = leadership
            .is_some_and(|leadership| leadership.controller.on_dead(broker, epoch, since));
        drop(plan);
        if is_over {
            self.tick(self.parts.clock.now());
        }
    }

    /// Decides, as the active controller, about members of the cluster. `None` where this node is not the active controller.
    fn decide<T>(
        &self,
        ticket: Ticket,
        ask: impl FnOnce(&mut Controller, &Image, &Rules<'_>, Instant) -> Decision<T>,
    ) -> Option<(T, Written)> {
        let now = self.parts.clock.now();
        let mut plan = self.plan.lock();
        let ask = |controller: &mut Controller, image: &Image, rules: &Rules<'_>| {
            ask(controller, image, rules, now)
        };
        let Decision { records, answer } = plan.ask_controller(&self.parts, ask)?;
        let mut aftermath = Aftermath::default();
        let written = plan.write_for(&self.parts, ticket, &records, &mut aftermath);
        drop(plan);
        self.conclude(aftermath);
        Some((answer, written))
    }

    pub(crate) fn meet_others(&self) {
        let mut aftermath = Aftermath::default();
        (self.plan.lock()).meet_others(&self.parts, &mut aftermath);
        self.conclude(aftermath);
    }

    /// A broker registers; its epoch is the answer.
    pub(crate) fn register_broker(
        &self,
        ticket: Ticket,
        broker: &Registering,
    ) -> Option<Decided<i64, RegisterError>> {
        let is_own = broker.id == self.parts.node();
        if is_own && self.parts.state.is_alone() {
            // This broker wrote its registration itself: another process has its number.
            return Some((Err(RegisterError::Duplicate), Written::Durable));
        }
        if !is_own {
            self.meet_others();
        }
        self.decide(ticket, |controller, image, rules, now| {
            controller.register(image, rules, broker, now)
        })
    }

    /// A broker is heard of.
    pub(crate) fn hear_broker(
        &self,
        ticket: Ticket,
        beat: &Heartbeat,
    ) -> Option<Decided<Standing, HeartbeatError>> {
        let decided = self.decide(ticket, |controller, image, rules, now| {
            controller.hear(image, rules, beat, now)
        });
        if let Some((Ok(standing), _)) = &decided {
            for dir in &standing.troubled {
                tracing::warn!(
                    target: env::logs::METADATA,
                    broker = beat.broker.0,
                    "its log directory {dir} is full or slow: others lead its partitions where they can",
                );
            }
        }
        decided
    }

    /// A broker said what time it is there, in milliseconds since 1970.
    pub(crate) fn hear_clock(&self, broker: BrokerId, wall_ms: i64) {
        let ahead_ms = wall_ms.saturating_sub(self.parts.clock.wall_ms().0);
        let mut plan = self.plan.lock();
        let Some(leadership) = plan.leadership.as_mut() else {
            return;
        };
        let due = (leadership.clocks).on_heard(broker, ahead_ms, self.parts.clock.now());
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
        self.decide(ticket, |controller, image, rules, _| {
            controller.alter_partitions(image, rules, leader, proposals)
        })
    }

    /// A broker says where its replicas are.
    pub(crate) fn assign_dirs(
        &self,
        ticket: Ticket,
        broker: (BrokerId, i64),
        assignments: &[Assignment],
    ) -> Option<Decided<Vec<Result<(), AssignDirError>>, AssignDirsError>> {
        self.decide(ticket, |controller, image, rules, _| {
            controller.assign_dirs(image, rules, broker, assignments)
        })
    }

    /// A broker is gone for good.
    pub(crate) fn unregister_broker(
        &self,
        ticket: Ticket,
        broker: BrokerId,
    ) -> Option<Decided<(), UnregisterError>> {
        self.decide(ticket, |controller, image, rules, _| {
            controller.unregister(image, rules, broker)
        })
    }

    /// A controller registers.
    pub(crate) fn register_controller(
        &self,
        ticket: Ticket,
        registering: &RegisteringController,
    ) -> Option<Decided<(), UnfitController>> {
        self.decide(ticket, |controller, image, _, _| {
            controller.register_controller(image, registering)
        })
    }

    /// A controller is gone for good.
    pub(crate) fn unregister_controller(
        &self,
        ticket: Ticket,
        id: BrokerId,
    ) -> Option<Decided<(), UnregisterControllerError>> {
        self.decide(ticket, |controller, image, rules, _| {
            controller.unregister_controller(image, rules, id)
        })
    }

    /// A broker takes a block of producer ids: the first, and how many.
    pub(crate) fn allocate_producer_ids(
        &self,
        ticket: Ticket,
        broker: BrokerId,
        epoch: i64,
    ) -> Option<Decided<(i64, i32), AllocateError>> {
        self.decide(ticket, |controller, image, _, _| {
            controller.allocate_producer_ids(image, broker, epoch)
        })
    }
}

/// The code for a broker that the controller does not know, or not in that epoch. Kafka has one for both.
pub(crate) fn code_of(_: HeartbeatError) -> ErrorCode {
    ErrorCode::StaleBrokerEpoch
}
