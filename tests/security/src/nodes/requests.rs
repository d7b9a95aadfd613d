//! Requests that nodes send to each other, as somebody writes them who wants to change something.

use wire::any::AnyRequest;
use wire::messages::{
    AddPartitionsToTxnRequest, AllocateProducerIdsRequest, AlterPartitionRequest,
    AssignReplicasToDirsRequest, BeginQuorumEpochRequest, BrokerHeartbeatRequest,
    BrokerRegistrationRequest, ControllerRegistrationRequest, EndQuorumEpochRequest, FetchRequest,
    FetchSnapshotRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, UpdateRaftVoterRequest,
    VoteRequest, WriteTxnMarkersRequest, add_partitions_to_txn_request as add_partitions,
    alter_partition_request as alter_partition, assign_replicas_to_dirs_request as assign,
    begin_quorum_epoch_request as begin, end_quorum_epoch_request as end, fetch_request as fetch,
    fetch_snapshot_request as snapshot, list_offsets_request as offsets,
    offset_for_leader_epoch_request as epochs, vote_request as vote,
    write_txn_markers_request as markers,
};
use wire::{ApiKey, Uuid};

use super::cluster::{METADATA, Sight, TOPIC};

/// The id by which Kafka knows the metadata log.
const METADATA_ID: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
/// A node of the cluster, for which the stranger speaks.
const VICTIM: i32 = 2;
/// An id that no node has.
const NEWCOMER: i32 = 9;
/// Far above all epochs that there are.
const LATER: i32 = 1000;

/// One for each API that the listeners of nodes alone serve, but for Envelope; without what its first versions have no place for.
pub(crate) fn of_nodes(sight: &Sight) -> Vec<AnyRequest> {
    let cluster_id = Some(sight.cluster_id.clone());
    let epoch = sight.epoch() + LATER;
    let vote = VoteRequest {
        cluster_id: cluster_id.clone(),
        voter_id: -1,
        topics: vec![vote::TopicData {
            topic_name: METADATA.to_owned(),
            partitions: vec![vote::PartitionData {
                replica_epoch: epoch,
                replica_id: VICTIM,
                last_offset_epoch: epoch - 1,
                last_offset: i64::from(i32::MAX),
                ..Default::default()
            }],
        }],
    };
    let begin = BeginQuorumEpochRequest {
        cluster_id: cluster_id.clone(),
        voter_id: -1,
        topics: vec![begin::TopicData {
            topic_name: METADATA.to_owned(),
            partitions: vec![begin::PartitionData {
                leader_id: VICTIM,
                leader_epoch: epoch,
                ..Default::default()
            }],
        }],
        ..Default::default()
    };
    let end = EndQuorumEpochRequest {
        cluster_id: cluster_id.clone(),
        topics: vec![end::TopicData {
            topic_name: METADATA.to_owned(),
            partitions: vec![end::PartitionData {
                leader_id: sight.controller,
                leader_epoch: sight.epoch(),
                ..Default::default()
            }],
        }],
        ..Default::default()
    };
    let snapshot = FetchSnapshotRequest {
        replica_id: VICTIM,
        max_bytes: 1 << 20,
        topics: vec![snapshot::TopicSnapshot {
            name: METADATA.to_owned(),
            partitions: vec![snapshot::PartitionSnapshot::default()],
        }],
        ..Default::default()
    };
    let alter = AlterPartitionRequest {
        broker_id: VICTIM,
        broker_epoch: -1,
        topics: vec![alter_partition::TopicData {
            topic_id: sight.topic_id,
            partitions: vec![alter_partition::PartitionData::default()],
        }],
    };
    let assign = AssignReplicasToDirsRequest {
        broker_id: VICTIM,
        broker_epoch: -1,
        directories: vec![assign::DirectoryData {
            id: Uuid([5; 16]),
            topics: Vec::new(),
        }],
    };
    vec![
        AnyRequest::Vote(vote),
        AnyRequest::BeginQuorumEpoch(begin),
        AnyRequest::EndQuorumEpoch(end),
        AnyRequest::FetchSnapshot(snapshot),
        AnyRequest::AlterPartition(alter),
        AnyRequest::AssignReplicasToDirs(assign),
        AnyRequest::BrokerRegistration(BrokerRegistrationRequest {
            broker_id: NEWCOMER,
            cluster_id: sight.cluster_id.clone(),
            incarnation_id: Uuid([3; 16]),
            ..Default::default()
        }),
        AnyRequest::BrokerHeartbeat(BrokerHeartbeatRequest {
            broker_id: VICTIM,
            want_fence: true,
            want_shut_down: true,
            ..Default::default()
        }),
        AnyRequest::AllocateProducerIds(AllocateProducerIdsRequest {
            broker_id: VICTIM,
            ..Default::default()
        }),
        AnyRequest::ControllerRegistration(ControllerRegistrationRequest {
            controller_id: VICTIM,
            incarnation_id: Uuid([4; 16]),
            ..Default::default()
        }),
        AnyRequest::UpdateRaftVoter(UpdateRaftVoterRequest {
            cluster_id,
            current_leader_epoch: sight.epoch(),
            voter_id: VICTIM,
            voter_directory_id: Uuid([4; 16]),
            ..Default::default()
        }),
    ]
}

/// A fetch of the first records of a log. `None` where the version has no place for the replica id.
pub(crate) fn fetch(topic: &str, topic_id: Uuid, replica: i32, version: i16) -> AnyRequest {
    let has_ids = 13 <= version;
    let mut request = FetchRequest {
        replica_id: -1,
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![fetch::FetchTopic {
            topic: if has_ids {
                String::new()
            } else {
                topic.to_owned()
            },
            topic_id: if has_ids { topic_id } else { Uuid::default() },
            partitions: vec![fetch::FetchPartition {
                current_leader_epoch: -1,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
        }],
        ..Default::default()
    };
    match version {
        ..15 => request.replica_id = replica,
        15.. => request.replica_state.replica_id = replica,
    }
    AnyRequest::Fetch(request)
}

pub(crate) fn fetch_of_metadata(replica: i32, version: i16) -> AnyRequest {
    fetch(METADATA, METADATA_ID, replica, version)
}

pub(crate) fn list_offsets(replica: i32) -> AnyRequest {
    AnyRequest::ListOffsets(ListOffsetsRequest {
        replica_id: replica,
        topics: vec![offsets::ListOffsetsTopic {
            name: TOPIC.to_owned(),
            partitions: vec![offsets::ListOffsetsPartition {
                current_leader_epoch: -1,
                timestamp: -1,
                ..Default::default()
            }],
        }],
        ..Default::default()
    })
}

pub(crate) fn epoch_end(replica: i32) -> AnyRequest {
    AnyRequest::OffsetForLeaderEpoch(OffsetForLeaderEpochRequest {
        replica_id: replica,
        topics: vec![epochs::OffsetForLeaderTopic {
            topic: TOPIC.to_owned(),
            partitions: vec![epochs::OffsetForLeaderPartition {
                current_leader_epoch: -1,
                ..Default::default()
            }],
        }],
    })
}

/// A marker in a topic that there is not: nothing is written where such requests are served.
pub(crate) fn markers() -> AnyRequest {
    let topic = markers::WritableTxnMarkerTopic {
        name: "no-such-topic".to_owned(),
        partition_indexes: vec![0],
    };
    AnyRequest::WriteTxnMarkers(WriteTxnMarkersRequest {
        markers: vec![markers::WritableTxnMarker {
            producer_id: 1,
            topics: vec![topic],
            ..Default::default()
        }],
    })
}

/// The question of a broker for the transaction of its client.
pub(crate) fn verification() -> AnyRequest {
    let topic = add_partitions::AddPartitionsToTxnTopic {
        name: TOPIC.to_owned(),
        partitions: vec![0],
    };
    AnyRequest::AddPartitionsToTxn(AddPartitionsToTxnRequest {
        transactions: vec![add_partitions::AddPartitionsToTxnTransaction {
            transactional_id: "x".to_owned(),
            producer_id: 1,
            verify_only: true,
            topics: vec![topic],
            ..Default::default()
        }],
        ..Default::default()
    })
}

/// Coordinators of share groups speak so with each other.
pub(crate) const SHARE_STATE: [ApiKey; 5] = [
    ApiKey::InitializeShareGroupState,
    ApiKey::ReadShareGroupState,
    ApiKey::WriteShareGroupState,
    ApiKey::DeleteShareGroupState,
    ApiKey::ReadShareGroupStateSummary,
];
