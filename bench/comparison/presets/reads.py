"""Reads of 2 KiB records: the size of a fetch, what the client does meanwhile, and which client it is."""
import subprocess

from ..preset import Case, Preset

SIZE = 2048
MIB = 1 << 20


class Reads(Preset):
    """One partition that was filled before, read with one Fetch after another; how it was synced does not matter."""

    metric = "mib_per_s"
    unit = "MiB/s"
    sides = ("esker", "kafka")
    columns = ("fetches", "resident", "client_cores_all", "broker_cores", "broker_ns_per_record", "client_ns_per_record", "rss_mib",
               "others_cores")
    RECORDS = 768 * MIB // SIZE

    def setup(self, bench, side):
        server = bench.server(side)
        topic = bench.make_topic(server, side, 1)
        bench.fill(server, topic, bench.count(self.RECORDS), SIZE)
        bench.settle()
        return server, topic

    def measure(self, bench, side, case, state):
        server, topic = state
        options = dict(case.options)
        is_cold, files = options.pop("cold", False), server.segments(topic)
        if not files:
            raise OSError(f"no segment files of {topic} below {server.data}")
        if not is_cold:
            subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=True)
        resident = bench.baseline("drop" if is_cold else "resident", *files)["share"]
        with bench.meter(server) as figures:
            out = bench.run(bench.franz("fetch", server, topic, **options))
        if "records" in out and out["records"] != bench.count(self.RECORDS):
            raise OSError(f"{out['records']} of {bench.count(self.RECORDS)} records came back")
        return {**out, **figures(out.get("records", 0)), "resident": resident}

    def teardown(self, bench, side, state):
        bench.drop_topic(*state)


class SizesOfFetch(Reads):
    name = "a15"
    title = "Reads of 128 KiB to 8 MiB, from memory and from disk (bare fetch)"
    source = "Akutan: cat by readahead, 320 to 775 MiB/s"

    def cases(self, bench):
        return [Case(f"{size} KiB {'uncached' if cold else 'cached'}", {"bytes": size << 10, "cold": cold})
                for cold in (False, True) for size in (128, 512, 2048, 8192)]


class NextFetchUnderWay(Reads):
    name = "a18"
    title = "Fetches of 1 MiB in turn, and with the next one under way while the client decodes"
    source = "Akutan: the broker idles while the client works"

    def cases(self, bench):
        return [Case("in turn", {"decode": "true"}), Case("next under way", {"decode": "true", "ahead": "true"})]


class LargeReply(Reads):
    name = "a22"
    title = "One fetch of 8 MiB, from the request to the last byte"
    source = "Akutan: 18 ms for a reply of 8 MiB"
    metric = "p50_us"
    unit = "us (p50)"
    more_is_better = False
    columns = ("p99_us", "max_us", "kib_each", "mib_per_s", "broker_cores", "rss_mib", "others_cores")

    def cases(self, bench):
        return [Case("8 MiB", {"bytes": 8 * MIB, "repeat": bench.count(200, 20)})]


class StockConsumers(Preset):
    """Each client as it comes, without a group, over topics of the same records in more and more partitions."""

    name = "a17"
    title = "Stock consumers of 2 KiB records in 1 to 1000 partitions, from memory"
    source = "Akutan: clients cached, 150 to 895 MiB/s"
    metric = "mib_per_s"
    unit = "MiB/s"
    sides = ("esker", "kafka")
    columns = ("records_per_s", "broker_ns_per_record", "client_ns_per_record", "rss_mib", "others_cores")
    PARTITIONS = (1, 6, 100, 1000)
    RECORDS = 100_000

    def cases(self, bench):
        return [Case(f"{client}, {n} partition{'s' if n > 1 else ''}", {"client": client, "partitions": n})
                for client in ("librdkafka", "franz-go", "Java") for n in self.PARTITIONS]

    def setup(self, bench, side):
        server = bench.server(side)
        topics = {}
        for n in self.PARTITIONS:
            topics[n] = bench.make_topic(server, side, n)
            bench.fill(server, topics[n], bench.count(self.RECORDS), SIZE, n)
        bench.settle()
        return server, topics

    def measure(self, bench, side, case, state):
        server, n = state[0], case.options["partitions"]
        topic = state[1][n]
        commands = {"librdkafka": lambda: bench.librdkafka("consume", server, topic, partitions=n),
                    "franz-go": lambda: bench.franz("consume", server, topic, partitions=n),
                    "Java": lambda: bench.java("Transactions read", server, topic, partitions=n, passes=2)}
        command = commands[case.options["client"]]()
        with bench.meter(server) as figures:
            out = bench.run(command)
        read, want = out.get("each_pass", out["records"]), bench.count(self.RECORDS)
        if read != want:
            raise OSError(f"{read} of {want} records came back")
        # the Java client's first pass is not timed, and costs all the same
        warmed = read if "each_pass" in out else 0
        return {**out, **figures(out["records"] + warmed)}

    def teardown(self, bench, side, state):
        for topic in state[1].values():
            bench.drop_topic(state[0], topic)
