//! A network of our own: each node and the clients have a network namespace, and all meet in one that forwards between them.
//!
//! Packets are dropped by rules of the forwarding namespace, so nobody is told: neither end's kernel knows of a cut, and each
//! direction is cut alone. Made of `ip` and `nsenter` alone. Invariant: what was made is gone when the value is dropped.

use std::path::PathBuf;
use std::process::Command;

use parking_lot::Mutex;

/// Where the clients are, as the number of an end; nodes count from 1.
pub(crate) const CLIENTS: usize = 9;
/// Names the network that a process is in already.
const NETWORK: &str = "CHAOS_NETWORK";

#[derive(Debug)]
pub(crate) struct Net {
    name: String,
    /// The numbers of the rules that drop.
    rules: Mutex<Vec<u32>>,
    /// True if dropping the value takes the network down.
    is_owner: bool,
}

fn ip(words: &[&str]) -> Result<(), String> {
    let done = Command::new("ip").args(words).output();
    let done = done.map_err(|error| format!("ip: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&done.stderr);
    Err(format!("ip {}: {}", words.join(" "), why.trim()))
}

impl Net {
    /// `nodes` nodes and the clients; the error says why it is not possible here.
    pub(crate) fn new(nodes: usize) -> Result<Net, String> {
        let net = Net {
            name: format!("esker{}", std::process::id()),
            rules: Mutex::default(),
            is_owner: true,
        };
        net.add(nodes)?;
        Ok(net)
    }

    /// The network in which this process runs already.
    pub(crate) fn around() -> Option<Net> {
        let name = std::env::var(NETWORK).ok()?;
        Some(Net {
            name,
            rules: Mutex::default(),
            is_owner: false,
        })
    }

    /// This program once more, at the end of the clients.
    pub(crate) fn program(&self) -> Command {
        let runner = self.runner(CLIENTS);
        let mut command = Command::new(&runner[0]);
        command
            .args(&runner[1..])
            .arg(std::env::current_exe().unwrap_or_default())
            .env(NETWORK, &self.name);
        command
    }

    fn add(&self, nodes: usize) -> Result<(), String> {
        let middle = self.middle();
        ip(&["netns", "add", &middle])?;
        let enter = format!("--net=/run/netns/{middle}");
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        let done = Command::new("nsenter")
            .args([&enter, "sh", "-c", forward])
            .status();
        if !done.as_ref().is_ok_and(std::process::ExitStatus::success) {
            return Err(format!("{forward}: {done:?}"));
        }
        for end in (1..=nodes).chain([CLIENTS]) {
            self.add_end(&middle, end)?;
        }
        Ok(())
    }

    fn add_end(&self, middle: &str, end: usize) -> Result<(), String> {
        let (space, here) = (self.space(end), format!("e{end}"));
        let (gate, address) = (format!("10.231.{end}.1"), Net::host(end));
        ip(&["netns", "add", &space])?;
        ip(&[
            "-n", middle, "link", "add", &here, "type", "veth", "peer", "name", "eth0", "netns",
            &space,
        ])?;
        for (space, link, address) in [(middle, &here[..], &gate), (&space, "eth0", &address)] {
            let address = format!("{address}/24");
            ip(&["-n", space, "address", "add", &address, "dev", link])?;
            ip(&["-n", space, "link", "set", link, "up"])?;
        }
        ip(&["-n", &space, "link", "set", "lo", "up"])?;
        ip(&["-n", &space, "route", "add", "default", "via", &gate])
    }

    fn middle(&self) -> String {
        format!("{}-middle", self.name)
    }

    fn space(&self, end: usize) -> String {
        format!("{}-{end}", self.name)
    }

    pub(crate) fn host(end: usize) -> String {
        format!("10.231.{end}.2")
    }

    /// A program and its arguments that run another one at this end.
    pub(crate) fn runner(&self, end: usize) -> Vec<String> {
        let enter = format!("--net=/run/netns/{}", self.space(end));
        vec!["nsenter".to_owned(), enter]
    }

    /// Drops whatever `from` sends to `to`.
    pub(crate) fn cut(&self, from: usize, to: usize) -> Result<(), String> {
        let mut rules = self.rules.lock();
        let number = 100 + rules.len() as u32;
        ip(&[
            "-n",
            &self.middle(),
            "rule",
            "add",
            "pref",
            &number.to_string(),
            "from",
            &Net::host(from),
            "to",
            &Net::host(to),
            "blackhole",
        ])?;
        rules.push(number);
        Ok(())
    }

    pub(crate) fn cut_both(&self, one: usize, other: usize) -> Result<(), String> {
        self.cut(one, other)?;
        self.cut(other, one)
    }

    /// Everything passes again.
    pub(crate) fn heal(&self) -> Result<(), String> {
        for number in self.rules.lock().drain(..) {
            let number = number.to_string();
            ip(&["-n", &self.middle(), "rule", "del", "pref", &number])?;
        }
        Ok(())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let spaces = std::fs::read_dir("/run/netns").into_iter().flatten();
        let spaces = spaces.flatten().map(|entry| entry.file_name());
        let ours = |space: &PathBuf| {
            space
                .to_string_lossy()
                .starts_with(&format!("{}-", self.name))
        };
        if self.is_owner {
            for space in spaces.map(PathBuf::from).filter(ours) {
                let _ = ip(&["netns", "del", &space.to_string_lossy()]);
            }
        }
    }
}
