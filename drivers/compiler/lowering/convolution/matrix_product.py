"""Lowers BATCH_MATMUL."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, axis, clamp, load, reduce
from neurald.drivers.compiler.ir.graph import load_broadcast
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import Requantizer, store
from neurald.drivers.compiler.lowering.convolution.weighted_sum import sum_type
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.fixed_point import Rounding
from neurald.hal.operations.convolution.matrix_product import product_scale
from neurald.hal.operations.machinery.call import Call

_INT32 = -1 << 31, (1 << 31) - 1


def lower_product(call: Call, builder: Builder, rounding: Rounding = Rounding.TWICE) -> tuple[Value, ...]:
    """Multiplies matrices of floats, quantised values or INT32.

    Args:
        call: the operation.
        builder: the builder of the operation.
        rounding: the rounding of a quantised product.
    """
    left, right = builder.value(call, "input1"), builder.value(call, "input2")
    first, second, output = (call.operand(name) for name in ("input1", "input2", "output"))
    is_left_transposed, is_right_transposed = bool(call.scalar("adjoint1")), bool(call.scalar("adjoint2"))
    depth = left.shape[-2 if is_left_transposed else -1]
    if left.type is Scalar.INT32:
        return (
            _whole_product(
                builder, left, right, is_left_transposed, is_right_transposed, output_shapes(call)[0]
            ),
        )
    kind = sum_type(first, second, depth)
    # If the sums are the result, zero points count as 0.
    is_rescaled = is_quantized(output)
    sums = builder.matrix_product(
        left,
        right,
        type=kind,
        left_transposed=is_left_transposed,
        right_transposed=not is_right_transposed,
        left_zero=first.zero_point if is_rescaled else 0,
        right_zero=second.zero_point if is_rescaled else 0,
    )
    if not is_rescaled:
        return (builder.compute(sums.shape, lambda *at: store(load(sums, at), output)),)
    requantize = Requantizer(builder, call, [product_scale(call)], rounding)

    def body(*at: Expression) -> Expression:
        total = load(sums, at).to(Scalar.INT64)
        # Double rounding expects 32-bit values.
        return requantize(clamp(total, *_INT32) if rounding is Rounding.TWICE else total, at[-1])

    return (builder.compute(sums.shape, body),)


def _whole_product(
    builder: Builder,
    left: Value,
    right: Value,
    is_left_transposed: bool,
    is_right_transposed: bool,
    shape: Shape,
) -> Value:
    """Multiplies wrapping integers, which no contraction supports."""

    def body(*at: Expression) -> Expression:
        *batches, row, column = at
        inner = axis(left.shape[-2 if is_left_transposed else -1], "k")
        first = (inner, row) if is_left_transposed else (row, inner)
        second = (column, inner) if is_right_transposed else (inner, column)
        product = load_broadcast(left, batches, first) * load_broadcast(right, batches, second)
        return reduce(ReductionOp.SUM, (inner,), product)

    return builder.compute(shape, body)


LOWERINGS = {OperationType.BATCH_MATMUL: lower_product}
