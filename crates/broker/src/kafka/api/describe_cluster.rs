//! DescribeCluster: the brokers and who they are (KIP-700, KIP-919).

use wire::ErrorCode;
use wire::messages::describe_cluster_response::DescribeClusterBroker;
use wire::messages::{DescribeClusterRequest, DescribeClusterResponse};

use super::{NO_OPERATIONS, View};
use crate::ops::access::Resource;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

#[must_use]
pub(crate) fn handle(request: &DescribeClusterRequest, view: &View<'_>) -> DescribeClusterResponse {
    match request.endpoint_type {
        BROKERS => {}
        CONTROLLERS => {
            let words = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER";
            return refusal(ErrorCode::MismatchedEndpointType, words.into());
        }
        other => {
            return refusal(
                ErrorCode::UnsupportedEndpointType,
                format!("Unsupported endpoint type {other}"),
            );
        }
    }
    let brokers = view
        .image
        .brokers()
        .filter(|broker| request.include_fenced_brokers || !broker.is_fenced);
    let describe = |broker: &meta::Registration| {
        let address = view.endpoint(broker)?;
        Some(DescribeClusterBroker {
            broker_id: broker.id.0,
            host: address.host,
            port: i32::from(address.port),
            rack: broker.rack.clone(),
            is_fenced: broker.is_fenced,
        })
    };
    DescribeClusterResponse {
        cluster_id: view.cluster_id.into(),
        controller_id: view.controller_id(),
        brokers: brokers.filter_map(describe).collect(),
        cluster_authorized_operations: super::operations(
            view,
            Resource::CLUSTER,
            request.include_cluster_authorized_operations,
        ),
        ..DescribeClusterResponse::default()
    }
}

fn refusal(code: ErrorCode, words: String) -> DescribeClusterResponse {
    DescribeClusterResponse {
        error_code: code.code(),
        error_message: Some(words),
        controller_id: -1,
        cluster_authorized_operations: NO_OPERATIONS,
        ..DescribeClusterResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;

    #[test]
    fn only_brokers_can_be_described_at_this_door() {
        let fixture = Fixture::new("");
        for (endpoint_type, code, brokers) in [(1, 0, 1), (2, 114, 0), (3, 115, 0)] {
            let request = DescribeClusterRequest {
                endpoint_type,
                ..DescribeClusterRequest::default()
            };
            let response = handle(&request, &fixture.view());
            assert_eq!(
                (response.error_code, response.brokers.len()),
                (code, brokers)
            );
            assert_eq!(response.cluster_id, if code == 0 { "cluster" } else { "" });
        }
    }

    #[test]
    fn operations_are_listed_when_asked_for() {
        let request = DescribeClusterRequest {
            include_cluster_authorized_operations: true,
            ..DescribeClusterRequest::default()
        };
        assert_eq!(
            handle(&request, &Fixture::new("").view()).cluster_authorized_operations,
            8096
        );
    }
}
