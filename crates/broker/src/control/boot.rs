//! How this node begins in its quorum: by its settings, and by the log, the snapshots and the vote that it finds.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use env::Env;
use meta::{Endpoint, Image};
use model::{BrokerId, LeaderEpoch, Offset};
use partition::{Partition, Restart};
use raft::{
    Boot, Election, History, LogView, Me, Replica, SnapshotId, VersionRange, VoteFile, Voter,
    VoterSet,
};
use wire::Uuid;
use wire::records::Batch;

use super::snapshot_files::{Loaded, SnapshotDir};
use super::vote_file;
use crate::settings::Settings;

const NO_SNAPSHOT: &str = "the snapshot that it begins at is missing or damaged: restore the directory `snapshots` from a copy; or, where this \
     node is one of several and the other voters are a majority, start it with an empty directory, and it fetches all from them";

/// Why a node cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error("metadata log: {0}")]
    Log(&'static str),
    #[error(
        "no node at {servers} says which cluster it is of: start one of them first, or name the voters in controller.quorum.voters"
    )]
    UnknownCluster { servers: String },
    #[error("cannot read {path}: {error}")]
    Read { path: String, error: io::Error },
}

/// A snapshot was fetched, and the process ended before the log began at it.
pub(crate) fn begin_at(log: &Arc<Partition>, id: SnapshotId) -> Result<(), BootError> {
    let restart = Restart {
        log_start: id.end,
        at: id.end,
        epoch: id.epoch,
    };
    log.restart(restart)
        .map_err(|_| BootError::Log("it cannot begin at its snapshot"))?;
    let dir = log.dir();
    while dir.has_queued() && !dir.is_failed() {
        dir.commit(&mut Vec::new());
    }
    Ok(())
}

/// The snapshots of the metadata that were found.
pub(crate) struct Snapshots {
    /// Oldest first, with their sizes.
    all: Vec<(SnapshotId, u64)>,
    /// The newest that is whole.
    pub(crate) newest: Option<Loaded>,
}

impl Snapshots {
    /// Reads the newest one. One that is damaged is reported, and the one before it used: the log still has what is between.
    pub(crate) fn find(env: &Env, path: &Path) -> Result<Snapshots, BootError> {
        let dir = SnapshotDir::of(path);
        let mut all = dir.list(&*env.disk).map_err(|error| BootError::Read {
            path: path.display().to_string(),
            error,
        })?;
        let mut newest = None;
        while let Some((id, _)) = all.last() {
            match dir.load(&*env.disk, *id) {
                Ok(loaded) => {
                    newest = Some(loaded);
                    break;
                }
                Err(error) => {
                    tracing::error!(target: env::logs::RECOVERY, "snapshot of the metadata passed over: {error}");
                    all.pop();
                }
            }
        }
        Ok(Snapshots { all, newest })
    }

    /// Refuses a log that begins behind them: read alone it would tell of other metadata than there are.
    pub(crate) fn check_start(&self, log_start: Offset) -> Result<(), BootError> {
        if log_start <= self.end() {
            Ok(())
        } else {
            Err(BootError::Log(NO_SNAPSHOT))
        }
    }

    /// The metadata as of the newest one.
    pub(crate) fn image(&self) -> Image {
        let newest = self.newest.as_ref();
        newest.map_or_else(Image::default, |newest| newest.image.clone())
    }

    pub(crate) fn end(&self) -> Offset {
        self.newest
            .as_ref()
            .map_or(Offset(0), |newest| newest.id.end)
    }
}

/// The finds on disk, for the quorum. The only voter knows that all of its log is committed.
pub(crate) fn boot(
    env: &Env,
    broker: &config::Broker,
    dir: &Path,
    (snapshots, batches, log_start): (&Snapshots, &[Batch], Offset),
    committed: Offset,
) -> Result<Boot, BootError> {
    let end = batches.last().map_or(Offset(0), |last| last.next_offset());
    let newest = snapshots.newest.as_ref().map(|newest| newest.id);
    let first = if end < snapshots.end() {
        newest
    } else if log_start == Offset(0) {
        None
    } else {
        // A snapshot may be gone before the log is known to begin at the next one.
        let mut ids = snapshots.all.iter().map(|(id, _)| *id);
        let at_start = ids.find(|id| log_start <= id.end);
        Some(at_start.ok_or(BootError::Log(NO_SNAPSHOT))?)
    };
    let mut log = LogView::starting_at(first);
    let history = history(broker, snapshots, batches)?;
    let start = first.map_or(Offset(0), |first| first.end);
    for batch in batches.iter().filter(|batch| start <= batch.base_offset()) {
        log.note(batch)
            .map_err(|_| BootError::Log("its batches are out of order"))?;
    }
    for (id, size) in &snapshots.all {
        log.add_snapshot(*id, *size);
    }
    log.believe();
    let vote = vote_file::load(&*env.disk, dir).map_err(|error| unread(dir, error))?;
    let vote = if is_only_voter(&history, broker.node_id) {
        vote_alone(vote, &log)
    } else {
        vote
    };
    Ok(Boot {
        log,
        history,
        vote,
        committed,
    })
}

/// The voters as the snapshots and the log have them, and those of the settings where neither names any.
pub(crate) fn history(
    broker: &config::Broker,
    snapshots: &Snapshots,
    batches: &[Batch],
) -> Result<History, BootError> {
    let mut history = History::new(voters(broker));
    if let Some(newest) = &snapshots.newest {
        history.restart(newest.id, &newest.facts);
    }
    let behind = batches
        .iter()
        .filter(|batch| snapshots.end() <= batch.base_offset());
    for batch in behind {
        history
            .note(batch)
            .map_err(|_| BootError::Log("a record of its voters cannot be read"))?;
    }
    Ok(history)
}

/// The nodes that voted in the life of this directory, as far as settings named them.
pub(crate) fn voters_before(
    env: &Env,
    dir: &Path,
    batches: &[Batch],
) -> Result<BTreeSet<BrokerId>, BootError> {
    let file = vote_file::contents(&*env.disk, dir).map_err(|error| unread(dir, error))?;
    raft::quorum_state::voters_before(&file, batches)
        .map_err(|_| BootError::Log("a record of its voters cannot be read"))
}

fn unread(dir: &Path, error: io::Error) -> BootError {
    let path = dir.join(raft::quorum_state::FILE_NAME);
    let path = path.display().to_string();
    BootError::Read { path, error }
}

/// True if this node alone votes.
pub(crate) fn is_only_voter(history: &History, node: BrokerId) -> bool {
    let voters = history.voters();
    voters.len() == 1 && voters.get(node).is_some()
}

/// The voters of the settings. Their directories are not known, and none is asked for (`kraft.version` 0).
fn voters(broker: &config::Broker) -> VoterSet {
    let voter = |id, listeners| Voter {
        replica: Replica {
            id,
            directory: Uuid::ZERO,
        },
        listeners,
        versions: VersionRange::default(),
    };
    if broker.quorum.is_alone(broker.node_id) {
        return VoterSet::of([voter(broker.node_id, Vec::new())]);
    }
    let named = broker.quorum.voters.iter().map(|known| {
        let listener = raft::Listener {
            name: controller_listener_name(broker),
            endpoint: raft::Endpoint {
                host: known.host.clone(),
                port: known.port,
            },
        };
        voter(known.id, vec![listener])
    });
    VoterSet::of(named)
}

/// The listener at which nodes reach each other.
fn controller_listener(broker: &config::Broker) -> Option<&config::Listener> {
    let own = broker.quorum.controller_listener.as_ref();
    own.or_else(|| broker.listeners.first())
}

fn controller_listener_name(broker: &config::Broker) -> String {
    let listener = controller_listener(broker).map(|listener| listener.name.clone());
    listener.unwrap_or_else(|| "CONTROLLER".to_owned())
}

pub(crate) fn quorum_settings(quorum: &config::Quorum) -> raft::Settings {
    raft::Settings {
        election_timeout: quorum.election_timeout,
        election_backoff_max: quorum.election_backoff_max,
        fetch_timeout: quorum.fetch_timeout,
        request_timeout: quorum.request_timeout,
        retry_backoff: quorum.retry_backoff,
        may_become_voter: quorum.roles.controller,
        joins: quorum.joins,
        ..raft::Settings::default()
    }
}

/// The only voter needs no memory of votes that it gave to others: a file that is lost is begun anew behind the log.
fn vote_alone(found: VoteFile, log: &LogView) -> VoteFile {
    let epoch = log.last_epoch();
    match found {
        VoteFile::Known(election) if epoch <= election.epoch => found,
        VoteFile::Fresh if epoch == LeaderEpoch(0) => found,
        _ => VoteFile::Known(Election {
            epoch,
            ..Election::NONE
        }),
    }
}

/// This node as the quorum knows it, of `cluster`, or one that may begin the cluster `proposal`. A voter is dialled where the settings say, as the others know it, or else at its door for nodes.
/// `endpoints` are all doors, as they are bound.
pub(crate) fn quorum_identity(
    settings: &Settings,
    log: &Partition,
    (cluster, proposal): (Option<String>, String),
    endpoints: &[Endpoint],
) -> Me {
    let broker = &settings.broker;
    let listener = controller_listener_name(broker);
    let voter = broker
        .quorum
        .voters
        .iter()
        .find(|voter| voter.id == broker.node_id);
    let bound = || endpoints.iter().find(|endpoint| endpoint.name == listener);
    let endpoint = voter.map(|voter| (&voter.host, voter.port));
    let endpoint = endpoint.or_else(|| bound().map(|bound| (&bound.host, bound.port)));
    let listeners = endpoint.map(|(host, port)| raft::Listener {
        name: listener.clone(),
        endpoint: raft::Endpoint {
            host: host.clone(),
            port,
        },
    });
    let seeds = broker
        .quorum
        .servers
        .iter()
        .map(|(host, port)| raft::Endpoint {
            host: host.clone(),
            port: *port,
        });
    Me {
        replica: Replica {
            id: broker.node_id,
            directory: log.dir().id,
        },
        cluster,
        proposal,
        listeners: listeners.into_iter().collect(),
        listener,
        seeds: seeds.collect(),
        versions: VersionRange { min: 0, max: 1 },
    }
}
