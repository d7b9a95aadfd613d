//! The arguments of `esker bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::preset::Preset;
use crate::arguments::Pair;
use crate::produce::{Acks, CodecName};

#[derive(Args, Clone, Debug)]
pub(crate) struct BenchArgs {
    /// Benchmark to repeat
    #[arg(value_enum, required_unless_present = "list")]
    pub(super) preset: Option<Preset>,
    /// Tell every preset, its source and what it does, and measure nothing
    #[arg(long)]
    pub(super) list: bool,
    /// Records of each case; the preset's number when not given
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) records: Option<u64>,
    /// Measured seconds of each case that runs by time; the preset's number when not given
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) seconds: Option<Duration>,
    /// Times to measure each case
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) runs: u32,
    /// Partitions of the topic; each case once for every number of them. The preset's number when not given
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) partitions: Vec<i32>,
    /// Connections to try, for presets that vary them
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) connections: Vec<u32>,
    /// When a record counts as written; the preset's choice when not given, which is `all` for most
    #[arg(long, value_enum)]
    pub(super) acks: Option<Acks>,
    /// Compress batches
    #[arg(short = 'z', long, value_enum, default_value = "none")]
    pub(super) codec: CodecName,
    /// Copies of each partition; the preset's number when not given, which is 1 for most
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(i16).range(1..))]
    pub(super) replication_factor: Option<i16>,
    /// A setting of the topic, such as esker.durability=os
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub(super) config: Vec<Pair>,
    /// Name of the topic, deleted before and after
    #[arg(long, value_name = "NAME", default_value = "esker-bench")]
    pub(super) topic: String,
    /// The broker's data directory, on this machine: its pages are dropped from memory before each reading case
    #[arg(long, value_name = "DIR")]
    pub(super) cold: Option<PathBuf>,
    /// Print the latencies of each case as a histogram too
    #[arg(long)]
    pub(super) histogram: bool,
    /// Write the result as JSON and SVG charts into this directory
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number of seconds"))?;
    // A day keeps the spans that a rate is counted in below a hundred thousand.
    if (0.01..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("a case takes 0.01 to 86400 seconds".to_owned())
    }
}
