"""Measures how much two services behind the balancer do of what one does.

    python benchmarks/service/balancer.py [--cores 4] [--clients 8] [--seconds 3] [--json FILE]

Each service has processors of its own, and so has the program with the clients: threads that call a
model of `nd.connect_service`. The model is an int8 network, each run of which has one thread. One
service and both alternate in short turns, and the median of the turns counts.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from networks import NETWORKS, tflite_file
from result_file import Column, Table, write_run
from run import start_neurald

import neurald as nd

_ROUNDS = 5
_CONFIG = 'parameters { key: "threads" value { string_value: "1" } }'


def rate(model: Any, array: Any, clients: int, seconds: float) -> float:
    """Returns the runs per second of this many threads."""
    counts = [0] * clients
    end = time.monotonic() + seconds

    def run(number: int) -> None:
        while time.monotonic() < end:
            model(array)
            counts[number] += 1

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - began)


def measure(network: str, cores: int, clients: int, seconds: float) -> list[float]:
    """Returns the runs per second of one service and of two."""
    content = tflite_file(NETWORKS[network](), np.int8)
    array = np.random.default_rng(0).integers(-128, 128, (1, 224, 224, 3), np.int8)
    processors = sorted(os.sched_getaffinity(0))
    paths: list[str] = []
    with ExitStack() as stack:
        for number in range(2):
            part = processors[number * cores : (number + 1) * cores]
            os.sched_setaffinity(0, part or processors)  # which the service inherits
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="v2")))
            paths.append(start_neurald(stack, folder, content, _CONFIG)[2])
        os.sched_setaffinity(0, processors[2 * cores :] or processors)
        models = [stack.enter_context(nd.connect_service(each).model("same")) for each in (paths[:1], paths)]
        rates: list[list[float]] = [[], []]
        for turn in range(_ROUNDS + 1):
            for model, found in zip(models, rates, strict=True):
                measured = rate(model, array, clients, seconds)
                if turn:  # the first turn warms up
                    found.append(measured)
        os.sched_setaffinity(0, processors)
    return [float(np.median(each)) for each in rates]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--network", default="mobilenet_v2", choices=tuple(NETWORKS))
    parser.add_argument("--cores", type=int, default=4, help="of each service")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    arguments = parser.parse_args()
    one, two = measure(arguments.network, arguments.cores, arguments.clients, arguments.seconds)
    row = [str(arguments.cores), str(arguments.clients), one, two, two / one]
    print(row)  # noqa: T201
    if arguments.json:
        columns = [
            Column(name="cores", title="processors of each"),
            Column(name="clients", title="clients"),
            Column(name="one", title="one service", unit="1/s", format=",.0f"),
            Column(name="two", title="two services", unit="1/s", format=",.0f"),
            Column(name="ratio", title="ratio", format=".2f"),
        ]
        title = f"One service and two behind the balancer: {arguments.network}, int8"
        table = Table(title="Runs per second", columns=columns, rows=[row])
        write_run(arguments.json, title, __doc__, [table])


if __name__ == "__main__":
    main()
