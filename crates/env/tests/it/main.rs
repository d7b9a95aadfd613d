//! One contract, kept by every machine: whatever the broker relies on is asked of each implementation of [`env::Env`].

mod bell;
mod disk;
mod net;

use std::path::PathBuf;

use env::Env;

/// A machine with an empty directory of its own.
struct Place {
    env: Env,
    dir: PathBuf,
    /// What removes the directory, where it is one of the operating system.
    clean: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.clean {
            let _ = self.env.disk.remove_dir_all(&self.dir);
        }
    }
}

fn real(name: &str) -> Place {
    let env = Env::real();
    let dir = std::env::temp_dir().join(format!("esker-env-{name}-{:016x}", env.rng.next_u64()));
    env.disk.create_dir_all(&dir).unwrap();
    Place {
        env,
        dir,
        clean: true,
    }
}

/// Runs `check` on every kind of machine.
fn on_every_machine(name: &str, check: impl Fn(&Place)) {
    check(&real(name));
}
