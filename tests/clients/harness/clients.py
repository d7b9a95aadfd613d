"""The list of clients: what each needs, how its program is started, how its results are read."""

import functools
import pathlib
import subprocess
import sys

from . import installs
from .report import Fact

HERE = pathlib.Path(__file__).resolve().parents[1]
CLIENT_SECONDS_MAX = 600


class Client:
    def __init__(self, name, what, command, *needs, is_quick=False, is_own=False, phases=("live",), dirs=1, settings=None,
                 is_raw=False, seconds=CLIENT_SECONDS_MAX, kafka=None, mechanism=None, logs_in=False):
        self.name, self.what, self.command, self.needs = name, what, command, needs
        self.is_quick, self.phases = is_quick, phases
        self.dirs = dirs  # log directories that its broker has
        self.seconds = seconds  # it may run for
        self.kafka = kafka  # the version of Kafka's clients and tools that its program takes; None: the newest
        self.settings = settings  # that its broker starts with, besides the defaults
        self.mechanism = mechanism  # the only one that it can log in by
        self.logs_in = logs_in  # in runs without --sasl too
        self.is_raw = is_raw  # its requests go to one broker, whoever leads: it is left out for several nodes
        self.is_own = is_own  # asks about our own command line, so it is left out for other brokers

    def prepare(self):
        """None, or the sentence that says what could not be installed."""
        for need in self.needs:
            missing = need()
            if missing:
                return missing
        return None

    def execute(self, env, log):
        """Runs the program to its end; returns (version, facts). Everything else it prints goes to the log."""
        env = dict(env, PYTHONPATH=str(HERE), PYTHONDONTWRITEBYTECODE="1", KAFKA_VERSION=self.kafka or installs.KAFKA)
        command = list(map(str, self.command()))
        version, facts = "", []
        with log.open("w") as out:
            process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=out, stdin=subprocess.DEVNULL,
                                       text=True, errors="replace")
            try:
                output, _ = process.communicate(timeout=self.seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
                facts.append(Fact("ends in time", False, self.seconds, f"still ran after {self.seconds} s"))
            out.write(output)
        for line in output.splitlines():
            word, _, rest = line.partition(" ")
            if word == "version":
                version = rest
            elif word in ("pass", "fail"):
                name, seconds, *reason = rest.split(" ", 2)
                facts.append(Fact(name, word == "pass", float(seconds), " ".join(reason)))
            elif word == "skip":
                name, _, reason = rest.partition(" ")
                facts.append(Fact(name, True, 0.0, reason, is_skipped=True))
        if process.returncode not in (0, 1) or (process.returncode == 1 and not facts):
            last = log.read_text().strip().splitlines()[-1:]
            facts.append(Fact("ends normally", False, 0.0, f"exit code {process.returncode}: {' '.join(last)}"))
        return version, facts


def script(name):
    return lambda: [sys.executable, HERE / name / "test.py"]


def venv_script(name, file="test.py"):
    return lambda: [installs.VENV_PYTHON, HERE / name / file]


def of_kafka(version, suffix=""):
    """Kafka's own clients and tools of a version."""
    classes = functools.partial(installs.java_classes, version)
    streams = functools.partial(installs.streams_classes, version)
    jars = functools.partial(installs.kafka_jars, version)
    return [
        Client("java" + suffix, "Kafka's own Java clients",
               lambda: [*installs.java_command("384m", "WARN", installs.java_classpath(version)), "clients.Main"], classes, dirs=2, kafka=version),
        Client("streams" + suffix, "Kafka Streams: counts, windows, joins, exactly once",
               lambda: [*installs.java_command("640m", "WARN", installs.streams_classpath(version)), "clients.StreamsMain"], streams, kafka=version),
        Client("tools" + suffix, "Kafka's own command line tools", script("tools"), jars, phases=("live", "stopped", "restarted"),
               dirs=2, seconds=3 * CLIENT_SECONDS_MAX, kafka=version),  # a JVM for each question: slow on a machine that does more
    ]


ALL = [
    Client("kcat", "the command line client on librdkafka", script("kcat"), installs.kcat, is_quick=True),
    Client("librdkafka", "confluent-kafka for Python", venv_script("librdkafka"), installs.python_clients, is_quick=True),
    Client("hostile", "raw requests no client would send", script("hostile"), is_quick=True, is_raw=True),
    Client("expiring", "raw requests of transactional ids that the broker has forgotten", script("expiring"),
           settings={"transactional.id.expiration.ms": 2_000, "transaction.remove.expired.transaction.cleanup.interval.ms": 100}, is_raw=True),
    Client("operator", "commands of the documents, starts that must be refused, settings files, a full disk", script("operator"), installs.kcat,
           is_own=True, is_quick=True),
    Client("telemetry", "Java and librdkafka clients push their metrics, esker client shows them", venv_script("telemetry"),
           installs.python_clients, installs.kafka_jars, is_own=True),
    Client("real_input", "esker produce, and kcat reads the same bytes", script("real_input"), installs.kcat,
           phases=("live", "restarted", "killed")),
    Client("franz", "franz-go for Go: kgo, kadm, kmsg", lambda: [installs.FRANZ], installs.franz),
    Client("franz_suite", "franz-go's own tests: chains of groups and transactions", script("franz_suite"), installs.franz_suite),
    *of_kafka(installs.KAFKA),
    *of_kafka(installs.KAFKA_BEFORE, "-before"),
    Client("connect", "Kafka Connect, distributed, with exactly-once sources", venv_script("connect"), installs.python_clients,
           installs.framework_jars),
    Client("mirror", "MirrorMaker 2 between Apache Kafka and this broker, both ways", venv_script("mirror"), installs.python_clients,
           installs.framework_jars, installs.kafka_jars),
    Client("flink", "Flink with its Kafka source and sink",
           lambda: [*installs.java_command("1g", "WARN", f"{installs.FLINK_JARS}/*:{installs.FLINK_CLASSES}"),
                    "--add-opens=java.base/java.util=ALL-UNNAMED", "clients.FlinkMain"], installs.flink_classes),
    Client("flink_python", "PyFlink, jobs in Python with SQL and streams", lambda: [installs.FLINK_PYTHON, HERE / "flink_python/test.py"],
           installs.flink_python),
    Client("spark", "Spark Structured Streaming", lambda: [installs.SPARK_PYTHON, HERE / "spark/test.py"], installs.spark),
    Client("sarama", "Sarama for Go: producers, groups, transactions", lambda: [installs.SARAMA], installs.sarama),
    # Built without OpenSSL, its librdkafka knows no SCRAM.
    Client("rdkafka", "the rdkafka crate for Rust", lambda: [installs.RDKAFKA], installs.rdkafka, mechanism="PLAIN"),
    Client("kafkajs", "kafkajs for Node.js", lambda: ["node", HERE / "kafkajs/test.js"], installs.kafkajs, installs.kcat),
    Client("rights", "users and rules as Java, librdkafka, franz-go and the command line tools manage them", venv_script("rights"),
           installs.python_clients, installs.java_classes, installs.franz, logs_in=True, is_raw=True),
    Client("relogin", "clients under load whose logins end every ten seconds", venv_script("relogin"), installs.python_clients,
           installs.java_classes, installs.franz, installs.sarama, installs.kafkajs, logs_in=True, is_raw=True,
           settings={"listener.name.clients.connections.max.reauth.ms": 10_000}),
    Client("aiokafka", "aiokafka for Python", venv_script("python", "aiokafka_test.py"), installs.python_clients),
    Client("kafka-python", "kafka-python", venv_script("python", "kafka_python_test.py"), installs.python_clients),
]
