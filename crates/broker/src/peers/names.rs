//! Addresses of host names, looked up beside everything else and remembered.
//!
//! A name server may take a minute or never answer, so no loop waits for one: each look-up has a thread of its own for as long as it takes, which nobody
//! waits for. A name that is known stays usable while it is looked up again, which a connection that ends or cannot be made asks for. Invariant:
//! a name has one look-up at a time, and all of them together [`LOOK_UPS_MAX`]; beyond that a name is looked up when one is over.
//!
//! A node needs no name server to reach itself: a name of its own that is not known yet stands for the address that it listens on. The names that
//! cannot be looked up are in the log, each once until it is known again.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use env::{Env, Net, Turn, Wake, Worker};
use model::Instant;
use parking_lot::Mutex;
use raft::Endpoint;

/// Threads that wait for a name server. More nodes than that are rarely named anew at once; they wait for each other.
const LOOK_UPS_MAX: usize = 16;

/// The state of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    At(SocketAddr),
    /// A look-up is under way, and the waker rings when it is over.
    Waits,
    /// The look-up failed. The next question begins another one.
    Unknown,
}

#[derive(Default)]
struct Name {
    address: Option<SocketAddr>,
    is_looked_up: bool,
    /// The address may be one of before.
    is_doubted: bool,
    has_failed: bool,
    /// Where this node listens, if the name is one of its own.
    own: Option<SocketAddr>,
    /// True if the log says that it cannot be looked up.
    is_missed: bool,
    waiting: Vec<Arc<dyn Wake>>,
}

#[derive(Default)]
struct State {
    names: BTreeMap<String, Name>,
    look_ups: usize,
}

/// The names of all threads of a node.
pub(crate) struct Names {
    env: Env,
    state: Arc<Mutex<State>>,
}

impl Names {
    /// `own` are the endpoints that others have for this node, each with the address that it listens on for it. Those that are names are looked
    /// up at once: a node learns at its start, not when it is first elected, that others may not find it.
    pub(crate) fn new(env: &Env, own: &[(Endpoint, SocketAddr)]) -> Names {
        let names = Names {
            env: env.clone(),
            state: Arc::default(),
        };
        for (endpoint, bound) in own {
            if literal(endpoint).is_none() {
                names.add_own(key(endpoint), of_this_machine(*bound));
            }
        }
        names
    }

    fn add_own(&self, key: String, bound: SocketAddr) {
        let mut state = self.state.lock();
        let name = state.names.entry(key.clone()).or_default();
        let is_new = name.own.replace(bound).is_none();
        name.is_looked_up = true;
        state.look_ups += usize::from(is_new);
        drop(state);
        if is_new {
            self.look_up(key);
        }
    }

    /// The address to dial. Never waits.
    pub(super) fn look(&self, endpoint: &Endpoint, waker: &Arc<dyn Wake>) -> Look {
        if let Some(address) = literal(endpoint) {
            return Look::At(address);
        }
        let key = key(endpoint);
        let mut state = self.state.lock();
        let has_room = state.look_ups < LOOK_UPS_MAX;
        let name = state.names.entry(key.clone()).or_default();
        let wants_look_up = (name.address.is_none() || name.is_doubted) && !name.is_looked_up;
        let answer = match name.address.or(name.own) {
            Some(address) => Look::At(address),
            None if std::mem::take(&mut name.has_failed) => return Look::Unknown,
            None => {
                name.waiting.push(Arc::clone(waker));
                Look::Waits
            }
        };
        if wants_look_up && has_room {
            (name.is_looked_up, name.is_doubted) = (true, false);
            state.look_ups += 1;
            drop(state);
            self.look_up(key);
        }
        answer
    }

    fn look_up(&self, key: String) {
        let look_up = LookUp {
            net: Arc::clone(&self.env.net),
            state: Arc::clone(&self.state),
            key,
            found: None,
        };
        self.env.threads.spawn_aside("names", Box::new(look_up));
    }

    /// A connection to the address has ended, or could not be made: the next one has the name looked up.
    pub(super) fn doubt(&self, endpoint: &Endpoint) {
        if literal(endpoint).is_some() {
            return;
        }
        if let Some(name) = self.state.lock().names.get_mut(&key(endpoint)) {
            name.is_doubted = true;
        }
    }
}

fn key(endpoint: &Endpoint) -> String {
    format!("{}:{}", endpoint.host, endpoint.port)
}

/// The address at which a listener is reached from its own machine.
fn of_this_machine(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// The address that an endpoint is by itself.
fn literal(endpoint: &Endpoint) -> Option<SocketAddr> {
    let host = endpoint.host.trim_start_matches('[').trim_end_matches(']');
    let ip: IpAddr = host.parse().ok()?;
    Some(SocketAddr::new(ip, endpoint.port))
}

/// One look-up, on a thread that ends with it.
struct LookUp {
    net: Arc<dyn Net>,
    state: Arc<Mutex<State>>,
    key: String,
    found: Option<io::Result<SocketAddr>>,
}

impl Worker for LookUp {
    fn turn(&mut self) -> Turn {
        // The answer is given in a turn of its own: the simulator lets time pass between the two.
        let Some(found) = self.found.take() else {
            let found = self.net.resolve(&self.key);
            self.found = Some(found.map(|all| all[0]));
            return Turn::Again;
        };
        let mut state = self.state.lock();
        state.report(&self.key, &found);
        let waiting = state.on_found(&self.key, found.ok());
        drop(state);
        waiting.iter().for_each(|waker| waker.wake());
        Turn::Done
    }

    fn park(&mut self, _: Option<Instant>) {}
}

impl State {
    /// Has the log say that a name cannot be looked up, and that it can be again.
    fn report(&mut self, key: &str, found: &io::Result<SocketAddr>) {
        let Some(name) = self.names.get_mut(key) else {
            return;
        };
        let was_missed = std::mem::replace(&mut name.is_missed, found.is_err());
        let error = match found {
            Ok(address) if was_missed => {
                return tracing::info!(target: env::logs::BROKER, "{key} can be looked up again: {address}");
            }
            Err(error) if !was_missed => error,
            _ => return,
        };
        match (name.address, name.own) {
            (Some(address), _) => tracing::warn!(
                target: env::logs::BROKER,
                "cannot look up {key} ({error}): the node there is dialled at {address}, which the name stood for before",
            ),
            (None, Some(bound)) => tracing::warn!(
                target: env::logs::BROKER,
                "cannot look up {key} ({error}), an address of this node: this node reaches itself at {bound}, but other nodes and clients have \
                 to look the name up where they are. See that it resolves, or set advertised.listeners to one that does",
            ),
            (None, None) => tracing::warn!(
                target: env::logs::BROKER,
                "cannot look up {key} ({error}): nothing reaches the node there until the name resolves on this machine",
            ),
        }
    }

    /// Returns those that wait for the name, and those whose names found no room.
    fn on_found(&mut self, key: &str, found: Option<SocketAddr>) -> Vec<Arc<dyn Wake>> {
        self.look_ups -= 1;
        if let Some(name) = self.names.get_mut(key) {
            name.is_looked_up = false;
            name.has_failed = found.is_none() && name.address.is_none() && name.own.is_none();
            name.address = found.or(name.address);
        }
        let idle = self.names.values_mut().filter(|name| !name.is_looked_up);
        idle.flat_map(|name| std::mem::take(&mut name.waiting))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 9092))
    }

    fn endpoint(host: &str) -> Endpoint {
        Endpoint {
            host: host.to_owned(),
            port: 9092,
        }
    }

    /// Names whose look-ups the test ends, on threads that never run.
    fn names() -> (Names, Arc<dyn Wake>) {
        let machine = env::sim::Machine::new(1, env::sim::Faults::default());
        (Names::new(&machine.env(), &[]), Arc::new(Nobody))
    }

    #[test]
    fn an_address_needs_no_look_up() {
        let (names, waker) = names();
        let known = names.look(&endpoint("10.0.0.7"), &waker);
        assert_eq!(known, Look::At(address(7)));
        let v6 = Look::At("[::1]:9092".parse().expect("an address"));
        for host in ["::1", "[::1]"] {
            assert_eq!(names.look(&endpoint(host), &waker), v6);
        }
        assert!(names.state.lock().names.is_empty());
    }

    #[test]
    fn a_name_is_looked_up_once_for_all_that_wait_and_remembered() {
        let (names, waker) = names();
        for _ in 0..3 {
            assert_eq!(names.look(&endpoint("a"), &waker), Look::Waits);
        }
        assert_eq!(names.state.lock().look_ups, 1);
        let woken = names.state.lock().on_found("a:9092", Some(address(1)));
        assert_eq!(woken.len(), 3);
        assert_eq!(names.look(&endpoint("a"), &waker), Look::At(address(1)));
        assert_eq!(names.state.lock().look_ups, 0);
    }

    #[test]
    fn a_name_that_is_doubted_is_looked_up_again_and_usable_meanwhile() {
        let (names, waker) = names();
        names.look(&endpoint("a"), &waker);
        names.state.lock().on_found("a:9092", Some(address(1)));
        names.doubt(&endpoint("a"));
        assert_eq!(names.look(&endpoint("a"), &waker), Look::At(address(1)));
        assert_eq!(names.state.lock().look_ups, 1);
        // Nothing is forgotten when the name server does not answer.
        names.state.lock().on_found("a:9092", None);
        names.doubt(&endpoint("a"));
        assert_eq!(names.look(&endpoint("a"), &waker), Look::At(address(1)));
        names.state.lock().on_found("a:9092", Some(address(2)));
        assert_eq!(names.look(&endpoint("a"), &waker), Look::At(address(2)));
        assert_eq!(names.state.lock().look_ups, 0);
    }

    #[test]
    fn a_look_up_that_fails_is_said_once_and_then_tried_again() {
        let (names, waker) = names();
        names.look(&endpoint("a"), &waker);
        assert_eq!(names.state.lock().on_found("a:9092", None).len(), 1);
        assert_eq!(names.look(&endpoint("a"), &waker), Look::Unknown);
        assert_eq!(names.look(&endpoint("a"), &waker), Look::Waits);
        assert_eq!(names.state.lock().look_ups, 1);
    }

    #[test]
    fn a_name_of_this_node_needs_no_name_server() {
        let machine = env::sim::Machine::new(1, env::sim::Faults::default());
        let waker: Arc<dyn Wake> = Arc::new(Nobody);
        let bound = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let own = [
            (endpoint("a"), bound("0.0.0.0:7")),
            (endpoint("a"), bound("0.0.0.0:7")),
            (endpoint("b"), bound("[::]:8")),
            (endpoint("c"), bound("10.0.0.3:9")),
            (endpoint("10.0.0.4"), bound("10.0.0.3:9")),
        ];
        let names = Names::new(&machine.env(), &own);
        assert_eq!(names.state.lock().look_ups, 3);
        let at = |host: &str| names.look(&endpoint(host), &waker);
        for failed in [None, Some("a:9092"), Some("b:9092"), Some("c:9092")] {
            if let Some(key) = failed {
                names.state.lock().on_found(key, None);
            }
            assert_eq!(at("a"), Look::At(bound("127.0.0.1:7")));
            assert_eq!(at("b"), Look::At(bound("[::1]:8")));
            assert_eq!(at("c"), Look::At(bound("10.0.0.3:9")));
        }
        // It is an address like others once it is known.
        let found = Some(address(5));
        names.state.lock().on_found("a:9092", found);
        assert_eq!(at("a"), Look::At(address(5)));
    }

    #[test]
    fn names_beyond_the_bound_are_looked_up_when_others_are_done() {
        let (names, waker) = names();
        let host = |number: usize| endpoint(&format!("host-{number}"));
        for number in 0..=LOOK_UPS_MAX {
            assert_eq!(names.look(&host(number), &waker), Look::Waits);
        }
        assert_eq!(names.state.lock().look_ups, LOOK_UPS_MAX);
        let woken = names.state.lock().on_found("host-3:9092", Some(address(3)));
        assert_eq!(woken.len(), 2, "its own, and the one that found no room");
        assert_eq!(names.look(&host(LOOK_UPS_MAX), &waker), Look::Waits);
        assert_eq!(names.state.lock().look_ups, LOOK_UPS_MAX);
    }
}
