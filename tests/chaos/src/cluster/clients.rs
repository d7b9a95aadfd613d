//! Clients that die, stand still, repeat themselves and share an id, while the nodes they depend on are killed; and clocks that lie.

use std::time::Duration;

use crate::cluster::Stage;
use crate::cluster::nodes::{COUNT, Nodes};
use crate::cluster::replay::Replayer;
use crate::load::PARTITIONS;
use crate::txn_load::{self, IDS};
use crate::{groups, zombies};

const TOGETHER: usize = 5;
const HOUR_MILLIS: i64 = 3_600_000;
const STROBES: usize = 40;
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

fn nap(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Clocks of the nodes jump by an hour, back, and to and fro.
pub(super) fn clocks(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut jumps = 0;
    for node in 1..=COUNT {
        for off in [HOUR_MILLIS, -HOUR_MILLIS, 0] {
            stage.ground.clock(node)?.set(off)?;
            jumps += 1;
            nap(1_500);
            stage.loads.wait_for_writes()?;
        }
    }
    for strobe in 0..STROBES {
        let off = if strobe % 2 == 0 { 200 } else { -200 };
        stage.ground.clock(1 + strobe % COUNT)?.set(off)?;
        nap(200);
    }
    stage.loads.wait_for_writes()?;
    // A node that is new, an hour ahead of the others.
    let node = stage.nodes.leader(0)?;
    stage.ground.clock(node)?.set(HOUR_MILLIS)?;
    stage.nodes.kill(node);
    stage.nodes.raise(node)?;
    stage.loads.wait_for_writes()?;
    stage.nodes.wait_in_sync()?;
    let words = stage.nodes.words(node);
    let hour = |line: &str| line.get(..13).map(str::to_owned);
    let last = words.lines().rev().find_map(hour).unwrap_or_default();
    let first = words.lines().find_map(hour).unwrap_or_default();
    if first == last {
        return Err(format!(
            "vacuous: node {node} says {first} before and after"
        ));
    }
    for node in 1..=COUNT {
        stage.ground.clock(node)?.set(0)?;
    }
    Ok(format!(
        "{jumps} jumps of an hour, {STROBES} of 200 ms, one start an hour ahead"
    ))
}

/// Batches that were acknowledged are sent again after each fault.
pub(super) fn replay(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut replayer = Replayer::new(&stage.nodes)?;
    let mut repeated = 0;
    for (round, fault) in ["kill", "isolate", "pause", "kill"].into_iter().enumerate() {
        replayer.write(&stage.nodes)?;
        let node = replayer.leader(&stage.nodes)?;
        match fault {
            "kill" => stage.nodes.kill(node),
            "pause" => stage.nodes.signal(node, "STOP")?,
            _ => stage.isolate(node)?,
        }
        replayer.wait_for_other(&stage.nodes, node)?;
        repeated += replayer
            .repeat(&stage.nodes)
            .map_err(|why| format!("{fault}: {why}"))?;
        match fault {
            "kill" => stage.nodes.raise(node)?,
            "pause" => stage.nodes.signal(node, "CONT")?,
            _ => stage.net.heal()?,
        }
        stage.loads.wait_for_writes()?;
        stage.nodes.wait_in_sync()?;
        // Once more, where the old leader may lead again.
        repeated += replayer
            .repeat(&stage.nodes)
            .map_err(|why| format!("after {round}: {why}"))?;
    }
    let there = replayer.judge(&stage.nodes)?;
    Ok(format!(
        "{repeated} batches sent again, {there} records there once"
    ))
}

/// Producers that were stopped go on while others have their id.
pub(super) fn zombies(stage: &mut Stage<'_>) -> Result<String, String> {
    let bootstrap = stage.nodes.bootstrap();
    stage.nodes.create(txn_load::TOPIC)?;
    let (seed, mut id) = (stage.moments.next(1 << 30), 0);
    zombies::judged(&bootstrap, seed, || {
        let node = stage.coordinator_of(TRANSACTION, &format!("zombie-{}", id % 4))?;
        id += 1;
        stage.nodes.kill(node);
        nap(stage.moments.next(2_000));
        stage.nodes.raise(node)
    })
}

/// The coordinator of a transaction and the leader of a partition that it writes die in one moment.
pub(super) fn coordinator_and_leader(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut open = 0;
    for round in 0..TOGETHER {
        let transfers = stage.loads.transfers.as_ref().ok_or("no transfers")?;
        transfers.wait_for_commits(10)?;
        nap(stage.moments.next(600));
        let coordinator = stage.coordinator_of(TRANSACTION, IDS[round % IDS.len()])?;
        let topic = stage.nodes.ask(|client| client.topic(txn_load::TOPIC))?;
        let leaders = (0..PARTITIONS).filter_map(|partition| topic.leader(partition).ok());
        let other = leaders
            .map(|node| node as usize)
            .find(|node| *node != coordinator);
        let leader = other.unwrap_or(Nodes::others(coordinator)[0]);
        transfers.wait_for_open();
        open += usize::from(transfers.open() > 0);
        stage.nodes.kill(coordinator);
        stage.nodes.kill(leader);
        nap(stage.moments.next(1_500));
        let (first, second) = if round % 2 == 0 {
            (coordinator, leader)
        } else {
            (leader, coordinator)
        };
        stage.nodes.raise(first)?;
        nap(stage.moments.next(1_500));
        stage.nodes.raise(second)?;
        stage.loads.wait_for_writes()?;
        stage.nodes.wait_in_sync()?;
    }
    if open * 2 < TOGETHER {
        return Err(format!(
            "vacuous: {open} of {TOGETHER} met an open transaction"
        ));
    }
    Ok(format!(
        "{TOGETHER} times both killed, {open} with open transactions"
    ))
}

/// Members are killed, stopped beyond their session, come and leave, and their coordinator is killed.
pub(super) fn group_chaos(stage: &mut Stage<'_>) -> Result<String, String> {
    let (bootstrap, seed) = (stage.nodes.bootstrap(), stage.moments.next(1 << 30));
    let groups = ["chaos-classic", "chaos-consumer", "chaos-both"];
    let mut deaths = 0;
    let told = groups::in_chaos(&bootstrap, 0, seed, false, |moments| {
        let node = stage.coordinator_of(GROUP, groups[deaths % groups.len()])?;
        deaths += 1;
        stage.nodes.kill(node);
        nap(moments.next(2_000));
        stage.nodes.raise(node)?;
        stage.nodes.wait_in_sync().map(drop)
    })?;
    told.iter().for_each(|line| stage.place.say(line));
    Ok(format!("{deaths} coordinators killed"))
}
