"""The bench: its sides, its servers, its directory, and one measurement.

Invariant: at most one load runs at a time, and what one measurement wrote is on
the device, and its topic gone, before the next begins. Servers of all sides
stay up together so that sides can take turns within a second of each other.
"""
import contextlib
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import build, machine
from .clusters import new_cluster
from .machine import Reading
from .processes import Processes, children_cpu, fifo_allowed, parse, raise_file_limit
from .servers import Esker, Kafka, Ruled, ServerFailed

CLIENT_SECONDS_MAX = 120.0
SPARE_MEMORY_BYTES = 2 << 30


@dataclass(frozen=True)
class Side:
    """A server and the topic settings that make it this side."""

    name: str
    kind: str
    topic: dict = field(default_factory=dict, hash=False)
    about: str = ""
    nodes: int = 1

    @property
    def like(self):
        """The side whose presets it takes part in."""
        return self.name.removesuffix("-before").removesuffix("-rules")


SIDES = {s.name: s for s in (
    Side("esker", "esker", {}, "as shipped: every append synced before it is acknowledged"),
    Side("esker-os", "esker", {"esker.durability": "os"}, "topics opted out of syncing, as Kafka does by default"),
    Side("esker-before", "before", {}, "another build of Esker, named by --before: does a change cost anything"),
    Side("esker-rules", "rules", {}, "with an authorizer and 1,000 rules"),
    Side("kafka", "kafka", {}, "as shipped: not synced"),
    Side("kafka-sync", "kafka", {"flush.messages": "1"}, "flush.messages=1: every append synced"),
    Side("esker-3", "esker", {}, "three nodes, three replicas of each partition, each synced", 3),
    Side("esker-3-before", "before", {}, "three nodes of the build that --before names", 3),
    Side("esker-3-rules", "rules", {}, "three nodes with an authorizer and 1,000 rules", 3),
    Side("kafka-3", "kafka", {}, "three brokers, three replicas, not synced", 3),
    Side("kafka-3-sync", "kafka", {"flush.messages": "1"}, "three brokers, three replicas, every append synced", 3),
)}
MACHINE = Side("machine", "machine", {}, "the machine itself, no broker")


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    def __init__(self, options):
        self.options = options
        raise_file_limit()
        fifo = options.fifo and fifo_allowed()
        if options.fifo and not fifo:
            say("real-time priorities are not permitted here; running at normal priority")
        self.fifo = fifo
        self.processes = Processes(fifo)
        parent = Path(options.work_dir or tempfile.gettempdir())
        parent.mkdir(parents=True, exist_ok=True)
        self.work = Path(tempfile.mkdtemp(prefix="esker-bench-", dir=parent))
        self.device = machine.device_of(self.work)
        if machine.file_system(self.work) in ("tmpfs", "ramfs"):
            say(f"warning: {self.work} is in memory, where a sync costs nothing; give --work-dir a real disk")
        self.servers = {}  # by kind and slowness: those that sides share
        self.all_servers = []
        self.missing = {}
        self.started = 0
        self.topics = 0
        self.sides = self._usable_sides(options.sides)

    # ---- sides and servers

    def _usable_sides(self, names):
        needs = {"esker": lambda: build.esker_binary(self.options.esker), "before": lambda: build.before_binary(self.options.before),
                 "rules": lambda: build.esker_binary(self.options.esker),
                 "kafka": build.kafka_jars}
        self.found = {}
        for kind in dict.fromkeys(SIDES[n].kind for n in names):
            try:
                self.found[kind] = needs[kind]()
            except build.Missing as why:
                self.missing[kind] = str(why)
                say(f"without {kind}: {why}")
        return [SIDES[n] for n in names if SIDES[n].kind in self.found]

    def _node(self, kind, directory, slow_us, settings):
        if kind in ("esker", "before", "rules"):
            new = Ruled if kind == "rules" else Esker
            return new(directory, self.processes, self.found[kind], self.options.esker_args, slow_us, settings)
        return Kafka(directory, self.processes, self.found[kind], slow_us, settings)

    def new_server(self, kind, slow_us=0, settings=None, nodes=1):
        """A server with fresh data and settings of its own, prepared and not started."""
        self.started += 1
        directory = self.work / f"{kind}-{self.started}"
        if nodes > 1:
            def new_node(number):
                return self._node(kind, directory / str(number), slow_us, settings)
            server = new_cluster(kind, directory, new_node, nodes)
        else:
            server = self._node(kind, directory, slow_us, settings)
        self.all_servers.append(server)
        server.prepare()
        return server

    def server(self, side, slow_us=0):
        """The running server of a side, started when there is none."""
        key = (side.kind, slow_us, side.nodes)
        server = self.servers.get(key)
        if server is None or not server.alive():
            if server is not None:
                say(f"{side.kind} died: {server.last_words()}")
                self.discard(server)
            server = self.new_server(side.kind, slow_us, nodes=side.nodes)
            self.servers[key] = server
            server.start()
        return server

    def discard(self, server):
        """Ends a server and deletes its data."""
        server.kill()
        self.all_servers.remove(server)
        for key in [k for k, s in self.servers.items() if s is server]:
            del self.servers[key]
        if self.options.keep:
            return
        shutil.rmtree(server.directory, ignore_errors=True)

    def end_servers(self):
        for server in list(self.all_servers):
            self.discard(server)

    def close(self):
        self.end_servers()
        self.processes.kill_all()
        if self.options.keep:
            say(f"kept {self.work}")
        else:
            shutil.rmtree(self.work, ignore_errors=True)

    # ---- sizes

    def seconds(self, full):
        return max(0.5, full * self.options.scale)

    def count(self, full, least=1000):
        return max(least, int(full * self.options.scale))

    # ---- one measurement

    @contextlib.contextmanager
    def topic(self, side, partitions=1, slow_us=0, config=None):
        """A topic that exists for one measurement; gives its server and name."""
        server = self.server(side, slow_us)
        name = self.make_topic(server, side, partitions, config)
        try:
            yield server, name
        finally:
            self.drop_topic(server, name)

    def make_topic(self, server, side, partitions, config=None):
        self.topics += 1
        name = f"bench-{self.topics}"
        with server.connection() as connection:
            connection.create_topic(name, partitions, {**side.topic, **(config or {})}, server.replicas)
        server.wait_for_topic(name, partitions)
        return name

    def drop_topic(self, server, name):
        if server.alive():
            with server.connection() as connection:
                connection.delete_topic(name)
        self.settle()

    def settle(self):
        """Nothing written so far is left for a later measurement to write."""
        machine.settle(self.work)

    def fill_memory(self):
        """Before a measurement, where asked for: the memory that it takes is memory that was in use."""
        if self.options.full_memory:
            machine.fill_memory(self.work / "memory", SPARE_MEMORY_BYTES)

    @contextlib.contextmanager
    def meter(self, server):
        """Reads the counters around a load; call what it gives, with the records, afterwards."""
        def read():
            return Reading(server.pids, self.device, time.monotonic(), children_cpu())
        before = read()
        taken = []

        def figures(records=0):
            return taken[0].since(before, records)
        yield figures
        if not server.alive():
            raise ServerFailed(f"{server.kind} died under load: {server.last_words()}")
        taken.append(read())

    def run(self, command, seconds=0.0):
        return self.processes.client(command, seconds + CLIENT_SECONDS_MAX)

    def finish_client(self, process, seconds=0.0):
        """The result of a client that was begun beside another."""
        return parse(self.processes.finish(process, seconds + CLIENT_SECONDS_MAX))

    def librdkafka(self, load, server, topic, settings=None, **options):
        """The command of the C client."""
        pairs = [f"{k}={v}" for k, v in options.items() if v is not None]
        pairs += [f"set.{k}={v}" for k, v in (settings or {}).items()]
        return [build.librdkafka_client(), load, f"brokers={server.bootstrap}", f"topic={topic}", *pairs]

    def franz(self, load, server, topic, **options):
        """The command of the Go client; durations in seconds."""
        pairs = [f"-{k}={v}s" if k in ("duration", "warmup", "every", "poll", "limit") else f"-{k}={v}" for k, v in options.items()]
        return [build.franz_client(), load, f"-brokers={server.bootstrap}", f"-topic={topic}", *pairs]

    def java(self, load, server, topic, **options):
        """The command of the Java client, with the heap that its own tools have."""
        main, verb = load.split(" ")
        classes = build.streams_client() if main == "WordCount" else build.java_client()
        return ["java", "-Xmx512m", "-XX:+UseG1GC", f"-Dlog4j2.configurationFile={build.BENCH / 'kafka' / 'client.properties'}",
                "-cp", classes, f"bench.{main}", verb, f"brokers={server.bootstrap}", f"topic={topic}",
                *(f"{k}={v}" for k, v in options.items())]

    def raw(self, load, server, topic, **options):
        """The command of the client without a library."""
        return [build.raw_client(), load, f"port={server.port_of(topic)}", f"topic={topic}", *(f"{k}={v}" for k, v in options.items())]

    def bare(self, load, slow_us=0, **options):
        """The command of the same client beside a server that only writes, syncs and answers."""
        slowed = ["env", f"LD_PRELOAD={build.slow_sync()}", f"SLOWSYNC_US={slow_us}"] if slow_us else []
        return [*slowed, build.raw_client(), load, f"bare={self.work / 'bare'}", "topic=bare", *(f"{k}={v}" for k, v in options.items())]

    def baseline(self, *arguments):
        return self.run([build.baseline(), *arguments])

    def fill(self, server, topic, records, size, partitions=1, settings=None):
        """Writes records before a read is measured."""
        return self.run(self.librdkafka("produce", server, topic, {"linger.ms": 20, **(settings or {})},
                                        records=records, size=size, partitions=partitions, sample=1 << 20), 300)
