//! The loop of a network shard: it takes turns with its connections, and calls the doors and the desk.

mod admission;
#[cfg(test)]
pub(crate) mod bench;
mod shard;

pub(crate) use shard::Shard;
