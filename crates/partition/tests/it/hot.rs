//! `esker.hot.tail.bytes`: how much of what was written to segments stays in memory too.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::*;

const PARTITIONS: usize = 4;

/// Bytes of memory of the batches that readers get from there. Each holds one record.
fn in_memory(rig: &Rig) -> usize {
    let mut memory = 0;
    for partition in &rig.partitions {
        for offset in 0..partition.bounds().high_watermark.0 {
            let read = partition.read(read_from(Offset(offset))).unwrap();
            if let Records::Memory(batches) = read.records {
                memory += batches[0].held();
            }
        }
    }
    memory
}

#[test]
fn hot_tails_of_all_partitions_together_keep_within_their_bound() {
    const STEP: usize = 1 << 10;
    for bound in [0, 2 * STEP, 16 * STEP] {
        let machine = machine(1);
        let settings = DirSettings {
            hot_tail_bytes: bound,
            ..settings()
        };
        let configs = vec![small_segments(); PARTITIONS];
        let mut rig = open_at(&machine, Path::new(DIR), settings, &configs).unwrap();
        let mut known = vec![Known::default(); PARTITIONS];
        for step in 1..=60 {
            for at in 0..PARTITIONS {
                rig.append(at, &[value("hot", step)], &mut known).unwrap();
            }
            rig.commit(&mut known);
            rig.work(&machine, SECOND, &mut known);
            // By then there is more than any of the bounds allows.
            if step % 10 == 0 && step >= 40 {
                let memory = in_memory(&rig);
                assert!(memory <= bound, "{memory} bytes, {bound} allowed");
                assert!(
                    memory + STEP >= bound,
                    "{memory} bytes of {bound}: the newest stay"
                );
            }
        }
        check(&rig, &mut known, "all of it is there");
    }
}

/// A batch of one record at `time`, whose header says that it has one at `told`. Packed, so that nobody looks.
fn told_as_late_as(told: i64, time: i64) -> Batch {
    told_in(Codec::Lz4, told, time)
}

fn told_in(codec: Codec, told: i64, time: i64) -> Batch {
    let mut builder = BatchBuilder::new().compression(codec);
    builder.push(Timestamp(time), None, Some(b"a value of some length"), &[]);
    with_claim(builder.build(), told)
}

fn with_claim(batch: Batch, told: i64) -> Batch {
    let mut bytes = batch.to_bytes().to_vec();
    bytes[35..43].copy_from_slice(&told.to_be_bytes());
    sealed_again(bytes)
}

fn sealed_again(mut bytes: Vec<u8>) -> Batch {
    let checksum = log::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    let bytes = Bytes::from(bytes);
    let batch = Batch::cut(&bytes, Source::Log).next();
    batch.unwrap().unwrap()
}

#[test]
fn a_time_is_found_in_memory_behind_batches_that_only_say_they_have_it() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let partition = Arc::clone(&rig.partitions[0]);
    let mut append = |batch| {
        let moment = Moment {
            now: model::Instant(0),
            wall: Timestamp(0),
            stamp: &mut rig.stamp,
        };
        partition.append(batch, Acks::All(None), moment).unwrap();
    };
    (0..20).for_each(|_| append(told_as_late_as(500, 100)));
    append(told_as_late_as(500, 500));
    append(told_as_late_as(500, 500));
    append(told_as_late_as(900, 900));
    let found = |time| partition.find_timestamp(Timestamp(time)).unwrap();
    assert_eq!(found(100), None, "nothing is committed yet");
    rig.commit(&mut []);
    let found = |time| found(time).map(|found| found.offset.0);
    assert_eq!(
        [found(0), found(100), found(101), found(500), found(901)],
        [Some(0), Some(0), Some(20), Some(20), None]
    );
    let newest = partition.max_timestamp().unwrap().unwrap();
    assert_eq!(
        (newest.timestamp, newest.offset),
        (Timestamp(900), Offset(22))
    );
}

/// The headers of a batch with records at 501 and 505 as they come, each with whether what is stored is what Kafka stores.
#[test]
fn the_largest_time_of_a_batch_is_that_of_its_records() {
    let wall = 1_700_000_000_000;
    let of = |codec, claimed: i64| {
        let mut builder = BatchBuilder::new().compression(codec);
        builder.push(Timestamp(wall + 501), None, Some(b"value"), &[]);
        builder.push(Timestamp(wall + 505), None, Some(b"value"), &[]);
        with_claim(builder.build(), claimed)
    };
    let far = wall + 1_000 * 3_600_000;
    let claims = [
        (Codec::None, -1),
        (Codec::Gzip, -1),
        (Codec::None, wall + 501),
        (Codec::None, 0),
        (Codec::None, far),
        (Codec::None, wall + 504),
        (Codec::Zstd, 0),
        (Codec::Zstd, wall + 500),
        (Codec::Zstd, far),
    ];
    for (codec, claimed) in claims {
        let machine = machine(1);
        let mut rig = open(&machine, &[small_segments()]).unwrap();
        let partition = Arc::clone(&rig.partitions[0]);
        append_at(&mut rig, of(codec, claimed), wall).unwrap();
        rig.commit(&mut []);
        let batches = plan(&partition, Offset(0)).unwrap();
        assert_eq!(
            batches[0].max_timestamp(),
            Timestamp(wall + 505),
            "{claimed}"
        );
        assert!(batches[0].is_intact());
        let found = partition.find_timestamp(Timestamp(wall + 502)).unwrap();
        assert_eq!(
            found.map(|found| found.offset),
            Some(Offset(1)),
            "{claimed}"
        );
        let newest = partition.max_timestamp().unwrap();
        assert_eq!(
            newest.map(|found| found.offset),
            Some(Offset(1)),
            "{claimed}"
        );
    }
}

/// A record of so many bytes, its size not counted.
fn with_record_of(codec: Codec, bytes: usize, time: i64) -> Batch {
    let mut builder = BatchBuilder::new().compression(codec);
    let value = vec![7; bytes - 7];
    builder.push(Timestamp(time), None, Some(&value), &[]);
    builder.build()
}

#[test]
fn a_packed_record_is_as_large_as_the_topic_lets_it_become() {
    let wall = 1_700_000_000_000;
    for codec in [Codec::None, Codec::Zstd, Codec::Lz4] {
        let machine = machine(1);
        let limited = LogConfig {
            max_decompressed_message_bytes: 100,
            ..small_segments()
        };
        let mut rig = open(&machine, &[limited]).unwrap();
        append_at(&mut rig, with_record_of(codec, 100, wall), wall).unwrap();
        let larger = append_at(&mut rig, with_record_of(codec, 101, wall), wall);
        let told = larger.err().map(|error| error.to_string());
        let words = "Invalid record size: 101 exceeds the configured maximum record size of 100.";
        let expected = (codec != Codec::None).then(|| words.to_owned());
        assert_eq!(told, expected, "{codec}");
    }
}

#[test]
fn a_look_for_a_time_stops_at_a_packed_record_that_is_larger_than_the_topic_lets_it_become() {
    let wall = 1_700_000_000_000;
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let partition = Arc::clone(&rig.partitions[0]);
    append_at(&mut rig, with_record_of(Codec::None, 101, wall), wall).unwrap();
    append_at(&mut rig, with_record_of(Codec::Zstd, 101, wall + 1), wall).unwrap();
    rig.commit(&mut []);
    let look = |limit| {
        let config = LogConfig {
            max_decompressed_message_bytes: limit,
            ..small_segments()
        };
        partition.set_config(Arc::new(config), &mut Vec::new());
        let found = |time| {
            let found = partition.find_timestamp(Timestamp(wall + time));
            found.map(|found| found.map(|found| found.offset.0)).ok()
        };
        let newest = partition.max_timestamp();
        (found(0), found(1), newest.is_ok())
    };
    assert_eq!(look(101), (Some(Some(0)), Some(Some(1)), true));
    assert_eq!(look(100), (Some(Some(0)), None, false));
    assert_eq!(look(101), (Some(Some(0)), Some(Some(1)), true));
}

/// The claim of a packed batch is believed as long as it can be true, unless the topic says otherwise.
#[test]
fn packed_batches_are_looked_into_where_the_topic_wants_it() {
    let wall = 1_700_000_000_000;
    for verifies_compressed in [false, true] {
        let machine = machine(1);
        let config = LogConfig {
            verifies_compressed,
            ..small_segments()
        };
        let mut rig = open(&machine, &[config]).unwrap();
        let partition = Arc::clone(&rig.partitions[0]);
        append_at(&mut rig, told_as_late_as(wall + 900, wall + 500), wall).unwrap();
        rig.commit(&mut []);
        let stored = plan(&partition, Offset(0)).unwrap()[0].max_timestamp();
        let want = if verifies_compressed { 500 } else { 900 };
        assert_eq!(stored, Timestamp(wall + want));
        let liar = short_of_a_record(Codec::Lz4);
        assert_eq!(
            append_at(&mut rig, liar, wall).is_err(),
            verifies_compressed
        );
        assert!(append_at(&mut rig, short_of_a_record(Codec::None), wall).is_err());
    }
}

/// A batch whose header claims two records, of which there is one.
fn short_of_a_record(codec: Codec) -> Batch {
    let mut bytes = told_in(codec, 500, 500).to_bytes().to_vec();
    bytes[26] = 1;
    bytes[60] = 2;
    sealed_again(bytes)
}

fn append_at(rig: &mut Rig, batch: Batch, wall: i64) -> Result<(), AppendError> {
    let moment = Moment {
        now: model::Instant(0),
        wall: Timestamp(wall),
        stamp: &mut rig.stamp,
    };
    let partition = Arc::clone(&rig.partitions[0]);
    partition.append(batch, Acks::All(None), moment).map(|_| ())
}

/// The memory of the newest batches had no bound while one partition was appended to as fast as it was written, and no other was written.
#[test]
fn a_partition_that_is_appended_to_while_it_is_written_keeps_to_its_turn() {
    const APPENDS: usize = 400;
    const STEP: usize = 16 << 10;
    let machine = machine(1);
    let settings = DirSettings {
        hot_tail_bytes: 4 * STEP,
        ..settings()
    };
    let configs = vec![LogConfig::default(); 2];
    let mut rig = open_at(&machine, Path::new(DIR), settings, &configs).unwrap();
    let mut known = vec![Known::default(); 2];
    rig.work(&machine, SECOND, &mut known);
    for at in 0..2 {
        rig.append(at, &[vec![b'v'; STEP]], &mut known).unwrap();
    }
    rig.commit(&mut known);
    let left = Arc::new(AtomicUsize::new(APPENDS));
    let (busy, dir) = (Arc::clone(&rig.partitions[0]), Arc::clone(&rig.dir));
    let (counted, stamp) = (Arc::clone(&left), Mutex::new(Stamp::default()));
    machine.beside_writes(move || {
        // Its own commit writes too.
        let Some(mut stamp) = stamp.try_lock() else {
            return;
        };
        let next = |left: usize| left.checked_sub(1);
        if counted.fetch_update(SeqCst, SeqCst, next).is_ok() {
            let moment = Moment {
                now: model::Instant(0),
                wall: Timestamp(1_700_000_000_000),
                stamp: &mut stamp,
            };
            let batch = batch_of(&[vec![b'v'; STEP]]);
            busy.append(batch, Acks::None, moment).unwrap();
            dir.commit(&mut Vec::new());
        }
    });
    machine.step_until(machine.now().plus(SECOND));
    while matches!(rig.writer.turn(), Turn::Sleep { .. }) {
        machine.step_until(machine.now().plus(SECOND));
    }
    let done = APPENDS - left.load(SeqCst);
    assert!(0 < done && done < 10, "{done} appends in one turn");
    // In the end all of it is written, and no more stays in memory than may.
    while 0 < left.load(SeqCst) {
        assert!(in_memory(&rig) < 12 * STEP, "{}", in_memory(&rig));
        machine.step_until(machine.now().plus(SECOND));
        rig.writer.turn();
    }
    assert_eq!(rig.partitions[0].bounds().log_end.0, 1 + APPENDS as i64);
}
