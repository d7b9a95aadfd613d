//! The router: from a frame to the handler of its API.
//!
//! Has an arm for every row of the table of APIs. What needs an answer from the published metadata alone, or a change of them, is
//! carried out here around a function of the request; everything else has a handler of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::ConnId;
use env::logs::REQUESTS;
use meta::Record;
use meta::decide::Uuids;
use wire::messages::{
    DescribeDelegationTokenRequest, EnvelopeRequest, ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
};
use wire::{ApiKey, ErrorCode, Message, Reader, RequestHead, decode_request_header};

use super::api::overdue::{Overdue, Patience};
use super::api::{self, *};
use super::call::{Attempt, Call, with};
use super::caller::is_of_replica;
use super::denied;
use super::envelope::{self, Carried};
use super::forward::{self, For};
use super::hall::Hall;
use super::login;
use super::parked::{Early, Parked, Waiting};
use super::peers;
use crate::asker::access;
use crate::meters::meter::Refusal;
use crate::net::{Address, EnvelopeAddress, Outcome, SlotNumber};
use crate::ops::view::View;

/// A client whose broker does not become part of its cluster in this time finds its connection closed, and goes to another.
const MEMBERSHIP_WAIT_MAX: Duration = Duration::from_secs(5);

/// Handles one frame; its answer goes to `slot`.
pub(crate) fn on_request(hall: &mut Hall<'_>, conn: ConnId, slot: SlotNumber, frame: Bytes) {
    let Some(asker) = hall
        .connections
        .get(conn)
        .map(|open| Arc::clone(open.asker()))
    else {
        return;
    };
    let mut address = Address {
        conn,
        slot,
        correlation_id: 0,
        version: 0,
        key: -1,
        begun: hall.desk.shared.env.clock.now(),
        envelope: None,
    };
    let bytes = frame.len();
    // A lone node sends no request on: it needs the whole frame no more.
    let is_alone = hall.desk.shared.state.is_alone();
    let whole = if is_alone {
        Bytes::new()
    } else {
        frame.clone()
    };
    let mut reader = Reader::new(frame);
    let is_raw = (hall.connections.get(conn))
        .and_then(|open| open.login.as_ref())
        .is_some_and(|login| login.is_raw());
    if is_raw {
        let mut call = hall.call(address, asker);
        let outcome = login::on_raw(&mut call, reader.rest());
        let asker = call.asker;
        return hall.put_outcome(&address, &asker, outcome);
    }
    // Whatever an earlier request was refused for.
    drop(asker.take_refused());
    let (asker, outcome) = match decode_request_header(&mut reader) {
        Ok(head) => {
            address.correlation_id = head.correlation_id;
            address.version = head.version;
            address.key = head.key;
            hall.desk.meter().on_request(head.key, bytes);
            let mut call = hall.call(address, asker);
            let outcome = dispatch(&mut call, &head, reader, whole);
            // One that another node carries is answered otherwise, and is somebody else's.
            address = call.address;
            (call.asker, outcome)
        }
        Err(_) => {
            hall.desk.meter().on_refused(Refusal::Garbage);
            (asker, Outcome::Close)
        }
    };
    hall.put_outcome(&address, &asker, outcome);
}

/// `frame` is the whole request.
fn dispatch(call: &mut Call<'_>, head: &RequestHead, reader: Reader, frame: Bytes) -> Outcome {
    if !call.is_admitted() {
        return login::on_request(call, head, reader, frame);
    }
    if let Some(key) = head.api()
        && peers::is_of_nodes(call, key, head.version)
    {
        return match key {
            _ if !call.is_of_peer() => {
                peers::complain(call, key);
                denied::answer(call, key, reader)
            }
            ApiKey::Envelope => with(call, reader, on_envelope),
            _ => peers::route(call, key, reader),
        };
    }
    let ceilings = &call.desk.shared.ceilings;
    let is_served = |key: &ApiKey| api::is_served(*key, head.version, ceilings);
    let Some(key) = head.api().filter(is_served) else {
        return match head.api() {
            // KIP-35: a client that is newer than we are learns what we speak.
            Some(ApiKey::ApiVersions) => api_versions::on_api_versions_unknown(call),
            api => {
                complain_of_version(call, head, api);
                Outcome::Close
            }
        };
    };
    if !access::admits(&call.asker, key, head.version) {
        return denied::answer(call, key, reader);
    }
    // A controller decides for other nodes and their clients before it serves any itself.
    let is_carried = call.address.envelope.is_some() || call.asker.principal.is_node();
    if !call.door.is_open && !is_for_all(key) && !is_carried {
        return await_membership(call, frame);
    }
    // Without a controller to pass it on to, the answer is that this node does not lead: the question is what is wrong.
    match forward::destination(call, key, &frame) {
        For::Controller if key == ApiKey::DescribeQuorum && call.is_cut_off() => {}
        For::Here => {}
        For::Controller => return forward::to_controller(call, frame),
        For::Both(divided) => return forward::in_two_parts(call, divided),
    }
    if !needs_commit(key) {
        call.door.asked_at = Some(call.desk.now);
    }
    route(call, key, head, reader)
}

/// A broker that has just started is part of its cluster in a moment. Clients that found their connection closed instead would count
/// the broker as one that fails.
pub(super) fn await_membership(call: &mut Call<'_>, frame: Bytes) -> Outcome {
    // A controller alone serves no clients, however long they wait.
    if !call.is_at_broker() {
        return Outcome::Close;
    }
    // Other nodes, which make the cluster, are to be heard meanwhile.
    if call.desk.shared.doors.request_bytes_max() / 2 < call.connections.request_bytes() {
        return Outcome::Close;
    }
    let until = call.desk.now.plus(MEMBERSHIP_WAIT_MAX);
    // Alone in its memory: it may wait for seconds, and the buffer that it came in is larger.
    let frame = Bytes::copy_from_slice(&frame);
    call.park(Waiting::Membership(Early { frame, until }))
}

impl Hall<'_> {
    /// Lets clients in once the broker is part of its cluster: those that came before first, so that no request overtakes another one
    /// of its connection. A client that has gone asked elsewhere meanwhile, and what it wanted then may be wrong now.
    pub(crate) fn open(&mut self) {
        if self.door.is_open || !self.desk.shared.state.is_serving() {
            return;
        }
        self.door.is_open = true;
        let is_early = |parked: &Parked| matches!(parked.waiting, Waiting::Membership(_));
        let mut early = BTreeMap::new();
        for key in self.door.parked.keys(is_early) {
            if let Some(Parked { address, .. }) = self.door.parked.get_mut(key) {
                early.insert((address.conn, address.slot), key);
            }
        }
        for ((conn, _), key) in early {
            if self.connections.get(conn).is_none() {
                self.door.take(key);
                continue;
            }
            self.resume(key, |call, waiting| match waiting {
                Waiting::Membership(early) => enter(call, early.frame),
                _ => Outcome::Waits,
            });
        }
    }
}

fn enter(call: &mut Call<'_>, frame: Bytes) -> Outcome {
    let mut reader = Reader::new(frame.clone());
    match decode_request_header(&mut reader) {
        Ok(head) => dispatch(call, &head, reader, frame),
        Err(_) => Outcome::Close,
    }
}

/// The answer to a question for the versions, in the version that it was asked in or, if that is not known, in the first.
pub(super) fn answer_versions(call: &mut Call<'_>, is_known: bool, reader: Reader) -> Outcome {
    if is_known {
        with(call, reader, api_versions::on_api_versions)
    } else {
        api_versions::on_api_versions_unknown(call)
    }
}

/// Another broker brings the request of one of its clients.
fn on_envelope(call: &mut Call<'_>, request: EnvelopeRequest) -> Outcome {
    let outer = EnvelopeAddress {
        correlation_id: call.address.correlation_id,
        version: call.address.version,
    };
    if !call.desk.shared.metadata.is_active() {
        return envelope::refuse(call.desk, outer, ErrorCode::NotController);
    }
    let (carried, reader) = match Carried::read(&request) {
        Ok(read) => read,
        Err(why) => return envelope::refuse(call.desk, outer, why),
    };
    let authority = call.desk.shared.catalog.authority();
    call.asker = Arc::new(carried.asker(call.asker.local, authority));
    let head = carried.head;
    call.address = Address {
        correlation_id: head.correlation_id,
        version: head.version,
        key: head.key,
        envelope: Some(outer),
        ..call.address
    };
    dispatch(call, &head, reader, request.request_data)
}

/// The client finds its connection closed and has nothing to show to the one who runs it.
fn complain_of_version(call: &mut Call<'_>, head: &RequestHead, api: Option<ApiKey>) {
    let desk = &mut *call.desk;
    desk.meter().on_refused(Refusal::Version);
    if let Some(asked @ (ApiKey::Vote | ApiKey::BeginQuorumEpoch | ApiKey::EndQuorumEpoch)) = api {
        let kept_back = desk.complaints.voters.admit_rarely(desk.now);
        if let Some(kept_back) = kept_back {
            tracing::warn!(
                target: REQUESTS,
                peer = %call.asker.peer,
                kept_back = kept_back.count(),
                "a controller asks this node for a {asked:?}, as a voter of its cluster, and this node is a cluster of its own: start it with \
                 controller.quorum.voters or controller.quorum.bootstrap.servers as the other nodes have them, and with an empty directory",
            );
        }
        return;
    }
    let Some(kept_back) = desk.complaints.versions.admit(desk.now) else {
        return;
    };
    let name = api.map_or_else(|| format!("API {}", head.key), |api| format!("{api:?}"));
    let why = match api.and_then(api::served_versions) {
        None => "the API is not served".to_owned(),
        Some((least, most)) => format!("versions {least} to {most} are served"),
    };
    tracing::warn!(
        target: REQUESTS,
        api = name,
        version = head.version,
        client_id = head.client_id.as_deref().unwrap_or_default(),
        peer = %call.asker.peer,
        kept_back = kept_back.count(),
        "client cut off: {why}",
    );
}

/// A flat list of arms, in the order of the table: data, groups, transactions, metadata.
fn route(call: &mut Call<'_>, key: ApiKey, head: &RequestHead, reader: Reader) -> Outcome {
    let version = call.version();
    match key {
        ApiKey::Produce => with(call, reader, produce::on_produce),
        ApiKey::Fetch => with(call, reader, |call, request| {
            if peers::is_fetch_of_quorum(call, &request) {
                peers::ask(call, raft::Request::Fetch(request))
            } else if is_of_replica(&request) && peers::has_replicas(call) {
                replica_fetch::on_replica_fetch(call, request)
            } else {
                fetch::on_fetch(call, request)
            }
        }),
        ApiKey::ListOffsets => with(call, reader, list_offsets::on_list_offsets),
        ApiKey::DeleteRecords => with(call, reader, delete_records::on_delete_records),
        ApiKey::OffsetForLeaderEpoch => with(
            call,
            reader,
            offset_for_leader_epoch::on_offset_for_leader_epoch,
        ),
        ApiKey::DescribeProducers => with(call, reader, describe_producers::on_describe_producers),
        ApiKey::AlterReplicaLogDirs => with(
            call,
            reader,
            alter_replica_log_dirs::on_alter_replica_log_dirs,
        ),
        ApiKey::DescribeLogDirs => with(call, reader, describe_log_dirs::on_describe_log_dirs),

        ApiKey::FindCoordinator => with(call, reader, |call, request| {
            find_coordinator::on_find_coordinator(call, request, Attempt::First)
        }),
        ApiKey::JoinGroup => {
            let client = group::client(call, head);
            with(call, reader, |call, request| {
                join_group::on_join_group(call, client, request)
            })
        }
        ApiKey::SyncGroup => with(call, reader, sync_group::on_sync_group),
        ApiKey::Heartbeat => with(call, reader, heartbeat::on_heartbeat),
        ApiKey::LeaveGroup => with(call, reader, leave_group::on_leave_group),
        ApiKey::ConsumerGroupHeartbeat => {
            let client = group::client(call, head);
            with(call, reader, |call, request| {
                consumer_group_heartbeat::on_consumer_group_heartbeat(call, client, request)
            })
        }
        ApiKey::OffsetCommit => with(call, reader, offset_commit::on_offset_commit),
        ApiKey::OffsetFetch => with(call, reader, offset_fetch::on_offset_fetch),
        ApiKey::OffsetDelete => with(call, reader, offset_delete::on_offset_delete),
        ApiKey::DescribeGroups => with(call, reader, describe_groups::on_describe_groups),
        ApiKey::ConsumerGroupDescribe => with(
            call,
            reader,
            consumer_group_describe::on_consumer_group_describe,
        ),
        ApiKey::ListGroups => with(call, reader, list_groups::on_list_groups),
        ApiKey::DeleteGroups => with(call, reader, delete_groups::on_delete_groups),

        ApiKey::InitProducerId => with(call, reader, |call, request| {
            init_producer_id::on_init_producer_id(call, request, Attempt::First)
        }),
        ApiKey::AddPartitionsToTxn => with(
            call,
            reader,
            add_partitions_to_txn::on_add_partitions_to_txn,
        ),
        ApiKey::AddOffsetsToTxn => with(call, reader, add_offsets_to_txn::on_add_offsets_to_txn),
        ApiKey::TxnOffsetCommit => with(call, reader, txn_offset_commit::on_txn_offset_commit),
        ApiKey::EndTxn => with(call, reader, |call, request| {
            end_txn::on_end_txn(call, request, Attempt::First)
        }),
        ApiKey::WriteTxnMarkers => with(call, reader, write_txn_markers::on_write_txn_markers),
        ApiKey::DescribeTransactions => with(
            call,
            reader,
            describe_transactions::on_describe_transactions,
        ),
        ApiKey::ListTransactions => with(call, reader, list_transactions::on_list_transactions),

        // Closed where client metrics are not received: ApiVersions does not list them then.
        ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry
            if !telemetry::receives_client_metrics(call) =>
        {
            Outcome::Close
        }
        ApiKey::GetTelemetrySubscriptions => {
            let identity = telemetry::identity(call, head);
            with(call, reader, |call, request| {
                telemetry::on_get_telemetry_subscriptions(call, &identity, &request)
            })
        }
        ApiKey::PushTelemetry => {
            let identity = telemetry::identity(call, head);
            with(call, reader, |call, request| {
                telemetry::on_push_telemetry(call, identity, request, Attempt::First)
            })
        }

        ApiKey::ApiVersions => with(call, reader, api_versions::on_api_versions),
        ApiKey::Metadata => with(call, reader, |call, request| {
            metadata::on_metadata(call, request, Attempt::First)
        }),
        ApiKey::DescribeCluster => with(call, reader, describe_cluster::on_describe_cluster),
        ApiKey::DescribeConfigs => tell(call, key, reader, describe_configs::handle),
        ApiKey::DescribeTopicPartitions => {
            let topics = call.desk.topics();
            tell(call, key, reader, move |request, view| {
                let mut response = describe_topic_partitions::handle(request, view);
                offline::in_pages(&mut response, &topics, view.broker.node_id);
                response
            })
        }
        ApiKey::ListConfigResources => tell(call, key, reader, |request, view| {
            list_config_resources::handle(request, version, view)
        }),
        ApiKey::CreateTopics => decide(call, key, reader, create_topics::handle),
        ApiKey::DeleteTopics => decide(call, key, reader, |request, view, uuids| {
            delete_topics::handle(request, version, view, uuids)
        }),
        ApiKey::CreatePartitions => decide(call, key, reader, |request, view, _| {
            create_partitions::handle(request, view)
        }),
        ApiKey::AlterConfigs => decide(call, key, reader, |request, view, _| {
            alter_configs::handle(request, view)
        }),
        ApiKey::IncrementalAlterConfigs => decide(call, key, reader, |request, view, _| {
            incremental_alter_configs::handle(request, view)
        }),
        ApiKey::DescribeAcls => with(call, reader, acls::on_describe_acls),
        ApiKey::CreateAcls => with(call, reader, acls::on_create_acls),
        ApiKey::DeleteAcls => with(call, reader, acls::on_delete_acls),
        ApiKey::SaslHandshake => with(call, reader, sasl::on_handshake),
        ApiKey::SaslAuthenticate => with(call, reader, sasl::on_authenticate),
        ApiKey::CreateDelegationToken => tell(call, key, reader, |request, view| {
            delegation_tokens::create(request, version, view.asker)
        }),
        ApiKey::RenewDelegationToken => tell(
            call,
            key,
            reader,
            |_: &RenewDelegationTokenRequest, view| delegation_tokens::renew(view.asker),
        ),
        ApiKey::ExpireDelegationToken => tell(
            call,
            key,
            reader,
            |_: &ExpireDelegationTokenRequest, view| delegation_tokens::expire(view.asker),
        ),
        ApiKey::DescribeDelegationToken => tell(
            call,
            key,
            reader,
            |_: &DescribeDelegationTokenRequest, view| delegation_tokens::describe(view.asker),
        ),
        ApiKey::DescribeClientQuotas => tell(call, key, reader, |request, _| {
            describe_client_quotas::handle(request)
        }),
        ApiKey::DescribeUserScramCredentials => {
            tell(call, key, reader, describe_user_scram_credentials::handle)
        }
        ApiKey::AlterUserScramCredentials => {
            with(call, reader, alter_user_scram_credentials::on_alter)
        }
        ApiKey::UnregisterBroker => with(call, reader, unregister_broker::on_unregister),
        ApiKey::UnregisterController => with(call, reader, unregister_controller::on_unregister),
        ApiKey::DescribeQuorum => with(call, reader, describe_quorum::on_describe_quorum),
        ApiKey::ElectLeaders => decide(call, key, reader, |request, view, _| {
            elect_leaders::handle(request, view)
        }),
        ApiKey::AlterPartitionReassignments => decide(call, key, reader, |request, view, _| {
            alter_partition_reassignments::handle(request, view)
        }),
        ApiKey::ListPartitionReassignments => {
            tell(call, key, reader, list_partition_reassignments::handle)
        }
        ApiKey::UpdateFeatures => with(call, reader, update_features::on_update_features),
        ApiKey::AddRaftVoter => peers::question(call, reader, raft::Request::AddVoter),
        ApiKey::RemoveRaftVoter => peers::question(call, reader, raft::Request::RemoveVoter),
        // The table lists nothing that has no arm.
        _ => Outcome::Close,
    }
}

/// Answers from what is published.
fn tell<R: Message, M: Message>(
    call: &mut Call<'_>,
    key: ApiKey,
    reader: Reader,
    handle: impl FnOnce(&R, &View<'_>) -> M,
) -> Outcome {
    let scene = call.scene();
    with(call, reader, |call, request: R| {
        let shared = Arc::clone(&call.desk.shared);
        let response = handle(&request, &scene.view(shared.state.cluster_id()));
        call.reply(key, &response)
    })
}

/// Answers when what is decided is durable, or when the client's time is up. One that names none waits as long as a client
/// waits for any request.
fn decide<R: Message + Patience, M: Message + Overdue + Send + 'static>(
    call: &mut Call<'_>,
    key: ApiKey,
    reader: Reader,
    handle: impl FnOnce(&R, &View<'_>, &mut dyn Uuids) -> (Vec<Record>, M),
) -> Outcome {
    with(call, reader, |call, request: R| {
        let patience = match request.timeout_ms() {
            Some(ms) => Duration::from_millis(ms.max(0).unsigned_abs().into()),
            None => call.desk.shared.catalog.config().request_wait_max,
        };
        call.change(key, patience, |view, uuids| handle(&request, view, uuids))
    })
}

/// Requests that a node answers before it is counted in by the controller: what it speaks, and why nothing else works yet.
fn is_for_all(key: ApiKey) -> bool {
    matches!(
        key,
        ApiKey::ApiVersions
            | ApiKey::DescribeQuorum
            | ApiKey::DescribeCluster
            | ApiKey::Fetch
            | ApiKey::SaslHandshake
            | ApiKey::SaslAuthenticate
    )
}

/// Requests that are answered after a commit: who sends them waits for the disk anyway.
fn needs_commit(key: ApiKey) -> bool {
    matches!(
        key,
        ApiKey::Produce
            | ApiKey::OffsetCommit
            | ApiKey::InitProducerId
            | ApiKey::AddPartitionsToTxn
            | ApiKey::AddOffsetsToTxn
            | ApiKey::TxnOffsetCommit
            | ApiKey::EndTxn
    )
}
