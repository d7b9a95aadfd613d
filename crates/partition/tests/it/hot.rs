//! `esker.hot.tail.bytes`: how much of what was written to segments stays in memory too.

use super::*;

const PARTITIONS: usize = 4;

/// Bytes of batches that readers get from memory. Each holds one record.
fn in_memory(rig: &Rig) -> usize {
    let mut memory = 0;
    for partition in &rig.partitions {
        for offset in 0..partition.bounds().high_watermark.0 {
            let read = partition.read(read_from(Offset(offset))).unwrap();
            if let Records::Memory(batches) = read.records {
                memory += batches[0].size();
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

/// A batch of one record at `time`, whose header says that it has one at `told`.
fn told_as_late_as(told: i64, time: i64) -> Batch {
    let mut builder = BatchBuilder::new();
    builder.push(Timestamp(time), None, Some(b"value"), &[]);
    let mut bytes = builder.build().to_bytes().to_vec();
    bytes[35..43].copy_from_slice(&told.to_be_bytes());
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
