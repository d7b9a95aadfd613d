//! Requests of other nodes: of the quorum (KIP-595, 630, 853), of brokers that live by the controller (KIP-631), and of brokers for
//! their clients (KIP-590).
//!
//! These APIs are for peers, who have proved that they have the secret of the cluster or may act for it; everybody else is told that it may
//! not, on this machine too. A cluster of one serves them as well: that is how it becomes one of several.

use env::logs::REQUESTS;
use raft::{Request, Response};
use wire::messages::FetchRequest;
use wire::{ApiKey, Message, Reader};

use super::api::{self, *};
use super::call::{Call, with};
use super::parked::Waiting;
use crate::mail::quorum::Order;
use crate::mail::quorum::Question;
use crate::meters::meter::Refusal;
use crate::net::Outcome;

/// True if the asker may be a replica of a partition. Alone a broker has none beside its own.
pub(super) fn has_replicas(call: &Call<'_>) -> bool {
    !call.desk.shared.state.is_alone() && call.is_of_peer()
}

/// True if the request is one that nodes are served.
pub(super) fn is_of_nodes(call: &Call<'_>, key: ApiKey, version: i16) -> bool {
    let row = api::PEERS.iter().find(|row| row.key == key);
    let row = row.and_then(|row| row.below(&call.desk.shared.ceilings));
    row.is_some_and(|row| (row.min..=row.max).contains(&version))
        && !(is_of_voters(key) && call.desk.shared.state.is_alone())
}

/// Says that somebody asks as only nodes do.
pub(super) fn complain(call: &mut Call<'_>, key: ApiKey) {
    let desk = &mut *call.desk;
    desk.meter().on_refused(Refusal::Login);
    if let Some(kept_back) = desk.complaints.strangers.admit(desk.now) {
        tracing::warn!(
            target: REQUESTS,
            peer = %call.asker.peer,
            principal = %call.asker.principal,
            kept_back = kept_back.count(),
            "a {key:?} is refused: it is a request among the nodes of this cluster, and who sends it has not proved to be one",
        );
    }
}

/// The rows of the table of APIs that only other nodes are shown.
pub(crate) fn rows(call: &Call<'_>) -> Vec<api::Served> {
    let is_alone = call.desk.shared.state.is_alone();
    let rows = api::PEERS.iter().filter(|_| call.is_of_peer());
    let rows = rows.filter(|row| !is_alone || !is_of_voters(row.key));
    rows.filter_map(|row| row.below(&call.desk.shared.ceilings))
        .collect()
}

/// True for the talk of voters with each other. The only voter has nobody to talk to, and nobody may end its leadership.
fn is_of_voters(key: ApiKey) -> bool {
    matches!(
        key,
        ApiKey::Vote | ApiKey::BeginQuorumEpoch | ApiKey::EndQuorumEpoch | ApiKey::UpdateRaftVoter
    )
}

/// True if another replica of the metadata log fetches.
pub(super) fn is_fetch_of_quorum(call: &Call<'_>, request: &FetchRequest) -> bool {
    let is_metadata = |topic: &str, id| topic == raft::TOPIC || id == raft::TOPIC_ID;
    let is_of_quorum = match request.topics.as_slice() {
        [topic] => is_metadata(&topic.topic, topic.topic_id),
        _ => false,
    };
    is_of_quorum && call.is_of_peer()
}

pub(super) fn route(call: &mut Call<'_>, key: ApiKey, reader: Reader) -> Outcome {
    match key {
        ApiKey::Vote => question(call, reader, Request::Vote),
        ApiKey::BeginQuorumEpoch => question(call, reader, Request::BeginEpoch),
        ApiKey::EndQuorumEpoch => question(call, reader, Request::EndEpoch),
        ApiKey::FetchSnapshot => question(call, reader, Request::FetchSnapshot),
        ApiKey::UpdateRaftVoter => question(call, reader, Request::UpdateVoter),
        ApiKey::AlterPartition => with(call, reader, alter_partition::on_alter_partition),
        ApiKey::AssignReplicasToDirs => with(call, reader, assign_replicas_to_dirs::on_assign),
        ApiKey::BrokerRegistration => with(call, reader, broker_registration::on_registration),
        ApiKey::BrokerHeartbeat => with(call, reader, broker_heartbeat::on_heartbeat),
        ApiKey::AllocateProducerIds => with(call, reader, allocate_producer_ids::on_allocate),
        ApiKey::ControllerRegistration => {
            with(call, reader, controller_registration::on_registration)
        }
        // The table lists nothing that has no arm.
        _ => Outcome::Close,
    }
}

/// Hands a request to the quorum; the answer comes as news.
pub(super) fn question<R: Message>(
    call: &mut Call<'_>,
    reader: Reader,
    question: fn(R) -> Request,
) -> Outcome {
    with(call, reader, |call, request: R| {
        ask(call, question(request))
    })
}

pub(super) fn ask(call: &mut Call<'_>, request: Request) -> Outcome {
    let ticket = call.ticket();
    let outcome = call.park(Waiting::Quorum);
    let question = Box::new(Question { ticket, request });
    (call.desk.shared.mail.quorum).order([Order::Ask(question)]);
    outcome
}

/// The quorum has answered.
pub(super) fn respond(call: &mut Call<'_>, response: &Response) -> Outcome {
    let older = without_endpoints(response, call.version());
    match older.as_ref().unwrap_or(response) {
        Response::Vote(of) => call.reply(ApiKey::Vote, of),
        Response::BeginEpoch(of) => call.reply(ApiKey::BeginQuorumEpoch, of),
        Response::EndEpoch(of) => call.reply(ApiKey::EndQuorumEpoch, of),
        Response::Fetch(of) => call.reply(ApiKey::Fetch, of),
        Response::FetchSnapshot(of) => call.reply(ApiKey::FetchSnapshot, of),
        Response::AddVoter(of) => call.reply(ApiKey::AddRaftVoter, of),
        Response::RemoveVoter(of) => call.reply(ApiKey::RemoveRaftVoter, of),
        Response::UpdateVoter(of) => call.reply(ApiKey::UpdateRaftVoter, of),
        Response::ApiVersions(of) => call.reply(ApiKey::ApiVersions, of),
    }
}

/// The answer without the address of the leader, for a version that has no place for it. Such a node knows the address from its settings.
fn without_endpoints(response: &Response, version: i16) -> Option<Response> {
    let named_since = match response {
        Response::Vote(_)
        | Response::BeginEpoch(_)
        | Response::EndEpoch(_)
        | Response::FetchSnapshot(_) => 1,
        Response::Fetch(_) => 16,
        _ => return None,
    };
    if named_since <= version {
        return None;
    }
    let mut older = response.clone();
    match &mut older {
        Response::Vote(of) => of.node_endpoints.clear(),
        Response::BeginEpoch(of) => of.node_endpoints.clear(),
        Response::EndEpoch(of) => of.node_endpoints.clear(),
        Response::FetchSnapshot(of) => of.node_endpoints.clear(),
        Response::Fetch(of) => of.node_endpoints.clear(),
        _ => {}
    }
    Some(older)
}

#[cfg(test)]
mod tests {
    use wire::frame::encode_response;
    use wire::messages::fetch_response::NodeEndpoint;
    use wire::messages::{BeginQuorumEpochResponse, EndQuorumEpochResponse, VoteResponse};
    use wire::messages::{FetchResponse, FetchSnapshotResponse, fetch_snapshot_response};
    use wire::messages::{begin_quorum_epoch_response, end_quorum_epoch_response, vote_response};

    use super::*;

    #[test]
    fn answers_of_the_quorum_can_be_written_in_every_version_that_is_served() {
        macro_rules! check {
            ($key:ident, $kind:ident, $response:ident, $endpoint:path, $min:expr) => {{
                let response = $response {
                    node_endpoints: vec![<$endpoint>::default()],
                    ..Default::default()
                };
                for version in $min..=ApiKey::$key.max_version_stable() {
                    let older = without_endpoints(&Response::$kind(response.clone()), version);
                    let Response::$kind(of) = older.unwrap_or(Response::$kind(response.clone()))
                    else {
                        panic!("another answer");
                    };
                    let written = encode_response(ApiKey::$key, &of, version, 1);
                    assert!(
                        written.is_ok(),
                        "{:?} {version}: {:?}",
                        ApiKey::$key,
                        written.err()
                    );
                }
            }};
        }
        check!(Vote, Vote, VoteResponse, vote_response::NodeEndpoint, 0);
        check!(
            BeginQuorumEpoch,
            BeginEpoch,
            BeginQuorumEpochResponse,
            begin_quorum_epoch_response::NodeEndpoint,
            0
        );
        check!(
            EndQuorumEpoch,
            EndEpoch,
            EndQuorumEpochResponse,
            end_quorum_epoch_response::NodeEndpoint,
            0
        );
        check!(
            FetchSnapshot,
            FetchSnapshot,
            FetchSnapshotResponse,
            fetch_snapshot_response::NodeEndpoint,
            0
        );
        check!(Fetch, Fetch, FetchResponse, NodeEndpoint, 4);
    }
}
