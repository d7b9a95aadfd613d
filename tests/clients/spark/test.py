"""Spark Structured Streaming with its Kafka source and sink: streams that stop and go on, windows, reads by time."""

import json
import os

os.environ.setdefault("PYSPARK_PIN_THREAD", "true")

import pyspark
from harness import installs
from harness.check import BOOTSTRAP, TMP, equal, fact, main, new_name, topic
from harness.logins import java, librdkafka
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

CONNECTION = {f"kafka.{name}": value for name, value in {"bootstrap.servers": BOOTSTRAP, **java(BOOTSTRAP)}.items()}
state = {}


def spark():
    if "spark" not in state:
        jars = ",".join(map(str, sorted(installs.SPARK_JARS.glob("*.jar"))))
        state["spark"] = (
            SparkSession.builder.master("local[2]").appName("tests").config("spark.jars", jars).config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2").config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "1g")
            .config("spark.sql.session.timeZone", "UTC").config("spark.local.dir", str(TMP)).getOrCreate())
    return state["spark"]


def kafka(reader, name, **options):
    reader = reader.format("kafka").options(**CONNECTION).option("subscribe", name)
    return reader.option("startingOffsets", "earliest").options(**options).load()


def write(name, rows):
    """Rows are (partition, key, value, milliseconds)."""
    frame = spark().createDataFrame(rows, "partition int, key string, value string, ms long")
    frame = frame.select("partition", f.col("key").cast("binary"), f.col("value").cast("binary"))
    frame.write.format("kafka").options(**CONNECTION).option("topic", name).save()


def rows(name, **options):
    found = kafka(spark().read, name, **options).selectExpr("partition", "offset", "string(key)", "string(value)", "timestamp")
    return [tuple(r) for r in found.collect()]


def run(frame, name, checkpoint, mode="append"):
    query = (frame.writeStream.format("kafka").options(**CONNECTION).option("topic", name)
             .option("checkpointLocation", str(checkpoint)).outputMode(mode).trigger(availableNow=True).start())
    if not query.awaitTermination(120):
        query.stop()
        raise AssertionError("the stream did not come to its end within 120 s")


@fact
def a_stream_copies_every_record_and_goes_on_where_it_stopped():
    source, sink, checkpoint = topic("source", 3), topic("sink", 2), TMP / new_name("checkpoint")
    want = []
    for part in range(3):
        sent = [(n % 3, f"k{n}", f"{part}/{n}", 0) for n in range(1_000)]
        write(source, sent)
        want += [(key, value) for _, key, value, _ in sent]
        run(kafka(spark().readStream, source, maxOffsetsPerTrigger=700).select("key", "value"), sink, checkpoint)
        equal(sorted((r[2], r[3]) for r in rows(sink)), sorted(want), f"what arrived after run {part}")


@fact
def words_in_windows_are_counted_across_restarts():
    source, sink, checkpoint = topic("words", 2), topic("counts", 1), TMP / new_name("checkpoint")
    stream = kafka(spark().readStream, source).selectExpr("string(value) line")
    parts = f.split("line", " ")
    counts = (stream.select(f.timestamp_seconds(parts[0].cast("long")).alias("time"), parts[1].alias("word"))
              .withWatermark("time", "10 seconds").groupBy(f.window("time", "10 seconds"), "word").count()
              .select(f.concat_ws("@", "word", f.unix_timestamp("window.start").cast("string")).alias("key"),
                      f.col("count").cast("string").alias("value")))
    base, want = 1_790_000_000, {}
    for part in range(2):
        lines = []
        for n in range(600):
            second, word = base + part * 30 + n // 20, f"w{n % 7}"
            lines.append((n % 2, None, f"{second} {word}", 0))
            key = f"{word}@{second // 10 * 10}"
            want[key] = want.get(key, 0) + 1
        write(source, lines)
        run(counts, sink, checkpoint, "update")
    last = {key: int(value) for _, _, key, value, _ in sorted(rows(sink))}
    equal(last, want, "the last count of every window")


@fact
def a_batch_reads_between_offsets_and_from_a_time():
    name = topic("batch", 2)
    write(name, [(n % 2, None, str(n), 0) for n in range(100)])
    between = rows(name, startingOffsets=json.dumps({name: {"0": 10, "1": -2}}), endingOffsets=json.dumps({name: {"0": 20, "1": 5}}))
    equal(sorted(r[:2] for r in between), [(0, o) for o in range(10, 20)] + [(1, o) for o in range(5)], "places")
    everything = sorted(rows(name))
    middle = int(everything[70][4].timestamp() * 1000)
    later = rows(name, startingTimestamp=str(middle), startingOffsetsByTimestampStrategy="latest")
    first = {p: next((r[1] for r in everything if r[0] == p and int(r[4].timestamp() * 1000) >= middle), 50) for p in (0, 1)}
    equal(sorted(r[:2] for r in later), [r[:2] for r in everything if r[1] >= first[r[0]]], "from a time on")


@fact
def aborted_transactions_are_skipped():
    from harness.records import write as plain
    from confluent_kafka import Producer
    name, checkpoint, sink = topic("txn", 1), TMP / new_name("checkpoint"), topic("sink", 1)
    producer = Producer({**librdkafka(BOOTSTRAP), "transactional.id": new_name("id")})
    producer.init_transactions(30)
    want = []
    for number in range(12):
        producer.begin_transaction()
        for at in range(5):
            producer.produce(name, f"{number}.{at}")
        if number % 2:
            producer.commit_transaction(30)
            want += [f"{number}.{at}" for at in range(5)]
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    plain(BOOTSTRAP, name, [{"value": "last"}])
    run(kafka(spark().readStream, name, **{"kafka.isolation.level": "read_committed"}).select("value"), sink, checkpoint)
    equal([r[3] for r in sorted(rows(sink))], [*want, "last"], "what arrived")


if __name__ == "__main__":
    main(pyspark.__version__)
