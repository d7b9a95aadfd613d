//! Clients as processes of their own, so that they can be stopped, continued and killed like any: this program again, with words of
//! its own. What they were told they say on standard output, line by line; they end when their standard input does.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

/// The first argument of such a process.
pub(crate) const ROLE: &str = "client";
/// Its last words, when it ended by itself and nothing was wrong.
const DONE: &str = "done";

/// Nanoseconds that all processes of this machine count from the same moment, and never backwards in one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    begun: Instant,
    then: u64,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Clock {
            begun: Instant::now(),
            then: since.map_or(0, |since| since.as_nanos() as u64),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.then + self.begun.elapsed().as_nanos() as u64
    }
}

pub(crate) struct ClientProcess {
    process: Child,
    input: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl ClientProcess {
    pub(crate) fn start(words: &[&str]) -> Result<ClientProcess, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg(ROLE).args(words);
        ClientProcess::spawn(&mut command)
    }

    /// Another program that keeps to the same manners.
    pub(crate) fn spawn(command: &mut Command) -> Result<ClientProcess, String> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a client: {error}"))?;
        let input = process.stdin.take();
        let out = process.stdout.take().ok_or("a client without output")?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                heard.lock().push(line);
            }
        });
        Ok(ClientProcess {
            process,
            input,
            lines,
            reader: Some(reader),
        })
    }

    pub(crate) fn signal(&self, name: &str) -> Result<(), String> {
        crate::broker::signal(self.process.id(), name)
    }

    /// Its lines, for another thread.
    pub(crate) fn lines(&self) -> Arc<Mutex<Vec<String>>> {
        Arc::clone(&self.lines)
    }

    /// How many of its lines begin with this word.
    pub(crate) fn said(&self, word: &str) -> usize {
        let lines = self.lines.lock();
        let begins = |line: &&String| line.split(' ').next() == Some(word);
        lines.iter().filter(begins).count()
    }

    pub(crate) fn any_line(&self, holds: impl Fn(&str) -> bool) -> bool {
        self.lines.lock().iter().any(|line| holds(line))
    }

    /// The last line that begins with this word, without it.
    pub(crate) fn last(&self, word: &str) -> Option<String> {
        let lines = self.lines.lock();
        let mut last = lines.iter().rev().filter_map(|line| line.split_once(' '));
        last.find_map(|(of, rest)| (of == word).then(|| rest.to_owned()))
    }

    pub(crate) fn wait_for(&self, word: &str, count: usize, limit: Duration) -> Result<(), String> {
        let begun = Instant::now();
        while self.said(word) < count {
            if begun.elapsed() > limit || self.reader.as_ref().is_none_or(JoinHandle::is_finished) {
                let lines = self.lines.lock();
                let last: Vec<&String> = lines.iter().rev().take(3).collect();
                return Err(format!(
                    "a client did not say {word:?} {count} times; its last words: {last:?}"
                ));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// `kill -9`; all that it said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        let _ = self.process.kill();
        self.collect()
    }

    /// Waits until it ends by itself; all that it said but the last word.
    pub(crate) fn wait(mut self, limit: Duration) -> Result<Vec<String>, String> {
        let begun = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) {
            if begun.elapsed() > limit {
                let lines = self.kill();
                let last = lines.last().cloned().unwrap_or_default();
                return Err(format!("a client does not end; its last words: {last}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut lines = self.collect();
        match lines.pop() {
            Some(last) if last == DONE => Ok(lines),
            last => Err(format!("a client failed: {}", last.unwrap_or_default())),
        }
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn finish(mut self, limit: Duration) -> Result<Vec<String>, String> {
        drop(self.input.take());
        self.wait(limit)
    }

    fn collect(&mut self) -> Vec<String> {
        let _ = self.process.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        std::mem::take(&mut self.lines.lock())
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The work of such a process: `true` when all was well.
pub(crate) fn run(words: &[String]) -> bool {
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        stops.store(true, Ordering::Release);
    });
    let done = match words {
        [kind, words @ ..] if kind == "producer" => crate::txn_load::alone(words, &stop),
        [kind, words @ ..] if kind == "member" => crate::member::alone(words, &stop),
        [kind, words @ ..] if kind == "copier" => crate::member::copier::alone(words, &stop),
        _ => Err("no such client".to_owned()),
    };
    match &done {
        Ok(()) => say(DONE),
        Err(why) => say(&format!("failed: {why}")),
    }
    done.is_ok()
}

/// One line of standard output, at once.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more: the scenario is over.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
