"""Expands top-k into expressions, for compilers without kernels for it.

Top-1 compares each element with the maximum of its row. Otherwise the rank of each element is
counted, which is the number of elements that precede it.
"""

from collections.abc import Iterator, Sequence

from neurald.drivers.compiler.ir.expression import Expression, apply, axis, constant, load, reduce, select
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node, TopK
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value

#: Number of comparisons between the elements of all rows. Devices that sort are faster beyond it.
_MAX_COMPARISONS = 1 << 20


def expand_top_k(graph: Graph) -> None:
    """Expands every top-k of a graph."""
    graph.nodes = [
        each for node in graph.nodes for each in (_expanded(node) if isinstance(node, TopK) else (node,))
    ]


def top_k_unsupported_reason(graph: Graph) -> str:
    """Returns the reason why a top-k is too large to expand, or "" if all can be expanded."""
    for node in graph.nodes:
        if not isinstance(node, TopK) or node.output.shape[-1] == 1:
            continue
        count, length = node.input.count, node.input.shape[-1]
        if count * length > _MAX_COMPARISONS:
            return (
                f"top-k of {count} elements in rows of {length} is too large to expand: "
                f"it needs {count * length} comparisons; at most {_MAX_COMPARISONS} are allowed"
            )
    return ""


def ordered(value: Expression) -> Expression:
    """Converts an element to a type with an order: BOOL becomes UINT8."""
    return value.to(Scalar.UINT8) if value.type is Scalar.BOOL else value


def is_nan(value: Expression) -> Expression:
    """Returns a BOOL that is true for NaN."""
    return apply(Op.IS_NAN, value) if value.type.is_float else constant(False, Scalar.BOOL)


def is_extreme(value: Expression, extreme: Expression) -> Expression:
    """Returns a BOOL that is true if an element is the extreme, which is NaN if any element is."""
    return value.equals(extreme) | is_nan(value)


def _expanded(node: TopK) -> Iterator[Node]:
    """Returns the nodes that replace a top-k."""
    return _top_1(node) if node.output.shape[-1] == 1 else _top_k(node)


def _top_1(node: TopK) -> Iterator[Node]:
    """Finds the maximum of each row, then its index."""
    rows, length = node.input.shape[:-1], node.input.shape[-1]
    outer = tuple(axis(each, f"i{dimension}") for dimension, each in enumerate(rows))
    index = axis(length, "r")
    body = reduce(ReductionOp.MAXIMUM, (index,), ordered(load(node.input, (*outer, index))))
    largest = Value(rows, body.type)
    yield Compute(output=largest, axes=outer, body=body, operations=node.operations)
    outer = tuple(axis(each, f"i{dimension}") for dimension, each in enumerate(rows))
    is_found = is_extreme(ordered(load(node.input, (*outer, index))), load(largest, outer))
    combiner, initial = (
        (ReductionOp.MINIMUM, length - 1) if node.prefers_lower_index else (ReductionOp.MAXIMUM, 0)
    )
    yield Compute(
        output=node.output,
        axes=(*outer, axis(1, f"i{len(rows)}")),
        body=reduce(combiner, (index,), select(is_found, index.to(Scalar.INT32), initial)),
        operations=node.operations,
    )


def _top_k(node: TopK) -> Iterator[Node]:
    """Computes the rank of every element, then the index of the element with each rank."""
    rows, length = node.input.shape[:-1], node.input.shape[-1]
    ranks = Value(node.input.shape, Scalar.INT32)
    outer = [axis(each, f"i{dimension}") for dimension, each in enumerate(rows)]
    own, other = axis(length, f"i{len(rows)}"), axis(length, "r")
    precedes = select(_precedes(node, outer, other, own), constant(1, Scalar.INT32), 0)
    yield Compute(
        output=ranks,
        axes=(*outer, own),
        body=reduce(ReductionOp.SUM, (other,), precedes),
        operations=node.operations,
    )
    rank, index = axis(node.output.shape[-1], f"i{len(rows)}"), axis(length, "r")
    is_found = load(ranks, (*outer, index)).equals(rank.to(Scalar.INT32))
    yield Compute(
        output=node.output,
        axes=(*outer, rank),
        body=reduce(ReductionOp.SUM, (index,), select(is_found, index.to(Scalar.INT32), 0)),
        operations=node.operations,
    )


def _precedes(node: TopK, row: Sequence[Expression], first: Expression, second: Expression) -> Expression:
    """Returns a BOOL that is true if one element of a row precedes another."""
    first_element, second_element = (ordered(load(node.input, (*row, index))) for index in (first, second))
    is_preferred = first < second if node.prefers_lower_index else first > second
    return _is_less(second_element, first_element) | (_is_equal(second_element, first_element) & is_preferred)


def _is_less(first: Expression, second: Expression) -> Expression:
    """Returns a BOOL that is true if the first is smaller, where NaN is the largest number."""
    return (first < second) | (is_nan(second) & ~is_nan(first))


def _is_equal(first: Expression, second: Expression) -> Expression:
    return first.equals(second) | (is_nan(first) & is_nan(second))
