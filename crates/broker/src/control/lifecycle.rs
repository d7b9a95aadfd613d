//! The life of this broker in its cluster (KIP-631): it registers, is heard of by heartbeats, and goes when its leaderships are gone.
//!
//! A machine without clock or connections: it says what to ask the active controller next, and takes the answer. One request is under
//! way at a time. A broker serves clients once the controller has counted it in for the first time, and its own metadata say so.

use std::time::Duration;

use model::Instant;
use wire::ErrorCode;

/// Until the controller counts it in a broker asks this often: its heartbeats say how much of the metadata it has.
const FENCED_INTERVAL: Duration = Duration::from_millis(50);
/// A controller that cannot answer now is asked again after this pause.
const RETRY: Duration = Duration::from_millis(100);
/// A broker that stops waits so long for its leaderships to be moved.
pub(crate) const LEAVE_MAX: Duration = Duration::from_secs(5);
/// A broker that stops answers for so long that others lead. Its clients find the new leaders and coordinators while it is there: a
/// connection that closes says nothing, and librdkafka 2.16 may wait for ever for a coordinator that has left the metadata. Kafka's brokers
/// stay for up to a heartbeat (2 s).
const FAREWELL: Duration = Duration::from_secs(1);

/// The next request to the active controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Register,
    Heartbeat { epoch: i64, leaves: bool },
}

/// The outcome of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) is_fenced: bool,
    pub(crate) may_stop: bool,
}

/// Brokers that shut down, as the metadata say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    Nobody,
    /// One waits for the others.
    IsWaited,
}

/// What the metadata that are here say of the brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) somebody: Leaving,
    /// They list this broker among those that live.
    pub(crate) counts_in: bool,
}

/// A consequence that is not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Clients may come.
    Serve,
    /// The controller lets the broker stop.
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unregistered,
    Registered {
        epoch: i64,
        is_fenced: bool,
    },
    /// It has left, or gave up waiting.
    Gone,
}

/// The timing of a broker's life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Between two heartbeats.
    pub(crate) interval: Duration,
    /// A broker that is silent for so long is fenced.
    pub(crate) session: Duration,
}

impl Pace {
    /// A broker that was heard of acts as a leader for so long: a tenth of its session less than others wait for it.
    fn leads(self) -> Duration {
        leads_for(self.session)
    }
}

/// How long a broker with this session acts as a leader after it was heard of.
pub(crate) fn leads_for(session: Duration) -> Duration {
    session / 10 * 9
}

pub(crate) struct Lifecycle {
    pace: Pace,
    stage: Stage,
    /// When the next request is due; `None` while one is under way.
    due: Option<Instant>,
    /// When the one that is under way was sent.
    asked_at: Instant,
    /// Until when it may act as a leader.
    leads_until: Option<Instant>,
    /// Set once the broker is asked to stop: when it goes whatever the controller says.
    leaves_until: Option<Instant>,
    /// Set once it has asked for others to lead: no further heartbeat has the controller count it out before.
    farewell_until: Option<Instant>,
    /// The metadata that are here count it in. The controller says so a moment before: clients that came in between would hear of a cluster
    /// without brokers.
    is_known_here: bool,
    has_served: bool,
}

impl Lifecycle {
    pub(crate) fn new(pace: Pace, now: Instant) -> Lifecycle {
        Lifecycle {
            pace,
            stage: Stage::Unregistered,
            due: Some(now),
            asked_at: now,
            leads_until: None,
            leaves_until: None,
            farewell_until: None,
            is_known_here: false,
            has_served: false,
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Gone => None,
            _ => [self.due, self.leaves_until].into_iter().flatten().min(),
        }
    }

    /// Until when the broker may act as a leader; `None` where the controller counts it out. A controller that hears nothing more of it
    /// has others lead a tenth of the session later at the earliest.
    pub(crate) fn leads_until(&self) -> Option<Instant> {
        self.leads_until
    }

    /// More of the metadata is here. A broker that waits to be counted in says so at once, and so does each while `somebody` shuts down: one
    /// that goes waits until all others know whom it left its partitions to.
    pub(crate) fn on_metadata(&mut self, news: News, now: Instant) -> Option<Turn> {
        self.is_known_here = news.counts_in;
        let is_waiting = matches!(
            self.stage,
            Stage::Registered {
                is_fenced: true,
                ..
            }
        );
        if (is_waiting || news.somebody == Leaving::IsWaited) && self.stage != Stage::Unregistered {
            self.bring_forward(now);
        }
        self.serve()
    }

    /// Lets clients in, once, while both the controller and the metadata that are here count the broker in.
    fn serve(&mut self) -> Option<Turn> {
        let is_counted_in = matches!(
            self.stage,
            Stage::Registered {
                is_fenced: false,
                ..
            }
        );
        let begins = is_counted_in && self.is_known_here && !self.has_served;
        self.has_served |= begins;
        begins.then_some(Turn::Serve)
    }

    fn bring_forward(&mut self, now: Instant) {
        let soon = self.beyond_farewell(now);
        if let Some(due) = &mut self.due {
            *due = (*due).min(soon);
        }
    }

    fn beyond_farewell(&self, at: Instant) -> Instant {
        self.farewell_until.map_or(at, |until| at.max(until))
    }

    /// There is something to say that others wait for.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if matches!(self.stage, Stage::Registered { .. }) {
            self.bring_forward(now);
        }
    }

    /// The broker is asked to stop. Returns true if it may go at once: it leads nothing that others could know of.
    pub(crate) fn leave(&mut self, now: Instant) -> bool {
        if self.leaves_until.is_none() {
            self.leaves_until = Some(now.plus(LEAVE_MAX));
            if let Some(due) = &mut self.due {
                *due = now;
            }
        }
        let is_gone = !matches!(self.stage, Stage::Registered { .. });
        if is_gone {
            self.stage = Stage::Gone;
        }
        is_gone
    }

    /// The request that is due. Its answer, or its failure, has to be reported.
    pub(crate) fn take_ask(&mut self, now: Instant) -> Option<Ask> {
        self.due.take_if(|due| *due <= now)?;
        self.asked_at = now;
        if self.leaves_until.is_some() {
            self.farewell_until.get_or_insert(now.plus(FAREWELL));
        }
        match self.stage {
            Stage::Unregistered => Some(Ask::Register),
            Stage::Registered { epoch, .. } => Some(Ask::Heartbeat {
                epoch,
                leaves: self.leaves_until.is_some(),
            }),
            Stage::Gone => None,
        }
    }

    /// A broker that leaves does not wait for ever.
    pub(crate) fn on_tick(&mut self, now: Instant) -> Option<Turn> {
        let is_late = self.leaves_until.is_some_and(|until| until <= now);
        (is_late && self.stage != Stage::Gone).then(|| {
            self.stage = Stage::Gone;
            Turn::Stop
        })
    }

    /// A broker that was alone serves under the registration that it wrote itself, and is heard of from now on.
    pub(crate) fn adopt(&mut self, epoch: i64, now: Instant) {
        self.stage = Stage::Registered {
            epoch,
            is_fenced: false,
        };
        self.has_served = true;
        self.leads_until = Some(now.plus(self.pace.leads()));
        self.due = Some(now);
    }

    pub(crate) fn on_registered(&mut self, result: Result<i64, ErrorCode>, now: Instant) {
        match result {
            Ok(epoch) => {
                self.stage = Stage::Registered {
                    epoch,
                    is_fenced: true,
                };
                self.due = Some(now);
            }
            Err(_) => self.due = Some(now.plus(RETRY)),
        }
    }

    pub(crate) fn on_heard(
        &mut self,
        result: Result<Heard, ErrorCode>,
        now: Instant,
    ) -> Option<Turn> {
        let Stage::Registered { epoch, .. } = self.stage else {
            return None;
        };
        match result {
            Ok(heard) => {
                self.stage = Stage::Registered {
                    epoch,
                    is_fenced: heard.is_fenced,
                };
                // The session began when the heartbeat arrived: at the earliest when it was sent.
                let until = self.asked_at.plus(self.pace.leads());
                self.leads_until = (!heard.is_fenced).then_some(until);
                if heard.may_stop && self.leaves_until.is_some() {
                    self.stage = Stage::Gone;
                    return Some(Turn::Stop);
                }
                let is_waiting = heard.is_fenced || self.leaves_until.is_some();
                let pause = if is_waiting {
                    FENCED_INTERVAL
                } else {
                    self.pace.interval
                };
                self.due = Some(self.beyond_farewell(now.plus(pause)));
                self.serve()
            }
            // Another controller may not know the registration, or knows a later one.
            Err(ErrorCode::StaleBrokerEpoch | ErrorCode::BrokerIdNotRegistered) => {
                self.stage = Stage::Unregistered;
                self.leads_until = None;
                self.due = Some(now);
                None
            }
            Err(_) => {
                self.due = Some(now.plus(RETRY));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        interval: Duration::from_secs(2),
        session: Duration::from_secs(9),
    };

    fn at(ms: u64) -> Instant {
        Instant(0).plus(Duration::from_millis(ms))
    }

    fn heard(is_fenced: bool, may_stop: bool) -> Result<Heard, ErrorCode> {
        Ok(Heard {
            is_fenced,
            may_stop,
        })
    }

    fn news(somebody: Leaving, counts_in: bool) -> News {
        News {
            somebody,
            counts_in,
        }
    }

    fn registered() -> Lifecycle {
        let mut life = Lifecycle::new(PACE, at(0));
        assert_eq!(life.take_ask(at(0)), Some(Ask::Register));
        assert_eq!(life.take_ask(at(9_000)), None, "one request at a time");
        life.on_registered(Ok(7), at(0));
        life
    }

    const BEAT: Ask = Ask::Heartbeat {
        epoch: 7,
        leaves: false,
    };

    #[test]
    fn a_broker_registers_waits_until_it_counts_and_serves_once() {
        let mut life = registered();
        assert_eq!(life.take_ask(at(0)), Some(BEAT));
        assert_eq!(life.on_heard(heard(true, false), at(0)), None);
        assert_eq!(life.take_ask(at(10)), None);
        assert_eq!(life.on_metadata(news(Leaving::Nobody, false), at(10)), None);
        assert_eq!(life.take_ask(at(10)), Some(BEAT));
        assert_eq!(
            life.on_heard(heard(false, false), at(10)),
            None,
            "its own metadata do not know of it"
        );
        assert_eq!(
            life.on_metadata(news(Leaving::Nobody, true), at(20)),
            Some(Turn::Serve)
        );
        assert_eq!(life.on_metadata(news(Leaving::Nobody, true), at(20)), None);
        assert_eq!(life.take_ask(at(2_009)), None);
        assert_eq!(life.take_ask(at(2_010)), Some(BEAT));
        assert_eq!(life.on_heard(heard(false, false), at(2_010)), None);
        life.on_metadata(news(Leaving::IsWaited, true), at(2_020));
        assert_eq!(life.take_ask(at(2_020)), Some(BEAT), "another goes");
        life.hurry(at(2_025));
        assert_eq!(life.take_ask(at(2_025)), None, "one request at a time");
        assert_eq!(life.on_heard(heard(false, false), at(2_030)), None);
        life.hurry(at(2_040));
        assert_eq!(life.take_ask(at(2_040)), Some(BEAT));
    }

    #[test]
    fn metadata_of_an_earlier_life_let_nobody_in() {
        let mut life = registered();
        assert_eq!(life.take_ask(at(0)), Some(BEAT));
        assert_eq!(life.on_heard(heard(false, false), at(5)), None);
        assert_eq!(life.take_ask(at(2_005)), Some(BEAT));
        life.on_heard(Err(ErrorCode::StaleBrokerEpoch), at(2_010));
        let counted_in = news(Leaving::Nobody, true);
        assert_eq!(life.on_metadata(counted_in, at(2_010)), None);
    }

    #[test]
    fn a_controller_that_does_not_know_the_broker_is_told_of_it_again() {
        for error in [
            ErrorCode::StaleBrokerEpoch,
            ErrorCode::BrokerIdNotRegistered,
        ] {
            let mut life = registered();
            assert_eq!(life.take_ask(at(0)), Some(BEAT));
            assert_eq!(life.on_heard(Err(error), at(5)), None);
            assert_eq!(life.take_ask(at(5)), Some(Ask::Register));
            life.on_registered(Err(ErrorCode::NotController), at(5));
            assert_eq!(life.take_ask(at(104)), None);
            assert_eq!(life.take_ask(at(105)), Some(Ask::Register));
        }
    }

    #[test]
    fn a_broker_leads_no_longer_than_its_last_heartbeat_that_was_answered_allows() {
        let mut life = registered();
        assert_eq!(life.leads_until(), None);
        assert_eq!(life.take_ask(at(0)), Some(BEAT));
        assert_eq!(life.on_heard(heard(true, false), at(5)), None);
        assert_eq!(life.leads_until(), None, "it is fenced");
        assert_eq!(life.take_ask(at(55)), Some(BEAT));
        life.on_heard(heard(false, false), at(1_000));
        assert_eq!(life.leads_until(), Some(at(8_155)), "as of when it asked");
        assert_eq!(life.take_ask(at(3_000)), Some(BEAT));
        life.on_heard(Err(ErrorCode::NetworkException), at(3_010));
        assert_eq!(life.leads_until(), Some(at(8_155)));
        assert_eq!(life.take_ask(at(3_110)), Some(BEAT));
        life.on_heard(
            Ok(Heard {
                is_fenced: false,
                may_stop: false,
            }),
            at(3_120),
        );
        assert_eq!(life.leads_until(), Some(at(11_210)));
        assert_eq!(life.take_ask(at(5_120)), Some(BEAT));
        life.on_heard(Err(ErrorCode::StaleBrokerEpoch), at(5_130));
        assert_eq!(
            life.leads_until(),
            None,
            "another life began, or this one ended"
        );
    }

    #[test]
    fn a_broker_that_was_alone_serves_on_and_is_heard_of_at_once() {
        let mut life = Lifecycle::new(PACE, at(0));
        life.adopt(7, at(1_000));
        assert_eq!(life.leads_until(), Some(at(9_100)));
        assert_eq!(life.take_ask(at(1_000)), Some(BEAT));
        assert_eq!(
            life.on_heard(heard(false, false), at(1_010)),
            None,
            "it serves already"
        );
        assert_eq!(life.take_ask(at(3_010)), Some(BEAT));
    }

    #[test]
    fn a_broker_that_stops_waits_for_its_leaderships_but_not_for_ever() {
        let leaving = Some(Ask::Heartbeat {
            epoch: 7,
            leaves: true,
        });
        let mut life = registered();
        life.on_metadata(news(Leaving::Nobody, true), at(0));
        assert!(!life.leave(at(100)));
        assert_eq!(life.take_ask(at(100)), leaving);
        assert_eq!(
            life.on_heard(heard(false, false), at(110)),
            Some(Turn::Serve)
        );
        assert_eq!(
            life.take_ask(at(1_099)),
            None,
            "its clients look for others"
        );
        assert_eq!(life.take_ask(at(1_100)), leaving);
        assert_eq!(
            life.on_heard(heard(true, true), at(1_110)),
            Some(Turn::Stop)
        );
        assert_eq!(life.next_deadline(), None);

        let mut stuck = registered();
        assert!(!stuck.leave(at(100)));
        assert_eq!(stuck.take_ask(at(100)), leaving);
        assert_eq!(stuck.next_deadline(), Some(at(5_100)));
        assert_eq!(stuck.on_tick(at(5_099)), None);
        assert_eq!(stuck.on_tick(at(5_100)), Some(Turn::Stop));

        let mut unknown = Lifecycle::new(PACE, at(0));
        assert!(unknown.leave(at(1)), "nobody knows of it");
    }
}
