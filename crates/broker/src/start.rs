//! From settings to a running broker: directories, metadata, partitions, listeners, loops. In this order, so that nobody
//! connects before every acknowledged record is in its place.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Overrides;
use env::{Bell, Env};
use log::config::Durability;
use log::journal::SYNCS_MAX;
use meta::decide::register_broker::{self, begin_leader_epochs, register_broker};
use meta::record::Record;
use meta::{Endpoint, Image, ReplayError, Resource, SecurityProtocol};
use model::{LeaderEpoch, Offset, PartitionIndex, Ticket};
use partition::{
    Announce, Cleaning, Found, Identity, InMemory, MetadataLog, News, OpenError, Partition,
    PieceMaker, Recovery, Residents, Restored, SegmentWriter, Start, Syncer, Told, check_ownership,
};
use raft::{Boot, Quorum};
use wire::records::Batch;
use wire::{ErrorCode, Uuid};

use crate::committer::{Committer, Stage};
use crate::control::boot::{
    BootError, Snapshots, begin_at, boot, quorum_identity, quorum_settings,
};
use crate::control::introduction::learn_cluster_id;
use crate::control::{self, Mailbox, Membership, Plan, QuorumWorker, Unfit};
use crate::dir_choice;
use crate::event_loop::Shard;
use crate::ids::random_uuid;
use crate::inboxes::{Inbox, Inboxes, Redeemed, ShardId};
use crate::memory_use::Held;
use crate::metadata::{METADATA_PARTITION, METADATA_TOPIC, Metadata};
use crate::metrics::Watch;
use crate::mover::Mover;
use crate::place::Places;
use crate::reads::ReaderLoop;
use crate::replication::{self, ReplicaWorker};
use crate::settings::{Settings, log_config, log_config_of};
use crate::shared::Shared;
use crate::topics::Topics;

/// The file of a directory that was used, as Kafka names it.
const IDENTITY: &str = "meta.properties";
/// Kafka's id of the metadata topic.
const METADATA_TOPIC_ID: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot listen on {address}: {error}")]
    Listen { address: String, error: io::Error },
    #[error("{path} belongs to cluster {found}, the first directory to {own}")]
    Cluster {
        path: String,
        found: String,
        own: String,
    },
    #[error(
        "{path} belongs to cluster {found}, and the voters of controller.quorum.voters are cluster {own}: name the voters as they were when \
         the directory was begun, in the same words on every node, or start with another directory"
    )]
    OtherVoters {
        path: String,
        found: String,
        own: String,
    },
    #[error("{path} belongs to node {found}, node.id is {own}")]
    Node { path: String, found: i32, own: i32 },
    #[error("metadata.log.dir {path} is none of log.dirs: name one of them, or leave it out")]
    NoSuchMetadataDir { path: String },
    #[error(
        "the metadata log is in {found}, and metadata.log.dir is {own}: set it to {found}, or leave it out"
    )]
    MetadataElsewhere { found: String, own: String },
    #[error(
        "{first} and {second} have a metadata log each: log.dirs names directories of two brokers"
    )]
    TwoMetadataLogs { first: String, second: String },
    #[error(
        "{path} was used, and no directory of log.dirs has the metadata log that says what is in it: name all directories that this \
         broker had"
    )]
    NoMetadata { path: String },
    #[error("metadata log: {0}")]
    Metadata(#[from] Unfit),
    #[error(transparent)]
    Boot(#[from] BootError),
    #[error("cannot write the vote of this node to {}, which must keep it", .0.display())]
    Vote(PathBuf),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error("cannot write the metadata log: {0:?}")]
    Write(ErrorCode),
}

/// A running broker.
pub struct Broker {
    pub(crate) shared: Arc<Shared>,
    /// Where it listens, in the order of the settings.
    pub addresses: Vec<SocketAddr>,
    /// Journal rounds that were replayed at the start.
    pub rounds_replayed: u64,
}

/// News of the segment writers, on their way to the shards.
struct Spread(std::sync::Weak<Shared>);

impl Announce for Spread {
    fn announce(&self, news: Vec<News>) {
        if let Some(shared) = self.0.upgrade() {
            shared.spread(news);
            shared.check_health();
        }
    }
}

impl Broker {
    pub fn start(env: &Env, broker: config::Broker) -> Result<Broker, StartError> {
        let fixed = Settings::new(broker, &Image::default());
        let is_alone = fixed.broker.quorum.is_alone(fixed.broker.node_id);
        let Recovered {
            settings,
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
            rounds,
        } = recover(env, &fixed)?;

        let mut pollers = Vec::new();
        for _ in 0..settings.broker.network_threads {
            pollers.push(env.net.poller().map_err(|error| StartError::Listen {
                address: "poller".to_owned(),
                error,
            })?);
        }
        let mut inboxes = Inboxes::default();
        (pollers.iter()).for_each(|poller| inboxes.add_shard(poller.waker()));
        let quorum_poller = env.net.poller().map_err(|error| StartError::Listen {
            address: "poller".to_owned(),
            error,
        })?;
        let mailbox = Arc::new(Mailbox::new(quorum_poller.waker()));
        let inbox = inboxes.register(Arc::clone(&mailbox) as Arc<dyn Inbox>);
        let replica_poller = env.net.poller().map_err(|error| StartError::Listen {
            address: "poller".to_owned(),
            error,
        })?;
        let replica_mail = Arc::new(replication::Mailbox::new(replica_poller.waker()));
        let replica_inbox = inboxes.register(Arc::clone(&replica_mail) as Arc<dyn Inbox>);
        let mut addresses = Vec::new();
        let doors = settings.broker.listeners.iter();
        for listener in doors.chain(&settings.broker.quorum.controller_listener) {
            let address = listener.address();
            let bound = pollers[0]
                .listen(&address)
                .map_err(|error| StartError::Listen { address, error })?;
            addresses.push(bound);
        }

        let node = settings.broker.node_id;
        let endpoints = endpoints(&settings, &addresses);
        let registration = register_broker::Broker {
            id: node,
            incarnation: random_uuid(env),
            endpoints,
            rack: settings.broker.rack.clone(),
            log_dirs: residents
                .iter()
                .map(|residents| &residents.dir)
                .filter(|dir| !dir.is_failed())
                .map(|dir| dir.id)
                .collect(),
        };
        let image = Arc::new(image);
        let committer_bells: Vec<Arc<dyn Bell>> =
            residents.iter().map(|_| env.threads.bell()).collect();
        let me = quorum_identity(&settings, &log, &cluster_id, &registration.endpoints);
        let at = raft::Moment {
            now: env.clock.now(),
            wall: env.clock.wall_ms(),
        };
        let seed = env.rng.next_u64();
        let membership = (!is_alone && settings.broker.quorum.roles.broker).then(|| {
            let quorum = &settings.broker.quorum;
            let previous = previous_epoch(env, &settings, &image, (&topics, &residents));
            Membership::new(&registration, &cluster_id, quorum, previous, at.now)
        });
        let timing = quorum_settings(&settings.broker.quorum);
        let (quorum, effects) = Quorum::new(me, timing, boot, seed, at);
        let plan = Plan::new(Arc::clone(&image), uncommitted, log, quorum, since_snapshot);
        let metadata = Metadata::new(plan, places, cluster_id, is_alone, (mailbox, inbox));
        let shared = Arc::new(Shared::new(
            env.clone(),
            settings,
            metadata,
            topics,
            residents.clone(),
            committer_bells.clone(),
            (inboxes, Arc::clone(&replica_mail)),
        ));
        let mut quorum_worker = QuorumWorker::new(Arc::clone(&shared), quorum_poller, membership);
        shared.begin_quorum(effects);
        if is_alone {
            lead_alone(&shared, &mut quorum_worker, &image, &registration, &moved)?;
        }

        let announce: Arc<dyn Announce> = Arc::new(Spread(Arc::downgrade(&shared)));
        for (at, (residents, bell)) in residents.iter().zip(committer_bells).enumerate() {
            let dir = &residents.dir;
            for _ in 0..SYNCS_MAX {
                let committer = Committer {
                    at,
                    dir: Arc::clone(dir),
                    shared: Arc::clone(&shared),
                    bell: Arc::clone(&bell),
                    stage: Stage::default(),
                };
                env.threads.spawn_syncer("commit", Box::new(committer));
            }
            env.threads.spawn(
                "segments",
                Box::new(SegmentWriter::new(
                    Arc::clone(residents),
                    Arc::clone(&announce),
                )),
            );
            let syncer = Syncer::new(Arc::clone(dir));
            env.threads.spawn_syncer("syncer", Box::new(syncer));
            env.threads.spawn(
                "pieces",
                Box::new(PieceMaker::new(Arc::clone(dir), Arc::clone(&announce))),
            );
        }
        let cleaning = Cleaning::new(env, residents, announce, shared.config().cleaner());
        shared.set_cleaning(Arc::clone(&cleaning));
        cleaning.spawn();
        // With one directory there is nowhere to move to.
        if shared.dirs().len() > 1 {
            let mover = Mover::new(Arc::clone(&shared));
            env.threads.spawn("mover", Box::new(mover));
        }
        let (pool, to) = (Arc::clone(&shared.readers), Arc::clone(&shared));
        let deliver = move |ticket: Ticket, piece| {
            to.put(ticket.inbox, Redeemed::Piece(ticket, Box::new(piece)));
        };
        env.threads
            .spawn("reads", Box::new(ReaderLoop { pool, deliver }));
        env.threads.spawn("quorum", Box::new(quorum_worker));
        let replica_worker = ReplicaWorker::new(
            Arc::clone(&shared),
            (replica_mail, replica_inbox),
            replica_poller,
        );
        env.threads.spawn("replica", Box::new(replica_worker));
        for (id, poller) in pollers.into_iter().enumerate() {
            let shard = Shard::new(ShardId(id as u16), Arc::clone(&shared), poller);
            env.threads.spawn("shard", Box::new(shard));
        }
        Ok(Broker {
            shared,
            addresses,
            rounds_replayed: rounds,
        })
    }

    /// Asks all loops to end; they finish what they have taken on, and write a checkpoint.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Bytes that its shards hold for clients, as of the last turn of each.
    #[must_use]
    pub fn held(&self) -> Held {
        self.shared.held()
    }

    /// What an operator may ask of it while it runs.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::new(&self.shared)
    }

    /// The metadata that this broker shows to its clients.
    #[must_use]
    pub fn image(&self) -> Arc<Image> {
        self.shared.metadata.image()
    }

    /// The epoch in which this node is the active controller, if it is.
    #[must_use]
    pub fn office(&self) -> Option<LeaderEpoch> {
        let epoch = self.shared.metadata.led_epoch();
        epoch.filter(|_| self.shared.metadata.is_active())
    }

    /// Where its metadata log begins, and where it ends.
    #[must_use]
    pub fn metadata_log(&self) -> Range<Offset> {
        let bounds = self.shared.metadata.log_bounds();
        bounds.log_start..bounds.log_end
    }

    /// The replicas that are here, in the order of their topics.
    #[must_use]
    pub fn replicas(&self) -> Vec<crate::Replica> {
        crate::standing::replicas(&self.shared.topics())
    }

    /// Batches that all log directories together keep in memory.
    #[must_use]
    pub fn in_memory(&self) -> InMemory {
        let mut all = InMemory::default();
        let residents = self.shared.residents().iter();
        residents.for_each(|of| all += of.in_memory());
        all
    }

    /// Tells whether anything of the broker is still in memory, for when it has ended.
    pub fn remains(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        let dirs: Vec<_> = self.shared.dirs().iter().map(Arc::downgrade).collect();
        move || shared.strong_count() > 0 || dirs.iter().any(|dir| dir.strong_count() > 0)
    }

    /// A way to stop the broker from elsewhere, for example from a signal.
    pub fn stop_handle(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.stop()
    }

    /// Waits for all loops to end. The error says why the broker could not go on.
    pub fn join(&self) -> Result<(), String> {
        self.shared.env.threads.join();
        self.shared.failure().map_or(Ok(()), Err)
    }
}

/// The cluster that fresh directories are for; `None` where they begin a new one. A node that knows others only by their addresses
/// asks them.
fn given_cluster_id(env: &Env, broker: &config::Broker) -> Result<Option<String>, StartError> {
    let quorum = &broker.quorum;
    let is_used = |path: &PathBuf| env.disk.exists(&path.join(IDENTITY)).unwrap_or(true);
    if quorum.is_alone(broker.node_id)
        || !quorum.voters.is_empty()
        || broker.log_dirs.iter().any(is_used)
    {
        return Ok(quorum.cluster_id());
    }
    Ok(Some(learn_cluster_id(env, &quorum.servers)?))
}

/// The only voter is elected by its own vote, and leads once that is on disk. Its broker is registered before anybody connects.
fn lead_alone(
    shared: &Shared,
    worker: &mut QuorumWorker,
    image: &Image,
    registration: &register_broker::Broker,
    moved: &[Record],
) -> Result<(), StartError> {
    worker.take_orders();
    shared.commit_at_start().map_err(StartError::Write)?;
    worker.take_orders();
    if !shared.metadata.is_active() {
        let path = shared.metadata.log_dir().path.clone();
        return Err(StartError::Vote(path));
    }
    let mut records = register_broker(image, registration);
    records.extend_from_slice(moved);
    shared
        .change_at_start(&records)
        .map_err(StartError::Write)?;
    // On a full disk they begin when there is room.
    let settings = shared.config();
    let may_have_lost = |topic: &meta::Topic| may_have_lost(topic, image, &settings.broker);
    let begun = begin_leader_epochs(image, registration.id, may_have_lost);
    if let Err(code) = shared.change_at_start(&begun) {
        tracing::error!(target: env::logs::BROKER, "cannot write to the metadata log which leader epochs begin: {code:?}");
    }
    Ok(())
}

struct Recovered {
    /// Dynamic ones included.
    settings: Settings,
    /// Of what is known to be committed.
    image: Image,
    /// The rest of the metadata log.
    uncommitted: VecDeque<Batch>,
    /// Bytes of it behind the newest snapshot.
    since_snapshot: u64,
    topics: Topics,
    residents: Vec<Arc<Residents>>,
    log: Arc<Partition>,
    /// The state that the quorum begins with.
    boot: Boot,
    places: Places,
    /// Name the directories of partitions that are not where the image says.
    moved: Vec<Record>,
    cluster_id: String,
    rounds: u64,
}

fn recover(env: &Env, settings: &Settings) -> Result<Recovered, StartError> {
    let node = settings.broker.node_id;
    let mut cluster_id: Option<String> = None;
    let named =
        (!settings.broker.quorum.is_alone(node)).then(|| settings.broker.quorum.cluster_id());
    let named = named.flatten();
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
    let given_id = given_cluster_id(env, &settings.broker)?;
    let mut recoveries = Vec::new();
    for path in paths {
        let fresh = || Identity {
            cluster_id: cluster_id
                .clone()
                .or_else(|| given_id.clone())
                .unwrap_or_else(|| random_uuid(env).to_string()),
            node_id: node.0,
        };
        match Recovery::begin(env, path, settings.dir(), &fresh) {
            Ok((recovery, identity)) => {
                check_identity(path, &identity, cluster_id.as_deref(), node.0)?;
                check_voters(path, &identity, named.as_deref())?;
                cluster_id.get_or_insert(identity.cluster_id);
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
    // To metadata without topics every partition is one that was deleted.
    if batches.is_empty() && snapshots.newest.is_none() {
        refuse_orphans(paths, &recoveries, is_claimed)?;
    }
    if let (false, Ok(recovery)) = (is_claimed, &recoveries[metadata_dir]) {
        recovery.claim_metadata()?;
    }
    let (newest, told) = replay(&snapshots, &batches)?;
    let told = Arc::new(told);
    let is_alone = settings.broker.quorum.is_alone(node);
    let snapshot_end = snapshots.end();
    let committed = if is_alone {
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
            kept.or_else(|| find(&newest, &dynamic, id, index))
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
    let places = Places::new(node, residents.clone(), missing);
    let mut placed = image.clone();
    placed.replay(placed.next_place(), &moved)?;
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
        cluster_id: cluster_id.unwrap_or_default(),
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
    match cluster_id.filter(|own| *own != identity.cluster_id) {
        Some(own) => Err(StartError::Cluster {
            path,
            found: identity.cluster_id.clone(),
            own: own.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Voters that are named make the id of their cluster; a directory that was used in another has the metadata of that one.
fn check_voters(path: &Path, identity: &Identity, named: Option<&str>) -> Result<(), StartError> {
    match named.filter(|named| *named != identity.cluster_id) {
        Some(own) => Err(StartError::OtherVoters {
            path: path.display().to_string(),
            found: identity.cluster_id.clone(),
            own: own.to_owned(),
        }),
        None => Ok(()),
    }
}

/// The epoch of the life before, if nothing that it acknowledged is known to be missing: every directory is open and knows it, no log
/// has a hole, and no topic is here that is not synced (KIP-966, `docs/decisions/clean-stop.md`).
fn previous_epoch(
    env: &Env,
    settings: &Settings,
    image: &Image,
    (topics, residents): (&Topics, &[Arc<Residents>]),
) -> Option<i64> {
    let dirs = || residents.iter().map(|residents| &residents.dir);
    let all = topics.sorted();
    let are_whole = (all.iter().flat_map(|topic| topic.here())).all(|one| !one.has_holes());
    let node = settings.broker.node_id;
    let is_relaxed = |topic: &Arc<meta::Topic>| {
        let mut partitions = topic.partitions.iter();
        partitions.any(|partition| partition.replicas.contains(&node))
            && may_have_lost(topic, image, &settings.broker)
    };
    if dirs().any(|dir| dir.is_failed()) || !are_whole || image.topics().any(is_relaxed) {
        return None;
    }
    control::life_file::load(&*env.disk, dirs().map(|dir| dir.path.as_path()))
}

/// Gives up what nothing names any more in a directory of a stopped broker, so that it opens. Its broker claims no clean stop then.
pub fn accept_loss(env: &Env, path: &Path) -> Result<Vec<log::journal::Damage>, OpenError> {
    let found = partition::accept_loss(env, path)?;
    if !found.is_empty() {
        control::life_file::forget(&*env.disk, path).map_err(|error| OpenError::Io {
            path: path.to_owned(),
            error,
        })?;
    }
    Ok(found)
}

/// A crash may have taken records that readers saw: nothing tells a stop that was clean from one that only seems so.
fn may_have_lost(topic: &meta::Topic, image: &Image, broker: &config::Broker) -> bool {
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
    })
}

/// The metadata as they are, and every partition that the log behind the snapshot told of.
fn replay(snapshots: &Snapshots, batches: &[Batch]) -> Result<(Image, Told), StartError> {
    let mut image = (snapshots.newest.as_ref()).map_or_else(Image::default, |of| of.image.clone());
    let mut told = Told::default();
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
fn metadata_log_config(settings: &Settings) -> log::LogConfig {
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

fn endpoints(settings: &Settings, bound: &[SocketAddr]) -> Vec<Endpoint> {
    settings
        .broker
        .listeners
        .iter()
        .zip(bound)
        .map(|(listener, bound)| {
            let advertised = settings
                .broker
                .advertised
                .iter()
                .find(|advertised| advertised.name == listener.name);
            Endpoint {
                name: listener.name.clone(),
                host: advertised.map_or_else(
                    || {
                        listener
                            .name_of_host()
                            .unwrap_or_else(|| bound.ip().to_string())
                    },
                    |advertised| advertised.host.clone(),
                ),
                port: advertised
                    .map(|advertised| advertised.port)
                    .filter(|port| *port != 0)
                    .unwrap_or(bound.port()),
                protocol: SecurityProtocol::PLAINTEXT,
            }
        })
        .collect()
}
