//! Measurements as a table, as JSON and as charts, with all that is needed to repeat them.

use std::io::{IoSlice, Write};
use std::path::Path;

use env::Env;
use env::disk::Open;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::BenchArgs;
use super::chart::{Axis, Chart, Scale, Series};
use super::histogram::{Histogram, Percentiles};
use super::overhead::Overhead;
use super::preset::Preset;
use super::series::Series as Course;
use crate::arguments::Global;
use crate::failure::Failure;
use crate::table::{Table, print_json};

/// One case of one run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) case: String,
    #[serde(skip)]
    pub(super) curve: String,
    pub(super) x: f64,
    pub(super) run: u32,
    pub(super) partitions: i32,
    pub(super) replication_factor: i16,
    /// As the protocol numbers them.
    pub(super) acks: i16,
    pub(super) records: u64,
    pub(super) seconds: f64,
    pub(super) records_per_second: f64,
    /// Of values; keys, headers and batch headers do not count.
    pub(super) mib_per_second: f64,
    /// Processors that this process kept busy.
    pub(super) client_cores: Option<f64>,
    /// From the first record of a batch to its answer; end to end where the preset says so.
    pub(super) latency_ms: Option<Percentiles>,
    /// Upper end and count of every bucket that holds something.
    pub(super) latency_buckets_ms: Vec<(f64, u64)>,
    /// The rate over the course of the case, where the preset is about it.
    pub(super) series: Option<Course>,
    /// Bytes beside the value of a record, where the preset is about them.
    pub(super) overhead_per_record: Option<Overhead>,
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
        writeln!(out, "{}: {}", self.preset.name(), title(self.preset, args))?;
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
        self.print_more(&mut out, args)?;
        writeln!(out, "\nto repeat:")?;
        for (name, value) in repeat(self.preset, env, global, args) {
            writeln!(out, "  {name:<8} {value}")?;
        }
        Ok(())
    }

    /// Figures that only some presets have, or that were asked for.
    fn print_more(&self, out: &mut impl Write, args: &BenchArgs) -> Result<(), Failure> {
        let mut courses = Table::new(&[
            "case",
            "run",
            "rate_over",
            "pieces",
            "mean_per_s",
            "deviation_percent",
            "lowest_per_s",
            "highest_per_s",
            "change_percent",
        ]);
        let mut overheads = Table::new(&[
            "case",
            "run",
            "log_bytes_beside_value",
            "sent_bytes_beside_value",
            "received_bytes",
        ]);
        for row in &self.rows {
            if let Some(course) = &row.series {
                courses.row([
                    json!(row.case),
                    json!(row.run),
                    json!(course.axis),
                    json!(course.points.len()),
                    rounded(course.mean, 0),
                    rounded(course.deviation_percent, 2),
                    rounded(course.lowest, 0),
                    rounded(course.highest, 0),
                    rounded(course.change_percent, 2),
                ]);
            }
            if let Some(overhead) = &row.overhead_per_record {
                overheads.row([
                    json!(row.case),
                    json!(row.run),
                    rounded(overhead.log_bytes, 2),
                    rounded(overhead.sent_bytes, 2),
                    rounded(overhead.received_bytes, 2),
                ]);
            }
        }
        for table in [courses, overheads]
            .iter()
            .filter(|table| !table.is_empty())
        {
            writeln!(out)?;
            table.write_text(out)?;
        }
        for row in self.rows.iter().filter(|_| args.histogram) {
            let lines = row.latency.lines();
            if !lines.is_empty() {
                writeln!(out, "\nlatency of {}, run {}:", row.case, row.run)?;
            }
            for line in lines {
                writeln!(out, "  {line}")?;
            }
        }
        Ok(())
    }

    fn json(&self, env: &Env, global: &Global, args: &BenchArgs) -> Value {
        let repeat: serde_json::Map<String, Value> = repeat(self.preset, env, global, args)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        json!({"preset": self.preset.name(), "title": title(self.preset, args), "rows": self.rows, "repeat": repeat})
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
        let name = self.preset.name();
        let text = serde_json::to_string_pretty(&self.json(env, global, args))
            .expect("numbers and texts are JSON");
        let mut files = vec![(format!("{name}.json"), text)];
        let is_sweep = args.partitions.len() > 1;
        let axis = self.preset.axis().or(is_sweep.then_some("partitions"));
        if let Some(axis) = axis {
            files.push((format!("{name}.svg"), self.rate_chart(axis)));
        }
        if self.rows.iter().any(|row| row.series.is_some()) {
            files.push((format!("{name}-course.svg"), self.course_chart()));
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
        let mut curves: Vec<(u32, &str)> = Vec::new();
        for row in &self.rows {
            if !curves.contains(&(row.run, &row.curve)) {
                curves.push((row.run, &row.curve));
            }
        }
        let series = curves.into_iter().map(|(run, curve)| {
            let rows = self.rows.iter();
            let of_curve = rows.filter(|row| row.run == run && row.curve == curve);
            let comma = if curve.is_empty() { "" } else { ", " };
            Series {
                name: format!("{curve}{comma}run {run}"),
                points: of_curve
                    .map(|row| (row.x, row.records_per_second))
                    .collect(),
            }
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

    /// The rates of each case that were taken piece by piece.
    fn course_chart(&self) -> String {
        let courses = self
            .rows
            .iter()
            .filter_map(|row| Some((row, row.series.as_ref()?)));
        let axis = courses.clone().next().map_or("", |(_, course)| course.axis);
        let series = courses.map(|(row, course)| Series {
            name: format!("{}, run {}", row.case, row.run),
            points: course
                .points
                .iter()
                .map(|point| (point.x, point.records_per_second))
                .collect(),
        });
        let linear = |name| Axis {
            name,
            scale: Scale::Linear,
        };
        Chart {
            title: self.preset.title(),
            x: linear(axis),
            y: linear("records/s"),
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

/// Asked before anything is measured: a result that cannot be kept is time lost.
pub(super) fn check_writable(env: &Env, dir: &Path) -> Result<(), Failure> {
    let unwritable = |error| Failure::new(format!("cannot write into {}: {error}", dir.display()));
    env.disk.create_dir_all(dir).map_err(unwritable)?;
    let probe = dir.join(".esker-bench");
    env.disk.open(&probe, Open::Truncate).map_err(unwritable)?;
    env.disk.remove_file(&probe).map_err(unwritable)
}

/// A sentence about the preset, with the partitions that were asked for.
fn title(preset: Preset, args: &BenchArgs) -> String {
    let title = preset.title();
    match &args.partitions[..] {
        [] => title.to_owned(),
        asked => title.replace("6 partitions", &format!("{} partitions", list(asked))),
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    items.join(",")
}

/// The command, the program, the machine and the moment.
fn repeat(
    preset: Preset,
    env: &Env,
    global: &Global,
    args: &BenchArgs,
) -> Vec<(&'static str, String)> {
    let mut command = format!(
        "esker bench {} --bootstrap {} --runs {}",
        preset.name(),
        global.bootstrap,
        args.runs,
    );
    if let Some(path) = &global.command_config {
        command.push_str(&format!(" --command-config {}", path.display()));
    }
    if let Some(acks) = args.acks {
        command.push_str(&format!(" --acks {}", name(acks)));
    }
    if let Some(records) = args.records {
        command.push_str(&format!(" --records {records}"));
    }
    if let Some(time) = args.seconds {
        command.push_str(&format!(" --seconds {}", time.as_secs_f64()));
    }
    if !args.connections.is_empty() {
        command.push_str(&format!(" --connections {}", list(&args.connections)));
    }
    if !args.partitions.is_empty() {
        command.push_str(&format!(" --partitions {}", list(&args.partitions)));
    }
    if let Some(copies) = args.replication_factor {
        command.push_str(&format!(" --replication-factor {copies}"));
    }
    command.push_str(&format!(" --codec {}", name(args.codec)));
    if let Some(dir) = &args.cold {
        command.push_str(&format!(" --cold {}", dir.display()));
    }
    for pair in &args.config {
        command.push_str(&format!(" --config {}={}", pair.name, pair.value));
    }
    command.push_str(&format!(
        " --topic {} --timeout {}",
        args.topic,
        global.timeout().as_secs_f64()
    ));
    if args.histogram {
        command.push_str(" --histogram");
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
