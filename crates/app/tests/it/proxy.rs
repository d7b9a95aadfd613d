//! A way between two nodes that a test can cut, while the test itself reaches both.

#![allow(clippy::disallowed_methods)] // a peer of the brokers, not a part of them

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Listens at one address and passes all on to another one.
pub(crate) struct Proxy {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The process that is cut off.
    cut: Option<u32>,
    /// Both ends of each connection, that of the client first.
    ways: Vec<(TcpStream, TcpStream)>,
}

impl Proxy {
    pub(crate) fn new(listener: TcpListener, target: String) -> Proxy {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        // All threads end with the process of the tests.
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                carry(near, &target, &shared);
            }
        });
        Proxy { state }
    }

    /// Ends the connections of a process; new ones end at once.
    pub(crate) fn cut_off(&self, process: u32) {
        let mut state = self.state.lock().unwrap();
        state.cut = Some(process);
        for (near, far) in &state.ways {
            if is_of(process, near) {
                let _ = near.shutdown(Shutdown::Both);
                let _ = far.shutdown(Shutdown::Both);
            }
        }
    }
}

/// True if a process may have the other end of a connection of this machine: the kernel's table can miss a line where sockets come and go, and
/// others dial again.
fn is_of(process: u32, near: &TcpStream) -> bool {
    let ends = near
        .peer_addr()
        .and_then(|peer| Ok((peer, near.local_addr()?)));
    let Ok((SocketAddr::V4(peer), SocketAddr::V4(own))) = ends else {
        return false;
    };
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    // Other connections, ended ones too, may have the same port of the peer: both ends name one.
    let ends = [named(peer), named(own)];
    let inode = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (*fields.get(1..3)? == ends).then(|| fields.get(9).copied())?
    });
    let Some(inode) = inode else { return true };
    let name = format!("socket:[{inode}]");
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let mut links = files
        .flatten()
        .filter_map(|file| file.path().read_link().ok());
    links.any(|link| link.as_os_str() == name.as_str())
}

/// As the kernel's table writes an address.
fn named(address: SocketAddrV4) -> String {
    let [a, b, c, d] = address.ip().octets();
    format!("{d:02X}{c:02X}{b:02X}{a:02X}:{:04X}", address.port())
}

fn carry(near: TcpStream, target: &str, shared: &Mutex<State>) {
    let mut state = shared.lock().unwrap();
    if state.cut.is_some_and(|process| is_of(process, &near)) {
        return;
    }
    let Ok(far) = TcpStream::connect(target) else {
        return;
    };
    for (from, to) in [(&near, &far), (&far, &near)] {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || pump(from, to));
    }
    state.ways.push((near, far));
}

fn pump(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 1 << 14];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
