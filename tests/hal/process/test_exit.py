"""Executions end before anything else that happens at the exit of the interpreter."""

import subprocess
import sys

_EXITING = """
import atexit
from neurald.hal.process.exit import MAX_EXIT_S, stop_at_exit
import time

class Model:
    def __init__(self, name):
        self.name = name
        stop_at_exit(self)

    def stop(self, deadline_s):
        assert 0 < deadline_s - time.monotonic() <= MAX_EXIT_S
        print(self.name)

first = Model("stopped")
atexit.register(print, "threads")
second = Model("stopped")
Model("gone")
"""


def test_models_that_still_exist_are_stopped_first() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _EXITING], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.split() == ["stopped", "stopped", "threads"], ended.stderr
