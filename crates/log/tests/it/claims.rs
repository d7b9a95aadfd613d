//! Headers that claim another largest time than their records have, in segments of older versions and in those of this one.

use std::io::IoSlice;

use env::disk::Open;

use super::*;

const HOUR: i64 = 3_600_000;
/// Records of a batch, with times that rise by one.
const RECORDS: usize = 5;
const BATCHES: usize = 8;

/// Name, codec, and the largest time that the header claims for a base.
type Claim = (&'static str, Codec, fn(i64) -> i64);

/// The claims of headers of records from the time `base` on, and how the records are packed.
const CLAIMS: [Claim; 6] = [
    ("none", Codec::None, |_| -1),
    ("none, packed", Codec::Gzip, |_| -1),
    ("the first", Codec::None, |base| base),
    ("the first, packed", Codec::Lz4, |base| base),
    ("1970", Codec::None, |_| 0),
    ("far too late", Codec::None, |base| base + 1_000 * HOUR),
];

fn claiming(base: i64, time: i64, codec: Codec, claimed: i64) -> Batch {
    let mut bytes = batch_of(base, RECORDS, time, codec).to_bytes().to_vec();
    bytes[35..43].copy_from_slice(&claimed.to_be_bytes());
    let checksum = log::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    let batch = Batch::cut(&bytes.into(), Source::Log).next();
    batch.unwrap().unwrap()
}

/// Time of the first record of a batch.
fn time_of(at: usize, now: i64) -> i64 {
    now - HOUR + at as i64 * 1_000
}

/// A segment of each two batches; the last one is active.
fn write(place: &TestDir, codec: Codec, claim: fn(i64) -> i64, now: i64) -> Store {
    let store = place.create(kept_an_hour(), 0);
    for at in 0..BATCHES {
        let (base, time) = ((at * RECORDS) as i64, time_of(at, now));
        append(&store, &[claiming(base, time, codec, claim(time))]);
        if at % 2 == 1 && at + 1 < BATCHES {
            store.roll(Timestamp(now)).unwrap();
        }
    }
    store.sync().unwrap();
    store.write_indexes().unwrap();
    store
}

fn kept_an_hour() -> LogConfig {
    LogConfig {
        retention_ms: Some(HOUR),
        index_interval_bytes: 0,
        ..small_segments(1 << 20)
    }
}

/// Gives each segment the time index that headers alone make.
fn as_older_versions_wrote_it(place: &TestDir, store: &Store, claim: fn(i64) -> i64, now: i64) {
    for (number, segment) in store.segments().iter().enumerate() {
        let mut times: Vec<(i64, i32)> = Vec::new();
        for at in [2 * number, 2 * number + 1] {
            let claimed = claim(time_of(at, now));
            let relative = (at * RECORDS + RECORDS - 1) as i64 - segment.base().0;
            if times.last().is_none_or(|(last, _)| *last < claimed) {
                times.push((claimed, relative as i32));
            }
        }
        let bytes: Vec<u8> = times
            .iter()
            .flat_map(|(time, relative)| {
                [&time.to_be_bytes()[..], &relative.to_be_bytes()[..]].concat()
            })
            .collect();
        let path = segment.path("timeindex");
        let file = place.env.disk.open(&path, Open::Truncate).unwrap();
        file.write_at(&[IoSlice::new(&bytes)], 0).unwrap();
    }
}

/// Every record is found by its time, the newest as well, and a segment expires when its last record is too old.
fn check(store: &Store, now: i64, what: &str) {
    let end = store.log_end();
    let find = |time: i64| {
        let found = store.offset_for_time(Timestamp(time), Offset(0)..end);
        found
            .unwrap()
            .map(|found| (found.offset.0, found.timestamp.0))
    };
    assert_eq!(find(0), Some((0, time_of(0, now))), "{what}");
    for at in 0..BATCHES {
        for record in 0..RECORDS as i64 {
            let (offset, time) = ((at * RECORDS) as i64 + record, time_of(at, now) + record);
            assert_eq!(find(time), Some((offset, time)), "{what}");
        }
    }
    let last = time_of(BATCHES - 1, now) + RECORDS as i64 - 1;
    assert_eq!(find(last + 1), None, "{what}");
    let newest = store
        .max_time()
        .unwrap()
        .map(|found| (found.offset.0, found.timestamp.0));
    assert_eq!(
        newest,
        Some(((BATCHES * RECORDS - 1) as i64, last)),
        "{what}"
    );
    for segment in 0..BATCHES / 2 {
        let largest = time_of(2 * segment + 1, now) + RECORDS as i64 - 1;
        let expired = |at: i64| store.retirable(Timestamp(at), end).unwrap().len();
        assert_eq!(expired(largest + HOUR), segment, "{what}");
        assert_eq!(expired(largest + HOUR + 1), segment + 1, "{what}");
    }
}

#[test]
fn records_are_found_by_their_times_whatever_older_versions_believed() {
    on_every_machine("claims-old", |place| {
        for (number, (what, codec, claim)) in CLAIMS.iter().enumerate() {
            let place = place.beside(number);
            let now = place.env.clock.wall_ms().0;
            let store = write(&place, *codec, *claim, now);
            as_older_versions_wrote_it(&place, &store, *claim, now);
            let known = store.known();
            drop(store);
            let (store, _) = place.open(kept_an_hour(), Some(known));
            check(&store, now, what);
            drop(store);
            // The result is kept.
            let (store, _) = place.open(kept_an_hour(), Some(known));
            let sealed = BATCHES / 2 - 1;
            let is_sure = |number: usize| {
                let path = store.segments()[number].path("timeindex");
                let file = place.env.disk.open(&path, Open::Read).unwrap();
                let mut pair = [0; 24];
                let at = file.len().unwrap().saturating_sub(24);
                file.read_exact_at(&mut pair, at).unwrap();
                pair[..12] == pair[12..]
            };
            assert!((0..sealed).all(is_sure), "{what}");
            check(&store, now, what);
        }
    });
}

/// A producer's batch is corrected before it gets here, but one that came out of the journal of an older version was not.
#[test]
fn a_header_that_hides_its_time_is_looked_into_when_it_is_written() {
    on_every_machine("claims-new", |place| {
        for (number, (what, codec, claim)) in CLAIMS.iter().enumerate() {
            if !claiming(0, 1_000, *codec, claim(1_000)).hides_time() {
                continue;
            }
            let place = place.beside(number);
            let now = place.env.clock.wall_ms().0;
            let store = write(&place, *codec, *claim, now);
            check(&store, now, what);
            let known = store.known();
            drop(store);
            let (store, _) = place.open(kept_an_hour(), Some(known));
            check(&store, now, what);
            drop(store);
            let (store, _) = place.open(kept_an_hour(), None);
            check(&store, now, what);
        }
    });
}
