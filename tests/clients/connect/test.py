"""Kafka Connect, distributed: workers in a group, file to topic to file, offsets in topics, exactly-once sources."""

import json
import urllib.error
import urllib.request

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from harness import brokers, installs
from harness.check import BOOTSTRAP, TMP, equal, fact, main, new_name, that
from harness.check import topic as make
from harness.jvm import Program
from harness.logins import java, librdkafka
from harness.records import read, until, values

GROUP = new_name("connect")
LINES = [f"line {n} of the first file" for n in range(2_000)]


class Worker:
    """One worker of the Connect cluster; all share the group and the three topics in which Connect keeps its state."""

    def __init__(self):
        port, = brokers.free_ports(1)
        self.url, name = f"http://127.0.0.1:{port}", new_name("worker")
        properties = TMP / f"{name}.properties"
        converter = "org.apache.kafka.connect.storage.StringConverter"
        properties.write_text("\n".join([
            f"bootstrap.servers={BOOTSTRAP}", f"group.id={GROUP}", f"listeners={self.url}", f"key.converter={converter}",
            f"value.converter={converter}", "exactly.once.source.support=enabled", "offset.flush.interval.ms=200",
            "scheduled.rebalance.max.delay.ms=0", "heartbeat.interval.ms=500", "session.timeout.ms=10000",
            "connector.client.config.override.policy=All",
            *[f"{role}{k}={v}" for k, v in java(BOOTSTRAP).items() for role in ("", "producer.", "consumer.", "admin.")],
            *[f"{kind}.storage.topic={GROUP}-{kind}\n{kind}.storage.replication.factor=1" for kind in ("offset", "config", "status")], ""]))
        self.program = Program(name, TMP, "org.apache.kafka.connect.cli.ConnectDistributed", properties, heap="384m")

    def ask(self, method, path, body=None):
        """The answer as (status, content); (0, reason) while there is none."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")[:300]
        except OSError as error:
            that(self.program.is_alive(), f"the worker ended: {self.program.last_words()}")
            return 0, str(error)

    def want(self, method, path, body=None, good=(200, 201, 202, 204)):
        """Asks until it is done: while a group rebalances, Connect answers with 409."""
        last = [None]

        def done():
            last[0] = self.ask(method, path, body)
            that(last[0][0] in (0, 400, 404, 409, 500, 503, *good), f"{method} {path}: {last[0]}")
            return last[0][0] in good
        try:
            until(done, f"{method} {path}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {last[0]}") from None
        return last[0][1]

    def is_running(self, connector):
        status, found = self.ask("GET", f"/connectors/{connector}/status")
        return status == 200 and found["connector"]["state"] == "RUNNING" and [t["state"] for t in found["tasks"]] == ["RUNNING"]

    def source(self, topic, file):
        name = f"source-{topic}"
        self.want("PUT", f"/connectors/{name}/config", {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1", "file": str(file),
            "topic": topic, "exactly.once.support": "required", "batch.size": "100"})
        return name

    def sink(self, topic, file):
        name = f"sink-{topic}"
        self.want("PUT", f"/connectors/{name}/config", {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "1", "file": str(file),
            "topics": topic, "consumer.override.isolation.level": "read_committed"})
        return name


workers = []


def worker():
    """The first worker that lives; one is started when there is none."""
    alive = [w for w in workers if w.program.is_alive()]
    if not alive:
        workers.append(Worker())
        alive = workers[-1:]
    return alive[0]


def append(file, lines):
    with file.open("a") as out:
        out.writelines(f"{line}\n" for line in lines)


def lines(file):
    return file.read_text().splitlines() if file.exists() else []


@fact
def a_file_flows_through_a_topic_into_a_file():
    topic = make("file")
    source, sink = TMP / f"{topic}.in", TMP / f"{topic}.out"
    append(source, LINES)
    w = worker()
    names = [w.source(topic, source), w.sink(topic, sink)]
    until(lambda: lines(sink) == LINES, "every line in the second file")
    until(lambda: all(map(w.is_running, names)), "connectors and tasks run")
    equal(values(BOOTSTRAP, topic), LINES, "what the topic holds")
    append(source, ["one more"])
    until(lambda: lines(sink) == [*LINES, "one more"], "a line that was appended")


@fact
def a_restarted_worker_goes_on_where_the_last_one_was():
    topic = make("restart")
    source, sink = TMP / f"{topic}.in", TMP / f"{topic}.out"
    append(source, LINES)
    w = worker()
    w.source(topic, source), w.sink(topic, sink)
    until(lambda: lines(sink) == LINES, "every line in the second file")
    for one in workers:
        one.program.stop()
    more = [f"while nobody ran {n}" for n in range(100)]
    append(source, more)
    worker()
    until(lambda: len(lines(sink)) >= len(LINES + more), "the lines that came meanwhile")
    equal(lines(sink), LINES + more, "the second file")
    equal(values(BOOTSTRAP, topic), LINES + more, "what the topic holds")


@fact
def a_killed_worker_leaves_no_line_twice_and_none_out():
    topic = make("killed")
    source = TMP / f"{topic}.in"
    many = [f"{n:06} of many" for n in range(60_000)]
    append(source, many)
    w = worker()
    w.source(topic, source)
    until(lambda: len(values(BOOTSTRAP, topic)) > 0, "the first lines")
    for one in workers:
        one.program.kill()
    worker()
    until(lambda: len(values(BOOTSTRAP, topic)) >= len(many), "every line", 180)  # its transaction may have to time out first
    equal(values(BOOTSTRAP, topic), many, "what a reader of committed data finds")


@fact
def two_workers_share_the_connectors_and_one_takes_over_from_the_other():
    topics = [make("share") for _ in range(4)]
    first = worker()
    sources = {t: TMP / f"{t}.in" for t in topics}
    for topic, file in sources.items():
        append(file, LINES[:200])
        first.source(topic, file)
    second = Worker()
    workers.append(second)

    def places():
        """The workers on which tasks run; nobody while one of them does not."""
        status, found = first.ask("GET", "/connectors?expand=status")
        tasks = [t for c in found.values() for t in c["status"]["tasks"]] if status == 200 else []
        return {t["worker_id"] for t in tasks} if tasks and all(t["state"] == "RUNNING" for t in tasks) else set()
    until(lambda: len(places()) == 2, "tasks on both workers")
    first.program.kill()
    for topic, file in sources.items():
        append(file, LINES[200:300])
        until(lambda: len(values(BOOTSTRAP, topic)) >= 300, f"the lines of {topic}")
        equal(values(BOOTSTRAP, topic), LINES[:300], "what the topic holds")
    until(lambda: all(second.is_running(f"source-{t}") for t in topics), "every connector runs on the second worker")


@fact
def offsets_are_told_and_reset_through_the_rest_interface():
    topic = make("reset")
    source, sink = TMP / f"{topic}.in", TMP / f"{topic}.out"
    append(source, LINES[:100])
    w = worker()
    names = [w.source(topic, source), w.sink(topic, sink)]
    until(lambda: len(lines(sink)) == 100, "every line in the second file")

    end = read(BOOTSTRAP, topic)[-1].offset() + 1

    def committed():
        _, found = w.ask("GET", f"/connectors/{names[1]}/offsets")
        return isinstance(found, dict) and [o["offset"] for o in found["offsets"]] == [{"kafka_offset": end}]
    until(committed, "the sink's offset is behind the last record")
    for name in names:
        w.want("PUT", f"/connectors/{name}/stop")
        until(lambda: w.ask("GET", f"/connectors/{name}/status")[1]["connector"]["state"] == "STOPPED", f"{name} stops")
        w.want("DELETE", f"/connectors/{name}/offsets")
    for name in names:
        w.want("PUT", f"/connectors/{name}/resume")
    until(lambda: len(values(BOOTSTRAP, topic)) == 200, "the file is read again")
    until(lambda: len(lines(sink)) == 300, "the sink reads all of it")
    equal(lines(sink), LINES[:100] * 3, "the second file")


@fact
def what_connect_keeps_is_compacted():
    worker().want("GET", "/connectors")
    admin = AdminClient(librdkafka(BOOTSTRAP))
    for kind, partitions in (("config", 1), ("offset", 25), ("status", 5)):
        name = f"{GROUP}-{kind}"
        equal(len(admin.list_topics(timeout=30).topics[name].partitions), partitions, f"partitions of {kind}")
        found, = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
        equal(found.result(30)["cleanup.policy"].value, "compact", f"policy of {kind}")


if __name__ == "__main__":
    jar = next(installs.FRAMEWORK_JARS.glob("connect-runtime-*.jar"))
    main(jar.stem.removeprefix("connect-runtime-"))
