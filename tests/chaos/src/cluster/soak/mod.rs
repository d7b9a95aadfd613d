//! Everything at once for as long as anybody likes, on nodes with little memory: `tests/chaos/run cluster soak --minutes 15`.
//!
//! The loads of [`Mix::Everything`](crate::cluster::loads::Mix) are judged as in each scenario; groups of both protocols and a compacted
//! topic are beside them. Invariants: memory and descriptors stand at the end where they stood at the beginning, no partition is without an
//! acknowledgement for long while all nodes are well, and a node logs no ERROR that its faults do not explain. One node is killed now and
//! then, the others are only stopped and cut off, so that there are lives as long as the soak.

mod keyed;
mod monitor;
mod operators;

use std::time::{Duration, Instant};

use crate::cluster::Stage;
use crate::cluster::nodes::{COUNT, Nodes, describe};
use crate::groups;

use monitor::{Health, Monitor, Seat};

/// Longer than a session, so that others lead.
const AWAY: Duration = Duration::from_secs(9);
/// Faults in the whole time, within bounds.
const FAULTS: u32 = 12;
const FAULT_EVERY_MIN: Duration = Duration::from_secs(25);
const FAULT_EVERY_MAX: Duration = Duration::from_secs(75);
const IDLE: &str = "idle";
/// Parts of the errors that nodes may log because others are away.
const EXPLAINED: [&str; 0] = [];

pub(super) fn run(stage: &mut Stage<'_>) -> Result<String, String> {
    create_topics(&stage.nodes)?;
    let (bootstrap, place, length) = (stage.nodes.bootstrap(), stage.place, stage.length);
    let (health, seed) = (Health::new(), stage.moments.next(1 << 30));
    let seats = (1..).zip(stage.nodes.rooms()).map(|(node, room)| Seat {
        room,
        data: stage.nodes.data(node),
    });
    let monitor = Monitor {
        seats: seats.collect(),
        gauges: stage.loads.gauges(),
        stock: stage.loads.stock_lines(),
        health: &health,
        place,
        length,
    };
    let mut faults = Faults {
        killed: 1 + seed as usize % COUNT,
        every: (length / FAULTS).clamp(FAULT_EVERY_MIN, FAULT_EVERY_MAX),
        next: Instant::now(),
        count: 0,
    };
    faults.next += faults.every;
    let (health, bootstrap, monitor) = (&health, &bootstrap[..], &monitor);
    let (figures, told) = std::thread::scope(|scope| {
        let watched = scope.spawn(|| monitor.watch());
        let work = [
            scope.spawn(|| operators::topics(bootstrap, health)),
            scope.spawn(|| operators::moves(bootstrap, health, seed)),
            scope.spawn(|| operators::trims(bootstrap, health)),
            scope.spawn(|| operators::visits(bootstrap, health)),
            scope.spawn(|| keyed::write(bootstrap, health)),
        ];
        let chaos = faults.go_on(stage, health, bootstrap, seed);
        health.end();
        let mut told = vec![chaos];
        let panicked = || Err("an operator panicked".to_owned());
        told.extend(work.map(|thread| thread.join().unwrap_or_else(|_| panicked())));
        (watched.join().unwrap_or_default(), told)
    });
    if let Some(killed) = figures.problems.first() {
        return Err(killed.clone());
    }
    for told in told {
        match told {
            Ok(line) => place.say(&line),
            Err(why) => stage.problems.push(why),
        }
    }
    let lived = Nodes::others(faults.killed);
    stage.problems.extend(monitor.judge(&figures, &lived));
    stage.problems.extend(unexplained(&stage.nodes));
    // The verdict about the records may come first.
    for problem in &stage.problems {
        place.say(&format!("wrong: {problem}"));
    }
    Ok(format!("{} faults in {} s", faults.count, length.as_secs()))
}

fn create_topics(nodes: &Nodes) -> Result<(), String> {
    nodes.create(IDLE)?;
    nodes.create_with(operators::QUIET, 2, &[("min.insync.replicas", "1")])?;
    let settings = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0.1"),
    ];
    nodes.create_with(keyed::TOPIC, COUNT as i16, &settings)
}

struct Faults {
    /// The only node that is killed.
    killed: usize,
    every: Duration,
    next: Instant,
    count: usize,
}

impl Faults {
    /// Groups are in chaos until the time is over, again and again; a fault between whenever one is due.
    fn go_on(
        &mut self,
        stage: &mut Stage<'_>,
        health: &Health,
        bootstrap: &str,
        seed: u64,
    ) -> Result<String, String> {
        let begun = Instant::now();
        for life in 1.. {
            let seed = seed + life as u64;
            groups::in_chaos(bootstrap, life, seed, false, |moments| {
                if Instant::now() < self.next || health.is_over() {
                    return Ok(());
                }
                health.set(false);
                self.strike(stage, moments.next(1_000))?;
                health.set(true);
                self.next = Instant::now() + self.every;
                Ok(())
            })?;
            if begun.elapsed() > stage.length || health.is_over() {
                return Ok(format!(
                    "groups of both protocols were in chaos {life} times"
                ));
            }
        }
        Ok(String::new())
    }

    fn strike(&mut self, stage: &mut Stage<'_>, delay: u64) -> Result<(), String> {
        let kept = Nodes::others(self.killed);
        let (how, node) = match self.count % 4 {
            0 => ("stopped", kept[0]),
            1 => ("killed", self.killed),
            2 => ("cut off", kept[1]),
            _ => ("cut off", self.killed),
        };
        self.count += 1;
        let begun = Instant::now();
        match how {
            "stopped" => {
                stage.nodes.signal(node, "STOP")?;
                std::thread::sleep(AWAY);
                stage.nodes.signal(node, "CONT")?;
            }
            "killed" => {
                stage.nodes.kill(node);
                std::thread::sleep(Duration::from_millis(delay * 9));
                stage.nodes.raise(node)?;
            }
            _ => {
                stage.isolate(node)?;
                std::thread::sleep(AWAY);
                stage.net.heal()?;
            }
        }
        let away = begun.elapsed();
        let described = || describe(&stage.nodes.topic());
        let writes = stage
            .loads
            .wait_for_writes()
            .map_err(|why| format!("node {node} {how}: {why}; {}", described()))?;
        let in_sync = stage.nodes.wait_in_sync()?;
        stage.place.say(&format!(
            "node {node} {how} for {:.1} s: records after {:.1} s, in sync after {:.1} s",
            away.as_secs_f64(),
            writes.as_secs_f64(),
            in_sync.as_secs_f64()
        ));
        Ok(())
    }
}

/// The first error of each node that no fault explains.
fn unexplained(nodes: &Nodes) -> Vec<String> {
    let of = |node: usize| {
        let words = nodes.words(node);
        let is_bad = |line: &&str| {
            line.contains(" ERROR ") && !EXPLAINED.iter().any(|known| line.contains(known))
        };
        let line = words.lines().find(is_bad)?;
        Some(format!("node {node} logged {line}"))
    };
    (1..=COUNT).filter_map(of).collect()
}
