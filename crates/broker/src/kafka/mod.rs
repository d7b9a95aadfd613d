//! The Kafka door: from a frame to the handler of its API, and to the answer.
//!
//! Version numbers end here and in `api`. A request that cannot be read closes its connection, as Kafka does: nothing that
//! follows it on the wire can be trusted.

pub(crate) mod access;
pub(crate) mod api;
pub(crate) mod change;
pub(crate) mod session;

use bytes::Bytes;
use env::ConnId;
use wire::{ApiKey, Message, Reader, RequestHead, decode_request_header};

use self::access::Principal;
use crate::shard::{Address, Outcome, Shard, SlotNumber};

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

impl Shard {
    /// Handles one frame; its answer goes to `slot`.
    pub(crate) fn on_request(&mut self, conn: ConnId, slot: SlotNumber, frame: Bytes) {
        let mut address = Address {
            conn,
            slot,
            correlation_id: 0,
            version: 0,
        };
        let mut reader = Reader::new(frame.clone());
        let outcome = match decode_request_header(&mut reader) {
            Ok(head) => {
                address.correlation_id = head.correlation_id;
                address.version = head.version;
                self.dispatch(&address, &head, reader, frame, Attempt::First)
            }
            Err(_) => Outcome::Close,
        };
        self.settle(&address, outcome);
    }

    /// Handles a request again that waited for what it needs.
    pub(crate) fn handle(&mut self, address: &Address, frame: Bytes, attempt: Attempt) -> Outcome {
        let mut reader = Reader::new(frame.clone());
        match decode_request_header(&mut reader) {
            Ok(head) => self.dispatch(address, &head, reader, frame, attempt),
            Err(_) => Outcome::Close,
        }
    }

    fn dispatch(
        &mut self,
        address: &Address,
        head: &RequestHead,
        reader: Reader,
        frame: Bytes,
        attempt: Attempt,
    ) -> Outcome {
        let Some(key) = head.api().filter(|key| api::is_served(*key, head.version)) else {
            return match head.api() {
                // KIP-35: a client that is newer than we are learns what we speak.
                Some(ApiKey::ApiVersions) => self.on_api_versions_unknown(address),
                _ => Outcome::Close,
            };
        };
        if !access::admits(self.principal(address), key) {
            return Outcome::Close;
        }
        if !needs_commit(key) {
            self.on_asked();
        }
        match key {
            ApiKey::Produce => self.with(address, reader, Shard::on_produce),
            ApiKey::Fetch => self.with(address, reader, Shard::on_fetch),
            ApiKey::ListOffsets => self.with(address, reader, Shard::on_list_offsets),
            ApiKey::DeleteRecords => self.with(address, reader, Shard::on_delete_records),
            ApiKey::OffsetForLeaderEpoch => {
                self.with(address, reader, Shard::on_offset_for_leader_epoch)
            }
            ApiKey::DescribeProducers => self.with(address, reader, Shard::on_describe_producers),
            ApiKey::AlterReplicaLogDirs => {
                self.with(address, reader, Shard::on_alter_replica_log_dirs)
            }
            ApiKey::DescribeLogDirs => self.with(address, reader, Shard::on_describe_log_dirs),
            ApiKey::InitProducerId => self.with(address, reader, |shard, address, request| {
                shard.on_init_producer_id(address, request, frame, attempt)
            }),
            ApiKey::Metadata => self.with(address, reader, |shard, address, request| {
                shard.on_metadata(address, request, frame, attempt)
            }),
            ApiKey::FindCoordinator => self.with(address, reader, |shard, address, request| {
                shard.on_find_coordinator(address, request, frame, attempt)
            }),
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
            | ApiKey::ConsumerGroupDescribe => self.dispatch_group(key, address, head, reader),
            ApiKey::AddPartitionsToTxn
            | ApiKey::AddOffsetsToTxn
            | ApiKey::EndTxn
            | ApiKey::TxnOffsetCommit
            | ApiKey::WriteTxnMarkers
            | ApiKey::DescribeTransactions
            | ApiKey::ListTransactions => self.dispatch_txn(key, address, reader, frame, attempt),
            ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry
                if !self.receives_client_metrics() =>
            {
                Outcome::Close
            }
            ApiKey::GetTelemetrySubscriptions => {
                let who = self.identity(address, head);
                self.with(address, reader, |shard, address, request| {
                    shard.on_get_telemetry_subscriptions(address, &who, &request)
                })
            }
            ApiKey::PushTelemetry => {
                let who = self.identity(address, head);
                self.with(address, reader, |shard, address, request| {
                    shard.on_push_telemetry(address, &who, &request, frame, attempt)
                })
            }
            _ => self.dispatch_admin(key, address, reader),
        }
    }

    /// Who asks.
    pub(crate) fn principal(&self, address: &Address) -> Principal {
        let connection = self.connections.get(&address.conn);
        connection.map_or(Principal::Anonymous, |connection| connection.principal)
    }

    pub(crate) fn with<R: Message>(
        &mut self,
        address: &Address,
        mut reader: Reader,
        handle: impl FnOnce(&mut Shard, &Address, R) -> Outcome,
    ) -> Outcome {
        reader.bound_elements(ELEMENTS_MAX);
        match R::decode(&mut reader, address.version) {
            Ok(request) => handle(self, address, request),
            Err(error) => {
                let peer = self
                    .connections
                    .get(&address.conn)
                    .map(|connection| connection.peer.to_string());
                env::tell!(
                    "connection from {} closed: {error}",
                    peer.unwrap_or_default()
                );
                Outcome::Close
            }
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
