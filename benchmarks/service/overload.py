"""Measures what the execution service still does when clients ask for twice of what it can do.

    python benchmarks/service/overload.py [--http] [--cores 4] [--shared] [--seconds 4] [--turns 5]
        [--json FILE]

The service runs an int8 network, a run on each processor but one, with tensors in messages of gRPC
or, with `--http`, as binary data of HTTP. It has processors of its own where there are enough, and
so have the programs of the clients; with `--shared`, all of them may use any processor. The
capacity is what clients that wait for their answers reach, twice as many as runs. Then requests
arrive at random times, at twice that rate, each with a deadline of gRPC or, over HTTP, a limit in
Envoy's header. Those that are answered in time are the goodput, of which the table has the part of
the capacity. Both alternate, and the median of the turns counts.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from networks import NETWORKS, tflite_file
from result_file import Column, Table, write_run
from run import start_client, start_neurald

import neurald as nd
from neurald.service.inference.protocol.messages import message_type

_DEADLINES_S = (1.0, 0.25, 0.1)
_OVERLOAD = 2
#: Programs with clients, of which one alone would be busier than the service.
_PROGRAMS = 4
_CLIENT = Path(__file__).with_name("overload_client.py")


def _request(path: Path, *, over_http: bool) -> bytes:
    """Returns a request for a model, which the service calls `same`, as the clients read it."""
    (described,) = nd.compile(path).inputs_info
    shape = (1, 224, 224, 3)
    values = np.random.default_rng(0).integers(-128, 128, shape, np.int8).tobytes()
    if over_http:
        given = {"name": described.name, "datatype": "INT8", "shape": shape}
        given["parameters"] = {"binary_data_size": len(values)}
        text = json.dumps({"inputs": [given], "parameters": {"binary_data_output": True}}).encode()
        head = f"Inference-Header-Content-Length: {len(text)}\r\nContent-Length: {len(text) + len(values)}"
        return head.encode() + b"\r\n\r\n" + text + values
    request = message_type("ModelInferRequest")(model_name="same")
    request.inputs.add(name=described.name, datatype="INT8", shape=shape)
    request.raw_input_contents.append(values)
    encoded: bytes = request.SerializeToString()
    return encoded


def measure(
    network: str,
    cores: int,
    seconds: float,
    turns: int,
    *,
    deadlines_s: Sequence[float],
    shares: bool,
    over_http: bool,
) -> list[list[Any]]:
    """Returns the rows of the table."""
    processors = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="v2")))
        path = folder / "network.tflite"
        path.write_bytes(tflite_file(NETWORKS[network](), np.int8))
        message = folder / "request"
        message.write_bytes(_request(path, over_http=over_http))
        is_split = not shares and len(processors) >= cores + 2
        if is_split:
            os.sched_setaffinity(0, processors[:cores])  # which the service inherits
        lanes = max(1, min(cores, len(processors)) - 1)
        config = " ".join(
            f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
            for key, value in (("threads", 1), ("lanes", lanes))
        )
        grpc, http, _ = start_neurald(stack, folder, path.read_bytes(), config)
        os.sched_setaffinity(0, processors[cores:] if is_split else processors)
        transport = ("http", http) if over_http else ("grpc", grpc)
        clients = [
            start_client(stack, sys.executable, _CLIENT, *transport, message, str(number))
            for number in range(_PROGRAMS)
        ]

        def asked(way: str, amount: float, limit_s: float) -> list[float]:
            """Returns all programs' answers per second: in time, refused, and too late.

            Args:
                way: of the clients.
                amount: of clients, or of requests per second, of each program.
                limit_s: for each request.
            """
            line = f"{way} {amount} {limit_s} {seconds}\n"
            for client in clients:
                assert client.stdin is not None  # noqa: S101 - it is a pipe
                client.stdin.write(line)
                client.stdin.flush()
            answers = [client.stdout.readline().split() for client in clients if client.stdout is not None]
            return [sum(map(float, each)) for each in zip(*answers, strict=True)]

        closed = max(1, round(2 * lanes / _PROGRAMS))
        asked("closed", closed, 0)  # warms up
        rows: list[list[Any]] = []
        for deadline_s in deadlines_s:
            found: list[list[float]] = []
            for _ in range(turns):
                before = asked("closed", closed, 0)[0]
                counts = asked("open", _OVERLOAD * before / _PROGRAMS, deadline_s)
                capacity = (before + asked("closed", closed, 0)[0]) / 2
                found.append([capacity, *counts, counts[0] / capacity])
            rows.append([f"{deadline_s:g}", *map(float, np.median(found, axis=0))])
            print(rows[-1], *(f"{each[-1]:.2f}" for each in found), flush=True)  # noqa: T201
        os.sched_setaffinity(0, processors)
        return rows


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--network", default="mobilenet_v2", choices=tuple(NETWORKS))
    parser.add_argument("--http", action="store_true", help="over HTTP in place of gRPC")
    parser.add_argument("--cores", type=int, default=4, help="of the service")
    parser.add_argument("--shared", action="store_true", help="service and clients share all processors")
    parser.add_argument("--deadlines", type=float, nargs="+", default=_DEADLINES_S, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    arguments = parser.parse_args()
    rows = measure(
        arguments.network,
        arguments.cores,
        arguments.seconds,
        arguments.turns,
        deadlines_s=arguments.deadlines,
        shares=arguments.shared,
        over_http=arguments.http,
    )
    if arguments.json:
        columns = [
            Column(name="deadline", title="deadline, s"),
            *(
                Column(name=name, title=title, unit="1/s", format=",.0f")
                for name, title in (
                    ("capacity", "capacity"),
                    ("good", "answered in time"),
                    ("refused", "refused"),
                    ("late", "too late"),
                )
            ),
            Column(name="share", title="of capacity", format=".2f"),
        ]
        title = f"The execution service under twice its load: {arguments.network}, int8"
        if arguments.http:
            title += ", over HTTP"
        if arguments.shared:
            title += ", on the same processors as the clients"
        write_run(arguments.json, title, __doc__, [Table(title="Requests", columns=columns, rows=rows)])


if __name__ == "__main__":
    main()
