"""Charts as SVG, written by hand: throughput over connections, and over message size.

A line is the median of a side, the band behind it the range from minimum to
maximum. Colours tell the sides apart in print and for most colour-blind eyes,
and each line carries its name at its end.
"""
import math
import statistics
from html import escape

from .presets import PRESETS

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 74, 104, 58, 52
COLOURS = {"esker": "#0b6e4f", "esker-before": "#2b59c3", "esker-os": "#6fb98f", "kafka": "#c8553d", "kafka-sync": "#8d6a9f",
           "esker-3": "#0b6e4f", "esker-3-before": "#2b59c3", "kafka-3": "#c8553d", "kafka-3-sync": "#8d6a9f"}
DASHES = {"esker-os": "6 4", "kafka-sync": "6 4", "kafka-3-sync": "6 4"}
INK, FAINT = "#1f2933", "#d9dee4"


def spread(preset, results, position):
    """Per side, its points: (x, minimum, median, maximum)."""
    lines = {}
    for side in COLOURS:
        points = {}
        for r in results:
            if r.preset == preset and r.side == side and not r.error and PRESETS[preset].metric in r.figures:
                points.setdefault(position(r.case), []).append(r.figures[PRESETS[preset].metric])
        if points:
            lines[side] = [(x, min(v), statistics.median(v), max(v)) for x, v in sorted(points.items())]
    return lines


def nice_step(top, count=5):
    raw = top / count
    scale = 10 ** math.floor(math.log10(raw))
    return next(m * scale for m in (1, 2, 2.5, 5, 10) if m * scale >= raw)


def human(value):
    for limit, suffix in ((1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:g}{suffix}"
    return f"{value:g}"


def apart(labels, gap=15):
    """Label heights moved until none covers another."""
    placed = []
    for y, name in sorted(labels):
        y = max(y, placed[-1][0] + gap) if placed else y
        placed.append((y, name))
    over = placed[-1][0] - (HEIGHT - BOTTOM) if placed else 0
    return [(y - max(over, 0), name) for y, name in placed]


def line_chart(title, subtitle, x_title, ticks, lines, log_y=False):
    """Ticks are (x, label) with x already on a linear scale; returns the SVG text."""
    low_x, high_x = ticks[0][0], ticks[-1][0]
    high = max(p[3] for points in lines.values() for p in points)
    low = min(p[1] for points in lines.values() for p in points)
    if log_y:
        steps = [m * 10.0 ** e for e in range(-3, 9) for m in (1, 2, 5)]
        first = max(i for i, s in enumerate(steps) if s <= low or i == 0)
        last = min(i for i, s in enumerate(steps) if s >= high)
        marks = steps[first:last + 1]
        bottom, top = math.log10(marks[0]), math.log10(marks[-1])
    else:
        step = nice_step(high)
        bottom, top = 0, step * math.ceil(high / step)
        marks = [step * i for i in range(int(top / step + 0.5) + 1)]

    def at(x, value):
        v = math.log10(max(value, 1e-9)) if log_y else value
        return (LEFT + (x - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (v - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
           f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}" role="img" aria-label="{escape(title)}">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>',
           f'<text x="{LEFT}" y="26" font-size="16" font-weight="600">{escape(title)}</text>',
           f'<text x="{LEFT}" y="44" fill="#616e7c">{escape(subtitle)}</text>']
    for mark in marks:
        y = at(low_x, mark)[1]
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{FAINT}"/>'
                   f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{human(mark)}</text>')
    for x, label in ticks:
        px = at(x, 1)[0]
        out.append(f'<text x="{px:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{escape(label)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle" fill="#616e7c">{escape(x_title)}</text>')
    labels = []
    for side, points in lines.items():
        colour, dash = COLOURS[side], f' stroke-dasharray="{DASHES[side]}"' if side in DASHES else ""
        upper = [at(x, most) for x, _, _, most in points]
        lower = [at(x, least) for x, least, _, _ in reversed(points)]
        middle = [at(x, mid) for x, _, mid, _ in points]

        def path(pixels):
            return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in pixels)
        out.append(f'<path d="{path(upper + lower)}Z" fill="{colour}" opacity="0.13"/>')
        out.append(f'<path d="{path(middle)}" fill="none" stroke="{colour}" stroke-width="2.5" stroke-linejoin="round"{dash}/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>' for x, y in middle]
        labels.append((middle[-1][1], side))
    for y, side in apart(labels):
        out.append(f'<text x="{WIDTH - RIGHT + 10}" y="{y + 4:.1f}" font-weight="600" fill="{COLOURS[side]}">{side}</text>')
    return "\n".join([*out, "</svg>", ""])


def kafkaw_chart(preset, results):
    lines = spread(preset, results, lambda case: math.log2(int(case.split("=")[1])))
    if not lines:
        return None
    ticks = [(math.log2(c), str(c)) for c in PRESETS[preset].CONNECTIONS]
    return line_chart("Appends per second over connections", "128 appenders of 2 KiB, one partition, one request outstanding per connection"
                      + (", three replicas" if preset.endswith("-3") else "") + (", sync 2 ms slower" if PRESETS[preset].slow_us else ""),
                      "connections", ticks, lines)


def size_chart(results):
    lines = spread("l20", results, lambda case: math.log10(int(case.split()[0])))
    if not lines:
        return None
    names = {10: "10 B", 100: "100 B", 1000: "1 KB", 10_000: "10 KB", 100_000: "100 KB", 1 << 20: "1 MiB"}
    ticks = [(math.log10(s), names[s]) for s in PRESETS["l20"].SIZES]
    return line_chart("MiB/s over message size", "one librdkafka producer, 6 partitions, acks=all", "value bytes", ticks, lines, log_y=True)


def draw_charts(directory, results):
    """Writes the charts that the results allow."""
    directory.mkdir(parents=True, exist_ok=True)
    charts = {f"{p}.svg": kafkaw_chart(p, results) for p in ("a24", "a24-raw", "a24-slow", "a24-3", "a24-slow-3")}
    charts["l20.svg"] = size_chart(results)
    for name, svg in charts.items():
        if svg:
            (directory / name).write_text(svg)
