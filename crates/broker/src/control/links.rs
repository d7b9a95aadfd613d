//! Connections from this node to others, for requests that are answered in their order.
//!
//! One connection to an address and purpose: what may wait at its other end does not hold up anything else. A connection that fails,
//! or that is silent until the first of its requests is overdue, fails all that wait on it; the next request dials again. An answer
//! keeps no more memory than its own bytes (see [`intake`]).

mod intake;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use env::{ConnId, Net, Poller, Readiness};
use model::Instant;
use raft::Endpoint;
use wire::messages::ResponseHeader;
use wire::{ApiKey, Message, Reader};

use intake::{Garbage, Intake, SharedBuffer};

/// So much longer an answer is waited for of which something came meanwhile.
const PROGRESS_WAIT: Duration = Duration::from_secs(5);

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Lane {
    Quorum,
    /// Registration and heartbeats, which must not wait behind anything.
    Lifecycle,
    /// Requests for the active controller.
    Controller,
    /// Requests for a broker.
    Broker,
    /// Is anybody there?
    Probe,
    /// Fetches of a follower.
    Replica,
    /// Those of replicas that have far to go.
    Bulk,
    /// Fetches of what is damaged here.
    Repair,
}

/// Where a connection leads, and its purpose.
pub(crate) type Target = (Endpoint, Lane);

/// A request that is ready to go.
pub(crate) struct Outbound<T> {
    pub(crate) target: Target,
    pub(crate) api: (ApiKey, i16),
    /// The whole frame; its correlation id is set here.
    pub(crate) frame: Bytes,
    /// When its connection is given up, if it has not answered.
    pub(crate) until: Option<Instant>,
    pub(crate) of: T,
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum Reply<T> {
    Answered {
        of: T,
        key: ApiKey,
        version: i16,
        body: Bytes,
    },
    /// The connection was refused, or it ended.
    Failed {
        of: T,
        /// The whole request had left: the other end may have carried it out.
        was_sent: bool,
        /// Nobody listens at the address.
        is_refused: bool,
    },
}

struct Asked<T> {
    correlation: i32,
    key: ApiKey,
    version: i16,
    until: Option<Instant>,
    of: T,
}

struct Line<T> {
    target: Target,
    unsent: VecDeque<Bytes>,
    intake: Intake,
    /// Something came since it was overdue last.
    has_progressed: bool,
    asked: VecDeque<Asked<T>>,
}

impl<T> Line<T> {
    fn is_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        self.asked.front()?.until
    }
}

pub(crate) struct Links<T> {
    lines: BTreeMap<ConnId, Line<T>>,
    open: BTreeMap<Target, ConnId>,
    correlation: i32,
    shared: SharedBuffer,
    replies: Vec<Reply<T>>,
}

impl<T> Links<T> {
    pub(crate) fn new() -> Links<T> {
        Links {
            lines: BTreeMap::new(),
            open: BTreeMap::new(),
            correlation: 0,
            shared: SharedBuffer::new(),
            replies: Vec::new(),
        }
    }

    /// Sends a request; its reply comes out of [`Links::take_replies`].
    pub(crate) fn send(&mut self, net: &dyn Net, poller: &mut dyn Poller, outbound: Outbound<T>) {
        let Outbound {
            target,
            api: (key, version),
            frame,
            until,
            of,
        } = outbound;
        // The quorum has one request under way to a node: it has given the one before up.
        if target.1 == Lane::Quorum
            && let Some(conn) = self.open.get(&target).copied()
            && self.lines.get(&conn).is_some_and(Line::is_asked)
        {
            self.end(poller, conn);
        }
        let known = self.open.get(&target).copied();
        let conn = known.map_or_else(|| dial(net, poller, &target.0), Ok);
        let conn = match conn {
            Ok(conn) => conn,
            Err(error) => {
                self.replies.push(Reply::Failed {
                    of,
                    was_sent: false,
                    is_refused: is_refused(&error),
                });
                return;
            }
        };
        self.open.insert(target.clone(), conn);
        self.correlation = self.correlation.wrapping_add(1).max(1);
        let line = self.lines.entry(conn).or_insert_with(|| Line {
            target,
            unsent: VecDeque::new(),
            intake: Intake::default(),
            has_progressed: false,
            asked: VecDeque::new(),
        });
        line.unsent.push_back(numbered(frame, self.correlation));
        line.asked.push_back(Asked {
            correlation: self.correlation,
            key,
            version,
            until,
            of,
        });
        self.flush(poller, conn);
    }

    /// Gives up connections whose first request is overdue. Records may be long on their way: as long as more of them come they are waited for.
    pub(crate) fn expire(&mut self, poller: &mut dyn Poller, now: Instant) {
        for line in self.lines.values_mut() {
            let has_records = matches!(line.target.1, Lane::Replica | Lane::Bulk);
            if line.deadline().is_some_and(|at| at <= now)
                && std::mem::take(&mut line.has_progressed)
                && has_records
                && let Some(first) = line.asked.front_mut()
            {
                first.until = Some(now.plus(PROGRESS_WAIT));
            }
        }
        self.end_where(poller, |line| line.deadline().is_some_and(|at| at <= now));
    }

    /// Ends connections of a purpose that do not lead to `endpoint`: the node there is not the one that is meant any more.
    pub(crate) fn end_others(&mut self, poller: &mut dyn Poller, lane: Lane, endpoint: &Endpoint) {
        self.end_where(poller, |line| {
            line.target.1 == lane && line.target.0 != *endpoint
        });
    }

    /// Ends the connection to `target`, if there is one.
    pub(crate) fn hang_up(&mut self, poller: &mut dyn Poller, target: &Target) {
        if let Some(conn) = self.open.get(target).copied() {
            self.end(poller, conn);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.lines.values().filter_map(Line::deadline).min()
    }

    fn end_where(&mut self, poller: &mut dyn Poller, is_over: impl Fn(&Line<T>) -> bool) {
        let over = self.lines.iter().filter(|(_, line)| is_over(line));
        let over: Vec<ConnId> = over.map(|(conn, _)| *conn).collect();
        over.into_iter().for_each(|conn| self.end(poller, conn));
    }

    pub(crate) fn take_replies(&mut self) -> Vec<Reply<T>> {
        std::mem::take(&mut self.replies)
    }

    pub(crate) fn on_ready(&mut self, poller: &mut dyn Poller, ready: Readiness) {
        let Readiness::Conn {
            conn,
            readable,
            writable,
        } = ready
        else {
            return;
        };
        if writable {
            self.flush(poller, conn);
        }
        if readable {
            self.receive(poller, conn);
        }
    }

    fn flush(&mut self, poller: &mut dyn Poller, conn: ConnId) {
        loop {
            let Some(line) = self.lines.get_mut(&conn) else {
                return;
            };
            let Some(front) = line.unsent.front_mut() else {
                return;
            };
            match poller.send(conn, &[IoSlice::new(front)]) {
                Ok(sent) if sent < front.len() => front.advance(sent),
                Ok(_) => drop(line.unsent.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.end_for(poller, conn, is_refused(&error)),
            }
        }
    }

    fn receive(&mut self, poller: &mut dyn Poller, conn: ConnId) {
        loop {
            let Some(line) = self.lines.get_mut(&conn) else {
                return;
            };
            let recv = |into: &mut BytesMut| poller.recv(conn, into);
            match line.intake.receive(&mut self.shared, recv) {
                Ok(Ok(0) | Err(Garbage)) => return self.end(poller, conn),
                Ok(Ok(_)) => {
                    line.has_progressed = true;
                    if self.take_answers(conn).is_err() {
                        return self.end(poller, conn);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.end_for(poller, conn, is_refused(&error)),
            }
        }
    }

    /// Matches whole answers with their requests; an error for what nobody asked for.
    fn take_answers(&mut self, conn: ConnId) -> Result<(), Garbage> {
        let Some(line) = self.lines.get_mut(&conn) else {
            return Ok(());
        };
        for frame in line.intake.take_whole() {
            let asked = line.asked.pop_front().ok_or(Garbage)?;
            line.has_progressed = false;
            let Asked {
                correlation,
                key,
                version,
                of,
                ..
            } = asked;
            let mut reader = Reader::new(frame);
            let header = ResponseHeader::decode(&mut reader, key.response_header_version(version));
            let is_ours = header.is_ok_and(|header| header.correlation_id == correlation);
            let body = reader.take(reader.remaining());
            let (true, Ok(body)) = (is_ours, body) else {
                self.replies.push(Reply::Failed {
                    of,
                    was_sent: true,
                    is_refused: false,
                });
                return Err(Garbage);
            };
            self.replies.push(Reply::Answered {
                of,
                key,
                version,
                body,
            });
        }
        Ok(())
    }

    fn end(&mut self, poller: &mut dyn Poller, conn: ConnId) {
        self.end_for(poller, conn, false);
    }

    fn end_for(&mut self, poller: &mut dyn Poller, conn: ConnId, is_refused: bool) {
        if let Some(line) = self.lines.remove(&conn) {
            self.open.remove(&line.target);
            poller.close(conn);
            // Nobody acts upon a frame of which a part is missing.
            let sent = line.asked.len() - line.unsent.len();
            let failed = line.asked.into_iter().enumerate();
            let failed = failed.map(|(at, asked)| Reply::Failed {
                of: asked.of,
                was_sent: at < sent,
                is_refused,
            });
            self.replies.extend(failed);
        }
    }
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// The frame under the correlation id of its connection.
fn numbered(frame: Bytes, correlation: i32) -> Bytes {
    let mut frame = BytesMut::from(frame);
    // Behind the length, the number of the API and its version.
    if let Some(field) = frame.get_mut(8..12) {
        field.copy_from_slice(&correlation.to_be_bytes());
    }
    frame.freeze()
}

fn dial(net: &dyn Net, poller: &mut dyn Poller, to: &Endpoint) -> io::Result<ConnId> {
    let host = &to.host;
    let is_v6 = host.contains(':') && !host.starts_with('[');
    let address = if is_v6 {
        format!("[{host}]:{}", to.port)
    } else {
        format!("{host}:{}", to.port)
    };
    let addresses = net.resolve(&address)?;
    let first = addresses.first().ok_or(io::ErrorKind::NotFound)?;
    poller.connect(*first)
}
