//! What travels over the simulated network, and when it arrives.
//!
//! Owns every moment at which something happens between two ends; the order within a pipe is kept.

use std::io::{self, ErrorKind};

use super::net::{
    BACKLOG_MAX, CLIENT, Conn, Due, Listener, PIPE_BYTES_MAX, Pipe, SERVER, not_connected,
};
use super::trace::{self, Event};
use super::world::World;

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
            self.counts.stalls += 1;
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
