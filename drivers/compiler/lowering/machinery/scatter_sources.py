"""Helpers of scatter operations: each output element finds the elements scattered to it.

Where the indices are known and few of them are equal, each output element is computed
independently: they are turned into a table of sources per destination. `Builder.scatter` is for all
    others.
"""

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Axis, Expression, axis, index, load, reduce, select
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.lowering.machinery.reduced_axes import BOOL_REDUCTIONS
from neurald.hal.operations.machinery.call import Array

#: Limits on table entries, and on their number for each element that is scattered or written.
_MAX_TABLE_ENTRIES = 1 << 24
_MAX_TABLE_GROWTH = 4


class ScatterSources(Struct, frozen=True, kw_only=True):
    """The elements that are scattered to one destination.

    Attributes:
        axes: the axes to reduce over; empty if there is at most one element.
        number: index of an element, in the given order.
        holds: BOOL, true if the element is scattered to the destination.
    """

    axes: tuple[Axis, ...]
    number: Expression
    holds: Expression


#: Returns the elements scattered to a destination.
SourcesAt = Callable[[Expression], ScatterSources]


def known_sources(builder: Builder, where: Array, destinations: int) -> SourcesAt | None:
    """Builds sources from known destinations; returns None if their table would be too large.

    Args:
        builder: the builder of the operation.
        where: destination of each element in order, or -1 for none.
        destinations: number of destinations.
    """
    scattered = np.flatnonzero(where >= 0)
    order = scattered[np.argsort(where[scattered], kind="stable")]
    counts = np.bincount(where[order], minlength=destinations)
    most = max(1, int(counts.max(initial=0)))
    entries = destinations * most
    if entries > _MAX_TABLE_ENTRIES or (
        most > 1 and entries > _MAX_TABLE_GROWTH * (destinations + len(where))
    ):
        return None
    table = np.full((destinations, most), -1, np.int32)
    firsts = np.cumsum(counts) - counts
    table[where[order], np.arange(len(order)) - firsts[where[order]]] = order
    numbers = builder.constant(table)

    def at(destination: Expression) -> ScatterSources:
        axes = (axis(most, "n"),) if most > 1 else ()
        number = load(numbers, (destination, axes[0] if axes else index(0))).to(Scalar.INDEX)
        return ScatterSources(axes=axes, number=number, holds=number >= 0)

    return at


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
    return reduce(reduction, sources.axes, value.to(value.type.wider)).to(value.type)
