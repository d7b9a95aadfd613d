//! Peers that cost a broker memory and bring it nothing: they promise large requests and send a part, ask for more than they take, wait
//! for what never comes, and hang up in the middle of all that.
//!
//! Nobody cares what they are answered, if at all. What they must not do is keep anything once they are gone, or have more than the
//! bounds of the broker allow while they are there.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use env::sim::{Chance, Outside, SimConn};
use model::Instant;
use wire::{Request, frame};

use super::requests::{fetch, produce};

/// Of a request of theirs, and of the answer that one of them asks for.
pub(crate) const REQUEST_BYTES_MAX: u64 = 400 << 10;
pub(crate) const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Requests below this take nothing from the bound.
const REQUEST_BYTES_MIN: u64 = 40 << 10;
const TICK: Duration = Duration::from_millis(20);
/// Nobody produces to it, so its records are refused.
const NO_TOPIC: &str = "nobody";
const PRODUCE: i16 = 9;
const FETCH: i16 = 11;
/// As long as a client may ask to wait.
const WAIT_MS: i32 = i32::MAX;

struct Peer {
    conn: SimConn,
    out: VecDeque<u8>,
    takes_answers: bool,
    goes_at: Instant,
}

pub(crate) struct Crowd {
    chance: Chance,
    peers: Vec<Option<Peer>>,
    topics: Vec<(String, i32)>,
    /// Of their broker.
    address: SocketAddr,
    wake: Instant,
}

impl Crowd {
    pub(crate) fn new(
        count: usize,
        topics: Vec<(String, i32)>,
        address: SocketAddr,
        chance: Chance,
    ) -> Crowd {
        Crowd {
            chance,
            address,
            peers: (0..count).map(|_| None).collect(),
            topics,
            wake: Instant(0),
        }
    }

    /// All of them go.
    pub(crate) fn disperse(&mut self) {
        self.peers.clear();
    }

    /// Acts when it is time. Returns when it wants to act next.
    pub(crate) fn act(&mut self, world: &Outside) -> Instant {
        let now = world.now();
        if self.peers.is_empty() {
            return Instant(u64::MAX);
        }
        if now < self.wake {
            return self.wake;
        }
        self.wake = now.plus(TICK);
        for at in 0..self.peers.len() {
            let peer = self.peers[at].take();
            let stays = peer.filter(|peer| now < peer.goes_at);
            self.peers[at] = match stays {
                Some(peer) => peer.pumped(),
                None if self.chance.one_in(4) => self.come(world),
                None => None,
            };
        }
        self.wake
    }

    fn come(&mut self, world: &Outside) -> Option<Peer> {
        let conn = world.connect(self.address).ok()?;
        let (mut takes_answers, way) = (true, self.chance.below(5));
        let mut out = match way {
            0..=2 => self.large_request(),
            3 => {
                takes_answers = false;
                let asked = (0..8).flat_map(|_| self.fetch(0));
                asked.collect()
            }
            _ => self.fetch(WAIT_MS),
        };
        if way < 2 {
            // The rest never comes.
            let part = self
                .chance
                .between(out.len() as u64 / 4, out.len() as u64 - 1);
            out.truncate(part as usize);
        }
        let stay = Duration::from_millis(self.chance.between(50, 2_000));
        Some(Peer {
            conn,
            out: out.into(),
            takes_answers,
            goes_at: world.now().plus(stay),
        })
    }

    fn large_request(&mut self) -> Vec<u8> {
        let bytes = self.chance.between(REQUEST_BYTES_MIN, REQUEST_BYTES_MAX);
        let records = vec![0; bytes as usize].into();
        encoded(&produce(None, 1, NO_TOPIC, [(0, records)]), PRODUCE)
    }

    /// Of everything there is; one that waits asks for more than will ever be there.
    fn fetch(&mut self, wait_ms: i32) -> Vec<u8> {
        let (topic, partitions) = self.chance.pick(&self.topics).clone();
        let bytes = ANSWER_BYTES_MAX as i32;
        let mut request = fetch(&topic, false, bytes, (0..partitions).map(|at| (at, 0)));
        request.max_bytes = bytes;
        if wait_ms > 0 {
            (request.max_wait_ms, request.min_bytes) = (wait_ms, i32::MAX);
            (request.max_bytes, request.session_epoch) = (i32::MAX, 0);
        }
        encoded(&request, FETCH)
    }
}

impl Peer {
    /// Sends and takes what it can; gone with its connection.
    fn pumped(mut self) -> Option<Peer> {
        while let (false, (front, _)) = (self.out.is_empty(), self.out.as_slices()) {
            match self.conn.send(front) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
        }
        let mut buf = [0; 16 << 10];
        while self.takes_answers && self.conn.is_readable() {
            match self.conn.recv(&mut buf) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
        }
        Some(self)
    }
}

fn encoded<R: Request>(request: &R, version: i16) -> Vec<u8> {
    let encoded = frame::encode_request(request, version, 1, Some("crowd"));
    let encoded = encoded.and_then(wire::Encoded::into_bytes);
    encoded.expect("a request of ours can be encoded").to_vec()
}
