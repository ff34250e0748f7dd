"""Moves data in few contiguous ranges, as for concatenation, slicing, padding and shifted states.

The source of each element is computed at compile time. Contiguous ranges are copied as bytes, with
full registers, whatever their type.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import Array, evaluate_node
from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Load, index, load, select
from neurald.drivers.compiler.ir.graph import Compute, is_data_movement
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import has_own_extents, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.addressing import address
from neurald.drivers.cpu.kernels.common.byte_copies import copy_bytes, each_part
from neurald.drivers.cpu.kernels.common.function import cost_of_bytes_ns, function_text
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Larger kernels take long to analyse and are bound by memory anyway.
_MAX_ELEMENTS = 1 << 16
#: Limits on the number of ranges of a kernel, and on their mean size.
_MAX_RANGES = 64
_MIN_MEAN_BYTES = 32
#: Approximate number of bytes per work item.
_WORK_ITEM_BYTES = 16 << 10
#: Cycles per range besides copying, and bytes copied per cycle.
_RANGE_CYCLES, _BYTES_PER_CYCLE = 2.0, 32.0


class _CopiedRange(Struct, frozen=True, kw_only=True):
    """Elements that are contiguous in both source and destination.

    Attributes:
        to: offset of the first one in the output, in elements.
        source: their value; every element is the same if this is a `fill`.
        start: offset of the first one in the source.
        count: number of elements.
    """

    to: int
    source: Value
    start: int
    count: int


class _SourceNumbers:
    """Evaluates a data movement on element numbers, to find the source of each output element."""

    def __init__(self) -> None:
        self._index_values: dict[Value, Value] = {}
        self._fills: dict[Constant, Value] = {}
        self.tables: dict[Value, Array] = {}

    def body(self, body: Expression) -> Expression | None:
        """Converts a movement of elements to one of indices; None if it depends on data.

        That includes lengths that are only known at run time.
        """
        if isinstance(body, Constant):
            if has_own_extents(body):
                return None
            return load(self._index_value(self._fill(body)), (index(0),))
        if isinstance(body, Load):
            if not self._are_known((*body.index, *(() if body.guard is None else (body.guard,)))):
                return None
            index_value = self._index_value(body.value)
            if body.guard is None or body.otherwise is None:
                return load(index_value, body.index)
            otherwise = self.body(body.otherwise)
            return None if otherwise is None else load(index_value, body.index, body.guard, otherwise)
        if isinstance(body, Apply) and body.op is Op.SELECT and self._are_known(body.arguments[:1]):
            first, second = (self.body(each) for each in body.arguments[1:])
            return None if first is None or second is None else select(body.arguments[0], first, second)
        return None

    def _are_known(self, roots: Iterable[Expression]) -> bool:
        """Returns True if indices and conditions depend on constants only.

        Adds these constants to `tables`.
        """
        found = list(walk(*roots))
        if any(map(has_own_extents, found)):
            return False
        values = {each.value for each in found if isinstance(each, Load)}
        self.tables.update((value, value.constant) for value in values if value.constant is not None)
        return all(value.constant is not None for value in values)

    def _fill(self, constant: Constant) -> Value:
        if constant not in self._fills:
            array = np.full((1,), constant.value, constant.type.dtype)
            self._fills[constant] = Value((1,), constant.type, array)
        return self._fills[constant]

    def _index_value(self, value: Value) -> Value:
        return self._index_values.setdefault(value, Value(value.shape, Scalar.INT64))

    def is_fill(self, value: Value) -> bool:
        """Returns True if the value represents a constant of the body."""
        return any(value is each for each in self._fills.values())

    def source_numbers(self, kernel: Kernel, body: Expression) -> tuple[Array, Mapping[int, Value]]:
        """Returns the number of each element's source, and the values by their first number.

        The elements of a value have consecutive numbers.
        """
        starts: dict[int, Value] = {}
        arrays: dict[Value, Array] = dict(self.tables)
        first = 0
        for value, index_value in self._index_values.items():
            starts[first] = value
            arrays[index_value] = first + np.arange(value.count).reshape(value.shape)
            # The gap keeps adjacent values from looking contiguous.
            first += value.count + 1
        node = Compute(output=Value(kernel.shape, Scalar.INT64), axes=kernel.axes, body=body)
        return evaluate_node(node, arrays).reshape(-1), starts


def routine(kernel: Kernel, target: Target) -> Routine | None:
    """Returns the routine of a kernel, or None if it does not copy a few contiguous ranges.

    Args:
        kernel: has no contraction, and its output is not empty.
        target: the target of the code.
    """
    kind = kernel.output.type
    if kernel.requirements or not is_data_movement(kernel.body) or kind is Scalar.BOOL:
        return None
    if kernel.output.count > _MAX_ELEMENTS:
        return None
    numbers = _SourceNumbers()
    body = numbers.body(kernel.body)
    found = None if body is None else _copied_ranges(kernel, numbers, body)
    if found is None:
        return None
    sources = dict.fromkeys(each.source for each in found if not numbers.is_fill(each.source))
    arguments = (kernel.output, *sources)
    code = Instructions(parameter_names(arguments))
    copies = _Copies(code, target, pointer_names(arguments), kernel.output)
    work_items = list(_work_items(found, kind.size_bytes))
    for number, work_item in enumerate(work_items):
        is_begun = code.value(f"icmp sle i64 %begin, {number}")
        is_ahead = code.value(f"icmp sgt i64 %end, {number}")
        with code.when(code.value(f"and i1 {is_begun}, {is_ahead}")):
            for copied in work_item:
                copies.write(copied)
    cycles = len(found) * _RANGE_CYCLES + kernel.output.size_bytes / _BYTES_PER_CYCLE
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=len(work_items),
        # As many bytes are read as are written, or fewer.
        cost_ns=cost_of_bytes_ns(cycles, 2 * kernel.output.size_bytes),
        declarations=frozenset(code.declarations),
        label=f"{len(found)} ranges copied",
        operations=kernel.operations,
    )


def _copied_ranges(kernel: Kernel, numbers: _SourceNumbers, body: Expression) -> list[_CopiedRange] | None:
    """Returns the ranges of a kernel, or None if they are too many or too short."""
    offsets, starts = numbers.source_numbers(kernel, body)
    firsts = np.array(list(starts))
    owners = np.searchsorted(firsts, offsets, side="right") - 1
    values = list(starts.values())
    fills = np.array([numbers.is_fill(value) for value in values])
    step = np.diff(offsets)
    goes_on = (np.diff(owners) == 0) & (step == np.where(fills[owners[1:]], 0, 1))
    begins = np.concatenate(([0], np.flatnonzero(~goes_on) + 1, [len(offsets)]))
    count = len(begins) - 1
    if count > _MAX_RANGES or kernel.output.size_bytes < _MIN_MEAN_BYTES * count:
        return None
    return [
        _CopiedRange(
            to=int(begin),
            source=values[owners[begin]],
            start=int(offsets[begin] - firsts[owners[begin]]),
            count=int(end - begin),
        )
        for begin, end in itertools.pairwise(begins)
    ]


def _work_items(ranges: Iterable[_CopiedRange], size_bytes: int) -> Iterator[list[_CopiedRange]]:
    """Divides the ranges into work items, splitting long ones."""
    most = _WORK_ITEM_BYTES // size_bytes
    work_item: list[_CopiedRange] = []
    left = most
    for copied in ranges:
        done = 0
        while done < copied.count:
            count = min(left, copied.count - done)
            work_item.append(
                _CopiedRange(
                    to=copied.to + done, source=copied.source, start=copied.start + done, count=count
                )
            )
            done, left = done + count, left - count
            if not left:
                yield work_item
                work_item, left = [], most
    if work_item:
        yield work_item


class _Copies:
    """Writes copies of ranges.

    Args:
        code: receives the instructions.
        target: the target of the code.
        pointers: names of the memory of the output and of all sources except fills.
        output: the destination.
    """

    def __init__(
        self, code: Instructions, target: Target, pointers: Mapping[Value, str], output: Value
    ) -> None:
        self._code, self._target, self._pointers, self._output = code, target, pointers, output

    def write(self, copied: _CopiedRange) -> None:
        """Writes the instructions for a range."""
        size = self._output.type.size_bytes
        count = copied.count * size
        to = address(self._code, self._pointers[self._output], str(copied.to * size))
        known = self._pointers.get(copied.source)
        source = None if known is None else address(self._code, known, str(copied.start * size))
        if source is not None:
            copy_bytes(self._code, self._target, source, to, count)
            return
        constant = copied.source.constant
        assert constant is not None  # noqa: S101 - it fills

        def fill(width: int, offset: tuple[str, ...]) -> None:
            pattern = constant.tobytes() * (width // size)
            value = f"<{', '.join(f'i8 {each}' for each in pattern)}>"
            at = address(self._code, to, *offset)
            self._code.effect(f"store <{width} x i8> {value}, ptr {at}, align 1")

        each_part(self._code, self._target, count, fill)
