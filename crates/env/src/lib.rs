//! The operating system behind small traits: clock, randomness, disk, network, threads; and stores of objects beside it.
//!
//! Owns every call to the OS that the broker makes. `real` is the machine we run on, `sim` a seeded one that loses what was
//! not synced. Whoever needs time, chance, a file or a socket is handed an [`Env`]; nobody reaches around it.

pub mod bucket;
pub mod clock;
pub mod disk;
pub mod logs;
pub mod net;
#[cfg(unix)]
#[allow(clippy::disallowed_methods)] // the one place where the operating system is asked
mod real;
pub mod sim;
pub mod threads;

use std::fmt;
use std::io::Write;
use std::sync::Arc;

pub use clock::{Clock, Rng};
pub use disk::{Disk, File, FileHandle};
pub use net::{ConnId, Net, Poller, Readiness, Socket, Stream, Wake};
#[cfg(unix)]
pub use real::{ProcessUse, at_rest};
pub use threads::{Bell, Threads, Turn, Worker};

/// Writes a line to standard error, as `eprintln!` does, but lives when nobody can read it. For what a command answers; what a
/// broker reports while it runs goes through `tracing`, under a logger of [`logs`].
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => { $crate::tell_line(format_args!($($text)*)) };
}

/// Used by [`tell!`]. A full disk or a log collector that ended costs the line; `eprintln!` would end the process. Names and messages
/// of strangers stay on the line: see [`model::printable`].
pub fn tell_line(text: fmt::Arguments) {
    let text = text.to_string();
    let line = format!("{}\n", model::printable(&text));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// One machine: everything the broker may ask of the outside world.
#[derive(Clone)]
pub struct Env {
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
    pub disk: Arc<dyn Disk>,
    pub net: Arc<dyn Net>,
    pub threads: Arc<dyn Threads>,
    /// The levels of what the machine's programs write.
    pub loggers: Arc<logs::Loggers>,
}
