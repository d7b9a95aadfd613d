//! A session on a blocking socket.
//!
//! Owns one stream. After any error the connection is of no use: what was sent may or may not have been done.

use std::io::{self, IoSlice, Write};
use std::sync::Arc;
use std::time::Duration;

use env::{Clock, Env, Stream};
use model::Instant;
use wire::{ApiKey, Encoded, Request, Splice};

use crate::error::{Error, Garbage};
use crate::session::{Reply, RequestError, Session};

pub struct Connection {
    address: String,
    stream: Box<dyn Stream>,
    session: Session,
    clock: Arc<dyn Clock>,
    /// One wait for bytes.
    timeout: Duration,
    /// All waits end by then.
    until: Option<Instant>,
    /// The bound that the socket has.
    set: Duration,
}

/// A wait may end so much after its time: most waits need no call to the system then.
const SLACK: Duration = Duration::from_millis(100);
/// No socket takes a time of zero.
const WAIT_MIN: Duration = Duration::from_millis(1);

impl Connection {
    /// Connects and negotiates versions; `timeout` bounds connecting and every later wait for bytes.
    pub fn open(
        env: &Env,
        address: &str,
        client_id: &str,
        timeout: Duration,
    ) -> Result<Connection, Error> {
        Connection::open_by(env, address, client_id, timeout, None)
    }

    /// The same, connected and greeted by `until`, which bounds no later wait.
    pub(crate) fn open_by(
        env: &Env,
        address: &str,
        client_id: &str,
        timeout: Duration,
        until: Option<Instant>,
    ) -> Result<Connection, Error> {
        let left = until.map_or(timeout, |until| until.since(env.clock.now()));
        let set = left.min(timeout).max(WAIT_MIN);
        let dialled = env.net.dial(address, set);
        let stream = dialled.map_err(|source| Error::Connect {
            address: address.to_owned(),
            source,
        })?;
        let mut connection = Connection {
            address: address.to_owned(),
            stream,
            session: Session::new(client_id),
            clock: Arc::clone(&env.clock),
            timeout,
            until,
            set,
        };
        for oldest in [false, true] {
            let hello = connection.session.hello(oldest)?;
            let written = connection.write(&hello);
            let reply = written
                .and_then(|()| connection.receive())
                .map_err(Error::before_greeting)?;
            match connection.session.negotiated(&reply) {
                Ok(true) => {
                    connection.until = None;
                    return Ok(connection);
                }
                Ok(false) => {}
                Err(fault) => return Err(connection.garbled(ApiKey::ApiVersions, fault)),
            }
        }
        Err(connection.garbled(
            ApiKey::ApiVersions,
            Garbage::Content("it does not know version 0"),
        ))
    }

    /// Bounds all later waits together.
    pub(crate) fn bound(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// Gives the socket the time that its next wait may take.
    fn settle(&mut self) -> io::Result<()> {
        let left = self.until.map(|until| until.since(self.clock.now()));
        let allowed = left.unwrap_or(self.timeout).min(self.timeout);
        let (allowed, most) = (allowed.max(WAIT_MIN), allowed + SLACK);
        if allowed <= self.set && self.set < most {
            return Ok(());
        }
        // The time of a peer that answers begins anew again and again, and is never much less than all of it.
        self.set = if self.timeout < most {
            self.timeout
        } else {
            allowed
        };
        self.stream.set_timeout(self.set)
    }

    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    #[must_use]
    pub fn version(&self, key: ApiKey) -> Option<i16> {
        self.session.version(key)
    }

    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.session.unanswered()
    }

    /// Sends a request without waiting for its answer; returns its correlation id.
    pub fn send<R: Request>(&mut self, request: &R) -> Result<i32, Error> {
        self.send_up_to(request, i16::MAX)
    }

    /// The same in a version of at most `limit`.
    pub fn send_up_to<R: Request>(&mut self, request: &R, limit: i16) -> Result<i32, Error> {
        let encoded = self
            .session
            .request_up_to(request, limit)
            .map_err(|error| match error {
                RequestError::Unsupported(api) => Error::Unsupported {
                    address: self.address.clone(),
                    api,
                },
                RequestError::Encode(error) => Error::Encode(error),
            })?;
        self.write(&encoded)?;
        Ok(self.session.last_correlation())
    }

    /// Sends a request that gets no answer.
    pub fn send_unanswered_up_to<R: Request>(
        &mut self,
        request: &R,
        limit: i16,
    ) -> Result<(), Error> {
        self.send_up_to(request, limit)?;
        self.session.forget_last();
        Ok(())
    }

    /// The next answer, in the order of the requests.
    pub fn receive(&mut self) -> Result<Reply, Error> {
        loop {
            let due = self.session.due().unwrap_or(ApiKey::ApiVersions);
            match self.session.reply() {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(fault) => return Err(self.garbled(due, fault)),
            }
            self.settle().map_err(|source| self.lost(source))?;
            match self.session.receive(&mut self.stream) {
                Ok(0) => return Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    /// Waits for the next answer and decodes it as that of an `R`.
    pub fn receive_as<R: Request>(&mut self) -> Result<R::Response, Error> {
        let reply = self.receive()?;
        self.decode::<R>(&reply)
    }

    pub fn decode<R: Request>(&self, reply: &Reply) -> Result<R::Response, Error> {
        reply
            .decode::<R>()
            .map_err(|fault| self.garbled(R::KEY, fault.into()))
    }

    /// One question, one answer. Nothing else may be under way.
    pub fn call<R: Request>(&mut self, request: &R) -> Result<R::Response, Error> {
        self.call_up_to(request, i16::MAX)
    }

    /// The same in a version of at most `limit`.
    pub(crate) fn call_up_to<R: Request>(
        &mut self,
        request: &R,
        limit: i16,
    ) -> Result<R::Response, Error> {
        assert_eq!(
            self.unanswered(),
            0,
            "a call needs the connection for itself"
        );
        self.send_up_to(request, limit)?;
        self.receive_as::<R>()
    }

    fn write(&mut self, encoded: &Encoded) -> Result<(), Error> {
        let pieces: Vec<_> = encoded
            .segments()
            .filter_map(|segment| match segment {
                Splice::Bytes(bytes) => Some(bytes),
                // The client builds its requests in memory only.
                Splice::External(_) => None,
            })
            .collect();
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        self.settle().map_err(|source| self.lost(source))?;
        let written = write_all(&mut self.stream, &mut slices);
        written.map_err(|source| self.lost(source))
    }

    fn lost(&self, source: io::Error) -> Error {
        // A socket says that its time limit passed in two ways, and in words that nobody understands.
        let source = match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
            }
            _ => source,
        };
        Error::Lost {
            address: self.address.clone(),
            source,
        }
    }

    fn garbled(&self, api: ApiKey, fault: Garbage) -> Error {
        Error::Garbled {
            address: self.address.clone(),
            api,
            fault,
        }
    }
}

fn write_all(out: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        match out.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut slices, n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    out.flush()
}
