//! Permissions: one table of what each API needs. It is Kafka's (KIP-11 and what came after it). [`Asker::may`] says whether somebody may.

use security::authorize::{Kind, Operation};
use wire::ApiKey;

use Kind::{Cluster, DelegationToken, Group, Topic, TransactionalId, User};
use Operation::{
    Alter, AlterConfigs, ClusterAction, Create, CreateTokens, Delete, Describe, DescribeConfigs,
    DescribeTokens, IdempotentWrite, Read, TwoPhaseCommit, Write,
};

use super::Asker;

/// The operations that mean something on a kind of resource.
const fn operations_on(kind: Kind) -> &'static [Operation] {
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
type AnyOf = &'static [(Operation, Kind)];

/// The needs of the requests of an API: one of each list, where they have to do with such a resource at all. Nothing for an API
/// that is open to everybody; `None` for one that is not served.
pub(crate) const fn needs(key: ApiKey) -> Option<&'static [AnyOf]> {
    Some(match key {
        // The operations on the cluster are shown to those who may describe it, and everything else to everybody. Tokens are refused
        // by the kind of the connection.
        ApiKey::ApiVersions
        | ApiKey::CreateDelegationToken
        | ApiKey::RenewDelegationToken
        | ApiKey::ExpireDelegationToken
        | ApiKey::DescribeDelegationToken
        | ApiKey::SaslHandshake
        | ApiKey::SaslAuthenticate
        | ApiKey::DescribeCluster
        | ApiKey::GetTelemetrySubscriptions
        | ApiKey::PushTelemetry => &[],
        ApiKey::Produce => &[&[(Write, Topic)], &[(Write, TransactionalId)]],
        // Followers act for the cluster.
        ApiKey::Fetch => &[&[(Read, Topic), (ClusterAction, Cluster)]],
        ApiKey::ListOffsets | ApiKey::DescribeTopicPartitions => &[&[(Describe, Topic)]],
        ApiKey::OffsetForLeaderEpoch => &[&[(Describe, Topic), (ClusterAction, Cluster)]],
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
        ApiKey::DeleteTopics => &[&[(Describe, Topic)], &[(Delete, Topic)]],
        ApiKey::CreatePartitions => &[&[(Alter, Topic)]],
        // Of brokers, their loggers and client metrics on the cluster.
        ApiKey::DescribeConfigs => &[&[
            (DescribeConfigs, Topic),
            (DescribeConfigs, Group),
            (DescribeConfigs, Cluster),
        ]],
        ApiKey::AlterConfigs | ApiKey::IncrementalAlterConfigs => &[&[
            (AlterConfigs, Topic),
            (AlterConfigs, Group),
            (AlterConfigs, Cluster),
        ]],
        ApiKey::ListConfigResources | ApiKey::DescribeClientQuotas => {
            &[&[(DescribeConfigs, Cluster)]]
        }
        ApiKey::DescribeAcls
        | ApiKey::DescribeLogDirs
        | ApiKey::DescribeUserScramCredentials
        | ApiKey::DescribeQuorum
        | ApiKey::ListPartitionReassignments => &[&[(Describe, Cluster)]],
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
        | ApiKey::RemoveRaftVoter => &[&[(Alter, Cluster)]],

        ApiKey::FindCoordinator => &[&[(Describe, Group), (Describe, TransactionalId)]],
        ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::Heartbeat | ApiKey::LeaveGroup => {
            &[&[(Read, Group)]]
        }
        // Topics that are subscribed to by name.
        ApiKey::ConsumerGroupHeartbeat => &[&[(Read, Group)], &[(Describe, Topic)]],
        ApiKey::OffsetCommit => &[&[(Read, Group)], &[(Read, Topic)]],
        ApiKey::OffsetFetch => &[&[(Describe, Group)], &[(Describe, Topic)]],
        ApiKey::OffsetDelete => &[&[(Delete, Group)], &[(Read, Topic)]],
        ApiKey::DeleteGroups => &[&[(Delete, Group)]],
        ApiKey::DescribeGroups => &[&[(Describe, Group)]],
        // Topics that members have or subscribe to.
        ApiKey::ConsumerGroupDescribe => &[&[(Describe, Group)], &[(Describe, Topic)]],
        ApiKey::ListGroups => &[&[(Describe, Cluster), (Describe, Group)]],

        // Without a transactional id, who may write to any topic is an idempotent producer, too.
        ApiKey::InitProducerId => &[
            &[(Write, TransactionalId)],
            &[(TwoPhaseCommit, TransactionalId)],
            &[(IdempotentWrite, Cluster), (Write, Topic)],
        ],
        // Brokers that ask for their clients act for the cluster.
        ApiKey::AddPartitionsToTxn => &[
            &[(Write, TransactionalId), (ClusterAction, Cluster)],
            &[(Write, Topic), (ClusterAction, Cluster)],
        ],
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
        _ => return None,
    })
}

/// True if the asker may send such requests: where the cluster is what they need, they are judged unread. Handlers ask [`Asker::may`]
/// about resources with names.
pub(crate) fn admits(asker: &Asker, key: ApiKey) -> bool {
    let on_cluster = |(operation, kind): &(Operation, Kind)| {
        *kind != Cluster || asker.may(*operation, Resource::CLUSTER)
    };
    needs(key).is_some_and(|needs| needs.iter().all(|any| any.iter().any(on_cluster)))
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
    use crate::kafka::api::TABLE;

    #[test]
    fn every_api_that_is_served_says_what_it_needs() {
        for row in TABLE {
            assert!(needs(row.key).is_some(), "{:?}", row.key);
        }
        assert!(needs(ApiKey::BrokerHeartbeat).is_none(), "not served");
    }

    #[test]
    fn every_need_is_an_operation_that_its_resource_knows() {
        for row in TABLE {
            for (operation, kind) in needs(row.key).into_iter().flatten().copied().flatten() {
                let known = operations_on(*kind);
                assert!(known.contains(operation), "{:?}: {operation:?}", row.key);
            }
        }
    }

    fn anonymous() -> Asker {
        let here = std::net::SocketAddr::from(([127, 0, 0, 1], 9092));
        Asker::anonymous(here, here)
    }

    #[test]
    fn nobody_is_sent_away_while_there_is_no_authorizer() {
        assert!(TABLE.iter().all(|row| admits(&anonymous(), row.key)));
        assert!(!admits(&anonymous(), ApiKey::BrokerHeartbeat));
    }

    #[test]
    fn the_anonymous_may_do_everything_and_is_told_so_in_kafka_s_bits() {
        let of = |resource| operations(&anonymous(), resource);
        assert_eq!(of(Resource::topic("t")), 3576);
        assert_eq!(of(Resource::group("g")), 3400);
        assert_eq!(of(Resource::CLUSTER), 8096);
    }
}
