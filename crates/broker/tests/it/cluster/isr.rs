//! Leaders that ask the active controller for another ISR.

use wire::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
use wire::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use wire::messages::{
    AlterPartitionRequest, AlterPartitionResponse, BrokerHeartbeatRequest,
    BrokerRegistrationRequest, CreateTopicsRequest, broker_registration_request,
};
use wire::{ErrorCode, Uuid};

use super::nodes::*;

/// A broker that the test plays.
pub(super) const PLAYED: i32 = 4;

fn alter(broker_id: i32, broker_epoch: i64, version: i16) -> AlterPartitionRequest {
    let member = BrokerState {
        broker_id,
        broker_epoch,
    };
    let mut partition = PartitionData::default();
    if version < 3 {
        partition.new_isr = vec![broker_id];
    } else {
        partition.new_isr_with_epochs = vec![member];
    }
    AlterPartitionRequest {
        broker_id,
        broker_epoch,
        topics: vec![TopicData {
            topic_id: Uuid([7; 16]),
            partitions: vec![partition],
        }],
    }
}

/// The node that leads the metadata.
pub(super) fn active(nodes: &Nodes) -> Option<Node> {
    active_of(nodes, 1)
}

/// The active controller, as a node has it.
pub(super) fn active_of(nodes: &Nodes, asked: Node) -> Option<Node> {
    let answer = nodes.ask(asked, &quorum_of_metadata(), 2)?;
    Node::try_from(answer.topics[0].partitions[0].leader_id).ok()
}

#[test]
fn an_isr_is_changed_by_the_active_controller_for_a_broker_that_it_knows() {
    let nodes = Nodes::start_with(11, &[PLAYABLE]);
    let leader = active(&nodes).expect("three voters have one");
    let ask = |node, broker, epoch, version| {
        let request = alter(broker, epoch, version);
        let answer: AlterPartitionResponse = nodes.ask(node, &request, version).expect("an answer");
        ErrorCode::try_from(answer.error_code).expect("a code")
    };
    for version in [2, 3] {
        let other = ALL.into_iter().find(|node| *node != leader);
        let code = ask(other.expect("two others"), 1, 0, version);
        assert_eq!(code, ErrorCode::NotController);
        let code = ask(leader, 1, 1 << 40, version);
        assert_eq!(code, ErrorCode::StaleBrokerEpoch);
        let code = ask(leader, 9, 0, version);
        assert_eq!(code, ErrorCode::StaleBrokerEpoch, "there is no broker 9");
    }
}

/// Registers the broker and has it counted in; its epoch.
pub(super) fn join(nodes: &Nodes, leader: Node) -> i64 {
    let cluster_id = nodes.metadata(1).and_then(|told| told.cluster_id);
    let feature = |(name, min, max): (&str, i16, i16)| broker_registration_request::Feature {
        name: name.to_owned(),
        min_supported_version: min,
        max_supported_version: max,
    };
    let features = [
        ("metadata.version", 7, 33),
        ("group.version", 0, 1),
        ("transaction.version", 0, 2),
        ("eligible.leader.replicas.version", 0, 1),
    ];
    let request = BrokerRegistrationRequest {
        broker_id: PLAYED,
        cluster_id: cluster_id.expect("a cluster has an id"),
        incarnation_id: Uuid([4; 16]),
        listeners: vec![broker_registration_request::Listener {
            name: "PLAINTEXT".to_owned(),
            host: "10.0.0.9".to_owned(),
            port: 9092,
            ..Default::default()
        }],
        features: features.map(feature).to_vec(),
        log_dirs: vec![Uuid([44; 16])],
        ..Default::default()
    };
    let registered = nodes.patiently(leader, &request, 4, |answer| answer.error_code);
    let epoch = registered.broker_epoch;
    let beat = BrokerHeartbeatRequest {
        broker_id: PLAYED,
        broker_epoch: epoch,
        current_metadata_offset: i64::MAX,
        ..Default::default()
    };
    let heard = nodes.patiently(leader, &beat, 1, |answer| answer.error_code);
    assert!(!heard.is_fenced);
    epoch
}

/// A topic of one partition that the played broker leads, and all others follow. Its id.
fn create_led(nodes: &Nodes, by: Node) -> Uuid {
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: "led".to_owned(),
            num_partitions: -1,
            replication_factor: -1,
            assignments: vec![CreatableReplicaAssignment {
                partition_index: 0,
                broker_ids: vec![PLAYED, 1, 2, 3],
            }],
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    let made = nodes.patiently(by, &request, 7, |answer| answer.topics[0].error_code);
    made.topics[0].topic_id
}

#[test]
fn an_isr_shrinks_and_grows_as_its_leader_asks_and_only_from_what_it_is() {
    let nodes = Nodes::start_with(12, &[PLAYABLE]);
    let leader = active(&nodes).expect("three voters have one");
    let epoch = join(&nodes, leader);
    let topic = create_led(&nodes, leader);
    let ask = |isr: &[i32], leader_epoch, partition_epoch| {
        let member = |id: &i32| BrokerState {
            broker_id: *id,
            broker_epoch: if *id == PLAYED { epoch } else { -1 },
        };
        let mut request = alter(PLAYED, epoch, 3);
        request.topics[0].topic_id = topic;
        let partition = &mut request.topics[0].partitions[0];
        partition.new_isr_with_epochs = isr.iter().map(member).collect();
        partition.leader_epoch = leader_epoch;
        partition.partition_epoch = partition_epoch;
        let answer = nodes.ask(leader, &request, 3).expect("an answer");
        assert_eq!(answer.error_code, 0);
        let told = answer.topics.into_iter().next().expect("one was asked for");
        assert_eq!(told.topic_id, topic);
        told.partitions
            .into_iter()
            .next()
            .expect("with a partition")
    };
    let shrunk = ask(&[PLAYED, 1], 0, 0);
    assert_eq!(shrunk.error_code, 0);
    assert_eq!((shrunk.leader_id, shrunk.leader_epoch), (PLAYED, 0));
    assert_eq!(
        (shrunk.isr.as_slice(), shrunk.partition_epoch),
        (&[PLAYED, 1][..], 1)
    );
    for node in ALL {
        nodes.until(|nodes| {
            let told = nodes.metadata(node)?;
            let led = told.topics.iter().find(|known| known.topic_id == topic)?;
            Some(led.partitions[0].isr_nodes == [PLAYED, 1])
        });
    }
    let code = |code: ErrorCode| code.code();
    for (isr, leader_epoch, partition_epoch, why) in [
        (&[PLAYED, 1, 2][..], 0, 0, ErrorCode::InvalidUpdateVersion),
        (&[PLAYED, 1, 2], 0, 2, ErrorCode::NotController),
        (&[PLAYED, 1, 2], 1, 1, ErrorCode::NotController),
        (&[PLAYED, 1, 2], -1, 1, ErrorCode::FencedLeaderEpoch),
        (&[1, 2], 0, 1, ErrorCode::InvalidRequest),
        (&[PLAYED, 9], 0, 1, ErrorCode::InvalidRequest),
    ] {
        let refused = ask(isr, leader_epoch, partition_epoch);
        assert_eq!(refused.error_code, code(why), "{isr:?}");
    }
    let grown = ask(&[PLAYED, 1, 2, 3], 0, 1);
    assert_eq!((grown.error_code, grown.partition_epoch), (0, 2));
}
