//! Time and chance.
//!
//! Timeouts use [`Clock::now`], which never jumps; record timestamps use [`Clock::wall_ms`], which may.

use model::{Instant, Timestamp};

pub trait Clock: Send + Sync {
    /// Monotonic time, nanosecond units.
    fn now(&self) -> Instant;
    /// Wall time in milliseconds since 1970.
    fn wall_ms(&self) -> Timestamp;
}

pub trait Rng: Send + Sync {
    fn next_u64(&self) -> u64;

    /// Fills `bytes`; the real implementation is fit for identities and secrets.
    fn fill(&self, bytes: &mut [u8]);
}
