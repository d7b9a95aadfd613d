//! Compaction: what stays, and at which offsets.

mod faults;

use std::collections::{BTreeMap, HashMap};

use super::*;
use ::model::ProducerId;
use env::sim::Faults;
use log::clean::{self, CleanError, LastOfProducers, Order, Outcome, Pass};
use log::config::Cleanup;
use log::segment::Segment;
use log::{AbortedTxn, ReadError};
use wire::records::{Caps, EndTxn, RecordFault, RecordIter, end_txn_batch};

/// A record as readers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    time: i64,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

type Rows = BTreeMap<i64, Row>;

pub(super) fn compacted(segment_bytes: u64) -> LogConfig {
    LogConfig {
        cleanup_policy: Cleanup {
            delete: false,
            compact: true,
        },
        min_cleanable_dirty_ratio: 0.0,
        delete_retention_ms: 1000,
        ..small_segments(segment_bytes)
    }
}

fn rows_of(batches: &[Batch]) -> Rows {
    let mut rows = Rows::new();
    for batch in batches.iter().filter(|of| !of.attributes().is_control()) {
        let plain = batch.plain(Caps::default()).unwrap();
        for record in RecordIter::new(&plain, batch.record_count()) {
            let record = record.unwrap();
            let row = Row {
                time: batch.base_timestamp().0 + record.timestamp_delta,
                key: record.key.unwrap().to_vec(),
                value: record.value.map(<[u8]>::to_vec),
            };
            rows.insert(batch.base_offset().0 + i64::from(record.offset_delta), row);
        }
    }
    rows
}

/// The content of a table made of the records.
fn fold<'a>(rows: impl IntoIterator<Item = (&'a i64, &'a Row)>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut table = BTreeMap::new();
    for (_, row) in rows {
        match &row.value {
            Some(value) => table.insert(row.key.clone(), value.clone()),
            None => table.remove(&row.key),
        };
    }
    table
}

struct Chosen {
    codec: Codec,
    keys: u64,
    batches: usize,
}

/// A history of keyed records and tombstones, in batches of an idempotent producer.
fn history(place: &TestDir, chosen: &Chosen) -> Vec<Batch> {
    let rng = &place.env.rng;
    let mut batches = Vec::new();
    let mut base = 0i64;
    for _ in 0..chosen.batches {
        let mut builder = BatchBuilder::new()
            .base_offset(Offset(base))
            .leader_epoch(LeaderEpoch(1))
            .compression(chosen.codec)
            .producer(ProducerId(9), ProducerEpoch(0), Sequence(base as i32));
        let count = 1 + rng.next_u64() % 5;
        for at in 0..count {
            let key = format!("key {}", rng.next_u64() % chosen.keys);
            let value = format!("value {} {}", base + at as i64, "x".repeat(30));
            let value = (!rng.next_u64().is_multiple_of(5)).then_some(value.as_bytes());
            let time = Timestamp(10_000 + (rng.next_u64() % 5000) as i64);
            builder.push(time, Some(key.as_bytes()), value, &[]);
        }
        base += count as i64;
        batches.push(builder.build());
    }
    batches
}

pub(super) struct How {
    now: i64,
    map_bytes: u64,
    producers: LastOfProducers,
}

impl Default for How {
    fn default() -> How {
        How {
            now: 50_000,
            map_bytes: 1 << 20,
            producers: LastOfProducers::default(),
        }
    }
}

fn order(store: &Store, how: &How) -> Option<Order> {
    let facts = store.compaction_facts(store.log_end()).unwrap();
    let candidate = clean::judge(&facts, &store.config(), Timestamp(how.now))?;
    Some(Order {
        first_dirty: candidate.first_dirty,
        upto: candidate.upto,
        now: Timestamp(how.now),
        seed: [1, 2],
        map_bytes_max: how.map_bytes,
        map_load: 0.9,
        holes: Vec::new(),
    })
}

fn drive(store: &Store, mut pass: Pass, how: &How) -> Result<Outcome, CleanError> {
    loop {
        let step = pass.step(store, usize::MAX, &mut || how.producers.clone())?;
        store.unlink(&step.deleted)?;
        if let Some(outcome) = step.outcome {
            return Ok(outcome);
        }
    }
}

/// One pass; `None` when none is due.
pub(super) fn compact(store: &Store, how: &How) -> Option<Outcome> {
    let order = order(store, how)?;
    Some(drive(store, Pass::new(store, order), how).unwrap())
}

/// All that must hold of a log that was compacted up to `clean`, against its whole history.
fn check(store: &Store, whole: &Rows, context: &str) {
    let end = store.log_end();
    let batches = read_all(store, 0, end.0, 700);
    let left = rows_of(&batches);
    for (offset, row) in &left {
        assert_eq!(whole.get(offset), Some(row), "{context}: offset {offset}");
    }
    assert_eq!(fold(&left), fold(whole), "{context}");
    // Above what the last pass saw, everything is there.
    let clean = store.clean_end().map_or(0, |clean| clean.0);
    let above: Vec<_> = whole.range(clean.max(store.gaps_end().0)..end.0).collect();
    let left_above: Vec<_> = left.range(clean.max(store.gaps_end().0)..end.0).collect();
    assert_eq!(left_above, above, "{context}");
    store.verify(Offset(0), end).unwrap();
    // From any offset the next record that is left is found, also from inside of a gap.
    for from in 0..end.0 {
        let Read::Slice(slice) = store.read(Offset(from), end, 1).unwrap() else {
            panic!("{context}: nothing at {from} of {end}");
        };
        let batch = Batch::cut(&slice.read().unwrap(), Source::Log)
            .next()
            .unwrap()
            .unwrap();
        assert!(batch.last_offset() >= Offset(from));
        let first = batches.iter().find(|of| of.last_offset().0 >= from);
        assert_eq!(Some(&batch), first, "{context}: from {from}");
    }
    for time in (10_000..15_000).step_by(501) {
        let want = left
            .iter()
            .find(|(_, row)| time <= row.time)
            .map(|of| *of.0);
        let got = store
            .offset_for_time(Timestamp(time), Offset::ZERO..end)
            .unwrap();
        assert_eq!(got.map(|of| of.offset.0), want, "{context}: time {time}");
    }
    let latest = left.values().map(|row| row.time).max();
    let first_latest = left.iter().find(|(_, row)| Some(row.time) == latest);
    let got = store.max_time().unwrap();
    assert_eq!(
        got.map(|of| (of.offset.0, of.timestamp.0)),
        first_latest.map(|(offset, row)| (*offset, row.time)),
        "{context}"
    );
}

fn is_newest_only(store: &Store, whole: &Rows, clean: i64, keeps_tombstones: bool) -> bool {
    let mut newest: HashMap<&[u8], i64> = HashMap::new();
    for (offset, row) in whole.range(..clean) {
        newest.insert(&row.key, *offset);
    }
    let left = rows_of(&read_all(store, 0, store.log_end().0, 5000));
    let want: Vec<i64> = whole
        .range(..clean)
        .filter(|(offset, row)| newest[&row.key[..]] == **offset)
        .filter(|(_, row)| keeps_tombstones || row.value.is_some())
        .map(|(offset, _)| *offset)
        .collect();
    want == left
        .range(..clean)
        .map(|(offset, _)| *offset)
        .collect::<Vec<_>>()
}

#[test]
fn the_newest_record_of_each_key_stays_at_its_offset() {
    for codec in Codec::ALL {
        on_every_machine("clean", |place| {
            let chosen = Chosen {
                codec,
                keys: 20,
                batches: 120,
            };
            let batches = history(place, &chosen);
            let whole = rows_of(&batches);
            let store = place.create(compacted(1500), 0);
            append(&store, &batches);
            store.sync().unwrap();
            let (size, count) = (store.size(), store.segments().len());
            let outcome = compact(&store, &How::default()).expect("due");
            let active = store.segments().last().unwrap().base();
            assert_eq!(outcome.clean_end, active);
            assert_eq!(store.clean_end(), Some(active));
            assert!(store.size() < size && store.segments().len() <= count);
            check(&store, &whole, "compacted");
            assert!(is_newest_only(&store, &whole, active.0, true));
            assert!(
                place
                    .names()
                    .iter()
                    .all(|name| !name.contains("cleaned") && !name.contains("swap")),
                "nothing is left over: {:?}",
                place.names()
            );
            assert_eq!(compact(&store, &How::default()), None, "nothing is dirty");
            // As after a restart, with a checkpoint and without.
            for known in [Some(store.known()), None] {
                let (again, found) = place.open(compacted(1500), known);
                assert!(found.is_clean() && !found.known_is_stale, "{found:?}");
                assert_eq!(found.damage, None);
                check(&again, &whole, "opened again");
            }
        });
    }
}

#[test]
fn tombstones_stay_for_their_retention_and_then_go() {
    let place = TestDir::simulated(5);
    let chosen = Chosen {
        codec: Codec::None,
        keys: 12,
        batches: 80,
    };
    let batches = history(&place, &chosen);
    let whole = rows_of(&batches);
    let store = place.create(compacted(1500), 0);
    append(&store, &batches);
    store.roll(NOW).unwrap();
    let clean = store.log_end().0;
    compact(&store, &How::default()).unwrap();
    assert!(is_newest_only(&store, &whole, clean, true));
    let at = |now: i64| How {
        now,
        ..How::default()
    };
    // More dirt brings further passes; its keys are others.
    let mut whole = whole;
    let mut more = |now: i64| {
        let end = store.log_end();
        let mut builder = BatchBuilder::new().base_offset(end);
        builder.push(Timestamp(now), Some(b"other"), Some(b"v"), &[]);
        let batch = builder.build();
        whole.extend(rows_of(std::slice::from_ref(&batch)));
        append(&store, &[batch]);
        store.roll(NOW).unwrap();
        compact(&store, &at(now)).expect("due");
        let left = rows_of(&read_all(&store, 0, store.log_end().0, 5000));
        assert_eq!(fold(&left), fold(&whole));
        left.values().filter(|row| row.value.is_none()).count()
    };
    let tombstones = more(50_999);
    assert!(tombstones > 0, "not before delete.retention.ms has passed");
    assert_eq!(more(51_000), 0, "gone with the horizon");
    check(&store, &whole, "without tombstones");
}

#[test]
fn a_small_map_takes_several_passes() {
    let place = TestDir::simulated(6);
    let chosen = Chosen {
        codec: Codec::Lz4,
        keys: 400,
        batches: 300,
    };
    let batches = history(&place, &chosen);
    let whole = rows_of(&batches);
    let store = place.create(compacted(3000), 0);
    append(&store, &batches);
    store.roll(NOW).unwrap();
    let how = How {
        map_bytes: 64 * 24,
        ..How::default()
    };
    let mut passes = 0;
    let mut before = Offset(0);
    while let Some(outcome) = compact(&store, &how) {
        assert!(outcome.clean_end > before, "each pass comes further");
        before = outcome.clean_end;
        check(&store, &whole, "in between");
        passes += 1;
    }
    assert!(passes > 5, "{passes} passes");
    assert_eq!(before, store.log_end());
    assert!(is_newest_only(&store, &whole, before.0, true));
}

#[test]
fn the_last_batch_of_an_active_producer_stays_without_records() {
    let place = TestDir::simulated(7);
    let store = place.create(compacted(4000), 0);
    let keyed = |base: i64, producer: i64, sequence: i32| {
        let mut builder = BatchBuilder::new().base_offset(Offset(base)).producer(
            ProducerId(producer),
            ProducerEpoch(0),
            Sequence(sequence),
        );
        builder.push(Timestamp(base), Some(b"k"), Some(b"v"), &[]);
        builder.build()
    };
    let batches = [
        keyed(0, 1, 0),
        keyed(1, 1, 1),
        keyed(2, 2, 0),
        keyed(3, 3, 0),
        keyed(4, 4, 0),
    ];
    append(&store, &batches);
    store.roll(NOW).unwrap();
    let mut states = log::ProducerStates::default();
    for batch in batches
        .iter()
        .filter(|of| of.producer_id() != ProducerId(3))
    {
        states.apply(batch, None);
    }
    let how = How {
        producers: clean::last_of(&states).into_iter().collect(),
        ..How::default()
    };
    compact(&store, &how).unwrap();
    let left = read_all(&store, 0, 5, 4000);
    let told: Vec<_> = left
        .iter()
        .map(|of| (of.base_offset().0, of.producer_id().0, of.record_count()))
        .collect();
    assert_eq!(
        told,
        [(1, 1, 0), (2, 2, 0), (4, 4, 1)],
        "3 is known to nobody"
    );
    let rebuilt = log::producer::rebuild(&*place.env.disk, &store, Offset(5)).unwrap();
    for id in [1, 2, 4] {
        let last =
            |states: &log::ProducerStates| states.get(ProducerId(id)).unwrap().last().copied();
        assert_eq!(last(&rebuilt), last(&states));
    }
}

pub(super) fn txn_data(id: i64, base: i64, key: &str) -> Batch {
    let mut builder = BatchBuilder::new()
        .transactional()
        .base_offset(Offset(base))
        .producer(ProducerId(id), ProducerEpoch(0), Sequence(base as i32));
    builder.push(Timestamp(10_000), Some(key.as_bytes()), Some(b"txn"), &[]);
    builder.build()
}

pub(super) fn marker(id: i64, base: i64, committed: bool) -> Batch {
    let end = EndTxn {
        committed,
        coordinator_epoch: 0,
    };
    let mut batch = end_txn_batch(ProducerId(id), ProducerEpoch(0), end, Timestamp(10_000));
    batch.set_base_offset(Offset(base));
    batch
}

#[test]
fn aborted_records_go_at_once_and_markers_when_their_data_and_horizon_are_gone() {
    let place = TestDir::simulated(8);
    let store = place.create(compacted(4000), 0);
    let batches = [
        txn_data(1, 0, "a"),
        txn_data(2, 1, "b"),
        txn_data(1, 2, "c"),
        marker(1, 3, false),
        marker(2, 4, true),
        txn_data(1, 5, "a"),
        marker(1, 6, true),
    ];
    append(&store, &batches);
    let aborted = AbortedTxn {
        producer_id: ProducerId(1),
        first_offset: Offset(0),
        last_offset: Offset(3),
        last_stable_offset: Offset(1),
    };
    store.add_aborted(aborted).unwrap();
    store.roll(NOW).unwrap();
    let offsets = || -> Vec<i64> {
        read_all(&store, 0, store.log_end().0, 4000)
            .iter()
            .map(|of| of.base_offset().0)
            .collect()
    };
    compact(&store, &How::default()).unwrap();
    assert_eq!(offsets(), [1, 3, 4, 5, 6], "aborted records are gone");
    assert_eq!(store.aborted(Offset(0), Offset(7)).unwrap(), [aborted]);
    let mut next = 7;
    let mut pass = |now: i64| {
        append(&store, &[batch_of(next, 1, 20_000, Codec::None)]);
        next += 1;
        store.roll(NOW).unwrap();
        compact(
            &store,
            &How {
                now,
                ..How::default()
            },
        )
        .expect("due");
    };
    pass(50_000);
    assert_eq!(offsets(), [1, 3, 4, 5, 6, 7], "the abort begins to age");
    assert_eq!(store.aborted(Offset(0), Offset(7)).unwrap(), []);
    pass(50_999);
    assert_eq!(offsets()[..5], [1, 3, 4, 5, 6]);
    pass(51_000);
    assert_eq!(
        offsets()[..4],
        [1, 4, 5, 6],
        "and is gone; commits have data"
    );
    let (store, found) = place.open(compacted(4000), None);
    assert_eq!(found.damage, None);
    assert_eq!(store.aborted(Offset(0), Offset(7)).unwrap(), []);
}

#[test]
fn an_abort_before_the_dirty_range_hides_nothing_that_its_producer_wrote_later() {
    let place = TestDir::simulated(8);
    let store = place.create(compacted(4000), 0);
    let tombstone = |base: i64| {
        let mut builder = BatchBuilder::new()
            .transactional()
            .base_offset(Offset(base))
            .producer(ProducerId(1), ProducerEpoch(0), Sequence(base as i32));
        builder.push(Timestamp(10_000), Some(b"k"), None, &[]);
        builder.build()
    };
    let batches = [
        txn_data(1, 0, "x"),
        marker(1, 1, false),
        txn_data(1, 2, "k"),
        marker(1, 3, true),
        tombstone(4),
        marker(1, 5, true),
        batch_of(6, 1, 10_000, Codec::None),
    ];
    append(&store, &batches);
    let aborted = AbortedTxn {
        producer_id: ProducerId(1),
        first_offset: Offset(0),
        last_offset: Offset(1),
        last_stable_offset: Offset(0),
    };
    store.add_aborted(aborted).unwrap();
    store.roll(NOW).unwrap();
    store.advance_local_start(Offset(2));
    let rows = || rows_of(&read_all(&store, 2, store.log_end().0, 4000));
    compact(&store, &How::default()).unwrap();
    assert!(!rows().contains_key(&2), "it was deleted at 4");
    append(&store, &[batch_of(7, 1, 20_000, Codec::None)]);
    store.roll(NOW).unwrap();
    let how = How {
        now: 51_000,
        ..How::default()
    };
    compact(&store, &how).unwrap();
    assert_eq!(rows().keys().copied().collect::<Vec<_>>(), [7]);
}

#[test]
fn what_is_written_over_a_cut_is_compacted_though_a_pass_had_come_further() {
    let place = TestDir::simulated(9);
    let store = place.create(compacted(4000), 0);
    let write = |range: std::ops::Range<i64>| {
        let batches: Vec<_> = range
            .map(|base| batch_of(base, 1, 10_000 + base, Codec::None))
            .collect();
        append(&store, &batches);
        store.roll(NOW).unwrap();
    };
    write(0..10);
    compact(&store, &How::default()).unwrap();
    assert_eq!(store.clean_end(), Some(Offset(10)));
    store.truncate_to(Offset(9)).unwrap();
    assert_eq!(store.clean_end(), Some(Offset(9)));
    write(9..12);
    compact(&store, &How::default()).unwrap();
    let left = rows_of(&read_all(&store, 0, store.log_end().0, 4000));
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [11]);
    let (store, _) = place.open(compacted(4000), None);
    assert_eq!(store.clean_end(), Some(Offset(12)));
    store.restart_at(Offset(5)).unwrap();
    assert_eq!(store.clean_end(), Some(Offset(5)));
}

#[test]
fn readers_that_began_before_a_swap_finish_on_the_old_bytes() {
    on_every_machine("swap", |place| {
        let chosen = Chosen {
            codec: Codec::None,
            keys: 5,
            batches: 60,
        };
        let batches = history(place, &chosen);
        let store = place.create(compacted(1500), 0);
        append(&store, &batches);
        store.roll(NOW).unwrap();
        let (store, _) = place.open(compacted(1500), Some(store.known()));
        let old = store.segments();
        let Read::Slice(slice) = store.read(Offset(0), store.log_end(), 1000).unwrap() else {
            panic!("not empty");
        };
        compact(&store, &How::default()).unwrap();
        assert!(
            old.iter().any(|of| !of.is_empty())
                && store.size() < old.iter().map(|of| of.len()).sum()
        );
        let cut: Vec<_> = Batch::cut(&slice.read().unwrap(), Source::Log)
            .map(Result::unwrap)
            .collect();
        assert_eq!(cut, batches[..cut.len()], "a slice");
        for batch in &batches {
            let at = old.partition_point(|of| of.base() <= batch.base_offset()) - 1;
            let segment = &old[at];
            let found = segment.find(batch.base_offset(), segment.len()).unwrap();
            let file = segment.file().unwrap();
            let found = found.expect("in the old segment");
            let read = log::scan::read_batch(&*file, found.position, &found.head).unwrap();
            assert_eq!(&read, batch, "a list of segments");
        }
        drop(old);
        check(&store, &rows_of(&batches), "afterwards");
    });
}

#[test]
fn a_pass_ends_when_retention_takes_its_segments() {
    let place = TestDir::simulated(9);
    let chosen = Chosen {
        codec: Codec::None,
        keys: 9,
        batches: 60,
    };
    let batches = history(&place, &chosen);
    let store = place.create(compacted(1500), 0);
    append(&store, &batches);
    store.roll(NOW).unwrap();
    let how = How::default();
    let pass = Pass::new(&store, order(&store, &how).unwrap());
    let second = store.segments()[1].base();
    let deleted = store.retire(second, NOW).unwrap();
    assert!(matches!(
        drive(&store, pass, &how),
        Err(CleanError::Overtaken
            | CleanError::Read(ReadError::OutOfRange { .. } | ReadError::Io { .. }))
    ));
    store.unlink(&deleted).unwrap();
    assert_eq!(store.local_start(), second);
    compact(&store, &how).expect("the next one");
    let left = rows_of(&read_all(&store, second.0, store.log_end().0, 5000));
    let whole = rows_of(&batches);
    assert_eq!(fold(&left), fold(whole.range(second.0..)));
}

#[test]
fn damage_ends_a_pass_and_the_log_stays() {
    // A record, and the leader epoch, which no checksum covers.
    for at in [100, 13] {
        check_damage_ends_a_pass(at);
    }
}

fn check_damage_ends_a_pass(at: u64) {
    let machine = Machine::new(4, Faults::default());
    let place = TestDir {
        env: machine.env(),
        dir: PathBuf::from("/data/t-0"),
        machine: None,
        is_real: false,
    };
    let chosen = Chosen {
        codec: Codec::None,
        keys: 9,
        batches: 60,
    };
    let batches = history(&place, &chosen);
    let store = place.create(compacted(1500), 0);
    append(&store, &batches);
    store.roll(NOW).unwrap();
    store.sync().unwrap();
    let path = store.segments()[1].path("log");
    machine
        .rot(&path, at..at + 1, env::sim::Rot::Flip { bit: 3 })
        .unwrap();
    let how = How::default();
    let count = store.segments().len();
    let pass = Pass::new(&store, order(&store, &how).unwrap());
    assert!(matches!(
        drive(&store, pass, &how),
        Err(CleanError::Damaged { .. })
    ));
    assert_eq!(store.segments().len(), count);
}

#[test]
fn a_packed_record_that_is_larger_than_the_log_lets_it_become_ends_a_pass() {
    for codec in [Codec::None, Codec::Zstd] {
        let machine = Machine::new(4, Faults::default());
        let place = TestDir {
            env: machine.env(),
            dir: PathBuf::from("/data/t-0"),
            machine: None,
            is_real: false,
        };
        let chosen = Chosen {
            codec,
            keys: 9,
            batches: 60,
        };
        let batches = history(&place, &chosen);
        let store = place.create(compacted(1500), 0);
        append(&store, &batches);
        store.roll(NOW).unwrap();
        let limited = LogConfig {
            max_decompressed_message_bytes: 4,
            ..(*store.config()).clone()
        };
        let unlimited = store.config();
        store.set_config(Arc::new(limited));
        let how = How::default();
        let compact = || {
            drive(
                &store,
                Pass::new(&store, order(&store, &how).unwrap()),
                &how,
            )
        };
        match compact() {
            Ok(_) => assert_eq!(codec, Codec::None),
            Err(CleanError::Records {
                fault: RecordFault::Oversized(record),
                ..
            }) => assert!(codec != Codec::None && record.bytes > record.max),
            Err(error) => panic!("{error}"),
        }
        store.set_config(unlimited);
        if codec != Codec::None {
            compact().unwrap();
        }
    }
}

#[test]
fn gaps_are_believed_below_the_compacted_end_alone() {
    let machine = Machine::new(4, Faults::default());
    let place = TestDir {
        env: machine.env(),
        dir: PathBuf::from("/data/t-0"),
        machine: None,
        is_real: false,
    };
    let chosen = Chosen {
        codec: Codec::None,
        keys: 9,
        batches: 60,
    };
    let batches = history(&place, &chosen);
    let store = place.create(compacted(1500), 0);
    append(&store, &batches);
    store.roll(NOW).unwrap();
    compact(&store, &How::default()).unwrap();
    let gaps_end = store.gaps_end();
    let end = gaps_end.0;
    let later: Vec<_> = (0..6).map(|at| batch(end + at, 1, 10_000)).collect();
    append(&store, &later);
    store.sync().unwrap();
    let known = store.known();
    // The policy changes back; the gaps stay legal.
    let (store, found) = place.open(small_segments(1500), Some(known));
    assert!(!found.known_is_stale);
    assert_eq!(store.gaps_end(), gaps_end);
    read_all(&store, 0, end + 6, 5000);
    drop(store);
    // A base offset that rotted leaves a gap where none may be: the checksum does not cover it.
    let active = place.dir.join(log::file_name(gaps_end, "log"));
    let file = place
        .env
        .disk
        .open(&active, env::disk::Open::Write)
        .unwrap();
    let at = later[0].size() as u64 * 2 + 7;
    let moved = [(end + 2) as u8 + 1];
    file.write_at(&[std::io::IoSlice::new(&moved)], at).unwrap();
    let (store, _) = place.open(compacted(1500), Some(known));
    assert_eq!(read_all(&store, end, end + 2, 5000), later[..2]);
    assert!(matches!(
        store.read(Offset(end + 2), Offset(end + 6), 5000),
        Err(ReadError::Damaged { .. })
    ));
}

/// Retention and `min.compaction.lag.ms` go by the file where records have no time.
#[test]
fn what_compaction_leaves_is_as_old_as_what_it_was_made_of() {
    on_every_machine("clean-age", |place| {
        let lagging = LogConfig {
            min_compaction_lag_ms: 1,
            ..compacted(600)
        };
        let store = place.create(lagging, 0);
        (0..40).for_each(|at| append(&store, &[batch(at, 1, -1)]));
        let modified = |segment: &Segment| {
            let path = segment.path("log");
            place.env.disk.modified_ms(&path).unwrap()
        };
        let segments = store.segments();
        let (_, sealed) = segments.split_last().unwrap();
        for (segment, at) in sealed.iter().zip(1..) {
            let file = segment.file().unwrap();
            file.set_modified_ms(at * 1_000).unwrap();
        }
        let last = sealed.len() as i64 * 1_000;
        let facts = store.compaction_facts(store.log_end()).unwrap();
        assert_eq!(facts.segments[0].max_time, Some(Timestamp(1_000)));
        let at = |now| How {
            now,
            ..How::default()
        };
        assert!(order(&store, &at(900)).is_none(), "all are too young");
        let outcome = compact(&store, &at(last + 10)).unwrap();
        assert!(outcome.bytes_after < outcome.bytes_before, "{outcome:?}");
        let segments = store.segments();
        let (_, sealed) = segments.split_last().unwrap();
        assert_eq!(modified(sealed.last().unwrap()), last);
        assert!(sealed.iter().all(|of| modified(of) <= last));
    });
}
