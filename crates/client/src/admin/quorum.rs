//! Questions about the quorum of the metadata log.

use std::collections::BTreeMap;
use std::time::Duration;

use env::Env;
use wire::ErrorCode;
use wire::messages::add_raft_voter_request::Listener;
use wire::messages::describe_quorum_request::{PartitionData as Asked, TopicData};
use wire::messages::describe_quorum_response::{PartitionData, ReplicaState};
use wire::messages::update_features_request::FeatureUpdateKey;
use wire::messages::{
    AddRaftVoterRequest, ApiVersionsRequest, DescribeQuorumRequest, DescribeQuorumResponse,
    RemoveRaftVoterRequest, UnregisterBrokerRequest, UpdateFeaturesRequest,
};

use crate::cluster::{Client, Patience, host_port};
use crate::error::Error;
use crate::options::Options;

/// The quorum as its leader sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuorumInfo {
    pub leader: i32,
    pub epoch: i32,
    /// `None` where the leader does not know yet what is committed.
    pub high_watermark: Option<i64>,
    pub voters: Vec<ReplicaInfo>,
    pub observers: Vec<ReplicaInfo>,
    /// Where voters are found, if the leader knows.
    pub addresses: BTreeMap<i32, String>,
    /// Name of the listener at which the leader is found.
    pub listener: Option<String>,
}

/// A replica of the metadata log: a node and its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoterKey {
    pub node: i32,
    pub directory: wire::Uuid,
}

/// An address of a voter, by the name of its listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoterAddress {
    pub listener: String,
    pub host: String,
    pub port: u16,
}

/// A replica of the metadata log. Times are those of the leader's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaInfo {
    pub node: i32,
    pub directory: wire::Uuid,
    /// `None` where it has not fetched since the leader was elected.
    pub log_end: Option<i64>,
    pub last_fetch_ms: Option<i64>,
    pub last_caught_up_ms: Option<i64>,
}

/// The quorum as one node sees it.
#[derive(Debug)]
pub struct QuorumSight {
    /// As the leader sees it: the node is that, passed the question on, or named the leader.
    pub quorum: Result<QuorumInfo, Error>,
    /// The words of a broker that is no part of its cluster now.
    pub cut_off: Option<String>,
}

/// How long a leader may take to change the voters.
const VOTER_TIMEOUT_MS: i32 = 30_000;
/// The direction of an update that only raises levels.
const UPGRADE: i8 = 1;
/// A broker that waits for longer waits for somebody.
const START_MAX: Duration = Duration::from_secs(5);
/// Of the words of a broker without a controller, and of a controller whose broker has not registered.
const HAS_NONE: &str = "has no controller";
const NOT_COUNTED: &str = "is not counted in";
const TOPIC: &str = "__cluster_metadata";

impl Client {
    /// The quorum as its leader sees it. Asks the broker that answers first, and the leader where that one names it; once, as an answer
    /// that does not come is one too.
    pub fn describe_quorum(&mut self) -> Result<QuorumInfo, Error> {
        let request = of_metadata();
        let first = self.call_any(&request)?;
        let elsewhere = (partition(&first)?).filter(|it| {
            it.error_code == ErrorCode::NotLeaderOrFollower.code()
                && self.brokers().contains_key(&it.leader_id)
        });
        match elsewhere.map(|it| it.leader_id) {
            Some(leader) => quorum(&self.call_broker(leader, &request)?),
            None => quorum(&first),
        }
    }

    /// The quorum as its leader sees it, by the first bootstrap address whose broker knows a leader. A broker without a controller serves no
    /// metadata, so none is asked for.
    ///
    /// # Errors
    /// [`Error::NoController`] names the last broker that has none, if no address led further.
    pub fn find_quorum(env: &Env, bootstrap: &str, options: Options) -> Result<QuorumInfo, Error> {
        let timeout = options.timeout;
        let mut client = Client::aside(env, bootstrap, options)?;
        client.within(timeout, Client::quorum_by_any)
    }

    fn quorum_by_any(&mut self) -> Result<QuorumInfo, Error> {
        let mut patience = Patience::new(self.env(), self.options().timeout.min(START_MAX));
        loop {
            let mut last = None;
            let addresses = self.bootstrap().to_vec();
            for (at, address) in addresses.iter().enumerate() {
                let greeted = self.greet(address, addresses.len() - at - 1);
                match greeted.and_then(|()| self.quorum_by(address)) {
                    Ok(found) => return Ok(found),
                    // That a broker waits for its controller says more than that another is not there.
                    Err(error) if !matches!(last, Some(Error::NoController { .. })) => {
                        last = Some(error);
                    }
                    Err(_) => {}
                }
            }
            match last.expect("the bootstrap list is not empty") {
                // One that has just started is part of its cluster in a moment. One that passed the question on to a controller which is
                // gone ends the connection, and knows the next controller soon.
                waiting @ (Error::NoController { .. } | Error::Lost { .. }) => {
                    patience
                        .pause("finding the quorum", waiting)
                        .map_err(reason)?;
                }
                error => return Err(error),
            }
        }
    }

    /// The quorum as the node at an address sees it, also where its broker is no part of the cluster.
    ///
    /// # Errors
    /// The node gives no answer.
    pub fn quorum_at(env: &Env, address: &str, options: Options) -> Result<QuorumSight, Error> {
        let mut client = Client::aside(env, address, options)?;
        let address = client.bootstrap().first().cloned().unwrap_or_default();
        client.sight(&address)
    }

    fn quorum_by(&mut self, address: &str) -> Result<QuorumInfo, Error> {
        self.sight(address)?.quorum
    }

    fn sight(&mut self, address: &str) -> Result<QuorumSight, Error> {
        let request = of_metadata();
        let first = self.call_at(address, &request)?;
        let told = partition(&first)?;
        // The broker says its number; the words of Kafka are of replicas in general.
        let is_own = |words: &&str| words.contains(HAS_NONE) || words.contains(NOT_COUNTED);
        let words = told.and_then(|told| told.error_message.as_deref());
        let cut_off = words.filter(is_own).map(str::to_owned);
        let not_leader = ErrorCode::NotLeaderOrFollower.code();
        let quorum = match told.filter(|told| told.error_code == not_leader) {
            None => quorum(&first),
            Some(told) => {
                let said = cut_off.clone();
                let said = said.unwrap_or_else(|| format!("the broker at {address} {HAS_NONE}"));
                self.ask_leader(&request, &first, told.leader_id, said)
            }
        };
        Ok(QuorumSight { quorum, cut_off })
    }

    /// Asks the leader that another node named, if it named one.
    fn ask_leader(
        &mut self,
        request: &DescribeQuorumRequest,
        first: &DescribeQuorumResponse,
        leader: i32,
        said: String,
    ) -> Result<QuorumInfo, Error> {
        let has_others = self.bootstrap().len() < first.nodes.len().max(2);
        if leader < 0 {
            return Err(Error::NoController { said, has_others });
        }
        let node = first.nodes.iter().find(|node| node.node_id == leader);
        let Some(at) = node.and_then(|node| node.listeners.first()) else {
            return quorum(first);
        };
        let leader = host_port(&at.host, i32::from(at.port));
        match self.call_at(&leader, request) {
            Ok(told) => quorum(&told),
            // A broker that has a controller asks it itself.
            Err(_) => Err(Error::NoController { said, has_others }),
        }
    }

    /// Makes a replica that follows the metadata a voter (KIP-853). Any broker carries the request to the leader.
    ///
    /// # Errors
    /// REQUEST_TIMED_OUT while the replica is behind or another change is under way, UNSUPPORTED_VERSION while `kraft.version` is 0,
    /// DUPLICATE_VOTER where the node is one already.
    pub fn add_voter(&mut self, voter: VoterKey, address: VoterAddress) -> Result<(), Error> {
        let request = AddRaftVoterRequest {
            cluster_id: None,
            timeout_ms: VOTER_TIMEOUT_MS,
            voter_id: voter.node,
            voter_directory_id: voter.directory,
            listeners: vec![Listener {
                name: address.listener,
                host: address.host,
                port: address.port,
            }],
            ack_when_committed: true,
        };
        let response = self.call_any(&request)?;
        let what = || format!("adding node {} to the voters", voter.node);
        Error::check(response.error_code, what, response.error_message.as_deref())
    }

    /// Takes a replica off the voters (KIP-853).
    ///
    /// # Errors
    /// As of [`Client::add_voter`]; VOTER_NOT_FOUND where it is none, or the only one.
    pub fn remove_voter(&mut self, voter: VoterKey) -> Result<(), Error> {
        let request = RemoveRaftVoterRequest {
            cluster_id: None,
            voter_id: voter.node,
            voter_directory_id: voter.directory,
        };
        let response = self.call_any(&request)?;
        let what = || format!("taking node {} off the voters", voter.node);
        Error::check(response.error_code, what, response.error_message.as_deref())
    }

    /// Takes a broker off the list, and its replicas out of ISRs.
    ///
    /// # Errors
    /// BROKER_ID_NOT_REGISTERED where it is not on the list, INVALID_REQUEST for the only one.
    pub fn unregister_broker(&mut self, broker: i32) -> Result<(), Error> {
        let request = UnregisterBrokerRequest { broker_id: broker };
        let response = self.call_any(&request)?;
        let what = || format!("unregistering broker {broker}");
        Error::check(response.error_code, what, response.error_message.as_deref())
    }

    /// Raises the level of a feature.
    ///
    /// # Errors
    /// INVALID_UPDATE_VERSION where a node does not support it.
    pub fn raise_feature(&mut self, feature: &str, level: i16) -> Result<(), Error> {
        let request = UpdateFeaturesRequest {
            timeout_ms: VOTER_TIMEOUT_MS,
            feature_updates: vec![FeatureUpdateKey {
                feature: feature.to_owned(),
                max_version_level: level,
                upgrade_type: UPGRADE,
                ..FeatureUpdateKey::default()
            }],
            validate_only: false,
        };
        let response = self.call_any(&request)?;
        let what = || format!("raising {feature} to {level}");
        Error::check(response.error_code, what, response.error_message.as_deref())
    }

    /// The finalized levels of features.
    pub fn finalized_features(&mut self) -> Result<BTreeMap<String, i16>, Error> {
        let request = ApiVersionsRequest {
            client_software_name: "esker".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..ApiVersionsRequest::default()
        };
        let response = self.call_any(&request)?;
        Error::check(response.error_code, || "features".to_owned(), None)?;
        let features = response.finalized_features.into_iter();
        Ok(features
            .map(|feature| (feature.name, feature.max_version_level))
            .collect())
    }
}

/// The error behind a pause that was not granted.
fn reason(error: Error) -> Error {
    match error {
        Error::TimedOut {
            last: Some(last), ..
        } => *last,
        error => error,
    }
}

fn of_metadata() -> DescribeQuorumRequest {
    DescribeQuorumRequest {
        topics: vec![TopicData {
            topic_name: TOPIC.to_owned(),
            partitions: vec![Asked { partition_index: 0 }],
        }],
    }
}

fn partition(response: &DescribeQuorumResponse) -> Result<Option<&PartitionData>, Error> {
    let message = response.error_message.as_deref();
    Error::check(response.error_code, what, message)?;
    Ok((response.topics.first()).and_then(|topic| topic.partitions.first()))
}

fn what() -> String {
    "describing the quorum".to_owned()
}

fn quorum(response: &DescribeQuorumResponse) -> Result<QuorumInfo, Error> {
    let found = partition(response)?.ok_or_else(|| Error::UnknownCode {
        what: what(),
        code: 0,
    })?;
    Error::check(found.error_code, what, found.error_message.as_deref())?;
    let known = |number: i64| Some(number).filter(|number| 0 <= *number);
    let replica = |state: &ReplicaState| ReplicaInfo {
        node: state.replica_id,
        directory: state.replica_directory_id,
        log_end: known(state.log_end_offset),
        last_fetch_ms: known(state.last_fetch_timestamp),
        last_caught_up_ms: known(state.last_caught_up_timestamp),
    };
    let addresses = response.nodes.iter().filter_map(|node| {
        let listener = node.listeners.first()?;
        let address = host_port(&listener.host, i32::from(listener.port));
        Some((node.node_id, address))
    });
    Ok(QuorumInfo {
        leader: found.leader_id,
        epoch: found.leader_epoch,
        high_watermark: known(found.high_watermark),
        voters: found.current_voters.iter().map(replica).collect(),
        observers: found.observers.iter().map(replica).collect(),
        addresses: addresses.collect(),
        listener: (response.nodes.iter())
            .find(|node| node.node_id == found.leader_id)
            .and_then(|node| Some(node.listeners.first()?.name.clone())),
    })
}
