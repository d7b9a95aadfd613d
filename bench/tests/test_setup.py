"""`tests/setup` says in its first line what is missing and what for, where it cannot install it."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parents[2] / "tests" / "setup"


class Setup(unittest.TestCase):
    def test_what_is_missing_is_named_with_its_reason(self):
        with tempfile.TemporaryDirectory() as empty:
            for tool in ("bash", "id"):
                os.symlink(shutil.which(tool), pathlib.Path(empty, tool))
            done = subprocess.run(["bash", str(SETUP)], env={"PATH": empty}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        first = done.stderr.splitlines()[0]
        for words in ("kcat (a client", "python3-venv (", "build-essential ("):
            self.assertIn(words, first)


if __name__ == "__main__":
    unittest.main()
