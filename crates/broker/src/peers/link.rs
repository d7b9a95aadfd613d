//! One connection to another node, as a machine without IO.
//!
//! `Dialling -> (Login ->) Versions -> Open`: both ends prove that they know the secret of the cluster, then comes one question for the versions that
//! the other end speaks, and requests wait for its answer.
//! From then on each is encoded in the newest version that both ends know, and a request that has none fails alone. Answers
//! come in the order of their requests. A link that has to refuse a request ends once it is idle, so that the next one asks for the versions
//! anew: a node may list more once it is no longer alone. An answer keeps no more memory than its own bytes (see [`intake`]).

mod intake;
mod login;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use model::Instant;
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse, ResponseHeader};
use wire::{ApiKey, Message, Reader};

pub(super) use self::intake::SharedBuffer;
use self::intake::{Garbage, Intake};
pub(super) use self::login::Refused;
use self::login::{Handshake, LoginStage, Next};
use super::identity::Login;
use super::request::{Answer, Encodable};
use super::versions::{Ceilings, Versions};

/// Extra time for a reply that has begun to arrive.
const PROGRESS_WAIT: Duration = Duration::from_secs(5);
/// The version of the question for versions: every node answers it, however old.
const HELLO_VERSION: i16 = 0;

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum Reply<T> {
    Answered { of: T, key: ApiKey, answer: Answer },
    Failed { of: T, why: Lost },
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nobody listens at the address.
    Refused,
    /// The connection ended, or could not be made.
    Ended {
        /// The whole request had left: the other end may have carried it out.
        was_sent: bool,
    },
    /// The other end knows the request in no version that says all of it.
    Unsupported,
}

/// A request that the other end does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) key: ApiKey,
    /// The newest version that both ends know, if there is one.
    pub(super) newest: Option<i16>,
}

struct Waiting<T> {
    request: Box<dyn Encodable>,
    until: Option<Instant>,
    of: T,
}

struct Asked<T> {
    correlation: i32,
    key: ApiKey,
    version: i16,
    until: Option<Instant>,
    of: T,
}

/// Why a link cannot go on.
#[derive(Debug)]
pub(super) enum Fault {
    /// The other end does not speak the protocol.
    Garbage,
    /// The ends do not prove themselves to each other.
    Login(Refused),
}

impl From<Garbage> for Fault {
    fn from(_: Garbage) -> Fault {
        Fault::Garbage
    }
}

enum Stage {
    /// With what is to be proved once there is a connection.
    Dialling(Option<Login>),
    Login(LoginStage),
    Versions,
    Open(Versions),
}

pub(super) struct Link<T> {
    stage: Stage,
    ceilings: Ceilings,
    /// Asks for no versions: its one request is a question for them.
    is_probe: bool,
    correlation: i32,
    /// Requests that wait for the versions.
    waiting: VecDeque<Waiting<T>>,
    unsent: VecDeque<Bytes>,
    asked: VecDeque<Asked<T>>,
    intake: Intake,
    /// Something came since it was overdue last.
    has_progressed: bool,
    /// It refused a request.
    is_stale: bool,
    unknown: Vec<Unknown>,
    replies: Vec<Reply<T>>,
}

impl<T> Link<T> {
    pub(super) fn new(ceilings: Ceilings, is_probe: bool, login: Option<Login>) -> Link<T> {
        Link {
            stage: Stage::Dialling(login),
            ceilings,
            is_probe,
            correlation: 0,
            waiting: VecDeque::new(),
            unsent: VecDeque::new(),
            asked: VecDeque::new(),
            intake: Intake::default(),
            has_progressed: false,
            is_stale: false,
            unknown: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Takes a request. One that can go at once is encoded where it is.
    pub(super) fn ask<R: Encodable + 'static>(
        &mut self,
        request: R,
        until: Option<Instant>,
        of: T,
    ) {
        if matches!(self.stage, Stage::Open(_)) {
            self.encode(&request, until, of);
        } else {
            let request = Box::new(request);
            self.waiting.push_back(Waiting { request, until, of });
        }
    }

    /// There is a connection.
    pub(super) fn on_connected(&mut self) {
        let Stage::Dialling(login) = &mut self.stage else {
            return;
        };
        let login = login.take();
        if self.is_probe {
            return self.open(Versions::of_probe());
        }
        let Some(login) = login else {
            self.stage = Stage::Versions;
            return self.ask_versions();
        };
        let Handshake { frames, stage } = login::begin(login);
        self.unsent.extend(frames);
        self.stage = Stage::Login(stage);
    }

    fn ask_versions(&mut self) {
        let hello = ApiVersionsRequest::default();
        // It has no field that could be too long.
        self.unsent.extend(hello.frame(HELLO_VERSION, 0));
    }

    /// Goes on with the login. The question for the versions goes with the last message of it: only an end that took the proof answers it.
    fn on_login(&mut self, stage: LoginStage, frame: Bytes) -> Result<(), Fault> {
        match stage.on_answer(frame)? {
            Next::Waits(stage) => self.stage = Stage::Login(stage),
            Next::Proves(last, stage) => {
                self.unsent.push_back(last);
                self.ask_versions();
                self.stage = Stage::Login(stage);
            }
            Next::Done => self.stage = Stage::Versions,
            Next::GoesWithout => {
                self.ask_versions();
                self.stage = Stage::Versions;
            }
        }
        Ok(())
    }

    fn open(&mut self, versions: Versions) {
        self.stage = Stage::Open(versions);
        for Waiting { request, until, of } in std::mem::take(&mut self.waiting) {
            self.encode(&*request, until, of);
        }
    }

    fn encode(&mut self, request: &dyn Encodable, until: Option<Instant>, of: T) {
        let Stage::Open(versions) = &self.stage else {
            return;
        };
        let key = request.key();
        let newest = versions.newest(key, request.version_max());
        self.correlation = self.correlation.wrapping_add(1).max(1);
        let correlation = self.correlation;
        let encoded = newest.and_then(|version| {
            let frame = request.frame(version, correlation).ok()?;
            Some((version, frame))
        });
        let Some((version, frame)) = encoded else {
            self.is_stale = true;
            self.unknown.push(Unknown { key, newest });
            let why = Lost::Unsupported;
            return self.replies.push(Reply::Failed { of, why });
        };
        self.unsent.push_back(frame);
        self.asked.push_back(Asked {
            correlation,
            key,
            version,
            until,
            of,
        });
    }

    /// The bytes that go next.
    pub(super) fn unsent(&self) -> Option<&[u8]> {
        self.unsent.front().map(|front| &front[..])
    }

    pub(super) fn on_sent(&mut self, count: usize) {
        if let Some(front) = self.unsent.front_mut() {
            front.advance(count.min(front.len()));
            if front.is_empty() {
                self.unsent.pop_front();
            }
        }
    }

    /// Receives once with `recv`. Returns how many bytes that were, 0 if the other end closed its side.
    pub(super) fn receive(
        &mut self,
        shared: &mut SharedBuffer,
        recv: impl FnOnce(&mut BytesMut) -> io::Result<usize>,
    ) -> io::Result<Result<usize, Fault>> {
        let received = self.intake.receive(shared, recv)?;
        Ok(received.map_err(Fault::from).and_then(|count| {
            if 0 < count {
                self.has_progressed = true;
                self.take_answers()?;
            }
            Ok(count)
        }))
    }

    /// Matches whole answers with their requests; an error for an answer that nobody asked for.
    fn take_answers(&mut self) -> Result<(), Fault> {
        for frame in self.intake.take_whole() {
            self.has_progressed = false;
            match std::mem::replace(&mut self.stage, Stage::Versions) {
                Stage::Login(stage) => {
                    self.on_login(stage, frame)?;
                    continue;
                }
                Stage::Versions => {
                    self.on_versions(frame)?;
                    continue;
                }
                other => self.stage = other,
            }
            let asked = self.asked.pop_front().ok_or(Garbage)?;
            let Asked {
                correlation,
                key,
                version,
                of,
                ..
            } = asked;
            let Ok(body) = body(frame, correlation, key.response_header_version(version)) else {
                let why = Lost::Ended { was_sent: true };
                self.replies.push(Reply::Failed { of, why });
                return Err(Fault::Garbage);
            };
            let answer = Answer { version, body };
            self.replies.push(Reply::Answered { of, key, answer });
        }
        Ok(())
    }

    fn on_versions(&mut self, frame: Bytes) -> Result<(), Garbage> {
        let header = ApiKey::ApiVersions.response_header_version(HELLO_VERSION);
        let body = body(frame, 0, header)?;
        let read = ApiVersionsResponse::decode(&mut Reader::new(body), HELLO_VERSION);
        let theirs = read.ok().filter(|read| read.error_code == 0);
        let versions = Versions::common(&theirs.ok_or(Garbage)?, &self.ceilings);
        self.open(versions);
        Ok(())
    }

    pub(super) fn is_asked(&self) -> bool {
        !self.asked.is_empty() || !self.waiting.is_empty()
    }

    /// True if it is to end: nothing waits for an answer, and it could not carry a request.
    pub(super) fn is_over(&self) -> bool {
        self.is_stale && !self.is_asked()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        // One that answers nothing is overdue with the first request that is.
        let waiting = self.waiting.iter().filter_map(|waiting| waiting.until);
        self.asked
            .front()
            .and_then(|asked| asked.until)
            .into_iter()
            .chain(waiting.min())
            .min()
    }

    /// Waits on where the first request is overdue while its answer arrives: records may be long on their way.
    pub(super) fn extend(&mut self, now: Instant) {
        if let Some(first) = self.asked.front_mut()
            && first.until.is_some_and(|at| at <= now)
            && std::mem::take(&mut self.has_progressed)
        {
            first.until = Some(now.plus(PROGRESS_WAIT));
        }
    }

    /// All requests fail.
    pub(super) fn end(mut self, is_refused: bool) -> Vec<Reply<T>> {
        // Nobody acts upon a frame of which a part is missing. Before it is open none of its requests has left.
        let sent = self.asked.len().saturating_sub(self.unsent.len());
        let asked = self.asked.into_iter().enumerate();
        let asked = asked.map(|(at, asked)| (asked.of, at < sent));
        let waiting = self.waiting.into_iter().map(|waiting| (waiting.of, false));
        self.replies
            .extend(asked.chain(waiting).map(|(of, was_sent)| {
                let why = match is_refused {
                    true => Lost::Refused,
                    false => Lost::Ended { was_sent },
                };
                Reply::Failed { of, why }
            }));
        self.replies
    }

    pub(super) fn take_replies(&mut self) -> Vec<Reply<T>> {
        std::mem::take(&mut self.replies)
    }

    pub(super) fn take_unknown(&mut self) -> Vec<Unknown> {
        std::mem::take(&mut self.unknown)
    }
}

/// The body of the answer to a request of that number.
fn body(frame: Bytes, correlation: i32, header_version: i16) -> Result<Bytes, Garbage> {
    let mut reader = Reader::new(frame);
    let header = ResponseHeader::decode(&mut reader, header_version);
    let is_ours = header.is_ok_and(|header| header.correlation_id == correlation);
    let body = reader.take(reader.remaining());
    match (is_ours, body) {
        (true, Ok(body)) => Ok(body),
        _ => Err(Garbage),
    }
}
