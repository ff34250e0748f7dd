"""Compares the throughput of a network in the execution service with Triton, which runs LiteRT.

    build/triton/bin/pip install nvidia-pytriton ai-edge-litert
    python benchmarks/service/throughput.py [--python build/triton/bin/python] [--seconds 3] [--json
    FILE]

The network is int8, with the shapes of one of `benchmarks/networks`. Triton's Python backend runs
it with LiteRT, in one instance for each processor, each with one thread; the service runs as many
at once in one process, each with one thread. One program with tritonclient calls both over gRPC,
with a number of threads. Both servers take short turns, and the median of the turns counts. The
processor time of a server's processes, for each run, hardly depends on what else the machine does.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from networks import NETWORKS, tflite_file
from result_file import Column, Table, write_run
from run import asked, start_client, start_neurald, start_triton

_CLIENTS = (1, 2, 4, 8, 16, 32)
_ROUNDS = 3

_PROGRAM = """
import numpy as np
import triton_python_backend_utils as pb_utils
from ai_edge_litert.interpreter import Interpreter


class TritonPythonModel:
    def initialize(self, args):
        self.model = Interpreter(@MODEL@, num_threads=1)
        self.model.allocate_tensors()
        self.source = self.model.get_input_details()[0]["index"]
        self.target = self.model.get_output_details()[0]["index"]

    def execute(self, requests):
        answers = []
        for request in requests:
            self.model.set_tensor(self.source, pb_utils.get_input_tensor_by_name(request, "@INPUT@").as_numpy())
            self.model.invoke()
            found = self.model.get_tensor(self.target)
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("@OUTPUT@", found)]))
        return answers
"""
_CONFIG = """
backend: "python"
max_batch_size: 0
input [ { name: "@INPUT@" data_type: TYPE_INT8 dims: [ 1, 224, 224, 3 ] } ]
output [ { name: "@OUTPUT@" data_type: TYPE_INT8 dims: [ -1, -1 ] } ]
instance_group [ { kind: KIND_CPU count: @COUNT@ } ]
"""
_CLIENT = """
import sys, threading, time
import numpy as np
import tritonclient.grpc as grpc
model, address, source, target = sys.argv[1:]
values = np.random.default_rng(0).integers(-128, 128, (1, 224, 224, 3), np.int8)
tensor = grpc.InferInput(source, [1, 224, 224, 3], "INT8")
tensor.set_data_from_numpy(values)
print("ready", flush=True)
for line in sys.stdin:
    clients, tenths = map(int, line.split())
    counts = [0] * clients
    end = time.monotonic() + tenths / 10
    def run(number):
        with grpc.InferenceServerClient(address) as client:
            while time.monotonic() < end:
                client.infer(model, [tensor]).as_numpy(target)
                counts[number] += 1
    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(counts) / (time.monotonic() - began), flush=True)
"""


def measure(python: Path, network: str, seconds: float) -> list[list[Any]]:
    """Returns the rows of the table: clients, and runs per second of both."""
    model = tflite_file(NETWORKS[network](), np.int8)
    count = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="v2") as name, ExitStack() as stack:
        folder = Path(name)
        path = folder / "network.tflite"
        path.write_bytes(model)
        config = f'parameters {{ key: "threads" value {{ string_value: "1" }} }} {_lanes(count)}'
        before = _children(os.getpid())
        mine, *_ = start_neurald(stack, folder, model, config)
        roots = {"neurald": _children(os.getpid()) - before}
        before |= roots["neurald"]
        source, target = _names(path)
        words = {"@MODEL@": repr(str(path)), "@INPUT@": source, "@OUTPUT@": target, "@COUNT@": str(count)}
        theirs, _ = start_triton(stack, python, folder, _filled(_PROGRAM, words), _filled(_CONFIG, words))
        roots["Triton"] = _children(os.getpid()) - before
        clients = {
            "neurald": start_client(stack, python, "-c", _CLIENT, "same", mine, source, target),
            "Triton": start_client(stack, python, "-c", _CLIENT, "identity", theirs, source, target),
        }
        rows: list[list[Any]] = []
        for number in _CLIENTS:
            rates: dict[str, list[float]] = {server: [] for server in clients}
            costs: dict[str, list[float]] = {server: [] for server in clients}
            for turn in range(_ROUNDS + 1):
                for server, client in clients.items():
                    used_s = _processor_s(roots[server])
                    (rate,) = asked(client, str(number), int(10 * seconds))
                    if turn:  # the first turn warms up
                        rates[server].append(rate)
                        costs[server].append(1000 * (_processor_s(roots[server]) - used_s) / (rate * seconds))
            found = [float(np.median(rates[server])) for server in clients]
            cost = [float(np.median(costs[server])) for server in clients]
            rows.append([str(number), *found, found[0] / found[1], *cost, cost[0] / cost[1]])
            print(rows[-1], flush=True)  # noqa: T201
        return rows


def _children(process: int) -> set[int]:
    found: set[int] = set()
    for thread in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):
            found.update(map(int, (thread / "children").read_text().split()))
    return found


def _processor_s(roots: set[int]) -> float:
    """Returns the processor time that processes and their descendants have used."""
    ticks = 0
    waiting = list(roots)
    while waiting:
        process = waiting.pop()
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
            waiting.extend(_children(process))
    return ticks / os.sysconf("SC_CLK_TCK")


def _lanes(count: int) -> str:
    return f'parameters {{ key: "lanes" value {{ string_value: "{count}" }} }}'


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _names(path: Path) -> tuple[str, str]:
    import neurald as nd

    model = nd.compile(path)
    return model.inputs_info[0].name, model.outputs_info[0].name


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--python", type=Path, default=Path("build/triton/bin/python"))
    parser.add_argument("--network", default="mobilenet_v2", choices=tuple(NETWORKS))
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    arguments = parser.parse_args()
    rows = measure(arguments.python.absolute(), arguments.network, arguments.seconds)
    if arguments.json:
        columns = [
            Column(name="clients", title="clients"),
            Column(name="neurald", title="neurald", unit="1/s", format=",.0f"),
            Column(name="Triton", title="Triton with LiteRT", unit="1/s", format=",.0f"),
            Column(name="ratio", title="ratio", format=".2f"),
            Column(name="neurald_cost", title="neurald, of processors", unit="ms", format=".2f"),
            Column(name="Triton_cost", title="Triton, of processors", unit="ms", format=".2f"),
            Column(name="cost_ratio", title="ratio", format=".2f"),
        ]
        title = f"The execution service, compared with Triton that runs LiteRT: {arguments.network}, int8"
        table = Table(title="Runs per second", columns=columns, rows=rows)
        write_run(arguments.json, title, __doc__, [table])


if __name__ == "__main__":
    main()
