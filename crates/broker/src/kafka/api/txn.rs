//! Requests about transactions: from the router to the handler of each API, and what their answers share.

use coord::txn::Producer;
use model::{ProducerEpoch, ProducerId};
use wire::{ApiKey, ErrorCode, Reader};

use super::add_offsets_to_txn::on_add_offsets_to_txn;
use super::add_partitions_to_txn::on_add_partitions_to_txn;
use super::describe_transactions::on_describe_transactions;
use super::end_txn::on_end_txn;
use super::find_coordinator::on_find_coordinator;
use super::init_producer_id::on_init_producer_id;
use super::list_transactions::on_list_transactions;
use super::txn_offset_commit::on_txn_offset_commit;
use super::write_txn_markers::on_write_txn_markers;
use crate::event_loop::Outcome;
use crate::kafka::call::Call;
use crate::kafka::{Attempt, with};

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

pub(crate) fn dispatch_txn(call: &mut Call<'_>, key: ApiKey, reader: Reader) -> Outcome {
    match key {
        ApiKey::InitProducerId => with(call, reader, |call, request| {
            on_init_producer_id(call, request, Attempt::First)
        }),
        ApiKey::FindCoordinator => with(call, reader, |call, request| {
            on_find_coordinator(call, request, Attempt::First)
        }),
        ApiKey::AddPartitionsToTxn => with(call, reader, on_add_partitions_to_txn),
        ApiKey::AddOffsetsToTxn => with(call, reader, on_add_offsets_to_txn),
        ApiKey::EndTxn => with(call, reader, |call, request| {
            on_end_txn(call, request, Attempt::First)
        }),
        ApiKey::TxnOffsetCommit => with(call, reader, on_txn_offset_commit),
        ApiKey::WriteTxnMarkers => with(call, reader, on_write_txn_markers),
        ApiKey::DescribeTransactions => with(call, reader, on_describe_transactions),
        ApiKey::ListTransactions => with(call, reader, on_list_transactions),
        // The table lists nothing that has no arm in a router.
        _ => Outcome::Close,
    }
}
