//! AddOffsetsToTxn: the offsets of a group become part of the transaction, which is the partition of their log.

use coord::txn::{Answer, Ask};
use wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use wire::{ApiKey, ErrorCode};

use super::txn::{CLIENT_ADDS, fenced, producer, unexpected};
use crate::shard::{Address, Outcome, Shard};

/// First version whose clients know PRODUCER_FENCED.
const FENCED_VERSION: i16 = 2;

impl Shard {
    pub(crate) fn on_add_offsets_to_txn(
        &mut self,
        address: &Address,
        request: AddOffsetsToTxnRequest,
    ) -> Outcome {
        let offsets = self.group_partition(&request.group_id);
        let ask = Ask::Add {
            transactional_id: request.transactional_id,
            producer: producer(request.producer_id, request.producer_epoch),
            places: vec![(meta::name::OFFSETS.to_owned(), offsets)],
            version: CLIENT_ADDS,
            may_wait: false,
        };
        self.ask_txn(address, ask, |shard, address, told| {
            let code = match told {
                Ok(Answer::Add(added)) => added.err().unwrap_or(ErrorCode::None),
                other => unexpected(other),
            };
            let response = AddOffsetsToTxnResponse {
                error_code: fenced(code, address.version >= FENCED_VERSION).code(),
                ..Default::default()
            };
            shard.reply(address, ApiKey::AddOffsetsToTxn, &response)
        })
    }
}
