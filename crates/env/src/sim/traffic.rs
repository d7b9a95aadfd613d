//! The messages on the simulated network, and when each arrives.
//!
//! Owns every moment at which something happens between two ends; the order within a pipe is kept.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use super::host::HostId;
use super::links::Site;
use super::net::{
    BACKLOG_MAX, CLIENT, Conn, Due, End, Listener, PIPE_BYTES_MAX, Pipe, SERVER, not_connected,
};
use super::trace::{self, Event};
use super::world::World;

impl World {
    /// The host whose faults meet what goes from `from` to `to`.
    fn host_between(from: Site, to: Site) -> HostId {
        from.host().or(to.host()).unwrap_or(HostId::FIRST)
    }

    /// When something that leaves `from` now arrives at `to`.
    pub(super) fn arrival(&mut self, from: Site, to: Site) -> u64 {
        let slow = if self.chance.one_in(200) { 50 } else { 1 };
        let nanos = &self.hosts[World::host_between(from, to).index()]
            .faults
            .net_nanos;
        let travel = slow * self.chance.between(nanos.start, nanos.end);
        let delay = self.network.links.of(from, to).delay.as_nanos() as u64;
        self.leaves(from) + travel + delay
    }

    /// When something that `from` sends now leaves it.
    fn leaves(&self, from: Site) -> u64 {
        from.host().map_or(self.now, |host| self.now_on(host))
    }

    fn is_short(&mut self, from: Site, to: Site) -> bool {
        let host = World::host_between(from, to);
        self.host(host).faults.short_io && self.chance.one_in(16)
    }

    fn has_listener(&self, from: Site, to: SocketAddr) -> bool {
        let Some(host) = self.host_at(from, to.ip()) else {
            return false;
        };
        let listener = self.network.listeners.get(&(host, to.port()));
        let is_inside = to.ip().is_loopback();
        listener.is_some_and(|it| it.backlog.len() < BACKLOG_MAX && (is_inside || !it.is_loopback))
    }

    fn add_conn(&mut self, from: Site, host: HostId, to: SocketAddr, end: Option<u64>) -> u64 {
        self.network.next += 1;
        let conn = self.network.next;
        let end = end.map(|poller| {
            self.network.next += 1;
            let id = self.network.next;
            self.network.dialled.insert(id, conn);
            End { poller, id }
        });
        let port = 50_000 + (conn % 10_000) as u16;
        let state = Conn {
            sites: [from, Site::Host(host)],
            addresses: [self.source_of(from, to.ip(), port), to],
            pipes: [Pipe::default(), Pipe::default()],
            open: [true, true],
            broken: None,
            is_dialling: end.is_some(),
            ends: [end, None],
            stalled: [0, 0],
        };
        self.network.conns.insert(conn, state);
        conn
    }

    /// A connection of a test client, or of a blocking stream, which is refused at once or never.
    pub(crate) fn connect(&mut self, from: Site, to: SocketAddr) -> io::Result<u64> {
        let host = self.host_at(from, to.ip());
        let Some(host) = host.filter(|_| self.has_listener(from, to)) else {
            return Err(ErrorKind::ConnectionRefused.into());
        };
        let conn = self.add_conn(from, host, to, None);
        let at = self.arrival(from, Site::Host(host));
        self.network.due(at, Due::Connect { conn });
        let port = to.port();
        self.note(&Event::Connect { conn, port });
        Ok(conn)
    }

    /// A connection that `poller` of `from` begins; returns the id it has there.
    pub(crate) fn dial(&mut self, from: HostId, poller: u64, to: SocketAddr) -> io::Result<u64> {
        let site = Site::Host(from);
        let Some(host) = self.host_at(site, to.ip()) else {
            return Err(ErrorKind::HostUnreachable.into());
        };
        let conn = self.add_conn(site, host, to, Some(poller));
        let at = self.arrival(site, Site::Host(host));
        self.network.due(at, Due::Connect { conn });
        let port = to.port();
        self.note_on(from, &Event::Connect { conn, port });
        let end = self.network.conns[&conn].ends[CLIENT];
        Ok(end.map_or(conn, |end| end.id))
    }

    /// Lets everything happen on the network that is due by now.
    pub(crate) fn deliver(&mut self) {
        while let Some(entry) = self.network.events.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let due = entry.remove();
            match self.pass(due) {
                Some(Due::Connect { conn }) => self.on_connect(conn),
                Some(Due::Answer { conn, refusal }) => self.on_answer(conn, refusal),
                Some(Due::Arrive { conn, side, len }) => self.on_arrive(conn, side, len),
                Some(Due::Finish { conn, side }) => self.on_finish(conn, side),
                Some(Due::Reset { conn, .. }) => self.network.reset(conn),
                Some(Due::Ask { call }) => self.arrive_at_bucket(call),
                Some(Due::Told { call }) => self.arrive_from_bucket(call),
                Some(Due::GiveUp { call }) => self.give_up_call(call),
                Some(Due::Alarm) | None => {}
            }
        }
    }

    fn on_connect(&mut self, number: u64) {
        let Some(conn) = self.network.conns.get(&number) else {
            return;
        };
        let (from, to) = (conn.sites[CLIENT], conn.addresses[1]);
        let is_refused = conn.is_dialling && !self.has_listener(from, to);
        let listener = conn.sites[SERVER]
            .host()
            .and_then(|host| self.network.listeners.get_mut(&(host, to.port())));
        match listener.filter(|_| !is_refused) {
            Some(listener) => {
                listener.backlog.push_back(number);
                let poller = listener.poller;
                self.network.stir(poller, |poller| poller.accept = true);
                self.answer_dial(number, None);
            }
            None => self.answer_dial(number, Some(ErrorKind::ConnectionRefused)),
        }
    }

    /// The accepting machine answers; a client that does not wait for it only notices a refusal.
    pub(super) fn answer_dial(&mut self, number: u64, refusal: Option<ErrorKind>) {
        let Some(conn) = self.network.conns.get(&number) else {
            return;
        };
        if conn.is_dialling {
            let at = self.arrival(conn.sites[SERVER], conn.sites[CLIENT]);
            if let Some(conn) = self.network.conns.get_mut(&number) {
                conn.open[SERVER] &= refusal.is_none();
                // The accepting side's first bytes come behind it.
                conn.pipes[SERVER].last_arrival = at;
            }
            let conn = number;
            self.network.due(at, Due::Answer { conn, refusal });
        } else if refusal.is_some() {
            self.network.reset(number);
        }
    }

    fn on_answer(&mut self, number: u64, refusal: Option<ErrorKind>) {
        match (self.network.conns.get_mut(&number), refusal) {
            (Some(_), Some(error)) => self.network.break_off(number, error),
            (Some(conn), None) => {
                conn.is_dialling = false;
                self.network.tell(number, CLIENT, false, true);
            }
            (None, _) => {}
        }
    }

    fn on_arrive(&mut self, number: u64, side: usize, len: usize) {
        let Some(conn) = self
            .network
            .conns
            .get_mut(&number)
            .filter(|conn| conn.broken.is_none())
        else {
            return;
        };
        if conn.stalled[1 - side] > self.now {
            let at = conn.stalled[1 - side];
            let host = World::host_between(conn.sites[SERVER], conn.sites[CLIENT]);
            self.hosts[host.index()].counts.stalls += 1;
            let conn = number;
            self.network.due(at, Due::Arrive { conn, side, len });
            return;
        }
        let now = self.now;
        let pipe = &mut conn.pipes[side];
        pipe.arrived = (pipe.arrived + len).min(pipe.data.len());
        while pipe
            .unsent
            .front()
            .is_some_and(|(leaves, _)| *leaves <= now)
        {
            pipe.unsent.pop_front();
        }
        self.network.tell(number, 1 - side, true, false);
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
            .filter(|conn| conn.broken.is_none())
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
        self.network.tell(number, 1 - side, true, true);
    }

    pub(crate) fn recv(&mut self, number: u64, side: usize, buf: &mut [u8]) -> io::Result<usize> {
        let conn = self.network.conns.get(&number).ok_or_else(not_connected)?;
        let (site, other) = (conn.sites[side], conn.sites[1 - side]);
        let short = self.is_short(other, site);
        let conn = self.network.conns.get_mut(&number);
        let conn = conn.ok_or_else(not_connected)?;
        if let Some(error) = conn.broken {
            return Err(error.into());
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
            self.network.tell(number, 1 - side, false, true);
        }
        self.note(&Event::Received {
            conn: number,
            side,
            len,
        });
        Ok(len)
    }

    pub(crate) fn send(&mut self, number: u64, side: usize, bufs: &[&[u8]]) -> io::Result<usize> {
        let conn = self.network.conns.get(&number).ok_or_else(not_connected)?;
        let (site, other) = (conn.sites[side], conn.sites[1 - side]);
        let at = self.arrival(site, other);
        let short = self.is_short(site, other);
        let (now, leaves) = (self.now, self.leaves(site));
        let conn = self.network.conns.get_mut(&number);
        let conn = conn.ok_or_else(not_connected)?;
        if let Some(error) = conn.broken {
            return Err(error.into());
        }
        let asked: usize = bufs.iter().map(|buf| buf.len()).sum();
        if side == CLIENT && conn.is_dialling {
            return Err(ErrorKind::WouldBlock.into());
        }
        if !conn.open[1 - side] {
            // Nobody is there any more: the bytes are taken, and the answer to them is a reset.
            let reset = Due::Reset {
                conn: number,
                side: 1 - side,
            };
            self.network.due(at, reset);
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
        if leaves > now {
            pipe.unsent.push_back((leaves, len));
        }
        let at = at.max(pipe.last_arrival);
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
        let Some(conn) = self.network.conns.get(&number) else {
            return;
        };
        let at = self.arrival(conn.sites[side], conn.sites[1 - side]);
        let Some(conn) = self.network.conns.get_mut(&number) else {
            return;
        };
        if !std::mem::take(&mut conn.open[side]) {
            return;
        }
        if let Some(end) = conn.ends[side].take() {
            if side == CLIENT {
                self.network.dialled.remove(&end.id);
            }
            if let Some(poller) = self.network.pollers.get_mut(&end.poller) {
                poller.ready.remove(&end.id);
            }
        }
        if !conn.open[1 - side] {
            self.network.conns.remove(&number);
        } else {
            let at = at.max(conn.pipes[side].last_arrival);
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
        let listeners = self.network.listeners.values();
        let waiting = listeners
            .filter(|it| listening(it))
            .flat_map(|it| it.backlog.iter().map(|conn| (*conn, SERVER)));
        let waiting: Vec<(u64, usize)> = waiting.collect();
        self.network
            .listeners
            .retain(|_, listener| !listening(listener));
        let ends = |(number, conn): (&u64, &Conn)| {
            let is_ours = |side: &usize| conn.ends[*side].is_some_and(|end| end.poller == poller);
            let sides = [CLIENT, SERVER].into_iter().filter(is_ours);
            sides.map(|side| (*number, side)).collect::<Vec<_>>()
        };
        let owned: Vec<(u64, usize)> = self.network.conns.iter().flat_map(ends).collect();
        for (number, side) in owned.into_iter().chain(waiting) {
            self.close(number, side);
        }
    }
}
