//! DescribeQuorum: who keeps the metadata log, and how far (KIP-595, KIP-836, KIP-853). Asked about any other partition, the
//! broker does not know it.

use wire::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use wire::messages::{DescribeQuorumRequest, DescribeQuorumResponse};
use wire::{ApiKey, ErrorCode, Uuid};

use crate::event_loop::Outcome;
use crate::kafka::call::Call;
use crate::metadata::{METADATA_PARTITION, METADATA_TOPIC};
use crate::ops::cluster::{self, Quorum};
use crate::ops::view::View;

/// First version that knows directories, and where voters listen.
const DIRECTORIES_VERSION: i16 = 2;

pub(crate) fn on_describe_quorum(call: &mut Call<'_>, request: DescribeQuorumRequest) -> Outcome {
    let scene = call.scene();
    let view = scene.view(&call.desk.shared.metadata.cluster_id);
    let quorum = cluster::quorum(call.desk);
    let response = handle(&request, call.version(), &view, &quorum);
    call.reply(ApiKey::DescribeQuorum, &response)
}

fn handle(
    request: &DescribeQuorumRequest,
    version: i16,
    view: &View<'_>,
    log: &Quorum,
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
    let leader_id = view.broker.node_id.0;
    let has_directories = DIRECTORIES_VERSION <= version;
    let voter = ReplicaState {
        replica_id: leader_id,
        replica_directory_id: if has_directories {
            log.directory
        } else {
            Uuid::ZERO
        },
        log_end_offset: log.end.0,
        last_fetch_timestamp: log.wall.0,
        last_caught_up_timestamp: log.wall.0,
    };
    let partition = PartitionData {
        partition_index: METADATA_PARTITION.0,
        leader_id,
        leader_epoch: log.epoch.0,
        high_watermark: log.high_watermark.0,
        current_voters: vec![voter],
        error_message: None,
        ..PartitionData::default()
    };
    let topic = TopicData {
        topic_name: METADATA_TOPIC.to_owned(),
        partitions: vec![partition],
    };
    DescribeQuorumResponse {
        topics: vec![topic],
        nodes: has_directories.then(|| node(view)).into_iter().collect(),
        error_message: None,
        ..DescribeQuorumResponse::default()
    }
}

/// Brokers and controllers share their doors.
fn node(view: &View<'_>) -> Node {
    let node_id = view.broker.node_id;
    let own = view.image.broker(node_id);
    let address = own.and_then(|broker| view.endpoint(broker));
    let listener = address.map(|address| Listener {
        name: view.listener.to_owned(),
        host: address.host,
        port: address.port,
    });
    Node {
        node_id: node_id.0,
        listeners: listener.into_iter().collect(),
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
    use wire::messages::describe_quorum_request;

    fn ask(asked: &[(&str, &[i32])]) -> DescribeQuorumResponse {
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
        let log = Quorum {
            directory: Uuid([2; 16]),
            epoch: LeaderEpoch(3),
            high_watermark: Offset(7),
            end: Offset(8),
            wall: Timestamp(99),
        };
        let fixture = Fixture::new("");
        let request = DescribeQuorumRequest { topics };
        let view = fixture.view();
        for version in 0..=2 {
            let response = handle(&request, version, &view, &log);
            let written =
                wire::frame::encode_response(ApiKey::DescribeQuorum, &response, version, 7);
            assert!(written.is_ok(), "version {version}: {:?}", written.err());
        }
        handle(&request, 2, &view, &log)
    }

    #[test]
    fn the_only_node_leads_and_votes() {
        let response = ask(&[("__cluster_metadata", &[0])]);
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
            let response = ask(asked);
            assert_eq!((response.error_code, response.nodes.len()), (0, 0));
            assert_eq!(response.topics.len(), asked.len());
            assert_eq!(response.topics[0].partitions[0].error_code, 3);
        }
    }
}
