//! Requests about the cluster itself and about its clients.

use bytes::Bytes;
use wire::Uuid;
use wire::any::AnyRequest::{
    AddRaftVoter, ApiVersions, DescribeCluster, DescribeQuorum, GetTelemetrySubscriptions,
    PushTelemetry, RemoveRaftVoter, UnregisterBroker, UnregisterController, UpdateFeatures,
};
use wire::messages::add_raft_voter_request as adding;
use wire::messages::*;
use wire::messages::{describe_quorum_request as quorum, update_features_request as features};

use super::{Cases, names, partitions, text};

pub(super) fn api_versions() -> Cases {
    let of = |name: &str, version: &str| {
        ApiVersions(ApiVersionsRequest {
            client_software_name: text(name),
            client_software_version: text(version),
            ..ApiVersionsRequest::default()
        })
    };
    let meant = |cluster_id: Option<&str>, node_id| {
        ApiVersions(ApiVersionsRequest {
            client_software_name: text("client"),
            client_software_version: text("1.0"),
            cluster_id: cluster_id.map(text),
            node_id,
        })
    };
    let long = "n".repeat(3000);
    vec![
        ("another cluster", meant(Some("other"), 1)),
        ("an empty cluster", meant(Some(""), i32::MIN)),
        ("a cluster without a node", meant(Some("other"), -1)),
        ("a node without a cluster", meant(None, 1)),
        ("good names", of("client", "1.0")),
        ("no names", of("", "")),
        ("a dash in front", of("-client", "1.0")),
        ("control characters", of("a\0\n", "1.0")),
        ("spaces", of("a client", "1 0")),
        ("long names", of(&long, &long)),
    ]
}

pub(super) fn describe_quorum() -> Cases {
    let topic = |name: &str, indexes: Vec<i32>| quorum::TopicData {
        topic_name: text(name),
        partitions: indexes
            .into_iter()
            .map(|partition_index| quorum::PartitionData { partition_index })
            .collect(),
    };
    let of = |topics| DescribeQuorum(DescribeQuorumRequest { topics });
    vec![
        ("nothing", of(Vec::new())),
        (
            "no partitions",
            of(vec![topic("__cluster_metadata", Vec::new())]),
        ),
        (
            "odd partitions",
            of(vec![topic("__cluster_metadata", partitions())]),
        ),
        (
            "an unknown partition",
            of(vec![topic("__cluster_metadata", vec![1])]),
        ),
        (
            "odd topics",
            of(names().iter().map(|name| topic(name, vec![0])).collect()),
        ),
        ("another topic", of(vec![topic("none", vec![0])])),
    ]
}

/// While `kraft.version` is 0 none of them changes anything.
pub(super) fn add_raft_voter() -> Cases {
    let listener = |name: &str| adding::Listener {
        name: text(name),
        host: text("127.0.0.1"),
        port: 9,
    };
    let of = |voter_id, directory, cluster: Option<&str>, listeners| {
        AddRaftVoter(AddRaftVoterRequest {
            cluster_id: cluster.map(text),
            timeout_ms: 1000,
            voter_id,
            voter_directory_id: Uuid([directory; 16]),
            listeners,
            ack_when_committed: true,
        })
    };
    let good = || vec![listener("PLAINTEXT")];
    let mut cases = vec![
        ("a voter", of(2, 7, None, good())),
        ("another cluster", of(2, 7, Some("none"), good())),
        ("no directory", of(2, 0, None, good())),
        ("nowhere", of(2, 7, None, Vec::new())),
        ("the voter that there is", of(1, 7, None, good())),
        (
            "odd listeners",
            of(
                2,
                7,
                None,
                names().iter().map(|name| listener(name)).collect(),
            ),
        ),
    ];
    for id in [-1, i32::MIN, i32::MAX] {
        cases.push(("an odd id", of(id, 7, None, good())));
    }
    cases
}

pub(super) fn remove_raft_voter() -> Cases {
    let of = |voter_id, directory, cluster: Option<&str>| {
        RemoveRaftVoter(RemoveRaftVoterRequest {
            cluster_id: cluster.map(text),
            voter_id,
            voter_directory_id: Uuid([directory; 16]),
        })
    };
    let mut cases = vec![
        ("a voter", of(1, 7, None)),
        ("another cluster", of(1, 7, Some("none"))),
        ("no directory", of(1, 0, None)),
    ];
    for id in [-1, 2, i32::MIN, i32::MAX] {
        cases.push(("an odd id", of(id, 7, None)));
    }
    cases
}

pub(super) fn update_features() -> Cases {
    let update = |feature: &str, max_version_level, upgrade_type| features::FeatureUpdateKey {
        feature: text(feature),
        max_version_level,
        upgrade_type,
        ..Default::default()
    };
    let of = |feature_updates, validate_only| {
        UpdateFeatures(UpdateFeaturesRequest {
            timeout_ms: 1000,
            feature_updates,
            validate_only,
        })
    };
    let one = |update| of(vec![update], false);
    let mut cases = vec![
        ("nothing", of(Vec::new(), false)),
        (
            "odd names",
            of(
                names().iter().map(|name| update(name, 1, 1)).collect(),
                true,
            ),
        ),
        (
            "a feature twice",
            of(
                vec![update("group.version", 1, 1), update("group.version", 0, 1)],
                true,
            ),
        ),
        (
            "allowed to go down",
            one(features::FeatureUpdateKey {
                allow_downgrade: true,
                ..update("none", 0, 1)
            }),
        ),
    ];
    for level in [-1, 0, 99, i16::MIN, i16::MAX] {
        cases.push(("a level", one(update("metadata.version", level, 1))));
    }
    for kind in [-1, 0, 4, i8::MAX] {
        cases.push(("a kind", one(update("group.version", 1, kind))));
    }
    cases
}

pub(super) fn describe_cluster() -> Cases {
    let of = |endpoint_type, is_full| {
        DescribeCluster(DescribeClusterRequest {
            include_cluster_authorized_operations: is_full,
            endpoint_type,
            include_fenced_brokers: false,
        })
    };
    let mut cases = vec![("operations", of(1, true))];
    cases.extend(
        [i8::MIN, -1, 0, 1, 2, 3, i8::MAX].map(|kind| ("a kind of endpoint", of(kind, false))),
    );
    cases
}

pub(super) fn unregister_broker() -> Cases {
    let of = |broker_id| UnregisterBroker(UnregisterBrokerRequest { broker_id });
    [i32::MIN, -1, 0, 1, 2, i32::MAX]
        .map(|id| ("a broker", of(id)))
        .to_vec()
}

pub(super) fn unregister_controller() -> Cases {
    let of = |controller_id| UnregisterController(UnregisterControllerRequest { controller_id });
    [i32::MIN, -1, 0, 1, 2, i32::MAX]
        .map(|id| ("a controller", of(id)))
        .to_vec()
}

pub(super) fn get_telemetry_subscriptions() -> Cases {
    let of = |client_instance_id| {
        GetTelemetrySubscriptions(GetTelemetrySubscriptionsRequest { client_instance_id })
    };
    vec![
        ("a new client", of(Uuid::ZERO)),
        (
            "the id of the metadata",
            of(Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
        ),
        ("a client of its own number", of(Uuid([0xff; 16]))),
        ("the same at once again", of(Uuid([0xff; 16]))),
    ]
}

pub(super) fn push_telemetry() -> Cases {
    let of = |id: u8, subscription_id, compression_type, metrics: Bytes| PushTelemetryRequest {
        client_instance_id: Uuid([id; 16]),
        subscription_id,
        compression_type,
        metrics,
        terminating: false,
    };
    let noise = || Bytes::from_static(&[0xff; 50]);
    vec![
        ("a client of no number", PushTelemetry(of(0, 0, 0, noise()))),
        (
            "a subscription nobody has",
            PushTelemetry(of(1, -1, 0, noise())),
        ),
        ("noise", PushTelemetry(of(2, 0, 0, noise()))),
        ("an unknown codec", PushTelemetry(of(3, 0, 99, noise()))),
        ("a negative codec", PushTelemetry(of(4, 0, -1, noise()))),
        ("noise that is packed", PushTelemetry(of(5, 0, 1, noise()))),
        ("nothing", PushTelemetry(of(6, 0, 0, Bytes::new()))),
        (
            "more than may be pushed",
            PushTelemetry(of(7, 0, 0, Bytes::from(vec![0; (1 << 20) + 1]))),
        ),
        (
            "a last one",
            PushTelemetry(PushTelemetryRequest {
                terminating: true,
                ..of(8, 0, 0, noise())
            }),
        ),
        ("one after the last", PushTelemetry(of(8, 0, 0, noise()))),
    ]
}
