//! ListConfigResources: what can carry settings (KIP-1142). Version 0 asks for client metrics alone.

use meta::{BROKER_LOGGER, ResourceKind};
use wire::ErrorCode;
use wire::messages::list_config_resources_response::ConfigResource;
use wire::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};

use crate::ops::view::View;

const ALL: [i8; 5] = [
    BROKER_LOGGER,
    ResourceKind::Broker as i8,
    ResourceKind::Topic as i8,
    ResourceKind::Group as i8,
    ResourceKind::ClientMetrics as i8,
];

#[must_use]
pub(crate) fn handle(
    request: &ListConfigResourcesRequest,
    version: i16,
    view: &View<'_>,
) -> ListConfigResourcesResponse {
    let kinds: &[i8] = match (version, request.resource_types.as_slice()) {
        (0, _) => &[ResourceKind::ClientMetrics as i8],
        (_, []) => &ALL,
        (_, asked) => asked,
    };
    if !kinds.iter().all(|kind| ALL.contains(kind)) {
        let error_code = ErrorCode::UnsupportedVersion.code();
        return ListConfigResourcesResponse {
            error_code,
            ..ListConfigResourcesResponse::default()
        };
    }
    let named = |kind: i8, name: String| ConfigResource {
        resource_name: name,
        resource_type: kind,
    };
    let of_kind = |kind: i8| -> Vec<ConfigResource> {
        match ResourceKind::from_wire(kind) {
            Some(ResourceKind::Topic) => view
                .image
                .topics()
                .map(|topic| named(kind, topic.name.to_string()))
                .collect(),
            Some(ResourceKind::Broker) => view
                .image
                .brokers()
                .map(|broker| named(kind, broker.id.to_string()))
                .collect(),
            Some(other) => {
                let all = view
                    .image
                    .configured()
                    .filter(|resource| resource.kind == other);
                all.map(|resource| named(kind, resource.name.clone()))
                    .collect()
            }
            // Loggers are named by their broker.
            None => view
                .image
                .brokers()
                .map(|broker| named(kind, broker.id.to_string()))
                .collect(),
        }
    };
    let config_resources = ALL
        .into_iter()
        .filter(|kind| kinds.contains(kind))
        .flat_map(of_kind)
        .collect();
    ListConfigResourcesResponse {
        config_resources,
        ..ListConfigResourcesResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;

    #[test]
    fn resources_are_listed_as_kafka_4_3_lists_them() {
        let fixture = Fixture::new("");
        let ask = |version, kinds: &[i8]| {
            let response = handle(
                &ListConfigResourcesRequest {
                    resource_types: kinds.to_vec(),
                },
                version,
                &fixture.view(),
            );
            let all = response
                .config_resources
                .iter()
                .map(|one| format!("{}:{}", one.resource_type, one.resource_name));
            (response.error_code, all.collect::<Vec<String>>().join(" "))
        };
        assert_eq!(ask(1, &[]), (0, "8:1 4:1 2:a 2:t".into()));
        assert_eq!(ask(1, &[2]), (0, "2:a 2:t".into()));
        assert_eq!(ask(1, &[4, 8]), (0, "8:1 4:1".into()));
        assert_eq!(ask(1, &[1]), (35, String::new()));
        assert_eq!(ask(1, &[2, 99]), (35, String::new()));
        assert_eq!(ask(0, &[]), (0, String::new()));
    }
}
