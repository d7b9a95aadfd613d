//! Broker processes of these tests: started on ports of loopback, told signals, their lines kept and their descriptors counted.
//!
//! Everything of a run is below one directory, which goes away if all went well.

pub(crate) mod frames;
pub(crate) mod table;

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use trespass::leaks::leaks;
use wire::messages::{DescribeClusterRequest, MetadataRequest};

use frames::Talk;

/// Ports of these tests; none of them is one that the system gives away by itself.
const PORT_MIN: u16 = 22_000;
const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// A command of `esker` that takes longer has failed.
const COMMAND_SECONDS: &str = "20";

/// Where a run keeps its files, and the binary that it tests.
pub(crate) struct Place {
    pub(crate) esker: PathBuf,
    pub(crate) root: PathBuf,
    next_port: u16,
}

impl Place {
    pub(crate) fn new(name: &str) -> Result<Place, String> {
        let esker = std::env::var_os("ESKER").ok_or("ESKER is to name the binary to test")?;
        let root = std::env::temp_dir().join(format!("trespass-{name}-{}", std::process::id()));
        fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        Ok(Place {
            esker: PathBuf::from(esker),
            root,
            next_port: PORT_MIN + (std::process::id() % 40) as u16 * 20,
        })
    }

    /// A port that nobody listens at. Another process may take it before we do: then the start fails and says so.
    pub(crate) fn port(&mut self) -> u16 {
        loop {
            let port = self.next_port;
            self.next_port += 1;
            if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
    }

    /// Fails if a node showed this password, or the secret of its cluster.
    pub(crate) fn search(&self, password: &str) -> Result<(), String> {
        let secrets = secrets(&self.root);
        let mut secrets: Vec<&str> = secrets.iter().map(|secret| secret.trim()).collect();
        secrets.push(password);
        match &leaks(&self.root, &secrets)[..] {
            [] => Ok(()),
            found => Err(found.join("; ")),
        }
    }

    pub(crate) fn clean(&self) {
        fs::remove_dir_all(&self.root).unwrap_or_default();
    }

    /// Runs a command of `esker`, with these lines as its input.
    pub(crate) fn esker(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let run = || -> std::io::Result<Output> {
            let mut child = Command::new(&self.esker)
                .args(["--timeout", COMMAND_SECONDS])
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            let mut stdin = child.stdin.take();
            if let Some(stdin) = &mut stdin {
                std::io::Write::write_all(stdin, input.as_bytes())?;
            }
            drop(stdin);
            child.wait_with_output()
        };
        let output = run().map_err(|error| format!("esker {}: {error}", arguments.join(" ")))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!(
                "esker {}: {}",
                arguments.join(" "),
                text(&output.stderr)
            )),
        }
    }
}

/// One node: its command line stays the same over all its lives, unless it is changed.
pub(crate) struct Node {
    esker: PathBuf,
    pub(crate) data: PathBuf,
    /// Standard error of all lives, one after the other.
    log: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Of the listener that is asked whether the node serves.
    pub(crate) address: String,
    child: Option<Child>,
}

impl Node {
    pub(crate) fn new(place: &Place, name: &str, address: &str, arguments: &[&str]) -> Node {
        let data = place.root.join(name);
        let mut all = vec!["serve".to_owned(), "--data-dir".to_owned()];
        all.push(data.display().to_string());
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        all.extend(["--set", "esker.http.listen=off"].map(str::to_owned));
        Node {
            esker: place.esker.clone(),
            log: place.root.join(format!("{name}.log")),
            data,
            arguments: all,
            address: address.to_owned(),
            child: None,
        }
    }

    pub(crate) fn start(&mut self) -> Result<(), String> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(|error| format!("{}: {error}", self.log.display()))?;
        let child = Command::new(&self.esker)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.map_err(|error| format!("{}: {error}", self.esker.display()))?);
        Ok(())
    }

    /// Waits until the node answers whom it has to answer as a member of its cluster.
    pub(crate) fn await_serving(&mut self) -> Result<(), String> {
        let until = Instant::now() + START_MAX;
        while Instant::now() < until {
            if let Some(code) = self.exit_code() {
                return Err(format!("it ended with {code}: {}", self.last_line()));
            }
            if serves(&self.address) {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        Err(format!("it does not serve: {}", self.last_line()))
    }

    /// Waits until it listens.
    pub(crate) fn await_listening(&mut self) -> Result<(), String> {
        let until = Instant::now() + START_MAX;
        while Instant::now() < until {
            if let Some(code) = self.exit_code() {
                return Err(format!("it ended with {code}: {}", self.last_line()));
            }
            if Talk::open(&self.address).is_ok() {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        Err(format!("nobody listens at {}", self.address))
    }

    /// The code with which the process has ended, if it has.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        Some(status.code().unwrap_or(-1))
    }

    /// Waits for the end of a process that is to end by itself.
    pub(crate) fn await_end(&mut self) -> Result<i32, String> {
        let until = Instant::now() + STOP_MAX;
        while Instant::now() < until {
            if let Some(code) = self.exit_code() {
                self.child = None;
                return Ok(code);
            }
            thread::sleep(PAUSE);
        }
        Err("it does not end".to_owned())
    }

    fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            let id = child.id().to_string();
            Command::new("kill").args([name, &id]).status().ok();
        }
    }

    /// Has it stop in its own time.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        if self.child.is_none() {
            return Ok(());
        }
        self.signal("-TERM");
        self.await_end().map(|_| ())
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// All lines that it has written.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn last_line(&self) -> String {
        self.lines().pop().unwrap_or_default()
    }

    fn process(&self, file: &str) -> Option<PathBuf> {
        let id = self.child.as_ref()?.id();
        Some(Path::new("/proc").join(id.to_string()).join(file))
    }

    /// Descriptors that the process has open.
    pub(crate) fn descriptors(&self) -> Option<usize> {
        Some(fs::read_dir(self.process("fd")?).ok()?.count())
    }

    /// Memory of the process that is not paged out, in KiB.
    pub(crate) fn resident_kib(&self) -> Option<u64> {
        let status = fs::read_to_string(self.process("status")?).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse().ok()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// True if a node answers clients, or whom it sends to log in.
fn serves(address: &str) -> bool {
    let Ok(mut talk) = Talk::open(address) else {
        return false;
    };
    let known = talk.ask(&DescribeClusterRequest::default(), 0);
    let Ok(known) = known else {
        return false;
    };
    known.error_code == 0 && talk.ask(&MetadataRequest::default(), 9).is_ok()
}

/// The secrets of clusters whose nodes keep their data below a directory.
fn secrets(root: &Path) -> Vec<String> {
    let nodes = fs::read_dir(root).into_iter().flatten().flatten();
    let secrets = nodes.map(|node| node.path().join("cluster.secret"));
    secrets
        .filter_map(|path| fs::read_to_string(path).ok())
        .filter(|secret| is_whole(secret))
        .collect()
}

/// False for a secret that is a test's wrong one: that short a text may be anywhere.
fn is_whole(secret: &str) -> bool {
    secret.trim().len() >= 40
}

/// Writes a file that its owner alone may read, or others too.
pub(crate) fn write_secret(path: &Path, text: &str, mode: u32) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let written = File::create(path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
