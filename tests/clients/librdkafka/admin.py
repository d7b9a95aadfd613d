"""librdkafka's admin client: topics, settings, records, offsets, the cluster, and the errors of each."""

import time

from confluent_kafka import (Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicCollection,
                             TopicPartition)
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource,
                                   NewPartitions, NewTopic, OffsetSpec, ResourceType)
from harness.check import BOOTSTRAP, FACTOR, NODES, equal, fact, new_name, that
from harness.logins import librdkafka

WAIT = 15
ADMIN = AdminClient(librdkafka(BOOTSTRAP))


def admin():
    return ADMIN


def results(futures):
    """What each future gave: None or a value, or the error's code."""
    out = {}
    for key, future in futures.items():
        try:
            out[key] = future.result(WAIT)
        except KafkaException as error:
            out[key] = error.args[0].code()
    return out


def create(*topics):
    made = results(admin().create_topics(list(topics)))
    equal(set(made.values()), {None}, "create")
    return topics[0].topic


def topic_with(count, prefix, partitions=1):
    name = create(NewTopic(new_name(prefix), partitions, FACTOR, config={"retention.ms": "-1"}))
    p = Producer(librdkafka(BOOTSTRAP))
    for i in range(count):
        p.produce(name, b"%d" % i, partition=0, timestamp=1_000_000 + i)
    equal(p.flush(WAIT), 0)
    return name


def wait_for(question, what):
    deadline = time.monotonic() + WAIT
    while not question():
        that(time.monotonic() < deadline, f"{what}: not within {WAIT} s")
        time.sleep(0.05)


def settings(name):
    resource = ConfigResource(ResourceType.TOPIC, name)
    return admin().describe_configs([resource])[resource].result(WAIT)


@fact
def admin_creates_lists_and_deletes_topics():
    names = [new_name("made") for _ in range(3)]
    a = admin()
    equal(results(a.create_topics([NewTopic(n, 2, FACTOR) for n in names])), dict.fromkeys(names))
    listed = a.list_topics(timeout=WAIT).topics
    equal([len(listed[n].partitions) for n in names], [2, 2, 2])
    equal(results(a.delete_topics(names, operation_timeout=10)), dict.fromkeys(names))
    wait_for(lambda: not set(names) & set(a.list_topics(timeout=WAIT).topics), "deleted topics leave the list")


@fact
def admin_reports_each_topic_that_cannot_be_made():
    name, twin = new_name("good"), create(NewTopic(new_name("twin"), 1, FACTOR))
    wanted = {
        name: (NewTopic(name, 1, FACTOR), None),
        twin: (NewTopic(twin, 1, FACTOR), KafkaError.TOPIC_ALREADY_EXISTS),
        "bad/name": (NewTopic("bad/name", 1, FACTOR), KafkaError.TOPIC_EXCEPTION),
        "..": (NewTopic("..", 1, FACTOR), KafkaError.TOPIC_EXCEPTION),
        "x" * 250: (NewTopic("x" * 250, 1, FACTOR), KafkaError.TOPIC_EXCEPTION),
        "wide": (NewTopic("wide", 1, 9), KafkaError.INVALID_REPLICATION_FACTOR),
        "odd-setting": (NewTopic("odd-setting", 1, FACTOR, config={"no.such.setting": "1"}), KafkaError.INVALID_CONFIG),
        "bad-value": (NewTopic("bad-value", 1, FACTOR, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        "low-value": (NewTopic("low-value", 1, FACTOR, config={"max.message.bytes": "-1"}), KafkaError.INVALID_CONFIG),
        "bad-codec": (NewTopic("bad-codec", 1, FACTOR, config={"compression.type": "rar"}), KafkaError.INVALID_CONFIG),
    }
    got = results(admin().create_topics([topic for topic, _ in wanted.values()]))
    equal(got, {n: code for n, (_, code) in wanted.items()})


@fact
def admin_validates_without_creating():
    name = new_name("dry")
    equal(results(admin().create_topics([NewTopic(name, 1, FACTOR)], validate_only=True)), {name: None})
    that(name not in admin().list_topics(timeout=WAIT).topics, "validate_only made the topic")


@fact
def admin_deleting_an_unknown_topic_is_an_error():
    name = new_name("nosuch")
    equal(results(admin().delete_topics([name])), {name: KafkaError.UNKNOWN_TOPIC_OR_PART})


@fact
def admin_adds_partitions_and_refuses_to_take_any_away():
    name, a = topic_with(5, "grow", 2), admin()
    equal(results(a.create_partitions([NewPartitions(name, 5)])), {name: None})
    wait_for(lambda: len(a.list_topics(name, WAIT).topics[name].partitions) == 5, "five partitions")
    equal(results(a.create_partitions([NewPartitions(name, 5)])), {name: KafkaError.INVALID_PARTITIONS})
    equal(results(a.create_partitions([NewPartitions(name, 3)])), {name: KafkaError.INVALID_PARTITIONS})
    other = new_name("nosuch")
    equal(results(a.create_partitions([NewPartitions(other, 3)])), {other: KafkaError.UNKNOWN_TOPIC_OR_PART})
    p = Producer(librdkafka(BOOTSTRAP))
    p.produce(name, b"in the new one", partition=4)
    equal(p.flush(WAIT), 0)


@fact
def admin_describes_topic_settings_with_defaults_and_sources():
    got = settings(create(NewTopic(new_name("set"), 1, FACTOR, config={"retention.ms": "1234567", "cleanup.policy": "delete"})))
    equal((got["retention.ms"].value, got["retention.ms"].source), ("1234567", ConfigSource.DYNAMIC_TOPIC_CONFIG.value))
    for name, value in {"segment.bytes": "1073741824", "max.message.bytes": "1048588", "compression.type": "producer",
                        "retention.bytes": "-1", "index.interval.bytes": "4096", "segment.ms": "604800000",
                        "message.timestamp.type": "CreateTime", "preallocate": "false",
                        "flush.messages": "9223372036854775807", "delete.retention.ms": "86400000"}.items():
        equal((got[name].value, got[name].is_default), (value, True), name)
    that(len(got) >= 30, f"only {len(got)} settings")


@fact
def admin_alters_settings_one_by_one():
    name, a = create(NewTopic(new_name("alter"), 1, FACTOR)), admin()

    def alter(*entries):
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[
            ConfigEntry(k, v, incremental_operation=op) for k, v, op in entries])
        return next(iter(results(a.incremental_alter_configs([resource])).values()))

    equal(alter(("retention.ms", "5000000", AlterConfigOpType.SET), ("segment.bytes", "2097152", AlterConfigOpType.SET)), None)
    wait_for(lambda: settings(name)["retention.ms"].value == "5000000", "the new setting")
    equal(settings(name)["segment.bytes"].value, "2097152")
    equal(alter(("retention.ms", None, AlterConfigOpType.DELETE)), None)
    wait_for(lambda: settings(name)["retention.ms"].value == "604800000", "the default again")
    equal(settings(name)["segment.bytes"].value, "2097152", "the other one stays")
    equal(alter(("cleanup.policy", "compact", AlterConfigOpType.APPEND)), None)
    wait_for(lambda: settings(name)["cleanup.policy"].value == "delete,compact", "appended to the list")
    equal(alter(("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)), None)
    wait_for(lambda: settings(name)["cleanup.policy"].value == "compact", "taken from the list")
    equal(alter(("no.such.setting", "1", AlterConfigOpType.SET)), KafkaError.INVALID_CONFIG)
    equal(alter(("segment.bytes", "many", AlterConfigOpType.SET)), KafkaError.INVALID_CONFIG)
    equal(settings(name)["segment.bytes"].value, "2097152", "a refused value changes nothing")


@fact
def admin_alter_configs_replaces_the_whole_set():
    name = create(NewTopic(new_name("replace"), 1, FACTOR, config={"retention.ms": "5000000"}))
    resource = ConfigResource(ResourceType.TOPIC, name, set_config={"segment.bytes": "3145728"})
    equal(list(results(admin().alter_configs([resource])).values()), [None])
    wait_for(lambda: settings(name)["segment.bytes"].value == "3145728", "the new setting")
    equal(settings(name)["retention.ms"].value, "604800000", "a setting left out goes back to its default")


@fact
def admin_settings_of_an_unknown_topic_are_an_error():
    resource = ConfigResource(ResourceType.TOPIC, new_name("nosuch"))
    equal(list(results(admin().describe_configs([resource])).values()), [KafkaError.UNKNOWN_TOPIC_OR_PART])


@fact
def admin_describes_the_brokers_settings():
    node = str(next(iter(admin().list_topics(timeout=WAIT).brokers)))
    resource = ConfigResource(ResourceType.BROKER, node)
    got = admin().describe_configs([resource])[resource].result(WAIT)
    equal((got["num.partitions"].value, got["log.segment.bytes"].value), ("1", "1073741824"))
    that(got["broker.id"].is_read_only if "broker.id" in got else got["node.id"].is_read_only, "node.id is read only")


@fact
def admin_deletes_records():
    name, a = topic_with(100, "trim"), admin()
    where = TopicPartition(name, 0, 40)
    got = results(a.delete_records([where]))[where]
    equal(got.low_watermark, 40)
    c = Consumer({**librdkafka(BOOTSTRAP), "group.id": "unused", "auto.offset.reset": "earliest",
                  "enable.auto.commit": False})
    equal(c.get_watermark_offsets(where, WAIT), (40, 100))
    c.assign([TopicPartition(name, 0, 10)])
    equal(c.poll(WAIT).offset(), 40, "a read below the start")
    c.close()
    everything = TopicPartition(name, 0, -1)
    equal(results(a.delete_records([everything]))[everything].low_watermark, 100)
    past = TopicPartition(name, 0, 101)
    equal(results(a.delete_records([past])), {past: KafkaError.OFFSET_OUT_OF_RANGE})


@fact
def admin_lists_offsets():
    name = topic_with(100, "offsets")
    for spec, offset, stamp in ((OffsetSpec.earliest(), 0, -1), (OffsetSpec.latest(), 100, -1),
                                (OffsetSpec.max_timestamp(), 99, 1_000_099), (OffsetSpec.for_timestamp(1_000_050), 50, 1_000_050),
                                (OffsetSpec.for_timestamp(2_000_000), -1, -1)):
        for level in IsolationLevel:
            where = TopicPartition(name, 0)
            got = results(admin().list_offsets({where: spec}, isolation_level=level))[where]
            equal((got.offset, got.timestamp), (offset, stamp), f"{spec} {level}")
    where = TopicPartition(name, 9)
    equal(results(admin().list_offsets({where: OffsetSpec.latest()}, request_timeout=3)).get(where).__class__, int, "an error code")


@fact
def admin_describes_the_cluster():
    got = admin().describe_cluster().result(WAIT)
    that(got.cluster_id, "a cluster id")
    equal(sorted(f"{n.host}:{n.port}" for n in got.nodes), sorted(NODES))
    that(got.controller.id in [n.id for n in got.nodes], "a controller among the nodes")


@fact
def admin_describes_topics():
    name, missing = create(NewTopic(new_name("described"), 3, FACTOR)), new_name("nosuch")
    got = results(admin().describe_topics(TopicCollection([name, missing])))
    equal(got[missing], KafkaError.UNKNOWN_TOPIC_OR_PART)
    equal((got[name].name, got[name].is_internal), (name, False))
    leaders = [p.leader.id for p in got[name].partitions]
    equal(len(set(leaders)), min(3, len(NODES)), "leaders")
    # The leader first, as a new topic has it.
    equal([(p.id, p.replicas[0].id, len(p.replicas)) for p in got[name].partitions], [(i, node, FACTOR) for i, node in enumerate(leaders)])
    equal([[r.id for r in p.isr] for p in got[name].partitions], [[r.id for r in p.replicas] for p in got[name].partitions], "in sync")
    that(str(got[name].topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA"), "a topic id")
