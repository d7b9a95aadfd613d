"""Producers: librdkafka as fast as it goes, acks=all, values of fixed size."""
import time

from ..preset import Case, Preset

SETTLED_SECONDS = 1.0
SETTLE_SECONDS_MAX = 30

COLUMNS = ("mib_per_s", "p50_us", "p99_us", "broker_ns_per_record", "client_ns_per_record",
           "flushes_per_s", "written_bytes_per_record", "rss_mib", "others_cores")


class Producers(Preset):
    """A load of the C client's producer; a case's options are its own, `settings` are librdkafka's."""

    columns = COLUMNS
    topic_config = {}

    def measure(self, bench, side, case, state):
        options = dict(case.options)
        settings = options.pop("settings", {})
        seconds = bench.seconds(options.pop("seconds", 4))
        with bench.topic(side, options["partitions"], config=self.topic_config) as (server, topic):
            self.before(bench, server, topic, options)
            with bench.meter(server) as figures:
                out = bench.run(bench.librdkafka("produce", server, topic, settings, seconds=seconds, **options), seconds)
            out.update(figures(out["records"]))
            self.after(server, topic, options, out)
        return out

    def before(self, bench, server, topic, options):
        """What is in the topic when the load begins; takes its own options out."""

    def after(self, server, topic, options, out):
        """More figures while the topic is still there."""


class OneProducer(Producers):
    name = "l11"
    title = "One producer, 100-byte records, 6 partitions"
    source = "2014: 50M records of 100 bytes, one producer thread"

    def cases(self, bench):
        load = {"size": 100, "partitions": 6}
        return [Case("librdkafka's batches", {**load, "settings": {"linger.ms": 5}}),
                Case("8 KiB batches", {**load, "settings": {"linger.ms": 5, "batch.size": 8196}})]


class ThreeProducers(Producers):
    name = "l14"
    title = "Three producers, 100-byte records, 6 partitions"
    source = "2014: three producer threads"

    def cases(self, bench):
        return [Case("3 producers", {"size": 100, "partitions": 6, "workers": 3, "settings": {"linger.ms": 5}})]


class MessageSizes(Producers):
    name = "l20"
    title = "Message size from 10 bytes to 1 MiB, one producer, 6 partitions"
    source = "2014: effect of message size"
    metric = "mib_per_s"
    unit = "MiB/s"
    columns = ("records_per_s", *COLUMNS[1:])
    topic_config = {"max.message.bytes": 4 << 20}
    SIZES = (10, 100, 1000, 10_000, 100_000, 1 << 20)

    def cases(self, bench):
        settings = {"linger.ms": 5, "message.max.bytes": 4 << 20}
        return [Case(f"{size} B", {"size": size, "partitions": 6, "seconds": 2.5, "settings": settings})
                for size in self.SIZES]


class SmallBatches(Producers):
    name = "n36"
    title = "200-byte records in batches of 1 and of 50, and the bytes they take in the log"
    source = "2011: 10M messages of 200 bytes; overhead of 9 bytes a message"
    columns = (*COLUMNS, "log_overhead_bytes")

    def cases(self, bench):
        load = {"size": 200, "partitions": 1, "seconds": 3}
        # a short queue: what waits in it at the end is still to be acknowledged, one by one
        return [Case(f"batch of {n}", {**load, "settings": {
            "linger.ms": 0 if n == 1 else 5, "batch.num.messages": n, "queue.buffering.max.messages": n * 1000}})
                for n in (1, 50)]

    def after(self, server, topic, options, out):
        stored = self._log_bytes(server, topic)
        if stored:
            out["log_overhead_bytes"] = stored / out["records"] - options["size"]

    @staticmethod
    def _log_bytes(server, topic):
        """Of a log that is whole in its files: Esker brings what is acknowledged from the journal there a little later."""
        deadline, before, since = time.monotonic() + SETTLE_SECONDS_MAX, -1, time.monotonic()
        while time.monotonic() < deadline:
            stored = sum(f.stat().st_size for f in server.segments(topic))
            if stored != before:
                before, since = stored, time.monotonic()
            elif time.monotonic() - since >= SETTLED_SECONDS:
                break
            time.sleep(0.05)
        return before


class EvenRate(Producers):
    name = "l16"
    title = "One producer, 100-byte records: how even its rate is over time"
    source = "2014: variance from the flushes of Linux"
    columns = ("lowest_per_s", "highest_per_s", "deviation_per_s", *COLUMNS)
    SECONDS = 12

    def cases(self, bench):
        # a short run is looked at in tenths
        step = 1 if bench.seconds(self.SECONDS) >= 10 else 0.1
        return [Case("rate of each step", {"size": 100, "partitions": 6, "seconds": self.SECONDS, "step": step,
                                           "settings": {"linger.ms": 5}})]

    def warm(self, bench, side, state):
        options = {**self.cases(bench)[0].options, "seconds": 3, "step": 0.1}
        self.measure(bench, side, Case("warm", options), state)


class BytesBesideValue(SmallBatches):
    name = "l22"
    title = "Bytes that a value of 100 bytes takes in the log beside its own"
    source = "2014: about 22 bytes beside each message"
    metric = "log_overhead_bytes"
    unit = "bytes"
    more_is_better = False
    sides = ("esker", "kafka")
    columns = ("records_per_s", *COLUMNS)

    def cases(self, bench):
        load = {"size": 100, "partitions": 1, "seconds": 1.5}
        return [Case(f"batches of {n}", {**load, "settings": {
            "linger.ms": 0 if n == 1 else 5, "batch.num.messages": n, "queue.buffering.max.messages": max(n, 10) * 100}})
                for n in (1, 10, 100, 1000)]
