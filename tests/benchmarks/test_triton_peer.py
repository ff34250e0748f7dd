"""The program that runs Triton for `benchmarks/ipc/triton.py`."""

import subprocess
import sys
from pathlib import Path

_FOLDER = Path(__file__).parents[2] / "benchmarks" / "ipc"
_PROGRAM = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
import triton_peer
os.write(1, b"I1128 10:31:04 part of a line")
print("ready", file=triton_peer._ANSWERS, flush=True)
subprocess.run([sys.executable, "-c", "print('a line of the server')"], check=True)
"""


def test_lines_of_triton_do_not_come_between_its_own() -> None:
    """The benchmark waited for ever for a line that had begun with a part of one of Triton's."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(_FOLDER)], capture_output=True, check=True, timeout=60
    )
    assert done.stdout == b"ready\n"
