//! The network of a simulated world: connections as two pipes with travel time, limited room and partial transfers.
//!
//! Owns no policy: what arrives when is drawn from the seed, order within a pipe is kept. A connection is reset when asked to
//! or when a machine of it loses power. Side 0 dialled, side 1 accepted; either end is a poller's, or else a test client's.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use super::host::HostId;
use super::links::{Links, Site};
use crate::net::{ConnId, Readiness};

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
/// Bytes that may be under way or unread in one direction; then the sender waits.
pub(super) const PIPE_BYTES_MAX: usize = 128 << 10;
/// Connections a listener holds before it refuses more.
pub(super) const BACKLOG_MAX: usize = 128;

#[derive(Default)]
pub(crate) struct Network {
    pub(super) links: Links,
    pub(super) listeners: BTreeMap<(HostId, u16), Listener>,
    pub(super) conns: BTreeMap<u64, Conn>,
    /// Connections by the ids that the pollers that dialled have for them. An accepted one has its own number.
    pub(super) dialled: BTreeMap<u64, u64>,
    pub(super) pollers: BTreeMap<u64, PollerState>,
    pub(super) events: BTreeMap<(u64, u64), Due>,
    pub(super) events_count: u64,
    pub(super) next: u64,
    pub(super) next_port: u16,
    /// Workers that slept on a poller which has news since.
    pub(super) stirred: Vec<u64>,
}

pub(super) struct Listener {
    pub(super) poller: u64,
    /// Only its own host reaches it.
    pub(super) is_loopback: bool,
    pub(super) backlog: VecDeque<u64>,
}

pub(super) struct PollerState {
    pub(super) host: HostId,
    pub(super) ready: BTreeMap<u64, (bool, bool)>,
    pub(super) accept: bool,
    pub(super) woken: bool,
    /// Workers that ever slept on it.
    pub(super) sleepers: Vec<u64>,
}

impl PollerState {
    fn has_news(&self) -> bool {
        self.woken || self.accept || !self.ready.is_empty()
    }
}

/// An end of a connection that a poller has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) poller: u64,
    pub(super) id: u64,
}

pub(super) struct Conn {
    /// Where each side is.
    pub(super) sites: [Site; 2],
    /// The address that the client comes from and the one it went to.
    pub(super) addresses: [SocketAddr; 2],
    /// `pipes[s]` carries what side `s` sends.
    pub(super) pipes: [Pipe; 2],
    pub(super) open: [bool; 2],
    /// The error that both sides meet from now on.
    pub(super) broken: Option<ErrorKind>,
    /// The dialling side waits to be answered.
    pub(super) is_dialling: bool,
    pub(super) ends: [Option<End>; 2],
    /// Until when nothing arrives at side `s`.
    pub(super) stalled: [u64; 2],
}

#[derive(Default)]
pub(super) struct Pipe {
    pub(super) data: VecDeque<u8>,
    /// How much of `data` has arrived; the rest travels.
    pub(super) arrived: usize,
    pub(super) last_arrival: u64,
    pub(super) finished: bool,
    pub(super) writer_waits: bool,
    /// A cut link took something.
    pub(super) has_lost: bool,
    /// The last bytes of `data`, which a host that is ahead of the world has not sent yet: when they leave, and how many.
    pub(super) unsent: VecDeque<(u64, usize)>,
}

impl Pipe {
    /// The sender ended at `end`: what would have left later does not.
    fn take_back(&mut self, end: u64) {
        let late = self.unsent.drain(..).filter(|(leaves, _)| *leaves > end);
        let late: usize = late.map(|(_, len)| len).sum();
        self.data.truncate(self.data.len().saturating_sub(late));
    }
}

pub(super) enum Due {
    Connect {
        conn: u64,
    },
    /// The answer to a poller's dial.
    Answer {
        conn: u64,
        refusal: Option<ErrorKind>,
    },
    /// `side` is where it comes from, here and below.
    Arrive {
        conn: u64,
        side: usize,
        len: usize,
    },
    Finish {
        conn: u64,
        side: usize,
    },
    Reset {
        conn: u64,
        side: usize,
    },
    /// An operation arrives at the object store, or its answer at a host, or nobody waits for that any more.
    Ask {
        call: u64,
    },
    Told {
        call: u64,
    },
    GiveUp {
        call: u64,
    },
    /// Nothing but a reason for time to stop here.
    Alarm,
}

pub(super) fn not_connected() -> io::Error {
    ErrorKind::NotConnected.into()
}

impl Network {
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.events.keys().next().map(|(at, _)| *at)
    }

    pub(super) fn due(&mut self, at: u64, due: Due) {
        self.events_count += 1;
        self.events.insert((at, self.events_count), due);
    }

    pub(crate) fn alarm(&mut self, at: u64) {
        self.due(at, Due::Alarm);
    }

    pub(crate) fn has_news(&self, poller: u64) -> bool {
        self.pollers.get(&poller).is_some_and(PollerState::has_news)
    }

    pub(crate) fn new_poller(&mut self, host: HostId) -> u64 {
        self.next += 1;
        let poller = PollerState {
            host,
            ready: BTreeMap::new(),
            accept: false,
            woken: false,
            sleepers: Vec::new(),
        };
        self.pollers.insert(self.next, poller);
        self.next
    }

    pub(crate) fn wake(&mut self, poller: u64) {
        self.stir(poller, |poller| poller.woken = true);
    }

    /// `worker` sleeps on `poller`, and is to be looked at when it has news.
    pub(crate) fn sleeps_on(&mut self, poller: u64, worker: u64) {
        if let Some(poller) = self.pollers.get_mut(&poller)
            && !poller.sleepers.contains(&worker)
        {
            poller.sleepers.push(worker);
        }
    }

    /// Gives a poller news.
    pub(super) fn stir(&mut self, poller: u64, news: impl FnOnce(&mut PollerState)) {
        if let Some(poller) = self.pollers.get_mut(&poller) {
            news(poller);
            self.stirred.extend_from_slice(&poller.sleepers);
        }
    }

    /// Takes what a poller has to report; true when there was anything.
    pub(crate) fn take_news(&mut self, poller: u64, ready: &mut Vec<Readiness>) -> bool {
        let Some(poller) = self.pollers.get_mut(&poller) else {
            return false;
        };
        let news = poller.has_news();
        poller.woken = false;
        if std::mem::take(&mut poller.accept) {
            ready.push(Readiness::Accept);
        }
        for (conn, (readable, writable)) in std::mem::take(&mut poller.ready) {
            ready.push(Readiness::Conn {
                conn: ConnId(conn),
                readable,
                writable,
            });
        }
        news
    }

    /// Listens at `port` of `host`, whose every address it is unless `ip` is the loopback.
    pub(crate) fn listen(
        &mut self,
        (host, poller): (HostId, u64),
        ip: IpAddr,
        port: u16,
    ) -> io::Result<u16> {
        let port = match port {
            0 => {
                self.next_port += 1;
                40_000 + self.next_port
            }
            port => port,
        };
        if self.listeners.contains_key(&(host, port)) {
            return Err(ErrorKind::AddrInUse.into());
        }
        self.listeners.insert(
            (host, port),
            Listener {
                poller,
                is_loopback: ip.is_loopback(),
                backlog: VecDeque::new(),
            },
        );
        Ok(port)
    }

    pub(crate) fn accept(
        &mut self,
        poller: u64,
        only: Option<&[u16]>,
    ) -> Option<(u64, [SocketAddr; 2])> {
        let is_wanted = |port: u16| only.is_none_or(|only| only.contains(&port));
        let (_, listener) = self.listeners.iter_mut().find(|((_, port), it)| {
            it.poller == poller && is_wanted(*port) && !it.backlog.is_empty()
        })?;
        let conn = listener.backlog.pop_front()?;
        Some((conn, self.conns.get(&conn)?.addresses))
    }

    pub(crate) fn adopt(&mut self, poller: u64, number: u64) -> io::Result<()> {
        let conn = self.conns.get_mut(&number).ok_or_else(not_connected)?;
        conn.ends[SERVER] = Some(End { poller, id: number });
        let pipe = &conn.pipes[CLIENT];
        let readable = pipe.arrived > 0 || pipe.finished || conn.broken.is_some();
        self.tell(number, SERVER, readable, true);
        Ok(())
    }

    /// The connection and side that `poller` knows as `id`; it may touch only what it owns and has not closed.
    pub(crate) fn owned(&self, id: u64, poller: u64) -> io::Result<(u64, usize)> {
        let (number, side) = match self.dialled.get(&id) {
            Some(conn) => (*conn, CLIENT),
            None => (id, SERVER),
        };
        let owned = self
            .conns
            .get(&number)
            .is_some_and(|conn| conn.open[side] && conn.ends[side] == Some(End { poller, id }));
        owned.then_some((number, side)).ok_or_else(not_connected)
    }

    /// Sets an edge for one side of a connection.
    pub(super) fn tell(&mut self, number: u64, side: usize, readable: bool, writable: bool) {
        let conn = self.conns.get(&number).filter(|conn| conn.open[side]);
        if let Some(end) = conn.and_then(|conn| conn.ends[side]) {
            self.stir(end.poller, |poller| {
                let edge = poller.ready.entry(end.id).or_default();
                *edge = (edge.0 || readable, edge.1 || writable);
            });
        }
    }

    /// True if `recv` of side `side` would return something, be it an end or an error.
    pub(crate) fn is_readable(&self, number: u64, side: usize) -> bool {
        self.conns.get(&number).is_none_or(|conn| {
            let pipe = &conn.pipes[1 - side];
            conn.broken.is_some() || pipe.arrived > 0 || (pipe.finished && pipe.data.is_empty())
        })
    }

    /// The host that accepts it.
    pub(crate) fn host_of(&self, number: u64) -> Option<HostId> {
        self.conns.get(&number)?.sites[SERVER].host()
    }

    /// Both ends hold it.
    pub(crate) fn is_whole(&self, number: u64) -> bool {
        let conn = self.conns.get(&number);
        conn.is_some_and(|conn| conn.broken.is_none() && conn.open == [true; 2])
    }

    pub(crate) fn reset(&mut self, number: u64) {
        self.break_off(number, ErrorKind::ConnectionReset);
    }

    pub(super) fn break_off(&mut self, number: u64, error: ErrorKind) {
        if let Some(conn) = self.conns.get_mut(&number) {
            conn.broken = conn.broken.or(Some(error));
            conn.is_dialling = false;
            conn.pipes
                .iter_mut()
                .for_each(|pipe| *pipe = Pipe::default());
            self.tell(number, CLIENT, true, true);
            self.tell(number, SERVER, true, true);
        }
    }

    /// Until `until` nothing arrives at `side`.
    pub(crate) fn stall(&mut self, number: u64, side: usize, until: u64) {
        if let Some(conn) = self.conns.get_mut(&number) {
            conn.stalled[side] = until;
        }
    }

    /// The process of `host` ended at `end`: its listeners vanish, its connections end. Returns those whose other side gets to
    /// know at once; for those that `arriving` chooses, what had left the machine by then arrives before.
    pub(super) fn process_gone(
        &mut self,
        host: HostId,
        end: u64,
        mut arriving: impl FnMut() -> bool,
    ) -> Vec<Due> {
        self.listeners.retain(|(of, _), _| *of != host);
        self.pollers.retain(|_, poller| poller.host != host);
        let mut ends = Vec::new();
        for (number, conn) in &mut self.conns {
            for side in [SERVER, CLIENT] {
                if conn.sites[side].is(host) {
                    conn.pipes[side].take_back(end);
                    ends.extend(conn.open[side].then_some((*number, side)));
                }
            }
        }
        let mut at_once = Vec::new();
        for (number, side) in ends {
            let Some(conn) = self.conns.get_mut(&number) else {
                continue;
            };
            let last = conn.pipes[side].last_arrival;
            conn.open[side] = false;
            if let Some(dialled) = conn.ends[side].take().filter(|_| side == CLIENT) {
                self.dialled.remove(&dialled.id);
            }
            if conn.open == [false; 2] {
                self.conns.remove(&number);
            }
            let reset = Due::Reset { conn: number, side };
            if arriving() {
                self.due(last, reset);
            } else {
                at_once.push(reset);
            }
        }
        at_once
    }
}
