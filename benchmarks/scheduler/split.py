"""Compares plans for the CPU and an OpenCL device with each of both alone and with Android's rule.

    python benchmarks/scheduler/split.py MODEL.tflite ... [--runs 60] [--max-s 220] [--json FILE]

Both devices are in this process. They are calibrated first, with empty caches, as
`neurald calibrate` does. Then each model is compiled for the CPU device alone, for the OpenCL
device alone (if it supports all operations), for both by Android's rule, and for both by least
cost. Runs of all compilations alternate in short bursts, so that a disturbance hits all of them.
Real runs have refined the costs by then, so the plan of least cost is made once more, and all are
measured again. Plans of least cost are measured after their runs in turns with the CPU device, as
their users have them. Figures are medians of whole calls with inputs and outputs in host memory.
What is printed has, for each step of the last plan, what was predicted and what it took.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.device import Device, KernelTime
from neurald.hal.errors import Error
from neurald.hal.model.model import Model
from neurald.runtime.costs import store
from neurald.runtime.costs.calibration import calibrate
from neurald.runtime.costs.table import CostTable, DeviceLink
from neurald.runtime.execution.measurement.receipt import ExecutionReceipt
from neurald.runtime.execution.step_calibration import with_step
from neurald.runtime.explain.records import OperationExplanation

sys.path.insert(0, str(Path(__file__).parents[1]))

from result_file import Cell, Column, Result, Table, circumstances, write

_BURST = 5
_WARM_UP_S = 0.4
_MAX_ARM_S = 3.0
#: How long runs in turns with the CPU device may take until they are decided, and how many are made
#: between two looks.
_MAX_TRIAL_S = 10.0
_TRIAL_RUNS = 20
#: Of a plan, at most this many steps are printed.
_SHOWN_STEPS = 8
#: For a bounded random input.
_SEED = 7
CPU, OPENCL, ANDROID, LEAST, AGAIN = "cpu", "opencl", "android", "least cost", "least cost again"


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One way of placing a model.

    Attributes:
        compilation: of it.
        prepare_s: how long that took.
        predicted: what the policy predicted, in seconds, by name.
        times: of runs.
    """

    compilation: nd.Compilation
    prepare_s: float
    predicted: Mapping[str, float]
    times: list[float] = field(default_factory=list)

    @property
    def ms(self) -> float:
        """The median time of a run."""
        return float(np.median(self.times)) * 1e3

    @property
    def steps(self) -> str:
        """The devices of the steps, with how many operations of the main graph each runs."""
        steps = self.compilation.plan.steps
        if len(steps) > 6:
            counts = Counter(step.device.name for step in steps)
            return ", ".join(f"{count} steps on {name}" for name, count in counts.items())
        return ", ".join(f"{step.device.name} {len(step.model.main.operations)}" for step in steps)


def random_inputs(model: Model) -> list[Any]:
    """Returns an array for each input."""
    rng = np.random.default_rng(_SEED)
    arrays = []
    for index in model.inputs:
        operand = model.main.operands[index]
        shape = tuple(length or 1 for length in operand.dimensions or ())
        dtype: Any = operand.type.dtype
        if dtype.kind == "f":
            arrays.append(rng.uniform(-1, 1, shape).astype(dtype))
        else:
            limits = np.iinfo(dtype)
            arrays.append(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))
    return arrays


def compiled(model: Model, devices: Sequence[Device], policy: str, cache: Path) -> Arm:
    """Compiles a model for some devices by a policy."""
    builder = nd.CompilationBuilder(model, devices)
    builder.set_partitioning(policy)
    builder.set_caching(cache, bytes(32))
    begun = time.perf_counter()
    compilation = builder.finish()
    compilation.wait_until_optimized(60)
    predicted = compilation.partitioned.result.predicted_s
    return Arm(compilation=compilation, prepare_s=time.perf_counter() - begun, predicted=predicted)


def decide(compilation: nd.Compilation, inputs: Sequence[Any]) -> bool:
    """Runs a compilation until it is decided whether its plan or the CPU device is faster.

    Returns:
        False if that took too long.
    """
    begun = time.perf_counter()
    while any("run in turns" in note for note in compilation.explain().notes):
        if time.perf_counter() - begun > _MAX_TRIAL_S:
            return False
        for _ in range(_TRIAL_RUNS):
            compilation.run(*inputs)
    return True


def measure(arms: Mapping[str, Arm], inputs: Sequence[Any], runs: int) -> None:
    """Runs all compilations in alternating bursts."""
    for arm in arms.values():
        arm.times.clear()
        decide(arm.compilation, inputs)
        begun = time.perf_counter()
        while time.perf_counter() - begun < _WARM_UP_S:
            arm.compilation.run(*inputs)
    begun = time.perf_counter()
    while len(next(iter(arms.values())).times) < runs and time.perf_counter() - begun < _MAX_ARM_S * len(
        arms
    ):
        for arm in arms.values():
            arm.compilation.run(*inputs)
            for _ in range(_BURST):
                started = time.perf_counter()
                arm.compilation.run(*inputs)
                arm.times.append(time.perf_counter() - started)


def measure_model(name: str, model: Model, cpu: Device, gpu: Device, runs: int, cache: Path) -> list[Cell]:
    """Returns the row of a model, and prints what its columns leave out.

    Args:
        name: of the model.
        model: to be measured.
        cpu, gpu: the devices.
        runs: how often each compilation is to be measured.
        cache: a folder for what is compiled.
    """
    inputs = random_inputs(model)
    arms = {CPU: compiled(model, [cpu], "android", cache)}
    unsupported = [verdict.reason for verdict in gpu.supported_operations(model) if not verdict.ok]
    if not unsupported:
        arms[OPENCL] = compiled(model, [gpu], "android", cache)
    arms[ANDROID] = compiled(model, [cpu, gpu], "android", cache)
    arms[LEAST] = compiled(model, [cpu, gpu], "min_cost", cache)
    expected = arms[CPU].compilation.run(*inputs)
    for way, arm in arms.items():
        _compare(way, expected, arm.compilation.run(*inputs))
    measure(arms, inputs, runs)
    first = {way: arm.ms for way, arm in arms.items()}
    arms[AGAIN] = compiled(model, [cpu, gpu], "min_cost", cache)
    measure(arms, inputs, runs)
    for way, arm in arms.items():
        predicted = f", predicted {arm.predicted['the plan'] * 1e3:.3g}" if arm.predicted else ""
        print(  # noqa: T201
            f"  {way}: {first.get(way, arm.ms):.3f} then {arm.ms:.3f} ms{predicted}; "
            f"prepared in {arm.prepare_s:.1f} s; {arm.steps}; {_shown_receipt(arm, inputs)}",
            flush=True,
        )
        _print_notes(arm)
    _print_steps(arms[AGAIN], (cpu, gpu), inputs)
    alone = min(arms[way].ms for way in (CPU, OPENCL) if way in arms)
    return [
        name,
        arms[CPU].ms,
        arms[OPENCL].ms if OPENCL in arms else None,
        arms[ANDROID].ms,
        first[LEAST],
        arms[AGAIN].ms,
        arms[AGAIN].predicted.get("the plan", float("nan")) * 1e3,
        arms[AGAIN].ms / alone,
        arms[AGAIN].ms / arms[ANDROID].ms,
        arms[AGAIN].steps,
    ]


def _receipt(arm: Arm, inputs: Sequence[Any]) -> ExecutionReceipt:
    """Runs a compilation once, and returns the receipt."""
    execution = nd.Execution(arm.compilation)
    execution.enable_receipt()
    for index, each in enumerate(inputs):
        execution.set_input(index, each)
    for index, result in enumerate(arm.compilation.run(*inputs)):
        execution.set_output(index, np.empty_like(result))
    execution.compute()
    return execution.receipt


def _shown_receipt(arm: Arm, inputs: Sequence[Any]) -> str:
    """Returns what the steps of one run took."""
    try:
        steps = _receipt(arm, inputs).steps[:6]
    except Error as error:
        return f"no receipt: {error}"
    return "steps " + ", ".join(
        f"{step.ran_on} {sum(call.duration_ns for call in step.calls) / 1e6:.3f} ms" for step in steps
    )


def _print_steps(arm: Arm, devices: Sequence[Device], inputs: Sequence[Any]) -> None:
    """Prints the predicted and the measured times of a plan's steps, as medians of some runs."""
    explained = arm.compilation.explain()
    measured: dict[int, list[float]] = {}
    for _ in range(_TRIAL_RUNS):
        for ran in _receipt(arm, inputs).steps:
            measured.setdefault(ran.step, []).append(sum(call.duration_ns for call in ran.calls) / 1e9)
    kernels = {each.step: each.kernels for each in arm.compilation.profile()}
    tables = {device.name: store.costs_of(device).table for device in devices}
    for step in explained.steps[:_SHOWN_STEPS]:
        table = tables[step.device]
        operations = [each for each in explained.operations if step.step in each.steps]
        computing_s = sum(
            cost.seconds or 0.0 for each in operations for cost in each.costs if cost.device == step.device
        )
        link, launch_s = table.link or DeviceLink(), table.launch.seconds if table.launch else 0.0
        bytes_in, bytes_out = (
            sum(value.bytes or 0 for value in values) for values in (step.inputs, step.outputs)
        )
        moving_s = bytes_in / link.input_bytes_per_s + bytes_out / link.output_bytes_per_s
        kernels_s = sum(each.duration_ns for each in kernels.get(step.step, ()) if not each.is_copy) / 1e9
        took_s = float(np.median(measured.get(step.step, [float("nan")])))
        print(  # noqa: T201
            f"    step {step.step} on {step.device}, {len(operations)} operations: predicted "
            f"{(computing_s + launch_s + moving_s) * 1e3:.3f} ms (computing {computing_s * 1e3:.3f}, launch "
            f"{launch_s * 1e3:.3f}, moving {bytes_in} bytes in and {bytes_out} out {moving_s * 1e3:.3f}); took "
            f"{took_s * 1e3:.3f} ms, its kernels {kernels_s * 1e3:.3f}"
        )
        if step.device != devices[0].name:
            _print_kernels(operations, kernels.get(step.step, ()), step.device)


def _print_kernels(
    operations: Sequence[OperationExplanation], kernels: Sequence[KernelTime], device: str
) -> None:
    """Prints for each type of operation the predicted time, and that of the kernels that do it."""
    predicted: dict[str, float] = {}
    for each in operations:
        predicted.setdefault(each.type, 0.0)
        predicted[each.type] += sum(cost.seconds or 0.0 for cost in each.costs if cost.device == device)
    types = {each.operation: each.type for each in operations}
    took = dict.fromkeys(predicted, 0.0)
    for kernel in kernels:
        if kernel.operations and not kernel.is_copy:
            # The first one of fused operations takes most.
            took[types[kernel.operations[0]]] += kernel.duration_ns / 1e9
    for name, seconds in sorted(predicted.items(), key=lambda item: -abs(item[1] - took[item[0]]))[:6]:
        print(f"      {name}: predicted {seconds * 1e3:.3f} ms, took {took[name] * 1e3:.3f}")  # noqa: T201


def _print_notes(arm: Arm) -> None:
    for note in arm.compilation.explain().notes:
        print(f"    {note[:300]}")  # noqa: T201
    others = ", ".join(f"{name} {seconds * 1e3:.3g} ms" for name, seconds in arm.predicted.items())
    if others:
        print(f"    predicted: {others}", flush=True)  # noqa: T201


def _compare(way: str, expected: Sequence[Any], found: Sequence[Any]) -> None:
    for one, other in zip(expected, found, strict=True):
        if one.shape == other.shape and one.size:
            largest = max(1e-30, float(np.abs(one.astype(np.float64)).max()))
            error = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max()) / largest
            if error > 1e-2:
                print(f"  {way}: an output differs by {error:.2g} of its largest value")  # noqa: T201


def result_table(rows: Sequence[Sequence[Cell]]) -> Table:
    """Returns the table for a result file."""
    columns = [
        Column(name="model", title=""),
        Column(name="cpu_ms", title="CPU alone", unit="ms", format=".3g"),
        Column(name="opencl_ms", title="OpenCL alone", unit="ms", format=".3g"),
        Column(name="android_ms", title="both, Android's rule", unit="ms", format=".3g"),
        Column(name="first_ms", title="both, least cost", unit="ms", format=".3g"),
        Column(name="least_ms", title="the same, planned after these runs", unit="ms", format=".3g"),
        Column(name="predicted_ms", title="predicted for it", unit="ms", format=".3g"),
        Column(name="ratio_alone", title="it / the better one alone", format=".2f"),
        Column(name="ratio_android", title="it / Android's rule", format=".2f"),
        Column(name="steps", title="its steps"),
    ]
    return Table(title="CPU and OpenCL device", columns=columns, rows=rows)


def main() -> int:
    """Measures the models of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--max-s", type=float, default=220.0, help="begin no model after this many seconds")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    begun = time.perf_counter()
    rows: list[list[Cell]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "XDG_STATE_HOME": f"{folder}/state",
            "XDG_CACHE_HOME": folder,
            "NEURALD_AUTOSTART": "0",
        }
        cpu, gpu = nd.devices()[0], nd.open_device("opencl")
        for device in (cpu, gpu):
            started = time.perf_counter()
            store.costs_of(device).use(with_step(calibrate(device), device, CostTable()))
            table = store.costs_of(device).table
            launch_s = table.launch.seconds if table.launch else float("nan")
            print(  # noqa: T201
                f"{device.name}: {device.version}\n  calibrated in {time.perf_counter() - started:.1f} s, "
                f"launch {launch_s * 1e6:.3g} us, {table.link}",
                flush=True,
            )
        for path in arguments.models:
            if time.perf_counter() - begun > arguments.max_s:
                print(f"{path.stem} is left out: the time is up")  # noqa: T201
                continue
            print(path.stem, flush=True)  # noqa: T201
            try:
                model = nd.load_tflite(path)
                rows.append(measure_model(path.stem, model, cpu, gpu, arguments.runs, Path(folder)))
            except Error as error:
                print(f"  failed: {error}")  # noqa: T201
            if arguments.json and rows:
                write(arguments.json, _result(gpu, rows))
        print(f"{time.perf_counter() - begun:.0f} s in all")  # noqa: T201
    return 0 if len(rows) == len(arguments.models) else 1


def _result(gpu: Device, rows: Sequence[Sequence[Cell]]) -> Result:
    known = circumstances()
    known["machine"] += f"; OpenCL: {gpu.version}"
    return Result(
        title="Plans for the CPU and an OpenCL device",
        description="Whole calls with inputs and outputs in host memory, medians of alternating bursts. An empty "
        "cell: the OpenCL device does not support all operations of the model.",
        tables=[result_table(rows)],
        **known,
    )


if __name__ == "__main__":
    sys.exit(main())
