"""Compares calls between processes with those of Triton, side by side.

    python -m venv build/triton && build/triton/bin/pip install nvidia-pytriton
    python benchmarks/ipc/triton.py [--python build/triton/bin/python] [--rounds 40] [--json FILE]

Each server runs the identity on a number of bytes: neurald's daemon compiles it, Triton's Python
backend returns its input. Arguments are in shared memory, or in messages. Ways alternate in short
rounds, in random order, and all rounds count. A program that does not start, or a round that does
not end, within two minutes ends the benchmark with an error that names it.
"""

import argparse
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from result_file import Column, Table, write_run
from run import DAEMON, bound, compiled, identity, started, with_one_thread
from time_limit import time_limit

_PEER = Path(__file__).with_name("triton_peer.py")
_SIZES = (1 << 10, 4 * 224 * 224 * 3, 1 << 22)
_RUNS = 10
_WARM_UP = 10
_STOP_S = 20.0
#: How long a program may take to start, and a round of a way to end.
_START_S = 120.0
_ROUND_S = 120.0

#: Runs the identity this many times, and returns the microseconds of each run.
_Way = Callable[[int], list[float]]


def _free_ports(count: int) -> list[str]:
    """Returns ports that are all free: otherwise pytriton waits for its server for a minute."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [str(each.getsockname()[1]) for each in sockets]


def _peer(stack: ExitStack, python: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Starts a program of `triton_peer.py`, which the stack stops."""
    libraries = subprocess.run(  # noqa: S603
        [python, "-c", "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    environment = {
        **os.environ,
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        # Triton's Python backend links the interpreter's library.
        "LD_LIBRARY_PATH": libraries,
    }
    environment.pop("PYTHONPATH", None)
    process = subprocess.Popen(  # noqa: S603
        [python, _PEER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    )

    def stop() -> None:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(stop)
    with time_limit(_START_S, f"the start of {_PEER.name} {arguments[0]}"):
        while process.stdout is not None:
            line = process.stdout.readline()
            if line == "ready\n":
                return process
            if not line:
                break
    raise RuntimeError(f"{_PEER.name} {arguments[0]} did not start")


def _timed(run: Callable[[], object]) -> _Way:
    def way(count: int) -> list[float]:
        times = []
        for _ in range(count):
            start = time.perf_counter_ns()
            run()
            times.append((time.perf_counter_ns() - start) / 1000)
        return times

    return way


def _asked(client: "subprocess.Popen[str]", name: str) -> _Way:
    def way(count: int) -> list[float]:
        if client.stdin is None or client.stdout is None:
            raise RuntimeError("the client of Triton has no standard input")
        client.stdin.write(f"{name} {count}\n")
        client.stdin.flush()
        times = [float(text) for text in client.stdout.readline().split()]
        if len(times) != count:
            raise RuntimeError(f"the client of Triton has answered {len(times)} runs of {count}")
        return times

    return way


def measure(python: Path, size: int, rounds: int) -> dict[str, list[float]]:
    """Returns the microseconds of all runs on this many bytes, by way."""
    with tempfile.TemporaryDirectory(prefix="ipc") as folder, ExitStack() as stack:
        started(stack, "-c", DAEMON, f"unix://{folder}/cpu.sock")
        there = compiled(identity(size // 4), nd.connect(f"unix://{folder}/cpu.sock"))
        shared = bound(there, nd.Memory.allocate(2 * size), shared_input=True, shared_output=True)
        values = np.zeros((1, size // 4), np.float32)
        ports = _free_ports(3)
        _peer(stack, python, "serve", str(size // 4), *ports)
        client = _peer(stack, python, "call", str(size // 4), ports[0])
        ways = {
            "neurald, shared memory": _timed(shared.compute),
            "neurald, arrays": _timed(lambda: there.run(values)),
            "Triton, shared memory": _asked(client, "shared_memory"),
            "Triton, arrays": _asked(client, "bytes"),
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        order, chance = list(ways), random.Random(0)  # noqa: S311
        for _ in range(rounds):
            chance.shuffle(order)
            for name in order:
                with time_limit(_ROUND_S, f"a round of {name!r} with {size:,} bytes"):
                    ways[name](_WARM_UP)
                    found[name] += ways[name](_RUNS)
    return found


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--python", type=Path, default=Path("build/triton/bin/python"))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    arguments = parser.parse_args()
    with_one_thread()
    rows: list[list[Any]] = []
    for size in _SIZES:
        for name, times in measure(arguments.python.absolute(), size, arguments.rounds).items():
            rows.append([size, name, *map(float, np.percentile(times, (10, 50, 99)))])
            print(rows[-1], flush=True)  # noqa: T201
    if arguments.json:
        columns = [
            Column(name="bytes", title="bytes in and out", format=",.0f"),
            Column(name="way", title="way"),
            *(
                Column(name=f"{name}_us", title=name, unit="µs", format=",.0f")
                for name in ("p10", "p50", "p99")
            ),
        ]
        table = Table(title="Time of an identity", columns=columns, rows=rows)
        write_run(arguments.json, "Calls between processes, compared with Triton", __doc__, [table])


if __name__ == "__main__":
    main()
