"""Plans over sample devices: compiled models that several devices share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from support.devices.misbehaving import SampleDevice

import neurald as nd
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.types import Argument, Request
from neurald.runtime.plan.plan import CompoundBody

Array = np.ndarray[Any, np.dtype[Any]]

CONTROL_FLOW = (nd.OperationType.IF, nd.OperationType.WHILE)


def cpu() -> nd.Device:
    """The CPU device of this process."""
    return nd.devices()[0]


def only(name: str, *types: nd.OperationType, performance: float = 0.5) -> SampleDevice:
    """A device that is faster than the CPU, and runs these operations."""
    return SampleDevice(name, performance=performance, supports=lambda kind: kind in types)


def all_but(name: str, *types: nd.OperationType, performance: float = 0.5) -> SampleDevice:
    """A device that is faster than the CPU, and runs all other operations."""
    return SampleDevice(name, performance=performance, supports=lambda kind: kind not in types)


def compiled(model: nd.Model, *devices: nd.Device) -> nd.Compilation:
    """The model for exactly these devices, nothing cached."""
    builder = nd.CompilationBuilder(model, devices)
    builder.set_caching(None)
    return builder.finish()


def program(compilation: nd.Compilation) -> list[str]:
    """The steps of a compound plan in a few words: the devices' names, If, While and Goto."""
    body = compilation.plan.body
    assert isinstance(body, CompoundBody)
    return [
        step.device.name if hasattr(step, "device") else type(step).__name__.removesuffix("Step")
        for step in body.program
    ]


def assert_same_as_on_cpu(
    model: nd.Model, compilation: nd.Compilation, *arrays: Array, device: nd.Device | None = None
) -> list[Array]:
    """That a compilation gives what the CPU device, or another one, alone gives, bit for bit; returns it."""
    expected = compiled(model, device or cpu()).run(*arrays)
    results = compilation.run(*arrays)
    assert [r.shape for r in results] == [e.shape for e in expected]
    assert [r.tobytes() for r in results] == [e.tobytes() for e in expected]
    return results


def executed(compilation: nd.Compilation, inputs: Sequence[Array], outputs: Sequence[Array]) -> nd.Execution:
    """An execution with these buffers that has computed."""
    execution = nd.Execution(compilation)
    for position, array in enumerate(inputs):
        execution.set_input(position, array)
    for position, array in enumerate(outputs):
        execution.set_output(position, array)
    execution.compute()
    return execution


def request_for(inputs: Sequence[Array], outputs: Sequence[Array]) -> Request:
    """A request whose arguments are these arrays."""
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
