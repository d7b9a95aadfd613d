//! The commit path of `partition` under a scheduler that chooses every switch of threads.
//!
//! Compiles the very sources of that crate with other locks and atomics behind `crate::sync`, and those of `log` with other locks
//! (its atomics stay what they are: each is used beside a lock or a list that does switch), on a simulated machine. Judges by
//! what the outside sees: every append is answered, no answer comes early, whoever waits is woken, readers find everything.

#![cfg(test)]
// Only the commit path is driven; the rest of the crate comes along.
#![allow(dead_code, unreachable_pub, unused_imports)]

#[path = "../../../crates/partition/src/append.rs"]
mod append;
#[path = "../../../crates/partition/src/buffer.rs"]
mod buffer;
#[path = "../../../crates/partition/src/cut.rs"]
mod cut;
#[path = "../../../crates/partition/src/cuts.rs"]
mod cuts;
#[path = "../../../crates/partition/src/derived.rs"]
mod derived;
#[path = "../../../crates/partition/src/dir/mod.rs"]
mod dir;
#[path = "../../../crates/partition/src/file_read.rs"]
mod file_read;
#[path = "../../../crates/partition/src/follow.rs"]
mod follow;
#[path = "../../../crates/partition/src/isolation.rs"]
mod isolation;
#[path = "../../../crates/partition/src/leave.rs"]
mod leave;
#[path = "../../../crates/partition/src/life.rs"]
mod life;
#[path = "../../../crates/partition/src/need.rs"]
mod need;
#[path = "../../../crates/partition/src/news.rs"]
mod news;
#[path = "../../../crates/partition/src/partition.rs"]
mod partition;
#[path = "../../../crates/partition/src/plan.rs"]
mod plan;
#[path = "../../../crates/partition/src/progress.rs"]
mod progress;
#[path = "../../../crates/partition/src/read.rs"]
mod read;
#[path = "../../../crates/partition/src/search.rs"]
mod search;
#[path = "../../../crates/partition/src/traffic.rs"]
mod traffic;
#[path = "../../../crates/partition/src/verification.rs"]
mod verification;
#[path = "../../../crates/partition/src/waiting.rs"]
mod waiting;

mod moving;
mod publish;
mod rig;
mod sync;
mod tests;
