"""Expands scatters into expressions, for compilers without kernels for procedures.

Each element of the output looks at all destinations, and combines the updates that are scattered to
its row.
"""

from neurald.drivers.compiler.ir.algorithm import KeySearch, RunningSum, Scatter
from neurald.drivers.compiler.ir.expression import (
    Axis,
    Expression,
    axis,
    constant,
    load,
    maximum,
    minimum,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.graph import Compute, Graph, Procedure
from neurald.drivers.compiler.ir.op import ReductionOp, reduction_identity
from neurald.drivers.compiler.ir.scalar import Scalar

#: Limit on comparisons, which take about as long as a large convolution.
_MAX_COMPARISONS = 1 << 30

_OF_BOOLS = {
    ReductionOp.SUM: ReductionOp.ANY,
    ReductionOp.MAXIMUM: ReductionOp.ANY,
    ReductionOp.PRODUCT: ReductionOp.ALL,
    ReductionOp.MINIMUM: ReductionOp.ALL,
}


def expand_scatters(graph: Graph) -> None:
    """Expands every scatter of a graph, which contains no other procedure."""
    graph.nodes = [_expanded(node) if isinstance(node, Procedure) else node for node in graph.nodes]


def procedure_unsupported_reason(graph: Graph) -> str:
    """Returns the reason why a procedure cannot be expanded, or "" if all can be.

    `running_sum_expansion` expands running sums, `key_search_expansion` searches of keys.
    """
    for node in graph.nodes:
        if not isinstance(node, Procedure) or isinstance(node.algorithm, KeySearch):
            continue
        if isinstance(node.algorithm, RunningSum) and not node.algorithm.is_ordered:
            continue
        if not isinstance(node.algorithm, Scatter):
            return f"{type(node.algorithm).__name__.lower()} is computed step by step, for which there is no kernel"
        count, work = node.inputs[0].count, node.output.count
        if count * work > _MAX_COMPARISONS:
            return (
                f"scattering by {count} indices unknown before execution into {work} elements takes "
                "too many comparisons"
            )
    return ""


def _expanded(node: Procedure) -> Compute:
    destinations, updates, *base = node.inputs
    algorithm, kind = node.algorithm, node.output.type
    assert isinstance(algorithm, Scatter)  # noqa: S101 - see `procedure_unsupported_reason`
    row, column = axis(node.output.shape[0], "i0"), axis(node.output.shape[1], "i1")
    initial: Expression = load(base[0], (row, column)) if base else constant(algorithm.initial, kind)
    body = initial
    if destinations.count:
        number = axis(destinations.count, "n")
        # Destinations may have any value, also one that an index cannot have.
        found = load(destinations, (number,))
        wide = row.to(destinations.type)
        holds = found.equals(wide)
        if algorithm.reduction is None:
            last = reduce(
                ReductionOp.MAXIMUM,
                (number,),
                select(holds, number.to(Scalar.INT32), constant(-1, Scalar.INT32)),
            ).to(Scalar.INDEX)
            body = load(updates, (maximum(last, 0), column), last >= 0, initial)
        else:
            how = algorithm.reduction
            neutral = constant(reduction_identity(how, kind), kind)
            body = _combined(how, initial, load(updates, (number, column), holds, neutral), number)
    return Compute(output=node.output, axes=(row, column), body=body, operations=node.operations)


def _combined(how: ReductionOp, initial: Expression, update: Expression, number: Axis) -> Expression:
    """Combines the initial element with the reduction of all updates."""
    kind = update.type
    wide = kind.wider
    if kind is Scalar.BOOL:
        any_or_all = _OF_BOOLS.get(how, how)
        total = reduce(any_or_all, (number,), update)
        return initial | total if any_or_all is ReductionOp.ANY else initial & total
    total, first = reduce(how, (number,), update.to(wide)), initial.to(wide)
    if how is ReductionOp.SUM:
        return (first + total).to(kind)
    if how is ReductionOp.PRODUCT:
        return (first * total).to(kind)
    return (maximum(first, total) if how is ReductionOp.MAXIMUM else minimum(first, total)).to(kind)
