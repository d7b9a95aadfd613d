//! The time of a sync: it belongs to the machine or the worker that syncs, and a power cut within it takes all of it back.

use std::collections::BTreeSet;
use std::io::{ErrorKind, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use env::disk::Open;
use env::sim::{Faults, HostId, Machine, Machines};
use env::{ConnId, Env, FileHandle, Poller, Readiness, Turn, Worker};
use model::Instant;

const SYNC: Duration = Duration::from_secs(1);

/// Every sync takes as long, but for the one in a hundred that takes longer.
fn slow() -> Faults {
    let nanos = SYNC.as_nanos() as u64;
    Faults {
        sync_nanos: nanos..nanos,
        ..Faults::default()
    }
}

/// Has a turn in each millisecond.
struct Ticker {
    env: Env,
    ticks: Arc<AtomicU64>,
}

impl Worker for Ticker {
    fn turn(&mut self) -> Turn {
        self.ticks.fetch_add(1, Ordering::SeqCst);
        let next = self.env.clock.now().plus(Duration::from_millis(1));
        Turn::Sleep { until: Some(next) }
    }

    fn park(&mut self, _: Option<Instant>) {}
}

fn tick(machine: &Machine) -> Arc<AtomicU64> {
    let ticks = Arc::new(AtomicU64::new(0));
    let env = machine.env();
    let ticker = Ticker {
        env: env.clone(),
        ticks: ticks.clone(),
    };
    env.threads.spawn("ticker", Box::new(ticker));
    ticks
}

/// Writes and syncs once, writes another file behind it, says so to the peer, and is done.
struct Inline {
    env: Env,
    poller: Box<dyn Poller>,
    conn: ConnId,
    first: FileHandle,
    second: FileHandle,
    took: Arc<AtomicU64>,
}

impl Worker for Inline {
    fn turn(&mut self) -> Turn {
        let ready = self.poller.send(self.conn, &[]);
        if ready.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            return Turn::Sleep { until: None };
        }
        let start = self.env.clock.now();
        self.first.write_at(&[IoSlice::new(b"1")], 0).unwrap();
        self.first.sync_data().unwrap();
        let took = self.env.clock.now().since(start);
        self.took.store(took.as_nanos() as u64, Ordering::SeqCst);
        self.second.write_at(&[IoSlice::new(b"2")], 0).unwrap();
        self.poller.send(self.conn, &[IoSlice::new(b"!")]).unwrap();
        self.took.fetch_add(1, Ordering::SeqCst);
        // The end of the poller would be seen too.
        Turn::Sleep { until: None }
    }

    fn park(&mut self, until: Option<Instant>) {
        let timeout = until.map(|until| until.since(self.env.clock.now()));
        let mut ready: Vec<Readiness> = Vec::new();
        self.poller.wait(timeout, &mut ready).unwrap();
    }
}

const FILES: [&str; 2] = ["/first", "/second"];

struct Rig {
    machines: Machines,
    listener: Box<dyn Poller>,
    heard: BytesMut,
    took: Arc<AtomicU64>,
}

/// Machine 1 listens, machine 2 syncs inline.
fn rig(seed: u64) -> Rig {
    let machines = Machines::new(seed, 2, &slow());
    let mut listener = machines.get(HostId(1)).env().net.poller().unwrap();
    listener.listen("10.0.0.1:9092").unwrap();
    let machine = machines.get(HostId(2));
    machine.faults(|faults| faults.sync_nanos = 0..0);
    let env = machine.env();
    let [first, second] = FILES.map(|path| env.disk.open(Path::new(path), Open::Create).unwrap());
    env.disk.sync_dir(Path::new("/")).unwrap();
    machine.faults(|faults| faults.sync_nanos = slow().sync_nanos);
    let mut poller = env.net.poller().unwrap();
    let address = machines.address(HostId(1), 9092);
    let took = Arc::new(AtomicU64::new(0));
    let worker = Inline {
        conn: poller.connect(address).unwrap(),
        env: env.clone(),
        poller,
        first,
        second,
        took: took.clone(),
    };
    env.threads.spawn("inline", Box::new(worker));
    Rig {
        machines,
        listener,
        heard: BytesMut::with_capacity(8),
        took,
    }
}

impl Rig {
    /// Runs until the turn with the sync was taken.
    fn begin(&self) {
        let begun = |_: &Machines| self.took.load(Ordering::SeqCst) > 0;
        assert!(self.machines.run_until(SYNC, begun));
    }

    /// Listens for so long; true if the peer said something.
    fn hears(&mut self, time: Duration) -> bool {
        let end = self.machines.now().plus(time);
        while self.machines.now() < end && self.heard.is_empty() {
            let left = end.since(self.machines.now());
            let mut ready = Vec::new();
            self.listener.wait(Some(left), &mut ready).unwrap();
            for ready in ready {
                match ready {
                    Readiness::Accept => {
                        while let Some(socket) = self.listener.accept(None).unwrap() {
                            self.listener.adopt(socket).unwrap();
                        }
                    }
                    Readiness::Conn { conn, .. } => {
                        let _ = self.listener.recv(conn, &mut self.heard);
                    }
                }
            }
        }
        !self.heard.is_empty()
    }
}

#[test]
fn a_sync_within_a_turn_stops_its_own_machine_and_no_other() {
    let mut rig = rig(1);
    let elsewhere = tick(rig.machines.get(HostId(1)));
    let here = tick(rig.machines.get(HostId(2)));
    rig.begin();
    let took = Duration::from_nanos(rig.took.load(Ordering::SeqCst) - 1);
    assert!(took >= SYNC, "the machine's own clock shows it: {took:?}");
    let before = [&elsewhere, &here].map(|ticks| ticks.load(Ordering::SeqCst));
    assert!(!rig.hears(took - Duration::from_millis(5)), "too early");
    let after = [&elsewhere, &here].map(|ticks| ticks.load(Ordering::SeqCst));
    assert!(after[0] - before[0] > 900, "{before:?}, {after:?}");
    assert_eq!(after[1], before[1]);
    assert!(rig.hears(Duration::from_millis(20)), "it leaves at the end");
    assert!(rig.machines.run_until(Duration::from_millis(20), |_| {
        here.load(Ordering::SeqCst) > after[1]
    }));
}

fn lens(machine: &Machine) -> [u64; 2] {
    let disk = machine.env().disk;
    FILES.map(|path| {
        let file = disk.open(Path::new(path), Open::Read).unwrap();
        file.len().unwrap()
    })
}

#[test]
fn a_power_cut_within_a_sync_takes_back_the_sync_and_all_behind_it() {
    let mut found = BTreeSet::new();
    for seed in 0..40 {
        let mut rig = rig(seed);
        rig.begin();
        assert!(!rig.hears(SYNC / 2));
        let machine = rig.machines.get(HostId(2)).clone();
        machine.power_cut();
        let lens = lens(&machine);
        assert_eq!(lens[1], 0, "it was written behind the sync");
        found.insert(lens[0]);
        assert!(!rig.hears(SYNC * 2), "nothing had left");
    }
    assert_eq!(found, BTreeSet::from([0, 1]), "the sync may have come far");

    for seed in 0..40 {
        let mut rig = rig(seed);
        rig.begin();
        assert!(rig.hears(SYNC * 200));
        let machine = rig.machines.get(HostId(2)).clone();
        machine.power_cut();
        assert_eq!(lens(&machine)[0], 1, "what was said holds");
    }
}

#[test]
fn a_kill_within_a_sync_leaves_what_was_written_before_it() {
    let mut rig = rig(3);
    rig.begin();
    assert!(!rig.hears(SYNC / 2));
    let machine = rig.machines.get(HostId(2)).clone();
    machine.kill();
    assert_eq!(lens(&machine), [1, 0]);
    assert!(!rig.hears(SYNC * 2));
}

/// Writes and syncs in one turn, and notes in the next that it did.
struct Syncer {
    file: FileHandle,
    synced: Arc<AtomicU64>,
    has_synced: bool,
}

impl Worker for Syncer {
    fn turn(&mut self) -> Turn {
        if self.has_synced {
            self.synced.store(2, Ordering::SeqCst);
            return Turn::Done;
        }
        self.file.write_at(&[IoSlice::new(&[1; 9000])], 0).unwrap();
        self.file.sync_data().unwrap();
        self.has_synced = true;
        self.synced.store(1, Ordering::SeqCst);
        Turn::Again
    }

    fn park(&mut self, _: Option<Instant>) {}
}

#[test]
fn a_syncer_sleeps_while_it_syncs_and_a_power_cut_then_may_lose_pages() {
    let mut kept = BTreeSet::new();
    for seed in 0..60 {
        for is_over in [false, true] {
            let machine = Machine::new(seed, Faults::default());
            let env = machine.env();
            let path = Path::new(FILES[0]);
            let file = env.disk.open(path, Open::Create).unwrap();
            file.write_at(&[IoSlice::new(&[7; 100])], 0).unwrap();
            file.sync_data().unwrap();
            env.disk.sync_dir(Path::new("/")).unwrap();
            machine.faults(|faults| faults.sync_nanos = slow().sync_nanos);
            let synced = Arc::new(AtomicU64::new(0));
            let syncer = Syncer {
                file: file.clone(),
                synced: synced.clone(),
                has_synced: false,
            };
            env.threads.spawn_syncer("syncer", Box::new(syncer));
            let ticks = tick(&machine);
            machine.run_until(SYNC / 2, |_| false);
            assert_eq!(synced.load(Ordering::SeqCst), 1);
            assert!(ticks.load(Ordering::SeqCst) > 400, "others have turns");
            // Another worker writes behind what is being synced.
            file.write_at(&[IoSlice::new(&[2; 100])], 9000).unwrap();
            if is_over {
                assert!(machine.run_until(SYNC * 200, |_| synced.load(Ordering::SeqCst) == 2));
            }
            machine.power_cut();
            let file = machine.env().disk.open(path, Open::Read).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            if is_over {
                assert_eq!(&bytes[..9000], &[1; 9000]);
            } else {
                kept.insert((bytes.len(), bytes[0], bytes.get(8999).copied()));
            }
        }
    }
    assert!(kept.contains(&(100, 7, None)), "nothing of it: {kept:?}");
    assert!(kept.contains(&(9000, 1, Some(1))), "all of it: {kept:?}");
    assert!(kept.contains(&(9100, 1, Some(1))), "more than it: {kept:?}");
}

#[test]
fn a_sync_that_returns_covers_what_slower_ones_before_it_had_begun() {
    for seed in 0..20 {
        let machine = Machine::new(seed, Faults::default());
        let env = machine.env();
        let path = Path::new(FILES[0]);
        let file = env.disk.open(path, Open::Create).unwrap();
        env.disk.sync_dir(Path::new("/")).unwrap();
        let synced = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
        for (synced, times) in synced.iter().zip([100, 1]) {
            let nanos = &slow().sync_nanos;
            let nanos = nanos.start * times..nanos.end * times;
            machine.faults(|faults| faults.sync_nanos = nanos);
            let syncer = Syncer {
                file: file.clone(),
                synced: Arc::clone(synced),
                has_synced: false,
            };
            env.threads.spawn_syncer("syncer", Box::new(syncer));
            machine.run_until(SYNC / 10, |_| false);
        }
        let is_over = |synced: &AtomicU64| synced.load(Ordering::SeqCst) == 2;
        if !machine.run_until(SYNC * 50, |_| is_over(&synced[1])) {
            continue; // one in a hundred syncs is slow by itself
        }
        assert!(!is_over(&synced[0]), "the first goes on");
        machine.power_cut();
        let file = machine.env().disk.open(path, Open::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [1; 9000], "seed {seed}");
    }
}

#[test]
fn the_clock_of_a_host_that_syncs_may_get_another_rate() {
    let rig = rig(3);
    rig.begin();
    let machine = rig.machines.get(HostId(2)).clone();
    let before = machine.env().clock.wall_ms().0;
    machine.run_wall_at(2_000);
    let after = machine.env().clock.wall_ms().0;
    assert!(
        before <= after && after < before + 60_000,
        "{before} to {after}"
    );
}
