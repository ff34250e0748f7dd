"""Merges two matrix products and the rows between them into one attention kernel.

After fusion, an attention is a product of queries and keys, whose epilogue may scale and mask the
scores; a kernel that computes weights from each row of scores, such as a softmax; and a product of
weights and values. If keys and values are not constant, and nothing else reads the scores and the
weights, one kernel computes all of it and stores neither. It does not matter how the rows are
written: every expression is kept.

Kernels that only move elements of queries, keys and values are not needed any more, since their
elements are read where they come from; nor are those that only move elements of the result.
"""

import math
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Apply, Axis, Expression, Load, Reduce, axis, index, load
from neurald.drivers.compiler.ir.extents.extent import same_length
from neurald.drivers.compiler.ir.graph import Attention, MatrixProduct, delinearize, linearize, strides
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, rewrite, substitute, walk
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.passes.axis_rewriting import simplify_axes
from neurald.hal.records import replace

#: Types of operands and results. Sums are FLOAT32.
_FLOATS = (Scalar.FLOAT32, Scalar.FLOAT16)


def merge_attention(graph: FusedGraph, fits: Callable[[Kernel], bool]) -> FusedGraph:
    """Returns the graph with attention kernels.

    Args:
        graph: the graph, which is not changed.
        fits: returns True if there is a routine for an attention kernel.
    """
    merging = _Merging(graph, fits)
    for kernel in graph.kernels:
        merging.try_product(kernel)
    return merging.result()


class _Merging:
    def __init__(self, graph: FusedGraph, fits: Callable[[Kernel], bool]) -> None:
        self._graph, self._fits = graph, fits
        #: Kernels by their outputs, in order. A merged kernel has the place of its last product.
        self._kernels: dict[Value, Kernel] = {each.output: each for each in graph.kernels}
        self._readers: dict[Value, set[Value]] = {}
        for kernel in graph.kernels:
            self._add_reader(kernel)
        #: Memory that several kernels write, each a part.
        self._shared = {owner for part, owner in graph.aliases.items() if part in self._kernels}

    def owner(self, value: Value) -> Value:
        """Returns the value in whose memory a value lies."""
        return self._graph.aliases.get(value, value)

    def _add_reader(self, kernel: Kernel) -> None:
        for value in kernel.inputs:
            self._readers.setdefault(self.owner(value), set()).add(kernel.output)

    def _replace(self, kernel: Kernel, output: Value) -> None:
        """Replaces the kernel of an output, and drops kernels whose results are no longer read."""
        old = self._kernels[output]
        self._kernels[output] = kernel
        self._add_reader(kernel)
        pending = [(old, set(old.inputs) - set(kernel.inputs))]
        while pending:
            reader, values = pending.pop()
            for owner in {self.owner(value) for value in values}:
                self._readers[owner].discard(reader.output)
                unread = self._kernels.get(owner)
                if unread is not None and not self._readers[owner] and owner not in self._graph.outputs:
                    del self._kernels[owner]
                    pending.append((unread, set(unread.inputs)))

    def result(self) -> FusedGraph:
        """Returns the resulting graph."""
        return replace(self._graph, kernels=tuple(self._kernels.values()))

    def try_product(self, second: Kernel) -> None:
        """Merges a product of weights and values with the kernels before it, if possible."""
        if self._kernels.get(second.output) is not second:
            return
        merged = self._merged(second)
        if merged is None or not self._fits(merged):
            return
        self._replace(merged, second.output)
        self._try_moved(merged)

    def _merged(self, second: Kernel) -> Kernel | None:
        """Returns the attention kernel that ends with a product, or None if there is none."""
        product = _float_product(second)
        if product is None or product.left_transposed:
            return None
        rows = self._producer_for(product.left, second)
        if rows is None or rows.contraction is not None or not rows.has_reduction:
            return None
        for value in rows.inputs:
            first = self._producer_for(value, rows)
            if first is not None and _float_product(first) is not None:
                return _Parts(self, first, rows, second).merged()
        return None

    def _producer_for(self, value: Value, reader: Kernel) -> Kernel | None:
        """Returns the kernel of a whole value that only one kernel reads, in one way."""
        owner = self.owner(value)
        kernel = self._kernels.get(owner)
        if kernel is None or self._readers[owner] != {reader.output} or owner in self._graph.outputs:
            return None
        is_whole = value.count == owner.count and owner not in self._shared
        is_plain = not kernel.requirements and kernel.output_offset is None
        return kernel if is_whole and is_plain and kernel.output.type in _FLOATS else None

    def followed(self, loaded: Load, is_readable: Callable[[Load], bool]) -> Load | None:
        """Returns the load from where the elements come from, through kernels that move them.

        Args:
            loaded: a load without a guard.
            is_readable: returns True if the kernel can read such elements.
        """
        best = loaded if is_readable(loaded) else None
        while (moved := self._moved(loaded)) is not None:
            loaded = moved
            best = loaded if is_readable(loaded) else best
        return best

    def _moved(self, loaded: Load) -> Load | None:
        """Returns the load of which a loaded element is a copy, if a kernel copies it."""
        owner = self.owner(loaded.value)
        kernel = self._kernels.get(owner)
        if kernel is None or not _only_moves(kernel) or owner in self._shared:
            return None
        offset = offset_of(loaded) + self._graph.starts.get(loaded.value, 0)
        where: dict[Expression, Expression] = dict(
            zip(kernel.axes, delinearize(offset, kernel.shape), strict=True)
        )
        body = substitute(kernel.body, where)
        return body if isinstance(body, Load) else None

    def _try_moved(self, kernel: Kernel) -> None:
        """Lets an attention kernel store its result where its only reader would move it."""
        owner = self.owner(kernel.output)
        readers = self._readers.get(owner, set())
        if kernel.output_offset is not None or len(readers) != 1 or owner in self._graph.outputs:
            return
        reader = self._kernels[next(iter(readers))]
        is_part = owner is not kernel.output or owner in self._shared or reader.output in self._graph.aliases
        if is_part or not _moves_and_rounds(reader) or reader.output.count != kernel.output.count:
            return
        offset = _stored_at(reader, linearize(kernel.axes, kernel.shape))
        if offset is None or stride_along(offset, kernel.axes[-1]) != 1:
            return
        operations = tuple(sorted({*kernel.operations, *reader.operations}))
        stored = replace(
            kernel,
            output=reader.output,
            body=kernel.body.to(reader.output.type),
            output_offset=offset,
            operations=operations,
        )
        del self._kernels[kernel.output]
        self._readers.pop(owner)
        for value in kernel.inputs:
            self._readers[self.owner(value)].discard(kernel.output)
        self._kernels[reader.output] = stored
        self._add_reader(stored)


class _Place(Struct, frozen=True):
    """A row of scores: `row` of `batch`, both of constant extents."""

    batch: Axis
    row: Axis

    def among(self, shape: Shape) -> tuple[Expression, ...]:
        """Returns the index of the row among all rows, whose number is that of the shape."""
        *outer, last = shape
        if same_length(last, self.row.extent):
            return (*delinearize(self.batch, tuple(outer)), self.row)
        return delinearize(self.batch * self.row.extent + self.row, shape)


class _Parts:
    """The kernels of an attention, rewritten to common axes.

    Args:
        merging: the graph.
        first: the product of queries and keys.
        rows: computes weights from its result.
        second: the product of weights and values.
    """

    def __init__(self, merging: _Merging, first: Kernel, rows: Kernel, second: Kernel) -> None:
        self._merging, self._first, self._rows, self._second = merging, first, rows, second

    def merged(self) -> Kernel | None:
        """Returns the attention kernel, or None if the kernels do not fit together."""
        first, second = _float_product(self._first), _float_product(self._second)
        assert first is not None  # noqa: S101 - the caller has checked
        assert second is not None  # noqa: S101 - the caller has checked
        length, features = second.left.shape[-1], second.output.shape[-1]
        count = math.prod(second.left.shape[:-1])
        heights = first.output.shape[-2], second.output.shape[-2]
        height = heights[0] if same_length(*heights) else min(heights)
        is_same = all(same_length(each, length) for each in (first.output.shape[-1], self._rows.shape[-1]))
        sizes = first.output.count, self._rows.output.count, math.prod(self._rows.shape)
        if not is_same or not all(same_length(each, count * length) for each in sizes):
            return None
        if not count * length * features * first.depth or any(each % height for each in heights):
            return None
        extents = count // height, height, length, first.depth, features
        b, m, n, k, d = axes = tuple(axis(each, name) for each, name in zip(extents, "bmnkd", strict=True))
        place = _Place(b, m)
        scores = Value((count // height, height, length), self._first.output.type, name="scores")
        weights = self._weights(place, n, scores)
        operands = self._operands(first, second, place, axes)
        if weights is None or operands is None:
            return None
        query, key, value = operands
        at = place.among(first.output.shape[:-1])
        where: dict[Expression, Expression] = dict(zip(self._first.axes, (*at, n), strict=True))
        score = substitute(self._first.body, where)
        if free_axes(score) - {b, m, n}:
            return None
        at = place.among(second.output.shape[:-1])
        where = dict(zip(self._second.axes, (*at, d), strict=True))
        offset = self._second.output_offset
        attention = Attention(
            output=Value((count // height, height, features), Scalar.FLOAT32, name=second.output.name),
            axes=(b, m, n, k, d),
            query=query,
            key=key,
            value=value,
            score=score,
            scores=scores,
            weights=weights,
        )
        return replace(
            self._second,
            axes=(b, m, d),
            body=substitute(self._second.body, where),
            contraction=attention,
            operations=tuple(
                sorted({*self._first.operations, *self._rows.operations, *self._second.operations})
            ),
            output_offset=None if offset is None else substitute(offset, where),
        )

    def _weights(self, place: "_Place", column: Axis, scores: Value) -> Expression | None:
        """Returns a weight, or None if it depends on scores of other rows."""
        rows, source = self._rows, self._first.output
        where: dict[Expression, Expression] = dict(
            zip(rows.axes, (*place.among(rows.shape[:-1]), column), strict=True)
        )
        # Offsets of rows are compared in the order of the indices that they are computed from.
        start = linearize(place.among(source.shape[:-1]), source.shape[:-1]) * source.shape[-1]
        wrong = []

        def replacement(expression: Expression) -> Expression | None:
            if not isinstance(expression, Load) or self._merging.owner(expression.value) is not source:
                return where.get(expression)
            along = offset_of(expression) - start
            if (
                expression.guard is not None
                or not isinstance(along, Axis)
                or along.extent != scores.shape[-1]
            ):
                wrong.append(expression)
            return load(scores, (place.batch, place.row, along))

        weights = rewrite(rows.body, replacement, {})
        return None if wrong else weights

    def _operands(
        self, first: MatrixProduct, second: MatrixProduct, place: "_Place", axes: tuple[Axis, ...]
    ) -> tuple[Load, Load, Load] | None:
        b, m, n, k, d = axes
        *batches, row = place.among(first.output.shape[:-1])
        query = _element(first.left, batches, (k, row) if first.left_transposed else (row, k))
        key = _element(first.right, batches, (k, n) if first.right_transposed else (n, k))
        batches = list(place.among(second.output.shape[:-1]))[:-1]
        value = _element(second.right, batches, (n, d) if second.right_transposed else (d, n))
        found = [
            self._merging.followed(each, _is_read_along(b, along))
            for each, along in ((query, (m, k)), (key, (n, k)), (value, (n, d)))
        ]
        query_, key_, value_ = found
        if query_ is None or key_ is None or value_ is None:
            return None
        # Products with constants are faster on their own, since those are packed only once.
        is_constant = any(each.value.constant is not None for each in (key_, value_))
        return None if is_constant else (query_, key_, value_)


def _float_product(kernel: Kernel) -> MatrixProduct | None:
    """Returns the product of float matrices that a kernel contains."""
    node = kernel.contraction
    if not isinstance(node, MatrixProduct) or kernel.requirements:
        return None
    kinds = {node.left.type, node.right.type, kernel.output.type}
    return node if node.output.type is Scalar.FLOAT32 and kinds <= set(_FLOATS) else None


def _only_moves(kernel: Kernel) -> bool:
    """Returns True if each element of a kernel is a copy of one element."""
    return _moves_and_rounds(kernel) and isinstance(kernel.body, Load)


def _moves_and_rounds(kernel: Kernel) -> bool:
    """Returns True if each element of a kernel is one element, perhaps rounded to FLOAT16."""
    body = _unrounded(kernel.body)
    is_plain = kernel.contraction is None and not kernel.requirements and kernel.output_offset is None
    return is_plain and isinstance(body, Load) and body.guard is None and body.type in _FLOATS


def _unrounded(body: Expression) -> Expression:
    """Returns the FLOAT32 that an expression rounds to FLOAT16, or the expression itself."""
    is_rounded = isinstance(body, Apply) and body.op is Op.CONVERT and body.type is Scalar.FLOAT16
    return body.operands[0] if is_rounded and body.operands[0].type is Scalar.FLOAT32 else body


def _element(value: Value, batches: Iterable[Expression], inner: tuple[Expression, Expression]) -> Load:
    """Returns the load of a matrix element; dimensions before the last two broadcast."""
    outer = list(batches)
    outer = outer[len(outer) - (len(value.shape) - 2) :]
    places = [index(0) if length == 1 else at for at, length in zip(outer, value.shape, strict=False)]
    loaded = load(value, (*places, *inner))
    assert isinstance(loaded, Load)  # noqa: S101 - it has no guard
    return loaded


def _is_read_along(batch: Axis, along: tuple[Axis, Axis]) -> Callable[[Load], bool]:
    """Returns a check that a load has constant strides along two axes."""

    def is_readable(loaded: Load) -> bool:
        offset = offset_of(loaded)
        is_regular = all(stride_along(offset, each) is not None for each in along)
        return loaded.guard is None and is_regular and free_axes(offset) <= {batch, *along}

    return is_readable


def _stored_at(reader: Kernel, offset: Expression) -> Expression | None:
    """Returns where a kernel that moves all elements puts the element at an offset of its input.

    Returns None if it does not merely permute them.
    """
    kernel = simplify_axes(reader)
    moved = _unrounded(kernel.body)
    if not isinstance(moved, Load) or any(isinstance(each, Reduce) for each in walk(moved)):
        return None
    source = offset_of(moved)
    found: Mapping[Axis, int | None] = {each: stride_along(source, each) for each in kernel.axes}
    expected, shape = 1, kernel.shape
    own = dict(zip(kernel.axes, strides(shape), strict=True))
    stored = index(0) + 0
    for each in sorted(kernel.axes, key=lambda along: (found[along] or 0, along.extent)):
        if found[each] != expected:
            return None
        stored = stored + (offset // expected) % each.extent * own[each]
        expected *= each.extent
    is_whole = expected == moved.value.count and source.low == 0
    return stored if is_whole else None
