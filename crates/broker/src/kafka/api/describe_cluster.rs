//! DescribeCluster: the brokers and who they are (KIP-700, KIP-919).

use meta::Registration;
use model::BrokerId;
use wire::messages::describe_cluster_response::DescribeClusterBroker;
use wire::messages::{DescribeClusterRequest, DescribeClusterResponse};
use wire::{ApiKey, ErrorCode};

use super::{NO_OPERATIONS, View};
use crate::asker::access::Resource;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::cluster::{self, Quorum};
use security::authorize::Operation;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// The door that was knocked at decides what is described.
enum Door<'a> {
    Broker,
    /// The listener of controllers alone.
    Controller(&'a Quorum),
}

pub(crate) fn on_describe_cluster(call: &mut Call<'_>, request: DescribeClusterRequest) -> Outcome {
    let scene = call.scene();
    let quorum = cluster::quorum(call.desk);
    let view = scene
        .view(call.desk.shared.state.cluster_id())
        .led_by(quorum.view.leader);
    let settings = &view.broker.quorum;
    // A door that serves both is what the asker takes it for.
    let is_for_both = settings.controller_listener.is_none() && settings.roles.controller;
    let is_for_controllers = view.is_at_controllers()
        || !settings.roles.broker
        || is_for_both && request.endpoint_type == CONTROLLERS;
    let door = if is_for_controllers {
        Door::Controller(&quorum)
    } else {
        Door::Broker
    };
    // Controllers show themselves to those alone who may alter the cluster.
    let alters = call.asker.grant(Operation::Alter, Resource::CLUSTER);
    let response = match (&door, alters) {
        (Door::Controller(_), Err(code)) => refusal(code, code.message().to_owned()),
        _ => handle(&request, &view, &door),
    };
    call.reply(ApiKey::DescribeCluster, &response)
}

/// The answer to clients of brokers.
#[cfg(test)]
pub(crate) fn at_brokers(
    request: &DescribeClusterRequest,
    view: &View<'_>,
) -> DescribeClusterResponse {
    handle(request, view, &Door::Broker)
}

fn handle(
    request: &DescribeClusterRequest,
    view: &View<'_>,
    door: &Door<'_>,
) -> DescribeClusterResponse {
    let (own, controller_id, brokers) = match door {
        Door::Broker => (BROKERS, view.controller_id(), brokers(request, view)),
        Door::Controller(quorum) => {
            let leader = quorum.view.leader.unwrap_or(meta::NO_LEADER);
            (CONTROLLERS, leader.0, controllers(quorum, view))
        }
    };
    match request.endpoint_type {
        asked if asked == own => {}
        BROKERS | CONTROLLERS => {
            let name = |kind| {
                if kind == BROKERS {
                    "BROKER"
                } else {
                    "CONTROLLER"
                }
            };
            let words = format!(
                "The request was sent to an endpoint of type {}, but we wanted an endpoint of type {}",
                name(own),
                name(request.endpoint_type)
            );
            return refusal(ErrorCode::MismatchedEndpointType, words);
        }
        other => {
            return refusal(
                ErrorCode::UnsupportedEndpointType,
                format!("Unsupported endpoint type {other}"),
            );
        }
    }
    DescribeClusterResponse {
        cluster_id: view.cluster_id.into(),
        controller_id,
        endpoint_type: own,
        brokers,
        cluster_authorized_operations: super::cluster_operations(
            view,
            request.include_cluster_authorized_operations,
        ),
        ..DescribeClusterResponse::default()
    }
}

/// Brokers that live, and those that are fenced where they are asked for.
fn brokers(request: &DescribeClusterRequest, view: &View<'_>) -> Vec<DescribeClusterBroker> {
    let brokers = view
        .image
        .brokers()
        .filter(|broker| request.include_fenced_brokers || !broker.is_fenced);
    let describe = |broker: &Registration| {
        let address = view.endpoint(broker)?;
        Some(DescribeClusterBroker {
            broker_id: broker.id.0,
            host: address.host,
            port: i32::from(address.port),
            rack: broker.rack.clone(),
            is_fenced: broker.is_fenced,
        })
    };
    brokers.filter_map(describe).collect()
}

/// The voters, where other nodes find them. A lone voter is reached at its broker's listener.
fn controllers(quorum: &Quorum, view: &View<'_>) -> Vec<DescribeClusterBroker> {
    let at_broker = |id: BrokerId| {
        let address = view.endpoint(view.image.broker(id)?)?;
        Some((address.host, address.port))
    };
    let describe = |(id, listeners): &(BrokerId, Vec<raft::Listener>)| {
        let listener = listeners.first();
        let own = listener.map(|at| (at.endpoint.host.clone(), at.endpoint.port));
        let (host, port) = own.or_else(|| at_broker(*id))?;
        Some(DescribeClusterBroker {
            broker_id: id.0,
            host,
            port: i32::from(port),
            ..DescribeClusterBroker::default()
        })
    };
    quorum.voters.iter().filter_map(describe).collect()
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
    use crate::kafka::api::fixture::{Fixture, quorum_of_three};

    fn ask(endpoint_type: i8, view: &View<'_>, door: &Door<'_>) -> DescribeClusterResponse {
        let request = DescribeClusterRequest {
            endpoint_type,
            ..DescribeClusterRequest::default()
        };
        handle(&request, view, door)
    }

    #[test]
    fn each_door_describes_what_is_behind_it() {
        let (fixture, quorum) = (Fixture::new(""), quorum_of_three());
        let controllers = Door::Controller(&quorum);
        for (door, endpoint_type, code, nodes) in [
            (&Door::Broker, 1, 0, 1),
            (&Door::Broker, 2, 114, 0),
            (&Door::Broker, 3, 115, 0),
            (&controllers, 2, 0, 3),
            (&controllers, 1, 114, 0),
        ] {
            let response = ask(endpoint_type, &fixture.view(), door);
            assert_eq!((response.error_code, response.brokers.len()), (code, nodes));
            assert_eq!(response.cluster_id, if code == 0 { "cluster" } else { "" });
        }
        let response = ask(2, &fixture.view(), &controllers);
        assert_eq!(response.controller_id, 2);
        assert_eq!(response.endpoint_type, 2);
        assert_eq!(
            (response.brokers[2].host.as_str(), response.brokers[2].port),
            ("c", 9093)
        );
    }

    #[test]
    fn fenced_brokers_are_told_to_those_who_ask_and_never_the_controller() {
        let mut fixture = Fixture::new("");
        fixture.register_second(true);
        let view = fixture.view().led_by(Some(BrokerId(2)));
        let told = |include_fenced_brokers| {
            let request = DescribeClusterRequest {
                endpoint_type: 1,
                include_fenced_brokers,
                ..DescribeClusterRequest::default()
            };
            let response = handle(&request, &view, &Door::Broker);
            let brokers = response.brokers.iter();
            let brokers: Vec<(i32, bool)> = brokers
                .map(|broker| (broker.broker_id, broker.is_fenced))
                .collect();
            (brokers, response.controller_id)
        };
        assert_eq!(told(false), (vec![(1, false)], 1));
        assert_eq!(told(true), (vec![(1, false), (2, true)], 1));
    }

    #[test]
    fn operations_are_listed_when_asked_for() {
        let request = DescribeClusterRequest {
            include_cluster_authorized_operations: true,
            ..DescribeClusterRequest::default()
        };
        let fixture = Fixture::new("");
        assert_eq!(
            handle(&request, &fixture.view(), &Door::Broker).cluster_authorized_operations,
            8096
        );
    }
}
