//! Two producers with one transactional id: the first is stopped in the middle of what it does, the second takes over and commits,
//! the first goes on and must be fenced, in the old protocol as in that with an epoch for each transaction. Nothing that it left
//! undecided may be shown to readers of committed data.
//!
//! Meanwhile the broker is killed, or the transaction times out, or neither. Judged by the checker of the simulator.

use std::time::Duration;

use sim::checker::{Kind, Op, Outcome as End, Sent, check};

use crate::broker::Launch;
use crate::children::ClientProcess;
use crate::kills::Moments;
use crate::load::create_topic;
use crate::place::Place;
use crate::txn::TIMEOUT_MS;
use crate::txn_load::{NEW, OLD, TOPIC, TxnLoad};
use crate::{Outcome, Plan, Verdict};

const IDS: usize = 4;
const ROUNDS: usize = 6;
/// Transactions before a producer is stopped, and of the one that takes over.
const COMMITS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);

struct Owners {
    address: String,
    moments: Moments,
    started: usize,
}

impl Owners {
    /// A producer for each id.
    fn start(&mut self) -> Result<Vec<ClientProcess>, String> {
        let start = |id: usize| {
            self.started += 1;
            let protocol = if id < IDS / 2 { OLD } else { NEW };
            let (id, number) = (format!("zombie-{id}"), self.started.to_string());
            let seed = self.moments.next(1 << 30).to_string();
            ClientProcess::start(&["producer", &self.address, &id, protocol, &number, &seed])
        };
        (0..IDS).map(start).collect()
    }
}

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    let launch = Launch::new(plan, place, &place.dir.join("data"))?;
    let mut broker = Some(launch.start()?);
    create_topic(&launch.address(), TOPIC)?;
    let strike = || {
        if let Some(broker) = broker.take() {
            broker.kill();
        }
        broker = Some(launch.start()?);
        Ok(())
    };
    let told = judged(&launch.address(), plan.seed, strike)?;
    place.say(&told);
    launch.check_words()?;
    Ok(Verdict::Passed)
}

/// The topic is there; `strike` kills the broker of the transactions, and another starts.
pub(crate) fn judged(
    address: &str,
    seed: u64,
    mut strike: impl FnMut() -> Result<(), String>,
) -> Result<String, String> {
    let readers = TxnLoad::start(address, seed, &[]);
    let mut owners = Owners {
        address: address.to_owned(),
        moments: Moments(seed),
        started: 0,
    };
    let (mut lines, mut open, mut ready, mut fenced) = (Vec::new(), 0, 0, 0);
    let mut present = owners.start()?;
    for round in 0..ROUNDS {
        for (number, owner) in present.iter().enumerate() {
            owner.wait_for("op", COMMITS, PATIENCE)?;
            if number % 2 == 0 {
                // All is written, and in the partitions nobody will refuse it: only the coordinator can.
                owner.wait_for("ready", owner.said("op") + 1, PATIENCE)?;
            } else {
                std::thread::sleep(Duration::from_millis(owners.moments.next(20)));
            }
            owner.signal("STOP")?;
        }
        // The last words of a stopped process have been read by now, or are soon.
        std::thread::sleep(Duration::from_millis(20));
        let is_open = |owner: &&ClientProcess| owner.said("open") > owner.said("op");
        open += present.iter().filter(is_open).count();
        let is_ready = |owner: &&ClientProcess| owner.said("ready") > owner.said("op");
        ready += present.iter().filter(is_ready).count();
        let zombies = std::mem::take(&mut present);
        match round % 3 {
            1 => strike()?,
            2 => std::thread::sleep(Duration::from_millis(TIMEOUT_MS as u64 + 1_000)),
            _ => {}
        }
        present = owners.start()?;
        for owner in &present {
            owner.wait_for("op", COMMITS, PATIENCE)?;
        }
        for zombie in &zombies {
            zombie.signal("CONT")?;
        }
        for zombie in zombies {
            let said = zombie.wait(PATIENCE)?;
            fenced += usize::from(said.last().is_some_and(|last| last == "fenced"));
            lines.extend(said);
        }
    }
    for owner in present {
        lines.extend(owner.finish(PATIENCE)?);
    }
    let ops = lines.iter().filter_map(|line| line.strip_prefix("op "));
    let ops: Vec<Op> = ops.map(read_op).collect::<Option<_>>().ok_or("no op")?;
    let count = |outcome| ops.iter().filter(|op| op.outcome == outcome).count();
    let (committed, undecided) = (count(End::Ok), count(End::Info));
    let (history, _) = readers.finish(ops)?;
    let report = check(&history);
    let zombies = IDS * ROUNDS;
    let told = format!(
        "{zombies} zombies, {open} with open transactions, {ready} about to end them, {fenced} fenced; {committed} transactions committed, {undecided} \
         undecided; {} events judged",
        report.events
    );
    if !report.is_clean() {
        return Err(format!("the history is broken:\n{report}"));
    }
    if fenced != zombies {
        return Err(format!("{} zombies were not fenced", zombies - fenced));
    }
    if open * 4 < zombies || ready * 4 < zombies || committed == 0 {
        return Err(format!(
            "vacuous: {open} of {zombies} had a transaction open, {ready} were about to end it"
        ));
    }
    Ok(told)
}

/// One transaction as a producer says it: process, outcome, times, then key, value and offset of each record.
pub(crate) fn op_line(op: &Op) -> String {
    let outcome = match op.outcome {
        End::Ok => "ok",
        End::Info => "info",
        End::Fail => "fail",
    };
    let mut line = format!("op {} {outcome} {} {}", op.process, op.invoked, op.returned);
    for Sent { key, offset, value } in &op.sends {
        line += &format!(" {key}:{value}:{}", offset.unwrap_or(-1));
    }
    line
}

pub(crate) fn read_op(line: &str) -> Option<Op> {
    let mut words = line.split(' ');
    let process = words.next()?.parse().ok()?;
    let outcome = match words.next()? {
        "ok" => End::Ok,
        "info" => End::Info,
        "fail" => End::Fail,
        _ => return None,
    };
    let mut op = Op::new(process, Kind::Txn, words.next()?.parse().ok()?);
    op.outcome = outcome;
    op.returned = words.next()?.parse().ok()?;
    for word in words {
        let mut parts = word.split(':');
        op.sends.push(Sent {
            key: parts.next()?.parse().ok()?,
            value: parts.next()?.parse().ok()?,
            offset: Some(parts.next()?.parse().ok()?).filter(|offset| *offset >= 0),
        });
    }
    Some(op)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_survives_its_line() {
        let mut op = Op::new(7, Kind::Txn, 10);
        (op.outcome, op.returned) = (End::Info, 20);
        for offset in [Some(5), None] {
            op.sends.push(Sent {
                key: 1,
                offset,
                value: 1 << 50,
            });
        }
        let line = op_line(&op);
        assert_eq!(line.strip_prefix("op ").and_then(read_op), Some(op));
        assert_eq!(read_op("7 ok 10"), None);
    }
}
