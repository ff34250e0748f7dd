"""Eliminates concatenations by letting producers write directly into their result.

Each concatenated value must be contiguous in the result, as it is along the first dimension longer
than 1. Its location must be free to choose, which excludes inputs, constants and outputs of the
graph, and values that occur twice in the result.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Expression, Load, index
from neurald.drivers.compiler.ir.extents.extent import Extent, is_multiple, is_one, same_length
from neurald.drivers.compiler.ir.graph import linearize, strides
from neurald.drivers.compiler.ir.index_arithmetic import constant_difference
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.traversal import substitute
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.records import replace


class Alignment(Struct, frozen=True, kw_only=True):
    """Alignment that kernels expect of values.

    Attributes:
        read_bytes: alignment of values that kernels read, in bytes.
        written_elements: alignment of all values, in elements.
    """

    read_bytes: int = 1
    written_elements: int = 1


class ConcatPart(Struct, frozen=True):
    """A concatenated value, and its offset in the result, in elements."""

    value: Value
    start: int


def eliminate_concat(graph: FusedGraph, alignment: Alignment) -> FusedGraph:
    """Returns the graph without kernels that only concatenate contiguous values.

    Args:
        graph: the graph, which is not changed.
        alignment: alignment that kernels expect.
    """
    elimination = _ConcatElimination(graph, alignment)
    for kernel in graph.kernels:
        elimination.eliminate(kernel)
    return elimination.result()


class _ConcatElimination:
    def __init__(self, graph: FusedGraph, alignment: Alignment) -> None:
        self._graph = graph
        self._alignment = alignment
        self._kernels = {kernel.output: kernel for kernel in graph.kernels}
        self._aliases = dict(graph.aliases)
        self._starts = dict(graph.starts)
        #: Maps the result of each eliminated kernel to its parts, including nested ones.
        self._eliminated: dict[Value, list[ConcatPart]] = {}
        self._readers: dict[Value, set[Value]] = {}
        for kernel in graph.kernels:
            for value in kernel.inputs:
                self._readers.setdefault(self._aliases.get(value, value), set()).add(kernel.output)

    def eliminate(self, kernel: Kernel) -> None:
        """Eliminates a kernel, if its inputs can be written into its output directly."""
        parts = concat_parts(kernel)
        owners = [ConcatPart(self._aliases.get(part.value, part.value), part.start) for part in parts]
        is_whole = all(a.value.count == b.value.count for a, b in zip(parts, owners, strict=True))
        if not owners or not is_whole or len({part.value for part in owners}) < len(owners):
            return
        if not all(self._can_move(part, kernel) for part in owners):
            return
        del self._kernels[kernel.output]
        moved: list[ConcatPart] = []
        for part in owners:
            moved.append(part)
            moved += (
                ConcatPart(each.value, part.start + each.start)
                for each in self._eliminated.get(part.value, ())
            )
        self._eliminated[kernel.output] = moved
        for part in owners:
            for alias, owner in self._aliases.items():
                if owner is part.value:
                    self._aliases[alias] = kernel.output
                    self._starts[alias] = self._starts.get(alias, 0) + part.start
            self._aliases[part.value] = kernel.output
            self._starts[part.value] = part.start
        # The operations of the kernel are attributed to the last of the kernels that replace it.
        last = max(
            (part.value for part in moved if part.value in self._kernels), key=list(self._kernels).index
        )
        writer = self._kernels[last]
        operations = tuple(sorted({*writer.operations, *kernel.operations}))
        self._kernels[last] = replace(writer, operations=operations)

    def _can_move(self, part: ConcatPart, kernel: Kernel) -> bool:
        """Returns True if a value can be written directly into the kernel's output."""
        value = part.value
        if value in self._aliases or value in self._graph.outputs:
            return False
        inner = self._eliminated.get(value)
        if inner is None and value not in self._kernels:
            return False
        return all(
            self._is_aligned(each, part.start + each.start, kernel)
            for each in (ConcatPart(value, 0), *(inner or ()))
        )

    def _is_aligned(self, part: ConcatPart, start: int, kernel: Kernel) -> bool:
        if start % self._alignment.written_elements:
            return False
        is_read = not self._readers.get(part.value, set()) <= {kernel.output, *self._eliminated}
        return not is_read or start * part.value.type.size_bytes % self._alignment.read_bytes == 0

    def result(self) -> FusedGraph:
        return replace(
            self._graph, kernels=tuple(self._kernels.values()), aliases=self._aliases, starts=self._starts
        )


def concat_parts(kernel: Kernel) -> tuple[ConcatPart, ...]:
    """Returns the values that a kernel concatenates, in order; empty if it does anything else."""
    if kernel.contraction is not None or kernel.requirements:
        return ()
    # Axes of length 1 are replaced by their only index, so that equal expressions compare equal.
    ones: dict[Expression, Expression] = {axis: index(0) for axis in kernel.axes if is_one(axis.extent)}
    offset = substitute(linearize(kernel.axes, kernel.shape), ones)
    parts: list[ConcatPart] = []
    guards: list[Expression] = []
    body: Expression | None = kernel.body
    while isinstance(body, Load) and body.guard is not None:
        value = body.value
        # Most kernels are no concatenations, so that the question must not guard lengths.
        start = constant_difference(offset, substitute(linearize(body.index, value.shape), ones))
        if value.type is not kernel.output.type or start is None or isinstance(start, Extent):
            return ()
        parts.append(ConcatPart(value, start))
        guards.append(body.guard)
        body = body.otherwise
    for part, guard in zip(parts, guards, strict=True):
        # The guard must hold for exactly the value's elements.
        lengths = {*strides(kernel.shape), *strides(part.value.shape)}
        end = part.start + part.value.count
        if substitute(guard, ones) not in _possible_guards(offset, part.start, end, lengths):
            return ()
    parts.sort(key=lambda part: part.start)
    end = 0
    for part in parts:
        if not same_length(part.start, end):
            return ()
        end += part.value.count
    return tuple(parts) if same_length(end, kernel.output.count) and len(parts) > 1 else ()


def _possible_guards(
    offset: Expression, first: int, end: int, lengths: Iterable[int]
) -> Iterator[Expression]:
    """Yields the guards that select offsets from `first` to `end` - 1, for each row length."""
    for length in lengths:
        if length and is_multiple(first, length) and is_multiple(end, length):
            row = offset // length
            yield (row >= first // length) & (row < end // length)
