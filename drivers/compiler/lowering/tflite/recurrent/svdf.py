"""Lowers TFLite's SVDF with 8-bit weights, float or integer."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, constant, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import fixed_point, saturate
from neurald.drivers.compiler.lowering.convolution.weighted_sum import type_of_sums
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.recurrent.svdf import filter_sums, lower_floats, next_state
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.recurrent import is_given
from neurald.hal.operations.tflite.recurrent.svdf import factor


def _scaled(value: Expression, multiplier: tuple[int, int]) -> Expression:
    mantissa, exponent = (constant(part, Scalar.INT32) for part in multiplier)
    return fixed_point(value, mantissa, exponent)


def _integers(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, output, state = (call.operand(name) for name in ("input", "output", "state_in"))
    weights = builder.value(call, "weights_feature")
    sums = builder.matrix_product(
        builder.value(call, "input"),
        weights,
        type=type_of_sums(source, call.operand("weights_feature"), weights),
        left_zero=source.zero_point,
    )
    to_state = factor(call, "input", "weights_feature", "state_in")
    features = builder.compute(
        sums.shape, lambda *at: saturate(_scaled(load(sums, at).to(Scalar.INT64), to_state), state)
    )
    bias = builder.value(call, "bias") if is_given(call, "bias") else None
    to_output = factor(call, "state_in", "weights_time", "output")

    def wide(value: Expression) -> Expression:
        return value.to(Scalar.INT64)

    total = filter_sums(call, builder, features, wide, wide)

    def body(row: Expression, unit: Expression) -> Expression:
        value = total(row, unit)
        if bias is not None:
            value = value + load(bias, (unit,)).to(Scalar.INT64)
        # The reference's sums wrap around.
        wrapped = value.to(Scalar.INT32).to(Scalar.INT64)
        return saturate(_scaled(wrapped, to_output) + output.zero_point, output)

    units = weights.shape[0] // call.scalar("rank")
    return next_state(call, builder, features), builder.compute((sums.shape[0], units), body)


def _lower(call: Call, builder: Builder) -> tuple[Value, ...]:
    return _integers(call, builder) if is_quantized(call.operand("input")) else lower_floats(call, builder)


LOWERINGS: Lowerings = {OperationType.TFLITE_SVDF: _lower}
