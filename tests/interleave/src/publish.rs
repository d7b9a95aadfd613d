//! Readers beside the segment writer: what they find in memory, in the list of segments and by the indexes fits together at every
//! moment of a log that is appended to, written, rolled, evicted from memory and trimmed.

use std::sync::Arc;

use log::config::LogConfig;
use model::{LeaderEpoch, Offset, Timestamp};
use shuttle::thread;
use wire::records::{Batch, Source};

use crate::isolation::{Isolation, Scope};
use crate::need::Piece;
use crate::partition::Bounds;
use crate::plan::Plan;
use crate::read::{ReadError, ReadRequest, Records};
use crate::rig::{Rig, run_until_stopped, ticket};
use crate::tests::explore;

/// Offset and time of record `n` are both `n`.
const RECORDS: u32 = 5;

/// Two batches fill a segment, and each has its place in the index.
fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 160,
        index_interval_bytes: 0,
        ..LogConfig::default()
    }
}

/// The news that one reader has got so far; nothing of it may be taken back.
#[derive(Default)]
struct Reader {
    next: Offset,
    high_watermark: Offset,
    log_start: Offset,
}

impl Reader {
    fn see(&mut self, bounds: Bounds) {
        assert!(bounds.high_watermark >= self.high_watermark, "moved back");
        assert!(bounds.log_start >= self.log_start, "moved back");
        assert!(bounds.log_start <= bounds.high_watermark);
        assert!(bounds.high_watermark <= bounds.log_end);
        (self.high_watermark, self.log_start) = (bounds.high_watermark, bounds.log_start);
    }

    /// Batches from `next` on, each whole and following the one before, none of them too early.
    fn take(&mut self, batches: &[Batch], bounds: Bounds) {
        assert!(!batches.is_empty(), "there is more to read");
        for batch in batches {
            assert_eq!(batch.base_offset(), self.next, "a gap, or a repetition");
            assert_eq!(
                batch.max_timestamp().0,
                self.next.0,
                "another record's bytes"
            );
            self.next = batch.next_offset();
        }
        assert!(self.next <= bounds.high_watermark, "shown too early");
    }

    fn read_on(&mut self, rig: &Rig) {
        let request = ReadRequest {
            from: self.next,
            bytes_max: 1 << 20,
            memory_bytes_max: usize::MAX,
            at_least_one: true,
            current_epoch: LeaderEpoch(0),
            scope: Scope::of_leader(Isolation::Uncommitted),
        };
        let plan = rig.partitions[0].plan_read(request);
        let read = plan.and_then(|plan| match plan {
            Plan::Ready(read) => Ok(read),
            Plan::Need(need) => match need.execute() {
                Piece::Read(read) => read,
                Piece::Found(_) => unreachable!("nothing is searched"),
            },
        });
        match read {
            Ok(read) => {
                self.see(read.bounds);
                match read.records {
                    Records::AtEnd => {
                        assert_eq!(self.next, read.bounds.high_watermark, "passed over")
                    }
                    Records::Memory(batches) => self.take(&batches, read.bounds),
                    Records::File(slice) => {
                        let bytes = slice.read().unwrap();
                        let batches: Result<Vec<_>, _> = Batch::cut(&bytes, Source::Log).collect();
                        self.take(&batches.expect("whole batches"), read.bounds);
                    }
                }
            }
            Err(ReadError::OutOfRange { bounds }) => {
                self.see(bounds);
                assert!(self.next < bounds.log_start, "refused at {}", self.next);
                self.next = bounds.log_start;
            }
            Err(error) => panic!("reading at {}: {error}", self.next),
        }
    }

    /// Every record is found by its time as long as it is there.
    fn find(&self, rig: &Rig, wanted: Offset) {
        let found = rig.partitions[0]
            .find_timestamp(Timestamp(wanted.0))
            .unwrap();
        let log_start = rig.partitions[0].bounds().log_start;
        match found {
            Some(found) if found.offset == wanted => assert_eq!(found.timestamp.0, wanted.0),
            Some(found) => assert!(
                wanted < found.offset && found.offset <= log_start,
                "time {wanted} is found at {}, the log starts at {log_start}",
                found.offset
            ),
            None => assert!(wanted < log_start, "time {wanted} is not found"),
        }
    }
}

#[test]
fn readers_find_every_record_whole_and_in_order_while_it_moves_from_memory_to_segments() {
    explore(|| {
        let rig = Rig::with(config());
        let mut writer = rig.writer();
        let writer = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || run_until_stopped(&rig, &mut writer))
        };
        let reader = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                let mut reader = Reader::default();
                for _ in 0..4 {
                    reader.read_on(&rig);
                    if let Some(last) = reader.high_watermark.0.checked_sub(1).filter(|at| *at >= 0)
                    {
                        reader.find(&rig, Offset(last));
                    }
                }
                reader
            })
        };
        for index in 0..RECORDS {
            rig.append(0, index);
            rig.commit();
            if index == 3 {
                rig.partitions[0].trim(Some(Offset(2)), ticket(99)).unwrap();
                rig.commit();
            }
        }
        let mut reader = reader.join().unwrap();
        rig.dir.stop();
        writer.join().unwrap();
        // Nothing moves any more: the rest is read to the end.
        for _ in 0..=RECORDS {
            reader.read_on(&rig);
        }
        assert_eq!(reader.next, Offset(i64::from(RECORDS)));
        assert_eq!(rig.partitions[0].bounds().log_start, Offset(2));
    });
}
