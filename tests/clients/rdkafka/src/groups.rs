//! Group consumers: both rebalance protocols of classic groups, and the consumer protocol.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use crate::{Outcome, Told, WAIT, config, equal, fill, is_news, new_name, topic};

type Fact = (&'static str, fn() -> Outcome);

pub const FACTS: &[Fact] = &[
    (
        "eager_members_share_and_a_later_one_goes_on_where_they_committed",
        || sharing(&[("partition.assignment.strategy", "range")]),
    ),
    (
        "cooperative_members_share_and_a_later_one_goes_on_where_they_committed",
        || sharing(&[("partition.assignment.strategy", "cooperative-sticky")]),
    ),
    (
        "consumer_protocol_members_share_and_a_later_one_goes_on_where_they_committed",
        || sharing(&[("group.protocol", "consumer")]),
    ),
    ("what_a_member_leaves_goes_to_the_other", leaving),
];

/// A consumer in a group; all are polled in turns by one thread.
struct Member {
    consumer: BaseConsumer,
    got: BTreeSet<(i32, i64)>,
}

impl Member {
    fn join(group: &str, topic: &str, settings: &[(&str, &str)]) -> Result<Self, String> {
        let mut config = config();
        config
            .set("group.id", group)
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false");
        for (name, value) in settings {
            config.set(*name, *value);
        }
        let consumer: BaseConsumer = config.create().told("consumer")?;
        consumer.subscribe(&[topic]).told("subscribe")?;
        Ok(Self {
            consumer,
            got: BTreeSet::new(),
        })
    }

    fn owned(&self) -> Vec<i32> {
        self.consumer.assignment().map_or_else(
            |_| Vec::new(),
            |list| list.elements().iter().map(|e| e.partition()).collect(),
        )
    }

    fn poll(&mut self) -> Outcome {
        match self.consumer.poll(Duration::from_millis(20)) {
            Some(Ok(message)) => {
                self.got.insert((message.partition(), message.offset()));
                Ok(())
            }
            Some(Err(error)) if is_news(&error) => Ok(()),
            Some(Err(error)) => Err(format!("poll: {error}")),
            None => Ok(()),
        }
    }
}

fn until(members: &mut [Member], what: &str, holds: impl Fn(&[Member]) -> bool) -> Outcome {
    let end = Instant::now() + WAIT;
    while !holds(members) {
        if Instant::now() > end {
            return Err(format!(
                "{what}: not in time; owned {:?}",
                members.iter().map(Member::owned).collect::<Vec<_>>()
            ));
        }
        for member in members.iter_mut() {
            member.poll()?;
        }
    }
    Ok(())
}

/// The members own all partitions together, and none twice.
fn share(members: &[Member], partitions: i32) -> bool {
    let mut owned: Vec<i32> = members.iter().flat_map(Member::owned).collect();
    owned.sort_unstable();
    members.iter().all(|m| !m.owned().is_empty()) && owned == (0..partitions).collect::<Vec<_>>()
}

fn sharing(settings: &[(&str, &str)]) -> Outcome {
    let (name, group) = (topic("shared", 4)?, new_name("group"));
    fill(&name, 4, 50)?;
    let mut members = vec![
        Member::join(&group, &name, settings)?,
        Member::join(&group, &name, settings)?,
    ];
    until(&mut members, "two members share", |m| share(m, 4))?;
    until(&mut members, "every record", |m| {
        m.iter()
            .flat_map(|m| m.got.iter())
            .collect::<BTreeSet<_>>()
            .len()
            == 200
    })?;
    for member in &members {
        let mut list = TopicPartitionList::new();
        for partition in member.owned() {
            list.add_partition_offset(&name, partition, Offset::Offset(50))
                .told("list")?;
        }
        member
            .consumer
            .commit(&list, CommitMode::Sync)
            .told("commit")?;
    }
    drop(members);
    fill(&name, 4, 1)?;
    let mut third = vec![Member::join(&group, &name, settings)?];
    until(
        &mut third,
        "the records behind the committed offsets",
        |m| m[0].got.len() >= 4,
    )?;
    equal(
        &third[0].got,
        &(0..4).map(|p| (p, 50)).collect(),
        "what a later member reads",
    )
}

fn leaving() -> Outcome {
    let (name, group) = (topic("leaving", 4)?, new_name("group"));
    let mut members = vec![
        Member::join(&group, &name, &[])?,
        Member::join(&group, &name, &[])?,
    ];
    until(&mut members, "two members share", |m| share(m, 4))?;
    members.truncate(1);
    until(&mut members, "the other has all", |m| share(m, 4))
}
