//! Numbers that no node sends: they are refused or passed over, and the cluster goes on.

use model::{LeaderEpoch, Offset};
use raft::Request;
use wire::Uuid;
use wire::messages::*;
use wire::messages::{
    begin_quorum_epoch_request as begin, end_quorum_epoch_request as end,
    fetch_request as fetching, fetch_snapshot_request as snapshots, vote_request as vote,
};

use crate::world::World;

const NUMBERS: [i32; 5] = [i32::MIN, -1, 0, 2, i32::MAX];

fn requests() -> Vec<Request> {
    let mut all = Vec::new();
    let topic = || raft::TOPIC.to_owned();
    for epoch in NUMBERS {
        for other in NUMBERS {
            for pre_vote in [false, true] {
                all.push(Request::Vote(VoteRequest {
                    voter_id: other,
                    topics: vec![vote::TopicData {
                        topic_name: topic(),
                        partitions: vec![vote::PartitionData {
                            replica_epoch: epoch,
                            replica_id: other,
                            last_offset_epoch: other,
                            last_offset: i64::from(other) << 31,
                            pre_vote,
                            ..Default::default()
                        }],
                    }],
                    ..Default::default()
                }));
            }
            all.push(Request::BeginEpoch(BeginQuorumEpochRequest {
                voter_id: other,
                topics: vec![begin::TopicData {
                    topic_name: topic(),
                    partitions: vec![begin::PartitionData {
                        leader_id: other,
                        leader_epoch: epoch,
                        ..Default::default()
                    }],
                }],
                ..Default::default()
            }));
            all.push(Request::EndEpoch(EndQuorumEpochRequest {
                topics: vec![end::TopicData {
                    topic_name: topic(),
                    partitions: vec![end::PartitionData {
                        leader_id: other,
                        leader_epoch: epoch,
                        preferred_successors: vec![other; 3],
                        ..Default::default()
                    }],
                }],
                ..Default::default()
            }));
            all.push(Request::Fetch(FetchRequest {
                max_wait_ms: other,
                max_bytes: other,
                replica_state: fetching::ReplicaState {
                    replica_id: other,
                    replica_epoch: i64::MIN,
                },
                topics: vec![fetching::FetchTopic {
                    topic_id: raft::TOPIC_ID,
                    partitions: vec![fetching::FetchPartition {
                        current_leader_epoch: epoch,
                        last_fetched_epoch: other,
                        fetch_offset: i64::from(other) << 31,
                        high_watermark: i64::MIN,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            }));
            all.push(Request::FetchSnapshot(FetchSnapshotRequest {
                replica_id: other,
                max_bytes: other,
                topics: vec![snapshots::TopicSnapshot {
                    name: topic(),
                    partitions: vec![snapshots::PartitionSnapshot {
                        current_leader_epoch: epoch,
                        snapshot_id: snapshots::SnapshotId {
                            end_offset: i64::from(other) << 31,
                            epoch,
                        },
                        position: i64::from(other) << 31,
                        ..Default::default()
                    }],
                }],
                ..Default::default()
            }));
            all.push(Request::AddVoter(AddRaftVoterRequest {
                voter_id: other,
                voter_directory_id: Uuid([epoch as u8; 16]),
                timeout_ms: epoch,
                ..Default::default()
            }));
            all.push(Request::RemoveVoter(RemoveRaftVoterRequest {
                voter_id: other,
                voter_directory_id: Uuid([epoch as u8; 16]),
                ..Default::default()
            }));
            all.push(Request::UpdateVoter(UpdateRaftVoterRequest {
                current_leader_epoch: epoch,
                voter_id: other,
                ..Default::default()
            }));
        }
    }
    all.extend([
        Request::Vote(VoteRequest::default()),
        Request::BeginEpoch(BeginQuorumEpochRequest::default()),
        Request::EndEpoch(EndQuorumEpochRequest::default()),
        Request::Fetch(FetchRequest::default()),
        Request::FetchSnapshot(FetchSnapshotRequest::default()),
    ]);
    all
}

#[test]
fn garbage_at_every_voter_ends_nothing() {
    for kind in ["voters 3", "dynamic 3", "new 3"] {
        let mut world = World::default();
        for command in [kind, "wait 9000"] {
            world.play(command);
        }
        let before = world.committed(1);
        for id in 1..=3 {
            for request in requests() {
                world.pester(id, request);
            }
            world.play("wait 9000");
        }
        let leader = (1..=3).find(|id| world.leads(*id));
        let leader = leader.expect("it is led all the same");
        world.play(&format!("append {leader} 1"));
        world.play("wait 3000");
        assert!(before < world.committed(1), "{kind}");
        assert!(world.epoch(1) < LeaderEpoch(100), "{kind}");
        assert!(Offset::ZERO < world.committed(3), "{kind}");
    }
}

/// The last epoch is nobody's: nothing counts on from there, and nothing falls over.
#[test]
fn epoch_that_has_hardly_one_behind_it_ends_elections_and_no_process() {
    let mut world = World::default();
    for command in ["voters 3", "elect 1", "run"] {
        world.play(command);
    }
    world.pester(
        2,
        Request::Vote(VoteRequest {
            voter_id: 2,
            topics: vec![vote::TopicData {
                topic_name: raft::TOPIC.to_owned(),
                partitions: vec![vote::PartitionData {
                    replica_epoch: i32::MAX - 1,
                    replica_id: 3,
                    last_offset_epoch: 1,
                    last_offset: 1,
                    ..Default::default()
                }],
            }],
            ..Default::default()
        }),
    );
    world.play("wait 60000");
    assert_eq!(world.committed(1), Offset(1));
}
