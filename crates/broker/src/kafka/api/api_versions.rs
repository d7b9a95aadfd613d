//! ApiVersions: what this broker serves, and which features the cluster has finalized (KIP-35, KIP-584).
//!
//! Clients may say which broker of which cluster they mean. One that came to another broker, after addresses changed their owners,
//! has to begin anew with its bootstrap servers (KIP-1242). The listener of controllers alone does not check that, as in Kafka.

use std::sync::Arc;

use meta::decide::register_broker::{FEATURES, KRAFT_LEVELS};
use meta::versions::KRAFT_VERSION;
use wire::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use wire::{ApiKey, ErrorCode};

use super::{Served, TABLE};
use crate::kafka::call::Call;
use crate::kafka::peers;
use crate::net::Outcome;
use crate::ops::view::View;
use crate::peers::Ceilings;

/// First version in which clients say who they are.
const NAMED_FROM: i16 = 3;
/// First version that says of a feature that it may be off. Clients from before break on a level of 0 (KAFKA-17492), so they
/// are not told of such features at all.
const LEVEL_0_FROM: i16 = 4;
/// First version in which clients say whom they mean.
const MEANT_FROM: i16 = 5;
const NO_NODE: i32 = -1;

#[must_use]
pub(crate) fn handle(
    request: &ApiVersionsRequest,
    version: i16,
    view: &View<'_>,
    (peers, kraft_version): (&[Served], i16),
    ceilings: &Ceilings,
) -> ApiVersionsResponse {
    if let Err(code) = check(request, version, view) {
        return ApiVersionsResponse {
            error_code: code.code(),
            ..ApiVersionsResponse::default()
        };
    }
    let finalized = view
        .image
        .features()
        .chain([(KRAFT_VERSION, kraft_version)])
        .filter(|(_, level)| 0 < *level)
        .map(|(name, level)| FinalizedFeatureKey {
            name: name.into(),
            max_version_level: level,
            min_version_level: level,
        });
    // As Kafka: clients that are told of them ask to push their metrics.
    let is_told = |served: &&Served| match served.key {
        ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry => {
            view.broker.receives_client_metrics
        }
        _ => true,
    };
    ApiVersionsResponse {
        api_keys: (TABLE.iter().filter(is_told))
            .filter_map(|served| served.below(ceilings))
            .chain(peers.iter().copied())
            .map(|served| row(&served))
            .collect(),
        supported_features: (FEATURES.into_iter())
            .chain([(KRAFT_VERSION, KRAFT_LEVELS)])
            .filter(|(_, levels)| LEVEL_0_FROM <= version || 0 < *levels.start())
            .map(|(name, levels)| SupportedFeatureKey {
                name: name.into(),
                min_version: *levels.start(),
                max_version: *levels.end(),
            })
            .collect(),
        finalized_features_epoch: view.image.end() - 1,
        finalized_features: finalized.collect(),
        ..ApiVersionsResponse::default()
    }
}

fn check(request: &ApiVersionsRequest, version: i16, view: &View<'_>) -> Result<(), ErrorCode> {
    if !is_in_order(request, version) {
        return Err(ErrorCode::InvalidRequest);
    }
    if version < MEANT_FROM {
        return Ok(());
    }
    match (&request.cluster_id, request.node_id) {
        (None, NO_NODE) => Ok(()),
        (None, _) | (Some(_), NO_NODE) => Err(ErrorCode::InvalidRequest),
        (Some(_), _) if view.is_at_controllers() => Ok(()),
        (Some(cluster), node) if cluster == view.cluster_id && node == view.broker.node_id.0 => {
            Ok(())
        }
        (Some(_), _) => Err(ErrorCode::RebootstrapRequired),
    }
}

/// True if the answer to the request is none for its form.
pub(crate) fn is_in_order(request: &ApiVersionsRequest, version: i16) -> bool {
    version < NAMED_FROM || software(request).is_some()
}

/// Name and version of the client's software, where it says them in order.
pub(crate) fn software(request: &ApiVersionsRequest) -> Option<(&str, &str)> {
    let (name, version) = (
        request.client_software_name.as_str(),
        request.client_software_version.as_str(),
    );
    (is_name(name) && is_name(version)).then_some((name, version))
}

/// The answer to a version nobody knows, to be sent as version 0: it says which versions of this very API there are.
#[must_use]
pub(crate) fn unsupported() -> ApiVersionsResponse {
    ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: TABLE
            .iter()
            .filter(|served| served.key == ApiKey::ApiVersions)
            .map(row)
            .collect(),
        ..ApiVersionsResponse::default()
    }
}

fn row(served: &Served) -> ApiVersion {
    ApiVersion {
        api_key: served.key as i16,
        min_version: served.min_advertised,
        max_version: served.max,
    }
}

/// Letters and digits at both ends, dots and dashes between.
fn is_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let ends = [name.as_bytes().first(), name.as_bytes().last()];
    name.bytes().all(inner)
        && ends
            .into_iter()
            .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
}

pub(crate) fn on_api_versions_unknown(call: &mut Call<'_>) -> Outcome {
    call.address.version = 0;
    call.reply(ApiKey::ApiVersions, &unsupported())
}

pub(crate) fn on_api_versions(call: &mut Call<'_>, request: ApiVersionsRequest) -> Outcome {
    let scene = call.scene();
    if let Some((name, version)) = software(&request)
        && let Some(connection) = call.connections.get_mut(call.address.conn)
    {
        let asker = Arc::make_mut(connection.asker_mut());
        let before = asker.software.take();
        asker.set_software(name, version);
        let mut all = call.desk.shared.meters.software.lock();
        before.iter().for_each(|before| all.remove(before));
        asker.software.iter().for_each(|now| all.add(now));
    }
    let shared = Arc::clone(&call.desk.shared);
    let view = scene.view(shared.state.cluster_id());
    let peers = peers::rows(call);
    let kraft_version = shared.metadata.kraft_version();
    let response = handle(
        &request,
        call.version(),
        &view,
        (&peers, kraft_version),
        &shared.ceilings,
    );
    call.reply(ApiKey::ApiVersions, &response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;

    #[test]
    fn a_client_that_means_another_cluster_or_node_begins_anew() {
        let fixture = Fixture::new("");
        let (own, node) = (fixture.view().cluster_id, fixture.view().broker.node_id.0);
        let code = |version, cluster: Option<&str>, node_id| {
            let request = ApiVersionsRequest {
                client_software_name: "probe".into(),
                client_software_version: "1.0".into(),
                cluster_id: cluster.map(str::to_owned),
                node_id,
            };
            let all = &Ceilings::default();
            let response = handle(&request, version, &fixture.view(), (&[], 0), all);
            assert_eq!(response.api_keys.is_empty(), response.error_code != 0);
            ErrorCode::try_from(response.error_code).expect("known")
        };
        use ErrorCode::{InvalidRequest, None as Good, RebootstrapRequired};
        for (cluster, node_id, expected) in [
            (None, NO_NODE, Good),
            (Some(own), node, Good),
            (Some("other"), node, RebootstrapRequired),
            (Some(own), node + 1, RebootstrapRequired),
            (Some(own), i32::MAX - node, RebootstrapRequired),
            (Some(""), node, RebootstrapRequired),
            (Some(own), NO_NODE, InvalidRequest),
            (Some("other"), NO_NODE, InvalidRequest),
            (None, node, InvalidRequest),
        ] {
            assert_eq!(code(5, cluster, node_id), expected, "{cluster:?} {node_id}");
            assert_eq!(code(4, cluster, node_id), Good);
        }
    }

    fn answer(name: &str, version: i16) -> ApiVersionsResponse {
        let request = ApiVersionsRequest {
            client_software_name: name.into(),
            client_software_version: "1.0".into(),
            ..ApiVersionsRequest::default()
        };
        handle(
            &request,
            version,
            &Fixture::new("").view(),
            (&[], 0),
            &Ceilings::default(),
        )
    }

    #[test]
    fn versions_are_those_of_kafka_4_4() {
        let response = answer("probe", 5);
        let range = |key: i16| {
            let row = response.api_keys.iter().find(|row| row.api_key == key);
            row.map(|row| (row.min_version, row.max_version))
        };
        // As a broker of Kafka 4.4 answered, for the keys that are served here.
        for (key, min, max) in [
            (0, 0, 13),
            (1, 4, 18),
            (2, 1, 11),
            (3, 0, 13),
            (18, 0, 5),
            (19, 2, 7),
            (20, 1, 6),
            (21, 0, 2),
            (22, 0, 5),
            (23, 2, 4),
            (28, 0, 6),
            (32, 1, 4),
            (33, 0, 2),
            (35, 1, 5),
            (37, 0, 3),
            (42, 0, 3),
            (43, 0, 2),
            (44, 0, 1),
            (45, 0, 1),
            (46, 0, 0),
            (55, 0, 2),
            (57, 0, 2),
            (60, 0, 2),
            (61, 0, 0),
            (74, 0, 1),
            (75, 0, 0),
            (94, 0, 0),
        ] {
            assert_eq!(range(key), Some((min, max)), "key {key}");
        }
        assert!(response.api_keys.is_sorted_by_key(|row| row.api_key));
        assert_eq!(response.error_code, 0);
        let finalized: Vec<(&str, i16)> = response
            .finalized_features
            .iter()
            .map(|feature| (feature.name.as_str(), feature.max_version_level))
            .collect();
        let newest = [
            ("group.version", 1),
            ("metadata.version", 33),
            ("transaction.version", 2),
        ];
        assert_eq!(finalized, newest);
    }

    #[test]
    fn a_feature_that_was_switched_off_is_supported_and_not_finalized() {
        let mut fixture = Fixture::new("");
        let off = wire::metadata::FeatureLevelRecord {
            name: "group.version".into(),
            feature_level: 0,
        };
        fixture.replay(&[off.into()]);
        let request = ApiVersionsRequest {
            client_software_name: "probe".into(),
            client_software_version: "1.0".into(),
            ..ApiVersionsRequest::default()
        };
        let response = handle(&request, 4, &fixture.view(), (&[], 0), &Ceilings::default());
        let is_it = |name: &str| name == "group.version";
        assert!(
            !response
                .finalized_features
                .iter()
                .any(|one| is_it(&one.name))
        );
        assert!(
            response
                .supported_features
                .iter()
                .any(|one| is_it(&one.name))
        );
    }

    #[test]
    fn clients_that_break_on_a_level_of_0_hear_of_no_feature_that_has_one() {
        let supported = |version| -> Vec<(String, i16)> {
            let keys = answer("probe", version).supported_features.into_iter();
            keys.map(|key| (key.name, key.min_version)).collect()
        };
        for version in 0..4 {
            let told = supported(version);
            assert!(!told.is_empty() && told.iter().all(|(_, least)| 1 <= *least));
        }
        let all = supported(4);
        assert_eq!(all.len(), FEATURES.len() + 1);
        assert!(all.contains(&("group.version".into(), 0)));
    }

    #[test]
    fn a_client_without_a_proper_name_is_refused_since_version_3() {
        for (name, version, code) in [
            ("", 3, 42),
            ("a b", 4, 42),
            ("-a", 3, 42),
            ("a.b-c", 3, 0),
            ("", 2, 0),
        ] {
            let response = answer(name, version);
            assert_eq!(
                (response.error_code, response.api_keys.is_empty()),
                (code, code != 0),
                "{name}"
            );
        }
    }

    #[test]
    fn an_unknown_version_learns_the_known_ones() {
        let response = unsupported();
        assert_eq!(response.error_code, 35);
        assert_eq!(
            response.api_keys,
            [ApiVersion {
                api_key: 18,
                min_version: 0,
                max_version: 5
            }]
        );
    }

    #[test]
    fn produce_below_version_3_is_advertised_and_not_served() {
        assert!(!super::super::is_served(
            ApiKey::Produce,
            2,
            &Ceilings::default()
        ));
        assert!(super::super::is_served(
            ApiKey::Produce,
            3,
            &Ceilings::default()
        ));
    }
}
