"""Measures many clients of one daemon, compared with the same work in their own processes.

    python benchmarks/ipc/clients.py [--clients 1 2 4 8 16 32 64] [--seconds 2] [--json FILE]
    python benchmarks/ipc/clients.py --depths 1 2 4 [--seconds 2] [--json FILE]

Each client is a process that executes a model of about a millisecond in a loop, through a daemon or
in itself. All count what they execute in the same interval, also a client that gets a core late.
Rounds of both alternate, and the medians of their throughputs count. Fairness is the ratio of the
best client's number of executions to the worst one's. Processor time is that of the clients and the
daemon, for each execution; unlike throughput it hardly depends on other programs. With `--depths`
there is one client that keeps so many executions under way by `start_compute`, also with inputs and
outputs in arrays, which it fills and reads while the daemon computes.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from result_file import Column, Result, Table, circumstances, write
from run import DAEMON, bound, model_of, started, with_one_thread

_MODEL = "millisecond"
_SHAPE = (1, 25_000)
_WARM_UP = 5
_START_TIMEOUT_S = 240.0
# Clients are forks of this process: as many interpreters would take minutes to start.
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A way in which clients execute the model.

    Attributes:
        clients: how many there are.
        depth: how many executions of each are under way at the same time; with 1 they are
            synchronous.
        has_arrays: whether inputs and outputs are in arrays, which each execution fills and reads.
    """

    clients: int
    depth: int = 1
    has_arrays: bool = False

    @property
    def name(self) -> str:
        """Its name in tables."""
        parts = [f"{self.clients} client{'s' if self.clients > 1 else ''}"]
        if self.depth > 1:
            parts.append(f"{self.depth} under way")
        if self.has_arrays:
            parts.append("arrays")
        return ", ".join(parts)


class ClientLoop:
    """Executes the model again and again."""

    def __init__(self, compilation: nd.Compilation, case: Case) -> None:
        size = 2 * 4 * _SHAPE[1]
        self._values = np.random.default_rng(0).random(_SHAPE, np.float32)
        self._arrays: deque[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = deque()
        self._executions: deque[nd.Execution] = deque()
        for _ in range(case.depth):
            if case.has_arrays:
                source, target = np.empty(_SHAPE, np.float32), np.empty(_SHAPE, np.float32)
                execution = nd.Execution(compilation, reusable=True)
                execution.set_input(0, source)
                execution.set_output(0, target)
                self._arrays.append((source, target))
            else:
                memory = nd.Memory.allocate(size)
                execution = bound(compilation, memory, shared_input=True, shared_output=True)
            self._executions.append(execution)
        self._events: deque[Any] = deque()
        self._is_synchronous = case.depth == 1

    def begin(self) -> None:
        """Starts executions that are under way all the time."""
        if not self._is_synchronous:
            for _ in range(len(self._executions)):
                self._start()

    def step(self) -> None:
        """Ends one execution, and starts the next one."""
        if self._is_synchronous:
            self._fill()
            self._executions[0].compute()
            self._read()
            return
        self._events.popleft().wait()
        self._read()
        self._start()

    def end(self) -> None:
        """Ends the executions that are under way."""
        while self._events:
            self._events.popleft().wait()

    def _start(self) -> None:
        self._fill()
        self._events.append(self._executions[0].start_compute())
        self._executions.rotate(-1)
        self._arrays.rotate(-1)

    def _fill(self) -> None:
        if self._arrays:
            self._arrays[0][0][...] = self._values

    def _read(self) -> None:
        if self._arrays:
            self._values[0, 0] = self._arrays[0][1][0, -1]


def compiled(device: nd.Device, cache: str) -> nd.Compilation:
    """Compiles the model for one device."""
    builder = nd.CompilationBuilder(model_of(_MODEL), devices=[device])
    builder.set_caching(cache, bytes(32))
    return builder.finish()


def connected(address: str) -> nd.Device:
    """Connects to the daemon, which many clients keep busy when they start."""
    end = time.monotonic() + _START_TIMEOUT_S / 2
    while True:
        try:
            return nd.connect(address)
        except nd.UnavailableDevice:
            if time.monotonic() > end:
                raise


class Interval:
    """An interval in which all clients execute the model.

    Attributes:
        begun: passed by all clients, and the process that started them, at its beginning.
        ended: passed by the same when all have reported.
        end: when it ends, in seconds of the monotonic clock, which all processes share.
    """

    def __init__(self, clients: int, seconds: float) -> None:
        self._seconds = seconds
        self.end = _FORK.Value("d", 0.0)
        self.begun = _FORK.Barrier(clients + 1, action=self._begin)
        self.ended = _FORK.Barrier(clients + 1)

    def _begin(self) -> None:
        self.end.value = time.monotonic() + self._seconds


def client(
    here: nd.Compilation, address: str, cache: str, case: Case, interval: "Interval", results: Any
) -> None:
    """Runs one client, and puts its number of executions and its processor time.

    Args:
        here: the model, for this process.
        address: of the daemon; empty to execute the model in this process.
        cache: folder of compiled models.
        case: how to execute it.
        interval: when all clients execute it.
        results: takes the result.
    """
    loop = ClientLoop(compiled(connected(address), cache) if address else here, case)
    loop.begin()
    for _ in range(_WARM_UP):
        loop.step()
    interval.begun.wait(_START_TIMEOUT_S)
    count, used_s = 0, time.process_time()
    end = interval.end.value
    while True:
        loop.step()
        if time.monotonic() > end:
            break
        count += 1
    results.put((count, time.process_time() - used_s))
    loop.end()
    interval.ended.wait(_START_TIMEOUT_S)  # the end of a client would take time from the others


def processor_time(process: int) -> float:
    """Returns how many seconds of processor time a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Found:
    """The work of the clients of one case in one round.

    Attributes:
        per_s: executions of all clients in a second.
        fairness: executions of the best client, divided by those of the worst one.
        cpu_us: processor time of clients and daemon for each execution.
    """

    per_s: float
    fairness: float
    cpu_us: float


def run_clients(
    here: nd.Compilation, address: str, cache: str, case: Case, seconds: float, daemon: int
) -> Found:
    """Runs the clients of one case; see `client`."""
    interval, results = Interval(case.clients, seconds), _FORK.SimpleQueue()
    arguments = (here, address, cache, case, interval, results)
    processes = [_FORK.Process(target=client, args=arguments) for _ in range(case.clients)]
    for process in processes:
        process.start()
    try:
        interval.begun.wait(_START_TIMEOUT_S)
        used_s = processor_time(daemon)
        found = [results.get() for _ in processes]
        used_s = processor_time(daemon) - used_s
        interval.ended.wait(_START_TIMEOUT_S)
    finally:
        for process in processes:
            process.join(5)
            process.kill()
    counts = [count for count, _ in found]
    return Found(
        per_s=sum(counts) / seconds,
        fairness=max(counts) / max(1, min(counts)),
        cpu_us=(used_s + sum(used for _, used in found)) / max(1, sum(counts)) * 1e6,
    )


def measure(cases: list[Case], seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Returns throughput, fairness and processor time of each case, both ways."""
    rows = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ipc"))
        cache = str(Path(folder) / "cache")
        # Discovery may connect to daemons, which forks could not do again.
        here = compiled(nd.open_device("cpu"), cache)
        address = f"unix://{folder}/cpu.sock"
        daemon = started(stack, "-c", DAEMON, address)
        for case in cases:
            found: dict[str, list[Found]] = {"": [], address: []}
            for _ in range(rounds):
                for place, each in found.items():
                    each.append(run_clients(here, place, cache, case, seconds, daemon))
            row: dict[str, Any] = {"case": case.name}
            for name, place in (("in_process", ""), ("daemon", address)):
                for figure in ("per_s", "fairness", "cpu_us"):
                    row[f"{name}_{figure}"] = statistics.median(
                        getattr(each, figure) for each in found[place]
                    )
            row["ratio"] = row["daemon_per_s"] / row["in_process_per_s"]
            rows.append(row)
            print(row, flush=True)  # noqa: T201
    return rows


def cases_of(clients: Sequence[int], depths: Sequence[int]) -> list[Case]:
    """Returns the measurement: one client with executions under way; many without depths."""
    if not depths:
        return [Case(clients=number) for number in clients]
    return [
        Case(clients=1, depth=depth, has_arrays=has_arrays)
        for has_arrays in (False, True)
        for depth in depths
    ]


def result_of(title: str, rows: list[dict[str, Any]], seconds: float, rounds: int) -> Result:
    """Returns the content of a result file; see `measure`."""
    columns = [
        Column(name="case", title="case"),
        Column(name="in_process_per_s", title="in process", unit="1/s", format=",.0f"),
        Column(name="daemon_per_s", title="daemon", unit="1/s", format=",.0f"),
        Column(name="ratio", title="daemon / in process", format=".2f"),
        Column(name="in_process_fairness", title="best / worst, in process", format=".2f"),
        Column(name="daemon_fairness", title="best / worst, daemon", format=".2f"),
        Column(name="in_process_cpu_us", title="processor time, in process", unit="µs", format=",.0f"),
        Column(name="daemon_cpu_us", title="processor time, daemon", unit="µs", format=",.0f"),
    ]
    table = Table(
        title=f"Executions of all clients together, {seconds:g} s, median of rounds: {rounds}",
        columns=columns,
        rows=[[row[column.name] for column in columns] for row in rows],
    )
    return Result(
        title=title,
        description=(__doc__ or "").split("\n\n", 2)[2].strip().replace("\n", " "),
        tables=[table],
        **circumstances(),
    )


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument(
        "--depths",
        type=int,
        nargs="+",
        default=[],
        metavar="COUNT",
        help="measure one client with this many executions under way, instead of many clients",
    )
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    arguments = parser.parse_args()
    with_one_thread()
    title = "Executions under way of one client" if arguments.depths else "Many clients of one daemon"
    rows = measure(cases_of(arguments.clients, arguments.depths), arguments.seconds, arguments.rounds)
    if arguments.json:
        write(arguments.json, result_of(title, rows, arguments.seconds, arguments.rounds))


if __name__ == "__main__":
    main()
