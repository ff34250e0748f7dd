"""Helpers of scatter operations: each output element finds the elements scattered to it.

Kernels compute each output element independently, so nothing is written twice. Known indices are
turned into a table of sources per destination. Unknown indices are all compared with each
destination, within a limit.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import Axis, Expression, axis, index, load, reduce, select
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.reduced_axes import BOOL_REDUCTIONS
from neurald.hal.operations.machinery.call import Array

#: Limit on comparisons, which take about as long as a large convolution.
_MAX_COMPARISONS = 1 << 30
#: Limit on table entries.
_MAX_TABLE_ENTRIES = 1 << 24

#: Wider types in which narrow elements are reduced.
_WIDER = {
    Scalar.FLOAT16: Scalar.FLOAT32,
    Scalar.INT8: Scalar.INT32,
    Scalar.INT16: Scalar.INT32,
    Scalar.UINT8: Scalar.INT32,
    Scalar.UINT16: Scalar.INT32,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterSources:
    """The elements that are scattered to one destination.

    Attributes:
        axes: to reduce over; empty if there is at most one element.
        number: index of an element, in the given order.
        holds: BOOL, true if the element is scattered to the destination.
    """

    axes: tuple[Axis, ...]
    number: Expression
    holds: Expression


#: Returns the elements scattered to a destination.
SourcesAt = Callable[[Expression], ScatterSources]


def known_sources(builder: Builder, where: Array, destinations: int) -> SourcesAt:
    """Builds sources from known destinations.

    Args:
        builder: of the operation.
        where: destination of each element in order, or -1 for none.
        destinations: number of destinations.

    Raises:
        Unsupported: the table is too large.
    """
    scattered = np.flatnonzero(where >= 0)
    order = scattered[np.argsort(where[scattered], kind="stable")]
    counts = np.bincount(where[order], minlength=destinations)
    most = max(1, int(counts.max(initial=0)))
    if destinations * most > _MAX_TABLE_ENTRIES:
        raise Unsupported(
            f"scattering up to {most} elements to each of {destinations} destinations takes too large a table"
        )
    table = np.full((destinations, most), -1, np.int32)
    firsts = np.cumsum(counts) - counts
    table[where[order], np.arange(len(order)) - firsts[where[order]]] = order
    numbers = builder.constant(table)

    def at(destination: Expression) -> ScatterSources:
        axes = (axis(most, "n"),) if most > 1 else ()
        number = load(numbers, (destination, axes[0] if axes else index(0))).to(Scalar.INDEX)
        return ScatterSources(axes=axes, number=number, holds=number >= 0)

    return at


def compared_sources(where: Value, work: int) -> SourcesAt:
    """Builds sources from destinations that are only known at execution.

    Args:
        where: destination of each element, in order.
        work: number of result elements, each of which compares all destinations.

    Raises:
        Unsupported: there are too many comparisons.
    """
    (count,) = where.shape
    require_few_comparisons(count, work)

    def at(destination: Expression) -> ScatterSources:
        return all_sources(count, lambda number: load(where, (number,)).to(Scalar.INDEX).equals(destination))

    return at


def all_sources(count: int, holds: Callable[[Expression], Expression]) -> ScatterSources:
    """Builds sources from a predicate over `count` elements."""
    if count == 1:
        return ScatterSources(axes=(), number=index(0), holds=holds(index(0)))
    along = axis(count, "n")
    return ScatterSources(axes=(along,), number=along, holds=holds(along))


def require_few_comparisons(count: int, work: int) -> None:
    """Raises Unsupported if comparing `count` indices for `work` result elements takes too long."""
    if count * work > _MAX_COMPARISONS:
        raise Unsupported(
            f"scattering by {count} indices unknown before execution into {work} elements takes too many "
            "comparisons"
        )


def last_source(sources: ScatterSources) -> Expression:
    """Returns the INT32 number of the last element scattered to the destination, or -1."""
    number = select(sources.holds, sources.number.to(Scalar.INT32), -1)
    return reduce(ReductionOp.MAXIMUM, sources.axes, number)


def combine_sources(reduction: ReductionOp, sources: ScatterSources, value: Expression) -> Expression:
    """Reduces the elements scattered to a destination.

    Args:
        reduction: combines them.
        sources: the elements.
        value: the element of that number, or the identity if it is not scattered there.
    """
    if value.type is Scalar.BOOL:
        return reduce(BOOL_REDUCTIONS[reduction], sources.axes, value)
    return reduce(reduction, sources.axes, value.to(_WIDER.get(value.type, value.type))).to(value.type)
