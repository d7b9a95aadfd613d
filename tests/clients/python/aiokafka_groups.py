"""aiokafka's group consumers and transactions."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata
from harness.check import BOOTSTRAP, equal, fact, new_name, that, topic
from harness.logins import python

WAIT = 40


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 2 * WAIT))


class Member:
    """A consumer in a group with a task of its own that takes what comes."""

    def __init__(self, group, name, **settings):
        self.got, self.name = set(), name
        self.consumer = AIOKafkaConsumer(
            name, **python(BOOTSTRAP), group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
            heartbeat_interval_ms=300, session_timeout_ms=10_000, fetch_max_wait_ms=50, **settings)

    async def __aenter__(self):
        await self.consumer.start()
        self.task = asyncio.create_task(self.take())
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await self.consumer.stop()

    async def take(self):
        while True:
            for records in (await self.consumer.getmany(timeout_ms=50)).values():
                self.got |= {(r.partition, r.offset) for r in records}

    def owned(self):
        return {p.partition for p in self.consumer.assignment()}


async def until(holds, what):
    try:
        async with asyncio.timeout(WAIT):
            while not await holds():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what}: not in time") from None


async def shared(members, partitions):
    owned = [p for m in members for p in m.owned()]
    return all(m.owned() for m in members) and sorted(owned) == list(range(partitions))


async def fill(name, partitions, each):
    async with AIOKafkaProducer(**python(BOOTSTRAP)) as producer:
        await asyncio.gather(*[await producer.send(name, b"%d" % n, partition=p) for p in range(partitions) for n in range(each)])


async def check_sharing(**settings):
    name, group = topic("shared", 4), new_name("group")
    await fill(name, 4, 50)
    async with Member(group, name, **settings) as one, Member(group, name, **settings) as two:
        async def every_record():
            return len(one.got | two.got) == 200
        await until(lambda: shared([one, two], 4), "two members share")
        await until(every_record, "every record")
        for member in (one, two):
            await member.consumer.commit({TopicPartition(name, p): OffsetAndMetadata(50, "half") for p in member.owned()})
    await fill(name, 4, 1)
    async with Member(group, name, **settings) as three:
        async def the_rest():
            return len(three.got) >= 4
        await until(the_rest, "the records behind the committed offsets")
        equal(sorted(three.got), [(p, 50) for p in range(4)], "what a later member reads")


@fact
def members_share_and_a_later_one_goes_on_where_they_committed():
    run(check_sharing(partition_assignment_strategy=(RangePartitionAssignor,)))


@fact
def sticky_members_share_and_a_later_one_goes_on_where_they_committed():
    run(check_sharing(partition_assignment_strategy=(StickyPartitionAssignor,)))


@fact
def what_a_member_leaves_goes_to_the_other():
    async def body():
        name, group = topic("leaving", 4), new_name("group")
        async with Member(group, name) as one:
            async with Member(group, name) as two:
                await until(lambda: shared([one, two], 4), "two members share")
            await until(lambda: shared([one], 4), "the other has all")
    run(body())


@fact
def admin_describes_a_group_and_lists_its_offsets():
    async def body():
        name, group = topic("adm", 2), new_name("group")
        await fill(name, 2, 5)
        admin = AIOKafkaAdminClient(**python(BOOTSTRAP))
        await admin.start()
        try:
            async with Member(group, name) as member:
                await until(lambda: shared([member], 2), "one member owns all")
                await member.consumer.commit({TopicPartition(name, p): 5 for p in range(2)})
                that((group, "consumer") in [g[:2] for g in await admin.list_consumer_groups()], "not listed")
                described = (await admin.describe_consumer_groups([group]))[0].groups[0]
                equal((described[1], described[2], described[3], len(described[5])), (group, "Stable", "consumer", 1), "described")
            offsets = await admin.list_consumer_group_offsets(group)
            equal({p.partition: o.offset for p, o in offsets.items()}, {0: 5, 1: 5}, "committed")
        finally:
            await admin.close()
    run(body())


def transactional(id):
    return AIOKafkaProducer(**python(BOOTSTRAP), transactional_id=id, transaction_timeout_ms=30_000)


async def committed(name, count):
    """The first `count` values that a reader of committed data gets from partition 0, and those behind up to the stable end."""
    async with AIOKafkaConsumer(**python(BOOTSTRAP), isolation_level="read_committed", fetch_max_wait_ms=50) as consumer:
        where, values = TopicPartition(name, 0), []
        consumer.assign([where])
        consumer.seek(where, 0)
        async with asyncio.timeout(WAIT):
            while len(values) < count or await consumer.position(where) < (await consumer.end_offsets([where]))[where]:
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    values += [r.value for r in records]
        return values


@fact
def committed_transactions_are_read_and_aborted_ones_are_not():
    async def body():
        name, want = topic("txn"), []
        async with transactional(new_name("id")) as producer:
            for number in range(10):
                values = [b"%d.%d" % (number, at) for at in range(3)]
                await producer.begin_transaction()
                for value in values:
                    await producer.send_and_wait(name, value, partition=0)
                if number % 3:
                    await producer.commit_transaction()
                    want += values
                else:
                    await producer.abort_transaction()
        equal(await committed(name, len(want)), want, "what is read")
    run(body())


@fact
def a_consume_transform_produce_loop_moves_every_record_once():
    async def body():
        source, sink, group = topic("source", 2), topic("sink"), new_name("group")
        await fill(source, 2, 100)
        settings = {**python(BOOTSTRAP), "group_id": group, "auto_offset_reset": "earliest",
                    "enable_auto_commit": False, "isolation_level": "read_committed", "fetch_max_wait_ms": 50}
        async with transactional(new_name("id")) as producer, AIOKafkaConsumer(source, **settings) as consumer:
            moved, rounds = 0, 0
            async with asyncio.timeout(WAIT):
                while moved < 200:
                    taken = await consumer.getmany(timeout_ms=50, max_records=30)
                    if not taken:
                        continue
                    rounds += 1
                    await producer.begin_transaction()
                    for where, records in taken.items():
                        for r in records:
                            await producer.send_and_wait(sink, b"%d/%s" % (where.partition, r.value), partition=0)
                    await producer.send_offsets_to_transaction({w: rs[-1].offset + 1 for w, rs in taken.items()}, group)
                    if rounds % 3 == 2:  # every third round fails: its records and its offsets must not count
                        await producer.abort_transaction()
                        for where, records in taken.items():
                            consumer.seek(where, records[0].offset)
                    else:
                        await producer.commit_transaction()
                        moved += sum(map(len, taken.values()))
        equal(sorted(await committed(sink, 200)), sorted(b"%d/%d" % (p, n) for p in range(2) for n in range(100)), "what arrived")
        async with AIOKafkaConsumer(**python(BOOTSTRAP), group_id=group) as reader:
            async def both():
                return [await reader.committed(TopicPartition(source, p)) for p in range(2)] == [100, 100]
            await until(both, "the group's offsets")
    run(body())


@fact
def a_second_producer_of_the_id_fences_the_first():
    async def body():
        name, id = topic("fenced"), new_name("id")
        first, second = transactional(id), transactional(id)
        await first.start()
        await first.begin_transaction()
        await first.send_and_wait(name, b"lost", partition=0)
        await second.start()
        await second.begin_transaction()
        await second.send_and_wait(name, b"kept", partition=0)
        await second.commit_transaction()
        try:
            await first.commit_transaction()
            raise AssertionError("the first producer committed")
        except KafkaError as error:
            that("Fenced" in type(error).__name__ or "Epoch" in type(error).__name__, f"unexpected {error!r}")
        equal(await committed(name, 1), [b"kept"], "what is read")
        await second.stop()
        await first.stop()
    run(body())
