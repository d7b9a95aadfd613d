"""Facts in a Python test: `@fact` functions run in order, each on its own, and print one result line each.

A fact that fails does not stop those after it, so each makes its own topics. `PHASE` picks the facts that need a
running broker or the stopped one's files.
"""

import os
import pathlib
import re
import sys
import time
import traceback
import uuid

from . import raw

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
# All nodes of the cluster; clients begin at the first.
NODES = os.environ.get("NODES", BOOTSTRAP).split(",")
FACTOR = raw.FACTOR
TMP = pathlib.Path(os.environ.get("TEST_TMP", "/tmp"))
BROKER_KIND = os.environ.get("BROKER_KIND", "given")
BROKER_PID = int(os.environ.get("BROKER_PID") or 0)
DATA_DIR = os.environ.get("DATA_DIR")
_facts = []


class Skip(Exception):
    """This fact cannot be asked of this broker."""


def fact(function=None, *, phase="live"):
    def register(f):
        _facts.append((f, phase))
        return f
    return register(function) if function else register


def equal(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what or 'value'}: expected {brief(want)}, got {brief(got)}")


def that(condition, what):
    if not condition:
        raise AssertionError(what)


def brief(value):
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]}... ({len(text)} characters)"


def new_name(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def topic(prefix, partitions=1, replicas=None, **settings):
    """Makes a topic; `_` in a setting's name stands for `.`. Some records are from 1970: without a retention they stay."""
    name = new_name(prefix)
    named = {"retention.ms": "-1", **{k.replace("_", "."): v for k, v in settings.items()}}
    equal(raw.create_topic(BOOTSTRAP, name, partitions, named, replicas), 0, f"creating {name}")
    return name


def topic_here(prefix, partitions=1, **settings):
    """The same, led by the node that clients begin at: for requests that are sent there, whoever leads."""
    return topic(prefix, partitions, replicas=list(raw.nodes(BOOTSTRAP))[:FACTOR], **settings)


def main(version):
    print(f"version {version}", flush=True)
    only, phase, failed = os.environ.get("ONLY"), os.environ.get("PHASE", "live"), 0
    for function, function_phase in _facts:
        name = function.__name__
        if function_phase != phase or (only and not re.search(only, name)):
            continue
        begin, reason = time.monotonic(), None
        try:
            function()
        except Skip as skip:
            print(f"skip {name} {skip}".replace("\n", " "), flush=True)
            continue
        except Exception as error:  # a fact may fail in any way; the run goes on
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}".replace("\n", " ")
        seconds = f"{time.monotonic() - begin:.2f}"
        print(f"pass {name} {seconds}" if reason is None else f"fail {name} {seconds} {reason}", flush=True)
        failed += reason is not None
    sys.exit(1 if failed else 0)
