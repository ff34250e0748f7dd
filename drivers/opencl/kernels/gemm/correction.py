"""Corrects products of stored values for the zero point of the left matrix in the epilogue.

The zero point of the left matrix adds the same amount to a column's sums in all rows. It is
subtracted from the sums, or from a constant bias if they are only added to it.
"""

import numpy as np

from neurald.drivers.compiler.analysis.integer_ranges import range_of_accumulator, range_of_type
from neurald.drivers.compiler.ir.expression import Apply, Expression, Load, accumulator, load
from neurald.drivers.compiler.ir.graph import Convolution, MatrixProduct, linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView
from neurald.drivers.opencl.kernels.gemm.packing import packed
from neurald.hal.records import replace


def corrected(kernel: Kernel, product: GemmView, right: Value) -> Kernel:
    """Returns the kernel for sums of the left matrix's stored values.

    Args:
        kernel: the kernel with a contraction.
        product: the same as a product, of 8 bits; its left matrix has a zero point.
        right: its right matrix without a zero point: (batch, column, depth).
    """
    contraction, zero = kernel.contraction, product.left_zero
    assert isinstance(contraction, Convolution | MatrixProduct)  # noqa: S101 - others are not products
    corrections = packed(
        right, ("sums", zero), lambda array: (array.astype(np.int64).sum(axis=2) * zero).astype(np.int32)
    )
    # From here on, the value that represents zero is a number like any other.
    plain: Convolution | MatrixProduct
    if isinstance(contraction, MatrixProduct):
        plain = replace(contraction, left_zero=0)
    else:
        plain = replace(contraction, input_zero=0)
    column = kernel.axes[-1]
    where: dict[Expression, Expression] = {}
    if product.column_step or corrections.shape[0] == 1:
        place = column // product.columns, column % product.columns
        # Sums that may wrap around cannot be reordered.
        if not any(
            range_of_accumulator(each) == range_of_type(product.sum_type) for each in (contraction, plain)
        ):
            where = _less_bias(kernel, corrections)
    else:
        place = linearize(kernel.axes[:-1], kernel.shape[:-1]) // product.rows, column
    if not where:
        total = accumulator(product.sum_type)
        where = {total: total - load(corrections, place)}
    return replace(
        kernel,
        body=substitute(kernel.body, where),
        requirements=tuple((substitute(each, where), text) for each, text in kernel.requirements),
        contraction=plain,
    )


def _less_bias(kernel: Kernel, corrections: Value) -> dict[Expression, Expression]:
    """Returns the sum of the contraction's result and a bias, mapped to that with a corrected bias.

    Returns nothing if there is no such sum.
    """
    total: Expression = accumulator(Scalar.INT32)
    users = [each for each in kernel.expressions if total in each.operands]
    if len(users) == 1 and isinstance(users[0], Apply) and users[0].op is Op.CONVERT:
        total = users[0]
        users = [each for each in kernel.expressions if total in each.operands]
    if len(users) != 1 or not isinstance(users[0], Apply) or users[0].op is not Op.ADD:
        return {}
    added = users[0]
    bias = added.operands[added.operands[0] is total]
    known = bias.operands[0] if isinstance(bias, Apply) and bias.op is Op.CONVERT else bias
    if not isinstance(known, Load) or known.index != kernel.axes[-1:] or known.type is not Scalar.INT32:
        return {}
    value, less = known.value, corrections.constant
    if value.constant is None or less is None or added.type is not Scalar.INT64:
        return {}
    numbers = value.constant.astype(np.int64) - less.reshape(-1)
    whole = range_of_type(Scalar.INT32)
    if numbers.min() < whole.low or numbers.max() > whole.high:
        return {}
    changed = packed(value, ("less", corrections), lambda _: numbers.astype(np.int32))
    return {added: total + load(changed, kernel.axes[-1:]).to(Scalar.INT64)}
