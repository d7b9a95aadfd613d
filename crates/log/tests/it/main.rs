//! The log on disk, on the real machine and on simulated ones.

mod aborted;
mod behind;
mod claims;
mod clean;
mod corruption;
mod cut;
mod files;
mod forged;
mod full;
mod heads;
mod jitter;
mod journal;
mod kafka;
mod model;
mod power;
mod preallocate;
mod readers;
mod repair;
mod reserve;
mod rot;
mod store;
mod timeless;
mod times;

use std::path::PathBuf;
use std::sync::Arc;

use ::model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use env::Env;
use env::sim::{Faults, Machine};
use log::{FilePool, Found, Known, LogConfig, Read, Store};
use wire::records::{Batch, BatchBuilder, Codec, Source};

/// A directory for one partition.
struct TestDir {
    env: Env,
    dir: PathBuf,
    machine: Option<Machine>,
    /// A directory of the operating system has to be removed.
    is_real: bool,
}

impl Drop for TestDir {
    fn drop(&mut self) {
        if self.is_real {
            let _ = self.env.disk.remove_dir_all(&self.dir);
        }
    }
}

impl TestDir {
    fn real(name: &str) -> TestDir {
        let env = Env::real();
        let dir =
            std::env::temp_dir().join(format!("esker-log-{name}-{:016x}", env.rng.next_u64()));
        TestDir {
            env,
            dir,
            machine: None,
            is_real: true,
        }
    }

    fn simulated(seed: u64) -> TestDir {
        let machine = Machine::new(seed, Faults::default());
        TestDir {
            env: machine.env(),
            dir: PathBuf::from("/data/t-0"),
            machine: Some(machine),
            is_real: false,
        }
    }

    /// Another directory of the same machine.
    fn beside(&self, number: usize) -> TestDir {
        TestDir {
            env: self.env.clone(),
            dir: self.dir.join(format!("{number}-0")),
            machine: None,
            is_real: false,
        }
    }

    fn pool(&self) -> Arc<FilePool> {
        FilePool::new(Arc::clone(&self.env.disk), 4)
    }

    fn create(&self, config: LogConfig, start: i64) -> Store {
        Store::create(&self.pool(), &self.dir, Arc::new(config), Offset(start)).unwrap()
    }

    fn open(&self, config: LogConfig, known: Option<Known>) -> (Store, Found) {
        Store::open(&self.pool(), &self.dir, Arc::new(config), known).unwrap()
    }

    fn names(&self) -> Vec<String> {
        self.env
            .disk
            .read_dir(&self.dir)
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect()
    }
}

fn on_every_machine(name: &str, check: impl Fn(&TestDir)) {
    check(&TestDir::real(name));
    for seed in 0..4 {
        check(&TestDir::simulated(seed));
    }
}

const NOW: Timestamp = Timestamp(1_000_000);

/// A batch of `count` records at `base`, with times `time`, `time + 1`, ...
fn batch(base: i64, count: usize, time: i64) -> Batch {
    batch_of(base, count, time, Codec::None)
}

fn batch_of(base: i64, count: usize, time: i64, codec: Codec) -> Batch {
    let mut builder = BatchBuilder::new()
        .base_offset(Offset(base))
        .leader_epoch(LeaderEpoch(1))
        .compression(codec);
    for i in 0..count {
        let value = format!("value of record {}", base + i as i64);
        builder.push(
            Timestamp(time + i as i64),
            Some(b"key"),
            Some(value.as_bytes()),
            &[],
        );
    }
    builder.build()
}

fn produced(base: i64, producer: i64, sequence: i32) -> Batch {
    let mut builder = BatchBuilder::new()
        .base_offset(Offset(base))
        .leader_epoch(LeaderEpoch(1))
        .producer(ProducerId(producer), ProducerEpoch(0), Sequence(sequence));
    builder.push(Timestamp(base), None, Some(b"value"), &[]);
    builder.build()
}

fn append(store: &Store, batches: &[Batch]) {
    store.append(batches, NOW).unwrap();
}

/// The whole batches that a read gives, following it over segments.
fn read_all(store: &Store, from: i64, upto: i64, bytes_max: usize) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut next = Offset(from);
    loop {
        match store.read(next, Offset(upto), bytes_max).unwrap() {
            Read::AtEnd => return batches,
            Read::Slice(slice) => {
                let bytes = slice.read().unwrap();
                assert_eq!(bytes.len(), slice.size());
                let cut: Vec<Batch> = Batch::cut(&bytes, Source::Log)
                    .map(Result::unwrap)
                    .collect();
                assert!(!cut.is_empty(), "at least one whole batch");
                assert!(
                    slice.size() <= bytes_max.max(cut[0].size()),
                    "no more than asked for"
                );
                next = cut.last().unwrap().next_offset();
                batches.extend(cut);
            }
        }
    }
}

fn small_segments(segment_bytes: u64) -> LogConfig {
    LogConfig {
        segment_bytes,
        index_interval_bytes: 200,
        ..LogConfig::default()
    }
}

fn hundred_batches() -> Vec<Batch> {
    (0..100).map(|i| batch(i * 3, 3, 1000 + i * 10)).collect()
}
