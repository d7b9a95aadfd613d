//! Proof by simulation: the real broker on a machine made of a seed, and the checker that judges what its clients saw.

pub mod checker;
mod client;
pub mod quorum;
pub mod run;
