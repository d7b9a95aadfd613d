//! The transactional producer, alone and in a loop that consumes, transforms and produces.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{Offset, TopicPartitionList};

use crate::{Outcome, Told, WAIT, committed, config, equal, fill, new_name, send, soon, topic};

pub const FACTS: &[(&str, fn() -> Outcome)] = &[
    (
        "committed_transactions_are_read_and_aborted_ones_are_not",
        committed_and_aborted,
    ),
    (
        "a_consume_transform_produce_loop_moves_every_record_once",
        move_once,
    ),
    ("a_second_producer_of_the_id_fences_the_first", fencing),
];

fn transactional(id: &str) -> Result<BaseProducer, String> {
    let producer: BaseProducer = config()
        .set("transactional.id", id)
        .create()
        .told("transactional producer")?;
    producer.init_transactions(WAIT).told("init")?;
    Ok(producer)
}

fn committed_and_aborted() -> Outcome {
    let (name, producer, mut want) = (
        topic("txn", 1)?,
        transactional(&new_name("id"))?,
        Vec::new(),
    );
    for number in 0..10 {
        producer.begin_transaction().told("begin")?;
        let values: Vec<String> = (0..3).map(|at| format!("{number}.{at}")).collect();
        send(&producer, &name, values.iter().map(|v| (0, v.as_str())))?;
        if number % 3 > 0 {
            producer.commit_transaction(WAIT).told("commit")?;
            want.extend(values);
        } else {
            producer.abort_transaction(WAIT).told("abort")?;
        }
    }
    soon(want, "what is read", || committed(&name))
}

fn move_once() -> Outcome {
    let (source, sink, group) = (topic("source", 2)?, topic("sink", 1)?, new_name("group"));
    fill(&source, 2, 100)?;
    let consumer: BaseConsumer = config()
        .set("group.id", &group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .create()
        .told("consumer")?;
    consumer.subscribe(&[&source]).told("subscribe")?;
    let producer = transactional(&new_name("id"))?;
    let (mut moved, mut round, end) = (0, 0, Instant::now() + WAIT);
    while moved < 200 {
        let mut taken = Vec::new();
        while taken.len() < 25.min(200 - moved) {
            if Instant::now() > end {
                return Err(format!("{moved} records moved in time"));
            }
            if let Some(message) = consumer.poll(Duration::from_millis(50)) {
                let message = message.told("poll")?;
                taken.push((message.partition(), message.offset()));
            }
        }
        round += 1;
        producer.begin_transaction().told("begin")?;
        let texts: Vec<String> = taken.iter().map(|(p, o)| format!("{p}/{o}")).collect();
        send(&producer, &sink, texts.iter().map(|t| (0, t.as_str())))?;
        let (first, next) = bounds(&source, &taken)?;
        let metadata = consumer.group_metadata().ok_or("no group metadata")?;
        producer
            .send_offsets_to_transaction(&next, &metadata, WAIT)
            .told("offsets")?;
        if round % 3 == 2 {
            // Aborted work is read and done again; it must not count twice.
            producer.abort_transaction(WAIT).told("abort")?;
            consumer.seek_partitions(first, WAIT).told("seek")?;
        } else {
            producer.commit_transaction(WAIT).told("commit")?;
            moved += taken.len();
        }
    }
    let want: Vec<String> = (0..2)
        .flat_map(|p| (0..100).map(move |o| format!("{p}/{o:02}")))
        .collect();
    soon(want, "what arrived", || {
        let mut got: Vec<String> = committed(&sink)?
            .iter()
            .map(|t| {
                t.split_once('/')
                    .map_or(t.clone(), |(p, o)| format!("{p}/{o:0>2}"))
            })
            .collect();
        got.sort();
        Ok(got)
    })?;
    let mut asked = TopicPartitionList::new();
    asked.add_partition(&source, 0);
    asked.add_partition(&source, 1);
    let found = consumer
        .committed_offsets(asked, WAIT)
        .told("committed offsets")?;
    let offsets: Vec<Offset> = found.elements().iter().map(|e| e.offset()).collect();
    equal(
        offsets,
        vec![Offset::Offset(100), Offset::Offset(100)],
        "the group's offsets",
    )
}

/// The first offset of each partition among `taken`, and the offset behind its last.
fn bounds(
    topic: &str,
    taken: &[(i32, i64)],
) -> Result<(TopicPartitionList, TopicPartitionList), String> {
    let (mut first, mut next) = (TopicPartitionList::new(), TopicPartitionList::new());
    for partition in 0..2 {
        let offsets = || {
            taken
                .iter()
                .filter(|(p, _)| *p == partition)
                .map(|(_, o)| *o)
        };
        if let (Some(low), Some(high)) = (offsets().min(), offsets().max()) {
            first
                .add_partition_offset(topic, partition, Offset::Offset(low))
                .told("list")?;
            next.add_partition_offset(topic, partition, Offset::Offset(high + 1))
                .told("list")?;
        }
    }
    Ok((first, next))
}

fn fencing() -> Outcome {
    let (name, id) = (topic("fencing", 1)?, new_name("id"));
    let first = transactional(&id)?;
    first.begin_transaction().told("begin")?;
    send(&first, &name, [(0, "lost")])?;
    let second = transactional(&id)?;
    second.begin_transaction().told("begin")?;
    send(&second, &name, [(0, "kept")])?;
    second.commit_transaction(WAIT).told("commit")?;
    equal(
        first.commit_transaction(WAIT).is_err(),
        true,
        "the first producer is refused",
    )?;
    soon(vec!["kept".to_string()], "what is read", || {
        committed(&name)
    })
}
