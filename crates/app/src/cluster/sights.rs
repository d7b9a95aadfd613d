//! The nodes of a cluster asked one by one: which has a controller, so that its metadata are the newest, and what those say that have none.
//!
//! A broker that is cut off serves the metadata of the moment before. Without this its word would count like any other.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use client::{Client, Error, Options, QuorumInfo, QuorumSight};
use env::Env;

use super::asking::Asking;

/// A new leader is elected in less.
const QUORUM_WAIT: Duration = Duration::from_secs(6);
/// A question is asked again after this time. A node that passed it on to a controller which is gone answers the old one too late, or never.
const ASKED_FOR: Duration = Duration::from_millis(1_500);
/// Between an answer that names no leader and the next question.
const PAUSE: Duration = Duration::from_millis(200);
/// A broker that has a controller says so in this time once another node knows the quorum.
const SOURCE_WAIT: Duration = Duration::from_secs(2);
/// Once the quorum is known, other nodes have this long to say what they see.
const OTHERS_WAIT: Duration = Duration::from_millis(500);
/// A voter that is away gives no answer.
const VOTER_WAIT: Duration = Duration::from_secs(2);

type Sight = Result<QuorumSight, Error>;

/// The quorum as nodes see it.
pub(super) struct Sights {
    /// Or why nobody knows it.
    pub(super) quorum: Result<QuorumInfo, Error>,
    /// Address of a broker that has a controller, the active controller where that is one.
    pub(super) source: Option<String>,
    /// Words of the brokers that have none.
    pub(super) cut_off: BTreeMap<i32, String>,
}

/// Asks the bootstrap addresses and all brokers, whose numbers are known by their addresses. Asks again while a leader is elected.
pub(super) fn sights(asking: &Asking, numbers: &BTreeMap<String, i32>) -> Sights {
    let env = Env::real();
    let mut addresses = asking.addresses();
    addresses.extend(numbers.keys().cloned());
    let (sender, answers) = channel();
    for address in &addresses {
        ask_again(asking, address, sender.clone());
    }
    drop(sender);
    let mut found = Found::default();
    // The questions that follow need time, too.
    let mut until = env.clock.now().plus(QUORUM_WAIT.min(asking.left(&env) / 2));
    while let Ok((address, sight)) = answers.recv_timeout(until.since(env.clock.now())) {
        let number = numbers.get(&address).copied();
        found.take(&address, number, sight);
        if found.source.is_some() {
            until = until.min(env.clock.now().plus(OTHERS_WAIT));
        } else if found.quorum.is_some() {
            until = until.min(env.clock.now().plus(SOURCE_WAIT));
        }
    }
    found.sights(asking)
}

/// Asks a node until it knows the quorum, or nobody waits for its answers any more.
#[allow(clippy::disallowed_methods)] // a thread of a command may wait
fn ask_again(asking: &Asking, address: &str, sender: Sender<(String, Sight)>) {
    let (asking, address) = (asking.clone(), address.to_owned());
    asking.clone().spawn(move |env, options| {
        loop {
            let time = ASKED_FOR.min(asking.left(env));
            let options = Options {
                timeout: time,
                io_timeout: time.max(Duration::from_millis(1)),
                ..options.clone()
            };
            let sight = Client::quorum_at(env, &address, options);
            let is_known = sight.as_ref().is_ok_and(|sight| sight.quorum.is_ok());
            let is_heard = sender.send((address.clone(), sight)).is_ok();
            if is_known || !is_heard || asking.left(env) <= PAUSE {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    });
}

#[derive(Default)]
struct Found {
    quorum: Option<QuorumInfo>,
    source: Option<String>,
    cut_off: BTreeMap<i32, String>,
    /// That a broker has no controller says more than that another is not there.
    why: Option<Error>,
}

impl Found {
    fn take(&mut self, address: &str, number: Option<i32>, sight: Sight) {
        let QuorumSight { quorum, cut_off } = match sight {
            Ok(sight) => sight,
            Err(error) => {
                self.why.get_or_insert(error);
                return;
            }
        };
        let has_controller = cut_off.is_none();
        match (number, cut_off) {
            (Some(number), Some(words)) => drop(self.cut_off.insert(number, words)),
            (Some(number), None) => drop(self.cut_off.remove(&number)),
            (None, _) => {}
        }
        match quorum {
            Ok(quorum) => {
                let leads = number == Some(quorum.leader);
                if has_controller && (leads || self.source.is_none()) {
                    self.source = Some(address.to_owned());
                }
                let known = self.quorum.as_ref().map_or(-1, |known| known.epoch);
                if known <= quorum.epoch {
                    self.quorum = Some(quorum);
                }
            }
            Err(error @ Error::NoController { .. }) => self.why = Some(error),
            Err(error) => {
                self.why.get_or_insert(error);
            }
        }
    }

    fn sights(self, asking: &Asking) -> Sights {
        let late = || Error::TimedOut {
            what: "describing the quorum".to_owned(),
            after: QUORUM_WAIT.min(asking.timeout),
            last: None,
        };
        let why = self.why;
        Sights {
            quorum: self.quorum.ok_or_else(|| why.unwrap_or_else(late)),
            source: self.source,
            cut_off: self.cut_off,
        }
    }
}

/// A voter that answers at its address.
#[derive(Clone, Debug, Default)]
pub(super) struct Voter {
    /// Its words, where it is a broker without a part in its cluster.
    pub(super) cut_off: Option<String>,
    /// Of its cluster.
    pub(super) cluster_id: Option<String>,
}

/// Asks voters themselves. Those that give no answer are left out.
pub(super) fn voters(asking: &Asking, asked: &[(i32, String)]) -> BTreeMap<i32, Voter> {
    let asking = asking.for_at_most(VOTER_WAIT);
    let pending: Vec<_> = (asked.iter())
        .map(|(number, address)| {
            let at = address.clone();
            let sight = asking
                .at(address)
                .ask_alone(move |env, options| Client::quorum_at(env, &at, options));
            let at = address.clone();
            let identity =
                asking.ask_alone(move |env, options| Client::identity_at(env, &at, options));
            (*number, sight, identity)
        })
        .collect();
    let mut voters = BTreeMap::new();
    for (number, sight, identity) in pending {
        let Ok(sight) = sight.get("") else { continue };
        let voter = Voter {
            cut_off: sight.cut_off,
            cluster_id: identity.get("").ok().and_then(|it| it.cluster_id),
        };
        voters.insert(number, voter);
    }
    voters
}
