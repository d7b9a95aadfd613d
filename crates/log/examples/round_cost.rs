//! The cost of one journal round for the processor and the disk, by its shape: nanoseconds per batch without a sync, bytes per batch
//! with all padding. Best of many rounds.
//!
//!     cargo run --release -p log --example round_cost
//!
//! On an idle machine; the file lies where `TMPDIR` says, best in memory.

use std::time::Duration;

use env::Env;
use log::journal::{Entry, Resume, What, Writer};
use model::{LeaderEpoch, Offset, PartitionIndex, Timestamp};
use wire::Uuid;
use wire::records::{Batch, BatchBuilder};

const ROUNDS: usize = 400;

fn main() {
    let env = Env::real();
    println!("batches x bytes  partitions   ns/batch   bytes/batch");
    for (batches, bytes, partitions) in [
        (1, 100, 1),
        (6, 8 << 10, 6),
        (60, 1 << 10, 6),
        (1000, 1 << 10, 1000),
        (4000, 100, 1000),
    ] {
        let (time, size) = cost(&env, batches, bytes, partitions);
        println!("{batches:>7} x {bytes:<6} {partitions:>10} {time:>10.0} {size:>13.0}");
    }
}

fn cost(env: &Env, batches: usize, bytes: usize, partitions: usize) -> (f64, f64) {
    let dir = std::env::temp_dir().join(format!("esker-round-cost-{}", std::process::id()));
    env.disk.create_dir_all(&dir).unwrap();
    let piece_bytes = 64 << 20;
    let mut writer = Writer::new(
        env,
        dir.clone(),
        Uuid([1; 16]),
        piece_bytes,
        Resume::default(),
    );
    let mut entries: Vec<Entry> = (0..batches)
        .map(|at| Entry {
            topic: Uuid([7; 16]),
            partition: PartitionIndex((at % partitions) as i32),
            what: What::Batch(batch(bytes)),
        })
        .collect();
    let mut best = Duration::MAX;
    let (mut used, mut rounds) = (0, 0);
    for round in 0..ROUNDS {
        for entry in &mut entries {
            if let What::Batch(batch) = &mut entry.what {
                batch.set_base_offset(Offset(round as i64));
            }
        }
        let before = writer.live_bytes();
        let start = env.clock.now();
        writer.commit(&entries, false).unwrap();
        let took = env.clock.now().since(start);
        let piece = writer.piece_number();
        writer.release(writer.sequence(), 2).unwrap();
        if round > 0 && writer.live_bytes() > before {
            best = best.min(took);
            used += writer.live_bytes() - before;
            rounds += 1;
        }
        assert!(piece > 0);
    }
    drop(writer);
    env.disk.remove_dir_all(&dir).unwrap();
    let count = batches as f64;
    (
        best.as_nanos() as f64 / count,
        used as f64 / (rounds * batches) as f64,
    )
}

fn batch(bytes: usize) -> Batch {
    let mut builder = BatchBuilder::new();
    let value = vec![b'x'; bytes];
    builder.push(Timestamp(1_700_000_000_000), None, Some(&value), &[]);
    let mut batch = builder.build();
    batch.set_leader_epoch(LeaderEpoch(0));
    batch
}
