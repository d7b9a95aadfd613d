"""Starts and stops: empty, with many partitions, and after a kill with much data retained.

Each preset has servers of its own; the ones that other presets share are ended
first, so that a start has the machine to itself.
"""
import time

from .. import machine
from ..preset import Case, Preset

TOPICS = 20


def timed_start(server, topic, first=None):
    """Seconds from the start of the process to the first acknowledged append."""
    began = time.monotonic()
    server.launch()

    def append(connection):
        if first:
            first(connection)
        connection.append(topic)
    server.when_serving(append)
    return time.monotonic() - began


def create_once(topic, config):
    """Creates a topic unless an earlier try that was cut short already did."""
    def create(connection):
        if connection.led_partitions(topic) < 1:
            connection.create_topic(topic, 1, config)
            connection.wait_for_leaders(topic, 1, 30, pause=0.001)
    return create


class Startup(Preset):
    name = "startup"
    title = "From start to the first acknowledged append; memory when idle; start after kill -9"
    source = "a broker that starts in milliseconds"
    metric = "start_ms"
    unit = "ms"
    more_is_better = False
    sides = ("esker", "kafka")
    columns = ("rss_mib", "idle_cores", "stop_ms", "retained_gib", "journal_gib")

    def cases(self, bench):
        return [Case("new data, topic created", {"step": self._new}),
                Case("restart after a clean stop", {"step": self._clean}),
                Case("restart after kill -9", {"step": self._killed})]

    own_servers = True

    def setup(self, bench, side):
        return {}

    def warm(self, bench, side, state):
        """Starts are measured cold; there is nothing to warm."""

    def measure(self, bench, side, case, state):
        return case.options["step"](bench, side, state)

    @staticmethod
    def _idle(server):
        """Memory and processor of a server that has nothing to do."""
        time.sleep(1.0)
        cpu, at = machine.cpu_seconds(server.pid), time.monotonic()
        time.sleep(2.0)
        return {"rss_mib": machine.rss_mib(server.pid),
                "idle_cores": (machine.cpu_seconds(server.pid) - cpu) / (time.monotonic() - at)}

    def _new(self, bench, side, state):
        if state.get("server"):
            bench.discard(state["server"])
        server = state["server"] = bench.new_server(side.kind)
        out = {"start_ms": timed_start(server, "first", create_once("first", side.topic)) * 1000}
        return {**out, **self._idle(server)}

    def _clean(self, bench, side, state):
        server = state["server"]
        stopped = server.stop()
        return {"start_ms": timed_start(server, "first") * 1000, "stop_ms": stopped * 1000, **self._idle(server)}

    def _killed(self, bench, side, state):
        """The data is written once and kept for the runs that follow; each run adds some and kills again."""
        server = state["server"]
        full = bench.options.retained_gib * bench.options.scale
        want = full if not state.get("retained") else 0.0
        with server.connection() as connection:
            if connection.led_partitions("retained") < 6:
                connection.create_topic("retained", 6, side.topic)
                connection.wait_for_leaders("retained", 6, 30)
        bench.fill(server, "retained", max(10_000, int(want * 2**30 / 2048)), 2048, 6)
        server.kill()
        journal_gib = server.journal_bytes() / 2**30
        start = timed_start(server, "first")
        return {"start_ms": start * 1000, "retained_gib": full, "journal_gib": journal_gib,
                "of_bound": start / (1 + journal_gib), "rss_mib": machine.rss_mib(server.pid)}

    def teardown(self, bench, side, state):
        if state.get("server"):
            bench.discard(state["server"])


class ManyPartitionsStart(Preset):
    name = "partitions-20000"
    title = "20,000 partitions: create, stop, start, and append beside a topic of 100"
    source = "what a partition costs"
    metric = "appends_per_s"
    unit = "appends/s"
    sides = ("esker", "kafka")
    columns = ("create_s", "first_s", "partitions_written", "stop_s", "start_s", "served_s", "p50_us", "p99_us", "rss_mib", "others_cores")
    own_servers = True
    APPENDERS = 100

    def cases(self, bench):
        return [Case("100 partitions"), Case("all partitions")]

    def setup(self, bench, side):
        """Creates the topics, writes to every partition, stops and starts again."""
        server = bench.new_server(side.kind)
        server.start()
        each = max(1, int(bench.options.partitions * min(1.0, bench.options.scale)) // TOPICS)
        began = time.monotonic()
        with server.connection() as connection:
            connection.create_topic("few", self.APPENDERS, side.topic)
            connection.wait_for_leaders("few", self.APPENDERS, 60)
            for i in range(TOPICS):
                connection.create_topic(f"many-{i}", each, side.topic)
            for i in range(TOPICS):
                connection.wait_for_leaders(f"many-{i}", each, 300, pause=0.1)
        created = time.monotonic() - began
        out = bench.run(bench.franz("partitions", server, "many", topics=TOPICS, partitions=each, appenders=1,
                                    first="180s", only="true"), 240)
        stopped = server.stop()
        began = time.monotonic()
        started = timed_start(server, "many-0")
        with server.connection() as connection:
            for name, partitions in [("few", self.APPENDERS), *((f"many-{i}", each) for i in range(TOPICS))]:
                connection.wait_for_leaders(name, partitions, 300, pause=0.1)
        served = time.monotonic() - began
        return {"server": server, "each": each,
                "figures": {"create_s": created, "stop_s": stopped, "start_s": started, "served_s": served,
                            "first_s": out["first_s"], "partitions_written": out["partitions_written"]}}

    def measure(self, bench, side, case, state):
        server, seconds = state["server"], bench.seconds(3)
        where = {"topics": TOPICS, "partitions": state["each"]} if case.name.startswith("all") else {"partitions": self.APPENDERS}
        topic = "many" if "topics" in where else "few"
        with bench.meter(server) as figures:
            out = bench.run(bench.franz("partitions", server, topic, appenders=min(self.APPENDERS, TOPICS * state["each"]),
                                        conns=4, warmup=0.5, duration=seconds, **where), seconds)
        bench.settle()
        out.update(figures(out["records"]))
        if "topics" in where:
            out.update(state["figures"])
        return out

    def teardown(self, bench, side, state):
        bench.discard(state["server"])
