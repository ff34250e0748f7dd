"""Merges products of one matrix with several constants of the same shape into one batched product.

The projections to queries, keys and values of an attention are the usual case. Their weights are
stacked, and so are their results, each of which becomes a part of one value: readers are not
affected. The epilogue of a batch is selected by its index.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from neurald.drivers.compiler.ir.expression import AccumulatorRef, Apply, Expression, Load, axis, load, select
from neurald.drivers.compiler.ir.graph import MatrixProduct
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.records import replace

#: Limit on the products of a batch, and thus on the length of its epilogue.
_MAX_PRODUCTS = 8


def stack_products(graph: FusedGraph, *, alignment: int) -> FusedGraph:
    """Returns the graph with products of the same left matrix merged.

    Args:
        graph: the graph, which is not changed.
        alignment: the alignment of the parts of a value that others read, in bytes.
    """
    groups: dict[object, list[Kernel]] = {}
    for kernel in graph.kernels:
        key = None if kernel.output.size_bytes % alignment else _key(kernel, graph)
        if key is not None:
            groups.setdefault(key, []).append(kernel)
    merged: dict[Kernel, Kernel] = {}
    dropped: set[Kernel] = set()
    aliases, starts = dict(graph.aliases), dict(graph.starts)
    for kernels in groups.values():
        for part in _parts(kernels):
            first, *others = part
            stacked = _stacked(part)
            merged[first] = stacked
            dropped.update(others)
            moved = {kernel.output: number * first.output.count for number, kernel in enumerate(part)}
            # Reshapes of a result become parts of the whole, too.
            for value, owner in graph.aliases.items():
                if owner in moved:
                    aliases[value] = stacked.output
                    starts[value] = moved[owner] + graph.starts.get(value, 0)
            for value, start in moved.items():
                aliases[value], starts[value] = stacked.output, start
    if not merged:
        return graph
    kept = tuple(merged.get(each, each) for each in graph.kernels if each not in dropped)
    return replace(graph, kernels=kept, aliases=aliases, starts=starts)


def _key(kernel: Kernel, graph: FusedGraph) -> object:
    """Returns what kernels must have in common to be merged; None for other kernels."""
    node = kernel.contraction
    if not isinstance(node, MatrixProduct) or node.right.constant is None or len(node.output.shape) != 2:
        return None
    if kernel.requirements or kernel.output_offset is not None or kernel.limit is not None:
        return None
    is_part = kernel.output in graph.aliases or kernel.output in graph.outputs
    loaded = [each.value for each in walk(kernel.body) if isinstance(each, Load)]
    # The first product's place is before those of others, where nothing but constants is known.
    if is_part or any(value.constant is None for value in loaded):
        return None
    return (
        node.left,
        node.right.shape,
        node.right.type,
        node.output.shape,
        node.output.type,
        kernel.output.type,
        kernel.output.count,
        node.left_transposed,
        node.right_transposed,
        node.left_zero,
        node.right_zero,
    )


def _parts(kernels: Sequence[Kernel]) -> Iterator[Sequence[Kernel]]:
    """Divides kernels into those that are merged."""
    for first in range(0, len(kernels), _MAX_PRODUCTS):
        part = kernels[first : first + _MAX_PRODUCTS]
        if len(part) > 1:
            yield part


def _stacked(kernels: Sequence[Kernel]) -> Kernel:
    """Returns the kernel of a batched product."""
    products = [each.contraction for each in kernels]
    first = products[0]
    assert isinstance(first, MatrixProduct)  # noqa: S101 - see `_key`
    rights = [each.right.constant for each in products if isinstance(each, MatrixProduct)]
    weights = np.stack([each for each in rights if each is not None])
    rows, columns = first.output.shape
    count = len(kernels)
    shape = (count, rows, columns)
    batch, row, column = axes = axis(count, "b"), axis(rows, "m"), axis(columns, "n")
    operations = _sorted(each.operations for each in kernels)
    kernels = _with_one_bias(kernels, batch)
    product = replace(
        first,
        output=Value(shape, first.output.type, name=first.output.name),
        right=Value(weights.shape, first.right.type, weights, first.right.name),
        operations=operations,
    )
    return replace(
        kernels[0],
        output=Value(shape, kernels[0].output.type, name=kernels[0].output.name),
        axes=axes,
        body=_selected(batch, [_at(kernel, row, column) for kernel in kernels]),
        contraction=product,
        operations=operations,
    )


def _with_one_bias(kernels: Sequence[Kernel], batch: Expression) -> Sequence[Kernel]:
    """Returns kernels that add a row of one matrix of biases, if each adds a bias to its sum.

    So a batch has one load of a bias instead of one for each product.
    """
    biases = [_bias(kernel) for kernel in kernels]
    known = [each for each in biases if each is not None]
    arrays = [bias.value.constant for _, bias in known]
    found = [each for each in arrays if each is not None]
    if len(found) < len(kernels) or len({each.dtype for each in found}) > 1:
        return kernels
    matrix = np.stack(found)
    value = Value(matrix.shape, known[0][1].type, matrix, known[0][1].value.name)
    return [
        replace(kernel, body=substitute(kernel.body, {bias: load(value, (batch, bias.index[0]))}))
        for kernel, (_, bias) in zip(kernels, known, strict=True)
    ]


def _bias(kernel: Kernel) -> tuple[Expression, Load] | None:
    """Returns the sum of a product with its bias, and the bias's load; None if there is none."""
    for each in walk(kernel.body):
        if isinstance(each, Apply) and each.op is Op.ADD:
            sums, others = (
                [part for part in each.operands if isinstance(part, AccumulatorRef) is wanted]
                for wanted in (True, False)
            )
            bias = others[0] if len(sums) == 1 else None
            if isinstance(bias, Apply) and bias.op is Op.CONVERT:
                bias = bias.operands[0]
            if isinstance(bias, Load) and bias.index == kernel.axes[-1:] and bias.guard is None:
                return each, bias
    return None


def _selected(batch: Expression, bodies: Sequence[Expression]) -> Expression:
    """Returns the body of a batch, which is rounded after the selection."""
    kind = bodies[0].type
    if all(isinstance(each, Apply) and each.op is Op.CONVERT for each in bodies):
        inner = [each.operands[0] for each in bodies]
        if len({each.type for each in inner}) == 1:
            bodies = inner
    *others, body = bodies
    for number, each in reversed(list(enumerate(others))):
        body = select(batch.equals(number), each, body)
    return body.to(kind)


def _at(kernel: Kernel, row: Expression, column: Expression) -> Expression:
    """Returns an element of a kernel; it refers to its sum of products."""
    where: dict[Expression, Expression] = dict(zip(kernel.axes, (row, column), strict=True))
    return substitute(kernel.body, where)


def _sorted(operations: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted({each for one in operations for each in one}))
