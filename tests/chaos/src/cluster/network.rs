//! Nodes that do not reach each other, in every way in which three nodes and their clients can be cut apart.

use std::time::{Duration, Instant};

use wire::messages::FindCoordinatorRequest;

use crate::cluster::Stage;
use crate::cluster::net::CLIENTS;
use crate::cluster::nodes::{COUNT, IN_SYNC_MAX, Nodes, SESSION};
use crate::load::PARTITIONS;

/// Long enough for a session to end and for another to lead.
const CUT: Duration = Duration::from_secs(9);
const SHORT_CUT: Duration = Duration::from_secs(3);

impl Stage<'_> {
    /// Cuts by `cut`, waits, heals, and waits until all is well. True if leaders changed or replicas left meanwhile.
    fn cut(
        &mut self,
        how: &str,
        length: Duration,
        cut: impl FnOnce(&Self) -> Result<(), String>,
    ) -> Result<bool, String> {
        let before = self.watch.seen();
        cut(self)?;
        std::thread::sleep(length);
        self.net.heal()?;
        let well = self.loads.wait_for_writes().and_then(|writes| {
            let in_sync = self.nodes.wait_in_sync()?;
            Ok((writes, in_sync))
        });
        let described = || crate::cluster::nodes::describe(&self.nodes.topic());
        let (writes, in_sync) =
            well.map_err(|why| format!("after {how}: {why}; {}", described()))?;
        // The watcher may have been at a node that was cut off.
        std::thread::sleep(Duration::from_millis(500));
        let seen = self.watch.seen();
        let changes = seen.changes() - before.changes();
        let shrinks = seen.shrinks - before.shrinks;
        self.place.say(&format!(
            "{how}: {changes} changes of leaders, {shrinks} shrinks; records after {:.1} s, in sync after {:.1} s",
            writes.as_secs_f64(),
            in_sync.as_secs_f64()
        ));
        Ok(changes + shrinks > 0)
    }

    /// From all others and from the clients.
    pub(super) fn isolate(&self, node: usize) -> Result<(), String> {
        for other in Nodes::others(node).into_iter().chain([CLIENTS]) {
            self.net.cut_both(node, other)?;
        }
        Ok(())
    }

    /// Of a group (0) or a transactional id (1).
    pub(super) fn coordinator_of(&self, key_type: i8, key: &str) -> Result<usize, String> {
        let request = FindCoordinatorRequest {
            key_type,
            coordinator_keys: vec![key.to_owned()],
            ..Default::default()
        };
        let begun = Instant::now();
        loop {
            let told = self.nodes.ask(|client| client.call_any(&request));
            let found = told
                .as_ref()
                .ok()
                .and_then(|told| told.coordinators.first());
            let found = found.map(|found| found.node_id);
            match found.filter(|node| (1..=COUNT as i32).contains(node)) {
                Some(node) => return Ok(node as usize),
                None if begun.elapsed() > IN_SYNC_MAX => {
                    return Err(format!("no coordinator of {key}: {told:?}"));
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// A leader that is not the active controller. If that leads everything, its leadership goes to another first.
    fn plain_leader(&mut self) -> Result<usize, String> {
        loop {
            let controller = self.nodes.controller()?;
            for partition in 0..PARTITIONS {
                let leader = self.nodes.leader(partition)?;
                if leader != controller {
                    return Ok(leader);
                }
            }
            self.nodes.kill(controller);
            std::thread::sleep(SHORT_CUT);
            self.nodes.raise(controller)?;
            self.loads.wait_for_writes()?;
            self.nodes.wait_in_sync()?;
        }
    }
}

/// One is alone, whatever its leadership; then each is.
pub(super) fn isolate(stage: &mut Stage<'_>) -> Result<String, String> {
    let leader = stage.plain_leader()?;
    let mut bitten = 0;
    bitten += usize::from(stage.cut("leader alone", CUT, |stage| stage.isolate(leader))?);
    let controller = stage.nodes.controller()?;
    bitten += usize::from(stage.cut("controller alone", CUT, |stage| stage.isolate(controller))?);
    let coordinator = stage.coordinator_of(0, "chaos-stock")?;
    bitten += usize::from(stage.cut("coordinator alone", CUT, |stage| stage.isolate(coordinator))?);
    let all = |stage: &Stage<'_>| {
        stage.net.cut_both(1, 2)?;
        stage.net.cut_both(2, 3)?;
        stage.net.cut_both(3, 1)
    };
    bitten += usize::from(stage.cut("each alone", CUT, all)?);
    let last = stage.nodes.leader(0)?;
    stage.cut("leader alone for a moment", SHORT_CUT, |stage| {
        stage.isolate(last)
    })?;
    if bitten < 3 {
        return Err(format!("vacuous: {bitten} of 4 cuts changed anything"));
    }
    Ok(format!("5 cuts, {bitten} moved leaders or replicas"))
}

/// Cuts of one direction, and of one pair, so that two majorities overlap in the third node.
pub(super) fn one_way(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut bitten = 0;
    let leader = stage.plain_leader()?;
    let deaf = |stage: &Stage<'_>| {
        let others = Nodes::others(leader);
        others
            .into_iter()
            .try_for_each(|other| stage.net.cut(other, leader))
    };
    bitten += usize::from(stage.cut("leader hears no node", CUT, deaf)?);
    let leader = stage.plain_leader()?;
    let dumb = |stage: &Stage<'_>| {
        let others = Nodes::others(leader);
        others
            .into_iter()
            .try_for_each(|other| stage.net.cut(leader, other))
    };
    bitten += usize::from(stage.cut("no node hears the leader", CUT, dumb)?);
    let (leader, controller) = (stage.plain_leader()?, stage.nodes.controller()?);
    let pair = |stage: &Stage<'_>| stage.net.cut_both(leader, controller);
    bitten += usize::from(stage.cut("leader and controller apart", CUT, pair)?);
    let (leader, controller) = (stage.plain_leader()?, stage.nodes.controller()?);
    let third = (1..=COUNT).find(|node| *node != leader && *node != controller);
    let third = third.ok_or("no third node")?;
    let pair = |stage: &Stage<'_>| stage.net.cut_both(leader, third);
    bitten += usize::from(stage.cut("leader and a follower apart", CUT, pair)?);
    if bitten < 3 {
        return Err(format!("vacuous: {bitten} of 4 cuts changed anything"));
    }
    Ok(format!("4 cuts, {bitten} moved leaders or replicas"))
}

/// Clients do not reach the leader, nodes do: nothing moves, and nothing is lost.
pub(super) fn clients_cut(stage: &mut Stage<'_>) -> Result<String, String> {
    let leader = stage.nodes.leader(0)?;
    let mut stalled = 0;
    for (from, to) in [(leader, CLIENTS), (CLIENTS, leader), (0, 0)] {
        let cut = |stage: &Stage<'_>| match from {
            0 => stage.net.cut_both(leader, CLIENTS),
            _ => stage.net.cut(from, to),
        };
        let before = stage.watch.seen().changes();
        cut(stage)?;
        // Packets under way when the cut came have arrived.
        std::thread::sleep(Duration::from_secs(1));
        let acked = stage.loads.records.acked_by_partition()[&0];
        std::thread::sleep(SESSION);
        stalled += usize::from(stage.loads.records.acked_by_partition()[&0] == acked);
        stage.net.heal()?;
        stage.loads.wait_for_writes()?;
        if stage.watch.seen().changes() > before {
            return Err("leaders changed although nodes reached each other".to_owned());
        }
    }
    if stalled < 3 {
        return Err(format!(
            "vacuous: the partition took records in {} cuts",
            3 - stalled
        ));
    }
    Ok("3 cuts, the partition took no record in any".to_owned())
}

/// Kafka 0.8's lost writes: a follower is away while records are acknowledged, then those that have them go as well, and the one without
/// comes back first. It must wait, and nothing may be lost.
pub(super) fn last_replica(stage: &mut Stage<'_>) -> Result<String, String> {
    let leader = stage.nodes.leader(0)?;
    let [second, first] = Nodes::others(leader)[..] else {
        return Err("three nodes".to_owned());
    };
    // Away is `first`, in any way that lets the ISR shrink.
    stage.nodes.kill(first);
    let shrunk = stage.wait_for_isr(2)?;
    stage.loads.records.wait_for_acks(500)?;
    // The leader is cut off and dies while nobody hears it.
    stage.net.cut_both(leader, second)?;
    std::thread::sleep(Duration::from_millis(stage.moments.next(3_000)));
    stage.nodes.kill(leader);
    stage.net.heal()?;
    stage.nodes.kill(second);
    // The node that comes back first has less than was acknowledged, and with the next makes a majority.
    stage.nodes.raise(first)?;
    std::thread::sleep(SESSION);
    stage.nodes.raise(second)?;
    stage.loads.wait_for_writes().map_err(|why| {
        let state = crate::cluster::nodes::describe(&stage.nodes.topic());
        format!("with {first} and {second}: {why}; {state}")
    })?;
    stage.nodes.raise(leader)?;
    stage.nodes.wait_in_sync()?;
    Ok(format!(
        "replicas left within {:.1} s, then the one that was away came back first",
        shrunk.as_secs_f64()
    ))
}
