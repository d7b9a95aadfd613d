"""librdkafka under chaos: an idempotent producer, a transactional one, and a member of a group, each a process of its own.

Each says on standard output what it did and what it was told, line by line, in the words of the runner's own clients, and ends when
its standard input does. It retries for as long as a scenario may last; what it cannot retry ends it with `failed: WHY`.

  producer BOOTSTRAP TOPIC PARTITIONS NUMBER         sent PARTITION N | acked PARTITION N OFFSET
  pipelined BOOTSTRAP TOPIC PARTITIONS NUMBER PADDING BURST PAUSE    the same lines; plain, with defaults, a burst and a pause of seconds
  txn      BOOTSTRAP TOPIC PARTITIONS NUMBER ID SEED op PROCESS OUTCOME INVOKED RETURNED KEY:VALUE:OFFSET... | open | ready | fenced
  flood    BOOTSTRAP TOPIC BYTES                     silence MILLISECONDS ACKED (each second)
  member   BOOTSTRAP TOPIC GROUP                     found AT P O | tried AT P O | commit AT P O ASKED | took AT P | gave AT P
"""

import random
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

MASK = (1 << 64) - 1
PATIENCE_MS = 120_000
NOT_COMMITTED = -1001
stop = threading.Event()
lock = threading.Lock()


def say(line):
    with lock:
        print(line, flush=True)


def now():
    return time.time_ns()


def value(producer, number):
    """The bytes of a value of the ledger."""
    filler = bytearray()
    state = ((number << 16 | producer) * 0x9E37_79B9_7F4A_7C15) & MASK | 1
    for _ in range(state >> 57):
        state ^= state << 13 & MASK
        state ^= state >> 7
        state ^= state << 17 & MASK
        filler.append(state & 255)
    return f"{producer}:{number}:".encode() + bytes(filler)


def settings(bootstrap, **more):
    return {"bootstrap.servers": bootstrap, "socket.timeout.ms": 8_000, "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 5_000, **{name.replace("_", "."): v for name, v in more.items()}}


def produce(bootstrap, topic, partitions, number):
    producer = Producer(settings(bootstrap, enable_idempotence=True, acks="all", linger_ms=2, debug="eos",
                                 message_timeout_ms=PATIENCE_MS))
    failed = []

    def told(error, message, partition, at):
        if error:
            failed.append(f"{error.name()} after {at} of {partition} was sent")
        else:
            # None for one that was there already.
            offset = message.offset()
            say(f"acked {partition} {at} {-1 if offset is None else offset}")

    at = 0
    while not stop.is_set() and not failed:
        partition = at * 5 % int(partitions)
        payload = value(int(number), at)
        say(f"sent {partition} {at}")
        while True:
            try:
                producer.produce(topic, payload, partition=partition,
                                 on_delivery=lambda e, m, p=partition, n=at: told(e, m, p, n))
                break
            except BufferError:
                producer.poll(0.1)
        at += 1
        # A few thousand at most wait while nobody answers.
        producer.poll(0.002 if len(producer) < 2_000 else 0.2)
    if producer.flush(PATIENCE_MS / 1000) and not failed:
        failed.append("not everything was acknowledged")
    if failed:
        raise RuntimeError(failed[0])


def pipeline(bootstrap, topic, partitions, number, padding, burst, pause):
    """Not idempotent, any number of requests under way: what most programs do with librdkafka."""
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": PATIENCE_MS})
    failed, at, pad = [], 0, b"=" * int(padding)

    def told(error, message, partition, at):
        if error:
            failed.append(f"{error.name()} after {at} of {partition} was sent")
        else:
            say(f"acked {partition} {at} {message.offset()}")

    while not stop.is_set() and not failed:
        # A burst is of one partition, and larger than what any bound of a node lets through at once.
        partition = at // int(burst) % int(partitions)
        for _ in range(int(burst)):
            say(f"sent {partition} {at}")
            producer.produce(topic, value(int(number), at) + pad, partition=partition,
                             on_delivery=lambda e, m, p=partition, n=at: told(e, m, p, n))
            at += 1
        begun = time.monotonic()
        # The next burst comes when the last one is acknowledged, so that what waits is bounded.
        while not stop.is_set() and not failed and (len(producer) or time.monotonic() - begun < float(pause)):
            producer.poll(0.1)
    if producer.flush(PATIENCE_MS / 1000) and not failed:
        failed.append("not everything was acknowledged")
    if failed:
        raise RuntimeError(failed[0])


def flood(bootstrap, topic, size):
    """As many requests under way as librdkafka likes, and each second the longest time without an answer since the last line."""
    # More than a broker takes from one connection, so that its bound is full all the time.
    producer = Producer(settings(bootstrap, acks="all", message_max_bytes=4_000_000, queue_buffering_max_kbytes=300_000,
                                 message_timeout_ms=PATIENCE_MS, request_timeout_ms=60_000))
    # Bounds are full at once and stay so, while three disks get no more than they have room for.
    begun, burst, rate, sent = time.monotonic(), 300_000_000, 60_000_000, 0
    payload, heard, failed = b"x" * int(size), {"at": time.monotonic(), "longest": 0.0, "acked": 0}, []

    def told(error, _):
        at = time.monotonic()
        heard["longest"], heard["at"] = max(heard["longest"], at - heard["at"]), at
        heard["acked"] += not error
        if error:
            failed.append(error.name())

    said = time.monotonic()
    while not failed and (not stop.is_set() or len(producer)):
        if not stop.is_set() and sent < burst + rate * (time.monotonic() - begun):
            try:
                producer.produce(topic, payload, partition=0, on_delivery=told)
                sent += len(payload)
                producer.poll(0)
            except BufferError:
                producer.poll(0.01)
        else:
            producer.poll(0.01)
        if time.monotonic() - said >= 1:
            said = time.monotonic()
            silence = max(heard["longest"], said - heard["at"])
            say(f"silence {int(silence * 1000)} {heard['acked']}")
            heard["longest"] = 0.0
    if failed:
        raise RuntimeError(failed[0])


class Fenced(Exception):
    """Another one has the transactional id, or the coordinator aborted what was open."""


def retried(call, *args):
    """Calls until it is told something final."""
    begun = time.monotonic()
    while True:
        try:
            return call(*args)
        except KafkaException as error:
            told = error.args[0]
            print(f"{now()} {call.__name__} told {told.str()} retriable {told.retriable()}", file=sys.stderr, flush=True)
            if told.fatal() or not told.retriable() or time.monotonic() - begun > PATIENCE_MS / 1000:
                raise


def transact(bootstrap, topic, partitions, number, name, seed):
    chance, at, number = random.Random(int(seed)), 0, int(number)
    process = 1000 + number
    while not stop.is_set():
        producer = Producer(settings(bootstrap, transactional_id=name, linger_ms=2, debug="eos", transaction_timeout_ms=10_000,
                                     message_timeout_ms=9_000))
        try:
            retried(producer.init_transactions, 30)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED):
                continue
            raise
        is_open = True
        while is_open and not stop.is_set():
            at, is_open = transaction(producer, topic, int(partitions), number, process, at, chance)
        process += 1000
    return


def transaction(producer, topic, partitions, number, process, at, chance):
    """One; how many values there were by then, and whether the producer goes on."""
    sends, failed = [], []

    def told(error, message, place):
        if error:
            failed.append(error)
        else:
            sends[place][2] = message.offset()

    invoked = now()
    producer.begin_transaction()
    say("open")
    for _ in range(1 + chance.randrange(12)):
        partition = chance.randrange(partitions)
        place = len(sends)
        sends.append([partition, number << 48 | at, -1])
        producer.produce(topic, value(number, at), partition=partition, on_delivery=lambda e, m, p=place: told(e, m, p))
        at += 1
    producer.poll(0)
    commits, outcome, goes_on = chance.randrange(4) > 0, "fail", True
    try:
        if commits:
            retried(producer.flush, 15)
            say("ready")
            time.sleep(0.03)
            outcome = "info"
            retried(producer.commit_transaction, 30)
            outcome = "ok"
        else:
            retried(producer.abort_transaction, 30)
    except KafkaException as error:
        error = error.args[0]
        if error.txn_requires_abort():
            try:
                retried(producer.abort_transaction, 30)
                outcome = "fail"
            except KafkaException:
                goes_on = False
        else:
            goes_on = False
        print(f"{now()} told {error.str()} fatal {error.fatal()}, {outcome}", file=sys.stderr, flush=True)
    line = " ".join(f"{key}:{v}:{offset}" for key, v, offset in sends)
    say(f"op {process} {outcome} {invoked} {now()} {line}")
    if not goes_on:
        say("fenced")
    return at, goes_on


def belong(bootstrap, topic, group):
    # Commits that are refused are told; the next poll finds out why.
    consumer = Consumer(settings(bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
                                 session_timeout_ms=6_000, heartbeat_interval_ms=500))

    def took(_, partitions):
        asked = now()
        for part in partitions:
            say(f"took {now()} {part.partition}")
        try:
            for part in consumer.committed(partitions, timeout=20):
                if not part.error:
                    say(f"found {asked} {part.partition} {max(part.offset, 0)}")
        except KafkaException:
            pass

    def gave(_, partitions):
        for part in partitions:
            say(f"gave {now()} {part.partition}")

    consumer.subscribe([topic], on_assign=took, on_revoke=gave, on_lost=gave)
    begun, read = time.monotonic(), {}
    while not stop.is_set():
        for message in consumer.consume(500, 0.1):
            if not message.error():
                read[message.partition()] = message.offset() + 1
        if time.monotonic() - begun < 0.1 or not read:
            continue
        begun, asked = time.monotonic(), now()
        owned = {part.partition for part in consumer.assignment()}
        offsets = [TopicPartition(topic, p, o) for p, o in read.items() if p in owned]
        read = {}
        if not offsets:
            continue
        for part in offsets:
            say(f"tried {now()} {part.partition} {part.offset}")
        try:
            told = consumer.commit(offsets=offsets, asynchronous=False)
            for part in told or []:
                if not part.error:
                    say(f"commit {now()} {part.partition} {part.offset} {asked}")
        except KafkaException:
            pass
    consumer.close()


def main():
    threading.Thread(target=lambda: (sys.stdin.read(1), stop.set()), daemon=True).start()
    kind, *words = sys.argv[1:]
    try:
        {"producer": produce, "pipelined": pipeline, "flood": flood, "txn": transact, "member": belong}[kind](*words)
    except Exception as error:  # the runner reports it
        say(f"failed: {error!r}")
        sys.exit(1)
    say("done")


main()
