//! DescribeTopicPartitions: topics page by page (KIP-966).

use std::collections::BTreeSet;

use meta::Topic;
use wire::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use wire::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
use wire::{ErrorCode, Uuid};

use super::{NO_OPERATIONS, number, numbers, offline};
use crate::asker::access::Resource;
use crate::ops::view::View;
use security::authorize::Operation;

#[must_use]
pub(crate) fn handle(
    request: &DescribeTopicPartitionsRequest,
    view: &View<'_>,
) -> DescribeTopicPartitionsResponse {
    let from = request
        .cursor
        .as_ref()
        .map_or("", |cursor| cursor.topic_name.as_str());
    let asked: BTreeSet<&str> = request
        .topics
        .iter()
        .map(|topic| topic.name.as_str())
        .filter(|name| from <= *name)
        .collect();
    let first = request
        .cursor
        .as_ref()
        .map_or(0, |cursor| cursor.partition_index);
    let is_lost = !request.topics.is_empty() && !from.is_empty() && asked.first() != Some(&from);
    let Ok(first) = usize::try_from(first)
        .map_err(drop)
        .and_then(|first| if is_lost { Err(()) } else { Ok(first) })
    else {
        return refuse(request);
    };
    let sees = |name: &&str| {
        let topic = Resource::topic(name);
        view.asker.grant(Operation::Describe, topic).is_ok()
    };
    // Those that are hidden take no room, and come behind all others; among all topics they are left out.
    let (asked, hidden): (Vec<&str>, Vec<&str>) = asked.into_iter().partition(sees);
    let names: Box<dyn Iterator<Item = &str>> = if request.topics.is_empty() {
        let all = view.image.topics_from(from);
        Box::new(all.map(|topic| topic.name.as_ref()).filter(sees))
    } else {
        Box::new(asked.into_iter())
    };
    let limit = usize::try_from(request.response_partition_limit).unwrap_or(0);
    let mut room = limit.clamp(1, view.broker.request_partitions_max.max(1));
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in names {
        let begin = if name == from { first } else { 0 };
        if room == 0 {
            response.next_cursor = Some(cursor(name, begin));
            break;
        }
        let Some(topic) = view.image.topic(name) else {
            response.topics.push(unknown(name, view));
            continue;
        };
        let end = topic.partitions.len().min(begin.saturating_add(room));
        response.topics.push(page(topic, begin, end, view));
        room -= end.saturating_sub(begin);
        if end < topic.partitions.len() {
            response.next_cursor = Some(cursor(name, end));
            break;
        }
    }
    response.topics.extend(hidden.into_iter().map(denied));
    response
}

/// A topic that may not be seen, whether it is there or not.
fn denied(name: &str) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::TopicAuthorizationFailed.code(),
        name: Some(name.into()),
        topic_authorized_operations: NO_OPERATIONS,
        ..DescribeTopicPartitionsResponseTopic::default()
    }
}

fn cursor(name: &str, partition: usize) -> Cursor {
    Cursor {
        topic_name: name.into(),
        partition_index: number(partition),
    }
}

fn page(
    topic: &Topic,
    begin: usize,
    end: usize,
    view: &View<'_>,
) -> DescribeTopicPartitionsResponseTopic {
    let partitions = topic.partitions.iter().enumerate().take(end).skip(begin);
    let describe =
        |(index, partition): (usize, &meta::Partition)| DescribeTopicPartitionsResponsePartition {
            // Without a leader, too: its clients look at who leads.
            error_code: 0,
            partition_index: number(index),
            leader_id: if view.acts_as_leader(partition.leader) {
                partition.leader.0
            } else {
                meta::NO_LEADER.0
            },
            leader_epoch: partition.leader_epoch.0,
            replica_nodes: numbers(&partition.replicas),
            isr_nodes: numbers(&partition.isr),
            eligible_leader_replicas: Some(numbers(&partition.eligible_leaders)),
            last_known_elr: Some(numbers(&partition.last_known_leaders)),
            offline_replicas: offline::replicas(partition, view),
        };
    DescribeTopicPartitionsResponseTopic {
        error_code: 0,
        name: Some(topic.name.as_ref().into()),
        topic_id: topic.id,
        is_internal: meta::name::is_internal(&topic.name),
        partitions: partitions.map(describe).collect(),
        topic_authorized_operations: super::operations(view, Resource::topic(&topic.name), true),
    }
}

fn unknown(name: &str, view: &View<'_>) -> DescribeTopicPartitionsResponseTopic {
    let code = match meta::name::check(name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic {
        error_code: code.code(),
        name: Some(name.into()),
        topic_id: Uuid::ZERO,
        is_internal: meta::name::is_internal(name),
        topic_authorized_operations: super::operations(view, Resource::topic(name), true),
        ..DescribeTopicPartitionsResponseTopic::default()
    }
}

/// The cursor names a topic that is not asked for, or a partition below zero.
fn refuse(request: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let refused = |topic: &wire::messages::describe_topic_partitions_request::TopicRequest| {
        DescribeTopicPartitionsResponseTopic {
            error_code: ErrorCode::InvalidRequest.code(),
            name: Some(topic.name.clone()),
            topic_authorized_operations: NO_OPERATIONS,
            ..DescribeTopicPartitionsResponseTopic::default()
        }
    };
    DescribeTopicPartitionsResponse {
        topics: request.topics.iter().map(refused).collect(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;
    use wire::messages::describe_topic_partitions_request as ask;

    /// Topics as `name[partitions]` or `name!code`, then the cursor.
    fn pages(names: &[&str], limit: i32, cursor: Option<(&str, i32)>) -> String {
        let request = DescribeTopicPartitionsRequest {
            topics: names
                .iter()
                .map(|name| ask::TopicRequest {
                    name: (*name).into(),
                })
                .collect(),
            response_partition_limit: limit,
            cursor: cursor.map(|(name, index)| ask::Cursor {
                topic_name: name.into(),
                partition_index: index,
            }),
        };
        let response = handle(&request, &Fixture::new("").view());
        let topic = |topic: &DescribeTopicPartitionsResponseTopic| {
            let name = topic.name.as_deref().unwrap_or("-");
            let partitions: Vec<String> = topic
                .partitions
                .iter()
                .map(|one| one.partition_index.to_string())
                .collect();
            match topic.error_code {
                0 => format!("{name}[{}]", partitions.join(",")),
                code => format!("{name}!{code}"),
            }
        };
        let next = response
            .next_cursor
            .map(|next| format!("> {} {}", next.topic_name, next.partition_index));
        response
            .topics
            .iter()
            .map(topic)
            .chain(next)
            .collect::<Vec<String>>()
            .join(" ")
    }

    #[test]
    fn pages_are_cut_as_kafka_4_3_cuts_them() {
        assert_eq!(pages(&["t", "a", "zz"], 2, None), "a[0] t[0] > t 1");
        assert_eq!(pages(&["t", "a", "zz"], 2, Some(("t", 1))), "t[1,2] > zz 0");
        assert_eq!(pages(&["t", "a", "zz"], 2000, Some(("zz", 0))), "zz!3");
        assert_eq!(pages(&[], 3, None), "a[0] t[0,1] > t 2");
        assert_eq!(pages(&[], 0, None), "a[0] > t 0");
        assert_eq!(pages(&["t"], 2000, Some(("t", 9))), "t[]");
        assert_eq!(pages(&[], 9, Some(("b", 1))), "t[0,1,2]");
        assert_eq!(pages(&["b b"], 9, None), "b b!17");
    }

    #[test]
    fn a_partition_without_a_leader_is_no_error() {
        let mut fixture = Fixture::new("");
        let change = wire::metadata::PartitionChangeRecord {
            partition_id: 0,
            topic_id: fixture.id("a"),
            leader: meta::NO_LEADER.0,
            ..Default::default()
        };
        fixture.replay(&[change.into()]);
        let request = DescribeTopicPartitionsRequest {
            response_partition_limit: 2000,
            ..Default::default()
        };
        let response = handle(&request, &fixture.view());
        let one = &response.topics[0].partitions[0];
        assert_eq!((one.error_code, one.leader_id), (0, -1));
    }

    #[test]
    fn a_cursor_must_point_into_what_is_asked_for() {
        assert_eq!(pages(&["t", "a"], 2000, Some(("b", 0))), "t!42 a!42");
        assert_eq!(pages(&["t", "a"], 3, Some(("zz", 0))), "t!42 a!42");
        assert_eq!(pages(&["t"], 2000, Some(("t", -1))), "t!42");
    }
}
