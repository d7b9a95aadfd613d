//! Requests that several kinds of clients make alike, and what is alike in their answers.

use std::time::Duration;

use bytes::Bytes;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::produce_response::PartitionProduceResponse;
use wire::messages::{
    FetchRequest, FindCoordinatorRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest,
    ProduceRequest, ProduceResponse,
};
use wire::records::{Batch, Codec, Source};

use super::line::{LineError, nonsense};

/// Kinds of coordinators.
pub(crate) const GROUP: i8 = 0;
pub(super) const TRANSACTION: i8 = 1;

/// Longer than any connection stalls: what was sent before has arrived or never will.
pub(super) const STRAY_MAX: Duration = Duration::from_secs(10);
/// The time-out of a batch: longer than a leader that falls silent may take to answer.
const PRODUCE_MS: i32 = 20_000;

/// Partition and batch.
type Sent = (i32, Bytes);

pub(super) fn find_coordinator(key: &str, key_type: i8) -> FindCoordinatorRequest {
    FindCoordinatorRequest {
        key: key.to_owned(),
        key_type,
        ..Default::default()
    }
}

/// Gives each of these topics a setting of its own, or takes it away.
pub(super) fn alter(
    topics: &[&str],
    name: &str,
    value: Option<u64>,
) -> IncrementalAlterConfigsRequest {
    const TOPIC: i8 = 2;
    const DELETE: i8 = 1;
    let resource = |topic: &&str| AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: (*topic).to_owned(),
        configs: vec![AlterableConfig {
            name: name.to_owned(),
            config_operation: if value.is_some() { 0 } else { DELETE },
            value: value.map(|value| value.to_string()),
        }],
    };
    IncrementalAlterConfigsRequest {
        resources: topics.iter().map(resource).collect(),
        validate_only: false,
    }
}

/// Of an idempotent producer.
pub(super) fn init_producer_id() -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: i32::MAX,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    }
}

pub(super) fn produce(
    transactional_id: Option<&str>,
    acks: i16,
    topic: &str,
    sent: impl IntoIterator<Item = Sent>,
) -> ProduceRequest {
    let sent = sent.into_iter();
    let partition_data = sent.map(|(index, records)| PartitionProduceData {
        index,
        records: Some(records.into()),
    });
    ProduceRequest {
        transactional_id: transactional_id.map(str::to_owned),
        acks,
        timeout_ms: PRODUCE_MS,
        topic_data: vec![TopicProduceData {
            name: topic.to_owned(),
            partition_data: partition_data.collect(),
            ..Default::default()
        }],
    }
}

/// The version that was drawn, or the first that may bring such batches: zstd comes since 7 (KIP-110).
pub(super) fn able_to_bring(records: &[&Bytes], drawn: u64) -> i16 {
    let is_zstd = |records: &&Bytes| {
        let batch = Batch::cut(records, Source::Produce).next();
        let batch = batch.and_then(Result::ok).expect("a batch of ours");
        batch.attributes().codec() == Some(Codec::Zstd)
    };
    if records.iter().any(is_zstd) {
        drawn.max(7) as i16
    } else {
        drawn as i16
    }
}

/// The outcome of the one batch that was sent, and the topic it went to.
pub(super) fn produced(
    response: ProduceResponse,
) -> Result<(String, PartitionProduceResponse), LineError> {
    let topics = response.responses.into_iter();
    let mut all = topics.flat_map(|topic| {
        let of = move |partition| (topic.name.clone(), partition);
        topic.partition_responses.into_iter().map(of)
    });
    match (all.next(), all.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(nonsense("one partition was asked")),
    }
}

/// Without a wait; each partition with the offset to begin at.
pub(super) fn fetch(
    topic: &str,
    is_committed: bool,
    partition_bytes_max: i32,
    from: impl IntoIterator<Item = (i32, i64)>,
) -> FetchRequest {
    let from = from.into_iter();
    let partitions = from.map(|(partition, fetch_offset)| FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: partition_bytes_max,
        ..Default::default()
    });
    FetchRequest {
        max_wait_ms: 0,
        max_bytes: 4 << 20,
        isolation_level: i8::from(is_committed),
        topics: vec![FetchTopic {
            topic: topic.to_owned(),
            partitions: partitions.collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}
