//! The cluster: rules, passwords, tokens, replicas, voters, and what needs no right.

use bytes::Bytes;
use wire::any::AnyRequest;
use wire::messages::{
    AddRaftVoterRequest, AlterPartitionReassignmentsRequest, AlterReplicaLogDirsRequest,
    AlterUserScramCredentialsRequest, ApiVersionsRequest, CreateAclsRequest,
    CreateDelegationTokenRequest, DeleteAclsRequest, DescribeAclsRequest, DescribeClusterRequest,
    DescribeDelegationTokenRequest, DescribeLogDirsRequest, DescribeQuorumRequest,
    DescribeUserScramCredentialsRequest, ElectLeadersRequest, ExpireDelegationTokenRequest,
    GetTelemetrySubscriptionsRequest, ListPartitionReassignmentsRequest, PushTelemetryRequest,
    RemoveRaftVoterRequest, RenewDelegationTokenRequest, SaslAuthenticateRequest,
    SaslHandshakeRequest, UnregisterBrokerRequest, add_raft_voter_request as voter,
    alter_partition_reassignments_request as reassign, alter_replica_log_dirs_request as move_to,
    alter_user_scram_credentials_request as scram, create_acls_request::AclCreation,
    delete_acls_request::DeleteAclsFilter, describe_delegation_token_request as tokens,
    describe_log_dirs_request as dirs, describe_quorum_request as quorum,
    describe_user_scram_credentials_request as users, elect_leaders_request as elect,
    list_partition_reassignments_request as reassignments,
};
use wire::{ApiKey, Uuid};

use super::Target::{self, Absent, All, Cluster, Several, There};
use super::{GHOST, Row, noted, row};

const NAMES: &[Target] = &[There, Absent, Several];
const TIMEOUT_MS: i32 = 5_000;

pub(crate) fn rows() -> Vec<Row> {
    let mut all = rules();
    all.extend(passwords_and_tokens());
    all.extend(replicas());
    all.extend(voters());
    all.extend(open());
    all
}

/// Of a resource that has no other rule.
fn rules() -> Vec<Row> {
    vec![
        row(ApiKey::DescribeAcls, &[Absent], |_| {
            Some(AnyRequest::DescribeAcls(DescribeAclsRequest {
                resource_type_filter: 2,
                resource_name_filter: Some("common".to_owned()),
                pattern_type_filter: 3,
                principal_filter: None,
                host_filter: None,
                operation: 1,
                permission_type: 1,
            }))
        }),
        row(ApiKey::CreateAcls, &[Absent], |_| {
            Some(created("User:somebody", 3))
        }),
        // No principal, and a type of pattern that only filters have.
        noted(ApiKey::CreateAcls, "bad", &[Absent], |_| {
            Some(created("somebody", 3))
        }),
        noted(ApiKey::CreateAcls, "any", &[Absent], |_| {
            Some(created("User:somebody", 1))
        }),
        row(ApiKey::DeleteAcls, &[Absent], |_| {
            Some(AnyRequest::DeleteAcls(DeleteAclsRequest {
                filters: vec![DeleteAclsFilter {
                    resource_type_filter: 2,
                    resource_name_filter: Some("no-rule-names-it".to_owned()),
                    pattern_type_filter: 3,
                    principal_filter: None,
                    host_filter: None,
                    operation: 1,
                    permission_type: 1,
                }],
            }))
        }),
    ]
}

fn created(principal: &str, resource_pattern_type: i8) -> AnyRequest {
    AnyRequest::CreateAcls(CreateAclsRequest {
        creations: vec![AclCreation {
            resource_type: 2,
            resource_name: "somewhere".to_owned(),
            resource_pattern_type,
            principal: principal.to_owned(),
            host: "*".to_owned(),
            operation: 3,
            permission_type: 3,
        }],
    })
}

fn passwords_and_tokens() -> Vec<Row> {
    vec![
        row(ApiKey::DescribeUserScramCredentials, &[Absent], |_| {
            Some(AnyRequest::DescribeUserScramCredentials(
                DescribeUserScramCredentialsRequest {
                    users: Some(vec![users::UserName {
                        name: "absent".to_owned(),
                    }]),
                },
            ))
        }),
        noted(ApiKey::DescribeUserScramCredentials, "list", &[All], |_| {
            Some(AnyRequest::DescribeUserScramCredentials(
                DescribeUserScramCredentialsRequest::default(),
            ))
        }),
        // A user that has none to lose.
        row(ApiKey::AlterUserScramCredentials, &[Absent], |_| {
            Some(AnyRequest::AlterUserScramCredentials(
                AlterUserScramCredentialsRequest {
                    deletions: vec![scram::ScramCredentialDeletion {
                        name: "absent".to_owned(),
                        mechanism: 1,
                    }],
                    upsertions: Vec::new(),
                },
            ))
        }),
        row(ApiKey::CreateDelegationToken, &[Cluster], |_| {
            Some(AnyRequest::CreateDelegationToken(
                CreateDelegationTokenRequest {
                    max_lifetime_ms: -1,
                    ..Default::default()
                },
            ))
        }),
        noted(ApiKey::CreateDelegationToken, "others", &[Cluster], |s| {
            (s.version >= 3).then(|| {
                AnyRequest::CreateDelegationToken(CreateDelegationTokenRequest {
                    owner_principal_type: Some("User".to_owned()),
                    owner_principal_name: Some("somebody".to_owned()),
                    max_lifetime_ms: -1,
                    ..Default::default()
                })
            })
        }),
        row(ApiKey::RenewDelegationToken, &[Absent], |_| {
            Some(AnyRequest::RenewDelegationToken(
                RenewDelegationTokenRequest {
                    hmac: Bytes::from_static(b"none"),
                    renew_period_ms: 1_000,
                },
            ))
        }),
        row(ApiKey::ExpireDelegationToken, &[Absent], |_| {
            Some(AnyRequest::ExpireDelegationToken(
                ExpireDelegationTokenRequest {
                    hmac: Bytes::from_static(b"none"),
                    expiry_time_period_ms: 1_000,
                },
            ))
        }),
        row(ApiKey::DescribeDelegationToken, &[All], |_| {
            Some(AnyRequest::DescribeDelegationToken(
                DescribeDelegationTokenRequest { owners: None },
            ))
        }),
        noted(ApiKey::DescribeDelegationToken, "owner", &[Absent], |_| {
            Some(AnyRequest::DescribeDelegationToken(
                DescribeDelegationTokenRequest {
                    owners: Some(vec![tokens::DescribeDelegationTokenOwner {
                        principal_type: "User".to_owned(),
                        principal_name: "absent".to_owned(),
                    }]),
                },
            ))
        }),
    ]
}

fn replicas() -> Vec<Row> {
    vec![
        row(ApiKey::AlterReplicaLogDirs, NAMES, |s| {
            Some(AnyRequest::AlterReplicaLogDirs(
                AlterReplicaLogDirsRequest {
                    dirs: vec![move_to::AlterReplicaLogDir {
                        path: "/no/such/directory".to_owned(),
                        topics: s
                            .names()
                            .into_iter()
                            .map(|name| move_to::AlterReplicaLogDirTopic {
                                name,
                                partitions: vec![0],
                            })
                            .collect(),
                    }],
                },
            ))
        }),
        row(ApiKey::DescribeLogDirs, NAMES, |s| {
            Some(AnyRequest::DescribeLogDirs(DescribeLogDirsRequest {
                topics: Some(
                    s.names()
                        .into_iter()
                        .map(|topic| dirs::DescribableLogDirTopic {
                            topic,
                            partitions: vec![0],
                        })
                        .collect(),
                ),
            }))
        }),
        // Broker 9 is none.
        row(ApiKey::AlterPartitionReassignments, NAMES, |s| {
            Some(AnyRequest::AlterPartitionReassignments(
                AlterPartitionReassignmentsRequest {
                    timeout_ms: TIMEOUT_MS,
                    topics: s
                        .names()
                        .into_iter()
                        .map(|name| reassign::ReassignableTopic {
                            name,
                            partitions: vec![reassign::ReassignablePartition {
                                partition_index: 0,
                                replicas: Some(vec![9]),
                            }],
                        })
                        .collect(),
                    ..Default::default()
                },
            ))
        }),
        row(ApiKey::ListPartitionReassignments, NAMES, |s| {
            Some(AnyRequest::ListPartitionReassignments(
                ListPartitionReassignmentsRequest {
                    timeout_ms: TIMEOUT_MS,
                    topics: Some(
                        s.names()
                            .into_iter()
                            .map(|name| reassignments::ListPartitionReassignmentsTopics {
                                name,
                                partition_indexes: vec![0],
                            })
                            .collect(),
                    ),
                },
            ))
        }),
        row(ApiKey::ElectLeaders, NAMES, |s| {
            Some(AnyRequest::ElectLeaders(ElectLeadersRequest {
                topic_partitions: Some(
                    s.names()
                        .into_iter()
                        .map(|topic| elect::TopicPartitions {
                            topic,
                            partitions: vec![0],
                        })
                        .collect(),
                ),
                timeout_ms: TIMEOUT_MS,
                ..Default::default()
            }))
        }),
    ]
}

fn voters() -> Vec<Row> {
    vec![
        row(ApiKey::DescribeQuorum, &[Cluster], |_| {
            Some(AnyRequest::DescribeQuorum(DescribeQuorumRequest {
                topics: vec![quorum::TopicData {
                    topic_name: "__cluster_metadata".to_owned(),
                    partitions: vec![quorum::PartitionData { partition_index: 0 }],
                }],
            }))
        }),
        row(ApiKey::UnregisterBroker, &[Absent], |_| {
            Some(AnyRequest::UnregisterBroker(UnregisterBrokerRequest {
                broker_id: 99,
            }))
        }),
        // Of another cluster, so that nobody waits for the voter.
        row(ApiKey::AddRaftVoter, &[Absent], |_| {
            Some(AnyRequest::AddRaftVoter(AddRaftVoterRequest {
                cluster_id: Some("another".to_owned()),
                timeout_ms: 1_000,
                voter_id: 99,
                voter_directory_id: GHOST,
                listeners: vec![voter::Listener {
                    name: "CONTROLLER".to_owned(),
                    host: "127.0.0.1".to_owned(),
                    port: 1,
                }],
                ..Default::default()
            }))
        }),
        row(ApiKey::RemoveRaftVoter, &[Absent], |_| {
            Some(AnyRequest::RemoveRaftVoter(RemoveRaftVoterRequest {
                cluster_id: Some("another".to_owned()),
                voter_id: 99,
                voter_directory_id: GHOST,
            }))
        }),
    ]
}

/// Nobody needs a right for these.
fn open() -> Vec<Row> {
    vec![
        row(ApiKey::DescribeCluster, &[Cluster], |_| {
            Some(AnyRequest::DescribeCluster(DescribeClusterRequest {
                include_cluster_authorized_operations: true,
                ..Default::default()
            }))
        }),
        noted(ApiKey::DescribeCluster, "plain", &[Cluster], |_| {
            Some(AnyRequest::DescribeCluster(
                DescribeClusterRequest::default(),
            ))
        }),
        row(ApiKey::ApiVersions, &[Cluster], |s| {
            let name = |name: &str| {
                if s.version >= 3 {
                    name.to_owned()
                } else {
                    String::new()
                }
            };
            Some(AnyRequest::ApiVersions(ApiVersionsRequest {
                client_software_name: name("trespass"),
                client_software_version: name("1"),
                ..Default::default()
            }))
        }),
        row(ApiKey::GetTelemetrySubscriptions, &[Cluster], |_| {
            Some(AnyRequest::GetTelemetrySubscriptions(
                GetTelemetrySubscriptionsRequest {
                    client_instance_id: GHOST,
                },
            ))
        }),
        row(ApiKey::PushTelemetry, &[Cluster], |_| {
            Some(AnyRequest::PushTelemetry(PushTelemetryRequest {
                client_instance_id: Uuid([0xcd; 16]),
                subscription_id: 1,
                ..Default::default()
            }))
        }),
        // After the login: who is logged in does not do it again where sessions have no end.
        row(ApiKey::SaslHandshake, &[Cluster], |_| {
            Some(AnyRequest::SaslHandshake(SaslHandshakeRequest {
                mechanism: "PLAIN".to_owned(),
            }))
        }),
        row(ApiKey::SaslAuthenticate, &[Cluster], |_| {
            Some(AnyRequest::SaslAuthenticate(SaslAuthenticateRequest {
                auth_bytes: Bytes::from_static(b"\0super\0wrong"),
            }))
        }),
    ]
}
