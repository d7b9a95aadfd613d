//! The share of one connection in the memory of requests that are read and not answered.
//!
//! Decides whether the next request of a connection is taken, by its length and its API alone, before more of it is read. Invariant: a
//! client may fill its own share and no more, however much it has under way, and a share is never so large that nothing is left beside
//! it; all records together leave a quarter to everything else. Small requests are taken at any time: fetches of followers, heartbeats and
//! the requests of the quorum are small, and records that wait for the followers would wait for ever if these were not heard. They do not
//! count, so that no number of clients with small requests keeps a large one waiting.

use wire::ApiKey;

/// Every connection may have so many bytes of requests under way, whatever others use: as much as its buffer has at any time.
const SMALL_BYTES: usize = 32 << 10;

/// The bytes that count, of the requests that a connection has under way.
fn counted(own: usize) -> usize {
    own.saturating_sub(SMALL_BYTES)
}

/// The bytes of requests that all connections have under way.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) all: usize,
    /// Those that count.
    pub(super) counted: usize,
}

impl Taken {
    /// A connection has `after` bytes under way, and had `before`.
    pub(super) fn change(&mut self, before: usize, after: usize) {
        self.all = self.all - before + after;
        self.counted = self.counted - counted(before) + counted(after);
    }
}

/// The beginning of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) bytes: usize,
    pub(super) api: i16,
}

impl Head {
    pub(super) fn is_small(self) -> bool {
        self.bytes <= SMALL_BYTES
    }

    fn brings_records(self) -> bool {
        self.api == ApiKey::Produce as i16
    }
}

/// The state of the memory for requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes of requests under way, as far as they count, of all connections.
    pub(super) taken: usize,
    pub(super) bytes_max: usize,
    /// True if log directories keep up with what is appended.
    pub(super) has_room_for_records: bool,
    /// True if the request waited, was then admitted and is being read: it does not lose its place to others that are whole sooner.
    pub(super) is_begun: bool,
}

impl Room {
    /// True if a connection that has `own` bytes of requests under way may have this one as well.
    ///
    /// A connection has no more than it leaves to others: one alone takes half, two a third each, so the next one finds something.
    /// The first request that counts is taken whatever its length, while anything is left.
    pub(super) fn admits(self, own: usize, next: Head) -> bool {
        let bytes_max = match next.brings_records() {
            true if !self.has_room_for_records => return false,
            true => self.bytes_max - self.bytes_max / 4,
            false => self.bytes_max,
        };
        let left = bytes_max.saturating_sub(self.taken);
        let with_it = counted(own.saturating_add(next.bytes));
        let has_share = 0 < left && (counted(own) == 0 || with_it <= left);
        has_share || with_it == 0 || self.taken == 0 || self.is_begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    /// Of 32 MiB.
    const RECORDS_MAX: usize = 24 * MIB;

    fn room(taken: usize) -> Room {
        Room {
            taken,
            bytes_max: 32 * MIB,
            has_room_for_records: true,
            is_begun: false,
        }
    }

    fn produce(bytes: usize) -> Head {
        let api = ApiKey::Produce as i16;
        Head { bytes, api }
    }

    fn fetch(bytes: usize) -> Head {
        let api = ApiKey::Fetch as i16;
        Head { bytes, api }
    }

    fn sum(own: &[usize]) -> usize {
        own.iter().copied().map(counted).sum()
    }

    /// Each takes in requests of `bytes` until none of them may; returns what they have.
    fn fill(clients: usize, bytes: usize) -> Vec<usize> {
        let mut own = vec![0; clients];
        loop {
            let before = sum(&own);
            for at in 0..clients {
                let taken = sum(&own);
                if room(taken).admits(own[at], produce(bytes)) {
                    own[at] += bytes;
                }
            }
            if sum(&own) == before {
                return own;
            }
        }
    }

    /// Each takes in as many requests of `bytes` as are taken at any time.
    fn fill_small(clients: usize, bytes: usize) -> Vec<usize> {
        let full = room(40 * MIB);
        let mut own = vec![0; clients];
        for own in &mut own {
            while full.admits(*own, produce(bytes)) {
                *own += bytes;
            }
        }
        own
    }

    #[test]
    fn clients_that_take_all_they_get_leave_as_much_as_each_of_them_has() {
        for bytes in [40 << 10, MIB] {
            for clients in 1..8 {
                let own = fill(clients, bytes);
                let left = RECORDS_MAX - sum(&own);
                for own in own.into_iter().map(counted) {
                    assert!(own <= left + bytes, "{clients} clients: {own}, left {left}");
                    assert!(
                        left <= own + 2 * bytes,
                        "{clients} clients: {own}, left {left}"
                    );
                }
                assert!(room(RECORDS_MAX - left).admits(0, produce(MIB)));
            }
        }
    }

    #[test]
    fn small_requests_are_taken_at_any_time_and_records_leave_room_for_large_ones() {
        let full = room(40 * MIB);
        assert!(full.admits(0, fetch(200)) && full.admits(200, fetch(600)));
        assert!(full.admits(0, produce(1000)));
        assert!(!full.admits(0, produce(MIB)) && !full.admits(MIB, fetch(200)));
        let of_records = room(RECORDS_MAX);
        assert!(of_records.admits(0, fetch(MIB)), "the first of a session");
        assert!(!of_records.admits(0, produce(MIB)));
    }

    #[test]
    fn a_large_request_has_its_turn_beside_any_number_of_clients_with_small_ones() {
        for bytes in [500, SMALL_BYTES / 2, SMALL_BYTES] {
            let own = fill_small(5_000, bytes);
            assert!(RECORDS_MAX < own.iter().sum(), "more than large ones may");
            assert!(room(sum(&own)).admits(0, produce(MIB)));
            assert!(
                room(sum(&own)).admits(SMALL_BYTES, produce(MIB)),
                "behind small ones"
            );
        }
    }

    #[test]
    fn a_request_larger_than_all_that_requests_may_take_is_taken_by_itself() {
        assert!(room(0).admits(0, produce(100 * MIB)));
        let large = SMALL_BYTES + MIB;
        assert!(!room(MIB).admits(large, produce(100 * MIB)));
        assert!(!room(RECORDS_MAX).admits(0, produce(100 * MIB)));
    }

    #[test]
    fn a_request_that_waited_for_its_turn_is_read_to_its_end() {
        let begun = Room {
            is_begun: true,
            ..room(40 * MIB)
        };
        assert!(begun.admits(MIB, produce(MIB)));
        let slow = Room {
            has_room_for_records: false,
            ..begun
        };
        assert!(!slow.admits(MIB, produce(MIB)));
    }

    #[test]
    fn records_alone_wait_for_log_directories() {
        let slow = Room {
            has_room_for_records: false,
            ..room(0)
        };
        assert!(!slow.admits(0, produce(100)));
        assert!(slow.admits(0, fetch(100)) && slow.admits(MIB, fetch(100)));
    }
}
