"""Facts about the harness itself, without a broker: python3 -m unittest discover bench/tests"""
import json
import sys
import tempfile
import unittest
import xml.dom.minidom
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from comparison import cli, figures, protocol, report  # noqa: E402
from comparison.chart import draw_charts  # noqa: E402
from comparison.preset import Case, Preset, Result, run_preset  # noqa: E402
from comparison.presets import PRESETS, produce  # noqa: E402
from comparison.processes import ClientFailed, Processes  # noqa: E402


def points(preset, side, by_case, metric, runs=(1.0,)):
    return [Result(preset, case, side, run, {metric: value * factor})
            for case, value in by_case.items() for run, factor in enumerate(runs)]


def figure(results, preset, words):
    return next(f for f in figures.judge(results) if f.preset == preset and words in f.what)


class Figures(unittest.TestCase):
    def test_a_floor_divides_medians_and_bests(self):
        results = points("l11", "esker", {figures.L11: 100}, "records_per_s", (0.5, 1, 3))
        results += points("l11", "esker-os", {figures.L11: 100}, "records_per_s", (0.5, 1, 2))
        f = figure(results, "l11", "own un-synced")
        self.assertEqual((f.median, f.best, f.reached), (1.0, 1.5, True))

    def test_a_ceiling_is_missed_when_median_and_best_are_above(self):
        results = points("startup", "esker", {"new data, topic created": 400}, "start_ms", (1, 1.1, 0.9))
        f = figure(results, "startup", "first acknowledged")
        self.assertEqual((f.median, f.reached), (400, False))
        self.assertAlmostEqual(f.best, 360)

    def test_the_lowest_point_of_the_curve_counts_against_kafka(self):
        cases = {f"C={c}": 100 for c in PRESETS["a24"].CONNECTIONS}
        results = points("a24", "kafka", cases, "appends_per_s")
        results += points("a24", "esker", {**cases, "C=8": 70}, "appends_per_s")
        self.assertAlmostEqual(figure(results, "a24", "Kafka un-synced").median, 0.7)

    def test_failed_measurements_make_no_figure(self):
        results = [Result("l11", figures.L11, "esker", 0, {"records_per_s": 1.0}, "died"),
                   *points("l11", "esker-os", {figures.L11: 1}, "records_per_s")]
        self.assertEqual(figures.judge(results), [])

    def test_every_bound_names_a_preset_and_cases_that_exist(self):
        class Everything:
            """Stands for any results: notes what is asked."""
            asked = []

            def __call__(self, preset, case, side, metric=None, more=None):
                self.asked.append((preset, case))
                return 1.0
        table = Everything()
        for _, _, _, _, compute in figures.BOUNDS:
            compute(table)
        for preset, case in set(table.asked):
            self.assertIn(case, [c.name for c in PRESETS[preset]().cases(None)], preset)


class Logs(unittest.TestCase):
    def test_a_log_is_measured_when_all_of_it_is_in_its_files(self):
        class Server:
            """Its file grows a little each time somebody looks, until it is whole."""

            def __init__(self, path):
                self.path = path

            def segments(self, topic):
                with self.path.open("ab") as log:
                    log.write(bytes(min(100, 1_500 - self.path.stat().st_size)))
                return [self.path]
        with tempfile.TemporaryDirectory() as directory, mock.patch.object(produce, "SETTLED_SECONDS", 0.2):
            server, out = Server(Path(directory, "0.log")), {"records": 10}
            PRESETS["n36"]().after(server, "t", {"size": 100}, out)
        self.assertEqual(out["log_overhead_bytes"], 50)


class Reports(unittest.TestCase):
    def test_a_failed_side_is_named_with_its_reason_and_others_keep_their_rows(self):
        results = [Result("l11", figures.L11, "esker", 0, {}, "it printed nothing"),
                   *points("l11", "kafka", {figures.L11: 1000}, "records_per_s")]
        text = report.preset_text(PRESETS["l11"], results)
        self.assertIn("esker failed: it printed nothing", text)
        self.assertIn("1,000", text)

    def test_rows_with_a_busy_machine_are_marked(self):
        results = [Result("l11", "x", "kafka", 0, {"records_per_s": 1.0, "others_cores": 0.9})]
        self.assertIn("kafka~", report.preset_text(PRESETS["l11"], results))

    def test_charts_are_well_formed_and_name_their_sides(self):
        cases = {f"C={c}": 1000.0 * c for c in PRESETS["a24"].CONNECTIONS}
        results = points("a24", "esker", cases, "appends_per_s", (0.8, 1, 1.2)) + points("a24", "kafka", cases, "appends_per_s")
        results += points("l20", "kafka", {f"{s} B": 0.3 * s for s in PRESETS["l20"].SIZES}, "mib_per_s")
        with tempfile.TemporaryDirectory() as directory:
            draw_charts(Path(directory), results)
            self.assertEqual(sorted(p.name for p in Path(directory).iterdir()), ["a24.svg", "l20.svg"])
            for path in Path(directory).iterdir():
                xml.dom.minidom.parse(str(path))
            self.assertIn(">esker<", Path(directory, "a24.svg").read_text())


class Runs(unittest.TestCase):
    class Bench:
        def __init__(self, runs, sides):
            self.options = type("O", (), {"runs": runs})
            self.sides = [type("S", (), {"name": n, "like": n}) for n in sides]
            self.fills = 0

        def fill_memory(self):
            self.fills += 1

    def test_sides_take_turns_and_a_failing_one_stops_nobody(self):
        order = []

        class Load(Preset):
            name, metric = "l11", "records_per_s"

            def cases(self, bench):
                return [Case("a"), Case("b")]

            def warm(self, bench, side, state):
                pass

            def measure(self, bench, side, case, state):
                order.append((case.name, side.name))
                if side.name == "kafka":
                    raise ClientFailed("no")
                return {"records_per_s": 1.0}
        bench = self.Bench(2, ["esker", "kafka"])
        results = run_preset(Load(), bench)
        self.assertEqual(order, [("a", "esker"), ("a", "kafka"), ("b", "esker"), ("b", "kafka"),
                                 ("a", "kafka"), ("a", "esker"), ("b", "kafka"), ("b", "esker")])
        self.assertEqual(sum(1 for r in results if r.error), 4)
        self.assertEqual(bench.fills, len(order) + 4, "before each measurement, those of the machine too")

    def test_a_client_that_hangs_is_killed_and_reported(self):
        processes = Processes(fifo=False)
        with self.assertRaisesRegex(ClientFailed, "not done after"):
            processes.client(["sleep", "30"], 0.1)
        self.assertEqual(processes.live, [])

    def test_a_client_that_fails_gives_its_last_words(self):
        with self.assertRaisesRegex(ClientFailed, "^no leader$"):
            Processes(fifo=False).client(["sh", "-c", "echo one >&2; echo no leader >&2; exit 1"], 5)


class Wire(unittest.TestCase):
    def test_checksum_is_castagnoli(self):
        self.assertEqual(protocol.crc32c(b"123456789"), 0xE3069283)

    def test_a_batch_says_its_own_length_and_sum(self):
        batch = protocol.one_record_batch(b"v" * 300)
        self.assertEqual(int.from_bytes(batch[8:12], "big"), len(batch) - 12)
        self.assertEqual(int.from_bytes(batch[17:21], "big"), protocol.crc32c(batch[21:]))

    def test_varints_are_zigzag(self):
        self.assertEqual([protocol.varint(n) for n in (0, -1, 1, 300)], [b"\0", b"\1", b"\2", b"\xd8\x04"])


class CommandLine(unittest.TestCase):
    def test_aliases_and_unknown_presets(self):
        self.assertEqual(cli.options(["--presets", "n37,l11"]).presets, ["n36", "l11"])
        with self.assertRaises(SystemExit):
            cli.options(["--presets", "l99"])

    def test_later_files_replace_a_preset(self):
        with tempfile.TemporaryDirectory() as directory:
            paths = []
            for i, value in enumerate((1.0, 2.0)):
                path = Path(directory, f"{i}.json")
                row = {"preset": "l11", "case": "x", "side": "kafka", "run": 0, "figures": {"records_per_s": value}, "error": ""}
                path.write_text(json.dumps({"machine": {}, "results": [row]}))
                paths.append(path)
            self.assertEqual([r.figures["records_per_s"] for r in cli.load(paths)[1]], [2.0])


if __name__ == "__main__":
    unittest.main()
