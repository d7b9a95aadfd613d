//! The network of a simulated machine: connections as two pipes with travel time, limited room and partial transfers.
//!
//! Owns no policy: what arrives when is drawn from the seed, order within a pipe is kept. A connection is reset when asked to
//! or when its machine loses power. Side 0 dialled, side 1 accepted.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};

use super::trace::{self, Event};
use super::world::World;
use crate::net::{ConnId, Readiness};

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
/// Bytes that may be under way or unread in one direction; then the sender waits.
const PIPE_BYTES_MAX: usize = 128 << 10;
/// Connections a listener holds before it refuses more.
const BACKLOG_MAX: usize = 128;

#[derive(Default)]
pub(crate) struct Network {
    listeners: BTreeMap<u16, Listener>,
    conns: BTreeMap<u64, Conn>,
    pollers: BTreeMap<u64, PollerState>,
    events: BTreeMap<(u64, u64), Due>,
    events_count: u64,
    next: u64,
    next_port: u16,
}

struct Listener {
    poller: u64,
    backlog: VecDeque<u64>,
}

#[derive(Default)]
struct PollerState {
    ready: BTreeMap<u64, (bool, bool)>,
    accept: bool,
    woken: bool,
}

struct Conn {
    /// The port the client comes from and the port it went to.
    ports: (u16, u16),
    /// `pipes[s]` carries what side `s` sends.
    pipes: [Pipe; 2],
    open: [bool; 2],
    reset: bool,
    /// The poller of the accepting side, once adopted.
    poller: Option<u64>,
    /// Until when nothing arrives at side `s`.
    stalled: [u64; 2],
}

#[derive(Default)]
struct Pipe {
    data: VecDeque<u8>,
    /// How much of `data` has arrived; the rest travels.
    arrived: usize,
    last_arrival: u64,
    finished: bool,
    writer_waits: bool,
}

enum Due {
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

fn not_connected() -> io::Error {
    ErrorKind::NotConnected.into()
}

impl Network {
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.events.keys().next().map(|(at, _)| *at)
    }

    fn due(&mut self, at: u64, due: Due) {
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

    pub(crate) fn accept(&mut self, poller: u64) -> Option<(u64, (u16, u16))> {
        let listener = self
            .listeners
            .values_mut()
            .find(|it| it.poller == poller && !it.backlog.is_empty())?;
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
    fn tell(&mut self, number: u64, readable: bool, writable: bool) {
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

impl World {
    fn travel(&mut self) -> u64 {
        let slow = if self.chance.one_in(200) { 50 } else { 1 };
        slow * self
            .chance
            .between(self.faults.net_nanos.start, self.faults.net_nanos.end)
    }

    pub(crate) fn connect(&mut self, port: u16) -> io::Result<u64> {
        let listener = self
            .network
            .listeners
            .get(&port)
            .filter(|listener| listener.backlog.len() < BACKLOG_MAX);
        if listener.is_none() {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        self.network.next += 1;
        let conn = self.network.next;
        let from = 50_000 + (conn % 10_000) as u16;
        let state = Conn {
            ports: (from, port),
            pipes: [Pipe::default(), Pipe::default()],
            open: [true, true],
            reset: false,
            poller: None,
            stalled: [0, 0],
        };
        self.network.conns.insert(conn, state);
        let at = self.now + self.travel();
        self.network.due(at, Due::Connect { conn });
        self.note(&Event::Connect { conn, port });
        Ok(conn)
    }

    /// Lets everything happen on the network that is due by now.
    pub(crate) fn deliver(&mut self) {
        while let Some(entry) = self.network.events.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            match entry.remove() {
                Due::Connect { conn } => self.on_connect(conn),
                Due::Arrive { conn, side, len } => self.on_arrive(conn, side, len),
                Due::Finish { conn, side } => self.on_finish(conn, side),
                Due::Reset { conn } => self.network.reset(conn),
                Due::Alarm => {}
            }
        }
    }

    fn on_connect(&mut self, number: u64) {
        let Some(conn) = self.network.conns.get(&number) else {
            return;
        };
        match self.network.listeners.get_mut(&conn.ports.1) {
            Some(listener) => {
                listener.backlog.push_back(number);
                if let Some(poller) = self.network.pollers.get_mut(&listener.poller) {
                    poller.accept = true;
                }
            }
            None => self.network.reset(number),
        }
    }

    fn on_arrive(&mut self, number: u64, side: usize, len: usize) {
        let Some(conn) = self
            .network
            .conns
            .get_mut(&number)
            .filter(|conn| !conn.reset)
        else {
            return;
        };
        if conn.stalled[1 - side] > self.now {
            let at = conn.stalled[1 - side];
            self.network.due(
                at,
                Due::Arrive {
                    conn: number,
                    side,
                    len,
                },
            );
            return;
        }
        let pipe = &mut conn.pipes[side];
        pipe.arrived = (pipe.arrived + len).min(pipe.data.len());
        if side == CLIENT {
            self.network.tell(number, true, false);
        }
        self.note(&Event::Arrived {
            conn: number,
            side,
            len,
        });
    }

    fn on_finish(&mut self, number: u64, side: usize) {
        let Some(conn) = self
            .network
            .conns
            .get_mut(&number)
            .filter(|conn| !conn.reset)
        else {
            return;
        };
        let stalled = conn.stalled[1 - side];
        let pipe = &mut conn.pipes[side];
        if stalled > self.now || pipe.arrived < pipe.data.len() && conn.open[1 - side] {
            let at = stalled.max(self.now + 1_000);
            self.network.due(at, Due::Finish { conn: number, side });
            return;
        }
        pipe.finished = true;
        if side == CLIENT {
            self.network.tell(number, true, true);
        }
    }

    pub(crate) fn recv(&mut self, number: u64, side: usize, buf: &mut [u8]) -> io::Result<usize> {
        let short = self.faults.short_io && self.chance.one_in(16);
        let conn = self
            .network
            .conns
            .get_mut(&number)
            .ok_or_else(not_connected)?;
        if conn.reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        let pipe = &mut conn.pipes[1 - side];
        if pipe.arrived == 0 {
            return if pipe.finished {
                Ok(0)
            } else {
                Err(ErrorKind::WouldBlock.into())
            };
        }
        let mut len = buf.len().min(pipe.arrived);
        if short && len > 1 {
            len = self.chance.between(1, len as u64) as usize;
        }
        let (front, back) = pipe.data.as_slices();
        let first = len.min(front.len());
        buf[..first].copy_from_slice(&front[..first]);
        buf[first..len].copy_from_slice(&back[..len - first]);
        pipe.data.drain(..len);
        pipe.arrived -= len;
        if pipe.writer_waits && pipe.data.len() <= PIPE_BYTES_MAX / 2 {
            pipe.writer_waits = false;
            if side == CLIENT {
                self.network.tell(number, false, true);
            }
        }
        self.note(&Event::Received {
            conn: number,
            side,
            len,
        });
        Ok(len)
    }

    pub(crate) fn send(&mut self, number: u64, side: usize, bufs: &[&[u8]]) -> io::Result<usize> {
        let travel = self.travel();
        let short = self.faults.short_io && self.chance.one_in(16);
        let conn = self
            .network
            .conns
            .get_mut(&number)
            .ok_or_else(not_connected)?;
        if conn.reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        let asked: usize = bufs.iter().map(|buf| buf.len()).sum();
        if !conn.open[1 - side] {
            // Nobody is there any more: the bytes are taken, and the answer to them is a reset.
            let at = self.now + travel;
            self.network.due(at, Due::Reset { conn: number });
            return Ok(asked);
        }
        let pipe = &mut conn.pipes[side];
        let mut len = asked.min(PIPE_BYTES_MAX - pipe.data.len());
        if len == 0 && asked > 0 {
            pipe.writer_waits = true;
            return Err(ErrorKind::WouldBlock.into());
        }
        if short && len > 1 {
            len = self.chance.between(1, len as u64) as usize;
        }
        let mut left = len;
        for buf in bufs {
            let part = &buf[..buf.len().min(left)];
            pipe.data.extend(part);
            left -= part.len();
        }
        let at = (self.now + travel).max(pipe.last_arrival);
        pipe.last_arrival = at;
        self.network.due(
            at,
            Due::Arrive {
                conn: number,
                side,
                len,
            },
        );
        let content = trace::content(bufs.iter().copied());
        self.note(&Event::Sent {
            conn: number,
            side,
            content,
            len,
        });
        Ok(len)
    }

    /// Ends `side`: the other one reads what is under way and then the end.
    pub(crate) fn close(&mut self, number: u64, side: usize) {
        let travel = self.travel();
        let Some(conn) = self.network.conns.get_mut(&number) else {
            return;
        };
        if !std::mem::take(&mut conn.open[side]) {
            return;
        }
        if side == SERVER
            && let Some(poller) = conn
                .poller
                .take()
                .and_then(|poller| self.network.pollers.get_mut(&poller))
        {
            poller.ready.remove(&number);
        }
        if !conn.open[1 - side] {
            self.network.conns.remove(&number);
        } else {
            let at = (self.now + travel).max(conn.pipes[side].last_arrival);
            self.network.due(at, Due::Finish { conn: number, side });
        }
        self.note(&Event::Closed {
            conn: number,
            side,
            reset: false,
        });
    }

    /// The owner of a poller is gone, and with it all its sockets.
    pub(crate) fn drop_poller(&mut self, poller: u64) {
        self.network.pollers.remove(&poller);
        let listening = |listener: &Listener| listener.poller == poller;
        let waiting: Vec<u64> = self
            .network
            .listeners
            .values()
            .filter(|it| listening(it))
            .flat_map(|it| it.backlog.clone())
            .collect();
        self.network
            .listeners
            .retain(|_, listener| !listening(listener));
        let adopted =
            |(number, conn): (&u64, &Conn)| (conn.poller == Some(poller)).then_some(*number);
        let owned: Vec<u64> = self.network.conns.iter().filter_map(adopted).collect();
        for number in owned.into_iter().chain(waiting) {
            self.close(number, SERVER);
        }
    }
}
