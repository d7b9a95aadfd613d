"""Facts that programs of other languages know, asked for on their own and told as facts of the test that asks.

A program has such a fact where SPECIAL names it: what it needs of the broker is not there in a run of the program itself.
"""

import os
import subprocess
import sys

from . import installs
from .check import that

PROGRAMS = {
    "java": lambda: [*installs.java_command("384m", "WARN", installs.java_classpath()), "clients.Main"],
    "franz": lambda: [installs.FRANZ],
    "sarama": lambda: [installs.SARAMA],
    "kafkajs": lambda: ["node", installs.HERE / "kafkajs/test.js"],
}


def ask(program, fact, seconds, **env):
    command = list(map(str, PROGRAMS[program]()))
    # A JVM on a machine that does more takes long to start, and its clients with it.
    env["PATIENCE"] = str(4 * int(os.environ.get("PATIENCE", "1")))
    done = subprocess.run(command, env=dict(os.environ, ONLY=fact, SPECIAL=fact, **env), capture_output=True, text=True, timeout=seconds,
                          check=False)
    print(done.stderr[-20_000:], file=sys.stderr)
    result = next((line for line in done.stdout.splitlines() if fact in line), f"nothing: {done.stderr[-300:]}")
    that(result.startswith("pass "), result)
