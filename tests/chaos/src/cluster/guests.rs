//! The guests of a cluster scenario: clients of others from `tests/clients`, at work beside the load while the faults go on.
//!
//! A guest begins again until the faults are over, and its last round is waited for; guests work side by side. Invariants: every fact
//! of every round holds, a round without a fact is none, and no process of a guest outlives the value. Does not judge what facts say.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cluster::nodes::COUNT;
use crate::place::Place;

const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/run");
/// Bounds of facts are for a broker that is well: a Java call waits 75 s then, a fact of the others 300 s.
const PATIENCE: &str = "5";
/// Of all facts of a guest: two that wait as long as they may.
const ROUND_MAX: Duration = Duration::from_secs(600);

/// Installs what the guests need, where the world can still be reached.
pub(crate) fn prepare(guests: &[String]) -> Result<(), String> {
    if guests.is_empty() {
        return Ok(());
    }
    let ended = Command::new(RUN).arg("--prepare").args(guests).status();
    let ended = ended.map_err(|error| format!("{RUN}: {error}"))?;
    if !ended.success() {
        return Err(format!("guests cannot be prepared: {ended}"));
    }
    Ok(())
}

/// The orders to all guests.
#[derive(Debug, Default)]
struct Orders {
    /// No round begins.
    is_over: AtomicBool,
    /// Rounds end at once.
    is_gone: AtomicBool,
}

/// The rounds of one guest.
#[derive(Debug, Default)]
struct Told {
    rounds: usize,
    facts: usize,
}

struct Guest {
    client: String,
    thread: JoinHandle<Result<Told, String>>,
}

pub(crate) struct Guests {
    guests: Vec<Guest>,
    orders: Arc<Orders>,
}

impl Guests {
    /// `asked`: as `tests/clients/run` takes them; those of one client are one guest.
    pub(crate) fn start(
        asked: &[String],
        bootstrap: &str,
        place: &Place,
    ) -> Result<Guests, String> {
        let mut clients: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for guest in asked {
            let client = guest.split('/').next().unwrap_or(guest);
            clients.entry(client).or_default().push(guest.clone());
        }
        let mut guests = Guests {
            guests: Vec::new(),
            orders: Arc::default(),
        };
        for (client, facts) in clients {
            let visit = Visit {
                dir: place.dir.join(format!("guest-{client}")),
                facts,
                bootstrap: bootstrap.to_owned(),
                orders: Arc::clone(&guests.orders),
            };
            std::fs::create_dir_all(&visit.dir).map_err(|error| error.to_string())?;
            guests.guests.push(Guest {
                client: client.to_owned(),
                thread: std::thread::spawn(move || visit.stay()),
            });
        }
        Ok(guests)
    }

    /// The faults are over: waits for the last rounds. What they showed, as an end of the evidence.
    pub(crate) fn finish(mut self) -> Result<String, String> {
        self.orders.is_over.store(true, Ordering::Release);
        let (mut told, mut failures) = (String::new(), Vec::new());
        for Guest { client, thread } in self.guests.drain(..) {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err("it panicked".to_owned()));
            match ended {
                Ok(Told { rounds, facts }) => {
                    told += &format!("; guest {client}: {facts} facts held in {rounds} rounds");
                }
                Err(why) => failures.push(format!("guest {client}: {why}")),
            }
        }
        if failures.is_empty() {
            Ok(told)
        } else {
            Err(failures.join("; "))
        }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        self.orders.is_over.store(true, Ordering::Release);
        self.orders.is_gone.store(true, Ordering::Release);
        for guest in self.guests.drain(..) {
            let _ = guest.thread.join();
        }
    }
}

/// One client, and all that its rounds need.
struct Visit {
    /// Has what each round printed, and the logs of one that failed.
    dir: PathBuf,
    facts: Vec<String>,
    bootstrap: String,
    orders: Arc<Orders>,
}

impl Visit {
    fn stay(&self) -> Result<Told, String> {
        let mut told = Told::default();
        loop {
            let output = self.dir.join(format!("round-{}.txt", told.rounds + 1));
            let ended = self.round(&output)?;
            let text = std::fs::read_to_string(&output).unwrap_or_default();
            told.rounds += 1;
            told.facts += held(&text, ended).map_err(|why| {
                let rounds = told.rounds;
                format!("round {rounds}: {why} ({})", output.display())
            })?;
            if self.orders.is_over.load(Ordering::Acquire) {
                return Ok(told);
            }
        }
    }

    /// Runs all facts once.
    fn round(&self, output: &Path) -> Result<ExitStatus, String> {
        let file = File::create(output).map_err(|error| error.to_string())?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        let count = COUNT.to_string();
        let mut process = Command::new(RUN)
            .args(["--bootstrap", &self.bootstrap, "--nodes", &count])
            .args(["--rf", &count, "--patience", PATIENCE])
            .args(&self.facts)
            .env("TMPDIR", &self.dir)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{RUN}: {error}"))?;
        let begun = Instant::now();
        loop {
            match process.try_wait() {
                Ok(Some(ended)) => return Ok(ended),
                Err(error) => return Err(error.to_string()),
                Ok(None) => {}
            }
            let is_late = begun.elapsed() > ROUND_MAX;
            if is_late || self.orders.is_gone.load(Ordering::Acquire) {
                kill_all(&mut process);
                let limit = ROUND_MAX.as_secs();
                let why = format!(
                    "a round did not end within {limit} s ({})",
                    output.display()
                );
                return Err(if is_late { why } else { "gone".to_owned() });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The runner and the client that it started.
fn kill_all(process: &mut Child) {
    let group = format!("-{}", process.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = process.wait();
}

/// How many facts held, by what a round printed: a line each, and below one that does not hold the reason.
fn held(text: &str, ended: ExitStatus) -> Result<usize, String> {
    let mut lines = text.lines();
    let (mut held, mut failures) = (0, Vec::new());
    while let Some(line) = lines.next() {
        if line.starts_with("ok ") {
            held += 1;
        } else if let Some(fact) = line.strip_prefix("FAIL ") {
            let reason = lines.next().unwrap_or_default().trim();
            failures.push(format!("{fact}: {reason}"));
        }
    }
    if !failures.is_empty() {
        return Err(failures.join("; "));
    }
    if !ended.success() {
        let last = text.lines().last().unwrap_or_default();
        return Err(format!("{ended}: {last}"));
    }
    if held == 0 {
        return Err("vacuous: no fact was asked".to_owned());
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_round_holds_when_its_facts_do_and_there_are_some() {
        let (well, bad) = (ExitStatus::from_raw(0), ExitStatus::from_raw(1 << 8));
        let good = "ok   java 4: one (0.1 s)\nskip java 4: two (0.0 s)\n     why\nok   java 4: three (1.0 s)\n2 passed\n";
        assert_eq!(held(good, well), Ok(2));
        assert!(held(good, bad).is_err());
        assert!(held("0 passed, 0 failed, 0 skipped\n", well).is_err());
        let failed = "ok   java 4: one (0.1 s)\nFAIL java 4: two (2.0 s)\n     no end\n";
        assert_eq!(
            held(failed, bad),
            Err("java 4: two (2.0 s): no end".to_owned())
        );
    }
}
