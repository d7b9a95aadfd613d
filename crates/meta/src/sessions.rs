//! Sessions of brokers with the active controller: who was heard of lately, and what each may become next.
//!
//! A machine without clock or log: it is told of heartbeats, registrations and the time, and says which broker is to be fenced and
//! what a heartbeat leads to. Soft state: it begins anew with each controller, who gives every broker that is not fenced a whole
//! session. Records and answers are made by [`decide::heartbeat`](crate::decide::heartbeat).

use std::collections::BTreeMap;
use std::time::Duration;

use model::{BrokerId, Instant, Offset};

use crate::image::Image;

/// The report that a broker gives of itself every now and then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    pub broker: BrokerId,
    pub epoch: i64,
    /// The last metadata record that it has applied.
    pub metadata_offset: i64,
    pub wants_fence: bool,
    pub wants_shut_down: bool,
    pub failed_log_dirs: Vec<wire::Uuid>,
    /// They work, and are full or slow.
    pub troubled_log_dirs: Vec<wire::Uuid>,
    /// `None`: the broker does not say.
    pub cordoned_log_dirs: Option<Vec<wire::Uuid>>,
}

/// The states of a broker as the controller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Fenced,
    Unfenced,
    /// Its leaderships are being moved.
    ShuttingDown,
    /// It may go.
    Down,
}

/// From which state to which a heartbeat leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub from: State,
    pub to: State,
    /// True if the broker has applied its own registration, and its fencing if it was fenced since.
    pub is_caught_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatError {
    #[error("No broker registration found for broker id {0}")]
    NotRegistered(BrokerId),
    #[error("Expected broker epoch {known}, but got broker epoch {got}")]
    Stale { known: i64, got: i64 },
}

/// A broker whose session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    pub broker: BrokerId,
    /// Its process is gone; else it was silent for too long.
    pub is_dead: bool,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    epoch: i64,
    /// The broker counts once it has applied so much: its registration, or that it was fenced, and who leads in its place.
    counts_from: Offset,
    /// `None`: it was never heard of, or its session has ended.
    heard: Option<Instant>,
    is_fenced: bool,
    metadata_offset: i64,
    /// When it is set, the others have to apply so much before the broker may go.
    shut_down_at: Option<Offset>,
}

impl Session {
    fn state(&self) -> State {
        if self.shut_down_at.is_some() {
            State::ShuttingDown
        } else if self.is_fenced {
            State::Fenced
        } else {
            State::Unfenced
        }
    }
}

#[derive(Clone, Debug)]
pub struct Sessions {
    timeout: Duration,
    brokers: BTreeMap<BrokerId, Session>,
}

impl Sessions {
    /// The controller has just become the active one. Brokers that are not fenced have a whole session to be heard of.
    #[must_use]
    pub fn new(image: &Image, timeout: Duration, now: Instant) -> Sessions {
        let last = Offset(image.end().saturating_sub(1));
        let session = |broker: &crate::Registration| Session {
            epoch: broker.epoch,
            counts_from: if broker.is_fenced {
                last
            } else {
                Offset(broker.epoch)
            },
            heard: (!broker.is_fenced).then_some(now),
            is_fenced: broker.is_fenced,
            metadata_offset: -1,
            shut_down_at: None,
        };
        let brokers = image.brokers().map(|broker| (broker.id, session(broker)));
        Sessions {
            timeout,
            brokers: brokers.collect(),
        }
    }

    /// True if the registration with that epoch was heard of within its session.
    #[must_use]
    pub fn has_session(&self, broker: BrokerId, epoch: i64, now: Instant) -> bool {
        let session = self.brokers.get(&broker);
        session.is_some_and(|session| session.epoch == epoch && self.is_live(session, now))
    }

    fn is_live(&self, session: &Session, now: Instant) -> bool {
        let heard = session.heard;
        heard.is_some_and(|heard| now < heard.plus(self.timeout))
    }

    /// A registration was decided; its record will be at `at`.
    pub fn on_registered(&mut self, broker: BrokerId, epoch: i64, is_fenced: bool, at: Offset) {
        let known = self.brokers.get(&broker);
        let known = known.filter(|session| session.epoch == epoch);
        let session = Session {
            epoch,
            counts_from: at,
            heard: known.and_then(|session| session.heard),
            is_fenced,
            metadata_offset: -1,
            shut_down_at: known.and_then(|session| session.shut_down_at),
        };
        self.brokers.insert(broker, session);
    }

    pub fn on_unregistered(&mut self, broker: BrokerId) {
        self.brokers.remove(&broker);
    }

    /// The broker was heard of, whatever becomes of its request: one that waits in a queue must not cost a session.
    pub fn on_heard(&mut self, broker: BrokerId, epoch: i64, now: Instant) {
        let session = self.brokers.get_mut(&broker);
        if let Some(session) = session.filter(|session| session.epoch == epoch) {
            session.heard = Some(now);
        }
    }

    /// The broker is heard of; returns the step that its heartbeat leads to, which is made by [`Sessions::on_step`] once its records are
    /// taken. `leads`: the broker leads a partition.
    pub fn on_heartbeat(
        &mut self,
        heartbeat: &Heartbeat,
        leads: impl FnOnce() -> bool,
        now: Instant,
    ) -> Result<Step, HeartbeatError> {
        self.check(heartbeat.broker, heartbeat.epoch)?;
        let lowest = self.lowest_active_offset();
        let Some(session) = self.brokers.get_mut(&heartbeat.broker) else {
            return Err(HeartbeatError::NotRegistered(heartbeat.broker));
        };
        session.heard = Some(now);
        session.metadata_offset = heartbeat.metadata_offset;
        let from = session.state();
        let is_caught_up = session.counts_from.0 <= heartbeat.metadata_offset;
        let to = match from {
            State::Fenced if heartbeat.wants_shut_down => State::Down,
            State::Fenced if !heartbeat.wants_fence && is_caught_up => State::Unfenced,
            State::Fenced => State::Fenced,
            State::Unfenced => match (heartbeat.wants_fence, heartbeat.wants_shut_down) {
                (true, true) => State::Down,
                (true, false) => State::Fenced,
                (false, true) if leads() => State::ShuttingDown,
                (false, true) => State::Down,
                (false, false) => State::Unfenced,
            },
            State::ShuttingDown | State::Down => {
                // Others may still take it for a leader until they have applied that it is none.
                let others_know = session.shut_down_at.is_none_or(|at| at.0 <= lowest);
                if leads() || !others_know {
                    State::ShuttingDown
                } else {
                    State::Down
                }
            }
        };
        Ok(Step {
            from,
            to,
            is_caught_up,
        })
    }

    /// The records of a step to `to` are written, up to `last`.
    pub fn on_step(&mut self, broker: BrokerId, to: State, last: Offset) {
        let Some(session) = self.brokers.get_mut(&broker) else {
            return;
        };
        session.is_fenced = matches!(to, State::Fenced | State::Down);
        if session.is_fenced {
            session.shut_down_at = None;
        } else if to == State::ShuttingDown {
            session.shut_down_at.get_or_insert(last);
        }
    }

    /// The last of the records that fence a silent broker is at `last`: one that has not applied them would still act as a leader.
    pub fn on_fenced(&mut self, broker: BrokerId, last: Offset) {
        if let Some(session) = self.brokers.get_mut(&broker) {
            session.counts_from = session.counts_from.max(last);
            session.is_fenced = true;
            session.heard = None;
            session.shut_down_at = None;
        }
    }

    /// The process of a broker is known to be dead: its session ends now, unless it was heard of after `since`. True if it does.
    pub fn on_dead(&mut self, broker: BrokerId, epoch: i64, since: Instant) -> bool {
        let session = self.brokers.get_mut(&broker);
        let session = session.filter(|session| {
            let lives = session.heard.is_some_and(|heard| since < heard);
            session.epoch == epoch && !session.is_fenced && !lives
        });
        let is_over = session.is_some();
        if let Some(session) = session {
            session.heard = None;
        }
        is_over
    }

    /// A broker that is to be fenced because its session has ended, until [`Sessions::on_fenced`] says that it is.
    #[must_use]
    pub fn over(&self, now: Instant) -> Option<Over> {
        let mut sessions = self.brokers.iter();
        let over = sessions.find(|(_, session)| !session.is_fenced && !self.is_live(session, now));
        over.map(|(broker, session)| Over {
            broker: *broker,
            is_dead: session.heard.is_none(),
        })
    }

    /// When the next session ends if nobody is heard of.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let sessions = self.brokers.values().filter(|session| !session.is_fenced);
        sessions
            .map(|session| {
                let heard = session.heard;
                heard.map_or(Instant(0), |heard| heard.plus(self.timeout))
            })
            .min()
    }

    fn check(&self, broker: BrokerId, epoch: i64) -> Result<(), HeartbeatError> {
        let session = self.brokers.get(&broker);
        let known = session.ok_or(HeartbeatError::NotRegistered(broker))?.epoch;
        if known == epoch {
            Ok(())
        } else {
            Err(HeartbeatError::Stale { known, got: epoch })
        }
    }

    /// The offset that all brokers have applied that are neither fenced nor shutting down.
    fn lowest_active_offset(&self) -> i64 {
        let active = self.brokers.values();
        let active = active.filter(|one| !one.is_fenced && one.shut_down_at.is_none());
        active
            .map(|one| one.metadata_offset)
            .min()
            .unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests;
