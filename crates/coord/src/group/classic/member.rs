//! A member of a classic group: what it told us, what it was given, and who of it waits.

use std::collections::BTreeSet;

use bytes::Bytes;
use model::Instant;

use crate::Caller;
use crate::group::Client;
use crate::group::ask::{self, Protocol};

/// Bound on a member's own description, all protocols together: more would not fit the record of its group anyway.
const MEMBER_BYTES_MAX: usize = 1 << 20;

/// About what a protocol takes in memory besides name and metadata, be they a byte: a member has 8,000 of them at most.
const PROTOCOL_BYTES: usize = 128;

/// Each protocol once. Copies: a slice would keep the whole received frame in memory for as long as the member lives.
pub(super) fn kept(asked: &[Protocol]) -> Vec<Protocol> {
    let mut names = BTreeSet::new();
    // Of two with one name the first counts, as in a Kafka collection.
    let first = asked
        .iter()
        .filter(|protocol| names.insert(&*protocol.name));
    first
        .map(|protocol| Protocol {
            name: protocol.name.clone(),
            metadata: Bytes::copy_from_slice(&protocol.metadata),
        })
        .collect()
}

/// True if a member may say so much about itself.
pub(in crate::group) fn fits(protocols: &[Protocol]) -> bool {
    let bytes = |it: &Protocol| PROTOCOL_BYTES + it.name.len() + it.metadata.len();
    protocols.iter().map(bytes).sum::<usize>() <= MEMBER_BYTES_MAX
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<String>,
    pub(super) client: Client,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) session_timeout_ms: i32,
    /// In order of preference. Loaded from the log: only the one that was chosen.
    pub(super) protocols: Vec<Protocol>,
    pub(super) assignment: Bytes,
    pub(super) waits_join: Option<Caller<ask::Join>>,
    pub(super) waits_sync: Option<Caller<ask::Sync>>,
    /// Has not had an answer to its first join: it cannot send heartbeats yet.
    pub(super) is_new: bool,
    /// Silent until then, it is removed. None while it need not say anything.
    pub(super) deadline: Option<Instant>,
}

impl Member {
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols
            .iter()
            .find(|known| known.name == protocol)
            .map(|known| known.metadata.clone())
            .unwrap_or_default()
    }

    /// Facts that a record does not hold are kept: who waits, the session, and protocols that were not chosen.
    pub(super) fn keep(&mut self, known: Member, protocol: &str) {
        if known.metadata(protocol) == self.metadata(protocol) {
            self.protocols = known.protocols;
        }
        self.waits_join = known.waits_join;
        self.waits_sync = known.waits_sync;
        self.is_new = known.is_new;
        self.deadline = known.deadline;
    }

    pub(super) fn matches(&self, asked: &[Protocol]) -> bool {
        self.protocols == kept(asked)
    }

    /// A member that waits for others is not asked for heartbeats.
    pub(super) fn is_excused(&self) -> bool {
        !self.is_new && (self.waits_join.is_some() || self.waits_sync.is_some())
    }
}
