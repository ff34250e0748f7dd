"""Lowers BATCH_MATMUL with TFLite's types."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, axis, load, reduce
from neurald.drivers.compiler.ir.graph import load_broadcast
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.row_quantization import quantize_rows, sum_type
from neurald.drivers.compiler.lowering.convolution.matrix_product import lower_product
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.arithmetic.fixed_point import Rounding
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.convolution.hybrid import is_hybrid, weight_scales


def _lower(call: Call, builder: Builder) -> tuple[Value, ...]:
    if is_hybrid(call, "input1", "input2"):
        return (_hybrid(call, builder),)
    is_int16 = call.operand("output").type is OperandType.TENSOR_QUANT16_SYMM
    return lower_product(call, builder, Rounding.SHORT if is_int16 else Rounding.TWICE)


def _hybrid(call: Call, builder: Builder) -> Value:
    """Multiplies with each row of the first matrix quantised separately."""
    left, right = builder.value(call, "input1"), builder.value(call, "input2")
    is_transposed = bool(call.scalar("adjoint2"))
    if call.scalar("adjoint1"):
        source = left
        left = builder.compute(
            (*source.shape[:-2], source.shape[-1], source.shape[-2]),
            lambda *at: load(source, (*at[:-2], at[-1], at[-2])),
        )
    *outer, depth = left.shape
    count = left.count // depth if depth else 0
    rows = quantize_rows(
        builder, builder.reshape(left, (count, depth)), asymmetric=bool(call.scalar("asymmetric"))
    )
    kind = sum_type(depth)
    sums = builder.matrix_product(
        builder.reshape(rows.values, left.shape), right, type=kind, right_transposed=not is_transposed
    )
    scales = builder.reshape(rows.scales, tuple(outer))
    zero_points = None if rows.zero_points is None else builder.reshape(rows.zero_points, tuple(outer))
    totals = _totals(builder, right, kind, is_transposed=is_transposed)
    steps = builder.constant(weight_scales(call.operand("input2")))
    is_single = steps.count == 1

    def body(*at: Expression) -> Expression:
        *batches, row, column = at
        total = load(sums, at)
        if zero_points is not None:
            zero = load_broadcast(zero_points, batches, (row,)).to(kind)
            total = total - zero * load_broadcast(totals, batches, (column,))
        step = load(steps, (column * 0 if is_single else column,))
        return total.to(Scalar.FLOAT32) * load_broadcast(scales, batches, (row,)) * step

    return builder.compute(sums.shape, body)


def _totals(builder: Builder, matrix: Value, kind: Scalar, *, is_transposed: bool) -> Value:
    """Returns the column sums of the second factor, (…, columns)."""
    *batches, rows, columns = matrix.shape
    depth, width = (columns, rows) if is_transposed else (rows, columns)

    def body(*at: Expression) -> Expression:
        inner = axis(depth, "k")
        index = (at[-1], inner) if is_transposed else (inner, at[-1])
        return reduce(ReductionOp.SUM, (inner,), load(matrix, (*at[:-1], *index)).to(kind))

    return builder.compute((*batches, width), body)


LOWERINGS = {OperationType.TFLITE_BATCH_MATMUL: _lower}
