//! `quorum --seeds N [--seed S]`: runs seeds of the quorum alone and says which of them break a promise.
//!
//! Each seed is one line to replay: `quorum --seed S --verbose`. A panic of a machine ends the run and names its seed.

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use sim::quorum::{Counts, Plan, run};

const USAGE: &str = "quorum [--seeds N] [--seed FIRST] [--jobs N] [--first] [--verbose]

  --seeds N   how many seeds to run (1)
  --seed S    the first of them (1)
  --jobs N    threads (number of cores)
  --first     end at the first seed that fails
  --verbose   one seed, every event of every machine";

struct Options {
    seed: u64,
    seeds: u64,
    jobs: u64,
    ends_at_first: bool,
    is_verbose: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        seed: 1,
        seeds: 1,
        jobs: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        ends_at_first: false,
        is_verbose: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
            value
                .parse::<u64>()
                .map_err(|error| format!("{arg} {value}: {error}"))
        };
        match arg.as_str() {
            "--seed" => options.seed = number()?,
            "--seeds" => options.seeds = number()?,
            "--jobs" => options.jobs = number()?.max(1),
            "--first" => options.ends_at_first = true,
            "--verbose" => options.is_verbose = true,
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    Ok(options)
}

thread_local! {
    /// The seed that this thread runs, for a panic to name.
    static SEED: Cell<u64> = const { Cell::new(0) };
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(problem) => {
            env::tell!("{problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    std::panic::set_hook(Box::new(|panic| {
        println!("FAILED {} the machine panicked\n    {panic}", SEED.get());
        std::process::exit(1);
    }));
    if options.is_verbose {
        SEED.set(options.seed);
        let verdict = run(options.seed, true);
        println!("{:#?}\n{verdict:#?}", Plan::of(options.seed));
        return if verdict.broken.is_none() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    all(&options)
}

#[derive(Default)]
struct Score {
    done: u64,
    failed: Vec<u64>,
    counts: Counts,
}

#[allow(clippy::disallowed_methods)] // a tool of developers, not part of the broker
fn all(options: &Options) -> ExitCode {
    let clock = Env::real().clock;
    let start = clock.now();
    let (score, next) = (Mutex::new(Score::default()), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.min(options.seeds) {
            scope.spawn(|| work(options, &next, &score));
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
    println!("{}", summary(&score.counts));
    for seed in &score.failed {
        println!("replay: make sim-quorum SEEDS=1 ARGS='--seed {seed} --verbose'");
    }
    if score.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn work(options: &Options, next: &AtomicU64, score: &Mutex<Score>) {
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= options.seeds || options.ends_at_first && !score.lock().failed.is_empty() {
            return;
        }
        let seed = options.seed + at;
        SEED.set(seed);
        let verdict = run(seed, false);
        let mut score = score.lock();
        score.done += 1;
        score.counts.add(&verdict.counts);
        if let Some(broken) = verdict.broken {
            println!("FAILED {seed} a promise of the quorum\n    {broken}");
            score.failed.push(seed);
        }
    }
}

fn summary(counts: &Counts) -> String {
    format!(
        "{} events, {} elections, {} batches, {} cuts, {} restarts at a snapshot, {} snapshots, {} changes of voters, {} kills, \
         {} power cuts, {} votes lost, {} disks replaced, {} starts refused",
        counts.events,
        counts.elections,
        counts.batches,
        counts.cuts,
        counts.restarts,
        counts.snapshots,
        counts.changes,
        counts.kills,
        counts.power_cuts,
        counts.votes_lost,
        counts.wipes,
        counts.refused,
    )
}
