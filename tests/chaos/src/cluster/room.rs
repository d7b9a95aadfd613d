//! The control group of a node: bounds its memory, page cache included, and counts what the kernel killed for it.
//!
//! Version 2 of control groups where that has the memory controller, version 1 otherwise; no swap. The group is gone with the value.
//! Does not judge how much is used.

use std::path::{Path, PathBuf};
use std::time::Duration;

const ROOT: &str = "/sys/fs/cgroup";

#[derive(Debug)]
pub(crate) struct Room {
    dir: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Room {
    /// The error says why there is none.
    pub(crate) fn new(name: &str, bytes: u64) -> Result<Room, String> {
        let (root, version) = memory_root().ok_or_else(|| {
            format!(
                "no control groups of memory below {ROOT}, neither of version 2 nor of version 1"
            )
        })?;
        let room = Room {
            dir: root.join(format!("esker-{}-{name}", std::process::id())),
            version,
        };
        std::fs::create_dir(&room.dir)
            .map_err(|error| format!("needs root: {}: {error}", room.dir.display()))?;
        room.bound(bytes)?;
        Ok(room)
    }

    fn bound(&self, bytes: u64) -> Result<(), String> {
        let bytes = bytes.to_string();
        match self.version {
            Version::Two => {
                self.write("memory.max", &bytes)?;
                self.write_if_there("memory.swap.max", "0")
            }
            Version::One => {
                self.write("memory.limit_in_bytes", &bytes)?;
                // Memory and swap together.
                self.write_if_there("memory.memsw.limit_in_bytes", &bytes)?;
                self.write_if_there("memory.swappiness", "0")
            }
        }
    }

    /// The kernel has these files only where it knows swap.
    fn write_if_there(&self, file: &str, text: &str) -> Result<(), String> {
        if self.dir.join(file).exists() {
            self.write(file, text)
        } else {
            Ok(())
        }
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.dir.join(file);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A program and its arguments that run `inner` in here, as the same process.
    pub(crate) fn runner(&self, inner: Vec<String>) -> Vec<String> {
        let enter = "echo $$ > \"$0\" && exec \"$@\"";
        let processes = self.dir.join("cgroup.procs").display().to_string();
        let words = ["sh", "-c", enter, &processes].map(str::to_owned);
        words.into_iter().chain(inner).collect()
    }

    /// Where another thread finds its figures.
    pub(crate) fn look(&self) -> Look {
        Look {
            dir: self.dir.clone(),
            version: self.version,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // A process that was just killed may still be in there.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The directory below which groups of memory are made.
fn memory_root() -> Option<(PathBuf, Version)> {
    for root in [ROOT.to_owned(), format!("{ROOT}/unified")].map(PathBuf::from) {
        let has_memory = |file: &str| {
            let controllers = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            controllers.split_whitespace().any(|name| name == "memory")
        };
        if has_memory("cgroup.controllers") {
            // Refused where it is so already, or where only the parent may do it; then the bound cannot be set and says so.
            let _ = std::fs::write(root.join("cgroup.subtree_control"), "+memory");
            if has_memory("cgroup.subtree_control") {
                return Some((root, Version::Two));
            }
        }
    }
    let first = Path::new(ROOT).join("memory");
    let is_there = first.join("memory.limit_in_bytes").exists();
    is_there.then_some((first, Version::One))
}

/// A view of a group that may be gone.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    dir: PathBuf,
    version: Version,
}

impl Look {
    fn number(&self, file: &str) -> u64 {
        let text = std::fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    }

    /// The memory that counts against the bound, page cache included.
    pub(crate) fn bytes(&self) -> u64 {
        self.number(match self.version {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        })
    }

    /// Processes that the kernel killed because the bound was reached.
    pub(crate) fn kills(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = std::fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.map_or(0, |kills| kills.trim().parse().unwrap_or_default())
    }

    /// The process in it, if one runs.
    pub(crate) fn process(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.dir.join("cgroup.procs")).ok()?;
        text.lines().next()?.parse().ok()
    }
}
