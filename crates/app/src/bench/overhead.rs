//! The cost of a record beside its value: bytes in the log and bytes on the wire.
//!
//! The log's bytes are what the brokers say (DescribeLogDirs), of one copy. The wire's are counted in our own sockets, connecting
//! and metadata included, so few records look worse than many.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::net::{Net, Poller};
use env::{Env, Stream};
use serde::Serialize;

/// Per record, without the value itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Overhead {
    pub(super) log_bytes: f64,
    pub(super) sent_bytes: f64,
    pub(super) received_bytes: f64,
}

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
}

/// Counts the bytes of every connection that is dialled through [`Traffic::over`].
#[derive(Clone, Default)]
pub(super) struct Traffic(Arc<Counts>);

impl Traffic {
    pub(super) fn over(&self, env: &Env) -> Env {
        let net = Counting {
            net: Arc::clone(&env.net),
            counts: Arc::clone(&self.0),
        };
        Env {
            net: Arc::new(net),
            ..env.clone()
        }
    }

    /// Of so many records with values of `size` bytes, which take `log_bytes` in the log.
    pub(super) fn overhead(&self, log_bytes: u64, records: u64, size: usize) -> Overhead {
        let each = |bytes: u64| bytes as f64 / records.max(1) as f64;
        Overhead {
            log_bytes: each(log_bytes) - size as f64,
            sent_bytes: each(self.0.sent.load(Ordering::Relaxed)) - size as f64,
            received_bytes: each(self.0.received.load(Ordering::Relaxed)),
        }
    }
}

struct Counting {
    net: Arc<dyn Net>,
    counts: Arc<Counts>,
}

impl Net for Counting {
    fn poller(&self) -> io::Result<Box<dyn Poller>> {
        self.net.poller()
    }

    fn dial(&self, address: &str, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(Counted {
            stream: self.net.dial(address, timeout)?,
            counts: Arc::clone(&self.counts),
        }))
    }

    fn resolve(&self, address: &str) -> io::Result<Vec<SocketAddr>> {
        self.net.resolve(address)
    }
}

struct Counted {
    stream: Box<dyn Stream>,
    counts: Arc<Counts>,
}

impl Counted {
    fn sent(&self, result: io::Result<usize>) -> io::Result<usize> {
        if let Ok(n) = result {
            self.counts.sent.fetch_add(n as u64, Ordering::Relaxed);
        }
        result
    }
}

impl Stream for Counted {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.stream.set_timeout(timeout)
    }
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.stream.read(buf)?;
        self.counts.received.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Write for Counted {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let result = self.stream.write(buf);
        self.sent(result)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = self.stream.write_vectored(bufs);
        self.sent(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
