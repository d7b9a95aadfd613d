//! The share of one connection in the memory of requests that are read and not answered.
//!
//! Decides whether the next request of a connection is taken, by its length and its API alone, before more of it is read. Invariant: a
//! client may fill its own share and no more, however much it has under way, and a share is never so large that nothing is left beside
//! it. Records are one kind of request and everything else is the other: all of a kind together leave a quarter to the other one, so that
//! records that wait for followers, and requests that wait for a controller, keep no request of the other kind waiting. Small requests are taken at any time: fetches of followers, heartbeats and
//! the requests of the quorum are small, and records that wait for the followers would wait for ever if these were not heard. They do not
//! count, so that no number of clients with small requests keeps a large one waiting.

use wire::ApiKey;

/// Every connection may have so many bytes of requests of each kind under way, whatever others use: as much as its buffer has at any time.
const SMALL_BYTES: usize = 32 << 10;

/// The bytes that count, of the requests of one kind that a connection has under way.
fn counted(own: usize) -> usize {
    own.saturating_sub(SMALL_BYTES)
}

/// The two kinds of requests: records wait for disks and followers, everything else does not, or waits for other brokers and for time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Records,
    Other,
}

impl Kind {
    fn of(api: i16) -> Kind {
        if api == ApiKey::Produce as i16 {
            Kind::Records
        } else {
            Kind::Other
        }
    }

    /// The kind of a whole request, which begins with its API.
    pub(crate) fn of_frame(frame: &[u8]) -> Kind {
        let api = frame.first_chunk().copied();
        api.map_or(Kind::Other, |api| Kind::of(i16::from_be_bytes(api)))
    }
}

/// Bytes of requests of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByKind {
    records: usize,
    others: usize,
}

impl ByKind {
    fn get(self, kind: Kind) -> usize {
        match kind {
            Kind::Records => self.records,
            Kind::Other => self.others,
        }
    }

    fn get_mut(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Records => &mut self.records,
            Kind::Other => &mut self.others,
        }
    }

    pub(crate) fn add(&mut self, kind: Kind, bytes: usize) {
        *self.get_mut(kind) += bytes;
    }

    pub(crate) fn remove(&mut self, kind: Kind, bytes: usize) {
        *self.get_mut(kind) -= bytes;
    }

    pub(crate) fn sum(self) -> usize {
        self.records + self.others
    }
}

/// The bytes of requests that all connections have under way.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) all: usize,
    /// Those that count.
    pub(crate) counted: ByKind,
}

impl Taken {
    /// A connection has `after` bytes under way, and had `before`.
    pub(crate) fn change(&mut self, before: ByKind, after: ByKind) {
        self.all = self.all - before.sum() + after.sum();
        for kind in [Kind::Records, Kind::Other] {
            self.counted.remove(kind, counted(before.get(kind)));
            self.counted.add(kind, counted(after.get(kind)));
        }
    }
}

/// The beginning of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) bytes: usize,
    pub(crate) api: i16,
}

impl Head {
    pub(crate) fn is_small(self) -> bool {
        self.bytes <= SMALL_BYTES
    }

    fn kind(self) -> Kind {
        Kind::of(self.api)
    }
}

/// The state of the memory for requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of requests under way, as far as they count, of all connections.
    pub(crate) taken: ByKind,
    pub(crate) bytes_max: usize,
    /// True if log directories keep up with what is appended.
    pub(crate) has_room_for_records: bool,
    /// True if the request waited, was then admitted and is being read: it does not lose its place to others that are whole sooner.
    pub(crate) is_begun: bool,
}

impl Room {
    /// True if a connection that has `own` bytes of requests under way may have this one as well.
    ///
    /// A connection has no more than it leaves to others: one alone takes half, two a third each, so the next one finds something.
    /// The first request that counts is taken whatever its length, while anything is left to its kind.
    pub(crate) fn admits(self, own: ByKind, next: Head) -> bool {
        let kind = next.kind();
        if kind == Kind::Records && !self.has_room_for_records {
            return false;
        }
        let own = own.get(kind);
        let left = self.left(kind);
        let with_it = counted(own.saturating_add(next.bytes));
        let has_share = 0 < left && (counted(own) == 0 || with_it <= left);
        has_share || with_it == 0 || self.taken.sum() == 0 || self.is_begun
    }

    /// The bytes that are left to requests of one kind: those of the other kind never count for more than they may take, though the last of
    /// them may be longer.
    fn left(self, kind: Kind) -> usize {
        let kind_max = self.bytes_max - self.bytes_max / 4;
        let taken = self.taken.get(kind);
        let beside = (self.taken.sum() - taken).min(kind_max);
        let all_left = self.bytes_max.saturating_sub(taken + beside);
        all_left.min(kind_max.saturating_sub(taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    /// Of 32 MiB.
    const RECORDS_MAX: usize = 24 * MIB;

    fn records(bytes: usize) -> ByKind {
        let (records, others) = (bytes, 0);
        ByKind { records, others }
    }

    fn others(bytes: usize) -> ByKind {
        let (records, others) = (0, bytes);
        ByKind { records, others }
    }

    /// So many bytes of records are under way.
    fn room(taken: usize) -> Room {
        Room {
            taken: records(taken),
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

    /// Requests of each kind take so many bytes.
    fn room_of(records: usize, others: usize) -> Room {
        Room {
            taken: ByKind { records, others },
            ..room(0)
        }
    }

    /// Each takes in requests of `bytes` until none of them may; returns what they have.
    fn fill(clients: usize, bytes: usize) -> Vec<usize> {
        let mut own = vec![0; clients];
        loop {
            let before = sum(&own);
            for at in 0..clients {
                let taken = sum(&own);
                if room(taken).admits(records(own[at]), produce(bytes)) {
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
            while full.admits(records(*own), produce(bytes)) {
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
                assert!(room(RECORDS_MAX - left).admits(ByKind::default(), produce(MIB)));
            }
        }
    }

    #[test]
    fn small_requests_are_taken_at_any_time_and_records_leave_room_for_large_ones() {
        let full = room(40 * MIB);
        assert!(full.admits(ByKind::default(), fetch(200)) && full.admits(others(200), fetch(600)));
        assert!(full.admits(ByKind::default(), produce(1000)));
        assert!(!full.admits(ByKind::default(), produce(MIB)));
        assert!(!room_of(0, 40 * MIB).admits(others(MIB), fetch(200)));
        let of_records = room(RECORDS_MAX);
        assert!(
            of_records.admits(ByKind::default(), fetch(MIB)),
            "the first of a session"
        );
        assert!(!of_records.admits(ByKind::default(), produce(MIB)));
    }

    #[test]
    fn a_large_request_has_its_turn_beside_any_number_of_clients_with_small_ones() {
        for bytes in [500, SMALL_BYTES / 2, SMALL_BYTES] {
            let own = fill_small(5_000, bytes);
            assert!(RECORDS_MAX < own.iter().sum(), "more than large ones may");
            assert!(room(sum(&own)).admits(ByKind::default(), produce(MIB)));
            assert!(
                room(sum(&own)).admits(records(SMALL_BYTES), produce(MIB)),
                "behind small ones"
            );
        }
    }

    #[test]
    fn a_request_larger_than_all_that_requests_may_take_is_taken_by_itself() {
        assert!(room(0).admits(ByKind::default(), produce(100 * MIB)));
        let large = SMALL_BYTES + MIB;
        assert!(!room(MIB).admits(records(large), produce(100 * MIB)));
        assert!(!room(RECORDS_MAX).admits(ByKind::default(), produce(100 * MIB)));
    }

    #[test]
    fn a_request_that_waited_for_its_turn_is_read_to_its_end() {
        let begun = Room {
            is_begun: true,
            ..room(40 * MIB)
        };
        assert!(begun.admits(records(MIB), produce(MIB)));
        let slow = Room {
            has_room_for_records: false,
            ..begun
        };
        assert!(!slow.admits(records(MIB), produce(MIB)));
    }

    #[test]
    fn records_alone_wait_for_log_directories() {
        let slow = Room {
            has_room_for_records: false,
            ..room(0)
        };
        assert!(!slow.admits(ByKind::default(), produce(100)));
        assert!(slow.admits(ByKind::default(), fetch(100)) && slow.admits(others(MIB), fetch(100)));
    }

    /// However much one kind has under way, the other one gets a quarter; together they have no more than there is.
    #[test]
    fn each_kind_of_request_leaves_a_quarter_to_the_other() {
        for taken in [RECORDS_MAX, RECORDS_MAX + MIB, 100 * MIB] {
            for (beside, own) in [
                (records(taken), Kind::Other),
                (others(taken), Kind::Records),
            ] {
                let (mut room, mut first) = (room(0), 0);
                room.taken = beside;
                let next = match own {
                    Kind::Records => produce(SMALL_BYTES + MIB),
                    Kind::Other => fetch(SMALL_BYTES + MIB),
                };
                while room.admits(ByKind::default(), next) {
                    room.taken.add(own, MIB);
                    first += 1;
                }
                assert_eq!(first, 8, "{own:?} beside {taken} bytes");
            }
        }
        assert!(room_of(0, RECORDS_MAX - MIB).admits(ByKind::default(), fetch(MIB)));
        assert!(!room_of(0, RECORDS_MAX).admits(ByKind::default(), fetch(MIB)));
        assert!(!room_of(12 * MIB, 20 * MIB).admits(ByKind::default(), fetch(MIB)));
        assert!(!room_of(12 * MIB, 20 * MIB).admits(ByKind::default(), produce(MIB)));
    }

    #[test]
    fn a_connection_has_a_share_of_each_kind() {
        let mut own = records(MIB);
        own.add(Kind::Other, SMALL_BYTES);
        let mut taken = Taken::default();
        taken.change(ByKind::default(), own);
        assert_eq!(taken.all, MIB + SMALL_BYTES);
        assert_eq!(taken.counted, records(MIB - SMALL_BYTES));
        assert!(room(40 * MIB).admits(records(MIB), fetch(200)), "small");
        taken.change(own, ByKind::default());
        assert_eq!((taken.all, taken.counted), (0, ByKind::default()));
    }

    #[test]
    fn a_request_is_of_the_kind_of_its_api() {
        for (frame, kind) in [
            (&[0_u8, 0, 0, 9][..], Kind::Records),
            (&[0, 1, 0, 9], Kind::Other),
            (&[0], Kind::Other),
        ] {
            assert_eq!(Kind::of_frame(frame), kind, "{frame:?}");
        }
    }
}
