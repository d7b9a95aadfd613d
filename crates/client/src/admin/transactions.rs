//! Transactions: which there are, where they stand, and the end of one that hangs.

use wire::ErrorCode;
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::{
    DescribeTransactionsRequest, FindCoordinatorRequest, ListTransactionsRequest,
    WriteTxnMarkersRequest,
};

use super::ActiveProducer;
use crate::cluster::Client;
use crate::error::Error;

const TRANSACTION: i8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedTransaction {
    pub transactional_id: String,
    pub producer_id: i64,
    pub state: String,
    /// The broker that coordinates it.
    pub coordinator: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedTransaction {
    pub transactional_id: String,
    pub state: String,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub timeout_ms: i32,
    /// Milliseconds since 1970; `None` before the first transaction.
    pub start_ms: Option<i64>,
    pub partitions: Vec<(String, i32)>,
}

impl Client {
    /// The transactions of every broker, in the order of their ids; with `states` only those in one of them, with `pattern` those
    /// whose whole id it matches.
    pub fn list_transactions(
        &mut self,
        states: &[String],
        pattern: Option<&str>,
    ) -> Result<Vec<ListedTransaction>, Error> {
        self.retry("listing transactions", |client| {
            let ids: Vec<i32> = client.brokers().keys().copied().collect();
            let mut listed = Vec::new();
            for coordinator in ids {
                let request = ListTransactionsRequest {
                    state_filters: states.to_vec(),
                    transactional_id_pattern: pattern.map(str::to_owned),
                    ..Default::default()
                };
                let response = client.call_broker(coordinator, &request)?;
                let what = || format!("listing transactions of broker {coordinator}");
                Error::check(response.error_code, what, None)?;
                let found = response.transaction_states.into_iter();
                listed.extend(found.map(|found| ListedTransaction {
                    transactional_id: found.transactional_id,
                    producer_id: found.producer_id,
                    state: found.transaction_state,
                    coordinator,
                }));
            }
            listed.sort_by(|left, right| left.transactional_id.cmp(&right.transactional_id));
            Ok(listed)
        })
    }

    pub fn describe_transaction(&mut self, id: &str) -> Result<DescribedTransaction, Error> {
        let what = format!("describing transaction {id}");
        self.retry(&what, |client| {
            let request = FindCoordinatorRequest {
                key_type: TRANSACTION,
                coordinator_keys: vec![id.to_owned()],
                ..Default::default()
            };
            let found = client.call_any(&request)?;
            let unknown = || missing(&what);
            let found = found.coordinators.first().ok_or_else(unknown)?;
            Error::check(
                found.error_code,
                || what.clone(),
                found.error_message.as_deref(),
            )?;
            let request = DescribeTransactionsRequest {
                transactional_ids: vec![id.to_owned()],
            };
            let response = client.call_broker(found.node_id, &request)?;
            let state = response.transaction_states.into_iter().next();
            let state = state.ok_or_else(unknown)?;
            Error::check(state.error_code, || what.clone(), None)?;
            let partitions = state.topics.iter().flat_map(|topic| {
                let indexes = topic.partitions.iter();
                indexes.map(|index| (topic.topic.clone(), *index))
            });
            Ok(DescribedTransaction {
                partitions: partitions.collect(),
                transactional_id: state.transactional_id,
                state: state.transaction_state,
                producer_id: state.producer_id,
                producer_epoch: state.producer_epoch,
                timeout_ms: state.transaction_timeout_ms,
                start_ms: Some(state.transaction_start_time_ms).filter(|start| *start >= 0),
            })
        })
    }

    /// Ends the open transaction of `producer` in one partition, whatever its coordinator knows of it: its records are dropped by
    /// readers of committed data.
    pub fn abort_hanging(
        &mut self,
        topic: &str,
        partition: i32,
        producer: &ActiveProducer,
    ) -> Result<(), Error> {
        let what = format!("aborting in {topic}-{partition}");
        self.retry(&what, |client| {
            let leader = client.topic(topic)?.leader(partition)?;
            let marker = WritableTxnMarker {
                producer_id: producer.producer_id,
                producer_epoch: i16::try_from(producer.epoch).unwrap_or(i16::MAX),
                transaction_result: false,
                topics: vec![WritableTxnMarkerTopic {
                    name: topic.to_owned(),
                    partition_indexes: vec![partition],
                }],
                coordinator_epoch: producer.coordinator_epoch.max(0),
                ..Default::default()
            };
            let request = WriteTxnMarkersRequest {
                markers: vec![marker],
            };
            let response = client.call_broker(leader, &request)?;
            let topics = response.markers.iter().flat_map(|marker| &marker.topics);
            for answer in topics.flat_map(|topic| &topic.partitions) {
                Error::check(answer.error_code, || what.clone(), None)?;
            }
            Ok(())
        })
    }
}

/// An answer that leaves out what was asked.
fn missing(what: &str) -> Error {
    Error::Refused {
        what: what.to_owned(),
        code: ErrorCode::UnknownServerError,
        message: None,
    }
}
