//! The vote file: `quorum-state` in Kafka's JSON, and `quorum-state.check` beside it.
//!
//! Owns their contents and what makes them believable; the driver writes them. Order of a write: the check file with the sums of the
//! old and of the new contents; then the contents; each under another name, synced, renamed, the directory synced. So a crash leaves
//! contents that the check file knows, old or new. The old contents are right: nothing was sent that rests on the new ones. The first write of a directory
//! is the other way round, so that a check file without contents is always a loss.
//!
//! A file that is damaged, or lost while its check file is there, is [`VoteFile::Lost`]: the node does not vote until it is added
//! anew. It is never "epoch 0".

use std::collections::BTreeSet;
use std::fmt::Write;

use model::{BrokerId, LeaderEpoch};
use serde_json::Value;
use wire::Uuid;
use wire::records::Batch;

use crate::control::{self, Control, Unreadable};
use crate::voters::{Replica, VoterSet};

pub const FILE_NAME: &str = "quorum-state";
pub const CHECK_NAME: &str = "quorum-state.check";

/// A vote file has one line of some hundred bytes; more is not read.
pub const BYTES_MAX: usize = 64 << 10;

/// The facts of an epoch that a replica must not forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Election {
    pub epoch: LeaderEpoch,
    pub leader: Option<BrokerId>,
    pub voted: Option<Replica>,
}

impl Election {
    pub const NONE: Election = Election {
        epoch: LeaderEpoch(0),
        leader: None,
        voted: None,
    };
}

/// The contents of a directory's vote file, as far as they are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteFile {
    /// A directory that never took part in an election.
    Fresh,
    Known(Election),
    /// There was one, and it cannot be believed.
    Lost,
}

/// Contents of the vote file, in the version that belongs to `kraft.version`.
#[must_use]
pub fn encode(election: &Election, kraft_version: i16, voters: &VoterSet) -> String {
    let leader = election.leader.map_or(-1, |id| id.0);
    let voted = election.voted.map_or(-1, |replica| replica.id.0);
    let epoch = election.epoch;
    if kraft_version >= 1 {
        let directory = election
            .voted
            .map_or(Uuid::ZERO, |replica| replica.directory);
        return format!(
            "{{\"leaderId\":{leader},\"leaderEpoch\":{epoch},\"votedId\":{voted},\
             \"votedDirectoryId\":\"{directory}\",\"data_version\":1}}"
        );
    }
    let mut ids = String::new();
    for (at, voter) in voters.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(ids, "{comma}{{\"voterId\":{}}}", voter.replica.id);
    }
    format!(
        "{{\"clusterId\":\"\",\"leaderId\":{leader},\"leaderEpoch\":{epoch},\"votedId\":{voted},\
         \"appliedOffset\":0,\"currentVoters\":[{ids}],\"data_version\":0}}"
    )
}

/// Contents of the check file for a write of `next` over `old`.
#[must_use]
pub fn check(old: Option<&[u8]>, next: &[u8]) -> String {
    let mut text = String::from("0\n");
    for contents in old.into_iter().chain([next]) {
        let _ = writeln!(text, "{:08x} {}", crc(contents), contents.len());
    }
    text
}

/// Judges a vote file and its check file, either of which may not exist.
#[must_use]
pub fn verify(file: Option<&[u8]>, check: Option<&[u8]>) -> VoteFile {
    match (file, check) {
        (None, None) => VoteFile::Fresh,
        (None, Some(_)) => VoteFile::Lost,
        // Kafka writes no check file, nor does a first write that a crash cut short.
        (Some(file), None) => decode(file).map_or(VoteFile::Lost, VoteFile::Known),
        (Some(file), Some(check)) => {
            let sum = (crc(file), file.len());
            let is_known = sums(check).is_some_and(|sums| sums.contains(&sum));
            let election = decode(file).filter(|_| is_known);
            election.map_or(VoteFile::Lost, VoteFile::Known)
        }
    }
}

fn crc(contents: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(contents)
}

/// The sums in a check file: one or two of them.
fn sums(check: &[u8]) -> Option<Vec<(u32, usize)>> {
    let text = std::str::from_utf8(check.get(..check.len().min(BYTES_MAX))?).ok()?;
    let mut lines = text.strip_suffix('\n')?.split('\n');
    if lines.next()? != "0" {
        return None;
    }
    let sums: Option<Vec<_>> = lines
        .map(|line| {
            let (sum, len) = line.split_once(' ')?;
            Some((u32::from_str_radix(sum, 16).ok()?, len.parse().ok()?))
        })
        .collect();
    sums.filter(|sums| (1..=2).contains(&sums.len()))
}

/// Reads contents of either version; `None` for what no writer wrote.
#[must_use]
pub fn decode(file: &[u8]) -> Option<Election> {
    if file.len() > BYTES_MAX {
        return None;
    }
    let json: Value = serde_json::from_slice(file).ok()?;
    let number = |name: &str| {
        let value = json.get(name)?.as_i64()?;
        i32::try_from(value).ok().filter(|value| *value >= -1)
    };
    let directory = match number("data_version")? {
        0 => Uuid::ZERO,
        1 => json.get("votedDirectoryId")?.as_str()?.parse().ok()?,
        _ => return None,
    };
    let id = |value: i32| (value >= 0).then_some(BrokerId(value));
    let voted = id(number("votedId")?);
    Some(Election {
        epoch: LeaderEpoch(number("leaderEpoch")?).max(LeaderEpoch(0)),
        leader: id(number("leaderId")?),
        voted: voted.map(|id| Replica { id, directory }),
    })
}

/// The voters that contents of version 0 name; none in those of version 1, where the log has them.
#[must_use]
pub fn named_voters(file: &[u8]) -> Vec<BrokerId> {
    let json: Value = serde_json::from_slice(file).unwrap_or_default();
    let voters = json.get("currentVoters").and_then(Value::as_array);
    let ids = voters.into_iter().flatten();
    let ids = ids.filter_map(|voter| i32::try_from(voter.get("voterId")?.as_i64()?).ok());
    ids.map(BrokerId).collect()
}

/// The nodes that voted in the life of a directory, as far as settings named them (`kraft.version` 0): those of the vote file, and of each
/// election in the log. A node whose settings name others would lead without them, and is not to start.
pub fn voters_before(file: &[u8], batches: &[Batch]) -> Result<BTreeSet<BrokerId>, Unreadable> {
    let mut voters: BTreeSet<BrokerId> = named_voters(file).into_iter().collect();
    for batch in batches {
        for (_, record) in control::read(batch)? {
            if let Control::LeaderChange(change) = record {
                voters.extend(change.voters.iter().map(|voter| BrokerId(voter.voter_id)));
            }
        }
    }
    Ok(voters)
}

#[cfg(test)]
mod tests;
