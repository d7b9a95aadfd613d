//! Leaders that ask the active controller for another ISR.

use wire::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
use wire::messages::{
    AlterPartitionRequest, AlterPartitionResponse, DescribeQuorumRequest, describe_quorum_request,
};
use wire::{ErrorCode, Uuid};

use super::nodes::*;

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

fn active(nodes: &Nodes) -> Option<Node> {
    let request = DescribeQuorumRequest {
        topics: vec![describe_quorum_request::TopicData {
            topic_name: "__cluster_metadata".to_owned(),
            partitions: vec![Default::default()],
        }],
    };
    let answer = nodes.ask(1, &request, 2)?;
    Node::try_from(answer.topics[0].partitions[0].leader_id).ok()
}

#[test]
fn an_isr_is_changed_by_the_active_controller_for_a_broker_that_it_knows() {
    let nodes = Nodes::start(11);
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
