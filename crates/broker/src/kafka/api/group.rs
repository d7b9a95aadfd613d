//! Requests about groups: from the router to the handler of each API.

use coord::group::Client;
use wire::{ApiKey, ErrorCode, Reader, RequestHead};

use super::NO_OPERATIONS;
use super::consumer_group_heartbeat::on_consumer_group_heartbeat;
use super::join_group::on_join_group;
use crate::event_loop::Outcome;
use crate::kafka::call::Call;
use crate::kafka::with;
use crate::ops::access::{self, Principal, Resource};

/// As a response says it.
pub(super) fn code(result: Result<(), ErrorCode>) -> i16 {
    result.err().unwrap_or(ErrorCode::None).code()
}

/// The state of a group that is not there.
pub(super) const DEAD: &str = "Dead";

/// What `asker` may do to a group that was described; nothing is told of one that was not, or where nobody asked.
pub(super) fn operations(asker: Option<Principal>, group_id: &str, error_code: i16) -> i32 {
    match asker {
        Some(asker) if error_code == 0 => access::operations(asker, Resource::group(group_id)),
        _ => NO_OPERATIONS,
    }
}

pub(crate) fn dispatch_group(
    call: &mut Call<'_>,
    key: ApiKey,
    head: &RequestHead,
    reader: Reader,
) -> Outcome {
    match key {
        ApiKey::JoinGroup => {
            let client = client(call, head);
            with(call, reader, |call, request| {
                on_join_group(call, client, request)
            })
        }
        ApiKey::ConsumerGroupHeartbeat => {
            let client = client(call, head);
            with(call, reader, |call, request| {
                on_consumer_group_heartbeat(call, client, request)
            })
        }
        ApiKey::SyncGroup => with(call, reader, super::sync_group::on_sync_group),
        ApiKey::Heartbeat => with(call, reader, super::heartbeat::on_heartbeat),
        ApiKey::LeaveGroup => with(call, reader, super::leave_group::on_leave_group),
        ApiKey::OffsetCommit => with(call, reader, super::offset_commit::on_offset_commit),
        ApiKey::OffsetFetch => with(call, reader, super::offset_fetch::on_offset_fetch),
        ApiKey::OffsetDelete => with(call, reader, super::offset_delete::on_offset_delete),
        ApiKey::DescribeGroups => with(call, reader, super::describe_groups::on_describe_groups),
        ApiKey::ListGroups => with(call, reader, super::list_groups::on_list_groups),
        ApiKey::DeleteGroups => with(call, reader, super::delete_groups::on_delete_groups),
        ApiKey::ConsumerGroupDescribe => with(
            call,
            reader,
            super::consumer_group_describe::on_consumer_group_describe,
        ),
        // The table lists nothing that has no arm in a router.
        _ => Outcome::Close,
    }
}

fn client(call: &Call<'_>, head: &RequestHead) -> Client {
    Client {
        id: head.client_id.clone().unwrap_or_default(),
        // As Java prints an address that has no name.
        host: format!("/{}", call.asker.peer.ip()),
    }
}
