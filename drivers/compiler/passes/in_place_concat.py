"""Values that are put side by side, as the channels of images: what computes them stores each run of elements where it belongs.

A value that only the result is made of needs no memory of its own then, nor to be copied. The others are copied by kernels of their
own. The result's memory belongs to all of these kernels, see `FusedGraph.starts` and `Kernel.place`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from neurald.drivers.compiler.ir.expression import Axis, Constant, Expression, Load, axis, load
from neurald.drivers.compiler.ir.graph import flat
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.value import Value

#: Shorter runs are better put together in registers.
_SHORTEST_BYTES = 16
#: Smaller results are copied before another kernel has begun, unless nothing is left to copy.
_SMALLEST_BYTES = 1 << 14
#: At least this part of a result must be stored where it belongs.
_WORTHWHILE = 0.25


def interleave(graph: FusedGraph, stores_runs: Callable[[Kernel], bool]) -> FusedGraph:
    """The graph with values stored side by side by what computes them.

    Args:
        graph: is not changed.
        stores_runs: whether a kernel can store elements where its `place` says.
    """
    interleaving = _Interleaving(graph, stores_runs)
    for kernel in graph.kernels:
        interleaving.replace(kernel)
    return interleaving.result()


@dataclass(frozen=True, slots=True)
class _Part:
    """A value, and where along the dimension it begins."""

    value: Value
    begin: int


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a result is made of.

    Attributes:
        parts: in their order; they fill the result.
        length: elements of the result for each position in the dimensions before the one along which parts follow each other.
        each: elements of a part for each place along that dimension.
    """

    parts: tuple[_Part, ...]
    length: int
    each: int

    def run(self, part: _Part) -> int:
        """How many elements of a part lie side by side."""
        ends = [each.begin for each in self.parts[1:]] + [self.length // self.each]
        return (ends[self.parts.index(part)] - part.begin) * self.each


class _Interleaving:
    def __init__(self, graph: FusedGraph, stores_runs: Callable[[Kernel], bool]) -> None:
        self._graph = graph
        self._stores_runs = stores_runs
        #: By output; what stands for a kernel that is left out comes in its place.
        self._kernels: dict[Value, tuple[Kernel, ...]] = {each.output: (each,) for each in graph.kernels}
        self._aliases = dict(graph.aliases)
        self._starts = dict(graph.starts)
        self._readers: dict[Value, int] = {}
        for kernel in graph.kernels:
            for value in kernel.inputs:
                self._readers[value] = self._readers.get(value, 0) + 1

    def replace(self, kernel: Kernel) -> None:
        """Leaves a kernel out, if others can do its work."""
        found = _parts_of(kernel)
        if found is None or not kernel.output.count:
            return
        size = kernel.output.type.size_bytes
        if any(found.run(part) * size < _SHORTEST_BYTES for part in found.parts):
            return
        stored = [part for part in found.parts if self._can_store(found, part)]
        elements = sum(part.value.count for part in stored)
        if elements < _WORTHWHILE * kernel.output.count:
            return
        if len(stored) < len(found.parts) and kernel.output.size_bytes < _SMALLEST_BYTES:
            return
        copies = []
        for part in found.parts:
            if part in stored:
                (writer,) = self._kernels[part.value]
                self._kernels[part.value] = (_placed(writer, found, part),)
                self._put(part.value, kernel.output, part.begin * found.each)
            else:
                copy = _copy(part.value, kernel.operations)
                copies.append(_placed(copy, found, part))
                self._put(copy.output, kernel.output, part.begin * found.each)
        self._kernels[kernel.output] = tuple(copies)
        if not copies:
            # Somebody has to stand for the operations that the kernel stood for.
            (writer,) = self._kernels[stored[-1].value]
            operations = tuple(sorted({*writer.operations, *kernel.operations}))
            self._kernels[stored[-1].value] = (replace(writer, operations=operations),)

    def _put(self, part: Value, whole: Value, start: int) -> None:
        """Makes a value a part of another one's memory, or of that which this is a part of."""
        self._aliases[part] = self._aliases.get(whole, whole)
        self._starts[part] = self._starts.get(whole, 0) + start

    def _can_store(self, parts: _Parts, part: _Part) -> bool:
        """Whether a value is nothing but a part of one result, and its kernel can store it there."""
        value = part.value
        writers = self._kernels.get(value, ())
        if len(writers) != 1 or self._readers.get(value) != 1 or value in self._graph.outputs:
            return False
        if value in self._aliases or value in self._aliases.values():
            return False
        return writers[0].place is None and self._stores_runs(_placed(writers[0], parts, part))

    def result(self) -> FusedGraph:
        """The graph as it is by now."""
        kernels = tuple(kernel for each in self._kernels.values() for kernel in each)
        return replace(self._graph, kernels=kernels, aliases=self._aliases, starts=self._starts)


def _copy(value: Value, operations: tuple[int, ...]) -> Kernel:
    """A kernel that copies a value."""
    axes = tuple(axis(length, f"i{d}") for d, length in enumerate(value.shape))
    output = Value(value.shape, value.type, name=value.name)
    return Kernel(output=output, axes=axes, body=load(value, axes), operations=operations)


def _placed(kernel: Kernel, parts: _Parts, part: _Part) -> Kernel:
    """A kernel that stores the runs of a part as far apart as they are in the result."""
    run, place = parts.run(part), flat(kernel.axes, kernel.shape)
    return replace(kernel, place=place // run * parts.length + place % run)


def _parts_of(kernel: Kernel) -> _Parts | None:
    """The values that a kernel puts side by side, and nothing else."""
    if kernel.contraction is not None or kernel.requirements or kernel.place is not None:
        return None
    found: list[_Part] = []
    dimensions: set[int] = set()
    end = 0
    body: Expression | None = kernel.body
    while isinstance(body, Load) and body.guard is not None:
        value = body.value
        if value.type is not kernel.output.type or len(value.shape) != len(kernel.axes):
            return None
        where = [_shift(*each) for each in zip(body.index, kernel.axes, strict=True)]
        moved = [d for d, each in enumerate(kernel.axes) if where[d] != 0 or value.shape[d] != each.extent]
        if None in where or len(moved) != 1:
            return None
        (dimension,) = moved
        along, begin = kernel.axes[dimension], where[dimension]
        assert begin is not None  # noqa: S101 - there is none above
        if body.guard is not (along >= begin) & (along < begin + value.shape[dimension]):
            return None
        dimensions.add(dimension)
        found.append(_Part(value, begin))
        body = body.otherwise
    if len(dimensions) != 1 or len({part.value for part in found}) < len(found):
        return None
    found.sort(key=lambda part: part.begin)
    for part in found:
        if part.begin != end:
            return None
        end += part.value.shape[dimension]
    if end != kernel.shape[dimension]:
        return None
    each = math.prod(kernel.shape[dimension + 1 :])
    return _Parts(tuple(found), end * each, each)


def _shift(place: Expression, along: Axis) -> int | None:
    """How far a place is before that along an axis; None: it depends."""
    difference = along - place
    return difference.low if isinstance(difference, Constant) else None
