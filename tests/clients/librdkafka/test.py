"""librdkafka through confluent-kafka: the producer and the assigned consumer. The admin client is in admin.py."""

import random
import threading
import time

import admin  # noqa: F401  registers its facts
import groups  # noqa: F401  likewise
import confluent_kafka as ck
import transactions  # noqa: F401  registers its facts
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from harness import raw
from harness.check import BOOTSTRAP, equal, fact, main, new_name, that, topic
from harness.logins import librdkafka

WAIT = 15


def producer(**settings):
    return Producer({**librdkafka(BOOTSTRAP), **{k.replace("_", "."): v for k, v in settings.items()}})


def consumer(**settings):
    return Consumer({**librdkafka(BOOTSTRAP), "group.id": "unused", "enable.auto.commit": False,
                     "enable.partition.eof": True, "fetch.wait.max.ms": 20, **{k.replace("_", "."): v for k, v in settings.items()}})


def send(p, name, messages, **common):
    """Produces (key, value) pairs; returns what delivery reports said, in their order."""
    reports = []
    for key, value in messages:
        while True:
            try:
                p.produce(name, value, key, on_delivery=lambda e, m: reports.append((e, m)), **common)
                break
            except BufferError:
                p.poll(0.1)
    equal(p.flush(WAIT), 0, "messages left in the producer")
    return reports


def read(c, partitions, count=None):
    """Reads until every partition ended, or `count` messages."""
    c.assign(partitions)
    messages, ended, deadline = [], set(), time.monotonic() + 2 * WAIT
    while len(ended) < len(partitions) and (count is None or len(messages) < count):
        that(time.monotonic() < deadline, f"only {len(messages)} messages came in time")
        for m in c.consume(2_000, 0.05):
            if m.error() is None:
                messages.append(m)
                ended.discard((m.topic(), m.partition()))
            elif m.error().code() == KafkaError._PARTITION_EOF:
                ended.add((m.topic(), m.partition()))
            else:
                raise KafkaException(m.error())
    return messages if count is None else messages[:count]


def pairs(count, seed, size=100):
    rng = random.Random(seed)
    return [(b"k%d" % i, rng.randbytes(rng.randrange(1, size))) for i in range(count)]


@fact
def an_idempotent_producer_keeps_order_and_count():
    name, sent = topic("idem"), pairs(20_000, 1)
    reports = send(producer(enable_idempotence=True, linger_ms=5, batch_num_messages=500), name, sent, partition=0)
    equal([e for e, _ in reports if e], [], "delivery errors")
    equal([m.offset() for _, m in reports], list(range(20_000)), "offsets in delivery order")
    c = consumer()
    back = read(c, [TopicPartition(name, 0, 0)])
    c.close()
    equal([m.offset() for m in back], list(range(20_000)), "offsets")
    that([(m.key(), m.value()) for m in back] == sent, "keys or values differ")


@fact
def every_codec_and_batch_size_returns_the_same():
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for size in (1, 10_000):
            name, sent = topic(f"codec-{codec}"), pairs(min(1_500, 300 * size), codec)
            p = producer(compression_type=codec, enable_idempotence=True, batch_num_messages=size)
            equal([e for e, _ in send(p, name, sent) if e], [], f"{codec} {size}")
            c = consumer()
            that([(m.key(), m.value()) for m in read(c, [TopicPartition(name, 0, 0)])] == sent, f"{codec} {size} differs")
            c.close()


@fact
def headers_times_and_nulls_return():
    name, p, c = topic("headers"), producer(), consumer()
    headers = [("a", b"1"), ("a", b"\x00\xff"), ("empty", b""), ("null", None), ("ü", "ü".encode())]
    send(p, name, [(b"k", b"v"), (None, b"v"), (b"k", None), (b"", b""), (None, None)], headers=headers,
         timestamp=1_600_000_000_123)
    back = read(c, [TopicPartition(name, 0, 0)])
    c.close()
    equal([(m.key(), m.value()) for m in back], [(b"k", b"v"), (None, b"v"), (b"k", None), (b"", b""), (None, None)])
    equal([m.headers() for m in back], [headers] * 5)
    equal([m.timestamp() for m in back], [(ck.TIMESTAMP_CREATE_TIME, 1_600_000_000_123)] * 5)


@fact
def log_append_time_is_the_brokers():
    name, p, c = topic("append-time", message_timestamp_type="LogAppendTime"), producer(), consumer()
    before = int(time.time() * 1000)
    send(p, name, pairs(10, 2), timestamp=1_000)
    after = int(time.time() * 1000)
    for m in read(c, [TopicPartition(name, 0, 0)]):
        kind, stamp = m.timestamp()
        equal(kind, ck.TIMESTAMP_LOG_APPEND_TIME)
        that(before <= stamp <= after, f"{before} <= {stamp} <= {after}")
    c.close()


@fact
def seek_and_watermarks():
    name, c = topic("seek"), consumer()
    send(producer(batch_num_messages=100), name, [(None, b"%d" % i) for i in range(1_000)])
    equal(c.get_watermark_offsets(TopicPartition(name, 0), WAIT), (0, 1_000), "watermarks")
    equal([m.value() for m in read(c, [TopicPartition(name, 0, 250)], 3)], [b"250", b"251", b"252"])
    c.seek(TopicPartition(name, 0, 777))
    got, deadline = None, time.monotonic() + WAIT
    while got is None and time.monotonic() < deadline:
        m = c.poll(0.5)
        got = m.value() if m and m.error() is None and m.offset() >= 777 else None
    equal(got, b"777", "after seek")
    equal([m.value() for m in read(c, [TopicPartition(name, 0, ck.OFFSET_BEGINNING)], 1)], [b"0"])
    equal([m.value() for m in read(c, [TopicPartition(name, 0, ck.OFFSET_END)])], [])
    c.close()


@fact
def offsets_for_times_are_exact():
    name, p, c = topic("times", 2), producer(batch_num_messages=7), consumer()
    for i in range(300):
        p.produce(name, b"x", partition=0, timestamp=1_000_000 + 10 * i)
    p.flush(WAIT)
    cases = [(0, 0), (1_000_000, 0), (1_000_001, 1), (1_000_010, 1), (1_001_234, 124), (1_002_990, 299), (1_002_991, -1)]
    for stamp, offset in cases:
        found, empty = c.offsets_for_times([TopicPartition(name, 0, stamp), TopicPartition(name, 1, stamp)], WAIT)
        equal(found.offset, offset, f"first offset at {stamp}")
        equal(empty.offset, -1, "in an empty partition")
    c.close()


@fact
def a_waiting_consumer_sees_a_new_record_at_once():
    name, c, p = topic("wait"), consumer(fetch_wait_max_ms=10_000, fetch_min_bytes=1), producer(linger_ms=0)
    c.assign([TopicPartition(name, 0, 0)])
    taken = []
    for i in range(5):
        threading.Timer(0.3, lambda i=i: (p.produce(name, b"%d" % i), p.flush(WAIT))).start()
        begin = time.monotonic()
        while (m := c.poll(WAIT)) is not None and m.error():
            pass
        equal(m and m.value(), b"%d" % i)
        taken.append(time.monotonic() - begin)
    c.close()
    that(max(taken) < 1.5, f"a record waited {max(taken):.1f} s")


@fact
def many_partitions_of_many_topics_in_one_consumer():
    names = [topic(f"many{i}", 8) for i in range(5)]
    p, c, sent = producer(linger_ms=5), consumer(), {}
    for i in range(8_000):
        where = (names[i % 5], i % 8)
        p.produce(where[0], b"%d" % i, partition=where[1])
        sent.setdefault(where, []).append(b"%d" % i)
    equal(p.flush(WAIT), 0)
    back = {}
    for m in read(c, [TopicPartition(n, q, 0) for n in names for q in range(8)]):
        back.setdefault((m.topic(), m.partition()), []).append(m.value())
    c.close()
    that(back == sent, "what was read is not what was sent")


@fact
def a_record_larger_than_the_fetch_size_still_comes():
    name, c = topic("large-record"), consumer(fetch_message_max_bytes=1_000, fetch_max_bytes=1_000_000,
                                              receive_message_max_bytes=2_000_000)
    value = random.Random(3).randbytes(900_000)
    send(producer(), name, [(None, b"small"), (None, value), (None, b"small")])
    equal([len(m.value()) for m in read(c, [TopicPartition(name, 0, 0)])], [5, 900_000, 5])
    c.close()


@fact
def a_message_over_the_limit_fails_alone():
    name = topic("limit", max_message_bytes="20000")
    p = producer(linger_ms=0, enable_idempotence=False)
    for size, code in ((10_000, None), (30_000, KafkaError.MSG_SIZE_TOO_LARGE), (10_000, None)):
        (error, _), = send(p, name, [(None, bytes(size))])
        equal(error and error.code(), code, f"{size} bytes")


@fact
def an_unknown_partition_and_an_unknown_topic_are_errors():
    name = topic("unknown", 2)
    try:
        (error, _), = send(producer(message_timeout_ms=4_000), name, [(None, b"x")], partition=7)
    except KafkaException as at_once:  # the topic was known before the record was queued
        error = at_once.args[0]
    that(error.code() in (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART), str(error))
    c, missing = consumer(allow_auto_create_topics=False), new_name("nosuch")
    equal(c.list_topics(missing, WAIT).topics[missing].error.code(), KafkaError.UNKNOWN_TOPIC_OR_PART)
    c.close()


@fact
def an_offset_out_of_range_is_reported():
    name, c = topic("range"), consumer(auto_offset_reset="error")
    send(producer(), name, [(None, b"x")])
    c.assign([TopicPartition(name, 0, 50)])
    m = c.poll(WAIT)
    equal(m.error().code(), KafkaError._AUTO_OFFSET_RESET, str(m.error()))
    c.close()


@fact
def an_invalid_topic_name_is_refused_on_produce():
    (error, _), = send(producer(message_timeout_ms=4_000), "bad/name", [(None, b"x")])
    equal(error.code(), KafkaError.TOPIC_EXCEPTION, str(error))


if __name__ == "__main__":
    main(f"{ck.__version__} (librdkafka {ck.libversion()[0]})")
