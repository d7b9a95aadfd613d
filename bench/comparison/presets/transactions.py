"""Transactions of the Java client: commits, reads of what they left, and Kafka Streams' exactly-once word count."""
import shutil

from ..preset import Case, Preset


class Transactions(Preset):
    name = "transactions"
    title = "Transactions of 100 records of 100 bytes, one producer, one after another (Java client)"
    source = "KIP-98: a commit is two writes of the coordinator and a marker for each partition"
    metric = "txns_per_s"
    unit = "txns/s"
    columns = ("records_per_s", "p50_us", "p99_us", "max_us", "broker_cores", "broker_ns_per_record", "client_ns_per_record", "flushes_per_s",
               "written_bytes_per_record", "rss_mib", "others_cores")

    def cases(self, bench):
        return [Case("1 partition", {"partitions": 1}), Case("6 partitions", {"partitions": 6})]

    def measure(self, bench, side, case, state):
        seconds, warmup = bench.seconds(6), bench.seconds(3)
        partitions = case.options["partitions"]
        with bench.topic(side, partitions) as (server, topic):
            with bench.meter(server) as figures:
                out = bench.run(bench.java("Transactions produce", server, topic, partitions=partitions, each=100,
                                           size=100, seconds=seconds, warmup=warmup), seconds + warmup)
            return {**out, **figures(out["records"])}


class CommittedReads(Preset):
    """What transactions of 100 records left is read by both kinds of readers; Java's consumer filters what was aborted."""

    name = "transactions-read"
    title = "One consumer of transactions of 100 records, read_committed and read_uncommitted (Java client)"
    source = "a committed reader should pay nothing"
    sides = ("esker", "kafka")
    columns = ("mib_per_s", "broker_cores", "broker_ns_per_record", "client_ns_per_record", "others_cores")

    def cases(self, bench):
        return [Case("read_uncommitted"), Case("read_committed")]

    def setup(self, bench, side):
        server = bench.server(side)
        topic = bench.make_topic(server, side, 1)
        bench.run(bench.java("Transactions produce", server, topic, each=100, size=100,
                             transactions=self._transactions(bench)), 300)
        bench.settle()
        return server, topic

    @staticmethod
    def _transactions(bench):
        return bench.count(20_000)

    def measure(self, bench, side, case, state):
        server, topic = state
        with bench.meter(server) as figures:
            out = bench.run(bench.java("Transactions read", server, topic, isolation=case.name, passes=3))
        want = self._transactions(bench) * 100
        if out["each_pass"] != want:
            raise OSError(f"{out['each_pass']} of {want} records came back")
        return {**out, **figures(out["records"])}

    def teardown(self, bench, side, state):
        bench.drop_topic(*state)


class StreamsWordCount(Preset):
    name = "streams"
    title = "Kafka Streams' word count, exactly_once_v2: lines of eight words until the committed counts add up"
    source = "the application transactions were made for"
    sides = ("esker", "kafka")
    columns = ("seconds", "first_ms", "broker_cores", "broker_ns_per_record", "client_ns_per_record", "flushes_per_s", "rss_mib", "others_cores")

    def cases(self, bench):
        # The application has as many tasks as partitions, and each commit is one to all of them.
        return [Case("2 partitions, 1 thread", {"partitions": 2, "threads": 1}),
                *(Case(f"{partitions} partitions, 2 threads", {"partitions": partitions, "threads": 2}) for partitions in (16, 64, 128))]

    def measure(self, bench, side, case, state):
        lines = bench.count(400_000)
        partitions = case.options["partitions"]
        directory = bench.work / "streams"
        with bench.topic(side, partitions) as (server, topic):
            bench.run(bench.java("WordCount fill", server, topic, partitions=partitions, records=lines), 60)
            output = bench.make_topic(server, side, partitions)
            try:
                with bench.meter(server) as figures:
                    out = bench.run(bench.java("WordCount run", server, topic, output=output, **case.options,
                                               records=lines, state=directory, limit=150), 120)
                return {**out, **figures(out["records"])}
            finally:
                shutil.rmtree(directory, ignore_errors=True)
                bench.drop_topic(server, output)
                self._drop_internal(bench, server, topic)

    @staticmethod
    def _drop_internal(bench, server, topic):
        """The application's repartition and changelog topics."""
        store = f"count-{topic}-KSTREAM-AGGREGATE-STATE-STORE-0000000004"
        with server.connection() as connection:
            for name in (f"{store}-repartition", f"{store}-changelog"):
                if connection.led_partitions(name) > 0:
                    connection.delete_topic(name)
        bench.settle()
