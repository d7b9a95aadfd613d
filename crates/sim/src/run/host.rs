//! A broker under test on its machine: started, struck, and started again.
//!
//! Owns the one broker on the machine. A start that fails while nothing is wrong with the machine is a violation; any
//! other way of ending is followed by a new start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, Ceilings};
use env::sim::{Chance, HostId, Machine, address_of};
use model::Instant;
use wire::ApiKey;

use crate::client::line::{LONE, PORT};
use crate::client::member::SESSION_MS;
use crate::client::notes::Notes;

use super::plan::Plan;

/// How the broker came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    PowerCut,
    Kill,
}

pub(crate) struct Host {
    pub(crate) machine: Arc<Machine>,
    config: config::Broker,
    /// Each start names the log directories in another order.
    turns_dirs: bool,
    /// Each start speaks the versions of another build.
    turns_builds: bool,
    broker: Option<Broker>,
    start_at: Instant,
    pub(crate) starts: u64,
    pub(crate) starts_failed: u64,
    pub(crate) failures: u64,
    pub(crate) pages_lost: u64,
    /// Clean stops that came to their end.
    pub(crate) stops: u64,
    /// Brokers of which something stayed in memory after their end.
    pub(crate) remains: u64,
}

/// In the directory that has the metadata log.
const METADATA_MARK: &str = "esker.metadata";
/// Time between the end of a broker and its next start.
const PAUSE: Duration = Duration::from_millis(200);
/// A clean stop must be over by then.
const STOP_MAX: Duration = Duration::from_secs(60);

/// The file with the secret of the cluster, and what is in it.
const SECRET: &str = "/etc/esker/cluster.secret";
const SECRET_TEXT: &[u8] = b"c2ltdWxhdGVkIG1hY2hpbmVzIHRydXN0IGVhY2ggb3RoZXI=\n";

impl Host {
    pub(crate) fn new(machine: &Arc<Machine>, plan: &Plan) -> Host {
        machine.install(Path::new(SECRET), SECRET_TEXT);
        Host {
            config: settings(plan, machine.host(), machine.address(PORT)),
            machine: machine.clone(),
            turns_dirs: plan.turns_dirs,
            turns_builds: plan.turns_builds,
            broker: None,
            start_at: Instant(0),
            starts: 0,
            starts_failed: 0,
            failures: 0,
            pages_lost: 0,
            stops: 0,
            remains: 0,
        }
    }

    pub(crate) fn start_at(&self) -> Option<Instant> {
        self.broker.is_none().then_some(self.start_at)
    }

    /// No start until it is called back.
    pub(crate) fn stay_away(&mut self) {
        self.start_at = Instant(u64::MAX);
    }

    pub(crate) fn come_back(&mut self) {
        self.start_at = self.machine.now();
    }

    pub(crate) fn broker(&self) -> Option<&Broker> {
        self.broker.as_ref()
    }

    pub(crate) fn config(&self) -> &config::Broker {
        &self.config
    }

    /// Neither between two brokers nor with one that has come to its end and was not tended since.
    pub(crate) fn is_running(&self) -> bool {
        self.broker.is_some() && !self.machine.is_off() && self.machine.workers_count() > 0
    }

    /// Notices an end, and starts a broker when it is time.
    pub(crate) fn tend(&mut self, chance: &mut Chance, notes: &mut Notes) {
        if self.machine.is_off() {
            self.end(End::PowerCut);
        } else if self.broker.is_some() && self.machine.workers_count() == 0 {
            // It gave up by itself, as it must after a failed sync.
            self.failures += 1;
            let end = if chance.one_in(2) {
                End::PowerCut
            } else {
                End::Kill
            };
            self.end(end);
        }
        if self.broker.is_none() && self.machine.now() >= self.start_at {
            self.start(notes);
        }
    }

    fn start(&mut self, notes: &mut Notes) {
        let failed_before = self.failures_of_machine();
        self.starts += 1;
        if self.turns_dirs {
            self.config.log_dirs.rotate_left(1);
        }
        let is_older = (self.starts + u64::from(self.machine.host().0)).is_multiple_of(2);
        let ceilings = match self.turns_builds && is_older {
            true => older_build(),
            false => Ceilings::default(),
        };
        match Broker::start_as(&self.machine.env(), self.config.clone(), ceilings) {
            Ok(broker) => self.broker = Some(broker),
            Err(error) => {
                self.starts_failed += 1;
                let counts = self.failures_of_machine();
                if counts == failed_before && !self.machine.is_off() {
                    notes.violation(format!("the broker does not start: {error}"));
                }
                let end = if self.machine.is_off() {
                    End::PowerCut
                } else {
                    End::Kill
                };
                self.end(end);
            }
        }
    }

    /// Counts everything the machine did wrong to the broker.
    fn failures_of_machine(&self) -> u64 {
        let counts = self.machine.counts();
        counts.syncs_failed
            + counts.writes_failed
            + counts.reads_failed
            + counts.writes_refused_full
    }

    pub(crate) fn end(&mut self, end: End) {
        match end {
            End::PowerCut => self.pages_lost += self.machine.power_cut().pages,
            End::Kill => self.machine.kill(),
        }
        if let Some(broker) = self.broker.take() {
            let remains = broker.remains();
            drop(broker);
            self.remains += u64::from(remains());
        }
        self.start_at = self.machine.now().plus(PAUSE);
        self.machine.alarm(self.start_at);
    }

    /// The process ends, and finds an empty directory in the place of each that has no metadata log. False if there is none. A voter of a
    /// fixed set that forgets its vote is another fault, for which the quorum promises nothing.
    pub(crate) fn wipe(&mut self) -> bool {
        // It may have lost its power a moment ago.
        self.end(if self.machine.is_off() {
            End::PowerCut
        } else {
            End::Kill
        });
        // A cut that waits for an operation of the disk is for one of the next process.
        let mut cut_at = None;
        self.machine
            .faults(|faults| cut_at = faults.crash_at_op.take());
        let disk = self.machine.env().disk;
        let is_marked = |dir: &Path| disk.exists(&dir.join(METADATA_MARK)).unwrap_or(true);
        let dirs = self.config.log_dirs.iter();
        let taken: Vec<PathBuf> = dirs.filter(|dir| !is_marked(dir)).cloned().collect();
        for dir in &taken {
            let replaced = (disk.remove_dir_all(dir))
                .and_then(|()| disk.create_dir_all(dir))
                .and_then(|()| disk.sync_dir(dir.parent().unwrap_or(dir)));
            replaced.expect("a directory of a node that does not run can be replaced");
        }
        self.machine.faults(|faults| faults.crash_at_op = cut_at);
        !taken.is_empty()
    }

    /// Asks the broker to stop, and complains when it does not although its machine works.
    pub(crate) fn stop(&mut self, notes: &mut Notes) {
        if let Some(broker) = &self.broker {
            broker.stop();
            let stopped = self
                .machine
                .run_until(STOP_MAX, |machine| machine.workers_count() == 0);
            self.stops += u64::from(stopped);
            if !stopped && !self.machine.is_off() {
                notes.violation(format!(
                    "the broker does not stop: {}",
                    self.machine.describe_workers()
                ));
            }
        }
        self.end(if self.machine.is_off() {
            End::PowerCut
        } else {
            End::Kill
        });
    }
}

/// A build that knows one version less of each request of nodes, where the one before says all that the protocol between them rests on.
fn older_build() -> Ceilings {
    Ceilings::new([
        (ApiKey::Fetch, 16),
        (ApiKey::ApiVersions, 3),
        (ApiKey::AddPartitionsToTxn, 4),
        (ApiKey::WriteTxnMarkers, 1),
        (ApiKey::BeginQuorumEpoch, 0),
        (ApiKey::EndQuorumEpoch, 0),
        (ApiKey::FetchSnapshot, 0),
        (ApiKey::BrokerRegistration, 3),
        (ApiKey::BrokerHeartbeat, 1),
    ])
}

/// The settings that make the brokers one cluster. A session is short enough that some end, and long enough that a broker which was
/// killed and came back at once is not missed.
fn united(plan: &Plan) -> Vec<(&'static str, String)> {
    let voters = (1..=plan.nodes).map(|node| format!("{node}@{}:{PORT}", address_of(HostId(node))));
    let voters: Vec<String> = voters.collect();
    let often = plan.snapshot_bytes.map(|bytes| {
        let name = "metadata.log.max.record.bytes.between.snapshots";
        (name, bytes.to_string())
    });
    let settings = [
        ("controller.quorum.voters", voters.join(",")),
        ("esker.cluster.secret.file", SECRET.to_owned()),
        ("broker.heartbeat.interval.ms", "300".to_owned()),
        ("broker.session.timeout.ms", "2000".to_owned()),
    ];
    let mut settings: Vec<_> = settings.into_iter().chain(often).collect();
    let in_sync = (plan.replicas - 1).max(1);
    settings.extend([
        (
            "offsets.topic.replication.factor",
            plan.replicas.to_string(),
        ),
        (
            "transaction.state.log.replication.factor",
            plan.replicas.to_string(),
        ),
        ("transaction.state.log.min.isr", in_sync.to_string()),
        ("min.insync.replicas", in_sync.to_string()),
        ("replica.lag.time.max.ms", "1500".to_owned()),
    ]);
    settings
}

/// The settings of a broker that is alone in its world.
pub(super) fn lone_settings(plan: &Plan) -> config::Broker {
    settings(plan, HostId::FIRST, LONE)
}

fn settings(plan: &Plan, node: HostId, address: SocketAddr) -> config::Broker {
    let dirs: Vec<String> = (0..plan.log_dirs)
        .map(|dir| format!("/data/{dir}"))
        .collect();
    let session = SESSION_MS.to_string();
    let pairs = [
        ("node.id", node.0.to_string()),
        ("listeners", format!("PLAINTEXT://{address}")),
        ("log.dirs", dirs.join(",")),
        ("num.network.threads", plan.network_threads.to_string()),
        ("esker.journal.piece.bytes", (1 << 20).to_string()),
        ("esker.journal.bytes", (2 << 20).to_string()),
        ("offsets.topic.num.partitions", "3".to_owned()),
        ("transaction.state.log.num.partitions", "3".to_owned()),
        (
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            "500".to_owned(),
        ),
        ("group.min.session.timeout.ms", "100".to_owned()),
        ("group.initial.rebalance.delay.ms", "100".to_owned()),
        ("group.consumer.min.session.timeout.ms", session.clone()),
        ("group.consumer.session.timeout.ms", session),
        ("group.consumer.min.heartbeat.interval.ms", "100".to_owned()),
        ("group.consumer.heartbeat.interval.ms", "100".to_owned()),
        ("log.cleaner.backoff.ms", "200".to_owned()),
        ("log.segment.delete.delay.ms", "1000".to_owned()),
        ("log.retention.check.interval.ms", "2000".to_owned()),
        (
            "log.esker.durability",
            if plan.is_relaxed { "os" } else { "sync" }.to_owned(),
        ),
    ];
    let internal = ["offsets.topic", "transaction.state.log"].map(|topic| {
        let name = format!("{topic}.segment.bytes");
        (name, plan.internal_segment_bytes.to_string())
    });
    let united: Vec<(&str, String)> = if plan.is_united {
        united(plan)
    } else {
        Vec::new()
    };
    let mut settings = config::Settings::default();
    let internal = internal.iter();
    let internal = internal.map(|(name, value)| (name.as_str(), value.clone()));
    let small = [
        ("queued.max.request.bytes", 1 << 20),
        ("esker.hot.tail.bytes", 128 << 10),
        ("max.incremental.fetch.session.cache.slots", 6),
    ];
    let small = small.map(|(name, bound)| (name, bound.to_string()));
    let small = small.into_iter().filter(|_| plan.crowd > 0);
    let requests = plan.request_bytes;
    let requests = requests.map(|bytes| ("queued.max.request.bytes", bytes.to_string()));
    let small = small.chain(requests);
    for (name, value) in pairs.into_iter().chain(internal).chain(small).chain(united) {
        settings
            .put(name, &value)
            .expect("a setting of the simulator is known");
    }
    config::Broker::new(
        settings,
        config::Machine {
            cores: 2,
            memory_bytes: 0,
            descriptors: 20_000,
        },
    )
    .expect("the simulator's settings fit each other")
}
