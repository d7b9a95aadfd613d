//! Sockets, as readiness and non-blocking calls.
//!
//! A [`Poller`] belongs to one thread and owns its connections. Readiness is edge triggered: after an event read (or write)
//! until `WouldBlock`. [`Stream`] is the blocking kind for command-line clients.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;

use crate::disk::FileHandle;

/// A connection of one poller, accepted or dialled; never reused within the life of that poller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// A listener has connections to accept.
    Accept,
    /// The connection may be read or written (or both: try, and stop at `WouldBlock`).
    Conn {
        conn: ConnId,
        readable: bool,
        writable: bool,
    },
}

/// An accepted connection on its way to the poller that will own it.
pub struct Socket {
    pub peer: SocketAddr,
    /// Address the peer connected to: what we advertise when nothing else is configured.
    pub local: SocketAddr,
    /// True for an administrator of this machine, who came by a socket in the file system. Both addresses are the loopback's then,
    /// with port 0.
    pub is_administrator: bool,
    pub inner: Box<dyn std::any::Any + Send>,
}

/// Wakes a poller from another thread.
pub trait Wake: Send + Sync {
    fn wake(&self);
}

pub trait Net: Send + Sync {
    fn poller(&self) -> io::Result<Box<dyn Poller>>;
    /// Blocking connection for clients, to `host:port` or, where `address` has a slash, to a socket in the file system; `timeout`
    /// bounds connecting and each read and write.
    fn dial(&self, address: &str, timeout: Duration) -> io::Result<Box<dyn Stream>>;
    /// Addresses of `host:port`, each once; never empty. Asks the system's resolver where the host is a name, and waits for it.
    fn resolve(&self, address: &str) -> io::Result<Vec<SocketAddr>>;
}

pub trait Stream: Read + Write + Send {
    /// Bounds each later read and write, in the place of the time that was given to [`Net::dial`]. Not zero.
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()>;
}

pub trait Poller: Send {
    /// Appends what became ready to `ready`; waits up to `timeout` (`None`: until something happens or `wake`).
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<()>;
    fn waker(&self) -> Arc<dyn Wake>;
    /// Listens on `address` (`host:port`, port 0 picks one), at every address of a name; returns the first that is bound.
    fn listen(&mut self, address: &str) -> io::Result<SocketAddr>;
    /// Listens at a socket in the file system, which takes the place of one that nobody listens at any more. Only root and the
    /// user of this process are accepted there; others are sent away.
    fn listen_at(&mut self, path: &Path) -> io::Result<()>;
    /// Next accepted socket of any listener of this poller, or of those at the ports `only` and in the file system; `None` when
    /// there is none now. Peers that nobody accepts wait; no new edge reports those.
    fn accept(&mut self, only: Option<&[u16]>) -> io::Result<Option<Socket>>;
    /// Begins a connection to `address` and does not wait for it. Until it stands, sends and receives are `WouldBlock`; then, or
    /// when it failed, the next `wait` reports it as ready, and after a failure each send and receive is that error. A peer
    /// that never answers is only noticed after minutes: bring a deadline.
    fn connect(&mut self, address: SocketAddr) -> io::Result<ConnId>;
    /// Takes ownership of a socket; its first readiness is reported by the next `wait`.
    fn adopt(&mut self, socket: Socket) -> io::Result<ConnId>;
    /// Receives behind what `into` holds, as much as its capacity has room for, which is some. 0 means the peer closed its side.
    fn recv(&mut self, conn: ConnId, into: &mut BytesMut) -> io::Result<usize>;
    fn send(&mut self, conn: ConnId, bufs: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Sends `len` bytes of `file` from `position` without copying where the OS can.
    fn send_file(
        &mut self,
        conn: ConnId,
        file: &FileHandle,
        position: u64,
        len: usize,
    ) -> io::Result<usize>;
    fn close(&mut self, conn: ConnId);
}
