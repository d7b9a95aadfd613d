//! `esker bench`: the published benchmarks of logs, repeated with our own client against any broker.
//!
//! Owns the order of a run: make the topic, load what is read, measure each case, report, remove the topic. The client shares the
//! machine with the broker unless it is told another address, so the report says how much of the processor it took itself.

mod arguments;
mod case;
mod chart;
mod histogram;
mod overhead;
mod preset;
mod reads;
mod report;
mod series;
mod work;

use std::path::Path;

use clap::ValueEnum;
use client::NewTopic;
use env::Env;
use env::disk::Open;
use wire::error_code::ErrorCode;

use crate::arguments::Global;
use crate::connect::connect;
use crate::failure::Failure;
use crate::table::{Table, bytes};
pub(crate) use arguments::BenchArgs;
use case::{Case, Job, Watch};
use preset::Preset;
use report::{Report, Row};
use work::Bench;

pub(crate) fn bench(global: &Global, args: &BenchArgs) -> Result<(), Failure> {
    let Some(preset) = args.preset.filter(|_| !args.list) else {
        return list(global);
    };
    if let Some(needs) = preset.needs() {
        let (name, title) = (preset.name(), preset.title());
        return Err(Failure::new(format!("{name} ({title}) {needs}")));
    }
    if let Some(flag) = unused(preset, args) {
        let name = preset.name();
        return Err(Failure::usage(format!("--{flag} means nothing to {name}")));
    }
    let env = Env::real();
    if let Some(dir) = &args.out {
        report::check_writable(&env, dir)?;
    }
    let cases = case::cases(preset, args);
    let is_of_one = |case: &Case| matches!(case.job, Job::FetchInTurn | Job::Fetch { .. });
    if cases
        .iter()
        .any(|case| is_of_one(case) && case.partitions != 1)
    {
        let name = preset.name();
        return Err(Failure::usage(format!("{name} reads one partition")));
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut loaded: Option<(i32, usize, u64)> = None;
    for run in 1..=args.runs {
        for case in &cases {
            // Reading cases of one shape share what was loaded; writing ones begin with an empty topic.
            let shape = (case.partitions, case.size, case.records);
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
                    env::tell!("loading {} records of {} bytes", case.records, case.size);
                    bench.load()?;
                }
                loaded = case.job.reads_only().then_some(shape);
            }
            let is_cold = case.job.reads_only() && !case.is_cached;
            if let Some(dir) = args.cold.as_ref().filter(|_| is_cold) {
                let dropped = drop_pages(&env, dir, &args.topic);
                let failed = |error| {
                    Failure::new(format!(
                        "cannot drop the pages of {}: {error}",
                        dir.display()
                    ))
                };
                env::tell!("dropped the pages of {}", bytes(dropped.map_err(failed)?));
            }
            env::tell!(
                "{}: {} (run {run} of {})",
                preset.name(),
                case.label,
                args.runs
            );
            rows.push(bench.measure(run)?);
        }
    }
    remove(&env, global, args)?;
    let report = Report { preset, rows };
    report.print(&env, global, args)?;
    if let Some(dir) = &args.out {
        report.save(&env, global, args, dir)?;
    }
    Ok(())
}

/// A flag that was given and that no case of the preset looks at.
fn unused(preset: Preset, args: &BenchArgs) -> Option<&'static str> {
    let cases = case::cases(preset, args);
    let any = |is: fn(&Job) -> bool| cases.iter().any(|case| is(&case.job));
    let is_by_time = any(|job| match job {
        Job::Produce { watch, .. } => *watch == Watch::Seconds,
        job => matches!(job, Job::Append { .. } | Job::Fetch { .. }),
    });
    let has_appenders = any(|job| matches!(job, Job::Append { .. }));
    let has_records = any(|job| !matches!(job, Job::Append { .. }));
    let is_from_disk = |case: &Case| case.job.reads_only() && !case.is_cached;
    // A consumer's answers hold many records, and a file has none: nothing of it is timed by itself.
    let is_timed = any(|job| !matches!(job, Job::Consume { .. } | Job::ReadFiles { .. }));
    let flags = [
        ("connections", !args.connections.is_empty(), has_appenders),
        ("seconds", args.seconds.is_some(), is_by_time),
        ("records", args.records.is_some(), has_records),
        ("cold", args.cold.is_some(), cases.iter().any(is_from_disk)),
        ("histogram", args.histogram, is_timed),
    ];
    let unused = |(_, is_given, is_used): &&(&str, bool, bool)| *is_given && !*is_used;
    flags.iter().find(unused).map(|(flag, ..)| *flag)
}

fn list(global: &Global) -> Result<(), Failure> {
    let mut table = Table::new(&["name", "what", "source"]);
    for preset in Preset::value_variants() {
        let mut what = preset.title().to_owned();
        if preset.needs().is_some() {
            what.push_str(" (needs a native API)");
        }
        table.row([preset.name().into(), what.into(), preset.source().into()]);
    }
    Ok(table.print(global.json)?)
}

fn remove(env: &Env, global: &Global, args: &BenchArgs) -> Result<(), Failure> {
    match connect(env, global)?.delete_topic(&args.topic) {
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
        replication_factor: Some(case.replication_factor),
        configs,
    };
    let created = connect(env, global)?.create_topic(&topic, false);
    created.map(|_| ()).map_err(|error| {
        let copies = case.replication_factor;
        if error.code() != Some(ErrorCode::InvalidReplicationFactor) || copies == 1 {
            return error.into();
        }
        Failure::new(format!(
            "`{}` keeps {copies} copies of each partition, which needs {copies} brokers: {error}",
            case.label
        ))
        .hint("name a cluster of them with --bootstrap, or measure one copy with --replication-factor 1")
    })
}

/// Drops what the page cache holds of a topic's segments, written back first; returns their bytes.
fn drop_pages(env: &Env, dir: &Path, topic: &str) -> std::io::Result<u64> {
    let mut bytes = 0;
    env.disk.sync_volume(dir)?;
    for (path, len) in reads::segments(env, dir, topic)? {
        env.disk.open(&path, Open::Read)?.drop_cache(0, len);
        bytes += len;
    }
    Ok(bytes)
}
