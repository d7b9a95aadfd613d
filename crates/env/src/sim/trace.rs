//! All events of a run as one number: two runs of a seed are the same run when their traces are equal.
//!
//! Owns the hash of every event and, when asked, prints the events.

use std::hash::{Hash, Hasher};

use super::chance::mix;
use super::host::HostId;
use super::links::{Link, Site};

/// One thing that happened in the world. `node` is a file or directory, `conn` a connection.
#[derive(Debug, Hash)]
pub(crate) enum Event<'a> {
    Turn {
        worker: usize,
    },
    Time {
        now: u64,
    },
    Open {
        path: &'a str,
        ok: bool,
    },
    Read {
        node: u64,
        position: u64,
        len: usize,
        ok: bool,
    },
    Write {
        node: u64,
        position: u64,
        len: usize,
        content: u64,
        ok: bool,
    },
    SetLen {
        node: u64,
        len: u64,
        ok: bool,
    },
    Sync {
        node: u64,
        ok: bool,
    },
    Names {
        path: &'a str,
        to: &'a str,
        ok: bool,
    },
    Connect {
        conn: u64,
        port: u16,
    },
    Sent {
        conn: u64,
        side: usize,
        content: u64,
        len: usize,
    },
    Arrived {
        conn: u64,
        side: usize,
        len: usize,
    },
    Received {
        conn: u64,
        side: usize,
        len: usize,
    },
    Closed {
        conn: u64,
        side: usize,
        reset: bool,
    },
    PowerCut {
        pages_lost: u64,
        names_lost: u64,
    },
    Killed,
    Fault {
        name: &'a str,
    },
    Wall {
        offset_ms: i64,
    },
    Link {
        from: Site,
        to: Site,
        link: Link,
    },
    /// The object store did what it was asked, or refused.
    Bucket {
        content: u64,
        ok: bool,
    },
}

#[derive(Default)]
pub(crate) struct Trace {
    hash: u64,
    count: u64,
    verbose: bool,
}

impl Trace {
    /// `host` is where it happened; of the first host that goes without saying.
    pub(crate) fn note(&mut self, host: HostId, event: &Event<'_>) {
        let mut hasher = Mixer { state: self.hash };
        if host != HostId::FIRST {
            host.hash(&mut hasher);
        }
        event.hash(&mut hasher);
        self.hash = mix(hasher.state.wrapping_add(1));
        self.count += 1;
        if self.verbose {
            crate::tell!("{:8} {} {event:?}", self.count, host.0);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn set_verbose(&mut self, verbose: bool) {
        self.verbose = verbose;
    }
}

/// A hash of content, eight bytes at a step.
pub(crate) fn content<'a>(parts: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut mixer = Mixer { state: 0 };
    for part in parts {
        mixer.write(part);
    }
    mix(mixer.state)
}

/// A hash of anything.
pub(crate) fn hash_of(value: &impl Hash) -> u64 {
    let mut mixer = Mixer { state: 0 };
    value.hash(&mut mixer);
    mix(mixer.state)
}

struct Mixer {
    state: u64,
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
        for byte in chunks.remainder() {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.state = (self.state.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
