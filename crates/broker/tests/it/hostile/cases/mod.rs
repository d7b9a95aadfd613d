//! Hostile requests that are well formed: a few for each API.
//!
//! A version that cannot carry a request leaves it out.

mod changes;
mod cluster;
mod groups;
mod members;
mod nodes;
mod offsets;
mod produce;
mod records;
mod security;
mod topics;
mod txns;

use wire::ApiKey;
use wire::any::AnyRequest;

use super::scene::{Scene, TOPIC};

pub(crate) type Cases = Vec<(&'static str, AnyRequest)>;

/// The APIs that one test covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    Data,
    Coordinators,
    Cluster,
}

pub(crate) fn area(key: ApiKey) -> Area {
    match key {
        ApiKey::Produce
        | ApiKey::Fetch
        | ApiKey::ListOffsets
        | ApiKey::OffsetForLeaderEpoch
        | ApiKey::DeleteRecords
        | ApiKey::DescribeProducers
        | ApiKey::Metadata
        | ApiKey::DescribeTopicPartitions
        | ApiKey::CreateTopics
        | ApiKey::DeleteTopics
        | ApiKey::CreatePartitions => Area::Data,
        ApiKey::FindCoordinator
        | ApiKey::JoinGroup
        | ApiKey::SyncGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::OffsetCommit
        | ApiKey::OffsetFetch
        | ApiKey::OffsetDelete
        | ApiKey::DescribeGroups
        | ApiKey::ListGroups
        | ApiKey::DeleteGroups
        | ApiKey::ConsumerGroupHeartbeat
        | ApiKey::ConsumerGroupDescribe
        | ApiKey::InitProducerId
        | ApiKey::AddPartitionsToTxn
        | ApiKey::AddOffsetsToTxn
        | ApiKey::EndTxn
        | ApiKey::WriteTxnMarkers
        | ApiKey::TxnOffsetCommit
        | ApiKey::DescribeTransactions
        | ApiKey::ListTransactions => Area::Coordinators,
        _ => Area::Cluster,
    }
}

pub(crate) fn requests(key: ApiKey, scene: &Scene) -> Cases {
    match key {
        ApiKey::Produce => produce::produce(scene),
        ApiKey::Fetch => records::fetch(scene),
        ApiKey::ListOffsets => records::list_offsets(),
        ApiKey::OffsetForLeaderEpoch => records::offset_for_leader_epoch(),
        ApiKey::DeleteRecords => records::delete_records(),
        ApiKey::DescribeProducers => records::describe_producers(),
        ApiKey::Metadata => topics::metadata(),
        ApiKey::DescribeTopicPartitions => topics::describe_topic_partitions(),
        ApiKey::CreateTopics => topics::create_topics(),
        ApiKey::DeleteTopics => topics::delete_topics(),
        ApiKey::CreatePartitions => topics::create_partitions(),
        ApiKey::FindCoordinator => groups::find_coordinator(),
        ApiKey::JoinGroup => members::join_group(scene),
        ApiKey::SyncGroup => members::sync_group(scene),
        ApiKey::Heartbeat => members::heartbeat(scene),
        ApiKey::LeaveGroup => members::leave_group(),
        ApiKey::OffsetCommit => offsets::offset_commit(scene),
        ApiKey::OffsetFetch => offsets::offset_fetch(scene),
        ApiKey::OffsetDelete => offsets::offset_delete(),
        ApiKey::DescribeGroups => groups::describe_groups(),
        ApiKey::ListGroups => groups::list_groups(),
        ApiKey::DeleteGroups => groups::delete_groups(),
        ApiKey::ConsumerGroupHeartbeat => members::consumer_group_heartbeat(),
        ApiKey::ConsumerGroupDescribe => groups::consumer_group_describe(),
        ApiKey::InitProducerId => txns::init_producer_id(scene),
        ApiKey::AddPartitionsToTxn => txns::add_partitions_to_txn(scene),
        ApiKey::AddOffsetsToTxn => txns::add_offsets_to_txn(scene),
        ApiKey::EndTxn => txns::end_txn(scene),
        ApiKey::WriteTxnMarkers => txns::write_txn_markers(scene),
        ApiKey::TxnOffsetCommit => txns::txn_offset_commit(scene),
        ApiKey::DescribeTransactions => txns::describe_transactions(),
        ApiKey::ListTransactions => txns::list_transactions(),
        ApiKey::DescribeAcls => security::describe_acls(),
        ApiKey::CreateAcls => security::create_acls(),
        ApiKey::DeleteAcls => security::delete_acls(),
        ApiKey::CreateDelegationToken => security::create_delegation_token(),
        ApiKey::RenewDelegationToken => security::renew_delegation_token(),
        ApiKey::ExpireDelegationToken => security::expire_delegation_token(),
        ApiKey::DescribeDelegationToken => security::describe_delegation_token(),
        ApiKey::SaslHandshake => security::sasl_handshake(),
        ApiKey::SaslAuthenticate => security::sasl_authenticate(),
        ApiKey::DescribeUserScramCredentials => security::describe_user_scram_credentials(),
        ApiKey::AlterUserScramCredentials => security::alter_user_scram_credentials(),
        ApiKey::DescribeClientQuotas => security::describe_client_quotas(),
        ApiKey::DescribeConfigs => changes::describe_configs(),
        ApiKey::AlterConfigs => changes::alter_configs(),
        ApiKey::IncrementalAlterConfigs => changes::incremental_alter_configs(),
        ApiKey::ListConfigResources => changes::list_config_resources(),
        ApiKey::AlterReplicaLogDirs => changes::alter_replica_log_dirs(),
        ApiKey::DescribeLogDirs => changes::describe_log_dirs(),
        ApiKey::AlterPartitionReassignments => changes::alter_partition_reassignments(),
        ApiKey::ListPartitionReassignments => changes::list_partition_reassignments(),
        ApiKey::ElectLeaders => changes::elect_leaders(),
        ApiKey::ApiVersions => cluster::api_versions(),
        ApiKey::DescribeQuorum => cluster::describe_quorum(),
        ApiKey::UpdateFeatures => cluster::update_features(),
        ApiKey::DescribeCluster => cluster::describe_cluster(),
        ApiKey::UnregisterBroker => cluster::unregister_broker(),
        ApiKey::UnregisterController => cluster::unregister_controller(),
        ApiKey::AddRaftVoter => cluster::add_raft_voter(),
        ApiKey::RemoveRaftVoter => cluster::remove_raft_voter(),
        ApiKey::AlterPartition => nodes::alter_partition(),
        ApiKey::Envelope => nodes::envelope(),
        ApiKey::FetchSnapshot => nodes::fetch_snapshot(),
        ApiKey::BrokerRegistration => nodes::broker_registration(),
        ApiKey::BrokerHeartbeat => nodes::broker_heartbeat(),
        ApiKey::AllocateProducerIds => nodes::allocate_producer_ids(),
        ApiKey::ControllerRegistration => nodes::controller_registration(),
        ApiKey::AssignReplicasToDirs => nodes::assign_replicas_to_dirs(),
        ApiKey::GetTelemetrySubscriptions => cluster::get_telemetry_subscriptions(),
        ApiKey::PushTelemetry => cluster::push_telemetry(),
        other => panic!("{other:?} is served: it needs hostile requests here"),
    }
}

/// Names that no good client has for a topic or a group, and one that exists.
fn names() -> Vec<String> {
    let long = "n".repeat(300);
    let names = [
        "none",
        "",
        ".",
        "..",
        "a/b",
        "a\0b",
        "line\nbreak",
        "\u{202e}\u{1f4a3}",
        &long,
        "__consumer_offsets",
        "__cluster_metadata",
        TOPIC,
        TOPIC,
    ];
    names.map(str::to_owned).to_vec()
}

/// Partitions that do not exist, and one that does, twice.
fn partitions() -> Vec<i32> {
    vec![-1, 2, i32::MIN, i32::MAX, 0, 0]
}

fn text(text: &str) -> String {
    text.to_owned()
}
