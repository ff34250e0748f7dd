"""Executions end before anything else that happens at the exit of the interpreter."""

import os
import subprocess
import sys
import threading

from support.daemon.processes import python_path

from neurald.hal.errors import Cancelled
from neurald.hal.process.exit import _report

_EXITING = """
import atexit, threading
from neurald.hal.process.exit import MAX_EXIT_S, stop_at_exit
import time

class Model:
    def __init__(self, name):
        self.name = name
        stop_at_exit(self)

    def stop(self, deadline_s):
        assert deadline_s - time.monotonic() <= MAX_EXIT_S
        print(self.name)

late = []

def thread():
    create.wait()
    late.append(Model("late"))
    created.set()

def end():
    create.set()
    created.wait()
    late.append(Model("allowed"))
    print("threads")

create, created = threading.Event(), threading.Event()
threading.Thread(target=thread, daemon=True).start()
first = Model("stopped")
atexit.register(end)
second = Model("stopped")
Model("gone")
"""


def test_models_that_still_exist_are_stopped_first() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _EXITING], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.split() == ["stopped", "stopped", "late", "threads"], ended.stderr


_DAEMON_THREADS = """
import threading
import numpy as np
import neurald as nd
from support.models.small import add_model

# Runs of this size let other threads run meanwhile, and are ended.
function = nd.compile(add_model((1000, 1000)))
array = np.zeros((1000, 1000), np.float32)
begun = threading.Barrier(4)

def run():
    function(array, array)
    begun.wait()
    while True:
        function(array, array)

for _ in range(3):
    threading.Thread(target=run, daemon=True).start()
begun.wait()
"""


def test_daemon_threads_end_without_a_word() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _DAEMON_THREADS],
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""


def test_other_ends_of_threads_are_reported() -> None:
    reported: list[object] = []
    for error in (Cancelled("the process exits"), KeyError("mine")):
        ended = threading.ExceptHookArgs((type(error), error, None, None))
        _report(reported.append, ended)
    assert [type(each.exc_value) for each in reported] == [KeyError]  # type: ignore[attr-defined]
