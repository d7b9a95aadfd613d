//! The metadata image as coordinators look at it.

use std::sync::Arc;

use meta::Image;
use model::BrokerId;
use wire::Uuid;

pub(crate) struct KnownTopics(pub(crate) Arc<Image>);

impl coord::Topics for KnownTopics {
    fn topic(&self, name: &str) -> Option<(Uuid, i32)> {
        let topic = self.0.topic(name)?;
        Some((
            topic.id,
            i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
        ))
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        self.0.topic_by_id(id).map(|topic| topic.name.as_ref())
    }

    fn names(&self) -> Vec<&str> {
        self.0.topics().map(|topic| topic.name.as_ref()).collect()
    }

    fn racks(&self, name: &str) -> Vec<Vec<&str>> {
        let rack = |broker: &BrokerId| self.0.broker(*broker)?.rack.as_deref();
        let topic = self.0.topic(name).into_iter();
        topic
            .flat_map(|topic| &topic.partitions)
            .map(|partition| partition.replicas.iter().filter_map(rack).collect())
            .collect()
    }

    fn version(&self) -> u64 {
        self.0.end().unsigned_abs()
    }

    fn names_version(&self) -> u64 {
        self.0.names_end().unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use coord::Topics;
    use meta::Record;
    use wire::metadata::TopicRecord;

    use super::*;

    #[test]
    fn a_pattern_may_name_internal_topics_and_is_looked_at_when_one_comes() {
        let mut image = Image::default();
        for (name, id) in [("__consumer_offsets", 1), ("orders", 2)] {
            let (name, topic_id) = (name.to_owned(), Uuid([id; 16]));
            let made = Record::Topic(TopicRecord { name, topic_id });
            image
                .replay(image.next_place(), &[made])
                .expect("a new topic");
        }
        let block = Record::ProducerIds(wire::metadata::ProducerIdsRecord::default());
        image
            .replay(image.next_place(), &[block])
            .expect("a block of producer ids");
        let known = KnownTopics(Arc::new(image));
        assert_eq!(known.names(), ["__consumer_offsets", "orders"]);
        assert_eq!((known.names_version(), known.version()), (2, 3));
    }
}
