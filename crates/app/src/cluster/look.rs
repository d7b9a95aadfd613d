//! The questions of `esker cluster status`: all brokers are asked at once, and the command ends in its time whoever is silent.
//!
//! Each question has a thread and a connection of its own. An answer that is not there in time is an error of that question alone.

use std::collections::BTreeMap;
use std::time::Duration;

use client::{
    BrokerInfo, Client, ClusterInfo, Error, LogDir, QuorumInfo, ReplicaInfo, Stored, Topic,
};
use env::Env;
use wire::ErrorCode;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::{ListOffsetsRequest, ListPartitionReassignmentsRequest};

use super::asking::{Asking, Pending};
use super::doors;
use super::sights::{self, Sights};
use super::unheard::{Unheard, waits};
use super::{Details, Moving, Seen, Still, details, findings};
use crate::arguments::Global;
use crate::connect;
use crate::failure::Failure;

/// Partitions that a broker leads, as others say, which it is asked about.
const PROBES_MAX: usize = 5;
/// A reassignment that does not move is looked at again after this pause, if there is time.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// A broker that has not answered by then is shown as one that does not.
const BROKER_WAIT: Duration = Duration::from_secs(3);

/// Everything about a cluster. An error says that no broker of it answers.
pub(super) fn look(global: &Global) -> Result<Seen, Failure> {
    let env = Env::real();
    let timeout = global.timeout();
    let asking = Asking {
        bootstrap: global.bootstrap.clone(),
        until: env.clock.now().plus(timeout),
        timeout,
        options: connect::options(global),
    };
    let doors::Entrance {
        bootstrap,
        address: first,
        cluster,
    } = doors::enter(&asking, BROKER_WAIT)?;
    let asking = asking.at(&bootstrap);
    let brokers = cluster.brokers.iter();
    let numbers = brokers.map(|broker| (super::address(broker), broker.id));
    let numbers: BTreeMap<String, i32> = numbers.collect();
    let Sights {
        quorum,
        source,
        cut_off,
    } = sights::sights(&asking, &numbers);
    if let Err(error) = &quorum
        && error.code() == Some(ErrorCode::ClusterAuthorizationFailed)
    {
        // Nothing is wrong with the cluster.
        let failure = Failure::new("the state of the cluster is for those who have Describe on it");
        return Err(failure.hint(
            "log in as one of them by --command-config, ask esker.sock of a node, or: esker acl add --principal NAME --operation describe --cluster",
        ));
    }
    match source {
        Some(address) => with_controller(&asking.at(&address), quorum, cut_off),
        None => without_controller(
            &asking.at(&first).for_at_most(BROKER_WAIT),
            cluster,
            quorum,
            cut_off,
        ),
    }
}

type Quorum = Result<QuorumInfo, Error>;

/// As a broker that has a controller says.
fn with_controller(
    asking: &Asking,
    quorum: Quorum,
    cut_off: BTreeMap<i32, String>,
) -> Result<Seen, Failure> {
    let env = Env::real();
    let (cluster, topics) = brokers_and_topics(asking)?;
    let features = asking.ask(Client::finalized_features);
    let moving = asking.ask(reassignments);
    let brokers = Brokers::ask(asking, &cluster, &topics);
    let asked = quorum.as_ref().map(|quorum| doubtful(quorum, &cluster));
    let voters = sights::voters(asking, &asked.unwrap_or_default());
    let (mut log_dirs, serving) = brokers.answers();
    let (cluster, topics) = if is_in_doubt(&cluster, &log_dirs) {
        // The controller may have fenced it since.
        brokers_and_topics(asking).unwrap_or((cluster, topics))
    } else {
        (cluster, topics)
    };
    let short = topics.clone();
    let details = asking.ask(move |client| Ok(details(client, &short)));
    let mut moving = moving.get("listing reassignments").unwrap_or_default();
    look_again(asking, &env, &cluster, &topics, &mut moving, &mut log_dirs);
    let live = cluster.brokers.iter().filter(|broker| !broker.is_fenced);
    let silent = |id: &i32| serving.get(id) == Some(&false) || cut_off.contains_key(id);
    Ok(Seen {
        details: details.get("describing topics").unwrap_or_default(),
        quorum: quorum.map_err(|error| error.to_string()),
        features: features.get("describing features").unwrap_or_default(),
        serves_nothing: live.map(|broker| broker.id).filter(silent).collect(),
        is_old: false,
        is_unserved: false,
        cut_off,
        voters,
        cluster,
        log_dirs,
        topics,
        moving,
    })
}

/// As a broker says that has no controller: its metadata are of the moment before.
fn without_controller(
    asking: &Asking,
    cluster: ClusterInfo,
    quorum: Quorum,
    cut_off: BTreeMap<i32, String>,
) -> Result<Seen, Failure> {
    let topics = asking.ask(Client::topics);
    let features = asking.ask(Client::finalized_features);
    let topics = topics
        .get("listing topics")
        .map_err(|error| waits(error, &asking.options))?;
    let (log_dirs, serving) = Brokers::ask(asking, &cluster, &topics).answers();
    let serves = |broker: &BrokerInfo| serving.get(&broker.id) == Some(&true);
    Ok(Seen {
        details: Details::default(),
        quorum: quorum.map_err(|error| error.to_string()),
        features: features.get("describing features").unwrap_or_default(),
        serves_nothing: cut_off.keys().copied().collect(),
        is_old: true,
        is_unserved: !cut_off.is_empty() && !cluster.brokers.iter().any(serves),
        cut_off,
        voters: BTreeMap::new(),
        cluster,
        log_dirs,
        topics,
        moving: Vec::new(),
    })
}

fn brokers_and_topics(asking: &Asking) -> Result<(ClusterInfo, Vec<Topic>), Failure> {
    let cluster = asking.ask(Client::describe_cluster);
    let topics = asking.ask(Client::topics);
    let cluster = cluster
        .get("describing the cluster")
        .map_err(|error| waits(error, &asking.options))?;
    let topics = topics
        .get("listing topics")
        .map_err(|error| waits(error, &asking.options))?;
    Ok((cluster, topics))
}

/// True if a broker said nothing that the controller takes for alive.
fn is_in_doubt(cluster: &ClusterInfo, log_dirs: &LogDirs) -> bool {
    let mut live = cluster.brokers.iter().filter(|broker| !broker.is_fenced);
    live.any(|broker| matches!(log_dirs.get(&broker.id), Some(Err(_))))
}

/// Voters that may run without a part in the cluster: those that do not follow, and those that are no brokers of it.
fn doubtful(quorum: &QuorumInfo, cluster: &ClusterInfo) -> Vec<(i32, String)> {
    let following = findings::following(quorum);
    let of_broker = |id: i32| cluster.brokers.iter().find(|broker| broker.id == id);
    let address = |voter: &ReplicaInfo| {
        let own = quorum.addresses.get(&voter.node).cloned();
        own.or_else(|| of_broker(voter.node).map(super::address))
    };
    let voters = quorum.voters.iter();
    let doubtful =
        voters.filter(|voter| of_broker(voter.node).is_none() || !following.contains(voter));
    doubtful
        .filter_map(|voter| Some((voter.node, address(voter)?)))
        .collect()
}

type LogDirs = BTreeMap<i32, Result<Vec<LogDir>, Unheard>>;

/// The questions to each broker, the fenced ones among them: one that runs needs something else than one that is down.
struct Brokers(Vec<Asked>);

struct Asked {
    broker: i32,
    dirs: Pending<Vec<LogDir>>,
    /// Of a broker that lives.
    serves: Option<Pending<Option<bool>>>,
}

impl Brokers {
    fn ask(asking: &Asking, cluster: &ClusterInfo, topics: &[Topic]) -> Brokers {
        let asking = &asking.for_at_most(BROKER_WAIT);
        let ask = |broker: &BrokerInfo| {
            let (id, led) = (broker.id, led_by(broker.id, topics));
            let serves = move |client: &mut Client| serves(client, id, led);
            Asked {
                broker: id,
                dirs: log_dirs_at(asking, broker),
                serves: (!broker.is_fenced).then(|| asking.ask(serves)),
            }
        };
        Brokers(cluster.brokers.iter().map(ask).collect())
    }

    /// Directories of each broker, and whether it serves what others say that it leads, if anything.
    fn answers(self) -> (LogDirs, BTreeMap<i32, bool>) {
        let (mut log_dirs, mut serving) = (LogDirs::new(), BTreeMap::new());
        for asked in self.0 {
            log_dirs.insert(asked.broker, heard(asked.dirs));
            if let Some(Ok(Some(serves))) = asked.serves.map(|serves| serves.get("")) {
                serving.insert(asked.broker, serves);
            }
        }
        (log_dirs, serving)
    }
}

fn log_dirs_at(asking: &Asking, broker: &BrokerInfo) -> Pending<Vec<LogDir>> {
    let (id, address) = (broker.id, super::address(broker));
    asking.ask_alone(move |env, options| Client::log_dirs_at(env, id, &address, options))
}

fn heard<T: Send + 'static>(pending: Pending<T>) -> Result<T, Unheard> {
    let time = pending.time();
    pending.get("").map_err(|error| Unheard::new(&error, time))
}

/// Some partitions that a broker leads, as another one says.
fn led_by(broker: i32, topics: &[Topic]) -> Vec<(String, i32)> {
    let all = topics.iter().flat_map(|topic| {
        let led = topic
            .partitions
            .iter()
            .filter(move |it| it.leader == Some(broker));
        led.map(|partition| (topic.name.clone(), partition.index))
    });
    all.take(PROBES_MAX).collect()
}

/// False if a broker refuses all partitions that it leads as others say: it has not heard from the controller, or is on its way out.
/// `None` if it leads none.
fn serves(
    client: &mut Client,
    broker: i32,
    led: Vec<(String, i32)>,
) -> Result<Option<bool>, Error> {
    if led.is_empty() {
        return Ok(None);
    }
    let topic = |(name, partition_index): (String, i32)| ListOffsetsTopic {
        name,
        partitions: vec![ListOffsetsPartition {
            partition_index,
            current_leader_epoch: -1,
            timestamp: -1,
        }],
    };
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: 0,
        topics: led.into_iter().map(topic).collect(),
        timeout_ms: 1_000,
    };
    let answer = client.call_broker(broker, &request)?;
    let mut all = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let refused = ErrorCode::NotLeaderOrFollower.code();
    Ok(Some(!all.all(|partition| partition.error_code == refused)))
}

fn reassignments(client: &mut Client) -> Result<Vec<Moving>, Error> {
    let request = ListPartitionReassignmentsRequest {
        topics: None,
        ..Default::default()
    };
    // A broker passes the question on, and the one that a client takes for the controller may be the one that is silent.
    let answer = client.call_any(&request)?;
    let topics = answer.topics.into_iter().flat_map(|topic| {
        let name = topic.name;
        topic.partitions.into_iter().map(move |partition| Moving {
            topic: name.clone(),
            partition: partition.partition_index,
            adding: partition.adding_replicas,
            stands_still: None,
        })
    });
    Ok(topics.collect())
}

/// Marks reassignments whose new replicas have not grown for a while, though they are not there yet.
#[allow(clippy::disallowed_methods)] // a command may wait
fn look_again(
    asking: &Asking,
    env: &Env,
    cluster: &ClusterInfo,
    topics: &[Topic],
    moving: &mut Vec<Moving>,
    log_dirs: &mut LogDirs,
) {
    let pause = LOOK_AGAIN;
    if moving.is_empty() || asking.left(env) < pause * 2 {
        return;
    }
    std::thread::sleep(pause);
    let again = asking.ask(reassignments).get("").unwrap_or_default();
    moving.retain(|old| again.iter().any(|new| new.is_of(old)));
    let asking = &asking.for_at_most(BROKER_WAIT);
    let leaders: Vec<Option<i32>> = moving.iter().map(|it| leader(topics, it)).collect();
    let adding: Vec<i32> = moving.iter().flat_map(|it| it.adding.clone()).collect();
    let is_asked =
        |broker: &&BrokerInfo| adding.contains(&broker.id) || leaders.contains(&Some(broker.id));
    let asked: Vec<_> = (cluster.brokers.iter().filter(is_asked))
        .map(|broker| (broker.id, log_dirs_at(asking, broker)))
        .collect();
    let now: LogDirs = (asked.into_iter())
        .map(|(id, dirs)| (id, heard(dirs)))
        .collect();
    for (one, leader) in moving.iter_mut().zip(leaders) {
        let sizes = |dirs: &LogDirs| -> Vec<i64> {
            one.adding.iter().map(|id| stored(dirs, *id, one)).collect()
        };
        if sizes(log_dirs) == sizes(&now) {
            let still = leader.and_then(|leader| still(&now, leader, one));
            one.stands_still = Some(still.map_or(Still::AtLeast(pause), Still::For));
        }
    }
    for (id, dirs) in now {
        log_dirs.insert(id, dirs);
    }
}

fn leader(topics: &[Topic], of: &Moving) -> Option<i32> {
    let topic = topics.iter().find(|topic| topic.name == of.topic)?;
    let mut partitions = topic.partitions.iter();
    partitions.find(|it| it.index == of.partition)?.leader
}

/// The files of a partition on a broker.
fn files<'a>(
    dirs: &'a LogDirs,
    broker: i32,
    of: &'a Moving,
) -> impl Iterator<Item = &'a Stored> + use<'a> {
    let dirs = dirs.get(&broker).and_then(|dirs| dirs.as_ref().ok());
    let all = dirs.into_iter().flatten().flat_map(|dir| &dir.stored);
    all.filter(|it| it.topic == of.topic && it.partition == of.partition)
}

/// Bytes that a broker has of a partition.
fn stored(dirs: &LogDirs, broker: i32, of: &Moving) -> i64 {
    files(dirs, broker, of).map(|it| it.bytes).sum()
}

/// The time for which a reassignment has not moved, as the leader says.
fn still(dirs: &LogDirs, leader: i32, of: &Moving) -> Option<Duration> {
    files(dirs, leader, of).find_map(|it| it.reassignment_still)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_config::CommandConfig;

    /// A peer that takes connections and never answers held the command up once for each question.
    #[test]
    #[allow(clippy::disallowed_methods)] // a real peer
    fn the_time_of_the_command_is_one_for_all_questions() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0");
        let silent = silent.expect("a free port");
        let address = silent.local_addr().expect("it listens");
        let global = Global {
            bootstrap: address.to_string(),
            json: false,
            timeout: Some(Duration::from_millis(300)),
            command_config: None,
            settings: CommandConfig::default(),
        };
        let env = Env::real();
        let began = env.clock.now();
        assert!(look(&global).is_err());
        let took = env.clock.now().since(began);
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}
