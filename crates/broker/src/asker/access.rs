//! Permissions: one table of what each API needs, and the one place that says whether somebody may.
//!
//! Every connection has a principal. While there is no authorizer all are anonymous and may do everything, so [`may`] says yes; it
//! is what an authorizer fills in. The table is Kafka's (KIP-11 and what came after it). Costs nothing where nobody is refused.

use wire::ApiKey;

use Kind::{Cluster, Group, Topic, TransactionalId};
use Operation::{
    Alter, AlterConfigs, ClusterAction, Create, Delete, Describe, DescribeConfigs, IdempotentWrite,
    Read, TwoPhaseCommit, Write,
};

/// Somebody whom a connection speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    /// Kafka's `User:ANONYMOUS`: the connection did not say who it is.
    Anonymous,
    /// May do nothing: what a refusal looks like is tested before there is an authorizer.
    #[cfg(test)]
    Stranger,
}

/// The only type of principal that Kafka has itself.
const USER: &str = "User";
const ANONYMOUS: &str = "ANONYMOUS";
#[cfg(test)]
const STRANGER: &str = "stranger";

impl Principal {
    /// Type and name, as Kafka writes them.
    pub(crate) fn type_and_name(self) -> (&'static str, &'static str) {
        match self {
            Principal::Anonymous => (USER, ANONYMOUS),
            #[cfg(test)]
            Principal::Stranger => (USER, STRANGER),
        }
    }

    /// The principal of this type and name; none where nobody can be called so.
    pub(crate) fn named(kind: &str, name: &str) -> Option<Principal> {
        match (kind, name) {
            (USER, ANONYMOUS) => Some(Principal::Anonymous),
            #[cfg(test)]
            (USER, STRANGER) => Some(Principal::Stranger),
            _ => None,
        }
    }
}

/// With the numbers of the protocol, which are also the bits of [`operations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    Read = 3,
    Write = 4,
    Create = 5,
    Delete = 6,
    Alter = 7,
    Describe = 8,
    ClusterAction = 9,
    DescribeConfigs = 10,
    AlterConfigs = 11,
    IdempotentWrite = 12,
    TwoPhaseCommit = 15,
}

/// The kinds of things that operations are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Topic,
    Group,
    Cluster,
    TransactionalId,
}

impl Kind {
    /// The operations that mean something on it.
    const fn operations(self) -> &'static [Operation] {
        match self {
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
        }
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

/// True if `principal` may do this to this resource.
pub(crate) fn may(principal: Principal, operation: Operation, resource: Resource<'_>) -> bool {
    // The facts that an authorizer decides by.
    let _ = (operation, resource.kind, resource.name);
    match principal {
        Principal::Anonymous => true,
        #[cfg(test)]
        Principal::Stranger => false,
    }
}

/// True if `principal` may send such requests: where the cluster is what they need, they are judged unread. Handlers ask [`may`]
/// about resources with names.
pub(crate) fn admits(principal: Principal, key: ApiKey) -> bool {
    let on_cluster = |(operation, kind): &(Operation, Kind)| {
        *kind != Cluster || may(principal, *operation, Resource::CLUSTER)
    };
    needs(key).is_some_and(|needs| needs.iter().all(|any| any.iter().any(on_cluster)))
}

/// The operations that `principal` may do to the resource, as the bits of KIP-430.
pub(crate) fn operations(principal: Principal, resource: Resource<'_>) -> i32 {
    let all = resource.kind.operations().iter();
    all.filter(|operation| may(principal, **operation, resource))
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
                let known = kind.operations();
                assert!(known.contains(operation), "{:?}: {operation:?}", row.key);
            }
        }
    }

    #[test]
    fn nobody_is_sent_away_while_there_is_no_authorizer() {
        assert!(
            TABLE
                .iter()
                .all(|row| admits(Principal::Anonymous, row.key))
        );
        assert!(!admits(Principal::Anonymous, ApiKey::BrokerHeartbeat));
    }

    #[test]
    fn the_anonymous_may_do_everything_and_is_told_so_in_kafka_s_bits() {
        let of = |resource| operations(Principal::Anonymous, resource);
        assert_eq!(of(Resource::topic("t")), 3576);
        assert_eq!(of(Resource::group("g")), 3400);
        assert_eq!(of(Resource::CLUSTER), 8096);
    }
}
