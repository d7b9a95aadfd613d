//! Three nodes in network namespaces under load, and everything that may befall them: `tests/chaos/run cluster SCENARIO`.
//!
//! Owns the order, the runs of each and the table. Each scenario names its load, does its harm and gives evidence that it bit; what
//! was promised to clients is judged the same for all of them, once everything is well again: every partition takes records within
//! 15 s, every replica is in sync within 60 s, nothing acknowledged is lost, and after a clean stop all replicas are the same bytes.

mod clients;
mod deaths;
mod edits;
mod ground;
mod guests;
mod loads;
pub(crate) mod net;
mod network;
mod nodes;
mod replay;
mod replicas;
mod room;
mod soak;
mod storage;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::Plan;
use crate::cluster::ground::{Ground, Kind};
use crate::cluster::guests::Guests;
use crate::cluster::loads::{Loads, Mix};
use crate::cluster::net::Net;
use crate::cluster::nodes::{COUNT, Nodes, describe};
use crate::cluster::watch::Watch;
use crate::kills::Moments;
use crate::load::TOPIC;
use crate::place::Place;
use crate::txn_load;

/// The first argument that leads here.
pub(crate) const WORD: &str = "cluster";
const USAGE: &str = "usage: chaos cluster [SCENARIO]... [--runs N] [--seed N] [--hold SECONDS]
                     [--guest CLIENT[/PATTERN]]... [--list]
       chaos cluster soak [--minutes N]...

  a scenario by its id or its name; --hold leaves the nodes of a bad verdict running for so long, to ask them
  soak  is run only by name: everything at once, for --minutes, each node in 512 MiB
  --guest  a client of tests/clients, or its facts that match, runs beside the load, again and again while the faults go on
           (--guest franz/once --guest java/once --guest streams/exactly_once); every fact must hold";

/// The tools of a scenario while the load runs.
struct Stage<'a> {
    nodes: Nodes,
    loads: Loads,
    watch: Watch,
    moments: Moments,
    net: &'a Net,
    place: &'a Place,
    esker: &'a std::path::Path,
    ground: &'a Ground,
    /// How long a soak takes.
    length: Duration,
    /// Faults that were found while the scenario went on; they fail it at its end.
    problems: Vec<String>,
}

struct Scenario {
    /// In the list of scenarios of the design.
    id: &'static str,
    name: &'static str,
    mix: Mix,
    kind: Kind,
    /// Leaves every node running and the network whole; the evidence, or why there is none.
    act: fn(&mut Stage<'_>) -> Result<String, String>,
}

const fn scenario(
    id: &'static str,
    name: &'static str,
    mix: Mix,
    act: fn(&mut Stage<'_>) -> Result<String, String>,
) -> Scenario {
    Scenario {
        id,
        name,
        mix,
        kind: Kind::Plain,
        act,
    }
}

/// On ground that does what the scenario says, under plain load.
const fn on(
    kind: Kind,
    id: &'static str,
    name: &'static str,
    mix: Mix,
    act: fn(&mut Stage<'_>) -> Result<String, String>,
) -> Scenario {
    Scenario {
        id,
        name,
        mix,
        kind,
        act,
    }
}

#[rustfmt::skip]
const SCENARIOS: [Scenario; 26] = [
    scenario("N-01", "baseline", Mix::Transfers, deaths::nothing),
    scenario("N-02", "kill-leader", Mix::Records, deaths::leader),
    scenario("N-03", "kill-all", Mix::Transfers, deaths::all),
    scenario("N-04", "last-replica", Mix::Records, network::last_replica),
    scenario("N-05", "isolate", Mix::Transfers, network::isolate),
    scenario("N-06", "one-way", Mix::Records, network::one_way),
    scenario("N-07", "clients-cut", Mix::Records, network::clients_cut),
    scenario("N-08", "pause", Mix::Transfers, deaths::pause),
    on(Kind::Clocks, "N-14", "clocks", Mix::Transfers, clients::clocks),
    scenario("N-15", "replay", Mix::Records, clients::replay),
    scenario("N-16", "zombies", Mix::Records, clients::zombies),
    scenario("N-17", "coordinator-and-leader", Mix::Transfers, clients::coordinator_and_leader),
    scenario("N-18", "groups", Mix::Records, clients::group_chaos),
    on(Kind::Power, "S-01", "power-cut", Mix::Transfers, storage::power_cut),
    on(Kind::Power, "S-02", "power-cut-all", Mix::Transfers, storage::power_cut_all),
    on(Kind::Power, "S-03", "power-cut-and-pause", Mix::Records, storage::power_cut_and_pause),
    on(Kind::Caches, "S-04", "device-caches", Mix::Records, storage::device_caches),
    on(Kind::Disks, "S-05", "failing-sync", Mix::Records, storage::failing_sync),
    on(Kind::Disks, "S-08", "slow-disk", Mix::Records, storage::slow_disk),
    on(Kind::Edits, "S-09", "segments", Mix::Records, edits::segments_of_one),
    on(Kind::Edits, "S-10", "beside-segments", Mix::Transfers, edits::beside_segments),
    on(Kind::Disks, "S-11", "pipelined", Mix::Records, storage::pipelined),
    scenario("S-15", "rollback", Mix::Records, storage::rollback),
    on(Kind::Edits, "S-16", "helix", Mix::Records, edits::helix),
    scenario("S-18", "wiped", Mix::Records, storage::wiped),
    on(Kind::Small, "M-01", "soak", Mix::Everything, soak::run),
];
/// Of a soak, if nobody says another.
const MINUTES: u64 = 15;

struct Arguments {
    plan: Plan,
    chosen: Vec<String>,
    runs: usize,
    /// A run whose verdict is bad stays up for so long.
    hold: Duration,
    /// Of a soak.
    minutes: u64,
    /// Clients of others and the pattern of their facts, as `tests/clients/run` takes them.
    guests: Vec<String>,
}

fn arguments(words: &[String]) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments {
        plan: Plan::new(),
        chosen: Vec::new(),
        runs: 1,
        hold: Duration::ZERO,
        minutes: MINUTES,
        guests: Vec::new(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--guest" {
            let guest = words.next();
            let guest = guest.ok_or_else(|| format!("{word} takes a client\n{USAGE}"))?;
            arguments.guests.push(guest.clone());
            continue;
        }
        let mut number = || {
            let value = words.next().and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| format!("{word} takes a number\n{USAGE}"))
        };
        match word.as_str() {
            "--runs" => arguments.runs = number()? as usize,
            "--seed" => arguments.plan.seed = number()?,
            "--minutes" => arguments.minutes = number()?,
            "--hold" => arguments.hold = Duration::from_secs(number()?),
            "--list" => {
                for Scenario { id, name, mix, .. } in &SCENARIOS {
                    println!("{id} {name:16} {mix:?}");
                }
                return Ok(None);
            }
            name if SCENARIOS
                .iter()
                .any(|known| known.id == name || known.name == name) =>
            {
                arguments.chosen.push(word.clone());
            }
            _ => return Err(format!("{word}: no such scenario (--list)\n{USAGE}")),
        }
    }
    Ok(Some(arguments))
}

pub(crate) fn main(words: &[String]) -> ExitCode {
    let arguments = match arguments(words) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => return ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    match Net::around() {
        Some(net) => perform(&arguments, &net),
        None => guests::prepare(&arguments.guests).map_or_else(
            |why| {
                eprintln!("{why}");
                ExitCode::FAILURE
            },
            |()| within(words),
        ),
    }
}

/// Makes the network, and runs this program again at the end of the clients.
fn within(words: &[String]) -> ExitCode {
    let net = match Net::new(COUNT) {
        Ok(net) => net,
        Err(why) => {
            eprintln!("needs root and network namespaces: {why}");
            return ExitCode::FAILURE;
        }
    };
    let ended = net.program().arg(WORD).args(words).status();
    match ended {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("cannot run in the network: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The runs of one scenario.
#[derive(Default)]
struct Row {
    passed: usize,
    failed: usize,
    seconds: f64,
    evidence: String,
    failures: Vec<String>,
}

fn perform(arguments: &Arguments, net: &Net) -> ExitCode {
    let plan = &arguments.plan;
    println!("broker {}, seed {}", plan.esker.display(), plan.seed);
    let is_chosen = |scenario: &&Scenario| {
        let chosen = &arguments.chosen;
        chosen.is_empty() && scenario.kind != Kind::Small
            || chosen
                .iter()
                .any(|word| word == scenario.id || word == scenario.name)
    };
    let mut rows = Vec::new();
    for scenario in SCENARIOS.iter().filter(is_chosen) {
        let mut row = Row::default();
        for run in 0..arguments.runs {
            let plan = Plan {
                seed: plan.seed + run as u64,
                ..plan.clone()
            };
            row.add(scenario, &plan, net, arguments);
        }
        rows.push((scenario, row));
    }
    print_table(&rows);
    if rows.iter().all(|(_, row)| row.failed == 0) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

impl Row {
    fn add(&mut self, scenario: &Scenario, plan: &Plan, net: &Net, arguments: &Arguments) {
        println!("{} {} seed {}", scenario.id, scenario.name, plan.seed);
        let begun = Instant::now();
        let place = match Place::new(&format!("cluster-{}-{}", scenario.name, plan.seed)) {
            Ok(place) => place,
            Err(why) => {
                self.failed += 1;
                self.failures.push(why);
                return;
            }
        };
        let ended = catch_unwind(AssertUnwindSafe(|| {
            scenario.run(plan, &place, net, arguments)
        }));
        let ended = ended.unwrap_or_else(|_| Err("it panicked".to_owned()));
        // A scenario that failed may have left the network cut.
        let ended = net.heal().and(ended);
        let ended = ended.and_then(|evidence| place.search_secret().map(|()| evidence));
        let seconds = begun.elapsed().as_secs_f64();
        self.seconds += seconds;
        match ended {
            Ok(evidence) => {
                self.passed += 1;
                self.evidence = evidence;
                println!("  passed in {seconds:.1} s");
                place.remove();
            }
            Err(why) => {
                self.failed += 1;
                println!("  FAILED after {seconds:.1} s: {why}");
                let kept = place.keep(&format!("{}, seed {}: {why}", scenario.id, plan.seed));
                let first = why.lines().next().unwrap_or_default();
                self.failures.push(format!(
                    "seed {}: {first}\n  kept in {}",
                    plan.seed,
                    kept.display()
                ));
            }
        }
    }
}

impl Scenario {
    fn run(
        &self,
        plan: &Plan,
        place: &Place,
        net: &Net,
        Arguments {
            hold,
            guests,
            minutes,
            ..
        }: &Arguments,
    ) -> Result<String, String> {
        let ground = Ground::new(self.kind, place)?;
        let dress = |node: usize, launch| ground.under(node, launch);
        let nodes = Nodes::start(plan, place, self.kind, net, dress)?;
        let loads = Loads::start(self.mix, &nodes, place, plan.seed);
        let loads = loads.map_err(|why| nodes.explained(why))?;
        let watch = Watch::start(&nodes.bootstrap());
        let guests = Guests::start(guests, &nodes.bootstrap(), place)?;
        let mut stage = Stage {
            nodes,
            loads,
            watch,
            moments: Moments(plan.seed),
            net,
            place,
            esker: &plan.esker,
            ground: &ground,
            length: Duration::from_secs(60 * minutes),
            problems: Vec::new(),
        };
        let evidence = (self.act)(&mut stage).map_err(|why| stage.nodes.explained(why))?;
        let Stage {
            mut nodes,
            loads,
            watch,
            problems,
            ..
        } = stage;
        let described = || describe(&nodes.topic());
        let writes = loads
            .wait_for_writes()
            .map_err(|why| format!("{why}; {}", described()))?;
        let in_sync = nodes.wait_in_sync()?;
        let seen = watch.seen();
        drop(watch);
        let told = guests.finish();
        if let Err(why) = &told {
            // The load is judged all the same: what it saw may tell more.
            place.say(why);
        }
        loads.judge(place).inspect_err(|why| {
            if !hold.is_zero() {
                println!("  held for {} s: {why}", hold.as_secs());
                std::thread::sleep(*hold);
            }
        })?;
        if let Some(forked) = &seen.forked {
            return Err(format!("two leaders of an epoch: {forked}"));
        }
        let evidence = format!(
            "{evidence}; {} changes of leaders, {} shrinks to {} in sync{}",
            seen.changes(),
            seen.shrinks,
            seen.isr_min,
            told?
        );
        place.say(&evidence);
        place.say(&format!(
            "everything took records again after {:.1} s, was in sync after {:.1} s",
            writes.as_secs_f64(),
            in_sync.as_secs_f64()
        ));
        nodes.stop_all()?;
        let trims = self.mix == Mix::Everything;
        let (partitions, bytes) = replicas::compare(&nodes, &[TOPIC, txn_load::TOPIC], trims)?;
        place.say(&format!(
            "{partitions} partitions, {bytes} bytes, are the same on {COUNT} nodes"
        ));
        // A disk that fails is told of, and so is a file that somebody changed.
        if matches!(self.kind, Kind::Disks | Kind::Caches | Kind::Edits) {
            nodes.check_panics()?;
        } else {
            nodes.check_words()?;
        }
        if problems.is_empty() {
            Ok(evidence)
        } else {
            Err(problems.join("; "))
        }
    }
}

fn print_table(rows: &[(&Scenario, Row)]) {
    println!(
        "\n| id | scenario | load | runs | passed | failed | s per run | evidence of the last |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (scenario, row) in rows {
        let runs = row.passed + row.failed;
        println!(
            "| {} | {} | {:?} | {runs} | {} | {} | {:.0} | {} |",
            scenario.id,
            scenario.name,
            scenario.mix,
            row.passed,
            row.failed,
            row.seconds / runs.max(1) as f64,
            row.evidence
        );
    }
    for (scenario, row) in rows {
        for failure in &row.failures {
            println!("FAILED {} {}: {failure}", scenario.id, scenario.name);
        }
    }
}
