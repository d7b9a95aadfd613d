"""The clients of a cluster that changes under them: a producer with acks=all writes numbers to `in`, and a loop copies them to `out`, exactly once.

Ends when a byte comes on its standard input, or that closes; then reads both topics to their ends and prints what was counted, as one line of
JSON. Runs by the Python of the stock clients: load.py BOOTSTRAP RECORDS_PER_SECOND
"""

import faulthandler
import json
import os
import signal
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
faulthandler.register(signal.SIGUSR1, all_threads=True)
bootstrap, rate = sys.argv[1], int(sys.argv[2])
stop = threading.Event()
counts = {"sent": 0, "acked": 0, "failed": 0, "commits": 0, "aborts": 0, "stuck": 0, "copied": 0, "pause": 0.0}
common = {"bootstrap.servers": bootstrap, "socket.timeout.ms": 5000, "reconnect.backoff.max.ms": 500}
last, left = {}, []


def told(error, message):
    counts["failed" if error else "acked"] += 1
    if error:
        print("failed:", error, file=sys.stderr, flush=True)
    now = time.monotonic()
    pause = now - last.get(message.partition(), now)
    if pause > counts["pause"]:
        counts["pause"] = pause
        if pause > 1:
            print(f"{now:.1f} partition {message.partition()}: nothing was acknowledged for {pause:.1f} s", file=sys.stderr, flush=True)
    last[message.partition()] = now


def write():
    producer = Producer({**common, "enable.idempotence": True, "acks": "all", "linger.ms": 5, "message.timeout.ms": 120000})
    begun = time.monotonic()
    while not stop.is_set():
        if counts["sent"] < (time.monotonic() - begun) * rate and len(producer) < 10000:
            producer.produce("in", str(counts["sent"]), on_delivery=told)
            counts["sent"] += 1
        producer.poll(0.001)
    producer.flush(120)


def copy(group, is_over):
    def begin():
        producer = Producer({**common, "transactional.id": "copy", "transaction.timeout.ms": 60000})
        producer.init_transactions(90)
        consumer = Consumer({**common, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
                             "isolation.level": "read_committed"})
        consumer.subscribe(["in"])
        return producer, consumer
    producer, consumer = begin()
    idle = 0
    while not (is_over() and idle > 10):
        found = [message for message in consumer.consume(200, 0.5) if not message.error()]
        idle = 0 if found else idle + 1
        if not found:
            continue
        try:
            producer.begin_transaction()
            for message in found:
                producer.produce("out", message.value())
            ends = {}
            for message in found:
                ends[message.partition()] = TopicPartition("in", message.partition(), message.offset() + 1)
            producer.send_offsets_to_transaction(list(ends.values()), consumer.consumer_group_metadata(), 60)
            # librdkafka 2.16 may wait for ever for a coordinator that has left the metadata. An application begins anew then.
            try:
                producer.commit_transaction(20)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                print("stuck:", error, file=sys.stderr, flush=True)
                counts["stuck"] += 1
                left.append(producer)
                consumer.close()
                producer, consumer = begin()
                continue
            counts["commits"] += 1
            counts["copied"] += len(found)
        except KafkaException as error:
            print("aborts:", error, file=sys.stderr, flush=True)
            counts["aborts"] += 1
            try:
                if not error.args[0].fatal():
                    producer.abort_transaction(60)
            except KafkaException:
                pass
            consumer.close()
            producer, consumer = begin()
    consumer.close()


writer = threading.Thread(target=write)
threading.Thread(target=lambda: (sys.stdin.read(1), stop.set()), daemon=True).start()


def report():
    while True:
        time.sleep(5)
        print(f"{time.monotonic():.1f} {json.dumps(counts)}", file=sys.stderr, flush=True)
threading.Thread(target=report, daemon=True).start()
writer.start()
copy("copiers", lambda: not writer.is_alive())


def values(topic):
    consumer = Consumer({**common, "group.id": "count-" + topic, "auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    consumer.subscribe([topic])
    found, idle = [], 0
    while idle < 10:
        messages = [message for message in consumer.consume(1000, 1.0) if not message.error()]
        idle = 0 if messages else idle + 1
        found += [int(message.value()) for message in messages]
    consumer.close()
    return found
for topic in ["in", "out"]:
    found = values(topic)
    counts[topic], counts["distinct_" + topic] = len(found), len(set(found))
print(json.dumps(counts), flush=True)
# Its destructor waits as well.
os._exit(0)
