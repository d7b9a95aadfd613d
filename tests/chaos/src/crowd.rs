//! A crowd beside the clients that work: connections that promise large requests and keep them half done, and many that want
//! nothing. Memory stays within its bound, the others are served, and afterwards no descriptor is held for them.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::broker::{Broker, Launch};
use crate::ledger::judge;
use crate::load::{Load, TOPIC, create_topic, read_all};
use crate::place::Place;
use crate::{Outcome, Plan, Verdict};

/// Half of it is for requests that are not whole.
const REQUESTS_BYTES: u64 = 64 << 20;
const HALF_REQUESTS: usize = 300;
const IDLE: usize = 1000;
/// Each could be sent this much: ten times what the broker may keep of all.
const PART_BYTES: usize = 1 << 20;
/// Their bound, what each connection may have anyway, and the broker's own work meanwhile.
const GROWTH_BYTES_MAX: u64 =
    REQUESTS_BYTES / 2 + (HALF_REQUESTS as u64) * (32 << 10) + (100 << 20);
const CROWD_TIME: Duration = Duration::from_secs(8);
/// Of what the broker opens for a moment, and how long it may take to notice that a peer is gone.
const DESCRIPTORS_SPARE: usize = 16;
const GIVE_BACK_MAX: Duration = Duration::from_secs(10);

/// Peak resident memory so far.
fn peak_bytes(broker: &Broker) -> Result<u64, String> {
    let path = format!("/proc/{}/status", broker.id());
    let status = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10)
        .ok_or_else(|| format!("{path} tells no peak"))
}

/// Files of the data directory and its topics.
fn files_below(data: &Path) -> usize {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    entries(data)
        .map(|topic| 1 + entries(&topic.path()).count())
        .sum()
}

/// A produce request of 50 MB, of which more comes as long as the broker takes it.
struct Half {
    socket: TcpStream,
    left: usize,
}

impl Half {
    fn new(address: &str) -> Result<Half, String> {
        let connect = || {
            let mut socket = TcpStream::connect(address)?;
            let mut head = 50_000_000_u32.to_be_bytes().to_vec();
            // Produce, version 7, correlation 1, no client id.
            head.extend([0, 0, 0, 7, 0, 0, 0, 1, 255, 255]);
            socket.write_all(&head)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = connect().map_err(|error: std::io::Error| format!("a peer: {error}"))?;
        Ok(Half {
            socket,
            left: PART_BYTES,
        })
    }

    /// False when the broker has cut it off.
    fn push(&mut self, bytes: &[u8]) -> bool {
        while self.left > 0 {
            match self.socket.write(&bytes[..self.left.min(bytes.len())]) {
                Ok(sent) => self.left -= sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    let launch = Launch::new(plan, place, &place.dir.join("data"))?
        .with_setting(&format!("queued.max.request.bytes={REQUESTS_BYTES}"));
    let broker = launch.start()?;
    create_topic(&launch.address(), TOPIC)?;
    let load = Load::start(&launch.address());
    load.wait_for_acks(1000)?;
    let before = peak_bytes(&broker)?;
    let (descriptors, files) = (broker.descriptors()?, files_below(&launch.data));
    let idle: Result<Vec<_>, _> = (0..IDLE)
        .map(|_| TcpStream::connect(launch.address()))
        .collect();
    let idle = idle.map_err(|error| format!("an idle peer: {error}"))?;
    let crowd: Result<Vec<_>, _> = (0..HALF_REQUESTS)
        .map(|_| Half::new(&launch.address()))
        .collect();
    let mut crowd = crowd?;
    let bytes = vec![0; 64 << 10];
    let begun = Instant::now();
    let acked = load.progress().acked;
    while begun.elapsed() < CROWD_TIME {
        crowd.retain_mut(|half| half.push(&bytes));
        std::thread::sleep(Duration::from_millis(20));
    }
    let acked = load.progress().acked - acked;
    let grown = peak_bytes(&broker)?.saturating_sub(before);
    if grown > GROWTH_BYTES_MAX {
        return Err(format!("the broker grew by {} MiB", grown >> 20));
    }
    if acked < 1000 {
        return Err(format!(
            "{acked} records were acknowledged beside the crowd"
        ));
    }
    let cut = HALF_REQUESTS - crowd.len();
    drop((idle, crowd));
    load.wait_for_acks(1000)?;
    // Segments that were begun meanwhile may be held open; what the crowd took is given back.
    let rolled = files_below(&launch.data).saturating_sub(files);
    let most = descriptors + rolled + DESCRIPTORS_SPARE;
    let begun = Instant::now();
    while broker.descriptors()? > most {
        if begun.elapsed() > GIVE_BACK_MAX {
            return Err(format!(
                "{descriptors} descriptors before the crowd, {} after it",
                broker.descriptors()?
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let (accounts, shown) = load.finish()?;
    judge(&accounts, &shown, &read_all(&launch.address())?)?;
    broker.stop()?;
    launch.check_words()?;
    place.say(&format!(
        "{HALF_REQUESTS} half requests and {IDLE} idle connections: {cut} were cut off, the broker grew by {} MiB, {acked} records were acknowledged meanwhile",
        grown >> 20
    ));
    Ok(Verdict::Passed)
}
