"""Too much of everything: connections, half-sent requests, requests nobody reads the answers of. Memory stays bounded."""

import contextlib
import socket
import struct
import time

from harness import raw
from harness.check import BOOTSTRAP, BROKER_KIND, Skip, equal, fact, new_name, that
from memory import GROWTH_BYTES_MAX, bounded

# What a connection that has not asked anything may take, and room for what the crowd moves in the broker's tables.
IDLE_BYTES_MAX = 20 << 10
ROOM_BYTES = 8 << 20


@fact
def a_thousand_idle_connections_do_not_stop_others():
    """The first fact of all: memory that an earlier crowd left behind would hide what this one takes."""
    held = []
    try:
        with bounded("1000 connections", 1_000 * IDLE_BYTES_MAX + ROOM_BYTES) as measure:
            for _ in range(1_000):
                held.append(socket.create_connection(raw.address(BOOTSTRAP), timeout=10))
            that(raw.answers(BOOTSTRAP), "the broker no longer answers")
            measure()
    finally:
        for s in held:
            s.close()


@fact
def promised_but_unsent_bytes_take_no_memory():
    held = []
    with bounded("100 MB promised on each connection", ROOM_BYTES) as measure:
        for _ in range(2 if BROKER_KIND == "kafka" else 100):
            c = raw.Connection(BOOTSTRAP)
            c.send_bytes(struct.pack(">i", 100_000_000) + raw.header(raw.PRODUCE, 7, 1) + bytes(1_000))
            held.append(c)
        that(raw.answers(BOOTSTRAP), "the broker no longer answers")
        measure()
        for c in held:
            c.socket.close()


@fact
def topics_by_the_hundred_come_and_go():
    names = [new_name("many") for _ in range(200)]
    with bounded("200 topics", 4 * ROOM_BYTES) as measure:
        for name in names:
            equal(raw.create_topic(BOOTSTRAP, name, 4), 0)
        with raw.Connection(BOOTSTRAP) as c:
            c.socket.settimeout(60)
            reply = c.call(20, 1, raw.array([raw.string(n) for n in names]) + struct.pack(">i", 10_000))
            reply.i32()
            equal({code for _, code in reply.array(lambda: (reply.string(), reply.i16()))}, {0})
        measure()


@fact
def answers_that_nobody_reads_are_bounded():
    name = new_name("unread")
    equal(raw.create_topic(BOOTSTRAP, name), 0)
    with raw.Connection(BOOTSTRAP) as c:
        for _ in range(8):
            equal(raw.produce(c, name, raw.batch([bytes(500_000)]))[0], 0)
    with bounded("unread answers", 8 * ROOM_BYTES) as measure:
        slow = [raw.Connection(BOOTSTRAP) for _ in range(10)]
        for c in slow:
            c.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionError):
                for i in range(2_000):
                    c.socket.send(raw.frame(raw.header(raw.FETCH, 11, i) + raw.fetch_body(name, 0, most=4 << 20)))
        time.sleep(0.5)  # the time in which a broker without a bound would fill its queues
        that(raw.answers(BOOTSTRAP), "the broker no longer answers")
        measure()
        for c in slow:
            c.socket.close()


@fact
def half_requests_of_a_crowd_share_one_bound():
    """Each announces much, sends what the broker takes of it, and stops. The crowd could fill twice the bound."""
    each = 2 * GROWTH_BYTES_MAX // 250
    held, part = [], bytes(1 << 20)
    with bounded("250 half requests") as measure:
        for _ in range(2 if BROKER_KIND == "kafka" else 250):
            c = raw.Connection(BOOTSTRAP)
            c.send_bytes(struct.pack(">i", 100_000_000) + raw.header(raw.PRODUCE, 7, 1))
            c.socket.setblocking(False)
            held.append([c, each])
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline and any(left for _, left in held):
            for one in held:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    one[1] -= one[0].socket.send(part[:one[1]]) if one[1] else 0
            time.sleep(0.01)  # the broker takes its time to read what it takes
        that(raw.answers(BOOTSTRAP), "the broker no longer answers")
        measure()
        name = new_name("honest")
        equal(raw.create_topic(BOOTSTRAP, name), 0)
        with raw.Connection(BOOTSTRAP) as c:
            c.socket.settimeout(30)
            equal(raw.produce(c, name, raw.batch([bytes(900_000)]))[0], 0, "a large request beside the crowd")
        for c, _ in held:
            c.socket.close()


@fact
def a_request_names_no_more_than_it_may():
    """Groups of three letters: what is asked of each, and its part of the answer, take far more than the name."""
    if BROKER_KIND == "kafka":
        raise Skip("Kafka has no bound of its own on what a request lists")
    most, describe_groups = 1 << 18, 15

    def names(count):
        return raw.array([raw.string(f"{n:05x}") for n in range(count)])
    with bounded(f"{most} groups described"), raw.Connection(BOOTSTRAP) as c:
        c.socket.settimeout(60)
        equal(c.call(describe_groups, 0, names(most)).i32(), most, "groups")
        c.send(describe_groups, 0, names(most + 1))
        that(c.is_closed_by_peer(), "one more than may be was let in")
    that(raw.answers(BOOTSTRAP), "the broker no longer answers")


@fact
def a_long_name_is_not_told_once_for_each_partition():
    """Kafka's text beside each partition of a topic that is not there tells its name: 655 MB, were it 32 KiB each time."""
    if BROKER_KIND == "kafka":
        raise Skip("Kafka answers with 655 MB")
    partitions, elect_leaders = 20_000, 43
    asked = raw.string("x" * 32_700) + raw.array([struct.pack(">i", n) for n in range(partitions)])
    with bounded("a long name and its partitions"), raw.Connection(BOOTSTRAP) as c:
        c.socket.settimeout(60)
        reply = c.call(elect_leaders, 0, raw.array([asked]) + struct.pack(">i", 1_000))
        that(len(reply.content) < 300 * partitions, f"an answer of {len(reply.content)} bytes")


@fact
def settings_that_are_looked_at_have_an_end():
    """A key that nobody has is looked for among all settings of a topic, each time that it is asked for."""
    if BROKER_KIND == "kafka":
        raise Skip("Kafka has no bound on what a request makes it look at")
    describe_configs, topic, asked = 32, 2, 60_000
    name = new_name("looked-at")
    equal(raw.create_topic(BOOTSTRAP, name), 0)

    refused = struct.pack(">h", 42) + raw.string("too many resources in one request") + struct.pack(">b", topic) + raw.string(name)
    with bounded("settings looked at"), raw.Connection(BOOTSTRAP) as c:
        c.socket.settimeout(60)
        for keys in (raw.array([raw.string("no.such.key")]), struct.pack(">i", -1)):
            resource = struct.pack(">b", topic) + raw.string(name) + keys
            reply = c.call(describe_configs, 1, raw.array([resource] * asked) + b"\1")
            described = asked - reply.content.count(refused)
            that(18_000 <= described < 30_000, f"{described} resources are described")


@fact
def long_lists_take_a_long_time_nowhere():
    """Each of 30 lists has 8,000 items, and is looked through for repeated ones when it is set and when it grows."""
    alter_configs, client_metrics, set_it, delete, append = 44, 16, 0, 1, 2
    letters = "abcdefghijklmnopqrst"
    items = ",".join(a + b + c for a in letters for b in letters for c in letters)
    names = [new_name("list") for _ in range(30)]

    def ask(operation, value):
        def resource(name):
            change = raw.string("metrics") + struct.pack(">b", operation) + (raw.string(value) if value else struct.pack(">h", -1))
            return struct.pack(">b", client_metrics) + raw.string(name) + raw.array([change])
        reply = c.call(alter_configs, 0, raw.array([resource(name) for name in names]) + b"\0")
        reply.i32()
        codes = reply.array(lambda: (reply.i16(), reply.string(), reply.i8(), reply.string()))
        equal({code for code, _, _, _ in codes}, {0}, "codes")
    with raw.Connection(BOOTSTRAP) as c:
        c.socket.settimeout(60)
        began = time.monotonic()
        ask(set_it, items)
        ask(append, items)
        took = time.monotonic() - began
        ask(delete, None)
    if BROKER_KIND != "kafka":  # whose APPEND looks through the list for each item
        that(took < 2.0, f"lists were changed for {took:.1f} s")


@fact
def a_request_may_come_one_byte_at_a_time():
    with raw.Connection(BOOTSTRAP) as c:
        for byte in raw.frame(raw.header(raw.METADATA, 1, 77) + raw.array([])):
            c.send_bytes(bytes([byte]))
        equal(c.receive()[0], 77)


@fact
def a_thousand_pipelined_requests_are_answered_in_order():
    name = new_name("pipeline")
    equal(raw.create_topic(BOOTSTRAP, name), 0)
    with raw.Connection(BOOTSTRAP) as c:
        out = bytearray()
        for i in range(1_000):
            kind = i % 4
            if kind == 0:
                api, version, body = raw.PRODUCE, 7, raw.produce_body(name, 0, raw.batch([b"%d" % i]))
            elif kind == 1:
                api, version, body = raw.FETCH, 11, raw.fetch_body(name, 0, wait=0)
            elif kind == 2:
                api, version, body = raw.METADATA, 1, raw.array([raw.string(name)])
            else:
                api, version, body = raw.API_VERSIONS, 0, b""
            out += raw.frame(raw.header(api, version, i) + body)
        c.socket.settimeout(30)
        sent = 0
        for i in range(1_000):
            if sent < len(out):
                sent += c.socket.send(out[sent:sent + 20_000])
            equal(c.receive()[0], i, "correlation")
        equal(raw.fetch(c, name, 0)[2], 250, "records stored")


@fact
def no_answer_waits_for_the_next_timer():
    """Five produces in flight at all times: a wake-up that is lost shows as an answer that comes seconds late."""
    name = new_name("in-flight")
    equal(raw.create_topic(BOOTSTRAP, name), 0)
    body, sent, slowest = raw.produce_body(name, 0, raw.batch([b"x" * 100])), [], 0.0
    with raw.Connection(BOOTSTRAP) as c:
        for answered in range(3_000):
            while len(sent) < min(3_000, answered + 5):
                c.send(raw.PRODUCE, 7, body)
                sent.append(time.monotonic())
            equal(c.receive()[0], answered + 1, "correlation")
            slowest = max(slowest, time.monotonic() - sent[answered])
    that(slowest < 3.0, f"an answer came after {slowest:.1f} s")
