"""Runs a random graph in each available way, and compares the results with the references."""

import contextlib
import logging
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from random_graphs.comparison import Envelope
from random_graphs.graph import RandomGraph
from support.devices.misbehaving import SampleDevice
from support.devices.modes import MODES, compute

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.errors import UnavailableDevice
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.devices.local import cpu_device

#: Graphs are small; an execution that takes longer hangs.
_EXECUTION_S = 60.0
#: Errors for a shape that differs from the declared one.
_REFUSALS = (nd.ResultCode.BAD_DATA, nd.ResultCode.OP_FAILED)
_MODES = ("run", *MODES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Way to run a graph.

    Attributes:
        devices: the devices it is compiled for, before the CPU device.
        compiles: whether the CPU device compiles; otherwise it runs references.
        is_exact: whether all devices run references, and give identical bits.
    """

    name: str
    devices: tuple[nd.Device, ...] = ()
    compiles: bool = False
    is_exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Way whose result differs from the references."""

    way: str
    output: int
    why: str


@cache
def opencl() -> nd.Device | None:
    """Returns the OpenCL device; None if there is none."""
    from neurald.drivers.opencl.device import create

    try:
        return create()
    except UnavailableDevice:
        return None


def sample(name: str, seed: int, remainder: int, performance: float) -> SampleDevice:
    """Creates a sample device that supports a third of all operations, selected by name."""
    return SampleDevice(
        name,
        performance=performance,
        supports=lambda kind: zlib.crc32(f"{seed} {kind.name}".encode()) % 3 == remainder,
    )


def ways(seed: int) -> Iterator[Way]:
    """Yields all ways; the seed determines which operations the sample devices support."""
    samples = (sample("first", seed, 0, 0.4), sample("second", seed, 1, 0.6))
    yield Way(name="references", is_exact=True)
    yield Way(name="split references", devices=samples, is_exact=True)
    yield Way(name="compiled", compiles=True)
    device = opencl()
    if device is not None:
        yield Way(name="opencl", devices=(device,))
        yield Way(name="split", devices=(*samples, device), compiles=True)
    else:
        yield Way(name="split", devices=samples, compiles=True)


def mismatches(graph: RandomGraph, names: Sequence[str] = ()) -> Iterator[Mismatch]:
    """Yields mismatches of each way, or of the named ways."""
    rng = random.Random(f"ways {graph.seed}")
    envelope = Envelope(graph)
    # Android's rule divides small models among devices, whatever that costs.
    policy = "min_cost" if graph.seed % 4 == 0 else "android"
    for way in ways(graph.seed):
        preference = rng.choice(list(nd.Preference))
        priority = rng.choice(list(nd.Priority))
        mode = rng.choice(_MODES if _is_specified(graph.model) else _MODES[:-1])
        if names and way.name not in names:
            continue
        told = f"{way.name}, {preference.name}, {mode}"
        with _cpu(compiles=way.compiles) as cpu, logged_warnings() as warnings:
            try:
                builder = nd.CompilationBuilder(graph.model, [*way.devices, cpu])
                builder.set_caching(None)
                builder.set_partitioning(nd.Partitioning(policy=policy))
                builder.set_preference(preference)
                builder.set_priority(priority)
                results = computed(builder.finish(), graph, mode)
            except nd.Error as error:
                is_excused = not way.is_exact and error.code in _REFUSALS and envelope.may_fail()
                if not is_excused:
                    yield Mismatch(way=told, output=-1, why=f"{error.code.name}: {error}")
                continue
        # Operations that fail to compile run elsewhere, and are logged.
        for warning in warnings:
            yield Mismatch(way=told, output=-1, why=f"warning: {warning}")
        for position, result in enumerate(results):
            why = envelope.difference(position, result, is_exact=way.is_exact)
            if why:
                yield Mismatch(way=told, output=position, why=why)


@contextlib.contextmanager
def _cpu(*, compiles: bool) -> Iterator[CpuDevice]:
    """Yields the CPU device of this process, compiling or not."""
    device = cpu_device()
    assert isinstance(device, CpuDevice)
    before, device.compiles = device.compiles, compiles
    try:
        yield device
    finally:
        device.compiles = before


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


@contextlib.contextmanager
def logged_warnings() -> Iterator[list[str]]:
    """Yields the list of warnings that neurald logs during the block."""
    handler = _Messages()
    logger = logging.getLogger("neurald")
    logger.addHandler(handler)
    try:
        yield handler.found
    finally:
        logger.removeHandler(handler)


def _is_specified(model: Model) -> bool:
    """Returns True if all output shapes are known, as fenced executions require."""
    return all(model.main.operands[index].is_fully_specified for index in model.outputs)


def computed(compilation: nd.Compilation, graph: RandomGraph, mode: str) -> list[Array]:
    """Computes the outputs in one of the modes."""
    if mode == "run":
        return compilation.run(*graph.inputs)
    execution = nd.Execution(compilation)
    execution.set_timeout(_EXECUTION_S)
    for position, array in enumerate(graph.inputs):
        execution.set_input(position, array)
    outputs = [np.full(array.shape, 77, array.dtype) for array in graph.expected]
    for position, output in enumerate(outputs):
        execution.set_output(position, output)
    compute(execution, mode)
    shapes = execution.output_shapes()
    # If the result has another shape than the buffer, its bytes come first.
    return [
        output if output.shape == tuple(shape) else np.zeros(tuple(shape), output.dtype)
        for output, shape in zip(outputs, shapes, strict=True)
    ]


def described(model: Model) -> list[str]:
    """Describes the operations of a model, one per line."""
    lines = []
    for number, graph in enumerate((model.main, *model.referenced)):

        def name(index: int, graph: Subgraph = graph) -> str:
            operand = graph.operands[index]
            kind = operand.lifetime.name[:1] if operand.lifetime.is_constant else ""
            quant = f"*{operand.scale:g}{operand.zero_point:+d}" if operand.scale else ""
            return f"{kind}{index}:{operand.type.name}{list(operand.dimensions or ())}{quant}"

        for operation in graph.operations:
            inputs = " ".join(map(name, operation.inputs))
            outputs = " ".join(map(name, operation.outputs))
            lines.append(f"graph {number}: {operation.type.name} {inputs} -> {outputs}")
    return lines
