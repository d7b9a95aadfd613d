//! ListPartitionReassignments: partitions on their way to other replicas (KIP-455). A topic that is not there is left out.

use meta::decide::reassign::is_in_progress;
use wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use wire::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use super::{number, numbers};
use crate::ops::view::View;

#[must_use]
pub(crate) fn handle(
    request: &ListPartitionReassignmentsRequest,
    view: &View<'_>,
) -> ListPartitionReassignmentsResponse {
    let topics = match &request.topics {
        None => view
            .image
            .topics()
            .map(|topic| ongoing(topic, 0..number(topic.partitions.len())))
            .collect::<Vec<_>>(),
        Some(asked) => asked
            .iter()
            .filter_map(|asked| Some((view.image.topic(&asked.name)?, asked)))
            .map(|(topic, asked)| ongoing(topic, asked.partition_indexes.iter().copied()))
            .collect(),
    };
    ListPartitionReassignmentsResponse {
        error_message: None,
        topics: topics
            .into_iter()
            .filter(|topic| !topic.partitions.is_empty())
            .collect(),
        ..ListPartitionReassignmentsResponse::default()
    }
}

fn ongoing(topic: &meta::Topic, asked: impl Iterator<Item = i32>) -> OngoingTopicReassignment {
    let one = |index: i32| {
        let partition = topic.partitions.get(usize::try_from(index).ok()?)?;
        is_in_progress(partition).then(|| OngoingPartitionReassignment {
            partition_index: index,
            replicas: numbers(&partition.replicas),
            adding_replicas: numbers(&partition.adding),
            removing_replicas: numbers(&partition.removing),
        })
    };
    OngoingTopicReassignment {
        name: topic.name.as_ref().to_owned(),
        partitions: asked.filter_map(one).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;
    use wire::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
    use wire::metadata::PartitionChangeRecord;

    #[test]
    fn only_what_is_on_its_way_is_listed() {
        let mut fixture = Fixture::new("");
        let asked = |name: &str, indexes: &[i32]| ListPartitionReassignmentsTopics {
            name: name.into(),
            partition_indexes: indexes.to_vec(),
        };
        let some = ListPartitionReassignmentsRequest {
            topics: Some(vec![asked("t", &[0, 1, 9, -1]), asked("none", &[0])]),
            ..Default::default()
        };
        let all = ListPartitionReassignmentsRequest {
            topics: None,
            ..Default::default()
        };
        assert!(handle(&some, &fixture.view()).topics.is_empty());
        assert!(handle(&all, &fixture.view()).topics.is_empty());

        let moves = PartitionChangeRecord {
            partition_id: 1,
            topic_id: fixture.id("t"),
            replicas: Some(vec![1, 2]),
            adding_replicas: Some(vec![2]),
            ..Default::default()
        };
        fixture.replay(&[moves.into()]);
        for request in [&some, &all] {
            let topics = handle(request, &fixture.view()).topics;
            let moving = OngoingPartitionReassignment {
                partition_index: 1,
                replicas: vec![1, 2],
                adding_replicas: vec![2],
                removing_replicas: Vec::new(),
            };
            assert_eq!((topics.len(), &topics[0].partitions), (1, &vec![moving]));
        }
    }
}
