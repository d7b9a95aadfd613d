"""The command line: which presets, which sides, how often, and where the report goes.

Results are written after each preset, so that a run that is cut short keeps
what it has. The status is 0 only when every measurement succeeded.
"""
import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

from . import build, figures, machine, report
from .bench import SIDES, Bench, say
from .chart import draw_charts
from .preset import Result, run_preset
from .presets import ALIASES, PRESETS

QUICK_SCALE = 0.1


def names_of(known, aliases=None):
    def parse(text):
        names = [(aliases or {}).get(n, n) for n in text.split(",") if n]
        unknown = [n for n in names if n not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return list(dict.fromkeys(names))
    return parse


def options(arguments):
    p = argparse.ArgumentParser(prog="bench/compare", description=__doc__.split("\n")[0],
                                formatter_class=argparse.HelpFormatter)
    p.add_argument("--presets", type=names_of(PRESETS, ALIASES), default=list(PRESETS), metavar="A,B", help="presets to run")
    p.add_argument("--list", action="store_true", help="list presets and sides, and end")
    p.add_argument("--sides", type=names_of(SIDES), default=[s for s in SIDES if not s.endswith(("-before", "-rules"))], metavar="A,B", help="sides to compare")
    p.add_argument("--runs", type=int, help="interleaved runs of each preset (default: 3, with --quick 1)")
    p.add_argument("--quick", action="store_true", help="a tenth of the time and data: does it work, not how fast")
    p.add_argument("--json", type=Path, metavar="FILE", help="write all measurements")
    p.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables for a page")
    p.add_argument("--charts", type=Path, metavar="DIR", help="write SVG charts")
    p.add_argument("--from", dest="sources", type=Path, nargs="+", metavar="FILE", help="measure nothing: report on JSON files of earlier runs")
    p.add_argument("--work-dir", metavar="DIR", help="where servers keep their data while they run, below a directory that is deleted at the end (default: the system's temporary directory)")
    p.add_argument("--keep", action="store_true", help="keep the work directory")
    p.add_argument("--esker", metavar="FILE", help="the broker's binary (default: target/release/esker)")
    p.add_argument("--before", metavar="FILE", help="the binary of the sides esker-before and esker-3-before")
    p.add_argument("--esker-args", type=str.split, default=[], metavar="'ARGS'", help="further arguments of esker serve")
    p.add_argument("--fifo", action="store_true", help="real-time priorities, servers above clients, where permitted: for a machine that others use")
    p.add_argument("--full-memory", action="store_true", help="fill the page cache before each measurement, as on a machine that has been up for long: for a virtual machine whose host takes free memory back")
    p.add_argument("--sink-gib", type=float, default=2.0, help="data of the a16 preset (2)")
    p.add_argument("--retained-gib", type=float, default=10.0, help="data of the startup preset (10)")
    p.add_argument("--compact-gib", type=float, default=2.0, help="data of the compaction preset (2)")
    p.add_argument("--partitions", type=int, default=20_000, help="partitions of the partitions-20000 preset (20,000)")
    chosen = p.parse_args(arguments)
    chosen.scale = QUICK_SCALE if chosen.quick else 1.0
    chosen.runs = chosen.runs or (1 if chosen.quick else 3)
    return chosen


def show_list():
    for preset in PRESETS.values():
        print(f"{preset.name:18s} {preset.title}")
    print()
    for side in SIDES.values():
        print(f"{side.name:18s} {side.about}")


def load(sources):
    """Earlier results, later files after earlier ones; a preset measured again replaces the older."""
    facts, results = {}, []
    for path in sources:
        data = json.loads(path.read_text())
        facts = data["machine"]
        fresh = [Result(**r) for r in data["results"]]
        again = {r.preset for r in fresh}
        results = [r for r in results if r.preset not in again] + fresh
    return facts, results


def write(chosen, facts, results):
    if chosen.json:
        rows = [asdict(f) for f in figures.judge(results)]
        data = {"machine": facts, "results": [asdict(r) for r in results], "figures": rows}
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(data, indent=1) + "\n")
    if chosen.markdown:
        chosen.markdown.parent.mkdir(parents=True, exist_ok=True)
        chosen.markdown.write_text(report.markdown(facts, results))
    if chosen.charts:
        draw_charts(chosen.charts, results)


def measure(chosen):
    bench = Bench(chosen)
    results, facts = [], {}
    try:
        facts = machine.facts(bench.work)
        facts["runs"], facts["fifo"], facts["quick"] = chosen.runs, bench.fifo, chosen.quick
        facts["when"] = time.strftime("%Y-%m-%d %H:%M")
        facts["without"] = bench.missing
        if not bench.sides:
            say("no side can be run")
            return facts, results
        build_all()
        for name in chosen.presets:
            say(f"{name}: {PRESETS[name].title}")
            results += run_preset(PRESETS[name](), bench)
            print(report.preset_text(PRESETS[name], results), flush=True)
            write(chosen, facts, results)
    except KeyboardInterrupt:
        say("interrupted: reporting what there is")
    finally:
        bench.close()
    return facts, results


def build_all():
    """Builds every client before the first run; what cannot be built costs only the presets that need it."""
    for step in (build.librdkafka_client, build.franz_client, build.raw_client, build.baseline, build.java_client, build.slow_sync):
        try:
            step()
        except build.Missing as why:
            say(f"without {step.__name__}: {why}")


def main(arguments=None):
    chosen = options(arguments)
    if chosen.list:
        show_list()
        return 0
    if chosen.sources:
        facts, results = load(chosen.sources)
        for name in dict.fromkeys(r.preset for r in results):
            print(report.preset_text(PRESETS[name], results))
    else:
        facts, results = measure(chosen)
    print(report.figures_text(results))
    write(chosen, facts, results)
    failed = [r for r in results if r.error]
    for r in failed:
        say(f"failed: {r.preset} {r.case} {r.side} run {r.run + 1}: {r.error}")
    return 0 if results and not failed else 1
