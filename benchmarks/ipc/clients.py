"""Measures many clients of one daemon, compared with the same work in their own processes.

    python benchmarks/ipc/clients.py [--clients 1 2 4 16 64] [--seconds 4] [--json FILE]

Each client is a process that executes a model of about a millisecond in a loop, through a daemon
or in itself. All start at the same time. Rounds of both alternate, and the medians of their
throughputs count. Fairness is the ratio of the best client's number of executions to the worst
one's. Further rows have one client that keeps several executions under way by `start_compute`.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import neurald as nd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from result_file import Column, Result, Table, circumstances, write
from run import DAEMON, bound, compiled, model_of, started, with_one_thread

_MODEL = "millisecond"
_WARM_UP = 5


def client(address: str, seconds: float, depth: int) -> None:
    """Executes the model in a loop once standard input has a line; prints how often it did.

    Args:
        address: of the daemon; empty to execute the model in this process.
        seconds: how long.
        depth: how many executions are under way at the same time; with 1 they are synchronous.
    """
    device = nd.connect(address) if address else nd.devices()[0]
    compilation = compiled(model_of(_MODEL), device)
    size = 2 * 4 * 25_000
    executions = deque(
        bound(compilation, nd.Memory.allocate(size), shared_input=True, shared_output=True)
        for _ in range(depth)
    )
    for execution in executions:
        for _ in range(_WARM_UP):
            execution.compute()
    print("ready", flush=True)  # noqa: T201 - the parent waits for it
    sys.stdin.readline()
    count, end = 0, time.monotonic() + seconds
    if depth == 1:
        while time.monotonic() < end:
            executions[0].compute()
            count += 1
    else:
        events = deque(execution.start_compute() for execution in executions)
        while time.monotonic() < end:
            events.popleft().wait()
            count += 1
            events.append(executions[0].start_compute())
            executions.rotate(-1)
        for event in events:
            event.wait()
    print(count, flush=True)  # noqa: T201


def counts(clients: int, depth: int, address: str, seconds: float) -> list[int]:
    """Returns how often each of so many clients executed the model; see `client`."""
    command = [
        *(sys.executable, __file__, "--client", address),
        *("--seconds", str(seconds), "--depths", str(depth)),
    ]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
        for _ in range(clients)
    ]
    try:
        for process in processes:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise RuntimeError("a client did not start")
        for process in processes:
            if process.stdin is not None:
                process.stdin.write("go\n")
                process.stdin.flush()
        return [int(process.communicate()[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(cases: list[tuple[int, int]], seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Returns the throughput and the fairness of each number of clients and depth, both ways."""
    rows = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ipc"))
        address = f"unix://{folder}/cpu.sock"
        started(stack, "-c", DAEMON, address)
        for number, depth in cases:
            found: dict[str, list[list[int]]] = {"": [], address: []}
            for _ in range(rounds):
                for place, each in found.items():
                    each.append(counts(number, depth, place, seconds))
            row: dict[str, Any] = {"clients": number, "depth": depth}
            for name, place in (("in_process", ""), ("daemon", address)):
                row[f"{name}_per_s"] = statistics.median(sum(each) / seconds for each in found[place])
                row[f"{name}_fairness"] = statistics.median(
                    max(each) / max(1, min(each)) for each in found[place]
                )
            row["ratio"] = row["daemon_per_s"] / row["in_process_per_s"]
            rows.append(row)
            print(row, flush=True)  # noqa: T201
    return rows


def result_of(rows: list[dict[str, Any]], seconds: float, rounds: int) -> Result:
    """Returns the content of a result file; see `measure`."""
    columns = [
        Column(name="clients", title="clients"),
        Column(name="depth", title="executions under way, of each"),
        Column(name="in_process_per_s", title="in process", unit="1/s", format=",.0f"),
        Column(name="daemon_per_s", title="daemon", unit="1/s", format=",.0f"),
        Column(name="ratio", title="daemon / in process", format=".2f"),
        Column(name="in_process_fairness", title="best / worst, in process", format=".2f"),
        Column(name="daemon_fairness", title="best / worst, daemon", format=".2f"),
    ]
    table = Table(
        title=f"Executions of all clients together, {seconds:g} s, median of rounds: {rounds}",
        columns=columns,
        rows=[[row[column.name] for column in columns] for row in rows],
    )
    return Result(
        title="Many clients of one daemon",
        description=(__doc__ or "").split("\n\n", 2)[2].strip().replace("\n", " "),
        tables=[table],
        **circumstances(),
    )


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 16, 64])
    parser.add_argument("--depths", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    parser.add_argument("--client", metavar="ADDRESS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with_one_thread()
    if arguments.client is not None:
        client(arguments.client, arguments.seconds, arguments.depths[0])
        return
    cases = [(number, 1) for number in arguments.clients] + [(1, depth) for depth in arguments.depths]
    rows = measure(cases, arguments.seconds, arguments.rounds)
    if arguments.json:
        write(arguments.json, result_of(rows, arguments.seconds, arguments.rounds))


if __name__ == "__main__":
    main()
