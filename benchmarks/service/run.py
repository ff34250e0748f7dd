"""Compares the execution service with Triton, side by side.

    python -m venv build/triton && build/triton/bin/pip install nvidia-pytriton
    python benchmarks/service/run.py [--python build/triton/bin/python] [--rounds 30] [--json FILE]

Both servers run the identity on 600 KB: neurald compiles it, Triton's Python backend returns its
input. The same program with tritonclient calls both: with tensors in messages of gRPC and HTTP, and
in system shared memory. `nd.connect_service` is neurald's own channel, in a process of its own,
too. Ways alternate in short rounds, in random order, and all rounds count; ratios are of medians.
"""

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from result_file import Column, Table, write_run
from support.inference.zoo import reshaping, write_model
from time_limit import time_limit

ELEMENTS = 3 * 224 * 224
_CLIENT = Path(__file__).with_name("client.py")
_RUNS, _WARM_UP = 20, 5
#: How long a program may take to start, and a client to answer.
_START_S = 120.0
_ANSWER_S = 120.0
_WAYS = ("live", "grpc", "grpc_shm", "http", "http_shm")
_TITLES = {
    "live": "ServerLive",
    "grpc": "gRPC, tensors in messages",
    "grpc_shm": "gRPC, system shared memory",
    "http": "HTTP, tensors in messages",
    "http_shm": "HTTP, system shared memory",
    "lane": "nd.connect_service",
}
_CLIENTS = (1, 4, 8)

_MODEL = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("y", pb_utils.get_input_tensor_by_name(request, "x").as_numpy())]
            )
            for request in requests
        ]
"""
_CONFIG = """
backend: "python"
max_batch_size: 0
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
_LANE = """
import sys, time
import numpy as np
import neurald as nd
elements, path = int(sys.argv[1]), sys.argv[2]
same = nd.connect_service(path).model("same")
x = np.random.default_rng(0).random((1, elements), np.float32)
print("ready", flush=True)
for line in sys.stdin:
    times = []
    for _ in range(int(line.split()[1])):
        start = time.perf_counter_ns()
        same(x)
        times.append((time.perf_counter_ns() - start) / 1000)
    print(*times, flush=True)
"""


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def _stopped(stack: ExitStack, process: "subprocess.Popen[Any]") -> None:
    def stop() -> None:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(stop)


def start_triton(
    stack: ExitStack, python: Path, folder: Path, program: str = _MODEL, config: str = _CONFIG
) -> tuple[str, str]:
    """Starts Triton with its Python backend; returns its addresses for gRPC and HTTP.

    Args:
        stack: ends it.
        python: has nvidia-pytriton.
        folder: for its files.
        program, config: of its model, which is called `identity`.
    """
    text = subprocess.run(  # noqa: S603
        [
            *(python, "-c"),
            "import sysconfig, sys; print(sysconfig.get_config_var('LIBDIR'), sysconfig.get_path('purelib'), "
            "f'{sys.version_info.major}.{sys.version_info.minor}')",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    libraries, packages, version = text[0], Path(text[1]), text[2]
    home = packages / "pytriton" / "tritonserver"
    backends, repository = folder / "backends", folder / "triton"
    shutil.copytree(home / "backends", backends)
    shutil.copy(home / "python_backend_stubs" / version / "triton_python_backend_stub", backends / "python")
    (repository / "identity" / "1").mkdir(parents=True)
    (repository / "identity" / "1" / "model.py").write_text(program)
    (repository / "identity" / "config.pbtxt").write_text(config)
    grpc, http, metrics = _free_ports(3)
    command = [home / "bin" / "tritonserver", "--model-repository", repository]
    command += ["--backend-directory", backends, "--grpc-port", str(grpc)]
    command += ["--http-port", str(http), "--metrics-port", str(metrics)]
    process = subprocess.Popen(  # noqa: S603
        command,
        env={
            **os.environ,
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            "LD_LIBRARY_PATH": os.pathsep.join((libraries, str(packages / "nvidia_pytriton.libs"))),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _stopped(stack, process)
    for _ in range(600):
        try:
            with socket.create_connection(("127.0.0.1", grpc)):
                return f"127.0.0.1:{grpc}", f"127.0.0.1:{http}"
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("Triton did not start")


def start_neurald(
    stack: ExitStack, folder: Path, model: bytes | None = None, config: str = ""
) -> tuple[str, str, str]:
    """Starts the execution service; returns its addresses for gRPC and HTTP, and its socket.

    Args:
        stack: ends it.
        folder: for its files.
        model, config: of its model, which is called `same`; by default the identity.
    """
    repository = folder / "neurald"
    write_model(repository, "same", model or reshaping("FLOAT32", ELEMENTS), config=config)
    path = str(folder / "service.sock")
    settings = {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "socket": path, "allow_client_shm": True}
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "neurald.service.inference.server.program", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    _stopped(stack, process)
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    process.stdin.write(json.dumps({**settings, "repositories": [str(repository)]}) + "\n")
    process.stdin.flush()
    with time_limit(_START_S, "the start of the execution service"):
        for line in process.stdout:
            status = json.loads(line).get("status", {})
            if status.get("is_ready"):
                return status["addresses"]["grpc"], status["addresses"]["http"], path
    raise RuntimeError("the execution service did not start")


def start_client(stack: ExitStack, *command: "str | Path") -> "subprocess.Popen[str]":
    """Starts a client, and waits until it is ready."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
    _stopped(stack, process)
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    with time_limit(_START_S, "the start of a client"):
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("a client did not start")
    return process


def asked(client: "subprocess.Popen[str]", way: str, count: int) -> list[float]:
    """Lets a client run this many times, and returns what it answers."""
    assert client.stdin is not None  # noqa: S101 - it is a pipe
    assert client.stdout is not None  # noqa: S101 - it is a pipe
    client.stdin.write(f"{way} {count}\n")
    client.stdin.flush()
    with time_limit(_ANSWER_S, f"{way} {count} of a client"):
        answer = client.stdout.readline()
    if not answer:
        raise RuntimeError(f"a client has ended instead of answering {way} {count}")
    return [float(each) for each in answer.split()]


def measure(python: Path, rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Returns the microseconds of all runs, and runs per second, by server and way."""
    with tempfile.TemporaryDirectory(prefix="v2") as name, ExitStack() as stack:
        folder = Path(name)
        triton = start_triton(stack, python, folder)
        *mine, path = start_neurald(stack, folder)
        clients = {
            "Triton": start_client(stack, python, _CLIENT, str(ELEMENTS), "identity", *triton),
            "neurald": start_client(stack, python, _CLIENT, str(ELEMENTS), "same", *mine),
        }
        lane = start_client(stack, sys.executable, "-c", _LANE, str(ELEMENTS), path)
        ways = [(server, way) for server in clients for way in _WAYS] + [("neurald", "lane")]
        times: dict[str, list[float]] = {f"{server} {way}": [] for server, way in ways}
        chance = random.Random(0)  # noqa: S311
        for _ in range(rounds):
            chance.shuffle(ways)
            for server, way in ways:
                client = lane if way == "lane" else clients[server]
                asked(client, way, _WARM_UP)
                times[f"{server} {way}"] += asked(client, way, _RUNS)
        rates: dict[str, list[float]] = {}
        for _ in range(max(1, rounds // 10)):
            for count in _CLIENTS:
                for server, client in clients.items():
                    rates.setdefault(f"{server} {count}", []).extend(asked(client, "throughput", count))
    return times, rates


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--python", type=Path, default=Path("build/triton/bin/python"))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    arguments = parser.parse_args()
    times, rates = measure(arguments.python.absolute(), arguments.rounds)
    rows: list[list[Any]] = []
    for way, title in _TITLES.items():
        mine = np.percentile(times[f"neurald {way}"], (50, 99))
        # The own channel is compared with the best way of Triton.
        other = times[f"Triton {'grpc_shm' if way == 'lane' else way}"]
        theirs = np.percentile(other, (50, 99))
        rows.append([title, *map(float, (*mine, *theirs)), float(mine[0] / theirs[0])])
        print(rows[-1])  # noqa: T201
    throughput: list[list[Any]] = []
    for count in _CLIENTS:
        found = [float(np.median(rates[f"{server} {count}"])) for server in ("neurald", "Triton")]
        throughput.append([str(count), *found, found[0] / found[1]])
        print(throughput[-1])  # noqa: T201
    if arguments.json:
        columns = [
            Column(name="way", title="way"),
            *(
                Column(name=f"{server}_{name}", title=f"{server} {name}", unit="µs", format=",.0f")
                for server in ("neurald", "Triton")
                for name in ("p50", "p99")
            ),
            Column(name="ratio", title="ratio", format=".2f"),
        ]
        rate = [
            Column(name="clients", title="clients"),
            Column(name="neurald", title="neurald", unit="1/s", format=",.0f"),
            Column(name="Triton", title="Triton", unit="1/s", format=",.0f"),
            Column(name="ratio", title="ratio", format=".2f"),
        ]
        tables = [
            Table(title="Time of an identity of 600 KB", columns=columns, rows=rows),
            Table(title="Runs per second, tensors in messages of gRPC", columns=rate, rows=throughput),
        ]
        write_run(arguments.json, "The execution service, compared with Triton", __doc__, tables)


if __name__ == "__main__":
    main()
