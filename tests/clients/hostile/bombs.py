"""Batches that unpack to hundreds of MiB: refused where the broker unpacks, harmless where it does not."""

import struct
import time
import zlib

from harness import raw
from harness.check import BOOTSTRAP, BROKER_KIND, Skip, equal, fact, that, topic
from memory import bounded

TOO_LARGE = 10
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
MIB = 1 << 20
# More than the 128 MiB that one batch may become, and little enough for snappy, which shrinks zeros to a 21st.
ZEROS_BYTES = 256 * MIB
# A batch as it may be unpacked (128 MiB, in a buffer that doubles as it grows), and what holds the request.
UNPACKED_BYTES_MAX = 320 * MIB
MESSAGE_BYTES_MAX = str(16 * MIB)


def around_zeros(tail):
    """What stands before the zeros that are the value of the first record, and behind them."""
    body = b"\0" + raw.varint(0) + raw.varint(0) + raw.varint(1) + b"k" + raw.varint(ZEROS_BYTES)
    return raw.varint(len(body) + ZEROS_BYTES + 1) + body, raw.varint(0) + tail


def gzip_bomb(head, tail):
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = b"".join(squeeze.compress(part) for part in (head, *[bytes(MIB)] * (ZEROS_BYTES // MIB), tail))
    return zeros + squeeze.flush()


def snappy_bomb(head, tail):
    """In the frame of the Java library, 1 MiB a block: one zero, and copies of 64 bytes from where it is."""
    def block(content):
        return struct.pack(">i", len(content)) + content

    def literal(content):
        return block(bytes([len(content), (len(content) - 1) << 2]) + content)
    copies = MIB // 64 - 1
    zeros = block(b"\x80\x80\x40" + b"\0\0" + struct.pack("<BH", 63 << 2 | 2, 1) * copies + struct.pack("<BH", 62 << 2 | 2, 1))
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + literal(head) + zeros * (ZEROS_BYTES // MIB) + literal(tail)


def lz4_bomb(head, tail):
    """Blocks of 4 MiB: one zero, a match as long as the block, and the five literals that must end it."""
    def rotated(value, by):
        return (value << by | value >> 32 - by) & 0xFFFFFFFF
    flags, prime1, prime2, prime3, prime5 = b"\x60\x70", 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x165667B1
    check = prime5 + len(flags)  # xxh32 of the two bytes
    for byte in flags:
        check = rotated((check + byte * prime5) & 0xFFFFFFFF, 11) * prime1 & 0xFFFFFFFF
    for shift, prime in ((15, prime2), (13, prime3)):
        check = (check ^ check >> shift) * prime & 0xFFFFFFFF
    check ^= check >> 16
    fives, rest = divmod(4 * MIB - 6 - 19, 255)
    block = b"\x1f\0" + struct.pack("<H", 1) + b"\xff" * fives + bytes([rest]) + b"\x50" + bytes(5)

    def plain(content):
        return struct.pack("<I", len(content) | 1 << 31) + content
    zeros = (struct.pack("<I", len(block)) + block) * (ZEROS_BYTES // (4 * MIB))
    return struct.pack("<I", 0x184D2204) + flags + bytes([check >> 8 & 0xFF]) + plain(head) + zeros + plain(tail) + bytes(4)


def zstd_bomb(head, tail):
    """Blocks that say "128 KiB of this byte" in four bytes."""
    def block(kind, size, content, is_last=False):
        return struct.pack("<I", is_last | kind << 1 | size << 3)[:3] + content
    zeros = block(1, 128 << 10, b"\0") * (ZEROS_BYTES // (128 << 10))
    return b"\x28\xb5\x2f\xfd\0\x58" + block(0, len(head), head) + zeros + block(0, len(tail), tail, True)


BOMBS = {GZIP: gzip_bomb, SNAPPY: snappy_bomb, LZ4: lz4_bomb, ZSTD: zstd_bomb}


def bomb(codec, tail=b"", **header):
    head, tail = around_zeros(tail)
    return raw.batch([], count=1 + (len(tail) > 1), attributes=codec, content=BOMBS[codec](head, tail), **header)


def needs_a_bound():
    if BROKER_KIND == "kafka":
        raise Skip("Kafka has no bound of its own on what a batch unpacks to")


def send(c, name, records):
    c.socket.settimeout(60)
    return raw.produce(c, name, records)


@fact
def a_decompression_bomb_is_refused_where_the_broker_unpacks():
    needs_a_bound()
    for codec, name in NAMES.items():
        records = bomb(codec)
        for why, settings in (("compacted", {"cleanup_policy": "compact"}),
                              ("another codec", {"compression_type": "gzip" if codec == ZSTD else "zstd"}),
                              ("bounds of timestamps", {"message_timestamp_before_max_ms": "3600000"})):
            place = topic("bomb", max_message_bytes=MESSAGE_BYTES_MAX, **settings)
            with bounded(f"a bomb of {name}, {why}", UNPACKED_BYTES_MAX), raw.Connection(BOOTSTRAP) as c:
                equal(send(c, place, records)[0], TOO_LARGE, f"a bomb of {name}, {why}")
                good = raw.batch([], count=1, content=raw.record(b"good", key=b"k"))
                equal(send(c, place, good), (0, 0), f"the next good batch, {name}, {why}")


@fact
def a_length_that_lies_takes_no_memory():
    """Four GiB of snappy, all of them in the five bytes of its length."""
    for why, settings in (("compacted", {"cleanup_policy": "compact"}), ("another codec", {"compression_type": "zstd"})):
        place = topic("lie", **settings)
        for what, content in (("bare", b"\xff\xff\xff\xff\x0f\0\0"),
                              ("framed", b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 7) + b"\xff\xff\xff\xff\x0f\0\0")):
            with bounded(f"{what}, {why}", 16 * MIB), raw.Connection(BOOTSTRAP) as c:
                that(send(c, place, raw.batch([], count=1, attributes=SNAPPY, content=content))[0] != 0, f"{what}, {why}: stored")
        with raw.Connection(BOOTSTRAP) as c:
            equal(send(c, place, raw.batch([], count=1, content=raw.record(b"good", key=b"k"))), (0, 0), f"the next good batch, {why}")


def offset_at(c, name, stamp):
    """ListOffsets v2: (code, offset) of the first record at or after a time."""
    reply = c.call(raw.LIST_OFFSETS, 2, struct.pack(">ib", -1, 0) + raw.array([raw.string(name) + raw.array([struct.pack(">iq", 0, stamp)])]))
    reply.i32()
    answer = reply.array(lambda: (reply.string(), reply.array(lambda: (reply.i32(), reply.i16(), reply.i64(), reply.i64()))))
    _, code, _, offset = answer[0][1][0]
    return code, offset


@fact
def a_bomb_that_is_stored_is_bounded_when_it_is_asked_by_time():
    """A plain topic does not unpack what it stores. Whoever asks for a time between two records of a batch has it unpacked."""
    needs_a_bound()
    now = int(time.time() * 1000) - 10_000
    second = b"\0" + raw.varint(1_000) + raw.varint(1) + raw.varint(-1) + raw.varint(1) + b"v" + raw.varint(0)
    for codec, name in NAMES.items():
        place = topic("stored", max_message_bytes=MESSAGE_BYTES_MAX)
        with bounded(f"a stored bomb of {name}", UNPACKED_BYTES_MAX), raw.Connection(BOOTSTRAP) as c:
            records = bomb(codec, raw.varint(len(second)) + second, timestamp=now, newest=now + 1_000)
            equal(send(c, place, records), (0, 0), f"a bomb of {name}")
            equal(send(c, place, raw.batch([b"good"], timestamp=now + 2_000)), (0, 2), "the next good batch")
            equal(offset_at(c, place, now + 500), (0, 0), f"{name}: a time within the bomb, whose first offset stands for all")
            equal(offset_at(c, place, now + 1_500), (0, 2), f"{name}: a time after the bomb")
