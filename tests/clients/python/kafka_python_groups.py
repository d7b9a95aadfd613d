"""kafka-python's group consumers and transactions, and what its admin client tells of them."""

import time
from concurrent.futures import ThreadPoolExecutor

from harness.check import BOOTSTRAP, equal, fact, new_name, that, topic
from harness.logins import python
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

WAIT = 40


class Member(ConsumerRebalanceListener):
    """A consumer in a group. Polled by a thread of its own, as applications do: 3.0.12 drops an assignment that arrives while
    nobody polls, and joins again."""

    def __init__(self, group, name, **settings):
        self.got, self.given_up = set(), 0
        self.consumer = KafkaConsumer(
            **python(BOOTSTRAP), group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
            heartbeat_interval_ms=300, session_timeout_ms=10_000, fetch_max_wait_ms=50, **settings)
        self.consumer.subscribe([name], listener=self)

    def on_partitions_assigned(self, assigned):
        pass

    def on_partitions_revoked(self, revoked):
        self.given_up += len(revoked)

    def owned(self):
        return {p.partition for p in self.consumer.assignment()}

    def poll(self):
        for records in self.consumer.poll(timeout_ms=50).values():
            self.got |= {(r.partition, r.offset) for r in records}

    def close(self):
        self.consumer.close(autocommit=False)


def until(members, holds, what):
    deadline = time.monotonic() + WAIT
    while not holds():
        that(time.monotonic() < deadline, f"{what}: not in time; owned {[sorted(m.owned()) for m in members]}")
        with ThreadPoolExecutor(len(members)) as threads:
            list(threads.map(Member.poll, members))


def share(members, partitions):
    """The members own all partitions together, and none twice."""
    owned = [p for m in members for p in m.owned()]
    return all(m.owned() for m in members) and sorted(owned) == list(range(partitions))


def fill(name, partitions, each, **settings):
    producer = KafkaProducer(**python(BOOTSTRAP), **settings)
    for sent in [producer.send(name, b"%d" % n, partition=p) for p in range(partitions) for n in range(each)]:
        sent.get(WAIT)
    producer.close()


def check_sharing(assignor):
    name, group = topic("shared", 4), new_name("group")
    fill(name, 4, 50)
    members = [Member(group, name, partition_assignment_strategy=[assignor]) for _ in range(2)]
    until(members, lambda: share(members, 4), "two members share")
    until(members, lambda: len(members[0].got | members[1].got) == 200, "every record")
    for member in members:
        member.consumer.commit({TopicPartition(name, p): OffsetAndMetadata(50, "half", -1) for p in member.owned()})
        member.close()
    fill(name, 4, 1)
    third = Member(group, name, partition_assignment_strategy=[assignor])
    until([third], lambda: len(third.got) >= 4, "the records behind the committed offsets")
    equal(sorted(third.got), [(p, 50) for p in range(4)], "what a later member reads")
    equal(third.consumer.committed(TopicPartition(name, 0), metadata=True).metadata, "half", "metadata")
    third.close()


@fact
def eager_members_share_and_a_later_one_goes_on_where_they_committed():
    check_sharing(RangePartitionAssignor)


@fact
def cooperative_members_share_and_a_later_one_goes_on_where_they_committed():
    check_sharing(CooperativeStickyAssignor)


@fact
def what_a_member_leaves_goes_to_the_other():
    name, group = topic("leaving", 4), new_name("group")
    members = [Member(group, name) for _ in range(2)]
    until(members, lambda: share(members, 4), "two members share")
    members[1].close()
    until(members[:1], lambda: share(members[:1], 4), "the other has all")
    members[0].close()


@fact
def admin_lists_describes_moves_and_deletes_a_group():
    name, group = topic("adm", 2), new_name("group")
    admin, member = KafkaAdminClient(**python(BOOTSTRAP)), Member(group, name)
    until([member], lambda: share([member], 2), "one member owns all")
    listed = {g["group_id"]: g for g in admin.list_groups()}
    equal((listed[group]["group_state"], listed[group]["group_type"]), ("Stable", "classic"), "listed")
    described = admin.describe_groups([group])[group]
    equal((described["group_state"], len(described["members"])), ("Stable", 1), "described")
    equal(admin.delete_groups([group]), {group: "NonEmptyGroupError"}, "deleting it now")
    member.close()
    where = TopicPartition(name, 1)
    admin.alter_group_offsets(group, {where: OffsetAndMetadata(3, "moved", -1)})
    back = admin.list_group_offsets(group)[group]
    equal((back[where].offset, back[where].metadata), (3, "moved"), "offset that was moved")
    equal(admin.delete_groups([group]), {group: "OK"}, "deleting it")
    that(group not in {g["group_id"] for g in admin.list_groups()}, "still listed")
    admin.close()


def transactional(id):
    producer = KafkaProducer(**python(BOOTSTRAP), transactional_id=id, transaction_timeout_ms=30_000)
    producer.init_transactions()
    return producer


def committed(name, count):
    """The values that a reader of committed data gets from partition 0 up to the stable end; waits until there are `count`."""
    consumer = KafkaConsumer(**python(BOOTSTRAP), isolation_level="read_committed", fetch_max_wait_ms=50)
    where, values, deadline = TopicPartition(name, 0), [], time.monotonic() + WAIT
    consumer.assign([where])
    consumer.seek(where, 0)
    while len(values) < count or consumer.position(where) < consumer.end_offsets([where])[where]:
        that(time.monotonic() < deadline, f"{len(values)} of {count} values")
        for records in consumer.poll(timeout_ms=50).values():
            values += [r.value for r in records]
    consumer.close()
    return values


@fact
def committed_transactions_are_read_and_aborted_ones_are_not():
    name, want = topic("txn"), []
    producer = transactional(new_name("id"))
    for number in range(10):
        producer.begin_transaction()
        values = [b"%d.%d" % (number, at) for at in range(3)]
        for sent in [producer.send(name, v, partition=0) for v in values]:
            sent.get(WAIT)
        if number % 3:
            producer.commit_transaction()
            want += values
        else:
            producer.abort_transaction()
    equal(committed(name, len(want)), want, "what is read")
    producer.close()


@fact
def offsets_of_a_group_move_with_the_transaction():
    name, group = topic("moves"), new_name("group")
    where, producer = TopicPartition(name, 0), transactional(new_name("id"))
    for offset, end in ((7, producer.commit_transaction), (9, producer.abort_transaction)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction({where: OffsetAndMetadata(offset, "", -1)}, group)
        end()
    producer.close()
    consumer, deadline = KafkaConsumer(**python(BOOTSTRAP), group_id=group), time.monotonic() + WAIT
    while (got := consumer.committed(where)) != 7:
        that(time.monotonic() < deadline, f"committed: {got}")
    consumer.close()


@fact
def a_second_producer_of_the_id_fences_the_first():
    name, id = topic("fenced"), new_name("id")
    first = transactional(id)
    first.begin_transaction()
    first.send(name, b"lost", partition=0).get(WAIT)
    second = transactional(id)
    second.begin_transaction()
    second.send(name, b"kept", partition=0).get(WAIT)
    second.commit_transaction()
    try:
        first.commit_transaction()
        raise AssertionError("the first producer committed")
    except KafkaError as error:
        that("Fenced" in type(error).__name__ or "Epoch" in type(error).__name__, f"unexpected {error!r}")
    equal(committed(name, 1), [b"kept"], "what is read")
    first.close(0)
    second.close()
