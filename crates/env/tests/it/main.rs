//! One contract, kept by every machine: whatever the broker relies on is asked of each implementation of [`env::Env`].

mod bell;
mod disk;
mod hosts;
mod late;
mod net;
mod power;
mod turns;

use std::path::PathBuf;

use env::Env;
use env::sim::{Faults, Machine};

/// A machine with an empty directory of its own.
struct TestDir {
    env: Env,
    dir: PathBuf,
    /// The simulated machine, where it is one; a directory of the operating system has to be removed.
    machine: Option<Machine>,
}

impl Drop for TestDir {
    fn drop(&mut self) {
        if self.machine.is_none() {
            let _ = self.env.disk.remove_dir_all(&self.dir);
        }
    }
}

fn real(name: &str) -> TestDir {
    let env = Env::real();
    let dir = std::env::temp_dir().join(format!("esker-env-{name}-{:016x}", env.rng.next_u64()));
    env.disk.create_dir_all(&dir).unwrap();
    TestDir {
        env,
        dir,
        machine: None,
    }
}

fn simulated(seed: u64) -> TestDir {
    let machine = Machine::new(seed, Faults::default());
    let (env, dir) = (machine.env(), PathBuf::from("/data"));
    env.disk.create_dir_all(&dir).unwrap();
    TestDir {
        env,
        dir,
        machine: Some(machine),
    }
}

/// Runs `check` on every kind of machine.
fn on_every_machine(name: &str, check: impl Fn(&TestDir)) {
    check(&real(name));
    for seed in 0..20 {
        check(&simulated(seed));
    }
}
