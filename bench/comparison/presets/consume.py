"""Consumers: librdkafka with manual assignment, from the first offset to the end, checksums on."""
import subprocess
import time

from ..preset import Case, Preset

COLUMNS = ("mib_per_s", "first_ms", "broker_ns_per_record", "client_ns_per_record", "rss_mib", "others_cores")


class Consumers(Preset):
    """Reads a topic that was filled before; how it was synced does not matter to a reader."""

    sides = ("esker", "kafka")
    columns = COLUMNS
    records, size, partitions, workers = 4_000_000, 100, 6, 1
    fill_settings, read_settings = {}, {}

    def setup(self, bench, side):
        server = bench.server(side)
        topic = bench.make_topic(server, side, self.partitions)
        bench.fill(server, topic, bench.count(self.records), self.size, self.partitions, self.fill_settings)
        bench.settle()
        return server, topic

    def measure(self, bench, side, case, state):
        server, topic = state
        with bench.meter(server) as figures:
            out = bench.run(bench.librdkafka("consume", server, topic, self.read_settings,
                                             partitions=self.partitions, workers=self.workers))
        want = bench.count(self.records)
        if out["records"] != want:
            raise OSError(f"{out['records']} of {want} records came back")
        return {**out, **figures(out["records"])}

    def teardown(self, bench, side, state):
        bench.drop_topic(*state)


class OneConsumer(Consumers):
    name = "l17"
    title = "One consumer, 100-byte records, 6 partitions"
    source = "2014: single consumer"


class ThreeConsumers(Consumers):
    name = "l18"
    title = "Three consumers, 100-byte records, 6 partitions"
    source = "2014: three consumers"
    workers = 3


class ConsumerOfSmallBatches(Consumers):
    name = "n38"
    title = "One consumer of 200-byte records, fetching 200 KB at a time"
    source = "2011: consumer with prefetch of 1000 messages or 200 KB"
    records, size, partitions = 2_000_000, 200, 1
    fill_settings = {"batch.num.messages": 50}
    read_settings = {"fetch.message.max.bytes": 204800}


class ProducerAndConsumer(Preset):
    name = "l19"
    title = "Producer and consumer at once, 100-byte records, 6 partitions"
    source = "2014: producer and consumer"
    columns = ("mib_per_s", "consumed_per_s", "p99_us", "broker_ns_per_record", "rss_mib", "others_cores")

    def measure(self, bench, side, case, state):
        seconds = bench.seconds(4)
        with bench.topic(side, 6) as (server, topic):
            with bench.meter(server) as figures:
                reader = bench.processes.begin(bench.librdkafka(
                    "consume", server, topic, partitions=6, follow=1, seconds=seconds + 0.5))
                try:
                    out = bench.run(bench.librdkafka("produce", server, topic, {"linger.ms": 5},
                                                     size=100, partitions=6, seconds=seconds), seconds)
                    read = bench.finish_client(reader, seconds)
                finally:
                    bench.processes.kill(reader)
            out["consumed_per_s"] = read["records"] / out["seconds"]
            return {**out, **figures(out["records"])}


class Sink(Preset):
    """One consumer of one long partition, beside `cat` of the same files in the same state."""

    name = "a16"
    title = "Sink: one partition of 2 KiB records read from its start, beside `cat` and the loopback"
    source = "Akutan: long sequential reads of one partition; A15-A18"
    metric = "mib_per_s"
    unit = "MiB/s"
    sides = ("esker", "kafka")
    columns = ("cat_mib_per_s", "of_cat", "of_loopback", "resident", "client_cores_all", "broker_cores",
               "broker_ns_per_record", "client_ns_per_record", "rss_mib", "others_cores")
    SIZE = 2048

    def cases(self, bench):
        return [Case(f"{state} {client}", {"state": state, "client": client})
                for state in ("cached", "uncached") for client in ("librdkafka", "bare fetch")]

    def setup(self, bench, side):
        server = bench.server(side)
        topic = bench.make_topic(server, side, 1)
        bench.fill(server, topic, self._records(bench), self.SIZE)
        bench.settle()
        self.loopback = 0.0
        return server, topic

    def _records(self, bench):
        return bench.count(bench.options.sink_gib * 2**30 / self.SIZE)

    def machine(self, bench, case):
        self.loopback = bench.baseline("loopback", "0.7")["mib_per_s"]
        return {"mib_per_s": self.loopback}

    @staticmethod
    def _make(bench, state, files):
        """Brings the files into or out of the page cache; gives the share of them that is in it."""
        if state == "uncached":
            return bench.baseline("drop", *files)["share"]
        subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=True)
        return bench.baseline("resident", *files)["share"]

    def measure(self, bench, side, case, state):
        server, topic = state
        files = server.segments(topic)
        if not files:
            raise OSError(f"no segment files of {topic} below {server.data}")
        self._make(bench, case.options["state"], files)
        began = time.perf_counter()
        subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=True)
        cat = sum(f.stat().st_size for f in files) / 2**20 / (time.perf_counter() - began)
        resident = self._make(bench, case.options["state"], files)
        if case.options["client"] == "librdkafka":
            command = bench.librdkafka("consume", server, topic, partitions=1)
        else:
            command = bench.franz("fetch", server, topic)
        with bench.meter(server) as figures:
            out = bench.run(command)
        if out["records"] != self._records(bench):
            raise OSError(f"{out['records']} of {self._records(bench)} records came back")
        out["cat_mib_per_s"], out["resident"] = cat, resident
        out["of_cat"] = out["mib_per_s"] / cat
        if self.loopback:
            out["of_loopback"] = out["mib_per_s"] / self.loopback
        return {**out, **figures(out["records"])}

    def teardown(self, bench, side, state):
        bench.drop_topic(*state)
