//! I13: a broker stays within the bounds that its settings name, and what it kept for clients goes with them.
//!
//! Looks at what the broker counts itself for its bounds: requests that are not whole and those that are not answered, answers that are
//! not taken, fetch sessions, the batches of all partitions in memory. Over the whole run none may be beyond its bound by more than a tenth
//! and what one turn may bring; when everybody has gone nothing may be left but the hot tails. A broker that has ended leaves nothing.
//! Memory that no bound of the broker counts is not seen here: members of groups, states of producers and metadata, which are bounded
//! by number or age, and what the allocator takes on top.

use std::time::Duration;

use broker::{Broker, Held, InMemory};
use model::Instant;

use super::Run;
use super::host::Host;
use crate::client::crowd::{ANSWER_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::client::keep::Client;

/// Idle connections and who waits are looked for every five seconds, batches are written after two, requests wait no longer than ten.
const QUIET: Duration = Duration::from_secs(20);
/// And whatever was committed at the very end.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);
/// Partitions are asked so often what they keep.
const LOOK: Duration = Duration::from_millis(100);

/// Beyond its bound each shard may finish one request, and find what one call has received.
const RECEIVED_BYTES_MAX: usize = 512 << 10;
const BEYOND: usize = REQUEST_BYTES_MAX as usize + RECEIVED_BYTES_MAX;
/// Bytes that every connection gets while answers are short: one batch, or 64 KiB.
const SHORT_ANSWER_BYTES: usize = 64 << 10;

/// Handles of one file, those that stand apart, and those of files that are on their way out.
const HANDLES_PER_FILE_MAX: u64 = 2;
const HANDLES_MAX: u64 = 16;
const NAMELESS_MAX: u64 = 16;

/// Connections of another node: those that it uses, one for each purpose, and those that a cut link left behind.
const LINES_PER_NODE_MAX: usize = 16;

/// The most that was ever held.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peaks {
    pub unfinished_bytes: usize,
    pub request_bytes: usize,
    pub answer_bytes: usize,
    pub fetch_sessions: usize,
    pub waiting: usize,
    pub hot_bytes: usize,
}

#[derive(Default)]
pub(super) struct Memory {
    pub(super) peaks: Peaks,
    look_at: Option<Instant>,
}

fn and_a_tenth(bound: usize) -> usize {
    bound + bound / 10
}

fn size(bound: u64) -> usize {
    usize::try_from(bound).unwrap_or(usize::MAX / 2)
}

impl Memory {
    /// The amounts that are beyond their bound now.
    pub(super) fn watch(&mut self, host: &Host) -> Vec<String> {
        let Some(broker) = host.broker() else {
            return Vec::new();
        };
        let (config, held) = (host.config(), broker.held());
        let peaks = &mut self.peaks;
        let shards = config.network_threads;
        let requests = and_a_tenth(size(config.queued_bytes_max) / 2) + shards * BEYOND;
        let answers = and_a_tenth(size(config.queued_bytes_max))
            + shards * ANSWER_BYTES_MAX
            + held.connections * SHORT_ANSWER_BYTES;
        let mut beyond = Vec::new();
        let mut judge = |what: &str, peak: &mut usize, now: usize, bound: usize| {
            *peak = now.max(*peak);
            if bound < now {
                beyond.push(format!("{now} {what} are in memory, {bound} may be"));
            }
        };
        judge(
            "bytes of requests that are not whole",
            &mut peaks.unfinished_bytes,
            held.unfinished_bytes,
            requests,
        );
        judge(
            "bytes of requests that are not answered",
            &mut peaks.request_bytes,
            held.request_bytes,
            requests,
        );
        judge(
            "bytes of answers that are not taken",
            &mut peaks.answer_bytes,
            held.answer_bytes,
            answers,
        );
        judge(
            "fetch sessions",
            &mut peaks.fetch_sessions,
            held.fetch_sessions,
            config.fetch_sessions_max,
        );
        peaks.waiting = peaks.waiting.max(held.waiting);
        let now = host.machine.now();
        if self.look_at.is_none_or(|at| at <= now) {
            self.look_at = Some(now.plus(LOOK));
            judge(
                "bytes of hot tails",
                &mut peaks.hot_bytes,
                broker.in_memory().hot_bytes,
                and_a_tenth(size(config.hot_tail_bytes)),
            );
        }
        beyond
    }
}

/// Bytes that partitions keep in memory beside what they may.
fn waiting(broker: &Broker) -> InMemory {
    InMemory {
        hot_bytes: 0,
        ..broker.in_memory()
    }
}

/// Memory that is still there though no peer is.
fn left(broker: &Broker, other_nodes: usize) -> Vec<String> {
    let mut held = Held {
        // Nobody is asked when a session ends: each stays until another one needs its place.
        fetch_sessions: 0,
        ..broker.held()
    };
    // Other nodes stay connected, and wait for news of the metadata.
    if 0 < other_nodes && held.connections <= other_nodes * LINES_PER_NODE_MAX {
        held = Held {
            unfinished_bytes: held.unfinished_bytes,
            answer_bytes: held.answer_bytes,
            ..Held::default()
        };
    }
    let batches = waiting(broker);
    let mut left = Vec::new();
    if held != Held::default() {
        left.push(format!(
            "all clients are gone, and the broker holds {held:?}"
        ));
    }
    if batches != InMemory::default() {
        left.push(format!(
            "nothing was written for {QUIET:?}, and waits: {batches:?}"
        ));
    }
    left
}

impl Run {
    /// Everybody goes, and takes along what was kept for him.
    pub(super) fn judge_memory(&mut self) {
        self.clients.readers.clear();
        self.clients.producers.clear();
        self.clients.members.clear();
        self.clients.loners.clear();
        self.clients.transactors.clear();
        let links = [self.clients.admin.link_mut()].into_iter();
        links
            .chain(self.clients.keeper.iter_mut().map(Client::link_mut))
            .chain(self.clients.ledger.iter_mut().map(Client::link_mut))
            .for_each(|link| link.line = None);
        self.clients.crowd.disperse();
        self.clients.council.clear();
        let machine = &self.cluster.home().machine;
        machine.run_until(QUIET, |_| false);
        // A transaction whose time was up just now is written soon.
        let broker = self.cluster.home().broker();
        machine.run_until(WRITTEN_WITHIN, |_| {
            broker.is_none_or(|it| waiting(it) == InMemory::default())
        });
        let other_nodes = if self.plan.is_united {
            usize::from(self.plan.nodes) - 1
        } else {
            0
        };
        let left = broker.map(|broker| left(broker, other_nodes));
        for what in left.into_iter().flatten() {
            self.clients.notes.violation(what);
        }
    }

    /// I13: nothing is held open beyond what is there to be read, however often the broker was struck.
    pub(super) fn judge_handles(&mut self) {
        let machine = &self.cluster.home().machine;
        let ((handles, nameless), files) = (machine.handles(), machine.files_count());
        if handles > HANDLES_PER_FILE_MAX * files + HANDLES_MAX || nameless > NAMELESS_MAX {
            self.clients.notes.violation(format!(
                "{handles} handles are open, {nameless} of them of removed files; there are {files} files"
            ));
        }
    }
}
