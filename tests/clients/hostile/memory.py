"""What hostile clients may cost the broker's memory, measured at its peak and only on our own broker."""

import contextlib
import os
import pathlib
import sys

from harness.check import BROKER_KIND, BROKER_PID, that

# What hostile clients may cost a broker that idles below 50 MiB: buffers of its budget, not of their claims. Half requests may
# take half of its share in the memory of the machine (queued.max.request.bytes), which on a large machine is more.
MEMORY_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
HALF_REQUESTS_BYTES_MAX = min(max(MEMORY_BYTES // 64, 64 << 20), 1 << 30) // 2
GROWTH_BYTES_MAX = max(300 << 20, HALF_REQUESTS_BYTES_MAX + (100 << 20))
IS_MEASURED = bool(BROKER_PID) and BROKER_KIND == "esker"


def status(name):
    text = pathlib.Path(f"/proc/{BROKER_PID}/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) << 10


def resident_bytes():
    return status("VmRSS")


def peak_bytes():
    return status("VmHWM")


def forget_peak():
    """The kernel's peak only ever grows: without this a fact is measured by the largest one before it."""
    pathlib.Path(f"/proc/{BROKER_PID}/clear_refs").write_text("5")


@contextlib.contextmanager
def bounded(what, bytes_max=GROWTH_BYTES_MAX):
    """The broker's memory does not grow past the bound while the block runs (measured where it says so, and at its end)."""
    if not IS_MEASURED:
        yield lambda: None
        return
    forget_peak()
    before = resident_bytes()

    def measure():
        grown = peak_bytes() - before
        print(f"{what}: {before >> 20} MiB grew by {grown >> 10} KiB, {bytes_max >> 10} may be", file=sys.stderr)
        that(grown < bytes_max, f"{what}: memory grew by {grown >> 20} MiB, {bytes_max >> 20} may be")
    yield measure
    measure()
