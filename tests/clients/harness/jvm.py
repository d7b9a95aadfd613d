"""A long-running Java program beside the broker: Connect's workers, MirrorMaker.

Owns the processes it started; every one of them ends with the test. A program's output goes to its own log file.
"""

import atexit
import signal
import subprocess

from . import installs

STOP_SECONDS_MAX = 40
_started = []


class Program:
    def __init__(self, name, folder, main, *arguments, heap="512m"):
        self.log = folder / f"{name}.log"
        classpath = f"{installs.FRAMEWORK_JARS}/*"
        command = [*installs.java_command(heap, "WARN", classpath), main, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=self.log.open("ab"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder)
        _started.append(self)

    def is_alive(self):
        return self.process.poll() is None

    def stop(self):
        """Stops it as an operator would."""
        if self.is_alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.log.stem} did not stop within {STOP_SECONDS_MAX} s") from None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def last_words(self):
        return " / ".join(self.log.read_text(errors="replace").strip().splitlines()[-3:])[:500]


@atexit.register
def kill_all():
    for program in _started:
        if program.is_alive():
            program.kill()
