//! DescribeProducers: the idempotent producers a partition remembers (KIP-664), of each partition once.

use std::collections::HashSet;
use std::sync::Arc;

use partition::Partition;
use wire::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use wire::messages::{DescribeProducersRequest, DescribeProducersResponse};
use wire::{ApiKey, ErrorCode};

use crate::asker::Asker;
use crate::asker::access::Resource;
use crate::error;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::guard::Opened;
use crate::topics::Topics;
use security::authorize::Operation;

/// The partition, for those who may read it. A name that no topic can have is refused whoever asks.
fn open<'a>(
    topics: &'a Topics,
    asker: &Asker,
    name: &str,
    index: i32,
) -> Result<&'a Arc<Partition>, ErrorCode> {
    meta::name::check(name).map_err(|_| ErrorCode::InvalidTopicException)?;
    let granted = asker.grant(Operation::Read, Resource::topic(name))?;
    let topic = Opened::named(topics, granted, Operation::Read);
    let topic = topic.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let partition = topic.partition(index).map_err(error::absent)?;
    Ok(partition.get(Operation::Read))
}

pub(crate) fn on_describe_producers(
    call: &mut Call<'_>,
    request: DescribeProducersRequest,
) -> Outcome {
    let topics = call.desk.topics();
    let describe = |name: &str, index: i32| {
        let mut response = PartitionResponse {
            partition_index: index,
            ..Default::default()
        };
        match open(&topics, &call.asker, name, index) {
            Err(code) => {
                response.error_code = code.code();
                response.error_message = (code == ErrorCode::TopicAuthorizationFailed)
                    .then(|| code.message().to_owned());
            }
            // Its producers were not read, or are those of a log that nobody may trust any more.
            Ok(partition) if partition.is_offline() => {
                response.error_code = ErrorCode::KafkaStorageError.code();
            }
            Ok(partition) => {
                response.active_producers = partition.producers(|producers| {
                    producers
                        .sorted()
                        .into_iter()
                        .map(|(id, producer)| ProducerState {
                            producer_id: id.0,
                            producer_epoch: i32::from(producer.epoch.0),
                            last_sequence: producer
                                .last()
                                .map_or(-1, |batch| batch.last_sequence.0),
                            last_timestamp: producer.last_timestamp.0,
                            coordinator_epoch: producer.coordinator_epoch,
                            current_txn_start_offset: producer
                                .txn_start
                                .map_or(-1, |offset| offset.0),
                        })
                        .collect()
                });
            }
        }
        response
    };
    let mut seen = HashSet::new();
    let topics = request
        .topics
        .iter()
        .map(|topic| TopicResponse {
            name: topic.name.clone(),
            partitions: topic
                .partition_indexes
                .iter()
                .filter(|index| seen.insert((topic.name.as_str(), **index)))
                .map(|index| describe(&topic.name, *index))
                .collect(),
        })
        .collect();
    call.reply(
        ApiKey::DescribeProducers,
        &DescribeProducersResponse {
            topics,
            ..Default::default()
        },
    )
}

#[cfg(test)]
mod tests {
    use wire::messages::describe_producers_request::TopicRequest;

    use super::*;
    use crate::event_loop::bench::{Bench, encoded};

    #[test]
    fn a_name_that_no_topic_can_have_is_not_an_unknown_topic() {
        let mut bench = Bench::new();
        let topic = |name: &str| TopicRequest {
            name: name.to_owned(),
            partition_indexes: vec![0],
        };
        let request = DescribeProducersRequest {
            topics: vec![topic("no/topic"), topic("absent")],
        };
        bench.put(&encoded(&request, 0));
        let response = bench.answer::<DescribeProducersRequest>(0);
        let topics = response.expect("an answer").topics;
        let told: Vec<i16> = topics
            .iter()
            .map(|topic| topic.partitions[0].error_code)
            .collect();
        let codes = [
            ErrorCode::InvalidTopicException,
            ErrorCode::UnknownTopicOrPartition,
        ];
        assert_eq!(told, codes.map(ErrorCode::code));
    }
}
