"""A small codec of our own for raw requests: what a test sends that no client would.

Only the versions before flexible encoding, so that a request is plain big-endian fields. Knows nothing of any
broker's code; the layouts are those of the protocol guide.
"""

import os
import socket
import struct
import time

from . import logins

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
CREATE_TOPICS, DELETE_RECORDS, INIT_PRODUCER_ID = 19, 21, 22
SECONDS_MAX = 15
# Of topics that a test makes.
FACTOR = int(os.environ.get("FACTOR", "1"))


def address(bootstrap):
    host, port = bootstrap.rsplit(":", 1)
    return host, int(port)


def string(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack(">h", len(data)) + data


def array(items):
    return struct.pack(">i", len(items)) + b"".join(items)


def data(content):
    return struct.pack(">i", len(content)) + content


def header(api, version, correlation, client="raw"):
    return struct.pack(">hhi", api, version, correlation) + string(client)


def frame(body):
    return struct.pack(">i", len(body)) + body


class Connection:
    """One TCP connection, logged in where the run has logins; requests go out as they are, replies come back as (correlation, reader)."""

    def __init__(self, bootstrap, is_stranger=False):
        self.socket = socket.create_connection(address(bootstrap), timeout=SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation = 0
        if logins.is_asked(bootstrap) and not is_stranger:
            logins.log_in(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send_bytes(self, content):
        self.socket.sendall(content)

    def send(self, api, version, body):
        self.correlation += 1
        self.send_bytes(frame(header(api, version, self.correlation) + body))
        return self.correlation

    def receive(self):
        size, = struct.unpack(">i", self.exactly(4))
        reader = Reader(self.exactly(size))
        return reader.i32(), reader

    def call(self, api, version, body):
        sent = self.send(api, version, body)
        got, reader = self.receive()
        if got != sent:
            raise AssertionError(f"reply to request {got} came where {sent} was due")
        return reader

    def exactly(self, count):
        parts = bytearray()
        while len(parts) < count:
            part = self.socket.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise ConnectionResetError(f"closed after {len(parts)} of {count} bytes")
            parts += part
        return bytes(parts)

    def is_closed_by_peer(self):
        """Waits for the peer to close. False when it answered or kept quiet to the end."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


class Reader:
    def __init__(self, content):
        self.content, self.at = content, 0

    def take(self, form):
        value = struct.unpack_from(">" + form, self.content, self.at)
        self.at += struct.calcsize(">" + form)
        return value[0]

    def i8(self):
        return self.take("b")

    def i16(self):
        return self.take("h")

    def i32(self):
        return self.take("i")

    def i64(self):
        return self.take("q")

    def string(self):
        size = self.i16()
        if size < 0:
            return None
        return self.raw(size).decode()

    def raw(self, size):
        part = self.content[self.at:self.at + size]
        self.at += size
        return part

    def data(self):
        return self.raw(max(0, self.i32()))

    def array(self, item):
        return [item() for _ in range(self.i32())]

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.raw(1)[0]
            value |= (byte & 0x7f) << shift
            if byte < 0x80:
                return value
            shift += 7


def answers(bootstrap):
    """Whether a broker is there and speaks."""
    try:
        with Connection(bootstrap, is_stranger=True) as c:
            return c.call(API_VERSIONS, 0, b"").i16() == 0
    except (OSError, AssertionError, struct.error):
        return False


def create_topic(bootstrap, name, partitions=1, configs=None, replicas=None):
    """The error code of CreateTopics v4 for one topic; a topic that was made has its leaders when this returns. `replicas`: the nodes
    of each partition, the leader first; else the brokers choose."""
    pairs = [string(k) + string(v) for k, v in (configs or {}).items()]
    count = (partitions, FACTOR) if replicas is None else (-1, -1)
    places = [] if replicas is None else [struct.pack(">i", p) + array([struct.pack(">i", node) for node in replicas]) for p in range(partitions)]
    topic = string(name) + struct.pack(">ih", *count) + array(places) + array(pairs)
    with Connection(bootstrap) as c:
        reply = c.call(CREATE_TOPICS, 4, array([topic]) + struct.pack(">ib", 10000, 0))
    reply.i32()
    code = reply.array(lambda: (reply.string(), reply.i16(), reply.string()))[0][1]
    deadline = time.monotonic() + SECONDS_MAX
    while code == 0 and served(name, leaders(bootstrap, name)) < partitions:
        if time.monotonic() > deadline:
            raise AssertionError(f"topic {name} was made but got no leaders")
        time.sleep(0.01)
    return code


def nodes(bootstrap):
    """The brokers that are there: address by id, the one asked first."""
    with Connection(bootstrap) as c:
        reply = c.call(METADATA, 5, array([]) + b"\0")
    reply.i32()
    brokers = reply.array(lambda: (reply.i32(), reply.string(), reply.i32(), reply.string()))
    found = {node: f"{host}:{port}" for node, host, port, _ in brokers}
    return dict(sorted(found.items(), key=lambda of: (of[1] != bootstrap, of[0])))


def leaders(bootstrap, name):
    """The address of the leader of each partition of a topic that has one, from Metadata v5; empty while the topic is unknown."""
    with Connection(bootstrap) as c:
        reply = c.call(METADATA, 5, array([string(name)]) + b"\0")
    reply.i32()
    brokers = reply.array(lambda: (reply.i32(), reply.string(), reply.i32(), reply.string()))
    addresses = {node: f"{host}:{port}" for node, host, port, _ in brokers}
    reply.string(), reply.i32()

    def partition():
        code, index, leader = reply.i16(), reply.i32(), reply.i32()
        for _ in range(3):
            reply.array(reply.i32)
        return index, addresses.get(leader) if code == 0 else None

    topics = reply.array(lambda: (reply.i16(), reply.string(), reply.i8(), reply.array(partition)))
    return {index: leader for index, leader in topics[0][3] if leader} if topics[0][0] == 0 else {}


def served(name, at):
    """How many partitions tell their end; a broker shows a leader in its metadata before the leader serves."""
    try:
        return sum(ends(leader, name, [p for p, to in at.items() if to == leader]) for leader in set(at.values()))
    except OSError:
        return 0  # it has died since, and others lead soon


def ends(leader, name, partitions):
    parts = array([struct.pack(">iq", p, -1) for p in partitions])
    with Connection(leader) as c:
        reply = c.call(LIST_OFFSETS, 2, struct.pack(">ib", -1, 0) + array([string(name) + parts]))
    reply.i32()
    codes = reply.array(lambda: (reply.string(), reply.array(lambda: (reply.i32(), reply.i16(), reply.i64(), reply.i64()))))
    return [code for _, code, _, _ in codes[0][1]].count(0)


def crc32c(content, table=[]):
    if not table:
        for n in range(256):
            for _ in range(8):
                n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
            table.append(n)
    crc = 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def varint(value):
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def record(value, delta=0, key=None):
    body = b"\0" + varint(0) + varint(delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(values, *, count=None, last_delta=None, attributes=0, content=None, producer=(-1, -1, -1), magic=2,
          timestamp=None, newest=None, crc=None, base=0):
    """A record batch of version 2. Every field that a hostile client would lie about can be given."""
    now = int(time.time() * 1000) if timestamp is None else timestamp
    count = len(values) if count is None else count
    last_delta = count - 1 if last_delta is None else last_delta
    content = b"".join(record(v, i) for i, v in enumerate(values)) if content is None else content
    tail = struct.pack(">hiqqqhii", attributes, last_delta, now, now if newest is None else newest, *producer, count) + content
    crc = crc32c(tail) if crc is None else crc
    return struct.pack(">qiibI", base, len(tail) + 9, -1, magic, crc) + tail


def message_set(magic, value):
    """One message of the layouts before version 2."""
    import zlib
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", 0) if magic else b"") + struct.pack(">i", -1) + data(value)
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(body)) + body


def produce_body(topic, partition, records, acks=-1):
    part = struct.pack(">i", partition) + data(records)
    return struct.pack(">hhi", -1, acks, 10000) + array([string(topic) + array([part])])


def produce(connection, topic, records, partition=0, acks=-1, version=7):
    """Produce v5 to v7: (error code, base offset) of one partition."""
    reply = connection.call(PRODUCE, version, produce_body(topic, partition, records, acks))
    reply.i32(), reply.string(), reply.i32(), reply.i32()
    return reply.i16(), reply.i64()


def fetch_body(topic, offset, partition=0, *, wait=500, least=1, most=1 << 20, session=(0, -1), epoch=-1):
    part = struct.pack(">iiqqi", partition, epoch, offset, -1, most)
    return (struct.pack(">iiiib", -1, wait, least, most, 0) + struct.pack(">ii", *session)
            + array([string(topic) + array([part])]) + array([]) + string(""))


def fetch(connection, topic, offset, partition=0, **options):
    """Fetch v11: (error code, partition error code, high watermark, records)."""
    reply = connection.call(FETCH, 11, fetch_body(topic, offset, partition, **options))
    reply.i32()
    error, _session = reply.i16(), reply.i32()
    if reply.i32() == 0:
        return error, None, None, b""
    reply.string(), reply.i32(), reply.i32()
    code, high = reply.i16(), reply.i64()
    reply.i64(), reply.i64(), reply.i32(), reply.i32()
    return error, code, high, reply.data()
