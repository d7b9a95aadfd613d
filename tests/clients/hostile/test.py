"""Raw bytes that no client would send: each is answered as Kafka does, or the connection is closed.

After each fact the broker must still answer; at the end its memory must be what it was, within a bound. The facts
about whole requests are here, those about batches in batches.py, those about amounts in amounts.py.
"""

import os
import random
import struct

import amounts  # noqa: F401  registers its facts
import batches  # noqa: F401  registers its facts
import bombs  # noqa: F401  registers its facts
import fencing  # noqa: F401  registers its facts
import groups  # noqa: F401  registers its facts
import transactions  # noqa: F401  registers its facts
from harness import coordinated as co
from harness import logins, raw
from harness.check import BOOTSTRAP, equal, fact, main, new_name, that

POLICY_VIOLATION, UNSUPPORTED_VERSION, INVALID_TOPIC, INVALID_ACKS, UNKNOWN_TOPIC = 44, 35, 17, 21, 3
INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, OFFSET_OUT_OF_RANGE = 37, 38, 1
INVALID_REQUEST, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE, BROKER_ID_NOT_REGISTERED = 42, 91, 92, 102
OFFSET_FOR_LEADER_EPOCH, DESCRIBE_CLIENT_QUOTAS, DESCRIBE_USER_SCRAM_CREDENTIALS, UNREGISTER_BROKER = 23, 48, 50, 64
SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH, FENCED_EPOCH, UNKNOWN_EPOCH = 70, 71, 74, 75


def closes(content, what, half_close=False):
    """The broker closes this connection without an answer, and goes on serving others."""
    with raw.Connection(BOOTSTRAP) as c:
        try:
            c.send_bytes(content)
            if half_close:
                c.socket.shutdown(1)
        except ConnectionError:
            pass  # closed while we still wrote
        that(c.is_closed_by_peer(), f"{what}: the connection stays open or was answered")
    that(raw.answers(BOOTSTRAP), f"{what}: the broker no longer answers")


def request(api, version, body, **options):
    return raw.frame(raw.header(api, version, 1, **options) + body)


@fact
def impossible_lengths_close_the_connection():
    for size in (-1, -2**31, 2**31 - 1, 104_857_601, 0, 1, 7):
        closes(struct.pack(">i", size) + b"\0" * max(0, min(size, 16)), f"length {size}")


@fact
def other_protocols_close_the_connection():
    closes(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP")
    closes(bytes.fromhex("1603010200010001fc0303") + bytes(64), "TLS")
    closes(b"\xff" * 64, "all ones")


@fact
def a_truncated_frame_is_dropped_with_its_connection():
    whole = request(raw.METADATA, 1, raw.array([]))
    for cut in (1, 3, 4, 5, 9, len(whole) - 1):
        closes(whole[:cut], f"{cut} of {len(whole)} bytes", half_close=True)


@fact
def a_body_that_ends_early_closes_the_connection():
    for api, version, body in ((raw.METADATA, 1, raw.array([raw.string("a-topic")])),
                               (raw.PRODUCE, 7, raw.produce_body("t", 0, b"x" * 80)),
                               (raw.FETCH, 11, raw.fetch_body("t", 0)),
                               (raw.CREATE_TOPICS, 4, raw.array([raw.string("t") + struct.pack(">ihii", 1, 1, 0, 0)]))):
        for cut in range(1, len(body), max(1, len(body) // 7)):
            closes(request(api, version, body[:cut]), f"api {api}, {cut} of {len(body)} bytes")


@fact
def an_unknown_api_closes_the_connection():
    for api in (9999, -1, 32767, 93, 4, 5, 6, 7):
        closes(request(api, 0, b""), f"api {api}")


@fact
def an_unknown_version_closes_the_connection():
    for api, version in ((raw.METADATA, 99), (raw.METADATA, -1), (raw.FETCH, 0), (raw.FETCH, 3), (raw.CREATE_TOPICS, 1),
                         (raw.PRODUCE, 2), (raw.LIST_OFFSETS, 0), (raw.PRODUCE, 32767)):
        closes(request(api, version, bytes(64)), f"api {api} version {version}")


@fact
def api_versions_of_an_unknown_version_is_answered_in_version_0():
    for version in (99, 32767):
        with raw.Connection(BOOTSTRAP) as c:
            reply = c.call(raw.API_VERSIONS, version, b"\0anything at all")
            equal(reply.i16(), UNSUPPORTED_VERSION)
            ranges = {k: (low, high) for k, low, high in reply.array(lambda: (reply.i16(), reply.i16(), reply.i16()))}
            low, high = ranges[raw.API_VERSIONS]
            that(low == 0 <= 4 <= high, f"ApiVersions {low} to {high}")
            equal(c.call(raw.API_VERSIONS, 0, b"").i16(), 0, "the same connection, asked again")


@fact
def api_versions_offers_produce_from_version_0():
    with raw.Connection(BOOTSTRAP) as c:
        reply = c.call(raw.API_VERSIONS, 0, b"")
        equal(reply.i16(), 0)
        ranges = {k: (low, high) for k, low, high in reply.array(lambda: (reply.i16(), reply.i16(), reply.i16()))}
    equal(ranges[raw.PRODUCE][0], 0, "librdkafka takes a higher minimum for a broker without message formats")


def supported_features(version):
    """Levels by name, of an ApiVersions answer of version 3 or 4: tagged field 0 of KIP-584."""
    with raw.Connection(BOOTSTRAP) as c:
        reply = c.call(raw.API_VERSIONS, version, b"\0" + b"\4raw" + b"\0021" + b"\0")
        equal(reply.i16(), 0)

        def compact(item):
            return [item() for _ in range(reply.uvarint() - 1)]

        def tagged(*fields):
            equal(reply.uvarint(), 0, "tagged fields of an entry")
            return fields
        compact(lambda: tagged(reply.i16(), reply.i16(), reply.i16()))
        reply.i32()
        for _ in range(reply.uvarint()):
            tag, size = reply.uvarint(), reply.uvarint()
            if tag == 0:
                return {name: (low, high) for name, low, high in compact(
                    lambda: tagged(reply.raw(reply.uvarint() - 1).decode(), reply.i16(), reply.i16()))}
            reply.raw(size)
        return {}


@fact
def a_feature_whose_lowest_level_is_0_is_told_from_version_4_on():
    """Java clients from 3.3 to 3.7 refuse the whole answer otherwise (KAFKA-17492)."""
    equal({n: l for n, (l, _) in supported_features(3).items() if l == 0}, {})
    that("transaction.version" in supported_features(4), "its levels begin at 0")


@fact
def random_bytes_never_stop_the_broker():
    rng = random.Random(int(os.environ.get("SEED", "7")))
    for _ in range(300):
        with raw.Connection(BOOTSTRAP) as c:
            body = rng.randbytes(rng.randrange(1, 400))
            try:
                c.send_bytes(raw.frame(body) if rng.random() < 0.7 else body)
            except ConnectionError:
                pass
    that(raw.answers(BOOTSTRAP), "the broker no longer answers")


class Recorder(raw.Connection):
    """Keeps what goes out, so that a day's work of ours is the sample of what is damaged."""

    def __init__(self, bootstrap):
        self.sent = []
        super().__init__(bootstrap)
        self.sent.clear()  # the login is no part of that

    def send(self, api, version, body):
        self.sent.append((api, version, body))
        return super().send(api, version, body)


def works():
    """Every side of the broker still does its job, on connections of their own. Returns the requests that it took."""
    name, group, id = new_name("works"), new_name("group"), new_name("id")
    equal(raw.create_topic(BOOTSTRAP, name), 0)
    sent = []
    for _ in range(4):  # more than the broker has loops
        with Recorder(BOOTSTRAP) as c:
            equal(raw.produce(c, name, raw.batch([b"a", b"b"]))[0], 0, "produce")
            that(raw.fetch(c, name, 0)[3] != b"", "fetch")
            co.find(c, group)
            equal(co.commit(c, group, name, 5), 0, "commit")
            equal(co.committed(c, group, name)[:2], (0, 5), "what is committed")
            co.find(c, id, co.TRANSACTION)
            code, *producer = co.begin(c, id)
            equal(code, 0, "begin")
            equal(co.add_partitions(c, id, producer, [name]), {name: 0}, "the partition of a transaction")
            equal(co.add_offsets(c, id, producer, group), 0, "its group")
            equal(co.commit_of_member(c, id, producer, group, name, 6, version=3), 0, "its offset")
            equal(co.produce(c, id, name, producer), (0, co.stable_end(c, name)), "its record")
            equal((co.end(c, id, producer, False), co.ended(c, id)), (0, "abort"), "its end")
            member = "m" * 22
            equal(co.beat(c, new_name("group"), member, 0, topics=[name], timeout=10_000, owned=[])[0], 0, "a KIP-848 member")
            co.join(c, new_name("group")), co.describe(c, group), co.leave(c, group, "nobody"), co.heartbeat(c, group, 1, "nobody")
            co.sync(c, group, 1, "nobody"), co.delete_offset(c, group, new_name("nosuch")), co.consumer_state(c, group)
            sent += c.sent
    return sent


def offered():
    with raw.Connection(BOOTSTRAP) as c:
        reply = c.call(raw.API_VERSIONS, 0, b"")
        reply.i16()
        return reply.array(lambda: (reply.i16(), reply.i16(), reply.i16()))


@fact
def damaged_requests_never_stop_the_broker():
    """Of every API that is offered: requests that did a job before, and where we have none, zeros in every version."""
    rng, samples = random.Random(int(os.environ.get("SEED", "8"))), {}
    for api, version, body in works():
        samples.setdefault(api, []).append((version, body))
    unregister = 64  # a lucky byte would have Kafka's only broker leave
    for api, low, high in offered():
        whole = samples.get(api) or [(version, bytes(48)) for version in range(low, high + 1)]
        for _ in range(0 if api == unregister else 12):
            version, body = rng.choice(whole)
            damaged = bytearray(body)
            for _ in range(rng.randrange(1, 4) if damaged else 0):
                damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            with raw.Connection(BOOTSTRAP) as c:
                c.send(api, version, bytes(damaged))
    that(raw.answers(BOOTSTRAP), "the broker no longer answers")
    works()


@fact
def array_counts_beyond_the_bytes_close_the_connection():
    huge = struct.pack(">i", 2**31 - 1)
    for api, version, body in ((raw.METADATA, 1, huge), (raw.CREATE_TOPICS, 4, huge), (raw.FETCH, 11, bytes(13) + huge),
                               (raw.PRODUCE, 7, struct.pack(">hhi", -1, -1, 1000) + huge),
                               (raw.PRODUCE, 7, struct.pack(">hhi", -1, -1, 1000) + raw.array([raw.string("t") + huge])),
                               (raw.LIST_OFFSETS, 2, bytes(5) + huge), (raw.DELETE_RECORDS, 0, huge),
                               (raw.METADATA, 9, b"\0\xff\xff\xff\xff\x0f"), (raw.METADATA, 9, b"\0" + b"\xff" * 9)):
        closes(request(api, version, body), f"api {api} version {version}")


@fact
def a_client_name_may_be_long_or_absent():
    body = raw.array([])
    for name in (b"", b"n" * 32_767):
        with raw.Connection(BOOTSTRAP) as c:
            c.send_bytes(raw.frame(raw.header(raw.METADATA, 1, 5, name) + body))
            equal(c.receive()[0], 5)
    with raw.Connection(BOOTSTRAP) as c:
        c.send_bytes(raw.frame(struct.pack(">hhih", raw.METADATA, 1, 6, -1) + body))
        equal(c.receive()[0], 6)


def quotas(*components):
    """DescribeClientQuotas v0: its code, and how many entities were found."""
    filters = [raw.string(kind) + struct.pack(">b", match) + (struct.pack(">h", -1) if name is None else raw.string(name))
               for kind, match, name in components]
    with raw.Connection(BOOTSTRAP) as c:
        reply = c.call(DESCRIBE_CLIENT_QUOTAS, 0, raw.array(filters) + b"\0")
        reply.i32()
        code, _, found = reply.i16(), reply.string(), reply.i32()
    return code, found


@fact
def a_filter_of_quotas_that_says_nothing_definite_is_refused():
    exact, default, specified = 0, 1, 2
    for components in ((), (("user", specified, None), ("client-id", default, None)), (("ip", exact, "no address"),)):
        equal(quotas(*components), (0, 0), str(components))
    for components in ((("", exact, "a"),), (("user", exact, None),), (("user", default, "a"),), (("user", specified, "a"),),
                       (("user", 3, None),), (("user", default, None),) * 2, (("ip", default, None), ("client-id", default, None))):
        equal(quotas(*components), (INVALID_REQUEST, -1), str(components))
    equal(quotas(("colour", exact, "a")), (UNSUPPORTED_VERSION, -1), "an entity that nobody knows")


@fact
def users_that_are_not_there_are_told_once():
    compact = lambda text: bytes([len(text) + 1]) + text.encode()
    for names, expected in ((None, {}), ([], {}), (["a"], {"a": RESOURCE_NOT_FOUND}),
                            (["a", "b", "a"], {"a": DUPLICATE_RESOURCE, "b": RESOURCE_NOT_FOUND})):
        asked = b"\0" if names is None else bytes([len(names) + 1]) + b"".join(compact(name) + b"\0" for name in names)
        with raw.Connection(BOOTSTRAP) as c:
            reply = c.call(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, b"\0" + asked + b"\0")
            reply.raw(1), reply.i32()  # tags of the header, throttle time
            equal(reply.i16(), 0, f"{names}: code of the answer")
            text = lambda: reply.raw(reply.uvarint() - 1).decode()
            text()
            told = {}
            for _ in range(reply.uvarint() - 1):
                user, code, _, mechanisms = text(), reply.i16(), text(), reply.uvarint() - 1
                reply.raw(6 * mechanisms + 1)
                if logins.is_asked(BOOTSTRAP) and user == logins.USER:
                    continue  # of a run with logins
                equal(mechanisms, 0, user)
                that(user not in told, f"{user} is told twice")
                told[user] = code
            equal(told, expected, str(names))


@fact
def a_broker_that_is_not_there_cannot_be_unregistered():
    for node in (4_711, -1):
        with raw.Connection(BOOTSTRAP) as c:
            reply = c.call(UNREGISTER_BROKER, 0, b"\0" + struct.pack(">i", node) + b"\0")
            reply.raw(1), reply.i32()
            equal(reply.i16(), BROKER_ID_NOT_REGISTERED, str(node))


@fact
def bad_topic_names_are_refused():
    for name in ("", ".", "..", "a/b", "a b", "ü", "a\nb", "x" * 250, "a\0b"):
        equal(raw.create_topic(BOOTSTRAP, name), INVALID_TOPIC, f"topic {name!r}")
    longest = new_name("y" * 240)
    equal(raw.create_topic(BOOTSTRAP, longest[:249]), 0, "249 characters")


@fact
def bad_partition_counts_are_refused():
    equal(raw.create_topic(BOOTSTRAP, new_name("p"), 0), INVALID_PARTITIONS)
    equal(raw.create_topic(BOOTSTRAP, new_name("p"), -2), INVALID_PARTITIONS)
    that(raw.create_topic(BOOTSTRAP, new_name("p"), 2**31 - 1) != 0, "two thousand million partitions")
    that(raw.answers(BOOTSTRAP), "the broker no longer answers")


@fact
def produce_to_what_is_not_there_is_answered():
    name = new_name("there")
    raw.create_topic(BOOTSTRAP, name)
    with raw.Connection(BOOTSTRAP) as c:
        equal(raw.produce(c, name, raw.batch([b"x"]), partition=1)[0], UNKNOWN_TOPIC)
        equal(raw.produce(c, name, raw.batch([b"x"]), partition=-1)[0], UNKNOWN_TOPIC)
        equal(raw.produce(c, new_name("nosuch"), raw.batch([b"x"]))[0], UNKNOWN_TOPIC)
        equal(raw.produce(c, "bad/name", raw.batch([b"x"]))[0], UNKNOWN_TOPIC)
        for acks in (2, -2, 100):
            equal(raw.produce(c, name, raw.batch([b"x"]), acks=acks)[0], INVALID_ACKS, f"acks={acks}")
        equal(raw.produce(c, name, raw.batch([b"x"])), (0, 0), "after all these")


@fact
def fetch_of_what_is_not_there_is_answered():
    name = new_name("there")
    raw.create_topic(BOOTSTRAP, name)
    with raw.Connection(BOOTSTRAP) as c:
        raw.produce(c, name, raw.batch([b"x"]))
        for offset in (-1, 2, 2**62):
            equal(raw.fetch(c, name, offset)[1], OFFSET_OUT_OF_RANGE, f"offset {offset}")
        equal(raw.fetch(c, name, 0, partition=1)[1], UNKNOWN_TOPIC)
        equal(raw.fetch(c, new_name("nosuch"), 0)[1], UNKNOWN_TOPIC)
        equal(raw.fetch(c, name, 0, session=(12345, 1))[0], SESSION_ID_NOT_FOUND)
        equal(raw.fetch(c, name, 0, epoch=99)[1], UNKNOWN_EPOCH)
        equal(raw.fetch(c, name, 1, wait=0)[1:], (0, 1, b""), "at the end: nothing yet")


def delete_records(topic, before, partition=0):
    """DeleteRecords v0: (log start, error code) of one partition."""
    part = struct.pack(">iq", partition, before)
    with raw.Connection(BOOTSTRAP) as c:
        reply = c.call(raw.DELETE_RECORDS, 0, raw.array([raw.string(topic) + raw.array([part])]) + struct.pack(">i", 10000))
    reply.i32(), reply.i32(), reply.string(), reply.i32(), reply.i32()
    return reply.i64(), reply.i16()


@fact
def records_of_the_brokers_own_topics_are_not_deleted():
    with raw.Connection(BOOTSTRAP) as c:
        co.find(c, new_name("group"), co.GROUP)
        co.find(c, new_name("id"), co.TRANSACTION)
    for name in ("__consumer_offsets", "__transaction_state"):
        for before in (0, -1):
            equal(delete_records(name, before), (-1, INVALID_TOPIC), f"{name} before {before}")
        equal(delete_records(name, 0, partition=9999), (-1, UNKNOWN_TOPIC), f"{name}: a partition that is not there")


@fact
def records_of_a_topic_that_is_compacted_only_are_not_deleted():
    for policy, answer in (("compact", (-1, POLICY_VIOLATION)), ("compact,delete", (1, 0)), ("delete", (1, 0))):
        name = new_name("table")
        equal(raw.create_topic(BOOTSTRAP, name, configs={"cleanup.policy": policy}), 0, policy)
        content = raw.record(b"v", key=b"k") + raw.record(b"w", 1, key=b"k")
        with raw.Connection(BOOTSTRAP) as c:
            equal(raw.produce(c, name, raw.batch([b"v", b"w"], content=content)), (0, 0), policy)
        equal(delete_records(name, 1), answer, policy)


@fact
def an_epoch_that_nobody_knows_has_no_end():
    name = new_name("epochs")
    raw.create_topic(BOOTSTRAP, name)
    with raw.Connection(BOOTSTRAP) as c:
        equal(raw.produce(c, name, raw.batch([b"x"])), (0, 0))
        for asked, answer in ((-1, (0, -1, -1)), (0, (0, 0, 1)), (99, (0, -1, -1))):
            part = struct.pack(">iii", 0, -1, asked)
            reply = c.call(OFFSET_FOR_LEADER_EPOCH, 2, raw.array([raw.string(name) + raw.array([part])]))
            reply.i32(), reply.i32(), reply.string(), reply.i32()
            code, _, epoch, end = reply.i16(), reply.i32(), reply.i32(), reply.i64()
            equal((code, epoch, end), answer, f"epoch {asked}")


if __name__ == "__main__":
    main("protocol 4.4")
