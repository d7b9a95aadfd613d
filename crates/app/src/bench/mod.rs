//! `esker bench`: the published benchmarks of logs, repeated with our own client against any broker.
//!
//! Owns the order of a run: make the topic, load what is read, measure each case, report, remove the topic. The client shares the
//! machine with the broker unless it is told another address, so the report says how much of the processor it took itself.

mod chart;
mod histogram;
mod preset;
mod report;
mod work;

use std::path::{Path, PathBuf};

use clap::Args;
use client::NewTopic;
use env::Env;
use env::disk::Open;

use crate::failure::Failure;
use crate::grammar::{Global, Pair};
use crate::produce::{Acks, CodecName};
use crate::table::bytes;
use preset::{Case, Preset};
use report::{Report, Row};
use work::Bench;

#[derive(Args, Clone, Debug)]
pub(crate) struct BenchArgs {
    /// What to repeat
    #[arg(value_enum)]
    pub(super) preset: Preset,
    /// Records of each case; the preset's number when not given
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) records: Option<u64>,
    /// Measured seconds of each case that runs by time
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seconds: u64,
    /// Times to measure each case
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) runs: u32,
    /// Partitions of the topic; the preset's number when not given
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) partitions: Option<i32>,
    /// Connections to try, for presets that vary them
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) connections: Vec<u32>,
    /// When a record counts as written
    #[arg(long, value_enum, default_value = "all")]
    pub(super) acks: Acks,
    /// Compress batches
    #[arg(short = 'z', long, value_enum, default_value = "none")]
    pub(super) codec: CodecName,
    /// Copies of each partition
    #[arg(short, long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(i16).range(1..))]
    pub(super) replication_factor: i16,
    /// A setting of the topic, such as esker.durability=os
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub(super) config: Vec<Pair>,
    /// Name of the topic, deleted before and after
    #[arg(long, value_name = "NAME", default_value = "esker-bench")]
    pub(super) topic: String,
    /// The broker's data directory, on this machine: its pages are dropped from memory before each reading case
    #[arg(long, value_name = "DIR")]
    pub(super) cold: Option<PathBuf>,
    /// Write the result as JSON and SVG charts into this directory
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

pub(crate) fn bench(global: &Global, args: &BenchArgs) -> Result<(), Failure> {
    let env = Env::real();
    let cases = args.preset.cases(args);
    let mut rows: Vec<Row> = Vec::new();
    let mut loaded: Option<(String, i32, usize, u64)> = None;
    for run in 1..=args.runs {
        for case in &cases {
            // Reading cases of one shape share what was loaded; writing ones begin with an empty topic.
            let shape = (args.topic.clone(), case.partitions, case.size, case.records);
            let is_loaded = case.job.reads_only() && loaded.as_ref() == Some(&shape);
            let bench = Bench {
                env: &env,
                global,
                args,
                case,
            };
            if !is_loaded {
                renew(&env, global, args, case)?;
                if case.job.reads_only() {
                    eprintln!("loading {} records of {} bytes", case.records, case.size);
                    bench.load()?;
                }
                loaded = case.job.reads_only().then_some(shape);
            }
            if let Some(dir) = args.cold.as_ref().filter(|_| case.job.reads_only()) {
                let dropped = drop_pages(&env, dir, &args.topic);
                let failed = |error| {
                    Failure::new(format!(
                        "cannot drop the pages of {}: {error}",
                        dir.display()
                    ))
                };
                eprintln!("dropped the pages of {}", bytes(dropped.map_err(failed)?));
            }
            eprintln!(
                "{}: {} (run {run} of {})",
                args.preset.name(),
                case.label,
                args.runs
            );
            rows.push(bench.measure(run)?);
        }
    }
    remove(&env, global, args)?;
    let report = Report {
        preset: args.preset,
        rows,
    };
    report.print(&env, global, args)?;
    if let Some(dir) = &args.out {
        report.save(&env, global, args, dir)?;
    }
    Ok(())
}

fn remove(env: &Env, global: &Global, args: &BenchArgs) -> Result<(), Failure> {
    match crate::connect(env, global)?.delete_topic(&args.topic) {
        Ok(()) | Err(client::Error::NoTopic { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// An empty topic fit for a case.
fn renew(env: &Env, global: &Global, args: &BenchArgs, case: &Case) -> Result<(), Failure> {
    remove(env, global, args)?;
    let mut configs: Vec<(String, String)> = args
        .config
        .iter()
        .map(|pair| (pair.name.clone(), pair.value.clone()))
        .collect();
    // A record of exactly 1 MiB and its headers do not fit the default.
    if case.size >= 1_000_000 && configs.iter().all(|(name, _)| name != "max.message.bytes") {
        configs.push(("max.message.bytes".to_owned(), (2 * case.size).to_string()));
    }
    let topic = NewTopic {
        name: args.topic.clone(),
        partitions: Some(case.partitions),
        replication_factor: Some(args.replication_factor),
        configs,
    };
    crate::connect(env, global)?.create_topic(&topic, false)?;
    Ok(())
}

/// Drops what the page cache holds of a topic's segments, written back first; returns their bytes.
fn drop_pages(env: &Env, dir: &Path, topic: &str) -> std::io::Result<u64> {
    let mut bytes = 0;
    env.disk.sync_volume(dir)?;
    let of_topic = |name: &str| name.rsplit_once('-').is_some_and(|(name, _)| name == topic);
    for partition in env
        .disk
        .read_dir(dir)?
        .iter()
        .filter(|entry| entry.is_dir && of_topic(&entry.name))
    {
        let path = dir.join(&partition.name);
        for segment in env
            .disk
            .read_dir(&path)?
            .iter()
            .filter(|entry| entry.name.ends_with(".log"))
        {
            env.disk
                .open(&path.join(&segment.name), Open::Read)?
                .drop_cache(0, segment.len);
            bytes += segment.len;
        }
    }
    Ok(bytes)
}
