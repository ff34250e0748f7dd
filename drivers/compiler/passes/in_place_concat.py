"""Concatenates in place along inner dimensions, such as channels.

The producer of a value that only the concatenation reads stores its runs of contiguous elements
into the result. Such a value needs no memory and no copy. Other values are copied by separate
kernels. All of these kernels write to the memory of the result; see `FusedGraph.starts` and
`Kernel.output_offset`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from neurald.drivers.compiler.ir.expression import Axis, Constant, Expression, Load, axis, load
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.value import Value

#: Kernels assemble shorter runs faster in registers.
_MIN_RUN_BYTES = 16
#: Results below this size are only concatenated in place if no value must be copied: starting
#: another kernel takes longer than copying everything.
_MIN_COPIED_RESULT_BYTES = 1 << 14
#: Smallest fraction of a result that must be stored in place.
_MIN_IN_PLACE_FRACTION = 0.25


def concat_in_place(graph: FusedGraph, stores_runs: Callable[[Kernel], bool]) -> FusedGraph:
    """Returns the graph with concatenations stored in place by their producers.

    Args:
        graph: the graph, which is not changed.
        stores_runs: returns True if a kernel can store elements at its `output_offset`.
    """
    concat = _InPlaceConcat(graph, stores_runs)
    for kernel in graph.kernels:
        concat.replace(kernel)
    return concat.result()


@dataclass(frozen=True, slots=True)
class _ConcatSlice:
    """A value, and its first index along the concatenated dimension."""

    value: Value
    begin: int


@dataclass(frozen=True, slots=True)
class _Concatenation:
    """The values that a kernel concatenates.

    Attributes:
        slices: the values in order; they cover the result.
        row_length: elements of the result per index of the dimensions before the concatenated one.
        inner_length: elements per index along the concatenated dimension.
    """

    slices: tuple[_ConcatSlice, ...]
    row_length: int
    inner_length: int

    def run(self, part: _ConcatSlice) -> int:
        """Returns the number of contiguous elements of a value in the result."""
        ends = [each.begin for each in self.slices[1:]] + [self.row_length // self.inner_length]
        return (ends[self.slices.index(part)] - part.begin) * self.inner_length


class _InPlaceConcat:
    def __init__(self, graph: FusedGraph, stores_runs: Callable[[Kernel], bool]) -> None:
        self._graph = graph
        self._stores_runs = stores_runs
        #: Kernels by output. Copies replace an eliminated kernel.
        self._kernels: dict[Value, tuple[Kernel, ...]] = {each.output: (each,) for each in graph.kernels}
        self._aliases = dict(graph.aliases)
        self._starts = dict(graph.starts)
        self._readers: dict[Value, int] = {}
        for kernel in graph.kernels:
            for value in kernel.inputs:
                self._readers[value] = self._readers.get(value, 0) + 1

    def replace(self, kernel: Kernel) -> None:
        """Eliminates a kernel, if its inputs can be stored into its output directly."""
        concat = _match_concatenation(kernel)
        if concat is None or not kernel.output.count:
            return
        size = kernel.output.type.size_bytes
        if any(concat.run(part) * size < _MIN_RUN_BYTES for part in concat.slices):
            return
        stored = [part for part in concat.slices if self._can_store(concat, part)]
        elements = sum(part.value.count for part in stored)
        if elements < _MIN_IN_PLACE_FRACTION * kernel.output.count:
            return
        if len(stored) < len(concat.slices) and kernel.output.size_bytes < _MIN_COPIED_RESULT_BYTES:
            return
        copies = []
        for part in concat.slices:
            if part in stored:
                (writer,) = self._kernels[part.value]
                self._kernels[part.value] = (_stored_in_place(writer, concat, part),)
                self._alias(part.value, kernel.output, part.begin * concat.inner_length)
            else:
                copy = _copy(part.value, kernel.operations)
                copies.append(_stored_in_place(copy, concat, part))
                self._alias(copy.output, kernel.output, part.begin * concat.inner_length)
        self._kernels[kernel.output] = tuple(copies)
        if not copies:
            # The operations of the kernel are attributed to the last kernel that writes its result.
            (writer,) = self._kernels[stored[-1].value]
            operations = tuple(sorted({*writer.operations, *kernel.operations}))
            self._kernels[stored[-1].value] = (replace(writer, operations=operations),)

    def _alias(self, part: Value, whole: Value, start: int) -> None:
        """Makes a value an alias of another one, or of the owner of that one."""
        self._aliases[part] = self._aliases.get(whole, whole)
        self._starts[part] = self._starts.get(whole, 0) + start

    def _can_store(self, concat: _Concatenation, part: _ConcatSlice) -> bool:
        """Returns True if a value has no other reader, and its kernel can store it in place."""
        value = part.value
        writers = self._kernels.get(value, ())
        if len(writers) != 1 or self._readers.get(value) != 1 or value in self._graph.outputs:
            return False
        if value in self._aliases or value in self._aliases.values():
            return False
        return writers[0].output_offset is None and self._stores_runs(
            _stored_in_place(writers[0], concat, part)
        )

    def result(self) -> FusedGraph:
        """Returns the resulting graph."""
        kernels = tuple(kernel for each in self._kernels.values() for kernel in each)
        return replace(self._graph, kernels=kernels, aliases=self._aliases, starts=self._starts)


def _copy(value: Value, operations: tuple[int, ...]) -> Kernel:
    """Returns a kernel that copies a value."""
    axes = tuple(axis(length, f"i{d}") for d, length in enumerate(value.shape))
    output = Value(value.shape, value.type, name=value.name)
    return Kernel(output=output, axes=axes, body=load(value, axes), operations=operations)


def _stored_in_place(kernel: Kernel, concat: _Concatenation, part: _ConcatSlice) -> Kernel:
    """Returns the kernel with its elements stored as runs in the result."""
    run, offset = concat.run(part), linearize(kernel.axes, kernel.shape)
    return replace(kernel, output_offset=offset // run * concat.row_length + offset % run)


def _match_concatenation(kernel: Kernel) -> _Concatenation | None:
    """Returns the concatenation along one dimension that a kernel is, or None."""
    if kernel.contraction is not None or kernel.requirements or kernel.output_offset is not None:
        return None
    slices: list[_ConcatSlice] = []
    dimensions: set[int] = set()
    end = 0
    body: Expression | None = kernel.body
    while isinstance(body, Load) and body.guard is not None:
        value = body.value
        if value.type is not kernel.output.type or len(value.shape) != len(kernel.axes):
            return None
        shifts = [_shift(*each) for each in zip(body.index, kernel.axes, strict=True)]
        moved = [d for d, each in enumerate(kernel.axes) if shifts[d] != 0 or value.shape[d] != each.extent]
        if None in shifts or len(moved) != 1:
            return None
        (dimension,) = moved
        along, begin = kernel.axes[dimension], shifts[dimension]
        assert begin is not None  # noqa: S101 - checked above
        if body.guard is not (along >= begin) & (along < begin + value.shape[dimension]):
            return None
        dimensions.add(dimension)
        slices.append(_ConcatSlice(value, begin))
        body = body.otherwise
    if len(dimensions) != 1 or len({part.value for part in slices}) < len(slices):
        return None
    slices.sort(key=lambda part: part.begin)
    for part in slices:
        if part.begin != end:
            return None
        end += part.value.shape[dimension]
    if end != kernel.shape[dimension]:
        return None
    inner_length = math.prod(kernel.shape[dimension + 1 :])
    return _Concatenation(tuple(slices), end * inner_length, inner_length)


def _shift(index: Expression, along: Axis) -> int | None:
    """Returns the axis minus the index, or None if that is not constant."""
    difference = along - index
    return difference.low if isinstance(difference, Constant) else None
