//! From settings to a running broker: directories, metadata, partitions, listeners, loops. In this order, so that nobody
//! connects before every acknowledged record is in its place.

mod endpoints;
mod error;
mod loss;
mod pollers;
mod recover;
mod secret;
mod survivor;
mod threads;

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use env::{Bell, Env};
use log::journal::SYNCS_MAX;
use meta::decide::register_broker::{self, begin_leader_epochs, register_broker};
use meta::record::Record;
use meta::{Endpoint, Image};
use model::{InboxId, LeaderEpoch, Offset};
use parking_lot::Mutex;
use partition::InMemory;
use raft::Quorum;
use security::login::node::NodeProof;

pub use self::error::StartError;
pub use self::loss::accept_loss;
pub use self::survivor::{Shares, Survivor, SurvivorError};

use self::endpoints::{controller_endpoint, endpoints, own_addresses};
use self::pollers::Pollers;
use self::recover::{Recovered, life_before, may_have_lost, recover};
use crate::control::boot::{quorum_identity, quorum_settings};
use crate::control::{self, MetadataLog, Plan, SnapshotTimer};
use crate::ids::random_uuid;
use crate::mail::inboxes::Inbox;
use crate::meters::Meters;
use crate::meters::held::Held;
use crate::metrics::Watch;
use crate::moves::Moves;
use crate::net::Entrances;
use crate::node::{BrokerState, Catalog, Doors, EndListener, Lifetime, Volumes};
use crate::passwords::Passwords;
use crate::peers::{Ceilings, Identity, Names};
use crate::quorum::{ControllerRegistration, Membership, QuorumWorker};
use crate::reads::ReaderPool;
use crate::settings::Settings;
use crate::shared::Shared;

/// A running broker.
pub struct Broker {
    pub(crate) shared: Arc<Shared>,
    /// Where it listens, in the order of the settings.
    pub addresses: Vec<SocketAddr>,
    /// Journal rounds that were replayed at the start.
    pub rounds_replayed: u64,
}

impl Broker {
    pub fn start(env: &Env, broker: config::Broker) -> Result<Broker, StartError> {
        Broker::start_as(env, broker, Ceilings::default())
    }

    /// Starts a broker that lists, takes and sends no newer versions than `ceilings`, as an older build would.
    pub fn start_as(
        env: &Env,
        broker: config::Broker,
        ceilings: Ceilings,
    ) -> Result<Broker, StartError> {
        let started = Broker::start_beside(env, broker, ceilings, Vec::new());
        started.map(|(broker, _)| broker)
    }

    /// Likewise, beside loops of others, each with an inbox of its own.
    pub(crate) fn start_beside(
        env: &Env,
        broker: config::Broker,
        ceilings: Ceilings,
        others: Vec<Arc<dyn Inbox>>,
    ) -> Result<(Broker, Vec<InboxId>), StartError> {
        let fixed = Settings::new(broker, &Image::default());
        let secret = secret::find(env, &fixed.broker)?;
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
            is_alone,
            rounds,
        } = recover(env, &fixed)?;

        let shards = settings.broker.network_threads;
        let mut pollers = Pollers::open(env, shards)?;
        let (mut mail, owners) = pollers.mail();
        let others = others.into_iter();
        let others = others.map(|other| mail.inboxes.register(other)).collect();
        let addresses = pollers.listen(&settings.broker)?;
        pollers.listen_locally(&settings.broker.log_dirs);

        let node = settings.broker.node_id;
        let whom = (node, settings.broker.quorum.is_insecure);
        let secret = secret.or_make(env, &settings.broker.log_dirs)?;
        let mut random = [0; 32];
        env.rng.fill(&mut random);
        let proof = secret.as_ref().map(NodeProof::new);
        let proof = proof.map(|proof| Arc::new(proof.of_node(node.0, &random)));
        let entrances = Entrances::new(&settings.broker, &addresses, proof.as_ref(), random);
        let identity = Identity::new(whom, proof, Arc::clone(&env.rng));
        let endpoints = endpoints(&settings.broker, &addresses);
        let controllers = controller_endpoint(&settings.broker, &addresses);
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
        let all: Vec<Endpoint> = (registration.endpoints.iter().cloned())
            .chain(controllers)
            .collect();
        let proposal = match &cluster_id {
            Some(_) => String::new(),
            None => random_uuid(env).to_string(),
        };
        let me = quorum_identity(&settings, &log, (cluster_id.clone(), proposal), &all);
        let names = Names::new(env, &own_addresses(&all, &addresses, &me.listeners));
        let at = raft::Moment {
            now: env.clock.now(),
            wall: env.clock.wall_ms(),
        };
        let seed = env.rng.next_u64();
        let membership = settings.broker.quorum.roles.broker.then(|| {
            let quorum = &settings.broker.quorum;
            let before = life_before(env, &settings, &image, (&topics, &residents));
            Membership::new(&registration, quorum, before, at.now)
        });
        let is_controller = settings.broker.quorum.roles.controller;
        let as_controller = is_controller
            .then(|| ControllerRegistration::new(&me, registration.incarnation, at.now));
        let timing = quorum_settings(&settings.broker.quorum);
        let (quorum, effects) = Quorum::new(me, timing, boot, seed, at);
        let timer = SnapshotTimer::new(settings.snapshot_interval, at.now);
        let since = (since_snapshot, timer);
        let plan = Plan::new(Arc::clone(&image), uncommitted, log, quorum, since);
        let mail = Arc::new(mail);
        let movers = usize::from(residents.len() > 1);
        // And the worker that follows leaders.
        let loops = shards + committer_bells.len() * SYNCS_MAX + movers + 1;
        let lifetime = Arc::new(Lifetime::new(at.now, loops, shards));
        let volumes = Arc::new(Volumes::new(
            Arc::clone(&env.clock),
            (Arc::clone(&mail), Arc::clone(&lifetime)),
            residents.clone(),
            committer_bells.clone(),
            plan.log.dir(),
        ));
        // They were opened before the settings that the metadata hold were known.
        volumes.set_settings(&settings);
        let catalog = Catalog::new(Arc::clone(&image), topics, settings, places, at.now);
        let catalog = Arc::new(catalog);
        let whose = (is_alone, registration.incarnation);
        let state = BrokerState::new(Arc::clone(&env.clock), cluster_id, whose);
        let state = Arc::new(state);
        let meters = Arc::new(Meters::new(shards));
        let moves = Arc::new(Moves::new(env.threads.bell()));
        let parts = control::Parts {
            clock: Arc::clone(&env.clock),
            state: Arc::clone(&state),
            catalog: Arc::clone(&catalog),
            mail: Arc::clone(&mail),
            meters: Arc::clone(&meters),
            log_dir: plan.log.dir(),
            inbox: owners.quorum,
        };
        let ending = (Arc::clone(&lifetime), Arc::clone(&volumes));
        let metadata = MetadataLog::new(plan, parts, ending, Arc::clone(&moves));
        let shared = Arc::new(Shared {
            env: env.clone(),
            doors: Doors::new(Arc::clone(&catalog), shards),
            entrances,
            passwords: Arc::new(Passwords::new(env.threads.bell())),
            state,
            catalog,
            metadata: Arc::new(metadata),
            volumes,
            mail,
            meters,
            lifetime,
            readers: Arc::new(ReaderPool::new(env.threads.bell())),
            moves,
            telemetry: Mutex::default(),
            ceilings,
            identity,
            names: Arc::new(names),
        });
        let listeners: [Arc<dyn EndListener>; 5] = [
            Arc::clone(&shared.mail) as _,
            Arc::clone(&shared.volumes) as _,
            Arc::clone(&shared.readers) as _,
            Arc::clone(&shared.passwords) as _,
            Arc::clone(&shared.moves) as _,
        ];
        let listeners = listeners.iter().map(Arc::downgrade).collect();
        shared.lifetime.set_listeners(listeners);
        let mut quorum_worker = QuorumWorker::new(
            Arc::clone(&shared),
            pollers.quorum,
            (membership, as_controller),
        );
        shared.metadata.begin(effects);
        if is_alone {
            lead_alone(&shared, &mut quorum_worker, &image, &registration, &moved)?;
        }

        threads::spawn_storage(&shared, residents, committer_bells);
        let replicas = (owners.replicas, pollers.replicas);
        threads::spawn_cluster(&shared, quorum_worker, pollers.calls, replicas);
        threads::spawn_doors(&shared, pollers.shards);
        let broker = Broker {
            shared,
            addresses,
            rounds_replayed: rounds,
        };
        Ok((broker, others))
    }

    /// Asks all loops to end; they finish what they have taken on, and write a checkpoint.
    pub fn stop(&self) {
        (self.shared.lifetime).stop(self.shared.state.is_alone());
    }

    /// Bytes that its shards hold for clients, as of the last turn of each.
    #[must_use]
    pub fn held(&self) -> Held {
        self.shared.meters.held()
    }

    /// Metrics and health, for as long as it runs.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::new(&self.shared)
    }

    /// The metadata that this broker shows to its clients.
    #[must_use]
    pub fn image(&self) -> Arc<Image> {
        self.shared.catalog.image()
    }

    /// The epoch in which this node is the active controller, if it is.
    #[must_use]
    pub fn leadership(&self) -> Option<LeaderEpoch> {
        let epoch = self.shared.metadata.led_epoch();
        epoch.filter(|_| self.shared.metadata.is_active())
    }

    /// The id of the cluster; `None` where this node is of none yet.
    #[must_use]
    pub fn cluster_id(&self) -> Option<&str> {
        Some(self.shared.state.cluster_id()).filter(|id| !id.is_empty())
    }

    /// Where its metadata log begins, and where it ends.
    #[must_use]
    pub fn metadata_log(&self) -> Range<Offset> {
        let bounds = self.shared.metadata.log_bounds();
        bounds.log_start..bounds.log_end
    }

    /// True while this broker acts as no leader, whatever its metadata say: others may lead.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.shared.state.is_self_fenced()
    }

    /// The replicas that are here, in the order of their topics.
    #[must_use]
    pub fn replicas(&self) -> Vec<crate::Replica> {
        crate::replica_status::replicas(&self.shared.catalog.topics())
    }

    /// Batches that all log directories together keep in memory.
    #[must_use]
    pub fn in_memory(&self) -> InMemory {
        let mut all = InMemory::default();
        let residents = self.shared.volumes.residents().iter();
        residents.for_each(|of| all += of.in_memory());
        all
    }

    /// True if anything of the broker is still in memory, for when it has ended.
    pub fn remains(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        let dirs: Vec<_> = self
            .shared
            .volumes
            .dirs()
            .iter()
            .map(Arc::downgrade)
            .collect();
        move || shared.strong_count() > 0 || dirs.iter().any(|dir| dir.strong_count() > 0)
    }

    /// A way to stop the broker from elsewhere, for example from a signal.
    pub fn stop_handle(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.lifetime.stop(shared.state.is_alone())
    }

    /// Waits for all loops to end. The error says why the broker could not go on.
    pub fn join(&self) -> Result<(), String> {
        self.shared.env.threads.join();
        self.shared.lifetime.failure().map_or(Ok(()), Err)
    }
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
    shared
        .metadata
        .commit_at_start()
        .map_err(StartError::Write)?;
    worker.take_orders();
    if !shared.metadata.is_active() {
        let path = shared.metadata.log_dir().path.clone();
        return Err(StartError::Vote(path));
    }
    let mut records = register_broker(image, registration);
    records.extend_from_slice(moved);
    shared
        .metadata
        .change_at_start(&records)
        .map_err(StartError::Write)?;
    // On a full disk they begin when there is room.
    let settings = shared.catalog.config();
    let may_have_lost = |topic: &meta::Topic| may_have_lost(topic, image, &settings.broker);
    let begun = begin_leader_epochs(image, registration.id, may_have_lost);
    if let Err(code) = shared.metadata.change_at_start(&begun) {
        tracing::error!(target: env::logs::BROKER, "cannot write to the metadata log which leader epochs begin: {code:?}");
    }
    Ok(())
}
