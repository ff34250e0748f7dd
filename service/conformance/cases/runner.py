"""Runs a generated case on a device through the HAL, in each way that the HAL offers."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel, PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import Memory, align
from neurald.hal.model.types import Argument, Model, Request, byte_size, stored_array
from neurald.hal.operations.machinery.call import Array
from neurald.service.conformance.cases.case import Case
from neurald.service.conformance.cases.comparison import difference
from neurald.service.conformance.cases.guard_bytes import (
    GUARD_BYTES,
    ConstantMemory,
    GuardedMemory,
    MarginMemory,
    Window,
    pattern,
)

#: A device that takes longer for one small operation counts as hanging.
LIMIT_S = 30.0

Execute = Callable[[PreparedModel, Request, ExecuteOptions], ExecutionResult]


def prepare_options() -> PrepareOptions:
    """Returns options with a deadline."""
    return PrepareOptions(deadline_s=time.monotonic() + LIMIT_S)


def execute_options() -> ExecuteOptions:
    """Returns options with a deadline."""
    return ExecuteOptions(deadline_s=time.monotonic() + LIMIT_S)


def synchronously(prepared: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Runs a request in one blocking call."""
    return prepared.execute(request, options)


def in_burst(prepared: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Runs a request twice in a burst: cached state must not change the second result."""
    burst = prepared.create_burst()
    try:
        burst.execute(request, options)
        return burst.execute(request, options)
    finally:
        burst.close()


def fenced(prepared: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Starts a request, and waits for its fence."""
    execution = prepared.execute_fenced(request, (), options)
    if not execution.fence.wait(LIMIT_S):
        raise OpFailed(f"the fence of an execution has not signalled after {LIMIT_S:g} s")
    return execution.result()


WAYS: Mapping[str, Execute] = {"sync": synchronously, "burst": in_burst, "fenced": fenced}


class Layout(Enum):
    """Placement of a request's arguments in memory.

    PACKED: inputs in one memory and outputs in another, each aligned and padded to 64 bytes, like
    the runtime's.
    """

    PACKED = "packed"
    SCATTERED = "scattered"
    SINGLE = "single"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Request of a case, with guard bytes around everything that it refers to.

    Attributes:
        request: the device's request.
        pools: the guarded pools of the request.
        model: the model, whose constants must not change either.
    """

    request: Request
    pools: tuple[GuardedMemory, ...]
    model: Model

    def damage(self) -> str:
        """Describes forbidden writes of the device; "" if there are none."""
        texts = [pool.damage() for pool in self.pools]
        texts += [pool.damage() for pool in self.model.pools if isinstance(pool, ConstantMemory)]
        return next(filter(None, texts), "")

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
            Window(name="", start=argument.offset, end=argument.offset + argument.length, is_written=True)
        )


def bind(
    case: Case,
    *,
    short: bool = False,
    allocate: Callable[[int], Memory] | None = None,
    layout: Layout = Layout.PACKED,
    fill: int = 0,
) -> Bound:
    """Creates a request for a case.

    Outputs, padding and guards hold random bytes that depend on `fill`.

    Args:
        case: the case to run.
        short: whether the first output that is not empty gets a buffer one element too small.
        allocate: allocates the pools; by default ordinary memory of this process.
        layout: the placement of the arguments.
        fill: the seed of the random bytes.
    """
    allocate = allocate or MarginMemory
    contents: list[bytes | None] = [np.ascontiguousarray(value).tobytes() for value in case.inputs]
    lengths = [value.nbytes for value in (*case.inputs, *case.expected)]
    contents += [None] * len(case.expected)
    if short:
        position = next(index for index, value in enumerate(case.expected) if value.nbytes)
        lengths[len(case.inputs) + position] -= case.expected[position].itemsize
    parts = [
        _Part(
            name=f"input {index}" if content is not None else f"output {index - len(case.inputs)}",
            index=index,
            length=length,
            content=content,
        )
        for index, (length, content) in enumerate(zip(lengths, contents, strict=True))
    ]
    pools: list[GuardedMemory] = []
    arguments: dict[int, Argument] = {}
    for group in _groups(parts, len(case.inputs), layout):
        pool, placed = _pool(group, len(pools), layout, fill + 2 * len(pools), allocate)
        pools.append(pool)
        arguments |= placed
    count = len(case.inputs)
    request = Request(
        inputs=tuple(
            replace(arguments[index], dimensions=value.shape) for index, value in enumerate(case.inputs)
        ),
        outputs=tuple(arguments[index] for index in range(count, len(parts))),
        pools=tuple(pool.memory for pool in pools),
    )
    return Bound(request=request, pools=tuple(pools), model=case.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    name: str
    index: int
    length: int
    content: bytes | None


def _groups(parts: Sequence[_Part], inputs: int, layout: Layout) -> Sequence[Sequence[_Part]]:
    """Groups the arguments that share a memory, in order."""
    if layout is Layout.SCATTERED:
        return [parts[::-1]]
    if layout is Layout.SINGLE:
        return [[part] for part in parts]
    return [group for group in (parts[:inputs], parts[inputs:]) if group]


def _pool(
    parts: Sequence[_Part], number: int, layout: Layout, fill: int, allocate: Callable[[int], Memory]
) -> tuple[GuardedMemory, dict[int, Argument]]:
    """Creates a memory with these arguments, and their locations in it."""
    windows, arguments, end = [], {}, 0
    for part in parts:
        padding = align(part.length) - part.length if layout is Layout.PACKED else 0
        guard = 0 if layout is Layout.SINGLE else GUARD_BYTES + (layout is Layout.SCATTERED) * (end % 2 == 0)
        start = end + guard
        end = start + part.length + padding
        windows.append(
            Window(
                name=part.name,
                start=start,
                end=start + part.length,
                padding=padding,
                is_written=part.content is None,
            )
        )
        arguments[part.index] = Argument(pool=number, offset=start, length=part.length, padding=padding)
    memory = allocate(max(1, end if layout is Layout.SINGLE else end + GUARD_BYTES))
    memory.view()[:] = pattern(fill, memory.size)
    for part, window in zip(parts, windows, strict=True):
        if part.content is not None:
            memory.view(window.start, part.length)[:] = part.content
    return GuardedMemory(memory, windows), arguments


def with_open_outputs(model: Model) -> Model:
    """Returns the model with unspecified dimensions of its outputs."""
    operands = list(model.main.operands)
    for index in model.main.outputs:
        rank = len(operands[index].dimensions or ())
        if operands[index].type.is_tensor:
            operands[index] = replace(operands[index], dimensions=(0,) * rank if rank else None)
    return replace(model, main=replace(model.main, operands=tuple(operands)))


def output_arrays(case: Case, result: ExecutionResult, contents: Sequence[memoryview]) -> list[Array]:
    """Returns the outputs as arrays.

    Args:
        case: the case that ran.
        result: the result of the execution.
        contents: the whole memory of each output.

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
            raise OpFailed(f"output {position} is said not to fit {content.nbytes} bytes; it does")
        size = None if shape.dimensions is None else byte_size(kind, shape.dimensions)
        if size is None or shape.dimensions is None or size > content.nbytes:
            raise OpFailed(
                f"output {position} is said to have shape {shape.dimensions} in {content.nbytes} bytes"
            )
        found.append(np.array(stored_array(content[:size], kind, shape.dimensions)))
    return found


def wrong_output(case: Case, found: Sequence[Array]) -> tuple[int, str]:
    """Returns the position of the first wrong output and a description; "" if none is wrong."""
    graph = case.model.main
    for position, (index, expected, array) in enumerate(
        zip(graph.outputs, case.expected, found, strict=True)
    ):
        text = difference(case.type, graph.operands[index].type, expected, array, relaxed=case.model.relaxed)
        if text:
            return position, text
    return 0, ""


def outputs(case: Case, bound: Bound, result: ExecutionResult) -> list[Array]:
    """Returns the outputs as arrays.

    Raises:
        OpFailed: the device reported inconsistent shapes.
    """
    lengths = enumerate(argument.length for argument in bound.request.outputs)
    return output_arrays(case, result, [bound.output(position, length) for position, length in lengths])


def wrong(case: Case, bound: Bound, result: ExecutionResult) -> str:
    """Describes wrong outputs or forbidden writes of an execution; "" if there are none.

    Raises:
        OpFailed: the device reported inconsistent shapes.
    """
    damage = bound.damage()
    if damage:
        return damage
    found = outputs(case, bound, result)
    position, text = wrong_output(case, found)
    if not text:
        return ""
    unwritten = _unwritten(bound.before(position), case.expected[position], found[position])
    return f"output {position}: {text}{unwritten}"


def _unwritten(before: bytes, expected: Array, found: Array) -> str:
    """Returns a remark if the last elements still have their original contents."""
    if found.shape != expected.shape or not found.size:
        return ""
    size = found.itemsize
    now = np.frombuffer(np.ascontiguousarray(found).tobytes(), np.uint8).reshape(-1, size)
    kept = (now == np.frombuffer(before[: now.size], np.uint8).reshape(-1, size)).all(axis=1)
    differs = (now != np.frombuffer(expected.tobytes(), np.uint8).reshape(-1, size)).any(axis=1)
    count = int((kept & differs).sum())
    return f"; {count} of them were never written" if count else ""


def has_bytes(case: Case) -> bool:
    """Returns True if any output has an element."""
    return any(math.prod(value.shape) for value in case.expected)
