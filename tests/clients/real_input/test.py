"""Real input: a log of a few hundred thousand lines, made of this machine's own files, loaded by `esker produce`.

What kcat reads back must be the very bytes of the file. Against another broker, or without our binary, kcat loads it too.
"""

import glob
import hashlib
import json
import os
import re
import struct
import subprocess
import sys

from harness import brokers, logins, raw
from harness.check import BOOTSTRAP, BROKER_KIND, TMP, Skip, equal, fact, main, that, topic

LINES_COUNT = 300_000
STATE = TMP / "real.json"  # what the next phases have to find again
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 75


def sources():
    """Logs first, then the package manager's lists, then names from the file tree: whatever this machine has."""
    for pattern in ("/var/log/dpkg.log*", "/var/log/apt/*.log", "/var/log/*.log", "/var/lib/dpkg/info/*.list",
                    "/var/lib/dpkg/info/*.md5sums"):
        for path in sorted(glob.glob(pattern)):
            try:
                with open(path, "rb") as lines:
                    yield from lines
            except OSError:
                continue
    for folder, _, names in os.walk("/usr"):
        for name in names:
            yield os.fsencode(os.path.join(folder, name)) + b"\n"


def real_file():
    """The file, made once: lines that are not empty (a console reader drops those) and end in a newline."""
    path = TMP / "real.log"
    if not path.exists():
        kept = 0
        with path.open("wb") as out:
            for line in sources():
                line = line.rstrip(b"\r\n")
                if line:
                    out.write(line + b"\n")
                    kept += 1
                if kept == LINES_COUNT:
                    break
        equal(kept, LINES_COUNT, "lines on this machine")
    return path


def binary():
    try:
        return brokers.esker_binary()
    except brokers.StartError as error:
        if BROKER_KIND == "esker":
            raise
        raise Skip(str(error)) from error


def digest(content):
    return hashlib.sha256(content).hexdigest()


def read_back(name, partitions=1):
    parts = []
    for partition in range(partitions):
        command = ["kcat", "-b", BOOTSTRAP, "-C", "-q", "-e", "-t", name, "-p", str(partition), "-o", "beginning"]
        parts.append(subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=True).stdout)
    return parts


def end(name):
    """The end of partition 0 and its leader epoch, from ListOffsets v4."""
    body = struct.pack(">ib", -1, 0) + raw.array([raw.string(name) + raw.array([struct.pack(">iiq", 0, -1, -1)])])
    with raw.Connection(raw.leaders(BOOTSTRAP, name)[0]) as c:
        reply = c.call(raw.LIST_OFFSETS, 4, body)
    reply.i32(), reply.i32(), reply.string(), reply.i32(), reply.i32()
    equal(reply.i16(), 0, "list offsets")
    reply.i64()
    return reply.i64(), reply.i32()


def load(path, *command):
    with path.open("rb") as lines:
        done = subprocess.run(list(map(str, command)), stdin=lines, capture_output=True, timeout=300, check=False)
    that(done.returncode == 0, f"exit code {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}")


@fact
def esker_produce_loads_a_real_log_and_kcat_returns_its_bytes():
    esker, path, name = binary(), real_file(), topic("real")
    load(path, esker, "produce", *logins.esker(BOOTSTRAP), name)
    back, = read_back(name)
    print(f"{path.stat().st_size} bytes, {LINES_COUNT} lines", file=sys.stderr)
    equal(digest(back), digest(path.read_bytes()), "digest of what came back")


@fact
def kcat_loads_a_real_log_and_returns_its_bytes():
    path, name = real_file(), topic("real")
    load(path, "kcat", "-b", BOOTSTRAP, "-P", "-t", name, "-z", "zstd", "-X", "enable.idempotence=true")
    back, = read_back(name)
    equal(digest(back), digest(path.read_bytes()), "digest of what came back")
    STATE.write_text(json.dumps({"name": name, "digest": digest(back), "size": len(back), "end": LINES_COUNT}))


def same_after(what):
    """All that was acknowledged before is there, offsets go on, and a reader with an old leader epoch is told."""
    state = json.loads(STATE.read_text())
    back, = read_back(state["name"])
    equal(digest(back[:state["size"]]), state["digest"], f"digest {what}")
    log_end, epoch = end(state["name"])
    equal(log_end, state["end"], f"log end {what}")
    with raw.Connection(raw.leaders(BOOTSTRAP, state["name"])[0]) as c:
        equal(raw.produce(c, state["name"], raw.batch([b"one", b"more"])), (0, log_end), f"produce {what}")
        if epoch > 0:
            equal(raw.fetch(c, state["name"], 0, epoch=epoch - 1)[1], FENCED_LEADER_EPOCH, "fetch with the epoch before")
        equal(raw.fetch(c, state["name"], 0, epoch=epoch)[1], 0, "fetch with the epoch of now")
        equal(raw.fetch(c, state["name"], 0, epoch=epoch + 1)[1], UNKNOWN_LEADER_EPOCH, "fetch with an epoch to come")
    STATE.write_text(json.dumps({**state, "end": log_end + 2}))


@fact(phase="restarted")
def a_clean_restart_keeps_every_byte():
    same_after("after a restart")


@fact(phase="killed")
def a_kill_keeps_every_acknowledged_byte():
    same_after("after kill -9")


@fact
def six_partitions_hold_every_line_of_a_real_log_once():
    path, name = real_file(), topic("real", 6)
    load(path, "kcat", "-b", BOOTSTRAP, "-P", "-t", name, "-z", "lz4", "-X", "sticky.partitioning.linger.ms=0", "-X", "enable.idempotence=true")
    parts = read_back(name, 6)
    that(all(parts), "a partition got nothing")
    lines = sorted(line for part in parts for line in part.split(b"\n") if line)
    that(lines == sorted(path.read_bytes().split(b"\n")[:-1]), "the lines differ")


if __name__ == "__main__":
    banner = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    main("kcat " + re.search(r"Version (\S+) ", banner).group(1))
