"""Calibrates a device several times, and shows by how much the calibrations differ.

    python benchmarks/scheduler/calibrations.py [--device cpu] [--times 5] [--max-s 170]
        [--disturb 3] [--json FILE]

Each calibration is a process of its own with empty caches, as `neurald calibrate` is for a user.
`--disturb 3` has a program on each processor multiply matrices during ten seconds of the third one.
The spread of a cost is the largest measured one over the least, less one. A spread counts only for
costs that all calibrations have.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from result_file import Cell, Column, Result, Table, circumstances, write

_SHOWN = 10
#: A calibration takes no longer than this if the machine is not overloaded.
_USUAL_S = 30.0
#: When a disturbance begins and ends after a calibration has begun.
_DISTURBED_S = (3.0, 13.0)
_MULTIPLY = """
import os, sys, time
import numpy as np
os.sched_setaffinity(0, [int(sys.argv[1])])
matrix, end = np.ones((256, 256), np.float32), time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    matrix @ matrix
"""


def disturb() -> None:
    """Runs a program on each processor that computes for a while."""
    begin_s, end_s = _DISTURBED_S
    time.sleep(begin_s)
    programs = [
        subprocess.Popen(  # noqa: S603 - this Python
            [sys.executable, "-c", _MULTIPLY, str(processor), str(end_s - begin_s)],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
        for processor in os.sched_getaffinity(0)
    ]
    for program in programs:
        program.wait()


def calibration(device: str, *, is_disturbed: bool) -> dict[str, Any]:
    """Returns what `neurald calibrate` measures in a process of its own."""
    if is_disturbed:
        threading.Thread(target=disturb, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        places = {"XDG_CACHE_HOME": folder, "XDG_STATE_HOME": folder, "NEURALD_AUTOSTART": "0"}
        done = subprocess.run(  # noqa: S603 - this Python
            [sys.executable, "-m", "neurald", "calibrate", "--device", device, "--json"],
            check=True,
            capture_output=True,
            env=os.environ | places,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def costs_of(found: dict[str, Any]) -> dict[str, float]:
    """Returns the costs in microseconds by name."""
    (device,) = found["devices"]
    named = {
        f"{each['operation']} {each['operand'].removeprefix('TENSOR_')}, {each['work']:.3g}": each["seconds"]
        for each in device["operations"]
    }
    around = {"launch": device["launch_s"], "around a step": device["step_s"]}
    return {name: seconds * 1e6 for name, seconds in {**around, **named}.items() if seconds is not None}


def spreads_of(tries: Sequence[dict[str, float]]) -> list[tuple[float, str]]:
    """Returns the spread of each cost that all calibrations have, with its name, largest first."""
    names = set.intersection(*(set(each) for each in tries))
    found = []
    for name in names:
        values = [each[name] for each in tries]
        found.append((max(values) / min(values) - 1.0, name))
    return sorted(found, reverse=True)


def main() -> int:
    """Prints the spreads, and writes them to a file. Fails if one is above 10 %."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--max-s", type=float, default=170.0, help="begin none that might end later")
    parser.add_argument("--disturb", type=int, default=0, help="the number of a calibration; 0 for none")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    begun = time.perf_counter()
    tries: list[dict[str, float]] = []
    for _ in range(arguments.times):
        if tries and time.perf_counter() - begun + _USUAL_S > arguments.max_s:
            break
        started = time.perf_counter()
        is_disturbed = arguments.disturb == len(tries) + 1
        found = calibration(arguments.device, is_disturbed=is_disturbed)
        tries.append(costs_of(found))
        waiting = found["waiting"]
        print(  # noqa: T201
            f"calibration {len(tries)}: {time.perf_counter() - started:.1f} s, {len(tries[-1])} costs, programs "
            f"waited for a processor in {'?' if waiting is None else f'{waiting:.0%}'} of the time"
            f"{', disturbed' if is_disturbed else ''}",
            flush=True,
        )
    spreads = spreads_of(tries)
    for spread, name in spreads[:_SHOWN]:
        values = ", ".join(f"{each[name]:.4g}" for each in tries)
        print(f"  {100 * spread:5.1f} %  {name}: {values} us")  # noqa: T201
    worst, median = spreads[0][0], statistics.median(spread for spread, _ in spreads)
    above = sum(spread > 0.1 for spread, _ in spreads)
    missing = len(set.union(*(set(each) for each in tries))) - len(spreads)
    print(  # noqa: T201
        f"{len(tries)} calibrations, {len(spreads)} costs: median spread {100 * median:.1f} %, worst "
        f"{100 * worst:.1f} %, {above} above 10 %; {missing} not in all of them"
    )
    if arguments.json:
        _write(arguments.json, tries, spreads, arguments.disturb)
    return int(above > 0)


def _write(
    path: Path, tries: Sequence[dict[str, float]], spreads: Sequence[tuple[float, str]], disturbed: int
) -> None:
    columns = [
        Column(name="cost", title=""),
        Column(name="least_us", title="least", unit="µs", format=".4g"),
        Column(name="largest_us", title="largest", unit="µs", format=".4g"),
        Column(name="spread_percent", title="spread", unit="%", format=".1f"),
    ]
    rows: list[list[Cell]] = [
        [
            name,
            min(each[name] for each in tries),
            max(each[name] for each in tries),
            100 * spread,
        ]
        for spread, name in spreads[:_SHOWN]
    ]
    median = 100 * statistics.median(spread for spread, _ in spreads)
    rows.append([f"median of {len(spreads)}", None, None, median])
    rows.append(["largest of all", None, None, 100 * spreads[0][0]])
    result = Result(
        title="Agreement of calibrations",
        description=f"{len(tries)} calibrations, each in a process of its own."
        + (f" During ten seconds of number {disturbed}, programs multiplied matrices." if disturbed else ""),
        tables=[Table(title="Costs that differ most", columns=columns, rows=rows)],
        **circumstances(),
    )
    write(path, result)


if __name__ == "__main__":
    sys.exit(main())
