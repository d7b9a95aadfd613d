//! Questions about the quorum of the metadata log.

use std::collections::BTreeMap;

use wire::ErrorCode;
use wire::messages::describe_quorum_request::{PartitionData as Asked, TopicData};
use wire::messages::describe_quorum_response::{PartitionData, ReplicaState};
use wire::messages::{ApiVersionsRequest, DescribeQuorumRequest, DescribeQuorumResponse};

use crate::cluster::{Client, host_port};
use crate::error::Error;

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

const TOPIC: &str = "__cluster_metadata";

impl Client {
    /// The quorum as its leader sees it. Asks the broker that answers first, and the leader where that one names it; once, as an answer
    /// that does not come is one too.
    pub fn describe_quorum(&mut self) -> Result<QuorumInfo, Error> {
        let request = DescribeQuorumRequest {
            topics: vec![TopicData {
                topic_name: TOPIC.to_owned(),
                partitions: vec![Asked { partition_index: 0 }],
            }],
        };
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

    /// The finalized levels of features.
    pub fn finalized_features(&mut self) -> Result<BTreeMap<String, i16>, Error> {
        let request = ApiVersionsRequest {
            client_software_name: "esker".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let response = self.call_any(&request)?;
        Error::check(response.error_code, || "features".to_owned(), None)?;
        let features = response.finalized_features.into_iter();
        Ok(features
            .map(|feature| (feature.name, feature.max_version_level))
            .collect())
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
    })
}
