//! A connection that sends whatever it is given: no negotiation, no login of its own, no retries.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// One connection. Frames go out and come in as they are, without their length.
pub(crate) struct Peer {
    stream: TcpStream,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Frame(Vec<u8>),
    /// The other end closed the connection instead.
    Closed,
    /// Neither came in time.
    Silence,
}

impl Peer {
    /// Connects; `patience` bounds each later wait.
    pub(crate) fn connect(address: &str, patience: Duration) -> io::Result<Peer> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Peer { stream })
    }

    /// Sends bytes without a length before them.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(crate) fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let mut whole = Vec::with_capacity(4 + frame.len());
        whole.extend_from_slice(&(frame.len() as u32).to_be_bytes());
        whole.extend_from_slice(frame);
        self.send_raw(&whole)
    }

    pub(crate) fn receive(&mut self) -> Reply {
        let mut length = [0; 4];
        let mut read = |into: &mut [u8]| match self.stream.read_exact(into) {
            Ok(()) => None,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Some(Reply::Silence),
                _ => Some(Reply::Closed),
            },
        };
        if let Some(end) = read(&mut length) {
            return end;
        }
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        read(&mut frame).unwrap_or(Reply::Frame(frame))
    }

    /// Sends a frame and returns what comes of it. A connection that is closed while we send counts as closed.
    pub(crate) fn ask(&mut self, frame: &[u8]) -> Reply {
        match self.send(frame) {
            Ok(()) => self.receive(),
            Err(_) => Reply::Closed,
        }
    }
}

impl Peer {
    /// Each later wait ends after this.
    pub(crate) fn wait_at_most(&mut self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))
    }
}
