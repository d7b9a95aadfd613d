"""Compaction of a log with a tenth of its records alive, alone and beside a paced producer."""
import time

from ..preset import Case, Preset
from ..processes import wait_until

LIVE = 0.1
SIZE = 1024
SEGMENT_BYTES = 128 << 20
# Looked at this often: a hundredth of the shortest pass.
PAUSE = 0.01


class Compaction(Preset):
    """The log is written with `cleanup.policy=delete`, and its change to `compact` starts the clock.

    A pass is over when the segments below the last hold one record for each key in them and no file of the pass is left. Cleaners
    look for work every 100 ms instead of every 15 s, on both sides; the first look is part of the time.
    """

    name = "compaction"
    title = "Compaction of 2 GiB of 1 KiB records, a tenth of them alive, alone and beside 10,000 records/s"
    source = "log compaction should not be felt"
    metric = "compact_mib_per_s"
    unit = "MiB/s"
    sides = ("esker", "kafka")
    own_servers = True
    columns = ("taken_s", "kept_mib", "live_mib", "quiet_p99_us", "beside_p99_us", "of_quiet", "broker_cores", "rss_mib", "others_cores")
    RATE = 10_000

    def __init__(self):
        self.alone_s = {}  # by side: how long the last pass took with nothing beside it

    def cases(self, bench):
        return [Case("alone", {"beside": False}), Case("beside a producer", {"beside": True})]

    def setup(self, bench, side):
        server = bench.new_server(side.kind, settings={"log.cleaner.backoff.ms": 100})
        server.start()
        return server

    def warm(self, bench, side, state):
        """An eighth of the data is enough to have the cleaner compiled."""
        topic, filled = self._fill(bench, side, state, self._records(bench) // 8)
        self._pass(state, topic, filled)
        bench.drop_topic(state, topic)

    @staticmethod
    def _records(bench):
        return bench.count(bench.options.compact_gib * 2**30 / SIZE)

    def _fill(self, bench, side, server, records):
        segment = min(SEGMENT_BYTES, records * SIZE // 16)
        topic = bench.make_topic(server, side, 1, {"segment.bytes": max(segment, 1 << 20), "min.cleanable.dirty.ratio": 0.01})
        filled = bench.run(bench.franz("keyed", server, topic, records=records, keys=int(records * LIVE), size=SIZE), 300)
        # what is acknowledged may reach its segment a moment later
        if not wait_until(lambda: sum(f.stat().st_size for f in server.segments(topic)) >= records * SIZE, 30):
            raise TimeoutError(f"{topic} is not in its segments after 30 s")
        bench.settle()
        return topic, filled

    @staticmethod
    def _closed(server, topic):
        """Bytes of all segments but the last, which is never compacted."""
        total = 0
        for path in server.segments(topic)[:-1]:
            try:
                total += path.stat().st_size
            except FileNotFoundError:
                pass  # just replaced
        return total

    def _pass(self, server, topic, filled):
        before = self._closed(server, topic)
        first_of_last = int(server.segments(topic)[-1].stem)
        parts = filled["new_keys"]
        alive = sum(parts[:first_of_last * len(parts) // filled["records"]]) * before / first_of_last
        # Room for the heads of batches that lost most records; one segment that is still to be compacted is far more.
        enough = alive * 1.05
        began = time.monotonic()
        with server.connection() as connection:
            connection.alter_topic(topic, {"cleanup.policy": "compact"})
        if not wait_until(lambda: self._closed(server, topic) <= enough and not server.unfinished(topic), 120, PAUSE):
            raise TimeoutError(f"{self._closed(server, topic) >> 20} of {before >> 20} MiB are left after two minutes")
        took = time.monotonic() - began
        return {"compact_mib_per_s": before / 2**20 / took, "taken_s": took, "kept_mib": self._closed(server, topic) / 2**20,
                "live_mib": alive / 2**20}

    def measure(self, bench, side, case, state):
        topic, filled = self._fill(bench, side, state, self._records(bench))
        try:
            if case.options["beside"]:
                return self._beside(bench, side, state, topic, filled)
            with bench.meter(state) as figures:
                out = self._pass(state, topic, filled)
            self.alone_s[side.name] = out["taken_s"]
            return {**out, **figures(filled["records"])}
        finally:
            bench.drop_topic(state, topic)

    def _beside(self, bench, side, server, log, filled):
        """The producer alone, then beside the pass: for as long as the pass took alone, so that it does not outlast it."""
        seconds = max(1.0, self.alone_s.get(side.name, 1.0))
        topic = bench.make_topic(server, side, 6)

        def produce():
            return bench.librdkafka("produce", server, topic, {"linger.ms": 0}, size=1000, partitions=6, sample=1,
                                    rate=self.RATE, seconds=seconds)
        try:
            quiet = bench.run(produce(), seconds)
            with bench.meter(server) as figures:
                producer = bench.processes.begin(produce())
                try:
                    out = self._pass(server, log, filled)
                    beside = bench.finish_client(producer, seconds)
                finally:
                    bench.processes.kill(producer)
        finally:
            bench.drop_topic(server, topic)
        out.update(figures(beside["records"]))
        out["quiet_p99_us"], out["beside_p99_us"] = quiet["p99_us"], beside["p99_us"]
        out["of_quiet"] = beside["p99_us"] / quiet["p99_us"]
        return out

    def teardown(self, bench, side, state):
        bench.discard(state)
