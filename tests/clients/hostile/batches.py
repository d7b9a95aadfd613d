"""Record batches that lie: each gets Kafka's error code, and none of it is stored."""

import gzip
import random
import struct

from harness import raw
from harness.check import BOOTSTRAP, equal, fact, new_name, that, topic

CORRUPT, TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION = 2, 10, 87, 32, 76


def refused(prefix, code, records, what, **configs):
    """Produce of `records` gives `code`, and the log stays empty and usable."""
    name = topic(prefix, **configs)
    with raw.Connection(BOOTSTRAP) as c:
        got, _ = raw.produce(c, name, records)
        that(got == code, f"{what}: expected error {code}, got {got}")
        equal(raw.produce(c, name, raw.batch([b"good"])), (0, 0), f"{what}: the next good batch")
        error, part, high, stored = raw.fetch(c, name, 0)
        equal((error, part, high), (0, 0, 1), f"{what}: the log afterwards")
        that(b"good" in stored, f"{what}: the good record is missing")


@fact
def a_wrong_checksum_is_corrupt():
    refused("crc", CORRUPT, raw.batch([b"x"], crc=0xDEADBEEF), "wrong checksum")


@fact
def one_changed_bit_anywhere_is_noticed():
    good, name = raw.batch([b"some record", b"another record"]), topic("bits")
    with raw.Connection(BOOTSTRAP) as c:
        for bit in range(17 * 8, len(good) * 8, 5):
            changed = bytearray(good)
            changed[bit // 8] ^= 1 << bit % 8
            code, _ = raw.produce(c, name, bytes(changed))
            equal(code, CORRUPT, f"bit {bit} changed")
        equal(raw.produce(c, name, good), (0, 0))


@fact
def old_message_formats_are_refused():
    for magic in (0, 1):
        refused("magic", INVALID_RECORD, raw.message_set(magic, b"old"), f"magic {magic}")
    refused("magic", CORRUPT, raw.batch([b"x"], magic=7), "magic 7")


@fact
def an_oversized_record_is_refused():
    refused("large", TOO_LARGE, raw.batch([bytes(1_048_588)]), "1 MiB record")
    refused("large", TOO_LARGE, raw.batch([bytes(20_000)]), "over the topic's limit", max_message_bytes="10000")
    name = topic("large", max_message_bytes="10000", compression_type="gzip")
    with raw.Connection(BOOTSTRAP) as c:
        equal(raw.produce(c, name, raw.batch([bytes(20_000)]))[0], TOO_LARGE, "over the limit before the topic compresses it")
        equal(raw.produce(c, name, raw.batch([b"good"])), (0, 0))


@fact
def a_record_count_that_lies_is_refused():
    for count, delta in ((2, None), (0, 0), (-1, 0), (1_000_000, None), (2**31 - 1, None), (1, 5), (1, -1)):
        refused("count", INVALID_RECORD, raw.batch([b"x"], count=count, last_delta=delta), f"count {count}, delta {delta}")


def refused_or_harmless(prefix, what, **batch):
    """Kafka walks the records of every batch. A broker may trust the checksum and store what the client meant; it must walk
    where a setting of the topic asks about records, and a stored batch must harm nobody but its reader."""
    with raw.Connection(BOOTSTRAP) as c:
        walked = topic(prefix, cleanup_policy="compact")
        that(raw.produce(c, walked, raw.batch([], **batch))[0] != 0, f"{what}: a compacted topic took it")
        name = topic(prefix)
        got, _ = raw.produce(c, name, raw.batch([], **batch))
        log_end = batch["count"] if got == 0 else 0
        equal(raw.produce(c, name, raw.batch([b"good"])), (0, log_end), f"{what}: the next good batch")
        that(b"good" in raw.fetch(c, name, log_end)[3], f"{what}: the good record is missing")


@fact
def records_that_lie_about_their_own_size_are_refused_or_harmless():
    for what, content in (("record longer than the batch", raw.varint(1_000_000) + b"\0" * 8),
                          ("negative record", raw.varint(-5) + b"\0" * 8),
                          ("key beyond the record", raw.varint(8) + b"\0\0\0" + raw.varint(1_000) + b"\0" * 4)):
        refused_or_harmless("inner", what, count=1, content=content)
    refused_or_harmless("inner", "endless varint", count=1, content=b"\xff" * 20)


@fact
def a_compressed_batch_that_is_not_compressed_is_refused_or_harmless():
    for codec in (1, 2, 3, 4):
        content = random.Random(codec).randbytes(100)
        refused_or_harmless("codec", f"codec {codec}", count=1, attributes=codec, content=content)


@fact
def two_batches_for_one_partition_are_refused():
    refused("two", INVALID_RECORD, raw.batch([b"a"]) + raw.batch([b"b"], base=1), "two batches")


@fact
def a_cut_batch_is_refused():
    good = raw.batch([b"a record that is cut"])
    for cut in (1, 12, 17, 30, 60, len(good) - 1):
        name = topic("cut")
        with raw.Connection(BOOTSTRAP) as c:
            try:
                code, _ = raw.produce(c, name, good[:cut])
                that(code != 0, f"{cut} of {len(good)} bytes: stored")
            except ConnectionError:
                pass
        with raw.Connection(BOOTSTRAP) as c:
            equal(raw.produce(c, name, raw.batch([b"good"])), (0, 0), f"{cut} bytes: the next good batch")


@fact
def no_records_at_all_are_refused():
    name = topic("none")
    with raw.Connection(BOOTSTRAP) as c:
        code, _ = raw.produce(c, name, b"")
        equal(code, INVALID_RECORD)


@fact
def a_control_batch_from_a_client_is_refused():
    refused("control", INVALID_RECORD, raw.batch([b"x"], attributes=0x20), "control batch")


@fact
def a_record_without_a_key_is_refused_by_a_compacted_topic():
    name = topic("compacted", cleanup_policy="compact")
    with raw.Connection(BOOTSTRAP) as c:
        equal(raw.produce(c, name, raw.batch([b"no key"]))[0], INVALID_RECORD)
        keyed = raw.batch([], count=1, content=raw.record(b"v", key=b"k"))
        equal(raw.produce(c, name, keyed), (0, 0), "with a key")


@fact
def a_timestamp_outside_the_topics_bounds_is_refused():
    refused("late", INVALID_TIMESTAMP, raw.batch([b"x"], timestamp=1_000), "long ago",
            message_timestamp_before_max_ms="3600000")
    refused("early", INVALID_TIMESTAMP, raw.batch([b"x"], timestamp=4_000_000_000_000), "far ahead",
            message_timestamp_after_max_ms="3600000")


@fact
def a_producer_does_not_say_when_it_is_appended():
    far, stamped = 4_000_000_000_000, 0x08
    refused("stamped", INVALID_TIMESTAMP, raw.batch([b"x"], attributes=stamped, timestamp=far), "the future as time of the append")
    refused("stamped", INVALID_TIMESTAMP, raw.batch([b"x"], attributes=stamped), "the broker stamps",
            message_timestamp_type="LogAppendTime")
    name = topic("stamped")
    with raw.Connection(BOOTSTRAP) as c:
        equal(raw.produce(c, name, raw.batch([b"x"], attributes=stamped)), (0, 0))
        stored = raw.fetch(c, name, 0)[3]
        equal(struct.unpack(">h", stored[21:23])[0], 0, "attributes of a topic that keeps the producers' times")


@fact
def zstd_is_not_for_clients_that_cannot_read_it():
    content = raw.record(b"x")
    size = len(content)
    # One frame of one block that is not compressed.
    frame = bytes.fromhex("28b52ffd20") + bytes([size]) + struct.pack("<I", size << 3 | 1)[:3] + content
    name, zstd = topic("zstd"), raw.batch([], count=1, attributes=4, content=frame)
    with raw.Connection(BOOTSTRAP) as c:
        equal(raw.produce(c, name, zstd, version=6)[0], UNSUPPORTED_COMPRESSION)
        equal(raw.produce(c, name, zstd), (0, 0))


@fact
def small_gzip_batches_with_trailing_bytes_do_not_crash():
    name, record = topic("trail"), raw.record(b"x")
    with raw.Connection(BOOTSTRAP) as c:
        for content in (gzip.compress(record) + b"trailing", gzip.compress(record + b"\0\0\0"), gzip.compress(b"")):
            raw.produce(c, name, raw.batch([], count=1, attributes=1, content=content))
        good = raw.batch([], count=1, attributes=1, content=gzip.compress(record))
        equal(raw.produce(c, name, good)[0], 0)
    equal(struct.unpack(">q", good[:8])[0], 0)
