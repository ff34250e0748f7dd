"""Runs damaged models: each is to be run or refused with an nd.Error, in bounded time and memory.

    .venv/bin/python tests/fuzz/run.py --count 20000

They run on references; with NEURALD_CPU_COMPILER=on they are compiled, whose memory and time are the compiler's business and
are not held against the file (but for hanging).

Every case follows from seed and number alone, so one that failed is had again with --first NUMBER --count 1 --keep DIR.
Worker processes do the work; one that dies or hangs is reported with its case, and another takes its place.
"""

import argparse
import gc
import json
import os
import random
import resource
import select
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import numpy as np  # noqa: E402
from fuzz.mutators import mutate  # noqa: E402
from support.data import MODELS  # noqa: E402

import neurald as nd  # noqa: E402
from neurald.hal.types import OperandType  # noqa: E402

#: Whether models are compiled.
COMPILES = os.environ.get("NEURALD_CPU_COMPILER") == "on"
#: A case that takes longer hangs.
LIMIT_S = 120.0 if COMPILES else 10.0
#: Loading and preparing may allocate so many times what the file and its declared inputs and outputs take …
ALLOCATION_FACTOR = 4
#: … beside what Python itself needs for a model of no size at all.
ALLOCATION_BASE = 4 << 20
#: Address space of a worker beyond what it starts with: larger allocations of an execution fail, as nd.Error.
ADDRESS_SPACE = 3 << 30
#: Elements of an input or output that is still run: larger ones take long without being wrong.
LARGEST_ARRAY = 1 << 24
#: Seeds are small, so that many cases run in little time.
LARGEST_SEED = 700_000


def seeds(folder: Path | None) -> list[Path]:
    """Good models: those in the folder if there is one, and the project's own."""
    own = [HERE.parents[1] / "service" / "demo" / "digits.tflite"]
    found = sorted(folder.glob("*/*.tflite")) if folder is not None else []
    return own + [path for path in found if path.stat().st_size <= LARGEST_SEED]


def io_bytes(model: nd.Model) -> int:
    """Bytes of the declared inputs, outputs and variables; an open length counts as 1."""
    total = 0
    for index in (*model.main.inputs, *model.main.outputs):
        operand = model.main.operands[index]
        total += int(np.prod([d or 1 for d in operand.dimensions or ()])) * operand.type.dtype.itemsize
    return total


def run_case(content: bytes, path: Path) -> str:
    """What became of one file; raises for what must not happen."""
    path.write_bytes(content)
    if tracemalloc.is_tracing():
        tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        model = nd.load_tflite(path)
        compilation = nd.CompilationBuilder(model, [nd.devices()[0]]).finish()
    except nd.Error as error:
        _check_peak(before, len(content))
        return f"refused {error.code.name}"
    _check_peak(before, len(content) + io_bytes(model))
    rng = np.random.default_rng(0)
    try:
        arrays = [_random(rng, model.main.operands[index]) for index in model.inputs]
        execution = _bound(compilation, arrays)
        # It is looked at between operations, the longest of which takes seconds.
        execution.set_timeout(LIMIT_S / 5)
        execution.compute()
    except nd.Error as error:
        return f"failed {error.code.name}"
    except MemoryError:
        return "inputs too large"
    return "ran"


def _check_peak(before: int, size_bytes: int) -> None:
    peak = tracemalloc.get_traced_memory()[1] - before
    if not COMPILES and peak > ALLOCATION_BASE + ALLOCATION_FACTOR * size_bytes:
        raise AssertionError(
            f"{peak} bytes were allocated for {size_bytes} bytes of file, inputs and outputs"
        )


def _random(rng: np.random.Generator, operand: Any) -> np.ndarray[Any, Any]:
    shape = tuple(d or 1 for d in operand.dimensions or ())
    if np.prod(shape, dtype=np.float64) > LARGEST_ARRAY:
        raise MemoryError
    numbers = rng.integers(0, 100, shape)
    return numbers.astype(np.bytes_ if operand.type is OperandType.TENSOR_STRING else operand.type.dtype)


def _bound(compilation: nd.Compilation, arrays: Sequence[np.ndarray[Any, Any]]) -> nd.Execution:
    model = compilation.model
    execution = nd.Execution(compilation)
    for position, array in enumerate(arrays):
        execution.set_input(position, array)
    for position, index in enumerate(model.outputs):
        operand = model.main.operands[index]
        shape = tuple(d or 1 for d in operand.dimensions or ())
        if np.prod(shape, dtype=np.float64) > LARGEST_ARRAY:
            raise MemoryError
        execution.set_output(position, np.zeros(shape, operand.type.dtype))
    return execution


def work(first: int, count: int, seed: int, folder: Path | None, keep: Path | None) -> None:
    """A worker: prints a line before and after each case."""
    files = seeds(folder)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE,) * 2)
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as directory:
        for number in range(first, first + count):
            rng = random.Random(f"{seed}/{number}")
            source = rng.choice(files)
            content, what = mutate(source.read_bytes(), rng)
            print(json.dumps({"start": number, "what": f"{source.stem}: {what}"}), flush=True)
            path = (keep or Path(directory)) / f"case{number if keep else ''}.tflite"
            tracemalloc.start()
            try:
                outcome = run_case(content, path)
            except Exception as error:
                outcome = f"BUG {type(error).__name__}: {error}"
            tracemalloc.stop()
            print(json.dumps({"end": number, "outcome": outcome}), flush=True)
            if number % 200 == 0:
                gc.collect()


class Worker:
    """A worker process and the cases that are left for it."""

    def __init__(self, first: int, count: int, arguments: Sequence[str]) -> None:
        self.next, self.end = first, first + count
        self._arguments = list(arguments)
        self.case, self.since = "", time.monotonic()
        self._start()

    def _start(self) -> None:
        command = [sys.executable, __file__, "--worker", "--first", str(self.next)]
        command += ["--count", str(self.end - self.next), *self._arguments]
        environment = {"NEURALD_CPU_COMPILER": "off", **os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        self.lines = self.process.stdout
        self.since = time.monotonic() + 20  # to import everything

    def handle(self, line: str, outcomes: Counter[str], problems: list[str]) -> None:
        """Takes note of a line of the process; "" when it has ended."""
        self.since = time.monotonic()
        if not line:
            code = self.process.wait()
            if self.next < self.end:
                problems.append(f"case {self.next} ({self.case}): the process ended with {code}")
                self.restart()
            return
        event = json.loads(line)
        if "start" in event:
            self.next, self.case = event["start"], event["what"]
        else:
            outcome = event["outcome"]
            outcomes[outcome.split(":")[0]] += 1
            if outcome.startswith("BUG"):
                problems.append(f"case {self.next} ({self.case}): {outcome}")
            self.next += 1

    def restart(self) -> None:
        """Goes on after the present case."""
        self.process.kill()
        self.process.wait()
        self.next += 1
        if self.next < self.end:
            self._start()

    @property
    def is_done(self) -> bool:
        return self.next >= self.end


def fuzz(
    count: int,
    *,
    first: int = 0,
    seed: int = 0,
    folder: Path | None,
    workers: int = 2,
    keep: Path | None = None,
) -> tuple[Counter[str], list[str]]:
    """Runs cases in worker processes; returns how many had which outcome, and what must not have happened."""
    outcomes: Counter[str] = Counter()
    problems: list[str] = []
    arguments = ["--seed", str(seed)]
    arguments += ["--models", str(folder)] if folder is not None else ["--own-models"]
    arguments += ["--keep", str(keep)] if keep is not None else []
    share = -(-count // workers)
    running = [
        Worker(first + start, min(share, count - start), arguments) for start in range(0, count, share)
    ]
    try:
        while running:
            streams = {worker.lines: worker for worker in running}
            for stream in select.select(list(streams), [], [], 0.5)[0]:
                streams[stream].handle(stream.readline(), outcomes, problems)
            for worker in running:
                if not worker.is_done and time.monotonic() - worker.since > LIMIT_S:
                    problems.append(f"case {worker.next} ({worker.case}): it hangs")
                    worker.restart()
                    worker.since = time.monotonic() + 20
            running = [worker for worker in running if not worker.is_done]
    finally:
        for worker in running:
            worker.process.kill()
    return outcomes, problems


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--own-models", action="store_true", help="only the project's own seeds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, help="folder to write the damaged files to")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = None if options.own_models else options.models
    if options.worker:
        work(options.first, options.count, options.seed, folder, options.keep)
        return 0
    started = time.monotonic()
    outcomes, problems = fuzz(
        options.count,
        first=options.first,
        seed=options.seed,
        folder=folder,
        workers=options.workers,
        keep=options.keep,
    )
    for outcome, number in outcomes.most_common():
        print(f"{number:7} {outcome}")
    for problem in problems:
        print(problem)
    print(f"{sum(outcomes.values())} cases in {time.monotonic() - started:.0f} s, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
