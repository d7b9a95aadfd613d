"""Every process the comparison starts, and their end.

Invariant: no process outlives the comparison. Each has a session of its own
that is killed at exit, and the kernel kills it when the comparison itself is
killed. Processes are started from the main thread only: the kernel ties that
last promise to the thread that started them.
"""
import atexit
import ctypes
import json
import os
import resource
import signal
import subprocess
import time

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1

# Real-time priorities with --fifo: servers above clients, so that a server
# never waits for the client that waits for it.
SERVER_PRIORITY = 20
CLIENT_PRIORITY = 10


class ClientFailed(Exception):
    """A client ended with an error, or did not end in time."""


def raise_file_limit():
    """Brokers with many partitions hold many files open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def fifo_allowed():
    """Whether this user may use real-time priorities; tried on a child, not on ourselves."""
    pid = os.fork()
    if pid == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


class Processes:
    def __init__(self, fifo):
        self.fifo = fifo
        self.live = []
        atexit.register(self.kill_all)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    @staticmethod
    def _on_signal(number, _frame):
        raise SystemExit(128 + number)

    def _setup(self, priority):
        def in_child():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if self.fifo:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        return in_child

    def start(self, command, priority, **options):
        process = subprocess.Popen([str(c) for c in command], start_new_session=True,
                                   preexec_fn=self._setup(priority), stdin=subprocess.DEVNULL, **options)
        self.live.append(process)
        return process

    def server(self, command, log_path, cwd, env):
        with open(log_path, "ab") as log:
            return self.start(command, SERVER_PRIORITY, stdout=log, stderr=log, cwd=cwd, env=env)

    def begin(self, command):
        """Starts a client whose result `finish` gives."""
        return self.start(command, CLIENT_PRIORITY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process, timeout):
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill(process)
            process.communicate()
            raise ClientFailed(f"not done after {timeout:.0f} s: {' '.join(process.args[:3])}") from None
        finally:
            if process.poll() is not None and process in self.live:
                self.live.remove(process)
        if process.returncode:
            reason = (err.strip() or out.strip()).splitlines()
            raise ClientFailed(reason[-1] if reason else f"ended with status {process.returncode}")
        return out

    def client(self, command, timeout):
        """Runs a client to its end and gives the JSON object that it printed."""
        return parse(self.finish(self.begin(command), timeout))

    def stop(self, process, timeout):
        """Asks a process to end; gives whether it did in time. It is gone in any case."""
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill(process)
                return False
        if process in self.live:
            self.live.remove(process)
        return True

    def kill(self, process):
        if process.poll() is None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        if process in self.live:
            self.live.remove(process)

    def kill_all(self):
        for process in list(self.live):
            self.kill(process)


def parse(out):
    try:
        return json.loads(out)
    except ValueError:
        raise ClientFailed(f"printed no JSON: {out[:200]!r}") from None


def children_cpu():
    """Processor time of all children that have ended: the clients, while servers live on."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wait_until(question, timeout, pause=0.05):
    """Asks until the answer is true; gives whether it ever was."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if question():
            return True
        time.sleep(pause)
    return False
