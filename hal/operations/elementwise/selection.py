"""MAXIMUM, MINIMUM, SELECT, PRELU, POW."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier, single_ratio
from neurald.hal.operations.arithmetic.quantized import real, round_away, saturate
from neurald.hal.operations.machinery.broadcasting import binary_shape, broadcast_shape
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Row, tensor

_OUTPUT = (tensor("output", rank=ANY_RANK),)
_LEVEL = FeatureLevel.LEVEL_3
_NUMBER_ROWS = data_rows(_LEVEL, quant8=_LEVEL, int32=_LEVEL)


def rescaled(call: Call, name: str) -> Array:
    """Returns an input requantised for the output; unchanged if not quantised.

    Android NN rounds after adding the zero point, which affects ties.
    """
    output = call.operand("output")
    if not is_quantized(output):
        return call.array(name)
    return saturate(round_away(real(call, name) / output.scale + output.zero_point), output)


def _broadcasting(
    operation_type: OperationType,
    function: np.ufunc,
    rows: tuple[Row, ...],
    *,
    widens: bool,
    arithmetic: frozenset[str] = frozenset({"input1", "input2"}),
) -> Definition:
    """Defines an operation on two tensors with broadcasting.

    If it `widens`, floats are computed in float32.
    """

    def reference(call: Call) -> tuple[Array, ...]:
        first, second = rescaled(call, "input1"), rescaled(call, "input2")
        dtype = first.dtype
        if widens:
            first, second = first.astype(np.float32), second.astype(np.float32)
        with np.errstate(all="ignore"):
            return (np.asarray(function(first, second)).astype(dtype, copy=False),)

    form = Form(inputs=(tensor("input1", rank=ANY_RANK), tensor("input2", rank=ANY_RANK)), outputs=_OUTPUT)
    return Definition(
        type=operation_type,
        forms=(form,),
        rows=rows,
        shape=binary_shape,
        reference=reference,
        arithmetic=arithmetic,
    )


def _select_shape(call: Call) -> tuple[Shape, ...]:
    shape = call.shape("condition")
    for name in ("input1", "input2"):
        if call.shape(name) != shape:
            raise BadData(
                f"{call.name(name)} has shape {list(call.shape(name))}; "
                f"that of the condition, {list(shape)}, is expected"
            )
    return (shape,)


def _select(call: Call) -> tuple[Array, ...]:
    return (np.where(call.array("condition"), rescaled(call, "input1"), rescaled(call, "input2")),)


def _prelu_shape(call: Call) -> tuple[Shape, ...]:
    return (broadcast_shape(call, "input", "alpha"),)


def _prelu(call: Call) -> tuple[Array, ...]:
    """Computes x, or alpha * x below 0; quantised values have a multiplier for each case."""
    operand, slope, output = (call.operand(name) for name in ("input", "alpha", "output"))
    if not is_quantized(output):
        values, alpha = real(call, "input"), real(call, "alpha")
        with np.errstate(over="ignore", invalid="ignore"):
            return (np.where(values >= 0, values, values * alpha).astype(output.type.dtype),)
    values = call.array("input").astype(np.int64) - operand.zero_point
    products = values * (call.array("alpha").astype(np.int64) - slope.zero_point)
    above = multiply(values, *quantize_multiplier(single_ratio(operand.scale, 1, output.scale)))
    below = multiply(products, *quantize_multiplier(single_ratio(operand.scale, slope.scale, output.scale)))
    return (saturate(np.where(values >= 0, above, below) + output.zero_point, output),)


DEFINITIONS = (
    _broadcasting(OperationType.MAXIMUM, np.maximum, _NUMBER_ROWS, widens=False),
    _broadcasting(OperationType.MINIMUM, np.minimum, _NUMBER_ROWS, widens=False),
    _broadcasting(OperationType.POW, np.power, data_rows(_LEVEL), widens=True, arithmetic=frozenset()),
    Definition(
        type=OperationType.PRELU,
        forms=(
            Form(inputs=(tensor("input", rank=ANY_RANK), tensor("alpha", rank=ANY_RANK)), outputs=_OUTPUT),
        ),
        rows=data_rows(_LEVEL, quant8=_LEVEL),
        shape=_prelu_shape,
        reference=_prelu,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.SELECT,
        forms=(
            Form(
                inputs=(
                    tensor("condition", OperandType.TENSOR_BOOL8, rank=ANY_RANK),
                    tensor("input1", rank=ANY_RANK),
                    tensor("input2", rank=ANY_RANK),
                ),
                outputs=_OUTPUT,
            ),
        ),
        rows=_NUMBER_ROWS,
        shape=_select_shape,
        reference=_select,
        arithmetic=frozenset({"condition", "input1", "input2"}),
    ),
)
