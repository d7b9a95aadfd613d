"""Real input: a log of a few hundred thousand lines, made of this machine's own files, loaded by `esker produce`.

What kcat reads back must be the very bytes of the file. Against another broker, or without our binary, kcat loads it too.
"""

import glob
import hashlib
import os
import subprocess
import sys

from harness import brokers
from harness.check import BOOTSTRAP, BROKER_KIND, TMP, Skip, equal, fact, main, that, topic

LINES_COUNT = 300_000


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


def load(path, *command):
    with path.open("rb") as lines:
        done = subprocess.run(list(map(str, command)), stdin=lines, capture_output=True, timeout=300, check=False)
    that(done.returncode == 0, f"exit code {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}")


@fact
def esker_produce_loads_a_real_log_and_kcat_returns_its_bytes():
    esker, path, name = binary(), real_file(), topic("real")
    load(path, esker, "produce", "--bootstrap", BOOTSTRAP, name)
    back, = read_back(name)
    print(f"{path.stat().st_size} bytes, {LINES_COUNT} lines", file=sys.stderr)
    equal(digest(back), digest(path.read_bytes()), "digest of what came back")


@fact
def kcat_loads_a_real_log_and_returns_its_bytes():
    path, name = real_file(), topic("real")
    load(path, "kcat", "-b", BOOTSTRAP, "-P", "-t", name, "-z", "zstd", "-X", "enable.idempotence=true")
    back, = read_back(name)
    equal(digest(back), digest(path.read_bytes()), "digest of what came back")


@fact
def six_partitions_hold_every_line_of_a_real_log_once():
    path, name = real_file(), topic("real", 6)
    load(path, "kcat", "-b", BOOTSTRAP, "-P", "-t", name, "-z", "lz4", "-X", "sticky.partitioning.linger.ms=0")
    parts = read_back(name, 6)
    that(all(parts), "a partition got nothing")
    lines = sorted(line for part in parts for line in part.splitlines())
    that(lines == sorted(path.read_bytes().splitlines()), "the lines differ")


if __name__ == "__main__":
    main("kcat reads")
