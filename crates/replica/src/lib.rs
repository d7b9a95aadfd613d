//! Replication of partitions between brokers: which partitions a follower asks its leader for, and what the answers mean.
//!
//! Machines without IO. An [`Engine`] stands for one leader: it makes the requests of two fetch sessions (KIP-227), each of them a
//! [`Puller`], and takes their answers. A [`Throttle`] bounds bytes per second. [`Repairs`] asks replicas in sync for what is damaged
//! here, whoever leads. Appending, cutting, writing and connections are their driver's.

mod engine;
mod puller;
mod repairs;
mod throttle;

pub use engine::{Brought, Engine};
pub use puller::{Key, Point, Puller, Step, Terms, Way};
pub use repairs::{Answer, Ask, Effect, GaveUp, Missing, Place, Repairs, Sources};
pub use throttle::Throttle;
