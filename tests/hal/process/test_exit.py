"""Executions end before anything else that happens at the exit of the interpreter."""

import subprocess
import sys

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
