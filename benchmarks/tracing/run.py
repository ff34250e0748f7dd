"""Measures what a trace adds to calls of the library.

    PYTHONPATH=src:tests python benchmarks/tracing/run.py [--only TEXT ...] [--rounds 40]
        [--max-s 170] [--json FILE]

The calls are those of a small model, the digits of `neurald demo`, in this process, by a daemon on
this host through shared memory, and by one at 127.0.0.1 over gRPC. The less a model computes, the
larger is the share of what is recorded. `--only` selects calls whose names contain one of the
texts.

A round makes the calls of each kind for some milliseconds, 20 of them at least, without and with a
trace, in an order that changes from round to round. The median of a kind's times per call counts
for each, and for what is added the median of the differences of rounds. What a trace does at its
begin and at its end is not part of the times; nor are the first 200 calls of a trace and after it,
or those of 20 ms, in which the interpreter specialises code for the methods that were replaced. A
trace of nothing precedes the calls without one, so that both begin with code that is specialised as
little. The last column says from what time of a call on this is 2 % or less.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import neurald as nd
from neurald import litert
from neurald.service.demo.digits import MODEL

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Cell, Column, Table, write_run

_IMAGE = np.zeros((1, 8, 8, 1), np.uint8)
#: How long calls are made at a time, and how often at least.
_BLOCK_S, _LEAST_CALLS = 0.004, 20
#: What a trace may add.
_LIMIT = 0.02
#: How many calls warm up, and for how long at most.
_WARM_UP, _WARM_UP_S = 200, 0.02

Call = Callable[[], object]


def bound(compilation: nd.Compilation, *, reusable: bool) -> nd.Execution:
    """Returns an execution with an image and an output of its own."""
    execution = nd.Execution(compilation, reusable=reusable)
    execution.set_input(0, _IMAGE)
    execution.set_output(0, np.empty((1, 10), np.uint8))
    return execution


def device_calls(where: str, device: nd.Device) -> Mapping[str, Call]:
    """Returns the calls that a device runs, by name."""
    compilation = nd.CompilationBuilder(nd.load_tflite(MODEL), [device]).finish()
    execution, function = bound(compilation, reusable=True), nd.compile(MODEL, device)
    # A bound method would be that of before the trace.
    return {
        f"run, {where}": lambda: compilation.run(_IMAGE),
        f"compute again, {where}": lambda: execution.compute(),
        f"function, {where}": lambda: function(_IMAGE),
        f"compute once, {where}": lambda: bound(compilation, reusable=False).compute(),
        f"run_with_receipt, {where}": lambda: compilation.run_with_receipt(_IMAGE),
        f"start_compute and wait, {where}": lambda: execution.start_compute().wait(),
        f"submit and result, {where}": lambda: function.submit(_IMAGE).result(),
    }


def other_calls() -> Mapping[str, Call]:
    """Returns the calls that only the CPU device of this process runs, by name."""
    device = nd.open_device("cpu")
    interpreter = litert.Interpreter(str(MODEL))
    interpreter.allocate_tensors()
    nd.compile(MODEL, device)
    return {
        "invoke of neurald.litert": lambda: interpreter.invoke(),
        "load_tflite of a known file": lambda: nd.load_tflite(MODEL),
        "nd.compile from the cache": lambda: nd.compile(MODEL, device),
    }


def per_call(call: Call, count: int) -> float:
    """Returns how long a call takes, in microseconds, from this many of them."""
    began = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - began) / 1e3 / count


def warm_up(call: Call) -> None:
    """Makes calls that are not measured."""
    end_s = time.monotonic() + _WARM_UP_S
    for _ in range(_WARM_UP):
        call()
        if time.monotonic() > end_s:
            return


def untraced(call: Call, count: int) -> float:
    """Returns how long a call takes while no trace is taken; see `per_call`."""
    with nd.trace():
        pass
    # What ran in a trace gets ready again.
    warm_up(call)
    return per_call(call, count)


def traced(call: Call, count: int) -> float:
    """Returns how long a call takes while a trace is taken; see `per_call`."""
    with nd.trace():
        # The first calls of a trace do more.
        warm_up(call)
        return per_call(call, count)


def measured(call: Call, rounds: int, end_s: float) -> tuple[float, float, float]:
    """Returns the time of a call without a trace, with one, and the difference, in microseconds.

    Args:
        call: what is measured.
        rounds: how many.
        end_s: when no further one begins, on the clock of `time.monotonic()`.
    """
    per_call(call, _WARM_UP)
    count = max(_LEAST_CALLS, round(_BLOCK_S * 1e6 / per_call(call, _LEAST_CALLS)))
    without: list[float] = []
    with_trace: list[float] = []
    for number in range(rounds):
        if number and time.monotonic() > end_s:
            break
        if number % 2:
            with_trace.append(traced(call, count))
        without.append(untraced(call, count))
        if not number % 2:
            with_trace.append(traced(call, count))
    added = statistics.median(b - a for a, b in zip(without, with_trace, strict=True))
    return statistics.median(without), statistics.median(with_trace), added


def row(name: str, without: float, with_trace: float, added: float) -> list[Cell]:
    """Returns a row of the table."""
    return [name, without, with_trace, 100 * added / without, max(0.0, added) / _LIMIT]


def table_of(rows: Sequence[Sequence[Cell]]) -> Table:
    """Makes the table."""
    columns = [
        Column(name="call", title="call"),
        Column(name="without", title="without a trace", unit="µs", format=".2f"),
        Column(name="with", title="with a trace", unit="µs", format=".2f"),
        Column(name="added", title="added", unit="%", format=".1f"),
        Column(name="from", title="2 % from", unit="µs", format=".0f"),
    ]
    return Table(title="What a trace adds", columns=columns, rows=rows)


def main() -> None:
    """Prints the figures, and writes them to a file."""
    from support.daemon.processes import running_daemon

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--max-s", type=float, default=170.0, help="about how long all take")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    began = time.monotonic()
    with ExitStack() as stack:
        here = nd.connect(stack.enter_context(running_daemon()))
        there = nd.connect(stack.enter_context(running_daemon(listen="127.0.0.1:0")))
        calls = {
            **device_calls("in process", nd.open_device("cpu")),
            **other_calls(),
            **device_calls("daemon", here),
            **device_calls("gRPC", there),
        }
        chosen = {n: call for n, call in calls.items() if any(text in n for text in arguments.only)}
        rows: list[list[Cell]] = []
        print(f"{'call':34s} without µs  with µs    added  2 % from µs")  # noqa: T201
        for name, call in chosen.items():
            left_s = arguments.max_s - (time.monotonic() - began)
            end_s = time.monotonic() + left_s / (len(chosen) - len(rows))
            rows.append(row(name, *measured(call, arguments.rounds, end_s)))
            _, without, with_trace, added, least = rows[-1]
            print(  # noqa: T201
                f"{name:34s} {without:10.2f} {with_trace:8.2f} {added:+7.1f} % {least:10.0f}", flush=True
            )
    if arguments.json:
        write_run(arguments.json, "What traces add to calls", __doc__, [table_of(rows)])


if __name__ == "__main__":
    main()
