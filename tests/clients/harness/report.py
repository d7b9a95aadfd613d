"""Results: facts that hold or not, as lines on a terminal and as a table in Markdown."""

import collections
import datetime
import re

# A fact that was skipped could not be asked of this broker; the reason says why.
Fact = collections.namedtuple("Fact", "name ok seconds reason is_skipped", defaults=(False,))


def print_facts(client, version, facts):
    for fact in facts:
        mark = "skip" if fact.is_skipped else "ok  " if fact.ok else "FAIL"
        print(f"{mark} {client} {version or '-'}: {fact.name.replace('_', ' ')} ({fact.seconds:.1f} s)", flush=True)
        if not fact.ok or fact.is_skipped:
            print(f"     {fact.reason}", flush=True)


def print_total(results):
    """The closing line; returns how many facts do not hold."""
    facts = [f for _, _, fs in results for f in fs]
    failed, skipped = sum(not f.ok for f in facts), sum(f.is_skipped for f in facts)
    print(f"{len(facts) - failed - skipped} passed, {failed} failed, {skipped} skipped", flush=True)
    return failed


# What other brokers were seen to do wrong, and the facts that show it right here.
TRAPS = """
a fetch inside a batch returns the whole batch | franz a_fetch_inside_a_batch_returns_the_whole_batch
records of aborted transactions do not leak | franz aborted_records_do_not_leak_wherever_a_reader_starts
chained groups that rebalance at once keep their members | franz_suite TestGroupETL
`max.message.bytes` is enforced | java a_record_over_the_topics_limit_is_refused
records without key fail one by one on a compacted topic | franz keyless_records_on_a_compacted_topic_fail_by_their_indexes
offsets are found by time | java offsets_for_times_are_exact, franz list_offsets_answers_every_special_time
CreatePartitions tells a result for each topic | franz kadm_adds_partitions
committed offsets come back with their metadata | franz committed_offsets_return_with_metadata_and_epoch
DescribeConfigs tells defaults | librdkafka admin_describes_topic_settings_with_defaults_and_sources
`transaction.timeout.ms` has a limit | franz a_timeout_beyond_the_brokers_limit_is_refused
EndTxn works in every version | franz every_version_of_end_txn_commits_and_aborts, \
    franz end_txn_of_a_stranger_is_refused_in_every_version
asking for a topic creates it where the client wants that, and nowhere else | franz a_produce_may_create_its_topic, \
    franz an_unknown_topic_is_reported
no request stops the next one | hostile damaged_requests_never_stop_the_broker
Produce is listed from version 0 | hostile api_versions_offers_produce_from_version_0
ApiVersions of an unknown version is answered in version 0 | hostile api_versions_of_an_unknown_version_is_answered_in_version_0
features that old Java clients cannot take are not told to them | hostile a_feature_whose_lowest_level_is_0_is_told_from_version_4_on
a removed version closes the connection | hostile an_unknown_version_closes_the_connection
"""


def traps(parts):
    """Where each trap is shown to be none; a fact that its client's part does not have is said to be missing."""
    lines = ["## Traps that other brokers fell into", ""]
    for line in TRAPS.replace("\\\n", "").strip().splitlines():
        trap, facts = line.split(" | ")
        shown = []
        for client, name in (fact.split() for fact in facts.split(", ")):
            words = name.replace("_", " ")
            is_shown = f"\n- {words}\n" in parts.get(client, "") + "\n"
            shown.append(f"{client}, *{words}*" if is_shown else f"{client}, *{words}* (**not shown yet**)")
        lines.append(f"- {trap}: {'; '.join(shown)}")
    return "\n".join(lines)


# Features, and the words by which the facts that show them are known. A fact may show several, or none that has a row.
FEATURES = {
    "keys and headers of records": r"\bheaders\b",
    "compression": r"\bcodec\b|gzip|snappy|lz4|zstd",
    "acks 0, 1 and all": r"\backs\b|every kind of acknowledgement",
    "idempotent producer": r"idempotent|repeated batch|gap in the sequence",
    "a record over the limit is refused": r"over the (topics )?limit (is|fails)|LargeMessage",
    "topics created by asking for them": r"producing creates|produce may create",
    "seek, both ends": r"\bseek\b|both ends|start end and tail|watermarks|starts at any offset",
    "offsets by time": r"offsets (for|by) time|times select|from a time|every (special )?time|Lookback",
    "offsets out of range": r"offset out of range",
    "transactions": r"commits and aborts|committed transactions|aborted (transactions are|records do)|TestTxn|exactly once",
    "offsets in transactions": r"offsets .*transaction|consume transform produce|TestTxn|groups and transactions",
    "fencing of the older producer": r"\bfence[sd]\b",
    "group, classic protocol": r"^(eager |cooperative |sticky |two )?members share|cooperative (member|rebalance)|"
                               r"Test(GroupETL|TxnEtl)/(?!.*848)|GroupSimple/classic|protocols online",
    "group, KIP-848 protocol": r"consumer protocol|848|protocols online",
    "cooperative rebalance": r"cooperative",
    "static members": r"static",
    "subscription to a pattern": r"\bpattern\b|Regex",
    "commits with metadata": r"committed offsets .*metadata",
    "admin: topics": r"(admin|kadm|topics) creates",
    "admin: more partitions": r"adds partitions|\bgrows\b",
    "admin: settings": r"(describes|alters)( and alters| topic| the brokers| broker)* settings|kafka configs",
    "admin: delete records": r"deletes? records",
    "admin: groups and their offsets": r"(admin|consumer groups) .*\b(groups?|offsets of a|resets)\b|group is deleted",
    "admin: transactions": r"transactions (are listed|lists)|hanging transaction|what hangs|describes producers",
    "admin: log directories": r"log dirs?\b",
    "admin: reassignment": r"reassign",
    "metrics of clients (KIP-714)": r"pushes",
    "state, windows and joins": r"window|\bjoin(ed)?\b (with|what|through)|lost state",
    "files as Kafka's tools read them": r"dump log",
}


def facts_of(part):
    """The names of the facts that hold, as the page has them."""
    return [line[2:] for line in part.splitlines() if line.startswith("- ") and not line.startswith("- **")]


def features(parts, order):
    """The clients that each feature was seen to work with. Suites without a client behind them are left out."""
    lines = ["## What was seen to work, and with which clients", "", "By the facts that hold, below.", "", "| feature | clients |", "| --- | --- |"]
    seen = {client: facts_of(parts[client]) for client in order if client in parts and client not in ("hostile", "expiring", "operator")}
    for feature, words in FEATURES.items():
        shows = re.compile(words, re.IGNORECASE)
        clients = [client for client, facts in seen.items() if any(map(shows.search, facts))]
        lines.append(f"| {feature} | {', '.join(clients) or '**nobody yet**'} |")
    return "\n".join(lines)


CLIENTS = """
## Clients

| client | version | facts that hold | run on |
| --- | --- | --- | --- |
"""


def write_markdown(path, results, order):
    """Writes the parts of the clients that ran; those of the others stay as they are in the file."""
    rows, parts = old_parts(path)
    today = datetime.date.today().isoformat()
    for client, version, facts in results:
        asked = [fact for fact in facts if not fact.is_skipped]
        rows[client] = f"| {client} | {version} | {sum(f.ok for f in asked)} of {len(asked)} | {today} |"
        lines = [f"## {client} {version}", ""]
        for fact in facts:
            words = fact.name.replace("_", " ")
            not_so = "not asked" if fact.is_skipped else None if fact.ok else "not yet"
            lines.append(f"- **{not_so}:** {words} ({fact.reason})" if not_so else f"- {words}")
        parts[client] = "\n".join(lines)
    known = [client for client in order if client in parts]
    table = "\n".join(rows[client] for client in known)
    sections = [features(parts, order), *(parts[client] for client in known), traps(parts)]
    path.write_text(introduction(path) + CLIENTS + table + "\n\n" + "\n\n".join(sections) + "\n")


def introduction(path):
    """What the page says above the clients, by hand: where we knowingly answer otherwise than Kafka."""
    above, heading, _ = (path.read_text() if path.exists() else "").partition(CLIENTS)
    return above if heading else "# Compatibility\n"


def old_parts(path):
    """The table's row and the section of every client in the page as it is."""
    rows, parts = {}, {}
    for section in path.read_text().split("\n## ")[1:] if path.exists() else []:
        client = section.split(" ", 1)[0]
        if client not in ("Where", "Traps", "What"):
            parts[client] = f"## {section.strip()}"
    for line in path.read_text().splitlines() if path.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in parts and len(cells) == 4:
            rows[cells[0]] = line
    return rows, {client: part for client, part in parts.items() if client in rows}
