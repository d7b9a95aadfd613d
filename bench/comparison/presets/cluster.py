"""Three nodes: producers, latency and appends of replicated topics, and how long a dead leader is missed."""
import contextlib
import statistics
import threading
import time

from ..preset import Case, Preset
from ..protocol import Connection, RequestFailed
from ..servers import ServerFailed
from .appends import AppendersRaw
from .latency import EndToEnd
from .produce import OneProducer, ThreeProducers

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


class ReplicatedEndToEnd(EndToEnd):
    name = "l21-3"
    title = "End to end over 3 replicas, acks=all: one 100-byte record at a time"
    sides = SIDES


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
