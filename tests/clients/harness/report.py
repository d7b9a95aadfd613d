"""Results: facts that hold or not, as lines on a terminal and as a table in Markdown."""

import collections
import datetime

Fact = collections.namedtuple("Fact", "name ok seconds reason")


def print_facts(client, version, facts):
    for fact in facts:
        mark = "ok  " if fact.ok else "FAIL"
        print(f"{mark} {client} {version or '-'}: {fact.name.replace('_', ' ')} ({fact.seconds:.1f} s)", flush=True)
        if not fact.ok:
            print(f"     {fact.reason}", flush=True)


def print_total(results):
    """The closing line; returns how many facts do not hold."""
    facts = [f for _, _, fs in results for f in fs]
    failed = sum(not f.ok for f in facts)
    print(f"{len(facts) - failed} passed, {failed} failed", flush=True)
    return failed


# Where we knowingly answer otherwise than Kafka. Each is allowed by a test that says so.
DIFFERENCES = """
## Where we differ from Kafka 4.3

- A batch is checked by its checksum and its header. Its records are walked only where a setting of the topic asks about
  records: compaction, bounds of timestamps, another codec. Kafka walks, and decompresses, every batch. So a client that
  lies inside a batch with a right checksum is refused by Kafka and stored here; its reader finds out, nobody else is harmed.
- Produce starts at version 3, as in Kafka 4; versions 0 to 2 are listed for clients that look for them, and not served.
"""


INTRODUCTION = """# Compatibility

What clients that others wrote do against this broker. Written by `tests/clients/run --report` from its own results: each
client's part tells the run of its day. `tests/clients/run --kafka` runs the same tests against Apache Kafka 4.3.0.

| client | version | facts that hold | run on |
| --- | --- | --- | --- |
"""


def write_markdown(path, results, order):
    """Writes the parts of the clients that ran; those of the others stay as they are in the file."""
    rows, parts = old_parts(path)
    today = datetime.date.today().isoformat()
    for client, version, facts in results:
        rows[client] = f"| {client} | {version} | {sum(f.ok for f in facts)} of {len(facts)} | {today} |"
        lines = [f"## {client} {version}", ""]
        for fact in facts:
            words = fact.name.replace("_", " ")
            lines.append(f"- {words}" if fact.ok else f"- **not yet:** {words} ({fact.reason})")
        parts[client] = "\n".join(lines)
    known = [client for client in order if client in parts]
    table = "\n".join(rows[client] for client in known)
    path.write_text(INTRODUCTION + table + "\n\n" + "\n\n".join(parts[client] for client in known) + "\n" + DIFFERENCES)


def old_parts(path):
    """The table's row and the section of every client in the page as it is."""
    rows, parts = {}, {}
    for section in path.read_text().split("\n## ")[1:] if path.exists() else []:
        client = section.split(" ", 1)[0]
        if client != "Where":
            parts[client] = f"## {section.strip()}"
    for line in path.read_text().splitlines() if path.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in parts and len(cells) == 4:
            rows[cells[0]] = line
    return rows, {client: part for client, part in parts.items() if client in rows}
