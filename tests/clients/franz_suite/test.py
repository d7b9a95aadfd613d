"""franz-go's own tests against this broker: chains of groups and of transactions whose members come and go.

Runs the tests that need a broker, at a size for two cores, and turns Go's result lines into facts; a test that is asked for and
gives no line is a fact that fails. Share groups are skipped by the suite itself where a broker does not list them.
"""

import os
import re
import subprocess
import sys

from harness import installs, logins
from harness.check import BOOTSTRAP, FACTOR, NODES

# Tests that talk to a broker. The rest of the suite tests the client alone.
TESTS = ["TestGroupETL", "TestTxnEtl", "TestGroupSimple", "Test848RegexBrokerResolves", "TestConsumeRegex", "TestConsumeTopicRetrieval",
         "TestConsumeTopicRetrieval_Many", "TestAddRemovePartitions", "TestPauseIssue489", "TestPauseIssueOct2023", "TestPing",
         "TestClient_Produce", "TestClient_ProduceLargeMessages", "TestDirectPartitionPurge", "TestLookbackMilli", "TestPooling",
         "TestIssue\\d+", "TestIssueFetchLargerThanBrokerMaxReadBytes", "TestHookPollStart", "TestConsumeMaxDecompressBatchBytes",
         "TestUnknownGroupOffsetFetchPinned"]
# Reads an internal topic beside two others and ends with the second that brings something; only a fetch of one node brings all at once.
OF_ONE_NODE = ["Test848RegexBrokerResolves"]
# In a run with logins: the others do not log in.
OF_LOGINS = ["TestSCRAMAuth", "TestSCRAMAuthBadCredentials"]
RECORDS = "20000"
SECONDS_MAX = 420


def main():
    print("version", re.search(r"twmb/franz-go (\S+)", (installs.HERE / "franz/go.mod").read_text())[1], flush=True)
    tests = [t for t in TESTS if len(NODES) == 1 or t not in OF_ONE_NODE]
    login = logins.told_here()
    tests = OF_LOGINS if login else tests
    wanted = [t for t in tests if re.search(os.environ.get("ONLY", ""), t)]
    env = dict(os.environ, KGO_SEEDS=BOOTSTRAP, KGO_TEST_RF=str(FACTOR), KGO_TEST_RECORDS=RECORDS, KGO_TEST_UNSAFE="1",
               KGO_TEST_MAX_TOPIC_PARTS="7", KGO_LOG_LEVEL="none")
    if login:
        _, user, password = login
        env.update(KGO_TEST_SCRAM=f"{user}:{password}:512", KGO_TEST_SCRAM_SEEDS=BOOTSTRAP)
    command = [installs.FRANZ_SUITE, "-test.v", f"-test.timeout={SECONDS_MAX}s", "-test.parallel=4", f"-test.run=^({'|'.join(wanted)})$"]
    process = subprocess.Popen(list(map(str, command)), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace")
    failed, last, seen = 0, "", set()
    for line in process.stdout:
        print(line.rstrip(), file=sys.stderr)
        if found := re.match(r"\s*--- (PASS|FAIL|SKIP): (\S+) \(([\d.]+)s\)", line):
            word, name, seconds = found.groups()
            failed += word == "FAIL"
            seen.add(name)
            if word == "SKIP":
                print(f"skip {name} {last}", flush=True)
                continue
            print(f"{word.lower()} {name} {seconds} {last if word == 'FAIL' else ''}".rstrip(), flush=True)
        elif "_test.go:" in line or line.startswith("panic:"):
            last = line.strip()[:300]
    code = process.wait()
    for test in wanted:
        if not code and not any(re.fullmatch(test, name) for name in seen):
            failed += 1
            print(f"fail {test} 0 the suite has no such test", flush=True)
    if code and not failed:
        print(f"fail suite 0 ended with code {code}: {last}", flush=True)
    sys.exit(1 if code or failed else 0)


main()
