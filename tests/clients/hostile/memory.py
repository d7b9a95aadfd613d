"""What hostile clients may cost the broker's memory, measured at its peak and only on our own broker."""

import contextlib
import os
import pathlib

from harness.check import BROKER_KIND, BROKER_PID, Skip, that

# What hostile clients may cost a broker that idles below 50 MiB: buffers of its budget, not of their claims. Half requests may
# take half of its share in the memory of the machine (queued.max.request.bytes), which on a large machine is more.
MEMORY_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
HALF_REQUESTS_BYTES_MAX = min(max(MEMORY_BYTES // 64, 64 << 20), 1 << 30) // 2
GROWTH_BYTES_MAX = max(300 << 20, HALF_REQUESTS_BYTES_MAX + (100 << 20))


def resident_bytes():
    """Peak resident memory of the broker so far."""
    if not BROKER_PID or BROKER_KIND != "esker":
        raise Skip("memory is measured on our own broker")
    status = pathlib.Path(f"/proc/{BROKER_PID}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


@contextlib.contextmanager
def bounded(what):
    """The broker's memory does not grow past the bound while the block runs (measured where it says so)."""
    try:
        before = resident_bytes()
    except Skip:
        yield lambda: None
        return

    def measure():
        grown = resident_bytes() - before
        that(grown < GROWTH_BYTES_MAX, f"{what}: memory grew by {grown >> 20} MiB")
    yield measure
    measure()
