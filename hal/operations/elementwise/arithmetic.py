"""Arithmetic on two tensors with broadcasting: ADD, SUB, MUL, DIV."""

from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier, single_ratio
from neurald.hal.operations.arithmetic.quantized import activate, saturate
from neurald.hal.operations.machinery.broadcasting import binary_shape
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.signature import Form, Row, row, scalar, tensor

#: Left shift of quantised 8-bit addends before rescaling, to keep precision.
_ADDEND_SHIFT = 20
#: Left shift of quantised 16-bit addends.
_ADDEND_SHIFT_16 = 15

_FORM = Form(
    inputs=(
        tensor("input1", rank=(0, 4)),
        tensor("input2", rank=(0, 4)),
        scalar("activation"),
    ),
    outputs=(tensor("output", rank=(0, 4)),),
)


def _rows(quant8: FeatureLevel | None) -> tuple[Row, ...]:
    """Returns the type rows; `quant8` is the level of unsigned quantised data, None for none."""
    rows = (
        row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_FLOAT32),
        row(FeatureLevel.LEVEL_3, T=OperandType.TENSOR_FLOAT16),
        row(FeatureLevel.LEVEL_4, T=OperandType.TENSOR_INT32),
    )
    if quant8 is None:
        return rows
    return (
        *rows,
        row(quant8, T=OperandType.TENSOR_QUANT8_ASYMM),
        row(FeatureLevel.LEVEL_4, T=OperandType.TENSOR_QUANT8_ASYMM_SIGNED),
    )


def _product_scale(call: Call) -> None:
    """Checks that a quantised product has output scale > input1 scale * input2 scale."""
    output = call.operand("output")
    product = call.operand("input1").scale * call.operand("input2").scale
    if is_quantized(output) and not output.scale > product:
        raise BadData(
            f"{call.name('output')} has scale {output.scale:g}; more than the product of the input scales, "
            f"{product:g}, is expected"
        )


def _activation_of_int32(call: Call) -> None:
    if call.operand("output").type is OperandType.TENSOR_INT32 and call.activation:
        raise BadData(f"{call.name('activation')} is {call.activation.name}; TENSOR_INT32 takes NONE")


def _arithmetic(
    function: Callable[[Array, Array], Array],
    quantized: Callable[[Call], Array] | None = None,
) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference that computes floats in float32, and int32 modulo 2^32."""

    def reference(call: Call) -> tuple[Array, ...]:
        output = call.operand("output")
        if quantized is not None and is_quantized(output):
            return (saturate(quantized(call), output, call.activation),)
        first, second = call.array("input1"), call.array("input2")
        if output.type is OperandType.TENSOR_INT32:
            return (function(first, second),)
        with np.errstate(all="ignore"):
            result = function(first.astype(np.float32), second.astype(np.float32))
        return (activate(result, call.activation).astype(output.type.dtype),)

    return reference


def addend_shift(output: Operand) -> int:
    """Returns the left shift of quantised addends for such an output, see `_ADDEND_SHIFT`."""
    return _ADDEND_SHIFT if output.type.dtype.itemsize == 1 else _ADDEND_SHIFT_16


def quantized_sum(sign: int) -> Callable[[Call], Array]:
    """Returns a function for the sum, or difference if `sign` is -1, at the output's scale.

    The result is not clamped.
    """

    def compute(call: Call) -> Array:
        output = call.operand("output")
        shift = addend_shift(output)
        largest = 2.0 * max(call.operand("input1").scale, call.operand("input2").scale)
        total: Array | int = 0
        for name, factor in (("input1", 1), ("input2", sign)):
            operand = call.operand(name)
            shifted = (call.array(name).astype(np.int64) - operand.zero_point) << shift
            total = total + factor * multiply(shifted, *quantize_multiplier(operand.scale / largest))
        rescale = quantize_multiplier(largest / ((1 << shift) * output.scale))
        return multiply(np.asarray(total), *rescale) + output.zero_point

    return compute


def quantized_product(call: Call) -> Array:
    """Computes the product of quantised values at the output's scale, not clamped."""
    first, second, output = (call.operand(n) for n in ("input1", "input2", "output"))
    product = (call.array("input1").astype(np.int64) - first.zero_point) * (
        call.array("input2").astype(np.int64) - second.zero_point
    )
    rescale = quantize_multiplier(single_ratio(first.scale, second.scale, output.scale))
    return multiply(product, *rescale) + output.zero_point


def _divide(first: Array, second: Array) -> Array:
    """Divides floats by IEEE rules.

    Integers round towards minus infinity, and a divisor of 0 gives 0.
    """
    if first.dtype.kind == "f":
        return first / second
    with np.errstate(all="ignore"):
        return first // second


def _definition(
    operation_type: OperationType,
    reference: Callable[[Call], tuple[Array, ...]],
    quant8: FeatureLevel | None,
    checks: tuple[Check, ...] = (),
    arithmetic: frozenset[str] = frozenset({"input1", "input2"}),
) -> Definition:
    return Definition(
        type=operation_type,
        forms=(_FORM,),
        rows=_rows(quant8),
        checks=(_activation_of_int32, *checks),
        shape=binary_shape,
        reference=reference,
        arithmetic=arithmetic,
    )


DEFINITIONS = (
    _definition(OperationType.ADD, _arithmetic(np.add, quantized_sum(1)), FeatureLevel.LEVEL_1),
    _definition(OperationType.SUB, _arithmetic(np.subtract, quantized_sum(-1)), FeatureLevel.LEVEL_3),
    _definition(
        OperationType.MUL,
        _arithmetic(np.multiply, quantized_product),
        FeatureLevel.LEVEL_1,
        (_product_scale,),
    ),
    # DIV has no arithmetic inputs: a divisor must not change after it was compared with 0.
    _definition(OperationType.DIV, _arithmetic(_divide), None, arithmetic=frozenset()),
)
