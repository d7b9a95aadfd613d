//! A broker process: started on a port that stays the same, told signals, its words kept.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Plan;
use crate::place::Place;

/// Small files, so that a short run rolls segments, takes checkpoints and recycles its journal many times; not so small that
/// everything is synced at every moment.
const SETTINGS: [&str; 6] = [
    "esker.journal.piece.bytes=1048576",
    "esker.journal.bytes=16777216",
    "log.segment.bytes=1048576",
    "num.partitions=6",
    "transaction.state.log.num.partitions=5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
];

/// A start that takes longer than this has failed.
const START_MAX: Duration = Duration::from_secs(30);
const STOP_MAX: Duration = Duration::from_secs(30);

/// A free port; another process may take it before we do, then the start fails and says so.
pub(crate) fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound
        .map(|address| address.port())
        .map_err(|error| format!("no free port: {error}"))
}

/// The needs of a start.
#[derive(Clone)]
pub(crate) struct Launch {
    esker: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) port: u16,
    host: String,
    /// A program and its arguments that run the broker's own command line.
    runner: Vec<String>,
    /// The broker's standard error, all lives one after the other.
    words: PathBuf,
    settings: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Launch {
    pub(crate) fn new(plan: &Plan, place: &Place, data: &Path) -> Result<Launch, String> {
        Ok(Launch {
            esker: plan.esker.clone(),
            data: data.to_path_buf(),
            port: free_port()?,
            host: "127.0.0.1".to_owned(),
            runner: Vec::new(),
            words: place.dir.join("broker.log"),
            settings: SETTINGS.map(str::to_owned).to_vec(),
            variables: Vec::new(),
        })
    }

    pub(crate) fn with_setting(mut self, setting: &str) -> Launch {
        self.settings.push(setting.to_owned());
        self
    }

    pub(crate) fn at_port(mut self, port: u16) -> Launch {
        self.port = port;
        self
    }

    /// At an address that only `runner` can listen at, which is a program and its arguments before the broker's.
    pub(crate) fn at_host(mut self, host: &str, runner: Vec<String>) -> Launch {
        (self.host, self.runner) = (host.to_owned(), runner);
        self
    }

    /// Where the broker's standard error goes, for one of several.
    pub(crate) fn with_words(mut self, words: PathBuf) -> Launch {
        self.words = words;
        self
    }

    /// Of the environment.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Launch {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn command(&self) -> Command {
        let mut command = match self.runner.split_first() {
            None => Command::new(&self.esker),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&self.esker);
                command
            }
        };
        // The network of a scenario is its own: whoever reaches it may do everything.
        let listen = format!("PLAINTEXT://{}", self.address());
        command.args(["serve", "--listen", &listen, "--data-dir"]);
        command.arg(&self.data);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// Starts the broker and waits until it says that it listens.
    pub(crate) fn start(&self) -> Result<Broker, String> {
        let words = File::options().create(true).append(true).open(&self.words);
        let words = words.map_err(|error| format!("{}: {error}", self.words.display()))?;
        let begun = Instant::now();
        let mut process = self
            .command()
            .stderr(words)
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", self.esker.display()))?;
        let mut line = String::new();
        let read = process
            .stdout
            .take()
            .map(|out| BufReader::new(out).read_line(&mut line));
        let start_time = begun.elapsed();
        if !matches!(read, Some(Ok(1..))) || start_time > START_MAX {
            let _ = process.kill();
            let _ = process.wait();
            return Err(format!("the broker did not start: {}", self.last_words()));
        }
        Ok(Broker {
            process,
            start_time,
        })
    }

    /// Starts the broker and kills it after `delay`, wherever it is in its recovery then.
    pub(crate) fn start_and_kill(&self, delay: Duration) -> Result<(), String> {
        let mut process = self
            .command()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", self.esker.display()))?;
        std::thread::sleep(delay);
        let _ = process.kill();
        let _ = process.wait();
        Ok(())
    }

    /// Starts a broker that has to refuse; returns what it said.
    pub(crate) fn refusal(&self) -> Result<String, String> {
        let mut process = self
            .command()
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", self.esker.display()))?;
        let mut out = String::new();
        let listened = process
            .stdout
            .take()
            .map(|out| BufReader::new(out).read_line(&mut String::new()));
        if matches!(listened, Some(Ok(1..))) {
            let _ = process.kill();
            let _ = process.wait();
            return Err("it started, and should have refused".to_owned());
        }
        if let Some(mut words) = process.stderr.take() {
            let _ = words.read_to_string(&mut out);
        }
        let status = process.wait().map_err(|error| error.to_string())?;
        if status.success() || status.code().is_none() || out.contains("panicked") {
            return Err(format!("it ended with {status} and said: {out}"));
        }
        Ok(out)
    }

    pub(crate) fn words(&self) -> String {
        std::fs::read_to_string(&self.words).unwrap_or_default()
    }

    pub(crate) fn last_words(&self) -> String {
        let words = self.words();
        let lines: Vec<&str> = words.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    /// A panic or a lost directory is never part of a scenario, whatever clients saw.
    pub(crate) fn check_words(&self) -> Result<(), String> {
        let words = self.words();
        let bad = words.lines().find(|line| {
            line.contains("panicked") || line.contains("offline:") || line.contains("are damaged")
        });
        bad.map_or(Ok(()), |line| Err(format!("the broker said: {line}")))
    }
}

pub(crate) struct Broker {
    process: Child,
    pub(crate) start_time: Duration,
}

impl Broker {
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// How many it holds open.
    pub(crate) fn descriptors(&self) -> Result<usize, String> {
        let path = format!("/proc/{}/fd", self.id());
        let held = std::fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?;
        Ok(held.count())
    }

    pub(crate) fn signal(&self, name: &str) -> Result<(), String> {
        signal(self.id(), name)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// SIGTERM, and how it ended.
    pub(crate) fn stop(mut self) -> Result<ExitStatus, String> {
        self.signal("TERM")?;
        self.wait(STOP_MAX)
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<ExitStatus, String> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("it did not end within {} s", limit.as_secs()))
    }
}

pub(crate) fn signal(process: u32, name: &str) -> Result<(), String> {
    let sent = Command::new("kill")
        .args([format!("-{name}"), process.to_string()])
        .status();
    match sent {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!(
            "cannot send {name} to process {process}: {other:?}"
        )),
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
