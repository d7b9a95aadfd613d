//! The Kafka door: from a frame to the handler of its API, and to the answer.
//!
//! Version numbers end here and in `api`. A request that cannot be read closes its connection, as Kafka does: nothing that
//! follows it on the wire can be trusted.

pub(crate) mod api;
mod call;
mod denied;
mod hall;
mod parked;
pub(crate) mod session;

use std::sync::Arc;

use bytes::Bytes;
use env::ConnId;
use wire::{ApiKey, Message, Reader, RequestHead, decode_request_header};

use self::api::{
    admin, delete_records, describe_log_dirs, fetch, group, list_offsets, produce, txn,
};
use self::call::Call;
pub(crate) use self::hall::{Door, Hall};
use crate::event_loop::{Address, Outcome, SlotNumber};
use crate::ops::access;

/// Names, partitions and whatever else one request may list. With its question and its part of the answer a name of one byte takes
/// up to 700, so these are some 180 MiB; a large cluster has fewer partitions. A request that lists more closes its connection.
const ELEMENTS_MAX: usize = 1 << 18;

/// Requests that need a change of the metadata are handled more than once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    First,
    /// What it needed is there now.
    Second,
    /// What it needed was not durable in time: it is answered without.
    Overdue,
}

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
    };
    let mut reader = Reader::new(frame);
    let outcome = match decode_request_header(&mut reader) {
        Ok(head) => {
            address.correlation_id = head.correlation_id;
            address.version = head.version;
            dispatch(&mut hall.call(address, asker), &head, reader)
        }
        Err(_) => Outcome::Close,
    };
    hall.connections.settle(&address, outcome);
}

fn dispatch(call: &mut Call<'_>, head: &RequestHead, reader: Reader) -> Outcome {
    let Some(key) = head.api().filter(|key| api::is_served(*key, head.version)) else {
        return match head.api() {
            // KIP-35: a client that is newer than we are learns what we speak.
            Some(ApiKey::ApiVersions) => admin::on_api_versions_unknown(call),
            _ => Outcome::Close,
        };
    };
    if !access::admits(call.asker.principal, key) {
        return denied::answer(call, key, reader);
    }
    if !needs_commit(key) {
        call.door.asked_at = Some(call.desk.now);
    }
    match key {
        ApiKey::Produce => with(call, reader, produce::on_produce),
        ApiKey::Fetch => with(call, reader, fetch::on_fetch),
        ApiKey::ListOffsets => with(call, reader, list_offsets::on_list_offsets),
        ApiKey::DeleteRecords => with(call, reader, delete_records::on_delete_records),
        ApiKey::OffsetForLeaderEpoch => with(
            call,
            reader,
            api::offset_for_leader_epoch::on_offset_for_leader_epoch,
        ),
        ApiKey::DescribeProducers => {
            with(call, reader, api::describe_producers::on_describe_producers)
        }
        ApiKey::AlterReplicaLogDirs => with(
            call,
            reader,
            api::alter_replica_log_dirs::on_alter_replica_log_dirs,
        ),
        ApiKey::DescribeLogDirs => with(call, reader, describe_log_dirs::on_describe_log_dirs),
        ApiKey::JoinGroup
        | ApiKey::SyncGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::OffsetCommit
        | ApiKey::OffsetFetch
        | ApiKey::OffsetDelete
        | ApiKey::DescribeGroups
        | ApiKey::ListGroups
        | ApiKey::DeleteGroups
        | ApiKey::ConsumerGroupHeartbeat
        | ApiKey::ConsumerGroupDescribe => group::dispatch_group(call, key, head, reader),
        ApiKey::InitProducerId
        | ApiKey::FindCoordinator
        | ApiKey::AddPartitionsToTxn
        | ApiKey::AddOffsetsToTxn
        | ApiKey::EndTxn
        | ApiKey::TxnOffsetCommit
        | ApiKey::WriteTxnMarkers
        | ApiKey::DescribeTransactions
        | ApiKey::ListTransactions => txn::dispatch_txn(call, key, reader),
        ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry => {
            api::telemetry::dispatch_telemetry(call, key, head, reader)
        }
        _ => admin::dispatch_admin(call, key, reader),
    }
}

/// Decodes a request and hands it to its handler.
fn with<R: Message>(
    call: &mut Call<'_>,
    mut reader: Reader,
    handle: impl FnOnce(&mut Call<'_>, R) -> Outcome,
) -> Outcome {
    reader.bound_elements(ELEMENTS_MAX);
    match R::decode(&mut reader, call.version()) {
        Ok(request) => handle(call, request),
        Err(error) => {
            env::tell!("connection from {} closed: {error}", call.asker.peer);
            Outcome::Close
        }
    }
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

#[cfg(test)]
mod tests;
