//! Locks and atomics of the commit path, under names of their own.
//!
//! The interleaving tests compile the same sources with other ones here, which let a scheduler choose every switch. All that threads share
//! in this crate comes from here, or those tests do not see it.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, Ordering};

pub(crate) use parking_lot::Mutex;
