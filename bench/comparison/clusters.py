"""Three nodes as one server: started, stopped, killed and counted together.

Each side's nodes are what its single server is, and know each other as voters
of one quorum. A topic of a measurement has a replica on every node.
"""
import base64
import os
import pathlib
import subprocess
import time

from .protocol import Connection, RequestFailed
from .servers import Server

RETRY_PAUSE = 0.005


class Cluster(Server):
    """Nodes of one kind; the first that runs is asked."""

    def __init__(self, directory, nodes):
        self.directory, self.nodes = directory, nodes
        self.kind = f"{nodes[0].kind} cluster"
        self.replicas = len(nodes)

    @property
    def port(self):
        return next((n.port for n in self.nodes if n.alive()), self.nodes[0].port)

    @property
    def bootstrap(self):
        return ",".join(n.bootstrap for n in self.nodes)

    @property
    def pids(self):
        return [n.pid for n in self.nodes]

    def prepare(self):
        for node in self.nodes:
            node.prepare()

    def alive(self):
        return all(n.alive() for n in self.nodes)

    def syncs(self):
        return sum(n.syncs() for n in self.nodes)

    def launch(self):
        for node in self.nodes:
            node.launch()

    def start(self):
        self.launch()
        for node in self.nodes:
            node.when_serving(self._is_whole)
        self.nodes[0].furnish()

    def _is_whole(self, connection):
        known = len(connection.describe("no-such-topic-yet")[0])
        if known < len(self.nodes):
            raise OSError(f"{known} of {len(self.nodes)} brokers are known")

    def stop(self):
        return max(n.stop() for n in self.nodes)

    def kill(self):
        for node in self.nodes:
            node.kill()

    def last_words(self):
        return " / ".join(n.last_words() for n in self.nodes if not n.alive())

    def describe(self, topic):
        """Ports by node id, and leader and in-sync replicas of each partition, as one of the nodes knows them."""
        with self.connection() as connection:
            return connection.describe(topic)

    def port_of(self, topic):
        ports, partitions = self.describe(topic)
        return ports[partitions[0][0]]

    def leader_of(self, topic):
        """The node that leads partition 0, as another node than the first may be the one to know."""
        port = self.port_of(topic)
        return next(n for n in self.nodes if n.port == port)

    def wait_for_topic(self, name, partitions, timeout=60):
        """Until each partition is served by one of the nodes, and every replica is in sync."""
        deadline = time.monotonic() + timeout
        while not self._is_served(name, partitions):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name}: not every partition is served and in sync after {timeout:.0f} s")
            time.sleep(RETRY_PAUSE)

    def _is_served(self, name, partitions):
        try:
            known = self.describe(name)[1]
            if sum(1 for leader, in_sync in known if leader >= 0 and len(in_sync) == self.replicas) < partitions:
                return False
            served = 0
            for node in self.nodes:
                with Connection(node.port) as connection:
                    served += connection.served_partitions(name, partitions)
            return served >= partitions
        except (OSError, RequestFailed):
            return False

    def segments(self, topic, partition=0):
        return self.nodes[0].segments(topic, partition)


def proof(directory, binary):
    """The setting by which nodes of Esker believe each other. Builds before it know no such setting, and need none."""
    if b"--cluster-secret" not in subprocess.run([binary, "serve", "--help"], capture_output=True).stdout:
        return {}
    secret = pathlib.Path(directory) / "cluster.secret"
    if not secret.exists():
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(base64.b64encode(os.urandom(32)))
    return {"esker.cluster.secret.file": secret}


def new_cluster(kind, directory, new_node, count):
    """Nodes that know each other, with what makes a cluster of each kind: the same replication on both."""
    nodes = [new_node(number) for number in range(1, count + 1)]
    settings = {"min.insync.replicas": 2}
    if kind == "kafka":
        voters = ",".join(f"{i}@127.0.0.1:{n.controller_port}" for i, n in enumerate(nodes, 1))
        settings |= {"offsets.topic.replication.factor": count, "transaction.state.log.replication.factor": count,
                     "transaction.state.log.min.isr": 2}
    else:
        voters = ",".join(f"{i}@{n.bootstrap}" for i, n in enumerate(nodes, 1))
        settings |= {"esker.http.listen": "off", **proof(directory, nodes[0].binary)}
    for i, node in enumerate(nodes, 1):
        node.settings = {**node.settings, **settings, "node.id": i, "controller.quorum.voters": voters}
    return Cluster(directory, nodes)


