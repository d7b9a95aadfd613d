//! OffsetFetch: what groups have committed, one group in old versions, several since KIP-709.

use std::collections::{HashMap, HashSet};

use coord::group::ask::{FetchOffsets, FetchTopic, FetchedPartition, FetchedTopic, TopicKey};
use model::PartitionIndex;
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use wire::messages::{OffsetFetchRequest, OffsetFetchResponse};
use wire::{ApiKey, ErrorCode, Uuid};

use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::offsets;

/// First version that says the error of the whole request once.
const REQUEST_ERROR_VERSION: i16 = 2;
/// First version that asks for several groups.
const BATCH_VERSION: i16 = 8;
/// First version that names topics by their ids.
const IDS_VERSION: i16 = 10;

const NO_OFFSET: i64 = -1;
const NO_EPOCH: i32 = -1;

pub(crate) fn on_offset_fetch(call: &mut Call<'_>, request: OffsetFetchRequest) -> Outcome {
    let version = call.version();
    let require_stable = request.require_stable;
    let mut groups = if version >= BATCH_VERSION {
        request.groups
    } else {
        vec![only_group(request)]
    };
    ask_once(&mut groups);
    let fetch = |group: &OffsetFetchRequestGroup| fetch(group, require_stable, version);
    let fetches = groups.iter().map(fetch).collect();
    call.carry_out(offsets::fetch, fetches, move |call, fetched| {
        let mut answers: Vec<OffsetFetchResponseGroup> = fetched
            .into_iter()
            .zip(groups)
            .map(|(fetched, group)| answer(fetched, group, version))
            .collect();
        let response = if version >= BATCH_VERSION {
            OffsetFetchResponse {
                groups: answers,
                ..Default::default()
            }
        } else {
            only_answer(answers.pop().unwrap_or_default())
        };
        call.reply(ApiKey::OffsetFetch, &response)
    })
}

/// No offset is asked for twice: each comes with what its member wrote beside it.
fn ask_once(groups: &mut Vec<OffsetFetchRequestGroup>) {
    let mut all = HashSet::new();
    groups.retain(|group| group.topics.is_some() || all.insert(group.group_id.clone()));
    let mut places: HashMap<_, HashSet<i32>> = HashMap::new();
    for group in groups {
        for topic in group.topics.iter_mut().flatten() {
            let key = (group.group_id.clone(), topic.name.clone(), topic.topic_id);
            let seen = places.entry(key).or_default();
            topic.partition_indexes.retain(|index| seen.insert(*index));
        }
    }
}

fn only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup {
    OffsetFetchRequestGroup {
        group_id: request.group_id,
        member_id: None,
        member_epoch: NO_EPOCH,
        topics: request.topics.map(|topics| {
            topics
                .into_iter()
                .map(|topic| OffsetFetchRequestTopics {
                    name: topic.name,
                    topic_id: Uuid::ZERO,
                    partition_indexes: topic.partition_indexes,
                })
                .collect()
        }),
    }
}

fn fetch(group: &OffsetFetchRequestGroup, require_stable: bool, version: i16) -> FetchOffsets {
    let topic = |topic: &OffsetFetchRequestTopics| FetchTopic {
        topic: if version >= IDS_VERSION {
            TopicKey::Id(topic.topic_id)
        } else {
            TopicKey::Name(topic.name.clone())
        },
        partitions: (topic.partition_indexes.iter().copied())
            .map(PartitionIndex)
            .collect(),
    };
    let topics = group.topics.as_ref();
    FetchOffsets {
        group_id: group.group_id.clone(),
        member_id: group.member_id.clone(),
        member_epoch: group.member_epoch,
        topics: topics.map(|topics| topics.iter().map(topic).collect()),
        require_stable,
    }
}

fn answer(
    fetched: Result<Vec<FetchedTopic>, ErrorCode>,
    group: OffsetFetchRequestGroup,
    version: i16,
) -> OffsetFetchResponseGroup {
    let asked = group.topics.as_deref();
    let (code, topics) = match fetched {
        Ok(topics) => {
            // Of a topic that is gone, and whose offsets are about to go too: there is no way to name it.
            let is_nameless =
                |topic: &FetchedTopic| version >= IDS_VERSION && topic.topic_id.is_none();
            let told = topics
                .into_iter()
                .filter(|topic| asked.is_some() || !is_nameless(topic));
            (ErrorCode::None, told.map(topic).collect())
        }
        Err(code) if version < REQUEST_ERROR_VERSION => {
            let asked = asked.unwrap_or_default();
            let topics = asked.iter().map(|topic| refuse(topic, code)).collect();
            (code, topics)
        }
        Err(code) => (code, Vec::new()),
    };
    OffsetFetchResponseGroup {
        group_id: group.group_id,
        error_code: code.code(),
        topics,
    }
}

fn topic(topic: FetchedTopic) -> OffsetFetchResponseTopics {
    OffsetFetchResponseTopics {
        name: topic.name.unwrap_or_default(),
        topic_id: topic.topic_id.unwrap_or_default(),
        partitions: topic.partitions.into_iter().map(partition).collect(),
    }
}

fn partition(fetched: FetchedPartition) -> OffsetFetchResponsePartitions {
    let index = fetched.index.0;
    match fetched.found {
        Ok(Some(found)) => OffsetFetchResponsePartitions {
            partition_index: index,
            committed_offset: found.offset.0,
            committed_leader_epoch: found.leader_epoch.0,
            metadata: Some(found.metadata),
            error_code: 0,
        },
        Ok(None) => none(index, ErrorCode::None),
        Err(code) => none(index, code),
    }
}

fn none(index: i32, code: ErrorCode) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index: index,
        committed_offset: NO_OFFSET,
        committed_leader_epoch: NO_EPOCH,
        metadata: Some(String::new()),
        error_code: code.code(),
    }
}

fn refuse(topic: &OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics {
    OffsetFetchResponseTopics {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partition_indexes
            .iter()
            .map(|index| none(*index, code))
            .collect(),
    }
}

fn only_answer(group: OffsetFetchResponseGroup) -> OffsetFetchResponse {
    OffsetFetchResponse {
        error_code: group.error_code,
        topics: group
            .topics
            .into_iter()
            .map(|topic| OffsetFetchResponseTopic {
                name: topic.name,
                partitions: topic
                    .partitions
                    .into_iter()
                    .map(|partition| OffsetFetchResponsePartition {
                        partition_index: partition.partition_index,
                        committed_offset: partition.committed_offset,
                        committed_leader_epoch: partition.committed_leader_epoch,
                        metadata: partition.metadata,
                        error_code: partition.error_code,
                    })
                    .collect(),
            })
            .collect(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_everything_by_ids_hears_of_no_topic_that_is_gone() {
        let topic = |name: &str, topic_id| FetchedTopic {
            name: Some(name.into()),
            topic_id,
            partitions: Vec::new(),
        };
        let told = |version, topics: Option<Vec<OffsetFetchRequestTopics>>| -> Vec<String> {
            let there = Some(Uuid([1; 16]));
            let fetched = vec![topic("gone", None), topic("there", there)];
            let group = OffsetFetchRequestGroup {
                topics,
                ..Default::default()
            };
            let answer = answer(Ok(fetched), group, version);
            answer.topics.into_iter().map(|topic| topic.name).collect()
        };
        assert_eq!(told(10, None), ["there"]);
        assert_eq!(told(9, None), ["gone", "there"]);
        // Every topic that was asked for is answered, an unknown id with its error.
        assert_eq!(told(10, Some(Vec::new())), ["gone", "there"]);
    }

    #[test]
    fn early_versions_have_the_error_of_the_request_beside_each_partition() {
        let told = |version| {
            let group = OffsetFetchRequestGroup {
                topics: Some(vec![OffsetFetchRequestTopics {
                    name: "t".to_owned(),
                    partition_indexes: vec![3],
                    ..Default::default()
                }]),
                ..Default::default()
            };
            let answer = answer(Err(ErrorCode::NotCoordinator), group, version);
            assert_eq!(answer.error_code, ErrorCode::NotCoordinator.code());
            let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            let codes =
                partitions.map(|partition| (partition.partition_index, partition.error_code));
            codes.collect::<Vec<_>>()
        };
        assert_eq!(told(1), [(3, ErrorCode::NotCoordinator.code())]);
        assert_eq!(told(2), []);
    }

    #[test]
    fn a_partition_without_an_offset_has_minus_one_and_no_error() {
        let none = partition(FetchedPartition {
            index: PartitionIndex(3),
            found: Ok(None),
        });
        assert_eq!((none.committed_offset, none.error_code), (-1, 0));
        assert_eq!(none.committed_leader_epoch, -1);
    }

    #[test]
    fn no_offset_is_asked_for_twice() {
        let topic = |name: &str, partition_indexes: &[i32]| OffsetFetchRequestTopics {
            name: name.to_owned(),
            partition_indexes: partition_indexes.to_vec(),
            ..Default::default()
        };
        let group = |id: &str, topics: Option<Vec<OffsetFetchRequestTopics>>| {
            let group_id = id.to_owned();
            OffsetFetchRequestGroup {
                group_id,
                topics,
                ..Default::default()
            }
        };
        let mut groups = vec![
            group("g", None),
            group("g", Some(vec![topic("t", &[0, 1, 0]), topic("u", &[0])])),
            group("g", Some(vec![topic("t", &[2, 1])])),
            group("g", None),
            group("h", Some(vec![topic("t", &[1])])),
        ];
        ask_once(&mut groups);
        let once = [
            group("g", None),
            group("g", Some(vec![topic("t", &[0, 1]), topic("u", &[0])])),
            group("g", Some(vec![topic("t", &[2])])),
            group("h", Some(vec![topic("t", &[1])])),
        ];
        assert_eq!(groups, once);
    }
}
