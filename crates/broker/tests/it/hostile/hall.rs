//! A broker on a simulated machine, and connections that send frames to it and wait for what comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use broker::Broker;
use bytes::Bytes;
use env::sim::{Faults, Machine, SimConn};
use env::{Env, Rng};
use wire::frame::{decode_response, encode_request};
use wire::messages::ApiVersionsRequest;
use wire::{ApiKey, Reader, Request};

use super::record::MARK;

const PORT: u16 = 9092;
/// A frame that is not answered by then waits for something.
const PATIENCE: Duration = Duration::from_secs(2);
/// A transaction that was aborted meanwhile has its markers by then, on a disk that is slow now and then.
const SETTLED: Duration = Duration::from_millis(300);
/// Of the request that is sent behind every hostile one.
const PROBE: i32 = 0x7072_6f62;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) key: ApiKey,
    pub(crate) min: i16,
    pub(crate) max: i16,
}

/// The broker's reaction to a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer, without the length before it.
    Answer(Bytes),
    /// The frame has no answer, and the next one was answered.
    Nothing,
    Closed,
    /// Neither it nor the next frame was answered.
    Waits,
}

/// Random numbers that can be recognised among other bytes: an id is a mark and a number.
#[derive(Default)]
struct MarkedRng(AtomicU32);

impl Rng for MarkedRng {
    /// Fetch sessions are numbered by the upper bits, which are always the same.
    fn next_u64(&self) -> u64 {
        7 << 33 | u64::from(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn fill(&self, bytes: &mut [u8]) {
        let number = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let id = MARK.iter().chain(&number).cycle();
        bytes.iter_mut().zip(id).for_each(|(to, from)| *to = *from);
    }
}

pub(crate) struct Hall {
    machine: Machine,
    _broker: Broker,
}

impl Hall {
    pub(crate) fn open(seed: u64) -> Hall {
        let machine = Machine::new(seed, Faults::default());
        let env = Env {
            rng: Arc::new(MarkedRng::default()),
            ..machine.env()
        };
        let broker = Broker::start(&env, settings()).expect("a start");
        Hall {
            machine,
            _broker: broker,
        }
    }

    /// The broker runs, and a new connection is answered.
    pub(crate) fn is_well(&self) -> bool {
        self.machine.workers_count() > 0 && !self.table().is_empty()
    }

    /// The APIs that ApiVersions lists. It lists Produce from version 0, which the protocol no longer has.
    pub(crate) fn table(&self) -> Vec<Served> {
        let request = ApiVersionsRequest {
            client_software_name: "test".to_owned(),
            client_software_version: "1".to_owned(),
            ..ApiVersionsRequest::default()
        };
        let rows = self.call(&request, 4).api_keys;
        let rows = rows.iter().map(|row| {
            let key = ApiKey::from_key(row.api_key).expect("a known key");
            Served {
                key,
                min: row.min_version.max(key.min_version()),
                max: row.max_version,
            }
        });
        rows.collect()
    }

    /// A request that is no attack.
    pub(crate) fn call<R: Request>(&self, request: &R, version: i16) -> R::Response {
        let frame = encode_request(request, version, 1, Some("test"));
        let frame = frame.and_then(wire::Encoded::into_bytes).expect("a frame");
        let Outcome::Answer(answer) = self.ask(&frame) else {
            panic!("no answer");
        };
        let mut reader = Reader::new(answer);
        decode_response::<R>(&mut reader, version)
            .expect("an answer")
            .1
    }

    /// Sends a frame on a connection of its own, and gives the broker time for what comes after the answer.
    pub(crate) fn ask(&self, frame: &[u8]) -> Outcome {
        let outcome = self.exchange(frame);
        self.machine.run_until(SETTLED, |_| false);
        outcome
    }

    /// A good request behind the frame shows whether the connection goes on.
    fn exchange(&self, frame: &[u8]) -> Outcome {
        let conn = self.machine.connect(PORT).expect("room in the backlog");
        let probe = encode_request(&ApiVersionsRequest::default(), 0, PROBE, None);
        let probe = probe.and_then(wire::Encoded::into_bytes).expect("a frame");
        if !(self.send(&conn, frame) && self.send(&conn, &probe)) {
            return Outcome::Closed;
        }
        let Some(answer) = self.receive(&conn) else {
            return Outcome::Waits;
        };
        match answer {
            Ok(answer) if answer.starts_with(&PROBE.to_be_bytes()) => Outcome::Nothing,
            Ok(answer) => Outcome::Answer(answer),
            Err(Closed) => Outcome::Closed,
        }
    }

    /// False when the broker closed before it took everything.
    fn send(&self, conn: &SimConn, bytes: &[u8]) -> bool {
        let mut sent = 0;
        while sent < bytes.len() {
            match conn.send(&bytes[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.machine.step();
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// The next whole frame; nothing when none comes.
    fn receive(&self, conn: &SimConn) -> Option<Result<Bytes, Closed>> {
        let mut inbox = Vec::new();
        loop {
            if !self.machine.run_until(PATIENCE, |_| conn.is_readable()) {
                return None;
            }
            let mut buf = [0; 16 << 10];
            match conn.recv(&mut buf) {
                Ok(read @ 1..) => inbox.extend_from_slice(&buf[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return Some(Err(Closed)),
            }
            let whole = inbox.first_chunk::<4>();
            let whole = whole.map(|len| 4 + u32::from_be_bytes(*len) as usize);
            if let Some(end) = whole.filter(|end| *end <= inbox.len()) {
                return Some(Ok(Bytes::copy_from_slice(&inbox[4..end])));
            }
        }
    }
}

struct Closed;

fn settings() -> config::Broker {
    let address = format!("PLAINTEXT://127.0.0.1:{PORT}");
    let pairs = [
        ("node.id", "1"),
        ("listeners", &*address),
        ("log.dirs", "/data"),
        ("num.network.threads", "2"),
        ("esker.journal.piece.bytes", "1048576"),
        ("esker.journal.bytes", "2097152"),
        ("offsets.topic.num.partitions", "2"),
        ("transaction.state.log.num.partitions", "2"),
        ("group.initial.rebalance.delay.ms", "0"),
        ("group.consumer.max.session.timeout.ms", "1800000"),
        ("group.consumer.session.timeout.ms", "1800000"),
        ("transaction.max.timeout.ms", "3600000"),
        ("esker.client.metrics.enable", "true"),
        // The requests of nodes are asked for, too.
        ("esker.cluster.insecure", "true"),
    ];
    let mut settings = config::Settings::default();
    for (name, value) in pairs {
        settings.put(name, value).expect("a known setting");
    }
    let machine = config::Machine {
        cores: 2,
        memory_bytes: 0,
        descriptors: 20_000,
    };
    config::Broker::new(settings, machine).expect("settings that fit each other")
}
