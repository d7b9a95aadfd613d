//! A broker process for one test, and the commands that talk to it.

#![allow(clippy::disallowed_methods)] // tests meet the operating system as users do

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const ESKER: &str = env!("CARGO_BIN_EXE_esker");

/// A directory that goes away with the test.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "esker-it-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct Broker {
    pub(crate) address: String,
    /// The command that it proposes at its start.
    pub(crate) advice: String,
    process: Child,
    /// Directory of the file with its standard error.
    words: Dir,
}

/// The system picks the port.
const FREE: &str = "127.0.0.1:0";
const WORDS: &str = "broker.log";

impl Broker {
    /// Starts on a free port; returns once the broker says that it listens.
    pub(crate) fn start(data: &Path, more: &[&str]) -> Broker {
        let words = Dir::new();
        let file = std::fs::File::create(words.0.join(WORDS)).unwrap();
        Broker::spawn(Command::new(ESKER), FREE, data, more, words, file.into())
    }

    /// As `start`, at an address that clients know already, or at a name.
    pub(crate) fn start_at(listen: &str, data: &Path) -> Broker {
        let words = Dir::new();
        let file = std::fs::File::create(words.0.join(WORDS)).unwrap();
        Broker::spawn(Command::new(ESKER), listen, data, &[], words, file.into())
    }

    /// As `start_at`, with more arguments.
    pub(crate) fn start_as(listen: &str, data: &Path, more: &[&str]) -> Broker {
        let words = Dir::new();
        let file = std::fs::File::create(words.0.join(WORDS)).unwrap();
        Broker::spawn(Command::new(ESKER), listen, data, more, words, file.into())
    }

    /// As `start`, from a terminal, though these tests may run without one: under `nohup` SIGHUP is ignored, and so it would be by
    /// the broker.
    pub(crate) fn start_attended(data: &Path) -> Broker {
        let words = Dir::new();
        let file = std::fs::File::create(words.0.join(WORDS)).unwrap();
        let mut attended = Command::new("env");
        attended.args(["--default-signal=HUP", ESKER]);
        Broker::spawn(attended, FREE, data, &[], words, file.into())
    }

    /// As `start`, with variables of the environment.
    pub(crate) fn start_with(variables: &[String], data: &Path) -> Broker {
        let words = Dir::new();
        let file = std::fs::File::create(words.0.join(WORDS)).unwrap();
        let mut equipped = Command::new("env");
        equipped.args(variables).arg(ESKER);
        Broker::spawn(equipped, FREE, data, &[], words, file.into())
    }

    /// As `start`, with files of so many KiB at most.
    pub(crate) fn start_limited(file_kib_max: u32, data: &Path) -> Broker {
        let words = Dir::new();
        let file = std::fs::File::create(words.0.join(WORDS)).unwrap();
        let mut limited = Command::new("bash");
        let limit = format!("ulimit -f {file_kib_max}; exec \"$0\" \"$@\"");
        limited.args(["-c", &limit, ESKER]);
        Broker::spawn(limited, FREE, data, &[], words, file.into())
    }

    /// As `start`, with a standard error that takes nothing.
    pub(crate) fn start_unheard(data: &Path, more: &[&str]) -> Broker {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let unheard = full.unwrap().into();
        Broker::spawn(Command::new(ESKER), FREE, data, more, Dir::new(), unheard)
    }

    /// Node `id`, from 1, of as many as there are addresses.
    pub(crate) fn start_node(id: usize, addresses: &[String], data: &Path) -> Broker {
        Broker::start_node_by(Command::new(ESKER), (id, addresses), data, &[])
    }

    /// The same, started by another command that becomes `esker`, with more arguments.
    pub(crate) fn start_node_by(
        command: Command,
        (id, addresses): (usize, &[String]),
        data: &Path,
        more: &[&str],
    ) -> Broker {
        let words = Dir::new();
        let file = std::fs::File::create(words.0.join(WORDS)).unwrap();
        let voter = |(id, address): (usize, &String)| format!("{id}@{address}");
        let voters: Vec<String> = (1..).zip(addresses).map(voter).collect();
        let (id_text, voters) = (id.to_string(), voters.join(","));
        let mut all = vec!["--node-id", &id_text, "--voters", &voters];
        all.extend(more);
        let listen = &addresses[id - 1];
        Broker::spawn(command, listen, data, &all, words, file.into())
    }

    /// Node `id`, which asks the node at `known` for its cluster.
    pub(crate) fn start_joining(
        id: usize,
        listen: &str,
        known: &str,
        data: &Path,
        more: &[&str],
    ) -> Broker {
        let words = Dir::new();
        let file = std::fs::File::create(words.0.join(WORDS)).unwrap();
        let id_text = id.to_string();
        let mut all = vec!["--node-id", &id_text, "--bootstrap-controller", known];
        all.extend(more);
        Broker::spawn(Command::new(ESKER), listen, data, &all, words, file.into())
    }

    fn spawn(
        mut esker: Command,
        listen: &str,
        data: &Path,
        more: &[&str],
        words: Dir,
        told: Stdio,
    ) -> Broker {
        let mut process = esker
            .args(["serve", "--listen", listen, "--data-dir"])
            .arg(data)
            // Small journal pieces: a test writes little, and every broker zeroes its first pieces.
            .args([
                "--set",
                "esker.journal.piece.bytes=1048576",
                "--set",
                "esker.journal.bytes=4194304",
                // Tests run side by side, and there is one standard port.
                "--set",
                "esker.http.listen=off",
            ])
            .arg("--cluster-secret")
            .arg(cluster_secret())
            .args(more)
            .stdout(Stdio::piped())
            .stderr(told)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let Some(banner) = lines.next() else {
            panic!("no banner: {}", said(&words));
        };
        let banner = banner.unwrap();
        let (_, address) = banner.rsplit_once(' ').unwrap();
        Broker {
            address: address.to_owned(),
            advice: lines
                .map_while(Result::ok)
                .find(|line| line.starts_with("try: "))
                .unwrap_or_default(),
            process,
            words,
        }
    }

    /// Its standard error until now, but for lines that are no trouble.
    pub(crate) fn said(&self) -> String {
        let all = said(&self.words);
        let trouble = all.lines().filter(|line| !line.contains("  INFO "));
        trouble.map(|line| format!("{line}\n")).collect()
    }

    /// All of it.
    pub(crate) fn log(&self) -> String {
        said(&self.words)
    }

    /// SIGTERM, and the exit code.
    pub(crate) fn stop(self) -> Option<i32> {
        self.signal("-TERM")
    }

    /// The exit code after a signal that stops.
    pub(crate) fn signal(mut self, signal: &str) -> Option<i32> {
        let id = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
        self.process.wait().unwrap().code()
    }

    /// Sends a signal that it survives.
    pub(crate) fn nudge(&self, signal: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Runs `esker` against this broker.
    pub(crate) fn run(&self, args: &[&str], input: &[u8]) -> Output {
        esker(args, &self.address, input)
    }

    /// The output of a command that has to succeed.
    pub(crate) fn ok(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        let output = self.run(args, input);
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    pub(crate) fn text(&self, args: &[&str]) -> String {
        String::from_utf8(self.ok(args, b"")).unwrap()
    }

    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_slice(&self.ok(args, b"")).unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let said = self.said();
        // A thread of the broker may die without anybody else noticing. A test that fails already shows its own reason.
        assert!(
            std::thread::panicking() || !said.contains("panicked"),
            "the broker said: {said}"
        );
    }
}

fn said(words: &Dir) -> String {
    std::fs::read_to_string(words.0.join(WORDS)).unwrap_or_default()
}

pub(crate) fn esker(args: &[&str], bootstrap: &str, input: &[u8]) -> Output {
    let mut child = Command::new(ESKER)
        .args(args)
        .env("ESKER_BOOTSTRAP", bootstrap)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // Beside reading the output, so that neither pipe fills up while nobody empties it.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    })
}

/// Exit code and standard error of a command that has to fail.
pub(crate) fn failure(output: &Output) -> (i32, String) {
    (
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// The file by which the nodes of all tests believe each other.
pub(crate) fn cluster_secret() -> &'static Path {
    static SECRET: LazyLock<(Dir, PathBuf)> = LazyLock::new(|| {
        let dir = Dir::new();
        let path = dir.0.join("cluster.secret");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path);
        let written = file
            .as_mut()
            .map(|file| file.write_all(b"bm9kZXMgb2YgYWxsIHRlc3RzIHRydXN0IGVhY2ggb3RoZXI=\n"));
        written.unwrap().unwrap();
        (dir, path)
    });
    &SECRET.1
}
