//! The promises of sockets, tested with one poller as the server and blocking streams as its clients.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::time::Duration;

use bytes::BytesMut;
use env::disk::Open;
use env::{ConnId, Poller, Readiness, Stream};

use crate::{TestDir, on_every_machine};

const LONG: Duration = Duration::from_secs(10);

struct Server {
    poller: Box<dyn Poller>,
    address: String,
}

impl Server {
    fn start(place: &TestDir) -> Server {
        let mut poller = place.env.net.poller().unwrap();
        let address = poller.listen("127.0.0.1:0").unwrap();
        assert_ne!(address.port(), 0);
        Server {
            poller,
            address: address.to_string(),
        }
    }

    fn dial(&self, place: &TestDir) -> Box<dyn Stream> {
        place.env.net.dial(&self.address, LONG).unwrap()
    }

    fn accept(&mut self) -> ConnId {
        loop {
            if let Some(socket) = self.poller.accept(None).unwrap() {
                assert_eq!(socket.local.to_string(), self.address);
                return self.poller.adopt(socket).unwrap();
            }
            self.wait(|ready| *ready == Readiness::Accept);
        }
    }

    /// Waits for the first event that `wanted` picks.
    fn wait(&mut self, wanted: impl Fn(&Readiness) -> bool) {
        for _ in 0..1000 {
            let mut ready = Vec::new();
            self.poller.wait(Some(LONG), &mut ready).unwrap();
            assert!(!ready.is_empty(), "nothing happened");
            if ready.iter().any(&wanted) {
                return;
            }
        }
        panic!("the event never came");
    }

    fn wait_readable(&mut self, wanted: ConnId) {
        self.wait(|ready| matches!(ready, Readiness::Conn { conn, readable: true, .. } if *conn == wanted));
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        let mut sent = 0;
        while sent < bytes.len() {
            let rest = [IoSlice::new(&bytes[sent..])];
            sent += self.poller.send(conn, &rest).unwrap();
        }
    }

    /// Reads until `len` bytes or the end came.
    fn recv(&mut self, conn: ConnId, len: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buf = BytesMut::with_capacity(1000);
        while all.len() < len {
            match self.poller.recv(conn, &mut buf) {
                Ok(0) => break,
                Ok(read) => {
                    assert_eq!(buf.len(), read);
                    all.extend_from_slice(&buf);
                    buf.clear();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait_readable(conn),
                Err(error) => panic!("recv: {error}"),
            }
        }
        all
    }
}

fn exactly(stream: &mut dyn Stream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn bytes_cross_in_both_directions_and_the_end_is_seen() {
    on_every_machine("both", |place| {
        let mut server = Server::start(place);
        let mut client = server.dial(place);
        let conn = server.accept();
        client.write_all(b"ping").unwrap();
        assert_eq!(server.recv(conn, 4), b"ping");
        let none = server
            .poller
            .recv(conn, &mut BytesMut::with_capacity(8))
            .unwrap_err();
        assert_eq!(none.kind(), ErrorKind::WouldBlock);
        assert_eq!(
            server
                .poller
                .send(conn, &[IoSlice::new(b"po"), IoSlice::new(b"ng")])
                .unwrap(),
            4
        );
        assert_eq!(exactly(&mut *client, 4), b"pong");
        client.write_all(b"bye").unwrap();
        drop(client);
        assert_eq!(
            server.recv(conn, 100),
            b"bye",
            "what was sent before the end arrives"
        );
    });
}

#[test]
fn what_arrives_goes_behind_what_is_there_and_within_the_room() {
    on_every_machine("room", |place| {
        let mut server = Server::start(place);
        let mut client = server.dial(place);
        let conn = server.accept();
        client.write_all(b"eight by").unwrap();
        server.wait_readable(conn);
        let mut buf = BytesMut::with_capacity(7);
        buf.extend_from_slice(b"ab");
        while buf.len() < 7 {
            match server.poller.recv(conn, &mut buf) {
                Ok(read) => assert!(0 < read),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    server.wait_readable(conn);
                }
            }
        }
        assert_eq!((&buf[..], buf.capacity()), (&b"abeight"[..], 7));
        assert_eq!(server.recv(conn, 3), b" by");
    });
}

#[test]
fn data_that_came_before_adoption_is_reported_after_it() {
    on_every_machine("early", |place| {
        let mut server = Server::start(place);
        let mut client = server.dial(place);
        client.write_all(b"early").unwrap();
        let conn = server.accept();
        server.wait_readable(conn);
        assert_eq!(server.recv(conn, 5), b"early");
    });
}

#[test]
fn a_full_socket_takes_no_more_until_it_says_so() {
    on_every_machine("full", |place| {
        let mut server = Server::start(place);
        let mut client = server.dial(place);
        let conn = server.accept();
        let block: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        let mut sent = 0;
        loop {
            match server
                .poller
                .send(conn, &[IoSlice::new(&block[sent % block.len()..])])
            {
                Ok(count) => sent += count,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
            assert!(
                sent < 1 << 30,
                "a socket that is never full has no back-pressure"
            );
        }
        let got = exactly(&mut *client, sent);
        assert!(
            got.iter()
                .enumerate()
                .all(|(at, byte)| *byte == block[at % block.len()])
        );
        server.wait(
            |ready| matches!(ready, Readiness::Conn { writable: true, conn: c, .. } if *c == conn),
        );
        assert!(server.poller.send(conn, &[IoSlice::new(b"x")]).unwrap() > 0);
    });
}

#[test]
fn a_file_is_sent_from_where_asked() {
    on_every_machine("file", |place| {
        let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at % 253) as u8).collect();
        let file = place
            .env
            .disk
            .open(&place.dir.join("f"), Open::Create)
            .unwrap();
        file.write_at(&[IoSlice::new(&bytes)], 0).unwrap();
        let mut server = Server::start(place);
        let mut client = server.dial(place);
        let conn = server.accept();
        let (mut position, mut got) = (1_000, Vec::new());
        while position < bytes.len() {
            let sent = server
                .poller
                .send_file(conn, &file, position as u64, bytes.len() - position)
                .unwrap();
            position += sent;
            got.extend(exactly(&mut *client, sent));
        }
        assert!(got == bytes[1_000..]);
        let past = server
            .poller
            .send_file(conn, &file, bytes.len() as u64, 10)
            .unwrap_err();
        assert_eq!(
            past.kind(),
            ErrorKind::UnexpectedEof,
            "a file shorter than promised is an error, not silence"
        );
    });
}

#[test]
fn a_closed_connection_is_unknown_and_its_id_is_not_used_again() {
    on_every_machine("closed", |place| {
        let mut server = Server::start(place);
        let mut first = server.dial(place);
        let conn = server.accept();
        server.poller.close(conn);
        server.poller.close(conn);
        assert_eq!(
            first.read(&mut [0; 8]).unwrap(),
            0,
            "the client sees the end"
        );
        let _second = server.dial(place);
        let other = server.accept();
        assert_ne!(conn, other);
        assert_eq!(
            server
                .poller
                .recv(conn, &mut BytesMut::with_capacity(8))
                .unwrap_err()
                .kind(),
            ErrorKind::NotConnected
        );
        assert_eq!(
            server
                .poller
                .send(conn, &[IoSlice::new(b"x")])
                .unwrap_err()
                .kind(),
            ErrorKind::NotConnected
        );
    });
}

#[test]
fn many_connections_are_told_apart() {
    on_every_machine("many", |place| {
        let mut server = Server::start(place);
        let mut pairs = Vec::new();
        for number in 0..50_u8 {
            let mut client = server.dial(place);
            client.write_all(&[number]).unwrap();
            pairs.push((client, server.accept()));
        }
        for (number, (_, conn)) in pairs.iter().enumerate().rev() {
            assert_eq!(server.recv(*conn, 1), [number as u8]);
        }
    });
}

#[test]
fn a_wake_ends_the_wait_even_when_it_came_first() {
    on_every_machine("wake", |place| {
        let mut poller = place.env.net.poller().unwrap();
        poller.waker().wake();
        let start = place.env.clock.now();
        let mut ready = Vec::new();
        poller.wait(Some(LONG), &mut ready).unwrap();
        assert!(place.env.clock.now().since(start) < LONG && ready.is_empty());
        for short in [Duration::from_micros(300), Duration::from_millis(2)] {
            let start = place.env.clock.now();
            poller.wait(Some(short), &mut ready).unwrap();
            assert!(
                place.env.clock.now().since(start) >= short - Duration::from_micros(1),
                "nothing came early"
            );
        }
    });
}

#[test]
fn nobody_answers_where_nobody_listens() {
    on_every_machine("refused", |place| {
        let server = Server::start(place);
        let address = server.address.clone();
        drop(server);
        let refused = place.env.net.dial(&address, LONG).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

/// True if `conn` got an edge for writing, as a dial that is over has.
fn is_writable(ready: &Readiness, wanted: ConnId) -> bool {
    matches!(ready, Readiness::Conn { conn, writable: true, .. } if *conn == wanted)
}

#[test]
fn a_dialled_connection_is_like_an_accepted_one() {
    on_every_machine("dial", |place| {
        let (mut server, mut client) = (Server::start(place), Server::start(place));
        let address = server.address.parse().unwrap();
        let dialled = client.poller.connect(address).unwrap();
        let early = client.poller.send(dialled, &[IoSlice::new(b"early")]);
        assert_eq!(early.unwrap_err().kind(), ErrorKind::WouldBlock);
        let early = client
            .poller
            .recv(dialled, &mut BytesMut::with_capacity(8))
            .unwrap_err();
        assert_eq!(early.kind(), ErrorKind::WouldBlock);
        let accepted = server.accept();
        client.wait(|ready| is_writable(ready, dialled));

        client.send(dialled, b"ping");
        assert_eq!(server.recv(accepted, 4), b"ping");
        server.send(accepted, b"pong");
        assert_eq!(client.recv(dialled, 4), b"pong");

        server.poller.close(accepted);
        assert_eq!(client.recv(dialled, 100), b"", "the end is seen");
        client.poller.close(dialled);
        let gone = client
            .poller
            .recv(dialled, &mut BytesMut::with_capacity(8))
            .unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotConnected);
        let again = client.poller.connect(address).unwrap();
        assert_ne!(again, dialled);
    });
}

#[test]
fn a_poller_may_dial_itself_and_tells_both_ends_apart() {
    on_every_machine("itself", |place| {
        let mut server = Server::start(place);
        let address = server.address.parse().unwrap();
        let dialled = server.poller.connect(address).unwrap();
        server.wait(|ready| is_writable(ready, dialled));
        let accepted = server.accept();
        assert_ne!(dialled, accepted);
        server.send(dialled, b"there");
        assert_eq!(server.recv(accepted, 5), b"there");
        server.send(accepted, b"x");
        assert_eq!(server.recv(dialled, 1), b"x");
    });
}

#[test]
fn a_dial_that_nobody_takes_is_an_error_of_its_connection_for_ever() {
    on_every_machine("refused dial", |place| {
        let (server, mut client) = (Server::start(place), Server::start(place));
        let address = server.address.parse().unwrap();
        drop(server);
        let dialled = client.poller.connect(address).unwrap();
        client.wait(|ready| is_writable(ready, dialled));
        for _ in 0..3 {
            let sent = client.poller.send(dialled, &[IoSlice::new(b"x")]);
            assert_eq!(sent.unwrap_err().kind(), ErrorKind::ConnectionRefused);
            let mut buf = BytesMut::with_capacity(8);
            let received = client.poller.recv(dialled, &mut buf);
            assert_eq!(received.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
        client.poller.close(dialled);
        let mut buf = BytesMut::with_capacity(8);
        let gone = client.poller.recv(dialled, &mut buf).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotConnected);
    });
}
