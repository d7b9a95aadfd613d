//! DescribeQuorum: the replicas of the metadata log, and how far each came (KIP-595, KIP-836, KIP-853). Only their leader knows; another
//! node names it. Asked about any other partition, the broker does not know it.

use std::fmt::Write as _;

use model::BrokerId;
use raft::{Moment, RoleName, VoterView};
use wire::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use wire::messages::{DescribeQuorumRequest, DescribeQuorumResponse};
use wire::{ApiKey, ErrorCode, Uuid};

use crate::control::{METADATA_PARTITION, METADATA_TOPIC};
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::cluster::{self, Quorum};
use crate::ops::view::View;

/// First version that knows directories, and where voters listen.
const DIRECTORIES_VERSION: i16 = 2;
/// Kafka's words for the error.
const NOT_LEADER: &str = "For requests intended only for the leader, this error indicates that the broker is not the current leader. \
     For requests intended for any replica, this error indicates that the broker is not a replica of the topic partition.";

pub(crate) fn on_describe_quorum(call: &mut Call<'_>, request: DescribeQuorumRequest) -> Outcome {
    let scene = call.scene();
    let view = scene.view(call.desk.shared.state.cluster_id());
    let quorum = cluster::quorum(call.desk);
    let mut response = handle(&request, call.version(), &view, &quorum);
    let is_asked_itself = call.address.envelope.is_none();
    if call.is_cut_off() && is_asked_itself {
        let (node, words) = (quorum.own.id, dirs_without_room(call));
        let parts = response.topics.iter_mut();
        for part in parts.flat_map(|topic| &mut topic.partitions) {
            if part.error_code == ErrorCode::NotLeaderOrFollower.code() {
                // That a cluster begins with all of its voters is said of no other cluster.
                let sight = call.desk.shared.metadata.quorum_sight();
                let begins = sight.leader.is_none() && sight.missing_at_first.is_some();
                let why = if begins {
                    format!(": {}", sight.no_controller())
                } else {
                    String::new()
                };
                part.error_message = Some(format!("broker {node} has no controller{why}{words}"));
            } else if part.error_code == ErrorCode::None.code() {
                // It leads the metadata, and its own broker has no part in the cluster yet.
                part.error_message = Some(format!("broker {node} is not counted in{words}"));
            }
        }
    }
    call.reply(ApiKey::DescribeQuorum, &response)
}

/// Log directories that keep the node out of its cluster: nobody else can say so.
fn dirs_without_room(call: &Call<'_>) -> String {
    let mut words = String::new();
    for dir in call.desk.shared.volumes.dirs() {
        let state = match (dir.is_failed(), dir.is_full()) {
            (true, _) => "offline",
            (_, true) => "full",
            _ => continue,
        };
        let _ = write!(words, "; log dir {} is {state}", dir.path.display());
    }
    words
}

fn handle(
    request: &DescribeQuorumRequest,
    version: i16,
    view: &View<'_>,
    quorum: &Quorum,
) -> DescribeQuorumResponse {
    let is_known = match request.topics.as_slice() {
        [topic] if topic.topic_name == METADATA_TOPIC => match topic.partitions.as_slice() {
            [partition] => partition.partition_index == METADATA_PARTITION.0,
            _ => false,
        },
        _ => false,
    };
    if !is_known {
        return unknown(request);
    }
    let partition = if quorum.view.role == RoleName::Leader {
        PartitionData {
            high_watermark: quorum.view.watermark.map_or(-1, |offset| offset.0),
            current_voters: states(&quorum.view.voters, quorum, version),
            observers: states(&quorum.view.observers, quorum, version),
            error_message: None,
            ..of_epoch(quorum)
        }
    } else {
        // As Kafka answers; the leader, as far as it is known, is where to ask instead.
        PartitionData {
            error_code: ErrorCode::NotLeaderOrFollower.code(),
            error_message: Some(NOT_LEADER.to_owned()),
            ..of_epoch(quorum)
        }
    };
    let topic = TopicData {
        topic_name: METADATA_TOPIC.to_owned(),
        partitions: vec![partition],
    };
    let has_nodes = DIRECTORIES_VERSION <= version;
    let nodes = quorum.voters.iter().filter(|_| has_nodes);
    DescribeQuorumResponse {
        topics: vec![topic],
        nodes: nodes
            .map(|(id, listeners)| node(view, *id, listeners))
            .collect(),
        error_message: None,
        ..DescribeQuorumResponse::default()
    }
}

fn of_epoch(quorum: &Quorum) -> PartitionData {
    PartitionData {
        partition_index: METADATA_PARTITION.0,
        leader_id: quorum.view.leader.unwrap_or(meta::NO_LEADER).0,
        leader_epoch: quorum.view.epoch.0,
        high_watermark: -1,
        ..PartitionData::default()
    }
}

/// The replicas as their leader sees them; itself it sees now.
fn states(replicas: &[VoterView], quorum: &Quorum, version: i16) -> Vec<ReplicaState> {
    let state = |seen: &VoterView| {
        let is_own = seen.replica.id == quorum.own.id;
        let time = |moment: Option<Moment>| match moment {
            _ if is_own => quorum.wall.0,
            Some(moment) => moment.wall.0,
            None => -1,
        };
        let directory = if is_own {
            quorum.own.directory
        } else {
            seen.replica.directory
        };
        ReplicaState {
            replica_id: seen.replica.id.0,
            replica_directory_id: if DIRECTORIES_VERSION <= version {
                directory
            } else {
                Uuid::ZERO
            },
            log_end_offset: seen.end.map_or(-1, |offset| offset.0),
            last_fetch_timestamp: time(seen.last_fetch),
            last_caught_up_timestamp: time(seen.last_caught_up),
        }
    };
    replicas.iter().map(state).collect()
}

/// Where a voter is found; one that told of no listener has the doors of its broker.
fn node(view: &View<'_>, id: BrokerId, listeners: &[raft::Listener]) -> Node {
    let of_broker = || {
        let broker = view.image.broker(id)?;
        let address = view.endpoint(broker)?;
        Some(Listener {
            name: view.listener.to_owned(),
            host: address.host,
            port: address.port,
        })
    };
    let own = listeners.iter().map(|listener| Listener {
        name: listener.name.clone(),
        host: listener.endpoint.host.clone(),
        port: listener.endpoint.port,
    });
    let listeners = if listeners.is_empty() {
        of_broker().into_iter().collect()
    } else {
        own.collect()
    };
    Node {
        node_id: id.0,
        listeners,
    }
}

fn unknown(request: &DescribeQuorumRequest) -> DescribeQuorumResponse {
    let refused = |partition_index| PartitionData {
        partition_index,
        error_code: ErrorCode::UnknownTopicOrPartition.code(),
        error_message: Some("This server does not host this topic-partition.".to_owned()),
        ..PartitionData::default()
    };
    let topics = request.topics.iter().map(|topic| TopicData {
        topic_name: topic.topic_name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| refused(partition.partition_index))
            .collect(),
    });
    DescribeQuorumResponse {
        topics: topics.collect(),
        error_message: None,
        ..DescribeQuorumResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;
    use model::{LeaderEpoch, Offset, Timestamp};
    use raft::{Endpoint, Replica};
    use wire::messages::describe_quorum_request;

    const OWN: Replica = Replica {
        id: BrokerId(1),
        directory: Uuid([2; 16]),
    };

    fn seen(id: i32, end: Option<i64>, fetched: Option<i64>) -> VoterView {
        let at = |wall| Moment {
            now: model::Instant(0),
            wall: Timestamp(wall),
        };
        VoterView {
            replica: Replica {
                id: BrokerId(id),
                directory: Uuid::ZERO,
            },
            end: end.map(Offset),
            last_fetch: fetched.map(at),
            last_caught_up: fetched.map(|wall| at(wall - 1)),
        }
    }

    /// Node 1 leads, alone.
    fn alone() -> Quorum {
        let view = raft::View {
            role: RoleName::Leader,
            epoch: LeaderEpoch(3),
            leader: Some(BrokerId(1)),
            voted: None,
            watermark: Some(Offset(7)),
            end: Offset(8),
            durable: Offset(8),
            may_vote: true,
            voters: vec![seen(1, Some(8), None)],
            observers: Vec::new(),
        };
        Quorum {
            own: OWN,
            view,
            voters: vec![(BrokerId(1), Vec::new())],
            wall: Timestamp(99),
        }
    }

    fn ask(asked: &[(&str, &[i32])], quorum: &Quorum) -> DescribeQuorumResponse {
        let topics = asked
            .iter()
            .map(
                |(topic_name, partitions)| describe_quorum_request::TopicData {
                    topic_name: (*topic_name).to_owned(),
                    partitions: partitions
                        .iter()
                        .map(|partition_index| describe_quorum_request::PartitionData {
                            partition_index: *partition_index,
                        })
                        .collect(),
                },
            )
            .collect();
        let fixture = Fixture::new("");
        let request = DescribeQuorumRequest { topics };
        let view = fixture.view();
        for version in 0..=2 {
            let response = handle(&request, version, &view, quorum);
            let written =
                wire::frame::encode_response(ApiKey::DescribeQuorum, &response, version, 7);
            assert!(written.is_ok(), "version {version}: {:?}", written.err());
        }
        handle(&request, 2, &view, quorum)
    }

    #[test]
    fn a_leader_answers_how_far_each_replica_came() {
        let listener = raft::Listener {
            name: "CONTROLLER".into(),
            endpoint: Endpoint {
                host: "b".into(),
                port: 9093,
            },
        };
        let mut quorum = alone();
        quorum.view.voters = vec![
            seen(1, Some(8), None),
            seen(2, Some(6), Some(90)),
            seen(3, None, None),
        ];
        quorum.view.observers = vec![seen(4, Some(8), Some(95))];
        quorum.voters.push((BrokerId(2), vec![listener]));
        quorum.voters.push((BrokerId(3), Vec::new()));
        let response = ask(&[("__cluster_metadata", &[0])], &quorum);
        let partition = &response.topics[0].partitions[0];
        let told = |states: &[ReplicaState]| -> Vec<(i32, i64, i64, i64)> {
            let told = |of: &ReplicaState| {
                (
                    of.replica_id,
                    of.log_end_offset,
                    of.last_fetch_timestamp,
                    of.last_caught_up_timestamp,
                )
            };
            states.iter().map(told).collect()
        };
        assert_eq!(
            told(&partition.current_voters),
            [(1, 8, 99, 99), (2, 6, 90, 89), (3, -1, -1, -1)]
        );
        assert_eq!(told(&partition.observers), [(4, 8, 95, 94)]);
        let ports: Vec<(i32, Option<u16>)> = (response.nodes.iter())
            .map(|node| (node.node_id, node.listeners.first().map(|at| at.port)))
            .collect();
        assert_eq!(ports, [(1, Some(9092)), (2, Some(9093)), (3, None)]);
    }

    #[test]
    fn a_node_that_does_not_lead_names_the_one_that_does() {
        let mut quorum = alone();
        quorum.view.role = RoleName::Follower;
        for (leader, id) in [(Some(BrokerId(2)), 2), (None, -1)] {
            quorum.view.leader = leader;
            let response = ask(&[("__cluster_metadata", &[0])], &quorum);
            let partition = &response.topics[0].partitions[0];
            assert_eq!(response.error_code, 0);
            assert_eq!((partition.error_code, partition.leader_id), (6, id));
            assert_eq!(partition.leader_epoch, 3);
            assert!(partition.current_voters.is_empty());
        }
    }

    #[test]
    fn the_only_node_leads_and_votes() {
        let response = ask(&[("__cluster_metadata", &[0])], &alone());
        let partition = &response.topics[0].partitions[0];
        assert_eq!((partition.leader_id, partition.leader_epoch), (1, 3));
        assert_eq!(partition.high_watermark, 7);
        let voter = ReplicaState {
            replica_id: 1,
            replica_directory_id: Uuid([2; 16]),
            log_end_offset: 8,
            last_fetch_timestamp: 99,
            last_caught_up_timestamp: 99,
        };
        assert_eq!(partition.current_voters, [voter]);
        assert!(partition.observers.is_empty());
        let listener = &response.nodes[0].listeners[0];
        assert_eq!((listener.name.as_str(), listener.port), ("PLAINTEXT", 9092));
    }

    #[test]
    fn there_is_one_quorum_and_it_is_asked_for_alone() {
        let both: &[(&str, &[i32])] = &[("__cluster_metadata", &[0]), ("t", &[0])];
        for asked in [
            &[("t", &[0][..])][..],
            &[("__cluster_metadata", &[1])],
            both,
        ] {
            let response = ask(asked, &alone());
            assert_eq!((response.error_code, response.nodes.len()), (0, 0));
            assert_eq!(response.topics.len(), asked.len());
            assert_eq!(response.topics[0].partitions[0].error_code, 3);
        }
    }
}
