//! WriteTxnMarkers: the end of a transaction in some partitions, asked for by an operator whose transaction hangs (KIP-664).

use coord::txn::TxnPartition;
use model::{ProducerEpoch, ProducerId};
use partition::Marker;
use wire::messages::write_txn_markers_request::WritableTxnMarker;
use wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use wire::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use wire::records::EndTxn;
use wire::{ApiKey, ErrorCode};

use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::txns::{self, MayMark};

pub(crate) fn on_write_txn_markers(
    call: &mut Call<'_>,
    request: WriteTxnMarkersRequest,
) -> Outcome {
    let may = match MayMark::ask(&call.asker) {
        Ok(may) => may,
        Err(code) => return respond(call, &request, || code),
    };
    let mut questions = Vec::new();
    for asked in &request.markers {
        let marker = marker(asked);
        for (topic, index) in places(asked) {
            questions.push(txns::mark(may, (topic, index), marker));
        }
    }
    call.ask_all(questions, move |call, told| {
        let mut told = told.into_iter();
        respond(call, &request, || match told.next() {
            Some(Err(code)) => refusal(code),
            Some(Ok(_)) | None => ErrorCode::None,
        })
    })
}

/// `next` gives the code of one partition after the other.
fn respond(
    call: &mut Call<'_>,
    request: &WriteTxnMarkersRequest,
    mut next: impl FnMut() -> ErrorCode,
) -> Outcome {
    let mut answer = |asked: &WritableTxnMarker| WritableTxnMarkerResult {
        producer_id: asked.producer_id,
        topics: asked
            .topics
            .iter()
            .map(|topic| WritableTxnMarkerTopicResult {
                name: topic.name.clone(),
                partitions: topic
                    .partition_indexes
                    .iter()
                    .map(|index| WritableTxnMarkerPartitionResult {
                        partition_index: *index,
                        error_code: next().code(),
                    })
                    .collect(),
            })
            .collect(),
    };
    let response = WriteTxnMarkersResponse {
        markers: request.markers.iter().map(&mut answer).collect(),
    };
    call.reply(ApiKey::WriteTxnMarkers, &response)
}

/// The client looks for the leader of a partition, also where that is the log of groups and its coordinator is not there yet.
fn refusal(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => ErrorCode::NotLeaderOrFollower,
        code => code,
    }
}

fn marker(asked: &WritableTxnMarker) -> Marker {
    Marker {
        producer_id: ProducerId(asked.producer_id),
        producer_epoch: ProducerEpoch(asked.producer_epoch),
        end: EndTxn {
            committed: asked.transaction_result,
            coordinator_epoch: asked.coordinator_epoch,
        },
        transaction_version: i16::from(asked.transaction_version),
    }
}

fn places(asked: &WritableTxnMarker) -> impl Iterator<Item = TxnPartition> {
    asked.topics.iter().flat_map(|topic| {
        let indexes = topic.partition_indexes.iter();
        indexes.map(|index| (topic.name.clone(), *index))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_groups_that_is_being_loaded_has_no_leader_yet() {
        for (code, told) in [
            (
                ErrorCode::CoordinatorLoadInProgress,
                ErrorCode::NotLeaderOrFollower,
            ),
            (ErrorCode::NotCoordinator, ErrorCode::NotLeaderOrFollower),
            (
                ErrorCode::InvalidProducerEpoch,
                ErrorCode::InvalidProducerEpoch,
            ),
        ] {
            assert_eq!(refusal(code), told);
        }
    }
}
