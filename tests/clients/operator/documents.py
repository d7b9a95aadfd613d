"""Commands of the documents, run as they are written: README's session, the life of a cluster, what applications set.

A page's fenced `console` blocks are one session: `x$` is a prompt on machine x, a bare `$` on this one. A machine is a directory and an address of
its own here; `esker serve` starts its node in the background, `systemctl` stops and starts that, `esker cluster status` is asked until nothing is wrong.
Commands of Kafka are run from its jars where these are installed, and passed over elsewhere.
"""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import time

from harness import brokers, installs, raw
from harness.check import BROKER_KIND, TMP, Skip, fact, new_name, that

ROOT = brokers.ROOT
PROMPT = re.compile(r"([a-z]?)\$ (.*)")
STATE = "/var/lib/esker"
SETTINGS = "/etc/esker"
SECONDS_MAX = 90
KAFKA = {
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": installs.CONFIG_COMMAND,
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}


def steps(page):
    """The page's headings, commands with their prompts, and what the page shows below each: (kind, prompt, text, shown)."""
    found, is_fenced = [], False
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith("```"):
            is_fenced = line == "```console"
        elif is_fenced and (match := PROMPT.fullmatch(line)):
            found.append(("command", match[1], match[2].partition("  #")[0].strip(), []))
        elif is_fenced and found and found[-1][0] == "command":
            found[-1][3].append(line)
        elif line.startswith("#"):
            found.append(("heading", "", line.lstrip("# "), []))
    that(any(kind == "command" for kind, *_ in found), f"{page} has no commands")
    return found


def heads(lines):
    """Rows of column names."""
    return [line.split() for line in lines if len(line.split()) > 1 and line.replace(" ", "").isupper() and line.isascii() and line[0].isalpha()]


class Machine:
    """A directory, an address, and at most one node."""

    def __init__(self, name):
        self.name, self.home = name, TMP / new_name(f"machine-{name or 'own'}")
        self.state, self.settings = self.home / "state", self.home / "etc"
        self.home.mkdir()
        self.settings.mkdir()
        self.address = f"127.0.0.1:{brokers.free_ports(1)[0]}"
        self.unit, self.process = None, None

    def start(self):
        settings = ["--set", "esker.http.listen=off", "--set", "esker.journal.piece.bytes=1048576", "--set", "esker.journal.bytes=4194304"]
        log = (self.home / "log").open("ab")
        self.process = subprocess.Popen([*self.unit, *settings], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.home)

    def wait(self):
        """As systemd does with a unit that notifies it."""
        deadline = time.monotonic() + SECONDS_MAX
        while not raw.answers(self.address):
            that(self.process.poll() is None and time.monotonic() < deadline, f"node on {self.name} does not start: {self.log()}")
            time.sleep(0.1)

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            code = self.process.wait(brokers.STOP_SECONDS_MAX)
            that(how != signal.SIGTERM or code == 0, f"node on {self.name} ended with {code}: {self.log()}")
        self.process = None

    def log(self):
        path = self.home / "log"
        return " / ".join(path.read_text(errors="replace").splitlines()[-3:]) if path.exists() else ""


class Session:
    """The machines of one page."""

    def __init__(self, page, variables=()):
        self.page, self.machines, self.variables = page, {}, dict(variables)
        self.expected = 0  # brokers that others started for this session
        self.esker = brokers.esker_binary().resolve()
        self.here = Machine("")

    def machine(self, name):
        return self.machines.setdefault(name, Machine(name)) if name else self.here

    def local(self, text, machine):
        """A command of the page with the addresses and directories of this test."""
        text = re.sub(r"\b([a-e]):9092", lambda found: self.machine(found[1]).address, text)
        return text.replace(STATE, str(machine.state)).replace(SETTINGS, str(machine.settings))

    def run(self, prompt, text, typed=None, is_wrong=False):
        """Runs a command until it ends as the page says: `is_wrong` where that shows an error."""
        machine = self.machine(prompt)
        if text.startswith("scp "):
            return self.copy(machine, text)
        text = self.local(text, machine)
        words = shlex.split(text)
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            self.variables[name] = value
            return ""
        if words[:2] == ["esker", "serve"]:
            machine.unit = [str(self.esker), *words[1:]]
            machine.start()
            return ""
        if words[0] == "systemctl":
            if words[1] == "start":
                machine.start()
                machine.wait()
            else:
                machine.stop()
            return ""
        # A person is slower than a start.
        for socket in (word for word in words if word.endswith("/esker.sock")):
            self.wait_for(pathlib.Path(socket))
        if words[0] in KAFKA:
            if not (shutil.which("java") and installs.JARS.exists()):
                return ""
            text = shlex.join([*map(str, installs.java_command()), KAFKA[words[0]]]) + text.removeprefix(words[0])
        if words[:3] == ["esker", "repair", "--new-quorum"]:
            typed = re.search(r"cluster.id=(\S+)", (machine.state / "meta.properties").read_text())[1]
        # The status is asked as an operator asks it: until it says what it should. Other commands wait by themselves.
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            done = self.bash(text, machine, typed)
            is_done = (done.returncode != 0) == is_wrong and not self.lacks_brokers(words, done.stdout)
            if is_done or words[:3] != ["esker", "cluster", "status"] or deadline < time.monotonic():
                break
            time.sleep(0.3)
        logs = "; ".join(f"{name}: {one.log()}" for name, one in self.machines.items())
        that(is_done, f"{self.page}: {prompt}$ {text}: exit code {done.returncode}: {(done.stdout + done.stderr)[-500:]} [{logs}]")
        return done.stdout

    def copy(self, machine, text):
        """A file of one machine goes to another."""
        *_, source, target = text.split()
        name, _, path = target.partition(":")
        other = self.machine(name)
        shutil.copy(self.local(source, machine), self.local(path, other))
        return ""

    def lacks_brokers(self, words, printed):
        """A status in which a node that runs is not registered yet: a person is slower than a new cluster."""
        count = re.search(r"^brokers +(\d+)", printed, re.M)
        running = sum(one.process is not None for one in self.machines.values()) or self.expected
        return words[:3] == ["esker", "cluster", "status"] and count is not None and int(count[1]) < running

    def wait_for(self, path):
        """Something that a node makes at its first start."""
        deadline = time.monotonic() + SECONDS_MAX
        while not path.exists():
            that(time.monotonic() < deadline, f"{path} does not come to be")
            time.sleep(0.1)

    def bash(self, text, machine, typed):
        path = f"{self.esker.parent}:{os.environ['PATH']}"
        return subprocess.run(["bash", "-o", "pipefail", "-c", text], input=typed, stdin=None if typed else subprocess.DEVNULL, text=True, capture_output=True,
                              check=False, timeout=SECONDS_MAX, cwd=machine.home, env={**os.environ, "PATH": path, **self.variables})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for machine in self.machines.values():
            with contextlib.suppress(AssertionError):
                machine.stop(signal.SIGKILL)


def follow(session, at_heading=None):
    """Runs all commands of the page; checks that tables have the columns that the page shows."""
    for kind, prompt, text, shown in steps(session.page):
        if kind == "heading":
            (at_heading or {}).get(text, lambda: None)()
            continue
        printed = session.run(prompt, text)
        for head in heads(shown):
            that(head in heads(printed.splitlines()), f"{session.page}: {text}: no columns {head} in {printed[:300]!r}")


def only_for_esker():
    if BROKER_KIND != "esker":
        raise Skip("about our own command line")


@fact
def the_life_of_a_cluster_goes_as_the_page_says():
    only_for_esker()
    with Session("docs/cluster-life.md") as session:
        def lose_two():
            for name in "bc":
                session.machine(name).stop(signal.SIGKILL)
                subprocess.run(["rm", "-rf", session.machine(name).state], check=True)
        follow(session, {"Two of three are lost for good": lose_two})


@fact
def users_and_rights_come_as_the_page_says():
    only_for_esker()
    with Session("docs/security.md") as session:
        follow(session)


@fact
def what_applications_are_told_to_do_works():
    only_for_esker()
    with Session("docs/applications.md") as session:
        session.run("", "export ESKER_BOOTSTRAP=a:9092,b:9092,c:9092")
        voters = ",".join(f"{node}@{name}:9092" for node, name in enumerate("abc", 1))
        for node, name in enumerate("abc", 1):
            secret = f" --cluster-secret {session.machine('a').state}/cluster.secret" if node > 1 else ""
            session.run(name, f"esker serve --node-id {node} --voters {voters} --data-dir {STATE}{secret}")
            session.wait_for(session.machine("a").state / "cluster.secret")
        session.run("a", "esker cluster status")
        follow(session)


def log_ends(home):
    """The last line of each log of a cluster."""
    return "; ".join(f"{log.name}: {(log.read_text(errors='replace').splitlines() or [''])[-1]}" for log in [home / "cluster.log", *sorted((home / "data").glob("*.log"))])


@fact
def the_session_of_the_readme_can_be_repeated():
    only_for_esker()
    # Of the nodes, and of their metrics: ops/cluster.
    port = brokers.free_places([0, 100, 200, 552, 553, 554])
    at = [f"127.0.0.1:{port + 100 * more}" for more in range(3)]
    with Session("README.md", {"ESKER_BOOTSTRAP": at[0], "ESKER_PORT": str(port), "ESKER_BIN": str(brokers.esker_binary().resolve())}) as session:
        session.expected = len(at)
        home, log = session.here.home, (session.here.home / "cluster.log").open("wb")
        cluster = subprocess.Popen([ROOT / "ops/cluster", home / "data"], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **session.variables})
        try:
            try:
                session.run("", "esker cluster status")
            except AssertionError as e:
                raise AssertionError(f"{e}; {log_ends(home)}") from None
            source = pathlib.Path("/var/log/dpkg.log")
            lines = source.read_bytes().count(b"\n") if source.exists() else 0
            for kind, _, text, shown in steps("README.md"):
                if kind == "heading":
                    continue
                text = text.replace("127.0.0.1:9092,127.0.0.1:9192,127.0.0.1:9292", ",".join(at)).replace("127.0.0.1:9092", at[0])
                if not lines:
                    source = home / "access.log"
                    source.write_text("".join(f"2026-05-09 07:29:24 status installed package-{number}\n" for number in range(5_000)))
                    lines = 5_000
                printed = session.run("", text.replace("/var/log/dpkg.log", str(source)), is_wrong=any(line.startswith("error:") for line in shown))
                for head in heads(shown):
                    that(head in heads(printed.splitlines()), f"README.md: {text}: no columns {head} in {printed[:300]!r}")
                if text.startswith("kcat") and text.endswith("| wc -l"):
                    that(int(printed) == 2 * lines, f"{text}: {printed} of {2 * lines} records")
        finally:
            cluster.terminate()
            cluster.wait(60)
