//! Permissions: one table of what each API needs. It is Kafka's (KIP-11 and what came after it), and `docs/access.md`
//! is written from it. [`Asker::grant`] says whether somebody may.

use security::authorize::{Kind, Operation};
use wire::ApiKey;

use Kind::{Cluster, DelegationToken, Group, Topic, TransactionalId, User};
use Operation::{
    Alter, AlterConfigs, ClusterAction, Create, CreateTokens, Delete, Describe, DescribeConfigs,
    DescribeTokens, IdempotentWrite, Read, TwoPhaseCommit, Write,
};

use super::Asker;

/// The operations that mean something on a kind of resource.
pub(super) const fn operations_on(kind: Kind) -> &'static [Operation] {
    match kind {
        Topic => &[
            Read,
            Write,
            Create,
            Delete,
            Alter,
            Describe,
            DescribeConfigs,
            AlterConfigs,
        ],
        Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
        Cluster => &[
            Create,
            Alter,
            Describe,
            ClusterAction,
            DescribeConfigs,
            AlterConfigs,
            IdempotentWrite,
        ],
        TransactionalId => &[Write, Describe, TwoPhaseCommit],
        DelegationToken => &[Describe],
        User => &[CreateTokens, DescribeTokens],
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource<'a> {
    pub(crate) kind: Kind,
    pub(crate) name: &'a str,
}

impl<'a> Resource<'a> {
    pub(crate) const CLUSTER: Resource<'static> = Resource {
        kind: Cluster,
        name: "kafka-cluster",
    };

    pub(crate) fn topic(name: &'a str) -> Resource<'a> {
        Resource { kind: Topic, name }
    }

    pub(crate) fn transactional_id(name: &'a str) -> Resource<'a> {
        Resource {
            kind: TransactionalId,
            name,
        }
    }

    pub(crate) fn group(name: &'a str) -> Resource<'a> {
        Resource { kind: Group, name }
    }
}

/// Alternatives, any of which is enough.
pub(crate) type AnyOf = &'static [(Operation, Kind)];

/// Only nodes ask so, or clients that act for the cluster.
const AS_NODE: &[AnyOf] = &[&[(ClusterAction, Cluster)]];
const SEES_CLUSTER: &[AnyOf] = &[&[(Describe, Cluster)]];
const CHANGES_CLUSTER: &[AnyOf] = &[&[(Alter, Cluster)]];
const READS_GROUP: &[AnyOf] = &[&[(Read, Group)]];
/// A group and the topics that its members use or commit.
const SEES_GROUP_AND_TOPICS: &[AnyOf] = &[&[(Describe, Group)], &[(Describe, Topic)]];
const READS_GROUP_SEES_TOPICS: &[AnyOf] = &[&[(Read, Group)], &[(Describe, Topic)]];
const READS_GROUP_AND_TOPICS: &[AnyOf] = &[&[(Read, Group)], &[(Read, Topic)]];

/// First version of AddPartitionsToTxn that brokers ask for their clients (KIP-890).
const VERIFIES_SINCE: i16 = 4;

/// The needs of the requests of an API in one version: one of each list, where they have to do with such a resource at all. Nothing
/// for an API that is open to everybody. Of all APIs of the protocol, served or not: a new one does not compile before it is here.
pub(crate) const fn needs(key: ApiKey, version: i16) -> &'static [AnyOf] {
    match key {
        // Tokens are refused by the kind of the connection first. The operations on the cluster are shown to those who may describe
        // it, and the rest of it to everybody; but at a listener for controllers alone DescribeCluster is for those who may alter it.
        ApiKey::ApiVersions
        | ApiKey::RenewDelegationToken
        | ApiKey::ExpireDelegationToken
        | ApiKey::SaslHandshake
        | ApiKey::SaslAuthenticate
        | ApiKey::DescribeCluster
        | ApiKey::GetTelemetrySubscriptions
        | ApiKey::PushTelemetry => &[],
        // Of tokens that are not the asker's own.
        ApiKey::CreateDelegationToken => &[&[(CreateTokens, User)]],
        ApiKey::DescribeDelegationToken => {
            &[&[(Describe, DelegationToken), (DescribeTokens, User)]]
        }

        // The transactional id where batches are transactional.
        ApiKey::Produce => &[&[(Write, TransactionalId)], &[(Write, Topic)]],
        // Followers act for the cluster.
        ApiKey::Fetch => &[&[(Read, Topic), (ClusterAction, Cluster)]],
        ApiKey::ListOffsets | ApiKey::DescribeTopicPartitions => &[&[(Describe, Topic)]],
        ApiKey::OffsetForLeaderEpoch => &[&[(ClusterAction, Cluster), (Describe, Topic)]],
        ApiKey::DeleteRecords => &[&[(Delete, Topic)]],
        ApiKey::DescribeProducers => &[&[(Read, Topic)]],
        // To see a topic; to create it by asking for it.
        ApiKey::Metadata => &[&[(Describe, Topic)], &[(Create, Cluster), (Create, Topic)]],

        // The settings of a new topic are told to who may describe them.
        ApiKey::CreateTopics => &[
            &[(Create, Cluster), (Create, Topic)],
            &[(DescribeConfigs, Topic)],
        ],
        // A client that may not even describe the topic does not learn that it exists.
        ApiKey::DeleteTopics => &[
            &[(Delete, Cluster), (Describe, Topic)],
            &[(Delete, Cluster), (Delete, Topic)],
        ],
        ApiKey::CreatePartitions => &[&[(Alter, Topic)]],
        // Of brokers, their loggers and client metrics on the cluster.
        ApiKey::DescribeConfigs => &[&[
            (DescribeConfigs, Topic),
            (DescribeConfigs, Group),
            (DescribeConfigs, Cluster),
        ]],
        ApiKey::AlterConfigs => &[&[
            (AlterConfigs, Topic),
            (AlterConfigs, Group),
            (AlterConfigs, Cluster),
        ]],
        // The last one for loggers of a controller alone.
        ApiKey::IncrementalAlterConfigs => &[&[
            (AlterConfigs, Topic),
            (AlterConfigs, Group),
            (AlterConfigs, Cluster),
            (ClusterAction, Cluster),
        ]],
        ApiKey::ListConfigResources | ApiKey::DescribeClientQuotas => {
            &[&[(DescribeConfigs, Cluster)]]
        }
        ApiKey::AlterClientQuotas => &[&[(AlterConfigs, Cluster)]],
        ApiKey::DescribeAcls
        | ApiKey::DescribeLogDirs
        | ApiKey::DescribeUserScramCredentials
        | ApiKey::DescribeQuorum
        | ApiKey::ListPartitionReassignments => SEES_CLUSTER,
        ApiKey::ElectLeaders
        | ApiKey::CreateAcls
        | ApiKey::DeleteAcls
        | ApiKey::AlterUserScramCredentials
        | ApiKey::AlterPartitionReassignments
        | ApiKey::AlterReplicaLogDirs
        | ApiKey::UnregisterBroker
        | ApiKey::UnregisterController
        | ApiKey::UpdateFeatures
        | ApiKey::AddRaftVoter
        | ApiKey::RemoveRaftVoter => CHANGES_CLUSTER,

        // The last one for share partitions.
        ApiKey::FindCoordinator => &[&[
            (Describe, Group),
            (Describe, TransactionalId),
            (ClusterAction, Cluster),
        ]],
        ApiKey::JoinGroup
        | ApiKey::SyncGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::StreamsGroupTopologyDescriptionUpdate => READS_GROUP,
        // Topics that are subscribed to by name; those of a pattern are left out where they are hidden.
        ApiKey::ConsumerGroupHeartbeat | ApiKey::ShareGroupHeartbeat => READS_GROUP_SEES_TOPICS,
        ApiKey::StreamsGroupHeartbeat => &[
            &[(Read, Group)],
            &[(Describe, Topic)],
            &[(Create, Cluster), (Create, Topic)],
        ],
        ApiKey::OffsetCommit
        | ApiKey::ShareFetch
        | ApiKey::ShareAcknowledge
        | ApiKey::AlterShareGroupOffsets => READS_GROUP_AND_TOPICS,
        ApiKey::OffsetDelete | ApiKey::DeleteShareGroupOffsets => {
            &[&[(Delete, Group)], &[(Read, Topic)]]
        }
        ApiKey::DeleteGroups => &[&[(Delete, Group)]],
        ApiKey::DescribeGroups => &[&[(Describe, Group)]],
        ApiKey::OffsetFetch
        | ApiKey::ConsumerGroupDescribe
        | ApiKey::ShareGroupDescribe
        | ApiKey::StreamsGroupDescribe
        | ApiKey::DescribeShareGroupOffsets => SEES_GROUP_AND_TOPICS,
        ApiKey::ListGroups => &[&[(Describe, Cluster), (Describe, Group)]],

        // Without a transactional id, who may write to any topic is an idempotent producer, too. The right to commit in two phases
        // is needed where that is asked for.
        ApiKey::InitProducerId => &[
            &[(Write, TransactionalId)],
            &[(TwoPhaseCommit, TransactionalId)],
            &[(IdempotentWrite, Cluster), (Write, Topic)],
        ],
        ApiKey::AddPartitionsToTxn if version < VERIFIES_SINCE => {
            &[&[(Write, TransactionalId)], &[(Write, Topic)]]
        }
        ApiKey::AddOffsetsToTxn => &[&[(Write, TransactionalId)], &[(Read, Group)]],
        ApiKey::TxnOffsetCommit => &[
            &[(Write, TransactionalId)],
            &[(Read, Group)],
            &[(Read, Topic)],
        ],
        ApiKey::EndTxn => &[&[(Write, TransactionalId)]],
        ApiKey::WriteTxnMarkers => &[&[(Alter, Cluster), (ClusterAction, Cluster)]],
        ApiKey::DescribeTransactions => &[&[(Describe, TransactionalId)], &[(Describe, Topic)]],
        ApiKey::ListTransactions => &[&[(Describe, TransactionalId)]],

        ApiKey::AddPartitionsToTxn
        | ApiKey::Vote
        | ApiKey::BeginQuorumEpoch
        | ApiKey::EndQuorumEpoch
        | ApiKey::FetchSnapshot
        | ApiKey::UpdateRaftVoter
        | ApiKey::AlterPartition
        | ApiKey::BrokerRegistration
        | ApiKey::BrokerHeartbeat
        | ApiKey::ControllerRegistration
        | ApiKey::AllocateProducerIds
        | ApiKey::AssignReplicasToDirs
        | ApiKey::Envelope
        | ApiKey::InitializeShareGroupState
        | ApiKey::ReadShareGroupState
        | ApiKey::WriteShareGroupState
        | ApiKey::DeleteShareGroupState
        | ApiKey::ReadShareGroupStateSummary => AS_NODE,
    }
}

/// True if the asker may send such requests: where the cluster alone is what they need, they are judged unread. Handlers ask
/// [`Asker::grant`] about resources with names.
pub(crate) fn admits(asker: &Asker, key: ApiKey, version: i16) -> bool {
    let on_cluster = |(operation, kind): &(Operation, Kind)| {
        *kind != Cluster || asker.may(*operation, Resource::CLUSTER)
    };
    let mut needs = needs(key, version).iter();
    let refused = needs.find(|any| !any.iter().any(on_cluster));
    if let Some([(operation, _), ..]) = refused {
        asker.note_refusal(*operation, Resource::CLUSTER);
    }
    refused.is_none()
}

/// The operations that the asker may do to the resource, as the bits of KIP-430.
pub(crate) fn operations(asker: &Asker, resource: Resource<'_>) -> i32 {
    let all = operations_on(resource.kind).iter();
    all.filter(|operation| asker.may(**operation, resource))
        .fold(0, |bits, operation| bits | 1 << (*operation as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::{PEERS, Served, TABLE};

    /// All versions of all APIs.
    fn all() -> impl Iterator<Item = (ApiKey, i16)> {
        ApiKey::ALL.into_iter().flat_map(|key| {
            let versions = key.min_version()..=key.max_version();
            versions.map(move |version| (key, version))
        })
    }

    #[test]
    fn every_need_is_an_operation_that_its_resource_knows() {
        for (key, version) in all() {
            for (operation, kind) in needs(key, version).iter().copied().flatten() {
                // All topics may be deleted by a right that is none of the cluster's own, as in Kafka.
                let is_of_topics = (*operation, *kind) == (Delete, Cluster);
                let is_known = operations_on(*kind).contains(operation);
                assert!(is_known || is_of_topics, "{key:?}: {operation:?}");
            }
        }
    }

    #[test]
    fn brokers_that_verify_transactions_act_for_the_cluster_and_clients_for_themselves() {
        let of = |version| needs(ApiKey::AddPartitionsToTxn, version);
        assert_eq!((of(3).len(), of(4)), (2, AS_NODE));
        for row in PEERS {
            assert_eq!(needs(row.key, row.max), AS_NODE, "{:?}", row.key);
        }
    }

    fn anonymous() -> Asker {
        let here = std::net::SocketAddr::from(([127, 0, 0, 1], 9092));
        Asker::anonymous(here, here)
    }

    #[test]
    fn nobody_is_sent_away_while_there_is_no_authorizer() {
        let admits = |row: &Served| admits(&anonymous(), row.key, row.max);
        assert!(TABLE.iter().chain(PEERS).all(admits));
    }

    #[test]
    fn the_anonymous_may_do_everything_and_is_told_so_in_kafka_s_bits() {
        let of = |resource| operations(&anonymous(), resource);
        assert_eq!(of(Resource::topic("t")), 3576);
        assert_eq!(of(Resource::group("g")), 3400);
        assert_eq!(of(Resource::CLUSTER), 8096);
    }
}
