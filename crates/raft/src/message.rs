//! The requests of the quorum and their answers, as typed messages. Their versions on the wire are the driver's business.

use model::BrokerId;
use wire::Uuid;
use wire::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, ApiVersionsRequest, ApiVersionsResponse,
    BeginQuorumEpochRequest, BeginQuorumEpochResponse, EndQuorumEpochRequest,
    EndQuorumEpochResponse, FetchRequest, FetchResponse, FetchSnapshotRequest,
    FetchSnapshotResponse, RemoveRaftVoterRequest, RemoveRaftVoterResponse, UpdateRaftVoterRequest,
    UpdateRaftVoterResponse, VoteRequest, VoteResponse,
};

use crate::voters::Endpoint;

/// Name of the metadata log; it has one partition, number 0.
pub const TOPIC: &str = "__cluster_metadata";

/// Topic id of the metadata log, a constant of the protocol.
pub const TOPIC_ID: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Vote(VoteRequest),
    BeginEpoch(BeginQuorumEpochRequest),
    EndEpoch(EndQuorumEpochRequest),
    Fetch(FetchRequest),
    FetchSnapshot(FetchSnapshotRequest),
    AddVoter(AddRaftVoterRequest),
    RemoveVoter(RemoveRaftVoterRequest),
    UpdateVoter(UpdateRaftVoterRequest),
    /// Asked of a replica that is to become a voter, never answered here.
    ApiVersions(ApiVersionsRequest),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    Vote(VoteResponse),
    BeginEpoch(BeginQuorumEpochResponse),
    EndEpoch(EndQuorumEpochResponse),
    Fetch(FetchResponse),
    FetchSnapshot(FetchSnapshotResponse),
    AddVoter(AddRaftVoterResponse),
    RemoveVoter(RemoveRaftVoterResponse),
    UpdateVoter(UpdateRaftVoterResponse),
    ApiVersions(ApiVersionsResponse),
}

/// Where nodes listen, by an answer of a peer.
pub(crate) type Addresses = Vec<(BrokerId, Endpoint)>;

/// Addresses that can be dialled; the others are left out.
pub(crate) fn addresses(told: impl Iterator<Item = (i32, String, i32)>) -> Addresses {
    let usable = told.filter_map(|(id, host, port)| {
        let port = u16::try_from(port).ok().filter(|port| *port > 0)?;
        (!host.is_empty()).then_some((BrokerId(id), Endpoint { host, port }))
    });
    usable.collect()
}
