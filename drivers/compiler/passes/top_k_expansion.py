"""Rankings as expressions, for compilers that have no kernels for them: the rank of an element is how many come before it.

The largest element of a row alone is found by comparing each with the largest.
"""

from collections.abc import Iterator, Sequence

from neurald.drivers.compiler.ir.expression import Expression, apply, axis, constant, load, reduce, select
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node, Ranking
from neurald.drivers.compiler.ir.op import Fold, Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value

#: Comparisons of all elements of all rows with each other: more are left to who sorts.
_MOST_COMPARISONS = 1 << 20


def expand_rankings(graph: Graph) -> None:
    """Replaces all rankings of a graph."""
    graph.nodes = [
        each for node in graph.nodes for each in (_expanded(node) if isinstance(node, Ranking) else (node,))
    ]


def objection_to_ranking(graph: Graph) -> str:
    """Why rankings of a graph are not worth being expressions; empty: they are."""
    for node in graph.nodes:
        if not isinstance(node, Ranking) or node.output.shape[-1] == 1:
            continue
        if node.input.count * node.input.shape[-1] > _MOST_COMPARISONS:
            length = node.input.shape[-1]
            return f"the largest of {length} elements in {node.input.count} have no kernel"
    return ""


def ordered(value: Expression) -> Expression:
    """An element as a number that can be compared."""
    return value.to(Scalar.UINT8) if value.type is Scalar.BOOL else value


def is_nan(value: Expression) -> Expression:
    """Whether an element is not a number."""
    return apply(Op.IS_NAN, value) if value.type.is_float else constant(False, Scalar.BOOL)


def is_extreme(value: Expression, extreme: Expression) -> Expression:
    """Whether an element is the largest or smallest, which is not a number where some element is none."""
    return value.equals(extreme) | is_nan(value)


def _expanded(node: Ranking) -> Iterator[Node]:
    """The nodes for a ranking."""
    return _of_one(node) if node.output.shape[-1] == 1 else _of_some(node)


def _of_one(node: Ranking) -> Iterator[Node]:
    """The largest element of each row, and where it is."""
    rows, length = node.input.shape[:-1], node.input.shape[-1]
    outer = tuple(axis(each, f"i{dimension}") for dimension, each in enumerate(rows))
    place = axis(length, "r")
    body = reduce(Fold.MAXIMUM, (place,), ordered(load(node.input, (*outer, place))))
    largest = Value(rows, body.type)
    yield Compute(output=largest, axes=outer, body=body, operations=node.operations)
    outer = tuple(axis(each, f"i{dimension}") for dimension, each in enumerate(rows))
    is_it = is_extreme(ordered(load(node.input, (*outer, place))), load(largest, outer))
    how, none = (Fold.MINIMUM, length - 1) if node.is_first_first else (Fold.MAXIMUM, 0)
    yield Compute(
        output=node.output,
        axes=(*outer, axis(1, f"i{len(rows)}")),
        body=reduce(how, (place,), select(is_it, place.to(Scalar.INT32), none)),
        operations=node.operations,
    )


def _of_some(node: Ranking) -> Iterator[Node]:
    """The rank of every element, and where that of each place is."""
    rows, length = node.input.shape[:-1], node.input.shape[-1]
    ranks = Value(node.input.shape, Scalar.INT32)
    outer = [axis(each, f"i{dimension}") for dimension, each in enumerate(rows)]
    own, other = axis(length, f"i{len(rows)}"), axis(length, "r")
    comes = select(_comes_before(node, outer, other, own), constant(1, Scalar.INT32), 0)
    yield Compute(
        output=ranks,
        axes=(*outer, own),
        body=reduce(Fold.SUM, (other,), comes),
        operations=node.operations,
    )
    rank, place = axis(node.output.shape[-1], f"i{len(rows)}"), axis(length, "r")
    is_it = load(ranks, (*outer, place)).equals(rank.to(Scalar.INT32))
    yield Compute(
        output=node.output,
        axes=(*outer, rank),
        body=reduce(Fold.SUM, (place,), select(is_it, place.to(Scalar.INT32), 0)),
        operations=node.operations,
    )


def _comes_before(
    node: Ranking, row: Sequence[Expression], first: Expression, second: Expression
) -> Expression:
    """Whether an element of a row comes before another one."""
    theirs, own = (ordered(load(node.input, (*row, place))) for place in (first, second))
    is_earlier = first < second if node.is_first_first else first > second
    return _is_less(own, theirs) | (_is_equal(own, theirs) & is_earlier)


def _is_less(first: Expression, second: Expression) -> Expression:
    """What is not a number is larger than all numbers."""
    return (first < second) | (is_nan(second) & ~is_nan(first))


def _is_equal(first: Expression, second: Expression) -> Expression:
    return first.equals(second) | (is_nan(first) & is_nan(second))
