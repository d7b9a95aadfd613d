//! The cluster and its settings.

use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::*;

use super::*;
use crate::asker::{Asker, access};
use crate::kafka::api::TABLE;
use security::Principal;
use security::authorize::Kind;

const CLUSTER: &str = "Cluster kafka-cluster";

/// The client as the broker knows it.
fn alice(rules: &[&str]) -> Asker {
    let bench = bench(rules);
    let here = std::net::SocketAddr::from(([127, 0, 0, 1], 9092));
    Asker {
        principal: Principal::user("alice"),
        authority: bench.shard.desk.shared.catalog.authority(),
        ..Asker::anonymous(here, here)
    }
}

#[test]
fn each_right_on_the_cluster_opens_the_apis_that_need_it_and_no_other() {
    for operation in ["Alter", "Describe", "ClusterAction", "DescribeConfigs"] {
        let asker = alice(&[&format!("alice allow {operation} {CLUSTER}")]);
        for row in TABLE {
            for version in row.min..=row.max {
                let [any] = access::needs(row.key, version) else {
                    continue;
                };
                if any.iter().any(|(_, kind)| *kind != Kind::Cluster) {
                    continue;
                }
                let names = any.iter().map(|(needed, _)| format!("{needed:?}"));
                let implied = if operation == "Alter" {
                    "Describe"
                } else {
                    operation
                };
                let want = names.into_iter().any(|of| of == operation || of == implied);
                let admitted = access::admits(&asker, row.key, version);
                assert_eq!(admitted, want, "{:?} {version} {operation}", row.key);
            }
        }
    }
}

/// Settings by kind: topics, groups, brokers, loggers, client metrics.
const KINDS: [(i8, &str, &str, i16); 5] = [
    (2, TOPIC, "Topic t", TOPIC_DENIED),
    (32, "g", "Group g", GROUP_DENIED),
    (4, "1", CLUSTER, CLUSTER_DENIED),
    (8, "1", CLUSTER, CLUSTER_DENIED),
    (16, "m", CLUSTER, CLUSTER_DENIED),
];

#[test]
fn settings_are_asked_about_by_the_kind_of_their_resource() {
    for (resource_type, name, resource, denied) in KINDS {
        let describe = DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type,
                resource_name: name.to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let alter = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type,
                resource_name: name.to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let codes = |rules: &[&str]| {
            let mut bench = bench(rules);
            let described = bench.ask_as("alice", &describe, 4).results[0].error_code;
            let altered = bench.ask_as("alice", &alter, 1).responses[0].error_code;
            (described, altered)
        };
        assert_eq!(codes(&[]), (denied, denied), "{resource}");
        let sees = format!("alice allow DescribeConfigs {resource}");
        assert_eq!(codes(&[&sees]), (0, denied), "{resource}");
        let changes = format!("alice allow AlterConfigs {resource}");
        assert_eq!(codes(&[&changes]), (0, 0), "{resource}");
    }
}

#[test]
fn refused_settings_stand_in_the_order_of_the_request_and_unsound_ones_are_refused_unasked() {
    let resource = |name: &str, value: Option<&str>| AlterConfigsResource {
        resource_type: 2,
        resource_name: name.to_owned(),
        configs: vec![AlterableConfig {
            name: "retention.ms".to_owned(),
            config_operation: 0,
            value: value.map(str::to_owned),
        }],
    };
    let request = IncrementalAlterConfigsRequest {
        resources: vec![
            resource(MISSING, Some("1")),
            resource(TOPIC, Some("1")),
            resource(OTHER, None),
        ],
        ..Default::default()
    };
    let mut bench = bench(&["alice allow AlterConfigs Topic t"]);
    let told = bench.ask_as("alice", &request, 1).responses;
    let told: Vec<_> = told
        .iter()
        .map(|of| (of.resource_name.as_str(), of.error_code))
        .collect();
    assert_eq!(told, [(MISSING, TOPIC_DENIED), (TOPIC, 0), (OTHER, 42)]);
}

#[test]
fn hidden_settings_come_behind_all_others() {
    let resource = |name: &str| DescribeConfigsResource {
        resource_type: 2,
        resource_name: name.to_owned(),
        ..Default::default()
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource(MISSING), resource(TOPIC)],
        ..Default::default()
    };
    let mut bench = bench(&["alice allow DescribeConfigs Topic t"]);
    let told = bench.ask_as("alice", &request, 4).results;
    let told: Vec<_> = told
        .iter()
        .map(|of| (of.resource_name.as_str(), of.error_code))
        .collect();
    assert_eq!(told, [(TOPIC, 0), (MISSING, TOPIC_DENIED)]);
}
