//! The settings of one broker, typed, and the defaults they give to topics.
//!
//! Owns the step from text to numbers for every setting that works. Static settings that contradict each other are refused
//! here, at start; dynamic ones are refused by [`Broker::check_change`] before they are written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::BrokerId;

use crate::access::Access;
use crate::contradictions;
use crate::doors::Doors;
use crate::layers::{Layers, Machine, Overrides};
use crate::listener::Listener;
use crate::log_dirs::{CORDONED, LogDirs};
use crate::login::{Login, Protocol};
use crate::memory::{self, Memory};
use crate::quorum::{Quorum, Roles};
use crate::settings::{Settings, SettingsError};
use crate::table::cluster::RACK_SELECTOR;
use crate::table::{self, Update};
use crate::topic::Topic;
use crate::value::{self, ValueError};

/// Descriptors that connections leave for files: 8,000 segments kept open, and one in nine for everything else.
const FILES_RESERVE: usize = 9_000;

/// Descriptors that are open whatever is stored: journals, doors, pollers, links to other nodes, connections for metrics.
const BASE: usize = 80;

/// Many connections must not keep a log from opening its next file, so files get half of a small limit.
fn files_reserve(machine: &Machine) -> usize {
    FILES_RESERVE.min(machine.descriptors.saturating_sub(BASE) / 2)
}

/// Descriptors for connections: none of those for files, and in a small limit none of the base either.
fn connections_reserve(machine: &Machine) -> usize {
    let files = files_reserve(machine);
    let rest = machine.descriptors.saturating_sub(files);
    rest.min(files.max(machine.descriptors.saturating_sub(FILES_RESERVE)))
}

#[derive(Clone, Debug)]
pub struct Broker {
    pub(crate) layers: Layers,
    /// Why some of the dynamic settings that were written do not hold.
    pub passed_over: Option<PassedOver>,
    /// The settings of a topic without overrides.
    pub topic: Arc<Topic>,

    pub node_id: BrokerId,
    pub rack: Option<String>,
    /// Leaders send consumers to a replica in their rack (KIP-392).
    pub reads_by_rack: bool,
    pub log_dirs: Vec<PathBuf>,
    cordoned_log_dirs: Vec<PathBuf>,
    /// `None`: the one that has the metadata log, or the first of a new broker.
    pub metadata_log_dir: Option<PathBuf>,
    /// The other nodes of the cluster.
    pub quorum: Quorum,
    /// `None` where everybody may do everything.
    pub access: Option<Access>,
    /// Doors for clients, and of brokers among themselves; the controller's is left out.
    pub listeners: Vec<Listener>,
    /// By listener name; a listener that is missing here is advertised as it is bound.
    pub advertised: Vec<Listener>,
    /// How those who connect log in, by listener name; with the controller's.
    pub logins: Arc<BTreeMap<String, Login>>,

    pub network_threads: usize,
    pub request_bytes_max: usize,
    pub queued_bytes_max: u64,
    pub connections_max: usize,
    /// Segment files kept open.
    pub segment_files_max: usize,
    pub connections_per_ip_max: usize,
    pub connections_per_ip_overrides: BTreeMap<String, usize>,
    /// `None`: silent connections stay open.
    pub connection_idle_max: Option<Duration>,
    pub fetch_bytes_max: usize,
    pub fetch_sessions_max: usize,
    pub request_partitions_max: usize,
    /// True if clients are asked to push the metrics that subscriptions name.
    pub receives_client_metrics: bool,
    pub telemetry_bytes_max: usize,

    pub auto_create_topics: bool,
    pub delete_topics: bool,
    pub partitions_default: i32,
    /// `None`: as many as there are brokers, up to a number.
    pub replication_factor_default: Option<i16>,

    pub retention_check_interval: Duration,
    pub producer_id_expiration: Duration,
    pub producer_id_expiration_check: Duration,

    pub cleaner: Cleaner,

    pub memory: Memory,
    pub hot_tail_bytes: u64,
    /// Of each directory; 0 for never.
    pub scrub_bytes_per_second: u64,
    pub journal_bytes: u64,
    pub journal_piece_bytes: u64,
}

/// Dynamic settings that contradict each other, or what was set at start. An earlier version let them be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("dynamic settings of {level} do not hold: {reason}")]
pub struct PassedOver {
    level: &'static str,
    reason: String,
}

/// The threads that compact (`log.cleaner.*`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cleaner {
    pub is_enabled: bool,
    pub threads: usize,
    pub backoff: Duration,
    /// Memory for keys, of all threads together.
    pub dedupe_bytes: u64,
    /// Share of that memory that may be used.
    pub load_factor: f64,
    /// Bytes a second that all threads together read and write.
    pub bytes_per_second: f64,
}

impl Broker {
    pub fn new(settings: Settings, machine: Machine) -> Result<Broker, SettingsError> {
        let layers = Layers {
            own: Arc::default(),
            cluster: Arc::default(),
            fixed: Arc::new(settings),
            machine,
            located_dirs: Arc::default(),
        };
        check_cordoned(&layers)?;
        Broker::from_layers(layers)
    }

    /// The same broker with its directories where `locate` finds them: a relative path depends on the process, so clients get the absolute
    /// one.
    pub fn located<E>(mut self, locate: impl Fn(&Path) -> Result<PathBuf, E>) -> Result<Broker, E> {
        for dir in self.log_dirs.iter_mut().chain(&mut self.metadata_log_dir) {
            *dir = locate(dir)?;
        }
        self.layers.located_dirs = self.log_dirs.as_slice().into();
        self.cordoned_log_dirs = cordoned(&self.layers);
        Ok(self)
    }

    /// The cost of `unclean.leader.election.enable`, where it holds for every topic that does not say otherwise.
    #[must_use]
    pub fn warning_of_unclean(&self) -> Option<&'static str> {
        const COST: &str = "unclean.leader.election.enable is true: where no replica in sync is up, one that is behind leads, and the records \
             that it lacks are lost, acknowledged ones too";
        self.topic.unclean_leader_election.then_some(COST)
    }

    /// Takes no new partitions, and none that move there.
    #[must_use]
    pub fn is_cordoned(&self, log_dir: &Path) -> bool {
        self.cordoned_log_dirs.iter().any(|dir| dir == log_dir)
    }

    /// The same broker after its dynamic settings changed: `cluster` for all brokers, `own` for this one.
    #[must_use]
    pub fn with_dynamic(&self, cluster: Arc<Overrides>, own: Arc<Overrides>) -> Broker {
        let with = |cluster: &Arc<Overrides>, own: &Arc<Overrides>| {
            Broker::from_layers(Layers {
                own: Arc::clone(own),
                cluster: Arc::clone(cluster),
                ..self.layers.clone()
            })
        };
        let contradiction = match with(&cluster, &own) {
            Ok(broker) => return broker,
            Err(error) => error,
        };
        // They were checked before they were written, so this is what another version let pass. As much as can is to hold;
        // what was set for this very broker comes first, as always.
        let none = Arc::default();
        let (level, mut broker) = if let Ok(broker) = with(&none, &own) {
            ("the cluster", broker)
        } else if let Ok(broker) = with(&cluster, &none) {
            ("this broker", broker)
        } else {
            // The static settings do not contradict each other, or the start would have been refused.
            let fixed = with(&none, &none).unwrap_or_else(|_| self.clone());
            ("the cluster and of this broker", fixed)
        };
        broker.passed_over = Some(PassedOver {
            level,
            reason: contradiction.to_string(),
        });
        broker
    }

    fn from_layers(layers: Layers) -> Result<Broker, SettingsError> {
        let unusable = |name: &'static str, reason: &str| SettingsError::Unusable {
            name,
            reason: reason.into(),
        };
        contradictions::refuse(&layers)?;
        let at_most =
            |name: &str| usize::try_from(layers.number(name).unwrap_or(i64::MAX)).unwrap_or(0);
        let millis = |name: &str| {
            Duration::from_millis(
                u64::try_from(layers.number(name).unwrap_or(0)).unwrap_or(u64::MAX),
            )
        };
        let bytes = |name: &str| u64::try_from(layers.number(name).unwrap_or(0)).unwrap_or(0);

        let node_id = match (layers.fixed.get("node.id"), layers.number("broker.id")) {
            (None, Some(id)) if 0 <= id => id,
            _ => layers.number("node.id").unwrap_or(1),
        };
        let node_id = BrokerId(i32::try_from(node_id).unwrap_or(1));
        let log_dirs = LogDirs::new(&layers).paths;
        if log_dirs.is_empty() {
            return Err(unusable("log.dirs", "names no directory"));
        }
        if (1..log_dirs.len()).any(|at| log_dirs[..at].contains(&log_dirs[at])) {
            return Err(unusable("log.dirs", "names a directory twice"));
        }
        let doors = Doors::new(&layers, Roles::new(&layers))?;
        let quorum = Quorum::new(&layers, node_id, &doors)?;
        let logins = doors.logins_with(&layers, quorum.controller_listener.as_ref())?;
        let queued = layers.number("queued.max.request.bytes").unwrap_or(-1);
        let limit = layers.machine.memory_bytes;
        let queued_bytes_max = (u64::try_from(queued).ok())
            .filter(|bytes| 0 < *bytes)
            .unwrap_or_else(|| memory::requests(limit));
        let idle = layers.number("connections.max.idle.ms").unwrap_or(-1);
        Ok(Broker {
            passed_over: None,
            topic: Arc::new(Topic::defaults(&layers)),
            node_id,
            access: Access::new(&layers)?,
            rack: layers.text("broker.rack"),
            reads_by_rack: layers.text("replica.selector.class").as_deref() == Some(RACK_SELECTOR),
            metadata_log_dir: layers.text("metadata.log.dir").map(PathBuf::from),
            quorum,
            listeners: doors.listeners,
            advertised: doors.advertised,
            logins: Arc::new(logins),
            network_threads: at_most("num.network.threads").max(1),
            request_bytes_max: at_most("socket.request.max.bytes"),
            queued_bytes_max,
            memory: Memory::new(
                limit,
                log_dirs.len(),
                queued_bytes_max,
                bytes("esker.hot.tail.bytes"),
                bytes("log.cleaner.dedupe.buffer.size"),
            ),
            connections_max: at_most("max.connections").min(connections_reserve(&layers.machine)),
            segment_files_max: files_reserve(&layers.machine) / 9 * 8,
            connections_per_ip_max: at_most("max.connections.per.ip"),
            connections_per_ip_overrides: ip_overrides(
                &layers
                    .text("max.connections.per.ip.overrides")
                    .unwrap_or_default(),
            )
            .ok_or_else(|| {
                unusable(
                    "max.connections.per.ip.overrides",
                    "write it as address:count, separated by commas",
                )
            })?,
            connection_idle_max: u64::try_from(idle).ok().map(Duration::from_millis),
            fetch_bytes_max: at_most("fetch.max.bytes"),
            fetch_sessions_max: at_most("max.incremental.fetch.session.cache.slots"),
            request_partitions_max: at_most("max.request.partition.size.limit"),
            receives_client_metrics: layers.flag("esker.client.metrics.enable"),
            telemetry_bytes_max: at_most("telemetry.max.bytes"),
            auto_create_topics: layers.flag("auto.create.topics.enable"),
            delete_topics: layers.flag("delete.topic.enable"),
            partitions_default: i32::try_from(layers.number("num.partitions").unwrap_or(1))
                .unwrap_or(1),
            replication_factor_default: (layers.is_given("default.replication.factor"))
                .then(|| layers.number("default.replication.factor"))
                .flatten()
                .map(|factor| i16::try_from(factor).unwrap_or(i16::MAX)),
            retention_check_interval: millis("log.retention.check.interval.ms"),
            producer_id_expiration: millis("producer.id.expiration.ms"),
            producer_id_expiration_check: millis("producer.id.expiration.check.interval.ms"),
            cleaner: Cleaner {
                is_enabled: layers.flag("log.cleaner.enable"),
                threads: at_most("log.cleaner.threads"),
                backoff: millis("log.cleaner.backoff.ms"),
                dedupe_bytes: bytes("log.cleaner.dedupe.buffer.size"),
                load_factor: layers
                    .fraction("log.cleaner.io.buffer.load.factor")
                    .unwrap_or(0.9),
                bytes_per_second: layers
                    .fraction("log.cleaner.io.max.bytes.per.second")
                    .unwrap_or(f64::MAX),
            },
            hot_tail_bytes: bytes("esker.hot.tail.bytes"),
            scrub_bytes_per_second: bytes("esker.scrub.bytes.per.second"),
            journal_bytes: bytes("esker.journal.bytes"),
            journal_piece_bytes: bytes("esker.journal.piece.bytes"),
            cordoned_log_dirs: cordoned(&layers),
            log_dirs,
            layers,
        })
    }

    /// The settings given at start that have no effect.
    #[must_use]
    pub fn warning(&self) -> Option<crate::settings::Warning> {
        self.layers.fixed.warning()
    }

    /// A line at start about listeners that protect nothing.
    #[must_use]
    pub fn warning_of_listeners(&self) -> Option<String> {
        let own = self.quorum.controller_listener.as_ref();
        let plain = self.listeners.iter().chain(own);
        let plain = plain.filter(|door| !door.is_loopback());
        let asks_nobody = plain.clone().any(|door| {
            let login = self.logins.get(&door.name);
            login.is_none_or(|login| login.protocol == Protocol::Plaintext)
        });
        let far: Vec<String> = plain
            .map(|door| format!("{} at {}", door.name, door.address()))
            .collect();
        (!far.is_empty()).then(|| {
            format!(
                "{}: what goes through is not encrypted{}; keep it in a network that you trust",
                far.join(", "),
                if asks_nobody {
                    ", and whoever reaches a listener without a login may do what everybody may"
                } else {
                    ""
                }
            )
        })
    }

    /// A line at start about settings of rules where nobody asks these.
    #[must_use]
    pub fn warning_of_rules(&self) -> Option<String> {
        crate::access::warning(&self.layers)
    }

    /// A line at start about what an operator has accepted between nodes.
    #[must_use]
    pub fn warning_of_nodes(&self) -> Option<String> {
        let door = self.door_for_nodes()?;
        self.quorum.is_insecure.then(|| {
            format!(
                "esker.cluster.insecure: anybody who reaches {} can act as a node of this cluster; keep it in a network that you trust",
                door.address()
            )
        })
    }

    /// The listener at which other nodes find this one.
    #[must_use]
    pub fn door_for_nodes(&self) -> Option<&Listener> {
        let own = self.quorum.controller_listener.as_ref();
        own.or(self.listeners.first())
    }

    /// True if the setting was given at start.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.layers.fixed.get(name).is_some()
    }

    /// A number as it holds now, of a setting that has no field of its own.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<i64> {
        self.layers.number(name)
    }

    /// The same, if an operator has set it; `None` if the built-in value holds.
    #[must_use]
    pub fn given_number(&self, name: &str) -> Option<i64> {
        let is_given = self.layers.is_given(name);
        is_given.then(|| self.layers.number(name)).flatten()
    }

    /// True if a switch that has no field of its own is on now.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.layers.flag(name)
    }

    /// A text, or a list with commas, as it holds now, of a setting that has no field of its own.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.layers.text(name)
    }

    /// Checks the dynamic settings `after` before they are written. `level` says whether they are the broker's or the cluster's, and
    /// has those of the other level.
    pub fn check_change(&self, after: &Overrides, level: Level<'_>) -> Result<(), ChangeError> {
        let names = |refused: &dyn Fn(Update) -> bool| -> Vec<String> {
            let is_refused = |name: &&String| {
                table::broker_setting(name).is_some_and(|setting| refused(setting.update))
            };
            after.keys().filter(is_refused).cloned().collect()
        };
        let fixed = names(&|update| update == Update::ReadOnly);
        if !fixed.is_empty() {
            return Err(ChangeError::Fixed(fixed));
        }
        let before = match level {
            Level::Cluster { .. } => &self.layers.cluster,
            Level::Own { .. } => &self.layers.own,
        };
        // Settings that an earlier version stored are no obstacle to other changes.
        let is_new = |name: &&String| before.get(*name) != after.get(*name);
        let is_refused = |name: &&String| table::is_tls_or_sasl(name) && is_new(name);
        let security: Vec<String> = after.keys().filter(is_refused).cloned().collect();
        let is_of_all = |name: &String| !name.starts_with(table::LISTENER_PREFIX);
        if security.iter().any(is_of_all) {
            return Err(ChangeError::WithoutListener(
                security.into_iter().filter(is_of_all).collect(),
            ));
        }
        if !security.is_empty() {
            return Err(ChangeError::AtStart(security));
        }
        let single = names(&|update| update == Update::PerBroker);
        if matches!(level, Level::Cluster { .. }) && !single.is_empty() {
            return Err(ChangeError::PerBroker(single));
        }
        for (name, text) in after {
            if let Some(setting) = table::broker_setting(name) {
                value::check(setting, text)?;
            }
        }
        let after = Arc::new(after.clone());
        let (cluster, own) = match level {
            Level::Cluster { own } => (after, Arc::clone(own)),
            Level::Own { cluster } => (Arc::clone(cluster), after),
        };
        let layers = Layers {
            own,
            cluster,
            ..self.layers.clone()
        };
        let checked = if layers.own.contains_key(CORDONED) {
            check_cordoned(&layers)
        } else {
            Ok(())
        };
        checked
            .and_then(|()| Broker::from_layers(layers).map(|_| ()))
            .map_err(|error| match error {
                SettingsError::Value(error) => ChangeError::Value(error),
                error => ChangeError::Contradiction(error.to_string()),
            })
    }
}

/// Which dynamic settings of a broker are to change, beside those of the other level.
#[derive(Clone, Copy, Debug)]
pub enum Level<'a> {
    /// The defaults of all brokers.
    Cluster { own: &'a Arc<Overrides> },
    /// Those of this broker.
    Own { cluster: &'a Arc<Overrides> },
}

/// Why dynamic broker settings were refused; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error("Cannot update these configs dynamically: [{}]", .0.join(", "))]
    Fixed(Vec<String>),
    #[error("Cannot update these configs at default cluster level, broker id must be specified: [{}]", .0.join(", "))]
    PerBroker(Vec<String>),
    #[error("These security configs can be dynamically updated only per-listener using the listener prefix: [{}]", .0.join(", "))]
    WithoutListener(Vec<String>),
    #[error("Settings of TLS and SASL are read at start in this version, and are not stored in the metadata, where secrets would be in clear: [{}]", .0.join(", "))]
    AtStart(Vec<String>),
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error("{0}")]
    Contradiction(String),
}

fn cordoned(layers: &Layers) -> Vec<PathBuf> {
    LogDirs::new(layers).cordoned(&layers.text(CORDONED).unwrap_or_default())
}

fn check_cordoned(layers: &Layers) -> Result<(), SettingsError> {
    let list = layers.text(CORDONED).unwrap_or_default();
    let checked = LogDirs::new(layers).check_cordoned(&list);
    checked.map_err(|reason| SettingsError::Unusable {
        name: CORDONED,
        reason,
    })
}

fn ip_overrides(text: &str) -> Option<BTreeMap<String, usize>> {
    let pair = |item: &String| {
        let (address, count) = item.rsplit_once(':')?;
        Some((address.trim().to_owned(), count.trim().parse().ok()?))
    };
    value::list(text).iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{MACHINE, broker, broker_on, overrides};

    #[test]
    fn connections_leave_descriptors_for_files() {
        let limits = |text: &str, descriptors| {
            let machine = Machine {
                descriptors,
                ..MACHINE
            };
            let broker = broker_on(machine, text).expect("usable");
            (broker.connections_max, broker.segment_files_max)
        };
        assert_eq!(limits("", 20_000), (11_000, 8_000));
        assert_eq!(limits("max.connections=7", 20_000), (7, 8_000));
        assert_eq!(limits("max.connections=20000", 1024), (472, 416));
        assert_eq!(limits("", 256), (88, 72));
    }

    #[test]
    fn a_broker_without_settings_is_usable() {
        let broker = broker("");
        assert_eq!(broker.node_id, BrokerId(1));
        assert_eq!(broker.log_dirs, [PathBuf::from("./data")]);
        assert_eq!(broker.metadata_log_dir, None);
        assert_eq!(broker.listeners[0].address(), "127.0.0.1:9092");
        assert_eq!(broker.network_threads, 3);
        assert_eq!(broker.queued_bytes_max, 128 << 20, "one 64th of 8 GiB");
        assert_eq!(broker.producer_id_expiration, Duration::from_secs(86_400));
        assert_eq!(broker.connection_idle_max, Some(Duration::from_secs(600)));
        assert!(broker.auto_create_topics && broker.delete_topics);
    }

    #[test]
    fn doors_of_the_controller_are_not_for_clients() {
        let text = "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\nadvertised.listeners=PLAINTEXT://host:9092,CONTROLLER://host:9093\n\
            listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\nnode.id=7";
        let broker = broker(text);
        assert_eq!(broker.listeners.len(), 1);
        let door = broker.quorum.controller_listener.as_ref();
        assert_eq!(door.map(|door| door.port), Some(9093));
        let advertised = broker.quorum.controllers_advertised.first();
        assert_eq!(advertised.map(Listener::address), Some("host:9093".into()));
        assert_eq!(broker.advertised[0].address(), "host:9092");
        assert_eq!(broker.node_id, BrokerId(7));
    }

    #[test]
    fn contradictions_stop_the_start() {
        let cases = [
            ("log.dir=", "log.dirs: names no directory"),
            ("log.dirs=", "log.dirs: names no directory"),
            ("log.dirs=a,b,a", "log.dirs: names a directory twice"),
            (
                "listeners=INSIDE://:1,OUTSIDE://:2",
                "listener.security.protocol.map: says no protocol for INSIDE and OUTSIDE; set it to INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            ),
            (
                "listeners=SSL://:1",
                "listeners: SSL speaks SSL; TLS comes with the next version",
            ),
            (
                "advertised.listeners=PLAINTEXT://0.0.0.0:1",
                "advertised.listeners: clients cannot connect to all addresses",
            ),
            (
                "advertised.listeners=X://h:1",
                "advertised.listeners: X is no listener",
            ),
            (
                "advertised.listeners=",
                "advertised.listeners: names no door for clients; leave it out to advertise listeners as they are bound",
            ),
            (
                "advertised.listeners=CONTROLLER://h:1",
                "advertised.listeners: names no door for clients; leave it out to advertise listeners as they are bound",
            ),
            (
                "inter.broker.listener.name=INSIDE",
                "inter.broker.listener.name: must be the name of a listener: PLAINTEXT",
            ),
            (
                "security.inter.broker.protocol=SSL",
                "security.inter.broker.protocol: must be the name of a listener: PLAINTEXT",
            ),
            (
                "listeners=CONTROLLER://:1",
                "listeners: names no door for clients",
            ),
            (
                "max.connections.per.ip.overrides=a",
                "max.connections.per.ip.overrides: write it as address:count, separated by commas",
            ),
        ];
        for (text, words) in cases {
            let told = broker_on(MACHINE, text)
                .err()
                .map(|error| error.to_string());
            assert_eq!(told.as_deref(), Some(words));
        }
    }

    #[test]
    fn the_older_broker_id_counts_when_node_id_is_not_set() {
        assert_eq!(broker("broker.id=4").node_id, BrokerId(4));
        assert_eq!(broker("broker.id=5\nnode.id=5").node_id, BrokerId(5));
    }

    #[test]
    fn a_brokers_own_setting_beats_the_clusters_and_both_beat_the_file() {
        let broker = broker("max.connections=1");
        let cluster = overrides(&[("max.connections", "2")]);
        assert_eq!(broker.connections_max, 1);
        assert_eq!(
            broker
                .with_dynamic(cluster.clone(), Arc::default())
                .connections_max,
            2
        );
        assert_eq!(
            broker
                .with_dynamic(cluster, overrides(&[("max.connections", "3")]))
                .connections_max,
            3
        );
    }

    #[test]
    fn dynamic_settings_that_contradict_each_other_hold_as_far_as_they_can() {
        let broker = broker("log.cleaner.threads=2");
        let (threads, memory) = ("log.cleaner.threads", "log.cleaner.dedupe.buffer.size");
        let four = overrides(&[(threads, "4"), ("max.connections", "7")]);
        let small = overrides(&[(memory, "3145728")]);
        let both = |cluster: &Arc<Overrides>, own: &Arc<Overrides>| {
            let broker = broker.with_dynamic(Arc::clone(cluster), Arc::clone(own));
            let why = broker.passed_over.map(|why| why.to_string());
            (broker.cleaner.threads, broker.cleaner.dedupe_bytes, why)
        };
        let words = |level: &str| {
            Some(format!(
                "dynamic settings of {level} do not hold: {memory}: must be at least 1MB per cleaner thread."
            ))
        };
        assert_eq!(
            both(&four, &small),
            (2, 3_145_728, words("the cluster")),
            "its own come first"
        );
        let alone = overrides(&[(memory, "1048576")]);
        let usual = 128 << 20;
        assert_eq!(both(&four, &alone), (4, usual, words("this broker")));
        assert_eq!(
            both(&alone, &alone),
            (2, usual, words("the cluster and of this broker"))
        );
        assert_eq!(both(&four, &Arc::default()), (4, usual, None));
        // A value written by another version does not stay for ever: the next change is checked together with it.
        let more = overrides(&[(memory, "4194308")]);
        let check = |own| {
            broker
                .check_change(own, Level::Own { cluster: &four })
                .is_ok()
        };
        assert_eq!((check(&small), check(&more)), (false, true));
    }

    #[test]
    fn settings_of_an_operator_are_distinguished_from_built_in_ones() {
        let name = "group.consumer.min.heartbeat.interval.ms";
        assert_eq!(broker("").number(name), Some(5_000));
        assert_eq!(broker("").given_number(name), None);
        let given = broker(&format!("{name}=5000"));
        assert_eq!(given.given_number(name), Some(5_000));
        let own = overrides(&[("max.connections", "3")]);
        let changed = given.with_dynamic(Arc::default(), own);
        assert_eq!(changed.given_number("max.connections"), Some(3));
    }

    #[test]
    fn changes_are_refused_in_the_words_of_kafka_4_3() {
        let broker = broker("");
        let none = Arc::default();
        let says = |name, value, whole| {
            let level = if whole {
                Level::Cluster { own: &none }
            } else {
                Level::Own { cluster: &none }
            };
            match broker.check_change(&overrides(&[(name, value)]), level) {
                Ok(()) => "fine".to_owned(),
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(
            says("log.retention.hours", "5", false),
            "Cannot update these configs dynamically: [log.retention.hours]"
        );
        assert_eq!(
            says("node.id", "5", false),
            "Cannot update these configs dynamically: [node.id]"
        );
        assert_eq!(
            says("cordoned.log.dirs", "x", true),
            "Cannot update these configs at default cluster level, broker id must be specified: [cordoned.log.dirs]"
        );
        for whole in [false, true] {
            assert_eq!(
                says("ssl.keystore.location", "x", whole),
                "These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.keystore.location]"
            );
        }
        for name in [
            "listener.name.inside.ssl.keystore.password",
            "listener.name.inside.plain.sasl.jaas.config",
            "listener.name.inside.sasl.enabled.mechanisms",
        ] {
            assert_eq!(
                says(name, "secret", false),
                format!(
                    "Settings of TLS and SASL are read at start in this version, and are not stored in the metadata, where secrets would be in clear: [{name}]"
                )
            );
        }
        assert_eq!(
            says("log.segment.bytes", "5", false),
            "Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576"
        );
        assert!(
            says("log.retention.ms", "0", false).ends_with(
                "log.retention.ms: must be unlimited (-1) or, greater than or equal to 1"
            )
        );
        assert_eq!(says("log.retention.ms", "5000", true), "fine");
        assert_eq!(says("my.own", "5", false), "fine");
    }

    #[test]
    fn what_an_earlier_version_stored_is_no_obstacle_to_other_changes() {
        let stored = ("listener.name.a.ssl.key.password", "x");
        let own = overrides(&[stored]);
        let broker = broker("").with_dynamic(Arc::default(), own);
        let none = Arc::default();
        let check = |after: &[(&str, &str)]| {
            broker.check_change(&overrides(after), Level::Own { cluster: &none })
        };
        assert_eq!(check(&[stored, ("log.retention.ms", "5000")]), Ok(()));
        assert_eq!(check(&[]), Ok(()));
        assert!(check(&[("listener.name.a.ssl.key.password", "y")]).is_err());
    }
}
