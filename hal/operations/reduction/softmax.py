"""SOFTMAX along an axis."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import real, store
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, fixed_scale, resolve_axis
from neurald.hal.operations.machinery.signature import Form, scalar, tensor

_FORM = Form(
    inputs=(
        tensor("input", rank=(1, 4)),
        scalar("beta", "S"),
        scalar("axis", default=-1, level=FeatureLevel.LEVEL_3),
    ),
    outputs=(tensor("output", rank=(1, 4)),),
)


def _level(call: Call) -> FeatureLevel:
    """Returns LEVEL_3 for ranks 1 and 3, otherwise LEVEL_1."""
    dimensions = call.operand("input").dimensions
    is_old = dimensions is None or len(dimensions) in (2, 4)
    return FeatureLevel.LEVEL_1 if is_old else FeatureLevel.LEVEL_3


def require_positive_beta(call: Call) -> None:
    """Raises BadData if `beta` is not positive and finite."""
    beta = call.scalar("beta")
    if not 0 < beta < np.inf:
        raise BadData(f"{call.name('beta')} is {beta:g}; it must be positive and finite")


def _shape(call: Call) -> tuple[Shape, ...]:
    shape = call.shape("input")
    resolve_axis(call.scalar("axis"), len(shape), call.name("axis"))
    return (shape,)


def _reference(call: Call) -> tuple[Array, ...]:
    require_positive_beta(call)
    values, axis = real(call, "input"), call.scalar("axis")
    if not values.size:
        return (call.array("input"),)
    beta = values.dtype.type(call.scalar("beta"))
    with np.errstate(over="ignore", invalid="ignore"):
        # The largest exponent becomes 0: no power overflows, and their sum is at least 1.
        powers = np.exp((values - values.max(axis=axis, keepdims=True)) * beta)
    return (store(powers / powers.sum(axis=axis, keepdims=True), call.operand("output")),)


DEFINITIONS = (
    Definition(
        type=OperationType.SOFTMAX,
        forms=(_FORM,),
        rows=data_rows(quant8=FeatureLevel.LEVEL_1),
        checks=(
            require_positive_beta,
            fixed_scale(
                {
                    OperandType.TENSOR_QUANT8_ASYMM: (1 / 256, 0),
                    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (1 / 256, -128),
                }
            ),
        ),
        shape=_shape,
        reference=_reference,
        arithmetic=frozenset({"input"}),
        level=_level,
    ),
)
