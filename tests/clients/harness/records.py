"""Reads and writes whole topics with confluent-kafka, for tests whose subject is another program."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from .check import that
from .logins import librdkafka

WAIT = 90


def until(holds, what, seconds=WAIT):
    """Asks again until `holds` is true; the answer to "what is missing" is what `holds` said last."""
    deadline = time.monotonic() + seconds
    while not (said := holds()):
        that(time.monotonic() < deadline, f"{what}: not within {seconds} s ({said!r})")
        time.sleep(0.05)
    return said


def write(bootstrap, topic, records):
    """Each record is a dict of Producer.produce's arguments."""
    producer, errors = Producer({**librdkafka(bootstrap), "linger.ms": 5}), []
    for record in records:
        while True:
            try:
                producer.produce(topic, on_delivery=lambda error, _: error and errors.append(error), **record)
                break
            except BufferError:
                producer.poll(0.1)
    that(producer.flush(WAIT) == 0 and not errors, f"writing to {topic}: {errors[:1]}")


def read(bootstrap, topic, partition=0):
    """Every committed message of a partition up to its stable end; [] while the topic is not there."""
    consumer = Consumer({**librdkafka(bootstrap), "group.id": "reader", "enable.auto.commit": False,
                         "enable.partition.eof": True, "isolation.level": "read_committed", "fetch.wait.max.ms": 50,
                         "topic.metadata.refresh.interval.ms": 500})
    try:
        if topic not in consumer.list_topics(timeout=WAIT).topics:
            return []
        consumer.assign([TopicPartition(topic, partition, 0)])
        messages, deadline = [], time.monotonic() + WAIT
        while True:
            that(time.monotonic() < deadline, f"no end of {topic} after {len(messages)} messages")
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is None:
                messages.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return messages
            elif message.error().code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise KafkaException(message.error())
    finally:
        consumer.close()


def values(bootstrap, topic, partition=0):
    return [m.value().decode() for m in read(bootstrap, topic, partition)]
