"""Measures a client of a daemon alone and beside others that keep the daemon's processor busy.

    python benchmarks/ipc/neighbours.py [--hogs 3] [--rounds 9] [--seconds 2] [--json FILE]

The victim and the hogs are processes that execute the same model of about a millisecond again and
again, as different users or as one. In each round the victim calls alone first, and then while the
hogs call; the ratio of the two 99th percentiles is computed for each round, and the median of the
ratios counts. A crowded hog keeps as many executions under way as the machine has cores, so that
executions wait for the device; then priorities decide which client is next. Users are told apart by
the kernel on a UNIX socket, which needs root here, and by certificates with TLS, where executions
are calls over gRPC. The exit status is 1 if a goal is missed on a machine of at least six cores,
since with fewer the clients and the daemon's executions compete for the processor itself.
"""

import argparse
import ctypes
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.service.certificates.authority import Authority

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from clients import Case, ClientLoop
from result_file import Column, Result, Table, circumstances, write
from run import compiled, model_of, started, with_one_thread

_MODEL = "millisecond"
#: The first of the users as whom clients connect to a UNIX socket.
_FIRST_USER = 61_000
_WARM_UP = 50
#: How long the hogs may take to reach their pace, or to stop.
_SETTLE_S = 0.3
_START_TIMEOUT_S = 240.0
#: With fewer cores a goal that is missed proves nothing.
_ENOUGH_CORES = 6
_GOAL = 2.0
_FORK = multiprocessing.get_context("fork")

#: Serves the CPU device on a UNIX socket to some users, and with TLS on a port of this host.
_DAEMON = """
import sys
from pathlib import Path
from neurald.hal.admission.access.served_clients import ServedClients
from neurald.hal.admission.access.sharing import Sharing
from neurald.hal.process.address import Address
from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.service.daemon.daemon import Daemon
from neurald.service.daemon.running import run_daemon
address, port, tls, first, count = sys.argv[1:]
users = range(int(first), int(first) + int(count))
sharing = Sharing(users=frozenset(users), socket_mode=0o666)
clients = ServedClients(tls=TlsFiles.in_folder(Path(tls)), sharing=sharing)
daemon = Daemon("cpu", address, clients=clients, listen_tls=Address.parse(f"127.0.0.1:{port}"))
run_daemon(daemon, ready=lambda a: print(a, flush=True))
"""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A way in which the victim and the hogs use the daemon.

    Attributes:
        name: in tables.
        has_tls: whether they connect with certificates over TCP.
        has_users: whether each of them is a user of its own.
        is_crowded: whether each hog keeps as many executions under way as there are cores.
        victim, hogs: their priorities.
        has_goal: whether the victim's p99 may at most double.
    """

    name: str
    has_tls: bool = False
    has_users: bool = True
    is_crowded: bool = False
    victim: nd.Priority = nd.Priority.MEDIUM
    hogs: nd.Priority = nd.Priority.MEDIUM
    has_goal: bool = True


SETTINGS = (
    Setting(name="other users, shared memory"),
    Setting(name="other users, TLS", has_tls=True),
    Setting(name="the same user", has_users=False),
    Setting(name="other users, crowded", is_crowded=True, has_goal=False),
    Setting(name="the same user, crowded", has_users=False, is_crowded=True, has_goal=False),
    Setting(
        name="the same user, crowded, HIGH beside LOW",
        has_users=False,
        is_crowded=True,
        victim=nd.Priority.HIGH,
        hogs=nd.Priority.LOW,
        has_goal=False,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """The addresses of the daemon, and the certificates of its clients.

    Attributes:
        address: its UNIX socket.
        tls_address: its port.
        certificates: folders of the clients' certificates, the victim's first.
    """

    address: str
    tls_address: str
    certificates: tuple[Path, ...]

    def connected(self, setting: Setting, number: int) -> nd.Device:
        """Connects as a client: 0 for the victim."""
        if setting.has_tls:
            folder = self.certificates[number if setting.has_users else 0]
            return connect(self.tls_address, tls=TlsFiles.in_folder(folder))
        if not setting.has_users:
            return connect(self.address)
        # Modules must be loaded while their files can be read.
        connect(self.address).close()
        with _as_user(_FIRST_USER + number):
            return connect(self.address)

    def loop(self, setting: Setting, number: int) -> ClientLoop:
        """Returns a client that executes the model."""
        builder = nd.CompilationBuilder(model_of(_MODEL), [self.connected(setting, number)])
        builder.set_caching(None)
        builder.set_priority(setting.hogs if number else setting.victim)
        depth = (os.cpu_count() or 1) if setting.is_crowded and number else 1
        return ClientLoop(builder.finish(), Case(clients=1, depth=depth))


@contextmanager
def _as_user(user: int) -> Iterator[None]:
    """Acts as another user, whom the kernel names to those that this process connects to."""
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)


def hog(place: Place, setting: Setting, number: int, is_active: Any, counts: Any, ready: Any) -> None:
    """Executes the model whenever `is_active` is set, and counts, until the process is ended."""
    loop = place.loop(setting, number)
    ready.put(number)
    while True:
        while not is_active.value:
            time.sleep(0.01)
        loop.begin()
        while is_active.value:
            loop.step()
            counts[number] += 1
        loop.end()


def victim(place: Place, setting: Setting, ready: Any, requests: Any, results: Any) -> None:
    """Executes the model for as many seconds as each request says, and puts the latencies in µs."""
    loop = place.loop(setting, 0)
    for _ in range(_WARM_UP):
        loop.step()
    ready.put(0)
    while True:
        seconds, latencies = requests.get(), []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.perf_counter_ns()
            loop.step()
            latencies.append((time.perf_counter_ns() - began) / 1000)
        results.put(latencies)


def measure(place: Place, setting: Setting, hogs: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Returns what one setting does to the victim; see the description of the program."""
    is_active, counts = _FORK.RawValue(ctypes.c_int, 0), _FORK.RawArray(ctypes.c_long, hogs + 1)
    ready, requests, results = (_FORK.Queue() for _ in range(3))
    processes = [_FORK.Process(target=victim, args=(place, setting, ready, requests, results))]
    processes += [
        _FORK.Process(target=hog, args=(place, setting, number, is_active, counts, ready))
        for number in range(1, hogs + 1)
    ]
    found: dict[str, list[Any]] = {"alone": [], "beside": []}
    try:
        for process in processes:
            process.start()
        for _ in processes:
            ready.get(timeout=_START_TIMEOUT_S)
        for _ in range(rounds):
            for name, latencies in found.items():
                is_active.value = int(name == "beside")
                time.sleep(_SETTLE_S)
                requests.put(seconds)
                latencies.append(np.percentile(results.get(timeout=_START_TIMEOUT_S), (50, 99)))
    finally:
        for process in processes:
            process.kill()
            process.join()
    row: dict[str, Any] = {"setting": setting.name}
    for column, label in enumerate(("p50", "p99")):
        for name, latencies in found.items():
            row[f"{label}_{name}_us"] = statistics.median(float(each[column]) for each in latencies)
        row[f"{label}_ratio"] = statistics.median(
            float(beside[column] / alone[column]) for alone, beside in zip(*found.values(), strict=True)
        )
    row["hogs_per_s"] = sum(counts) / (rounds * (seconds + _SETTLE_S))
    row["goal"] = _GOAL if setting.has_goal else None
    return row


def result_of(rows: list[dict[str, Any]], hogs: int, seconds: float, rounds: int) -> Result:
    """Returns the content of a result file; see `measure`."""
    columns = [
        Column(name="setting", title="setting"),
        Column(name="p50_alone_us", title="p50 alone", unit="µs", format=",.0f"),
        Column(name="p50_beside_us", title=f"p50 beside {hogs} hogs", unit="µs", format=",.0f"),
        Column(name="p50_ratio", title="ratio", format=".2f"),
        Column(name="p99_alone_us", title="p99 alone", unit="µs", format=",.0f"),
        Column(name="p99_beside_us", title="p99 beside them", unit="µs", format=",.0f"),
        Column(name="p99_ratio", title="ratio", format=".2f"),
        Column(name="goal", title="goal", format=".0f"),
        Column(name="hogs_per_s", title="executions of the hogs", unit="1/s", format=",.0f"),
    ]
    table = Table(
        title=f"One client beside {hogs} hogs, {seconds:g} s each, median of rounds: {rounds}",
        columns=columns,
        rows=[[row[column.name] for column in columns] for row in rows],
    )
    return Result(
        title="A client beside others that keep the daemon busy",
        description=(__doc__ or "").split("\n\n", 2)[2].strip().replace("\n", " "),
        tables=[table],
        **circumstances(),
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--hogs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each part of a round")
    parser.add_argument("--settings", nargs="+", metavar="TEXT", help="only those whose names have a text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    arguments = parser.parse_args()
    with_one_thread()
    rows = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ipc")))
        folder.chmod(0o755)
        authority = Authority(folder / "authority")
        authority.create("benchmark")
        names = ["victim", *(f"hog{number}" for number in range(1, arguments.hogs + 1))]
        place = Place(
            address=f"unix://{folder}/cpu.sock",
            tls_address=f"127.0.0.1:{_free_port()}",
            certificates=tuple(authority.issue(name) for name in names),
        )
        # What clients share must be loaded before they are forked, and gRPC must not have run.
        compiled(model_of(_MODEL), nd.open_device("cpu"))
        port = place.tls_address.rpartition(":")[2]
        tls = str(authority.issue("daemon", ["127.0.0.1"]))
        started(stack, "-c", _DAEMON, place.address, port, tls, str(_FIRST_USER), str(len(names)))
        for setting in SETTINGS:
            if arguments.settings and not any(text in setting.name for text in arguments.settings):
                continue
            if setting.has_users and not setting.has_tls and os.geteuid() != 0:
                print(f"{setting.name}: left out, since only root can act as several users")  # noqa: T201
                continue
            row = measure(place, setting, arguments.hogs, arguments.rounds, arguments.seconds)
            rows.append(row)
            print(row, flush=True)  # noqa: T201
    if arguments.json:
        write(arguments.json, result_of(rows, arguments.hogs, arguments.seconds, arguments.rounds))
    missed = [row["setting"] for row in rows if row["goal"] is not None and row["p99_ratio"] > row["goal"]]
    if missed:
        print(f"p99 more than {_GOAL:g} times that alone: {'; '.join(missed)}")  # noqa: T201
    return int(bool(missed) and len(os.sched_getaffinity(0)) >= _ENOUGH_CORES)


if __name__ == "__main__":
    sys.exit(main())
