//! The questions of `esker cluster status`: all brokers are asked at once, and the command ends in its time whoever is silent.
//!
//! Each question has a thread and a connection of its own. An answer that is not there in time is an error of that question alone.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use client::{Client, ClusterInfo, Error, LogDir, Options, Topic};
use env::Env;
use model::Instant;
use wire::ErrorCode;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::{ListOffsetsRequest, ListPartitionReassignmentsRequest};

use super::{Moving, Seen, details};
use crate::arguments::Global;
use crate::failure::Failure;

/// Partitions that a broker leads, as others say, which it is asked about.
const PROBES_MAX: usize = 5;
/// A reassignment that does not move is looked at again after this pause, if there is time.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Where the answers come from, and until when they may.
#[derive(Clone)]
struct Asking {
    bootstrap: String,
    until: Instant,
    timeout: Duration,
}

impl Asking {
    fn left(&self, env: &Env) -> Duration {
        self.until.since(env.clock.now())
    }

    /// Asks on a thread of its own, which is left alone when its time is up.
    #[allow(clippy::disallowed_methods)] // the environment's workers take turns, and these calls wait
    fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Client) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        let (sender, answer) = channel();
        let asking = self.clone();
        std::thread::spawn(move || {
            let env = Env::real();
            let left = asking.left(&env);
            let options = Options {
                timeout: left,
                io_timeout: left.max(Duration::from_millis(1)),
                ..Options::default()
            };
            let answer = Client::connect(&env, &asking.bootstrap, options);
            // Nobody waits for it any more.
            let _ = sender.send(answer.and_then(|mut client| what(&mut client)));
        });
        Pending {
            answer,
            asking: self.clone(),
        }
    }
}

struct Pending<T> {
    answer: Receiver<Result<T, Error>>,
    asking: Asking,
}

impl<T> Pending<T> {
    fn get(self, what: &str) -> Result<T, Error> {
        let left = self.asking.left(&Env::real());
        let answer = self.answer.recv_timeout(left);
        answer.unwrap_or_else(|_| {
            Err(Error::TimedOut {
                what: what.to_owned(),
                after: self.asking.timeout,
                last: None,
            })
        })
    }
}

/// Everything about a cluster. An error says that no broker of it answers.
pub(super) fn look(global: &Global) -> Result<Seen, Failure> {
    let env = Env::real();
    let timeout = global.timeout();
    let asking = Asking {
        bootstrap: global.bootstrap.clone(),
        until: env.clock.now().plus(timeout),
        timeout,
    };
    let cluster = asking.ask(Client::describe_cluster);
    let topics = asking.ask(Client::topics);
    let quorum = asking.ask(Client::describe_quorum);
    let features = asking.ask(Client::finalized_features);
    let moving = asking.ask(reassignments);
    let cluster = cluster.get("describing the cluster").map_err(waits)?;
    let topics = topics.get("listing topics").map_err(waits)?;
    let short = topics.clone();
    let details = asking.ask(move |client| Ok(details(client, &short)));
    let (mut log_dirs, serving) = brokers(&asking, &cluster, &topics);
    let mut moving = moving.get("listing reassignments").unwrap_or_default();
    look_again(&asking, &env, &mut moving, &mut log_dirs);
    let serves_nothing = serving.into_iter().filter(|(_, serves)| !serves);
    Ok(Seen {
        details: details.get("describing topics").unwrap_or_default(),
        quorum: (quorum.get("describing the quorum")).map_err(|error| error.to_string()),
        features: features.get("describing features").unwrap_or_default(),
        serves_nothing: serves_nothing.map(|(broker, _)| broker).collect(),
        cluster,
        log_dirs,
        topics,
        moving,
    })
}

type LogDirs = BTreeMap<i32, Result<Vec<LogDir>, String>>;

/// Directories of each broker that lives, and whether it serves what others say that it leads.
fn brokers(
    asking: &Asking,
    cluster: &ClusterInfo,
    topics: &[Topic],
) -> (LogDirs, BTreeMap<i32, bool>) {
    let live = cluster.brokers.iter().filter(|broker| !broker.is_fenced);
    let asked: Vec<_> = live
        .map(|broker| {
            let (id, led) = (broker.id, led_by(broker.id, topics));
            let dirs = asking.ask(move |client| client.log_dirs_of(id));
            let serves = asking.ask(move |client| serves(client, id, led));
            (id, dirs, serves)
        })
        .collect();
    let (mut log_dirs, mut serving) = (LogDirs::new(), BTreeMap::new());
    for (id, dirs, serves) in asked {
        let dirs = dirs.get(&format!("asking broker {id}"));
        log_dirs.insert(id, dirs.map_err(|error| error.to_string()));
        if let Ok(serves) = serves.get("") {
            serving.insert(id, serves);
        }
    }
    (log_dirs, serving)
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
fn serves(client: &mut Client, broker: i32, led: Vec<(String, i32)>) -> Result<bool, Error> {
    if led.is_empty() {
        return Ok(true);
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
    Ok(!all.all(|partition| partition.error_code == refused))
}

fn reassignments(client: &mut Client) -> Result<Vec<Moving>, Error> {
    let request = ListPartitionReassignmentsRequest {
        topics: None,
        ..Default::default()
    };
    let answer = client.call_controller(&request)?;
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
fn look_again(asking: &Asking, env: &Env, moving: &mut Vec<Moving>, log_dirs: &mut LogDirs) {
    let pause = LOOK_AGAIN;
    if moving.is_empty() || asking.left(env) < pause * 2 {
        return;
    }
    std::thread::sleep(pause);
    let again = asking.ask(reassignments).get("").unwrap_or_default();
    moving.retain(|old| again.iter().any(|new| new.is_of(old)));
    let mut asked: Vec<i32> = moving.iter().flat_map(|it| it.adding.clone()).collect();
    asked.sort_unstable();
    asked.dedup();
    let asked: Vec<_> = (asked.into_iter())
        .map(|id| (id, asking.ask(move |client| client.log_dirs_of(id))))
        .collect();
    let now: LogDirs = (asked.into_iter())
        .map(|(id, dirs)| (id, dirs.get("").map_err(|error| error.to_string())))
        .collect();
    for one in moving {
        let sizes = |dirs: &LogDirs| -> Vec<i64> {
            one.adding.iter().map(|id| stored(dirs, *id, one)).collect()
        };
        if sizes(log_dirs) == sizes(&now) {
            one.stands_still = Some(pause);
        }
    }
    for (id, dirs) in now {
        log_dirs.insert(id, dirs);
    }
}

/// Bytes that a broker has of a partition.
fn stored(dirs: &LogDirs, broker: i32, of: &Moving) -> i64 {
    let dirs = dirs.get(&broker).and_then(|dirs| dirs.as_ref().ok());
    let all = dirs.into_iter().flatten().flat_map(|dir| &dir.stored);
    let own = all.filter(|it| it.topic == of.topic && it.partition == of.partition);
    own.map(|it| it.bytes).sum()
}

/// A broker that takes connections and answers nothing is no member of its cluster yet.
fn waits(error: Error) -> Failure {
    let Error::Lost { address, .. } = &error else {
        return error.into();
    };
    let what =
        format!("{address} is up and serves nobody: it waits for voters of its cluster ({error})");
    Failure::new(what).hint(
        "start the other voters: it takes a majority of them, and in a new cluster all; its log says whom it does not reach",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
        };
        let env = Env::real();
        let began = env.clock.now();
        assert!(look(&global).is_err());
        let took = env.clock.now().since(began);
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}
