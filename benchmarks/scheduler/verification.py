"""Measures what verification costs, and after how many runs it finds a device that flips one bit.

    PYTHONPATH=src:tests python benchmarks/scheduler/verification.py [--cost-only] [--json FILE]

The device is the reference driver in this process, slowed down to the times of the CPU device, so
that the cost is that of a device which is no faster: the most that it can be. Runs with and without
verification alternate.
"""

import argparse
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from support.devices.lying import LyingDevice
from support.devices.simulated import SimulatedDevice
from support.models.chains import chain, ramp

import neurald as nd
from neurald.runtime.execution.verification.step_verification import StepVerification

sys.path.insert(0, str(Path(__file__).parents[1]))

from result_file import Cell, Column, Result, Table, circumstances, write

_SHARE = 0.01
_COMPILATIONS = 7
_RUNS = 1000
_TRIES = 100


def cost(model: nd.Model, array: "np.ndarray", seconds: float) -> tuple[float, int]:
    """Returns the cost as a share of the device's time, and how many runs were verified.

    It is processor time of the caller: the medians of runs that were verified, of those after them,
    and of others count as often as there were such runs, less the median without verification.
    """
    compilations = []
    for share in (0.0, _SHARE):
        device = SimulatedDevice(f"device-{share}", default_s=seconds / len(model.main.operations))
        builder = nd.CompilationBuilder(model, [device])
        builder.set_verification(share)
        compilations.append(builder.finish())
    plain, verifying = compilations
    for compilation in compilations:
        compilation.run(array)  # the first one, which is verified
    plain_ns: list[int] = []
    by_kind: dict[str, list[int]] = {"verified": [], "next": [], "other": []}
    was_verified = False
    with _noted_verifications() as noted:
        for _ in range(_RUNS):
            plain_ns.append(_caller_ns(plain, array))
            before = len(noted)
            spent_ns = _caller_ns(verifying, array)
            is_verified = len(noted) > before
            by_kind["verified" if is_verified else "next" if was_verified else "other"].append(spent_ns)
            was_verified = is_verified
    usual_ns = statistics.median(plain_ns)
    extra_ns = sum(len(each) * (statistics.median(each) - usual_ns) for each in by_kind.values() if each)
    return extra_ns / (_RUNS * seconds * 1e9), len(by_kind["verified"])


def _caller_ns(compilation: nd.Compilation, array: "np.ndarray") -> int:
    """Returns the processor time of this thread for a run."""
    begun_ns = time.thread_time_ns()
    compilation.run(array)
    return time.thread_time_ns() - begun_ns


@contextlib.contextmanager
def _noted_verifications() -> Iterator[list[None]]:
    """Yields a list that grows with each verified run."""
    noted: list[None] = []
    end = StepVerification.end

    def noting(*arguments: Any) -> Any:
        noted.append(None)
        return end(*arguments)

    with mock.patch.object(StepVerification, "end", noting):
        yield noted


def runs_until_found(every: int, *, is_random: bool) -> list[int]:
    """Returns after how many runs a flipped bit in every so many executions is found, sorted.

    Args:
        every: how many executions.
        is_random: whether each execution is wrong with that probability, or every such one is.
    """
    model, array = chain(["ADD", "TANH", "MUL", "LOGISTIC"]), ramp()
    found = []
    for number in range(_TRIES):
        device = LyingDevice(f"lying-{every}-{number}", bit=24)
        device.every = every
        device.chances = random.Random(number) if is_random else None  # noqa: S311 - repeatable
        builder = nd.CompilationBuilder(model, [device])
        builder.set_verification(_SHARE)
        compilation = builder.finish()
        runs = 0
        while not compilation.verifications[0].is_wrong:
            compilation.run(array)
            runs += 1
        compilation.wait_until_investigated()
        found.append(runs)
    return sorted(found)


def costs() -> list[list[Cell]]:
    """Prints what verification costs, and returns the rows of the table."""
    rows: list[list[Cell]] = []
    for size, seconds in ((64, 2e-4), (4096, 1e-3), (1 << 18, 1e-2)):
        model = chain(["ADD", "TANH", "MUL", "LOGISTIC"] * 3, size=size)
        cpu = nd.CompilationBuilder(model, [nd.devices()[0]]).finish()
        cpu.run(ramp(size))
        begun = time.perf_counter()
        for _ in range(20):
            cpu.run(ramp(size))
        cpu_ms = 1e3 * (time.perf_counter() - begun) / 20
        # Of long runs, as many take minutes, and tell no more.
        tries = _COMPILATIONS if seconds < 1e-2 else 1
        found = [cost(model, ramp(size), seconds) for _ in range(tries)]
        shares = [100 * share for share, _ in found]
        verified = statistics.median(count for _, count in found)
        rows.append(
            [f"{seconds * 1e3:g} ms", cpu_ms, statistics.median(shares), min(shares), max(shares), verified]
        )
        print(  # noqa: T201
            f"{size} elements, device {seconds * 1e3:g} ms, CPU device {cpu_ms:.3g} ms: "
            f"{statistics.median(shares):.2f} % of it ({min(shares):.2f} to {max(shares):.2f}, {tries} "
            f"tries), {verified:g} of {_RUNS} runs verified",
            flush=True,
        )
    return rows


def print_runs_until_found(folder: str) -> None:
    """Prints after how many runs wrong devices are found.

    Args:
        folder: with the state of this process.
    """
    for every, is_random in ((1, False), (2, False), (10, False), (2, True), (10, True)):
        # What is found is forgotten, since other tries have the same device version.
        found = runs_until_found(every, is_random=is_random)
        for path in Path(folder).rglob("wrong_results.json"):
            path.unlink()
        within = sum(runs <= _RUNS for runs in found) / len(found)
        print(  # noqa: T201
            f"a flipped bit in {'one of' if is_random else 'every'} {every} executions"
            f"{' at random' if is_random else ''}: found after {statistics.median(found):g} runs (median), "
            f"{found[int(0.95 * len(found))]} (95 %), {found[-1]} at most, {100 * within:.0f} % within "
            f"{_RUNS}, in {_TRIES} tries"
        )


def main() -> None:
    """Prints the figures, and writes the costs to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cost-only", action="store_true", help="leave out how soon faults are found")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "XDG_STATE_HOME": f"{folder}/state",
            "XDG_CACHE_HOME": folder,
            "NEURALD_AUTOSTART": "0",
        }
        rows = costs()
        if not arguments.cost_only:
            print_runs_until_found(folder)
    if arguments.json:
        columns = [
            Column(name="device_s", title="execution"),
            Column(name="cpu_ms", title="the same on the CPU device", unit="ms", format=".3g"),
            Column(name="cost_percent", title="cost", unit="%", format=".2f"),
            Column(name="least_percent", title="least", unit="%", format=".2f"),
            Column(name="most_percent", title="most", unit="%", format=".2f"),
            Column(name="verified", title="verified", format="g"),
        ]
        result = Result(
            title="Cost of verified executions",
            description=f"Of {_RUNS} executions, one in a hundred may be verified. The cost is processor time of "
            "the caller, in relation to the time of the executions.",
            tables=[Table(title="Costs", columns=columns, rows=rows)],
            **circumstances(),
        )
        write(arguments.json, result)


if __name__ == "__main__":
    main()
