"""kafkaw: 128 appenders of 2 KiB over 1 to 128 connections, each append acknowledged before the next."""
from ..preset import Case, Preset
from ..processes import ClientFailed

COLUMNS = ("p50_us", "p99_us", "records_per_request", "broker_ns_per_record", "client_ns_per_record",
           "flushes_per_s", "syncs_per_s", "written_bytes_per_record", "rss_mib", "others_cores")


class AppendersOverConnections(Preset):
    name = "a24"
    title = "kafkaw: 128 appenders of 2 KiB to one partition over 1 to 128 connections (franz-go)"
    source = "Akutan: one request outstanding per connection; flat is ideal; A24"
    metric = "appends_per_s"
    unit = "appends/s"
    columns = COLUMNS
    CONNECTIONS = (1, 2, 4, 8, 16, 32, 64, 128)

    def cases(self, bench):
        return [Case(f"C={c}", {"conns": c}) for c in self.CONNECTIONS]

    def setup(self, bench, side):
        bench.server(side, self.slow_us)

    def load(self, bench, server, topic, conns, seconds):
        return bench.franz("appenders", server, topic, conns=conns, warmup=0.4, duration=seconds)

    def measure(self, bench, side, case, state):
        seconds = bench.seconds(1.6)
        with bench.topic(side, slow_us=self.slow_us) as (server, topic):
            syncs = server.syncs()
            with bench.meter(server) as figures:
                out = bench.run(self.load(bench, server, topic, case.options["conns"], seconds), seconds)
            out.update(figures(out["records"]))
            if self.slow_us:
                syncs = server.syncs() - syncs
                if not syncs:
                    raise ClientFailed("the slow sync shim saw no sync: the server does not sync through libc")
                out["syncs_per_s"] = syncs / (seconds + 0.4)
        # what the client asked of a processor in its measured time, not with its start
        out["client_ns_per_record"] = out["client_cpu_us"] * 1000
        return out


class AppendersRaw(AppendersOverConnections):
    name = "a24-raw"
    title = "kafkaw with a client of one thread and no library, where franz-go is the limit"

    def load(self, bench, server, topic, conns, seconds):
        return bench.raw("appenders", server, topic, conns=conns, warmup=0.4, seconds=seconds)

    def machine(self, bench, case):
        seconds = bench.seconds(1.6)
        load = bench.bare("appenders", self.slow_us, conns=case.options["conns"], warmup=0.4, seconds=seconds)
        return bench.run(load, seconds)


class AppendersSlowSync(AppendersRaw):
    name = "a24-slow"
    title = "kafkaw with every sync made 2 ms slower, both sides synced"
    sides = ("esker", "kafka-sync")
    slow_us = 2000
    CONNECTIONS = (1, 8, 32, 128)

    def teardown(self, bench, side, state):
        bench.discard(bench.server(side, self.slow_us))
