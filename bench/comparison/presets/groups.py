"""Consumer groups: commits of offsets, many members that join at once, and members that restart one after another.

Groups have servers of their own: two of their timers are shorter than by default, on both sides alike, because with the
defaults (a new group waits 3 s for its members, a heartbeat comes every 5 s) mostly the defaults would be measured.
"""
from ..preset import Case, Preset

TIMERS = {"group.initial.rebalance.delay.ms": 1000, "group.consumer.min.heartbeat.interval.ms": 200,
          "group.consumer.heartbeat.interval.ms": 1000}


class OffsetCommits(Preset):
    name = "offset-commits"
    # internal topics are the same for all topic settings of a broker
    sides = ("esker", "kafka")
    title = "64 members of one group commit offsets, each commit answered before the next (franz-go)"
    source = "a commit is an append that must be durable"
    metric = "commits_per_s"
    unit = "commits/s"
    columns = ("p50_us", "p99_us", "max_us", "client_cores", "broker_cores", "broker_ns_per_record", "client_ns_per_record", "flushes_per_s",
               "written_bytes_per_record", "rss_mib", "others_cores")
    MEMBERS = 64

    def cases(self, bench):
        return [Case("64 members")]

    def measure(self, bench, side, case, state):
        seconds = bench.seconds(5)
        with bench.topic(side, self.MEMBERS) as (server, topic):
            with bench.meter(server) as figures:
                out = bench.run(self.client(bench, case, server, topic, seconds), seconds)
            return {**out, **figures(out["records"])}

    def client(self, bench, case, server, topic, seconds):
        return bench.franz("commits", server, topic, members=self.MEMBERS, warmup=1, duration=seconds)


class RawOffsetCommits(OffsetCommits):
    name = "offset-commits-raw"
    title = "64 members of one group commit offsets, with a client of one thread and no library, where franz-go is the limit"
    # Of commits that are not waited for one by one, as of Java's commitAsync, each member has this many under way.
    UNDER_WAY = 16

    def cases(self, bench):
        return [*super().cases(bench), Case(f"64 members, {self.UNDER_WAY} under way", {"depth": self.UNDER_WAY})]

    def client(self, bench, case, server, topic, seconds):
        return bench.raw("commits", server, topic, members=self.MEMBERS, warmup=1, seconds=seconds, **case.options)

    def machine(self, bench, case):
        seconds = bench.seconds(2)
        return bench.run(bench.bare("commits", members=self.MEMBERS, warmup=0.4, seconds=seconds, **case.options), seconds)


class GroupServers(Preset):
    sides = ("esker", "kafka")
    own_servers = True

    def setup(self, bench, side):
        server = bench.new_server(side.kind, settings=TIMERS)
        server.start()
        return server

    def teardown(self, bench, side, state):
        bench.discard(state)


class JoinAtOnce(GroupServers):
    name = "groups"
    title = "100 groups of 20 members join at once; when every partition of each has its owner (franz-go)"
    source = "rebalance storms after a deployment"
    metric = "settled_s"
    unit = "s"
    more_is_better = False
    columns = ("started_s", "broker_cores", "client_cores_all", "rss_mib", "others_cores")
    GROUPS, MEMBERS = 100, 20

    def cases(self, bench):
        return [Case("classic protocol", {"protocol": "classic"}), Case("consumer protocol", {"protocol": "consumer"})]

    def measure(self, bench, side, case, state):
        topic = bench.make_topic(state, side, self.MEMBERS)
        try:
            with bench.meter(state) as figures:
                out = bench.run(bench.franz("groups", state, topic, partitions=self.MEMBERS, groups=max(2, int(self.GROUPS * bench.options.scale)),
                                            members=self.MEMBERS, protocol=case.options["protocol"]))
            return {**out, **figures(out["records"])}
        finally:
            bench.drop_topic(state, topic)


class RollingRestart(GroupServers):
    name = "rolling"
    title = "A member of a group of 50 restarts every second; longest time without records for a partition that stays (franz-go)"
    source = "KIP-848: what does not move does not stop"
    metric = "longest_gap_ms"
    unit = "ms"
    more_is_better = False
    columns = ("poll_ms", "gap_of_poll", "moves", "rolled_s", "settled_s", "broker_cores", "client_cores_all", "rss_mib", "others_cores")
    MEMBERS, PARTITIONS = 50, 100

    def cases(self, bench):
        return [Case("50 members, consumer protocol")]

    def warm(self, bench, side, state):
        """Minutes would be needed; the group's first settling warms what there is to warm."""

    def measure(self, bench, side, case, state):
        restarts = max(5, int(self.MEMBERS * bench.options.scale))
        topic = bench.make_topic(state, side, self.PARTITIONS)
        try:
            with bench.meter(state) as figures:
                out = bench.run(bench.franz("rolling", state, topic, partitions=self.PARTITIONS, members=self.MEMBERS,
                                            restarts=restarts, every=1, poll=0.5), restarts)
            return {**out, **figures(out["records"])}
        finally:
            bench.drop_topic(state, topic)
