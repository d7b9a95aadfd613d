//! Creating and deleting topics, and giving them more partitions.

use wire::Uuid;
use wire::messages::create_partitions_request::CreatePartitionsTopic;
use wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::{CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest};

use crate::cluster::Client;
use crate::error::Error;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    pub name: String,
    /// The broker's default when not given.
    pub partitions: Option<i32>,
    pub replication_factor: Option<i16>,
    pub configs: Vec<(String, String)>,
}

/// A new topic as it was made. Fields are `None` where the broker is too old to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    pub name: String,
    pub id: Uuid,
    pub partitions: Option<i32>,
    pub replication_factor: Option<i16>,
}

impl Client {
    pub fn create_topic(
        &mut self,
        topic: &NewTopic,
        validate_only: bool,
    ) -> Result<Created, Error> {
        let config = |(name, value): &(String, String)| CreatableTopicConfig {
            name: name.clone(),
            value: Some(value.clone()),
        };
        let creatable = CreatableTopic {
            name: topic.name.clone(),
            num_partitions: topic.partitions.unwrap_or(-1),
            replication_factor: topic.replication_factor.unwrap_or(-1),
            configs: topic.configs.iter().map(config).collect(),
            ..Default::default()
        };
        let name = &topic.name;
        let what = format!("creating topic {name}");
        self.retry(&what, |client| {
            let timeout_ms = client.options().io_timeout.as_millis() as i32;
            let request = CreateTopicsRequest {
                topics: vec![creatable.clone()],
                timeout_ms,
                validate_only,
            };
            let response = client.call_controller(&request)?;
            let answer = response.topics.iter().find(|answer| answer.name == *name);
            let answer = answer.ok_or_else(|| Error::NoTopic {
                topic: name.clone(),
            })?;
            Error::check(
                answer.error_code,
                || what.clone(),
                answer.error_message.as_deref(),
            )?;
            client.forget_topic(name);
            Ok(Created {
                name: name.clone(),
                id: answer.topic_id,
                partitions: Some(answer.num_partitions).filter(|count| *count > 0),
                replication_factor: Some(answer.replication_factor).filter(|factor| *factor > 0),
            })
        })
    }

    pub fn delete_topic(&mut self, name: &str) -> Result<(), Error> {
        let what = format!("deleting topic {name}");
        // Deleting what does not exist would be retried until the deadline: the code is one that may pass.
        self.topic(name)?;
        let result = self.retry(&what, |client| {
            let response = client.call_controller(&DeleteTopicsRequest {
                topics: vec![DeleteTopicState {
                    name: Some(name.to_owned()),
                    ..Default::default()
                }],
                topic_names: vec![name.to_owned()],
                timeout_ms: client.options().io_timeout.as_millis() as i32,
            })?;
            for answer in &response.responses {
                Error::check(
                    answer.error_code,
                    || what.clone(),
                    answer.error_message.as_deref(),
                )?;
            }
            Ok(())
        });
        self.forget_topic(name);
        result
    }

    /// Raises the number of partitions to `count`.
    pub fn create_partitions(
        &mut self,
        topic: &str,
        count: i32,
        validate_only: bool,
    ) -> Result<(), Error> {
        let what = format!("adding partitions to {topic}");
        self.retry(&what, |client| {
            let response = client.call_controller(&CreatePartitionsRequest {
                topics: vec![CreatePartitionsTopic {
                    name: topic.to_owned(),
                    count,
                    assignments: None,
                }],
                timeout_ms: client.options().io_timeout.as_millis() as i32,
                validate_only,
            })?;
            for answer in &response.results {
                Error::check(
                    answer.error_code,
                    || what.clone(),
                    answer.error_message.as_deref(),
                )?;
            }
            client.forget_topic(topic);
            Ok(())
        })
    }
}
