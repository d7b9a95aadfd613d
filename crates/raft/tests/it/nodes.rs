//! The names and addresses of the nodes of the scripts.

use model::BrokerId;
use raft::{Endpoint, Listener, Replica, VersionRange, Voter};
use wire::Uuid;

pub(crate) const LISTENER: &str = "CONTROLLER";

pub(crate) fn replica(id: i32) -> Replica {
    let mut directory = [7; 16];
    directory[0] = id as u8;
    Replica {
        id: BrokerId(id),
        directory: Uuid(directory),
    }
}

pub(crate) fn voter(id: i32) -> Voter {
    Voter {
        replica: replica(id),
        listeners: listeners(id),
        versions: VersionRange { min: 0, max: 1 },
    }
}

pub(crate) fn listeners(id: i32) -> Vec<Listener> {
    vec![Listener {
        name: LISTENER.to_owned(),
        endpoint: Endpoint {
            host: id.to_string(),
            port: 9093,
        },
    }]
}
