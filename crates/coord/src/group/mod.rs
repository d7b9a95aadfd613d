//! Groups of one partition of `__consumer_offsets`: members, generations, assignments, committed offsets.
//!
//! Owns every group whose id hashes to that partition. Invariant: what `replay` does depends on the record alone, so that a
//! restart ends where this process was.

mod ask;

pub use ask::{Answer, Ask, Client};
