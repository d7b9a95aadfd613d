//! Nodes that are killed, all at once or the leader alone, and nodes that stand still.

use std::time::{Duration, Instant};

use crate::cluster::Stage;
use crate::cluster::nodes::{COUNT, IN_SYNC_MAX, SESSION, describe};
use crate::load::PARTITIONS;

const KILLS: usize = 6;
const ALL_KILLS: usize = 4;
const PAUSES: usize = 3;

fn nap(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

impl Stage<'_> {
    /// Waits until leaders have changed since there were `before` changes; how long that took.
    pub(super) fn wait_for_change(&self, before: usize) -> Result<Duration, String> {
        let begun = Instant::now();
        while self.watch.seen().changes() <= before {
            if begun.elapsed() > IN_SYNC_MAX {
                return Err("no leader changed".to_owned());
            }
            nap(20);
        }
        Ok(begun.elapsed())
    }

    /// Waits until no partition has more replicas in sync than this; how long that took.
    pub(super) fn wait_for_isr(&self, most: usize) -> Result<Duration, String> {
        let begun = Instant::now();
        loop {
            let topic = self.nodes.topic();
            let is_small = |partition: &client::Partition| partition.isr.len() <= most;
            if topic
                .as_ref()
                .is_ok_and(|topic| topic.partitions.iter().all(is_small))
            {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > IN_SYNC_MAX {
                return Err(format!("replicas stay in sync: {}", describe(&topic)));
            }
            nap(50);
        }
    }
}

/// Nothing happens.
pub(super) fn nothing(stage: &mut Stage<'_>) -> Result<String, String> {
    let before = stage.watch.seen();
    nap(15_000);
    let seen = stage.watch.seen();
    if seen.changes() > before.changes() || seen.shrinks > before.shrinks {
        return Err(format!(
            "leaders or replicas changed without a fault: {seen:?}"
        ));
    }
    Ok("no fault".to_owned())
}

/// The leader of a partition is killed under load, and comes back at any moment.
pub(super) fn leader(stage: &mut Stage<'_>) -> Result<String, String> {
    let (mut hits, mut times) = (0, Vec::new());
    for kill in 0..KILLS {
        stage.loads.records.wait_for_acks(200)?;
        nap(stage.moments.next(1_000));
        let node = stage.nodes.leader(kill as i32 % PARTITIONS)?;
        let before = stage.watch.seen().changes();
        let progress = stage.loads.records.progress();
        hits += usize::from(progress.sent > progress.acked);
        stage.nodes.kill(node);
        // Some come back before anybody has noticed, some once another leads.
        if kill % 3 == 2 {
            nap(stage.moments.next(300));
        } else {
            times.push(stage.wait_for_change(before)?);
            nap(stage.moments.next(3_000));
        }
        stage.nodes.raise(node)?;
        stage.loads.wait_for_writes()?;
        stage.nodes.wait_in_sync()?;
    }
    times.sort_unstable();
    let longest = times.last().copied().unwrap_or_default();
    if hits * 2 < KILLS {
        return Err(format!(
            "vacuous: {hits} of {KILLS} kills met unacknowledged work"
        ));
    }
    Ok(format!(
        "{KILLS} kills, {hits} with unacknowledged work, another led after at most {:.1} s",
        longest.as_secs_f64()
    ))
}

/// All nodes are killed at once.
pub(super) fn all(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut hits = 0;
    for _ in 0..ALL_KILLS {
        stage.loads.records.wait_for_acks(200)?;
        nap(stage.moments.next(1_000));
        let progress = stage.loads.records.progress();
        hits += usize::from(progress.sent > progress.acked);
        (1..=COUNT).for_each(|node| stage.nodes.kill(node));
        nap(stage.moments.next(500));
        let first = stage.moments.next(COUNT as u64) as usize;
        for at in 0..COUNT {
            stage.nodes.raise(1 + (first + at) % COUNT)?;
            nap(stage.moments.next(400));
        }
        stage.loads.wait_for_writes()?;
        stage.nodes.wait_in_sync()?;
    }
    if hits * 2 < ALL_KILLS {
        return Err(format!(
            "vacuous: {hits} of {ALL_KILLS} met unacknowledged work"
        ));
    }
    Ok(format!(
        "{ALL_KILLS} kills of all nodes, {hits} with unacknowledged work"
    ))
}

/// A leader stands still until another leads, and goes on in the belief that it still does.
pub(super) fn pause(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut longest = Duration::ZERO;
    for pause in 0..PAUSES {
        stage.loads.records.wait_for_acks(200)?;
        let node = stage.nodes.leader(pause as i32 % PARTITIONS)?;
        let before = stage.watch.seen().changes();
        let begun = Instant::now();
        stage.nodes.signal(node, "STOP")?;
        stage.wait_for_change(before)?;
        longest = longest.max(begun.elapsed());
        nap(stage.moments.next(SESSION.as_millis() as u64));
        stage.nodes.signal(node, "CONT")?;
        stage.loads.wait_for_writes()?;
        stage.nodes.wait_in_sync()?;
    }
    Ok(format!(
        "{PAUSES} leaders stood still, another led after at most {:.1} s",
        longest.as_secs_f64()
    ))
}
