"""What a preset is, and how one is run: case by case, side by side, run after run.

Invariant: within a run, all sides do a case before the next case begins, and
the side that goes first changes from run to run. A measurement that fails is
kept as failed with its reason; it stops neither the preset nor the others.
"""
import time
import traceback
from dataclasses import dataclass, field

from .bench import say
from .build import Missing
from .processes import ClientFailed
from .protocol import RequestFailed
from .servers import ServerFailed

EXPECTED = (ClientFailed, Missing, RequestFailed, ServerFailed, OSError)


@dataclass
class Case:
    name: str
    options: dict = field(default_factory=dict)


@dataclass
class Result:
    preset: str
    case: str
    side: str
    run: int
    figures: dict
    error: str = ""


class Preset:
    name = ""
    title = ""
    source = ""
    metric = "records_per_s"
    unit = "records/s"
    more_is_better = True
    columns = ()
    sides = ("esker", "esker-os", "kafka", "kafka-sync")
    slow_us = 0
    own_servers = False  # measured alone: no shared server is up before, none of its own after

    def cases(self, bench):
        return [Case(self.title.split(",")[0])]

    def setup(self, bench, side):
        """Before the first run, for each side; what it returns is handed to `measure`."""
        return None

    def warm(self, bench, side, state):
        """One load that is not counted: a JVM just started would be measured cold otherwise."""
        self.measure(bench, side, self.cases(bench)[0], state)

    def measure(self, bench, side, case, state):
        raise NotImplementedError

    def machine(self, bench, case):
        """Figures of the machine itself for a case, or None."""
        return None

    def teardown(self, bench, side, state):
        """After the last run, for each side."""


def attempt(bench, results, preset, case, side, run, action):
    """Runs one measurement and keeps its figures, or why there are none."""
    bench.fill_memory()
    began = time.monotonic()
    figures, error = {}, ""
    try:
        figures = action()
        if figures is None:
            return
    except EXPECTED as why:
        error = f"{type(why).__name__}: {why}" if isinstance(why, OSError) else str(why)
    except Exception as why:  # a fault of ours: name it and go on
        traceback.print_exc()
        error = f"{type(why).__name__}: {why}"
    results.append(Result(preset.name, case, side, run, figures, error))
    shown = error or f"{figures.get(preset.metric, 0):,.1f} {preset.unit}"
    say(f"  {preset.name} run {run + 1} {case or '-':28s} {side:10s} {shown}  ({time.monotonic() - began:.1f} s)")


def run_preset(preset, bench):
    """All measurements of a preset."""
    results = []
    sides = [s for s in bench.sides if s.like in preset.sides]
    states, ready = {}, []
    if preset.own_servers:
        bench.end_servers()
    for side in sides:
        try:
            states[side.name] = preset.setup(bench, side)
            preset.warm(bench, side, states[side.name])
            ready.append(side)
        except EXPECTED as why:
            say(f"  {preset.name} {side.name}: cannot be prepared: {why}")
            results.append(Result(preset.name, "", side.name, 0, {}, f"cannot be prepared: {why}"))
    for run in range(bench.options.runs):
        turn = ready[run % len(ready):] + ready[:run % len(ready)] if ready else []
        for case in preset.cases(bench):
            attempt(bench, results, preset, case.name, "machine", run, lambda c=case: preset.machine(bench, c))
            for side in turn:
                attempt(bench, results, preset, case.name, side.name, run,
                        lambda s=side, c=case: preset.measure(bench, s, c, states[s.name]))
    for side in ready:
        try:
            preset.teardown(bench, side, states[side.name])
        except EXPECTED as why:
            say(f"  {preset.name} {side.name}: {why}")
    if preset.own_servers:
        bench.end_servers()
    return results
