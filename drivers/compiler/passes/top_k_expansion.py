"""Expansion of top-k into expressions, for compilers without kernels for it.

The rank of an element is the number of elements before it. For top-1, each element is compared with
the maximum.
"""

from collections.abc import Iterator, Sequence

from neurald.drivers.compiler.ir.expression import Expression, apply, axis, constant, load, reduce, select
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node, TopK
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value

#: Limit on comparisons between all elements of all rows. Beyond it, devices with a sort are better.
_MAX_COMPARISONS = 1 << 20


def expand_top_k(graph: Graph) -> None:
    """Expands every top-k of a graph."""
    graph.nodes = [
        each for node in graph.nodes for each in (_expanded(node) if isinstance(node, TopK) else (node,))
    ]


def top_k_unsupported_reason(graph: Graph) -> str:
    """Returns why a top-k is too large to expand; empty if all can be expanded."""
    for node in graph.nodes:
        if not isinstance(node, TopK) or node.output.shape[-1] == 1:
            continue
        if node.input.count * node.input.shape[-1] > _MAX_COMPARISONS:
            length = node.input.shape[-1]
            return f"top-k of {node.input.count} elements in rows of {length} is too large to expand"
    return ""


def ordered(value: Expression) -> Expression:
    """Converts an element to a type that can be compared."""
    return value.to(Scalar.UINT8) if value.type is Scalar.BOOL else value


def is_nan(value: Expression) -> Expression:
    """Returns a BOOL that is true for NaN."""
    return apply(Op.IS_NAN, value) if value.type.is_float else constant(False, Scalar.BOOL)


def is_extreme(value: Expression, extreme: Expression) -> Expression:
    """Returns a BOOL that is true if an element is the extreme, which is NaN if any element is."""
    return value.equals(extreme) | is_nan(value)


def _expanded(node: TopK) -> Iterator[Node]:
    """Returns the nodes that replace a top-k."""
    return _of_one(node) if node.output.shape[-1] == 1 else _of_some(node)


def _of_one(node: TopK) -> Iterator[Node]:
    """Finds the maximum of each row, then its index."""
    rows, length = node.input.shape[:-1], node.input.shape[-1]
    outer = tuple(axis(each, f"i{dimension}") for dimension, each in enumerate(rows))
    index = axis(length, "r")
    body = reduce(ReductionOp.MAXIMUM, (index,), ordered(load(node.input, (*outer, index))))
    largest = Value(rows, body.type)
    yield Compute(output=largest, axes=outer, body=body, operations=node.operations)
    outer = tuple(axis(each, f"i{dimension}") for dimension, each in enumerate(rows))
    is_it = is_extreme(ordered(load(node.input, (*outer, index))), load(largest, outer))
    how, none = (ReductionOp.MINIMUM, length - 1) if node.prefers_lower_index else (ReductionOp.MAXIMUM, 0)
    yield Compute(
        output=node.output,
        axes=(*outer, axis(1, f"i{len(rows)}")),
        body=reduce(how, (index,), select(is_it, index.to(Scalar.INT32), none)),
        operations=node.operations,
    )


def _of_some(node: TopK) -> Iterator[Node]:
    """Computes the rank of every element, then the index of the element with each rank."""
    rows, length = node.input.shape[:-1], node.input.shape[-1]
    ranks = Value(node.input.shape, Scalar.INT32)
    outer = [axis(each, f"i{dimension}") for dimension, each in enumerate(rows)]
    own, other = axis(length, f"i{len(rows)}"), axis(length, "r")
    comes = select(_comes_before(node, outer, other, own), constant(1, Scalar.INT32), 0)
    yield Compute(
        output=ranks,
        axes=(*outer, own),
        body=reduce(ReductionOp.SUM, (other,), comes),
        operations=node.operations,
    )
    rank, index = axis(node.output.shape[-1], f"i{len(rows)}"), axis(length, "r")
    is_it = load(ranks, (*outer, index)).equals(rank.to(Scalar.INT32))
    yield Compute(
        output=node.output,
        axes=(*outer, rank),
        body=reduce(ReductionOp.SUM, (index,), select(is_it, index.to(Scalar.INT32), 0)),
        operations=node.operations,
    )


def _comes_before(node: TopK, row: Sequence[Expression], first: Expression, second: Expression) -> Expression:
    """Returns a BOOL that is true if one element of a row precedes another."""
    theirs, own = (ordered(load(node.input, (*row, index))) for index in (first, second))
    is_earlier = first < second if node.prefers_lower_index else first > second
    return _is_less(own, theirs) | (_is_equal(own, theirs) & is_earlier)


def _is_less(first: Expression, second: Expression) -> Expression:
    """Compares with NaN larger than all numbers."""
    return (first < second) | (is_nan(second) & ~is_nan(first))


def _is_equal(first: Expression, second: Expression) -> Expression:
    return first.equals(second) | (is_nan(first) & is_nan(second))
