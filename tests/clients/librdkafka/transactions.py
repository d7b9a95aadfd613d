"""librdkafka's transactional producer: what it commits is read, what it aborts is not."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from harness.check import BOOTSTRAP, equal, fact, new_name, that, topic
from harness.logins import librdkafka

WAIT = 15


def producer(transactional_id):
    return Producer({**librdkafka(BOOTSTRAP), "transactional.id": transactional_id, "transaction.timeout.ms": 30_000})


def committed(name):
    """The values that a reader of committed data gets from partition 0."""
    c = Consumer({**librdkafka(BOOTSTRAP), "group.id": "unused", "enable.auto.commit": False,
                  "enable.partition.eof": True, "isolation.level": "read_committed", "fetch.wait.max.ms": 20})
    c.assign([TopicPartition(name, 0, 0)])
    values, deadline = [], time.monotonic() + WAIT
    while True:
        that(time.monotonic() < deadline, f"no end after {len(values)} values")
        message = c.poll(0.2)
        if message is None:
            continue
        if message.error() is None:
            values.append(message.value())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            c.close()
            return values
        else:
            raise KafkaException(message.error())


def soon(name, want):
    """Markers follow the answer: what is read becomes `want`."""
    deadline = time.monotonic() + WAIT
    while (got := committed(name)) != want:
        that(time.monotonic() < deadline, f"{got} instead of {want}")
        time.sleep(0.05)


@fact
def a_transactional_producer_commits_and_aborts():
    name, p, want = topic("txn"), producer(new_name("id")), []
    p.init_transactions(WAIT)
    for number in range(20):
        p.begin_transaction()
        values = [b"%d.%d" % (number, at) for at in range(3)]
        for value in values:
            p.produce(name, value, partition=0)
        if number % 3:
            p.commit_transaction(WAIT)
            want += values
        else:
            p.flush(WAIT)
            p.abort_transaction(WAIT)
    soon(name, want)


@fact
def a_second_transactional_producer_fences_the_first():
    name, same = topic("fenced"), new_name("id")
    first = producer(same)
    first.init_transactions(WAIT)
    first.begin_transaction()
    first.produce(name, b"lost", partition=0)
    first.flush(WAIT)
    second = producer(same)
    second.init_transactions(WAIT)
    second.begin_transaction()
    second.produce(name, b"kept", partition=0)
    second.commit_transaction(WAIT)
    try:
        first.commit_transaction(WAIT)
    except KafkaException as error:
        that(error.args[0].fatal(), f"{error} is not fatal")
    else:
        raise AssertionError("the first one committed")
    soon(name, [b"kept"])


@fact
def offsets_join_the_transaction():
    name, group, p = topic("offsets"), new_name("group"), producer(new_name("id"))
    reader = Consumer({**librdkafka(BOOTSTRAP), "group.id": group})
    p.init_transactions(WAIT)
    for offset, commits in ((5, True), (6, False)):
        p.begin_transaction()
        p.produce(name, b"x", partition=0)
        p.send_offsets_to_transaction([TopicPartition(name, 0, offset)], reader.consumer_group_metadata(), WAIT)
        if commits:
            p.commit_transaction(WAIT)
        else:
            p.abort_transaction(WAIT)
    deadline = time.monotonic() + WAIT
    while (found := reader.committed([TopicPartition(name, 0)], WAIT)[0].offset) != 5:
        that(time.monotonic() < deadline, f"offset {found}")
        time.sleep(0.05)
    equal(found, 5, "committed offset")
    reader.close()
