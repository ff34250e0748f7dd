"""Measures how much compiling in the background slows the calls of an application.

    python benchmarks/startup/disturbance.py MODEL ... [--compiled FILE] [--seconds 20] [--json
    FILE]

Each model is called in a loop by one thread, while a process compiles another model again and again
in the background, as for a first tier. All processes have one core together, which is the worst
case: elsewhere, compiling has cores of its own. In every second window of time the compiling
processes are stopped, so that both kinds of windows have the same neighbours. Ratios are those of
the numbers of calls in all windows of a kind.
"""

import argparse
import contextlib
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Cell, Column, Result, Table, circumstances, write

import neurald as nd
from neurald.hal.compiling import separate_compiler
from neurald.hal.sync.cancellation import Cancellation

_WINDOW_S: Final = 0.4
#: Not counted after a change.
_SETTLE_S: Final = 0.05


class Compiling:
    """Compiles a model again and again in the background, unless it is stopped.

    Args:
        model: the model.
    """

    def __init__(self, model: nd.Model) -> None:
        self._stop = Cancellation()
        self._compiler = separate_compiler.SeparateCompiler("cpu", nd.devices()[0], model)
        #: The number of compilations that have ended.
        self.ended = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_cancelled:
            with contextlib.suppress(nd.Error):
                self._compiler.compile(cancellation=self._stop)
                self.ended += 1

    @property
    def has_begun(self) -> bool:
        """True once a process compiles."""
        return any(_children(process) for process in _servers())

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to all processes that compile."""
        pending = _servers()
        while pending:
            process = pending.pop()
            with contextlib.suppress(OSError):
                os.kill(process, number)
            pending += _children(process)

    def close(self) -> None:
        """Ends them."""
        self.signal(signal.SIGCONT)
        self._stop.cancel()
        separate_compiler.end_processes()
        self._thread.join()


def _servers() -> list[int]:
    """Returns the processes that fork those that compile."""
    return [pool.process for pool in list(separate_compiler._pools.values()) if pool.process is not None]


def _children(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text("ascii")
    except OSError:
        return []
    return [int(each) for each in text.split()]


@contextlib.contextmanager
def compiling(model: nd.Model) -> Iterator[Compiling]:
    """Compiles a model during the block."""
    process = Compiling(model)
    try:
        while not process.has_begun:
            time.sleep(0.05)
        yield process
    finally:
        process.close()


def _compiled(path: Path) -> nd.Compilation:
    builder = nd.CompilationBuilder(nd.load_tflite(path), threads=1)
    builder.set_caching(None)
    builder.set_startup(nd.Startup.OPTIMIZED)
    return builder.finish()


def _inputs(model: nd.Model) -> list[np.ndarray]:
    operands = [model.main.operands[index] for index in model.inputs]
    return [np.zeros([length or 1 for length in each.dimensions or ()], each.type.dtype) for each in operands]


def _calls(compilation: nd.Compilation, inputs: list[np.ndarray], seconds: float) -> list[float]:
    """Returns the times of calls, in milliseconds."""
    times, end = [], time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        compilation.run(*inputs)
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def measure(path: Path, process: Compiling, seconds: float) -> list[Cell]:
    """Returns the row of a model."""
    compilation = _compiled(path)
    inputs = _inputs(compilation.model)
    _calls(compilation, inputs, _SETTLE_S)
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(max(1, round(seconds / (2 * _WINDOW_S)))):
        for number, times in ((signal.SIGSTOP, alone), (signal.SIGCONT, beside)):
            process.signal(number)
            time.sleep(_SETTLE_S)
            times += _calls(compilation, inputs, _WINDOW_S)
    means = statistics.fmean(alone), statistics.fmean(beside)
    return [
        path.stem,
        statistics.median(alone),
        statistics.median(beside),
        statistics.median(beside) / statistics.median(alone),
        means[1] / means[0],
    ]


def _mean(ratios: Sequence[Cell]) -> float:
    return statistics.geometric_mean(each for each in ratios if isinstance(each, float))


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--compiled", type=Path, metavar="FILE", help="what is compiled; default: the first")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with compiling(nd.load_tflite(arguments.compiled or arguments.models[0])) as process:
        rows = [measure(path, process, arguments.seconds) for path in arguments.models]
    rows.append(["geometric mean", None, None, *(_mean([row[column] for row in rows]) for column in (3, 4))])
    for row in rows:
        print(*row)  # noqa: T201
    ms = {"unit": "ms", "format": ".3f"}
    table = Table(
        title="Calls beside a process that compiles, on one core",
        columns=[
            Column(name="model", title="model"),
            Column(name="alone", title="call, alone", **ms),
            Column(name="beside", title="call, beside it", **ms),
            Column(name="ratio", title="ratio of medians", format=".3f"),
            Column(name="ratio_mean", title="ratio of means", format=".3f"),
        ],
        rows=rows,
    )
    if arguments.json:
        description = " ".join((__doc__ or "").split("\n\n")[2].split())
        result = Result(
            title="Calls while code is compiled", description=description, tables=[table], **circumstances()
        )
        write(arguments.json, result)


if __name__ == "__main__":
    main()
