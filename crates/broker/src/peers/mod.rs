//! The other nodes: connections to them, and requests of this node that they answer.
//!
//! A [`link`] is a machine without IO: it proves this node to the other end and has that prove itself, learns which versions it speaks, and encodes
//! each request in the newest one that both ends know. [`links`] drives the links of one thread; [`names`] looks their hosts up beside them.

mod identity;
mod link;
mod links;
mod names;
mod quorum_form;
mod request;
mod versions;

pub(crate) use identity::Identity;
pub(crate) use link::{Lost, Reply};
pub(crate) use links::{Lane, Links, Outbound};
pub(crate) use names::Names;
pub(crate) use quorum_form::{QuorumRequest, decode as quorum_answer};
pub(crate) use request::{Answer, Encodable, Typed, UpTo};
pub use versions::Ceilings;
