"""What an error code leaves known, as docs/errors.md tells it. Who judges by a code judges by the page."""

import functools
import re

from .brokers import ROOT


@functools.cache
def page():
    """{code: whether it is definite}."""
    text = (ROOT / "docs/errors.md").read_text()
    rows = re.findall(r"^\| (-?\d+) \| [A-Z_]+ \| \**(definite|indefinite)\** \|", text, re.M)
    if not rows:
        raise AssertionError("docs/errors.md has no table")
    return {int(code): outcome == "definite" for code, outcome in rows}


def is_definite(code):
    """Whether nothing was done, and nothing will be. A code that the page does not name is a mistake of the page or the broker."""
    if code not in page():
        raise AssertionError(f"error code {code} is not on the page")
    return page()[code]
