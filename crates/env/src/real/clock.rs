//! Time and chance from the operating system.
//!
//! Invariant: all clocks of one process share one origin, so an instant of one [`Env`](crate::Env) means the same in another.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use model::{Instant, Timestamp};

use super::sys;
use crate::{Clock, Rng};

/// Instants start at one hour, so that `now - something` does not fall below zero in a young process.
const ORIGIN_NANOS: u64 = 3_600_000_000_000;

static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

#[derive(Clone, Copy)]
pub(super) struct OsClock;

impl OsClock {
    pub(super) fn start() -> OsClock {
        LazyLock::force(&START);
        OsClock
    }
}

impl Clock for OsClock {
    fn now(&self) -> Instant {
        Instant(ORIGIN_NANOS).plus(START.elapsed())
    }

    fn wall_ms(&self) -> Timestamp {
        let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            // A wall clock before 1970 is a machine without a battery; 0 is as good as any answer.
            Err(_) => 0,
        };
        Timestamp(millis)
    }
}

pub(super) struct OsRng;

impl Rng for OsRng {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_ne_bytes(bytes)
    }

    fn fill(&self, bytes: &mut [u8]) {
        // Identities and secrets come from here: without entropy there is nothing safe left to do.
        sys::random(bytes).expect("the operating system gives randomness");
    }
}
