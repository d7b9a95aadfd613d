//! Offsets by place: the beginning, the end, a point in time; and moving the beginning.

use std::collections::BTreeMap;

use wire::error_code::ErrorCode;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::{DeleteRecordsRequest, ListOffsetsRequest};

use crate::cluster::Client;
use crate::consumer::Isolation;
use crate::error::Error;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// A place in a partition, before it is known as an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    Beginning,
    End,
    Offset(i64),
    /// The first record at or after this time, in milliseconds since 1970; the end when there is none.
    Time(i64),
    /// This many offsets before the end, or the beginning.
    Last(i64),
}

/// The log's answer for a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub offset: i64,
    pub timestamp: i64,
    pub leader_epoch: i32,
}

impl Client {
    /// Asks the leaders. Each timestamp is a time, or one of the protocol's special values (-1 end, -2 beginning, -3 newest
    /// record). A time after the last record gives offset -1.
    pub fn list_offsets(
        &mut self,
        topic: &str,
        asked: &[(i32, i64)],
        isolation: Isolation,
    ) -> Result<BTreeMap<i32, Found>, Error> {
        self.retry(&format!("finding offsets of {topic}"), |client| {
            client.list_offsets_once(topic, asked, isolation)
        })
    }

    fn list_offsets_once(
        &mut self,
        topic: &str,
        asked: &[(i32, i64)],
        isolation: Isolation,
    ) -> Result<BTreeMap<i32, Found>, Error> {
        let known = self.topic(topic)?;
        let mut by_leader: BTreeMap<i32, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for (partition, timestamp) in asked {
            let ask = ListOffsetsPartition {
                partition_index: *partition,
                current_leader_epoch: -1,
                timestamp: *timestamp,
            };
            by_leader
                .entry(known.leader(*partition)?)
                .or_default()
                .push(ask);
        }
        let mut found = BTreeMap::new();
        for (leader, partitions) in by_leader {
            let request = ListOffsetsRequest {
                replica_id: -1,
                isolation_level: isolation as i8,
                topics: vec![ListOffsetsTopic {
                    name: topic.to_owned(),
                    partitions,
                }],
                timeout_ms: self.options().io_timeout.as_millis() as i32,
            };
            let response = self.call_broker(leader, &request)?;
            for answer in response
                .topics
                .iter()
                .filter(|answer| answer.name == topic)
                .flat_map(|answer| &answer.partitions)
            {
                Error::check(
                    answer.error_code,
                    || format!("offsets of {topic}-{}", answer.partition_index),
                    None,
                )?;
                let one = Found {
                    offset: answer.offset,
                    timestamp: answer.timestamp,
                    leader_epoch: answer.leader_epoch,
                };
                found.insert(answer.partition_index, one);
            }
        }
        Ok(found)
    }

    /// Turns places into offsets.
    pub fn resolve(
        &mut self,
        topic: &str,
        places: &[(i32, OffsetSpec)],
        isolation: Isolation,
    ) -> Result<BTreeMap<i32, i64>, Error> {
        let (mut asks, mut ends, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for (partition, place) in places {
            match place {
                OffsetSpec::Offset(_) => {}
                OffsetSpec::Beginning => asks.push((*partition, EARLIEST)),
                OffsetSpec::End => asks.push((*partition, LATEST)),
                OffsetSpec::Time(ms) => {
                    asks.push((*partition, *ms));
                    ends.push((*partition, LATEST));
                }
                OffsetSpec::Last(_) => {
                    ends.push((*partition, LATEST));
                    starts.push((*partition, EARLIEST));
                }
            }
        }
        let mut list = |asked: &[(i32, i64)]| match asked {
            [] => Ok(BTreeMap::new()),
            asked => self.list_offsets(topic, asked, isolation),
        };
        let (asked, ends, starts) = (list(&asks)?, list(&ends)?, list(&starts)?);
        let of = |found: &BTreeMap<i32, Found>, partition: &i32| {
            found
                .get(partition)
                .map(|found| found.offset)
                .filter(|offset| *offset >= 0)
        };
        let mut resolved = BTreeMap::new();
        for (partition, place) in places {
            let offset = match place {
                OffsetSpec::Offset(offset) => Some(*offset),
                OffsetSpec::Beginning | OffsetSpec::End => of(&asked, partition),
                OffsetSpec::Time(_) => of(&asked, partition).or_else(|| of(&ends, partition)),
                OffsetSpec::Last(count) => of(&ends, partition)
                    .zip(of(&starts, partition))
                    .map(|(end, start)| (end - count).max(start)),
            };
            let what = || format!("offsets of {topic}-{partition}");
            let missing = || Error::Refused {
                what: what(),
                code: ErrorCode::OffsetNotAvailable,
                message: None,
            };
            resolved.insert(*partition, offset.ok_or_else(missing)?);
        }
        Ok(resolved)
    }

    /// Deletes records below an offset (-1: all that are committed); returns the new log starts.
    pub fn delete_records(
        &mut self,
        topic: &str,
        before: &[(i32, i64)],
    ) -> Result<BTreeMap<i32, i64>, Error> {
        let mut starts = BTreeMap::new();
        self.retry(&format!("trimming {topic}"), |client| {
            let known = client.topic(topic)?;
            let mut by_leader: BTreeMap<i32, Vec<DeleteRecordsPartition>> = BTreeMap::new();
            for (partition, offset) in before
                .iter()
                .filter(|(partition, _)| !starts.contains_key(partition))
            {
                let ask = DeleteRecordsPartition {
                    partition_index: *partition,
                    offset: *offset,
                };
                by_leader
                    .entry(known.leader(*partition)?)
                    .or_default()
                    .push(ask);
            }
            for (leader, partitions) in by_leader {
                let topics = vec![DeleteRecordsTopic {
                    name: topic.to_owned(),
                    partitions,
                }];
                let request = DeleteRecordsRequest {
                    topics,
                    timeout_ms: client.options().io_timeout.as_millis() as i32,
                };
                let response = client.call_broker(leader, &request)?;
                for answer in response
                    .topics
                    .iter()
                    .filter(|answer| answer.name == topic)
                    .flat_map(|answer| &answer.partitions)
                {
                    Error::check(
                        answer.error_code,
                        || format!("trimming {topic}-{}", answer.partition_index),
                        None,
                    )?;
                    starts.insert(answer.partition_index, answer.low_watermark);
                }
            }
            Ok(starts.clone())
        })
    }
}
