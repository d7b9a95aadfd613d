"""PyFlink: jobs written in Python, as SQL and as streams, with Flink's Kafka source and exactly-once sink."""

import json
import os
from importlib.metadata import version

# No function of the jobs is Python's, so no worker is needed, and not the packages of Beam that it would bring.
os.environ.setdefault("_python_worker_execution_mode", "process")

from confluent_kafka import Consumer
from harness import installs
from harness.check import BOOTSTRAP, equal, fact, main, new_name, topic
from harness.logins import java, librdkafka
from harness.records import write
from pyflink.common import Configuration, SimpleStringSchema, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from pyflink.table import StreamTableEnvironment

TIMEOUT_S = 120
CONNECTION = {"bootstrap.servers": BOOTSTRAP, **java(BOOTSTRAP)}
state = {}


def streams():
    if "streams" not in state:
        settings = {"parallelism.default": "2", "execution.checkpointing.interval": "300 ms",
                    "table.local-time-zone": "UTC"}
        configuration = Configuration()
        for name, value in settings.items():
            configuration.set_string(name, value)
        state["streams"] = StreamExecutionEnvironment.get_execution_environment(configuration)
        state["streams"].add_jars(*(path.as_uri() for path in sorted(installs.FLINK_PYTHON_JARS.glob("*.jar"))))
    return state["streams"]


def tables():
    if "tables" not in state:
        state["tables"] = StreamTableEnvironment.create(streams())
    return state["tables"]


def committed(name):
    """Values of all partitions, as a reader of committed records sees them."""
    consumer = Consumer({**librdkafka(BOOTSTRAP), "group.id": new_name("reader"), "isolation.level": "read_committed",
                         "auto.offset.reset": "earliest", "enable.partition.eof": True})
    consumer.subscribe([name])
    values, ended = [], set()
    partitions = len(consumer.list_topics(name).topics[name].partitions)
    while len(ended) < partitions:
        message = consumer.poll(30)
        if message is None:
            raise AssertionError(f"{name} gives neither a record nor its end")
        if message.error():
            ended.add(message.partition())
        else:
            values.append(message.value().decode())
    consumer.close()
    return values


@fact
def a_stream_goes_through_the_exactly_once_sink_whole():
    source, sink = topic("source", 3), topic("sink", 2)
    want = [f"{n}" for n in range(3_000)]
    write(BOOTSTRAP, source, [{"value": value, "partition": n % 3} for n, value in enumerate(want)])
    job = streams()  # before the source: it brings the connector's classes
    read = (KafkaSource.builder().set_properties(CONNECTION).set_topics(source).set_group_id(new_name("flink"))
            .set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_bounded(KafkaOffsetsInitializer.latest())
            .set_value_only_deserializer(SimpleStringSchema()).build())
    record = KafkaRecordSerializationSchema.builder().set_topic(sink).set_value_serialization_schema(SimpleStringSchema()).build()
    sink_builder = KafkaSink.builder()
    for setting, value in CONNECTION.items():
        sink_builder.set_property(setting, value)
    written = (sink_builder.set_bootstrap_servers(BOOTSTRAP).set_record_serializer(record)
               .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(new_name("sink"))
               .set_property("transaction.timeout.ms", "60000").build())
    job.from_source(read, WatermarkStrategy.no_watermarks(), "source").sink_to(written)
    job.execute("copy")
    equal(sorted(committed(sink), key=int), want, "what arrived")


@fact
def a_table_of_windows_is_counted_and_committed():
    source, sink = topic("clicks", 2), topic("counts", 1)
    base = 1_790_000_000_000
    clicks = [{"user": f"u{n % 5}", "at": base + n * 10} for n in range(2_000)]
    write(BOOTSTRAP, source, [{"value": json.dumps(click), "partition": n % 2} for n, click in enumerate(clicks)])
    connection = ", ".join(f"'properties.{setting}' = '{value}'" for setting, value in CONNECTION.items())
    kafka = f"'connector' = 'kafka', {connection}, 'format' = 'json'"
    tables().execute_sql(
        f"CREATE TABLE clicks (`user` STRING, `at` BIGINT, moment AS TO_TIMESTAMP_LTZ(`at`, 3),"
        f" WATERMARK FOR moment AS moment - INTERVAL '5' SECOND) WITH ({kafka}, 'topic' = '{source}',"
        f" 'properties.group.id' = '{new_name('flink')}', 'scan.startup.mode' = 'earliest-offset',"
        f" 'scan.bounded.mode' = 'latest-offset')")
    tables().execute_sql(
        f"CREATE TABLE counts (`user` STRING, second_of BIGINT, clicks BIGINT) WITH ({kafka}, 'topic' = '{sink}',"
        f" 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{new_name('counts')}',"
        f" 'properties.transaction.timeout.ms' = '60000')")
    tables().execute_sql(
        "INSERT INTO counts SELECT `user`, UNIX_TIMESTAMP(CAST(window_start AS STRING)), COUNT(*) FROM"
        " TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(moment), INTERVAL '1' SECOND)) GROUP BY `user`, window_start, window_end"
    ).wait(TIMEOUT_S * 1000)
    want = {}
    for click in clicks:
        key = (click["user"], click["at"] // 1000)
        want[key] = want.get(key, 0) + 1
    rows = [json.loads(value) for value in committed(sink)]
    equal({(row["user"], row["second_of"]): row["clicks"] for row in rows}, want, "the counts")
    equal(len(rows), len(want), "rows, each window once")


if __name__ == "__main__":
    main(version("apache-flink"))
