//! Blocking connections for command-line clients.
//!
//! An address with a slash is a path. A name may resolve to several addresses: they are tried in order within one time limit, and the last error is told.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::Stream;

impl Stream for TcpStream {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl Stream for UnixStream {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

pub(super) fn dial(address: &str, timeout: Duration) -> io::Result<Box<dyn Stream>> {
    if address.contains('/') {
        let mut stream = UnixStream::connect(address)?;
        stream.set_timeout(timeout)?;
        return Ok(Box::new(stream));
    }
    let deadline = Instant::now() + timeout;
    let mut failed = None;
    for address in resolve(address)? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(mut stream) => {
                stream.set_nodelay(true)?;
                stream.set_timeout(timeout)?;
                return Ok(Box::new(stream));
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| io::ErrorKind::TimedOut.into()))
}

/// Addresses of `host:port`, each once; never empty.
pub(super) fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for found in address.to_socket_addrs()? {
        // A hosts file may name an address twice.
        if !addresses.contains(&found) {
            addresses.push(found);
        }
    }
    if addresses.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("no address for {address}"),
        ));
    }
    Ok(addresses)
}
