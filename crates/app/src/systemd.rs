//! Notices to systemd: the broker is ready, it stops, and, where systemd watches, it lives.
//!
//! Does nothing where no NOTIFY_SOCKET is set. A socket that takes nothing is no reason to stop.

use std::time::Duration;

use env::{Env, logs};

use crate::window::Window;

/// The broker serves its clients. From here on a watchdog is fed as long as the network threads come back.
pub(crate) fn ready(window: Window) {
    notify("READY=1");
    if let Some(interval) = watchdog() {
        feed(window, interval);
    }
}

pub(crate) fn stopping() {
    notify("STOPPING=1");
}

fn notify(state: &str) {
    if let Err(error) = Env::notify(state) {
        tracing::warn!(target: logs::BROKER, "systemd was not notified of {state}: {error}");
    }
}

/// Half of the time after which systemd ends a service that it does not hear of; None where it does not watch this process.
fn watchdog() -> Option<Duration> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let micros = number("WATCHDOG_USEC").filter(|micros| is_ours && 0 < *micros)?;
    Some(Duration::from_micros((micros / 2).max(1)))
}

#[allow(clippy::disallowed_methods)] // a thread of the command, beside the broker: it sleeps and looks
fn feed(window: Window, interval: Duration) {
    // Lives as long as the process: nobody waits for it.
    std::thread::spawn(move || {
        loop {
            match window.health() {
                Ok(()) => notify("WATCHDOG=1"),
                Err(why) => tracing::error!(target: logs::BROKER, "the watchdog is not fed: {why}"),
            }
            std::thread::sleep(interval);
        }
    });
}
