//! A voter whose quorum lost its majority for good, and an operator's word that it is the only voter from now on.
//!
//! Owns what the directory of a stopped broker shows of itself, and the one step that cannot be undone: a snapshot of everything in the
//! metadata log, behind its end and in an epoch of its own, that names this node as the only voter and has all other brokers fenced. The
//! next start begins the log at that snapshot, so no replica can take the former voters from it. Records, partitions and the id of the cluster stay. Nothing is
//! changed before the snapshot has its name, which it gets when it is whole and synced.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::Env;
use meta::checkpoint::{self, Head};
use meta::decide::heartbeat::fence;
use meta::{Endpoint, Image, Place, RecordWriteError, ReplayError, Resource};
use model::{BrokerId, LeaderEpoch, Offset};
use partition::{Found, Identity, MetadataLog, OpenError, Recovery};
use raft::{Listener, Replica, SnapshotFacts, SnapshotId, VersionRange, VoteFile, Voter, VoterSet};
use wire::Uuid;

use super::recover::{IDENTITY, METADATA_TOPIC_ID, metadata_log_config};
use crate::control::METADATA_TOPIC;
use crate::control::boot::{BootError, Snapshots, history};
use crate::control::snapshot_files::SnapshotDir;
use crate::control::{self, Unfit, vote_file};
use crate::settings::Settings;

/// The level of `kraft.version` in which the log names the voters, and they can change.
const DYNAMIC_VOTERS: i16 = 1;

/// Sizes that a look at one directory needs; a real start takes those of its machine.
const MACHINE: config::Machine = config::Machine {
    cores: 1,
    memory_bytes: 1 << 30,
    descriptors: 1 << 10,
};

#[derive(Debug, thiserror::Error)]
pub enum SurvivorError {
    #[error("{} has no metadata log: name the directory of the node that has one", .0.display())]
    NoMetadata(PathBuf),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("metadata log: {0}")]
    Unfit(#[from] Unfit),
    #[error(transparent)]
    Boot(#[from] BootError),
    #[error("metadata log: {0}")]
    Replay(#[from] ReplayError),
    #[error("cannot write the snapshot: {0}")]
    Encode(#[from] RecordWriteError),
    #[error("{path}: {error}")]
    Io { path: String, error: std::io::Error },
    #[error("{} is of no cluster yet: name the directory of a node that was a member", .0.display())]
    Nameless(PathBuf),
    #[error("no epoch is left behind {0}")]
    LastEpoch(LeaderEpoch),
}

/// Partitions of the cluster, by what this node has of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// This node was in sync or eligible: it has all that was acknowledged to `acks=all`.
    pub whole: usize,
    /// This node has a replica that may lack the newest records.
    pub behind: usize,
    /// No replica is here.
    pub elsewhere: usize,
}

/// A locked directory of a stopped broker, with its metadata. It stays locked as long as this lives.
pub struct Survivor {
    pub node: BrokerId,
    pub cluster_id: String,
    /// The metadata log ends here, in `epoch`: of several survivors the one with the later epoch, then the higher end, has the most.
    pub end: Offset,
    pub epoch: LeaderEpoch,
    /// Those of the log, or of the vote file where the settings name them.
    pub voters: Vec<BrokerId>,
    pub brokers: Vec<BrokerId>,
    pub topics: usize,
    pub shares: Shares,
    env: Env,
    path: PathBuf,
    settings: Arc<config::Broker>,
    image: Image,
    own: Voter,
    /// The latest epoch that this node knows or voted in.
    promised: LeaderEpoch,
    /// Has the lock.
    _recovery: Recovery,
}

impl Survivor {
    /// Locks a directory and reads its metadata.
    pub fn open(env: &Env, path: &Path) -> Result<Survivor, SurvivorError> {
        let io = |error| SurvivorError::Io {
            path: path.display().to_string(),
            error,
        };
        let no_metadata = || SurvivorError::NoMetadata(path.to_path_buf());
        if !env.disk.exists(&path.join(IDENTITY)).map_err(io)? {
            return Err(no_metadata());
        }
        let broker = config::Broker::new(config::Settings::default(), MACHINE);
        let broker = broker.expect("the defaults fit each other");
        let settings = Settings::new(broker, &Image::default());
        let fresh = || Identity {
            cluster_id: None,
            node_id: 0,
        };
        let (mut recovery, identity) = Recovery::begin(env, path, settings.dir(), &fresh)?;
        if !recovery.has_metadata(METADATA_TOPIC_ID, METADATA_TOPIC)? {
            return Err(no_metadata());
        }
        let found = Found {
            topic: METADATA_TOPIC.into(),
            epoch: LeaderEpoch(0),
            config: Arc::new(metadata_log_config(&settings)),
            has_others: false,
        };
        let MetadataLog {
            batches, log_start, ..
        } = recovery.open_metadata(METADATA_TOPIC_ID, found)?;
        let snapshots = Snapshots::find(env, path)?;
        snapshots.check_start(log_start)?;
        let mut image = snapshots.image();
        let behind = (batches.iter()).filter(|batch| snapshots.end() <= batch.base_offset());
        for batch in behind {
            control::replay(&mut image, batch)?;
        }
        let end = Offset(image.end());
        if end == Offset::ZERO {
            return Err(no_metadata());
        }
        let node = BrokerId(identity.node_id);
        let facts = history(&settings.broker, &snapshots, &batches)?.facts_at(end);
        let cluster_id = identity.cluster_id.or(facts.cluster);
        let cluster_id = cluster_id.ok_or_else(|| SurvivorError::Nameless(path.to_path_buf()))?;
        let voters = facts.voters;
        let vote = vote_file::load(&*env.disk, path).map_err(io)?;
        let voted = match vote {
            VoteFile::Known(election) => election.epoch,
            VoteFile::Fresh | VoteFile::Lost => LeaderEpoch(0),
        };
        Ok(Survivor {
            node,
            cluster_id,
            end,
            epoch: image.last_epoch(),
            voters: match &voters {
                Some(voters) => voters.iter().map(|voter| voter.replica.id).collect(),
                None => vote_file::voters(&*env.disk, path).map_err(io)?,
            },
            brokers: image.brokers().map(|broker| broker.id).collect(),
            topics: image.topics_count(),
            shares: shares(&image, node),
            env: env.clone(),
            path: path.to_path_buf(),
            settings: Arc::clone(&settings.broker),
            own: own_voter(voters.as_ref(), &image, node, recovery.id()),
            promised: image.last_epoch().max(voted),
            image,
            _recovery: recovery,
        })
    }

    /// Makes this node the only voter. What other nodes acknowledged without it is lost to the cluster from then on.
    pub fn become_only_voter(self) -> Result<(), SurvivorError> {
        let epoch = self.promised.0.checked_add(1).map(LeaderEpoch);
        let epoch = epoch.ok_or(SurvivorError::LastEpoch(self.promised))?;
        let mut image = self.image;
        let own = image.overrides(&Resource::broker(self.node));
        let settings = self
            .settings
            .with_dynamic(image.overrides(&Resource::cluster()), own);
        // A partition must not wait for a broker that is lost but was not fenced yet; one that lives comes back with its next heartbeat.
        for other in self.brokers.iter().filter(|id| **id != self.node) {
            let is_fenced = image.broker(*other).is_none_or(|known| known.is_fenced);
            if !is_fenced {
                let records = fence(&image, &settings, *other);
                image.replay(image.next_place(), &records)?;
            }
        }
        // One offset more than the log has: no replica has this place, so each fetches the snapshot.
        image.pass_over(Place {
            base: Offset(image.end()).advance(1),
            epoch,
            time: image.last_time(),
        })?;
        let facts = SnapshotFacts {
            voters: Some(VoterSet::of([self.own])),
            version: Some(DYNAMIC_VOTERS),
            cluster: Some(self.cluster_id),
        };
        let head = Head {
            time: None,
            kraft_version: facts.version,
            voters: facts.voters.as_ref().map(VoterSet::to_record),
            cluster_id: facts.cluster.clone(),
        };
        let id = SnapshotId {
            epoch,
            end: Offset(image.end()),
        };
        let bytes = checkpoint::write(&image, &head, self.env.clock.wall_ms())?;
        let written = SnapshotDir::of(&self.path).write(&*self.env.disk, id, &bytes);
        written.map_err(|error| SurvivorError::Io {
            path: self.path.display().to_string(),
            error,
        })
    }
}

/// The entry of this node: at the addresses that the log has for it as a voter, a controller or a broker.
fn own_voter(voters: Option<&VoterSet>, image: &Image, node: BrokerId, directory: Uuid) -> Voter {
    let listener = |endpoint: &Endpoint| Listener {
        name: endpoint.name.clone(),
        endpoint: raft::Endpoint {
            host: endpoint.host.clone(),
            port: endpoint.port,
        },
    };
    let known = voters.and_then(|voters| voters.get(node));
    let mut controllers = image.controllers();
    let controller = controllers.find(|controller| controller.id == node);
    let listeners = match (known, controller, image.broker(node)) {
        (Some(known), _, _) => known.listeners.clone(),
        (None, Some(controller), _) => controller.endpoints.iter().map(listener).collect(),
        (None, None, Some(broker)) => broker.endpoints.iter().take(1).map(listener).collect(),
        (None, None, None) => Vec::new(),
    };
    Voter {
        replica: Replica {
            id: node,
            directory,
        },
        listeners,
        versions: VersionRange {
            min: 0,
            max: DYNAMIC_VOTERS,
        },
    }
}

fn shares(image: &Image, node: BrokerId) -> Shares {
    let mut shares = Shares::default();
    for partition in image.topics().flat_map(|topic| &topic.partitions) {
        let has_all = partition.isr.contains(&node) || partition.eligible_leaders.contains(&node);
        if has_all {
            shares.whole += 1;
        } else if partition.replicas.contains(&node) {
            shares.behind += 1;
        } else {
            shares.elsewhere += 1;
        }
    }
    shares
}
