//! Replication of partitions between brokers: which partitions a follower asks its leader for, and what the answers mean.
//!
//! Machines without IO. A [`Puller`] stands for one leader: it makes the requests of a fetch session (KIP-227) and takes their
//! answers. Appending, cutting and connections are its driver's.

mod puller;

pub use puller::{Key, Point, Puller, Step, Terms};
