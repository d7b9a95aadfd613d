"""Starts and stops the broker under test: Esker, Apache Kafka, or one that already runs.

Owns the processes it started and their data directories; stops each by its own id. A broker is ready when it
answers ApiVersions, not when its port accepts.
"""

import base64
import contextlib
import os
import pathlib
import random
import re
import secrets
import signal
import socket
import subprocess
import threading
import time

from . import installs, logins, raw

ROOT = pathlib.Path(__file__).resolve().parents[3]
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30
# Clients have begun by then, and the quickest has not ended; away for longer than a session of nine seconds.
KILL_AFTER_SECONDS = 3
AWAY_SECONDS = 10
DOORS = 3  # ports of a broker at most: for clients, for those who need not log in, for the controller or its metrics
# What Esker's log says when something is wrong that no answer to a client tells.
COMPLAINTS = re.compile(r"panicked|offline:|are damaged")
_started = []


class StartError(Exception):
    """The broker did not come up; the text says what to do."""


def free_ports(count):
    """Different ports: all are held until the last is found."""
    held = [socket.socket() for _ in range(count)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def free_places(offsets):
    """A port from which all of `offsets` are free. It lies below those that the system gives away: what is given to another process meanwhile is none of these."""
    for first in random.sample(range(20_000, 31_000), 200):
        if all(_is_free(first + offset) for offset in offsets):
            return first
    raise StartError(f"no port from 20000 on has {len(offsets)} free ones behind it")


def _is_free(port):
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Broker:
    """A running broker. `pid` and `data_dir` are None for one that somebody else started."""

    def __init__(self, kind, bootstrap, process=None, data_dir=None, log=None, command=None, inside=None, http=None):
        self.command = command  # that started it
        self.inside = inside or bootstrap  # where nobody has to log in
        self.http = http  # where its metrics are, if that is known
        self.kind, self.bootstrap, self.process, self.data_dir, self.log = kind, bootstrap, process, data_dir, log
        self.pid = process.pid if process else None
        self.is_asked = False

    def is_alive(self):
        if self.process and self.process.poll() is not None:
            return False
        return any(map(raw.answers, self.bootstrap.split(",")))

    def last_words(self):
        tail = self.log.read_text(errors="replace").strip().splitlines()[-3:] if self.log and self.log.exists() else []
        code = self.process.poll() if self.process else None
        return f"exit code {code}; last log lines: {' / '.join(tail)}"

    def complaints(self):
        """The lines of Esker's log that no run should have, from all of its starts."""
        lines = self.log.read_text(errors="replace").splitlines() if self.kind == "esker" else []
        return [line for line in lines if COMPLAINTS.search(line)]

    def stop(self):
        """Stops it as an operator would. True when it went by itself, in time, with code 0 (a JVM: 143)."""
        if not self.process:
            return True
        self.ask_to_stop()
        try:
            # A broker that already stopped keeps its code: stopping twice is no error.
            return self.process.wait(STOP_SECONDS_MAX) in (0, 143)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False

    def ask_to_stop(self):
        """Once: a second signal means at once."""
        if self.process.poll() is None and not self.is_asked:
            self.is_asked = True
            self.process.send_signal(signal.SIGTERM)

    def kill(self):
        """What kill -9 does: no goodbye, whatever is not written is lost."""
        self.process.kill()
        self.process.wait()


class Nodes:
    """Several Esker brokers that are one cluster; clients begin at the first. Its processes and files are nobody's business."""

    kind, pid, data_dir, process = "esker", None, None, None

    def __init__(self, nodes):
        self.nodes, self.bootstrap = nodes, nodes[0].bootstrap

    def is_alive(self):
        return all(node.is_alive() for node in self.nodes)

    def last_words(self):
        return "; ".join(f"node {at}: {node.last_words()}" for at, node in enumerate(self.nodes, 1))

    def complaints(self):
        return [line for node in self.nodes for line in node.complaints()]

    def stop(self):
        """All are asked before the first is waited for: no node can hand its office to one that goes as well."""
        for node in self.nodes:
            node.ask_to_stop()
        return all([node.stop() for node in self.nodes])

    def kill(self):
        for node in self.nodes:
            node.kill()


def stop_all():
    for broker in _started:
        if broker.process.poll() is None:
            broker.stop()


def start(args, work, dirs=1, settings=None):
    """`dirs`: log directories of its own, all below its data directory. `settings` hold on either broker."""
    if args.bootstrap:
        broker = Broker("given", args.bootstrap)
        if not broker.is_alive():
            raise StartError(f"nothing answers at {args.bootstrap}")
        return broker
    if args.nodes > 1:
        nodes = start_nodes(args.nodes, args.rf, work, dirs, settings, args.login)
        add_user(args.login, nodes.nodes[0], work)
        return nodes
    settings = [f"{name}={value}" for name, value in (settings or {}).items()]
    broker = (start_kafka if args.kafka else start_esker)(work, dirs, settings, login=args.login)
    _started.append(broker)
    wait_ready(broker)
    add_user(args.login, broker, work)
    return broker


def doors(login, ports):
    """Addresses for clients, and in a run with logins also for nodes and whoever manages them; and the settings that this takes. All
    clients log in then, and rules are asked about them."""
    if not login:
        return [f"PLAINTEXT://127.0.0.1:{ports[0]}"], []
    settings = {
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE", "sasl.enabled.mechanisms": ",".join(logins.MECHANISMS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS"}
    return [f"CLIENTS://127.0.0.1:{ports[0]}", f"INSIDE://127.0.0.1:{ports[1]}"], [f"{k}={v}" for k, v in settings.items()]


def add_user(login, broker, work):
    """Once: a broker that starts again knows its users. By Kafka's requests, so either broker takes them."""
    done = work / "user-added"
    if not login or done.exists():
        return
    rights = [word for right in logins.RIGHTS for word in ("--allow", right)]
    command = [esker_binary(), "user", "add", login.user, "--bootstrap", broker.inside, "--password-file", login.password_file(), *rights]
    added = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if added.returncode:
        raise StartError(f"the user of the run could not be added: {added.stderr.strip()}")
    done.touch()


def start_nodes(count, factor, work, dirs, settings, login=None):
    """Nodes keep their directories and their ports from one start to the next: the others know them by these."""
    replicated = {"default.replication.factor": factor, "offsets.topic.replication.factor": factor,
                  "transaction.state.log.replication.factor": factor, "transaction.state.log.min.isr": max(1, factor - 1)}
    known = work / "ports"
    if not known.exists():
        known.write_text(" ".join(map(str, free_ports(count * DOORS))))
    ports = [known.read_text().split()[at::count] for at in range(count)]
    # Other nodes come to the first door: with logins, to that which clients log in at.
    voters = ",".join(f"{node}@127.0.0.1:{own[0]}" for node, own in enumerate(ports, 1))
    secret, nodes = work / "cluster.secret", []  # by which the nodes believe each other
    if not secret.exists():
        logins.private(secret, base64.b64encode(secrets.token_bytes(32)).decode() + "\n")
    for node, own_ports in enumerate(ports, 1):
        place = work / f"node-{node}"
        place.mkdir(exist_ok=True)
        own = {"node.id": node, "controller.quorum.voters": voters, "esker.cluster.secret.file": secret, **({} if login else {"esker.http.listen": "off"}), **replicated,
               **(settings or {})}
        nodes.append(start_esker(place, dirs, [f"{name}={value}" for name, value in own.items()], own_ports, login))
    _started.extend(nodes)
    for node in nodes:
        wait_serving(node)
    return Nodes(nodes)


def esker_binary():
    named = os.environ.get("ESKER_BIN")
    candidates = [pathlib.Path(named)] if named else [ROOT / "target/release/esker", ROOT / "target/debug/esker"]
    built = [path for path in candidates if path.exists()]
    if built:
        return max(built, key=lambda path: path.stat().st_mtime)
    raise StartError(f"no broker binary at {', '.join(map(str, candidates))}: run `cargo build --release`")


def log_dirs(data, count):
    return ",".join(str(data / str(at)) for at in range(count)) if count > 1 else str(data)


def start_esker(work, dirs=1, settings=(), ports=None, login=None):
    data, log, ports = work / "data", work / "broker.log", ports or free_ports(DOORS)
    listeners, more = doors(login, ports)
    command = [esker_binary(), "serve", "--data-dir", log_dirs(data, dirs), "--listen", ",".join(listeners)]
    http = f"127.0.0.1:{ports[2]}" if login else None
    more += [f"esker.http.listen={http}"] if http else []
    command += [word for setting in (*settings, *more) for word in ("--set", setting)]
    process = launch(command, log)
    return Broker("esker", f"127.0.0.1:{ports[0]}", process, data, log, command, inside(login, ports), http)


def inside(login, ports):
    return f"127.0.0.1:{ports[1]}" if login else None


def launch(command, log):
    return subprocess.Popen(command, stdout=log.open("ab"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def one_killed(nodes):
    """Kills one of the nodes while the block runs, and starts it again; not the first, at which clients begin."""
    is_over = threading.Event()

    def act():
        if not is_over.wait(KILL_AFTER_SECONDS):
            node = random.choice(nodes.nodes[1:])
            node.kill()
            is_over.wait(AWAY_SECONDS)
            node.process = launch(node.command, node.log)
            wait_serving(node)

    killer = threading.Thread(target=act)
    killer.start()
    try:
        yield
    finally:
        is_over.set()
        killer.join()


def start_kafka(work, dirs=1, settings=(), login=None):
    problem = installs.kafka_jars()
    if problem:
        raise StartError(problem)
    data, log, (*ports, controller) = work / "data", work / "broker.log", free_ports(DOORS)
    properties = work / "server.properties"
    listeners, more = doors(login, ports)
    if login:  # Kafka wants a module for each mechanism, and knows users of PLAIN by its settings alone
        users = f'{logins.PLAIN_MODULE} required user_{login.user}="{login.password}";'
        modules = {name: users if name == "PLAIN" else f"{logins.SCRAM_MODULE} required;" for name in logins.MECHANISMS}
        more += [f"listener.name.clients.{name.lower()}.sasl.jaas.config={module}" for name, module in modules.items()]
    properties.write_text("\n".join([
        "process.roles=broker,controller", "node.id=1", f"controller.quorum.voters=1@127.0.0.1:{controller}",
        "controller.listener.names=CONTROLLER", f"log.dirs={log_dirs(data, dirs)}",
        *(more or ["listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"]),
        f"listeners={','.join(listeners)},CONTROLLER://127.0.0.1:{controller}",
        "offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1", "group.initial.rebalance.delay.ms=0", *settings, ""]))
    java = installs.java_command("1g", "INFO")  # as its own start script
    log.write_text("")  # a second start must not be taken for ready by the first one's lines
    formatted = subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", "Y2xpZW50cy10ZXN0LTAwMQ", "-g", "-c", str(properties)],
        stdout=log.open("ab"), stderr=subprocess.STDOUT, check=False)
    if formatted.returncode:
        raise StartError(f"Kafka could not format its directory: {log.read_text()[-2_000:]}")
    process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=log.open("ab"),
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    return Broker("kafka", f"127.0.0.1:{ports[0]}", process, data, log, inside=inside(login, ports))


def wait_ready(broker):
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        if broker.process.poll() is not None:
            raise StartError(f"the broker ended while starting: {broker.last_words()}")
        is_up = "Kafka Server started" in broker.log.read_text() if broker.kind == "kafka" else True
        if is_up and raw.answers(broker.bootstrap):
            return
        time.sleep(0.02)
    raise StartError(f"the broker did not answer within {READY_SECONDS_MAX} s: {broker.last_words()}")


def wait_serving(broker):
    """A node answers ApiVersions before its cluster has counted it in; clients are served then."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    command = [esker_binary(), "topic", "list", "--bootstrap", broker.inside]
    while time.monotonic() < deadline:
        if broker.process.poll() is not None:
            raise StartError(f"the broker ended while starting: {broker.last_words()}")
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.02)
    raise StartError(f"the node did not serve within {READY_SECONDS_MAX} s: {broker.last_words()}")
