"""What an operator meets: the commands of the documents, a port or a directory that is taken, settings files, a disk that fills up and empties again."""

import contextlib
import os
import resource
import select
import subprocess
import time

import documents  # noqa: F401  registers its facts
from harness import brokers, raw, volume
from harness.check import BOOTSTRAP, BROKER_KIND, BROKER_PID, DATA_DIR, TMP, Skip, equal, fact, main, new_name, that
from harness.own import command, running

# KAFKA_STORAGE_ERROR and REQUEST_TIMED_OUT (its commit still waits for room): the client tries again.
RETRIABLE = (56, 7)
SMALL_DISK_BYTES = 256 << 20


def refused(*args):
    """Starts a broker that must refuse: at once, not with code 0, and with one clear line (its text is returned)."""
    done = subprocess.run(command(*args), capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL)
    that(done.returncode != 0, f"it started: {done.stdout}")
    said = done.stderr.strip()
    that(0 < len(said.splitlines()) <= 3 and "panicked" not in said, f"not a clear line: {said!r}")
    return said


@fact
def a_port_in_use_is_named():
    said = refused("--data-dir", TMP / "port", "--listen", BOOTSTRAP)
    that(BOOTSTRAP in said or BOOTSTRAP.rsplit(":", 1)[1] in said, said)


@fact
def a_data_directory_in_use_names_who_holds_it():
    said = refused("--data-dir", DATA_DIR, "--listen", "127.0.0.1:0")
    that(str(DATA_DIR) in said, said)
    that(str(BROKER_PID) in said, f"the process that holds it is not named: {said}")


@fact
def directories_that_cannot_be_used_are_named():
    path = TMP / "a-file"
    path.write_text("no directory")
    for place in (path, path / "below", "/proc/esker"):
        said = refused("--data-dir", place, "--listen", "127.0.0.1:0")
        that(str(place) in said, f"{place}: {said}")


@fact
def a_server_properties_of_kafka_is_taken():
    path = TMP / "server.properties"
    path.write_text("\n".join(["# as Kafka's distribution has it", "process.roles=broker,controller", "node.id=1",
                               "controller.listener.names=CONTROLLER", "num.network.threads=3", "num.io.threads=8",
                               "socket.send.buffer.bytes=102400", "socket.receive.buffer.bytes=102400",
                               "socket.request.max.bytes=104857600", "num.partitions=7", "log.retention.hours=168",
                               "log.segment.bytes=1073741824", "offsets.topic.replication.factor=1", ""]))
    with running("--config", path, "--data-dir", TMP / "properties") as broker:
        name = new_name("seven")
        subprocess.run([brokers.esker_binary(), "produce", "--bootstrap", broker.bootstrap, name], input=b"x\n", check=True,
                       timeout=30)
        equal(len(raw.leaders(broker.bootstrap, name)), 7, "partitions of an automatic topic")
        # The port of metrics may be another broker's.
        warnings = [line.partition(" WARN ")[2] for line in broker.log.read_text().splitlines() if "broker.http" not in line]
        equal([line for line in warnings if line],
              ["broker: 3 settings have no effect here: num.io.threads, socket.receive.buffer.bytes, socket.send.buffer.bytes"])


@contextlib.contextmanager
def crowd(broker, count):
    """Connections that have asked for something."""
    held = [raw.Connection(broker.bootstrap) for _ in range(count)]
    try:
        for c in held:
            with contextlib.suppress(ConnectionError):
                c.send(raw.API_VERSIONS, 0, b"")
        yield held
    finally:
        for c in held:
            c.socket.close()


def answered(held, seconds):
    """Which of the connections have an answer, or an end, to read within the time: two lists."""
    deadline, waiting, got, ended = time.monotonic() + seconds, list(held), [], []
    while waiting and (left := deadline - time.monotonic()) > 0:
        for s in select.select([c.socket for c in waiting], [], [], left)[0]:
            c = next(c for c in waiting if c.socket is s)
            waiting.remove(c)
            try:
                c.receive()
                got.append(c)
            except ConnectionError:
                ended.append(c)
    return got, ended


@fact
def a_crowd_of_connections_leaves_descriptors_for_files():
    with running("--data-dir", TMP / "crowd", nofile=200) as broker, crowd(broker, 300) as held:
        got, ended = answered(held, 5)
        # Half of what the base leaves.
        equal((len(got), len(ended)), (60, 0), "served, and turned away: the others wait")
        for c in [c for c in held if c not in got] + got[:5]:
            c.socket.close()
        deadline = time.monotonic() + 10
        while not raw.answers(broker.bootstrap) and time.monotonic() < deadline:  # until the broker has seen them go
            pass
        name = new_name("files")
        equal(raw.create_topic(broker.bootstrap, name, 20), 0)
        with raw.Connection(broker.bootstrap) as c:
            for partition in range(20):
                equal(raw.produce(c, name, raw.batch([b"x"]), partition=partition)[0], 0)


@fact
def a_limit_of_descriptors_that_is_lowered_under_a_running_broker_breaks_no_disk():
    name = new_name("short")
    with running("--data-dir", TMP / "short") as broker, raw.Connection(broker.bootstrap) as c:
        equal(raw.create_topic(broker.bootstrap, name, 30), 0)
        before = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        held = len(os.listdir(f"/proc/{broker.pid}/fd"))
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (held, before[1]))
        # Each has its first segment to open, some time after its records are committed.
        deadline = time.monotonic() + 20
        while "Too many open files" not in broker.log.read_text():
            that(time.monotonic() < deadline, "nothing was refused")
            for partition in range(30):
                that(raw.produce(c, name, raw.batch([b"x"]), partition=partition)[0] in (0, *RETRIABLE), "a code that is not retriable")
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, before)
        for partition in range(30):
            deadline = time.monotonic() + 20
            while raw.produce(c, name, raw.batch([b"y"]), partition=partition)[0] != 0:
                that(time.monotonic() < deadline, f"partition {partition} is refused for good")
        that("offline" not in broker.log.read_text(), broker.last_words())


@fact
def a_mistake_in_settings_is_named():
    said = refused("--data-dir", TMP / "mistake", "--set", "num.partition=3")
    that("num.partition" in said and "num.partitions" in said, said)
    said = refused("--data-dir", TMP / "mistake", "--set", "log.segment.bytes=many")
    that("log.segment.bytes" in said and "many" in said, said)
    that(not (TMP / "mistake").exists(), "a refused start made its directory")


@fact
def a_limit_of_file_sizes_that_is_met_is_a_refusal_that_names_it():
    name = new_name("long")
    with running("--data-dir", TMP / "long") as broker, raw.Connection(broker.bootstrap) as c:
        c.socket.settimeout(60)
        equal(raw.create_topic(broker.bootstrap, name, 1), 0)
        equal(raw.produce(c, name, raw.batch([b"before"]))[0], 0)
        before = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (2 << 20, before[1]))
        code, _ = fill(c, name, least=0, first=1, bound=400)
        that(code in RETRIABLE, f"error {code}")
        that("ulimit -f, LimitFSIZE" in broker.log.read_text(), broker.last_words())
        that(b"before" in raw.fetch(c, name, 0)[3], "reading goes on")
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, before)
        deadline = time.monotonic() + 60
        while raw.produce(c, name, raw.batch([b"after"]))[0] != 0:
            that(time.monotonic() < deadline, "it is refused for good")
            time.sleep(0.2)
        that("offline" not in broker.log.read_text(), broker.last_words())


@contextlib.contextmanager
def strange_volume(**manners):
    """A place on a volume with these manners, the directory with what it stores, and the volume."""
    stored, place = TMP / new_name("stored"), TMP / new_name("volume")
    for folder in (stored, place):
        folder.mkdir()
    with contextlib.ExitStack() as stack:
        try:
            mounted = stack.enter_context(volume.mounted(stored, place, **manners))
        except volume.Cannot as error:
            raise Skip(str(error)) from error
        yield place / "data", stored / "data", mounted


@fact
def on_a_volume_that_folds_names_the_second_name_is_refused():
    with strange_volume(folds=True) as (data, stored, _):
        with running("--data-dir", data) as broker, raw.Connection(broker.bootstrap) as c:
            equal(raw.create_topic(broker.bootstrap, "Orders", 1), 0)
            equal(raw.produce(c, "Orders", raw.batch([b"one"]))[0], 0)
            equal(raw.create_topic(broker.bootstrap, "orders", 1), 17, "INVALID_TOPIC_EXCEPTION")
            equal(raw.create_topic(broker.bootstrap, "others", 1), 0)
        that((stored / "Orders-0").is_dir(), f"not on this volume: {os.listdir(stored)}")
        with running("--data-dir", data) as broker, raw.Connection(broker.bootstrap) as c:
            that(b"one" in raw.fetch(c, "Orders", 0)[3], "a start loses what was written")
            equal(raw.produce(c, "Orders", raw.batch([b"two"])), (0, 1))


@fact
def where_open_files_stay_a_deleted_topic_goes_once_they_are_closed():
    with strange_volume(holds_open=True) as (data, stored, mounted), running("--data-dir", data) as broker, \
            raw.Connection(broker.bootstrap) as c:
        other = new_name("other")
        equal(raw.create_topic(broker.bootstrap, other, 1), 0)
        for somebody_reads in (False, True):
            name = new_name("doomed")
            equal(raw.create_topic(broker.bootstrap, name, 1, {"segment.bytes": "1048576"}), 0)
            for _ in range(20):
                equal(raw.produce(c, name, raw.batch([os.urandom(300_000)]))[0], 0)
            first = data / f"{name}-0/00000000000000000000.log"
            wait_for(lambda: first.exists() and first.stat().st_size > 0, "a segment file")
            equal(raw.fetch(c, name, 0)[1], 0)
            before = mounted.refused
            with first.open("rb") if somebody_reads else contextlib.nullcontext():
                reply = c.call(20, 1, raw.array([raw.string(name)]) + (10_000).to_bytes(4, "big"))
                reply.i32()
                equal(reply.array(lambda: (reply.string(), reply.i16())), [(name, 0)], "delete")
                if somebody_reads:
                    wait_for(lambda: mounted.refused > before, "a removal that the volume refuses")
                equal(raw.produce(c, other, raw.batch([b"x"]))[0], 0, "the other topic")
            wait_for(lambda: not [n for n in os.listdir(stored) if n.startswith(name)], f"{name} to go from {data}")
            that(somebody_reads or mounted.refused == before, "it does not close its files before it removes them")
        that("offline" not in broker.log.read_text(), broker.last_words())


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        that(time.monotonic() < deadline, f"waited {seconds} s for {what}")
        time.sleep(0.05)


@contextlib.contextmanager
def small_disk():
    place = TMP / new_name("small")
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", place], capture_output=True, check=False)
    if made.returncode:
        raise Skip("this user may not mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=False)


def fill(connection, name, least=1, first=0, bound=3 * SMALL_DISK_BYTES // 900_000):
    """Produces until it is refused; returns the error code and how many records are stored; `first`: the offset to begin at."""
    stored, value = first, raw.batch([os.urandom(900_000)])
    for _ in range(bound):
        code, offset = raw.produce(connection, name, value)
        if code:
            that(stored >= least, f"refused after {stored} records")
            return code, stored
        equal(offset, stored, "offset")
        stored += 1
    raise AssertionError(f"{stored} records of 900 KB are taken")


@fact
def a_full_disk_refuses_produce_and_recovers_without_a_restart():
    with small_disk() as place, running("--data-dir", place / "data") as broker:
        full, other = new_name("full"), new_name("other")
        small_segments = {"segment.bytes": "1048576", "retention.ms": "-1"}
        for name in (full, other):
            equal(raw.create_topic(broker.bootstrap, name, 1, small_segments), 0, "create")
        with raw.Connection(broker.bootstrap) as c:
            c.socket.settimeout(60)
            equal(raw.produce(c, other, raw.batch([b"before"]))[0], 0)
            code, stored = fill(c, full, 10)
            that(code in RETRIABLE, f"produce on a full disk: error {code}")
            for offset in (0, stored // 2, stored - 1):
                error, part, high, records = raw.fetch(c, full, offset)
                equal((error, part), (0, 0), f"fetch of {offset} on a full disk")
                that(stored <= high <= stored + 1, f"high watermark {high} of {stored}")
                that(len(records) > 900_000, f"record {offset} does not come")
            that(b"before" in raw.fetch(c, other, 0)[3], "the other topic cannot be read")
            that(list(raw.leaders(broker.bootstrap, full)) == [0], "the full topic lost its leader")
            reply = c.call(20, 1, raw.array([raw.string(full)]) + (10_000).to_bytes(4, "big"))
            reply.i32()
            equal(reply.array(lambda: (reply.string(), reply.i16())), [(full, 0)], "delete on a full disk")
            deadline = time.monotonic() + 90
            while (code := raw.produce(c, other, raw.batch([b"after"]))[0]) != 0:
                that(code in RETRIABLE, f"produce while space comes back: error {code}")
                that(time.monotonic() < deadline, "produce is still refused 90 s after the space came back")
                time.sleep(0.2)
            log_end = raw.fetch(c, other, 0)[2]
            that(b"after" in raw.fetch(c, other, log_end - 1)[3], "the record after")


@fact
def a_broker_on_a_full_disk_stops_and_starts_when_there_is_room():
    with small_disk() as place:
        name, ballast = new_name("full"), place / "somebody-elses"
        ballast.write_bytes(bytes(48 << 20))
        with running("--data-dir", place / "data") as broker:
            equal(raw.create_topic(broker.bootstrap, name, 1, {"segment.bytes": "1048576", "retention.ms": "-1"}), 0, "create")
            with raw.Connection(broker.bootstrap) as c:
                c.socket.settimeout(60)
                _, stored = fill(c, name, 10)
            that(broker.stop(), f"it does not stop cleanly: {broker.last_words()}")
        ballast.unlink()
        with running("--data-dir", place / "data") as broker, raw.Connection(broker.bootstrap) as c:
            that(raw.fetch(c, name, 0)[2] >= stored, "acknowledged records are gone")
            equal(raw.fetch(c, name, stored - 1)[1], 0, "the last acknowledged record")


if __name__ == "__main__":
    esker = brokers.esker_binary() if BROKER_KIND == "esker" else None
    banner = subprocess.run([esker, "--version"], capture_output=True, text=True, check=True).stdout if esker else "-"
    main(banner.strip())
