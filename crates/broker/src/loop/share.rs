//! The share of one connection in the memory of requests that are read and not answered.
//!
//! Decides whether the next request of a connection is taken, by its length and its API alone, before more of it is read. Invariant: a
//! client may fill its own share and no more, however much it has under way, and a share is never so large that nothing is left beside
//! it; all records together leave a quarter to everything else. Small requests are taken at any time: fetches of followers, heartbeats and
//! the requests of the quorum are small, and records that wait for the followers would wait for ever if these were not heard.

use wire::ApiKey;

/// Every connection may have so many bytes of requests under way, whatever others use: as much as its buffer has at any time.
const SMALL_BYTES: usize = 32 << 10;

/// The beginning of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) bytes: usize,
    pub(super) api: i16,
}

impl Head {
    fn brings_records(self) -> bool {
        self.api == ApiKey::Produce as i16
    }
}

/// The state of the memory for requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes of all requests under way.
    pub(super) taken: usize,
    pub(super) bytes_max: usize,
    /// True if log directories keep up with what is appended.
    pub(super) has_room_for_records: bool,
}

impl Room {
    /// True if a connection that has `own` bytes of requests under way may have this one as well.
    ///
    /// A connection has no more than it leaves to others: one alone takes half, two a third each, so the next one finds something.
    /// A first request is taken whatever its length, while anything is left.
    pub(super) fn admits(self, own: usize, next: Head) -> bool {
        let bytes_max = match next.brings_records() {
            true if !self.has_room_for_records => return false,
            true => self.bytes_max - self.bytes_max / 4,
            false => self.bytes_max,
        };
        let left = bytes_max.saturating_sub(self.taken);
        let with_it = own.saturating_add(next.bytes);
        let has_share = 0 < left && (own == 0 || with_it <= left);
        has_share || with_it <= SMALL_BYTES || self.taken == 0
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

    /// Each takes in requests of `bytes` until none of them may; returns what they have.
    fn fill(clients: usize, bytes: usize) -> Vec<usize> {
        let mut own = vec![0; clients];
        loop {
            let before: usize = own.iter().sum();
            for at in 0..clients {
                let taken = own.iter().sum();
                if room(taken).admits(own[at], produce(bytes)) {
                    own[at] += bytes;
                }
            }
            if own.iter().sum::<usize>() == before {
                return own;
            }
        }
    }

    #[test]
    fn clients_that_take_all_they_get_leave_as_much_as_each_of_them_has() {
        for bytes in [40 << 10, MIB] {
            for clients in 1..8 {
                let own = fill(clients, bytes);
                let left = RECORDS_MAX - own.iter().sum::<usize>();
                for own in own {
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
    fn a_request_larger_than_all_that_requests_may_take_is_taken_by_itself() {
        assert!(room(0).admits(0, produce(100 * MIB)));
        assert!(!room(1).admits(1, produce(100 * MIB)));
        assert!(!room(RECORDS_MAX).admits(0, produce(100 * MIB)));
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
