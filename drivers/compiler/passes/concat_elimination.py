"""Concatenation elimination: producers write directly into the result of a concatenation.

Each value must be contiguous in the result, as along the first dimension longer than 1, and its
memory must be free to choose. Inputs, constants, outputs of the graph, and values that occur twice
in the result are not.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from neurald.drivers.compiler.ir.expression import Constant, Expression, Load, index
from neurald.drivers.compiler.ir.graph import linearize, strides
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.traversal import substitute
from neurald.drivers.compiler.ir.value import Value


@dataclass(frozen=True, kw_only=True, slots=True)
class Alignment:
    """Alignment that kernels expect of values.

    Attributes:
        written_elements: alignment of every value, in elements.
        read_bytes: additional alignment of values that kernels read, in bytes.
    """

    read_bytes: int = 1
    written_elements: int = 1


@dataclass(frozen=True, slots=True)
class Part:
    """A value, and its offset in the result in elements."""

    value: Value
    start: int


def eliminate_concat(graph: FusedGraph, alignment: Alignment) -> FusedGraph:
    """Returns the graph without kernels that only concatenate contiguous values.

    Args:
        graph: is not changed.
        alignment: alignment that kernels expect.
    """
    joining = _ConcatElimination(graph, alignment)
    for kernel in graph.kernels:
        joining.eliminate(kernel)
    return joining.result()


class _ConcatElimination:
    def __init__(self, graph: FusedGraph, alignment: Alignment) -> None:
        self._graph = graph
        self._alignment = alignment
        self._kernels = {kernel.output: kernel for kernel in graph.kernels}
        self._aliases = dict(graph.aliases)
        self._starts = dict(graph.starts)
        #: Eliminated results, mapped to the values written into them, including nested parts.
        self._joined: dict[Value, list[Part]] = {}
        self._readers: dict[Value, set[Value]] = {}
        for kernel in graph.kernels:
            for value in kernel.inputs:
                self._readers.setdefault(self._aliases.get(value, value), set()).add(kernel.output)

    def eliminate(self, kernel: Kernel) -> None:
        """Eliminates a kernel, if its inputs can be written into its output directly."""
        parts = parts_of(kernel)
        owners = [Part(self._aliases.get(part.value, part.value), part.start) for part in parts]
        is_whole = all(a.value.count == b.value.count for a, b in zip(parts, owners, strict=True))
        if not owners or not is_whole or len({part.value for part in owners}) < len(owners):
            return
        if not all(self._can_move(part, kernel) for part in owners):
            return
        del self._kernels[kernel.output]
        moved: list[Part] = []
        for part in owners:
            moved.append(part)
            moved += (Part(each.value, part.start + each.start) for each in self._joined.get(part.value, ()))
        self._joined[kernel.output] = moved
        for part in owners:
            for alias, owner in self._aliases.items():
                if owner is part.value:
                    self._aliases[alias] = kernel.output
                    self._starts[alias] = self._starts.get(alias, 0) + part.start
            self._aliases[part.value] = kernel.output
            self._starts[part.value] = part.start
        # The last writer takes over the attribution of the kernel's operations.
        last = max(
            (part.value for part in moved if part.value in self._kernels), key=list(self._kernels).index
        )
        writer = self._kernels[last]
        operations = tuple(sorted({*writer.operations, *kernel.operations}))
        self._kernels[last] = replace(writer, operations=operations)

    def _can_move(self, part: Part, kernel: Kernel) -> bool:
        """Returns True if a value can be written directly into the kernel's output."""
        value = part.value
        if value in self._aliases or value in self._graph.outputs:
            return False
        inner = self._joined.get(value)
        if inner is None and value not in self._kernels:
            return False
        return all(
            self._is_aligned(each, part.start + each.start, kernel)
            for each in (Part(value, 0), *(inner or ()))
        )

    def _is_aligned(self, part: Part, start: int, kernel: Kernel) -> bool:
        if start % self._alignment.written_elements:
            return False
        is_read = not self._readers.get(part.value, set()) <= {kernel.output, *self._joined}
        return not is_read or start * part.value.type.size_bytes % self._alignment.read_bytes == 0

    def result(self) -> FusedGraph:
        return replace(
            self._graph, kernels=tuple(self._kernels.values()), aliases=self._aliases, starts=self._starts
        )


def parts_of(kernel: Kernel) -> tuple[Part, ...]:
    """Returns the values that a kernel concatenates, in order; empty if it does anything else."""
    if kernel.contraction is not None or kernel.requirements:
        return ()
    short: dict[Expression, Expression] = {axis: index(0) for axis in kernel.axes if axis.extent == 1}
    offset = substitute(linearize(kernel.axes, kernel.shape), short)
    found: list[Part] = []
    body: Expression | None = kernel.body
    while isinstance(body, Load) and body.guard is not None:
        value = body.value
        start = offset - substitute(linearize(body.index, value.shape), short)
        if value.type is not kernel.output.type or not isinstance(start, Constant):
            return ()
        # The guard must hold for exactly the value's elements, so it is compared with the known
        # forms.
        first, lengths = int(start.value), {*strides(kernel.shape), *strides(value.shape)}
        if substitute(body.guard, short) not in _guards_of(offset, first, first + value.count, lengths):
            return ()
        found.append(Part(value, first))
        body = body.otherwise
    found.sort(key=lambda part: part.start)
    end = 0
    for part in found:
        if part.start != end:
            return ()
        end += part.value.count
    return tuple(found) if end == kernel.output.count and len(found) > 1 else ()


def _guards_of(offset: Expression, first: int, end: int, lengths: Iterable[int]) -> Iterator[Expression]:
    """Yields the guards that select offsets from `first` to before `end`, for each row length."""
    for length in lengths:
        if length and not first % length and not end % length:
            row = offset // length
            yield (row >= first // length) & (row < end // length)
