"""kcat: keys, headers, codecs, offsets and times, and files that come back byte for byte."""

import json
import random
import re
import subprocess
import time

from harness import raw
from harness.check import BOOTSTRAP, FACTOR, NODES, TMP, equal, fact, main, new_name, that, topic


def kcat(*args, stdin=None, code=0):
    command = ["kcat", "-b", BOOTSTRAP, "-X", "log_level=3", *map(str, args)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.decode()[-300:]}")
    return done


def consume(name, *args, partition=0):
    return kcat("-C", "-q", "-e", "-t", name, "-p", partition, *args).stdout


def lines(count, seed, width=60):
    rng = random.Random(seed)
    return b"".join(b"%08d %s\n" % (i, rng.randbytes(rng.randrange(width)).hex().encode()) for i in range(count))


@fact
def lists_the_broker_and_every_partition():
    name = topic("meta", 3)
    seen = json.loads(kcat("-L", "-J", "-t", name).stdout)
    equal(sorted(b["name"] for b in seen["brokers"]), sorted(NODES), "brokers")
    that(seen["controllerid"] in [b["id"] for b in seen["brokers"]], "controller")
    found, = seen["topics"]
    equal(found["topic"], name)
    equal([p["partition"] for p in found["partitions"]], [0, 1, 2])
    equal(len({p["leader"] for p in found["partitions"]}), min(3, len(NODES)), "leaders")
    for partition in found["partitions"]:
        # The leader first, as a new topic has it.
        equal((partition["replicas"][0]["id"], len(partition["replicas"])), (partition["leader"], FACTOR), "replicas")
        equal(partition["isrs"], partition["replicas"], "in sync")


@fact
def keys_headers_and_empty_values_come_back():
    name = topic("kh")
    kcat("-P", "-t", name, "-K", "\t", "-H", "a=1", "-H", "b=two words", "-H", "a=again", stdin=b"k1\tv1\n\tv2\nk3\t\n")
    kcat("-P", "-t", name, "-K", "\t", "-Z", stdin=b"k4\t\n")
    out = consume(name, "-f", "%o|%k|%K|%s|%S|%h\n")
    equal(out, b"0|k1|2|v1|2|a=1,b=two words,a=again\n1||0|v2|2|a=1,b=two words,a=again\n"
               b"2|k3|2||0|a=1,b=two words,a=again\n3|k4|2||-1|\n")


@fact
def a_binary_file_is_one_message():
    name = topic("bin")
    path = TMP / "binary"
    content = random.Random(1).randbytes(900_000)
    path.write_bytes(content)
    kcat("-P", "-t", name, path)
    equal(consume(name, "-c", 1, "-f", "%s"), content)


def codec_round_trip(codec, batch_messages):
    name, content = topic(codec), lines(20_000, codec)
    kcat("-P", "-t", name, "-z", codec, "-X", f"batch.num.messages={batch_messages}", stdin=content)
    that(consume(name) == content, "the lines differ")
    tail = b"".join(content.splitlines(True)[12_345:12_355])
    equal(consume(name, "-o", 12_345, "-c", 10), tail, "ten lines from the middle of a batch")


@fact
def lines_return_uncompressed():
    codec_round_trip("none", 1000)


@fact
def lines_return_through_gzip():
    codec_round_trip("gzip", 1000)


@fact
def lines_return_through_snappy():
    codec_round_trip("snappy", 777)


@fact
def lines_return_through_lz4():
    codec_round_trip("lz4", 10_000)


@fact
def lines_return_through_zstd():
    codec_round_trip("zstd", 10_000)


@fact
def broker_recompresses_to_the_topics_codec():
    content = lines(5_000, "recompress", 200)
    for to, sent in (("zstd", "none"), ("gzip", "lz4"), ("uncompressed", "zstd"), ("snappy", "gzip"), ("lz4", "snappy")):
        name = topic(f"to-{to}", compression_type=to)
        kcat("-P", "-t", name, "-z", sent, stdin=content)
        that(consume(name) == content, f"{sent} to {to}: the lines differ")
        with raw.Connection(raw.leaders(BOOTSTRAP, name)[0]) as c:
            stored = raw.fetch(c, name, 0)[3]
        attributes = int.from_bytes(stored[21:23], "big")
        equal(attributes & 7, ("uncompressed", "gzip", "snappy", "lz4", "zstd").index(to), f"{sent} to {to}: stored codec")


@fact
def a_large_file_returns_whole():
    name, content = topic("large"), lines(150_000, "large")
    kcat("-P", "-t", name, "-z", "lz4", "-X", "enable.idempotence=true", stdin=content)
    that(consume(name) == content, "the lines differ")


@fact
def offsets_from_start_end_and_tail():
    name = topic("offsets")
    kcat("-P", "-t", name, stdin=b"".join(b"m%d\n" % i for i in range(100)))
    equal(consume(name, "-o", "beginning", "-c", 2), b"m0\nm1\n")
    equal(consume(name, "-o", 40, "-c", 3), b"m40\nm41\nm42\n")
    equal(consume(name, "-o", -3), b"m97\nm98\nm99\n")
    equal(consume(name, "-o", "end"), b"")


@fact
def times_select_the_records_between_them():
    name = topic("times")
    stamps = []
    for part in range(3):
        kcat("-P", "-t", name, stdin=b"".join(b"%d-%d\n" % (part, i) for i in range(50)))
        time.sleep(0.02)
    for row in consume(name, "-f", "%T %s\n").decode().splitlines():
        stamp, text = row.split()
        if text.endswith("-0"):
            stamps.append(int(stamp))
    that(stamps[0] < stamps[1] < stamps[2], f"times do not grow: {stamps}")
    middle = b"".join(b"1-%d\n" % i for i in range(50))
    equal(consume(name, "-o", f"s@{stamps[1]}", "-o", f"e@{stamps[2]}"), middle, "between two times")
    asked = kcat("-Q", "-t", f"{name}:0:{stamps[2]}").stdout.decode()
    that(re.search(r"offset 100\b", asked), f"-Q: {asked}")


@fact
def partitions_hold_what_was_sent_to_them():
    name = topic("parts", 4)
    for partition in range(4):
        kcat("-P", "-t", name, "-p", partition, stdin=b"p%d\n" % partition * 10)
    for partition in range(4):
        equal(consume(name, partition=partition), b"p%d\n" % partition * 10)
    keyed = b"".join(b"k%d:v%d\n" % (i % 50, i) for i in range(1000))
    kcat("-P", "-t", name, "-K", ":", "-X", "topic.partitioner=murmur2_random", stdin=keyed)
    back = b"".join(consume(name, "-K", ":", "-o", 10, partition=p) for p in range(4))
    equal(sorted(back.splitlines()), sorted(keyed.splitlines()))


@fact
def every_kind_of_acknowledgement_stores():
    for acks in ("0", "1", "all"):
        name = topic(f"acks-{acks}")
        kcat("-P", "-t", name, "-X", f"acks={acks}", stdin=b"a\nb\nc\n")
        deadline = time.monotonic() + 10
        while (got := consume(name)) != b"a\nb\nc\n" and time.monotonic() < deadline:
            time.sleep(0.05)  # acks=0 does not say when it is stored
        equal(got, b"a\nb\nc\n", f"acks={acks}")


@fact
def no_partition_needs_more_replicas_in_sync_than_it_has():
    name = topic("min-isr", min_insync_replicas="2")
    kcat("-P", "-t", name, "-X", "acks=all", stdin=b"a\nb\n")
    equal(consume(name), b"a\nb\n")


@fact
def producing_creates_the_topic():
    name = new_name("auto")
    kcat("-P", "-t", name, stdin=b"first\n")
    equal(consume(name), b"first\n")


@fact
def consuming_an_unknown_topic_says_so():
    done = kcat("-C", "-e", "-t", new_name("nosuch"), "-p", 0, code=1)
    that(b"Unknown topic or partition" in done.stderr, done.stderr.decode())


@fact
def a_message_over_the_limit_is_refused():
    name = topic("limit", max_message_bytes="50000")
    path = TMP / "too-large"
    path.write_bytes(random.Random(2).randbytes(60_000))
    done = kcat("-P", "-t", name, path, code=None)
    that(done.returncode != 0 or b"Message size too large" in done.stderr, f"{done.returncode} {done.stderr.decode()}")
    that(b"Message size too large" in done.stderr, done.stderr.decode())
    equal(consume(name), b"")


@fact
def an_offset_out_of_range_is_an_error_or_resets():
    name = topic("range")
    kcat("-P", "-t", name, stdin=b"a\nb\n")
    done = kcat("-C", "-q", "-e", "-t", name, "-p", 0, "-o", 1000, "-X", "topic.auto.offset.reset=error", code=1)
    that(b"out of range" in done.stderr.lower(), done.stderr.decode())
    equal(consume(name, "-o", 1000, "-X", "topic.auto.offset.reset=smallest"), b"a\nb\n")


if __name__ == "__main__":
    banner = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    main("{} ({})".format(*re.search(r"Version (\S+) .*?(librdkafka \S+)", banner).groups()))
