//! The pace of lines about peers: many may misbehave at once, and none of them shall fill the disk that keeps the log.
//!
//! Each kind of trouble has a [`Pace`] of its own, so that one kind does not hide another.

use model::Instant;

/// Lines of one kind that are written at once, for each shard; then one each second.
const LINES_BURST: u64 = 10;

/// How often one kind of trouble is reported.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Lines written since `since`, less those of the seconds that passed.
    written: u64,
    since: Option<Instant>,
    kept_back: u64,
}

impl Pace {
    /// Counts one more trouble. When a line may be written now, returns how many were kept back before it.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<KeptBack> {
        self.admit_some(now, LINES_BURST, 1)
    }

    /// The same of trouble that does not end by itself: one line a minute.
    pub(crate) fn admit_rarely(&mut self, now: Instant) -> Option<KeptBack> {
        self.admit_some(now, 1, 60)
    }

    fn admit_some(&mut self, now: Instant, burst: u64, each_seconds: u64) -> Option<KeptBack> {
        let since = *self.since.get_or_insert(now);
        let passed = now.since(since).as_secs() / each_seconds;
        if 0 < passed {
            self.written = self.written.saturating_sub(passed);
            self.since = Some(now);
        }
        if burst <= self.written {
            self.kept_back += 1;
            return None;
        }
        self.written += 1;
        Some(KeptBack(std::mem::take(&mut self.kept_back)))
    }
}

/// Lines that were not written for want of pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptBack(u64);

impl KeptBack {
    /// For a field of a line; none where nothing was kept back.
    pub(crate) fn count(self) -> Option<u64> {
        (0 < self.0).then_some(self.0)
    }
}

/// The kinds of trouble that peers cause.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    /// No connection can be accepted.
    pub(crate) accepts: Pace,
    /// All places for connections are taken.
    pub(crate) places: Pace,
    /// Too many connections of one address.
    pub(crate) crowds: Pace,
    /// Connections whose bytes are no requests, or whose requests cannot be read.
    pub(crate) garbage: Pace,
    /// Others that do not prove that they are nodes.
    pub(crate) strangers: Pace,
    /// Requests that the rules refuse.
    pub(crate) refusals: Pace,
    /// Requests of versions that are not served.
    pub(crate) versions: Pace,
    /// Requests among voters to a node that is none.
    pub(crate) voters: Pace,
    /// Connections cut off for want of memory.
    pub(crate) memory: Pace,
}

/// A protocol that a peer speaks in place of Kafka's, as far as the first four bytes show it.
pub(crate) fn foreign_protocol(first: [u8; 4]) -> Option<&'static str> {
    const HTTP: [&[u8; 4]; 9] = [
        b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ",
    ];
    match first {
        // A TLS record with a handshake: its type, and the major version.
        [0x16, 3, _, _] => Some("TLS"),
        [b'S', b'S', b'H', b'-'] => Some("SSH"),
        _ if HTTP.contains(&&first) => Some("HTTP"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lines_keep_a_pace_and_say_how_many_are_missing() {
        let mut pace = Pace::default();
        let at = |ms| Instant(0).plus(Duration::from_millis(ms));
        let mut written = |ms| pace.admit(at(ms)).map(KeptBack::count);
        for _ in 0..LINES_BURST {
            assert_eq!(written(0), Some(None));
        }
        assert_eq!([written(1), written(999)], [None, None]);
        assert_eq!([written(1000), written(1001)], [Some(Some(2)), None]);
        assert_eq!(written(60_000), Some(Some(1)));
        let mut pace = Pace::default();
        let mut rare = |ms| pace.admit_rarely(at(ms)).map(KeptBack::count);
        assert_eq!(
            [rare(0), rare(59_999), rare(60_000)],
            [Some(None), None, Some(Some(1))]
        );
    }

    #[test]
    fn probes_of_other_protocols_are_named() {
        for (first, name) in [
            (*b"GET ", Some("HTTP")),
            (*b"PRI ", Some("HTTP")),
            ([0x16, 3, 1, 2], Some("TLS")),
            (*b"SSH-", Some("SSH")),
            ([0, 0, 0, 20], None),
            (*b"\xff\xff\xff\xff", None),
        ] {
            assert_eq!(foreign_protocol(first), name, "{first:?}");
        }
    }
}
