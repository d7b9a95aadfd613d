//! What was measured, as a table, as JSON and as charts, with all that is needed to repeat it.

use std::io::{IoSlice, Write};
use std::path::Path;

use env::Env;
use env::disk::Open;
use serde::Serialize;
use serde_json::{Value, json};

use super::BenchArgs;
use super::chart::{Axis, Chart, Scale, Series};
use super::histogram::{Histogram, Percentiles};
use super::preset::Preset;
use crate::failure::Failure;
use crate::grammar::Global;
use crate::table::{Table, print_json};

/// One case of one run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) case: String,
    pub(super) x: f64,
    pub(super) run: u32,
    pub(super) records: u64,
    pub(super) seconds: f64,
    pub(super) records_per_second: f64,
    /// Of values; keys, headers and batch headers do not count.
    pub(super) mib_per_second: f64,
    /// Processors that this process kept busy.
    pub(super) client_cores: Option<f64>,
    /// From the first record of a batch to its answer; end to end where the preset says so.
    pub(super) latency_ms: Option<Percentiles>,
    #[serde(skip)]
    pub(super) latency: Histogram,
}

pub(super) struct Report {
    pub(super) preset: Preset,
    pub(super) rows: Vec<Row>,
}

const COLUMNS: &[&str] = &[
    "case",
    "run",
    "records",
    "seconds",
    "records_per_s",
    "mib_per_s",
    "client_cores",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "max_ms",
];

impl Report {
    pub(super) fn print(
        &self,
        env: &Env,
        global: &Global,
        args: &BenchArgs,
    ) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        if global.json {
            return Ok(print_json(&mut out, &self.json(env, global, args))?);
        }
        writeln!(out, "{}: {}", self.preset.name(), self.preset.title())?;
        let mut table = Table::new(COLUMNS);
        for row in &self.rows {
            let ms = |pick: fn(&Percentiles) -> f64| {
                row.latency_ms
                    .as_ref()
                    .map_or(Value::Null, |latency| rounded(pick(latency), 3))
            };
            table.row([
                json!(row.case),
                json!(row.run),
                json!(row.records),
                rounded(row.seconds, 2),
                json!(row.records_per_second.round() as u64),
                rounded(row.mib_per_second, 1),
                row.client_cores
                    .map_or(Value::Null, |cores| rounded(cores, 2)),
                ms(|latency| latency.p50),
                ms(|latency| latency.p99),
                ms(|latency| latency.p999),
                ms(|latency| latency.max),
            ]);
        }
        table.write_text(&mut out)?;
        writeln!(out, "\nto repeat:")?;
        for (name, value) in repeat(env, global, args) {
            writeln!(out, "  {name:<8} {value}")?;
        }
        Ok(())
    }

    fn json(&self, env: &Env, global: &Global, args: &BenchArgs) -> Value {
        let repeat: serde_json::Map<String, Value> = repeat(env, global, args)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        json!({"preset": self.preset.name(), "title": self.preset.title(), "rows": self.rows, "repeat": repeat})
    }

    /// Writes `<preset>.json`, `<preset>.svg` where cases vary something, `<preset>-latency.svg` where latencies were taken.
    pub(super) fn save(
        &self,
        env: &Env,
        global: &Global,
        args: &BenchArgs,
        dir: &Path,
    ) -> Result<(), Failure> {
        let unwritable =
            |error| Failure::new(format!("cannot write into {}: {error}", dir.display()));
        env.disk.create_dir_all(dir).map_err(unwritable)?;
        let name = self.preset.name();
        let text = serde_json::to_string_pretty(&self.json(env, global, args))
            .expect("numbers and texts are JSON");
        let mut files = vec![(format!("{name}.json"), text)];
        if let Some(axis) = self.preset.axis() {
            files.push((format!("{name}.svg"), self.rate_chart(axis)));
        }
        if self.rows.iter().any(|row| row.latency_ms.is_some()) {
            files.push((format!("{name}-latency.svg"), self.latency_chart()));
        }
        for (file, text) in files {
            let file = env
                .disk
                .open(&dir.join(file), Open::Truncate)
                .map_err(unwritable)?;
            file.write_at(&[IoSlice::new(text.as_bytes())], 0)
                .map_err(unwritable)?;
        }
        Ok(())
    }

    fn rate_chart(&self, axis: &str) -> String {
        let runs = self.rows.iter().map(|row| row.run).max().unwrap_or(0);
        let of_run = |run: u32| {
            self.rows
                .iter()
                .filter(move |row| row.run == run)
                .map(|row| (row.x, row.records_per_second))
        };
        let series = (1..=runs).map(|run| Series {
            name: format!("run {run}"),
            points: of_run(run).collect(),
        });
        let (x, y) = (
            Axis {
                name: axis,
                scale: Scale::Log,
            },
            Axis {
                name: "records/s",
                scale: Scale::Linear,
            },
        );
        Chart {
            title: self.preset.title(),
            x,
            y,
            series: series.collect(),
        }
        .svg()
    }

    fn latency_chart(&self) -> String {
        let measured = self.rows.iter().filter(|row| row.latency_ms.is_some());
        // Log scales have no zero: the last point of a tail, beyond which nothing lies, is left out.
        let tail = |row: &Row| {
            row.latency
                .tail()
                .into_iter()
                .filter(|(_, share)| *share > 0.0)
                .collect()
        };
        let series = measured.map(|row| Series {
            name: format!("{}, run {}", row.case, row.run),
            points: tail(row),
        });
        let (x, y) = (
            Axis {
                name: "milliseconds",
                scale: Scale::Log,
            },
            Axis {
                name: "share that took longer",
                scale: Scale::Log,
            },
        );
        Chart {
            title: &format!("{}: latency", self.preset.title()),
            x,
            y,
            series: series.collect(),
        }
        .svg()
    }
}

fn rounded(value: f64, digits: i32) -> Value {
    let scale = 10f64.powi(digits);
    json!((value * scale).round() / scale)
}

/// The command, the program, the machine and the moment.
fn repeat(env: &Env, global: &Global, args: &BenchArgs) -> Vec<(&'static str, String)> {
    let mut command = format!(
        "esker bench {} --bootstrap {} --runs {} --acks {}",
        args.preset.name(),
        global.bootstrap,
        args.runs,
        name(args.acks)
    );
    if let Some(records) = args.records {
        command.push_str(&format!(" --records {records}"));
    }
    if args.preset == Preset::A24 {
        command.push_str(&format!(" --seconds {}", args.seconds));
    }
    if !args.connections.is_empty() {
        let list: Vec<String> = args.connections.iter().map(u32::to_string).collect();
        command.push_str(&format!(" --connections {}", list.join(",")));
    }
    if let Some(partitions) = args.partitions {
        command.push_str(&format!(" --partitions {partitions}"));
    }
    if args.replication_factor != 1 {
        command.push_str(&format!(
            " --replication-factor {}",
            args.replication_factor
        ));
    }
    command.push_str(&format!(" --codec {}", name(args.codec)));
    if let Some(dir) = &args.cold {
        command.push_str(&format!(" --cold {}", dir.display()));
    }
    for pair in &args.config {
        command.push_str(&format!(" --config {}={}", pair.name, pair.value));
    }
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel =
        first_line(env, "/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    let program = format!(
        "esker {} ({} {})",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    vec![
        ("command", command),
        ("program", program),
        ("machine", format!("{cores} cores, kernel {kernel}")),
        ("time", crate::moment::format(env.clock.wall_ms().0)),
    ]
}

fn name(value: impl clap::ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

fn first_line(env: &Env, path: &str) -> Option<String> {
    let file = env.disk.open(Path::new(path), Open::Read).ok()?;
    let mut bytes = [0; 256];
    let n = file.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(bytes.get(..n)?)
        .ok()?
        .lines()
        .next()
        .map(str::to_owned)
}
