//! The partitions of a topic as `esker topic describe` shows them: replicas, who may lead, and how far each replica is.
//!
//! The lag of a replica is what its own broker says of the end of its log, against the leader's, which is asked first: it may be too low by
//! what the leader appended meanwhile, and never names records that are there.

use std::collections::BTreeMap;

use client::{Client, Isolation, OffsetSpec, PartitionInfo, Topic};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::table::Table;

const COLUMNS: &[&str] = &[
    "partition",
    "leader",
    "leader_epoch",
    "replicas",
    "isr",
    "elr",
    "lag",
    "log_start",
    "log_end",
    "records",
    "bytes",
];

/// One row per partition; what nobody can say now is left out.
pub(super) fn table(client: &mut Client, topic: &Topic) -> Result<Table, Failure> {
    let partitions = described(client, topic)?;
    let led = partitions.iter().filter(|it| it.leader.is_some());
    let led: Vec<i32> = led.map(|it| it.index).collect();
    let mut offsets = |place: OffsetSpec| -> Result<BTreeMap<i32, i64>, Failure> {
        let asked: Vec<(i32, OffsetSpec)> = led.iter().map(|index| (*index, place)).collect();
        Ok(client.resolve(&topic.name, &asked, Isolation::ReadUncommitted)?)
    };
    let (starts, ends) = (offsets(OffsetSpec::Beginning)?, offsets(OffsetSpec::End)?);
    let lags = lags(client, &topic.name, &partitions);
    let dirs = client.describe_log_dirs().unwrap_or_default();
    let size = |partition: &PartitionInfo| {
        let of_leader = dirs
            .iter()
            .filter(|dir| Some(dir.broker) == partition.leader)
            .flat_map(|dir| &dir.stored);
        of_leader
            .filter(|stored| stored.topic == topic.name && stored.partition == partition.index)
            .map(|stored| stored.bytes)
            .max()
    };
    let mut table = Table::new(COLUMNS);
    for partition in &partitions {
        let (start, end) = (starts.get(&partition.index), ends.get(&partition.index));
        table.row([
            json!(partition.index),
            json!(partition.leader),
            json!(partition.leader_epoch),
            json!(partition.replicas),
            json!(partition.isr),
            json!(partition.eligible),
            lags.of(partition),
            json!(start),
            json!(end),
            json!(start.zip(end).map(|(start, end)| end - start)),
            json!(size(partition)),
        ]);
    }
    Ok(table)
}

/// With the eligible leaders, where the broker knows of such.
fn described(client: &mut Client, topic: &Topic) -> Result<Vec<PartitionInfo>, Failure> {
    match client.describe_partitions(&[&topic.name]) {
        Ok(mut found) => {
            let gone = || client::Error::NoTopic {
                topic: topic.name.clone(),
            };
            Ok(found.remove(&topic.name).ok_or_else(gone)?)
        }
        Err(client::Error::Unsupported { .. }) => {
            let known = topic.partitions.iter();
            let plain = known.map(|partition| PartitionInfo {
                index: partition.index,
                leader: partition.leader,
                leader_epoch: partition.leader_epoch,
                replicas: partition.replicas.clone(),
                isr: partition.isr.clone(),
                eligible: Vec::new(),
                last_known: Vec::new(),
            });
            Ok(plain.collect())
        }
        Err(error) => Err(error.into()),
    }
}

/// The ends of the logs of replicas, by broker and partition.
struct Lags {
    ends: BTreeMap<(i32, i32), i64>,
}

impl Lags {
    /// Records that each replica is behind its leader; null for one that nobody can say it of.
    fn of(&self, partition: &PartitionInfo) -> Value {
        let end = |broker: i32| self.ends.get(&(broker, partition.index));
        let led = partition.leader.and_then(end);
        let lag = |broker: &i32| {
            let lag = led.zip(end(*broker)).map(|(led, end)| (led - end).max(0));
            (broker.to_string(), json!(lag))
        };
        Value::Object(partition.replicas.iter().map(lag).collect::<Map<_, _>>())
    }
}

/// Leaders first. A broker that gives no answer has none that is known.
fn lags(client: &mut Client, topic: &str, partitions: &[PartitionInfo]) -> Lags {
    let mut ends = BTreeMap::new();
    for of_leaders in [true, false] {
        let mut asked: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for partition in partitions {
            for broker in &partition.replicas {
                if (partition.leader == Some(*broker)) == of_leaders {
                    asked.entry(*broker).or_default().push(partition.index);
                }
            }
        }
        for (broker, indexes) in asked {
            let told = client.replica_ends(broker, topic, &indexes);
            for (index, told) in told.into_iter().flatten() {
                ends.insert((broker, index), told.log_end);
            }
        }
    }
    Lags { ends }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lags(ends: &[(i32, i64)]) -> Value {
        let ends = ends.iter().map(|(broker, end)| ((*broker, 0), *end));
        let partition = PartitionInfo {
            index: 0,
            leader: Some(2),
            leader_epoch: 5,
            replicas: vec![1, 2, 3],
            isr: vec![2],
            eligible: Vec::new(),
            last_known: Vec::new(),
        };
        Lags {
            ends: ends.collect(),
        }
        .of(&partition)
    }

    #[test]
    fn a_lag_counts_from_the_leader_s_end_and_is_not_guessed() {
        assert_eq!(
            lags(&[(1, 90), (2, 100)]),
            json!({"1": 10, "2": 0, "3": null})
        );
        // It was asked after the leader, which had less then.
        assert_eq!(lags(&[(1, 101), (2, 100)])["1"], 0);
        assert_eq!(lags(&[(1, 90)]), json!({"1": null, "2": null, "3": null}));
    }
}
