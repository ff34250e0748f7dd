"""Finds values that an epilogue reads in a simple order, for copying or loading them ahead."""

import math
from collections.abc import Mapping

from neurald.drivers.compiler.ir.expression import Axis, Expression, Load, axis
from neurald.drivers.compiler.ir.graph import delinearize, linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.compiler.ir.value import Value


def as_matrix(kernel: Kernel) -> tuple[Axis, Axis, Mapping[Expression, Expression]]:
    """Returns the axes of the rows and columns of a kernel's output, and its own axes by these.

    The row is the linear index over all dimensions but the last.
    """
    row, column = axis(math.prod(kernel.shape[:-1]), "row"), axis(kernel.shape[-1], "column")
    position = (*delinearize(row, kernel.shape[:-1]), column)
    return row, column, dict(zip(kernel.axes, position, strict=True))


def column_reads(kernel: Kernel, rows: int) -> dict[Value, bool]:
    """Returns the values of which each load reads the element of the output's column.

    If a value has such elements for each batch of the output, it is True; if all batches share
    them, it is False.

    Args:
        kernel: the kernel.
        rows: the number of the output's rows that are a batch.
    """
    row, column, all_places = _places(kernel)
    of_batch = (row // rows) * kernel.shape[-1] + column
    return {
        value: places == {of_batch} and of_batch is not column
        for value, places in all_places.items()
        if places in ({column}, {of_batch})
    }


def element_read(kernel: Kernel) -> Value | None:
    """Returns a value whose loads read the element at the place of the output's, or None."""
    row, column, all_places = _places(kernel)
    place = row * kernel.shape[-1] + column
    return next((value for value, places in all_places.items() if places == {place}), None)


def _places(kernel: Kernel) -> tuple[Axis, Axis, Mapping[Value, set[Expression | None]]]:
    """Returns the axes of rows and columns, and the places of each value's loaded elements.

    A place is the linear index of an element by these axes; None stands for that of a guarded load.
    """
    row, column, where = as_matrix(kernel)
    found: dict[Value, set[Expression | None]] = {}
    for each in walk(substitute(kernel.body, where)):
        if isinstance(each, Load):
            place = linearize(each.index, each.value.shape) if each.guard is None else None
            found.setdefault(each.value, set()).add(place)
    return row, column, found
