//! The cost of one batch for the broker, by size: cutting it out of a request with its checksum, walking its records, appending it
//! to a log in the page cache, reading it back at the tail. Best of many rounds, in nanoseconds per batch.
//!
//!     cargo run --release -p log --example batch_cost
//!
//! Run it at a raised priority or on an idle machine; on a busy one only the best round means anything.

use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use log::{FilePool, LogConfig, Store};
use model::{LeaderEpoch, Offset, Timestamp};
use wire::records::{Batch, BatchBuilder, RecordIter, Source, checksum};

const ROUNDS: usize = 40;

fn main() {
    let env = Env::real();
    println!(
        "records x bytes   size   cut+crc  set+copy  crc of two slices    walk  append  tail read"
    );
    for (count, bytes) in [
        (1, 100),
        (10, 100),
        (100, 100),
        (9000, 100),
        (1, 2048),
        (1, 1 << 20),
    ] {
        let batch = batch(count, bytes);
        let frame = batch.to_bytes();
        let size = frame.len();
        let times = (4 << 20) / size + 1;
        let mut out = Vec::with_capacity(size);
        let parsed = best(&env, times, || cut(&frame).record_count());
        let copied = best(&env, times, || {
            let mut batch = cut(&frame);
            batch.set_base_offset(Offset(77));
            batch.set_leader_epoch(LeaderEpoch(3));
            out.clear();
            batch.write_to(&mut out);
            out.len()
        });
        let crc = best(&env, times, || checksum(&batch, batch.body()));
        let walk = best(&env, times, || {
            RecordIter::new(batch.body(), batch.record_count())
                .filter(Result::is_ok)
                .count()
        });
        let (append, read) = log_cost(&env, &batch, times.min(2000));
        println!(
            "{count:>7} x {bytes:<7} {size:>7} {parsed:>8.0} {copied:>9.0} {crc:>18.0} {walk:>8.0} {append:>7.0} {read:>10.0}"
        );
    }
}

fn batch(count: usize, bytes: usize) -> Batch {
    let mut builder = BatchBuilder::new();
    let value = vec![b'x'; bytes - 10.min(bytes)];
    for _ in 0..count {
        builder.push(Timestamp(1_700_000_000_000), None, Some(&value), &[]);
    }
    builder.build()
}

fn cut(frame: &Bytes) -> Batch {
    Batch::cut(frame, Source::Produce)
        .next()
        .expect("one batch")
        .expect("intact")
}

/// Nanoseconds of one call in the best round.
fn best<T>(env: &Env, times: usize, mut call: impl FnMut() -> T) -> f64 {
    let round = || {
        let start = env.clock.now();
        for _ in 0..times {
            std::hint::black_box(call());
        }
        env.clock.now().since(start).as_nanos() as f64 / times as f64
    };
    std::iter::repeat_with(round)
        .take(ROUNDS)
        .fold(f64::INFINITY, f64::min)
}

/// Append to and read from a log whose bytes stay in the page cache.
fn log_cost(env: &Env, batch: &Batch, times: usize) -> (f64, f64) {
    let dir = std::env::temp_dir().join(format!("esker-batch-cost-{:016x}", env.rng.next_u64()));
    let pool = FilePool::new(Arc::clone(&env.disk), 100);
    let config = LogConfig {
        segment_bytes: 256 << 20,
        ..LogConfig::default()
    };
    let store =
        Store::create(&pool, &dir, Arc::new(config), Offset::ZERO).expect("a directory for it");
    let mut append_best = f64::INFINITY;
    let mut read_best = f64::INFINITY;
    for _ in 0..10 {
        let append = || {
            let mut batch = batch.clone();
            batch.set_base_offset(store.log_end());
            store
                .append(&[batch], Timestamp(0))
                .expect("room on the disk")
        };
        let (clock, n) = (&env.clock, times as f64);
        let start = clock.now();
        for _ in 0..times {
            append();
        }
        append_best = append_best.min(clock.now().since(start).as_nanos() as f64 / n);
        let last = store.log_end().advance(-i64::from(batch.record_count()));
        let start = clock.now();
        for _ in 0..times {
            std::hint::black_box(store.read(last, store.log_end(), 1 << 20).is_ok());
        }
        read_best = read_best.min(clock.now().since(start).as_nanos() as f64 / n);
    }
    drop(store);
    let _ = env.disk.remove_dir_all(&dir);
    (append_best, read_best)
}
