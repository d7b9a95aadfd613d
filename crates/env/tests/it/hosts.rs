//! Machines that talk over links: dials, cuts in one or both directions, power cuts of one of them, and runs that repeat.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use env::disk::Open;
use env::sim::{Faults, HostId, Link, Machine, Machines, Passage, Site};
use env::{ConnId, Env, FileHandle, Poller, Readiness, Turn, Worker};
use model::Instant;
use parking_lot::Mutex;

const PORT: u16 = 9092;
/// A number that is sent, and echoed.
const NUMBER_BYTES: usize = 8;
/// Numbers that may be under way.
const WINDOW: u64 = 8;
const SILENCE_MAX: Duration = Duration::from_millis(300);
const REDIAL: Duration = Duration::from_millis(50);

/// Numbers as they come in pieces.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    /// Receives what is there; false when the connection is over.
    fn fill(&mut self, poller: &mut dyn Poller, conn: ConnId) -> bool {
        let mut buf = BytesMut::with_capacity(64);
        loop {
            match poller.recv(conn, &mut buf) {
                Ok(0) => return false,
                Ok(_) => self.bytes.extend_from_slice(&buf),
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
            buf.clear();
        }
    }

    fn next(&mut self) -> Option<u64> {
        let number = *self.bytes.first_chunk::<NUMBER_BYTES>()?;
        self.bytes.drain(..NUMBER_BYTES);
        Some(u64::from_be_bytes(number))
    }
}

/// Sends what it can; the rest stays.
fn flush(poller: &mut dyn Poller, conn: ConnId, out: &mut Vec<u8>) {
    while !out.is_empty() {
        match poller.send(conn, &[IoSlice::new(out)]) {
            Ok(sent) => drop(out.drain(..sent)),
            Err(_) => return,
        }
    }
}

fn park(poller: &mut dyn Poller, env: &Env, until: Option<Instant>, ready: &mut Vec<Readiness>) {
    let timeout = until.map(|until| until.since(env.clock.now()));
    poller.wait(timeout, ready).unwrap();
}

/// Writes each number to its file and syncs it before it sends it back.
struct Keeper {
    env: Env,
    poller: Box<dyn Poller>,
    ready: Vec<Readiness>,
    file: FileHandle,
    conns: BTreeMap<ConnId, (Inbox, Vec<u8>)>,
}

impl Worker for Keeper {
    fn turn(&mut self) -> Turn {
        for ready in std::mem::take(&mut self.ready) {
            let Readiness::Conn { conn, .. } = ready else {
                while let Some(socket) = self.poller.accept(None).unwrap() {
                    let conn = self.poller.adopt(socket).unwrap();
                    self.conns.insert(conn, Default::default());
                }
                continue;
            };
            let Some((inbox, out)) = self.conns.get_mut(&conn) else {
                continue;
            };
            if !inbox.fill(&mut *self.poller, conn) {
                self.poller.close(conn);
                self.conns.remove(&conn);
                continue;
            }
            while let Some(number) = inbox.next() {
                let position = self.file.len().unwrap();
                let bytes = number.to_be_bytes();
                self.file
                    .write_at(&[IoSlice::new(&bytes)], position)
                    .unwrap();
                self.file.sync_data().unwrap();
                out.extend(bytes);
            }
            flush(&mut *self.poller, conn, out);
        }
        Turn::Sleep { until: None }
    }

    fn park(&mut self, until: Option<Instant>) {
        park(&mut *self.poller, &self.env, until, &mut self.ready);
    }
}

/// The observations of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The highest number that came back.
    echoed: u64,
    dials: u64,
    /// Connections that ended with an error, with silence, or at the other side.
    lost: u64,
}

/// Sends numbers over a connection that it dials, again and again, until they come back.
struct Caller {
    env: Env,
    poller: Box<dyn Poller>,
    ready: Vec<Readiness>,
    to: SocketAddr,
    conn: Option<ConnId>,
    inbox: Inbox,
    out: Vec<u8>,
    sent: u64,
    heard: Instant,
    seen: Arc<Mutex<Seen>>,
}

impl Caller {
    fn lose(&mut self, conn: ConnId) {
        self.poller.close(conn);
        self.conn = None;
        self.heard = self.env.clock.now();
        self.seen.lock().lost += 1;
    }
}

impl Worker for Caller {
    fn turn(&mut self) -> Turn {
        let now = self.env.clock.now();
        self.ready.clear();
        let Some(conn) = self.conn else {
            let at = self.heard.plus(REDIAL);
            if now < at {
                return Turn::Sleep { until: Some(at) };
            }
            let mut seen = self.seen.lock();
            seen.dials += 1;
            (self.inbox, self.sent) = (Inbox::default(), seen.echoed);
            self.out.clear();
            self.conn = Some(self.poller.connect(self.to).unwrap());
            self.heard = now;
            return Turn::Again;
        };
        if !self.inbox.fill(&mut *self.poller, conn) || now.since(self.heard) > SILENCE_MAX {
            self.lose(conn);
            return Turn::Again;
        }
        while let Some(number) = self.inbox.next() {
            let mut seen = self.seen.lock();
            assert_eq!(number, seen.echoed + 1, "in order, each once");
            seen.echoed = number;
            self.heard = now;
        }
        let echoed = self.seen.lock().echoed;
        while self.sent < echoed + WINDOW {
            self.sent += 1;
            self.out.extend(self.sent.to_be_bytes());
        }
        flush(&mut *self.poller, conn, &mut self.out);
        let silent = self.heard.plus(SILENCE_MAX + Duration::from_nanos(1));
        Turn::Sleep {
            until: Some(silent),
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        park(&mut *self.poller, &self.env, until, &mut self.ready);
    }
}

const FILE: &str = "/numbers";

fn keep(machines: &Machines, host: u8) {
    let env = machines.get(HostId(host)).env();
    let mut poller = env.net.poller().unwrap();
    poller.listen(&format!("10.0.0.{host}:{PORT}")).unwrap();
    let file = env.disk.open(Path::new(FILE), Open::Create).unwrap();
    env.disk.sync_dir(Path::new("/")).unwrap();
    let keeper = Keeper {
        env: env.clone(),
        poller,
        ready: Vec::new(),
        file,
        conns: BTreeMap::new(),
    };
    env.threads.spawn("keeper", Box::new(keeper));
}

fn call(machines: &Machines, from: u8, to: u8) -> Arc<Mutex<Seen>> {
    let env = machines.get(HostId(from)).env();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let caller = Caller {
        poller: env.net.poller().unwrap(),
        ready: Vec::new(),
        to: machines.address(HostId(to), PORT),
        conn: None,
        inbox: Inbox::default(),
        out: Vec::new(),
        sent: 0,
        heard: env.clock.now(),
        seen: seen.clone(),
        env: env.clone(),
    };
    env.threads.spawn("caller", Box::new(caller));
    seen
}

fn host(number: u8) -> Site {
    Site::Host(HostId(number))
}

fn run(machines: &Machines, millis: u64) {
    machines.run_until(Duration::from_millis(millis), |_| false);
}

/// The highest number in the file of a machine.
fn kept(machine: &Machine) -> u64 {
    let disk = machine.env().disk;
    let file = disk.open(Path::new(FILE), Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let numbers = bytes.chunks_exact(NUMBER_BYTES);
    let numbers = numbers.map(|number| u64::from_be_bytes(number.try_into().unwrap()));
    numbers.max().unwrap_or(0)
}

fn echoed(seen: &Arc<Mutex<Seen>>) -> u64 {
    seen.lock().echoed
}

#[test]
fn a_cut_link_of_any_kind_stops_those_it_joins_until_it_is_mended() {
    let both = |passage| vec![(1, 2, passage), (2, 1, passage)];
    let cuts = [
        both(Passage::Held),
        both(Passage::Dropped),
        both(Passage::Refused),
        vec![(1, 2, Passage::Held)],
        vec![(2, 1, Passage::Held)],
        vec![(1, 2, Passage::Dropped)],
        vec![(2, 1, Passage::Dropped)],
        vec![(1, 2, Passage::Refused)],
    ];
    for (seed, cut) in (0..).zip(cuts) {
        let machines = Machines::new(seed, 3, &Faults::default());
        (2..=3).for_each(|host| keep(&machines, host));
        let (cut_off, beside) = (call(&machines, 1, 2), call(&machines, 1, 3));
        run(&machines, 500);
        assert!(echoed(&cut_off) > 0 && echoed(&beside) > 0);

        for (from, to, passage) in &cut {
            let link = Link {
                passage: *passage,
                ..Link::default()
            };
            machines.set_link(host(*from), host(*to), link);
        }
        // Whatever had arrived already may come back.
        run(&machines, 50);
        let (before, beside_before) = (cut_off.lock().clone(), echoed(&beside));
        run(&machines, 1_500);
        let within = cut_off.lock().clone();
        assert_eq!(within.echoed, before.echoed, "{cut:?}");
        assert!(within.lost > before.lost, "{cut:?}: silence or an error");
        assert!(echoed(&beside) > beside_before, "the other link is open");
        assert!(machines.get(HostId(2)).counts().link_cuts > 0);
        assert_eq!(machines.get(HostId(3)).counts().link_cuts, 0);

        machines.mend_links();
        run(&machines, 1_500);
        assert!(echoed(&cut_off) > within.echoed, "{cut:?}: mended");
        assert!(kept(machines.get(HostId(2))) >= echoed(&cut_off));
    }
}

#[test]
fn a_link_that_delays_makes_every_answer_wait() {
    let machines = Machines::new(4, 2, &Faults::default());
    keep(&machines, 2);
    let seen = call(&machines, 1, 2);
    run(&machines, 1_000);
    let fast = echoed(&seen);
    let link = Link {
        delay: Duration::from_millis(20),
        ..Link::default()
    };
    machines.set_link(host(1), host(2), link);
    machines.set_link(host(2), host(1), link);
    run(&machines, 1_000);
    let slow = echoed(&seen) - fast;
    // 25 round trips of a window each, and no more.
    assert!(0 < slow && slow <= 26 * WINDOW, "{slow} of {fast}");
    assert!(slow < fast / 2, "{slow} of {fast}");
}

#[test]
fn a_paused_machine_answers_nothing_and_then_goes_on() {
    let machines = Machines::new(5, 2, &Faults::default());
    keep(&machines, 2);
    let seen = call(&machines, 1, 2);
    run(&machines, 200);
    machines.get(HostId(2)).pause(Duration::from_millis(200));
    // Bytes that had left before it stopped may be on their way, and slow.
    run(&machines, 10);
    let before = echoed(&seen);
    run(&machines, 150);
    assert_eq!(echoed(&seen), before);
    run(&machines, 200);
    assert!(echoed(&seen) > before);
    assert_eq!(seen.lock().lost, 0, "nobody noticed more than silence");

    // A new process is not the one that was stopped.
    machines.get(HostId(2)).pause(Duration::from_secs(60));
    machines.get(HostId(2)).kill();
    keep(&machines, 2);
    let before = echoed(&seen);
    run(&machines, 500);
    assert!(echoed(&seen) > before);
}

#[test]
fn an_echo_outlives_a_power_cut_of_the_machine_that_kept_it() {
    let mut lost_pages = 0;
    for seed in 0..60 {
        let machines = Machines::new(seed, 2, &Faults::default());
        keep(&machines, 2);
        let seen = call(&machines, 1, 2);
        for _ in 0..4 {
            run(&machines, 37 + seed);
            let machine = machines.get(HostId(2));
            lost_pages += machine.power_cut().pages;
            let kept = kept(machine);
            // Sent before the cut, it may still be on its way: so the run goes on before the caller is asked.
            run(&machines, 20);
            assert!(echoed(&seen) <= kept, "seed {seed}: {kept} were kept");
            keep(&machines, 2);
        }
        run(&machines, 500);
        assert!(echoed(&seen) > 0 && seen.lock().lost >= 4);
        assert_eq!(machines.get(HostId(1)).counts().power_cuts, 0);
    }
    assert!(lost_pages > 0, "some cut came in the middle of a sync");
}

/// Three machines that all call each other, with a fault of every kind at chosen times.
fn storm(seed: u64, count: u8) -> (u64, u64, Vec<Seen>) {
    let faults = Faults {
        interrupts_one_in: 50,
        ..Faults::default()
    };
    let machines = Machines::new(seed, count, &faults);
    (1..=count).for_each(|host| keep(&machines, host));
    let pairs = (1..=count).flat_map(|from| (1..=count).map(move |to| (from, to)));
    let pairs = pairs.filter(|(from, to)| from != to);
    let seen: Vec<_> = pairs
        .map(|(from, to)| (from, call(&machines, from, to)))
        .collect();
    run(&machines, 100);
    machines.cut(host(1), host(2), Passage::Held);
    run(&machines, 100);
    let one_way = Link {
        passage: Passage::Dropped,
        delay: Duration::from_millis(1),
    };
    machines.set_link(host(2), host(1), one_way);
    machines.get(HostId(1)).jump_wall(-5_000);
    run(&machines, 500);
    machines.get(HostId(2)).power_cut();
    run(&machines, 100);
    machines.cut(host(1), host(count), Passage::Refused);
    keep(&machines, 2);
    machines.get(HostId(count)).pause(Duration::from_millis(50));
    run(&machines, 200);
    machines.mend_links();
    let before: Vec<u64> = seen.iter().map(|(_, seen)| echoed(seen)).collect();
    run(&machines, 1_000);
    for ((from, seen), before) in seen.iter().zip(before) {
        let is_alive = *from != 2;
        assert_eq!(echoed(seen) > before, is_alive, "seed {seed}, from {from}");
    }
    let seen = seen.iter().map(|(_, seen)| seen.lock().clone());
    (machines.trace(), machines.events_count(), seen.collect())
}

#[test]
fn two_and_three_machines_repeat_their_run_byte_for_byte() {
    for count in [2, 3] {
        for seed in 0..5 {
            let run = storm(seed, count);
            assert_eq!(run, storm(seed, count));
            assert_ne!(run.0, storm(seed + 1, count).0);
        }
    }
}
