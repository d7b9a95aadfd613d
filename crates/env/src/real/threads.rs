//! Workers as operating system threads.
//!
//! Each worker owns its thread: turns while there is work, parks when there is none. A panic of a worker is passed on to
//! whoever joins.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use model::Instant;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::clock::OsClock;
use super::sys;
use crate::{Bell, Clock, Threads, Turn, Worker};

/// A worker that waits longer than this rests.
const REST_AFTER: Duration = Duration::from_secs(30);
/// So does one that wakes up no more than this in that time: for timers, fifty a second.
const WAKES_MAX: u32 = 1_500;

static AT_REST: OnceLock<fn()> = OnceLock::new();

/// Has each worker that has had nothing to do for half a minute do this once, in its own thread. The first call of a process counts.
pub fn at_rest(what: fn()) {
    let _ = AT_REST.set(what);
}

fn rest() {
    if let Some(what) = AT_REST.get() {
        what();
    }
}

pub(super) struct OsThreads {
    clock: Arc<OsClock>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl OsThreads {
    pub(super) fn new(clock: Arc<OsClock>) -> OsThreads {
        OsThreads {
            clock,
            running: Mutex::new(Vec::new()),
        }
    }

    fn start(&self, name: &str, body: impl FnOnce() + Send + 'static) {
        let thread = begin(name, body);
        self.running.lock().push(thread);
    }
}

fn begin(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let named = std::thread::Builder::new().name(name.to_owned());
    let begun = named.spawn(body);
    begun.expect("the operating system starts a thread")
}

impl Threads for OsThreads {
    fn bell(&self) -> Arc<dyn Bell> {
        Arc::new(OsBell {
            clock: self.clock.clone(),
            rung: Mutex::new(false),
            changed: Condvar::new(),
        })
    }

    fn spawn(&self, name: &str, worker: Box<dyn Worker>) {
        let clock = Arc::clone(&self.clock);
        self.start(name, move || run(worker, &clock));
    }

    fn spawn_patient(&self, name: &str, worker: Box<dyn Worker>) {
        let clock = Arc::clone(&self.clock);
        self.start(name, move || {
            sys::let_others_go_first();
            run(worker, &clock);
        });
    }

    fn spawn_aside(&self, name: &str, worker: Box<dyn Worker>) {
        let clock = Arc::clone(&self.clock);
        drop(begin(name, move || run(worker, &clock)));
    }

    fn join(&self) {
        // Workers may spawn workers, so look again until none is left.
        loop {
            let Some(thread) = self.running.lock().pop() else {
                return;
            };
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn run(mut worker: Box<dyn Worker>, clock: &OsClock) {
    let mut wakes = Wakes::new(clock.now());
    loop {
        match worker.turn() {
            Turn::Again => {}
            Turn::Sleep { until } => {
                if wakes.has_come_to_rest(clock.now()) {
                    rest();
                }
                worker.park(until);
            }
            Turn::Done => return,
        }
    }
}

/// How often a worker woke up of late.
struct Wakes {
    since: Instant,
    count: u32,
    rests: bool,
}

impl Wakes {
    fn new(now: Instant) -> Wakes {
        Wakes {
            since: now,
            count: 0,
            rests: false,
        }
    }

    /// Counts one. True once for each time of rest.
    fn has_come_to_rest(&mut self, now: Instant) -> bool {
        self.count = self.count.saturating_add(1);
        if now.since(self.since) < REST_AFTER {
            return false;
        }
        let (was_resting, rests) = (self.rests, self.count <= WAKES_MAX);
        (self.since, self.count, self.rests) = (now, 0, rests);
        rests && !was_resting
    }
}

struct OsBell {
    clock: Arc<OsClock>,
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell for OsBell {
    fn ring(&self) {
        let mut rung = self.rung.lock();
        if !*rung {
            *rung = true;
            drop(rung);
            self.changed.notify_one();
        }
    }

    fn wait(&self, until: Option<Instant>) {
        let mut rung = self.rung.lock();
        let mut has_rested = false;
        while !*rung {
            let left = until.map(|until| until.since(self.clock.now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            let rests = !has_rested && left.is_none_or(|left| REST_AFTER < left);
            match left.filter(|_| !rests).or(rests.then_some(REST_AFTER)) {
                None => self.changed.wait(&mut rung),
                Some(time) => {
                    let is_over = self.changed.wait_for(&mut rung, time).timed_out();
                    if rests && is_over {
                        has_rested = true;
                        MutexGuard::unlocked(&mut rung, rest);
                    }
                }
            }
        }
        *rung = false;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn worker_comes_to_rest_once_until_it_works_again() {
        let at = |millis| Instant(0).plus(Duration::from_millis(millis));
        let mut wakes = Wakes::new(at(0));
        let mut rests = Vec::new();
        // Busy for a minute, then a timer each second, then busy and at rest once more.
        let busy = (0..60_000).chain(180_000..220_000).step_by(10);
        let timers = (60_000..180_000).chain(220_000..400_000).step_by(1_000);
        let mut all: Vec<u64> = busy.chain(timers).collect();
        all.sort_unstable();
        for millis in all {
            if wakes.has_come_to_rest(at(millis)) {
                rests.push(millis / 1_000);
            }
        }
        assert_eq!(rests.len(), 2, "{rests:?}");
        assert!(
            60 < rests[0] && rests[0] < 180 && 220 < rests[1],
            "{rests:?}"
        );
    }

    struct Looking(mpsc::Sender<(i32, std::time::Duration)>);

    impl Worker for Looking {
        fn turn(&mut self) -> Turn {
            self.0.send(sys::patience()).unwrap();
            Turn::Done
        }

        fn park(&mut self, _: Option<Instant>) {}
    }

    #[test]
    fn whoever_wakes_up_goes_before_a_patient_worker() {
        let threads = OsThreads::new(Arc::new(OsClock::start()));
        let (told, looked) = mpsc::channel();
        threads.spawn("plain", Box::new(Looking(told.clone())));
        let (nice, slice) = looked.recv().unwrap();
        threads.spawn_patient("patient", Box::new(Looking(told)));
        let (patient_nice, patient_slice) = looked.recv().unwrap();
        threads.join();
        assert!(patient_nice > nice || nice >= 10, "{patient_nice}, {nice}");
        // Kernels before 6.12 report no slice.
        assert!(
            patient_slice > slice || slice.is_zero(),
            "{patient_slice:?}"
        );
    }
}
