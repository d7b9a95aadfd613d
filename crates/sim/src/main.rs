//! `sim --seeds N [--seed S]`: runs seeds and says which of them break a promise.
//!
//! Each seed is one line to replay: `sim --seed S --verbose`. Seeds run in child processes, one per core, so that a panic of the
//! broker costs its seed and is told like any other failure.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use sim::run::{Load, Plan, Verdict, damages, images, injuries, run, txn_damages, txn_injuries};

#[derive(Clone, Copy, Debug)]
struct Options {
    seed: u64,
    seeds: u64,
    /// Distance between two seeds of one child.
    stride: u64,
    jobs: u64,
    /// Crash states and damages per seed, instead of runs under faults.
    images: usize,
    damages: usize,
    injuries: usize,
    load: Load,
    /// No more seeds after one that failed.
    is_over_at_first: bool,
    is_child: bool,
    is_verbose: bool,
}

const USAGE: &str = "sim [--seeds N] [--seed FIRST] [--load NAME] [--jobs N] [--first] [--verbose]

  --seeds N     how many seeds to run (1)
  --seed S      the first of them (1)
  --load NAME   all (default), transactions, group, table or retries: what the clients do above all
  --first       end at the first seed that fails
  --images N    instead, recover N crash states of each seed's recorded run
  --damages N   instead, damage the files of each seed's run in N ways (of --load transactions, too)
  --injuries N  instead, hurt the disk under N loads of each seed (of --load transactions, too)
  --jobs N      processes at a time (number of cores)
  --verbose     one seed in this process, every event of the machine on standard error";

fn options() -> Result<Options, String> {
    let mut options = Options {
        seed: 1,
        seeds: 1,
        stride: 1,
        jobs: 0,
        images: 0,
        damages: 0,
        injuries: 0,
        load: Load::All,
        is_over_at_first: false,
        is_child: false,
        is_verbose: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        let mut number = || {
            let value = value()?;
            value
                .parse::<u64>()
                .map_err(|error| format!("{arg} {value}: {error}"))
        };
        match arg.as_str() {
            "--seed" => options.seed = number()?,
            "--seeds" => options.seeds = number()?,
            "--stride" => options.stride = number()?.max(1),
            "--jobs" => options.jobs = number()?,
            "--images" => options.images = number()? as usize,
            "--damages" => options.damages = number()? as usize,
            "--injuries" => options.injuries = number()? as usize,
            "--load" => {
                let name = value()?;
                options.load = Load::named(&name).ok_or_else(|| format!("no load {name}"))?;
            }
            "--first" => options.is_over_at_first = true,
            "--child" => options.is_child = true,
            "--verbose" => options.is_verbose = true,
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    if options.jobs == 0 {
        options.jobs = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    }
    Ok(options)
}

fn main() -> ExitCode {
    match options() {
        Err(problem) => {
            eprintln!("{problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Ok(options) if options.is_child => {
            child(options);
            ExitCode::SUCCESS
        }
        Ok(options) if options.is_verbose => alone(options),
        Ok(options) => parent(options),
    }
}

fn alone(options: Options) -> ExitCode {
    let plan = Plan::of_load(options.seed, options.load);
    let verdict = run(options.seed, &plan, true);
    println!("{plan:#?}\n{}\n{}", summary(&verdict), verdict.describe());
    if verdict.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn summary(verdict: &Verdict) -> String {
    let counts = verdict.counts;
    format!(
        "{} acked, {} read, {} starts, {} cuts (lost {} pages, {} names), {} kills, {} syncs failed, {} writes failed, {} full, \
         {} resent, {} refused, {} unanswered, {} topics, {} trims, {} moves, {} commits, \
         {} transactions ({} aborted, {} undecided, {} fenced, {} offsets looked up), {} events, trace {:016x}",
        verdict.acked,
        verdict.polled,
        verdict.starts,
        counts.power_cuts,
        counts.pages_lost,
        counts.names_lost,
        counts.kills,
        counts.syncs_failed,
        counts.writes_failed,
        counts.writes_refused_full,
        verdict.resent,
        verdict.refused,
        verdict.unanswered,
        verdict.topics_changed,
        verdict.records_deleted,
        verdict.moves,
        verdict.commits,
        verdict.txns_committed,
        verdict.txns_aborted,
        verdict.txns_undecided,
        verdict.fenced,
        verdict.settled,
        verdict.events,
        verdict.trace,
    )
}

/// Runs its share of seeds; what it prints is read by the parent.
fn child(options: Options) {
    let mut out = std::io::stdout().lock();
    for number in 0..options.seeds {
        let seed = options.seed + number * options.stride;
        // Before the run, so that the parent knows which seed took the process down.
        if writeln!(out, "begin {seed}")
            .and_then(|()| out.flush())
            .is_err()
        {
            // The parent is gone.
            return;
        }
        let (is_clean, summary, problems) = judge(seed, options);
        let _ = writeln!(
            out,
            "{} {seed} {summary}",
            if is_clean { "ok" } else { "bad" }
        );
        for line in problems.lines() {
            let _ = writeln!(out, "    {line}");
        }
    }
}

/// Whether the seed kept every promise, what it did, and what is wrong.
fn judge(seed: u64, options: Options) -> (bool, String, String) {
    if options.images > 0 {
        let tally = images(seed, options.images);
        let summary = format!(
            "{} crash states of {} points, {} records",
            tally.images, tally.points, tally.records
        );
        return (
            tally.failures.is_empty(),
            summary,
            tally.failures.join("\n"),
        );
    }
    if options.damages > 0 || options.injuries > 0 {
        let is_transactional = matches!(options.load, Load::Transactions);
        let tally = match (options.damages, is_transactional) {
            (0, false) => injuries(seed, options.injuries),
            (0, true) => txn_injuries(seed, options.injuries),
            (count, false) => damages(seed, count),
            (count, true) => txn_damages(seed, count),
        };
        let summary = format!(
            "{} damages, {} reported, {} harmless",
            tally.tried, tally.reported, tally.harmless
        );
        return (
            tally.failures.is_empty(),
            summary,
            tally.failures.join("\n"),
        );
    }
    let verdict = run(seed, &Plan::of_load(seed, options.load), false);
    (verdict.is_clean(), summary(&verdict), verdict.describe())
}

#[derive(Default)]
struct Score {
    done: u64,
    failed: Vec<u64>,
}

#[allow(clippy::disallowed_methods)] // a tool of developers, not part of the broker
fn parent(options: Options) -> ExitCode {
    let clock = Env::real().clock;
    let start = clock.now();
    let score = Mutex::new(Score::default());
    std::thread::scope(|scope| {
        for job in 0..options.jobs.min(options.seeds) {
            let score = &score;
            scope.spawn(move || tend(job, options, score));
        }
    });
    let took = clock.now().since(start).max(Duration::from_millis(1));
    let mut score = score.into_inner();
    score.failed.sort_unstable();
    let rate = score.done as f64 * 60.0 / took.as_secs_f64();
    println!(
        "{} seeds in {:.1} s, {rate:.0} per minute, {} failed",
        score.done,
        took.as_secs_f64(),
        score.failed.len()
    );
    for seed in &score.failed {
        println!(
            "replay: make sim SEEDS=1 ARGS='--seed {seed}{}'",
            how(options)
        );
    }
    if score.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The arguments that make a replay the same kind of run.
fn how(options: Options) -> String {
    let load = match options.load {
        Load::All => String::new(),
        load => format!(" --load {}", load.name()),
    };
    if options.images > 0 {
        format!(" --images {}", options.images)
    } else if options.damages > 0 {
        format!("{load} --damages {}", options.damages)
    } else if options.injuries > 0 {
        format!("{load} --injuries {}", options.injuries)
    } else {
        format!("{load} --verbose")
    }
}

/// Runs the share of one job, in as many child processes as it takes.
fn tend(job: u64, options: Options, score: &Mutex<Score>) {
    let mut left = (options.seeds - job).div_ceil(options.jobs);
    let mut next = options.seed + job;
    while left > 0 && !is_over(options, score) {
        let done = share(next, left, options, score);
        left -= done;
        next += done * options.jobs;
    }
}

fn is_over(options: Options, score: &Mutex<Score>) -> bool {
    options.is_over_at_first && !score.lock().failed.is_empty()
}

/// One child process; returns how many seeds it took care of, of which the last may have been its end.
fn share(first: u64, seeds: u64, options: Options, score: &Mutex<Score>) -> u64 {
    let stride = options.jobs;
    let program = std::env::current_exe().expect("this program has a path");
    let numbers = [
        ("--seed", first),
        ("--seeds", seeds),
        ("--stride", stride),
        ("--images", options.images as u64),
        ("--damages", options.damages as u64),
        ("--injuries", options.injuries as u64),
    ];
    let child = Command::new(program)
        .arg("--child")
        .args(["--load", options.load.name()])
        .args(
            numbers
                .iter()
                .flat_map(|(name, number)| [(*name).to_owned(), number.to_string()]),
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.expect("this program can be started again");
    let (mut begun, mut ended) = (0, 0);
    let mut current = first;
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if is_over(options, score) && !line.starts_with("    ") {
                let _ = child.kill();
                begun = ended;
                break;
            }
            let mut words = line.split(' ');
            match (
                words.next(),
                words.next().and_then(|word| word.parse().ok()),
            ) {
                (Some("begin"), Some(seed)) => (begun, current) = (begun + 1, seed),
                (Some("ok"), Some(_)) => {
                    ended += 1;
                    score.lock().done += 1;
                }
                (Some("bad"), Some(seed)) => {
                    ended += 1;
                    println!("FAILED {}", &line[4..]);
                    let mut score = score.lock();
                    score.done += 1;
                    score.failed.push(seed);
                }
                _ => println!("{line}"),
            }
        }
    }
    let _ = child.wait();
    if begun > ended {
        println!("FAILED {current} the process ended: see sim --seed {current} --verbose");
        let mut score = score.lock();
        score.done += 1;
        score.failed.push(current);
    }
    // A child that did not even begin would be started for ever.
    begun.max(1)
}
