"""The tools that ask coordinators: groups, their offsets, transactions; and the logs that the coordinators leave."""

import contextlib
import json
import pathlib
import re
import subprocess
import time

from command import command, run, tool, wait_for
from harness import coordinated as co
from harness import installs, raw
from harness.check import BOOTSTRAP, BROKER_KIND, DATA_DIR, NODES, TMP, Skip, equal, fact, new_name, that, topic, topic_here

LEFT = TMP / "coordinated.json"  # what the coordinators' logs must hold afterwards
HOUR = 3_600_000


def groups(*args, **options):
    return tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *args, **options)


def transactions(*args, **options):
    return tool("org.apache.kafka.tools.TransactionsCommand", *args, **options)


def rows(out, first):
    """The lines of a table whose first column is this."""
    return [line.split() for line in out.splitlines() if line.split()[:1] == [first]]


@contextlib.contextmanager
def member(group, name, protocol):
    """A verifiable consumer that has its partitions."""
    args = ("--bootstrap-server", BOOTSTRAP, "--topic", name, "--group-id", group, "--group-protocol", protocol)
    log = TMP / f"{group}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command("org.apache.kafka.tools.VerifiableConsumer", *args), stdout=out, stderr=out,
                                   stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: b'"partitions_assigned"' in log.read_bytes() or process.poll() is not None, "the assignment")
        that(process.poll() is None, log.read_text()[-300:])
        yield
    finally:
        process.terminate()
        process.wait(30)


def committed_group(name, offset):
    with raw.Connection(BOOTSTRAP) as c:
        group = co.here(c, "group")
        equal(co.commit(c, group, name, offset), 0, "commit")
    return group


@fact
def consumer_groups_shows_members_states_and_assignments():
    for protocol in ("classic", "consumer"):
        name, group = topic("members", 2), new_name("group")
        with member(group, name, protocol):
            found = rows(groups("--describe", "--group", group, "--members", "--verbose"), group)
            equal(len(found), 1, f"{protocol}: members")
            that(re.search(rf"{name}[:(]0,1", " ".join(found[0])), f"{protocol}: {found[0]}")
            equal(rows(groups("--describe", "--group", group, "--members"), group)[0][-1], "2", f"{protocol}: partitions")
            out = groups("--describe", "--group", group, "--state", "--verbose")
            that(re.search(rf"^{group}\s.*\sStable\s", out, re.M), f"{protocol}: {out}")
            for state, is_there in (("Stable", True), ("Empty", False)):
                equal(bool(rows(groups("--list", "--state", state), group)), is_there, f"{protocol}: listed as {state}")
            done = run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", BOOTSTRAP, "--delete",
                       "--group", group, code=None)
            that(b"not empty" in (done.stdout + done.stderr).lower(), (done.stdout + done.stderr).decode()[:300])


@fact
def consumer_groups_resets_to_times_durations_and_shifts():
    name, now = topic_here("resets"), int(time.time() * 1_000)
    with raw.Connection(BOOTSTRAP) as c:
        for stamp in (1_000, 2_000, 3_000, now - HOUR // 2):
            equal(raw.produce(c, name, raw.batch([b"x", b"y"], timestamp=stamp))[0], 0)
    group = committed_group(name, 5)

    def where_it_is():
        with raw.Connection(BOOTSTRAP) as c:
            return co.committed(c, group, name)[1]

    for where, offset in ((("--to-datetime", "1970-01-01T00:00:02.000Z"), 2), (("--to-datetime", "1970-01-01T00:00:02.500Z"), 4),
                          (("--by-duration", "PT1H"), 6), (("--by-duration", "PT1M"), 8), (("--shift-by", -3), 5),
                          (("--shift-by", 99), 8), (("--shift-by", -99), 0), (("--to-offset", 7), 7), (("--to-latest",), 8),
                          (("--to-current",), 8)):
        out = groups("--reset-offsets", "--group", group, "--topic", name, *where, "--execute")
        equal([row[-1] for row in rows(out, group)], [str(offset)], f"told after {where}")
        equal(where_it_is(), offset, f"committed after {where}")
    out = groups("--reset-offsets", "--group", group, "--topic", name, "--to-earliest", "--dry-run")
    equal([row[-1] for row in rows(out, group)], ["0"], "a dry run")
    equal(where_it_is(), 8, "after a dry run")


@fact
def consumer_groups_deletes_the_offsets_of_a_topic():
    kept, gone = topic("kept"), topic("gone")
    group = committed_group(kept, 1)
    with raw.Connection(BOOTSTRAP) as c:
        equal(co.commit(c, group, gone, 2), 0)
    out = groups("--delete-offsets", "--group", group, "--topic", gone)
    that(re.search(rf"{gone}\s+0\s+Successful", out), out)
    equal([row[1] for row in rows(groups("--describe", "--group", group), group)], [kept], "what is left")


@fact
def kafka_groups_lists_every_type():
    name, new = topic("types"), new_name("group")
    old = committed_group(name, 1)
    with member(new, name, "consumer"):
        listed = lambda *more: tool("org.apache.kafka.tools.GroupsCommand", "--list", *more)
        out = listed()
        equal((rows(out, old)[0][1], rows(out, new)[0][1:]), ("Classic", ["Consumer", "consumer"]), "types")
        out = listed("--group-type", "consumer")
        equal((rows(out, old), len(rows(out, new))), ([], 1), "of one type")
        equal(len(rows(listed("--consumer"), new)), 1, "of consumers")


@fact
def verifiable_producer_and_consumer_agree():
    name, count = topic("verifiable", 2), 500
    out = tool("org.apache.kafka.tools.VerifiableProducer", "--topic", name, "--max-messages", count, "--acks", -1)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    sent = [line["value"] for line in lines if line["name"] == "producer_send_success"]
    equal(sorted(sent, key=int), [str(i) for i in range(count)], "what was sent")
    for protocol in ("classic", "consumer"):
        out = tool("org.apache.kafka.tools.VerifiableConsumer", "--topic", name, "--group-id", new_name("group"), "--max-messages", count,
                   "--reset-policy", "earliest", "--group-protocol", protocol, "--verbose")
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        read = [line["value"] for line in lines if line["name"] == "record_data"]
        equal(sorted(read, key=int), [str(i) for i in range(count)], f"what was read by the {protocol} protocol")
        commits = [line for line in lines if line["name"] == "offsets_committed"]
        that(commits and all(line["success"] for line in commits), "the commits")


@fact
def consumer_perf_test_reads_every_record():
    name = topic_here("perf", 2)
    with raw.Connection(BOOTSTRAP) as c:
        for partition in (0, 1):
            equal(raw.produce(c, name, raw.batch([bytes(100)] * 2_000), partition)[0], 0)
    out = tool("org.apache.kafka.tools.ConsumerPerformance", "--topic", name, "--num-records", 4_000)
    row = next(line.split(", ") for line in out.splitlines() if re.match(r"\d{4}-", line))
    equal(row[4], "4000", "records")


@fact
def end_to_end_latency_is_told():
    name = topic("latency")
    out = tool("org.apache.kafka.tools.EndToEndLatency", "--topic", name, "--num-records", 200, "--producer-acks", "all",
               "--record-size", 64)
    that(re.search(r"^Avg latency: [\d.]+ ms", out, re.M) and re.search(r"50th = \d+, 99th = \d+", out), out[-300:])


@fact
def streams_application_reset_moves_inputs_and_deletes_its_topics():
    name = topic_here("input")
    with raw.Connection(BOOTSTRAP) as c:
        equal(raw.produce(c, name, raw.batch([b"x"] * 5))[0], 0)
        application = co.here(c, "app")
        equal(co.commit(c, application, name, 4), 0)
    inner = f"{application}-store-changelog"
    equal(raw.create_topic(BOOTSTRAP, inner), 0)
    out = tool("org.apache.kafka.tools.StreamsResetter", "--application-id", application, "--input-topics", name, "--force")
    that(inner in out, out)
    with raw.Connection(BOOTSTRAP) as c:
        equal(co.committed(c, application, name)[:2], (0, 0), "where it starts again")
    listed = lambda: tool("org.apache.kafka.tools.TopicCommand", "--list").split()
    wait_for(lambda: inner not in listed(), "its topic to go")
    that(name in listed(), "the input is gone")


@fact
def kafka_cluster_tells_its_id_and_endpoints():
    cluster = lambda verb, *more: run("org.apache.kafka.tools.ClusterTool", verb, "--bootstrap-server", BOOTSTRAP, *more).stdout.decode()
    that(re.search(r"^Cluster ID: \S{22}$", cluster("cluster-id"), re.M), cluster("cluster-id"))
    host, port = BOOTSTRAP.split(":")
    that(re.search(rf"^\d+\s+{host}\s+{port}\s", cluster("list-endpoints"), re.M), cluster("list-endpoints"))


@fact
def kafka_cluster_unregisters_nobody_who_is_needed():
    def refusal(node):
        done = run("org.apache.kafka.tools.ClusterTool", "unregister", "--bootstrap-server", BOOTSTRAP, "--id", node, code=1)
        return (done.stdout + done.stderr).decode()
    that("Broker ID 4711 is not currently registered" in refusal(4711), refusal(4711))
    if BROKER_KIND == "kafka" or len(NODES) > 1:
        return  # it takes itself out of the cluster, and is of no use afterwards
    node = re.search(r"\(id: (\d+)", tool("org.apache.kafka.tools.BrokerApiVersionsCommand")).group(1)
    that(f"Broker ID {node} is the only one of this cluster" in refusal(node), refusal(node))
    topic("registered")


@fact
def kafka_transactions_lists_and_describes():
    name = topic_here("txn")
    with raw.Connection(BOOTSTRAP) as c:
        identity = co.here(c, "id", co.TRANSACTION)
        _, number, epoch = co.begin(c, identity)
        producer = (number, epoch)
        equal(co.add_partitions(c, identity, producer, [name]), {name: 0})
        equal(co.produce(c, identity, name, producer), (0, 0))
        row = rows(transactions("list"), identity)[0]
        equal((row[2], row[3]), (str(number), "Ongoing"), "listed")
        equal(rows(transactions("list", "--duration-filter", HOUR), identity), [], "of an hour ago")
        out = transactions("describe", "--transactional-id", identity)
        that(re.search(rf"\s{number}\s+{epoch}\s+Ongoing\s+60000\s.*{name}-0", out), out)
        out = transactions("describe-producers", "--topic", name, "--partition", 0)
        that(re.search(rf"^{number}\s+{epoch}\s+-1\s+0\s+\d+\s+0\s*$", out, re.M), out)
        equal(co.end(c, identity, producer, False), 0)


@fact
def kafka_transactions_finds_and_aborts_what_hangs():
    name, producer, age = topic_here("hanging"), (77_077, 3), 3 * HOUR
    with raw.Connection(BOOTSTRAP) as c:
        co.find(c, "any", co.TRANSACTION)
        equal(co.hang(c, name, producer, timestamp=int(time.time() * 1_000) - age), 0, "its first offset")
        equal(raw.produce(c, name, raw.batch([b"after"])), (0, 1))
        equal(co.stable_end(c, name), 0, "where readers of committed data stop")
        found = rows(transactions("find-hanging", "--topic", name), name)
        equal(len(found), 1, "found")
        equal(found[0][:5], [name, "0", "77077", "3", "-1"], "found")
        equal(found[0][5], "0", "its start")
        done = run("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", BOOTSTRAP, "abort", "--topic", name,
                   "--partition", 0, "--start-offset", 1, code=1)
        that(b"Could not find" in done.stdout + done.stderr, (done.stdout + done.stderr).decode()[:300])
        transactions("abort", "--topic", name, "--partition", 0, "--start-offset", 0)
        equal(co.stable_end(c, name), 3, "where they stop afterwards: the record, its neighbour, the marker")
        equal(rows(transactions("find-hanging", "--topic", name), name), [], "found afterwards")


@fact
def coordinators_leave_logs():
    """A group with a member, committed offsets, a transaction that was aborted: for the facts about the files."""
    name = topic_here("left")
    with raw.Connection(BOOTSTRAP) as c:
        group, identity = co.here(c, "group"), co.here(c, "id", co.TRANSACTION)
        equal(co.commit(c, group, name, 41, metadata="note"), 0)
        code, _, who, _, _ = co.join(c, group)
        code, generation, who, _, _ = co.join(c, group, who)
        equal(code, 0, "join")
        equal(co.sync(c, group, generation, who, [(who, b"")])[0], 0, "sync")
        _, number, epoch = co.begin(c, identity)
        equal(co.add_partitions(c, identity, (number, epoch), [name]), {name: 0})
        equal(co.produce(c, identity, name, (number, epoch), values=[b"x"] * 3), (0, 0))
        equal(co.end(c, identity, (number, epoch), False), 0)
        wait_for(lambda: co.stable_end(c, name) == 4, "the marker")
    LEFT.write_text(json.dumps({"topic": name, "group": group, "member": who, "id": identity, "producer": number}))


def logs(pattern):
    if not DATA_DIR:
        raise Skip("the broker's files are not ours to see")
    found = [path for path in sorted(pathlib.Path(DATA_DIR).rglob(pattern)) if path.stat().st_size > 0]
    that(found, f"no {pattern} below {DATA_DIR}")
    return ",".join(map(str, found))


def dump(pattern, *more):
    return run("org.apache.kafka.tools.DumpLogSegments", "--files", logs(pattern), *more).stdout.decode()


@fact(phase="stopped")
def dump_log_decodes_the_offsets_log():
    left = json.loads(LEFT.read_text())
    out = dump("__consumer_offsets-*/*.log", "--offsets-decoder")
    name, group = left["topic"], left["group"]
    key = f'"data":{{"group":"{group}","topic":"{name}","partition":0}}'
    lines = [line for line in out.splitlines() if key in line]
    that(any('"offset":41' in line and '"metadata":"note"' in line for line in lines), f"no commit: {lines[:2]}")
    lines = [line for line in out.splitlines() if f'"data":{{"group":"{group}"}}' in line]
    that(any(left["member"] in line and '"protocolType":"consumer"' in line for line in lines), f"no group: {lines[:2]}")


@fact(phase="stopped")
def dump_log_decodes_the_transaction_log():
    left = json.loads(LEFT.read_text())
    out = dump("__transaction_state-*/*.log", "--transaction-log-decoder")
    lines = [line for line in out.splitlines() if f'"transactionalId":"{left["id"]}"' in line]
    states = [re.search(r'"transactionStatus":"?(\w+)', line).group(1) for line in lines]
    # The tool of before 4.4 prints their numbers.
    names = ["0", "1", "3", "5"] if installs.KAFKA < "4.4" else ["Empty", "Ongoing", "PrepareAbort", "CompleteAbort"]
    equal(states, names, "states")
    that(all(f'"producerId":{left["producer"]}' in line for line in lines), lines[0])


@fact(phase="stopped")
def dump_log_reads_the_index_of_aborted_transactions():
    left = json.loads(LEFT.read_text())
    out = dump(f"{left['topic']}-0/*.txnindex")
    that(f"producerId: {left['producer']} firstOffset: 0 lastOffset: 3 lastStableOffset: 4" in re.sub(r"[,=]", lambda m: "" if m[0] == "," else ": ", out), out)
