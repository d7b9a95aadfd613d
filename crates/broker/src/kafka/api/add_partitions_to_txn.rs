//! AddPartitionsToTxn: partitions of an open transaction (KIP-98). Since version 4 for several transactions, and only to see
//! whether they are in it (KIP-890); only brokers ask so.

use coord::txn::TxnPartition;
use wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use wire::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};
use wire::{ApiKey, ErrorCode};

use super::txn::{fenced, producer};
use crate::asker::Asker;
use crate::asker::access::Resource;
use crate::kafka::call::Call;
use crate::mail::question::Join;
use crate::net::Outcome;
use crate::ops::query::Joined;
use crate::ops::txns::{self, Asked, Named, Protocol};
use security::authorize::Operation;

/// First version that names several transactions.
const BATCH_VERSION: i16 = 4;
/// First version whose clients know PRODUCER_FENCED.
const FENCED_VERSION: i16 = 2;

type TopicResults = Vec<AddPartitionsToTxnTopicResult>;

pub(crate) fn on_add_partitions_to_txn(
    call: &mut Call<'_>,
    request: AddPartitionsToTxnRequest,
) -> Outcome {
    let version = call.version();
    let transactions = if version >= BATCH_VERSION {
        request.transactions
    } else {
        vec![AddPartitionsToTxnTransaction {
            transactional_id: request.v3_and_below_transactional_id,
            producer_id: request.v3_and_below_producer_id,
            producer_epoch: request.v3_and_below_producer_epoch,
            verify_only: false,
            topics: request.v3_and_below_topics,
        }]
    };
    let mut questions = Vec::with_capacity(transactions.len());
    let mut refused: Vec<Option<TopicResults>> = Vec::with_capacity(transactions.len());
    for txn in &transactions {
        match question(call, txn, version) {
            Ok(question) => {
                questions.push(question);
                refused.push(None);
            }
            Err(results) => refused.push(Some(results)),
        }
    }
    call.ask_all(questions, move |call, told| {
        let mut told = told.into_iter();
        let results = transactions.into_iter().zip(refused).map(|(txn, refused)| {
            let topic_results = refused.unwrap_or_else(|| {
                let told = told.next().unwrap_or(Err(ErrorCode::NotCoordinator));
                results(&txn.topics, told, version >= FENCED_VERSION)
            });
            AddPartitionsToTxnResult {
                transactional_id: txn.transactional_id,
                topic_results,
            }
        });
        let mut results: Vec<_> = results.collect();
        let response = if version >= BATCH_VERSION {
            AddPartitionsToTxnResponse {
                results_by_transaction: results,
                ..Default::default()
            }
        } else {
            AddPartitionsToTxnResponse {
                results_by_topic_v3_and_below: results
                    .pop()
                    .map_or_else(Vec::new, |result| result.topic_results),
                ..Default::default()
            }
        };
        call.reply(ApiKey::AddPartitionsToTxn, &response)
    })
}

/// The transaction, for its own client, or for a broker that asked its client before.
fn named(
    asker: &Asker,
    txn: &AddPartitionsToTxnTransaction,
    version: i16,
) -> Result<Named, ErrorCode> {
    let producer = producer(txn.producer_id, txn.producer_epoch);
    if version < BATCH_VERSION {
        let id = Resource::transactional_id(&txn.transactional_id);
        let granted = asker.grant(Operation::Write, id)?;
        return Ok(Named::new(granted, producer));
    }
    let granted = asker.grant(Operation::ClusterAction, Resource::CLUSTER)?;
    let id = txn.transactional_id.clone();
    Ok(Named::for_node(granted, id, producer))
}

/// With a partition that does not exist, or that a client may not write, nothing is added at all.
fn refuse_topics(
    call: &mut Call<'_>,
    asked: &[AddPartitionsToTxnTopic],
    version: i16,
) -> Option<TopicResults> {
    let topics = call.desk.topics();
    let asker = &call.asker;
    let writes = |name: &str| {
        let topic = Resource::topic(name);
        asker.grant(Operation::Write, topic).is_ok()
    };
    let refusal = |name: &str, index: i32| {
        let is_there = topics.named(name).is_some_and(|topic| topic.has(index));
        // Brokers have asked their client.
        if version < BATCH_VERSION && (meta::name::is_internal(name) || !writes(name)) {
            Some(ErrorCode::TopicAuthorizationFailed)
        } else if !is_there {
            Some(ErrorCode::UnknownTopicOrPartition)
        } else {
            None
        }
    };
    let mut places = asked.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|index| (topic.name.as_str(), *index))
    });
    let is_refused = places.any(|(name, index)| refusal(name, index).is_some());
    is_refused.then(|| {
        answers(asked, |name, index| {
            refusal(name, index).unwrap_or(ErrorCode::OperationNotAttempted)
        })
    })
}

/// The question to the coordinator, or the results of a transaction that is refused before.
fn question(
    call: &mut Call<'_>,
    txn: &AddPartitionsToTxnTransaction,
    version: i16,
) -> Result<Asked<Join>, TopicResults> {
    let named = named(&call.asker, txn, version);
    let named = named.map_err(|code| answers(&txn.topics, |_, _| code))?;
    if let Some(refused) = refuse_topics(call, &txn.topics, version) {
        return Err(refused);
    }
    let places = places(&txn.topics);
    Ok(if txn.verify_only {
        let (partition, verify) = txns::verify(call.desk, named, places);
        (partition, Join::Verify(verify))
    } else {
        let protocol = if version >= BATCH_VERSION {
            Protocol::BrokerAdds
        } else {
            Protocol::ClientAdds
        };
        let (partition, add) = txns::add(call.desk, named, places, protocol);
        (partition, Join::Add(add))
    })
}

fn places(topics: &[AddPartitionsToTxnTopic]) -> Vec<TxnPartition> {
    let places = topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|index| (topic.name.clone(), *index))
    });
    places.collect()
}

fn results(
    topics: &[AddPartitionsToTxnTopic],
    told: Result<Joined, ErrorCode>,
    knows_fenced: bool,
) -> TopicResults {
    let joined = told.unwrap_or_else(|code| Joined::All(Err(code)));
    let mut numbers = 0..;
    answers(topics, |_, _| {
        let result = joined.of(numbers.next().unwrap_or(0));
        fenced(result.err().unwrap_or(ErrorCode::None), knows_fenced)
    })
}

fn answers(
    topics: &[AddPartitionsToTxnTopic],
    mut code: impl FnMut(&str, i32) -> ErrorCode,
) -> TopicResults {
    let mut answer = |topic: &AddPartitionsToTxnTopic| AddPartitionsToTxnTopicResult {
        name: topic.name.clone(),
        results_by_partition: topic
            .partitions
            .iter()
            .map(|index| AddPartitionsToTxnPartitionResult {
                partition_index: *index,
                partition_error_code: code(&topic.name, *index).code(),
            })
            .collect(),
    };
    topics.iter().map(&mut answer).collect()
}

#[cfg(test)]
mod tests {
    use wire::messages::{CreateTopicsRequest, FindCoordinatorRequest};

    use super::*;
    use crate::event_loop::bench::{Bench, encoded};

    /// Offsets of a group join by its name; who could add their partition would hold up the readers of all groups in it.
    #[test]
    fn clients_add_no_partition_that_the_broker_keeps_for_itself() {
        let mut bench = Bench::new();
        bench.create("t", 1);
        bench.answer::<CreateTopicsRequest>(4);
        let find = FindCoordinatorRequest {
            key: "g".to_owned(),
            ..Default::default()
        };
        bench.put(&encoded(&find, 3));
        bench.commit();
        assert!(bench.answer::<FindCoordinatorRequest>(3).is_some());

        let topic = |name: &str| AddPartitionsToTxnTopic {
            name: name.to_owned(),
            partitions: vec![0],
        };
        for version in 0..BATCH_VERSION {
            let request = AddPartitionsToTxnRequest {
                v3_and_below_transactional_id: "x".to_owned(),
                v3_and_below_topics: vec![topic("t"), topic(meta::name::OFFSETS), topic("absent")],
                ..Default::default()
            };
            bench.put(&encoded(&request, version));
            let response = bench.answer::<AddPartitionsToTxnRequest>(version);
            let response = response.expect("nobody need be asked");
            let topics = response.results_by_topic_v3_and_below.iter();
            let told: Vec<i16> = topics
                .map(|topic| topic.results_by_partition[0].partition_error_code)
                .collect();
            let codes = [
                ErrorCode::OperationNotAttempted,
                ErrorCode::TopicAuthorizationFailed,
                ErrorCode::UnknownTopicOrPartition,
            ];
            assert_eq!(told, codes.map(ErrorCode::code));
        }
    }
}
