"""A server is a directory, a command and a port.

Owns how each broker is set up, started, stopped and killed. Settings are those
that its makers ship; a side adds only topic settings. Every server listens on
loopback, keeps its data below its own directory and dies with the comparison.
"""
import os
import socket
import subprocess
import time
from pathlib import Path

from . import build
from .protocol import Connection, RequestFailed

READY_SECONDS_MAX = 300.0
STOP_SECONDS_MAX = 600.0
RETRY_PAUSE = 0.002


class ServerFailed(Exception):
    """A server did not start, or died."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One broker process and what outlives it: its data."""

    kind = ""
    replicas = 1

    def __init__(self, directory, processes, slow_us=0, settings=None):
        self.directory = Path(directory)
        self.processes = processes
        self.slow_us = slow_us
        self.settings = settings or {}
        self.port = free_port()
        self.process = None
        self.log = self.directory / "server.log"
        self.count_file = self.directory / "syncs"
        self.directory.mkdir(parents=True)

    def command(self):
        raise NotImplementedError

    def prepare(self):
        """Work before the first start that is not part of a start."""

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.process.pid if self.process else 0

    @property
    def pids(self):
        return [self.pid]

    def port_of(self, topic):
        """The port of the leader of partition 0."""
        return self.port

    def wait_for_topic(self, name, partitions, timeout=60):
        with self.connection() as connection:
            connection.wait_for_leaders(name, partitions, timeout)

    @property
    def data(self):
        return self.directory / "data"

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def environment(self):
        env = dict(os.environ)
        if self.slow_us:
            env["LD_PRELOAD"] = str(build.slow_sync())
            env["SLOWSYNC_US"] = str(self.slow_us)
            env["SLOWSYNC_COUNT"] = str(self.count_file)
        return env

    def syncs(self):
        """Syncs counted by the shim; 0 when it is not loaded, or does not bite."""
        try:
            return int.from_bytes(self.count_file.read_bytes()[:8], "little")
        except OSError:
            return 0

    def launch(self):
        """Starts the process without waiting for anything."""
        self.process = self.processes.server(self.command(), self.log, self.directory, self.environment())

    def start(self):
        self.launch()
        self.when_serving(lambda c: c.led_partitions("no-such-topic-yet") >= 0)
        self.furnish()

    def furnish(self):
        """Work once it, or the cluster that it is the first node of, serves."""

    def when_serving(self, action, pause=RETRY_PAUSE):
        """Tries an action on fresh connections until it succeeds once; gives what it gave."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        last = "no answer"
        while time.monotonic() < deadline:
            if not self.alive():
                raise ServerFailed(f"{self.kind} ended at start: {self.last_words()}")
            try:
                with Connection(self.port, timeout=READY_SECONDS_MAX) as connection:
                    return action(connection)
            except (OSError, RequestFailed) as error:
                last = error
            time.sleep(pause)
        raise ServerFailed(f"{self.kind} does not serve after {READY_SECONDS_MAX:.0f} s: {last}")

    def connection(self):
        return Connection(self.port)

    def stop(self):
        """Stops cleanly; gives the seconds it took."""
        began = time.monotonic()
        if self.process and not self.processes.stop(self.process, STOP_SECONDS_MAX):
            raise ServerFailed(f"{self.kind} did not stop in {STOP_SECONDS_MAX:.0f} s")
        return time.monotonic() - began

    def kill(self):
        if self.process:
            self.processes.kill(self.process)

    def last_words(self):
        try:
            lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        return " | ".join(lines[-3:]) or "it printed nothing"

    def segments(self, topic, partition=0):
        """Segment files of a partition, first to last: both brokers keep the same names."""
        return sorted(self.data.glob(f"{topic}-{partition}/*.log"))

    def unfinished(self, topic, partition=0):
        """Files that a compaction of a partition is writing or putting in place."""
        return [f for ending in ("cleaned", "swap") for f in self.data.glob(f"{topic}-{partition}/*.{ending}")]

    def journal_bytes(self):
        """Bytes of the files that a start after a crash may have to read through; 0 where there are none."""
        return sum(f.stat().st_size for f in self.data.glob("**/*") if "journal" in str(f.relative_to(self.data)) and f.is_file())


class Esker(Server):
    kind = "esker"

    def __init__(self, directory, processes, binary, arguments, slow_us=0, settings=None):
        super().__init__(directory, processes, slow_us, settings)
        self.binary, self.arguments = binary, arguments

    def command(self):
        settings = [f"--set={k}={v}" for k, v in self.settings.items()]
        return [self.binary, "serve", "--data-dir", self.data, "--listen", self.bootstrap, *settings, *self.arguments]


class Ruled(Esker):
    """With an authorizer and 1,000 rules: clients are anonymous, and may do what they do by the last of them."""

    kind = "esker with rules"

    def command(self):
        return [*super().command(), "--set=authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"]

    def furnish(self):
        # A prefix of each of 50 lengths is one look-up each for a question that nobody remembers.
        prefixes = [f"other-{'x' * length}" for length in range(50)]
        anonymous, others = "User:ANONYMOUS", [f"--principal=User:u{n}" for n in range(19)]
        self.allow(f"--principal={anonymous}", "--operation=Read,Write", "--prefixed", *(f"--topic={p}" for p in prefixes))  # 100
        self.allow(f"--principal={anonymous}", "--operation=Read", *(f"--topic=other-{n}" for n in range(300)))
        self.allow(*others, "--operation=Read,Describe", "--prefixed", *(f"--topic=bench-{n}" for n in range(10)))  # 380
        self.allow(*others, "--operation=Alter", "--deny", *(f"--topic=bench-{n}" for n in range(1, 12)))  # 209
        self.allow(f"--principal={anonymous}", "--operation=Read,Write", *(f"--group=other-{n}" for n in range(3)))  # 6
        self.allow(f"--principal={anonymous}", "--operation=All", "--cluster", "--group=*", "--transactional-id=*", "--topic=*")
        self.allow(f"--principal={anonymous}", "--operation=IdempotentWrite", "--cluster")

    def allow(self, *rule):
        # The file, not the port: who may add a rule is not for the first client to say.
        command = [self.binary, "-b", self.data / "esker.sock", "acl", "add", *rule]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise ServerFailed(f"{self.kind}: no rules: {done.stderr.strip()[-300:]}")


class Kafka(Server):
    """Combined controller and broker, with the settings of the distribution's server.properties."""

    kind = "kafka"

    def __init__(self, directory, processes, jars, slow_us=0, settings=None):
        super().__init__(directory, processes, slow_us, settings)
        self.jars = jars
        self.controller_port = free_port()

    def _java(self):
        return ["java", "-Dlog4j2.configurationFile=" + str(build.BENCH / "kafka" / "log4j2.properties"),
                "-cp", f"{self.jars}/*"]

    def prepare(self):
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self.controller_port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.data,
            "num.network.threads": 3,
            "num.io.threads": 8,
            "socket.send.buffer.bytes": 102400,
            "socket.receive.buffer.bytes": 102400,
            "socket.request.max.bytes": 104857600,
            "num.recovery.threads.per.data.dir": 2,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "log.retention.hours": 168,
            "log.segment.bytes": 1073741824,
            # the data of a finished run would fill the disk for a minute otherwise
            "log.segment.delete.delay.ms": 1000,
            **self.settings,
        }
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        done = subprocess.run([*self._java(), "-Xmx256m", "kafka.tools.StorageTool", "format",
                               "-t", "ZXNrZXItYmVuY2gta2Fma2E", "-c", str(properties)],
                              capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise ServerFailed(f"kafka: format failed: {(done.stdout + done.stderr).strip()[-300:]}")

    def command(self):
        # heap and collector as kafka-server-start.sh and kafka-run-class.sh set them
        return [*self._java()[:1], "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
                "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
                *self._java()[1:], "kafka.Kafka", self.directory / "server.properties"]
