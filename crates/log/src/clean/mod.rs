//! Compaction: of each key the newest record stays, at its offset.
//!
//! `choose` decides which log and how far, `filter` what becomes of a batch, `pass` walks the log in bounded steps and hands
//! whole new segments to the store, which swaps them in (`store/swap.rs`). Only the last does IO. The active segment, what is
//! not stable and what no checkpoint covers are never touched.

pub mod choose;
pub mod filter;
pub mod keys;
mod pass;
mod source;
pub mod txns;

pub use choose::{Candidate, LogFacts, SegmentFacts, judge};
pub use filter::{LastOfProducers, LastWritten, last_of};
pub use keys::KeyMap;
pub use pass::{CleanError, Order, Outcome, Pass, Step};
