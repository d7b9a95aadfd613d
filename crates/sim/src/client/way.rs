//! The way to a broker that has a leadership: the leader of a partition, or the coordinator of a key.
//!
//! Owns a connection to some broker that is asked, and then to another one, until one answers. An answer is what one broker knew: whoever
//! is sent away by the broker that it leads to asks anew.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use env::sim::{Chance, Outside};
use model::Instant;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{
    FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse,
};

use super::line::{Line, LineError};
use super::notes::Notes;
use super::requests::find_coordinator;

/// Another broker is asked when one does not answer within this.
const PATIENCE: Duration = Duration::from_secs(2);
/// And when it did not know.
const PAUSE: Duration = Duration::from_millis(50);

/// The leadership that is looked for.
#[derive(Clone, Debug)]
pub(crate) enum Goal {
    Leader { topic: String, partition: i32 },
    Coordinator { key: String, key_type: i8 },
}

pub(crate) struct Way {
    goal: Goal,
    /// All brokers.
    doors: Arc<[SocketAddr]>,
    chance: Chance,
    found: Option<SocketAddr>,
    guide: Option<Line>,
    /// When the guide was asked, or did not know.
    since: Instant,
}

impl Way {
    pub(crate) fn new(goal: Goal, doors: Arc<[SocketAddr]>, chance: Chance) -> Way {
        Way {
            goal,
            doors,
            chance,
            found: None,
            guide: None,
            since: Instant(0),
        }
    }

    pub(crate) fn has_news(&self) -> bool {
        self.guide.as_ref().is_some_and(Line::has_news)
    }

    /// The broker that was found has the leadership no more.
    pub(crate) fn forget(&mut self) {
        self.found = None;
    }

    /// Where the broker is, as soon as one that was asked has said it; asks otherwise, and returns when to come back for the answer.
    pub(crate) fn find(
        &mut self,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<SocketAddr, Instant> {
        let now = world.now();
        if let Some(found) = self.found {
            return Ok(found);
        }
        match self.guide.as_mut().map(Line::poll) {
            Some(Ok(Some(answer))) => {
                self.guide = None;
                self.since = now;
                let found = match &self.goal {
                    Goal::Coordinator { .. } => answer
                        .decode::<FindCoordinatorRequest>()
                        .map(|found| coordinator(&found)),
                    Goal::Leader { partition, .. } => {
                        answer.decode::<MetadataRequest>().map(|known| {
                            // Some clients forget all brokers by it, and come back to none.
                            if known.brokers.is_empty() && !known.topics.is_empty() {
                                notes.violation(
                                    "an answer about a topic names no broker".to_owned(),
                                );
                            }
                            leader(&known, *partition)
                        })
                    }
                };
                self.found = self.heard(found, notes).flatten();
                return self.found.ok_or(now.plus(PAUSE));
            }
            Some(Ok(None)) if now.since(self.since) < PATIENCE => {
                return Err(self.since.plus(PATIENCE));
            }
            Some(told) => {
                self.heard(told, notes);
                self.guide = None;
            }
            None => {}
        }
        let door = *self.chance.pick(&self.doors);
        self.since = now;
        let Ok(mut guide) = Line::open(world, door) else {
            return Err(now.plus(PAUSE));
        };
        match &self.goal {
            Goal::Coordinator { key, key_type } => {
                guide.ask(&find_coordinator(key, *key_type), 3, true)
            }
            Goal::Leader { topic, .. } => guide.ask(&metadata(topic), 9, true),
        };
        self.guide = Some(guide);
        Err(now.plus(PATIENCE))
    }

    fn heard<T>(&self, told: Result<T, LineError>, notes: &mut Notes) -> Option<T> {
        if let Err(LineError::Nonsense(what)) = &told {
            notes.violation(format!("the way to {:?}: {what}", self.goal));
        }
        told.ok()
    }
}

fn metadata(topic: &str) -> MetadataRequest {
    MetadataRequest {
        topics: Some(vec![MetadataRequestTopic {
            name: Some(topic.to_owned()),
            ..MetadataRequestTopic::default()
        }]),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    }
}

fn coordinator(found: &FindCoordinatorResponse) -> Option<SocketAddr> {
    (found.error_code == 0)
        .then(|| address(&found.host, found.port))
        .flatten()
}

fn leader(known: &MetadataResponse, partition: i32) -> Option<SocketAddr> {
    let mut partitions = known.topics.iter().flat_map(|topic| &topic.partitions);
    let of = partitions.find(|of| of.partition_index == partition && of.error_code == 0)?;
    let mut brokers = known.brokers.iter();
    let broker = brokers.find(|broker| broker.node_id == of.leader_id)?;
    address(&broker.host, broker.port)
}

fn address(host: &str, port: i32) -> Option<SocketAddr> {
    let host: IpAddr = host.parse().ok()?;
    Some(SocketAddr::new(host, u16::try_from(port).ok()?))
}
