//! Requests about transactions: from the router to the handler of each API, and what their answers share.

use bytes::Bytes;
use coord::txn::{Answer, Producer};
use model::{ProducerEpoch, ProducerId};
use wire::{ApiKey, ErrorCode, Reader};

use crate::kafka::Attempt;
use crate::shard::{Address, Outcome, Shard};

/// `transaction.version` of clients that ask for each partition, and of those that leave it to the broker (KIP-890).
pub(crate) const CLIENT_ADDS: i16 = 0;
pub(crate) const BROKER_ADDS: i16 = coord::txn::EPOCH_PER_TXN;

/// What the client is told when it was not the answer its request asks for.
pub(crate) fn unexpected(told: Result<Answer, ErrorCode>) -> ErrorCode {
    match told {
        // The state of the transaction does not fit a batch of its log, which the client knows nothing of.
        Err(ErrorCode::MessageTooLarge) => ErrorCode::UnknownServerError,
        Err(code) => code,
        Ok(answer) => unreachable!("a transaction coordinator answered {answer:?}"),
    }
}

/// Clients from before KIP-588 know of producers with an old epoch only.
pub(crate) fn fenced(code: ErrorCode, knows_fenced: bool) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced if !knows_fenced => ErrorCode::InvalidProducerEpoch,
        code => code,
    }
}

pub(crate) fn producer(id: i64, epoch: i16) -> Producer {
    Producer {
        id: ProducerId(id),
        epoch: ProducerEpoch(epoch),
    }
}

impl Shard {
    pub(crate) fn dispatch_txn(
        &mut self,
        key: ApiKey,
        address: &Address,
        reader: Reader,
        frame: Bytes,
        attempt: Attempt,
    ) -> Outcome {
        match key {
            ApiKey::AddPartitionsToTxn => {
                self.with(address, reader, Shard::on_add_partitions_to_txn)
            }
            ApiKey::AddOffsetsToTxn => self.with(address, reader, Shard::on_add_offsets_to_txn),
            ApiKey::EndTxn => self.with(address, reader, |shard, address, request| {
                shard.on_end_txn(address, request, frame, attempt)
            }),
            ApiKey::TxnOffsetCommit => self.with(address, reader, Shard::on_txn_offset_commit),
            ApiKey::WriteTxnMarkers => self.with(address, reader, Shard::on_write_txn_markers),
            ApiKey::DescribeTransactions => {
                self.with(address, reader, Shard::on_describe_transactions)
            }
            ApiKey::ListTransactions => self.with(address, reader, Shard::on_list_transactions),
            // The table lists nothing that has no arm in a router.
            _ => Outcome::Close,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_too_large_for_its_log_is_the_servers_own_trouble() {
        for (code, told) in [
            (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError),
            (ErrorCode::NotCoordinator, ErrorCode::NotCoordinator),
        ] {
            assert_eq!(unexpected(Err(code)), told);
        }
    }
}
