//! Files of replicas that somebody changes: bits that flip, tails that go, pieces of another place, in segments and in what is beside them.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::cluster::Stage;
use crate::cluster::nodes::{COUNT, Nodes};
use crate::load::TOPIC;

/// Enough for several segments of every partition.
const RECORDS: usize = 60_000;
/// Damage that somebody has met is repaired so soon.
const REPAIRED_MAX: Duration = Duration::from_secs(60);

/// A place in a file, in thousandths of its length.
#[derive(Clone, Copy)]
enum Edit {
    Flip(u64),
    /// Cuts off what is behind.
    Cut(u64),
    /// Puts what is at the first place at the second.
    Move(u64, u64),
}

impl Edit {
    fn apply(self, path: &Path) -> Result<(), String> {
        let told = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(told)?;
        let length = file.metadata().map_err(told)?.len();
        let at = |place: u64| (length * place / 1_000).min(length.saturating_sub(1));
        match self {
            Edit::Flip(place) => {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at(place)).map_err(told)?;
                file.write_all_at(&[byte[0] ^ 0x10], at(place))
                    .map_err(told)?;
            }
            Edit::Cut(place) => file.set_len(at(place)).map_err(told)?,
            Edit::Move(from, to) => {
                let mut piece = vec![0; 4096.min(length as usize / 8)];
                file.read_exact_at(&mut piece, at(from)).map_err(told)?;
                file.write_all_at(&piece, at(to)).map_err(told)?;
            }
        }
        file.sync_all().map_err(told)
    }
}

/// Segments of a partition on one node, the oldest first.
fn segments(nodes: &Nodes, node: usize, partition: i32) -> Vec<PathBuf> {
    files(
        &nodes.data(node).join(format!("{TOPIC}-{partition}")),
        &["log"],
    )
}

fn files(dir: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_of = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| extensions.contains(&extension))
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_of).collect();
    files.sort();
    files
}

impl Stage<'_> {
    fn settle_after(&self, what: &str) -> Result<(), String> {
        let settled = self
            .loads
            .wait_for_writes()
            .and_then(|_| self.nodes.wait_in_sync());
        settled
            .map(drop)
            .map_err(|why| format!("after {what}: {why}"))
    }

    /// Has every replica read from its disk until all are the same; damage that is met so is repaired. How often they differed.
    fn verify(&self, what: &str) -> Result<usize, String> {
        let begun = Instant::now();
        let mut differed = 0;
        loop {
            let verified = Command::new(self.esker)
                .args(["cluster", "verify", TOPIC, "--bootstrap-server"])
                .arg(self.nodes.bootstrap())
                .output()
                .map_err(|error| format!("esker cluster verify: {error}"))?;
            if verified.status.success() {
                return Ok(differed);
            }
            let told = String::from_utf8_lossy(&verified.stderr).into_owned();
            if begun.elapsed() > REPAIRED_MAX {
                return Err(format!("after {what} replicas differ: {told}"));
            }
            differed += 1;
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Lines of all nodes that have this.
    fn told(&self, words: &str) -> usize {
        let is_told = |line: &&str| line.contains(words);
        (1..=COUNT)
            .map(|node| self.nodes.words(node).lines().filter(is_told).count())
            .sum()
    }

    /// The evidence of edits: places that were repaired, from another replica or by fetching the log behind it again.
    fn told_of_repairs(&self) -> Result<String, String> {
        let repaired = self.told(" are repaired: ");
        let cut = self.told(" are lost here: ");
        // The end of a newest segment comes back from the journal.
        if repaired < 3 {
            return Err(format!("vacuous: {repaired} places were repaired in place"));
        }
        Ok(format!(
            "{repaired} places repaired in place, {cut} logs cut and fetched again"
        ))
    }
}

/// Segments of one replica change, while it is stopped, after a kill, and while it serves.
pub(super) fn segments_of_one(stage: &mut Stage<'_>) -> Result<String, String> {
    stage.loads.records.wait_for_acks(RECORDS)?;
    let edits = [
        (
            "a flipped bit in the oldest segment",
            true,
            Edit::Flip(500),
            0,
        ),
        ("a segment cut short", false, Edit::Cut(600), 0),
        ("a piece of another place", true, Edit::Move(200, 700), 0),
        (
            "a newest segment cut short",
            false,
            Edit::Cut(900),
            usize::MAX,
        ),
    ];
    for (partition, (what, is_clean, edit, which)) in (0..).zip(edits) {
        let node = stage.nodes.leader(partition)?;
        if is_clean {
            stage.nodes.stop(node)?;
        } else {
            stage.nodes.kill(node);
        }
        let segments = segments(&stage.nodes, node, partition);
        let segment = &segments[which.min(segments.len() - 1)];
        edit.apply(segment)?;
        stage
            .nodes
            .raise(node)
            .map_err(|why| format!("after {what}: {why}"))?;
        stage.settle_after(what)?;
        stage.verify(what)?;
    }
    let (node, partition) = (stage.nodes.leader(4)?, 4);
    let segments = segments(&stage.nodes, node, partition);
    Edit::Flip(300).apply(&segments[0])?;
    std::thread::sleep(Duration::from_secs(3));
    let what = "a flipped bit under a leader that serves";
    stage.settle_after(what)?;
    let differed = stage.verify(what)?;
    Ok(format!(
        "5 edits of segments: {}, the last after {differed} looks",
        stage.told_of_repairs()?
    ))
}

/// Files beside the segments of one replica change.
pub(super) fn beside_segments(stage: &mut Stage<'_>) -> Result<String, String> {
    stage.loads.records.wait_for_acks(RECORDS)?;
    let mut edited = 0;
    for (round, extensions) in [
        &["index", "timeindex"][..],
        &["snapshot", "txnindex"],
        &["headcheck"],
    ]
    .into_iter()
    .enumerate()
    {
        let node = 1 + round % COUNT;
        stage.nodes.kill(node);
        let dirs = std::fs::read_dir(stage.nodes.data(node))
            .into_iter()
            .flatten()
            .flatten();
        let dirs = dirs.map(|entry| entry.path()).filter(|dir| {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            dir.is_dir() && !name.starts_with("__cluster_metadata")
        });
        for (at, file) in dirs.flat_map(|dir| files(&dir, extensions)).enumerate() {
            if std::fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 8) {
                let edit = [Edit::Flip(500), Edit::Cut(400), Edit::Move(0, 500)][at % 3];
                edit.apply(&file)?;
                edited += 1;
            }
        }
        stage
            .nodes
            .raise(node)
            .map_err(|why| format!("after {extensions:?}: {why}"))?;
        stage.settle_after(&format!("edits of {extensions:?}"))?;
    }
    if edited == 0 {
        return Err("vacuous: nothing to edit".to_owned());
    }
    Ok(format!("{edited} files edited"))
}

/// Every replica has lost something else, and together they have everything.
pub(super) fn helix(stage: &mut Stage<'_>) -> Result<String, String> {
    stage.loads.records.wait_for_acks(RECORDS)?;
    stage.nodes.stop_all()?;
    let mut edited = 0;
    for node in 1..=COUNT {
        for partition in [0, 3] {
            let segments = segments(&stage.nodes, node, partition);
            // Disjoint thirds of the oldest segment, which is the same on all.
            let place = 150 + 300 * (node as u64 - 1);
            if let Some(oldest) = segments.first() {
                Edit::Flip(place).apply(oldest)?;
                edited += 1;
            }
        }
    }
    (1..=COUNT).try_for_each(|node| stage.nodes.raise(node))?;
    let what = "disjoint damage on all replicas";
    stage.settle_after(what)?;
    let differed = stage.verify(what)?;
    let repaired = stage.told(" are repaired: ");
    if repaired < edited {
        return Err(format!("{edited} places were damaged, {repaired} repaired"));
    }
    Ok(format!(
        "{edited} replicas damaged in disjoint places: {}, the same after {differed} looks",
        stage.told_of_repairs()?
    ))
}
