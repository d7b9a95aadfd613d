//! The Kafka door: from a frame to the handler of its API, and to the answer.
//!
//! Version numbers end here and in `api`. A request that cannot be read closes its connection, as Kafka does: nothing that
//! follows it on the wire can be trusted.

pub(crate) mod api;
mod call;
mod caller;
mod denied;
mod envelope;
pub(crate) mod forward;
mod hall;
mod login;
mod news;
mod parked;
pub(crate) mod peers;
mod router;
pub(crate) mod session;

pub(crate) use api::replica_fetch::on_grown;
pub(crate) use caller::Caller;
pub use envelope::Carried;
pub(crate) use hall::{Door, Hall};
pub(crate) use router::on_request;

#[cfg(test)]
mod tests;
