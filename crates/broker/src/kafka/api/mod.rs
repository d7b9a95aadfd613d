//! One file for each API: what a request asks, what its answer says. Versions and error codes live here and nowhere below.
//!
//! Owns the table of APIs that are served. The router serves what the table lists, and ApiVersions advertises the same rows,
//! so nothing is promised that is not there.

pub(crate) mod acls;
pub(crate) mod add_offsets_to_txn;
pub(crate) mod add_partitions_to_txn;
pub(crate) mod allocate_producer_ids;
pub(crate) mod alter_configs;
pub(crate) mod alter_partition;
pub(crate) mod alter_partition_reassignments;
pub(crate) mod alter_replica_log_dirs;
pub(crate) mod alter_user_scram_credentials;
pub(crate) mod api_versions;
pub(crate) mod assign_replicas_to_dirs;
pub(crate) mod broker_heartbeat;
pub(crate) mod broker_registration;
pub(crate) mod consumer_group_describe;
pub(crate) mod consumer_group_heartbeat;
pub(crate) mod controller_registration;
pub(crate) mod create_partitions;
pub(crate) mod create_topics;
mod current_leaders;
pub(crate) mod delegation_tokens;
pub(crate) mod delete_groups;
pub(crate) mod delete_records;
pub(crate) mod delete_topics;
pub(crate) mod describe_client_quotas;
pub(crate) mod describe_cluster;
pub(crate) mod describe_configs;
pub(crate) mod describe_groups;
pub(crate) mod describe_log_dirs;
pub(crate) mod describe_producers;
pub(crate) mod describe_quorum;
pub(crate) mod describe_topic_partitions;
pub(crate) mod describe_transactions;
pub(crate) mod describe_user_scram_credentials;
pub(crate) mod elect_leaders;
pub(crate) mod end_txn;
pub(crate) mod fetch;
pub(crate) mod find_coordinator;
pub(crate) mod group;
pub(crate) mod heartbeat;
pub(crate) mod incremental_alter_configs;
pub(crate) mod init_producer_id;
pub(crate) mod join_group;
pub(crate) mod leave_group;
pub(crate) mod list_config_resources;
pub(crate) mod list_groups;
pub(crate) mod list_offsets;
pub(crate) mod list_partition_reassignments;
pub(crate) mod list_transactions;
pub(crate) mod metadata;
pub(crate) mod offline;
pub(crate) mod offset_commit;
pub(crate) mod offset_delete;
pub(crate) mod offset_fetch;
pub(crate) mod offset_for_leader_epoch;
pub(crate) mod overdue;
pub(crate) mod produce;
pub(crate) mod refusal;
pub(crate) mod replica_fetch;
pub(crate) mod sasl;
pub(crate) mod sync_group;
pub(crate) mod telemetry;
pub(crate) mod txn;
pub(crate) mod txn_offset_commit;
pub(crate) mod unregister_broker;
pub(crate) mod unregister_controller;
pub(crate) mod update_features;
pub(crate) mod write_txn_markers;

use partition::Isolation;
use security::authorize::Operation;
use wire::ApiKey;

use crate::asker::access::{self, Resource};
use crate::ops::view::View;
use crate::peers::Ceilings;

/// An API that is served, from one version to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) key: ApiKey,
    pub(crate) min: i16,
    pub(crate) max: i16,
    /// The lowest version ApiVersions names. Below `min` for Produce, as in Kafka: librdkafka switches compression off unless it
    /// sees version 0 there (KAFKA-18659), and never sends it.
    pub(crate) min_advertised: i16,
}

impl Served {
    /// The same as an older build serves it; `None` where that does not.
    pub(crate) fn below(self, ceilings: &Ceilings) -> Option<Served> {
        let max = ceilings.newest(self.key, self.max);
        (self.min <= max).then_some(Served { max, ..self })
    }
}

const fn served(key: ApiKey, min: i16, max: i16) -> Served {
    Served {
        key,
        min,
        max,
        min_advertised: min,
    }
}

/// In the order of the keys.
pub(crate) const TABLE: &[Served] = &[
    Served {
        key: ApiKey::Produce,
        min: 3,
        max: 13,
        min_advertised: 0,
    },
    served(ApiKey::Fetch, 4, 18),
    served(ApiKey::ListOffsets, 1, 11),
    served(ApiKey::Metadata, 0, 13),
    served(ApiKey::OffsetCommit, 2, 10),
    served(ApiKey::OffsetFetch, 1, 10),
    served(ApiKey::FindCoordinator, 0, 6),
    served(ApiKey::JoinGroup, 0, 9),
    served(ApiKey::Heartbeat, 0, 4),
    served(ApiKey::LeaveGroup, 0, 5),
    served(ApiKey::SyncGroup, 0, 5),
    served(ApiKey::DescribeGroups, 0, 6),
    served(ApiKey::ListGroups, 0, 5),
    served(ApiKey::SaslHandshake, 0, 1),
    served(ApiKey::ApiVersions, 0, 5),
    served(ApiKey::CreateTopics, 2, 7),
    served(ApiKey::DeleteTopics, 1, 6),
    served(ApiKey::DeleteRecords, 0, 2),
    served(ApiKey::InitProducerId, 0, 5),
    served(ApiKey::OffsetForLeaderEpoch, 2, 4),
    served(ApiKey::AddPartitionsToTxn, 0, 5),
    served(ApiKey::AddOffsetsToTxn, 0, 4),
    served(ApiKey::EndTxn, 0, 5),
    served(ApiKey::WriteTxnMarkers, 1, 2),
    served(ApiKey::TxnOffsetCommit, 0, 6),
    served(ApiKey::DescribeAcls, 1, 3),
    served(ApiKey::CreateAcls, 1, 3),
    served(ApiKey::DeleteAcls, 1, 3),
    served(ApiKey::DescribeConfigs, 1, 4),
    served(ApiKey::AlterConfigs, 0, 2),
    served(ApiKey::AlterReplicaLogDirs, 1, 2),
    served(ApiKey::DescribeLogDirs, 1, 5),
    served(ApiKey::SaslAuthenticate, 0, 2),
    served(ApiKey::CreatePartitions, 0, 3),
    served(ApiKey::CreateDelegationToken, 1, 3),
    served(ApiKey::RenewDelegationToken, 1, 2),
    served(ApiKey::ExpireDelegationToken, 1, 2),
    served(ApiKey::DescribeDelegationToken, 1, 3),
    served(ApiKey::DeleteGroups, 0, 3),
    served(ApiKey::ElectLeaders, 0, 2),
    served(ApiKey::IncrementalAlterConfigs, 0, 1),
    served(ApiKey::AlterPartitionReassignments, 0, 1),
    served(ApiKey::ListPartitionReassignments, 0, 0),
    served(ApiKey::OffsetDelete, 0, 0),
    served(ApiKey::DescribeClientQuotas, 0, 1),
    served(ApiKey::DescribeUserScramCredentials, 0, 0),
    served(ApiKey::AlterUserScramCredentials, 0, 0),
    served(ApiKey::DescribeQuorum, 0, 2),
    served(ApiKey::UpdateFeatures, 0, 2),
    served(ApiKey::DescribeCluster, 0, 2),
    served(ApiKey::DescribeProducers, 0, 0),
    served(ApiKey::UnregisterBroker, 0, 0),
    served(ApiKey::DescribeTransactions, 0, 0),
    served(ApiKey::ListTransactions, 0, 2),
    served(ApiKey::ConsumerGroupHeartbeat, 0, 1),
    served(ApiKey::ConsumerGroupDescribe, 0, 1),
    served(ApiKey::GetTelemetrySubscriptions, 0, 0),
    served(ApiKey::PushTelemetry, 0, 0),
    served(ApiKey::ListConfigResources, 0, 1),
    served(ApiKey::DescribeTopicPartitions, 0, 0),
    served(ApiKey::AddRaftVoter, 0, 1),
    served(ApiKey::RemoveRaftVoter, 0, 0),
    served(ApiKey::UnregisterController, 0, 0),
];

const fn served_newest(key: ApiKey) -> Served {
    served(key, 0, key.max_version_stable())
}

/// Of other nodes alone, in the order of the keys.
pub(crate) const PEERS: &[Served] = &[
    served_newest(ApiKey::Vote),
    served_newest(ApiKey::BeginQuorumEpoch),
    served_newest(ApiKey::EndQuorumEpoch),
    served(ApiKey::AlterPartition, 2, 3),
    served_newest(ApiKey::Envelope),
    served_newest(ApiKey::FetchSnapshot),
    served_newest(ApiKey::BrokerRegistration),
    served_newest(ApiKey::BrokerHeartbeat),
    served_newest(ApiKey::AllocateProducerIds),
    served_newest(ApiKey::ControllerRegistration),
    served_newest(ApiKey::AssignReplicasToDirs),
    served_newest(ApiKey::UpdateRaftVoter),
];

pub(crate) fn is_served(key: ApiKey, version: i16, ceilings: &Ceilings) -> bool {
    let row = TABLE.iter().find(|row| row.key == key);
    row.and_then(|row| row.below(ceilings))
        .is_some_and(|row| (row.min..=row.max).contains(&version))
}

/// The oldest and the newest version of an API that are served.
pub(crate) fn served_versions(key: ApiKey) -> Option<(i16, i16)> {
    let row = TABLE.iter().find(|row| row.key == key)?;
    Some((row.min, row.max))
}

/// The operations that the asker may do to a resource, if that is asked for.
fn operations(view: &View<'_>, resource: Resource<'_>, is_asked: bool) -> i32 {
    if is_asked {
        access::operations(view.asker, resource)
    } else {
        NO_OPERATIONS
    }
}

/// The same of the cluster, whose operations are for those who may describe it.
fn cluster_operations(view: &View<'_>, is_asked: bool) -> i32 {
    let sees = || view.asker.grant(Operation::Describe, Resource::CLUSTER);
    if is_asked && sees().is_err() {
        return 0;
    }
    operations(view, Resource::CLUSTER, is_asked)
}

/// Operations that were not asked for.
const NO_OPERATIONS: i32 = i32::MIN;

fn numbers(brokers: &[model::BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

const READ_COMMITTED: i8 = 1;

/// As Kafka reads the field: what is not "committed" is everything.
fn isolation(level: i8) -> Isolation {
    match level {
        READ_COMMITTED => Isolation::Committed,
        _ => Isolation::Uncommitted,
    }
}

/// Topic partitions can be counted in the protocol's 32 bits.
fn number(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod fixture;

#[cfg(test)]
mod tests {
    use super::fixture::{Fixture, uuids};
    use super::*;
    use wire::Message;
    use wire::messages::*;

    #[test]
    fn the_table_stays_within_the_versions_of_the_protocol() {
        for row in TABLE {
            assert!(
                row.key.min_version() <= row.min && row.max <= row.key.max_version(),
                "{row:?}"
            );
            assert!(
                row.min_advertised <= row.min && row.min <= row.max,
                "{row:?}"
            );
        }
    }

    fn check<R: Message + Default, M: Message>(
        key: ApiKey,
        fixture: &Fixture,
        handle: impl Fn(&R, i16, &View<'_>) -> M,
    ) {
        let row = TABLE.iter().find(|row| row.key == key).expect("served");
        for version in row.min..=row.max {
            let request = R::default();
            let response = handle(&request, version, &fixture.view());
            let written = wire::frame::encode_response(key, &response, version, 7);
            assert!(
                written.is_ok(),
                "{key:?} version {version}: {:?}",
                written.err()
            );
        }
    }

    #[test]
    fn every_answer_can_be_written_in_every_version_that_is_served() {
        let fixture = &Fixture::new("");
        check(
            ApiKey::ApiVersions,
            fixture,
            |_: &ApiVersionsRequest, version, view| {
                let name = || "a".to_owned();
                let request = ApiVersionsRequest {
                    client_software_name: name(),
                    client_software_version: name(),
                    ..ApiVersionsRequest::default()
                };
                api_versions::handle(&request, version, view, (&[], 0), &Ceilings::default())
            },
        );
        check(
            ApiKey::Metadata,
            fixture,
            |_: &MetadataRequest, version, view| {
                let ask = |name: &str| metadata_request::MetadataRequestTopic {
                    name: Some(name.into()),
                    ..Default::default()
                };
                let request = MetadataRequest {
                    topics: Some(vec![ask("a"), ask("none")]),
                    include_cluster_authorized_operations: 8 <= version,
                    include_topic_authorized_operations: 8 <= version,
                    ..Default::default()
                };
                metadata::handle(&request, version, view)
            },
        );
        check(
            ApiKey::CreateTopics,
            fixture,
            |_: &CreateTopicsRequest, _, view| {
                let ask = |name: &str| create_topics_request::CreatableTopic {
                    name: name.into(),
                    num_partitions: 1,
                    replication_factor: 1,
                    ..Default::default()
                };
                let request = CreateTopicsRequest {
                    topics: vec![ask("a"), ask("new")],
                    ..Default::default()
                };
                create_topics::handle(&request, view, &mut uuids()).1
            },
        );
        check(
            ApiKey::DeleteTopics,
            fixture,
            |_: &DeleteTopicsRequest, version, view| {
                let name = || "a".to_owned();
                let state = delete_topics_request::DeleteTopicState {
                    name: Some(name()),
                    ..Default::default()
                };
                let names = vec![name(), "none".to_owned()];
                let request = DeleteTopicsRequest {
                    topics: vec![state],
                    topic_names: names,
                    ..Default::default()
                };
                delete_topics::handle(&request, version, view, &mut uuids()).1
            },
        );
        check(
            ApiKey::CreatePartitions,
            fixture,
            |_: &CreatePartitionsRequest, _, view| {
                let topic = create_partitions_request::CreatePartitionsTopic {
                    name: "t".into(),
                    count: 1,
                    ..Default::default()
                };
                create_partitions::handle(
                    &CreatePartitionsRequest {
                        topics: vec![topic],
                        ..Default::default()
                    },
                    view,
                )
                .1
            },
        );
        check(
            ApiKey::DescribeConfigs,
            fixture,
            |_: &DescribeConfigsRequest, _, view| {
                let ask =
                    |resource_type, name: &str| describe_configs_request::DescribeConfigsResource {
                        resource_type,
                        resource_name: name.into(),
                        configuration_keys: None,
                    };
                let resources = vec![ask(2, "a"), ask(4, "1"), ask(2, "none")];
                let request = DescribeConfigsRequest {
                    resources,
                    include_synonyms: true,
                    include_documentation: true,
                };
                describe_configs::handle(&request, view)
            },
        );
        check(
            ApiKey::AlterConfigs,
            fixture,
            |_: &AlterConfigsRequest, _, view| {
                let resource = alter_configs_request::AlterConfigsResource {
                    resource_type: 77,
                    ..Default::default()
                };
                alter_configs::handle(
                    &AlterConfigsRequest {
                        resources: vec![resource],
                        ..Default::default()
                    },
                    view,
                )
                .1
            },
        );
        check(
            ApiKey::IncrementalAlterConfigs,
            fixture,
            |_: &IncrementalAlterConfigsRequest, _, view| {
                let resource = incremental_alter_configs_request::AlterConfigsResource {
                    resource_type: 77,
                    ..Default::default()
                };
                let request = IncrementalAlterConfigsRequest {
                    resources: vec![resource],
                    ..Default::default()
                };
                incremental_alter_configs::handle(&request, view).1
            },
        );
        check(
            ApiKey::ListConfigResources,
            fixture,
            |request: &ListConfigResourcesRequest, version, view| {
                list_config_resources::handle(request, version, view)
            },
        );
        check(
            ApiKey::DescribeTopicPartitions,
            fixture,
            |request: &DescribeTopicPartitionsRequest, _, view| {
                describe_topic_partitions::handle(request, view)
            },
        );
        check(
            ApiKey::ElectLeaders,
            fixture,
            |_: &ElectLeadersRequest, _, view| {
                let topic = elect_leaders_request::TopicPartitions {
                    topic: "t".into(),
                    partitions: vec![0, 9],
                };
                let request = ElectLeadersRequest {
                    topic_partitions: Some(vec![topic]),
                    ..Default::default()
                };
                elect_leaders::handle(&request, view).1
            },
        );
        check(
            ApiKey::AlterPartitionReassignments,
            fixture,
            |_: &AlterPartitionReassignmentsRequest, _, view| {
                let partition = alter_partition_reassignments_request::ReassignablePartition {
                    partition_index: 0,
                    replicas: Some(vec![7]),
                };
                let topic = alter_partition_reassignments_request::ReassignableTopic {
                    name: "t".into(),
                    partitions: vec![partition],
                };
                let request = AlterPartitionReassignmentsRequest {
                    topics: vec![topic],
                    ..Default::default()
                };
                alter_partition_reassignments::handle(&request, view).1
            },
        );
        check(
            ApiKey::ListPartitionReassignments,
            fixture,
            |request: &ListPartitionReassignmentsRequest, _, view| {
                list_partition_reassignments::handle(request, view)
            },
        );
        check(
            ApiKey::DescribeClientQuotas,
            fixture,
            |request: &DescribeClientQuotasRequest, _, _| describe_client_quotas::handle(request),
        );
        check(
            ApiKey::DescribeUserScramCredentials,
            fixture,
            |_: &DescribeUserScramCredentialsRequest, _, view| {
                let user = describe_user_scram_credentials_request::UserName { name: "a".into() };
                let request = DescribeUserScramCredentialsRequest {
                    users: Some(vec![user]),
                };
                describe_user_scram_credentials::handle(&request, view)
            },
        );
        check(
            ApiKey::UnregisterBroker,
            fixture,
            |_: &UnregisterBrokerRequest, _, view| {
                let only = unregister_broker::refuse_the_only(view.image, view.broker.node_id);
                only.expect("one broker")
            },
        );
        check(
            ApiKey::UnregisterController,
            fixture,
            |_: &UnregisterControllerRequest, _, view| {
                let id = view.broker.node_id;
                let decided = meta::decide::controller::unregister_controller(view.image, id, id);
                unregister_controller::answer(decided.map(drop))
            },
        );
        check(
            ApiKey::UpdateFeatures,
            fixture,
            |_: &UpdateFeaturesRequest, version, view| {
                let update = update_features_request::FeatureUpdateKey {
                    feature: "group.version".into(),
                    max_version_level: 1,
                    upgrade_type: 1,
                    ..Default::default()
                };
                let request = UpdateFeaturesRequest {
                    feature_updates: vec![update],
                    ..Default::default()
                };
                update_features::handle(&request, version, view, &Default::default()).1
            },
        );
        check(
            ApiKey::DescribeCluster,
            fixture,
            |request: &DescribeClusterRequest, _, view| describe_cluster::at_brokers(request, view),
        );
    }

    #[test]
    fn a_listener_on_all_addresses_is_advertised_as_the_one_the_client_used() {
        let mut fixture = Fixture::new("");
        let endpoint = |name: &str, host: &str| meta::Endpoint {
            name: name.into(),
            host: host.into(),
            port: 9092,
            protocol: meta::SecurityProtocol::PLAINTEXT,
        };
        let broker = meta::decide::register_broker::Broker {
            id: model::BrokerId(1),
            incarnation: wire::Uuid([1; 16]),
            endpoints: vec![
                endpoint("PLAINTEXT", "0.0.0.0"),
                endpoint("INSIDE", "inside"),
            ],
            rack: None,
            log_dirs: Vec::new(),
        };
        fixture.replay(&meta::decide::register_broker::register_broker(
            &fixture.image.clone(),
            &broker,
        ));
        let seen = |listener| {
            let view = View {
                listener,
                ..fixture.view()
            };
            view.endpoint(
                fixture
                    .image
                    .broker(model::BrokerId(1))
                    .expect("registered"),
            )
            .map(|address| address.host)
        };
        assert_eq!(seen("PLAINTEXT"), Some("10.0.0.7".into()));
        assert_eq!(seen("INSIDE"), Some("inside".into()));
        assert_eq!(seen("OUTSIDE"), None);
    }
}
