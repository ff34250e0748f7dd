"""Measures what the scheduler promises about plans over devices of known speed.

    PYTHONPATH=src:tests python benchmarks/scheduler/claims.py [--only NAME ...] [--json FILE]

The devices sleep for as long as they would compute, in this process or in daemons, one execution
after another; only those that are cancelled are the CPU device. What is measured:

- branches: two independent steps of 200 ms each on devices of their own.
- stream: the throughput of `Compilation.stream` in relation to calls one after another, for two
  steps of 20 ms.
- cancelled: from `Execution.cancel` until the execution of a large model ends.
- client killed: from the death of a client until the CPU device of a daemon in this process is
  free.
- drift: the work on a device, all of whose runs take twice as long from a moment on, until the CPU
  device takes over.
- never slower: by how much trials against the CPU device lengthen the first 1,000 runs, where the
  device takes two thirds of the CPU device's time, and where it takes twice its time; and trials of
  a plan of two devices against the CPU device and a third one, which is faster or slower than both.
- goodput: executions in time, in relation to the capacity, where twice as many are asked for, each
  in a thread of its own and with a limit of this many times its length. The capacity is what two
  threads reach before and after.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from support.daemon.processes import daemon_process
from support.devices.simulated import SECONDS_VARIABLE, SimulatedDevice
from support.models.chains import chain, ramp
from support.models.plans import request_for
from support.models.small import add_model, branching_model

import neurald as nd
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.server import DeviceServer
from neurald.runtime.costs import store
from neurald.runtime.costs.slowness import slowness_of
from neurald.runtime.costs.table import Average, CostTable, DeviceLink
from neurald.runtime.costs.work import kind_of, work_of
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.plan.preparer import Preparer

sys.path.insert(0, str(Path(__file__).parents[1]))

from result_file import Cell, Column, Result, Table, circumstances, write

_PLACES = ("in process", "daemons")
_BRANCH_S = 0.2
_STEP_S = 0.02
_STREAMED = 40
_LARGE = 2048
_RUN_S = 0.01
_LIMITS = (10, 3)
_LOAD_S = 2.0
_TRIAL_RUNS = 1000
_PLAN_S = 2e-3
_KINDS = (nd.OperationType.TANH, nd.OperationType.LOGISTIC)
_CLIENT = """
import sys
import numpy as np
import neurald as nd
from claims import large_model, optimized
compilation = optimized(large_model(), nd.connect(sys.argv[1]))
array = np.ones((2048, 2048), np.float32)
print("begun", flush=True)
while True:
    compilation.run(array)
"""

#: A quantity of the table, its unit, and what was measured.
Measured = tuple[str, str, list[float]]


@contextlib.contextmanager
def devices(place: str, seconds: float) -> Iterator[list[nd.Device]]:
    """Yields devices for TANH and for LOGISTIC that take this long."""
    if place == "in process":
        yield [
            SimulatedDevice(
                f"{kind.name.lower()}-{seconds}", default_s=seconds, supports=(kind,).__contains__
            )
            for kind in _KINDS
        ]
        return
    with contextlib.ExitStack() as stack:
        found = []
        for name in ("create_tanh", "create_logistic"):
            driver = f"support.devices.simulated:{name}"
            environment = {SECONDS_VARIABLE: str(seconds)}
            _, address = stack.enter_context(daemon_process(driver, environment=environment))
            found.append(nd.connect(address))
        yield found


def _compiled(model: nd.Model, used: Sequence[nd.Device], policy: str = "android") -> nd.Compilation:
    builder = nd.CompilationBuilder(model, [nd.devices()[0], *used])
    builder.set_partitioning(policy)
    builder.set_caching(None)
    return builder.finish()


def branches() -> Iterator[Measured]:
    """Measures two branches at once."""
    model, array = branching_model(), np.ones((2, 3), np.float32)
    for place in _PLACES:
        with devices(place, _BRANCH_S) as used:
            compilation = _compiled(model, used)
            assert len(compilation.plan.steps) == 3  # noqa: S101 - what is measured
            compilation.run(array)
            yield (
                f"two branches of 200 ms, {place}",
                "ms",
                [1e3 * _timed(compilation, array) for _ in range(7)],
            )


def _timed(compilation: nd.Compilation, array: "np.ndarray") -> float:
    begun_s = time.perf_counter()
    compilation.run(array)
    return time.perf_counter() - begun_s


def stream() -> Iterator[Measured]:
    """Measures the throughput of streams."""
    model, arrays = chain(["TANH", "LOGISTIC"]), [(ramp(),)] * _STREAMED
    for place in _PLACES:
        with devices(place, _STEP_S) as used:
            compilation = _compiled(model, used)
            assert len(compilation.plan.steps) == 2  # noqa: S101 - what is measured
            compilation.run(*arrays[0])
            found = []
            for _ in range(3):
                serial_s = sum(_timed(compilation, *each) for each in arrays)
                begun_s = time.perf_counter()
                assert len(list(compilation.stream(arrays, depth=4))) == _STREAMED  # noqa: S101 - runs it
                found.append(serial_s / (time.perf_counter() - begun_s))
            yield f"stream of two steps of 20 ms, {place}", "times", found


def large_model() -> nd.Model:
    """Returns a model that takes the CPU device hundreds of milliseconds."""
    builder, shape = nd.ModelBuilder(), (_LARGE, _LARGE)
    first = last = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, shape)
    weights = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, shape)
    builder.set_operand_value(weights, np.eye(_LARGE, dtype=np.float32))
    bias = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (_LARGE,))
    builder.set_operand_value(bias, np.zeros(_LARGE, np.float32))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    for _ in range(6):
        result = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, shape)
        builder.add_operation(nd.OperationType.FULLY_CONNECTED, [last, weights, bias, activation], [result])
        last = result
    builder.identify_inputs_and_outputs([first], [last])
    return builder.finish()


def optimized(model: nd.Model, device: nd.Device) -> nd.Compilation:
    """Returns a compilation whose last tier runs."""
    builder = nd.CompilationBuilder(model, [device])
    builder.set_startup(nd.Startup.OPTIMIZED)
    builder.set_caching(None)
    return builder.finish()


def cancelled() -> Iterator[Measured]:
    """Measures how long an execution takes to end after it was cancelled."""
    model, array = large_model(), np.ones((_LARGE, _LARGE), np.float32)
    with daemon_process("cpu") as (_, address):
        for place, device in zip(_PLACES, (nd.devices()[0], nd.connect(address)), strict=True):
            compilation = optimized(model, device)
            compilation.run(array)
            found = [_cancelled_s(compilation, array, 0.08 + 0.01 * number) * 1e3 for number in range(12)]
            yield f"cancelled, {place}", "ms", found


def _cancelled_s(compilation: nd.Compilation, array: "np.ndarray", pause_s: float) -> float:
    execution, ended_s = nd.Execution(compilation), [0.0]
    execution.set_input(0, array)
    execution.set_output(0, np.empty_like(array))

    def run() -> None:
        with contextlib.suppress(nd.Error):
            execution.compute()
        ended_s[0] = time.perf_counter()

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(pause_s)
    begun_s = time.perf_counter()
    execution.cancel()
    thread.join()
    return ended_s[0] - begun_s


def client_killed() -> Iterator[Measured]:
    """Measures how long a device stays busy after its client was killed."""
    found = []
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    with tempfile.TemporaryDirectory(prefix="neurald") as folder:
        server = DeviceServer(nd.devices()[0], Address.parse(f"unix://{folder}/cpu.sock"))
        server.start()
        admission = server.handler.admission
        for number in range(8):
            client = subprocess.Popen(  # noqa: S603 - this Python
                [sys.executable, "-c", _CLIENT, str(server.address)],
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": paths},
            )
            with client, contextlib.suppress(OSError):
                assert client.stdout is not None  # noqa: S101 - it is a pipe
                client.stdout.readline()
                time.sleep(0.3 + 0.02 * number)
                begun_s = time.perf_counter()
                client.kill()
                while admission.calls:
                    time.sleep(2e-4)
                found.append(1e3 * (time.perf_counter() - begun_s))
        server.stop()
    yield "client killed, daemon in this process", "ms", found


def drift() -> Iterator[Measured]:
    """Measures the work on a device that has become slower, until the CPU device takes over."""
    model, ones = add_model(), np.ones((2, 3), np.float32)
    found = []
    for number in range(5):
        device = SimulatedDevice(f"slower-{number}", default_s=_STEP_S)
        builder = nd.CompilationBuilder(model, [device])
        builder.set_caching(None)
        (step,) = builder.finish().plan.steps
        recovery = Recovery(
            model, (step,), Preparer(PrepareOptions()), may_fall_back=True, watches_drift=True
        )
        request = request_for([ones, ones], [np.empty_like(ones)])
        for _ in range(20):
            recovery.run(step, request, ExecuteOptions())
        device.slowness = 2.0
        begun_s = time.perf_counter()
        while slowness_of(device.name) == 1.0:
            recovery.run(step, request, ExecuteOptions())
        found.append(1e3 * (time.perf_counter() - begun_s))
    yield "twice as slow as before", "ms", found


def never_slower() -> Iterator[Measured]:
    """Measures what trials of plans against the CPU device cost."""
    model = chain(["TANH"] * 4)
    for name, cpu_s in (("two thirds of the CPU device's time", 1.5 * _PLAN_S), ("twice", _PLAN_S / 2)):
        found = []
        for number in range(3):
            device = SimulatedDevice(f"tried {name} {number}", default_s=_PLAN_S / 4)
            _costed(device, model, 1e-12)
            with _cpu_device_takes(cpu_s):
                compilation = _compiled(model, [device], "min_cost")
                assert [step.device for step in compilation.plan.steps] == [device]  # noqa: S101 - measured
                found.append(_trial_cost(compilation, [device]))
        yield f"trials over 1,000 runs, the device takes {name}", "% more time", found
    for name, third_s in (("half of the plan's time", _PLAN_S / 2), ("twice", 2 * _PLAN_S)):
        yield (
            f"the same with two rivals, of which a third device takes {name}",
            "% more time",
            _two_rivals(third_s),
        )


def _costed(device: SimulatedDevice, model: nd.Model, seconds: float) -> SimulatedDevice:
    """Gives a device wrong costs: this many seconds for each operation of a model."""
    table = CostTable(launch=Average(seconds=1e-12), link=DeviceLink())
    for operation in model.main.operations:
        graph = model.main
        table = table.observed(kind_of(graph, operation), work_of(graph, operation), seconds)
    store.costs_of(device).use(table)
    return device


def _two_rivals(third_s: float) -> list[float]:
    """Returns what trials of a plan of two devices cost where a third device could run everything.

    The costs of the three promise that the plan takes a little less than the third device alone.
    """
    model = chain([kind.name for kind in _KINDS])
    _costed(nd.devices()[0], model, _PLAN_S)
    found = []
    for number in range(3):
        used = [
            _costed(
                SimulatedDevice(
                    f"half {kind.name} {third_s} {number}",
                    default_s=_PLAN_S / 2,
                    supports=(kind,).__contains__,
                ),
                model,
                1e-5,
            )
            for kind in _KINDS
        ]
        third = _costed(SimulatedDevice(f"third {third_s} {number}", default_s=third_s / 2), model, 4e-5)
        with _cpu_device_takes(1.5 * _PLAN_S):
            compilation = _compiled(model, [*used, third], "min_cost")
            assert [step.device for step in compilation.plan.steps] == used  # noqa: S101 - measured
            found.append(_trial_cost(compilation, [third, used[0]]))
    return found


def _trial_cost(compilation: nd.Compilation, devices: Sequence[SimulatedDevice]) -> float:
    """Returns by how much a trial lengthens its runs and those after it, in per cent.

    The trial begins with the first run of the CPU device, which has to compile the model before.

    Args:
        compilation: that is on trial.
        devices: each in another contestant; the CPU device runs the model where none of them does.
    """
    times: dict[SimulatedDevice | None, list[float]] = {}
    while sum(map(len, times.values())) < _TRIAL_RUNS:
        before = [each.executions for each in devices]
        seconds = _timed(compilation, ramp())
        ran = next(
            (each for each, count in zip(devices, before, strict=True) if each.executions > count), None
        )
        if times or ran is None:
            times.setdefault(ran, []).append(seconds)
    assert any("measured in" in note for note in compilation.explain().notes)  # noqa: S101 - it was decided
    # Interruptions by other programs lengthen the sum of all runs by more than a trial does.
    best_s = min(map(statistics.median, times.values()))
    spent_s = sum(len(each) * statistics.median(each) for each in times.values())
    return 100 * (spent_s / (_TRIAL_RUNS * best_s) - 1)


@contextlib.contextmanager
def _cpu_device_takes(seconds: float) -> Iterator[None]:
    """Makes executions of the CPU device take this long."""
    cpu = type(nd.devices()[0])
    right = cpu.prepare_model

    def prepare(self: Any, model: nd.Model, options: PrepareOptions) -> Any:
        prepared = right(self, model, options)

        class Slowed:
            def execute(self, request: Any, options: ExecuteOptions) -> Any:
                end_s = time.perf_counter() + seconds
                result = prepared.execute(request, options)
                time.sleep(max(0.0, end_s - time.perf_counter()))
                return result

            def artifact(self) -> None:
                return None

        return Slowed()

    with mock.patch.object(cpu, "prepare_model", prepare):
        yield


def goodput() -> Iterator[Measured]:
    """Measures how many executions end in time at twice the load."""
    for place in _PLACES:
        with devices(place, _RUN_S) as used:
            builder = nd.CompilationBuilder(chain(["TANH"]), used[:1])
            builder.set_caching(None)
            compilation = builder.finish()
            compilation.run(ramp())
            for limit in _LIMITS:
                found = [_goodput(compilation, limit * _RUN_S) for _ in range(3)]
                yield f"goodput, limit of {limit} executions, {place}", "% of the capacity", found


def _capacity(compilation: nd.Compilation) -> float:
    """Returns the executions per second of two threads."""
    end_s, counts = time.perf_counter() + 0.5, [0, 0]
    begun_s = time.perf_counter()

    def run(number: int) -> None:
        while time.perf_counter() < end_s:
            compilation.run(ramp())
            counts[number] += 1

    _joined([threading.Thread(target=run, args=(number,)) for number in range(2)])
    return sum(counts) / (time.perf_counter() - begun_s)


def _joined(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _goodput(compilation: nd.Compilation, limit_s: float) -> float:
    """Returns the executions in time at twice the load, in per cent of the capacity."""
    before = _capacity(compilation)
    ends: Counter[bool] = Counter()

    def ask() -> None:
        execution = nd.Execution(compilation)
        execution.set_input(0, ramp())
        execution.set_output(0, np.empty_like(ramp()))
        execution.set_timeout(limit_s)
        begun_s = time.perf_counter()
        try:
            execution.compute()
        except nd.Error:
            return
        ends[time.perf_counter() - begun_s <= limit_s] += 1

    threads = [threading.Thread(target=ask) for _ in range(int(2 * before * _LOAD_S))]
    begun_s = time.perf_counter()
    for number, thread in enumerate(threads):
        time.sleep(max(0.0, begun_s + number / (2 * before) - time.perf_counter()))
        thread.start()
    for thread in threads:
        thread.join()
    capacity = (before + _capacity(compilation)) / 2
    return 100 * ends[True] / _LOAD_S / capacity


_MEASUREMENTS: tuple[Callable[[], Iterator[Measured]], ...] = (
    branches,
    stream,
    cancelled,
    client_killed,
    drift,
    never_slower,
    goodput,
)


def main() -> None:
    """Prints the figures, and writes them to a file."""
    names = [each.__name__ for each in _MEASUREMENTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[list[Cell]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": folder, "XDG_CACHE_HOME": folder, "NEURALD_AUTOSTART": "0"}
        for measurement in _MEASUREMENTS:
            if measurement.__name__ not in arguments.only:
                continue
            for name, unit, found in measurement():
                rows.append([name, unit, min(found), statistics.median(found), max(found), len(found)])
                least, median, most = (f"{each:.4g}" for each in rows[-1][2:5])
                print(f"{name}: {median} {unit} ({least} to {most}, {len(found)} tries)", flush=True)  # noqa: T201
    if arguments.json:
        columns = [
            Column(name="what", title=""),
            Column(name="unit", title="unit"),
            *(Column(name=each, title=each, format=".4g") for each in ("least", "median", "most")),
            Column(name="tries", title="tries"),
        ]
        result = Result(
            title="What the scheduler promises",
            description="Devices of known speed, which sleep for as long as they would compute; see "
            "`benchmarks/scheduler/claims.py` for what is measured.",
            tables=[Table(title="Measured", columns=columns, rows=rows)],
            **circumstances(),
        )
        write(arguments.json, result)


if __name__ == "__main__":
    main()
