//! The addresses of this node, as others find them.

use std::net::SocketAddr;

use config::Listener;
use meta::{Endpoint, SecurityProtocol};

/// The doors for clients, as clients find them.
pub(super) fn endpoints(broker: &config::Broker, bound: &[SocketAddr]) -> Vec<Endpoint> {
    let doors = broker.listeners.iter().zip(bound);
    let doors = doors.map(|(door, bound)| endpoint(broker, door, *bound, &broker.advertised));
    doors.collect()
}

/// The door of the controller, which is bound behind those for clients.
pub(super) fn controller_endpoint(
    broker: &config::Broker,
    bound: &[SocketAddr],
) -> Option<Endpoint> {
    let door = broker.quorum.controller_listener.as_ref()?;
    let bound = bound.get(broker.listeners.len())?;
    Some(endpoint(
        broker,
        door,
        *bound,
        &broker.quorum.controllers_advertised,
    ))
}

/// The endpoints that others have for this node, as a broker and as a voter, each with the address of its listener.
pub(super) fn own_addresses(
    doors: &[Endpoint],
    bound: &[SocketAddr],
    voter: &[raft::Listener],
) -> Vec<(raft::Endpoint, SocketAddr)> {
    let mut own = Vec::new();
    for (door, bound) in doors.iter().zip(bound) {
        let voter = voter.iter().filter(|listener| listener.name == door.name);
        own.extend(voter.map(|listener| (listener.endpoint.clone(), *bound)));
        let (host, port) = (door.host.clone(), door.port);
        own.push((raft::Endpoint { host, port }, *bound));
    }
    own
}

fn endpoint(
    broker: &config::Broker,
    door: &Listener,
    bound: SocketAddr,
    advertised: &[Listener],
) -> Endpoint {
    let login = broker.logins.get(&door.name);
    let advertised = advertised.iter().find(|known| known.name == door.name);
    let own = || {
        door.name_of_host()
            .unwrap_or_else(|| bound.ip().to_string())
    };
    Endpoint {
        name: door.name.clone(),
        host: advertised.map_or_else(own, |known| known.host.clone()),
        port: advertised
            .map(|known| known.port)
            .filter(|port| *port != 0)
            .unwrap_or(bound.port()),
        protocol: login.map_or(SecurityProtocol::PLAINTEXT, |login| {
            SecurityProtocol(login.protocol.number())
        }),
    }
}
