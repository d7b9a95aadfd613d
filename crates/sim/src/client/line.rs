//! One connection of a simulated client: frames out, frames in, answers matched to requests by their order.
//!
//! Never blocks. Invariant: answers come in the order of the requests; anything else is a fault of the broker and is told as
//! such, not swallowed.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use env::sim::{Outside, SimConn};
use wire::{ApiKey, ErrorCode, Reader, Request, frame};

/// The port of every simulated broker.
pub(crate) const PORT: u16 = 9092;
/// Where the clients of a lone broker find it.
pub(crate) const LONE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT);
/// A longer answer than any client here asks for is a broken frame.
const FRAME_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    correlation: i32,
    key: ApiKey,
    version: i16,
}

/// An answer, not decoded yet.
pub(crate) struct RawAnswer {
    asked: Asked,
    body: Bytes,
}

#[derive(Debug)]
pub(crate) enum LineError {
    /// The connection ended; what was under way may have arrived.
    Gone,
    /// The broker sent something that is no answer to what was asked.
    Nonsense(String),
}

pub(crate) fn nonsense(what: impl ToString) -> LineError {
    LineError::Nonsense(what.to_string())
}

/// An error code that an answer holds.
pub(crate) fn code(code: i16) -> Result<ErrorCode, LineError> {
    ErrorCode::try_from(code).map_err(nonsense)
}

pub(crate) struct Line {
    conn: SimConn,
    out: VecDeque<u8>,
    inbox: Vec<u8>,
    asked: VecDeque<Asked>,
    next: i32,
}

impl Line {
    pub(crate) fn open(world: &Outside, address: SocketAddr) -> io::Result<Line> {
        let conn = world.connect(address)?;
        Ok(Line {
            conn,
            out: VecDeque::new(),
            inbox: Vec::new(),
            asked: VecDeque::new(),
            next: 1,
        })
    }

    pub(crate) fn conn(&self) -> &SimConn {
        &self.conn
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.out.is_empty() || self.conn.is_readable()
    }

    pub(crate) fn unanswered(&self) -> usize {
        self.asked.len()
    }

    /// Puts a request on its way; `answered` is false for the one kind that gets no answer.
    pub(crate) fn ask<R: Request>(&mut self, request: &R, version: i16, answered: bool) -> i32 {
        let correlation = self.next;
        self.next += 1;
        let encoded = frame::encode_request(request, version, correlation, Some("sim"))
            .and_then(wire::Encoded::into_bytes)
            .expect("a request of ours can be encoded");
        self.out.extend(encoded.iter());
        if answered {
            self.asked.push_back(Asked {
                correlation,
                key: R::KEY,
                version,
            });
        }
        correlation
    }

    /// Sends and receives what is possible now; the next whole answer if there is one.
    pub(crate) fn poll(&mut self) -> Result<Option<RawAnswer>, LineError> {
        self.flush()?;
        loop {
            if let Some(answer) = self.cut()? {
                return Ok(Some(answer));
            }
            let mut buf = [0; 16 << 10];
            match self.conn.recv(&mut buf) {
                Ok(0) => return Err(LineError::Gone),
                Ok(read) => self.inbox.extend_from_slice(&buf[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(LineError::Gone),
            }
        }
    }

    fn flush(&mut self) -> Result<(), LineError> {
        while !self.out.is_empty() {
            let (front, _) = self.out.as_slices();
            match self.conn.send(front) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(LineError::Gone),
            }
        }
        Ok(())
    }

    fn cut(&mut self) -> Result<Option<RawAnswer>, LineError> {
        let Some(prefix) = self.inbox.first_chunk::<4>() else {
            return Ok(None);
        };
        let len = usize::try_from(i32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
        if len > FRAME_BYTES_MAX {
            return Err(LineError::Nonsense(format!("a frame of {len} bytes")));
        }
        if self.inbox.len() < 4 + len {
            return Ok(None);
        }
        let body = Bytes::copy_from_slice(&self.inbox[4..4 + len]);
        self.inbox.drain(..4 + len);
        match self.asked.pop_front() {
            Some(asked) => Ok(Some(RawAnswer { asked, body })),
            None => Err(LineError::Nonsense(
                "an answer that nobody asked for".to_owned(),
            )),
        }
    }
}

impl RawAnswer {
    pub(crate) fn correlation(&self) -> i32 {
        self.asked.correlation
    }

    pub(crate) fn decode<R: Request>(&self) -> Result<R::Response, LineError> {
        let nonsense = |what: String| LineError::Nonsense(format!("{:?}: {what}", self.asked));
        if self.asked.key != R::KEY {
            return Err(nonsense("decoded as something else".to_owned()));
        }
        let mut reader = Reader::new(self.body.clone());
        let (correlation, response) = frame::decode_response::<R>(&mut reader, self.asked.version)
            .map_err(|error| nonsense(error.to_string()))?;
        if correlation != self.asked.correlation {
            return Err(nonsense(format!("answered with correlation {correlation}")));
        }
        if reader.remaining() > 0 {
            return Err(nonsense(format!("{} bytes too many", reader.remaining())));
        }
        Ok(response)
    }

    pub(crate) fn key(&self) -> ApiKey {
        self.asked.key
    }
}
