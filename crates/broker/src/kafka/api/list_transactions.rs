//! ListTransactions: the transactions of every coordinator of this broker (KIP-664, 994, 1152).

use std::sync::Arc;

use coord::Pattern;
use coord::txn::{Filter, List, TxnState};
use model::ProducerId;
use wire::messages::list_transactions_response::TransactionState;
use wire::messages::{ListTransactionsRequest, ListTransactionsResponse};
use wire::{ApiKey, ErrorCode};

use crate::asker::access::Resource;
use crate::kafka::call::Call;
use crate::net::Outcome;
use security::authorize::Operation;

pub(crate) fn on_list_transactions(
    call: &mut Call<'_>,
    request: ListTransactionsRequest,
) -> Outcome {
    let (known, unknown): (Vec<String>, Vec<String>) = request
        .state_filters
        .into_iter()
        .partition(|name| TxnState::is_known(name));
    let mut states: Vec<TxnState> = Vec::new();
    for state in known.iter().filter_map(|name| TxnState::named(name)) {
        if !states.contains(&state) {
            states.push(state);
        }
    }
    let names_none = states.is_empty() && !(known.is_empty() && unknown.is_empty());
    let pattern = request.transactional_id_pattern.unwrap_or_default();
    let pattern = match pattern.as_str() {
        "" => Ok(None),
        pattern => Pattern::new(pattern).map(Some),
    };
    let Ok(pattern) = pattern else {
        let response = ListTransactionsResponse {
            error_code: ErrorCode::InvalidRegularExpression.code(),
            ..Default::default()
        };
        return call.reply(ApiKey::ListTransactions, &response);
    };
    let filter = Arc::new(Filter {
        pattern,
        states,
        producer_ids: request
            .producer_id_filters
            .into_iter()
            .map(ProducerId)
            .collect(),
        duration_ms: (request.duration_filter >= 0).then_some(request.duration_filter),
    });
    let topics = call.desk.topics();
    let partitions = match topics.named(meta::name::TRANSACTIONS) {
        // No transaction is in a state that nobody knows, or that none rests in.
        Some(topic) if !names_none => super::number(topic.partitions_count()),
        _ => 0,
    };
    let questions = (0..partitions)
        .map(|partition| {
            let filter = Arc::clone(&filter);
            (partition, List { filter })
        })
        .collect();
    call.ask_all(questions, |call, told| {
        let mut response = ListTransactionsResponse {
            unknown_state_filters: unknown,
            ..Default::default()
        };
        for told in told {
            match told {
                Ok(found) => {
                    let seen = found.into_iter().filter(|found| {
                        let id = Resource::transactional_id(&found.transactional_id);
                        call.asker.grant(Operation::Describe, id).is_ok()
                    });
                    let states = seen.map(|found| TransactionState {
                        transactional_id: found.transactional_id,
                        producer_id: found.producer.id.0,
                        transaction_state: found.state.name().to_owned(),
                    });
                    response.transaction_states.extend(states);
                }
                // Not ours to list.
                Err(ErrorCode::NotCoordinator) => {}
                // A list with a part missing would look as if those transactions were gone.
                Err(code) => response.error_code = code.code(),
            }
        }
        if response.error_code != 0 {
            response.transaction_states.clear();
        }
        call.reply(ApiKey::ListTransactions, &response)
    })
}
