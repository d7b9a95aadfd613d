//! Answers to requests whose asker may not do anything of their kind with the cluster.
//!
//! Each says CLUSTER_AUTHORIZATION_FAILED where its schema has a place for it, as Kafka's `getErrorResponse` does: on top, or once
//! for each part of the request.

use std::collections::BTreeSet;

use wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use wire::messages::create_acls_response::AclCreationResult;
use wire::messages::delete_acls_response::DeleteAclsFilterResult;
use wire::messages::describe_user_scram_credentials_response::DescribeUserScramCredentialsResult;
use wire::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use wire::messages::*;
use wire::{ApiKey, ErrorCode, Reader};

use super::call::Call;
use super::call::with;
use crate::net::Outcome;

const CODE: i16 = ErrorCode::ClusterAuthorizationFailed as i16;
/// First version of ElectLeaders with a code on top.
const ELECTION_CODE_VERSION: i16 = 1;

fn message() -> Option<String> {
    Some(ErrorCode::ClusterAuthorizationFailed.message().to_owned())
}

/// Answers a request of an API that needs the cluster.
pub(super) fn answer(call: &mut Call<'_>, key: ApiKey, reader: Reader) -> Outcome {
    /// Answers with the code on top, and what else is given.
    macro_rules! on_top {
        ($request:ident, $response:ident { $($field:ident: $value:expr),* }) => {
            with(call, reader, |call, _: $request| {
                let response = $response {
                    error_code: CODE,
                    $($field: $value,)*
                    ..Default::default()
                };
                call.reply(key, &response)
            })
        };
    }
    match key {
        ApiKey::DescribeAcls => {
            on_top!(
                DescribeAclsRequest,
                DescribeAclsResponse {
                    error_message: message()
                }
            )
        }
        ApiKey::DescribeLogDirs => on_top!(DescribeLogDirsRequest, DescribeLogDirsResponse {}),
        ApiKey::DescribeQuorum => {
            on_top!(
                DescribeQuorumRequest,
                DescribeQuorumResponse {
                    error_message: message()
                }
            )
        }
        ApiKey::ListPartitionReassignments => with(call, reader, list_reassignments),
        ApiKey::AlterPartitionReassignments => with(call, reader, alter_reassignments),
        ApiKey::AddPartitionsToTxn => {
            on_top!(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse {})
        }
        ApiKey::UnregisterBroker => on_top!(
            UnregisterBrokerRequest,
            UnregisterBrokerResponse {
                error_message: message()
            }
        ),
        ApiKey::UnregisterController => on_top!(
            UnregisterControllerRequest,
            UnregisterControllerResponse {
                error_message: message()
            }
        ),
        ApiKey::AddRaftVoter => {
            on_top!(
                AddRaftVoterRequest,
                AddRaftVoterResponse {
                    error_message: message()
                }
            )
        }
        ApiKey::RemoveRaftVoter => {
            on_top!(
                RemoveRaftVoterRequest,
                RemoveRaftVoterResponse {
                    error_message: message()
                }
            )
        }
        ApiKey::UpdateFeatures => {
            on_top!(
                UpdateFeaturesRequest,
                UpdateFeaturesResponse {
                    error_message: message()
                }
            )
        }
        ApiKey::ListConfigResources => {
            on_top!(ListConfigResourcesRequest, ListConfigResourcesResponse {})
        }
        ApiKey::DescribeClientQuotas => on_top!(
            DescribeClientQuotasRequest,
            DescribeClientQuotasResponse {
                error_message: message(),
                entries: None
            }
        ),
        ApiKey::ElectLeaders => with(call, reader, elect_leaders),
        ApiKey::DescribeUserScramCredentials => with(call, reader, describe_user_scram_credentials),
        ApiKey::AlterUserScramCredentials => with(call, reader, alter_user_scram_credentials),
        ApiKey::CreateAcls => with(call, reader, create_acls),
        ApiKey::DeleteAcls => with(call, reader, delete_acls),
        ApiKey::AlterReplicaLogDirs => with(call, reader, alter_replica_log_dirs),
        ApiKey::WriteTxnMarkers => with(call, reader, write_txn_markers),
        ApiKey::Vote => on_top!(VoteRequest, VoteResponse {}),
        ApiKey::BeginQuorumEpoch => on_top!(BeginQuorumEpochRequest, BeginQuorumEpochResponse {}),
        ApiKey::EndQuorumEpoch => on_top!(EndQuorumEpochRequest, EndQuorumEpochResponse {}),
        ApiKey::AlterPartition => on_top!(AlterPartitionRequest, AlterPartitionResponse {}),
        ApiKey::Envelope => on_top!(EnvelopeRequest, EnvelopeResponse {}),
        ApiKey::FetchSnapshot => on_top!(FetchSnapshotRequest, FetchSnapshotResponse {}),
        ApiKey::BrokerRegistration => {
            on_top!(BrokerRegistrationRequest, BrokerRegistrationResponse {})
        }
        ApiKey::BrokerHeartbeat => on_top!(BrokerHeartbeatRequest, BrokerHeartbeatResponse {}),
        ApiKey::AllocateProducerIds => {
            on_top!(AllocateProducerIdsRequest, AllocateProducerIdsResponse {})
        }
        ApiKey::ControllerRegistration => on_top!(
            ControllerRegistrationRequest,
            ControllerRegistrationResponse {
                error_message: message()
            }
        ),
        ApiKey::AssignReplicasToDirs => {
            on_top!(AssignReplicasToDirsRequest, AssignReplicasToDirsResponse {})
        }
        ApiKey::UpdateRaftVoter => on_top!(UpdateRaftVoterRequest, UpdateRaftVoterResponse {}),
        // Every API that needs the cluster alone has an arm.
        _ => Outcome::Close,
    }
}

/// The partitions that were asked about come back as if nothing moved.
fn list_reassignments(call: &mut Call<'_>, request: ListPartitionReassignmentsRequest) -> Outcome {
    let one = |partition_index| OngoingPartitionReassignment {
        partition_index,
        ..Default::default()
    };
    let topics = request.topics.into_iter().flatten();
    let topics = topics.map(|topic| OngoingTopicReassignment {
        name: topic.name,
        partitions: topic.partition_indexes.into_iter().map(one).collect(),
    });
    let response = ListPartitionReassignmentsResponse {
        error_code: CODE,
        error_message: message(),
        topics: topics.collect(),
        ..Default::default()
    };
    call.reply(ApiKey::ListPartitionReassignments, &response)
}

/// On top, and once more for each partition.
fn alter_reassignments(
    call: &mut Call<'_>,
    request: AlterPartitionReassignmentsRequest,
) -> Outcome {
    let one = |partition_index| ReassignablePartitionResponse {
        partition_index,
        error_code: CODE,
        error_message: message(),
    };
    let topics = request.topics.into_iter();
    let topics = topics.map(|topic| ReassignableTopicResponse {
        name: topic.name,
        partitions: (topic.partitions.into_iter())
            .map(|partition| one(partition.partition_index))
            .collect(),
    });
    let response = AlterPartitionReassignmentsResponse {
        error_code: CODE,
        error_message: message(),
        responses: topics.collect(),
        ..Default::default()
    };
    call.reply(ApiKey::AlterPartitionReassignments, &response)
}

fn elect_leaders(call: &mut Call<'_>, request: ElectLeadersRequest) -> Outcome {
    let one = |partition_id| PartitionResult {
        partition_id,
        error_code: CODE,
        error_message: message(),
    };
    let topics = request.topic_partitions.into_iter().flatten();
    let topics = topics.map(|topic| ReplicaElectionResult {
        topic: topic.topic,
        partition_result: topic.partitions.into_iter().map(one).collect(),
    });
    let has_code = ELECTION_CODE_VERSION <= call.version();
    let response = ElectLeadersResponse {
        error_code: if has_code { CODE } else { 0 },
        replica_election_results: topics.collect(),
        ..Default::default()
    };
    call.reply(ApiKey::ElectLeaders, &response)
}

/// Once for each user, without a name, and without words: so Kafka has it.
fn describe_user_scram_credentials(
    call: &mut Call<'_>,
    request: DescribeUserScramCredentialsRequest,
) -> Outcome {
    let refused = DescribeUserScramCredentialsResult {
        error_code: CODE,
        error_message: None,
        ..Default::default()
    };
    let users = request.users.unwrap_or_default();
    let response = DescribeUserScramCredentialsResponse {
        error_code: CODE,
        error_message: None,
        results: vec![refused; users.len()],
        ..Default::default()
    };
    call.reply(ApiKey::DescribeUserScramCredentials, &response)
}

fn alter_user_scram_credentials(
    call: &mut Call<'_>,
    request: AlterUserScramCredentialsRequest,
) -> Outcome {
    let deletions = request.deletions.into_iter().map(|one| one.name);
    let upsertions = request.upsertions.into_iter().map(|one| one.name);
    let users: BTreeSet<String> = deletions.chain(upsertions).collect();
    let refused = |user| AlterUserScramCredentialsResult {
        user,
        error_code: CODE,
        error_message: message(),
    };
    let response = AlterUserScramCredentialsResponse {
        results: users.into_iter().map(refused).collect(),
        ..Default::default()
    };
    call.reply(ApiKey::AlterUserScramCredentials, &response)
}

fn create_acls(call: &mut Call<'_>, request: CreateAclsRequest) -> Outcome {
    let refused = AclCreationResult {
        error_code: CODE,
        error_message: message(),
    };
    let response = CreateAclsResponse {
        results: vec![refused; request.creations.len()],
        ..Default::default()
    };
    call.reply(ApiKey::CreateAcls, &response)
}

fn delete_acls(call: &mut Call<'_>, request: DeleteAclsRequest) -> Outcome {
    let refused = DeleteAclsFilterResult {
        error_code: CODE,
        error_message: message(),
        ..Default::default()
    };
    let response = DeleteAclsResponse {
        filter_results: vec![refused; request.filters.len()],
        ..Default::default()
    };
    call.reply(ApiKey::DeleteAcls, &response)
}

fn alter_replica_log_dirs(call: &mut Call<'_>, request: AlterReplicaLogDirsRequest) -> Outcome {
    let topics = request.dirs.into_iter().flat_map(|dir| dir.topics);
    let results = topics.map(|topic| AlterReplicaLogDirTopicResult {
        topic_name: topic.name,
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition_index| AlterReplicaLogDirPartitionResult {
                partition_index,
                error_code: CODE,
            })
            .collect(),
    });
    let response = AlterReplicaLogDirsResponse {
        results: results.collect(),
        ..Default::default()
    };
    call.reply(ApiKey::AlterReplicaLogDirs, &response)
}

fn write_txn_markers(call: &mut Call<'_>, request: WriteTxnMarkersRequest) -> Outcome {
    let markers = request.markers.into_iter();
    let markers = markers.map(|marker| WritableTxnMarkerResult {
        producer_id: marker.producer_id,
        topics: marker
            .topics
            .into_iter()
            .map(|topic| WritableTxnMarkerTopicResult {
                name: topic.name,
                partitions: topic
                    .partition_indexes
                    .into_iter()
                    .map(|partition_index| WritableTxnMarkerPartitionResult {
                        partition_index,
                        error_code: CODE,
                    })
                    .collect(),
            })
            .collect(),
    });
    let response = WriteTxnMarkersResponse {
        markers: markers.collect(),
    };
    call.reply(ApiKey::WriteTxnMarkers, &response)
}

#[cfg(test)]
mod tests {
    use wire::Request;

    use std::sync::Arc;

    use security::authorize::Rules;

    use super::*;
    use crate::asker::{Asker, Authority, access};
    use crate::event_loop::bench::{Bench, encoded};
    use crate::kafka::api::{PEERS, Served, TABLE};

    /// The answer of each version to a stranger, as `code` reads it.
    fn refused<R: Request>(key: ApiKey, request: &R, code: impl Fn(&R::Response) -> i16) {
        let row = TABLE.iter().find(|row| row.key == key).expect("served");
        refused_from(row.min..=row.max, request, code);
    }

    fn refused_from<R: Request>(
        versions: std::ops::RangeInclusive<i16>,
        request: &R,
        code: impl Fn(&R::Response) -> i16,
    ) {
        let key = R::KEY;
        for version in versions {
            let mut bench = Bench::new();
            bench.become_stranger();
            bench.put(&encoded(request, version));
            assert!(!bench.is_cut_off(), "{key:?} version {version}");
            let answer = bench.answer::<R>(version).expect("an answer at once");
            assert_eq!(code(&answer), CODE, "{key:?} version {version}");
        }
    }

    /// The voters' own talk is for who has voters: a cluster of one closes it (see [`crate::kafka::peers`]).
    #[test]
    fn a_request_of_nodes_is_answered_to_who_has_not_proved_to_be_one() {
        macro_rules! check {
            ($($name:ident $request:ident),*) => {{
                $({
                    let row = PEERS.iter().find(|row| row.key == ApiKey::$name);
                    let row = row.expect("of nodes");
                    let request = $request::default();
                    refused_from(row.min..=row.max, &request, |answer| answer.error_code);
                })*
                [$(ApiKey::$name),*]
            }};
        }
        let checked = check!(
            AlterPartition AlterPartitionRequest,
            Envelope EnvelopeRequest,
            FetchSnapshot FetchSnapshotRequest,
            BrokerRegistration BrokerRegistrationRequest,
            BrokerHeartbeat BrokerHeartbeatRequest,
            AllocateProducerIds AllocateProducerIdsRequest,
            ControllerRegistration ControllerRegistrationRequest,
            AssignReplicasToDirs AssignReplicasToDirsRequest
        );
        assert_eq!(checked.len() + 4, PEERS.len());
    }

    fn stranger() -> Asker {
        let here = std::net::SocketAddr::from(([127, 0, 0, 1], 9092));
        Asker {
            authority: Some(Arc::new(Authority::new(Rules::default()))),
            ..Asker::anonymous(here, here)
        }
    }

    #[test]
    fn a_stranger_is_answered_by_every_api_that_needs_the_cluster() {
        let refuses = |row: &&Served| !access::admits(&stranger(), row.key, row.max);
        let needing = TABLE.iter().filter(refuses).map(|row| row.key);
        for key in needing {
            macro_rules! on_top {
                ($request:ident) => {
                    refused(key, &$request::default(), |answer| answer.error_code)
                };
            }
            match key {
                ApiKey::DescribeAcls => {
                    let any = DescribeAclsRequest {
                        resource_type_filter: 1,
                        pattern_type_filter: 1,
                        operation: 1,
                        permission_type: 1,
                        ..Default::default()
                    };
                    refused(key, &any, |answer| answer.error_code);
                }
                // Versions before have no place for a code.
                ApiKey::DescribeLogDirs => {
                    let mut bench = Bench::new();
                    bench.become_stranger();
                    let request = DescribeLogDirsRequest::default();
                    bench.put(&encoded(&request, 3));
                    let answer = bench.answer::<DescribeLogDirsRequest>(3);
                    assert_eq!(answer.expect("an answer at once").error_code, CODE);
                }
                ApiKey::DescribeUserScramCredentials => {
                    on_top!(DescribeUserScramCredentialsRequest);
                    let user = || describe_user_scram_credentials_request::UserName::default();
                    let request = DescribeUserScramCredentialsRequest {
                        users: Some(vec![user(), user()]),
                    };
                    refused(key, &request, |answer| answer.results[1].error_code);
                }
                ApiKey::AlterUserScramCredentials => {
                    let deletion = |name: &str| {
                        alter_user_scram_credentials_request::ScramCredentialDeletion {
                            name: name.to_owned(),
                            mechanism: 1,
                        }
                    };
                    let request = AlterUserScramCredentialsRequest {
                        deletions: ["b", "a", "b"].map(deletion).to_vec(),
                        ..Default::default()
                    };
                    refused(key, &request, |answer| {
                        let users = answer.results.iter().map(|result| result.user.as_str());
                        assert_eq!(users.collect::<Vec<_>>(), ["a", "b"]);
                        answer.results[1].error_code
                    });
                }
                ApiKey::DescribeQuorum => on_top!(DescribeQuorumRequest),
                ApiKey::ListPartitionReassignments => on_top!(ListPartitionReassignmentsRequest),
                ApiKey::AlterPartitionReassignments => on_top!(AlterPartitionReassignmentsRequest),
                // Versions before are of clients.
                ApiKey::AddPartitionsToTxn => {
                    let row = TABLE.iter().find(|row| row.key == key);
                    let newest = row.expect("served").max;
                    refused_from(
                        4..=newest,
                        &AddPartitionsToTxnRequest::default(),
                        |answer| answer.error_code,
                    );
                }
                ApiKey::UnregisterBroker => on_top!(UnregisterBrokerRequest),
                ApiKey::UnregisterController => on_top!(UnregisterControllerRequest),
                ApiKey::UpdateFeatures => on_top!(UpdateFeaturesRequest),
                ApiKey::AddRaftVoter => on_top!(AddRaftVoterRequest),
                ApiKey::RemoveRaftVoter => on_top!(RemoveRaftVoterRequest),
                ApiKey::ListConfigResources => on_top!(ListConfigResourcesRequest),
                ApiKey::DescribeClientQuotas => on_top!(DescribeClientQuotasRequest),
                ApiKey::ElectLeaders => {
                    let request = ElectLeadersRequest {
                        topic_partitions: Some(vec![elect_leaders_request::TopicPartitions {
                            topic: "t".to_owned(),
                            partitions: vec![0],
                        }]),
                        ..Default::default()
                    };
                    refused(key, &request, |answer| {
                        answer.replica_election_results[0].partition_result[0].error_code
                    });
                }
                ApiKey::CreateAcls => {
                    let request = CreateAclsRequest {
                        creations: vec![create_acls_request::AclCreation::default()],
                    };
                    refused(key, &request, |answer| answer.results[0].error_code);
                }
                ApiKey::DeleteAcls => {
                    let request = DeleteAclsRequest {
                        filters: vec![delete_acls_request::DeleteAclsFilter::default()],
                    };
                    refused(key, &request, |answer| answer.filter_results[0].error_code);
                }
                ApiKey::AlterReplicaLogDirs => {
                    let topic = alter_replica_log_dirs_request::AlterReplicaLogDirTopic {
                        name: "t".to_owned(),
                        partitions: vec![0],
                    };
                    let request = AlterReplicaLogDirsRequest {
                        dirs: vec![alter_replica_log_dirs_request::AlterReplicaLogDir {
                            path: "/data".to_owned(),
                            topics: vec![topic],
                        }],
                    };
                    refused(key, &request, |answer| {
                        answer.results[0].partitions[0].error_code
                    });
                }
                ApiKey::WriteTxnMarkers => {
                    let topic = write_txn_markers_request::WritableTxnMarkerTopic {
                        name: "t".to_owned(),
                        partition_indexes: vec![0],
                    };
                    let request = WriteTxnMarkersRequest {
                        markers: vec![write_txn_markers_request::WritableTxnMarker {
                            topics: vec![topic],
                            ..Default::default()
                        }],
                    };
                    refused(key, &request, |answer| {
                        answer.markers[0].topics[0].partitions[0].error_code
                    });
                }
                other => panic!("{other:?} needs the cluster and no answer is checked"),
            }
        }
    }
}
