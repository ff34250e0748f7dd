"""Measures executions on another host, compared with the link to it.

    python benchmarks/ipc/remote.py [--bytes 1024 65536 602112 4194304] [--gbit 1] [--json FILE]

The daemon serves the CPU device at 127.0.0.1, with TLS and without, and the client executes the
identity on inputs of several sizes, which come back. A row has the round trip, which is a call
without data; the rate of the link, as `nd.devices()` measures it; the time that the bytes of both
directions take at this rate; what the execution takes beyond these two and beyond the run in
process; and, to compare, the round trip and the rate of a bare socket between two processes. Rounds
alternate between both daemons and the process itself; medians count.

Connections of a host have no rate of their own: what processors can do limits them, which differs
between large and small messages. With `--gbit` each direction is limited to so many gigabits in a
second, as a network would.
"""

import argparse
import multiprocessing
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.device import ExecuteOptions, PreparedModel
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.link_speed import measure_link
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.service.certificates.authority import Authority

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from pacing import pace, pace_all
from result_file import Column, Result, Table, circumstances, write
from run import compiled, identity, started, with_one_thread

_SIZES = (1 << 10, 1 << 16, 224 * 224 * 3 * 4, 1 << 22, 1 << 24)
_WARM_UP = 10
#: In one part of a round an execution is repeated until it has taken this long, or this often.
_PART_S = 0.05
_MOST = 20
_SOCKET_BYTES = 1 << 22
_FORK = multiprocessing.get_context("fork")

#: Serves the CPU device at a port of this host, which sends so fast at most unless that is 0, with
#: certificates if a folder is given.
_DAEMON = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).resolve().parent)!r})
from pacing import pace_all
from neurald.hal.admission.access.served_clients import ServedClients
from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.service.daemon.daemon import Daemon
from neurald.service.daemon.running import run_daemon
port, bytes_per_s, *folder = sys.argv[1:]
if int(bytes_per_s):
    pace_all(int(bytes_per_s))
clients = ServedClients(tls=TlsFiles.in_folder(Path(folder[0])) if folder else None)
run_daemon(Daemon("cpu", "127.0.0.1:" + port, clients=clients), ready=lambda a: print(a, flush=True))
"""


def microseconds(run: Callable[[], object]) -> float:
    """Returns the median time of some runs."""
    times: list[float] = []
    end = time.perf_counter() + _PART_S
    while len(times) < _MOST and (not times or time.perf_counter() < end):
        began = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - began) / 1000)
    return statistics.median(times)


def _echo(server: socket.socket, bytes_per_s: int) -> None:
    connection, _ = server.accept()
    if bytes_per_s:
        pace(connection, bytes_per_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while size := int.from_bytes(connection.recv(8, socket.MSG_WAITALL)):
        left = size
        while left:
            left -= len(connection.recv(min(left, 1 << 18)))
        connection.sendall(bytes(size))


class BareSocket:
    """A socket to a process that sends back as many bytes as it got.

    Args:
        bytes_per_s: how fast both send at most; 0 for no limit.
    """

    def __init__(self, bytes_per_s: int) -> None:
        server = socket.create_server(("127.0.0.1", 0))
        self._process = _FORK.Process(target=_echo, args=(server, bytes_per_s), daemon=True)
        self._process.start()
        self._socket = socket.create_connection(server.getsockname())
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if bytes_per_s:
            pace(self._socket, bytes_per_s)

    def exchange(self, size: int) -> None:
        """Sends and receives this many bytes."""
        self._socket.sendall(size.to_bytes(8) + bytes(size))
        left = size
        while left:
            left -= len(self._socket.recv(min(left, 1 << 18)))

    def measured(self) -> tuple[float, float]:
        """Returns the round trip in µs, and the rate in bytes/s."""
        trip = min(microseconds(lambda: self.exchange(1)) for _ in range(5))
        taken = min(microseconds(lambda: self.exchange(_SOCKET_BYTES)) for _ in range(5))
        return trip, 2e6 * _SOCKET_BYTES / (taken - trip)


def prepared_identity(device: nd.Device, size: int) -> PreparedModel:
    """Prepares the identity on this many bytes."""
    (step,) = compiled(identity(size // 4), device).plan.steps
    return step.prepared_model


def execution(prepared: PreparedModel, size: int) -> Callable[[], object]:
    """Returns a function that executes the identity on this many bytes."""
    # Noise, which no compression makes smaller.
    source, target = np.random.default_rng(0).random(size // 4, np.float32), np.empty(size // 4, np.float32)
    request = Request(
        inputs=(Argument(pool=0, length=size),),
        outputs=(Argument(pool=1, length=size),),
        pools=(HostMemory(source), HostMemory(target)),
    )
    options = ExecuteOptions()
    return lambda: prepared.execute(request, options)


def measure(
    ways: dict[str, RemoteDevice], bare: BareSocket, sizes: list[int], rounds: int
) -> list[dict[str, Any]]:
    """Returns the figures of each way and size."""
    here = nd.open_device("cpu")
    trip_us, bytes_per_s = bare.measured()
    models = {
        (name, size): prepared_identity(device, size)
        for size in sizes
        for name, device in {"here": here, **ways}.items()
    }
    runs = {(name, size): execution(model, size) for (name, size), model in models.items()}
    connections = {
        name: model.connection
        for (name, _), model in models.items()
        if isinstance(model, RemotePreparedModel)
    }
    for connection in connections.values():  # as the runtime does for devices of other hosts
        connection.bytes_per_s = measure_link(connection).bytes_per_s
    for run in runs.values():
        for _ in range(_WARM_UP):
            run()
    times: dict[Any, list[float]] = {key: [] for key in runs}
    trips: dict[str, list[float]] = {name: [] for name in ways}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, device in ways.items():
            trips[name].append(microseconds(device.status))
            rates[name].append(measure_link(connections[name]).bytes_per_s)
        for key, run in runs.items():
            times[key].append(microseconds(run))
    rows = []
    for name in ways:
        for size in sizes:
            taken, base = (statistics.median(times[place, size]) for place in (name, "here"))
            trip, rate = statistics.median(trips[name]), statistics.median(rates[name])
            bytes_us = 2e6 * size / rate
            rows.append(
                {
                    "case": f"{name}, {size:,} bytes",
                    "execution_us": taken,
                    "here_us": base,
                    "round_trip_us": trip,
                    "rate_mb_per_s": rate / 1e6,
                    "bytes_us": bytes_us,
                    "overhead_us": taken - base - trip - bytes_us,
                    "socket_round_trip_us": trip_us,
                    "socket_rate_mb_per_s": bytes_per_s / 1e6,
                }
            )
            print(rows[-1], flush=True)  # noqa: T201
    return rows


def result_of(rows: list[dict[str, Any]], rounds: int) -> Result:
    """Returns the content of a result file; see `measure`."""
    columns = [
        Column(name="case", title="case"),
        Column(name="execution_us", title="execution", unit="µs", format=",.0f"),
        Column(name="here_us", title="in process", unit="µs", format=",.0f"),
        Column(name="round_trip_us", title="round trip", unit="µs", format=",.0f"),
        Column(name="rate_mb_per_s", title="rate", unit="MB/s", format=",.0f"),
        Column(name="bytes_us", title="bytes at this rate", unit="µs", format=",.0f"),
        Column(name="overhead_us", title="overhead", unit="µs", format=",.0f"),
        Column(name="socket_round_trip_us", title="round trip of a socket", unit="µs", format=",.0f"),
        Column(name="socket_rate_mb_per_s", title="rate of a socket", unit="MB/s", format=",.0f"),
    ]
    table = Table(
        title=f"The identity on a device of another host, median of rounds: {rounds}",
        columns=columns,
        rows=[[row[column.name] for column in columns] for row in rows],
    )
    return Result(
        title="Executions on other hosts",
        description=(__doc__ or "").split("\n\n", 2)[2].strip().replace("\n", " "),
        tables=[table],
        **circumstances(),
    )


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bytes", type=int, nargs="+", default=list(_SIZES))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--gbit", type=float, help="limit each direction to this many Gbit/s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    arguments = parser.parse_args()
    with_one_thread()
    # It forks, which a process with connections of gRPC must not.
    bytes_per_s = int((arguments.gbit or 0) * 1e9 / 8)
    bare = BareSocket(bytes_per_s)
    if bytes_per_s:
        pace_all(bytes_per_s)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ipc")))
        authority = Authority(folder / "authority")
        authority.create("benchmark")
        serving, client = authority.issue("daemon", ["127.0.0.1"]), authority.issue("client")
        ports = [_free_port(), _free_port()]
        started(stack, "-c", _DAEMON, str(ports[0]), str(bytes_per_s))
        started(stack, "-c", _DAEMON, str(ports[1]), str(bytes_per_s), str(serving))
        ways = {
            "plain": connect(f"127.0.0.1:{ports[0]}"),
            "TLS": connect(f"127.0.0.1:{ports[1]}", tls=TlsFiles.in_folder(client)),
        }
        rows = measure(ways, bare, arguments.bytes, arguments.rounds)
    if arguments.json:
        write(arguments.json, result_of(rows, arguments.rounds))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
