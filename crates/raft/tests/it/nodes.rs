//! The names and addresses of the nodes of the scripts.

use model::BrokerId;
use raft::{Endpoint, Listener, Replica, Request, VersionRange, Voter};
use wire::Uuid;
use wire::messages::FetchRequest;
use wire::messages::fetch_request as asked;

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

/// A fetch of what follows `from`, by a replica that has the epoch up to there.
pub(crate) fn fetch(id: i32, directory: Uuid, from: i64, epoch: i32) -> Request {
    Request::Fetch(FetchRequest {
        cluster_id: None,
        replica_state: asked::ReplicaState {
            replica_id: id,
            replica_epoch: -1,
        },
        topics: vec![asked::FetchTopic {
            topic_id: raft::TOPIC_ID,
            partitions: vec![asked::FetchPartition {
                current_leader_epoch: epoch,
                fetch_offset: from,
                last_fetched_epoch: if from > 0 { epoch } else { 0 },
                replica_directory_id: directory,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    })
}
