//! Questions about replicas: where they are, how far each of them came, and what it has.
//!
//! Brokers answer them for their own replica, whether they lead it or not: they take the asker for Kafka's `DEBUGGING_CONSUMER_ID`.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use wire::messages::describe_topic_partitions_response::DescribeTopicPartitionsResponsePartition;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::{DescribeTopicPartitionsRequest, FetchRequest, ListOffsetsRequest};
use wire::{ErrorCode, Records};

use crate::cluster::{Client, Topic};
use crate::connection::Connection;
use crate::error::Error;

const COMPARISON: i32 = -2;
/// Last version that names topics, and last one that names the asker outside of a tagged field.
const NAMED_VERSION_MAX: i16 = 12;
const PLAIN_VERSION_MAX: i16 = 14;
/// A broker sends no more partitions at once anyway.
const PAGE_MAX: i32 = 2000;

/// A partition with the brokers that may lead it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    pub index: i32,
    pub leader: Option<i32>,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
    /// Replicas that have all that was acknowledged though they are not in sync (KIP-966).
    pub eligible: Vec<i32>,
    /// Those of an empty ISR that was not clean.
    pub last_known: Vec<i32>,
}

/// The offsets of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaEnds {
    pub log_start: i64,
    pub log_end: i64,
}

impl Client {
    /// The partitions of topics, by name of the topic; those that do not exist are left out.
    pub fn describe_partitions(
        &mut self,
        topics: &[&str],
    ) -> Result<BTreeMap<String, Vec<PartitionInfo>>, Error> {
        if topics.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ask = |name: &&str| TopicRequest {
            name: (*name).to_owned(),
        };
        let asked: Vec<TopicRequest> = topics.iter().map(ask).collect();
        self.retry("describing partitions", |client| {
            let mut found: BTreeMap<String, Vec<PartitionInfo>> = BTreeMap::new();
            let mut cursor = None;
            loop {
                let request = DescribeTopicPartitionsRequest {
                    topics: asked.clone(),
                    response_partition_limit: PAGE_MAX,
                    cursor: cursor.take(),
                };
                let response = client.call_any(&request)?;
                for topic in response.topics {
                    let name = topic.name.unwrap_or_default();
                    if topic.error_code == ErrorCode::UnknownTopicOrPartition.code() {
                        continue;
                    }
                    Error::check(topic.error_code, || format!("topic {name}"), None)?;
                    let partitions = topic.partitions.into_iter().map(PartitionInfo::from);
                    found.entry(name).or_default().extend(partitions);
                }
                match response.next_cursor {
                    Some(next) => {
                        cursor = Some(Cursor {
                            topic_name: next.topic_name,
                            partition_index: next.partition_index,
                        });
                    }
                    None => return Ok(found),
                }
            }
        })
    }

    /// The ends of the replicas on one broker, asked once. A partition that it knows nothing of is left out.
    pub fn replica_ends(
        &mut self,
        broker: i32,
        topic: &str,
        partitions: &[i32],
    ) -> Result<BTreeMap<i32, ReplicaEnds>, Error> {
        let starts = self.replica_offsets(broker, topic, partitions, -2)?;
        let ends = self.replica_offsets(broker, topic, partitions, -1)?;
        let both = |(index, log_start): (i32, i64)| {
            let log_end = *ends.get(&index)?;
            Some((index, ReplicaEnds { log_start, log_end }))
        };
        Ok(starts.into_iter().filter_map(both).collect())
    }

    fn replica_offsets(
        &mut self,
        broker: i32,
        topic: &str,
        partitions: &[i32],
        timestamp: i64,
    ) -> Result<BTreeMap<i32, i64>, Error> {
        let ask = |index: &i32| ListOffsetsPartition {
            partition_index: *index,
            current_leader_epoch: -1,
            timestamp,
        };
        let request = ListOffsetsRequest {
            replica_id: COMPARISON,
            isolation_level: 0,
            topics: vec![ListOffsetsTopic {
                name: topic.to_owned(),
                partitions: partitions.iter().map(ask).collect(),
            }],
            timeout_ms: self.options().io_timeout.as_millis() as i32,
        };
        let response = self.call_broker(broker, &request)?;
        let answers = response
            .topics
            .iter()
            .filter(|answer| answer.name == topic)
            .flat_map(|answer| &answer.partitions);
        let known = answers.filter(|answer| answer.error_code == 0 && 0 <= answer.offset);
        Ok(known
            .map(|answer| (answer.partition_index, answer.offset))
            .collect())
    }

    /// A connection on which a broker shows its replicas.
    pub fn open_replicas(&self, broker: i32) -> Result<ReplicaReader, Error> {
        let connection = self.open_broker(broker)?;
        Ok(ReplicaReader { connection })
    }
}

impl From<DescribeTopicPartitionsResponsePartition> for PartitionInfo {
    fn from(told: DescribeTopicPartitionsResponsePartition) -> PartitionInfo {
        PartitionInfo {
            index: told.partition_index,
            leader: Some(told.leader_id).filter(|leader| 0 <= *leader),
            leader_epoch: told.leader_epoch,
            replicas: told.replica_nodes,
            isr: told.isr_nodes,
            eligible: told.eligible_leader_replicas.unwrap_or_default(),
            last_known: told.last_known_elr.unwrap_or_default(),
        }
    }
}

/// Reads the replicas of one broker, to the ends of their logs; one request at a time.
pub struct ReplicaReader {
    connection: Connection,
}

impl ReplicaReader {
    /// Asks for batches from the one with `from` on. The answer is for [`ReplicaReader::take`].
    pub fn ask(
        &mut self,
        topic: &Topic,
        partition: i32,
        from: i64,
        bytes_max: i32,
    ) -> Result<(), Error> {
        let limit = if topic.id.is_zero() {
            NAMED_VERSION_MAX
        } else {
            PLAIN_VERSION_MAX
        };
        let wanted = FetchPartition {
            partition,
            fetch_offset: from,
            partition_max_bytes: bytes_max,
            current_leader_epoch: -1,
            ..Default::default()
        };
        let request = FetchRequest {
            replica_id: COMPARISON,
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: bytes_max,
            session_id: 0,
            session_epoch: -1,
            topics: vec![FetchTopic {
                topic: topic.name.clone(),
                topic_id: topic.id,
                partitions: vec![wanted],
            }],
            ..Default::default()
        };
        self.connection.send_up_to(&request, limit).map(drop)
    }

    /// The bytes of the batches that were asked for; none where the log ends. The last batch may be cut off.
    pub fn take(&mut self) -> Result<Bytes, Error> {
        let response = self.connection.receive_as::<FetchRequest>()?;
        Error::check(response.error_code, || "fetching".to_owned(), None)?;
        let partitions = response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partitions);
        let mut bytes = Bytes::new();
        for data in partitions {
            Error::check(data.error_code, || "reading the replica".to_owned(), None)?;
            if let Some(Records::Bytes(records)) = data.records {
                bytes = records;
            }
        }
        Ok(bytes)
    }
}
