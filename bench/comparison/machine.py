"""What the kernel counts: processor time, memory, device writes and flushes.

Owns every reading of /proc. Reads only; a counter that is missing reads as 0,
so that a figure made of it is visibly empty instead of ending the run.
"""
import ctypes
import os
import re
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
FILL_PIECE = 4 << 20
LIBC = ctypes.CDLL(None, use_errno=True)


def cpu_seconds(pid):
    """User and system time of a process, all threads, in seconds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    except (OSError, IndexError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def busy_seconds():
    """Processor time spent by the whole machine, steal and idle left out."""
    fields = [int(f) for f in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq = fields[:7]
    return (user + nice + system + irq + softirq) / TICKS


def rss_mib(pid):
    try:
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(found.group(1)) / 1024 if found else 0.0


def device_of(path):
    """Name in /proc/diskstats of the device that a path is on, or None."""
    dev = os.stat(path).st_dev
    want = f"{os.major(dev)} {os.minor(dev)}".split()
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[:2] == want:
            return fields[2]
    return None


def device_counts(device):
    """Bytes written to a device and flushes it was asked for, since boot."""
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[2] == device:
            return int(fields[9]) * 512, int(fields[18]) if len(fields) > 18 else 0
    return 0, 0


def settle(path):
    """Writes back everything of one file system, so that a run does not pay for the one before."""
    fd = os.open(path, os.O_RDONLY)
    try:
        LIBC.syncfs(fd)
    finally:
        os.close(fd)


def available_bytes():
    """Memory that could be had without pushing anything out but clean pages."""
    found = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    return int(found.group(1)) * 1024 if found else 0


def fill_memory(path, spare_bytes):
    """Fills the page cache with clean pages of one file, but for `spare_bytes`, as on a machine that has been up for long.

    A host that takes free memory back from a virtual machine gives each page again when
    it is first touched, which may cost more than the write into it.
    """
    pieces = max(0, available_bytes() - spare_bytes) // FILL_PIECE
    piece = bytearray(FILL_PIECE)
    with open(path, "a+b", buffering=0) as file:
        file.seek(0)
        for _ in range(pieces):
            if not file.readinto(piece):
                file.write(piece)
        os.fsync(file.fileno())


def file_system(path):
    """Type of the file system that holds a path."""
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, fstype = line.split()[:3]
        inside = os.path.realpath(path).startswith(mount.rstrip("/") + "/") or mount == "/"
        if inside and len(mount) >= len(best):
            best, kind = mount, fstype
    return kind


def facts(work_dir):
    """The machine in words, for the report."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory.group(1)) / 2**20, 1) if memory else 0,
        "kernel": os.uname().release.split("-")[0],
        "file_system": file_system(work_dir),
        "device": device_of(work_dir),
        "congestion_control": Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip(),
    }


class Reading:
    """The counters at one moment, for one server; `since` gives what happened from another to this."""

    def __init__(self, pids, device, clock, children_cpu):
        self.device, self.clock = device, clock
        self.broker = sum(map(cpu_seconds, pids))
        self.busy = busy_seconds()
        self.clients = children_cpu
        self.written, self.flushes = device_counts(device)
        self.rss = sum(map(rss_mib, pids))

    def since(self, then, records):
        secs = max(self.clock - then.clock, 1e-9)
        broker, clients = self.broker - then.broker, self.clients - then.clients
        figures = {
            "broker_cores": broker / secs,
            "client_cores_all": clients / secs,
            "others_cores": max(0.0, (self.busy - then.busy - broker - clients) / secs),
            "flushes_per_s": (self.flushes - then.flushes) / secs,
            "written_mib": (self.written - then.written) / 2**20,
            "rss_mib": self.rss,
        }
        if records:
            figures["broker_ns_per_record"] = broker / records * 1e9
            figures["client_ns_per_record"] = clients / records * 1e9
            figures["written_bytes_per_record"] = (self.written - then.written) / records
        return figures
