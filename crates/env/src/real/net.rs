//! Sockets of the operating system, by edge-triggered readiness.
//!
//! Owns the listeners and connections of one event loop in a slab: a [`ConnId`] holds its slot in the low half and how often
//! the slot was used in the high half, so a stale id is answered with `NotConnected` and never meets a stranger's socket.
//! Allocates nothing per event.

use std::io::{self, IoSlice, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use mio::net::{TcpListener, TcpStream, UnixListener};
use mio::{Events, Interest, Poll, Token, Waker};

use super::{stream, sys};
use crate::disk::FileHandle;
use crate::net::{ConnId, Net, Poller, Readiness, Socket, Stream, Wake};

/// Events taken from the kernel per wait; the rest stay queued there for the next one.
const EVENTS_MAX: usize = 1024;
/// Bytes copied at a time where the kernel cannot send a file by itself.
const COPY_BYTES_MAX: usize = 64 << 10;
/// After a failed accept (no descriptors left) no new edge comes, so we ask again by ourselves.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Connections that may wait to be accepted; the kernel has a bound of its own. One that finds no place tries again after a
/// second, so a rush of clients (the library's own number is 128) would take many.
const BACKLOG: i32 = 4096;

/// Congestion control of connections within this machine. Others pace what they send for the sake of the network (BBR, the
/// default of many machines): here there is none, and pacing takes half of the speed and most of the processor time of a read.
const UNPACED: sys::CongestionName = *b"cubic\0\0\0\0\0\0\0\0\0\0\0";

const WAKER: Token = Token(usize::MAX);
/// Listener `i` has the token `LISTENER_LAST - i`; slots count up from 0 and never get there.
const LISTENER_LAST: usize = usize::MAX - 1;
const LISTENERS_MAX: usize = 64;

pub(super) struct OsNet;

impl Net for OsNet {
    fn poller(&self) -> io::Result<Box<dyn Poller>> {
        let poll = Poll::new()?;
        let waker = Arc::new(OsWake {
            waker: Waker::new(poll.registry(), WAKER)?,
        });
        Ok(Box::new(OsPoller {
            poll,
            waker,
            events: Events::with_capacity(EVENTS_MAX),
            listeners: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            accept_again: false,
            copy: Vec::new(),
        }))
    }

    fn dial(&self, address: &str, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        stream::dial(address, timeout)
    }

    fn resolve(&self, address: &str) -> io::Result<Vec<SocketAddr>> {
        stream::resolve(address)
    }
}

struct OsWake {
    waker: Waker,
}

impl Wake for OsWake {
    fn wake(&self) {
        // It can only fail when the poller is gone, and then nobody is left to wake.
        let _ = self.waker.wake();
    }
}

struct Slot {
    uses: u32,
    stream: Option<TcpStream>,
    /// The last read took all there was, and no edge has come since: the next read would find nothing. Saves every request a
    /// call.
    is_drained: bool,
    /// The peer has closed its side; only a read shows that there is no more, so none may be skipped.
    is_read_closed: bool,
    dial: Dial,
}

/// How far a connection is that we began.
#[derive(Clone, Copy)]
enum Dial {
    /// Also of those that peers began.
    Done,
    Underway,
    /// The kernel reports the error once, we as often as somebody asks.
    Failed(io::ErrorKind),
}

impl Slot {
    /// Looks how far the dial is; false while there is nothing to report of it.
    fn dial_on(&mut self) -> bool {
        let (Dial::Underway, Some(stream)) = (self.dial, &self.stream) else {
            return true;
        };
        let error = stream.take_error().unwrap_or_else(Some);
        self.dial = match error.map_or_else(|| stream.peer_addr(), Err) {
            Ok(_) => Dial::Done,
            // Any event may come before.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => return false,
            Err(error) => Dial::Failed(error.kind()),
        };
        true
    }
}

/// A listener of either kind.
enum Listening {
    Net(Listener),
    File(FileListener),
}

/// A socket in the file system.
struct FileListener {
    socket: UnixListener,
    path: PathBuf,
}

impl Drop for FileListener {
    fn drop(&mut self) {
        // One that is left there is replaced by the next process.
        let _ = std::fs::remove_file(&self.path);
    }
}

struct Listener {
    port: u16,
    socket: TcpListener,
    /// The machine's congestion control, for peers elsewhere. `None`: all connections have it anyway.
    usual: Option<sys::CongestionName>,
}

struct OsPoller {
    poll: Poll,
    waker: Arc<OsWake>,
    events: Events,
    listeners: Vec<Listening>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    accept_again: bool,
    copy: Vec<u8>,
}

fn conn_id(slot: usize, uses: u32) -> ConnId {
    ConnId(u64::from(uses) << 32 | slot as u64)
}

impl OsPoller {
    fn slot(&self, conn: ConnId) -> Option<&Slot> {
        self.slots
            .get((conn.0 & u64::from(u32::MAX)) as usize)
            .filter(|slot| u64::from(slot.uses) == conn.0 >> 32)
    }

    /// The socket, to be read or written.
    fn stream(&self, conn: ConnId) -> io::Result<&TcpStream> {
        let slot = self.slot(conn);
        let stream = slot.and_then(|slot| Some((slot.dial, slot.stream.as_ref()?)));
        match stream.ok_or(io::ErrorKind::NotConnected)? {
            (Dial::Done, stream) => Ok(stream),
            (Dial::Underway, _) => Err(io::ErrorKind::WouldBlock.into()),
            (Dial::Failed(error), _) => Err(error.into()),
        }
    }

    /// Gives `stream` a slot, and asks the kernel for its events.
    fn add(&mut self, mut stream: TcpStream, dial: Dial) -> io::Result<ConnId> {
        let index = match self.free.last() {
            Some(&index) => index as usize,
            None => self.slots.len(),
        };
        // Registering reports what is already there as the first edge.
        self.poll.registry().register(
            &mut stream,
            Token(index),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let uses = match self.free.pop() {
            Some(_) => self.slots[index].uses,
            None => 0,
        };
        let slot = Slot {
            uses,
            stream: Some(stream),
            is_drained: false,
            is_read_closed: false,
            dial,
        };
        if index == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[index] = slot;
        }
        Ok(conn_id(index, uses))
    }

    fn listen_on(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let token = self.next_listener()?;
        let mut listener = TcpListener::bind(address)?;
        sys::set_backlog(listener.as_raw_fd(), BACKLOG)?;
        sys::keep_alive(listener.as_raw_fd())?;
        self.poll
            .registry()
            .register(&mut listener, token, Interest::READABLE)?;
        let bound = listener.local_addr()?;
        self.listeners.push(Listening::Net(Listener {
            port: bound.port(),
            usual: unpace(&listener),
            socket: listener,
        }));
        Ok(bound)
    }

    fn next_listener(&self) -> io::Result<Token> {
        if self.listeners.len() == LISTENERS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Token(LISTENER_LAST - self.listeners.len()))
    }

    fn poll_events(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        // The poller counts milliseconds; a shorter wait goes through a call that counts nanoseconds.
        let timeout = match timeout {
            Some(short)
                if cfg!(target_os = "linux")
                    && !short.is_zero()
                    && short < Duration::from_millis(1) =>
            {
                sys::wait_readable(self.poll.as_raw_fd(), short);
                Some(Duration::ZERO)
            }
            other => other,
        };
        match self.poll.poll(&mut self.events, timeout) {
            // The events of the previous wait were cleared before the call, so this reads as "nothing".
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }
}

impl Poller for OsPoller {
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<()> {
        self.events.clear();
        let timeout = if self.accept_again {
            Some(timeout.map_or(ACCEPT_RETRY, |timeout| timeout.min(ACCEPT_RETRY)))
        } else {
            timeout
        };
        self.poll_events(timeout)?;
        let mut accept = std::mem::take(&mut self.accept_again);
        for event in &self.events {
            if event.token() == WAKER {
                continue;
            }
            match self.slots.get_mut(event.token().0) {
                None => accept = true,
                Some(slot) => {
                    if !slot.dial_on() {
                        continue;
                    }
                    slot.is_drained = false;
                    slot.is_read_closed |= event.is_read_closed() || event.is_error();
                    ready.push(Readiness::Conn {
                        conn: conn_id(event.token().0, slot.uses),
                        readable: event.is_readable() || event.is_read_closed() || event.is_error(),
                        writable: event.is_writable()
                            || event.is_write_closed()
                            || event.is_error(),
                    });
                }
            }
        }
        if accept {
            ready.push(Readiness::Accept);
        }
        Ok(())
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.waker.clone()
    }

    fn listen(&mut self, address: &str) -> io::Result<SocketAddr> {
        let (mut first, mut absent) = (None, None);
        for mut address in stream::resolve(address)? {
            if let Some(first) = first {
                // The port that the system picked for the first address is that of the others.
                address.set_port(SocketAddr::port(&first));
            }
            match self.listen_on(address) {
                Ok(bound) => first = first.or(Some(bound)),
                // A name may have an address of a family that this machine does not use.
                Err(error) if is_absent(&error) => absent = Some(error),
                Err(error) => return Err(error),
            }
        }
        first.ok_or_else(|| absent.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn listen_at(&mut self, path: &Path) -> io::Result<()> {
        let token = self.next_listener()?;
        let is_left = |found: std::fs::Metadata| found.file_type().is_socket();
        if std::fs::symlink_metadata(path).is_ok_and(is_left) {
            std::fs::remove_file(path)?;
        }
        let mut listener = FileListener {
            socket: UnixListener::bind(path)?,
            path: path.to_owned(),
        };
        // A peer that came before this is asked for its user, as all are.
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
        self.poll
            .registry()
            .register(&mut listener.socket, token, Interest::READABLE)?;
        self.listeners.push(Listening::File(listener));
        Ok(())
    }

    fn accept(&mut self, only: Option<&[u16]>) -> io::Result<Option<Socket>> {
        for listener in &self.listeners {
            let accepted = match listener {
                Listening::Net(listener)
                    if only.is_some_and(|only| !only.contains(&listener.port)) =>
                {
                    continue;
                }
                Listening::Net(listener) => accept(listener),
                Listening::File(listener) => accept_administrator(&listener.socket),
            };
            match accepted {
                Ok(None) => {}
                Ok(some) => return Ok(some),
                Err(error) => {
                    self.accept_again = true;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    fn connect(&mut self, address: SocketAddr) -> io::Result<ConnId> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        sys::keep_alive(stream.as_raw_fd())?;
        self.add(stream, Dial::Underway)
    }

    fn adopt(&mut self, socket: Socket) -> io::Result<ConnId> {
        let stream = *socket
            .inner
            .downcast::<TcpStream>()
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        self.add(stream, Dial::Done)
    }

    fn recv(&mut self, conn: ConnId, into: &mut BytesMut) -> io::Result<usize> {
        let socket = self.stream(conn)?.as_raw_fd();
        let index = (conn.0 & u64::from(u32::MAX)) as usize;
        if self.slots[index].is_drained {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let room = into.capacity() - into.len();
        let received = uninterrupted(|| sys::receive(socket, into))?;
        let slot = &mut self.slots[index];
        slot.is_drained = 0 < received && received < room && !slot.is_read_closed;
        Ok(received)
    }

    fn send(&mut self, conn: ConnId, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut stream = self.stream(conn)?;
        match bufs {
            [only] => uninterrupted(|| stream.write(only)),
            _ => uninterrupted(|| stream.write_vectored(bufs)),
        }
    }

    fn send_file(
        &mut self,
        conn: ConnId,
        file: &FileHandle,
        position: u64,
        len: usize,
    ) -> io::Result<usize> {
        let socket = self.stream(conn)?.as_raw_fd();
        let sent = match file.raw_fd() {
            Some(fd) if len > 0 => {
                uninterrupted_option(|| sys::send_file(socket, fd, position, len))
            }
            _ => None,
        };
        let sent = match sent {
            Some(sent) => sent?,
            None => self.copy_file(conn, file, position, len)?,
        };
        if sent == 0 && len > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(sent)
    }

    fn close(&mut self, conn: ConnId) {
        if self.slot(conn).is_none_or(|slot| slot.stream.is_none()) {
            return;
        }
        let index = (conn.0 & u64::from(u32::MAX)) as usize;
        let slot = &mut self.slots[index];
        if let Some(mut stream) = slot.stream.take() {
            // Closing the descriptor removes it from the kernel's set too; this only keeps the poller's own books.
            let _ = self.poll.registry().deregister(&mut stream);
        }
        slot.uses = slot.uses.wrapping_add(1);
        self.free.push(index as u32);
    }
}

impl OsPoller {
    /// Sends at most [`COPY_BYTES_MAX`] through memory; what the socket does not take is read again next time.
    fn copy_file(
        &mut self,
        conn: ConnId,
        file: &FileHandle,
        position: u64,
        len: usize,
    ) -> io::Result<usize> {
        let mut copy = std::mem::take(&mut self.copy);
        copy.resize(len.min(COPY_BYTES_MAX), 0);
        let sent = file
            .read_at(&mut copy, position)
            .and_then(|read| match read {
                0 => Ok(0),
                read => self.send(conn, &[IoSlice::new(&copy[..read])]),
            });
        self.copy = copy;
        sent
    }
}

/// A socket that is paced from its first byte stays so, so the listener gets the other kind. Returns the usual one; a
/// kernel that refuses leaves everything as it is.
fn unpace(listener: &TcpListener) -> Option<sys::CongestionName> {
    let socket = listener.as_raw_fd();
    let usual = sys::congestion(socket).ok()?;
    sys::set_congestion(socket, &UNPACED).ok()?;
    (usual != UNPACED).then_some(usual)
}

/// True if no socket of this machine can have the address.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

/// The address as an IPv4 peer knows it, where a socket for both families gives `::ffff:10.0.0.1`.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn is_here(peer: SocketAddr, local: SocketAddr) -> bool {
    peer.ip() == local.ip() || peer.ip().is_loopback()
}

fn accept(listener: &Listener) -> io::Result<Option<Socket>> {
    loop {
        match listener.socket.accept() {
            Ok((stream, peer)) => {
                // A peer that is already gone again fails these; it is no reason to disturb the others.
                let (Ok(()), Ok(local)) = (stream.set_nodelay(true), stream.local_addr()) else {
                    continue;
                };
                let (peer, local) = (canonical(peer), canonical(local));
                let usual = listener.usual.filter(|_| !is_here(peer, local));
                if let Some(usual) = usual {
                    // Refused only to a peer that is gone already.
                    let _ = sys::set_congestion(stream.as_raw_fd(), &usual);
                }
                return Ok(Some(Socket {
                    peer,
                    local,
                    is_administrator: false,
                    inner: Box::new(stream),
                }));
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                _ if is_passing(&error) => {}
                _ => return Err(error),
            },
        }
    }
}

/// True of the error of one peer that did not come through; the next one may.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

/// Takes root and the user of this process, whatever the mode of the socket is by now, and nobody else.
fn accept_administrator(listener: &UnixListener) -> io::Result<Option<Socket>> {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let user = sys::peer_user(stream.as_raw_fd());
                if !user
                    .as_ref()
                    .is_ok_and(|user| *user == 0 || *user == sys::own_user())
                {
                    tell_of_stranger(user);
                    continue;
                }
                // The calls that a connection needs are those of any stream: one type for both kinds costs the others nothing.
                let stream = std::net::TcpStream::from(OwnedFd::from(stream));
                return Ok(Some(Socket {
                    peer: here,
                    local: here,
                    is_administrator: true,
                    inner: Box::new(TcpStream::from_std(stream)),
                }));
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                _ if is_passing(&error) => {}
                _ => return Err(error),
            },
        }
    }
}

/// Says, at most once a minute, that somebody was not taken for the administrator.
fn tell_of_stranger(user: io::Result<u32>) {
    static TOLD_AT: AtomicU64 = AtomicU64::new(0);
    const PAUSE: u64 = 60;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    if now.abs_diff(TOLD_AT.load(Ordering::Relaxed)) < PAUSE {
        return;
    }
    TOLD_AT.store(now, Ordering::Relaxed);
    let user = user.map_or_else(|error| error.to_string(), |user| format!("user id {user}"));
    tracing::warn!(
        target: crate::logs::CONNECTIONS,
        "{user} is not let in at the administrator's socket: root and the user of this process are",
    );
}

fn uninterrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn uninterrupted_option(
    mut call: impl FnMut() -> Option<io::Result<usize>>,
) -> Option<io::Result<usize>> {
    loop {
        match call() {
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_peer_is_here_by_the_address_it_shares_with_us_or_by_the_loopback() {
        let at = |address: &str| SocketAddr::new(address.parse().unwrap(), 9092);
        let here = [
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.9", "127.0.0.1"),
            ("::1", "::1"),
            ("10.0.0.7", "10.0.0.7"),
        ];
        for (peer, local) in here {
            assert!(is_here(at(peer), at(local)), "{peer} at {local}");
        }
        for (peer, local) in [("10.0.0.8", "10.0.0.7"), ("2001:db8::1", "2001:db8::2")] {
            assert!(!is_here(at(peer), at(local)), "{peer} at {local}");
        }
    }

    fn accepted(poller: &mut dyn Poller) -> Socket {
        loop {
            match poller.accept(None).unwrap() {
                Some(socket) => return socket,
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn an_ipv4_peer_of_a_listener_for_both_families_has_its_own_address() {
        let mut poller = OsNet.poller().unwrap();
        let bound = match poller.listen("[::]:0") {
            Err(error) if is_absent(&error) => return,
            bound => bound.unwrap(),
        };
        let _peer = std::net::TcpStream::connect(("127.0.0.1", bound.port())).unwrap();
        let socket = accepted(&mut *poller);
        assert_eq!(socket.peer.ip().to_string(), "127.0.0.1");
        assert_eq!(
            socket.local.to_string(),
            format!("127.0.0.1:{}", bound.port())
        );
    }

    #[test]
    fn a_name_is_listened_on_at_all_its_addresses() {
        let mut poller = OsNet.poller().unwrap();
        let bound = poller.listen("localhost:0").unwrap();
        for mut address in stream::resolve("localhost:0").unwrap() {
            if std::net::TcpListener::bind(address).is_err_and(|error| is_absent(&error)) {
                continue;
            }
            address.set_port(bound.port());
            let _peer = std::net::TcpStream::connect(address).unwrap();
            assert_eq!(accepted(&mut *poller).local, address);
        }
    }

    #[test]
    fn the_kernel_looks_after_connections_that_are_silent() {
        let net = OsNet;
        let mut poller = net.poller().unwrap();
        let address = poller.listen("127.0.0.1:0").unwrap();
        let _peer = std::net::TcpStream::connect(address).unwrap();
        let socket = loop {
            match poller.accept(None).unwrap() {
                Some(socket) => break socket.inner.downcast::<TcpStream>().unwrap(),
                None => std::thread::yield_now(),
            }
        };
        assert!(sys::is_kept_alive(socket.as_raw_fd()).unwrap());
    }

    #[test]
    fn a_socket_in_the_file_system_lets_its_own_user_in_as_an_administrator() {
        let name = format!("esker-env-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut poller = OsNet.poller().unwrap();
        poller.listen_at(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let patience = Duration::from_secs(10);
        let mut peer = OsNet.dial(path.to_str().unwrap(), patience).unwrap();
        let socket = accepted(&mut *poller);
        assert!(socket.is_administrator);
        assert_eq!(socket.peer.to_string(), "127.0.0.1:0");
        let conn = poller.adopt(socket).unwrap();
        peer.write_all(b"hello").unwrap();
        let mut bytes = BytesMut::with_capacity(16);
        while let Err(error) = poller.recv(conn, &mut bytes) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            poller.wait(Some(patience), &mut Vec::new()).unwrap();
        }
        assert_eq!(&bytes[..], b"hello");
        assert_eq!(poller.send(conn, &[IoSlice::new(b"yes")]).unwrap(), 3);
        let mut answer = [0; 3];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"yes");

        // The next process listens in the place of the one before, and nothing is left behind.
        let mut next = OsNet.poller().unwrap();
        next.listen_at(&path).unwrap();
        drop(next);
        assert!(!path.exists());
        std::fs::write(&path, "no socket").unwrap();
        let error = OsNet.poller().unwrap().listen_at(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&path).unwrap(), b"no socket");
        std::fs::remove_file(&path).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_connection_within_the_machine_is_not_paced_and_others_get_the_usual_control() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = TcpListener::bind(address).unwrap();
        let usual = sys::congestion(socket.as_raw_fd()).unwrap();
        let mut listener = Listener {
            port: 0,
            usual: unpace(&socket),
            socket,
        };
        let accepted = |listener: &Listener| {
            let address = listener.socket.local_addr().unwrap();
            let peer = std::net::TcpStream::connect(address).unwrap();
            let socket = loop {
                match accept(listener).unwrap() {
                    Some(socket) => break socket,
                    None => std::thread::yield_now(),
                }
            };
            drop(peer);
            socket.inner.downcast::<TcpStream>().unwrap()
        };
        let stream = accepted(&listener);
        let own = sys::congestion(stream.as_raw_fd()).unwrap();
        match listener.usual.take() {
            Some(_) => assert_eq!(own, UNPACED),
            None => assert_eq!(own, usual),
        }
        // As `accept` does for a peer elsewhere.
        sys::set_congestion(stream.as_raw_fd(), &usual).unwrap();
        assert_eq!(sys::congestion(stream.as_raw_fd()).unwrap(), usual);
    }
}
