//! Rules that are made through one broker and asked by all of them.

use std::time::Duration;

use wire::messages::create_acls_request::AclCreation;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::delete_acls_request::DeleteAclsFilter;
use wire::messages::{
    CreateAclsRequest, CreateTopicsRequest, DeleteAclsRequest, DescribeAclsRequest,
};
use wire::{ErrorCode, Request};

use super::nodes::*;

const SETTINGS: &[(&str, &str)] = &[
    (
        "authorizer.class.name",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ),
    // Until there are rules nobody could make any.
    ("allow.everyone.if.no.acl.found", "true"),
];
const ANY: i8 = 1;
const DENY: i8 = 2;
const ALLOW: i8 = 3;
const TOPIC: i8 = 2;
const CLUSTER: i8 = 4;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;
const ALL_OPERATIONS: i8 = 2;
const CREATE: i8 = 5;
const DESCRIBE: i8 = 8;
const REFUSED: i16 = ErrorCode::TopicAuthorizationFailed as i16;
const CLOSED: i16 = ErrorCode::ClusterAuthorizationFailed as i16;

fn on_cluster(operation: i8, permission_type: i8) -> AclCreation {
    AclCreation {
        resource_type: CLUSTER,
        resource_name: "kafka-cluster".to_owned(),
        resource_pattern_type: LITERAL,
        principal: "User:ANONYMOUS".to_owned(),
        host: "*".to_owned(),
        operation,
        permission_type,
    }
}

/// Topics of these names are created by nobody.
fn on_topics(prefix: &str) -> AclCreation {
    AclCreation {
        resource_type: TOPIC,
        resource_name: prefix.to_owned(),
        resource_pattern_type: PREFIXED,
        ..on_cluster(CREATE, DENY)
    }
}

/// The answer of a node, which may have no controller to bring it to for a while.
fn ask<R: Request>(nodes: &Nodes, node: Node, request: &R, version: i16) -> R::Response {
    for _ in 0..100 {
        if let Some(answer) = nodes.ask(node, request, version) {
            return answer;
        }
        nodes.pass(Duration::from_millis(100));
    }
    panic!("node {node} does not answer");
}

fn create_rules(nodes: &Nodes, node: Node, rules: &[AclCreation]) {
    let request = CreateAclsRequest {
        creations: rules.to_vec(),
    };
    let answer = ask(nodes, node, &request, 3);
    assert!(answer.results.iter().all(|result| result.error_code == 0));
}

/// Deletes what is refused of this; the number of rules.
fn delete_rules(nodes: &Nodes, node: Node, operation: i8) -> usize {
    let filter = DeleteAclsFilter {
        resource_type_filter: ANY,
        resource_name_filter: None,
        pattern_type_filter: ANY,
        principal_filter: None,
        host_filter: None,
        operation,
        permission_type: DENY,
    };
    let request = DeleteAclsRequest {
        filters: vec![filter],
    };
    let answer = ask(nodes, node, &request, 3);
    answer.filter_results[0].matching_acls.len()
}

/// The resources that a node knows rules of, or the code of its refusal.
fn known(nodes: &Nodes, node: Node) -> Result<usize, i16> {
    let request = DescribeAclsRequest {
        resource_type_filter: ANY,
        resource_name_filter: None,
        pattern_type_filter: ANY,
        principal_filter: None,
        host_filter: None,
        operation: ANY,
        permission_type: ANY,
    };
    let answer = ask(nodes, node, &request, 3);
    match answer.error_code {
        0 => Ok(answer.resources.iter().map(|one| one.acls.len()).sum()),
        code => Err(code),
    }
}

fn create_topic(nodes: &Nodes, node: Node, name: &str) -> i16 {
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: name.to_owned(),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    ask(nodes, node, &request, 7).topics[0].error_code
}

#[test]
fn a_rule_is_in_force_at_every_broker_of_its_cluster_and_in_the_next_life_of_each() {
    let mut nodes = Nodes::start_with(881, SETTINGS);
    let rules = [
        on_cluster(ALL_OPERATIONS, ALLOW),
        on_cluster(CREATE, DENY),
        on_topics("secret-"),
    ];
    create_rules(&nodes, 1, &rules);
    for node in ALL {
        nodes.until(|nodes| Some(known(nodes, node) == Ok(rules.len())));
        // All but one of them bring it to the controller, in the name of the client.
        assert_eq!(create_topic(&nodes, node, "secret-1"), REFUSED, "{node}");
        assert_eq!(create_topic(&nodes, node, &format!("open-{node}")), 0);
    }
    for node in ALL {
        nodes.kill(node);
        nodes.start_one(node);
        nodes.until(|nodes| Some(known(nodes, node) == Ok(rules.len())));
        assert_eq!(create_topic(&nodes, node, "secret-1"), REFUSED, "{node}");
    }
    assert_eq!(delete_rules(&nodes, 3, CREATE), 2);
    for node in ALL {
        nodes.until(|nodes| Some(known(nodes, node) == Ok(1)));
        assert_eq!(create_topic(&nodes, node, &format!("secret-{node}")), 0);
    }
}

#[test]
fn a_broker_refuses_by_the_rules_that_it_knows_itself() {
    let nodes = Nodes::start_with(882, SETTINGS);
    let rules = [
        on_cluster(ALL_OPERATIONS, ALLOW),
        on_cluster(DESCRIBE, DENY),
    ];
    create_rules(&nodes, 1, &rules);
    for node in ALL {
        nodes.until(|nodes| Some(known(nodes, node) == Err(CLOSED)));
    }
    assert_eq!(delete_rules(&nodes, 2, DESCRIBE), 1);
    for node in ALL {
        nodes.until(|nodes| Some(known(nodes, node) == Ok(1)));
    }
}
