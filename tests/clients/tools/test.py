"""Kafka's own command line tools, run from its jars: what an operator types against a broker, and on its files."""

import gzip
import json
import pathlib
import random
import re
import time

import coordinated  # noqa: F401  registers its facts
from command import run, tool, wait_for
from harness import installs, logins, raw
from harness.check import BOOTSTRAP, DATA_DIR, FACTOR, TMP, Skip, equal, fact, main, new_name, that, topic, topic_here

STATE = TMP / "tools.json"  # what the running broker was given, for the facts about its files afterwards
KEPT_GROUP = "kept-group"  # has settings that must be there after a restart


def topics(*args, **options):
    return tool("org.apache.kafka.tools.TopicCommand", *args, **options)


def configs(*args, **options):
    return tool(installs.CONFIG_COMMAND, *args, **options)


def consume(name, *args):
    return run("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", BOOTSTRAP, "--topic", name,
               "--timeout-ms", 10_000, *args).stdout


@fact
def kafka_topics_creates_lists_describes_alters_deletes():
    name = new_name("topics")
    out = topics("--create", "--topic", name, "--partitions", 2, "--config", "retention.ms=3600000")
    that(f"Created topic {name}." in out, out)
    that(name in topics("--list").split(), "not listed")
    out = topics("--describe", "--topic", name)
    that(re.search(rf"Topic: {name}\s+TopicId: \S{{22}}\s+PartitionCount: 2\s+ReplicationFactor: {FACTOR}\s+Configs: \S*retention.ms=3600000", out), out)
    equal(len(re.findall(r"Leader: (\d+)\s+Replicas: \1\S*\s+Isr: \1", out)), 2, "partition lines")
    topics("--alter", "--topic", name, "--partitions", 5)
    wait_for(lambda: "PartitionCount: 5" in topics("--describe", "--topic", name), "five partitions")
    topics("--delete", "--topic", name)
    wait_for(lambda: name not in topics("--list").split(), "the topic to go")


@fact
def kafka_topics_reports_errors():
    name = topic("twin")
    for args, text in ((("--create", "--topic", name), "already exists"),
                       (("--create", "--topic", "bad/name"), "invalid"),
                       (("--create", "--topic", new_name("wide"), "--replication-factor", 9), "replication factor"),
                       (("--create", "--topic", new_name("odd"), "--config", "retention.ms=soon"), "retention.ms"),
                       (("--describe", "--topic", new_name("nosuch")), "does not exist")):
        done = run("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", BOOTSTRAP, *args, code=1)
        said = (done.stdout + done.stderr).decode().lower()
        that(text in said, f"{args}: {said[:300]}")
    out = topics("--create", "--if-not-exists", "--topic", name)
    equal("Created" in out, False, "with --if-not-exists")


@fact
def kafka_configs_alters_a_topic():
    name = topic("configs")
    configs("--alter", "--entity-type", "topics", "--entity-name", name, "--add-config", "segment.bytes=2097152,retention.ms=7200000")
    out = configs("--describe", "--entity-type", "topics", "--entity-name", name)
    that("segment.bytes=2097152" in out and "retention.ms=7200000" in out, out)
    that("synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=2097152, DEFAULT_CONFIG:log.segment.bytes=1073741824}" in out, out)
    configs("--alter", "--entity-type", "topics", "--entity-name", name, "--delete-config", "segment.bytes")
    out = configs("--describe", "--all", "--entity-type", "topics", "--entity-name", name)
    that("segment.bytes=1073741824" in out and "retention.ms=7200000" in out and "max.message.bytes=1048588" in out, out)


@fact
def kafka_configs_alters_a_broker():
    node = re.search(r"\(id: (\d+)", tool("org.apache.kafka.tools.BrokerApiVersionsCommand")).group(1)
    entity = ("--entity-type", "brokers", "--entity-name", node)
    configs("--alter", *entity, "--add-config", "log.cleaner.threads=2")
    out = configs("--describe", *entity)
    that("log.cleaner.threads=2" in out and "DYNAMIC_BROKER_CONFIG" in out, out)
    configs("--alter", *entity, "--delete-config", "log.cleaner.threads")
    that("log.cleaner.threads=2" not in configs("--describe", *entity), "not deleted")


@fact
def kafka_configs_sets_the_level_of_a_logger():
    node = re.search(r"\(id: (\d+)", tool("org.apache.kafka.tools.BrokerApiVersionsCommand")).group(1)
    entity = ("--entity-type", "broker-loggers", "--entity-name", node)
    logger = re.search(r"^\s+(\S+)=INFO", configs("--describe", *entity).replace("root=", ""), re.M).group(1)
    configs("--alter", *entity, "--add-config", f"{logger}=DEBUG")
    that(f"{logger}=DEBUG" in configs("--describe", *entity), "not set")
    configs("--alter", *entity, "--delete-config", logger)
    that(f"{logger}=DEBUG" not in configs("--describe", *entity), "not deleted")
    done = run(installs.CONFIG_COMMAND, "--bootstrap-server", BOOTSTRAP, "--alter", *entity, "--add-config", f"{logger}=LOUD", code=1)
    that("not a supported log level" in (done.stdout + done.stderr).decode(), (done.stdout + done.stderr).decode()[:300])


@fact
def kafka_configs_alters_a_group():
    group = ("--entity-type", "groups", "--entity-name", new_name("group"))
    configs("--alter", *group, "--add-config", "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000")
    out = configs("--describe", *group)
    that("consumer.session.timeout.ms=50000" in out and "consumer.heartbeat.interval.ms=6000" in out, out)
    that("synonyms={DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000, DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}" in out, out)
    configs("--alter", *group, "--delete-config", "consumer.session.timeout.ms")
    out = configs("--describe", "--all", *group)
    that("consumer.session.timeout.ms=45000" in out and "consumer.heartbeat.interval.ms=6000" in out, out)
    for setting, text in (("consumer.session.timeout.ms=1000", "greater than or equal to group.consumer.min.session.timeout.ms"),
                          ("consumer.heartbeat.interval.ms=60000", "less than or equal to group.consumer.max.heartbeat.interval.ms"),
                          ("consumer.heartbeat.interval.ms=soon", "Not a number of type INT"), ("retention.ms=1", "Unknown group config name")):
        done = run(installs.CONFIG_COMMAND, "--bootstrap-server", BOOTSTRAP, "--alter", *group, "--add-config", setting, code=1)
        that(text in (done.stdout + done.stderr).decode(), f"{setting}: {(done.stdout + done.stderr).decode()[:300]}")


@fact
def kafka_configs_alters_a_subscription_to_client_metrics():
    name = new_name("metrics")
    entity = ("--entity-type", "client-metrics", "--entity-name", name)
    configs("--alter", *entity, "--add-config", "interval.ms=60000,metrics=[org.apache.kafka.producer.],match=[client_id=a.*]")
    out = configs("--describe", *entity)
    that("interval.ms=60000" in out and "metrics=org.apache.kafka.producer." in out and "match=client_id=a.*" in out, out)
    that(name in tool("org.apache.kafka.tools.ClientMetricsCommand", "--list").split(), "not listed")
    done = run(installs.CONFIG_COMMAND, "--bootstrap-server", BOOTSTRAP, "--alter", *entity, "--add-config", "interval.ms=5", code=1)
    that("interval must be between 100 and 3600000" in (done.stdout + done.stderr).decode(), (done.stdout + done.stderr).decode()[:300])
    tool("org.apache.kafka.tools.ClientMetricsCommand", "--delete", "--name", name)
    wait_for(lambda: name not in tool("org.apache.kafka.tools.ClientMetricsCommand", "--list").split(), "the subscription to go")


@fact
def kafka_configs_finds_no_quotas_and_no_users():
    for kind in ("users", "clients", "ips"):
        for entity in ((), ("--entity-default",), ("--entity-name", "127.0.0.1" if kind == "ips" else "nobody")):
            found = configs("--describe", "--entity-type", kind, *entity).strip().splitlines()
            # A run with logins has one.
            others = [line for line in found if not (logins.is_asked(BOOTSTRAP) and f"'{logins.USER}'" in line)]
            equal(others, [], f"{kind} {entity}")


@fact
def kafka_broker_api_versions_shows_what_is_supported():
    out = tool("org.apache.kafka.tools.BrokerApiVersionsCommand")
    that(re.search(rf"^{BOOTSTRAP} \(id: ", out, re.M), out[:200])
    for name, usable in (("Produce(0)", 13), ("Fetch(1)", 18), ("ListOffsets(2)", 11), ("Metadata(3)", 13), ("CreateTopics(19)", 7),
                         ("IncrementalAlterConfigs(44)", 1), ("DescribeTopicPartitions(75)", 0)):
        that(re.search(rf"{re.escape(name)}: \d+(?: to \d+)? \[usable: {usable}\]", out), f"{name}: {out}")


@fact
def console_producer_and_consumer_return_the_same_lines():
    name = topic("console")
    lines = b"".join(b"%d\tvalue %d \xc3\xbc\n" % (i, i) for i in range(5_000))
    tool("org.apache.kafka.tools.ConsoleProducer", "--topic", name, "--reader-property", "parse.key=true", stdin=lines)
    out = consume(name, "--partition", 0, "--offset", "earliest", "--max-messages", 5_000,
                  "--formatter-property", "print.key=true")
    that(out == lines, "the lines differ")
    tail = consume(name, "--partition", 0, "--offset", 4_990, "--max-messages", 10)
    equal(tail, b"".join(b"value %d \xc3\xbc\n" % i for i in range(4_990, 5_000)))


@fact
def producer_perf_test_reports_every_record():
    name = topic("perf", 3)
    out = run("org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", BOOTSTRAP, "--topic", name, "--num-records",
              50_000, "--record-size", 100, "--throughput", -1, "--command-property", "compression.type=lz4").stdout.decode()
    that(re.search(r"^50000 records sent", out, re.M), out[-300:])
    found = tool("org.apache.kafka.tools.GetOffsetShell", "--topic", name).split()
    equal(sum(int(line.rsplit(":", 1)[1]) for line in found), 50_000, "ends of the three partitions")


@fact
def get_offsets_answers_every_time():
    name = topic_here("get-offsets")
    with raw.Connection(BOOTSTRAP) as c:
        for stamp in (1_000, 3_000, 2_000):
            equal(raw.produce(c, name, raw.batch([b"x", b"y"], timestamp=stamp))[0], 0)
    for asked, offset in (("-1", 6), ("-2", 0), ("-3", 2), ("latest", 6), ("earliest", 0), ("1500", 2), ("-4", 0), ("max-timestamp", 2)):
        out = tool("org.apache.kafka.tools.GetOffsetShell", "--topic", name, "--time", asked).strip()
        equal(out, f"{name}:0:{offset}", f"--time {asked}")


@fact
def delete_records_moves_the_start():
    name = topic_here("delete-records")
    with raw.Connection(BOOTSTRAP) as c:
        equal(raw.produce(c, name, raw.batch([b"%d" % i for i in range(20)]))[0], 0)
    path = TMP / "delete.json"
    path.write_text(json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "offset": 7}]}))
    out = tool("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", path)
    that(re.search(rf"partition: {name}-0\s+low_watermark: 7", out), out)
    equal(tool("org.apache.kafka.tools.GetOffsetShell", "--topic", name, "--time", "-2").strip(), f"{name}:0:7")


@fact
def consumer_groups_lists_describes_resets_and_deletes():
    name, group = topic("grouped", 2), new_name("group")
    groups = lambda *args, **options: tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *args, **options)
    run("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", BOOTSTRAP, "--topic", name, stdin=b"a\nb\nc\n")
    out = consume(name, "--group", group, "--from-beginning", "--max-messages", 3)
    equal(sorted(out.split()), [b"a", b"b", b"c"], "lines of the group's consumer")
    that(group in groups("--list").split(), "not listed")
    out = groups("--describe", "--group", group)
    rows = [line.split() for line in out.splitlines() if line.startswith(group)]
    equal(sorted((r[1], sum(int(x[5]) for x in rows)) for r in rows), [(name, 0)] * len(rows), "topics and lag")
    that(re.search(r"Empty\s+0", groups("--describe", "--group", group, "--state")), "state")
    groups("--reset-offsets", "--group", group, "--topic", name, "--to-earliest", "--execute")
    out = consume(name, "--group", group, "--max-messages", 3)
    equal(sorted(out.split()), [b"a", b"b", b"c"], "lines after the reset")
    groups("--delete", "--group", group)
    that(group not in groups("--list").split(), "still listed")


@fact
def log_dirs_names_sizes():
    name = topic_here("log-dirs", 2)
    with raw.Connection(BOOTSTRAP) as c:
        equal(raw.produce(c, name, raw.batch([bytes(5_000)]))[0], 0)
    out = tool("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", name)
    found = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    equal(len(found["brokers"]), len(raw.nodes(BOOTSTRAP)), "brokers")
    for broker in found["brokers"]:
        sizes = {p["partition"]: p["size"] for d in broker["logDirs"] for p in d["partitions"]}
        if broker["broker"] in list(raw.nodes(BOOTSTRAP))[:FACTOR]:
            equal(set(sizes), {f"{name}-0", f"{name}-1"})
            that(5_000 < sizes[f"{name}-0"] < 6_000 and sizes[f"{name}-1"] == 0, str(sizes))


@fact
def kafka_leader_election_finds_nothing_to_elect():
    name = topic("election", 2)
    for kind in ("preferred", "unclean"):
        out = tool("org.apache.kafka.tools.LeaderElectionCommand", "--election-type", kind, "--topic", name, "--partition", 1)
        that(f"Valid replica already elected for partitions {name}-1" in out, out)
    tool("org.apache.kafka.tools.LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    done = run("org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", BOOTSTRAP, "--election-type", "preferred",
               "--topic", name, "--partition", 9, code=1)
    that(b"UnknownTopicOrPartition" in done.stdout + done.stderr, (done.stdout + done.stderr).decode()[:300])


@fact
def kafka_reassign_partitions_generates_executes_verifies_and_cancels():
    name = topic_here("reassign", 2)
    everywhere = list(raw.nodes(BOOTSTRAP))
    there = everywhere[:FACTOR]
    reassign = lambda *args, **options: tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *args, **options)

    def plan(replicas):
        path = TMP / "reassign.json"
        partitions = [{"topic": name, "partition": p, "replicas": replicas, "log_dirs": ["any"] * len(replicas)} for p in range(2)]
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return ("--reassignment-json-file", path)

    wanted = TMP / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": name}]}))
    out = reassign("--generate", "--topics-to-move-json-file", wanted, "--broker-list", ",".join(map(str, everywhere)))
    proposed = re.search(rf'Proposed partition reassignment configuration\s.*"topic":"{name}","partition":1,"replicas":\[([\d,]+)\]', out)
    that(proposed and len(proposed[1].split(",")) == FACTOR, out)
    out = reassign("--execute", *plan(there))
    that(f"Successfully started partition reassignments for {name}-0,{name}-1" in out, out)
    out = reassign("--verify", *plan(there))
    that(f"Reassignment of partition {name}-1 is completed." in out, out)
    that("No partition reassignments found." in reassign("--list"), "something is on its way")
    that("None of the specified partition reassignments are active." in reassign("--cancel", *plan(there)), "a cancellation")
    done = run("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--bootstrap-server", BOOTSTRAP, "--execute", *plan([99]), code=1)
    that(b"Unknown broker id 99" in done.stdout + done.stderr, (done.stdout + done.stderr).decode()[:300])


@fact
def kafka_reassign_partitions_throttles_and_takes_the_throttle_away():
    everywhere = list(raw.nodes(BOOTSTRAP))
    if len(everywhere) < 2:
        raise Skip("one broker has nowhere to move to")
    name = topic("throttled", replicas=everywhere[:1])
    value = random.Random(1).randbytes(900_000)
    with raw.Connection(BOOTSTRAP) as c:
        for _ in range(16):
            equal(raw.produce(c, name, raw.batch([value]))[0], 0)
    rate = 2_000_000
    path = TMP / "throttled.json"
    partitions = [{"topic": name, "partition": 0, "replicas": everywhere[:2], "log_dirs": ["any", "any"]}]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    plan = ("--reassignment-json-file", path)
    reassign = lambda *args: tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *args)
    begun = time.monotonic()
    out = reassign("--execute", *plan, "--throttle", rate)
    that(f"The inter-broker throttle limit was set to {rate} B/s" in out, out)
    entity = ("--entity-type", "brokers", "--entity-name", everywhere[0])
    that(f"leader.replication.throttled.rate={rate}" in configs("--describe", *entity), "no rate")
    in_sync = lambda: re.search(r"Isr: (\S+)", topics("--describe", "--topic", name)).group(1).count(",") == 1
    wait_for(in_sync, "the second replica")
    took = time.monotonic() - begun
    # A second of the rate goes at once, and one answer more.
    that(took > (16 * 900_000 - 2 * rate) / rate, f"it took {took:.1f} s")
    out = reassign("--verify", *plan)
    that(f"Reassignment of partition {name}-0 is completed." in out and "Clearing topic-level throttles" in out, out)
    that("throttled.rate" not in configs("--describe", *entity), "the rate stays")
    that("throttled.replicas" not in configs("--describe", "--entity-type", "topics", "--entity-name", name), "the replicas stay")


@fact
def kafka_reassign_partitions_moves_between_log_dirs():
    name = topic_here("moves", 1)
    values = [b"%03d" % n * 1_000 for n in range(40)]
    with raw.Connection(BOOTSTRAP) as c:
        equal(raw.produce(c, name, raw.batch(values))[0], 0)
    there = list(raw.nodes(BOOTSTRAP))[:FACTOR]
    node = there[0]
    reassign = lambda *args: tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *args)

    def places():
        out = tool("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", name)
        brokers = json.loads(next(line for line in out.splitlines() if line.startswith("{")))["brokers"]
        found = next(broker for broker in brokers if broker["broker"] == node)["logDirs"]
        return {d["logDir"]: [(p["isFuture"], p["size"]) for p in d["partitions"]] for d in found}

    before = places()
    if len(before) < 2:
        raise Skip("a broker with one log directory")
    (home, [(_, size)]), = [(d, ps) for d, ps in before.items() if ps]
    to = next(d for d in before if d != home)
    path = TMP / "moves.json"
    partitions = [{"topic": name, "partition": 0, "replicas": there, "log_dirs": [to, *["any"] * (len(there) - 1)]}]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    out = reassign("--execute", "--reassignment-json-file", path)
    that(f"Successfully started moving log directory to {to} for replica {name}-0" in out, out)
    done = f"{name}-0-{node} completed successfully"
    wait_for(lambda: done in reassign("--verify", "--reassignment-json-file", path), "the move")
    after = places()
    equal((after[home], after[to]), ([], [(False, size)]), "directories")
    out = consume(name, "--from-beginning", "--max-messages", len(values))
    equal(out, b"".join(v + b"\n" for v in values), "records after the move")


@fact
def kafka_features_describes_and_moves_levels():
    features = lambda *args, **options: tool("org.apache.kafka.tools.FeatureCommand", *args, **options)
    level = lambda: re.search(r"^Feature: transaction.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: (\d)",
                              features("describe"), re.M).group(1)
    equal(level(), "2", "at first")
    # The tool of before has no name for what came later.
    most = "UNKNOWN 33" if installs.KAFKA < "4.4" else "4.4-IV2"
    that(re.search(rf"^Feature: metadata.version\s+SupportedMinVersion: 3.3-IV3\s+SupportedMaxVersion: {most}\s", features("describe"), re.M), features("describe"))
    out = features("downgrade", "--feature", "transaction.version=1", "--dry-run")
    that("transaction.version can be downgraded to 1." in out and level() == "2", out)
    out = features("downgrade", "--feature", "transaction.version=1")
    that("transaction.version was downgraded to 1." in out, out)
    wait_for(lambda: level() == "1", "level 1")
    that("transaction.version was disabled." in features("disable", "--feature", "transaction.version"), "disabling")
    wait_for(lambda: level() == "0", "level 0")
    that("transaction.version was upgraded to 2." in features("upgrade", "--feature", "transaction.version=2"), "the way back")
    wait_for(lambda: level() == "2", "level 2")
    done = run("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", BOOTSTRAP, "downgrade", "--metadata", "3.7-IV2", code=1)
    said = (done.stdout + done.stderr).decode()
    that("might delete metadata information" in said or "metadata.version" in said, said[:400])


@fact
def kafka_metadata_quorum_describes_its_leader():
    quorum = lambda *args: tool("org.apache.kafka.tools.MetadataQuorumCommand", "describe", *args)
    out = quorum("--status")
    node = re.search(r"^LeaderId:\s+(\d+)", out, re.M).group(1)
    that(re.search(r"^HighWatermark:\s+[1-9]\d*$", out, re.M) and re.search(r"^MaxFollowerLag:\s+0$", out, re.M), out)
    that(re.search(rf'^CurrentVoters:\s+\[.*\{{"id": {node},', out, re.M), out)
    rows = [line.split() for line in quorum("--replication").splitlines()]
    equal(rows[0][:4], ["NodeId", "DirectoryId", "LogEndOffset", "Lag"], "header")
    equal([(row[0], row[3]) for row in rows if row[-1] == "Leader"], [(node, "0")], "row")


@fact
def verifiable_records_for_the_files_afterwards():
    """Fills topics whose files the stopped broker leaves: codecs, several segments, an idempotent producer."""
    state = {}
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        name = topic(f"dump-{codec}", segment_bytes="1048576")
        lines = b"".join(b"%s line %d\n" % (codec.encode(), i) for i in range(2_000))
        tool("org.apache.kafka.tools.ConsoleProducer", "--topic", name, f"--compression-codec={codec}", stdin=lines)
        state[name] = 2_000
    name = topic("dump-segments", segment_bytes="1048576", index_interval_bytes="4096")
    run("org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", BOOTSTRAP, "--topic", name, "--num-records", 4_000,
        "--record-size", 1_000, "--throughput", -1, "--command-property", "batch.size=8000")
    state[name] = 4_000
    STATE.write_text(json.dumps(state))


@fact
def settings_are_made_for_a_restart():
    configs("--alter", "--entity-type", "groups", "--entity-name", KEPT_GROUP, "--add-config", "consumer.session.timeout.ms=55000")
    configs("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.cleaner.threads=2")
    tool("org.apache.kafka.tools.FeatureCommand", "disable", "--feature", "group.version")


def files(name, ending):
    if not DATA_DIR:
        raise Skip("the broker's files are not ours to see")
    found = sorted(pathlib.Path(DATA_DIR).rglob(f"{name}-0/*{ending}"))
    that(found, f"no {ending} files of {name} below {DATA_DIR}")
    return found


def dump(paths, *args, gaps=False):
    out = run("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, paths)), *args).stdout.decode()
    complaints = ("Mismatches in", "isvalid: false", "Found timestamp mismatch", "Found out of order", "Non-consecutive offsets")
    for complaint in complaints[:4 if gaps else 5]:
        that(complaint not in out, f"kafka-dump-log: {complaint}: {out[out.find(complaint):][:300]}")
    return out


def keyed(*records, time, producer=(-1, -1, -1), zipped=False):
    """A batch of (key, value); no value deletes the key."""
    content = b""
    for delta, (key, value) in enumerate(records):
        body = b"\0" + raw.varint(0) + raw.varint(delta) + raw.varint(len(key)) + key
        body += (raw.varint(-1) if value is None else raw.varint(len(value)) + value) + raw.varint(0)
        content += raw.varint(len(body)) + body
    content = gzip.compress(content, mtime=0) if zipped else content
    return raw.batch([b""] * len(records), content=content, attributes=int(zipped), producer=producer, timestamp=time)


# What Apache Kafka 4.3 leaves of the log below: base offset, last offset and record count of each batch, then its records.
COMPACTED = [
    ((3, 4, 1), [(4, "d", "1")]),
    ((5, 5, 1), [(5, "e", None)]),
    ((6, 6, 1), [(6, "b", "2")]),
    ((7, 7, 0), []),  # the last of its producer: its sequence must not be forgotten
    ((8, 10, 2), [(9, "z", "2"), (10, "y", "1")]),
    ((11, 12, 2), [(11, "a", "3"), (12, "c", None)]),
    ((13, 15, 1), [(15, "f", "3")]),
    ((16, 16, 1), [(16, "x", "2")]),
]


@fact
def compaction_leaves_what_kafka_leaves():
    """The same batches, compacted by either broker, are the same batches afterwards."""
    if not DATA_DIR:
        raise Skip("the broker's files are not ours to see")
    configs("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.cleaner.backoff.ms=200")
    name = topic("compacted", cleanup_policy="compact", segment_ms="60000", min_cleanable_dirty_ratio="0.01")
    hour, now = 3_600_000, 1_700_000_000_000
    a, b, c, d, e, f, g, x, y, z = (bytes([letter]) for letter in b"abcdefgxyz")
    batches = [
        keyed((a, b"1"), (b, b"1"), (c, b"1"), time=now),
        keyed((a, b"2"), (d, b"1"), time=now),
        keyed((e, None), time=now),
        keyed((b, b"2"), time=now),
        keyed((x, b"1"), time=now, producer=(4711, 0, 0)),
        keyed((z, b"1"), (z, b"2"), (y, b"1"), time=now, zipped=True),
        keyed((a, b"3"), (c, None), time=now + hour),
        keyed((f, b"1"), (f, b"2"), (f, b"3"), time=now + hour),
        keyed((x, b"2"), time=now + hour),
        keyed((g, b"1"), (a, b"4"), time=now + 2 * hour),
    ]
    with raw.Connection(BOOTSTRAP) as connection:
        for records in batches:
            equal(raw.produce(connection, name, records)[0], 0, "error of an append")
    # Segments begin at 0, 11 and 17; the first two become one.
    bases = lambda: {int(path.stem) for path in pathlib.Path(DATA_DIR).rglob(f"{name}-0/*.log")}
    wait_for(lambda: bases() == {0, 17}, "compaction")
    out = dump([files(name, ".log")[0]], "--deep-iteration", "--print-data-log", gaps=True)
    found = []
    for line in out.splitlines():
        if head := re.match(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) ", line):
            found.append((tuple(map(int, head.groups())), []))
        elif record := re.match(r"\| offset: (\d+) .* key: (\w+)(?: payload: (\w+))?", line):
            found[-1][1].append((int(record[1]), record[2], record[3]))
    equal(found, COMPACTED, "batches")


@fact(phase="stopped")
def dump_log_reads_every_record_of_every_codec():
    for name, count in json.loads(STATE.read_text()).items():
        logs = files(name, ".log")
        out = dump(logs, "--deep-iteration", "--print-data-log")
        offsets = [int(o) for o in re.findall(r"^\| offset: (\d+)", out, re.M)]
        equal(offsets, list(range(count)), f"{name}: offsets")
        codec = name.split("-")[1]
        if codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            that(f"compresscodec: {codec}" in out, f"{name}: no {codec} batch")
            payloads = re.findall(r"payload: (.*)$", out, re.M)
            equal(payloads, [f"{codec} line {i}" for i in range(count)], f"{name}: values")


@fact(phase="stopped")
def dump_log_finds_the_indexes_sane():
    name = next(n for n in json.loads(STATE.read_text()) if n.startswith("dump-segments"))
    that(len(files(name, ".log")) >= 3, "several segments")
    for ending in (".index", ".timeindex"):
        indexes = files(name, ending)
        equal(len(indexes), len(files(name, ".log")), f"{ending} files")
        out = dump(indexes, "--index-sanity-check")
        for path in indexes:
            that(f"{path} passed sanity check" in out, f"{path} is not sane")
        dump(indexes)  # compares each entry with the segment
    with_entries = [p for p in files(name, ".index") if p.stat().st_size > 0]
    that(len(with_entries) >= 2, "the offset indexes are empty")


@fact(phase="stopped")
def dump_log_reads_the_producer_snapshots():
    name = next(n for n in json.loads(STATE.read_text()) if n.startswith("dump-segments"))
    out = dump(files(name, ".snapshot"))
    that(re.search(r"producerId: \d+ producerEpoch: 0 ", out), out[:300])


@fact(phase="stopped")
def dump_log_reads_the_metadata_log():
    if not DATA_DIR:
        raise Skip("the broker's files are not ours to see")
    logs = sorted(pathlib.Path(DATA_DIR).rglob("__cluster_metadata-0/*.log"))
    that(logs, f"no metadata log below {DATA_DIR}")
    out = run("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, logs)), "--cluster-metadata-decoder").stdout.decode()
    for name in json.loads(STATE.read_text()):
        that(f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{name}"' in out, f"no topic record of {name}: {out[-300:]}")
    that('"type":"PARTITION_RECORD"' in out and '"type":"CONFIG_RECORD"' in out, "no partition or config record")
    that("Error" not in out and "skipped" not in out, out[:300])


@fact(phase="restarted")
def dynamic_settings_and_features_survive_a_restart():
    out = configs("--describe", "--entity-type", "groups", "--entity-name", KEPT_GROUP)
    that("consumer.session.timeout.ms=55000" in out, out)
    out = configs("--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    that("log.cleaner.threads=2 " in out, "the broker goes by its static settings")
    out = tool("org.apache.kafka.tools.FeatureCommand", "describe")
    that(re.search(r"^Feature: group.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+FinalizedVersionLevel: 0\s", out, re.M), out)


if __name__ == "__main__":
    main(f"Kafka {installs.KAFKA}")
