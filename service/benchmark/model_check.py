"""Checks that devices compute a model as a reference device does, on one or more sets of inputs."""

from collections.abc import Sequence
from typing import Any

import neurald as nd
from neurald.hal.errors import BadData, Error
from neurald.hal.model.model import Model
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.verification.step_comparison import StepComparison, may_be_compared
from neurald.service.benchmark.accuracy import Array, differences
from neurald.service.console.delegation import delegation
from neurald.service.console.device_choice import describe_steps


class ModelCheck:
    """Compares the outputs of a model on devices with those of a reference device.

    Args:
        model: the model.
        names: the names of its outputs.
        reference: the device that is right.
        sets: for each run the inputs.

    Raises:
        BadData: executions of the model have results that cannot be compared.
        Error: the reference device cannot run it.
    """

    def __init__(
        self, model: Model, names: Sequence[str], reference: nd.Device, sets: Sequence[Sequence[Array]]
    ) -> None:
        if not may_be_compared(model):
            raise BadData(
                "the model has strings or random numbers, so that its executions cannot be compared; numeric "
                "results that depend on the inputs alone are expected"
            )
        self._model = model
        self._names = names
        self._sets = sets
        self._comparison = StepComparison(model)
        compilation = nd.CompilationBuilder(model, [reference]).finish()
        self._expected = [compilation.run(*arrays) for arrays in sets]

    def check(self, device: nd.Device, threads: int | None) -> dict[str, Any]:
        """Runs the model on a device, and describes how its results differ.

        Args:
            device: what it does not run, the CPU device does.
            threads: the threads of the CPU device; None for its own choice.

        Returns:
            `device`, its `operations` and the `runs`; for each output the largest difference of all
            runs (see `differences`); and the `result`: `right`, `undecided` if rounding may be why
            they differ, `wrong`, `failed`, or `not run` if the device runs no operation. `reason`
            explains the result.
        """
        found: dict[str, Any] = {"device": device.name, "operations": 0, "runs": 0, "outputs": []}
        try:
            cpu = cpu_device()
            devices = [cpu] if device.name == cpu.name else [device, cpu]
            builder = nd.CompilationBuilder(self._model, devices, threads)
            everything = range(len(self._model.main.operations))
            builder.set_partitioning(nd.Partitioning(overrides=(nd.prefer(device.name, everything),)))
            builder.set_startup(nd.Startup.OPTIMIZED)
            compilation = builder.finish()
            result, reason = "right", ""
            for arrays, expected in zip(self._sets, self._expected, strict=True):
                outputs = compilation.run(*arrays)
                found["runs"] += 1
                found["outputs"] = _largest(found["outputs"], differences(self._names, outputs, expected))
                difference = self._comparison.difference(expected, outputs)
                if difference is not None and (result == "right" or difference.is_certain):
                    result, reason = "wrong" if difference.is_certain else "undecided", difference.text
                if result == "wrong":
                    break
            steps = describe_steps(compilation)
        except Error as error:
            return {**found, "result": "failed", "reason": str(error)}
        found["operations"] = delegation(steps)["operations"].get(device.name, 0)
        failures = [step["failure"] for step in steps if step["failure"]]
        if result == "right" and failures:
            result, reason = "failed", failures[0]
        elif result == "right" and not found["operations"] and self._model.main.operations:
            result, reason = "not run", compilation.report.fallback or "it supports no operation of the model"
        return {**found, "result": result, "reason": reason}


def _largest(before: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns for each output the one of two descriptions with the larger difference."""
    if not before:
        return [*now]
    return [max(pair, key=lambda each: each["max_abs"]) for pair in zip(before, now, strict=True)]


def check_rows(checks: Sequence[dict[str, Any]], operations: int) -> list[tuple[str, ...]]:
    """Returns table rows: device, operations, runs, greatest difference, differing, result."""
    return [
        (
            each["device"],
            f"{each['operations']} of {operations}",
            str(each["runs"]),
            f"{max((one['max_abs'] for one in each['outputs']), default=0.0):.4g}",
            f"{100 * max((one['differing'] for one in each['outputs']), default=0.0):.2f} %",
            each["result"],
        )
        for each in checks
    ]
