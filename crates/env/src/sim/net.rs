//! The network of a simulated machine: connections as two pipes with travel time, limited room and partial transfers.
//!
//! Owns no policy: what arrives when is drawn from the seed, order within a pipe is kept. A connection is reset when asked to
//! or when its machine loses power. Side 0 dialled, side 1 accepted.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};

use crate::net::{ConnId, Readiness};

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
/// Bytes that may be under way or unread in one direction; then the sender waits.
pub(super) const PIPE_BYTES_MAX: usize = 128 << 10;
/// Connections a listener holds before it refuses more.
pub(super) const BACKLOG_MAX: usize = 128;

#[derive(Default)]
pub(crate) struct Network {
    pub(super) listeners: BTreeMap<u16, Listener>,
    pub(super) conns: BTreeMap<u64, Conn>,
    pub(super) pollers: BTreeMap<u64, PollerState>,
    pub(super) events: BTreeMap<(u64, u64), Due>,
    pub(super) events_count: u64,
    pub(super) next: u64,
    pub(super) next_port: u16,
}

pub(super) struct Listener {
    pub(super) poller: u64,
    pub(super) backlog: VecDeque<u64>,
}

#[derive(Default)]
pub(super) struct PollerState {
    pub(super) ready: BTreeMap<u64, (bool, bool)>,
    pub(super) accept: bool,
    pub(super) woken: bool,
}

pub(super) struct Conn {
    /// The port the client comes from and the port it went to.
    pub(super) ports: (u16, u16),
    /// `pipes[s]` carries what side `s` sends.
    pub(super) pipes: [Pipe; 2],
    pub(super) open: [bool; 2],
    pub(super) reset: bool,
    /// The poller of the accepting side, once adopted.
    pub(super) poller: Option<u64>,
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
}

pub(super) enum Due {
    Connect {
        conn: u64,
    },
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
        self.pollers
            .get(&poller)
            .is_some_and(|poller| poller.woken || poller.accept || !poller.ready.is_empty())
    }

    pub(crate) fn new_poller(&mut self) -> u64 {
        self.next += 1;
        self.pollers.insert(self.next, PollerState::default());
        self.next
    }

    pub(crate) fn wake(&mut self, poller: u64) {
        if let Some(poller) = self.pollers.get_mut(&poller) {
            poller.woken = true;
        }
    }

    /// Takes what a poller has to tell; true when there was anything.
    pub(crate) fn take_news(&mut self, poller: u64, ready: &mut Vec<Readiness>) -> bool {
        let Some(poller) = self.pollers.get_mut(&poller) else {
            return false;
        };
        let news = poller.woken || poller.accept || !poller.ready.is_empty();
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

    pub(crate) fn listen(&mut self, poller: u64, port: u16) -> io::Result<u16> {
        let port = match port {
            0 => {
                self.next_port += 1;
                40_000 + self.next_port
            }
            port => port,
        };
        if self.listeners.contains_key(&port) {
            return Err(ErrorKind::AddrInUse.into());
        }
        self.listeners.insert(
            port,
            Listener {
                poller,
                backlog: VecDeque::new(),
            },
        );
        Ok(port)
    }

    pub(crate) fn accept(&mut self, poller: u64, only: Option<u16>) -> Option<(u64, (u16, u16))> {
        let is_wanted = |port: u16| only.is_none_or(|only| only == port);
        let (_, listener) = self.listeners.iter_mut().find(|(port, it)| {
            it.poller == poller && is_wanted(**port) && !it.backlog.is_empty()
        })?;
        let conn = listener.backlog.pop_front()?;
        Some((conn, self.conns.get(&conn)?.ports))
    }

    pub(crate) fn adopt(&mut self, poller: u64, number: u64) -> io::Result<()> {
        let conn = self.conns.get_mut(&number).ok_or_else(not_connected)?;
        conn.poller = Some(poller);
        let readable = conn.pipes[CLIENT].arrived > 0 || conn.pipes[CLIENT].finished || conn.reset;
        self.tell(number, readable, true);
        Ok(())
    }

    /// A poller may touch only connections it owns and has not closed.
    pub(crate) fn check_owner(&self, number: u64, poller: u64) -> io::Result<()> {
        let owned = self
            .conns
            .get(&number)
            .is_some_and(|conn| conn.open[SERVER] && conn.poller == Some(poller));
        if owned { Ok(()) } else { Err(not_connected()) }
    }

    /// Sets an edge for the accepting side of `conn`.
    pub(super) fn tell(&mut self, number: u64, readable: bool, writable: bool) {
        let poller = self
            .conns
            .get(&number)
            .filter(|conn| conn.open[SERVER])
            .and_then(|conn| conn.poller);
        if let Some(poller) = poller.and_then(|poller| self.pollers.get_mut(&poller)) {
            let edge = poller.ready.entry(number).or_default();
            *edge = (edge.0 || readable, edge.1 || writable);
        }
    }

    /// Whether side `side` would get something from `recv`, be it an end or an error.
    pub(crate) fn is_readable(&self, number: u64, side: usize) -> bool {
        self.conns.get(&number).is_none_or(|conn| {
            let pipe = &conn.pipes[1 - side];
            conn.reset || pipe.arrived > 0 || (pipe.finished && pipe.data.is_empty())
        })
    }

    /// Both ends hold it.
    pub(crate) fn is_whole(&self, number: u64) -> bool {
        let conn = self.conns.get(&number);
        conn.is_some_and(|conn| !conn.reset && conn.open == [true; 2])
    }

    pub(crate) fn reset(&mut self, number: u64) {
        if let Some(conn) = self.conns.get_mut(&number) {
            conn.reset = true;
            conn.pipes
                .iter_mut()
                .for_each(|pipe| *pipe = Pipe::default());
            self.tell(number, true, true);
        }
    }

    /// Until `until` nothing arrives at `side`.
    pub(crate) fn stall(&mut self, number: u64, side: usize, until: u64) {
        if let Some(conn) = self.conns.get_mut(&number) {
            conn.stalled[side] = until;
        }
    }

    /// The process behind the accepting sides is gone: listeners vanish, connections end. What had left the machine still
    /// arrives for the numbers in `arriving`.
    pub(crate) fn process_gone(&mut self, mut arriving: impl FnMut() -> bool) {
        self.listeners.clear();
        self.pollers.clear();
        let open: Vec<u64> = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.open[SERVER])
            .map(|(id, _)| *id)
            .collect();
        for number in open {
            let last = self.conns[&number].pipes[SERVER].last_arrival;
            if let Some(conn) = self.conns.get_mut(&number) {
                conn.open[SERVER] = false;
                conn.poller = None;
            }
            if arriving() {
                self.due(last, Due::Reset { conn: number })
            } else {
                self.reset(number)
            }
        }
    }
}
