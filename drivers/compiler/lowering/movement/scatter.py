"""What lowerings share that put elements where indexes say: for each place, the elements that come to it are found.

Kernels give each element of a result by itself, so nothing is written twice: where the indexes are known, a table says
which elements come to a place; otherwise all of them are compared with it, as long as that is not too much.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import Axis, Expression, axis, index, load, reduce, select
from neurald.drivers.compiler.ir.op import Fold
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.operations.machinery.call import Array

#: Comparisons of places with indexes that take about as long as a large convolution.
_MOST_COMPARISONS = 1 << 30
#: Entries of a table.
_LARGEST_TABLE = 1 << 24

#: Folds of truth values that give what the same fold of numbers would.
_TRUTHS = {Fold.SUM: Fold.ANY, Fold.MAXIMUM: Fold.ANY, Fold.PRODUCT: Fold.ALL, Fold.MINIMUM: Fold.ALL}
#: Types in which elements are folded that have too few bits of their own.
_WIDER = {
    Scalar.FLOAT16: Scalar.FLOAT32,
    Scalar.INT8: Scalar.INT32,
    Scalar.INT16: Scalar.INT32,
    Scalar.UINT8: Scalar.INT32,
    Scalar.UINT16: Scalar.INT32,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The elements that come to a place.

    Attributes:
        axes: to fold over; none where there is one element at most.
        number: of an element, in the order in which they are given.
        holds: BOOL: whether that one comes to the place.
    """

    axes: tuple[Axis, ...]
    number: Expression
    holds: Expression


#: Gives the elements that come to a place.
ArrivalsAt = Callable[[Expression], Arrivals]


def known_arrivals(builder: Builder, where: Array, places: int) -> ArrivalsAt:
    """Of elements whose places are known.

    Args:
        builder: of the operation.
        where: the place of each element, in order; those that go nowhere have -1.
        places: how many there are.

    Raises:
        Unsupported: so many elements come to one place that the table gets too large.
    """
    comes = np.flatnonzero(where >= 0)
    order = comes[np.argsort(where[comes], kind="stable")]
    counts = np.bincount(where[order], minlength=places)
    most = max(1, int(counts.max(initial=0)))
    if places * most > _LARGEST_TABLE:
        raise Unsupported(f"up to {most} elements for each of {places} places have no kernel")
    table = np.full((places, most), -1, np.int32)
    firsts = np.cumsum(counts) - counts
    table[where[order], np.arange(len(order)) - firsts[where[order]]] = order
    numbers = builder.constant(table)

    def at(place: Expression) -> Arrivals:
        axes = (axis(most, "n"),) if most > 1 else ()
        number = load(numbers, (place, axes[0] if axes else index(0))).to(Scalar.INDEX)
        return Arrivals(axes=axes, number=number, holds=number >= 0)

    return at


def compared_arrivals(where: Value, work: int) -> ArrivalsAt:
    """Of elements whose places are not known.

    Args:
        where: the place of each element, in order.
        work: how many elements the result has, for each of which all places are looked at.

    Raises:
        Unsupported: that is too much.
    """
    (count,) = where.shape
    expect_little(count, work)

    def at(place: Expression) -> Arrivals:
        return all_arrivals(count, lambda number: load(where, (number,)).to(Scalar.INDEX).equals(place))

    return at


def all_arrivals(count: int, holds: Callable[[Expression], Expression]) -> Arrivals:
    """So many elements, of which each says by itself whether it comes."""
    if count == 1:
        return Arrivals(axes=(), number=index(0), holds=holds(index(0)))
    along = axis(count, "n")
    return Arrivals(axes=(along,), number=along, holds=holds(along))


def expect_little(count: int, work: int) -> None:
    """Refuses to look at so many indexes for each of so many elements of a result.

    Raises:
        Unsupported: it is too much.
    """
    if count * work > _MOST_COMPARISONS:
        raise Unsupported(
            f"{count} indexes that are not known before execution, into {work} elements, have no kernel"
        )


def last_arrival(arrivals: Arrivals) -> Expression:
    """INT32: the number of the last element that comes to the place, -1 where none does."""
    number = select(arrivals.holds, arrivals.number.to(Scalar.INT32), -1)
    return reduce(Fold.MAXIMUM, arrivals.axes, number)


def folded(fold: Fold, arrivals: Arrivals, value: Expression) -> Expression:
    """What comes to a place, folded.

    Args:
        fold: how.
        arrivals: what comes there.
        value: the element of that number, and what changes nothing where it does not come there.
    """
    if value.type is Scalar.BOOL:
        return reduce(_TRUTHS[fold], arrivals.axes, value)
    return reduce(fold, arrivals.axes, value.to(_WIDER.get(value.type, value.type))).to(value.type)
