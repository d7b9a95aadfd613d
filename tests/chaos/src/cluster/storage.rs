//! Nodes whose disks lose what was not synced, fail, dawdle, or come back from yesterday or empty.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::cluster::Stage;
use crate::cluster::nodes::{COUNT, Nodes, SESSION};
use crate::device::Lost;
use crate::load::PARTITIONS;

const CUTS: usize = 6;
const CUTS_MAX: usize = 4 * CUTS;
const ALL_CUTS: usize = 4;
/// A slow disk may lead no longer than this.
const SLOW_LEADS_MAX: Duration = Duration::from_secs(10);
const SYNC_MILLIS: u32 = 2_000;
/// Slow enough that a leader has to wait for this follower, and no disk that is given up.
const FOLLOWER_SYNC_MILLIS: u32 = 15;
const PIPELINED: &str = "pipelined";
const PIPELINED_MILLIS: u64 = 8_000;
/// Far below the time after which a leader gives up a follower that it does not hear.
const SILENT_MILLIS_MAX: u64 = 5_000;
const END_MAX: Duration = Duration::from_secs(60);

fn nap(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

impl Stage<'_> {
    fn settle(&self) -> Result<(), String> {
        self.loads.wait_for_writes()?;
        self.nodes.wait_in_sync().map(drop)
    }

    /// One of them.
    fn any_node(&mut self) -> usize {
        1 + self.moments.next(COUNT as u64) as usize
    }
}

/// One node loses its power and everything it had not synced.
pub(super) fn power_cut(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut lost = 0;
    for _ in 0..CUTS {
        stage.loads.records.wait_for_acks(200)?;
        nap(stage.moments.next(900));
        let node = stage.any_node();
        lost += stage.nodes.cut_power(&[node])?;
        nap(stage.moments.next(3_000));
        stage.nodes.raise(node)?;
        stage.settle()?;
    }
    told_lost(lost, format!("{CUTS} power cuts of one node"))
}

/// All lose their power at once.
pub(super) fn power_cut_all(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut lost = 0;
    for _ in 0..ALL_CUTS {
        stage.loads.records.wait_for_acks(200)?;
        nap(stage.moments.next(900));
        lost += stage.nodes.cut_power(&[1, 2, 3])?;
        let first = stage.any_node();
        for at in 0..COUNT {
            stage.nodes.raise(1 + (first + at) % COUNT)?;
            nap(stage.moments.next(1_500));
        }
        stage.settle()?;
    }
    told_lost(lost, format!("{ALL_CUTS} power cuts of all nodes"))
}

/// One loses its power, the others stand still, and they go on in another order (NATS issue 7567).
pub(super) fn power_cut_and_pause(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut lost = 0;
    for round in 0..ALL_CUTS {
        stage.loads.records.wait_for_acks(200)?;
        nap(stage.moments.next(900));
        let node = stage.nodes.leader(round as i32 % PARTITIONS)?;
        let [one, other] = Nodes::others(node)[..] else {
            return Err("three nodes".to_owned());
        };
        lost += stage.nodes.cut_power(&[node])?;
        nap(stage.moments.next(300));
        stage.nodes.signal(one, "STOP")?;
        stage.nodes.signal(other, "STOP")?;
        nap(stage.moments.next(1_000));
        stage.nodes.raise(node)?;
        nap(SESSION.as_millis() as u64 + stage.moments.next(2_000));
        stage.nodes.signal(other, "CONT")?;
        nap(stage.moments.next(3_000));
        stage.nodes.signal(one, "CONT")?;
        stage.settle()?;
    }
    told_lost(
        lost,
        format!("{ALL_CUTS} power cuts with the others standing still"),
    )
}

/// The power goes at one node or at all, and with it blocks that were written and not flushed: some, whole or in part.
pub(super) fn device_caches(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut cuts = 0;
    // Chance decides how much of a cache is lost: a few more cuts where the first ones happened to take nothing of a kind.
    for round in 0..CUTS_MAX {
        stage.loads.records.wait_for_acks(200)?;
        nap(stage.moments.next(900));
        let nodes = match round % 3 {
            2 => vec![1, 2, 3],
            _ => vec![stage.any_node()],
        };
        cuts += nodes.len();
        stage.nodes.cut_power(&nodes)?;
        for node in nodes {
            stage.nodes.raise(node)?;
            nap(stage.moments.next(1_000));
        }
        stage.settle()?;
        let lost = stage.nodes.lost();
        let is_lost = |of: fn(&Lost) -> usize| lost.iter().any(|lost| of(lost) > 0);
        if CUTS <= round + 1 && is_lost(|lost| lost.dropped) && is_lost(|lost| lost.torn) {
            break;
        }
    }
    let lost = stage.nodes.lost();
    let sum = |of: fn(&Lost) -> usize| lost.iter().map(of).sum::<usize>();
    let (dropped, torn) = (sum(|lost| lost.dropped), sum(|lost| lost.torn));
    if dropped == 0 || torn == 0 {
        return Err(format!("vacuous: {cuts} devices lost {lost:?}"));
    }
    Ok(format!(
        "{cuts} devices lost their power: {dropped} blocks dropped, {torn} torn, {} kept",
        sum(|lost| lost.kept)
    ))
}

fn told_lost(lost: usize, what: String) -> Result<String, String> {
    if lost == 0 {
        return Err(format!("vacuous: {what} took nothing"));
    }
    Ok(format!(
        "{what}, {lost} written bytes were lost with the power"
    ))
}

/// Syncs of a leader fail: it leaves, others serve, and with a good disk it comes back.
pub(super) fn failing_sync(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut ended = 0;
    for (round, how) in ["sync-fails", "write-fails", "sync-fails"]
        .into_iter()
        .enumerate()
    {
        stage.loads.records.wait_for_acks(200)?;
        let node = stage.nodes.leader(round as i32)?;
        let before = stage.watch.seen().changes();
        stage.ground.disk(node)?.behave(how)?;
        stage.wait_for_change(before)?;
        // The others serve what it led.
        stage
            .loads
            .wait_for_writes()
            .map_err(|why| format!("{how} on node {node}: {why}"))?;
        nap(1_000);
        if stage.nodes.is_running(node) {
            return Err(format!(
                "{how}: node {node} runs on with a disk that failed"
            ));
        }
        ended += 1;
        stage.ground.disk(node)?.behave("")?;
        stage.nodes.kill(node);
        stage.nodes.raise(node)?;
        stage.settle()?;
    }
    Ok(format!(
        "{ended} leaders whose disk failed ended, the others served"
    ))
}

/// A leader's syncs take two seconds each: it must not lead any longer.
pub(super) fn slow_disk(stage: &mut Stage<'_>) -> Result<String, String> {
    stage.loads.records.wait_for_acks(200)?;
    let node = stage.nodes.leader(0)?;
    stage
        .ground
        .disk(node)?
        .behave(&format!("sync-takes {SYNC_MILLIS}"))?;
    let begun = Instant::now();
    let left = loop {
        let topic = stage.nodes.topic()?;
        let leads = |partition: &client::Partition| partition.leader == Some(node as i32);
        if !topic.partitions.iter().any(leads) {
            break Some(begun.elapsed());
        }
        if begun.elapsed() > SLOW_LEADS_MAX {
            break None;
        }
        nap(100);
    };
    // The leader of now serves as if nothing were.
    let well = stage.loads.wait_for_writes();
    stage.ground.disk(node)?.behave("")?;
    well?;
    match left {
        Some(left) => Ok(format!(
            "syncs of {SYNC_MILLIS} ms: leadership left within {:.1} s",
            left.as_secs_f64()
        )),
        None => Err(format!(
            "node {node} leads with syncs of {SYNC_MILLIS} ms after {} s",
            SLOW_LEADS_MAX.as_secs()
        )),
    }
}

/// A producer has as much under way as its leader takes while a follower's syncs are slow: it hears of its records all the time, and others are
/// served. On a busy machine the follower may lag for longer than it may, and leave the ISR.
pub(super) fn pipelined(stage: &mut Stage<'_>) -> Result<String, String> {
    // Each segment costs the slow disk four syncs, so the nodes' own segments of 1 MiB would try these alone.
    let segments = [("segment.bytes", "134217728")];
    stage
        .nodes
        .create_with(PIPELINED, COUNT as i16, &segments)?;
    let topic = stage.nodes.ask(|client| client.topic(PIPELINED))?;
    let first = topic.partitions.iter().find(|of| of.index == 0);
    let leader = first.and_then(|of| of.leader).ok_or("no leader")? as usize;
    let follower = Nodes::others(leader)[0];
    let mut told = Vec::new();
    for bytes in [1_000, 1_000_000] {
        let producer = stage.loads.flood(PIPELINED, bytes)?;
        producer.wait_for("silence", 2, END_MAX)?;
        let slow = format!("sync-takes {FOLLOWER_SYNC_MILLIS}");
        stage.ground.disk(follower)?.behave(&slow)?;
        nap(PIPELINED_MILLIS);
        let well = stage.loads.wait_for_writes();
        stage.ground.disk(follower)?.behave("")?;
        let took = well?;
        let lines = producer.finish(END_MAX)?;
        let numbers = lines.iter().map(|line| {
            let mut numbers = line.split(' ').skip(1).map(str::parse::<u64>);
            let silence = numbers.next().and_then(Result::ok);
            silence.zip(numbers.next().and_then(Result::ok))
        });
        let numbers: Vec<(u64, u64)> = numbers.collect::<Option<_>>().ok_or("no number")?;
        let silence = numbers.iter().map(|(silence, _)| *silence).max();
        let silence = silence.unwrap_or_default();
        let acked = numbers.last().map_or(0, |(_, acked)| *acked);
        told.push(format!(
            "{acked} records of {bytes} B, silent for {silence} ms at most, others wrote within {took:.1?}"
        ));
        if SILENT_MILLIS_MAX < silence {
            return Err(told.join("; "));
        }
    }
    Ok(told.join("; "))
}

/// A node gets its directory of some time ago back, once after a clean stop and once after a kill, when it may lead still.
pub(super) fn rollback(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut bytes = 0;
    for is_clean in [true, false] {
        let node = stage.nodes.leader(0)?;
        let data = stage.nodes.data(node);
        let old = data.with_extension("yesterday");
        stage.nodes.stop(node)?;
        copy(&data, &old)?;
        stage.nodes.raise(node)?;
        stage.settle()?;
        stage.loads.records.wait_for_acks(2_000)?;
        if is_clean {
            stage.nodes.stop(node)?;
        } else {
            stage.nodes.kill(node);
        }
        let newer = size(&data).saturating_sub(size(&old));
        bytes += newer;
        std::fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
        std::fs::rename(&old, &data).map_err(|error| error.to_string())?;
        stage.nodes.raise(node)?;
        stage
            .settle()
            .map_err(|why| format!("clean {is_clean}: {why}"))?;
    }
    Ok(format!(
        "2 directories rolled back, at least {bytes} bytes younger before"
    ))
}

/// A node comes back with nothing: it is in sync only with everything.
pub(super) fn wiped(stage: &mut Stage<'_>) -> Result<String, String> {
    let mut bytes = 0;
    for is_clean in [true, false] {
        let node = stage.nodes.leader(0)?;
        let data = stage.nodes.data(node);
        if is_clean {
            stage.nodes.stop(node)?;
        } else {
            stage.nodes.kill(node);
        }
        bytes += size(&data);
        std::fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
        stage.nodes.raise(node)?;
        stage
            .settle()
            .map_err(|why| format!("clean {is_clean}: {why}"))?;
    }
    Ok(format!("2 directories of {bytes} bytes wiped"))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let done = Command::new("cp").arg("-a").args([from, to]).status();
    match done {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("cp {}: {other:?}", from.display())),
    }
}

/// Of all files below.
fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}
