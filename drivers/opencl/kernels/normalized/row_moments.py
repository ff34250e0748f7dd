"""Moments of the rows of a matrix: the sum and the sum of squares of each 64 columns.

The product that computes a matrix also computes its moments (`gemm.warpgroup_pipeline`), since each
of its groups has whole parts of rows. What depends on the mean or variance of a row adds them up.
"""

import math
from typing import Final

from neurald.drivers.compiler.ir.expression import Expression, Reduce, axis, index, load, reduce, select
from neurald.drivers.compiler.ir.graph import delinearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import loads, substitute
from neurald.drivers.compiler.ir.value import Value

#: Columns of each sum, which every tile of a product has completely.
MOMENT_COLUMNS: Final = 64


def moments_kernel(matrix: Value, operations: tuple[int, ...]) -> Kernel:
    """Returns the kernel that computes the moments of a matrix: (columns / 64, rows, 2), FLOAT32.

    Work-items that read the moments of successive rows read successive memory.

    Args:
        matrix: a matrix of floats, whose last dimension is a multiple of 64; the others count rows.
        operations: the positions in the model of the operations that it implements.
    """
    *rows, columns = matrix.shape
    parts = columns // MOMENT_COLUMNS
    axes = axis(parts, "s"), axis(math.prod(rows), "r"), axis(2, "power")
    part, row, power = axes
    column = axis(MOMENT_COLUMNS, "k")
    at = (*delinearize(row, tuple(rows)), part * MOMENT_COLUMNS + column)
    element = load(matrix, at).to(Scalar.FLOAT32)
    output = Value((parts, row.extent, 2), Scalar.FLOAT32, name=f"moments of {matrix.name}")
    body = reduce(ReductionOp.SUM, (column,), select(power.equals(0), element, element * element))
    return Kernel(output=output, axes=axes, body=body, operations=operations)


def measured_matrix(kernel: Kernel) -> Value | None:
    """Returns the matrix whose moments a kernel computes; None for other kernels."""
    if kernel.contraction is not None or not isinstance(kernel.body, Reduce):
        return None
    found = {each.value for each in loads(kernel.body)}
    if len(found) != 1 or len(kernel.body.axes) != 1:
        return None
    (matrix,) = found
    if len(kernel.shape) != 3 or not matrix.shape or matrix.shape[-1] != kernel.shape[0] * MOMENT_COLUMNS:
        return None
    expected = moments_kernel(matrix, ())
    return matrix if kernel.output.shape == expected.output.shape and _is_same(kernel, expected) else None


def _is_same(kernel: Kernel, expected: Kernel) -> bool:
    """Returns True if two kernels with a reduction over one axis have the same body."""
    assert isinstance(kernel.body, Reduce)  # noqa: S101 - see `measured_matrix`
    assert isinstance(expected.body, Reduce)  # noqa: S101 - see `moments_kernel`
    where: dict[Expression, Expression] = dict(
        zip((*expected.axes, *expected.body.axes), (*kernel.axes, *kernel.body.axes), strict=True)
    )
    return substitute(expected.body.body, where) is kernel.body.body


def row_sum(moments: Value, row: Expression, power: int) -> Expression:
    """Returns the sum of the elements of a row, or of their squares.

    Args:
        moments: the moments of the matrix.
        row: the number of the row.
        power: 1 for the elements, 2 for their squares.
    """
    part = axis(moments.shape[0], "s")
    return reduce(ReductionOp.SUM, (part,), load(moments, (part, row, index(power - 1))))
