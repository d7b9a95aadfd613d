//! The loop of a network shard, from sockets to requests and from answers to sockets, and what it is made of.
//!
//! Only [`Shard`] knows the doors and the desk; the other files are below both.

mod address;
mod admission;
#[cfg(test)]
pub(crate) mod bench;
mod by_id;
mod connection;
mod connections;
mod guests;
mod inbox;
pub(crate) mod memory;
mod outbox;
mod pending;
mod shard;
mod share;
mod timers;
mod transport;

pub(crate) use address::{Address, EnvelopeAddress};
pub(crate) use connection::SlotNumber;
pub(crate) use connections::{Connections, Outcome};
pub(crate) use outbox::{Chunk, Reply};
pub(crate) use pending::Pending;
pub(crate) use shard::Shard;
pub(crate) use timers::Timers;
