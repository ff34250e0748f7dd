"""Runs a case on a device through the HAL, and compares its outputs with the expected ones."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel, PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.hal.execution.output_comparison import describe_difference
from neurald.hal.memory.alignment import align
from neurald.hal.memory.pool import Memory
from neurald.hal.model.elements import stored_array
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import byte_size
from neurald.hal.operations.machinery.call import Array
from neurald.hal.records import replace
from neurald.service.conformance.cases.case import Case
from neurald.service.conformance.cases.guard_bytes import (
    GUARD_BYTES,
    ConstantMemory,
    GuardedMemory,
    GuardedRange,
    MarginMemory,
    pattern,
)

#: Time limit of a call with one small operation.
CALL_TIMEOUT_S = 30.0

#: Executes a request in one of the ways that the HAL offers.
Execute = Callable[[PreparedModel, Request, ExecuteOptions], ExecutionResult]


def prepare_options() -> PrepareOptions:
    """Returns options for a preparation with a deadline."""
    return PrepareOptions(deadline_s=time.monotonic() + CALL_TIMEOUT_S)


def execute_options() -> ExecuteOptions:
    """Returns options for an execution with a deadline."""
    return ExecuteOptions(deadline_s=time.monotonic() + CALL_TIMEOUT_S)


def run_sync(prepared: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Executes a request in a blocking call."""
    return prepared.execute(request, options)


def run_in_burst(prepared: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Executes a request twice in a burst, since the second execution may use cached state."""
    burst = prepared.create_burst()
    try:
        burst.execute(request, options)
        return burst.execute(request, options)
    finally:
        burst.close()


def run_fenced(prepared: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Starts a fenced execution and waits for its fence.

    Raises:
        OpFailed: the fence does not signal in time.
    """
    execution = prepared.execute_fenced(request, (), options)
    if not execution.fence.wait(CALL_TIMEOUT_S):
        raise OpFailed(f"the fence of an execution has not signalled after {CALL_TIMEOUT_S:g} s")
    return execution.result()


#: The ways to execute a request, by name.
EXECUTION_MODES: Mapping[str, Execute] = {"sync": run_sync, "burst": run_in_burst, "fenced": run_fenced}


class Layout(Enum):
    """Locations of the arguments of a request.

    Attributes:
        PACKED: inputs lie in one memory and outputs in another, aligned and padded to 64 bytes, as
            the runtime places them.
        SCATTERED: all arguments lie in one memory in reverse order, without alignment and padding.
        SINGLE: each argument lies in a memory of its own, without padding.
    """

    PACKED = "packed"
    SCATTERED = "scattered"
    SINGLE = "single"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundRequest:
    """A request for a case, with guard bytes around its arguments.

    Attributes:
        request: the request for the device.
        pools: the pools of the request.
        model: the model, whose constants must not change.
    """

    request: Request
    pools: tuple[GuardedMemory, ...]
    model: Model

    def damage(self) -> str:
        """Returns a description of forbidden writes of the device, or ""."""
        damages = [pool.damage() for pool in self.pools]
        damages += [pool.damage() for pool in self.model.pools if isinstance(pool, ConstantMemory)]
        return next(filter(None, damages), "")

    def output(self, position: int, size: int) -> memoryview:
        """Returns the first bytes of an output."""
        argument = self.request.outputs[position]
        assert argument.pool is not None  # noqa: S101 - every output is bound
        return self.pools[argument.pool].memory.view(argument.offset, size)

    def before(self, position: int) -> bytes:
        """Returns the original contents of an output's memory."""
        argument = self.request.outputs[position]
        assert argument.pool is not None  # noqa: S101 - every output is bound
        pool = self.pools[argument.pool]
        return pool.before(
            GuardedRange(
                name="", start=argument.offset, end=argument.offset + argument.length, is_written=True
            )
        )


def bind(
    case: Case,
    *,
    short: bool = False,
    allocate: Callable[[int], Memory] | None = None,
    layout: Layout = Layout.PACKED,
    fill: int = 0,
) -> BoundRequest:
    """Creates a request for a case.

    Args:
        case: the case to run.
        short: True makes the buffer of the first non-empty output one element too small.
        allocate: allocates the pools; by default they are memory of this process.
        layout: the locations of the arguments.
        fill: the seed of the random bytes in outputs, padding and guard bytes.
    """
    allocate = allocate or MarginMemory
    contents: list[bytes | None] = [np.ascontiguousarray(value).tobytes() for value in case.inputs]
    lengths = [value.nbytes for value in (*case.inputs, *case.expected)]
    contents += [None] * len(case.expected)
    if short:
        position = next(index for index, value in enumerate(case.expected) if value.nbytes)
        lengths[len(case.inputs) + position] -= case.expected[position].itemsize
    data = [
        _ArgumentData(
            name=f"input {index}" if content is not None else f"output {index - len(case.inputs)}",
            index=index,
            length=length,
            content=content,
        )
        for index, (length, content) in enumerate(zip(lengths, contents, strict=True))
    ]
    pools: list[GuardedMemory] = []
    arguments: dict[int, Argument] = {}
    for group in _groups(data, len(case.inputs), layout):
        pool, located = _create_pool(group, len(pools), layout, fill + 2 * len(pools), allocate)
        pools.append(pool)
        arguments |= located
    count = len(case.inputs)
    request = Request(
        inputs=tuple(
            replace(arguments[index], dimensions=value.shape) for index, value in enumerate(case.inputs)
        ),
        outputs=tuple(arguments[index] for index in range(count, len(data))),
        pools=tuple(pool.memory for pool in pools),
    )
    return BoundRequest(request=request, pools=tuple(pools), model=case.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ArgumentData:
    """An argument of a request.

    Attributes:
        name: the name for messages.
        index: its position among the inputs and outputs.
        length: its size in bytes.
        content: the bytes of an input; None for an output.
    """

    name: str
    index: int
    length: int
    content: bytes | None


def _groups(data: Sequence[_ArgumentData], inputs: int, layout: Layout) -> Sequence[Sequence[_ArgumentData]]:
    """Groups the arguments that share a memory, in order."""
    if layout is Layout.SCATTERED:
        return [data[::-1]]
    if layout is Layout.SINGLE:
        return [[argument] for argument in data]
    return [group for group in (data[:inputs], data[inputs:]) if group]


def _create_pool(
    data: Sequence[_ArgumentData], number: int, layout: Layout, fill: int, allocate: Callable[[int], Memory]
) -> tuple[GuardedMemory, dict[int, Argument]]:
    """Creates a memory with these arguments. Returns it and their locations, by position."""
    ranges, arguments, end = [], {}, 0
    for argument in data:
        padding = align(argument.length) - argument.length if layout is Layout.PACKED else 0
        guard = 0 if layout is Layout.SINGLE else GUARD_BYTES + (layout is Layout.SCATTERED) * (end % 2 == 0)
        start = end + guard
        end = start + argument.length + padding
        ranges.append(
            GuardedRange(
                name=argument.name,
                start=start,
                end=start + argument.length,
                padding=padding,
                is_written=argument.content is None,
            )
        )
        arguments[argument.index] = Argument(
            pool=number, offset=start, length=argument.length, padding=padding
        )
    memory = allocate(max(1, end if layout is Layout.SINGLE else end + GUARD_BYTES))
    memory.view()[:] = pattern(fill, memory.size)
    for argument, guarded in zip(data, ranges, strict=True):
        if argument.content is not None:
            memory.view(guarded.start, argument.length)[:] = argument.content
    return GuardedMemory(memory, ranges), arguments


def with_open_outputs(model: Model) -> Model:
    """Returns the model with unspecified output dimensions."""
    operands = list(model.main.operands)
    for index in model.main.outputs:
        rank = len(operands[index].dimensions or ())
        if operands[index].type.is_tensor:
            operands[index] = replace(operands[index], dimensions=(0,) * rank if rank else None)
    return replace(model, main=replace(model.main, operands=tuple(operands)))


def output_arrays(case: Case, result: ExecutionResult, contents: Sequence[memoryview]) -> list[Array]:
    """Returns the outputs of an execution as arrays.

    Args:
        case: the case that was executed.
        result: the result of the execution.
        contents: the memory of each output.

    Raises:
        OpFailed: the device reported inconsistent shapes.
    """
    if len(result.output_shapes) != len(case.expected):
        raise OpFailed(
            f"{len(result.output_shapes)} output shapes; the model has {len(case.expected)} outputs"
        )
    found = []
    for position, (shape, content) in enumerate(zip(result.output_shapes, contents, strict=True)):
        kind = case.model.main.operands[case.model.main.outputs[position]].type
        if not shape.sufficient:
            raise OpFailed(
                f"output {position} is reported as insufficient; {content.nbytes} bytes are enough for it"
            )
        size = None if shape.dimensions is None else byte_size(kind, shape.dimensions)
        if size is None or shape.dimensions is None or size > content.nbytes:
            raise OpFailed(
                f"output {position} is reported to have shape {shape.dimensions}, which does not fit its "
                f"{content.nbytes} bytes"
            )
        found.append(np.array(stored_array(content[:size], kind, shape.dimensions)))
    return found


def first_wrong_output(case: Case, found: Sequence[Array]) -> tuple[int, str]:
    """Returns the position of the first wrong output and a description, which is "" if none is."""
    graph = case.model.main
    for position, (index, expected, array) in enumerate(
        zip(graph.outputs, case.expected, found, strict=True)
    ):
        text = describe_difference(
            case.type, graph.operands[index].type, expected, array, relaxed=case.model.relaxed
        )
        if text:
            return position, text
    return 0, ""


def outputs(case: Case, bound: BoundRequest, result: ExecutionResult) -> list[Array]:
    """Returns the outputs of an execution of a bound request as arrays.

    Raises:
        OpFailed: the device reported inconsistent shapes.
    """
    lengths = enumerate(argument.length for argument in bound.request.outputs)
    return output_arrays(case, result, [bound.output(position, length) for position, length in lengths])


def find_error(case: Case, bound: BoundRequest, result: ExecutionResult) -> str:
    """Returns a description of wrong outputs or forbidden writes of an execution, or "".

    Raises:
        OpFailed: the device reported inconsistent shapes.
    """
    damage = bound.damage()
    if damage:
        return damage
    found = outputs(case, bound, result)
    position, text = first_wrong_output(case, found)
    if not text:
        return ""
    unwritten = _unwritten(bound.before(position), case.expected[position], found[position])
    return f"output {position}: {text}{unwritten}"


def _unwritten(before: bytes, expected: Array, found: Array) -> str:
    """Returns a remark on wrong elements that still have their original contents, or ""."""
    if found.shape != expected.shape or not found.size:
        return ""
    size = found.itemsize
    now = np.frombuffer(np.ascontiguousarray(found).tobytes(), np.uint8).reshape(-1, size)
    kept = (now == np.frombuffer(before[: now.size], np.uint8).reshape(-1, size)).all(axis=1)
    differs = (now != np.frombuffer(expected.tobytes(), np.uint8).reshape(-1, size)).any(axis=1)
    count = int((kept & differs).sum())
    return f"; {count} of them were never written" if count else ""


def has_output_elements(case: Case) -> bool:
    """Returns True if any output has an element."""
    return any(math.prod(value.shape) for value in case.expected)
