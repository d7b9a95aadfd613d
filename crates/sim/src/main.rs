//! `sim --seeds N [--seed S]`: runs seeds and says which of them break a promise.
//!
//! Each seed is one line to replay: `sim --seed S --verbose`. Seeds run in child processes, one per core, so that a panic of the
//! broker costs its seed and is told like any other failure; one that does not end is ended, and what the broker says on standard error
//! is held against the faults that might explain it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use env::{Env, logs};
use parking_lot::Mutex;
use sim::run::{
    FaultSite, Load, Plan, Verdict, damages, everywhere, images, injuries, run, txn_damages,
    txn_images, txn_injuries,
};

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
    /// Places at which the one fault of a short run strikes.
    syncs: u64,
    writes: u64,
    operations: u64,
    /// Seconds after which a seed hangs.
    patience: u64,
    load: Load,
    /// No more seeds after one that failed.
    is_over_at_first: bool,
    is_child: bool,
    is_verbose: bool,
}

/// More places and images than any run has.
const ALL: u64 = 1 << 40;

const USAGE: &str = "sim [--seeds N] [--seed FIRST] [--load NAME] [--jobs N] [--first] [--verbose]

  --seeds N     how many seeds to run (1)
  --seed S      the first of them (1)
  --load NAME   all (default), transactions, strays, ledger, group, instances, table, retries,
                aging, wide, crowd, council, nodes or cluster (three brokers that are one), there
                coordinators (groups) or markers (transactions), and with three replicas each replicas,
                replicated-groups or replicated-transactions, or rot (in their files), or moves (to other brokers
                and to empty disks), or quiet-moves (of partitions that nobody writes to), or pipelined (producers that
                fill all bounds), or upgrade (of nodes to another build and back): what the clients do above all
  --first       end at the first seed that fails
  --patience S  a seed that does not end within S seconds hangs (300)
  --images N    instead, recover N crash states of each seed's recorded run (of --load transactions, too)
  --damages N   instead, damage the files of each seed's run in N ways (of --load transactions, too)
  --injuries N  instead, hurt the disk under N loads of each seed (of --load transactions, too)
  --syncs N     instead, run each seed with a failing sync at N places; the same with --writes and --operations (power cuts)
  --jobs N      processes at a time (number of cores)
  --verbose     one seed in this process, every event of the machine on standard error

Of images, syncs, writes and operations there may be \"all\" instead of N.";

impl Options {
    /// Where the one fault of each run strikes, and at how many places.
    fn place(&self) -> Option<(FaultSite, u64)> {
        let places = [
            (FaultSite::Sync, self.syncs),
            (FaultSite::Write, self.writes),
            (FaultSite::Operation, self.operations),
        ];
        places.into_iter().find(|(_, most)| *most > 0)
    }
}

/// The line on standard error with which a child reports the seed that begins.
const SEED_SAYS: &str = "seed";

fn options() -> Result<Options, String> {
    let mut options = Options {
        seed: 1,
        seeds: 1,
        stride: 1,
        jobs: 0,
        images: 0,
        damages: 0,
        injuries: 0,
        syncs: 0,
        writes: 0,
        operations: 0,
        patience: 300,
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
            if value == "all" {
                return Ok(ALL);
            }
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
            "--syncs" => options.syncs = number()?,
            "--writes" => options.writes = number()?,
            "--operations" => options.operations = number()?,
            "--patience" => options.patience = number()?.max(1),
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
            env::tell!("{problem}\n\n{USAGE}");
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
         {} resent, {} refused, {} unanswered, {} topics, {} trims, {} moves, {} commits, {} resumed, {} shut out, {} switched, \
         {} transactions ({} aborted, {} undecided, {} fenced, {} late batches, {} late additions, {} offsets looked up), \
         {} cleaned, {} before an open one, {} records expired, {} squeezes ({} commits too large, {} forgotten), {} acts, \
         {} controllers, {} metadata logs trimmed, {} begun at a snapshot, {} leaders, {} replicas compared, {} reassigned, {} wiped, {} events, \
         trace {:016x}",
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
        verdict.resumed,
        verdict.shut_out,
        verdict.switched,
        verdict.txns_committed,
        verdict.txns_aborted,
        verdict.txns_undecided,
        verdict.fenced,
        verdict.late_batches,
        verdict.late_additions,
        verdict.settled,
        verdict.cleaned.0,
        verdict.cleaned.1,
        verdict.expired,
        verdict.squeezes,
        verdict.too_large,
        verdict.forgotten,
        verdict.acts,
        verdict.leaderships,
        verdict.trimmed,
        verdict.fetched,
        verdict.leaders,
        verdict.compared,
        verdict.reassigned,
        verdict.wiped,
        verdict.events,
        verdict.trace,
    )
}

/// Runs its share of seeds; what it prints is read by the parent.
fn child(options: Options) {
    // Without times: the lines of a seed are the same in every run.
    logs::subscribe(Arc::default(), logs::Format::Text, logs::Stamps::None);
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
        env::tell!("{SEED_SAYS} {seed}");
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

/// The verdict on a seed: true if it kept every promise, what it did, and what is wrong.
fn judge(seed: u64, options: Options) -> (bool, String, String) {
    let is_transactional = matches!(options.load, Load::Transactions | Load::Strays);
    if options.images > 0 {
        let tally = if is_transactional {
            txn_images(seed, options.images)
        } else {
            images(seed, options.images)
        };
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
    if let Some((place, most)) = options.place() {
        let found = everywhere(seed, place, most);
        let summary = format!("{} of {} places", found.tried, found.places);
        return (
            found.failures.is_empty(),
            summary,
            found.failures.join("\n"),
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
        "{}: {} seeds in {:.1} s, {rate:.0} per minute, {} failed",
        options.load.name(),
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
    // Seeds that nobody ran prove nothing, whatever became of them.
    let was_cut_short = options.is_over_at_first && !score.failed.is_empty();
    let is_short = score.done < options.seeds && !was_cut_short;
    if is_short {
        println!(
            "FAILED: only {} of {} seeds were run",
            score.done, options.seeds
        );
    }
    if score.failed.is_empty() && !is_short {
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
    let all = |count: u64| match count {
        ALL => "all".to_owned(),
        count => count.to_string(),
    };
    if options.images > 0 {
        format!("{load} --images {}", all(options.images as u64))
    } else if let Some((place, most)) = options.place() {
        format!(" --{}s {}", format!("{place:?}").to_lowercase(), all(most))
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

/// A child says within so long that it begins, however busy the machine is; only then a seed's own patience counts.
const BEGIN_MAX: Duration = Duration::from_secs(60);

/// One child process; returns how many seeds it took care of, of which the last may have been its end.
fn share(first: u64, seeds: u64, options: Options, score: &Mutex<Score>) -> u64 {
    let mut child = start_child(first, seeds, options);
    let said = child.stderr.take().map(|err| listen(err, options));
    let (mut begun, mut ended) = (0, 0);
    let mut current = first;
    let mut is_cut_short = false;
    let mut end = "the process ended";
    let lines = child.stdout.take().map(lines_of);
    let clock = Env::real().clock;
    let mut deadline = clock.now().plus(BEGIN_MAX);
    while let Some(lines) = &lines {
        let line = match lines.recv_timeout(deadline.since(clock.now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                end = "it hangs";
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if is_over(options, score) && !line.starts_with("    ") {
            let _ = child.kill();
            is_cut_short = true;
            break;
        }
        let mut words = line.split(' ');
        match (
            words.next(),
            words.next().and_then(|word| word.parse().ok()),
        ) {
            (Some("begin"), Some(seed)) => {
                (begun, current) = (begun + 1, seed);
                deadline = clock.now().plus(Duration::from_secs(options.patience));
            }
            (Some("ok"), Some(_)) => {
                ended += 1;
                deadline = clock.now().plus(BEGIN_MAX);
                score.lock().done += 1;
            }
            (Some("bad"), Some(seed)) => {
                ended += 1;
                deadline = clock.now().plus(BEGIN_MAX);
                println!("FAILED {}", &line[4..]);
                let mut score = score.lock();
                score.done += 1;
                score.failed.push(seed);
            }
            _ => println!("{line}"),
        }
    }
    let _ = child.wait();
    // One that did not even begin has judged nothing, and would be started for ever.
    begun = begun.max(1);
    if begun > ended && !is_cut_short {
        println!(
            "FAILED {current} {end}: see sim --seed {current}{}",
            how(options)
        );
        let mut score = score.lock();
        score.done += 1;
        score.failed.push(current);
    }
    for (seed, words) in said.map(Heard::judge).unwrap_or_default() {
        let mut score = score.lock();
        if !score.failed.contains(&seed) {
            println!("FAILED {seed} the broker said, and no fault explains it: {words}");
            score.failed.push(seed);
        }
    }
    begun
}

/// Another program to run the seeds, such as one that does not run them.
const PROGRAM: &str = "SIM_PROGRAM";

fn start_child(first: u64, seeds: u64, options: Options) -> Child {
    let program = std::env::var_os(PROGRAM).map_or_else(
        || std::env::current_exe().expect("this program has a path"),
        Into::into,
    );
    let numbers = [
        ("--seed", first),
        ("--seeds", seeds),
        ("--stride", options.jobs),
        ("--images", options.images as u64),
        ("--damages", options.damages as u64),
        ("--injuries", options.injuries as u64),
        ("--syncs", options.syncs),
        ("--writes", options.writes),
        ("--operations", options.operations),
    ];
    let numbers = numbers.iter();
    let child = Command::new(program)
        .arg("--child")
        .args(["--load", options.load.name()])
        .args(numbers.flat_map(|(name, number)| [(*name).to_owned(), number.to_string()]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    child.expect("this program can be started again")
}

/// Lines that nobody has taken yet.
const LINES_MAX: usize = 64;

/// The lines of a child, so that one that hangs can be told from one that talks.
#[allow(clippy::disallowed_methods)] // a tool of developers, not part of the broker
fn lines_of(out: ChildStdout) -> Receiver<String> {
    let (sender, lines) = sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The reports of a child's brokers: the first line of each seed that none of its faults explains.
struct Heard {
    ear: JoinHandle<BTreeMap<u64, String>>,
}

#[allow(clippy::disallowed_methods)] // a tool of developers, not part of the broker
fn listen(err: ChildStderr, options: Options) -> Heard {
    let ear = std::thread::spawn(move || {
        let mut heard = BTreeMap::new();
        let mut seed = 0;
        let (mut explained, mut has_squeezes) = (true, false);
        // To the end, so that nobody waits for us.
        for line in BufReader::new(err).lines().map_while(Result::ok) {
            let number = line.strip_prefix(SEED_SAYS);
            if let Some(number) = number.and_then(|number| number.trim().parse().ok()) {
                seed = number;
                let plan = Plan::of_load(seed, options.load);
                explained = has_disk_faults(&plan, options);
                has_squeezes = plan.squeezes > 0;
            } else if line.contains("panicked") || !explained && is_trouble(&line, has_squeezes) {
                heard.entry(seed).or_insert(line);
            }
        }
        heard
    });
    Heard { ear }
}

impl Heard {
    fn judge(self) -> BTreeMap<u64, String> {
        self.ear.join().unwrap_or_default()
    }
}

/// A run that hurts the disk hears of it.
fn has_disk_faults(plan: &Plan, options: Options) -> bool {
    let is_plain = options.images == 0
        && options.damages == 0
        && options.injuries == 0
        && options.place().is_none();
    !is_plain || plan.hurts_disk()
}

/// The words of a coordinator whose log takes no batch for a moment.
const DOES_NOT_FIT: &str = "its record does not fit a batch";

fn is_trouble(line: &str, has_squeezes: bool) -> bool {
    let is_explained = has_squeezes && line.contains(DOES_NOT_FIT);
    let mut words = ["cannot", "offline", "damaged", "corrupt"].iter();
    !is_explained && words.any(|word| line.contains(word))
}
