//! Workers as operating system threads.
//!
//! Each worker owns its thread: turns while there is work, parks when there is none. A panic of a worker is passed on to
//! whoever joins.

use std::sync::Arc;
use std::thread::JoinHandle;

use model::Instant;
use parking_lot::{Condvar, Mutex};

use super::clock::OsClock;
use super::sys;
use crate::{Bell, Clock, Threads, Turn, Worker};

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
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(body)
            .expect("the operating system starts a thread");
        self.running.lock().push(thread);
    }
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
        self.start(name, move || run(worker));
    }

    fn spawn_patient(&self, name: &str, worker: Box<dyn Worker>) {
        self.start(name, move || {
            sys::let_others_go_first();
            run(worker);
        });
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

fn run(mut worker: Box<dyn Worker>) {
    loop {
        match worker.turn() {
            Turn::Again => {}
            Turn::Sleep { until } => worker.park(until),
            Turn::Done => return,
        }
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
        while !*rung {
            match until {
                None => self.changed.wait(&mut rung),
                Some(until) => {
                    let left = until.since(self.clock.now());
                    if left.is_zero() {
                        return;
                    }
                    self.changed.wait_for(&mut rung, left);
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
