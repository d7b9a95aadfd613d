"""Brokers that a test starts for itself, with settings of its own."""

import contextlib
import resource
import subprocess

from . import brokers
from .check import BROKER_KIND, TMP, Skip


def command(*args):
    if BROKER_KIND != "esker":
        raise Skip("about our own command line")
    return [str(brokers.esker_binary()), "serve", *map(str, args)]


@contextlib.contextmanager
def running(*args, nofile=None):
    """A broker with these arguments, ready; `nofile`: how many descriptors it may have."""
    port, = brokers.free_ports(1)
    # The limit is taken on before the program starts: it reads it once.
    limit = nofile and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile)))
    process = subprocess.Popen(command("--listen", f"127.0.0.1:{port}", *args), stdin=subprocess.DEVNULL, preexec_fn=limit,
                               stdout=(TMP / f"own-{port}.log").open("wb"), stderr=subprocess.STDOUT)
    broker = brokers.Broker("esker", f"127.0.0.1:{port}", process, log=TMP / f"own-{port}.log")
    try:
        brokers.wait_ready(broker)
        yield broker
    finally:
        broker.stop()
