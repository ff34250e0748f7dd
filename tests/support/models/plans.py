"""Compiled models that are split over several sample devices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from support.devices.misbehaving import SampleDevice

import neurald as nd
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Argument, Request
from neurald.runtime.plan.plan import CompoundBody

Array = np.ndarray[Any, np.dtype[Any]]

#: By how many units in the last place functions of two devices may differ.
_MAX_ULP = 4
CONTROL_FLOW = (nd.OperationType.IF, nd.OperationType.WHILE)


def cpu() -> nd.Device:
    """Returns the CPU device of this process."""
    return nd.devices()[0]


def only(name: str, *types: nd.OperationType, performance: float = 0.5) -> SampleDevice:
    """Creates a device that is faster than the CPU and supports these operations."""
    return SampleDevice(name, performance=performance, supports=lambda kind: kind in types)


def all_but(name: str, *types: nd.OperationType, performance: float = 0.5) -> SampleDevice:
    """Creates a device that is faster than the CPU and supports all other operations."""
    return SampleDevice(name, performance=performance, supports=lambda kind: kind not in types)


def compiled(model: nd.Model, *devices: nd.Device) -> nd.Compilation:
    """Compiles a model for exactly these devices, without a cache."""
    builder = nd.CompilationBuilder(model, devices)
    builder.set_caching(None)
    return builder.finish()


def program(compilation: nd.Compilation) -> list[str]:
    """Returns the steps of a compound plan: the devices' names, If, While and Goto."""
    body = compilation.plan.body
    assert isinstance(body, CompoundBody)
    return [
        step.device.name if hasattr(step, "device") else type(step).__name__.removesuffix("Step")
        for step in body.program
    ]


def assert_same_as_on_cpu(
    model: nd.Model, compilation: nd.Compilation, *arrays: Array, device: nd.Device | None = None
) -> list[Array]:
    """Asserts that a compilation gives the results of one device alone, by default the CPU.

    Functions may be rounded differently by two devices; other results have the same bits.

    Returns:
        The results of the compilation.
    """
    expected = compiled(model, device or cpu()).run(*arrays)
    results = compilation.run(*arrays)
    assert [r.shape for r in results] == [e.shape for e in expected]
    for result, wanted in zip(results, expected, strict=True):
        if result.dtype == np.float32:
            np.testing.assert_array_max_ulp(result, wanted, _MAX_ULP)
        else:
            assert result.tobytes() == wanted.tobytes()
    return results


def executed(compilation: nd.Compilation, inputs: Sequence[Array], outputs: Sequence[Array]) -> nd.Execution:
    """Computes an execution with these buffers; returns it."""
    execution = nd.Execution(compilation)
    for position, array in enumerate(inputs):
        execution.set_input(position, array)
    for position, array in enumerate(outputs):
        execution.set_output(position, array)
    execution.compute()
    return execution


def request_for(inputs: Sequence[Array], outputs: Sequence[Array]) -> Request:
    """Creates a request whose arguments are these arrays."""
    arrays = [*inputs, *outputs]
    arguments = [
        Argument(pool=n, length=array.nbytes, dimensions=array.shape if n < len(inputs) else None)
        for n, array in enumerate(arrays)
    ]
    return Request(
        inputs=tuple(arguments[: len(inputs)]),
        outputs=tuple(arguments[len(inputs) :]),
        pools=tuple(HostMemory(array) for array in arrays),
    )
