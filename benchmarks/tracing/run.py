"""Measures what a trace adds to calls of the library.

    PYTHONPATH=src:tests python benchmarks/tracing/run.py [--only TEXT ...] [--rounds 5000]
        [--max-s 170] [--json FILE]

The calls are those of a small model, the digits of `neurald demo`, in this process, by a daemon on
this host through shared memory, and by one at 127.0.0.1 over gRPC. The less a model computes, the
larger is the share of what is recorded. `--only` selects calls whose names contain one of the
texts.

Four processes measure one after the other, each with daemons of its own, since where the memory of
a process lies makes calls of it take some per cent longer or shorter. In each, all kinds of calls
take turns, so that slower times of the machine are slower times of all. In its turn, a kind is
called in pairs of blocks of some milliseconds, one with a trace right before or after one without,
in an order that changes from pair to pair. The time of a block is the median of parts of it, of
100 µs or a call each, so that interruptions do not count. What is added is the median of the shares
by which the block with a trace takes longer than the other one of its pair. The columns beside it
are the ends of its 95 % confidence interval, which assumes nothing about how the shares are
distributed. Once that is narrower than a per cent in a process, a kind has one turn in eight, and
leaves the others to those whose times vary more. Times are medians of blocks.

What a trace does at its begin and at its end is not part of the times; nor are the first 200 calls
of a trace and after it, or those of 20 ms, in which the interpreter specialises code for the
methods that were replaced. A trace of nothing precedes the calls without one, so that both begin
with code that is specialised as little. The last column says from what time of a call on this is
2 % or less.
"""

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import neurald as nd
from neurald import litert
from neurald.runtime.tracing.span import Recorder
from neurald.runtime.tracing.trace_points import install
from neurald.service.demo.digits import MODEL

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Cell, Column, Table, write_run
from selection import selected

_IMAGE = np.zeros((1, 8, 8, 1), np.uint8)
#: How long a block and a part of it take, and how many parts it has at least.
_BLOCK_S, _PART_S, _LEAST_PARTS = 0.002, 0.0001, 15
#: How long a kind of calls has its turn, with a pair at least.
_TURN_S = 0.03
#: How many processes measure one after the other.
_PASSES = 4
#: How likely the median is outside of its interval.
_OUTSIDE = 0.05
#: How wide the interval of a kind is whose turns are fewer, and in how many rounds it has one.
_NARROW, _ROUNDS_WHEN_NARROW = 0.01, 8
#: What a trace may add.
_LIMIT = 0.02
#: How many calls warm up, and for how long at most.
_WARM_UP, _WARM_UP_S = 200, 0.02

Call = Callable[[], object]
#: `Calls.without` and `Calls.added`.
Shares = tuple[list[float], list[float]]


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


class Calls:
    """Calls of one kind, which are measured in pairs of blocks.

    Args:
        name: what is called.
        call: makes a call.

    Attributes:
        name: see above.
        without, added: the time of a call in each block without a trace, in microseconds, and by
            what share it took longer in the other block of the pair.
    """

    def __init__(self, name: str, call: Call) -> None:
        self.name = name
        self._call = call
        self.without: list[float] = []
        self.added: list[float] = []
        per_call(call, _WARM_UP)
        each_us = per_call(call, _LEAST_PARTS)
        self._in_part = max(1, round(_PART_S * 1e6 / each_us))
        self._parts = max(_LEAST_PARTS, round(_BLOCK_S * 1e6 / each_us / self._in_part))

    @property
    def is_settled(self) -> bool:
        """True if what is added is known well."""
        least, most = median_interval(self.added)
        return len(self.added) >= _LEAST_PARTS and most - least < _NARROW

    def measure_pair(self) -> None:
        """Measures a block without a trace and one with a trace."""
        if len(self.added) % 2:
            with_trace, without = self._traced(), self._untraced()
        else:
            without, with_trace = self._untraced(), self._traced()
        self.without.append(without)
        self.added.append(with_trace / without - 1)

    def _untraced(self) -> float:
        """Returns how long a call takes while no trace is taken; see `_block`."""
        with trace():
            pass
        # What ran in a trace gets ready again.
        warm_up(self._call)
        return self._block()

    def _traced(self) -> float:
        """Returns how long a call takes while a trace is taken; see `_block`."""
        with trace():
            # The first calls of a trace do more.
            warm_up(self._call)
            return self._block()

    def _block(self) -> float:
        """Returns how long a call takes in one half of the parts of a block, in microseconds."""
        return statistics.median([per_call(self._call, self._in_part) for _ in range(self._parts)])


@contextmanager
def trace() -> Iterator[None]:
    """Takes a trace like `nd.trace`, without making spans of it in the end, which takes longer."""
    stop = install(Recorder(os.getpid()))
    try:
        yield
    finally:
        stop()


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


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the ends of a 95 % confidence interval of the median; all values if they are few.

    A value is below the median with the chance of one half, so that the binomial distribution says
    between which of the sorted values it lies.
    """
    ordered = sorted(values)
    count = len(ordered)
    below = chance = 0.0
    place = 0
    for place in range(count // 2 + 1):
        chance = math.comb(count, place) / 2**count
        if below + chance > _OUTSIDE / 2:
            break
        below += chance
    place = max(0, place - 1)
    return ordered[place], ordered[count - 1 - place]


def measure(kinds: Sequence[Calls], rounds: int, end_s: float) -> None:
    """Measures kinds of calls in turns.

    Args:
        kinds: the kinds, each of which has a pair at least.
        rounds: how many turns each has at most.
        end_s: when no further round begins, on the clock of `time.monotonic()`.
    """
    for number in range(rounds):
        if number and time.monotonic() > end_s:
            return
        for calls in kinds:
            if number % _ROUNDS_WHEN_NARROW and calls.is_settled:
                continue
            turn_end_s = time.monotonic() + _TURN_S
            calls.measure_pair()
            while time.monotonic() < turn_end_s:
                calls.measure_pair()


def row(name: str, without: Sequence[float], added: Sequence[float]) -> list[Cell]:
    """Returns a row of the table.

    Args:
        name: what is called.
        without, added: see `Calls`.
    """
    time_us, share = statistics.median(without), statistics.median(added)
    least, most = median_interval(added)
    return [
        name,
        time_us,
        time_us * (1 + share),
        100 * share,
        100 * least,
        100 * most,
        max(0.0, share) * time_us / _LIMIT,
    ]


def table_of(rows: Sequence[Sequence[Cell]]) -> Table:
    """Makes the table."""
    columns = [
        Column(name="call", title="call"),
        Column(name="without", title="without a trace", unit="µs", format=".2f"),
        Column(name="with", title="with a trace", unit="µs", format=".2f"),
        Column(name="added", title="added", unit="%", format=".1f"),
        Column(name="least", title="at least", unit="%", format=".1f"),
        Column(name="most", title="at most", unit="%", format=".1f"),
        Column(name="from", title="2 % from", unit="µs", format=".0f"),
    ]
    return Table(title="What a trace adds", columns=columns, rows=rows)


def one_pass(only: Sequence[str], rounds: int, end_s: float) -> Mapping[str, Shares]:
    """Measures kinds of calls with daemons of their own; returns what `Calls` found, by names.

    Args:
        only: names of kinds of calls, or parts of names; all kinds without any.
        rounds, end_s: see `measure`.
    """
    from support.daemon.processes import running_daemon

    with ExitStack() as stack:
        here = nd.connect(stack.enter_context(running_daemon()))
        there = nd.connect(stack.enter_context(running_daemon(listen="127.0.0.1:0")))
        calls = {
            **device_calls("in process", nd.open_device("cpu")),
            **other_calls(),
            **device_calls("daemon", here),
            **device_calls("gRPC", there),
        }
        kinds = [Calls(name, calls[name]) for name in selected(calls, str, only, "--only")]
        measure(kinds, rounds, end_s)
    return {each.name: (each.without, each.added) for each in kinds}


def main() -> None:
    """Prints the figures, and writes them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="TEXT", help="names of calls, or parts of names"
    )
    parser.add_argument("--rounds", type=int, default=5000, help="how many turns a kind has in a pass")
    parser.add_argument("--max-s", type=float, default=170.0, help="about how long all take")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    end_s = time.monotonic() + arguments.max_s
    found: dict[str, Shares] = {}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for left in range(_PASSES, 0, -1):
            now_s = time.monotonic()
            until_s = now_s + (end_s - now_s) / left
            passed = processes.submit(one_pass, arguments.only, arguments.rounds, until_s).result()
            for name, shares in passed.items():
                for all_of_one, more in zip(found.setdefault(name, ([], [])), shares, strict=True):
                    all_of_one.extend(more)
    rows = [row(name, *shares) for name, shares in found.items()]
    print(f"{'call':34s} without µs  with µs    added  interval        pairs")  # noqa: T201
    for name, without, with_trace, added, least, most, _ in rows:
        print(  # noqa: T201
            f"{name:34s} {without:10.2f} {with_trace:8.2f} {added:+7.2f} % {least:+6.2f} to {most:+5.2f} %"
            f" {len(found[str(name)][1]):5d}"
        )
    if arguments.json:
        write_run(arguments.json, "What traces add to calls", __doc__, [table_of(rows)])


if __name__ == "__main__":
    main()
