//! How long things take: Kafka's quorum settings, and the jitter of elections.

use std::time::Duration;

use model::Instant;

/// `controller.quorum.*`, with Kafka's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A nominee waits this long for votes, and up to twice as long.
    pub election_timeout: Duration,
    /// Largest wait of a successor that the old leader preferred least.
    pub election_backoff_max: Duration,
    /// A voter without an answer of its leader for so long stands for election.
    pub fetch_timeout: Duration,
    pub request_timeout: Duration,
    pub retry_backoff: Duration,
    /// A leader without news answers a fetch after so long.
    pub fetch_wait_max: Duration,
    pub fetch_bytes_max: u32,
    pub snapshot_bytes_max: u32,
    /// A replica that is no voter asks to become one by itself.
    pub joins: bool,
    /// False for a node that is a broker only.
    pub may_become_voter: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            election_timeout: Duration::from_millis(1_000),
            election_backoff_max: Duration::from_millis(1_000),
            fetch_timeout: Duration::from_millis(2_000),
            request_timeout: Duration::from_millis(2_000),
            retry_backoff: Duration::from_millis(20),
            fetch_wait_max: Duration::from_millis(500),
            fetch_bytes_max: 1 << 20,
            snapshot_bytes_max: 1 << 20,
            joins: false,
            may_become_voter: true,
        }
    }
}

impl Settings {
    /// A leader that a majority has not fetched from for so long gives up.
    #[must_use]
    pub fn check_quorum(&self) -> Duration {
        self.fetch_timeout * 3 / 2
    }

    /// The leader sends BeginQuorumEpoch again to a voter that has not fetched for this time.
    #[must_use]
    pub fn begin_epoch(&self) -> Duration {
        self.fetch_timeout / 2
    }

    /// The wait of the successor at `place` of `count`: none for the first, then doubling up to the largest.
    #[must_use]
    pub fn succession(&self, place: usize, count: usize) -> Duration {
        let max = self.election_backoff_max;
        if place == 0 {
            return Duration::ZERO;
        }
        if place >= count {
            return max;
        }
        // More voters than that would make the first wait less than a nanosecond.
        let halvings = u32::try_from(count - 1).unwrap_or(u32::MAX).min(30);
        let doublings = u32::try_from(place - 1).unwrap_or(u32::MAX).min(30);
        max.min((max / (1 << halvings)) * (1 << doublings))
    }
}

/// A sequence of dice that the driver seeds: the machine throws none of its own.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Jitter {
        Jitter(seed)
    }

    /// SplitMix64: enough to keep nominees apart, and the same for the same seed.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A random time from `base` to just below twice `base`.
    pub(crate) fn stretch(&mut self, base: Duration) -> Duration {
        let nanos = base.as_nanos() as u64;
        if nanos == 0 {
            return base;
        }
        base + Duration::from_nanos(self.next() % nanos)
    }
}

/// The earlier of two deadlines, of which either may not exist.
pub(crate) fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
