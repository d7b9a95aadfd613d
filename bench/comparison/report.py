"""Tables: one per preset, and one of the figures to reach, as text and as Markdown.

A row is a case on a side; the metric is shown as minimum, median and maximum
over the runs, everything else as median. Ratios are of medians.
"""
import statistics

from . import figures
from .presets import PRESETS

TITLES = {
    "mib_per_s": "MiB/s", "records_per_s": "records/s", "appends_per_s": "appends/s", "p50_us": "p50 us", "p99_us": "p99 us",
    "p999_us": "p99.9 us", "max_us": "max us", "mean_us": "mean us", "broker_ns_per_record": "broker ns/rec",
    "client_ns_per_record": "client ns/rec", "flushes_per_s": "flushes/s", "syncs_per_s": "syncs/s",
    "written_bytes_per_record": "disk B/rec", "rss_mib": "RSS MiB", "others_cores": "others", "first_ms": "first ms",
    "records_per_request": "recs/req", "log_overhead_bytes": "overhead B", "consumed_per_s": "consumed/s",
    "cat_mib_per_s": "cat MiB/s", "of_cat": "/ cat", "of_loopback": "/ loopback", "client_cores_all": "client cores",
    "broker_cores": "broker cores", "resident": "resident", "reader_mib_per_s": "reader MiB/s", "idle_cores": "idle cores",
    "first_s": "first s", "partitions_written": "written", "stop_ms": "stop ms", "retained_gib": "GiB kept", "create_s": "create s", "stop_s": "stop s", "start_s": "start s", "served_s": "all served s",
    "journal_gib": "journal GiB", "txns_per_s": "txns/s", "commits_per_s": "commits/s", "settled_s": "settled s", "started_s": "all started s",
    "longest_gap_ms": "gap ms", "poll_ms": "poll ms", "gap_of_poll": "/ poll", "moves": "moves", "rolled_s": "rolled s",
    "kib_each": "KiB each", "connect_s": "connect s", "compact_mib_per_s": "MiB/s", "quiet_p99_us": "quiet p99 us", "beside_p99_us": "p99 us",
    "of_quiet": "/ quiet", "kept_mib": "kept MiB", "live_mib": "live MiB", "taken_s": "took s",
    "lowest_per_s": "lowest/s", "highest_per_s": "highest/s", "deviation_per_s": "deviation", "fetches": "fetches",
}
# One of the two processors used by others for a third of the time: the row is marked.
NOISY_CORES = 0.3

# What a side is divided by; a cluster by one node as well.
OTHERS = ("esker", "esker-before", "esker-rules", "kafka", "kafka-sync", "esker-3-before", "esker-3-rules", "kafka-3", "kafka-3-sync", "machine")

def number(value):
    if value is None:
        return ""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 0.1:
        return f"{value:.2f}"
    return f"{value:.3g}" if size >= 0.0005 else "0"


def rows_of(preset, results):
    """Heads and rows of a preset's table."""
    mine = [r for r in results if r.preset == preset.name]
    groups = {}
    for r in mine:
        groups.setdefault((r.case, r.side), []).append(r)
    cases = list(dict.fromkeys(r.case for r in mine))
    order = ["machine", "esker", "esker-before", "esker-rules", "esker-os", "kafka", "kafka-sync", "esker-3", "esker-3-before", "esker-3-rules", "kafka-3", "kafka-3-sync"]
    columns = [c for c in preset.columns if any(c in r.figures for r in mine)]
    heads = ["case", "side", f"{preset.unit} min", "median", "max", *(f"/ {other}" for other in OTHERS), *(TITLES.get(c, c) for c in columns)]
    rows = []
    for case in cases:
        def median(side, name):
            values = [r.figures[name] for r in groups.get((case, side), []) if not r.error and name in r.figures]
            return statistics.median(values) if values else None
        for side in sorted({r.side for r in mine if r.case == case}, key=order.index):
            group = groups[(case, side)]
            values = [r.figures[preset.metric] for r in group if not r.error and preset.metric in r.figures]
            if not values:
                rows.append([case, side, "failed"] + [""] * (len(heads) - 3))
                continue
            middle = statistics.median(values)
            ratios = []
            for other in OTHERS:
                base = median(other, preset.metric)
                ratios.append(number(middle / base) if base and side not in (other, "machine") and (other != "esker" or side == "esker-3") else "")
            noisy = (median(side, "others_cores") or 0) > NOISY_CORES
            rows.append([case, side + ("~" if noisy else ""), number(min(values)), number(middle), number(max(values)),
                         *ratios, *(number(median(side, c)) for c in columns)])
    keep = [i for i in range(len(heads)) if i < 5 or any(row[i] for row in rows)]
    return [heads[i] for i in keep], [[row[i] for i in keep] for row in rows]


def text_table(heads, rows):
    widths = [max(len(str(r[i])) for r in [heads, *rows]) for i in range(len(heads))]

    def line(cells):
        return "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))).rstrip()
    return "\n".join([line(heads), line(["-" * w for w in widths]), *map(line, rows)])


def markdown_table(heads, rows):
    def line(cells):
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"
    return "\n".join([line(heads), line(["---", "---", *["---:"] * (len(heads) - 2)]), *map(line, rows)])


def failures(preset, results):
    """One line for each case and side that failed in some run."""
    lines = {(r.case, r.side): r.error for r in results if r.preset == preset.name and r.error}
    return [f"{' '.join(filter(None, key))} failed: {error}" for key, error in lines.items()]


def preset_text(preset, results):
    lines = [f"\n{preset.name}: {preset.title}", text_table(*rows_of(preset, results)), *failures(preset, results)]
    return "\n".join(lines) + "\n"


def figure_rows(results):
    heads = ["preset", "figure", "to reach", "median", "best", "reached"]
    rows = [[f.preset, f.what, (">= " if f.at_least else "<= ") + number(f.bound), number(f.median), number(f.best),
             "yes" if f.reached else "no"] for f in figures.judge(results)]
    return heads, rows


def figures_text(results):
    heads, rows = figure_rows(results)
    return f"\nFigures to reach\n{text_table(heads, rows)}\n" if rows else "\nno figure can be computed from these results\n"


def markdown(facts, results):
    """The page: the machine, the figures, then every table."""
    out = ["# Esker beside Apache Kafka 4.3", "",
           f"{facts.get('processor')}, {facts.get('cores')} cores, {facts.get('memory_gib')} GiB, Linux {facts.get('kernel')}, "
           f"{facts.get('file_system')}, {facts.get('congestion_control')}; client and brokers share the machine. {facts.get('runs')} interleaved runs, {facts.get('when')}.", ""]
    heads, rows = figure_rows(results)
    if rows:
        out += ["## Figures to reach", "", markdown_table(heads, rows), ""]
    for name in dict.fromkeys(r.preset for r in results):
        out += [f"## {name}: {PRESETS[name].title}", "", f"After: {PRESETS[name].source}.", "",
                markdown_table(*rows_of(PRESETS[name], results)), ""]
        out += [f"- {line}" for line in failures(PRESETS[name], results)]
    out += ["`~` marks rows in which other programs used more than a third of a core.", ""]
    return "\n".join(out)
