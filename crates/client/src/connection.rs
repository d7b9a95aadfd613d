//! A session on a blocking socket.
//!
//! Owns one stream. After any error the connection is of no use: what was sent may or may not have been done. With a login, nothing is asked
//! before it is done, and the connection logs in again before the end of its session (KIP-368).

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::sync::Arc;
use std::time::Duration;

use env::{Clock, Env, Rng, Stream};
use model::Instant;
use security::login::scram::NONCE_RANDOM_BYTES;
use wire::messages::SaslHandshakeRequest;
use wire::{ApiKey, Encoded, Request, Splice};

use crate::error::{Error, Garbage, LoginRefusal};
use crate::login::{self, Login, LoginFault, LoginNext};
use crate::options::Options;
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
    entry: Option<Entry>,
    /// Answers that were taken to have the connection free for a login: they come before others.
    taken: VecDeque<Reply>,
    /// True once a request was answered after the greeting.
    is_served: bool,
}

/// The user of a connection.
struct Entry {
    login: Login,
    rng: Arc<dyn Rng>,
    /// The moment for the next login; `None` where the session has no end.
    again: Option<Instant>,
}

/// The part of a session's life after which its user logs in again, in thousandths: chance keeps clients from doing so in step (KIP-368).
const LIFE_PART: std::ops::RangeInclusive<u64> = 850..=950;

/// A mechanism that any listener may have, to ask which ones it has.
const PROBED: &str = "SCRAM-SHA-256";

/// A wait may end so much after its time: most waits need no call to the system then.
const SLACK: Duration = Duration::from_millis(100);
/// No socket takes a time of zero.
const WAIT_MIN: Duration = Duration::from_millis(1);

impl Connection {
    /// Connects, negotiates versions and logs in; `io_timeout` bounds connecting and every later wait for bytes.
    pub fn open(env: &Env, address: &str, options: &Options) -> Result<Connection, Error> {
        Connection::open_by(env, address, options, None)
    }

    /// The same, ready by `until`, which bounds no later wait.
    pub(crate) fn open_by(
        env: &Env,
        address: &str,
        options: &Options,
        until: Option<Instant>,
    ) -> Result<Connection, Error> {
        let mut connection = Connection::greeted(env, address, options, until)?;
        if let Some(login) = &options.login {
            connection.entry = Some(Entry {
                login: login.clone(),
                rng: Arc::clone(&env.rng),
                again: None,
            });
            let user = login.user();
            connection
                .log_in()
                .map_err(|error| error.before_login(user))?;
        }
        connection.until = None;
        Ok(connection)
    }

    fn greeted(
        env: &Env,
        address: &str,
        options: &Options,
        until: Option<Instant>,
    ) -> Result<Connection, Error> {
        let timeout = options.io_timeout;
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
            session: Session::new(&options.client_id),
            clock: Arc::clone(&env.clock),
            timeout,
            until,
            set,
            entry: None,
            taken: VecDeque::new(),
            is_served: false,
        };
        for oldest in [false, true] {
            let hello = connection.session.hello(oldest)?;
            let written = connection.write(&hello);
            let reply = written
                .and_then(|()| connection.await_reply())
                .map_err(Error::before_greeting)?;
            match connection.session.negotiated(&reply) {
                Ok(true) => return Ok(connection),
                Ok(false) => {}
                Err(fault) => return Err(connection.garbled(ApiKey::ApiVersions, fault)),
            }
        }
        Err(connection.garbled(
            ApiKey::ApiVersions,
            Garbage::Content("it does not know version 0"),
        ))
    }

    /// The mechanisms by which clients log in at a listener; none where it takes no login.
    pub(crate) fn mechanisms(
        env: &Env,
        address: &str,
        options: &Options,
        until: Option<Instant>,
    ) -> Result<Vec<String>, Error> {
        let mut connection = Connection::greeted(env, address, options, until)?;
        let mechanism = PROBED.to_owned();
        let answer = connection.call(&SaslHandshakeRequest { mechanism })?;
        Ok(login::names(answer.mechanisms))
    }

    /// True if it has no user, and its broker has said nothing but which versions it speaks, SASL among them: it may want a login.
    pub(crate) fn may_want_login(&self) -> bool {
        let speaks_sasl = self.version(ApiKey::SaslHandshake).is_some();
        self.entry.is_none() && !self.is_served && speaks_sasl
    }

    /// Logs in, for the first time or again. Nothing may be under way.
    fn log_in(&mut self) -> Result<(), Error> {
        let Some(mut entry) = self.entry.take() else {
            return Ok(());
        };
        // The life of the session begins after this moment.
        let began = self.clock.now();
        let life = self.exchange_tokens(&mut entry);
        if let Ok(life) = &life {
            entry.again = life.map(|life| began.plus(part(life, entry.rng.next_u64())));
        }
        self.entry = Some(entry);
        life.map(drop)
    }

    /// The life of the session, if it has an end.
    fn exchange_tokens(&mut self, entry: &mut Entry) -> Result<Option<Duration>, Error> {
        let mut random = [0; NONCE_RANDOM_BYTES];
        entry.rng.fill(&mut random);
        let login = &mut entry.login;
        let begun = login.begin(&mut self.session, random);
        let (mut request, mut step) = begun.map_err(|fault| self.not_in(login, fault))?;
        loop {
            self.write(&request)?;
            let reply = self.await_reply()?;
            let next = step.on_reply(&reply, login, &mut self.session);
            match next.map_err(|fault| self.not_in(login, fault))? {
                LoginNext::Send(encoded, next) => (request, step) = (encoded, next),
                LoginNext::Done(life) => return Ok(life),
            }
        }
    }

    /// Logs in again where it is time to. What is under way is waited for first, and kept: no token comes between requests and their answers.
    fn stay_logged_in(&mut self) -> Result<(), Error> {
        let again = self.entry.as_ref().and_then(|entry| entry.again);
        if again.is_none_or(|again| self.clock.now() < again) {
            return Ok(());
        }
        while 0 < self.session.unanswered() {
            let reply = self.await_reply()?;
            self.taken.push_back(reply);
        }
        self.log_in().map_err(|error| match error {
            // A broker takes one login a second (KIP-368), which is too few for a session of less.
            Error::Login {
                why: LoginRefusal::NotAsked,
                ..
            } => self.lost(io::Error::other("its broker takes no other login now")),
            error => error,
        })
    }

    fn not_in(&self, login: &Login, fault: LoginFault) -> Error {
        match fault {
            LoginFault::Refused(why) => Error::Login {
                address: self.address.clone(),
                user: login.user().to_owned(),
                mechanism: login.mechanism().name(),
                why,
            },
            LoginFault::Garbage(api, fault) => self.garbled(api, fault),
            LoginFault::Request(error) => self.unsent(error),
        }
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
        self.session.unanswered() + self.taken.len()
    }

    /// Sends a request without waiting for its answer; returns its correlation id.
    pub fn send<R: Request>(&mut self, request: &R) -> Result<i32, Error> {
        self.send_up_to(request, i16::MAX)
    }

    /// The same in a version of at most `limit`.
    pub fn send_up_to<R: Request>(&mut self, request: &R, limit: i16) -> Result<i32, Error> {
        self.stay_logged_in()?;
        let encoded = self.session.request_up_to(request, limit);
        let encoded = encoded.map_err(|error| self.unsent(error))?;
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
        let reply = match self.taken.pop_front() {
            Some(reply) => reply,
            None => self.await_reply()?,
        };
        self.is_served = true;
        Ok(reply)
    }

    fn await_reply(&mut self) -> Result<Reply, Error> {
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

    fn unsent(&self, error: RequestError) -> Error {
        match error {
            RequestError::Unsupported(api) => Error::Unsupported {
                address: self.address.clone(),
                api,
            },
            RequestError::Encode(error) => Error::Encode(error),
        }
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

/// The time until the next login, of a session's life.
fn part(life: Duration, chance: u64) -> Duration {
    let (first, last) = LIFE_PART.into_inner();
    let thousandths = first + chance % (last - first + 1);
    life / 1000 * u32::try_from(thousandths).unwrap_or(1000)
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
