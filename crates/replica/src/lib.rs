//! Replication of partitions between brokers: which partitions a follower asks its leader for, and what the answers mean.
//!
//! Machines without IO. An [`Engine`] stands for one leader: it makes the requests of two fetch sessions (KIP-227), each of them a
//! [`Puller`], and takes their answers. A [`Throttle`] bounds bytes per second. Appending, cutting and connections are their driver's.

mod engine;
mod puller;
mod throttle;

pub use engine::{Brought, Engine};
pub use puller::{Key, Point, Puller, Step, Terms, Way};
pub use throttle::Throttle;
