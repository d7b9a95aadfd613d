"""Clients whose logins end every few seconds while records flow: nothing is lost or doubled, and nobody meets an error.

Each client writes numbered records and reads them in a group, for LOAD_SECONDS (60 unless set). By its metrics the broker tells how often
somebody logged in, and how many connections that took: a login beyond those is one on a connection that was there already.
"""

import os
import re
import sys
import threading
import time
import urllib.request

from confluent_kafka import Consumer, Producer
from harness import elsewhere
from harness.check import BOOTSTRAP, equal, fact, main, new_name, that, topic
from harness.logins import librdkafka, python
from kafka import KafkaConsumer, KafkaProducer

SECONDS = int(os.environ.get("LOAD_SECONDS", "60"))
SESSION_SECONDS = 10  # as harness/clients.py has the broker's setting
AFTERWARDS_SECONDS_MAX = 60  # until the last record has been read
LOAD = "numbered_records_flow_in_and_out_for_a_while"


def counted():
    """(logins, connections) that the broker has seen so far."""
    with urllib.request.urlopen(f"http://{os.environ['BROKER_HTTP']}/metrics", timeout=30) as page:
        text = page.read().decode()
    return [int(re.search(rf"^{name} (\d+)", text, re.M)[1]) for name in ("esker_logins_total", "esker_connections_opened_total")]


def check(load, is_same_connection=True):
    """A writer and a reader at least log in again, once for each session that the time has room for."""
    if "BROKER_HTTP" not in os.environ:  # Kafka tells its figures to JMX alone
        load()
        return
    before = counted()
    load()
    logins, opened = (after - first for first, after in zip(before, counted()))
    print(f"{logins} logins on {opened} connections", file=sys.stderr)
    due = 2 * (SECONDS // SESSION_SECONDS - 1)
    again = logins - opened if is_same_connection else logins
    that(due <= again, f"{logins} logins on {opened} connections within {SECONDS} s: {due} more were due")


def check_elsewhere(program):
    """The same load in another language."""
    check(lambda: elsewhere.ask(program, LOAD, SECONDS + 180, LOAD_SECONDS=str(SECONDS)))


class Flow:
    """The numbers that were acknowledged, and where a reader found each."""

    def __init__(self):
        self.acknowledged, self.found, self.errors = set(), {}, []

    def on_record(self, partition, offset, number):
        self.found.setdefault(number, set()).add((partition, offset))

    def judge(self, is_idempotent):
        equal(self.errors[:3], [], "errors")
        that(len(self.acknowledged) > 10 * SECONDS, f"only {len(self.acknowledged)} records")
        lost = self.acknowledged - set(self.found)
        that(not lost, f"{len(lost)} of {len(self.acknowledged)} are lost: {sorted(lost)[:5]}")
        doubled = [number for number, places in self.found.items() if len(places) > 1]
        that(not is_idempotent or not doubled, f"{len(doubled)} are doubled: {doubled[:5]}")

    def is_read(self):
        return self.acknowledged <= set(self.found)


def with_reader(flow, poll, write):
    """Reads beside `write`, and afterwards until everything has come."""
    is_written = threading.Event()

    def read():
        deadline = None
        while not (is_written.is_set() and (flow.is_read() or deadline < time.monotonic())):
            if is_written.is_set():
                deadline = deadline or time.monotonic() + AFTERWARDS_SECONDS_MAX
            try:
                poll()
            except Exception as error:  # whatever a client shows its user
                flow.errors.append(f"read: {error!r}")
                time.sleep(1)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        write()
    finally:
        is_written.set()
        reader.join()


@fact
def librdkafka_logs_in_again_while_records_flow():
    def load():
        name, flow = topic("flow", 3), Flow()
        shown = lambda error: flow.errors.append(str(error))  # noqa: E731
        producer = Producer({**librdkafka(BOOTSTRAP), "enable.idempotence": True, "linger.ms": 5, "error_cb": shown})
        consumer = Consumer({**librdkafka(BOOTSTRAP), "group.id": new_name("group"), "auto.offset.reset": "earliest", "error_cb": shown})
        consumer.subscribe([name])

        def poll():
            for message in consumer.consume(1_000, 0.2):
                if message.error():
                    flow.errors.append(f"read: {message.error()}")
                else:
                    flow.on_record(message.partition(), message.offset(), int(message.value()))

        def on_delivery(error, message):
            if error:
                flow.errors.append(f"write: {error}")
            else:
                flow.acknowledged.add(int(message.value()))

        def write():
            number, end = 0, time.monotonic() + SECONDS
            while time.monotonic() < end:
                for _ in range(10):
                    producer.produce(name, b"%d" % number, on_delivery=on_delivery)
                    number += 1
                producer.poll(0.02)
            equal(producer.flush(30), 0, "records that were not sent")
            equal(len(flow.acknowledged), number, "records that were acknowledged")
        with_reader(flow, poll, write)
        consumer.close()
        flow.judge(is_idempotent=True)
    check(load)


@fact
def kafka_python_connects_again_while_records_flow():
    """It knows no second login on a connection: the broker ends the connection, and it makes another."""
    def load():
        name, flow = topic("flow", 3), Flow()
        producer = KafkaProducer(**python(BOOTSTRAP), acks="all", linger_ms=5)
        consumer = KafkaConsumer(name, **python(BOOTSTRAP), group_id=new_name("group"), auto_offset_reset="earliest")

        def poll():
            for records in consumer.poll(200).values():
                for r in records:
                    flow.on_record(r.partition, r.offset, int(r.value))

        def write():
            number, end, sent = 0, time.monotonic() + SECONDS, []
            while time.monotonic() < end:
                for _ in range(10):
                    sent.append((number, producer.send(name, b"%d" % number)))
                    number += 1
                time.sleep(0.02)
            producer.flush(30)
            for number, future in sent:
                future.get(30)
                flow.acknowledged.add(number)
        with_reader(flow, poll, write)
        producer.close()
        consumer.close()
        flow.judge(is_idempotent=True)
    check(load, is_same_connection=False)


@fact
def java_logs_in_again_while_records_flow():
    check_elsewhere("java")


@fact
def franz_logs_in_again_while_records_flow():
    check_elsewhere("franz")


@fact
def sarama_logs_in_again_while_records_flow():
    check_elsewhere("sarama")


@fact
def kafkajs_logs_in_again_while_records_flow():
    check_elsewhere("kafkajs")


if __name__ == "__main__":
    main(f"sessions of {SESSION_SECONDS} s")
