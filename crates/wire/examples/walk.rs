//! The cost of walking every batch: nanoseconds a record of 100 bytes for the broker's work on a produced batch (cutting it,
//! with its checksum), and for unpacking and walking its records on top. See docs/decisions/records.md.
//!
//!     cargo run --release -p wire --example walk
//!
//! Prints the best of several rounds, because other work on the machine only ever adds.

#![allow(clippy::disallowed_methods)] // a stopwatch needs the real clock

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::Timestamp;
use wire::records::{Batch, BatchBuilder, Codec, Rules, Source, validate_records};

const VALUE_BYTES: usize = 100;
const ROUNDS: usize = 25;
const ROUND: Duration = Duration::from_millis(40);

fn main() {
    println!(
        "{:>8} {:>6} {:>7} {:>9} {:>9} {:>9} {:>9}",
        "records", "codec", "values", "bytes", "packed", "cut ns", "walk ns"
    );
    // A single record, a batch of the 2014 benchmark (8 KB), one of the stock clients' default (16 KB), a large one.
    for count in [1, 75, 150, 5000] {
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
            for (name, value) in [("text", text as fn(usize) -> Vec<u8>), ("random", random)] {
                measure(count, codec, name, value);
            }
        }
    }
}

fn measure(count: usize, codec: Codec, name: &str, value: fn(usize) -> Vec<u8>) {
    let packed = batch(count, codec, value);
    let plain = batch(count, Codec::None, value).len();
    let rules = Rules {
        contiguous: true,
        ..Rules::default()
    };
    let cut = || {
        Batch::cut(&packed, Source::Produce)
            .next()
            .expect("a batch")
    };
    let batch = cut().expect("a good batch");
    let cut_ns = best(|| drop(black_box(cut())));
    let walk_ns = best(|| drop(black_box(validate_records(&batch, &rules))));
    let each = |ns: f64| ns / count as f64;
    println!(
        "{count:>8} {:>6} {name:>7} {plain:>9} {:>9} {:>9.1} {:>9.1}",
        codec.to_string(),
        packed.len(),
        each(cut_ns),
        each(walk_ns)
    );
}

fn batch(count: usize, codec: Codec, value: fn(usize) -> Vec<u8>) -> Bytes {
    let mut builder = BatchBuilder::new().compression(codec);
    for number in 0..count {
        let time = Timestamp(1_700_000_000_000 + number as i64 / 10);
        builder.push(time, None, Some(&value(number)), &[]);
    }
    builder.build().to_bytes()
}

/// A line of a log, which shrinks to about a third.
fn text(number: usize) -> Vec<u8> {
    let (user, took) = (number * 7919 % 100_003, number * 31 % 977);
    let line = format!(
        "{{\"time\":{number:010},\"level\":\"info\",\"user\":\"{user:06}\",\"path\":\"/cart/{took:04}\",\"status\":200,\"ms\":{took:04}}}"
    );
    let mut line = line.into_bytes();
    line.resize(VALUE_BYTES, b' ');
    line
}

/// Bytes that do not shrink.
fn random(number: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    };
    (0..VALUE_BYTES).map(|_| next()).collect()
}

/// Nanoseconds of one call in the best round.
fn best(mut call: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let mut calls = 0u32;
        while began.elapsed() < ROUND {
            for _ in 0..16 {
                call();
            }
            calls += 16;
        }
        best = best.min(began.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    best
}
