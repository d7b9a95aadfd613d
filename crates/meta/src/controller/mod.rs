//! The active controller: the soft state of one epoch, and what it decides about brokers, directories and leaders.
//!
//! A machine without log, clock or lock. Its caller has four duties: (1) it asks for a decision on the newest image, decided or
//! committed; (2) it writes the records of that decision and calls [`Controller::on_written`], or [`Controller::on_refused`] where
//! they cannot be written, before it asks again; (3) it reports every other record that it writes in the same way; (4) it calls
//! [`Controller::tick`] from [`Controller::next_deadline`] on, until there is nothing to decide. Facts are noted at once (a broker is
//! heard); a state that rests on records (fenced, registered, shutting down) changes with [`Controller::on_written`] alone. The
//! decisions themselves are those of [`decide`](crate::decide).

mod losses;

use std::collections::BTreeMap;
use std::time::Duration;

use model::{BrokerId, Instant, LeaderEpoch, Offset};
use wire::Uuid;
use wire::metadata::NoOpRecord;

use self::losses::{UnheardLosses, losers};
use crate::decide::alter_partition::{AnswerFor, Proposal, alter_partitions};
use crate::decide::assign_dirs::{AssignDirError, AssignDirsError, Assignment, assign_dirs};
use crate::decide::controller::{
    RegisteringController, UnfitController, UnregisterControllerError, activate,
    register_controller, unregister_controller,
};
use crate::decide::draft::TopicSettings;
use crate::decide::elect_leaders::{balance_leaders, elect_unclean};
use crate::decide::heartbeat::{UnregisterError, fence, heartbeat, leads_any, relieve, unregister};
use crate::decide::producer_ids::{AllocateError, allocate_for};
use crate::decide::registration::{RegisterError, Registering, register};
use crate::decide::update_features::{Controllers, raise_elr};
use crate::image::Image;
use crate::record::Record;
use crate::sessions::{Heartbeat, HeartbeatError, Over, Sessions, State};
use crate::trouble::Trouble;
use crate::versions::ELR_VERSION;

/// Records that cannot be written now are tried again after this pause.
const RETRY: Duration = Duration::from_secs(1);
/// It is tried again to raise a feature after this pause: the last voter may not have registered yet.
const RAISE_RETRY: Duration = Duration::from_secs(2);
/// Leaders that move at once, Kafka's number: some 70 KiB of records, and clients of so many partitions look for their leaders.
const ELECTIONS_MAX: usize = 1_000;
/// So many voters make a cluster of several, whose new ones begin with eligible leaders.
pub const VOTERS_OF_SEVERAL: usize = 3;

/// The settings and the surroundings that a decision obeys.
pub struct Rules<'a> {
    pub topics: &'a dyn TopicSettings,
    pub controllers: Controllers<'a>,
    /// No other node has a part in the cluster: nobody is listened for, and there is nobody else to lead.
    pub is_alone: bool,
    /// The log takes records.
    pub can_write: bool,
    pub session_timeout: Duration,
    /// The time between two looks at leaders that are not the preferred ones; `None`: they stay.
    pub balance_every: Option<Duration>,
    /// The time between two looks for partitions that an unclean election gives a leader.
    pub unclean_every: Duration,
    /// A log to which nothing is written for so long gets a record that says nothing: replicas that are cut off show by their lag.
    /// `None`: never.
    pub idle_every: Option<Duration>,
    /// `min.insync.replicas` of the controller.
    pub min_isr: usize,
}

/// The outcome of a question: records to be written, and the answer once they are committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<T> {
    pub records: Vec<Record>,
    pub answer: T,
}

impl<T> Decision<T> {
    fn just(answer: T) -> Decision<T> {
        Decision {
            records: Vec::new(),
            answer,
        }
    }
}

/// The purpose of records that nobody asked for, for the log of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Fence(Over),
    Balance,
    Unclean,
    /// `eligible.leader.replicas.version`, in a cluster that began alone.
    RaiseElr,
    /// Nothing was written for so long.
    Idle,
}

/// The state of a broker after its heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub is_caught_up: bool,
    /// Also a broker that others have replaced somewhere acts as a leader again once it has heard of it.
    pub is_fenced: bool,
    pub may_stop: bool,
    /// Directories that were in no trouble before.
    pub troubled: Vec<Uuid>,
}

/// A change of soft state that waits for its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Registered {
        broker: BrokerId,
        incarnation: Uuid,
        epoch: i64,
        is_fenced: bool,
        at: Instant,
    },
    Unregistered(BrokerId),
    Stepped(BrokerId, State),
    Fenced(BrokerId),
    /// There is more to balance.
    MoreToBalance(Instant),
    MoreUnclean(Instant),
    ElrRaised,
}

/// The active controller of one epoch.
#[derive(Clone, Debug)]
pub struct Controller {
    epoch: LeaderEpoch,
    sessions: Sessions,
    /// Directories that brokers call full or slow.
    trouble: Trouble,
    losses: UnheardLosses,
    /// The life of each broker before its present one: a process that comes back behind its successor runs with a copy of the directories.
    replaced: BTreeMap<BrokerId, Uuid>,
    /// Waits for the records of the last decision.
    pending: Option<Move>,
    /// Sessions are not looked at before.
    pause: Option<Instant>,
    /// When leaders are looked at that are not the preferred ones; never where that is not wanted.
    balance_at: Option<Instant>,
    /// When partitions without leader are looked at that `unclean.leader.election.enable` gives one.
    unclean_at: Option<Instant>,
    idle_at: Option<Instant>,
    /// When it is tried again to raise `eligible.leader.replicas.version`; `None` where nothing asks for it.
    raise_elr_at: Option<Instant>,
}

impl Controller {
    /// Begins with `image`, of which `committed` is known to be committed. Returns the first records too; on an empty log they are those
    /// of `bootstrap`.
    #[must_use]
    pub fn begin(
        epoch: LeaderEpoch,
        (committed, image): (&Image, &Image),
        rules: &Rules<'_>,
        bootstrap: &[Record],
        now: Instant,
    ) -> (Controller, Vec<Record>) {
        let nobody = Image::default();
        // Alone, the broker and the controller are one process: nobody is listened for.
        let heard = if rules.is_alone { &nobody } else { image };
        let losses = if rules.is_alone {
            UnheardLosses::nothing()
        } else {
            UnheardLosses::at_beginning(committed, image)
        };
        let mut controller = Controller {
            epoch,
            sessions: Sessions::new(heard, rules.session_timeout, now),
            trouble: Trouble::default(),
            losses,
            replaced: BTreeMap::new(),
            pending: None,
            pause: None,
            balance_at: None,
            unclean_at: None,
            idle_at: None,
            raise_elr_at: None,
        };
        controller.set_timers(rules, now);
        (controller, activate(image, bootstrap))
    }

    /// Another node has a part in the cluster from now on.
    pub fn meet_others(&mut self, image: &Image, rules: &Rules<'_>, now: Instant) {
        self.sessions = Sessions::new(image, rules.session_timeout, now);
        self.set_timers(rules, now);
    }

    fn set_timers(&mut self, rules: &Rules<'_>, now: Instant) {
        let in_time = |every: Option<Duration>| {
            let every = every.filter(|every| !every.is_zero() && !rules.is_alone);
            every.map(|every| now.plus(every))
        };
        self.balance_at = in_time(rules.balance_every);
        self.idle_at = in_time(rules.idle_every);
        // The controller before may have missed one.
        self.unclean_at = (!rules.is_alone).then_some(now);
    }

    #[must_use]
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// The cluster has three voters, and had fewer.
    pub fn on_several_voters(&mut self, now: Instant) {
        self.raise_elr_at = Some(now);
    }

    /// `unclean.leader.election.enable` has changed somewhere: partitions that have no leader are looked at now, not in the next
    /// interval. False where nobody looks.
    pub fn look_for_unclean(&mut self, now: Instant) -> bool {
        let at = self.unclean_at.as_mut();
        at.map(|at| *at = (*at).min(now)).is_some()
    }

    /// The process of a broker is known to be dead: its session ends now, unless it was heard of after `since`. True if it does.
    pub fn on_dead(&mut self, broker: BrokerId, epoch: i64, since: Instant) -> bool {
        self.sessions.on_dead(broker, epoch, since)
    }

    /// Records that were decided on `before` are in the log, the last of them at `last`.
    pub fn on_written(
        &mut self,
        before: &Image,
        records: &[Record],
        (last, now): (Offset, Instant),
        idle_every: Option<Duration>,
    ) {
        if !records.is_empty() {
            self.losses.note(before, records, last.0);
            let at = idle_every.map(|every| now.plus(every));
            self.idle_at = self.idle_at.and(at).max(self.idle_at);
        }
        match self.pending.take() {
            None => {}
            Some(Move::Registered {
                broker,
                incarnation,
                epoch,
                is_fenced,
                at,
            }) => {
                let known = before.broker(broker).map(|known| known.incarnation);
                if let Some(life) = known.filter(|life| *life != incarnation) {
                    self.replaced.insert(broker, life);
                }
                self.sessions.on_registered(broker, epoch, is_fenced, last);
                self.sessions.on_heard(broker, epoch, at);
            }
            Some(Move::Unregistered(broker)) => {
                self.replaced.remove(&broker);
                self.sessions.on_unregistered(broker);
            }
            Some(Move::Stepped(broker, to)) => self.sessions.on_step(broker, to, last),
            Some(Move::Fenced(broker)) => self.sessions.on_fenced(broker, last),
            Some(Move::MoreToBalance(at)) => self.balance_at = Some(at),
            Some(Move::MoreUnclean(at)) => self.unclean_at = Some(at),
            Some(Move::ElrRaised) => self.raise_elr_at = None,
        }
    }

    /// The records of the last decision cannot be written.
    pub fn on_refused(&mut self, now: Instant) {
        if let Some(Move::Fenced(_)) = self.pending.take() {
            self.pause = Some(now.plus(RETRY));
        }
    }

    /// A broker registers; its epoch is the answer.
    pub fn register(
        &mut self,
        image: &Image,
        rules: &Rules<'_>,
        broker: &Registering,
        now: Instant,
    ) -> Decision<Result<i64, RegisterError>> {
        let has_session = image.broker(broker.id).is_some_and(|known| {
            // A process locks its directories: the one that has them now is the only one that lives, unless they were copied.
            let is_back = self.replaced.get(&broker.id) == Some(&broker.incarnation);
            let has_dirs = !known.log_dirs.is_empty() && known.log_dirs == broker.log_dirs;
            let is_heir = has_dirs && !is_back;
            !is_heir && (self.sessions).has_session(broker.id, known.epoch, now)
        });
        match register(image, rules.topics, broker, has_session) {
            Err(error) => Decision::just(Err(error)),
            Ok(registered) => {
                self.pending = Some(Move::Registered {
                    broker: broker.id,
                    incarnation: broker.incarnation,
                    epoch: registered.epoch,
                    is_fenced: registered.is_fenced,
                    at: now,
                });
                Decision {
                    records: registered.records,
                    answer: Ok(registered.epoch),
                }
            }
        }
    }

    /// A broker is heard of.
    pub fn hear(
        &mut self,
        image: &Image,
        rules: &Rules<'_>,
        beat: &Heartbeat,
        now: Instant,
    ) -> Decision<Result<Standing, HeartbeatError>> {
        let leads = || leads_any(image, beat.broker);
        let step = match self.sessions.on_heartbeat(beat, leads, now) {
            Ok(step) => step,
            Err(error) => return Decision::just(Err(error)),
        };
        let mut records = heartbeat(image, rules.topics, beat, step);
        let troubled = self.trouble.on_told(beat.broker, &beat.troubled_log_dirs);
        // Else the next heartbeat has the image that this one leads to.
        let is_in_trouble = !beat.troubled_log_dirs.is_empty();
        if is_in_trouble && records.is_empty() && step.to == State::Unfenced {
            records = relieve(image, rules.topics, beat.broker, &self.trouble);
        }
        self.pending = Some(Move::Stepped(beat.broker, step.to));
        let is_replaced = self.losses.is_unheard(beat.broker, beat.metadata_offset)
            || losers(image, &records).any(|loser| loser == beat.broker);
        let standing = Standing {
            is_caught_up: step.is_caught_up,
            is_fenced: is_replaced || matches!(step.to, State::Fenced | State::Down),
            may_stop: step.to == State::Down,
            troubled,
        };
        Decision {
            records,
            answer: Ok(standing),
        }
    }

    /// The leader of partitions, a broker with the epoch of its registration, asks for other ISRs.
    pub fn alter_partitions(
        &mut self,
        image: &Image,
        rules: &Rules<'_>,
        leader: (BrokerId, i64),
        proposals: &[Proposal],
    ) -> Decision<Result<Vec<AnswerFor>, HeartbeatError>> {
        match alter_partitions(image, rules.topics, &self.trouble, leader, proposals) {
            Ok(altered) => Decision {
                records: altered.records,
                answer: Ok(altered.answers),
            },
            Err(error) => Decision::just(Err(error)),
        }
    }

    /// A broker says where its replicas are.
    pub fn assign_dirs(
        &mut self,
        image: &Image,
        rules: &Rules<'_>,
        (broker, epoch): (BrokerId, i64),
        assignments: &[Assignment],
    ) -> Decision<Result<Vec<Result<(), AssignDirError>>, AssignDirsError>> {
        match assign_dirs(image, rules.topics, broker, epoch, assignments) {
            Ok(assigned) => Decision {
                records: assigned.records,
                answer: Ok(assigned.answers),
            },
            Err(error) => Decision::just(Err(error)),
        }
    }

    /// A broker is gone for good.
    pub fn unregister(
        &mut self,
        image: &Image,
        rules: &Rules<'_>,
        broker: BrokerId,
    ) -> Decision<Result<(), UnregisterError>> {
        match unregister(image, rules.topics, broker) {
            Ok(records) => {
                self.pending = Some(Move::Unregistered(broker));
                Decision {
                    records,
                    answer: Ok(()),
                }
            }
            Err(error) => Decision::just(Err(error)),
        }
    }

    /// A controller registers.
    pub fn register_controller(
        &mut self,
        image: &Image,
        controller: &RegisteringController,
    ) -> Decision<Result<(), UnfitController>> {
        let mut known = image.controllers();
        let is_known = known
            .any(|known| known.id == controller.id && known.incarnation == controller.incarnation);
        match register_controller(image, controller) {
            Ok(_) if is_known => Decision::just(Ok(())),
            Ok(record) => Decision {
                records: vec![record],
                answer: Ok(()),
            },
            Err(error) => Decision::just(Err(error)),
        }
    }

    /// A controller is gone for good.
    pub fn unregister_controller(
        &mut self,
        image: &Image,
        rules: &Rules<'_>,
        controller: BrokerId,
    ) -> Decision<Result<(), UnregisterControllerError>> {
        match unregister_controller(image, rules.controllers.local, controller) {
            Ok(record) => Decision {
                records: vec![record],
                answer: Ok(()),
            },
            Err(error) => Decision::just(Err(error)),
        }
    }

    /// A broker takes a block of producer ids: the first, and how many.
    pub fn allocate_producer_ids(
        &mut self,
        image: &Image,
        broker: BrokerId,
        epoch: i64,
    ) -> Decision<Result<(i64, i32), AllocateError>> {
        match allocate_for(image, broker, epoch) {
            Ok((record, block)) => {
                let count = i32::try_from(block.end - block.start).unwrap_or(i32::MAX);
                Decision {
                    records: vec![record],
                    answer: Ok((block.start, count)),
                }
            }
            Err(error) => Decision::just(Err(error)),
        }
    }

    /// When [`Controller::tick`] has something to look at, unless something comes before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let silence = self.sessions.next_deadline();
        let silence = silence.map(|at| self.pause.map_or(at, |pause| pause.max(at)));
        let others = [
            self.balance_at,
            self.unclean_at,
            self.raise_elr_at,
            self.idle_at,
        ];
        let others = others.into_iter().flatten();
        silence.into_iter().chain(others).min()
    }

    /// The next decision that time asks for, one of those that are due; `None` where nothing is.
    pub fn tick(
        &mut self,
        image: &Image,
        rules: &Rules<'_>,
        now: Instant,
    ) -> Option<Decision<Purpose>> {
        self.fence_over(image, rules, now)
            .or_else(|| self.balance(image, rules, now))
            .or_else(|| self.elect_unclean(image, rules, now))
            .or_else(|| self.raise_elr(image, rules, now))
            .or_else(|| self.write_idle(rules, now))
    }

    /// Fences a broker whose session has ended.
    fn fence_over(
        &mut self,
        image: &Image,
        rules: &Rules<'_>,
        now: Instant,
    ) -> Option<Decision<Purpose>> {
        if self.pause.is_some_and(|pause| now < pause) {
            return None;
        }
        let over = self.sessions.over(now)?;
        if !rules.can_write {
            self.pause = Some(now.plus(RETRY));
            return None;
        }
        self.pending = Some(Move::Fenced(over.broker));
        Some(Decision {
            records: fence(image, rules.topics, over.broker),
            answer: Purpose::Fence(over),
        })
    }

    /// Has preferred leaders come back that are in sync. The rest is looked at in the next turn.
    fn balance(
        &mut self,
        image: &Image,
        rules: &Rules<'_>,
        now: Instant,
    ) -> Option<Decision<Purpose>> {
        self.balance_at.filter(|at| *at <= now)?;
        self.balance_at = rules.balance_every.map(|every| now.plus(every));
        if !rules.can_write {
            return None;
        }
        let (records, has_more) = balance_leaders(image, rules.topics, ELECTIONS_MAX);
        self.pending = has_more.then_some(Move::MoreToBalance(now));
        let answer = Purpose::Balance;
        (!records.is_empty()).then_some(Decision { records, answer })
    }

    /// Gives partitions a leader that have none and whose topic has `unclean.leader.election.enable`. The rest is looked at in the
    /// next turn.
    fn elect_unclean(
        &mut self,
        image: &Image,
        rules: &Rules<'_>,
        now: Instant,
    ) -> Option<Decision<Purpose>> {
        self.unclean_at.filter(|at| *at <= now)?;
        if !rules.can_write {
            self.unclean_at = Some(now.plus(RETRY));
            return None;
        }
        self.unclean_at = Some(now.plus(rules.unclean_every));
        let (records, has_more) = elect_unclean(image, rules.topics, ELECTIONS_MAX);
        self.pending = has_more.then_some(Move::MoreUnclean(now));
        let answer = Purpose::Unclean;
        (!records.is_empty()).then_some(Decision { records, answer })
    }

    /// A cluster that began alone has three voters now: it gets eligible leaders (KIP-966), as one has that begins with three. The setting
    /// that has to hold for the whole cluster then is written in front, as Kafka does.
    fn raise_elr(
        &mut self,
        image: &Image,
        rules: &Rules<'_>,
        now: Instant,
    ) -> Option<Decision<Purpose>> {
        self.raise_elr_at.filter(|at| *at <= now)?;
        let is_several = VOTERS_OF_SEVERAL <= rules.controllers.voters.len();
        if image.feature(ELR_VERSION) != 0 || !is_several {
            self.raise_elr_at = None;
            return None;
        }
        self.raise_elr_at = Some(now.plus(RAISE_RETRY));
        let records = raise_elr(image, rules.controllers, rules.min_isr);
        let records = records.filter(|_| rules.can_write)?;
        self.pending = Some(Move::ElrRaised);
        let answer = Purpose::RaiseElr;
        Some(Decision { records, answer })
    }

    /// Writes that there is nothing to write, when that has been so for long enough.
    fn write_idle(&mut self, rules: &Rules<'_>, now: Instant) -> Option<Decision<Purpose>> {
        self.idle_at.filter(|at| *at <= now)?;
        self.idle_at = rules.idle_every.map(|every| now.plus(every));
        rules.can_write.then(|| Decision {
            records: vec![NoOpRecord::default().into()],
            answer: Purpose::Idle,
        })
    }
}

#[cfg(test)]
mod tests;
