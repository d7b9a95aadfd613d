//! The simulator's additions to the contract: virtual time, wake-ups that must be asked for, and runs that repeat.

use std::io::{ErrorKind, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use env::disk::Open;
use env::sim::{Faults, Machine, Step};
use env::{Bell, Env, Poller, Readiness, Turn, Worker};
use model::Instant;

/// Sleeps on `bell` and counts its turns.
struct Sleeper {
    turns: Arc<AtomicU32>,
    bell: Arc<dyn Bell>,
    every: Option<Duration>,
    env: Env,
}

impl Worker for Sleeper {
    fn turn(&mut self) -> Turn {
        self.turns.fetch_add(1, Ordering::SeqCst);
        Turn::Sleep {
            until: self.every.map(|every| self.env.clock.now().plus(every)),
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        self.bell.wait(until);
    }
}

fn sleeper(machine: &Machine, every: Option<Duration>) -> (Arc<AtomicU32>, Arc<dyn Bell>) {
    let env = machine.env();
    let (turns, bell) = (Arc::new(AtomicU32::new(0)), env.threads.bell());
    let worker = Sleeper {
        turns: turns.clone(),
        bell: bell.clone(),
        every,
        env: env.clone(),
    };
    env.threads.spawn("sleeper", Box::new(worker));
    (turns, bell)
}

#[test]
fn only_the_right_bell_wakes_a_sleeper() {
    let machine = Machine::new(1, Faults::default());
    let (turns, bell) = sleeper(&machine, None);
    let other = machine.env().threads.bell();
    while machine.step() != Step::Idle {}
    assert_eq!(turns.load(Ordering::SeqCst), 1);
    other.ring();
    assert_eq!(machine.step(), Step::Idle, "{}", machine.describe_workers());
    bell.ring();
    while machine.step() != Step::Idle {}
    assert_eq!(turns.load(Ordering::SeqCst), 2);
}

#[test]
fn time_moves_to_the_next_deadline_and_not_beyond_the_limit() {
    let machine = Machine::new(2, Faults::default());
    let (turns, _bell) = sleeper(&machine, Some(Duration::from_secs(60)));
    let start = machine.now();
    assert!(!machine.run_until(Duration::from_secs(600), |_| false));
    let passed = machine.now().since(start);
    assert!(
        Duration::from_secs(600) <= passed && passed < Duration::from_secs(601),
        "{passed:?}"
    );
    assert_eq!(
        turns.load(Ordering::SeqCst),
        10,
        "one at the start and one per minute, the tenth a little late"
    );
}

#[test]
fn the_wall_clock_jumps_and_sticks_while_the_monotonic_one_runs() {
    let machine = Machine::new(3, Faults::default());
    let _sleeper = sleeper(&machine, Some(Duration::from_secs(1)));
    let clock = machine.env().clock;
    let wall = clock.wall_ms().0;
    machine.jump_wall(-3_600_000);
    assert_eq!(clock.wall_ms().0, wall - 3_600_000);
    machine.stick_wall(true);
    let now = clock.now();
    machine.run_until(Duration::from_secs(10), |_| false);
    assert_eq!(clock.wall_ms().0, wall - 3_600_000);
    assert!(clock.now().since(now) >= Duration::from_secs(10));
    machine.stick_wall(false);
    assert!(clock.wall_ms().0 >= wall - 3_600_000 + 10_000);
}

#[test]
fn the_wall_clock_runs_at_a_rate_of_its_own_and_goes_on_from_where_it_is() {
    let machine = Machine::new(3, Faults::default());
    let _sleeper = sleeper(&machine, Some(Duration::from_secs(1)));
    let clock = machine.env().clock;
    for (rate, least, most) in [(500, 4_900, 5_100), (2_000, 19_900, 20_100)] {
        machine.run_wall_at(rate);
        let (wall, now) = (clock.wall_ms().0, clock.now());
        machine.run_until(Duration::from_secs(10), |_| false);
        let (passed, true_time) = (clock.wall_ms().0 - wall, clock.now().since(now));
        assert!((least..=most).contains(&passed), "{passed} ms at {rate}");
        assert!(true_time >= Duration::from_secs(10));
    }
    machine.run_wall_at(1_000);
    assert_eq!(machine.wall_told_max(), clock.wall_ms().0);
    assert_eq!(machine.counts().walls_jumped, 0);
    assert!(machine.counts().walls_skewed > 0);
}

#[test]
fn handles_are_counted_until_they_are_closed() {
    let machine = Machine::new(3, Faults::default());
    let disk = machine.env().disk;
    let path = Path::new("/a");
    let first = disk.open(path, Open::Create).unwrap();
    let second = disk.open(path, Open::Read).unwrap();
    assert_eq!(machine.handles(), (2, 0));
    disk.remove_file(path).unwrap();
    assert_eq!((machine.handles(), machine.files_count()), ((2, 2), 0));
    drop(first);
    assert_eq!(machine.handles(), (1, 1));
    machine.kill();
    assert_eq!(machine.handles(), (0, 0));
    drop(second);
    assert_eq!(machine.handles(), (0, 0));
}

/// Sends back what it receives, and writes it to a file that it syncs from time to time.
struct Echo {
    poller: Box<dyn Poller>,
    ready: Vec<Readiness>,
    env: Env,
    written: u64,
}

impl Worker for Echo {
    fn turn(&mut self) -> Turn {
        self.poller
            .wait(Some(Duration::ZERO), &mut self.ready)
            .unwrap();
        let file = self.env.disk.open(Path::new("/log"), Open::Create).unwrap();
        for ready in std::mem::take(&mut self.ready) {
            match ready {
                Readiness::Accept => {
                    while let Some(socket) = self.poller.accept(None).unwrap() {
                        self.poller.adopt(socket).unwrap();
                    }
                }
                Readiness::Conn { conn, .. } => {
                    let mut buf = BytesMut::with_capacity(64);
                    while let Ok(read) = self.poller.recv(conn, &mut buf) {
                        if read == 0 {
                            self.poller.close(conn);
                            break;
                        }
                        file.write_at(&[IoSlice::new(&buf[..read])], self.written)
                            .unwrap();
                        self.written += read as u64;
                        if self.env.rng.next_u64().is_multiple_of(4) {
                            file.sync_data().unwrap();
                        }
                        let mut sent = 0;
                        while sent < read {
                            match self.poller.send(conn, &[IoSlice::new(&buf[sent..read])]) {
                                Ok(count) => sent += count,
                                Err(_) => break,
                            }
                        }
                        buf.clear();
                    }
                }
            }
        }
        Turn::Sleep { until: None }
    }

    fn park(&mut self, until: Option<Instant>) {
        let timeout = until.map(|until| until.since(self.env.clock.now()));
        self.poller.wait(timeout, &mut self.ready).unwrap();
    }
}

fn echo(machine: &Machine) {
    let env = machine.env();
    let mut poller = env.net.poller().unwrap();
    poller.listen("127.0.0.1:9092").unwrap();
    let echo = Echo {
        poller,
        ready: Vec::new(),
        env: env.clone(),
        written: 0,
    };
    env.threads.spawn("echo", Box::new(echo));
}

/// Polls once, and notes how many turns another worker had meanwhile.
struct Poll {
    poller: Box<dyn Poller>,
    others: Arc<AtomicU32>,
    meanwhile: Arc<AtomicU32>,
}

impl Worker for Poll {
    fn turn(&mut self) -> Turn {
        let before = self.others.load(Ordering::SeqCst);
        let polled = self.poller.wait(Some(Duration::ZERO), &mut Vec::new());
        polled.unwrap();
        let had = self.others.load(Ordering::SeqCst) - before;
        self.meanwhile.fetch_add(had, Ordering::SeqCst);
        Turn::Done
    }

    fn park(&mut self, _until: Option<Instant>) {}
}

#[test]
fn others_have_turns_while_one_polls_if_it_is_interrupted() {
    for interrupts_one_in in [0, 1] {
        let machine = Machine::new(
            1,
            Faults {
                interrupts_one_in,
                ..Faults::default()
            },
        );
        let (others, _bell) = sleeper(&machine, Some(Duration::from_micros(1)));
        let meanwhile = Arc::new(AtomicU32::new(0));
        let env = machine.env();
        let worker = Poll {
            poller: env.net.poller().unwrap(),
            others,
            meanwhile: meanwhile.clone(),
        };
        env.threads.spawn("poll", Box::new(worker));
        machine.run_until(Duration::from_secs(1), |machine| {
            machine.workers_count() == 1
        });
        let had = meanwhile.load(Ordering::SeqCst);
        assert_eq!(had > 0, interrupts_one_in > 0, "{had}");
    }
}

/// Three clients say something each and wait for the echo.
fn talk(seed: u64) -> (u64, u64, Instant) {
    let machine = Machine::new(seed, Faults::default());
    echo(&machine);
    let conns: Vec<_> = (0..3).map(|_| machine.connect(9092).unwrap()).collect();
    for round in 0..20_u8 {
        for conn in &conns {
            assert!(conn.send(&[round; 4]).unwrap() > 0);
        }
        let mut buf = [0; 64];
        for conn in &conns {
            assert!(machine.run_until(Duration::from_secs(5), |_| conn.is_readable()));
            assert!(conn.recv(&mut buf).unwrap() > 0);
        }
    }
    machine.power_cut();
    (machine.trace(), machine.events_count(), machine.now())
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    for seed in 0..10 {
        assert_eq!(talk(seed), talk(seed));
        assert_ne!(talk(seed).0, talk(seed + 1).0);
    }
}

#[test]
fn a_power_cut_ends_connections_and_listeners_and_a_new_life_listens_again() {
    for seed in 0..20 {
        let machine = Machine::new(seed, Faults::default());
        echo(&machine);
        let conn = machine.connect(9092).unwrap();
        conn.send(b"hello").unwrap();
        machine.run_until(Duration::from_secs(1), |_| false);
        machine.power_cut();
        assert_eq!(machine.workers_count(), 0);
        assert_eq!(
            machine.connect(9092).err().unwrap().kind(),
            ErrorKind::ConnectionRefused
        );
        machine.run_until(Duration::from_secs(1), |_| false);
        assert_eq!(
            conn.recv(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::ConnectionReset
        );
        echo(&machine);
        let again = machine.connect(9092).unwrap();
        again.send(b"a").unwrap();
        assert!(machine.run_until(Duration::from_secs(1), |_| again.is_readable()));
    }
}

#[test]
fn a_stalled_side_gets_everything_when_the_stall_ends() {
    let machine = Machine::new(7, Faults::default());
    echo(&machine);
    let conn = machine.connect(9092).unwrap();
    conn.stall_requests(Duration::from_secs(20));
    let sent = conn.send(b"late").unwrap();
    assert!(!machine.run_until(Duration::from_secs(19), |_| conn.is_readable()));
    assert!(machine.run_until(Duration::from_secs(2), |_| conn.is_readable()));
    let mut buf = [0; 8];
    let got = conn.recv(&mut buf).unwrap();
    assert!(0 < got && got <= sent && b"late".starts_with(&buf[..got]));
    conn.reset();
    assert_eq!(
        conn.send(b"x").unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
}
