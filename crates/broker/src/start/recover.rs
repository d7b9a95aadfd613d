//! The log directories at a start: whose they are, the metadata log, and every partition, as the disk and the journal have them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Overrides;
use env::Env;
use log::config::Durability;
use meta::record::Record;
use meta::{Image, Resource};
use model::{BrokerId, LeaderEpoch, Offset, PartitionIndex};
use partition::{
    EverNamed, Found, Identity, MetadataLog, OpenError, Partition, Recovery, Residents, Restored,
    Start, check_ownership,
};
use raft::Boot;
use wire::Uuid;
use wire::records::Batch;

use crate::control::boot::{Snapshots, begin_at, boot, history, is_only_voter, voters_before};
use crate::control::broker_epoch_file::Before;
use crate::control::find_cluster::learn_cluster_id;
use crate::control::{self, Unfit};
use crate::control::{METADATA_PARTITION, METADATA_TOPIC};
use crate::dir_choice;
use crate::ids::random_uuid;
use crate::placement::Places;
use crate::settings::{Settings, log_config, log_config_of};
use crate::topics::Topics;

use super::error::StartError;

/// The file of a directory that was used, as Kafka names it.
pub(super) const IDENTITY: &str = "meta.properties";
/// Kafka's id of the metadata topic.
pub(super) const METADATA_TOPIC_ID: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// The cluster that this node is of: by one of its directories, or as the nodes say that it knows by their addresses alone. A node without
/// others begins one. `None` where voters are named, and their leader is to say it.
fn known_cluster_id(env: &Env, broker: &config::Broker) -> Result<Option<String>, StartError> {
    let quorum = &broker.quorum;
    // One that cannot be read is found out when it is opened.
    let known = |path: &PathBuf| partition::identity(env, path).ok().flatten()?.cluster_id;
    if let Some(known) = broker.log_dirs.iter().find_map(known) {
        return Ok(Some(known));
    }
    if quorum.is_alone(broker.node_id) {
        return Ok(Some(random_uuid(env).to_string()));
    }
    if !quorum.voters.is_empty() {
        return Ok(None);
    }
    Ok(Some(learn_cluster_id(env, &quorum.servers)?))
}

/// A broker as its directories have it.
pub(super) struct Recovered {
    /// Dynamic ones included.
    pub(super) settings: Settings,
    /// Of what is known to be committed.
    pub(super) image: Image,
    /// The rest of the metadata log.
    pub(super) uncommitted: VecDeque<Batch>,
    /// Bytes of it behind the newest snapshot.
    pub(super) since_snapshot: u64,
    pub(super) topics: Topics,
    pub(super) residents: Vec<Arc<Residents>>,
    pub(super) log: Arc<Partition>,
    /// The state that the quorum begins with.
    pub(super) boot: Boot,
    pub(super) places: Places,
    /// Name the directories of partitions that are not where the image says.
    pub(super) moved: Vec<Record>,
    /// `None` until the voters have agreed on one.
    pub(super) cluster_id: Option<String>,
    /// No other node has a part in the cluster.
    pub(super) is_alone: bool,
    pub(super) rounds: u64,
}

/// Opens the directories and brings back what is in them.
pub(super) fn recover(env: &Env, settings: &Settings) -> Result<Recovered, StartError> {
    let node = settings.broker.node_id;
    let paths = &settings.broker.log_dirs;
    let offline = |at: usize, error: &OpenError| {
        tracing::error!(target: env::logs::BROKER, "log dir {} is offline: {error}", paths[at].display());
        Residents::offline(env, &paths[at], settings.dir(), env.threads.bell())
    };
    // All of them first: a start that is refused for one directory leaves nothing in another.
    for path in paths {
        match check_ownership(env, path) {
            Err(error) if !error.is_of_one_dir() => return Err(error.into()),
            _ => {}
        }
    }
    let cluster_id = known_cluster_id(env, &settings.broker)?;
    let mut recoveries = Vec::new();
    for path in paths {
        let fresh = || Identity {
            cluster_id: cluster_id.clone(),
            node_id: node.0,
        };
        match Recovery::begin(env, path, settings.dir(), &fresh) {
            Ok((recovery, identity)) => {
                check_identity(path, &identity, cluster_id.as_deref(), node.0)?;
                recoveries.push(Ok(recovery));
            }
            Err(error) if error.is_of_one_dir() => recoveries.push(Err(error)),
            Err(error) => return Err(error.into()),
        }
    }
    // All but the directory of the metadata log may fail.
    let metadata_dir = metadata_dir(&settings.broker, &recoveries)?;
    let may_fail = |at: usize, error: &OpenError| at != metadata_dir && error.is_of_one_dir();
    let metadata_config = Arc::new(metadata_log_config(settings));
    let found = Found {
        topic: METADATA_TOPIC.into(),
        epoch: LeaderEpoch(0),
        config: Arc::clone(&metadata_config),
        has_others: false,
    };
    let mut recovery = recoveries.remove(metadata_dir)?;
    let is_claimed = recovery.has_metadata(METADATA_TOPIC_ID, METADATA_TOPIC)?;
    let MetadataLog {
        batches,
        committed: known_committed,
        log_start,
    } = recovery.open_metadata(METADATA_TOPIC_ID, found)?;
    recoveries.insert(metadata_dir, Ok(recovery));
    let snapshots = Snapshots::find(env, &paths[metadata_dir])?;
    snapshots.check_start(log_start)?;
    // To metadata without topics every partition is one that was deleted.
    if batches.is_empty() && snapshots.newest.is_none() {
        refuse_orphans(paths, &recoveries, is_claimed)?;
    }
    if let (false, Ok(recovery)) = (is_claimed, &recoveries[metadata_dir]) {
        recovery.claim_metadata()?;
    }
    let history = history(&settings.broker, &snapshots, &batches)?;
    if !history.is_dynamic() {
        let path = &paths[metadata_dir];
        let voters = voters_before(env, path, &batches)?;
        check_voters_before(path, &settings.broker, &voters, cluster_id.as_deref())?;
    }
    let (newest, told) = replay(&snapshots, &batches)?;
    let told = Arc::new(told);
    let is_only_voter = is_only_voter(&history, node);
    // The settings of a node that others have joined name none of them.
    let is_alone = settings.broker.quorum.is_alone(node)
        && is_only_voter
        && newest.brokers().all(|broker| broker.id == node);
    let snapshot_end = snapshots.end();
    let committed = if is_only_voter {
        batches.last().map_or(Offset(0), |last| last.next_offset())
    } else {
        known_committed
    };
    let committed = committed.max(snapshot_end);
    let count = (batches.iter()).take_while(|batch| batch.next_offset() <= committed);
    let (known, rest) = batches.split_at(count.count());
    let image = if rest.is_empty() {
        newest.clone()
    } else {
        replay(&snapshots, known)?.0
    };

    let own = image.overrides(&Resource::broker(node));
    let dynamic = settings
        .broker
        .with_dynamic(image.overrides(&Resource::cluster()), own);
    if let Some(why) = &dynamic.passed_over {
        tracing::error!(target: env::logs::BROKER, "{why}");
    }
    let in_doubt = image.topics();
    let in_doubt = in_doubt.filter(|topic| newest.topic_by_id(topic.id).is_none());
    let deleted: BTreeMap<Uuid, Arc<str>> = in_doubt
        .map(|topic| (topic.id, Arc::clone(&topic.name)))
        .collect();
    let mut restored = Vec::new();
    for (at, recovery) in recoveries.into_iter().enumerate() {
        // A deletion that is not committed deletes nothing, and a topic that may be committed is kept.
        let lookup = |id: Uuid, index: PartitionIndex| {
            let kept = find(&image, &dynamic, id, index);
            // Its leader epoch may never be committed: a replica that began in it would take those that are for late ones.
            let in_doubt = |found| Found {
                epoch: LeaderEpoch(0),
                ..found
            };
            kept.or_else(|| find(&newest, &dynamic, id, index).map(in_doubt))
        };
        let restore = |mut recovery: Recovery| {
            recovery.expect_removed(&deleted)?;
            recovery.restore(lookup, Arc::clone(&told))
        };
        match recovery.and_then(restore) {
            Err(error) if !may_fail(at, &error) => return Err(error.into()),
            done => restored.push(done),
        }
    }
    let adopted = dir_choice::choose(&mut restored, &image, node);
    let mut residents = Vec::new();
    let mut rounds = 0;
    for (at, restored) in restored.into_iter().enumerate() {
        let finish = |restored: Restored| restored.finish(env.threads.bell());
        let here = match restored.and_then(finish) {
            Ok(opened) => {
                rounds += opened.rounds;
                opened.residents
            }
            Err(error) if may_fail(at, &error) => offline(at, &error),
            Err(error) => return Err(error.into()),
        };
        residents.push(here);
    }
    let moved: Vec<Record> = (adopted.into_iter())
        // Files that are there are not set aside yet: the partition stays offline, and the next start decides anew.
        .filter(|adopted| !residents[adopted.named].dir.is_failed())
        .map(|adopted| adopted.record)
        .collect();
    let log = residents[metadata_dir]
        .partition(METADATA_TOPIC_ID, METADATA_PARTITION)
        .unwrap_or_else(|| {
            let start = Start::empty(LeaderEpoch(0), metadata_config);
            residents[metadata_dir].create(
                METADATA_TOPIC_ID,
                METADATA_TOPIC.into(),
                METADATA_PARTITION,
                start,
            )
        });
    // Named after nothing on disk: no request shows it.
    let missing = Residents::offline(
        env,
        Path::new("missing"),
        settings.dir(),
        env.threads.bell(),
    );
    let places = Places::new(node, residents.clone(), missing, is_alone);
    let mut placed = image.clone();
    let fits = placed.replay(placed.next_place(), &moved);
    fits.map_err(Unfit::from)?;
    let mut topics = Topics::default();
    for topic in placed.topics() {
        let overrides: Arc<Overrides> = image.overrides(&Resource::topic(&topic.name));
        topics.insert(Arc::new(places.open(
            topic,
            &overrides,
            &dynamic,
            None,
            &mut Vec::new(),
        )));
    }
    let uncommitted = rest.iter().cloned().collect();
    let behind = (known.iter()).filter(|batch| snapshot_end <= batch.base_offset());
    let since_snapshot = behind.map(|batch| batch.size() as u64).sum();
    let ends_early = batches
        .last()
        .is_none_or(|last| last.next_offset() < snapshot_end);
    if let Some(newest) = snapshots.newest.as_ref().filter(|_| ends_early) {
        begin_at(&log, newest.id)?;
    }
    let path = &paths[metadata_dir];
    let boot = boot(
        env,
        &settings.broker,
        path,
        (&snapshots, &batches, log_start),
        committed,
    )?;
    Ok(Recovered {
        settings: Settings::new(dynamic, &image),
        image,
        uncommitted,
        since_snapshot,
        topics,
        residents,
        log,
        boot,
        places,
        moved,
        cluster_id,
        is_alone,
        rounds,
    })
}

/// Which of the directories has the metadata log, or is to have that of a new broker. Their order in the settings may change.
fn metadata_dir(
    settings: &config::Broker,
    recoveries: &[Result<Recovery, OpenError>],
) -> Result<usize, StartError> {
    let paths = &settings.log_dirs;
    let name = |at: usize| paths[at].display().to_string();
    let mut found = None;
    for (at, recovery) in recoveries.iter().enumerate() {
        if let Ok(recovery) = recovery
            && recovery.has_metadata(METADATA_TOPIC_ID, METADATA_TOPIC)?
            && let Some(first) = found.replace(at)
        {
            return Err(StartError::TwoMetadataLogs {
                first: name(first),
                second: name(at),
            });
        }
    }
    let Some(own) = &settings.metadata_log_dir else {
        return Ok(found.unwrap_or(0));
    };
    match (paths.iter().position(|path| path == own), found) {
        (None, _) => Err(StartError::NoSuchMetadataDir {
            path: own.display().to_string(),
        }),
        (Some(own), Some(found)) if own != found => Err(StartError::MetadataElsewhere {
            found: name(found),
            own: name(own),
        }),
        (Some(own), _) => Ok(own),
    }
}

/// The metadata log is empty. That is right for a broker that has not begun: where the log was claimed no directory has partitions,
/// and where it was not, none was ever used.
fn refuse_orphans(
    paths: &[PathBuf],
    recoveries: &[Result<Recovery, OpenError>],
    is_claimed: bool,
) -> Result<(), StartError> {
    for (path, recovery) in paths.iter().zip(recoveries) {
        if let Ok(recovery) = recovery
            && (!is_claimed && recovery.was_used()
                || recovery.has_partitions_beside(METADATA_TOPIC_ID, METADATA_TOPIC)?)
        {
            let path = path.display().to_string();
            return Err(StartError::NoMetadata { path });
        }
    }
    Ok(())
}

fn check_identity(
    path: &Path,
    identity: &Identity,
    cluster_id: Option<&str>,
    node: i32,
) -> Result<(), StartError> {
    let path = path.display().to_string();
    if identity.node_id != node {
        return Err(StartError::Node {
            path,
            found: identity.node_id,
            own: node,
        });
    }
    match (cluster_id, &identity.cluster_id) {
        (Some(own), Some(found)) if own != found => Err(StartError::Cluster {
            path,
            found: found.clone(),
            own: own.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Voters that the settings name do not change: a directory that others voted with is not for a node that names fewer or more of them. It
/// would lead alone, and ask the others to cut what is committed. A directory whose cluster id an earlier version made of this list is in its
/// place again.
fn check_voters_before(
    path: &Path,
    broker: &config::Broker,
    found: &BTreeSet<BrokerId>,
    cluster_id: Option<&str>,
) -> Result<(), StartError> {
    let quorum = &broker.quorum;
    let mut named: BTreeSet<BrokerId> = quorum.voters.iter().map(|voter| voter.id).collect();
    if quorum.is_alone(broker.node_id) {
        named.insert(broker.node_id);
    }
    let is_of_list = cluster_id.is_some() && cluster_id == quorum.derived_cluster_id().as_deref();
    // A node that has joined and has no vote yet names nobody, and asks its bootstrap servers for the leader: it leads nothing.
    let has_joined = named.is_empty() && !found.contains(&broker.node_id);
    if !quorum.roles.controller || found.is_empty() || *found == named || is_of_list || has_joined {
        return Ok(());
    }
    Err(StartError::Voters {
        path: path.display().to_string(),
        found: nodes(found),
        named: nodes(&named),
    })
}

/// In words: `node 1`, `nodes 1, 2 and 3`.
fn nodes(ids: &BTreeSet<BrokerId>) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    match ids.as_slice() {
        [] => "no voter".to_owned(),
        [one] => format!("node {one} alone"),
        [first @ .., last] => format!("nodes {} and {last}", first.join(", ")),
    }
}

/// The life before, if nothing that it acknowledged is known to be missing: every directory that it had is open and knows it, no log
/// has a hole, and no topic is here that is not synced (KIP-966, `docs/decisions/clean-stop.md`).
pub(super) fn life_before(
    env: &Env,
    settings: &Settings,
    image: &Image,
    (topics, residents): (&Topics, &[Arc<Residents>]),
) -> Before {
    let dirs = || residents.iter().map(|residents| &residents.dir);
    let are_whole = (topics.sorted().flat_map(|topic| topic.here())).all(|one| !one.has_holes());
    let node = settings.broker.node_id;
    let is_relaxed = |topic: &Arc<meta::Topic>| {
        let mut partitions = topic.partitions.iter();
        partitions.any(|partition| partition.replicas.contains(&node))
            && may_have_lost(topic, image, &settings.broker)
    };
    if !are_whole || image.topics().any(is_relaxed) {
        return Before::default();
    }
    let open: Vec<(Uuid, &Path)> = dirs()
        .filter(|dir| !dir.is_failed())
        .map(|dir| (dir.id, dir.path.as_path()))
        .collect();
    let has_failed = dirs().any(|dir| dir.is_failed());
    control::broker_epoch_file::load(&*env.disk, &open, has_failed)
}

/// A crash may have taken records that readers saw: nothing distinguishes a stop that was clean from one that only seems so.
pub(super) fn may_have_lost(topic: &meta::Topic, image: &Image, broker: &config::Broker) -> bool {
    let overrides = image.overrides(&Resource::topic(&topic.name));
    log_config_of(&topic.name, &overrides, broker).durability == Durability::Os
}

fn find(image: &Image, broker: &config::Broker, id: Uuid, index: PartitionIndex) -> Option<Found> {
    let topic = image.topic_by_id(id)?;
    let planned = topic.partitions.get(usize::try_from(index.0).ok()?)?;
    let overrides = image.overrides(&Resource::topic(&topic.name));
    let config = log_config_of(&topic.name, &overrides, broker);
    Some(Found {
        topic: Arc::clone(&topic.name),
        epoch: planned.leader_epoch,
        config,
        has_others: planned
            .replicas
            .iter()
            .any(|replica| *replica != broker.node_id),
    })
}

/// The metadata as they are, and every partition that the log behind the snapshot told of.
fn replay(snapshots: &Snapshots, batches: &[Batch]) -> Result<(Image, EverNamed), StartError> {
    let mut image = snapshots.image();
    let mut told = EverNamed::default();
    let end = snapshots.end();
    for batch in batches.iter().filter(|batch| end <= batch.base_offset()) {
        for record in &control::replay(&mut image, batch)? {
            match record {
                Record::Topic(topic) => told.note_topic(topic.topic_id, &topic.name),
                Record::Partition(partition) => {
                    told.note_partition(partition.topic_id, PartitionIndex(partition.partition_id))
                }
                _ => {}
            }
        }
    }
    Ok((image, told))
}

/// The smallest segment of the metadata log, as Kafka has it.
const SEGMENT_BYTES_MIN: u64 = 8 << 20;

/// The metadata log keeps everything, synced, whatever topics default to.
pub(super) fn metadata_log_config(settings: &Settings) -> log::LogConfig {
    let named = settings.broker.number("metadata.log.segment.bytes");
    let named = named.and_then(|bytes| u64::try_from(bytes).ok());
    log::LogConfig {
        retention_ms: None,
        retention_bytes: None,
        cleanup_policy: log::config::Cleanup {
            delete: false,
            compact: false,
        },
        max_message_bytes: u64::from(u32::MAX),
        durability: Durability::Sync,
        may_use_reserve: true,
        // What lies in front of a snapshot goes file by file.
        segment_bytes: (settings.snapshot_bytes_max.max(SEGMENT_BYTES_MIN))
            .min(named.unwrap_or(u64::MAX)),
        ..log_config(&settings.broker.topic)
    }
}
