"""Connections that do nothing: what each costs the broker."""
import contextlib
import time

from .. import machine
from ..preset import Case, Preset
from ..processes import ClientFailed
from ..protocol import Connection


class IdleConnections(Preset):
    """Bare sockets of the harness: a client of any library would need more memory than the broker."""

    name = "idle-connections"
    title = "10,000 connections that asked for the broker's versions and are idle since"
    source = "thousands of clients that mostly wait"
    metric = "kib_each"
    unit = "KiB each"
    more_is_better = False
    sides = ("esker", "kafka")
    columns = ("connect_s", "idle_cores", "rss_mib", "others_cores")
    CONNECTIONS = 10_000

    def cases(self, bench):
        return [Case("idle")]

    own_servers = True

    def warm(self, bench, side, state):
        """Nothing: what earlier connections left would be used again."""

    def measure(self, bench, side, case, state):
        server = bench.new_server(side.kind)
        try:
            server.start()
            self._open(bench, server, 100)  # what is made once is there
            return self._open(bench, server, bench.count(self.CONNECTIONS))
        finally:
            bench.discard(server)

    @staticmethod
    def _open(bench, server, count):
        before = machine.rss_mib(server.pid)
        with contextlib.ExitStack() as stack, bench.meter(server) as figures:
            began = time.monotonic()
            for _ in range(count):
                connection = stack.enter_context(Connection(server.port))
                connection.ask_versions()
            connected = time.monotonic() - began
            time.sleep(1.0)
            cpu, at = machine.cpu_seconds(server.pid), time.monotonic()
            time.sleep(1.0)
            idle = (machine.cpu_seconds(server.pid) - cpu) / (time.monotonic() - at)
            grown = machine.rss_mib(server.pid) - before
            last = connection  # the broker still answers
            last.ask_versions()
        if not server.alive():
            raise ClientFailed("the broker ended")
        return {**figures(), "kib_each": grown * 1024 / count, "connect_s": connected, "idle_cores": idle}
