//! The machine we run on.
//!
//! Owns every system call of the broker. Portable Unix, with the Linux calls behind `cfg(target_os = "linux")` and a slower
//! equivalent elsewhere. Decides nothing: no retry but after an interruption, no limit, no default path.

mod around;
mod clock;
mod cold;
mod disk;
mod memory;
mod net;
mod notify;
mod process;
mod stream;
mod sys;
mod threads;

use std::sync::Arc;

use crate::Env;

pub use process::ProcessUse;
pub use threads::at_rest;

/// The limit that shells set where nobody raised it.
const DESCRIPTORS_UNKNOWN: usize = 1024;

impl Env {
    /// Files and sockets this process may have open.
    #[must_use]
    pub fn descriptors() -> usize {
        sys::file_limit().unwrap_or(DESCRIPTORS_UNKNOWN)
    }

    /// Bytes of memory this process may count on; 0 when the system does not say.
    #[must_use]
    pub fn memory_bytes() -> u64 {
        memory::bytes()
    }

    /// Milliseconds since 1970 of a local time, given as what UTC would call the same numbers.
    #[must_use]
    pub fn local_to_utc_ms(ms: i64) -> Option<i64> {
        let seconds = sys::local_to_utc(ms.div_euclid(1000))?;
        seconds.checked_mul(1000)?.checked_add(ms.rem_euclid(1000))
    }

    /// Notifies the service manager that started this process, if it asked for that; true if it did.
    pub fn notify(state: &str) -> std::io::Result<bool> {
        notify::notify(state)
    }

    /// The process's share of the machine.
    #[must_use]
    pub fn process_use() -> ProcessUse {
        ProcessUse::now()
    }

    /// The operating system.
    #[must_use]
    pub fn real() -> Env {
        // Refused: then the limit stays as it is, and a missing descriptor is an error where it is missed.
        let _ = sys::raise_file_limit();
        let clock = Arc::new(clock::OsClock::start());
        Env {
            clock: clock.clone(),
            rng: Arc::new(clock::OsRng),
            disk: Arc::<disk::OsDisk>::default(),
            net: Arc::new(net::OsNet),
            threads: Arc::new(threads::OsThreads::new(clock)),
            loggers: Arc::default(),
        }
    }
}
