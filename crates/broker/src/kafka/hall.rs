//! The state of the Kafka door on one loop.
//!
//! Owns the requests that wait and the fetch sessions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use env::ConnId;
use model::{BrokerId, Instant, Ticket, WaiterKey};

use env::logs::REQUESTS;
use wire::{ApiKey, ErrorCode};

use super::call::Call;
use super::parked::{Parked, Waiting};
use super::session::Sessions;
use crate::asker::Asker;
use crate::net::{Address, Connections, Outcome, Pending, Timers};
use crate::ops::Desk;
use crate::ops::feed::Feed;

/// Record bytes in memory that an answer gets while readers keep too many of them; 64 KiB, or one batch.
const ANSWER_MEMORY_SHORT: usize = 64 << 10;

/// Codes of what rules refuse.
const REFUSED: [ErrorCode; 5] = [
    ErrorCode::TopicAuthorizationFailed,
    ErrorCode::GroupAuthorizationFailed,
    ErrorCode::ClusterAuthorizationFailed,
    ErrorCode::TransactionalIdAuthorizationFailed,
    ErrorCode::DelegationTokenAuthorizationFailed,
];

/// State that the Kafka door keeps between two requests.
pub(crate) struct Door {
    pub(crate) sessions: Sessions,
    pub(crate) parked: Pending<Parked>,
    pub(crate) timers: Timers,
    /// Brokers that this node, as the active controller, was last told of through a connection, with their epochs.
    members: BTreeMap<ConnId, (BrokerId, i64)>,
    /// Followers here, and the connection of each.
    pub(crate) feeds: Pending<Feed>,
    pub(crate) feed_of: HashMap<ConnId, WaiterKey>,
    /// Partitions that have grown for followers.
    pub(super) grown: Vec<Ticket>,
    /// More to read for fetches that wait: each looks once at all that came together.
    pub(super) readable: Vec<Ticket>,
    /// When a request came last that needs no commit.
    pub(crate) asked_at: Option<Instant>,
    /// True once clients are served: this broker is part of its cluster.
    pub(crate) is_open: bool,
}

impl Door {
    pub(crate) fn new(parked: Pending<Parked>, session_slots: usize, is_open: bool) -> Door {
        Door {
            sessions: Sessions::new(session_slots),
            parked,
            timers: Timers::default(),
            members: BTreeMap::new(),
            feeds: Pending::new(),
            feed_of: HashMap::new(),
            grown: Vec::new(),
            readable: Vec::new(),
            asked_at: None,
            is_open,
        }
    }

    /// A broker was heard of through a connection.
    pub(crate) fn on_member(&mut self, conn: ConnId, broker: BrokerId, epoch: i64) {
        self.members.insert(conn, (broker, epoch));
    }

    /// A connection has ended. The broker, if any, that was heard of through it.
    pub(crate) fn on_closed(&mut self, conn: ConnId) -> Option<(BrokerId, i64)> {
        self.members.remove(&conn)
    }

    /// Tickets of fetches with more to read, by request.
    pub(crate) fn take_readable(&mut self) -> Vec<Ticket> {
        let mut told = std::mem::take(&mut self.readable);
        told.sort_unstable_by_key(|ticket| (ticket.key, ticket.part));
        told
    }

    /// Tickets of followers whose partitions have grown, by follower.
    pub(crate) fn take_grown(&mut self) -> Vec<Ticket> {
        let mut grown = std::mem::take(&mut self.grown);
        grown.sort_unstable_by_key(|ticket| (ticket.key, ticket.part));
        grown
    }

    /// Feeds whose connection has gone.
    pub(super) fn feeds_left(&self, is_open: impl Fn(ConnId) -> bool) -> Vec<(ConnId, WaiterKey)> {
        let all = self.feed_of.iter();
        let left = all.filter(|(conn, _)| !is_open(**conn));
        left.map(|(conn, feed)| (*conn, *feed)).collect()
    }

    pub(crate) fn take(&mut self, key: WaiterKey) -> Option<Parked> {
        let parked = self.parked.remove(key)?;
        match &parked.waiting {
            Waiting::Fetch(fetch) => self.timers.cancel(fetch.deadline(), key),
            Waiting::Replica(request) => self.timers.cancel(request.deadline, key),
            Waiting::Refusing(refusing) => self.timers.cancel(refusing.until, key),
            _ => {}
        }
        Some(parked)
    }
}

/// The means of handlers of the Kafka door.
pub(crate) struct Hall<'a> {
    pub(crate) desk: &'a mut Desk,
    pub(crate) door: &'a mut Door,
    pub(crate) connections: &'a mut Connections,
}

impl Hall<'_> {
    /// Bytes that an answer may keep in memory until it is sent. Record batches stay there for it although the hot tail has let them
    /// go: readers that do not take their answers get small ones once all of them together keep too much.
    pub(crate) fn answer_memory_max(&self) -> usize {
        if self.connections.unsent_memory() < self.desk.shared.doors.unsent_memory_max() {
            usize::MAX
        } else {
            ANSWER_MEMORY_SHORT
        }
    }

    /// Puts an outcome for `asker` in its place in the order of answers, and counts it.
    pub(super) fn put_outcome(&mut self, address: &Address, asker: &Asker, outcome: Outcome) {
        if !matches!(outcome, Outcome::Waits) {
            let took = self.desk.shared.env.clock.now().since(address.begun);
            let meter = self.desk.meter();
            match &outcome {
                Outcome::Reply(reply) => {
                    meter.on_answer(address.key, took, reply.len);
                    meter.on_errors(address.key, &reply.errors);
                    if REFUSED
                        .iter()
                        .any(|code| reply.errors.contains_key(&code.code()))
                    {
                        self.complain_of_refusal(address.key, asker);
                    }
                }
                _ => meter.on_answer(address.key, took, 0),
            }
        }
        let outcome = match address.envelope {
            Some(envelope) => super::envelope::wrap(self.desk, envelope, outcome),
            None => outcome,
        };
        self.connections.put_outcome(address, outcome);
    }

    /// A line about what the rules refuse, with the rule: clients are told the resource alone, and often not even that.
    fn complain_of_refusal(&mut self, key: i16, asker: &Asker) {
        let Some(refused) = asker.take_refused() else {
            return;
        };
        let Some(kept_back) = self.desk.complaints.refusals.admit(self.desk.now) else {
            return;
        };
        tracing::warn!(
            target: REQUESTS,
            api = ApiKey::from_key(key).map(tracing::field::debug),
            kept_back = kept_back.count(),
            "{} from {} may not {:?} {:?} {:?}: {}",
            model::printable(&refused.principal.to_string()),
            refused.host,
            refused.operation,
            refused.kind,
            refused.name,
            refused.why,
        );
    }

    /// A request of `asker` whose answer goes to `address`.
    pub(super) fn call(&mut self, address: Address, asker: Arc<Asker>) -> Call<'_> {
        Call {
            desk: self.desk,
            door: self.door,
            connections: self.connections,
            address,
            asker,
        }
    }

    pub(crate) fn waiting(&mut self, key: WaiterKey) -> Option<&mut Waiting> {
        let parked = self.door.parked.get_mut(key)?;
        Some(&mut parked.waiting)
    }

    /// Takes a request that waits and goes on with it; its answer goes to the place that it has in its connection.
    pub(crate) fn resume(
        &mut self,
        key: WaiterKey,
        go_on: impl FnOnce(&mut Call<'_>, Waiting) -> Outcome,
    ) {
        if let Some(parked) = self.door.take(key) {
            let Parked {
                waiting,
                address,
                asker,
            } = parked;
            let mut call = self.call(address, asker);
            let outcome = go_on(&mut call, waiting);
            let asker = call.asker;
            self.put_outcome(&address, &asker, outcome);
        }
    }
}
