"""kafka-python: the plain Python producer, the assigned consumer and its admin client; groups are next door."""

import random

import kafka
import kafka_python_groups  # noqa: F401  registers its facts
from harness.check import BOOTSTRAP, equal, fact, main, new_name, that, topic
from harness.logins import python
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError, UnknownTopicOrPartitionError


def send(name, records, **settings):
    producer = KafkaProducer(**python(BOOTSTRAP), **settings)
    try:
        return [f.get(30) for f in [producer.send(name, partition=0, **r) for r in records]]
    finally:
        producer.close()


def read(name, count, offset=0):
    consumer = KafkaConsumer(**python(BOOTSTRAP), enable_auto_commit=False, consumer_timeout_ms=20_000)
    try:
        where = TopicPartition(name, 0)
        consumer.assign([where])
        consumer.seek(where, offset)
        records = []
        for record in consumer:
            records.append(record)
            if len(records) == count:
                break
        equal(len(records), count, "records in time")
        return records
    finally:
        consumer.close()


@fact
def an_idempotent_producer_keeps_order():
    name = topic("order")
    done = send(name, [{"value": b"%d" % i, "key": b"k"} for i in range(5_000)], linger_ms=5)
    equal([d.offset for d in done], list(range(5_000)), "offsets")
    equal([r.value for r in read(name, 5_000)], [b"%d" % i for i in range(5_000)], "values")


@fact
def gzip_headers_times_and_nulls_return():
    name, rng = topic("gzip"), random.Random(6)
    sent = [{"value": rng.randbytes(i % 200), "key": None if i % 3 else b"%d" % i, "timestamp_ms": 1_600_000_000_000 + i,
             "headers": [("a", b"%d" % i)]} for i in range(1_000)]
    sent.append({"value": None, "key": b"gone", "timestamp_ms": 1_600_000_000_000, "headers": []})
    send(name, sent, compression_type="gzip", linger_ms=5)
    back = [{"value": r.value, "key": r.key, "timestamp_ms": r.timestamp, "headers": list(r.headers)} for r in read(name, 1_001)]
    equal(back, sent)


@fact
def offsets_by_time_and_both_ends():
    name = topic("times")
    send(name, [{"value": b"x", "timestamp_ms": 1_000_000 + 10 * i} for i in range(100)])
    where, consumer = TopicPartition(name, 0), KafkaConsumer(**python(BOOTSTRAP))
    equal((consumer.beginning_offsets([where]), consumer.end_offsets([where])), ({where: 0}, {where: 100}))
    for stamp, offset in ((0, 0), (1_000_001, 1), (1_000_990, 99)):
        equal(consumer.offsets_for_times({where: stamp})[where].offset, offset, f"first at {stamp}")
    consumer.close()
    equal(read(name, 1, 42)[0].offset, 42)


@fact
def a_record_over_the_limit_is_refused():
    name = topic("limit", max_message_bytes="5000")
    try:
        send(name, [{"value": bytes(6_000)}])
        raise AssertionError("6000 bytes were stored")
    except MessageSizeTooLargeError:
        equal(send(name, [{"value": bytes(1_000)}])[0].offset, 0)


@fact
def admin_creates_lists_deletes():
    admin, name = KafkaAdminClient(**python(BOOTSTRAP)), new_name("admin")
    admin.create_topics([NewTopic(name, 3, 1)])
    for failing, kind in ((lambda: admin.create_topics([NewTopic(name, 3, 1)]), TopicAlreadyExistsError),
                          (lambda: admin.delete_topics([new_name("nosuch")]), UnknownTopicOrPartitionError)):
        try:
            failing()
            raise AssertionError(f"expected {kind.__name__}")
        except kind:
            pass
    that(name in admin.list_topics(), "not listed")
    equal(len(admin.describe_topics([name])[0]["partitions"]), 3)
    admin.delete_topics([name])
    admin.close()


if __name__ == "__main__":
    main(kafka.__version__)
