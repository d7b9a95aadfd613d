"""Many partitions written at once, each append acknowledged before the next to its partition."""
from ..preset import Case, Preset


class DirtyPartitions(Preset):
    name = "partitions-1000"
    title = "Appends of 2 KiB to 1 and to 1000 partitions"
    source = "one sync for all dirty partitions, or one for each"
    metric = "appends_per_s"
    unit = "appends/s"
    columns = ("p50_us", "p99_us", "records_per_request", "broker_ns_per_record", "client_ns_per_record",
               "flushes_per_s", "written_bytes_per_record", "rss_mib", "others_cores")

    def cases(self, bench):
        return [
            Case("1 partition, 1 append at a time", {"partitions": 1, "appenders": 1}),
            Case("1000 partitions, 1 append at a time", {"partitions": 1000, "appenders": 1}),
            Case("1000 partitions, an append to each", {"partitions": 1000, "appenders": 1000}),
        ]

    def measure(self, bench, side, case, state):
        seconds = bench.seconds(2)
        with bench.topic(side, case.options["partitions"]) as (server, topic):
            with bench.meter(server) as figures:
                out = bench.run(bench.franz("partitions", server, topic, conns=4, warmup=0.5, duration=seconds, **case.options), seconds)
            out.update(figures(out["records"]))
        out["client_ns_per_record"] = out["client_cpu_us"] * 1000
        return out
