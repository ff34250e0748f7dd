"""Concatenates in place along inner dimensions, such as channels.

A kernel is a concatenation if conditions on one of its indices select among expressions. The
producer of a value that is one of these parts stores its runs of contiguous elements into the
result. Such a value needs no memory and no copy; its other readers load it from the result. Other
parts are computed by separate kernels. All of these kernels write to the memory of the result; see
`FusedGraph.starts` and `Kernel.output_offset`.
"""

import itertools
import math
from collections.abc import Callable, Iterator

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Apply, Axis, Expression, Load, axis, load
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.graph import delinearize, linearize
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.kernel_rewriting import rewrite_kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.traversal import substitute
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.passes.fusion.evaluation_cost import conjuncts, index_range
from neurald.hal.records import replace

#: Kernels assemble shorter runs faster in registers.
_MIN_RUN_BYTES = 16
#: Results below this size are only concatenated in place if no value must be copied: starting
#: another kernel takes longer than copying everything.
_MIN_COPIED_RESULT_BYTES = 1 << 14
#: Smallest fraction of a result that must be stored in place.
_MIN_IN_PLACE_FRACTION = 0.25
#: Shortest run of a value with other readers, which then read it with gaps.
_MIN_SHARED_RUN_BYTES = 64
_MAX_PARTS = 64
#: Number of parts above which each is copied by a kernel of its own, since a kernel that selects
#: among them takes longer; fewer if the runs are as wide as vectors.
_MANY_PARTS = 16
_MANY_WIDE_PARTS = 15


def concat_in_place(graph: FusedGraph, stores_runs: Callable[[Kernel], bool]) -> FusedGraph:
    """Returns the graph with concatenations stored in place by their producers.

    Args:
        graph: the graph, which is not changed.
        stores_runs: returns True if a kernel can store elements at its `output_offset`.
    """
    concat = _InPlaceConcat(graph, stores_runs)
    for kernel in graph.kernels:
        concat.replace(kernel.output)
    return concat.result()


class _ConcatSlice(Struct, frozen=True):
    """A part of a concatenation.

    Attributes:
        begin: its first index along the concatenated dimension.
        axes: the indices of its elements.
        body: the element at `axes`.
    """

    begin: int
    axes: tuple[Axis, ...]
    body: Expression

    @property
    def shape(self) -> Shape:
        """The extents of the axes."""
        return tuple(each.extent for each in self.axes)

    @property
    def value(self) -> Value | None:
        """The value that has the elements of this part, in the same order."""
        if not isinstance(self.body, Load) or self.body.guard is not None:
            return None
        same = all(
            each is along or along.extent == 1
            for each, along in zip(self.body.index, self.axes, strict=False)
        )
        return self.body.value if same and self.body.value.shape == self.shape else None


class _Concatenation(Struct, frozen=True):
    """The parts that a kernel concatenates.

    Attributes:
        dimension: the concatenated dimension.
        slices: the parts in order; they cover the result.
        row_length: elements of the result per index of the dimensions before the concatenated one.
        inner_length: elements per index along the concatenated dimension.
    """

    dimension: int
    slices: tuple[_ConcatSlice, ...]
    row_length: int
    inner_length: int

    def run(self, part: _ConcatSlice) -> int:
        """Returns the number of contiguous elements of a part in the result."""
        return part.axes[self.dimension].extent * self.inner_length


class _InPlaceConcat:
    def __init__(self, graph: FusedGraph, stores_runs: Callable[[Kernel], bool]) -> None:
        self._graph = graph
        self._stores_runs = stores_runs
        #: Kernels by output. Those that compute parts replace an eliminated kernel.
        self._kernels: dict[Value, tuple[Kernel, ...]] = {each.output: (each,) for each in graph.kernels}
        self._aliases = dict(graph.aliases)
        self._starts = dict(graph.starts)
        #: The keys in `_kernels` of the kernels that read each value.
        self._readers: dict[Value, set[Value]] = {}
        for kernel in graph.kernels:
            self._read(kernel.output, kernel)

    def _read(self, key: Value, kernel: Kernel) -> None:
        for value in kernel.inputs:
            self._readers.setdefault(value, set()).add(key)

    def replace(self, output: Value) -> None:
        """Eliminates the kernel of a value, if its parts can be stored there directly."""
        (kernel,) = self._kernels[output]
        concat = _match_concatenation(kernel)
        if concat is None or not output.count:
            return
        size = output.type.size_bytes
        if any(concat.run(part) * size < _MIN_RUN_BYTES for part in concat.slices):
            return
        values = [part.value for part in concat.slices]
        # Kernels of the parts that are not whole values. They may read values that are other parts.
        computed = {
            part: _part_kernel(kernel, part)
            for part, value in zip(concat.slices, values, strict=True)
            if value is None
        }
        read = {value for each in computed.values() for value in each.inputs}
        stored = {
            part: value
            for part, value in zip(concat.slices, values, strict=True)
            if value is not None
            and values.count(value) == 1
            and self._can_store(kernel, concat, part, value, is_read=value in read)
        }
        elements = sum(math.prod(part.shape) for part in stored)
        if elements < _MIN_IN_PLACE_FRACTION * output.count and not _has_many_parts(concat, size):
            return
        if len(stored) < len(concat.slices) and output.size_bytes < _MIN_COPIED_RESULT_BYTES:
            return
        others: list[Kernel] = []
        for part in concat.slices:
            start = part.begin * concat.inner_length
            if part in stored:
                value = stored[part]
                (writer,) = self._kernels[value]
                self._kernels[value] = (_stored_in_place(writer, concat, part),)
                self._alias(value, output, start)
            else:
                other = computed.get(part) or _part_kernel(kernel, part)
                others.append(_stored_in_place(other, concat, part))
                self._alias(other.output, output, start)
        self._kernels[output] = tuple(others)
        for each in others:
            self._read(output, each)
        for part, value in stored.items():
            self._read_from_result(kernel, concat, part, value)
        if not others:
            # The operations of the kernel are attributed to the last kernel that writes its result.
            last = stored[concat.slices[-1]]
            (writer,) = self._kernels[last]
            operations = tuple(sorted({*writer.operations, *kernel.operations}))
            self._kernels[last] = (replace(writer, operations=operations),)

    def _alias(self, part: Value, whole: Value, start: int) -> None:
        """Makes a value an alias of another one, or of the owner of that one."""
        self._aliases[part] = self._aliases.get(whole, whole)
        self._starts[part] = self._starts.get(whole, 0) + start

    def _can_store(
        self, kernel: Kernel, concat: _Concatenation, part: _ConcatSlice, value: Value, *, is_read: bool
    ) -> bool:
        """Returns True if the kernel of a value can store it in place of a part.

        Other kernels can read it there, unless they have contractions, whose operands are
        contiguous. `is_read` tells whether other parts of the concatenation do.
        """
        writers = self._kernels.get(value, ())
        if len(writers) != 1 or value in self._graph.outputs:
            return False
        others = [each for key in self._readers[value] - {kernel.output} for each in self._kernels[key]]
        if others or is_read:
            is_wide = concat.run(part) * value.type.size_bytes >= _MIN_SHARED_RUN_BYTES
            is_output = kernel.output in self._graph.outputs
            if is_output or not is_wide or any(each.contraction is not None for each in others):
                return False
        if value in self._aliases or value in self._aliases.values():
            return False
        return writers[0].output_offset is None and self._stores_runs(
            _stored_in_place(writers[0], concat, part)
        )

    def _read_from_result(
        self, kernel: Kernel, concat: _Concatenation, part: _ConcatSlice, value: Value
    ) -> None:
        """Lets all readers of a value load it from the result of the concatenation."""
        whole = kernel.output

        def replacement(expression: Expression) -> Expression | None:
            if not isinstance(expression, Load) or expression.value is not value:
                return None
            position = list(expression.index)
            position[concat.dimension] = position[concat.dimension] + part.begin
            index = tuple(position)
            if whole.shape != kernel.shape:
                index = delinearize(linearize(index, kernel.shape), whole.shape)
            return load(whole, index, expression.guard, expression.otherwise)

        for key in self._readers.pop(value):
            self._kernels[key] = tuple(
                rewrite_kernel(each, replacement, each.axes) if value in each.inputs else each
                for each in self._kernels[key]
            )
            self._readers.setdefault(whole, set()).add(key)

    def result(self) -> FusedGraph:
        """Returns the resulting graph."""
        kernels = tuple(kernel for each in self._kernels.values() for kernel in each)
        return replace(self._graph, kernels=kernels, aliases=self._aliases, starts=self._starts)


def _has_many_parts(concat: _Concatenation, size: int) -> bool:
    """Returns True if kernels for the parts are faster than one that selects among them.

    Args:
        concat: the parts.
        size: bytes of an element.
    """
    is_wide = min(map(concat.run, concat.slices)) * size >= _MIN_SHARED_RUN_BYTES
    return len(concat.slices) > (_MANY_WIDE_PARTS if is_wide else _MANY_PARTS)


def _part_kernel(kernel: Kernel, part: _ConcatSlice) -> Kernel:
    """Returns a kernel that computes one part of what a kernel concatenates."""
    value = part.value
    return Kernel(
        output=Value(part.shape, kernel.output.type, name="" if value is None else value.name),
        axes=part.axes,
        body=part.body,
        operations=kernel.operations,
    )


def _stored_in_place(kernel: Kernel, concat: _Concatenation, part: _ConcatSlice) -> Kernel:
    """Returns the kernel with its elements stored as runs in the result."""
    run, offset = concat.run(part), linearize(kernel.axes, kernel.shape)
    return replace(kernel, output_offset=offset // run * concat.row_length + offset % run)


def _match_concatenation(kernel: Kernel) -> _Concatenation | None:
    """Returns the concatenation along one dimension that a kernel is, or None."""
    if kernel.contraction is not None or kernel.requirements or kernel.output_offset is not None:
        return None
    if kernel.has_reduction or kernel.limit is not None:
        return None
    cuts: dict[Axis, set[int]] = {}
    for condition in _conditions(kernel.body):
        found = index_range(condition)
        if found is None or found[0] not in kernel.axes:
            return None
        along, first, last = found
        if has_extents((along.extent, first, last)):
            return None
        cuts.setdefault(along, set()).update(each for each in (first, last + 1) if 0 < each < along.extent)
    if len(cuts) != 1:
        return None
    ((along, points),) = cuts.items()
    if not 0 < len(points) < _MAX_PARTS:
        return None
    dimension, slices = kernel.axes.index(along), []
    for begin, end in itertools.pairwise((0, *sorted(points), along.extent)):
        part = axis(end - begin, along.name)
        axes = tuple(part if each is along else each for each in kernel.axes)
        slices.append(_ConcatSlice(begin, axes, substitute(kernel.body, {along: part + begin})))
    inner_length = math.prod(kernel.shape[dimension + 1 :])
    return _Concatenation(dimension, tuple(slices), along.extent * inner_length, inner_length)


def _conditions(body: Expression) -> Iterator[Expression]:
    """Yields the conditions that select among the parts of a concatenation."""
    pending, seen = [body], {body}
    while pending:
        each = pending.pop()
        parts: tuple[Expression, ...] = ()
        if isinstance(each, Load) and each.guard is not None and each.otherwise is not None:
            yield from conjuncts(each.guard)
            parts = (each.otherwise,)
        elif isinstance(each, Apply) and each.op is Op.SELECT:
            yield from conjuncts(each.arguments[0])
            parts = each.arguments[1:]
        pending.extend(part for part in parts if part not in seen)
        seen.update(parts)
