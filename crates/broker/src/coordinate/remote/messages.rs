//! Marks and joins as the protocol has them, and what its answers say of each.
//!
//! An answer is looked through by name: other brokers give its parts in any order. A part that is missing was not done.

use std::collections::{BTreeMap, HashMap};

use coord::txn::{self, Answer, TxnPartition};
use wire::ErrorCode;
use wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
};

use super::{Join, Mark, Outcome};
use crate::error::of_code;
use crate::mail::question::Join as Ask;
use crate::peers;

/// While a broker cannot be asked, or does not answer for a part.
const UNANSWERED: ErrorCode = ErrorCode::NetworkException;

pub(super) fn by_topic<'a>(
    places: impl Iterator<Item = &'a TxnPartition>,
) -> BTreeMap<&'a str, Vec<i32>> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, index) in places {
        topics.entry(topic).or_default().push(*index);
    }
    topics
}

pub(super) fn marks(marks: &[Mark]) -> WriteTxnMarkersRequest {
    let mut same: BTreeMap<_, Vec<&Mark>> = BTreeMap::new();
    for mark in marks {
        let marker = &mark.marker;
        let end = &marker.end;
        let producer = (marker.producer_id.0, marker.producer_epoch.0);
        let key = (
            producer,
            end.coordinator_epoch,
            end.committed,
            marker.transaction_version,
        );
        same.entry(key).or_default().push(mark);
    }
    let markers = same.into_iter().map(|(key, marks)| {
        let ((producer_id, producer_epoch), coordinator_epoch, transaction_result, version) = key;
        let topics = by_topic(marks.iter().map(|mark| &mark.place)).into_iter();
        WritableTxnMarker {
            producer_id,
            producer_epoch,
            transaction_result,
            topics: topics
                .map(|(name, partition_indexes)| WritableTxnMarkerTopic {
                    name: name.to_owned(),
                    partition_indexes,
                })
                .collect(),
            coordinator_epoch,
            transaction_version: i8::try_from(version).unwrap_or(i8::MAX),
        }
    });
    WriteTxnMarkersRequest {
        markers: markers.collect(),
    }
}

pub(super) fn marked(marks: &[Mark], answer: Option<peers::Answer>) -> Vec<Outcome> {
    let answer: Option<WriteTxnMarkersResponse> = answer.and_then(peers::Answer::read);
    let mut codes: HashMap<(i64, &str, i32), i16> = HashMap::new();
    for marker in answer.iter().flat_map(|answer| &answer.markers) {
        for topic in &marker.topics {
            for one in &topic.partitions {
                let place = (marker.producer_id, topic.name.as_str(), one.partition_index);
                codes.insert(place, one.error_code);
            }
        }
    }
    let outcome = |mark: &Mark| {
        let (topic, index) = &mark.place;
        let code = codes.get(&(mark.marker.producer_id.0, topic.as_str(), *index));
        let code = code.map_or(UNANSWERED, |code| of_code(*code));
        Outcome::Marked(
            mark.ticket,
            Some(code).filter(|code| *code != ErrorCode::None),
        )
    };
    marks.iter().map(outcome).collect()
}

pub(super) fn joins(joins: &[Join]) -> AddPartitionsToTxnRequest {
    let transaction = |join: &Join| {
        let (id, producer, places, verify_only) = match &join.ask {
            Ask::Add(add) => (&add.transactional_id, add.producer, &add.places, false),
            Ask::Verify(ask) => (&ask.transactional_id, ask.producer, &ask.places, true),
        };
        let topics = by_topic(places.iter()).into_iter();
        AddPartitionsToTxnTransaction {
            transactional_id: id.clone(),
            producer_id: producer.id.0,
            producer_epoch: producer.epoch.0,
            verify_only,
            topics: topics
                .map(|(name, partitions)| AddPartitionsToTxnTopic {
                    name: name.to_owned(),
                    partitions,
                })
                .collect(),
        }
    };
    AddPartitionsToTxnRequest {
        transactions: joins.iter().map(transaction).collect(),
        ..Default::default()
    }
}

/// One result for each, in their order.
pub(super) fn joined(
    joins: &[Join],
    answer: Option<peers::Answer>,
) -> Vec<Result<Answer, ErrorCode>> {
    let answer: Option<AddPartitionsToTxnResponse> = answer.and_then(peers::Answer::read);
    let answer = answer.filter(|answer| answer.error_code == ErrorCode::None.code());
    let mut codes: HashMap<(&str, &str, i32), i16> = HashMap::new();
    for result in answer
        .iter()
        .flat_map(|answer| &answer.results_by_transaction)
    {
        for topic in &result.topic_results {
            for one in &topic.results_by_partition {
                let id = result.transactional_id.as_str();
                let place = (id, topic.name.as_str(), one.partition_index);
                codes.insert(place, one.partition_error_code);
            }
        }
    }
    let told = |id: &str, (topic, index): &TxnPartition| {
        let code = codes.get(&(id, topic.as_str(), *index))?;
        Some(match of_code(*code) {
            ErrorCode::None => Ok(()),
            code => Err(code),
        })
    };
    let result = |join: &Join| match &join.ask {
        Ask::Verify(txn::Verify {
            transactional_id,
            places,
            ..
        }) => {
            let each = places.iter().map(|place| told(transactional_id, place));
            let each: Option<Vec<_>> = each.collect();
            each.map(Answer::Verify)
                .ok_or(ErrorCode::CoordinatorNotAvailable)
        }
        Ask::Add(txn::Add {
            transactional_id,
            places,
            ..
        }) => {
            let each = places.iter().map(|place| told(transactional_id, place));
            let each: Option<Vec<_>> = each.collect();
            let each = each.ok_or(ErrorCode::CoordinatorNotAvailable)?;
            // All of them are added, or none: the others say only that nothing was attempted.
            let refused = each.into_iter().filter_map(Result::err);
            let why = refused.min_by_key(|code| *code == ErrorCode::OperationNotAttempted);
            Ok(Answer::Add(why.map_or(Ok(()), Err)))
        }
    };
    joins.iter().map(result).collect()
}
