"""The few requests the harness itself sends: create, alter, delete and find topics, append one record.

Owns one blocking connection in fixed old versions that every broker of the
last years serves, so that preparing a run costs no client start-up and the
first acknowledged append after a start can be timed to a millisecond. It
measures nothing else: loads are made by stock clients.
"""
import socket
import struct
import time

PRODUCE, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, INCREMENTAL_ALTER_CONFIGS = 0, 2, 3, 18, 19, 20, 44
VERSIONS = {PRODUCE: 3, LIST_OFFSETS: 1, METADATA: 4, API_VERSIONS: 0, CREATE_TOPICS: 2, DELETE_TOPICS: 1,
            INCREMENTAL_ALTER_CONFIGS: 0}
TOPIC_RESOURCE, SET = 2, 0
REPLY_BYTES_MAX = 64 << 20

ERRORS = {3: "unknown topic or partition", 5: "leader not available", 6: "not leader", 7: "request timed out",
          36: "topic already exists", 37: "invalid partitions", 38: "invalid replication factor",
          40: "invalid config", 41: "not controller", 42: "invalid request", 44: "policy violation"}


class RequestFailed(Exception):
    def __init__(self, what, code, message=None):
        super().__init__(f"{what}: {message or ERRORS.get(code, f'error {code}')}")
        self.code = code


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def varint(n):
    n = n << 1 ^ n >> 63
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def one_record_batch(value):
    body = b"\0" + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + varint(0)
    record = varint(len(body)) + body
    now = int(time.time() * 1000)
    summed = struct.pack(">hiqqqhii", 0, 0, now, now, -1, -1, -1, 1) + record
    rest = struct.pack(">ib", -1, 2) + struct.pack(">I", crc32c(summed)) + summed
    return struct.pack(">qi", 0, len(rest)) + rest


def text(s):
    return struct.pack(">h", len(s.encode())) + s.encode()


def array(items):
    return struct.pack(">i", len(items)) + b"".join(items)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return values[0] if len(values) == 1 else values

    def text(self):
        n = self.take("h")
        if n < 0:
            return None
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def many(self, read):
        return [read() for _ in range(self.take("i"))]


class Connection:
    def __init__(self, port, timeout=60.0):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _read(self, n):
        out = bytearray()
        while len(out) < n:
            piece = self.socket.recv(n - len(out))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            out += piece
        return bytes(out)

    def ask(self, api, body):
        self.count += 1
        frame = struct.pack(">hhi", api, VERSIONS[api], self.count) + text("bench") + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        size = struct.unpack(">i", self._read(4))[0]
        if not 4 <= size <= REPLY_BYTES_MAX:
            raise ConnectionError(f"a reply of {size} bytes")
        reply = Reader(self._read(size))
        if reply.take("i") != self.count:
            raise ConnectionError("a reply to another request")
        return reply

    def create_topic(self, name, partitions, config, replicas=1):
        settings = [text(k) + text(str(v)) for k, v in config.items()]
        topic = text(name) + struct.pack(">ih", partitions, replicas) + array([]) + array(settings)
        reply = self.ask(CREATE_TOPICS, array([topic]) + struct.pack(">ib", 60000, 0))
        reply.take("i")
        for _, code, message in reply.many(lambda: (reply.text(), reply.take("h"), reply.text())):
            if code:
                raise RequestFailed(f"create {name}", code, message)

    def alter_topic(self, name, config):
        """Sets some settings of a topic and leaves the others."""
        settings = [text(k) + struct.pack(">b", SET) + text(str(v)) for k, v in config.items()]
        resource = struct.pack(">b", TOPIC_RESOURCE) + text(name) + array(settings)
        reply = self.ask(INCREMENTAL_ALTER_CONFIGS, array([resource]) + b"\0")
        reply.take("i")
        for code, message, _, _ in reply.many(lambda: (reply.take("h"), reply.text(), reply.take("b"), reply.text())):
            if code:
                raise RequestFailed(f"alter {name}", code, message)

    def ask_versions(self):
        """The first request of every client."""
        self.ask(API_VERSIONS, b"")

    def delete_topic(self, name):
        reply = self.ask(DELETE_TOPICS, array([text(name)]) + struct.pack(">i", 60000))
        reply.take("i")
        for _, code in reply.many(lambda: (reply.text(), reply.take("h"))):
            if code:
                raise RequestFailed(f"delete {name}", code)

    def led_partitions(self, name):
        """Number of partitions of a topic that have a leader."""
        return sum(1 for leader, _ in self.describe(name)[1] if leader >= 0)

    def describe(self, name):
        """The ports of the brokers by their ids, and the leader and the in-sync replicas of each partition of a topic."""
        reply = self.ask(METADATA, array([text(name)]) + b"\0")  # and do not create it
        reply.take("i")

        def int32s():
            return reply.many(lambda: reply.take("i"))

        def partition():
            code, index, leader = reply.take("hii")
            int32s()
            in_sync = int32s()
            return index, (leader if code == 0 else -1, in_sync)
        ports = {node: port for node, _, port, _ in
                 reply.many(lambda: (reply.take("i"), reply.text(), reply.take("i"), reply.text()))}
        reply.text(), reply.take("i")
        partitions = {}
        for _ in range(reply.take("i")):
            reply.take("h"), reply.text(), reply.take("b")
            partitions.update(reply.many(partition))
        return ports, [partitions[index] for index in sorted(partitions)]

    def wait_for_leaders(self, name, partitions, timeout, pause=0.02):
        """Waits until every partition has a leader, and the leader serves it."""
        deadline = time.monotonic() + timeout
        while self.led_partitions(name) < partitions or self.served_partitions(name, partitions) < partitions:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name}: not every partition is served after {timeout:.0f} s")
            time.sleep(pause)

    def served_partitions(self, name, partitions):
        """Number of partitions that answer: metadata may name a leader that does not yet know that it leads."""
        asked = array([struct.pack(">iq", p, -1) for p in range(partitions)])
        reply = self.ask(LIST_OFFSETS, struct.pack(">i", -1) + array([text(name) + asked]))

        def partition():
            return reply.take("ihqq")[1] == 0
        return sum(sum(parts) for _, parts in reply.many(lambda: (reply.text(), reply.many(partition))))

    def append(self, name, partition=0, value=b"first"):
        batch = one_record_batch(value)
        body = struct.pack(">hhi", -1, -1, 30000) + array([
            text(name) + array([struct.pack(">ii", partition, len(batch)) + batch])])
        reply = self.ask(PRODUCE, body)

        def partition_reply():
            return reply.take("ihqq")
        for _, parts in reply.many(lambda: (reply.text(), reply.many(partition_reply))):
            for index, code, _offset, _time in parts:
                if code:
                    raise RequestFailed(f"append to {name}-{index}", code)
