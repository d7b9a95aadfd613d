"""Three nodes: producers, latency and appends of replicated topics, and how long a dead leader is missed."""
import contextlib
import statistics
import threading
import time

from ..preset import Case, Preset
from ..protocol import Connection, RequestFailed
from ..servers import ServerFailed
from .appends import AppendersRaw
from .consume import OneConsumer, ProducerAndConsumer, ThreeConsumers
from .latency import EndToEnd
from .produce import MessageSizes, OneProducer, Producers, ThreeProducers

SIDES = ("esker-3", "kafka-3", "kafka-3-sync")
IN_SYNC_SECONDS_MAX = 120.0
LEADER_SECONDS_MAX = 60.0
BEFORE_SECONDS, BEHIND_SECONDS = 0.3, 1.0


class ReplicatedProducer(OneProducer):
    name = "l12"
    title = "One producer, 100-byte records, 6 partitions of 3 replicas, acks=1 and acks=all"
    source = "2014: one producer thread, 3x asynchronous and 3x synchronous replication; L12, L13"
    sides = SIDES

    def cases(self, bench):
        load = {"size": 100, "partitions": 6}
        return [Case(f"acks={acks}", {**load, "settings": {"linger.ms": 5, "acks": acks}}) for acks in ("1", "all")]


class ReplicatedProducers(ThreeProducers):
    name = "l14-3"
    title = "Three producers, 100-byte records, 6 partitions of 3 replicas, acks=all"
    sides = SIDES


class ReplicatedPipeline(Producers):
    """Nothing but its own queue bounds what librdkafka has under way; each side has to bound it without leaving its followers unheard."""

    name = "pipelined-3"
    title = "One producer with any number of requests under way, one partition of 3 replicas, acks=all"
    source = "librdkafka's defaults: max.in.flight=1000000, no idempotence"
    metric = "silence_ms"
    unit = "ms (longest silence)"
    more_is_better = False
    sides = SIDES
    columns = ("mib_per_s", "records_per_s", "p99_us", "rss_mib", "others_cores")
    topic_config = {"max.message.bytes": 4 << 20}

    def cases(self, bench):
        settings = {"linger.ms": 5, "message.max.bytes": 4 << 20, "queue.buffering.max.kbytes": 1 << 20}
        load = {"partitions": 1, "settings": settings}
        bounded = {**load, "settings": {**settings, "max.in.flight": 5}}
        return [Case("1 KB", {**load, "size": 1000}), Case("1 MB", {**load, "size": 1_000_000}),
                Case("1 MB, 5 under way", {**bounded, "size": 1_000_000})]


class ReplicatedEndToEnd(EndToEnd):
    name = "l21-3"
    title = "End to end over 3 replicas, acks=all: one 100-byte record at a time"
    sides = SIDES


class ReplicatedStored(Producers):
    name = "l15-3"
    title = "One producer over 3 replicas, 1 kB records, into an empty topic and behind 1 GB of it"
    source = "2014: rate against stored data"
    sides = SIDES
    STORED = 1_000_000

    def cases(self, bench):
        load = {"size": 1000, "partitions": 6, "settings": {"linger.ms": 5}}
        return [Case("empty", {**load, "stored": 0}), Case("1 GB stored", {**load, "stored": bench.count(self.STORED)})]

    def before(self, bench, server, topic, options):
        stored = options.pop("stored")
        if stored:
            bench.fill(server, topic, stored, options["size"], options["partitions"])
            bench.settle()


class ReplicatedConsumer(OneConsumer):
    name = "l17-3"
    title = "One consumer, 100-byte records, 6 partitions of 3 replicas"
    sides = ("esker-3", "kafka-3")


class ReplicatedConsumers(ThreeConsumers):
    name = "l18-3"
    title = "Three consumers, 100-byte records, 6 partitions of 3 replicas"
    sides = ("esker-3", "kafka-3")


class ReplicatedProducerAndConsumer(ProducerAndConsumer):
    name = "l19-3"
    title = "Producer and consumer at once, 100-byte records, 6 partitions of 3 replicas"
    sides = SIDES


class ReplicatedMessageSizes(MessageSizes):
    name = "l20-3"
    title = "Message size from 10 bytes to 1 MiB, one producer, 6 partitions of 3 replicas"
    sides = SIDES


class Tiering(Preset):
    """A paced producer and consumers that follow it, as one of the workloads of KIP-405 at a fifth of its rate per leader."""

    source = "KIP-405: performance test, case 1"
    metric = "p99_us"
    unit = "us (p99)"
    more_is_better = False
    sides = SIDES
    columns = ("p50_us", "p999_us", "records_per_s", "consumed_mib_per_s", "broker_cores", "others_cores")
    CONSUMERS, PARTITIONS = 4, 6
    SETTINGS = {"linger.ms": 5}

    def cases(self, bench):
        return [Case(f"{self.CONSUMERS} consumers follow")]

    def measure(self, bench, side, case, state):
        seconds = bench.seconds(6)
        with bench.topic(side, self.PARTITIONS) as (server, topic):
            read = bench.librdkafka("consume", server, topic, partitions=self.PARTITIONS, follow=1, seconds=seconds + 0.5)
            readers = [bench.processes.begin(read) for _ in range(self.CONSUMERS)]
            try:
                with bench.meter(server) as figures:
                    out = bench.run(bench.librdkafka("produce", server, topic, self.SETTINGS, size=self.SIZE, partitions=self.PARTITIONS,
                                                     sample=10, rate=self.RATE, seconds=seconds), seconds)
                out.update(figures(out["records"]))
                out["consumed_mib_per_s"] = sum(bench.finish_client(reader, seconds)["mib_per_s"] for reader in readers)
            finally:
                for reader in readers:
                    bench.processes.kill(reader)
        return out


class TieringAll(Tiering):
    name = "w1-3"
    title = "W1: 12,400 records/s of 484 bytes over 3 replicas with acks=all, four consumers follow"
    SIZE, RATE = 484, 12_400


class TieringOne(Tiering):
    name = "w2-3"
    title = "W2: 24,000 records/s of 458 bytes over 3 replicas with acks=1, four consumers follow"
    SIZE, RATE = 458, 24_000
    SETTINGS = {"linger.ms": 5, "acks": 1}


class ReplicatedAppenders(AppendersRaw):
    name = "a24-3"
    title = "kafkaw over 3 replicas: 128 appenders of 2 KiB, acks=all, the client of one thread"
    sides = ("esker", *SIDES)
    CONNECTIONS = (1, 8, 128)


class ReplicatedAppendersSlowSync(ReplicatedAppenders):
    name = "a24-slow-3"
    title = "kafkaw over 3 replicas with every sync made 2 ms slower on all nodes"
    sides = ("esker-3", "kafka-3-sync")
    slow_us = 2000

    def teardown(self, bench, side, state):
        bench.discard(bench.server(side, self.slow_us))


class FailOver(Preset):
    """A client of one connection appends with acks=all, asks all nodes for the leader when it has none, and counts the gap."""

    name = "fail-over"
    title = "From the death of a leader to the next append that is acknowledged, 3 replicas"
    source = "CLUSTER stage B: under 1 s after kill -9, under 100 ms for a stop"
    metric = "gap_ms"
    unit = "ms"
    more_is_better = False
    sides = ("esker-3", "kafka-3")
    columns = ("longest_ms",)
    ROUNDS = 3

    def cases(self, bench):
        return [Case("kill -9", {"how": "kill"}), Case("clean stop", {"how": "stop"})]

    def warm(self, bench, side, state):
        """A death is never warm."""

    def measure(self, bench, side, case, state):
        gaps = []
        with bench.topic(side) as (server, topic):
            for _ in range(self.ROUNDS):
                leader = server.leader_of(topic)
                gaps.append(self._gap(Appender(server, topic), leader.kill if case.options["how"] == "kill" else leader.stop))
                leader.start()
                server.wait_for_topic(topic, 1, IN_SYNC_SECONDS_MAX)
        return {"gap_ms": statistics.median(gaps) * 1000, "longest_ms": max(gaps) * 1000}

    @staticmethod
    def _gap(appender, end):
        """The longest time between two acknowledgements while a node ends, in seconds."""
        ending = threading.Thread(target=lambda: (time.sleep(BEFORE_SECONDS), end()))
        last = appender.append()
        ending.start()
        longest, until = 0.0, None
        while until is None or time.monotonic() < until:
            now = appender.append()
            longest, last = max(longest, now - last), now
            if until is None and not ending.is_alive():
                until = time.monotonic() + BEHIND_SECONDS
        ending.join()
        return longest


class FailOverOfMany(FailOver):
    """One of three nodes dies that leads a third of the partitions; others are asked until they serve all of them."""

    name = "fail-over-5000"
    title = "From kill -9 of a node until others serve all of 5,000 partitions of 3 replicas"
    source = "CLUSTER stage B: under 3 s"
    metric = "served_ms"
    columns = ()
    PARTITIONS = 5000

    def cases(self, bench):
        return [Case("kill -9")]

    def measure(self, bench, side, case, state):
        with bench.topic(side, partitions=self.PARTITIONS) as (server, topic):
            leader = server.leader_of(topic)
            others = [node for node in server.nodes if node is not leader]
            leader.kill()
            died = time.monotonic()
            while self._served_by(others, topic) < self.PARTITIONS:
                if died + LEADER_SECONDS_MAX < time.monotonic():
                    raise ServerFailed(f"not every partition is served within {LEADER_SECONDS_MAX} s")
            served = time.monotonic() - died
            leader.start()
            server.wait_for_topic(topic, self.PARTITIONS, IN_SYNC_SECONDS_MAX)
        return {"served_ms": served * 1000}

    def _served_by(self, nodes, topic):
        served = 0
        for node in nodes:
            with Connection(node.port, timeout=LEADER_SECONDS_MAX) as connection:
                served += connection.served_partitions(topic, self.PARTITIONS)
        return served


class Appender:
    """Appends one record after another over one connection, and finds the leader again when it fails."""

    def __init__(self, server, topic):
        self.server, self.topic = server, topic
        self.connection = None

    def append(self):
        """Returns when the append was acknowledged."""
        deadline, last = time.monotonic() + LEADER_SECONDS_MAX, "no leader"
        while time.monotonic() < deadline:
            try:
                self.connection = self.connection or self._to_leader()
                self.connection.append(self.topic)
                return time.monotonic()
            except (OSError, RequestFailed) as error:
                last = error
                if self.connection:
                    self.connection.socket.close()
                self.connection = None
                time.sleep(0.001)
        raise ServerFailed(f"no append is acknowledged within {LEADER_SECONDS_MAX} s: {last}")

    def _to_leader(self):
        for node in self.server.nodes:
            with contextlib.suppress(OSError), Connection(node.port, timeout=2) as connection:
                ports, partitions = connection.describe(self.topic)
                if partitions and partitions[0][0] in ports:
                    return Connection(ports[partitions[0][0]], timeout=2)
        raise OSError("no node knows a leader")
