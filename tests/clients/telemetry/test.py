"""Clients push their metrics (KIP-714) to a broker that asks for them, and `esker client` shows what they pushed."""

import contextlib
import gzip
import json
import struct
import subprocess
import time

import confluent_kafka as ck
from harness import brokers, installs, raw
from harness.check import TMP, equal, fact, main, new_name, that
from harness.own import running

GET_TELEMETRY, PUSH_TELEMETRY = 71, 72
NONE, INVALID_REQUEST, INVALID_RECORD, THROTTLED = 0, 42, 87, 89
UNSUPPORTED_COMPRESSION, UNKNOWN_SUBSCRIPTION, TOO_LARGE = 76, 117, 118
PREFIX = "org.apache.kafka.producer."


def tool(broker, java_class, *args):
    command = [*installs.java_command(), java_class, "--bootstrap-server", broker.bootstrap, *map(str, args)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    that(done.returncode == 0, f"{java_class}: {(done.stdout + done.stderr).decode()[-400:]}")


@contextlib.contextmanager
def receiving(interval_ms, *match):
    with running("--data-dir", TMP / new_name("telemetry"), "--set", "esker.client.metrics.enable=true") as broker:
        tool(broker, "org.apache.kafka.tools.ClientMetricsCommand", "--alter", "--name", "all", "--metrics", PREFIX,
             "--interval", interval_ms, *match)
        yield broker


def esker(broker, *args):
    command = [brokers.esker_binary(), "client", *args, "--json", "--bootstrap", broker.bootstrap]
    return json.loads(subprocess.run(command, capture_output=True, timeout=30, check=True).stdout)


def pushed_by(broker, client_id):
    return [row for row in esker(broker, "list") if row["client_id"] == client_id]


def wait_for_push(broker, client_id):
    deadline = time.monotonic() + 30
    while not (rows := pushed_by(broker, client_id)):
        that(time.monotonic() < deadline, f"{client_id} pushed nothing")
        time.sleep(0.1)
    return rows[0]


@fact
def a_java_producer_pushes_what_a_subscription_names():
    with receiving(500) as broker:
        equal(raw.create_topic(broker.bootstrap, "t", 1), 0)
        command = [*installs.java_command(), "org.apache.kafka.tools.ProducerPerformance", "--topic", "t", "--num-records", "3000",
                   "--record-size", "100", "--throughput", "1000", "--producer-props", f"bootstrap.servers={broker.bootstrap}",
                   "client.id=java-1"]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        equal(done.returncode, 0, (done.stdout + done.stderr).decode()[-300:])
        row = wait_for_push(broker, "java-1")
        that(row["software"].startswith("apache-kafka-java 4.") and row["address"] == "127.0.0.1" and row["metrics"] > 0, str(row))
        rows = esker(broker, "describe", "java-1", "--metric", PREFIX)
        equal(len(rows), row["metrics"], "metrics that begin as asked for")
        # The last push, at the end of the process, may be late: Java waits for none.
        that(any(r["metric"] == f"{PREFIX}record.send.total" and 0 < r["value"] <= 3000 for r in rows),
             str([r for r in rows if "record.send" in r["metric"]])[:600])


@fact
def a_librdkafka_producer_pushes_what_a_subscription_names():
    with receiving(500, "--match", "client_id=c-.*,client_software_name=librdkafka|confluent-kafka-python") as broker:
        producers = [ck.Producer({"bootstrap.servers": broker.bootstrap, "client.id": name, "enable.metrics.push": True,
                                  "allow.auto.create.topics": True}) for name in ("c-1", "other")]
        end = time.monotonic() + 5
        while time.monotonic() < end and not pushed_by(broker, "c-1"):
            for p in producers:
                p.produce("t", b"x")
                p.flush()
        row = wait_for_push(broker, "c-1")
        that("kafka" in row["software"] and row["metrics"] > 0, str(row))
        rows = esker(broker, "describe", row["client_instance_id"])
        that(rows and all(r["metric"].startswith(PREFIX) for r in rows), str(rows)[:300])
        equal(pushed_by(broker, "other"), [], "a client that no subscription matches")


@fact
def without_the_setting_nobody_is_asked():
    with running("--data-dir", TMP / "silent") as broker, raw.Connection(broker.bootstrap) as c:
        reply = c.call(raw.API_VERSIONS, 0, b"")
        equal(reply.i16(), 0)
        keys = {k for k, _, _ in reply.array(lambda: (reply.i16(), reply.i16(), reply.i16()))}
        that(not keys & {GET_TELEMETRY, PUSH_TELEMETRY}, f"offered: {sorted(keys)}")
        equal(esker(broker, "list"), [])


def ask(c, api, body):
    """A flexible request of version 0; what follows the header of the answer."""
    c.correlation += 1
    c.send_bytes(raw.frame(raw.header(api, 0, c.correlation) + b"\0" + body))
    got, reader = c.receive()
    equal(got, c.correlation)
    equal(reader.i8(), 0, "tags in the header")
    return reader


def subscription(c, instance=bytes(16)):
    reply = ask(c, GET_TELEMETRY, instance + b"\0")
    reply.i32()
    return reply.i16(), reply.raw(16), reply.i32()


def push(c, instance, subscription_id, content, codec=0, last=False):
    size, length = len(content) + 1, b""
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    body = instance + struct.pack(">i?b", subscription_id, last, codec) + length + bytes([size]) + content + b"\0"
    reply = ask(c, PUSH_TELEMETRY, body)
    reply.i32()
    return reply.i16()


@fact
def what_does_not_fit_is_refused_and_the_broker_goes_on():
    with receiving(1_000) as broker, raw.Connection(broker.bootstrap) as c:
        code, instance, number = subscription(c)
        equal(code, NONE)
        equal(subscription(c, instance)[0], THROTTLED, "asked again at once")
        bomb = gzip.compress(bytes(200 << 20), 9)
        equal(push(c, instance, number, bomb, codec=1), TOO_LARGE, f"{len(bomb)} bytes that unfold to 200 MiB")
        equal(push(c, instance, number, b""), THROTTLED, "pushed again at once")
        equal(push(c, bytes(16), number, b""), INVALID_REQUEST, "no instance")
        for content, codec, shift, want in ((b"garbage", 1, 0, INVALID_RECORD), (b"", 0, 1, UNKNOWN_SUBSCRIPTION),
                                            (b"", 77, 0, UNSUPPORTED_COMPRESSION), (bytes((1 << 20) + 1), 0, 0, TOO_LARGE)):
            _, instance, number = subscription(c)
            equal(push(c, instance, number + shift, content, codec), want, f"{len(content)} bytes, codec {codec}")
        _, instance, number = subscription(c)
        equal(push(c, instance, number, b"", last=True), NONE, "the last push")
        equal(push(c, instance, number, b""), INVALID_REQUEST, "a push after the last")


main(f"Java {installs.KAFKA}, librdkafka {ck.libversion()[0]}")
