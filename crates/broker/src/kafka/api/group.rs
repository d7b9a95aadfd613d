//! Requests about groups: what their handlers share.

use coord::group::Client;
use wire::{ErrorCode, RequestHead};

use super::NO_OPERATIONS;
use crate::asker::Asker;
use crate::asker::access::{self, Resource};
use crate::kafka::call::Call;

/// As a response says it.
pub(super) fn code(result: Result<(), ErrorCode>) -> i16 {
    result.err().unwrap_or(ErrorCode::None).code()
}

/// The state of a group that is not there.
pub(super) const DEAD: &str = "Dead";

/// The operations that `asker` may do to a group that was described; none of one that was not, or where nobody asked.
pub(super) fn operations(asker: Option<&Asker>, group_id: &str, error_code: i16) -> i32 {
    match asker {
        Some(asker) if error_code == 0 => access::operations(asker, Resource::group(group_id)),
        _ => NO_OPERATIONS,
    }
}

pub(crate) fn client(call: &Call<'_>, head: &RequestHead) -> Client {
    Client {
        id: head.client_id.clone().unwrap_or_default(),
        // As Java prints an address that has no name.
        host: format!("/{}", call.asker.peer.ip()),
    }
}
