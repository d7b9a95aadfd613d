//! DescribeTransactions: where transactions stand, by their ids (KIP-664).

use coord::txn::Described;
use wire::messages::describe_transactions_response::{TopicData, TransactionState};
use wire::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse};
use wire::{ApiKey, ErrorCode};

use crate::asker::Asker;
use crate::asker::access::Resource;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::once::keep_once;
use crate::ops::txns;
use security::authorize::Operation;

pub(crate) fn on_describe_transactions(
    call: &mut Call<'_>,
    request: DescribeTransactionsRequest,
) -> Outcome {
    let mut ids = request.transactional_ids;
    keep_once(&mut ids);
    let mut questions = Vec::with_capacity(ids.len());
    let mut denied = Vec::with_capacity(ids.len());
    for id in &ids {
        let of = Resource::transactional_id(id);
        let granted = call.asker.grant(Operation::Describe, of);
        let asked = granted.map(|granted| txns::describe(call.desk, granted));
        denied.push(asked.map(|question| questions.push(question)).err());
    }
    call.ask_all(questions, |call, told| {
        let mut told = told.into_iter();
        let mut told = move || told.next().unwrap_or(Err(ErrorCode::NotCoordinator));
        let described = denied.into_iter().zip(ids).map(|(denied, id)| {
            let told = match denied {
                Some(code) => Err(code),
                None => told(),
            };
            match told {
                Err(code @ ErrorCode::TransactionalIdAuthorizationFailed) => refuse(id, code),
                _ if id.is_empty() => refuse(id, ErrorCode::InvalidRequest),
                Ok(Some(found)) => state(found, &call.asker),
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

/// Topics that the asker may not see are left out.
fn state(found: Described, asker: &Asker) -> TransactionState {
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
    topics.retain(|topic| {
        let topic = Resource::topic(&topic.topic);
        asker.grant(Operation::Describe, topic).is_ok()
    });
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
