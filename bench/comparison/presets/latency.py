"""Latency: from one produce call to the consumer, and of a producer beside a cold reader."""
from ..preset import Case, Preset


class EndToEnd(Preset):
    name = "l21"
    title = "End to end: one 100-byte record at a time, from the produce call to the consumer"
    source = "2014: end-to-end latency, median 2 ms, p99 3 ms, p99.9 14 ms"
    metric = "p50_us"
    unit = "us (p50)"
    more_is_better = False
    columns = ("p99_us", "p999_us", "max_us", "mean_us", "records_per_s", "broker_ns_per_record", "flushes_per_s", "others_cores")

    def cases(self, bench):
        return [Case("one at a time")]

    def machine(self, bench, case):
        seconds = str(bench.seconds(1))
        ping = bench.baseline("pingpong", seconds, "128")
        sync = bench.baseline("sync", seconds, "4096", bench.work / "sync-probe")
        return {"p50_us": ping["p50_us"] + sync["p50_us"], "p99_us": ping["p99_us"] + sync["p99_us"],
                "pingpong_p50_us": ping["p50_us"], "sync_p50_us": sync["p50_us"]}

    def measure(self, bench, side, case, state):
        with bench.topic(side) as (server, topic):
            with bench.meter(server) as figures:
                out = bench.run(bench.librdkafka("latency", server, topic, records=bench.count(5000),
                                                 warmup=bench.count(1000, 200), seconds=bench.seconds(5)))
            return {**out, **figures(out["records"])}


class ColdReaderBesideProducer(Preset):
    """A paced producer, alone and beside a consumer that reads what is no longer in memory."""

    name = "t15"
    title = "Producer of 10,000 records/s of 1 KB, alone and beside a cold reader at 200 MiB/s"
    source = "KIP-405: catch-up readers must not hurt producers; T15"
    metric = "p99_us"
    unit = "us (p99)"
    more_is_better = False
    columns = ("p50_us", "p999_us", "max_us", "records_per_s", "reader_mib_per_s", "resident", "broker_cores",
               "flushes_per_s", "others_cores")
    READER_MIB = 200
    SIZE = 2048

    def cases(self, bench):
        return [Case("alone", {"reader": False}), Case("beside the reader", {"reader": True})]

    def setup(self, bench, side):
        server = bench.server(side)
        topic = bench.make_topic(server, side, 1)
        seconds = bench.seconds(5) + 2
        bench.fill(server, topic, int(seconds * self.READER_MIB * 2**20 / self.SIZE), self.SIZE)
        bench.settle()
        return server, topic

    def measure(self, bench, side, case, state):
        server, cold = state
        seconds = bench.seconds(5)
        files = server.segments(cold)
        reader, resident = None, None
        with bench.topic(side, 6) as (_, topic):
            if case.options["reader"]:
                if not files:
                    raise OSError(f"no segment files of {cold} below {server.data}")
                resident = bench.baseline("drop", *files)["share"]
                # one Fetch after another: librdkafka's own queue would turn a steady pace into bursts
                reader = bench.processes.begin(bench.franz(
                    "fetch", server, cold, rate=self.READER_MIB, duration=seconds + 0.5))
            try:
                with bench.meter(server) as figures:
                    out = bench.run(bench.librdkafka("produce", server, topic, {"linger.ms": 0}, size=1000,
                                                     partitions=6, sample=1, rate=10_000, seconds=seconds), seconds)
                if reader:
                    out["reader_mib_per_s"] = bench.finish_client(reader, seconds)["mib_per_s"]
                    out["resident"] = resident
            finally:
                if reader:
                    bench.processes.kill(reader)
            return {**out, **figures(out["records"])}

    def teardown(self, bench, side, state):
        bench.drop_topic(*state)
