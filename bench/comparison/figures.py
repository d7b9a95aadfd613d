"""The figures to reach, as data: what is divided by what, and the bound.

A figure is taken from one interleaved run set, once with the medians and once
with the best of each side; it is reached when either is. A figure whose
measurements are missing is left out rather than guessed.
"""
import statistics
from dataclasses import dataclass

from .presets import PRESETS


@dataclass
class Figure:
    preset: str
    what: str
    bound: float
    at_least: bool
    median: float
    best: float
    reached: bool


class Absent(Exception):
    """A measurement that the figure needs was not made."""


class Table:
    """Results by preset, case and side, reduced over the runs."""

    def __init__(self, results, how):
        self.results, self.how = results, how

    def __call__(self, preset, case, side, metric=None, more_is_better=None):
        kind = PRESETS[preset]
        more = kind.more_is_better if more_is_better is None and metric in (None, kind.metric) else bool(more_is_better)
        values = [r.figures[metric or kind.metric] for r in self.results
                  if r.preset == preset and r.case == case and r.side == side and not r.error
                  and (metric or kind.metric) in r.figures]
        if not values:
            raise Absent
        if self.how == "median":
            return statistics.median(values)
        return max(values) if more else min(values)


def appenders(preset):
    """The kafkaw figures, for the client that the preset uses."""
    points = [f"C={c}" for c in PRESETS[preset].CONNECTIONS]
    return [
        (preset, "128 connections, synced / own un-synced", 0.65, True,
         lambda t: t(preset, "C=128", "esker") / t(preset, "C=128", "esker-os")),
        (preset, "128 connections / 1 connection", 0.4, True,
         lambda t: t(preset, "C=128", "esker") / t(preset, "C=1", "esker")),
        (preset, "appends/s at 128 connections", 80_000, True, lambda t: t(preset, "C=128", "esker")),
        (preset, "128 connections / Kafka synced", 10, True,
         lambda t: t(preset, "C=128", "esker") / t(preset, "C=128", "kafka-sync")),
        (preset, "lowest point / Kafka un-synced", 1, True,
         lambda t: min(t(preset, p, "esker") / t(preset, p, "kafka") for p in points)),
    ]


def slow_sync(conns):
    return ("a24-slow", f"sync 2 ms slower: {conns} connections / 1 connection", 0.9, True,
            lambda t: t("a24-slow", f"C={conns}", "esker") / t("a24-slow", "C=1", "esker"))


def sink(state, metric, what, bound):
    case = f"{state} librdkafka"
    return ("a16", f"{state}: {what}", bound, True, lambda t: t("a16", case, "esker", metric, True))


def sink_over_kafka(state, client):
    case = f"{state} {client}"
    return ("a16", f"{case} / Kafka", 1.3, True, lambda t: t("a16", case, "esker") / t("a16", case, "kafka"))


def times_kafka(preset, case, what, bound):
    return (preset, what, bound, True, lambda t: t(preset, case, "esker") / t(preset, case, "kafka"))


def settling(protocol):
    return ("groups", f"100 groups of 20 settle, {protocol} protocol, s", 3, False,
            lambda t: t("groups", f"{protocol} protocol", "esker"))


L11 = "librdkafka's batches"
TRIP = "one at a time"
ROLLING = "50 members, consumer protocol"
ONE, EACH, CYCLE = "1 partition, 1 append at a time", "1000 partitions, an append to each", "1000 partitions, 1 append at a time"

# Preset, what, bound, whether the bound is a floor, how it is computed.
BOUNDS = [
    *appenders("a24"),
    *appenders("a24-raw"),
    # The floor of 80,000 was set where a server that does no more makes 140,000.
    ("a24-raw", "128 connections / a bare server on this machine", 80 / 140, True,
     lambda t: t("a24-raw", "C=128", "esker") / t("a24-raw", "C=128", "machine")),
    slow_sync(8), slow_sync(32), slow_sync(128),
    ("l11", "synced / own un-synced", 0.9, True, lambda t: t("l11", L11, "esker") / t("l11", L11, "esker-os")),
    ("l11", "synced / Kafka un-synced", 1, True, lambda t: t("l11", L11, "esker") / t("l11", L11, "kafka")),
    ("l11", "broker ns/record", 150, False, lambda t: t("l11", L11, "esker", "broker_ns_per_record")),
    ("l11", "broker time per record / Kafka's", 1 / 3, False,
     lambda t: t("l11", L11, "esker", "broker_ns_per_record") / t("l11", L11, "kafka", "broker_ns_per_record")),
    sink("cached", "of_loopback", "librdkafka / raw loopback", 0.8),
    sink("uncached", "of_cat", "librdkafka / cat", 0.9),
    sink_over_kafka("cached", "librdkafka"), sink_over_kafka("uncached", "librdkafka"),
    sink_over_kafka("cached", "bare fetch"), sink_over_kafka("uncached", "bare fetch"),
    ("partitions-1000", "ack p50, 1000 dirty one by one / 1", 10, False,
     lambda t: t("partitions-1000", CYCLE, "esker", "p50_us") / t("partitions-1000", ONE, "esker", "p50_us")),
    ("partitions-1000", "ack p50, 1000 at once / 1", 10, False,
     lambda t: t("partitions-1000", EACH, "esker", "p50_us") / t("partitions-1000", ONE, "esker", "p50_us")),
    ("partitions-1000", "synced appends/s to 1000 partitions", 150_000, True, lambda t: t("partitions-1000", EACH, "esker")),
    ("partitions-1000", "1000 partitions / Kafka synced", 20, True,
     lambda t: t("partitions-1000", EACH, "esker") / t("partitions-1000", EACH, "kafka-sync")),
    ("partitions-20000", "start after a clean stop, s", 5, False, lambda t: t("partitions-20000", "all partitions", "esker", "start_s")),
    ("partitions-20000", "append rate / with 100 partitions", 0.7, True,
     lambda t: t("partitions-20000", "all partitions", "esker") / t("partitions-20000", "100 partitions", "esker")),
    ("l21", "end to end p50 / (ping-pong + sync)", 3, False, lambda t: t("l21", TRIP, "esker") / t("l21", TRIP, "machine")),
    ("l21", "end to end p99 / Kafka's un-synced", 1, False,
     lambda t: t("l21", TRIP, "esker", "p99_us") / t("l21", TRIP, "kafka", "p99_us")),
    ("t15", "produce p99 beside a cold reader / alone", 2, False,
     lambda t: t("t15", "beside the reader", "esker") / t("t15", "alone", "esker")),
    ("startup", "start to first acknowledged append, ms", 300, False, lambda t: t("startup", "new data, topic created", "esker")),
    ("startup", "idle resident MiB", 50, False, lambda t: t("startup", "new data, topic created", "esker", "rss_mib")),
    ("startup", "start after kill -9 / (1 s + 1 s per GiB of journal)", 1, False,
     lambda t: t("startup", "restart after kill -9", "esker", "of_bound")),
    times_kafka("transactions", "1 partition", "1 partition: committed/s / Kafka un-synced", 2),
    times_kafka("transactions", "6 partitions", "6 partitions: committed/s / Kafka un-synced", 2),
    ("transactions-read", "read_committed / read_uncommitted", 0.95, True,
     lambda t: t("transactions-read", "read_committed", "esker") / t("transactions-read", "read_uncommitted", "esker")),
    *(times_kafka("streams", case, f"exactly-once word count, {case}: records/s / Kafka un-synced", 1.5)
      for case in ("2 partitions, 1 thread", "16 partitions, 2 threads", "64 partitions, 2 threads", "128 partitions, 2 threads")),
    times_kafka("offset-commits", "64 members", "64 members: commits/s / Kafka un-synced", 5),
    times_kafka("offset-commits-raw", "64 members", "64 members, raw client: commits/s / Kafka un-synced", 5),
    times_kafka("offset-commits-raw", "64 members, 16 under way", "64 members, 16 commits of each under way: commits/s / Kafka un-synced", 5),
    settling("classic"), settling("consumer"),
    ("rolling", "longest gap of a partition that stays / poll interval", 2, False,
     lambda t: t("rolling", ROLLING, "esker", "gap_of_poll")),
    ("idle-connections", "KiB for each idle connection", 20, False, lambda t: t("idle-connections", "idle", "esker")),
    times_kafka("compaction", "alone", "MiB/s / Kafka's", 1),
    ("compaction", "produce p99 beside it / quiet", 1.3, False, lambda t: t("compaction", "beside a producer", "esker", "of_quiet")),
]


def judge(results):
    """Every figure that the results allow."""
    out = []
    for preset, what, bound, at_least, compute in BOUNDS:
        try:
            median, best = compute(Table(results, "median")), compute(Table(results, "best"))
        except (Absent, ZeroDivisionError):
            continue
        ok = any(v >= bound if at_least else v <= bound for v in (median, best))
        out.append(Figure(preset, what, bound, at_least, median, best, ok))
    return out
