"""Measures what the execution service still does when clients ask for twice of what it can do.

    python benchmarks/service/overload.py [--cores 4] [--shared] [--seconds 4] [--turns 5] [--json FILE]

The service runs an int8 network, a run on each processor but one, with tensors in messages of gRPC.
It has processors of its own where there are enough, and so have the programs of the clients; with
`--shared`, all of them may use any processor. The capacity is what clients that wait for their
answers reach, twice as many as runs. Then requests arrive at random times, at twice that rate, each
with a deadline of gRPC. Those that are answered in time are the goodput, of which the table has the
part of the capacity. Both alternate, and the median of the turns counts.
"""

import argparse
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
_CLIENT = """
import asyncio, random, sys, time
import grpc
address, path, number = sys.argv[1:]
request = open(path, "rb").read()
chance = random.Random(int(number))

async def call(method, limit_s, counts):
    began = time.perf_counter()
    try:
        await method(request, timeout=limit_s)
        counts["good" if time.perf_counter() - began <= limit_s else "late"] += 1
    except grpc.aio.AioRpcError as error:
        is_refused = error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        counts["refused" if is_refused else "late"] += 1

async def closed(method, clients, seconds, counts):
    async def repeat():
        while time.perf_counter() < end:
            await call(method, 30, counts)
    end = time.perf_counter() + seconds
    await asyncio.gather(*(repeat() for _ in range(clients)))

async def opened(method, rate, limit_s, seconds, counts):
    at = time.perf_counter()
    end = at + seconds
    calls = []
    while at < end:
        at += chance.expovariate(rate)
        await asyncio.sleep(max(0, at - time.perf_counter()))
        calls.append(asyncio.ensure_future(call(method, limit_s, counts)))
    await asyncio.gather(*calls)

async def main():
    channel = grpc.aio.insecure_channel(address)
    method = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        way, amount, limit_s, seconds = line.split()
        counts = {"good": 0, "refused": 0, "late": 0}
        began = time.perf_counter()
        if way == "closed":
            await closed(method, int(float(amount)), float(seconds), counts)
        else:
            await opened(method, float(amount), float(limit_s), float(seconds), counts)
        # Answers that come when no more requests do are not counted as longer work.
        took_s = time.perf_counter() - began if way == "closed" else float(seconds)
        print(*(count / took_s for count in counts.values()), flush=True)

asyncio.run(main())
"""


def _request(path: Path) -> bytes:
    """Returns a request for a model, which the service calls `same`."""
    (described,) = nd.compile(path).inputs_info
    shape = (1, 224, 224, 3)
    request = message_type("ModelInferRequest")(model_name="same")
    request.inputs.add(name=described.name, datatype="INT8", shape=shape)
    values = np.random.default_rng(0).integers(-128, 128, shape, np.int8)
    request.raw_input_contents.append(values.tobytes())
    encoded: bytes = request.SerializeToString()
    return encoded


def measure(
    network: str, cores: int, seconds: float, turns: int, *, deadlines_s: Sequence[float], shares: bool
) -> list[list[Any]]:
    """Returns the rows of the table."""
    processors = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="v2")))
        path = folder / "network.tflite"
        path.write_bytes(tflite_file(NETWORKS[network](), np.int8))
        message = folder / "request"
        message.write_bytes(_request(path))
        is_split = not shares and len(processors) >= cores + 2
        if is_split:
            os.sched_setaffinity(0, processors[:cores])  # which the service inherits
        lanes = max(1, min(cores, len(processors)) - 1)
        config = " ".join(
            f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
            for key, value in (("threads", 1), ("lanes", lanes))
        )
        address, *_ = start_neurald(stack, folder, path.read_bytes(), config)
        os.sched_setaffinity(0, processors[cores:] if is_split else processors)
        clients = [
            start_client(stack, sys.executable, "-c", _CLIENT, address, str(message), str(number))
            for number in range(_PROGRAMS)
        ]

        def asked(way: str, amount: float, limit_s: float) -> list[float]:
            """Returns the answers per second that were in time, refused, and too late."""
            line = f"{way} {amount / _PROGRAMS} {limit_s} {seconds}\n"
            for client in clients:
                assert client.stdin is not None  # noqa: S101 - it is a pipe
                client.stdin.write(line)
                client.stdin.flush()
            answers = [client.stdout.readline().split() for client in clients if client.stdout is not None]
            return [sum(map(float, each)) for each in zip(*answers, strict=True)]

        closed = _PROGRAMS * max(1, round(2 * lanes / _PROGRAMS))
        asked("closed", closed, 0)  # warms up
        rows: list[list[Any]] = []
        for deadline_s in deadlines_s:
            found: list[list[float]] = []
            for _ in range(turns):
                before = asked("closed", closed, 0)[0]
                counts = asked("open", _OVERLOAD * before, deadline_s)
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
        if arguments.shared:
            title += ", on the same processors as the clients"
        write_run(arguments.json, title, __doc__, [Table(title="Requests", columns=columns, rows=rows)])


if __name__ == "__main__":
    main()
