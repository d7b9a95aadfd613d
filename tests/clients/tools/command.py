"""How the tools are started: from their jars, with a bound on their time and their exit code checked."""

import subprocess
import time

from harness import installs
from harness.check import BOOTSTRAP, that
from harness.logins import properties


def command(java_class, *args):
    words = list(map(str, args))
    if "--bootstrap-server" in words and properties(BOOTSTRAP):
        # In front of the word that says what to do, where a tool has one.
        behind = words.index("--bootstrap-server") + 2
        words[behind:behind] = ["--command-config", properties(BOOTSTRAP)]
    return [*installs.java_command(), java_class, *words]


def run(java_class, *args, stdin=None, code=0):
    done = subprocess.run(command(java_class, *args), input=stdin, capture_output=True, timeout=90, check=False)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{java_class} {' '.join(map(str, args))}: exit code {done.returncode}: "
                             f"{(done.stdout + done.stderr).decode()[-400:]}")
    return done


def tool(java_class, *args, **options):
    return run(java_class, "--bootstrap-server", BOOTSTRAP, *args, **options).stdout.decode()


def wait_for(question, what):
    deadline = time.monotonic() + 30
    while not question():
        that(time.monotonic() < deadline, f"{what}: not in time")
        time.sleep(0.02)
