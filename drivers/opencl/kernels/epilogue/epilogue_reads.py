"""Finds values that an epilogue reads in a simple order, for copying or loading them ahead."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from neurald.drivers.compiler.ir.expression import Axis, Expression, Load, axis
from neurald.drivers.compiler.ir.graph import delinearize, linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.compiler.ir.value import Value


@dataclass(frozen=True, kw_only=True, slots=True)
class EpilogueReads:
    """Values of which all loads read one element, which only depends on the output's place.

    Attributes:
        columns: those of which it is the element of the output's column; True if there are such
            elements for each batch of the output, False if all batches share them.
        element: one of which it is the element at the output's place.
    """

    columns: Mapping[Value, bool] = field(default_factory=dict)
    element: Value | None = None


def as_matrix(kernel: Kernel) -> tuple[Axis, Axis, Mapping[Expression, Expression]]:
    """Returns the axes of the rows and columns of a kernel's output, and its own axes by these.

    The row is the linear index over all dimensions but the last.
    """
    row, column = axis(math.prod(kernel.shape[:-1]), "row"), axis(kernel.shape[-1], "column")
    position = (*delinearize(row, kernel.shape[:-1]), column)
    return row, column, dict(zip(kernel.axes, position, strict=True))


def epilogue_reads(kernel: Kernel, rows: int) -> EpilogueReads:
    """Returns the values that a kernel reads in a simple order.

    Args:
        kernel: the kernel.
        rows: the number of the output's rows that are a batch.
    """
    row, column, where = as_matrix(kernel)
    # The linear indices of each value's loaded elements; None stands for that of a guarded load.
    all_places: dict[Value, set[Expression | None]] = {}
    for each in walk(substitute(kernel.body, where)):
        if isinstance(each, Load):
            place = linearize(each.index, each.value.shape) if each.guard is None else None
            all_places.setdefault(each.value, set()).add(place)
    of_batch, of_output = (row // rows) * kernel.shape[-1] + column, row * kernel.shape[-1] + column
    return EpilogueReads(
        columns={
            value: places == {of_batch} and of_batch is not column
            for value, places in all_places.items()
            if places in ({column}, {of_batch})
        },
        element=next((value for value, places in all_places.items() if places == {of_output}), None),
    )
