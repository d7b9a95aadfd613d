"""Raw requests to the coordinators of groups and transactions, each field as the caller wants it.

Of the versions before flexible encoding where there is one that does the job. A call returns what a fact judges:
an error code, or a small tuple that begins with one. COORDINATOR codes are waited out: they say `not yet`.
"""

import struct
import time
import uuid

from . import errors, raw
from .raw import array, data, string

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS = 8, 9, 10, 11, 12, 13, 14, 15
DELETE_TOPICS, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT, DELETE_GROUPS = 20, 24, 25, 26, 28, 42
INCREMENTAL_ALTER_CONFIGS, OFFSET_DELETE, DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS = 44, 47, 61, 65
GROUP_BEAT, GROUP_DESCRIBE = 68, 69
GROUP, TRANSACTION = 0, 1
NOT_YET = (14, 15, 16, 51)  # loading, not available, not here (any more), the last transaction is still ending
BROKERS, SET = 4, 0


def maybe(text):
    """A string that may be absent."""
    return struct.pack(">h", -1) if text is None else string(text)


def compact(text):
    """A string of the flexible versions; None is absent."""
    content = b"" if text is None else text.encode() if isinstance(text, str) else text
    return unsigned(0 if text is None else len(content) + 1) + content


def compact_array(items):
    return b"\0" if items is None else unsigned(len(items) + 1) + b"".join(items)


def unsigned(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Flexible:
    """Reads the flexible versions on top of a plain reader."""

    def __init__(self, reader):
        self.reader = reader
        self.tags()

    def unsigned(self):
        value = shift = 0
        while True:
            byte = self.reader.i8() & 0xFF
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def string(self):
        size = self.unsigned()
        return None if size == 0 else self.reader.raw(size - 1).decode()

    def array(self, item):
        return [item() for _ in range(max(0, self.unsigned() - 1))]

    def tags(self):
        for _ in range(self.unsigned()):
            self.unsigned()
            self.reader.raw(self.unsigned())


def patiently(ask, codes):
    """Asks until none of the codes says that the coordinator is on its way. A fact goes on to show that a refusal changed
    nothing, so the code must be one that says so."""
    deadline = time.monotonic() + raw.SECONDS_MAX
    while True:
        found = ask()
        if not any(code in NOT_YET for code in codes(found)):
            unknown = [code for code in codes(found) if code and not errors.is_definite(code)]
            if unknown:
                raise AssertionError(f"{unknown}: whether it is done is not known")
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"the coordinator is still not there: {found}")
        time.sleep(0.02)


def first(found):
    return found[:1] if isinstance(found, tuple) else [found]


def find(c, key, kind=GROUP):
    """Waits until the key has a coordinator; its internal topic may be made only now."""
    def ask():
        reply = c.call(FIND_COORDINATOR, 1, string(key) + struct.pack(">b", kind))
        reply.i32()
        return reply.i16()
    return patiently(ask, first)


def here(c, prefix, kind=GROUP):
    """A new name that the node at the other end of this connection is the coordinator of."""
    place = "{}:{}".format(*c.socket.getpeername())
    deadline = time.monotonic() + raw.SECONDS_MAX
    while time.monotonic() < deadline:
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        reply = c.call(FIND_COORDINATOR, 1, string(name) + struct.pack(">b", kind))
        reply.i32()
        code, _, _, host, port = reply.i16(), reply.string(), reply.i32(), reply.string(), reply.i32()
        if code == 0 and f"{host}:{port}" == place:
            return name
        time.sleep(0.02)
    raise AssertionError(f"{place} is the coordinator of nothing")


def described(c, api, version, name, options=b""):
    """What a flexible request tells about one name: its readers, at the first field of the only item."""
    reply = c.call(api, version, b"\0" + compact_array([compact(name)]) + options + b"\0")
    answer = Flexible(reply)
    reply.i32()
    answer.unsigned()
    return reply, answer


# Groups.

def join(c, group, member="", *, session=10_000, rebalance=10_000, instance=None, kind="consumer", protocols=(("range", b""),)):
    """JoinGroup v5: (code, generation, member id, leader, [(member, metadata)])."""
    body = (string(group) + struct.pack(">ii", session, rebalance) + string(member) + maybe(instance) + string(kind)
            + array([string(name) + data(blob) for name, blob in protocols]))

    def ask():
        reply = c.call(JOIN_GROUP, 5, body)
        reply.i32()
        code, generation, _protocol, leader, given = reply.i16(), reply.i32(), reply.string(), reply.string(), reply.string()
        members = reply.array(lambda: (reply.string(), reply.string(), reply.data()))
        return code, generation, given, leader, [(m, blob) for m, _, blob in members]
    return patiently(ask, first)


def sync(c, group, generation, member, assignments=(), instance=None):
    """SyncGroup v3: (code, assignment)."""
    given = array([string(m) + data(blob) for m, blob in assignments])
    body = string(group) + struct.pack(">i", generation) + string(member) + maybe(instance) + given

    def ask():
        reply = c.call(SYNC_GROUP, 3, body)
        reply.i32()
        return reply.i16(), reply.data()
    return patiently(ask, first)


def heartbeat(c, group, generation, member, instance=None):
    def ask():
        reply = c.call(HEARTBEAT, 3, string(group) + struct.pack(">i", generation) + string(member) + maybe(instance))
        reply.i32()
        return reply.i16()
    return patiently(ask, first)


def leave_alone(c, group, member):
    """LeaveGroup v2, of one member."""
    def ask():
        reply = c.call(LEAVE_GROUP, 2, string(group) + string(member))
        reply.i32()
        return reply.i16()
    return patiently(ask, first)


def leave(c, group, member, instance=None):
    """LeaveGroup v3: the code on top, or else that of the member."""
    def ask():
        reply = c.call(LEAVE_GROUP, 3, string(group) + array([string(member) + maybe(instance)]))
        reply.i32()
        code = reply.i16()
        return code or reply.array(lambda: (reply.string(), reply.string(), reply.i16()))[0][2]
    return patiently(ask, first)


def commit(c, group, topic, offset, *, partition=0, generation=-1, member="", instance=None, metadata=""):
    """OffsetCommit v7, for one partition."""
    part = struct.pack(">iqi", partition, offset, -1) + maybe(metadata)
    body = string(group) + struct.pack(">i", generation) + string(member) + maybe(instance) + array([string(topic) + array([part])])

    def ask():
        reply = c.call(OFFSET_COMMIT, 7, body)
        reply.i32()
        return reply.array(lambda: (reply.string(), reply.array(lambda: (reply.i32(), reply.i16()))))[0][1][0][1]
    return patiently(ask, first)


def commit_by_id(c, group, topic_id, offset):
    """OffsetCommit v10, which names topics by their ids."""
    part = struct.pack(">iqi", 0, offset, -1) + compact("") + b"\0"
    topic = topic_id + compact_array([part]) + b"\0"
    body = b"\0" + compact(group) + struct.pack(">i", -1) + compact("") + compact(None) + compact_array([topic]) + b"\0"

    def ask():
        reply = c.call(OFFSET_COMMIT, 10, body)
        answer = Flexible(reply)
        reply.i32()

        def one():
            found = (reply.i32(), reply.i16())
            answer.tags()
            return found
        return answer.array(lambda: (reply.raw(16), answer.array(one), answer.tags()))[0][1][0][1]
    return patiently(ask, first)


def committed(c, group, topic, partition=0):
    """OffsetFetch v5: (code, offset, metadata)."""
    body = string(group) + array([string(topic) + array([struct.pack(">i", partition)])])

    def ask():
        reply = c.call(OFFSET_FETCH, 5, body)
        reply.i32()
        one = lambda: (reply.i32(), reply.i64(), reply.i32(), reply.string(), reply.i16())  # noqa: E731
        topics = reply.array(lambda: (reply.string(), reply.array(one)))
        code = reply.i16()
        _, offset, _, metadata, own = topics[0][1][0]
        return code or own, offset, metadata
    return patiently(ask, first)


def delete_offset(c, group, topic, partition=0):
    """OffsetDelete v0: the code on top, or else that of the partition."""
    reply = c.call(OFFSET_DELETE, 0, string(group) + array([string(topic) + array([struct.pack(">i", partition)])]))
    code = reply.i16()
    reply.i32()
    return code or reply.array(lambda: (reply.string(), reply.array(lambda: (reply.i32(), reply.i16()))))[0][1][0][1]


def delete_group(c, group):
    def ask():
        reply = c.call(DELETE_GROUPS, 1, array([string(group)]))
        reply.i32()
        return reply.array(lambda: (reply.string(), reply.i16()))[0][1]
    return patiently(ask, first)


def describe(c, group):
    """DescribeGroups v4: (state, {member: assignment}). Dead is what is not there."""
    def ask():
        reply = c.call(DESCRIBE_GROUPS, 4, array([string(group)]) + b"\0")
        reply.i32(), reply.i32()
        code, _id, state, _kind, _protocol = reply.i16(), reply.string(), reply.string(), reply.string(), reply.string()
        member = lambda: (reply.string(), reply.string(), reply.string(), reply.string(), reply.data(), reply.data())  # noqa: E731
        return code, state, {m[0]: m[5] for m in reply.array(member)}
    return patiently(ask, first)[1:]


def beaten(c, group, member, epoch, *, topics=None, pattern=None, assignor=None, instance=None, timeout=-1, owned=None):
    """ConsumerGroupHeartbeat v1: (code, member epoch, [(topic id, [partition])]); no assignment is None."""
    names = None if topics is None else [compact(name) for name in topics]
    body = (b"\0" + compact(group) + compact(member) + struct.pack(">i", epoch) + compact(instance) + compact(None)
            + struct.pack(">i", timeout) + compact_array(names) + compact(pattern) + compact(assignor) + compact_array(owned) + b"\0")

    def ask():
        reply = c.call(GROUP_BEAT, 1, body)
        answer = Flexible(reply)
        reply.i32()
        code, _message, _member = reply.i16(), answer.string(), answer.string()
        member_epoch, _interval, is_there = reply.i32(), reply.i32(), reply.i8()
        one = lambda: (reply.raw(16), answer.array(reply.i32), answer.tags())[:2]  # noqa: E731
        return code, member_epoch, answer.array(one) if is_there == 1 else None
    return patiently(ask, first)


def beat(c, group, member, epoch, **options):
    """The same: (code, member epoch)."""
    return beaten(c, group, member, epoch, **options)[:2]


def consumer_state(c, group):
    """ConsumerGroupDescribe v1: (code, state, group epoch, assignment epoch)."""
    def ask():
        reply, answer = described(c, GROUP_DESCRIBE, 1, group, b"\0")
        code, _message, _id, state = reply.i16(), answer.string(), answer.string(), answer.string()
        return code, state, reply.i32(), reply.i32()
    return patiently(ask, first)


# Transactions.

def begin_once(c, name, timeout=60_000):
    """InitProducerId v1, whatever it says: (code, producer id, epoch)."""
    reply = c.call(raw.INIT_PRODUCER_ID, 1, maybe(name) + struct.pack(">i", timeout))
    reply.i32()
    return reply.i16(), reply.i64(), reply.i16()


def begin(c, name, timeout=60_000):
    return patiently(lambda: begin_once(c, name, timeout), first)


def add_partitions(c, name, producer, topics):
    """AddPartitionsToTxn v2: {topic: code} of partition 0 of each."""
    parts = array([string(topic) + array([struct.pack(">i", 0)]) for topic in topics])

    def ask():
        reply = c.call(ADD_PARTITIONS, 2, string(name) + struct.pack(">qh", *producer) + parts)
        reply.i32()
        found = reply.array(lambda: (reply.string(), reply.array(lambda: (reply.i32(), reply.i16()))))
        return {topic: answers[0][1] for topic, answers in found}
    return patiently(ask, lambda found: found.values())


def add_offsets(c, name, producer, group):
    def ask():
        reply = c.call(ADD_OFFSETS, 2, string(name) + struct.pack(">qh", *producer) + string(group))
        reply.i32()
        return reply.i16()
    return patiently(ask, first)


def commit_in(c, name, producer, group, topic, offset):
    """TxnOffsetCommit v2, for partition 0."""
    part = struct.pack(">iqi", 0, offset, -1) + string("")
    body = string(name) + string(group) + struct.pack(">qh", *producer) + array([string(topic) + array([part])])

    def ask():
        reply = c.call(TXN_OFFSET_COMMIT, 2, body)
        reply.i32()
        return reply.array(lambda: (reply.string(), reply.array(lambda: (reply.i32(), reply.i16()))))[0][1][0][1]
    return patiently(ask, first)


def commit_of_member(c, name, producer, group, topic, offset, *, version, generation=-1, member="", instance=None):
    """TxnOffsetCommit v3 and later, for partition 0, by one who says which member of the group it is (KIP-447)."""
    part = struct.pack(">iqi", 0, offset, -1) + compact("") + b"\0"
    topics = compact_array([compact(topic) + compact_array([part]) + b"\0"])
    body = (b"\0" + compact(name) + compact(group) + struct.pack(">qhi", *producer, generation) + compact(member)
            + compact(instance) + topics + b"\0")

    def ask():
        reply = c.call(TXN_OFFSET_COMMIT, version, body)
        answer = Flexible(reply)
        reply.i32(), answer.unsigned(), answer.string(), answer.unsigned(), reply.i32()
        return reply.i16()
    return patiently(ask, first)


def end(c, name, producer, commits=True):
    def ask():
        reply = c.call(END_TXN, 2, string(name) + struct.pack(">qhb", *producer, commits))
        reply.i32()
        return reply.i16()
    return patiently(ask, first)


def end_by_epoch(c, name, producer, commits=True):
    """EndTxn v5, where each transaction has an epoch of its own: (code, producer id, epoch to go on with)."""
    def ask():
        reply = c.call(END_TXN, 5, b"\0" + compact(name) + struct.pack(">qhb", *producer, commits) + b"\0")
        Flexible(reply)
        reply.i32()
        return reply.i16(), reply.i64(), reply.i16()
    return patiently(ask, first)


def produce_adding(c, name, topic, producer, sequence=0):
    """Produce v12 of one record: the broker adds the partition to the transaction itself. Returns the code."""
    records = raw.batch([b"v"], attributes=0x10, producer=(*producer, sequence))
    part = struct.pack(">i", 0) + unsigned(len(records) + 1) + records + b"\0"
    topics = compact_array([compact(topic) + compact_array([part]) + b"\0"])

    def ask():
        reply = c.call(raw.PRODUCE, 12, b"\0" + compact(name) + struct.pack(">hi", -1, 10_000) + topics + b"\0")
        answer = Flexible(reply)
        answer.unsigned(), answer.string(), answer.unsigned(), reply.i32()
        return reply.i16()
    return patiently(ask, first)


def produce(c, name, topic, producer, sequence=0, *, values=(b"v",), is_transactional=True, timestamp=None):
    """Produce v7 of one batch of a producer: (code, base offset)."""
    records = raw.batch(list(values), attributes=0x10 * is_transactional, producer=(*producer, sequence), timestamp=timestamp)
    part = struct.pack(">i", 0) + data(records)
    body = maybe(name) + struct.pack(">hi", -1, 10_000) + array([string(topic) + array([part])])

    def ask():
        reply = c.call(raw.PRODUCE, 7, body)
        reply.i32(), reply.string(), reply.i32(), reply.i32()
        return reply.i16(), reply.i64()
    return patiently(ask, first)


def transaction_state(c, name):
    """DescribeTransactions v0: (code, state, [topic])."""
    def ask():
        reply, answer = described(c, DESCRIBE_TRANSACTIONS, 0, name)
        code, _id, state = reply.i16(), answer.string(), answer.string()
        reply.i32(), reply.i64(), reply.i64(), reply.i16()
        topics = answer.array(lambda: (answer.string(), answer.array(reply.i32), answer.tags()))
        return code, state, sorted(topic for topic, _, _ in topics)
    return patiently(ask, first)


def ended(c, name):
    """Waits until the markers of the last transaction are written, and with them what became of its offsets: how it ended."""
    how = {"CompleteCommit": "commit", "CompleteAbort": "abort"}
    found = patiently(lambda: (0 if (state := transaction_state(c, name)[1]) in how else 14, state), first)
    return how[found[1]]


def stable_end(c, topic):
    """Where readers of committed data stop."""
    reply = c.call(raw.LIST_OFFSETS, 2, struct.pack(">ib", -1, 1) + array([string(topic) + array([struct.pack(">iq", 0, -1)])]))
    reply.i32()
    return reply.array(lambda: (reply.string(), reply.array(lambda: (reply.i32(), reply.i16(), reply.i64(), reply.i64()))))[0][1][0][3]


# What both need around them.

def delete_topic(c, topic):
    reply = c.call(DELETE_TOPICS, 3, array([string(topic)]) + struct.pack(">i", 10_000))
    reply.i32()
    return reply.array(lambda: (reply.string(), reply.i16()))[0][1]


def set_on_brokers(c, name, value):
    """A dynamic setting of every broker."""
    entry = string(name) + struct.pack(">b", SET) + string(value)
    reply = c.call(INCREMENTAL_ALTER_CONFIGS, 0, array([struct.pack(">b", BROKERS) + string("") + array([entry])]) + b"\0")
    reply.i32()
    return reply.array(lambda: (reply.i16(), reply.string(), reply.i8(), reply.string()))[0][0]


def hang(c, topic, producer, timestamp=None):
    """A transaction that is open in partition 0 and unknown to its coordinator: a broker that does not verify takes it."""
    setting = "transaction.partition.verification.enable"
    codes = [set_on_brokers(c, setting, "false")]
    try:
        deadline = time.monotonic() + raw.SECONDS_MAX
        while (found := produce(c, "nobody-began-it", topic, producer, timestamp=timestamp))[0]:
            if time.monotonic() > deadline:
                raise AssertionError(f"the transaction was not taken: {found}")
            time.sleep(0.02)  # the setting is on its way
    finally:
        codes.append(set_on_brokers(c, setting, "true"))
    if codes != [0, 0]:
        raise AssertionError(f"{setting}: {codes}")
    return found[1]
