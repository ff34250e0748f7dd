"""Measures the cost of running a model in a driver daemon: calls, bursts, gRPC with inline data.

    python benchmarks/ipc/run.py [--models NAME ...] [--sizes] [--busy] [--rounds 160] [--json FILE]

There are two models: the identity on 600 KB, which costs as little as possible, and one that
computes for about a millisecond; `--sizes` adds the identity on 1 KB to 64 MB. The CPU device runs
each in this process and in a daemon, in all available ways: `compute` on shared memory and on
arrays, `run`, a burst, `start_compute` and a fenced execution; `call` is an execution by gRPC with
its arguments in shared memory, and `grpc_bytes` a minimal server that receives an input inside a
message and returns the output inside one, after running the same prepared model. Ways alternate in
short rounds, in random order, so that interference affects all alike. Figures come from the quarter
of the rounds in which all ways together took the least time; with `--busy`, when a program competes
for each core all the time, from all rounds. The mean counts then: it includes the time slices of
other programs, for which a run waits the longer the more it has computed before.

Cores of a shared machine differ in speed, by a factor of two and from second to second. In each
round the model therefore runs on the same core for all ways, in process or in a server, and the
caller of a server on another; the two cores are swapped from round to round. The overhead over the
same run in process is computed from the medians of each round (p50: the median of their
differences) and from all runs together (p99: the difference of the two 99th percentiles).
"""

import argparse
import itertools
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent import futures
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np

import neurald as nd
from neurald.hal.device import ExecuteOptions
from neurald.hal.model.request import Argument, Request
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Column, Result, Table, circumstances, write

#: Elements of the identity's input: an image of 224 × 224 with three channels, 602,112 bytes.
_ELEMENTS = 224 * 224 * 3
_METHOD = "/neurald.benchmark.Bytes/Run"
_RUNS_PER_ROUND = 10
#: Warm-up runs, which take longer than a daemon stays awake after an execution.
_WARM_UP = 10
#: Share of the rounds that counts.
_KEPT = 0.25
_START_TIMEOUT_S = 60.0
#: The ways in process that others are compared with, by the end of their names.
_IN_PROCESS = {"arrays": "in_process_arrays", "bytes": "in_process_arrays", "run": "in_process_run"}
_BASES = ("in_process", *_IN_PROCESS.values())
#: Bytes of the identity's input and output with `--sizes`.
_SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
_FIGURES = ("p10", "p50", "p99", "mean")
#: With inputs of more bytes a round has fewer runs.
_LARGE = 1 << 21
#: With several threads, a model would have more cores in one process than in the other.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "NEURALD_THREADS": "1", "NEURALD_AUTOSTART": "0"}


def identity(elements: int = _ELEMENTS) -> nd.Model:
    """Builds a RESHAPE to the same shape."""
    builder = nd.ModelBuilder()
    shape = (1, elements)
    source = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, shape)
    target = builder.add_operand(nd.OperandType.TENSOR_INT32, (2,))
    result = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, shape)
    builder.set_operand_value(target, np.array(shape, np.int32))
    builder.add_operation(nd.OperationType.RESHAPE, inputs=[source, target], outputs=[result])
    builder.identify_inputs_and_outputs([source], [result])
    return builder.finish()


def millisecond() -> nd.Model:
    """Builds a chain of TANH that takes about a millisecond.

    Each value is small enough to use recycled memory: new pages would cost more in one process than
    in another.
    """
    builder = nd.ModelBuilder()
    operands = [builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (1, 25_000)) for _ in range(41)]
    for source, result in itertools.pairwise(operands):
        builder.add_operation(nd.OperationType.TANH, inputs=[source], outputs=[result])
    builder.identify_inputs_and_outputs(operands[:1], operands[-1:])
    return builder.finish()


def model_of(name: str) -> nd.Model:
    """Builds a model by name: `identity`, `identity-BYTES` or `millisecond`."""
    kind, _, size = name.partition("-")
    if kind == "identity":
        return identity(int(size) // 4) if size else identity()
    if name != "millisecond":
        raise ValueError(f"there is no model {name!r}")
    return millisecond()


def compiled(model: nd.Model, device: nd.Device) -> nd.Compilation:
    """Compiles a model for one device."""
    builder = nd.CompilationBuilder(model, devices=[device])
    builder.set_caching(None)
    return builder.finish()


def bound(
    compilation: nd.Compilation, memory: nd.Memory, *, shared_input: bool, shared_output: bool
) -> nd.Execution:
    """Creates a reusable execution whose input and output lie in shared memory, or else in arrays.

    All use the same memory, because its cache behaviour varies by allocation.
    """
    operands, model = compilation.model.main.operands, compilation.model
    shape = operands[model.inputs[0]].dimensions or ()
    values = np.random.default_rng(0).random(shape, np.float32)
    execution = nd.Execution(compilation, reusable=True)
    if shared_input:
        memory.view(0, values.nbytes)[:] = values.tobytes()
        execution.set_input_from_memory(0, memory, 0, values.nbytes)
    else:
        execution.set_input(0, values)
    if shared_output:
        execution.set_output_from_memory(0, memory, values.nbytes, values.nbytes)
    else:
        execution.set_output(0, np.empty(shape, np.float32))
    return execution


def serve_bytes(model: str, address: str) -> None:
    """Serves a model through messages with inline data, until standard input ends."""
    compilation = compiled(model_of(model), nd.devices()[0])
    shape = compilation.model.main.operands[compilation.model.inputs[0]].dimensions or ()
    values, result = np.empty(shape, np.float32), np.empty(shape, np.float32)
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, values)
    execution.set_output(0, result)

    def run(request: bytes, _: grpc.ServicerContext) -> bytes:
        values[...] = np.frombuffer(request, np.float32).reshape(shape)
        execution.compute()
        return result.tobytes()

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(run) if details.method == _METHOD else None

    server = grpc.server(futures.ThreadPoolExecutor(2), options=_LIMITS)
    server.add_generic_rpc_handlers((Handler(),))
    server.add_insecure_port(address)
    server.start()
    print("ready", flush=True)  # noqa: T201 - the parent waits for it
    sys.stdin.read()
    server.stop(0)


_LIMITS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def with_one_thread() -> None:
    """Makes models of this process and its children compute with one thread each."""
    os.environ.update(_ONE_THREAD)


def started(stack: ExitStack, *command: str) -> int:
    """Starts a server program, which the stack stops; returns its process id.

    The program prints a line when it serves.
    """
    environment = {**os.environ, **_ONE_THREAD}
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    if process.stdout is None:
        raise RuntimeError(f"{' '.join(command)} has no standard output")
    if not select.select([process.stdout], [], [], _START_TIMEOUT_S)[0] or not process.stdout.readline():
        raise RuntimeError(f"{' '.join(command)} did not start")
    return process.pid


def compete(stack: ExitStack) -> None:
    """Starts a busy program for each core, which the stack stops."""
    for _ in os.sched_getaffinity(0):
        process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        stack.callback(process.wait)
        stack.callback(process.kill)


class Placement:
    """Assignment of the model and its caller to cores. With one core nothing is moved.

    Args:
        servers: the process ids of the servers that run the model.
    """

    def __init__(self, servers: list[int]) -> None:
        self._servers = servers
        self._all = os.sched_getaffinity(0)
        self._cores = sorted(self._all)[:2]

    def swap(self) -> None:
        """Moves the servers to the other one of two cores."""
        self._cores.reverse()
        for server in self._servers:
            for thread in Path(f"/proc/{server}/task").iterdir():
                # Ignore threads that end meanwhile.
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread.name), self._cores[:1])

    def enter(self, *, in_process: bool) -> None:
        """Moves this thread to the model's core, or to the other one."""
        os.sched_setaffinity(0, self._cores[:1] if in_process else self._cores[-1:])

    def leave(self) -> None:
        """Lets this thread run on any core again."""
        os.sched_setaffinity(0, self._all)


#: The program of a daemon that serves the CPU device at the address in its first argument.
DAEMON = """
import sys
from neurald.service.daemon.daemon import Daemon
from neurald.service.daemon.running import run_daemon
run_daemon(Daemon("cpu", sys.argv[1]), ready=lambda address: print(address, flush=True))
"""


def paths(stack: ExitStack, model: str, folder: str) -> tuple[dict[str, Callable[[], object]], Placement]:
    """Returns the ways to run a model once, by name, and the assignment to cores."""
    daemon = started(stack, "-c", DAEMON, f"unix://{folder}/cpu.sock")
    bytes_address = f"unix:{folder}/{model}.bytes"
    server = started(stack, __file__, "--serve-bytes", model, bytes_address)
    here = compiled(model_of(model), nd.devices()[0])
    there = compiled(model_of(model), nd.connect(f"unix://{folder}/cpu.sock"))
    burst = stack.enter_context(there.create_burst())
    channel = grpc.insecure_channel(bytes_address, _LIMITS)
    stack.callback(channel.close)
    call = channel.unary_unary(_METHOD)
    shape = here.model.main.operands[here.model.inputs[0]].dimensions or ()
    values, result = np.zeros(shape, np.float32), np.empty(shape, np.float32)

    def carry() -> None:
        result[...] = np.frombuffer(call(values.tobytes()), np.float32).reshape(shape)

    size = values.nbytes
    memory = nd.Memory.allocate(2 * size)

    def way(compilation: nd.Compilation, *, shared_input: bool, shared_output: bool) -> nd.Execution:
        return bound(compilation, memory, shared_input=shared_input, shared_output=shared_output)

    in_process = way(here, shared_input=True, shared_output=True)
    in_process_arrays = way(here, shared_input=False, shared_output=False)
    shared = way(there, shared_input=True, shared_output=True)
    copied_in = way(there, shared_input=False, shared_output=True)
    arrays = way(there, shared_input=False, shared_output=False)
    (step,) = there.plan.steps
    prepared, options = step.prepared_model, ExecuteOptions()
    if not isinstance(prepared, RemotePreparedModel):
        raise TypeError(f"a {type(prepared).__name__} is not a prepared model of a daemon")
    request = Request(
        inputs=(Argument(pool=0, length=size),),
        outputs=(Argument(pool=0, offset=size, length=size),),
        pools=(memory,),
    )
    ways: dict[str, Callable[[], object]] = {
        "in_process": in_process.compute,
        "in_process_arrays": in_process_arrays.compute,
        "in_process_run": lambda: here.run(values),
        "compute": shared.compute,
        "compute_arrays": arrays.compute,
        "run": lambda: there.run(values),
        "start_compute": lambda: shared.start_compute().wait(),
        "fenced": lambda: shared.start_compute_with_dependencies([]).wait(),
        "burst": lambda: shared.compute(burst=burst),
        "burst_copied_in": lambda: copied_in.compute(burst=burst),
        "burst_arrays": lambda: arrays.compute(burst=burst),
        "call": lambda: prepared.call(request, options),
        "grpc_bytes": carry,
    }
    return ways, Placement([daemon, server])


def measure(
    ways: dict[str, Callable[[], object]], placement: Placement | None, rounds: int, runs: int
) -> dict[str, Any]:
    """Returns microseconds of single runs, by way.

    Args:
        ways: the ways to run the model.
        placement: assigns them to cores, and has only the rounds with the least total time count;
            None on a busy machine.
        rounds: how often all ways take turns.
        runs: of each way in a round.
    """
    order = list(ways)
    samples: list[dict[str, list[float]]] = []
    warm_up = min(runs, _WARM_UP)
    for way in ways.values():
        for _ in range(5 * warm_up):
            way()
    chance = random.Random(0)  # noqa: S311
    for _ in range(rounds):
        if placement is not None:
            placement.swap()
        chance.shuffle(order)
        found: dict[str, list[float]] = {}
        for name in order:
            way = ways[name]
            if placement is not None:
                placement.enter(in_process=name in _BASES)
            for _ in range(warm_up):
                way()
            times = found[name] = []
            for _ in range(runs):
                start = time.perf_counter_ns()
                way()
                times.append((time.perf_counter_ns() - start) / 1000)
        samples.append(found)
    taken = samples
    if placement is not None:
        placement.leave()
        usual = {name: sum(sum(found[name]) for found in samples) for name in ways}
        samples.sort(key=lambda found: sum(sum(times) / usual[name] for name, times in found.items()))
        taken = samples[: max(1, round(rounds * _KEPT))]
    table = {}
    for name in ways:
        times = [t for found in taken for t in found[name]]
        points = (*np.percentile(times, (10, 50, 99)), np.mean(times))
        table[name] = dict(zip(_FIGURES, map(float, points), strict=True))
    return {
        "rounds": rounds,
        "rounds_kept": len(taken),
        "microseconds": table,
        "overhead_microseconds": overheads(taken, table),
    }


def overheads(
    rounds: list[dict[str, list[float]]], table: dict[str, dict[str, float]]
) -> dict[str, dict[str, float]]:
    """Returns the overhead of each way over the same run in process."""
    extra = {}
    for name in table:
        if name in _BASES:
            continue
        base = _IN_PROCESS.get(name.rpartition("_")[2], "in_process")
        differences = [np.median(found[name]) - np.median(found[base]) for found in rounds]
        extra[name] = {
            "p50": float(np.median(differences)),
            "p99": table[name]["p99"] - table[base]["p99"],
        }
    return extra


def show(model: str, report: dict[str, Any]) -> None:
    """Prints a report."""
    table, extra = report["microseconds"], report["overhead_microseconds"]
    print(f"\n{model}: {report['rounds_kept']} of {report['rounds']} rounds")  # noqa: T201
    titles = ("p10 µs", "p50", "p99", "mean", "more, p50", "p99", "gRPC / it")
    print(f"{'way':20}" + "".join(f"{title:>11}" for title in titles))  # noqa: T201
    for name, row in table.items():
        line = f"{name:20}" + "".join(f"{row[figure]:11.1f}" for figure in _FIGURES)
        if name in extra:
            over = extra[name]
            ratio = extra["grpc_bytes"]["p50"] / over["p50"] if over["p50"] > 0 else float("inf")
            line += f"{over['p50']:11.1f}{over['p99']:11.1f}{ratio:11.1f}"
        print(line)  # noqa: T201


def result_table(model: str, report: dict[str, Any]) -> Table:
    """Returns the table of one model for a result file."""
    columns = [
        Column(name="way", title="way"),
        *(Column(name=f"{name}_us", title=name, unit="µs", format=",.0f") for name in _FIGURES),
        *(
            Column(name=f"more_{name}_us", title=f"overhead, {name}", unit="µs", format=",.0f")
            for name in ("p50", "p99")
        ),
    ]
    extra = report["overhead_microseconds"]
    rows = [
        [
            name,
            *(row[each] for each in _FIGURES),
            *(extra.get(name, {}).get(each) for each in ("p50", "p99")),
        ]
        for name, row in report["microseconds"].items()
    ]
    kept, rounds = report["rounds_kept"], report["rounds"]
    return Table(
        title=f"Model {model}, {kept} of {rounds} rounds",
        columns=columns,
        rows=rows,
    )


def summary_table(reports: dict[str, Any], figure: str) -> Table:
    """Returns the overheads of all ways, with a row for each model.

    Args:
        reports: by model.
        figure: `p50` or `p99`.
    """
    extra = {model: report["overhead_microseconds"] for model, report in reports.items()}
    ways = list(next(iter(extra.values())))
    return Table(
        title=f"Overhead at {figure}, µs",
        columns=[
            Column(name="model", title="model"),
            *(Column(name=f"{way}_more_{figure}_us", title=way, format=",.0f") for way in ways),
        ],
        rows=[[model, *(found[way][figure] for way in ways)] for model, found in extra.items()],
    )


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=160)
    parser.add_argument("--models", nargs="+", default=["identity", "millisecond"], metavar="NAME")
    parser.add_argument("--sizes", action="store_true", help="add the identity on 1 KB to 64 MB")
    parser.add_argument("--busy", action="store_true", help="have a program compete for each core")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    parser.add_argument("--serve-bytes", nargs=2, metavar=("MODEL", "ADDRESS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_bytes:
        serve_bytes(*arguments.serve_bytes)
        return
    with_one_thread()
    reports: dict[str, Any] = {}
    sizes = _SIZES if arguments.sizes else ()
    for model in (*arguments.models, *(f"identity-{size}" for size in sizes)):
        is_large = int(model.partition("-")[2] or 0) > _LARGE
        with tempfile.TemporaryDirectory(prefix="ipc") as folder, ExitStack() as stack:
            ways, placement = paths(stack, model, folder)
            if arguments.busy:
                compete(stack)
            report = measure(
                ways,
                None if arguments.busy else placement,
                max(4, arguments.rounds // 8) if is_large else arguments.rounds,
                2 if is_large else _RUNS_PER_ROUND,
            )
        reports[model] = report
        show(model, report)
    if arguments.json:
        result = Result(
            title=f"Calls between processes{' on a busy machine' if arguments.busy else ''}",
            description=(
                "The CPU device with one thread, in process and in a daemon. Overheads are the time beyond "
                "the same run in process: at p50 the median of the differences of each round, at p99 the "
                "difference of the percentiles. "
                + (
                    "A program competed for each core, and all rounds count."
                    if arguments.busy
                    else "The rounds with the least interference count."
                )
            ),
            tables=[
                *(summary_table(reports, figure) for figure in ("p50", "p99")),
                *(result_table(model, report) for model, report in reports.items()),
            ],
            details=reports,
            **circumstances(),
        )
        write(arguments.json, result)


if __name__ == "__main__":
    main()
