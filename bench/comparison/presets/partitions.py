"""Many partitions written at once, each append acknowledged before the next to its partition."""
from ..preset import Case, Preset

FIRST_SECONDS_MAX = 90


class DirtyPartitions(Preset):
    name = "partitions-1000"
    title = "Appends of 2 KiB to 1 and to 1000 partitions"
    source = "one sync for all dirty partitions, or one for each"
    metric = "appends_per_s"
    unit = "appends/s"
    columns = ("p50_us", "p99_us", "records_per_request", "broker_ns_per_record", "client_ns_per_record",
               "flushes_per_s", "written_bytes_per_record", "first_s", "rss_mib", "others_cores")

    def cases(self, bench):
        return [
            Case("1 partition, 1 append at a time", {"partitions": 1, "appenders": 1}),
            Case("1000 partitions, 1 append at a time", {"partitions": 1000, "appenders": 1}),
            Case("1000 partitions, an append to each", {"partitions": 1000, "appenders": 1000}),
        ]

    def setup(self, bench, side):
        """Topics in use: each partition has been written to, and its indexes have an entry."""
        server = bench.server(side)
        state = {"server": server}
        for partitions in (1, 1000):
            topic = state[partitions] = bench.make_topic(server, side, partitions)
            state["first_s"] = bench.run(bench.franz(
                "partitions", server, topic, partitions=partitions, appenders=1, first=f"{FIRST_SECONDS_MAX}s",
                passes=2, only="true"), FIRST_SECONDS_MAX)["first_s"]
        return state

    def measure(self, bench, side, case, state):
        server, topic = state["server"], state[case.options["partitions"]]
        # The rate that lasts: a thousand files grow, the memory of the broker too, and a JVM compiles.
        warmup, seconds = (3, bench.seconds(4)) if case.options["appenders"] > 1 else (0.5, bench.seconds(2))
        with bench.meter(server) as figures:
            out = bench.run(bench.franz("partitions", server, topic, conns=4, warmup=warmup, duration=seconds,
                                        **case.options), warmup + seconds)
        out.update(figures(out["records"]))
        bench.settle()
        out["client_ns_per_record"] = out["client_cpu_us"] * 1000
        if case.options["appenders"] > 1:
            out["first_s"] = state["first_s"]
        return out

    def teardown(self, bench, side, state):
        for partitions in (1, 1000):
            bench.drop_topic(state["server"], state[partitions])
