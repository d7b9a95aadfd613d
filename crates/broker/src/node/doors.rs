//! The places for connections, and the bytes that those on them may hold.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::catalog::Catalog;
use super::crowd::Crowd;
use crate::budget::Budget;
use crate::mail::inboxes::ShardId;

/// Connections of other nodes that may be open beyond those that clients may have: a dozen of each, of ten nodes.
const NODES_BEYOND_MAX: usize = 120;

pub(crate) struct Doors {
    catalog: Arc<Catalog>,
    shards: usize,
    next_shard: AtomicUsize,
    crowd: Mutex<Crowd>,
    /// For requests that are not whole.
    pub(crate) unfinished: Arc<Budget>,
}

impl Doors {
    pub(crate) fn new(catalog: Arc<Catalog>, shards: usize) -> Doors {
        let unfinished = Budget::new(catalog.settings().request_bytes_max / 2, shards);
        Doors {
            catalog,
            shards,
            next_shard: AtomicUsize::new(0),
            crowd: Mutex::default(),
            unfinished: Arc::new(unfinished),
        }
    }

    /// The shard that takes the next connection: one after the other.
    pub(crate) fn place(&self, accepting: ShardId) -> ShardId {
        match self.shards {
            1 => accepting,
            count => ShardId((self.next_shard.fetch_add(1, Ordering::Relaxed) % count) as u16),
        }
    }

    /// Connections that may be open: `max.connections`, or fewer where the limit of open files leaves no room for so many.
    pub(crate) fn connections_max(&self) -> usize {
        self.catalog.settings().connections_max
    }

    /// True if one more connection may be open.
    pub(crate) fn has_room_for_connection(&self) -> bool {
        self.crowd.lock().total() < self.connections_max()
    }

    /// True if one more connection of another node may be open: these have places beyond those that clients may take.
    pub(crate) fn has_room_for_node(&self) -> bool {
        self.crowd.lock().total() < self.connections_max().saturating_add(NODES_BEYOND_MAX)
    }

    /// True if there are more than `max.connections`: it was lowered, or other nodes came.
    pub(crate) fn is_overcrowded(&self) -> bool {
        self.crowd.lock().total() > self.connections_max()
    }

    /// Counts a connection from `ip`; false when there are too many of it already. An exception for the address beats the rule.
    pub(crate) fn admit(&self, ip: IpAddr) -> bool {
        let settings = self.catalog.settings();
        let exceptions = &settings.broker.connections_per_ip_overrides;
        let own = if exceptions.is_empty() {
            None
        } else {
            exceptions.get(&ip.to_string()).copied()
        };
        let most = own.unwrap_or(settings.connections_per_ip_max);
        self.crowd.lock().admit(ip, most)
    }

    pub(crate) fn forget(&self, ip: IpAddr) {
        self.crowd.lock().forget(ip);
    }

    /// Share of one shard in the bytes of requests that are read and not answered: half of what requests may take. The other
    /// half is for those that are not whole.
    pub(crate) fn request_bytes_max(&self) -> usize {
        self.catalog.settings().request_bytes_max / 2 / self.shards
    }

    /// Share of one shard in the answers that are in memory and that clients have not taken: as much as requests may take.
    pub(crate) fn unsent_memory_max(&self) -> usize {
        self.catalog.settings().request_bytes_max / self.shards
    }
}
