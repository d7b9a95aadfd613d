"""aiokafka: the asyncio producer, the assigned consumer and its admin client; groups are next door."""

import asyncio
import random

import aiokafka
import aiokafka_groups  # noqa: F401  registers its facts
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError
from harness.check import BOOTSTRAP, NODES, equal, fact, main, new_name, that, topic
from harness.logins import python

WAIT = 30


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 2 * WAIT))


async def read(name, count, partition=0, offset=0, **settings):
    consumer = AIOKafkaConsumer(**python(BOOTSTRAP), enable_auto_commit=False, auto_offset_reset="none", **settings)
    await consumer.start()
    try:
        where, records = TopicPartition(name, partition), []
        consumer.assign([where])
        consumer.seek(where, offset)
        while len(records) < count:
            for batch in (await asyncio.wait_for(consumer.getmany(timeout_ms=500), WAIT)).values():
                records += batch
        return records[:count]
    finally:
        await consumer.stop()


async def send(name, records, **settings):
    producer = AIOKafkaProducer(**python(BOOTSTRAP), **settings)
    await producer.start()
    try:
        sent = [await producer.send(name, partition=0, **r) for r in records]
        return [await f for f in sent]
    finally:
        await producer.stop()


@fact
def an_idempotent_producer_keeps_order():
    async def body():
        name = topic("order")
        done = await send(name, [{"value": b"%d" % i, "key": b"k"} for i in range(5_000)], enable_idempotence=True, linger_ms=5)
        equal([d.offset for d in done], list(range(5_000)), "offsets")
        equal([r.value for r in await read(name, 5_000)], [b"%d" % i for i in range(5_000)], "values")
    run(body())


@fact
def every_codec_returns_the_same_bytes():
    async def body():
        for codec in (None, "gzip"):  # the others need packages beside aiokafka
            name, rng = topic("codec"), random.Random(5)
            sent = [{"value": rng.randbytes(rng.randrange(300)), "key": b"%d" % i} for i in range(1_000)]
            await send(name, sent, compression_type=codec, linger_ms=5)
            equal([{"value": r.value, "key": r.key} for r in await read(name, 1_000)], sent, str(codec))
    run(body())


@fact
def headers_times_and_nulls_return():
    async def body():
        name = topic("headers")
        sent = [{"value": v, "key": k, "timestamp_ms": 1_600_000_000_000, "headers": [("a", b"1"), ("a", b"\x00\xff")]}
                for k, v in ((b"k", b"v"), (None, b"v"), (b"k", None))]
        await send(name, sent)
        back = await read(name, 3)
        equal([(r.key, r.value, r.timestamp, list(r.headers)) for r in back],
              [(s["key"], s["value"], s["timestamp_ms"], s["headers"]) for s in sent])
    run(body())


@fact
def offsets_by_time_and_both_ends():
    async def body():
        name = topic("times")
        await send(name, [{"value": b"x", "timestamp_ms": 1_000_000 + 10 * i} for i in range(100)])
        where = TopicPartition(name, 0)
        consumer = AIOKafkaConsumer(**python(BOOTSTRAP))
        await consumer.start()
        try:
            equal(await consumer.beginning_offsets([where]), {where: 0})
            equal(await consumer.end_offsets([where]), {where: 100})
            for stamp, offset in ((0, 0), (1_000_001, 1), (1_000_990, 99)):
                equal((await consumer.offsets_for_times({where: stamp}))[where].offset, offset, f"first at {stamp}")
            equal((await consumer.offsets_for_times({where: 1_000_991}))[where], None)
        finally:
            await consumer.stop()
        equal((await read(name, 1, offset=42))[0].offset, 42)
    run(body())


@fact
def errors_are_reported():
    async def body():
        name = topic("limit", max_message_bytes="5000")
        for size in (6_000, 1_000):
            try:
                await send(name, [{"value": bytes(size)}])
                equal(size, 1_000, "stored")
            except MessageSizeTooLargeError:
                equal(size, 6_000, "refused")
        try:
            await read(name, 1, offset=50)
            raise AssertionError("a record past the end")
        except OffsetOutOfRangeError:
            pass
    run(body())


@fact
def admin_creates_grows_lists_deletes():
    async def body():
        admin, name = AIOKafkaAdminClient(**python(BOOTSTRAP)), new_name("admin")
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name, 2, 1)])
            try:
                made = await admin.create_topics([NewTopic(name, 2, 1)])
                equal(made.topic_errors[0][1], TopicAlreadyExistsError.errno, "made twice")
            except TopicAlreadyExistsError:
                pass
            await admin.create_partitions({name: NewPartitions(5)})
            for _ in range(200):
                described = await admin.describe_topics([name])
                if len(described[0]["partitions"]) == 5:
                    break
                await asyncio.sleep(0.05)
            equal(len(described[0]["partitions"]), 5, "partitions")
            that(name in await admin.list_topics(), "not listed")
            cluster = await admin.describe_cluster()
            equal(sorted(f"{b['host']}:{b['port']}" for b in cluster["brokers"]), sorted(NODES))
            await admin.delete_topics([name])
        finally:
            await admin.close()
    run(body())


if __name__ == "__main__":
    main(aiokafka.__version__)
