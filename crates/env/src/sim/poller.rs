//! Handles on the simulated network: the broker's poller, blocking streams, and connections of simulated clients.
//!
//! A wait inside a worker's turn never blocks; a wait from outside lets the machine run until there is news.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;

use super::host::{HostId, Life};
use super::links::{Site, address_of};
use super::net::{CLIENT, SERVER};
use super::threads::{Step, interrupt, step};
use super::world::{SharedWorld, World};
use crate::disk::FileHandle;
use crate::net::{ConnId, Net, Poller, Readiness, Socket, Stream, Wake};

pub(crate) struct SimNet {
    pub(crate) shared: SharedWorld,
    pub(crate) life: Life,
}

/// A name server that is silent is waited for so long.
const SILENCE_NANOS: u64 = 3_600_000_000_000;

/// The name of the machine that has the number.
fn named(host: &str) -> Option<IpAddr> {
    let number = host.strip_prefix("node-")?.parse().ok()?;
    Some(address_of(HostId(number)).into())
}

/// Names that are of no machine are of the host that asks.
fn resolve(address: &str) -> io::Result<SocketAddr> {
    let parsed = address.rsplit_once(':').and_then(|(host, port)| {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let ip = host.parse().ok().or_else(|| named(host));
        Some(SocketAddr::new(ip.unwrap_or(local), port.parse().ok()?))
    });
    parsed.ok_or_else(|| ErrorKind::InvalidInput.into())
}

impl Net for SimNet {
    fn poller(&self) -> io::Result<Box<dyn Poller>> {
        let mut world = self.shared.world.lock();
        world.check_on(self.life)?;
        let number = world.network.new_poller(self.life.host);
        Ok(Box::new(SimPoller {
            shared: self.shared.clone(),
            life: self.life,
            number,
            copy: Vec::new(),
        }))
    }

    fn dial(&self, address: &str, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        let from = Site::Host(self.life.host);
        let conn = SimConn::connect(&self.shared, from, resolve(address)?)?;
        Ok(Box::new(SimStream { conn, timeout }))
    }

    fn resolve(&self, address: &str) -> io::Result<Vec<SocketAddr>> {
        let is_name = address
            .rsplit_once(':')
            .is_some_and(|(host, _)| named(host).is_some());
        let mut world = self.shared.world.lock();
        world.check_on(self.life)?;
        let host = self.life.host;
        if is_name && world.host(host).faults.name_server_is_silent {
            world.spend(host, SILENCE_NANOS);
            return Err(ErrorKind::TimedOut.into());
        }
        resolve(address).map(|address| vec![address])
    }
}

struct SimWake {
    shared: SharedWorld,
    number: u64,
}

impl Wake for SimWake {
    fn wake(&self) {
        self.shared.world.lock().network.wake(self.number);
    }
}

struct SimPoller {
    shared: SharedWorld,
    life: Life,
    number: u64,
    copy: Vec<u8>,
}

/// Bytes of a file sent at a time.
const COPY_BYTES_MAX: usize = 64 << 10;

impl SimPoller {
    fn world(&self) -> io::Result<parking_lot::MutexGuard<'_, World>> {
        let world = self.shared.world.lock();
        world.check_on(self.life)?;
        Ok(world)
    }
}

impl Poller for SimPoller {
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<()> {
        interrupt(&self.shared);
        let start = self.world()?.now_on(self.life.host);
        let until = timeout.map(|timeout| start.saturating_add(timeout.as_nanos() as u64));
        loop {
            let mut world = self.world()?;
            world.deliver();
            let news = world.network.take_news(self.number, ready);
            world.listens_to_poller(self.number, news);
            if news || world.in_turn() || until.is_some_and(|until| until <= world.now) {
                return Ok(());
            }
            drop(world);
            if step(&self.shared, until) == Step::Idle {
                panic!("waiting for news that will never come");
            }
        }
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(SimWake {
            shared: self.shared.clone(),
            number: self.number,
        })
    }

    fn listen(&mut self, address: &str) -> io::Result<SocketAddr> {
        let address = resolve(address)?;
        let (ip, life) = (address.ip(), self.life);
        let mut world = self.world()?;
        if !ip.is_loopback() && !ip.is_unspecified() && ip != address_of(life.host) {
            return Err(ErrorKind::AddrNotAvailable.into());
        }
        let owner = (life.host, self.number);
        let port = world.network.listen(owner, ip, address.port())?;
        Ok(SocketAddr::new(ip, port))
    }

    fn listen_at(&mut self, _: &Path) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn connect(&mut self, address: SocketAddr) -> io::Result<ConnId> {
        let (host, number) = (self.life.host, self.number);
        Ok(ConnId(self.world()?.dial(host, number, address)?))
    }

    fn accept(&mut self, only: Option<&[u16]>) -> io::Result<Option<Socket>> {
        let accepted = self.world()?.network.accept(self.number, only);
        Ok(accepted.map(|(conn, [peer, local])| Socket {
            peer,
            local,
            is_administrator: false,
            inner: Box::new(conn),
        }))
    }

    fn adopt(&mut self, socket: Socket) -> io::Result<ConnId> {
        let conn = *socket
            .inner
            .downcast::<u64>()
            .map_err(|_| ErrorKind::InvalidInput)?;
        self.world()?.network.adopt(self.number, conn)?;
        Ok(ConnId(conn))
    }

    fn recv(&mut self, conn: ConnId, into: &mut BytesMut) -> io::Result<usize> {
        let mut world = self.world()?;
        let (conn, side) = world.network.owned(conn.0, self.number)?;
        let (len, room) = (into.len(), into.capacity());
        into.resize(room, 0);
        let received = world.recv(conn, side, &mut into[len..]);
        into.truncate(len + received.as_ref().copied().unwrap_or(0));
        received
    }

    fn send(&mut self, conn: ConnId, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut world = self.world()?;
        let (conn, side) = world.network.owned(conn.0, self.number)?;
        let bufs: Vec<&[u8]> = bufs.iter().map(|buf| &**buf).collect();
        world.send(conn, side, &bufs)
    }

    fn send_file(
        &mut self,
        conn: ConnId,
        file: &FileHandle,
        position: u64,
        len: usize,
    ) -> io::Result<usize> {
        let mut copy = std::mem::take(&mut self.copy);
        copy.resize(len.min(COPY_BYTES_MAX), 0);
        let sent = match file.read_at(&mut copy, position) {
            Ok(0) if len > 0 => Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => self.send(conn, &[IoSlice::new(&copy[..read])]),
            Err(error) => Err(error),
        };
        self.copy = copy;
        sent
    }

    fn close(&mut self, conn: ConnId) {
        if let Ok(mut world) = self.world()
            && let Ok((conn, side)) = world.network.owned(conn.0, self.number)
        {
            world.close(conn, side);
        }
    }
}

impl Drop for SimPoller {
    fn drop(&mut self) {
        if let Ok(mut world) = self.world() {
            world.drop_poller(self.number);
        }
    }
}

/// The client's end of a connection: never blocks, survives the broker's machine.
pub struct SimConn {
    shared: SharedWorld,
    number: u64,
}

impl SimConn {
    pub(crate) fn connect(shared: &SharedWorld, from: Site, to: SocketAddr) -> io::Result<SimConn> {
        let mut world = shared.world.lock();
        let number = world.connect(from, to)?;
        Ok(SimConn {
            shared: shared.clone(),
            number,
        })
    }

    /// Takes what arrived; 0 means the broker closed, `WouldBlock` that there is nothing now.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.shared.world.lock().recv(self.number, CLIENT, buf)
    }

    /// Sends as much as there is room for.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.shared.world.lock().send(self.number, CLIENT, &[bytes])
    }

    /// True if [`recv`](SimConn::recv) would return something else than `WouldBlock`.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.shared
            .world
            .lock()
            .network
            .is_readable(self.number, CLIENT)
    }

    /// Breaks the connection at once; what was under way is lost.
    pub fn reset(&self) {
        let mut world = self.shared.world.lock();
        let is_whole = world.network.is_whole(self.number);
        if let Some(host) = world.network.host_of(self.number) {
            world.host_mut(host).counts.resets += u64::from(is_whole);
        }
        world.network.reset(self.number);
        world.note(&super::trace::Event::Closed {
            conn: self.number,
            side: CLIENT,
            reset: true,
        });
    }

    /// Lets nothing arrive at the broker for a while.
    pub fn stall_requests(&self, time: Duration) {
        let mut world = self.shared.world.lock();
        let until = world.now + time.as_nanos() as u64;
        world.network.stall(self.number, SERVER, until);
    }

    /// Lets nothing arrive at the client for a while.
    pub fn stall_replies(&self, time: Duration) {
        let mut world = self.shared.world.lock();
        let until = world.now + time.as_nanos() as u64;
        world.network.stall(self.number, CLIENT, until);
    }
}

impl Drop for SimConn {
    fn drop(&mut self) {
        self.shared.world.lock().close(self.number, CLIENT);
    }
}

struct SimStream {
    conn: SimConn,
    timeout: Duration,
}

impl SimStream {
    /// Repeats `call` while it would block, letting the machine run, until the timeout.
    fn blocking(
        &mut self,
        mut call: impl FnMut(&SimConn) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let shared = self.conn.shared.clone();
        let until = shared.world.lock().now + self.timeout.as_nanos() as u64;
        loop {
            shared.world.lock().deliver();
            match call(&self.conn) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            if shared.world.lock().now >= until {
                return Err(ErrorKind::TimedOut.into());
            }
            step(&shared, Some(until));
        }
    }
}

impl Read for SimStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.blocking(|conn| conn.recv(buf))
    }
}

impl Write for SimStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.blocking(|conn| conn.send(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for SimStream {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.timeout = timeout;
        Ok(())
    }
}
