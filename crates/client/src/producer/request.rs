//! Produce requests out of batches, and answers back to them.

use std::collections::VecDeque;

use wire::Records;
use wire::messages::ProduceRequest;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::produce_response::{PartitionProduceResponse, ProduceResponse};

use super::{Acks, Item, TopicState};

/// A request takes no further batch once it is this large: below the 100 MiB that brokers accept, above any sensible batch.
const REQUEST_BYTES_FULL: usize = 8 << 20;
/// Last version that names topics; later ones need their ids.
const NAMED_VERSION_MAX: i16 = 12;

/// Takes the next batch of every waiting lane that `broker` leads. Lanes that still have some stay in the list, in order.
pub(super) fn gather(
    topics: &mut [TopicState],
    ready: &mut VecDeque<(usize, usize)>,
    broker: i32,
) -> Vec<Item> {
    let mut items = Vec::new();
    let mut size = 0;
    for _ in 0..ready.len() {
        let Some((topic, partition)) = ready.pop_front() else {
            break;
        };
        let lane = &mut topics[topic].lanes[partition];
        if lane.leader == Some(broker)
            && size < REQUEST_BYTES_FULL
            && let Some(waiting) = lane.next()
        {
            size += waiting.bytes.len();
            let serial = waiting.serial;
            items.push(Item {
                topic,
                partition,
                serial,
            });
        }
        lane.is_listed = lane.has_unsent();
        if lane.is_listed {
            ready.push_back((topic, partition));
        }
    }
    items
}

/// The request for some batches, and the newest version that can carry it.
pub(super) fn build(
    topics: &[TopicState],
    items: &[Item],
    acks: Acks,
    timeout_ms: i32,
) -> (ProduceRequest, i16) {
    let mut request = ProduceRequest {
        transactional_id: None,
        acks: acks.number(),
        timeout_ms,
        topic_data: Vec::new(),
    };
    let mut at: Vec<usize> = Vec::new();
    let mut limit = i16::MAX;
    for item in items {
        let state = &topics[item.topic];
        if state.id.is_zero() {
            limit = NAMED_VERSION_MAX;
        }
        let place = at
            .iter()
            .position(|topic| *topic == item.topic)
            .unwrap_or_else(|| {
                at.push(item.topic);
                request.topic_data.push(TopicProduceData {
                    name: state.name.clone(),
                    topic_id: state.id,
                    partition_data: Vec::new(),
                });
                at.len() - 1
            });
        let bytes = state.lanes[item.partition].batch(item.serial).bytes.clone();
        let records = Some(Records::Bytes(bytes));
        request.topic_data[place]
            .partition_data
            .push(PartitionProduceData {
                index: item.partition as i32,
                records,
            });
    }
    (request, limit)
}

/// The answer for one partition; topics are told by name in old versions, by id in new ones.
pub(super) fn answer<'a>(
    response: &'a ProduceResponse,
    topic: &TopicState,
    partition: usize,
) -> Option<&'a PartitionProduceResponse> {
    let of_topic = response.responses.iter().filter(|answer| {
        if answer.topic_id.is_zero() {
            answer.name == topic.name
        } else {
            answer.topic_id == topic.id
        }
    });
    of_topic
        .flat_map(|answer| &answer.partition_responses)
        .find(|answer| answer.index == partition as i32)
}
