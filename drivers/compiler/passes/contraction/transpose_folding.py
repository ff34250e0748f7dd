"""Folds transpositions into matrix products, which then read the operand by columns."""

from neurald.drivers.compiler.ir.expression import Load
from neurald.drivers.compiler.ir.extents.extent import same_shape
from neurald.drivers.compiler.ir.graph import Compute, Graph, MatrixProduct, Node
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.records import replace


def fold_transpositions(graph: Graph) -> bool:
    """Folds transpositions into the products that read their results.

    Other readers are not affected. Returns True if there were any.
    """
    producers = graph.producers()
    is_changed = False
    for position, node in enumerate(graph.nodes):
        if not isinstance(node, MatrixProduct):
            continue
        left, right = _transposed(producers.get(node.left)), _transposed(producers.get(node.right))
        operations = {*node.operations}
        if left is not None:
            operations.update(producers[node.left].operations)
            node = replace(node, left=left, left_transposed=not node.left_transposed)
        if right is not None:
            operations.update(producers[node.right].operations)
            node = replace(node, right=right, right_transposed=not node.right_transposed)
        if left is not None or right is not None:
            graph.nodes[position] = replace(node, operations=tuple(sorted(operations)))
            is_changed = True
    return is_changed


def _transposed(node: Node | None) -> Value | None:
    """Returns the input of a node that only swaps its last two dimensions, else None."""
    if not isinstance(node, Compute) or len(node.axes) < 2 or node.requirements:
        return None
    body, (*batches, row, column) = node.body, node.axes
    if not isinstance(body, Load) or body.guard is not None:
        return None
    expected = (*batches, column, row)
    if not same_shape(tuple(axis.extent for axis in expected), body.value.shape):
        return None
    is_swapped = all(
        (index - axis).high == 0 == (index - axis).low
        for index, axis in zip(body.index, expected, strict=True)
    )
    return body.value if is_swapped else None
