//! DescribeTransactions: where transactions stand, by their ids (KIP-664).

use coord::txn::{Describe, Described};
use wire::messages::describe_transactions_response::{TopicData, TransactionState};
use wire::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse};
use wire::{ApiKey, ErrorCode};

use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::once::keep_once;

pub(crate) fn on_describe_transactions(
    call: &mut Call<'_>,
    request: DescribeTransactionsRequest,
) -> Outcome {
    let mut ids = request.transactional_ids;
    keep_once(&mut ids);
    let questions = ids
        .iter()
        .map(|id| {
            let describe = Describe {
                transactional_id: id.clone(),
            };
            (call.desk.txn_partition(id), describe)
        })
        .collect();
    call.ask_all(questions, |call, told| {
        let described = told.into_iter().zip(ids).map(|(told, id)| {
            let told = if id.is_empty() {
                Err(ErrorCode::InvalidRequest)
            } else {
                told
            };
            match told {
                Ok(Some(found)) => state(found),
                Ok(None) => refuse(id, ErrorCode::TransactionalIdNotFound),
                Err(code) => refuse(id, code),
            }
        });
        let response = DescribeTransactionsResponse {
            transaction_states: described.collect(),
            ..Default::default()
        };
        call.reply(ApiKey::DescribeTransactions, &response)
    })
}

fn refuse(transactional_id: String, code: ErrorCode) -> TransactionState {
    TransactionState {
        error_code: code.code(),
        transactional_id,
        ..Default::default()
    }
}

fn state(found: Described) -> TransactionState {
    let mut topics: Vec<TopicData> = Vec::new();
    // In the order of their names, so that those of one topic are neighbours.
    for (topic, partition) in found.places {
        match topics.last_mut() {
            Some(last) if last.topic == topic => last.partitions.push(partition),
            _ => topics.push(TopicData {
                topic,
                partitions: vec![partition],
            }),
        }
    }
    TransactionState {
        error_code: 0,
        transactional_id: found.transactional_id,
        transaction_state: found.state.name().to_owned(),
        transaction_timeout_ms: found.timeout_ms,
        transaction_start_time_ms: found.start.0,
        producer_id: found.producer.id.0,
        producer_epoch: found.producer.epoch.0,
        topics,
    }
}
