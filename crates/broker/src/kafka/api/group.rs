//! Requests about groups: from the router to the handler of each API.

use coord::group::{Answer, Client};
use meta::decide::register_broker::GROUP_VERSION;
use wire::{ApiKey, ErrorCode, Reader, RequestHead, Uuid};

use super::NO_OPERATIONS;
use crate::ids::random_uuid;
use crate::kafka::access::{self, Principal, Resource};
use crate::shard::{Address, Outcome, Shard};

/// What the client is told when it was not the answer its request asks for: a refusal, or a machine that answers something else,
/// which only a bug can do.
pub(crate) fn unexpected(told: Result<Answer, ErrorCode>) -> ErrorCode {
    match told {
        // The records that tell of it do not fit a batch, which the client knows nothing of.
        Err(ErrorCode::MessageTooLarge) => ErrorCode::UnknownServerError,
        Err(code) => code,
        Ok(answer) => unreachable!("a group coordinator answered {answer:?}"),
    }
}

/// What `asker` may do to a group that was described; nothing is told of one that was not, or where nobody asked.
pub(super) fn operations(asker: Option<Principal>, group_id: &str, error_code: i16) -> i32 {
    match asker {
        Some(asker) if error_code == 0 => access::operations(asker, Resource::group(group_id)),
        _ => NO_OPERATIONS,
    }
}

impl Shard {
    pub(crate) fn dispatch_group(
        &mut self,
        key: ApiKey,
        address: &Address,
        head: &RequestHead,
        reader: Reader,
    ) -> Outcome {
        match key {
            ApiKey::JoinGroup => {
                let client = self.client(address, head);
                self.with(address, reader, |shard, address, request| {
                    shard.on_join_group(address, client, request)
                })
            }
            ApiKey::ConsumerGroupHeartbeat => {
                let client = self.client(address, head);
                self.with(address, reader, |shard, address, request| {
                    shard.on_consumer_group_heartbeat(address, client, request)
                })
            }
            ApiKey::SyncGroup => self.with(address, reader, Shard::on_sync_group),
            ApiKey::Heartbeat => self.with(address, reader, Shard::on_heartbeat),
            ApiKey::LeaveGroup => self.with(address, reader, Shard::on_leave_group),
            ApiKey::OffsetCommit => self.with(address, reader, Shard::on_offset_commit),
            ApiKey::OffsetFetch => self.with(address, reader, Shard::on_offset_fetch),
            ApiKey::OffsetDelete => self.with(address, reader, Shard::on_offset_delete),
            ApiKey::DescribeGroups => self.with(address, reader, Shard::on_describe_groups),
            ApiKey::ListGroups => self.with(address, reader, Shard::on_list_groups),
            ApiKey::DeleteGroups => self.with(address, reader, Shard::on_delete_groups),
            ApiKey::ConsumerGroupDescribe => {
                self.with(address, reader, Shard::on_consumer_group_describe)
            }
            // The table lists nothing that has no arm in a router.
            _ => Outcome::Close,
        }
    }

    /// Whether the cluster has taken up the consumer protocol, and this broker speaks it; groups of it that exist stay as they
    /// are meanwhile.
    pub(crate) fn has_consumer_groups(&self) -> bool {
        let level = self.shared.metadata.image().feature(GROUP_VERSION);
        0 < level && self.shared.config().has_consumer_protocol
    }

    fn client(&self, address: &Address, head: &RequestHead) -> Client {
        let peer = self
            .connections
            .get(&address.conn)
            .map(|connection| connection.peer.ip());
        Client {
            id: head.client_id.clone().unwrap_or_default(),
            // As Java prints an address that has no name.
            host: peer.map_or_else(String::new, |ip| format!("/{ip}")),
        }
    }

    pub(crate) fn fresh_uuid(&self) -> Uuid {
        random_uuid(&self.shared.env)
    }
}
