//! Requests of other nodes, as a node that is alone is sent them by whoever reaches its door.

use bytes::Bytes;
use wire::Uuid;
use wire::any::AnyRequest::{
    AllocateProducerIds, AlterPartition, AssignReplicasToDirs, BrokerHeartbeat, BrokerRegistration,
    ControllerRegistration, Envelope, FetchSnapshot,
};
use wire::messages::*;
use wire::messages::{
    alter_partition_request as altering, assign_replicas_to_dirs_request as assigning,
    fetch_snapshot_request as fetching,
};

use super::{Cases, text};

/// Numbers that no broker has, and that of the only one.
const BROKERS: [i32; 4] = [1, 2, -1, i32::MAX];

pub(super) fn alter_partition() -> Cases {
    let of = |broker_id, broker_epoch, partition_index| {
        AlterPartition(AlterPartitionRequest {
            broker_id,
            broker_epoch,
            topics: vec![altering::TopicData {
                topic_id: Uuid([9; 16]),
                partitions: vec![altering::PartitionData {
                    partition_index,
                    leader_epoch: -1,
                    partition_epoch: i32::MAX,
                    ..Default::default()
                }],
            }],
        })
    };
    let mut cases = vec![("nothing", AlterPartition(AlterPartitionRequest::default()))];
    for id in BROKERS {
        cases.push(("a broker", of(id, -1, 0)));
        cases.push(("an odd partition", of(id, i64::MAX, -1)));
    }
    cases
}

pub(super) fn assign_replicas_to_dirs() -> Cases {
    let of = |broker_id, broker_epoch, partition_index| {
        AssignReplicasToDirs(AssignReplicasToDirsRequest {
            broker_id,
            broker_epoch,
            directories: vec![assigning::DirectoryData {
                id: Uuid([8; 16]),
                topics: vec![assigning::TopicData {
                    topic_id: Uuid([9; 16]),
                    partitions: vec![assigning::PartitionData { partition_index }],
                }],
            }],
        })
    };
    let nothing = AssignReplicasToDirs(AssignReplicasToDirsRequest::default());
    let mut cases = vec![("nothing", nothing)];
    for id in BROKERS {
        cases.push(("a broker", of(id, -1, 0)));
        cases.push(("an odd partition", of(id, i64::MAX, -1)));
    }
    cases
}

pub(super) fn envelope() -> Cases {
    let of = |data: &[u8], address: &[u8]| {
        Envelope(EnvelopeRequest {
            request_data: Bytes::copy_from_slice(data),
            request_principal: None,
            client_host_address: Bytes::copy_from_slice(address),
        })
    };
    // A DescribeQuorum of no topics.
    let described = |principal: Option<&'static [u8]>| {
        Envelope(EnvelopeRequest {
            request_data: Bytes::from_static(&[0, 55, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 1, 0]),
            request_principal: principal.map(Bytes::from_static),
            client_host_address: Bytes::from_static(&[127, 0, 0, 1]),
        })
    };
    vec![
        ("nothing", of(&[], &[])),
        ("garbage", of(&[0xff; 40], &[127, 0, 0, 1])),
        ("half an address", of(&[0; 40], &[127, 0])),
        (
            "an envelope",
            of(&[0, 58, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0], &[127, 0, 0, 1]),
        ),
        (
            "a produce",
            of(&[0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0], &[127, 0, 0, 1]),
        ),
        ("nobody", described(None)),
        (
            "a version of principals",
            described(Some(b"\0\x01\x05User\x0aANONYMOUS\0\0")),
        ),
        (
            "a named user",
            described(Some(b"\0\0\x05User\x06alice\0\0")),
        ),
    ]
}

pub(super) fn fetch_snapshot() -> Cases {
    let of = |end_offset, epoch, position| {
        FetchSnapshot(FetchSnapshotRequest {
            replica_id: 2,
            topics: vec![fetching::TopicSnapshot {
                name: text("__cluster_metadata"),
                partitions: vec![fetching::PartitionSnapshot {
                    partition: 0,
                    current_leader_epoch: 1,
                    snapshot_id: fetching::SnapshotId { end_offset, epoch },
                    position,
                    ..Default::default()
                }],
            }],
            ..Default::default()
        })
    };
    vec![
        ("nothing", FetchSnapshot(FetchSnapshotRequest::default())),
        ("one that there is not", of(3, 1, 0)),
        ("odd numbers", of(-1, -1, -1)),
        ("large numbers", of(i64::MAX, i32::MAX, i64::MAX)),
    ]
}

pub(super) fn broker_registration() -> Cases {
    let of = |broker_id, cluster: &str| {
        BrokerRegistration(BrokerRegistrationRequest {
            broker_id,
            cluster_id: text(cluster),
            incarnation_id: Uuid([8; 16]),
            ..Default::default()
        })
    };
    let mut cases = Vec::new();
    for id in BROKERS {
        cases.push(("a broker of another cluster", of(id, "none")));
        cases.push(("a broker of none", of(id, "")));
    }
    cases
}

pub(super) fn broker_heartbeat() -> Cases {
    let of = |broker_id, broker_epoch, want_shut_down| {
        BrokerHeartbeat(BrokerHeartbeatRequest {
            broker_id,
            broker_epoch,
            current_metadata_offset: i64::MAX,
            want_fence: true,
            want_shut_down,
            ..Default::default()
        })
    };
    let mut cases = Vec::new();
    for id in BROKERS {
        cases.push(("a broker", of(id, -1, false)));
        cases.push(("a broker that goes", of(id, i64::MAX, true)));
    }
    cases
}

pub(super) fn allocate_producer_ids() -> Cases {
    let of = |broker_id, broker_epoch| {
        AllocateProducerIds(AllocateProducerIdsRequest {
            broker_id,
            broker_epoch,
        })
    };
    let all = BROKERS.into_iter();
    all.map(|id| ("a broker", of(id, -1))).collect()
}

/// Without a level of metadata.version that knows them they are refused; here one is written, and harms nothing.
pub(super) fn controller_registration() -> Cases {
    let of = |controller_id| {
        ControllerRegistration(ControllerRegistrationRequest {
            controller_id,
            incarnation_id: Uuid([8; 16]),
            ..Default::default()
        })
    };
    vec![("a controller", of(2)), ("an odd number", of(-1))]
}
