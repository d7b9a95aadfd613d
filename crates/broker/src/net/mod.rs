//! Connections of a shard, from sockets to requests and from answers to sockets. Knows bytes and time; the doors and the desk are above.

mod address;
mod by_id;
pub(crate) mod connection;
pub(crate) mod connections;
mod entrances;
pub(crate) mod guests;
pub(crate) mod inbox;
mod outbox;
pub(crate) mod pending;
pub(crate) mod share;
mod timers;
mod transport;

pub(crate) use address::{Address, EnvelopeAddress};
pub(crate) use connection::SlotNumber;
pub(crate) use connections::{Connections, Outcome};
pub(crate) use entrances::{Entrance, Entrances, Known};
pub(crate) use outbox::{Chunk, Reply};
pub(crate) use pending::Pending;
pub(crate) use timers::Timers;
