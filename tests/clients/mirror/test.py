"""MirrorMaker 2 between Apache Kafka and the broker under test, in both directions at once.

The other cluster is an Apache Kafka of our own. MirrorMaker writes in transactions, so a record arrives once.
"""

import atexit

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from harness import brokers, installs
from harness.check import BOOTSTRAP, TMP, equal, fact, main, new_name, that
from harness.jvm import Program
from harness.logins import java, librdkafka
from harness.records import read, until, write

PARTITIONS = 3
START_SECONDS_MAX = 180  # MirrorMaker makes a dozen topics on both sides and joins two groups on each before it copies
state, admins = {}, {}


def peer():
    """The address of the Apache Kafka on the other side."""
    if "peer" not in state:
        folder = TMP / "peer"
        folder.mkdir()
        state["peer"] = brokers.start_kafka(folder)
        atexit.register(state["peer"].stop)
        brokers.wait_ready(state["peer"])
    return state["peer"].bootstrap


def mirror():
    """MirrorMaker's process; started when there is none."""
    if "mirror" not in state or not state["mirror"].is_alive():
        properties = TMP / "mirror.properties"
        seconds = ["refresh.topics", "refresh.groups", "sync.topic.configs", "emit.checkpoints", "sync.group.offsets", "emit.heartbeats"]
        kinds = ["checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage", "status.storage", "config.storage"]
        properties.write_text("\n".join([
            "clusters=there,here", f"there.bootstrap.servers={peer()}", f"here.bootstrap.servers={BOOTSTRAP}",
            *[f"here.{k}={v}" for k, v in java(BOOTSTRAP).items()],
            "there->here.enabled=true", "here->there.enabled=true", "there->here.topics=orders-.*", "here->there.topics=bills-.*",
            "groups=readers-.*", "replication.factor=1", "offset.lag.max=0", "offset.flush.interval.ms=500", "tasks.max=2",
            "sync.group.offsets.enabled=true", "here.exactly.once.source.support=enabled", "there.exactly.once.source.support=enabled",
            "dedicated.mode.enable.internal.rest=true", "listeners=http://127.0.0.1:0", "scheduled.rebalance.max.delay.ms=0",
            *[f"{name}.interval.seconds=1" for name in seconds], *[f"{kind}.replication.factor=1" for kind in kinds], ""]))
        state["mirror"] = Program("mirror", TMP, "org.apache.kafka.connect.mirror.MirrorMaker", properties)
    return state["mirror"]


def admin(bootstrap):
    """One admin client for each cluster: its futures end with it."""
    if bootstrap not in admins:
        admins[bootstrap] = AdminClient(librdkafka(bootstrap))
    return admins[bootstrap]


def make(bootstrap, prefix, **settings):
    name = new_name(prefix)
    # Some records are old: without a retention they stay.
    config = {"retention.ms": "-1", **{k.replace("_", "."): v for k, v in settings.items()}}
    admin(bootstrap).create_topics([NewTopic(name, PARTITIONS, 1, config=config)])[name].result(30)
    return name


def records(count, base=1_790_000_000_000):
    return [{"partition": n % PARTITIONS, "key": f"k{n}" if n % 4 else None, "value": f"v{n}" if n % 7 else None, "timestamp": base + n,
             "headers": [("n", b"%d" % n), ("n", b"\x00\xff")]} for n in range(count)]


def content(bootstrap, topic):
    """All of a topic, partition by partition: offset, key, value, time and headers."""
    return [[(m.offset(), m.key(), m.value(), m.timestamp(), m.headers()) for m in read(bootstrap, topic, p)] for p in range(PARTITIONS)]


def texts(found):
    """The same without offsets: markers of transactions have offsets too."""
    return [[one[1:] for one in partition] for partition in found]


def check_flow(source, target, prefix, alias):
    name = make(source, prefix)
    write(source, name, records(600))
    mirror()

    def arrived():
        that(mirror().is_alive(), f"MirrorMaker ended: {mirror().last_words()}")
        return sum(map(len, content(target, f"{alias}.{name}"))) >= 600 if is_there(target, f"{alias}.{name}") else False
    until(arrived, f"600 records of {name} on the other side", START_SECONDS_MAX)
    equal(texts(content(target, f"{alias}.{name}")), texts(content(source, name)), "what arrived")
    return name


def is_there(bootstrap, name):
    found = admin(bootstrap).list_topics(timeout=30).topics.get(name)
    return found is not None and len(found.partitions) == PARTITIONS


@fact
def records_of_kafka_arrive_here_with_keys_headers_times_and_partitions():
    state["orders"] = check_flow(peer(), BOOTSTRAP, "orders", "there")


@fact
def records_from_here_arrive_in_kafka_the_same():
    state["bills"] = check_flow(BOOTSTRAP, peer(), "bills", "here")


@fact
def settings_of_a_topic_follow():
    for source, target, prefix, alias in ((peer(), BOOTSTRAP, "orders", "there"), (BOOTSTRAP, peer(), "bills", "here")):
        name = make(source, prefix, cleanup_policy="compact", max_message_bytes="2000000", min_cleanable_dirty_ratio="0.25")
        mirror()

        def settings():
            copy = f"{alias}.{name}"
            if not is_there(target, copy):
                return None
            found, = admin(target).describe_configs([ConfigResource(ResourceType.TOPIC, copy)]).values()
            found = found.result(30)
            return [found[k].value for k in ("cleanup.policy", "max.message.bytes", "min.cleanable.dirty.ratio")]
        until(lambda: settings() == ["compact", "2000000", "0.25"], f"the settings of {alias}.{name}")


@fact
def offsets_of_groups_are_translated_both_ways():
    for source, target, prefix, alias in ((peer(), BOOTSTRAP, "orders", "there"), (BOOTSTRAP, peer(), "bills", "here")):
        name, group = make(source, prefix), new_name("readers")
        write(source, name, records(300))
        mirror()
        ends = [TopicPartition(name, p, 100) for p in range(PARTITIONS)]
        consumer = Consumer({**librdkafka(source), "group.id": group, "enable.auto.commit": False})
        consumer.commit(offsets=ends, asynchronous=False)
        consumer.close()
        other = Consumer({**librdkafka(target), "group.id": group, "enable.auto.commit": False})

        def left():
            """How many records each partition still has behind the group's place on the other side."""
            found = other.committed([TopicPartition(f"{alias}.{name}", p) for p in range(PARTITIONS)], timeout=30)
            if any(p.error or p.offset < 0 for p in found):
                return None
            return [len([m for m in read(target, p.topic, p.partition) if m.offset() >= p.offset]) for p in found]
        until(lambda: left() == [0] * PARTITIONS, f"{group} on the other side is past every record")
        other.close()


@fact
def a_restarted_mirror_goes_on_and_nothing_arrives_twice():
    for source, target, key, alias in ((peer(), BOOTSTRAP, "orders", "there"), (BOOTSTRAP, peer(), "bills", "here")):
        name = state[key]
        mirror().kill() if key == "bills" else mirror().stop()
        write(source, name, records(150, 1_790_000_100_000))
        mirror()
        until(lambda: sum(map(len, content(target, f"{alias}.{name}"))) >= 750, f"750 records of {name} on the other side",
              START_SECONDS_MAX)
        equal(texts(content(target, f"{alias}.{name}")), texts(content(source, name)), "what arrived")


@fact
def copies_are_not_copied_back():
    mirror()
    for bootstrap in (peer(), BOOTSTRAP):
        names = admin(bootstrap).list_topics(timeout=30).topics
        that(not [n for n in names if n.startswith(("there.here.", "here.there."))], f"a copy of a copy in {sorted(names)}")


if __name__ == "__main__":
    jar = next(installs.FRAMEWORK_JARS.glob("connect-mirror-4*.jar"))
    main(jar.stem.removeprefix("connect-mirror-"))
