"""Runs a generated case on a device, through the HAL, in each way that there is."""

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


class Layout(Enum):
    """Where the arguments of a request lie.

    PACKED: inputs in one memory and outputs in another, each at a multiple of 64 and padded to one, as the runtime has them.
    SCATTERED: all in one memory, at odd offsets, without padding, last argument first.
    SINGLE: each in a memory of its own, from its first byte to its last.
    """

    PACKED = "packed"
    SCATTERED = "scattered"
    SINGLE = "single"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A request of a case, with guard bytes around all that it refers to.

    Attributes:
        request: what the device gets.
        pools: those of the request, guarded.
        model: whose constants must not change either.
    """

    request: Request
    pools: tuple[GuardedMemory, ...]
    model: Model

    def damage(self) -> str:
        """What the device wrote that it must not, "" if nothing."""
        texts = [pool.damage() for pool in self.pools]
        texts += [pool.damage() for pool in self.model.pools if isinstance(pool, ConstantMemory)]
        return next(filter(None, texts), "")

    def output(self, position: int, size: int) -> memoryview:
        """The first bytes of an output."""
        argument = self.request.outputs[position]
        assert argument.pool is not None  # noqa: S101 - every output is bound
        return self.pools[argument.pool].memory.view(argument.offset, size)

    def before(self, position: int) -> bytes:
        """What the memory of an output held when the device got it."""
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
    """A request that runs a case. Outputs, padding and guards hold random bytes, other ones for each `fill`.

    Args:
        case: what is run.
        short: the buffer of the first output that has any bytes is one element too small.
        allocate: makes the pools; ordinary memory of this process by default.
        layout: where arguments lie.
        fill: seed of the random bytes.
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
    """Which arguments share a memory, in the order in which they lie in it."""
    if layout is Layout.SCATTERED:
        return [parts[::-1]]
    if layout is Layout.SINGLE:
        return [[part] for part in parts]
    return [group for group in (parts[:inputs], parts[inputs:]) if group]


def _pool(
    parts: Sequence[_Part], number: int, layout: Layout, fill: int, allocate: Callable[[int], Memory]
) -> tuple[GuardedMemory, dict[int, Argument]]:
    """A memory with these arguments, and their places in it."""
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
    """The model with every dimension of its outputs left open."""
    operands = list(model.main.operands)
    for index in model.main.outputs:
        rank = len(operands[index].dimensions or ())
        if operands[index].type.is_tensor:
            operands[index] = replace(operands[index], dimensions=(0,) * rank if rank else None)
    return replace(model, main=replace(model.main, operands=tuple(operands)))


def output_arrays(case: Case, result: ExecutionResult, contents: Sequence[memoryview]) -> list[Array]:
    """The outputs as arrays.

    Args:
        case: that ran.
        result: of the execution.
        contents: all bytes of each output's memory.

    Raises:
        OpFailed: the device told shapes that make no sense.
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
    """The first output that is wrong, and what is wrong with it; "" if none is."""
    graph = case.model.main
    for position, (index, expected, array) in enumerate(
        zip(graph.outputs, case.expected, found, strict=True)
    ):
        text = difference(case.type, graph.operands[index].type, expected, array, relaxed=case.model.relaxed)
        if text:
            return position, text
    return 0, ""


def outputs(case: Case, bound: Bound, result: ExecutionResult) -> list[Array]:
    """The outputs as arrays.

    Raises:
        OpFailed: the device told shapes that make no sense.
    """
    lengths = enumerate(argument.length for argument in bound.request.outputs)
    return output_arrays(case, result, [bound.output(position, length) for position, length in lengths])


def wrong(case: Case, bound: Bound, result: ExecutionResult) -> str:
    """What is wrong with an execution: with its outputs, or with what else it wrote; "" if nothing is.

    Raises:
        OpFailed: the device told shapes that make no sense.
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
    """Says so where the elements at the end hold what was there before."""
    if found.shape != expected.shape or not found.size:
        return ""
    size = found.itemsize
    now = np.frombuffer(np.ascontiguousarray(found).tobytes(), np.uint8).reshape(-1, size)
    kept = (now == np.frombuffer(before[: now.size], np.uint8).reshape(-1, size)).all(axis=1)
    differs = (now != np.frombuffer(expected.tobytes(), np.uint8).reshape(-1, size)).any(axis=1)
    count = int((kept & differs).sum())
    return f"; {count} of them were never written" if count else ""


def has_bytes(case: Case) -> bool:
    """Whether any output has an element."""
    return any(math.prod(value.shape) for value in case.expected)
