"""Runs cases in worker processes that may die, hang or run out of memory.

Such an end is the result of the case, and a new worker runs the next one. A worker is a script
that is started with `--worker` and calls `serve`: it reads one case from each line of its standard
input, and writes one line with its result. Both are JSON objects.
"""

import contextlib
import faulthandler
import json
import os
import resource
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

Case = Mapping[str, Any]
Result = Mapping[str, Any]

#: Time for imports and other work before the first case.
_START_S = 120.0
_ERROR_CHARACTERS = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The outcome of a case: the worker's result, or how the worker ended."""

    case: Case
    result: Result | None = None
    death: str = ""


def serve(answer: Callable[[Case], Result], *, address_space: int) -> None:
    """Runs the loop of a worker.

    Args:
        answer: computes the result of a case.
        address_space: bytes that the process may map in addition to its current mappings.
    """
    faulthandler.enable()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + address_space,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Output of libraries goes to stderr, so that stdout carries results only.
    with os.fdopen(os.dup(1), "w") as results:
        os.dup2(2, 1)
        _tell(results, {"ready": True})
        for line in sys.stdin:
            _tell(results, answer(json.loads(line)))


def _tell(stream: IO[str], message: Result) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


class _Worker:
    """A worker process and its current case."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - it lives as long as the worker
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self.output = self.process.stdin, self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        self._buffer = b""
        self.case: Case | None = None
        self.is_ready = False
        self.deadline = time.monotonic() + _START_S

    def give(self, case: Case, limit_s: float) -> None:
        self.case = case
        self.deadline = time.monotonic() + limit_s
        with contextlib.suppress(BrokenPipeError):  # `read` notices that the process has ended
            self._input.write(json.dumps(case).encode() + b"\n")
            self._input.flush()

    def read(self) -> tuple[list[Result], bool]:
        """Returns the results so far, and whether the process has closed its output."""
        chunk = self.output.read(1 << 20)
        if chunk is None:
            return [], False
        self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines], not chunk

    def end(self) -> str:
        """Ends the process if it is still running; returns how it ended."""
        self._input.close()
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.output.close()
        with self._errors as errors:
            size = errors.seek(0, os.SEEK_END)
            errors.seek(max(0, size - _ERROR_CHARACTERS))
            text = errors.read().decode(errors="replace").strip()
        return f"the process ended with {code}: {text}"


def run_cases(
    command: Sequence[str],
    cases: Iterator[Case],
    *,
    jobs: int,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Ended]:
    """Runs cases on workers; yields each when it ends.

    Args:
        command: command line that starts a worker.
        cases: taken one at a time, when a worker is idle.
        jobs: number of concurrent workers.
        limit_s: time limit of a case in seconds.
        environment: environment variables of the workers.

    Raises:
        RuntimeError: a worker did not start.
    """
    selector = selectors.DefaultSelector()
    workers: set[_Worker] = set()

    def start() -> None:
        worker = _Worker(command, environment or {})
        workers.add(worker)
        selector.register(worker.output, selectors.EVENT_READ, worker)

    def stop(worker: _Worker) -> str:
        selector.unregister(worker.output)
        workers.discard(worker)
        return worker.end()

    def next_case(worker: _Worker) -> None:
        case = next(cases, None)
        if case is None:
            stop(worker)
        else:
            worker.give(case, limit_s)

    try:
        for _ in range(jobs):
            start()
        while workers:
            for key, _ in selector.select(0.2):
                worker: _Worker = key.data
                results, is_closed = worker.read()
                for result in results:
                    if worker.case is not None:
                        yield Ended(case=worker.case, result=result)
                    worker.case, worker.is_ready = None, True
                    next_case(worker)
                if is_closed and worker in workers:
                    death, case = stop(worker), worker.case
                    if case is None:
                        raise RuntimeError(f"a worker did not start: {death}")
                    yield Ended(case=case, death=death)
                    start()
            for worker in [each for each in workers if time.monotonic() > each.deadline]:
                worker.process.kill()
                death, case = stop(worker), worker.case
                if case is None:
                    raise RuntimeError(f"a worker did not start: {death}")
                yield Ended(case=case, death=f"it took longer than {limit_s:g} s; {death}")
                start()
    finally:
        for worker in list(workers):
            worker.process.kill()
            stop(worker)
        selector.close()
