"""librdkafka's group consumers: both rebalance protocols of classic groups, KIP-848 groups, offsets, administration."""

import time

from confluent_kafka import (Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer,
                             TopicPartition)
from confluent_kafka.admin import AdminClient
from harness.check import BOOTSTRAP, equal, fact, new_name, that, topic
from harness.logins import librdkafka

WAIT = 30


class Member:
    """A consumer in a group, polled in turns with the others by one thread."""

    def __init__(self, group, name, **settings):
        self.assigned, self.revoked, self.lost, self.got, self.moves = set(), [], [], [], 0
        common = {**librdkafka(BOOTSTRAP), "group.id": group, "auto.offset.reset": "earliest",
                  "enable.auto.commit": False, "fetch.wait.max.ms": 20}
        self.consumer = Consumer({**common, **{k.replace("_", "."): v for k, v in settings.items()}})
        self.consumer.subscribe([name], on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost)

    def on_assign(self, _, partitions):
        self.assigned |= {p.partition for p in partitions}
        self.moves += 1

    def on_revoke(self, _, partitions):
        self.assigned -= {p.partition for p in partitions}
        self.revoked += [p.partition for p in partitions]

    def on_lost(self, _, partitions):
        self.assigned -= {p.partition for p in partitions}
        self.lost += [p.partition for p in partitions]

    def poll(self):
        message = self.consumer.poll(0.02)
        if message is not None:
            if message.error():
                raise KafkaException(message.error())
            self.got.append((message.partition(), message.offset()))

    def let_go(self):
        """Serves the rebalance that takes its partitions: close() of librdkafka 2.16 may never return while one waits."""
        deadline = time.monotonic() + WAIT
        while self.assigned:
            that(time.monotonic() < deadline, f"still holds {sorted(self.assigned)}")
            self.consumer.poll(0.02)

    def close(self):
        self.consumer.close()


def until(members, holds, what):
    deadline = time.monotonic() + WAIT
    while not holds():
        that(time.monotonic() < deadline, f"{what}: not in time; assigned {[sorted(m.assigned) for m in members]}")
        for member in members:
            member.poll()


def fill(name, partitions, each):
    p = Producer(librdkafka(BOOTSTRAP))
    for partition in range(partitions):
        for number in range(each):
            p.produce(name, b"v%d" % number, partition=partition)
    equal(p.flush(WAIT), 0, "messages left")


def share(members, partitions):
    """The members own all partitions together, and none twice."""
    owned = [p for m in members for p in m.assigned]
    return all(m.assigned for m in members) and sorted(owned) == list(range(partitions))


def check_sharing(**settings):
    name, group = topic("shared", 4), new_name("group")
    fill(name, 4, 50)
    first, second = Member(group, name, **settings), Member(group, name, **settings)
    until([first, second], lambda: share([first, second], 4), "two members share")
    until([first, second], lambda: len(set(first.got + second.got)) == 200, "every record")
    for member in (first, second):
        member.consumer.commit(offsets=[TopicPartition(name, p, 50) for p in member.assigned], asynchronous=False)
        member.close()
    fill(name, 4, 1)
    third = Member(group, name, **settings)
    until([third], lambda: len(third.got) >= 4, "the records after the committed offsets")
    equal(sorted(third.got), [(p, 50) for p in range(4)], "what a later member reads")
    third.close()


@fact
def two_members_share_partitions_and_a_third_goes_on_where_they_committed():
    check_sharing()


@fact
def the_same_with_the_consumer_protocol():
    check_sharing(group_protocol="consumer")


@fact
def a_cooperative_rebalance_moves_only_what_moves():
    name, group = topic("coop", 4), new_name("group")
    settings = {"partition.assignment.strategy": "cooperative-sticky"}
    first = Member(group, name, **settings)
    until([first], lambda: share([first], 4), "one member owns all")
    second = Member(group, name, **settings)
    until([first, second], lambda: share([first, second], 4), "two members share")
    equal(len(first.revoked), 2, "partitions the first member gave up")
    second.close()
    until([first], lambda: share([first], 4), "what the second left")
    equal(len(first.revoked), 2, "partitions the first member gave up in all")
    first.close()


@fact
def a_static_member_that_comes_back_moves_nothing():
    name, group = topic("static", 4), new_name("group")
    one = Member(group, name, group_instance_id="one")
    two = Member(group, name, group_instance_id="two")
    until([one, two], lambda: share([one, two], 4), "two members share")
    owned, moves = set(two.assigned), one.moves
    two.close()
    two = Member(group, name, group_instance_id="two")
    until([one, two], lambda: two.assigned == owned, "the same partitions again")
    equal(one.moves, moves, "assignments of the member that stayed")
    one.close()
    two.close()


@fact
def committed_offsets_come_back_with_metadata_and_epoch():
    name, group = topic("committed", 3), new_name("group")
    c = Consumer({**librdkafka(BOOTSTRAP), "group.id": group, "enable.auto.commit": False})
    c.commit(offsets=[TopicPartition(name, 0, 7, metadata="seven", leader_epoch=0), TopicPartition(name, 1, 0)],
             asynchronous=False)
    back = c.committed([TopicPartition(name, p) for p in range(3)], timeout=WAIT)
    equal([(p.offset, p.metadata or "") for p in back], [(7, "seven"), (0, ""), (-1001, "")], "offsets and metadata")
    equal(back[0].leader_epoch, 0, "leader epoch")
    try:
        c.commit(offsets=[TopicPartition(name, 0, 8, metadata="x" * 5000)], asynchronous=False)
        raise AssertionError("metadata of 5,000 bytes was taken")
    except KafkaException as error:
        equal(error.args[0].code(), KafkaError.OFFSET_METADATA_TOO_LARGE, "code")
    c.close()


@fact
def a_member_that_was_thrown_out_cannot_commit():
    name, group = topic("fenced", 1), new_name("group")
    fill(name, 1, 10)
    slow = Member(group, name, session_timeout_ms=6000, max_poll_interval_ms=6000, heartbeat_interval_ms=500)
    until([slow], lambda: len(slow.got) == 10, "ten records")
    other = Member(group, name, session_timeout_ms=6000)
    until([other], lambda: other.assigned == {0}, "the other member takes over")
    try:
        slow.consumer.commit(offsets=[TopicPartition(name, 0, 5)], asynchronous=False)
        raise AssertionError("the commit was taken")
    except KafkaException as error:
        that(error.args[0].code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION,
                                      KafkaError._MAX_POLL_EXCEEDED, KafkaError._NO_OFFSET, KafkaError.REBALANCE_IN_PROGRESS,
                                      KafkaError._FENCED), f"unexpected error {error}")
    until([other], lambda: True, "")
    back = other.consumer.committed([TopicPartition(name, 0)], timeout=WAIT)
    equal(back[0].offset, -1001, "committed offset")
    other.close()
    slow.consumer.unsubscribe()
    slow.let_go()
    slow.close()


@fact
def admin_lists_describes_resets_and_deletes_a_group():
    name, group = topic("adm", 2), new_name("group")
    fill(name, 2, 10)
    admin = AdminClient(librdkafka(BOOTSTRAP))
    member = Member(group, name)
    until([member], lambda: len(member.got) == 20, "twenty records")
    member.consumer.commit(asynchronous=False)
    listed = {g.group_id: g for g in admin.list_consumer_groups().result(WAIT).valid}
    equal(listed[group].state, ConsumerGroupState.STABLE, "listed state")
    described = admin.describe_consumer_groups([group])[group].result(WAIT)
    equal(described.state, ConsumerGroupState.STABLE, "state")
    equal(len(described.members), 1, "members")
    equal(sorted((p.topic, p.partition) for p in described.members[0].assignment.topic_partitions),
          [(name, 0), (name, 1)], "assignment")
    equal(described.members[0].host.lstrip("/"), "127.0.0.1", "host")
    try:
        admin.delete_consumer_groups([group])[group].result(WAIT)
        raise AssertionError("a group with members was deleted")
    except KafkaException as error:
        equal(error.args[0].code(), KafkaError.NON_EMPTY_GROUP, "code")
    member.close()
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(WAIT)
    equal(sorted((p.partition, p.offset) for p in offsets.topic_partitions), [(0, 10), (1, 10)], "committed")
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition(name, 0, 3)])])[group].result(WAIT)
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(WAIT)
    equal(sorted((p.partition, p.offset) for p in offsets.topic_partitions), [(0, 3), (1, 10)], "after the reset")
    admin.delete_consumer_groups([group])[group].result(WAIT)
    that(group not in {g.group_id for g in admin.list_consumer_groups().result(WAIT).valid}, "still listed")
