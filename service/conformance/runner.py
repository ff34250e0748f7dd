"""Runs a generated case on a device, through the HAL, in each way that there is."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel, PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.hal.memory import HostMemory, Memory, align
from neurald.hal.operations.call import Array
from neurald.hal.types import Argument, Model, Request, byte_size, stored_array
from neurald.service.conformance.case import Case
from neurald.service.conformance.comparison import difference

#: A device that takes longer for one small operation hangs.
LIMIT_S = 30.0

Execute = Callable[[PreparedModel, Request, ExecuteOptions], ExecutionResult]


def prepare_options() -> PrepareOptions:
    """With a limit from now on."""
    return PrepareOptions(deadline_s=time.monotonic() + LIMIT_S)


def execute_options() -> ExecuteOptions:
    """With a limit from now on."""
    return ExecuteOptions(deadline_s=time.monotonic() + LIMIT_S)


def synchronously(prepared: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """One call that returns when all is done."""
    return prepared.execute(request, options)


def in_burst(prepared: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Twice in a burst: what is kept at hand must not change the second result."""
    burst = prepared.create_burst()
    try:
        burst.execute(request, options)
        return burst.execute(request, options)
    finally:
        burst.close()


def fenced(prepared: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Started, and awaited by its fence."""
    execution = prepared.execute_fenced(request, (), options)
    if not execution.fence.wait(LIMIT_S):
        raise OpFailed(f"the fence of an execution has not signalled after {LIMIT_S:g} s")
    return execution.result()


WAYS: Mapping[str, Execute] = {"sync": synchronously, "burst": in_burst, "fenced": fenced}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A request of a case, and where its outputs lie."""

    request: Request
    outputs: Memory


def bind(case: Case, *, short: bool = False, allocate: Callable[[int], Memory] | None = None) -> Bound:
    """A request that runs a case, with an input and an output pool.

    Args:
        case: what is run.
        short: the buffer of the first output that has any bytes is one element too small.
        allocate: makes the pools; ordinary memory of this process by default.
    """
    allocate = allocate or _host_memory
    inputs, source = _arguments([value.nbytes for value in case.inputs], 0, allocate)
    for argument, value in zip(inputs, case.inputs, strict=True):
        source.view(argument.offset, argument.length)[:] = np.ascontiguousarray(value).tobytes()
    lengths = [value.nbytes for value in case.expected]
    if short:
        position = next(index for index, length in enumerate(lengths) if length)
        lengths[position] -= case.expected[position].itemsize
    outputs, target = _arguments(lengths, 1, allocate)
    arguments = tuple(
        replace(argument, dimensions=value.shape) for argument, value in zip(inputs, case.inputs, strict=True)
    )
    request = Request(inputs=arguments, outputs=tuple(outputs), pools=(source, target))
    return Bound(request=request, outputs=target)


def _host_memory(size: int) -> Memory:
    return HostMemory(np.zeros(size, np.uint8))


def _arguments(
    lengths: Sequence[int], pool: int, allocate: Callable[[int], Memory]
) -> tuple[list[Argument], Memory]:
    arguments, end = [], 0
    for length in lengths:
        arguments.append(Argument(pool=pool, offset=end, length=length))
        end = align(end + length)
    return arguments, allocate(max(end, 1))


def with_open_outputs(model: Model) -> Model:
    """The model with every dimension of its outputs left open."""
    operands = list(model.main.operands)
    for index in model.main.outputs:
        rank = len(operands[index].dimensions or ())
        if operands[index].type.is_tensor:
            operands[index] = replace(operands[index], dimensions=(0,) * rank if rank else None)
    return replace(model, main=replace(model.main, operands=tuple(operands)))


def outputs(case: Case, bound: Bound, result: ExecutionResult) -> list[Array]:
    """The outputs as arrays.

    Raises:
        OpFailed: the device told shapes that make no sense.
    """
    if len(result.output_shapes) != len(case.expected):
        raise OpFailed(
            f"{len(result.output_shapes)} output shapes; the model has {len(case.expected)} outputs"
        )
    found = []
    for position, shape in enumerate(result.output_shapes):
        argument = bound.request.outputs[position]
        kind = case.model.main.operands[case.model.main.outputs[position]].type
        if not shape.sufficient:
            raise OpFailed(f"output {position} is said not to fit {argument.length} bytes; it does")
        size = None if shape.dimensions is None else byte_size(kind, shape.dimensions)
        if size is None or shape.dimensions is None or size > argument.length:
            raise OpFailed(
                f"output {position} is said to have shape {shape.dimensions} in {argument.length} bytes"
            )
        stored = stored_array(bound.outputs.view(argument.offset, size), kind, shape.dimensions)
        found.append(np.array(stored))
    return found


def wrong(case: Case, found: Sequence[Array]) -> str:
    """What is wrong with the outputs, "" if nothing is."""
    graph = case.model.main
    for position, (index, expected, array) in enumerate(
        zip(graph.outputs, case.expected, found, strict=True)
    ):
        text = difference(
            case.operation, graph.operands[index].type, expected, array, relaxed=case.model.relaxed
        )
        if text:
            return f"output {position}: {text}"
    return ""


def has_bytes(case: Case) -> bool:
    """Whether any output has an element."""
    return any(math.prod(value.shape) for value in case.expected)
