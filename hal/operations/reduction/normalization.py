"""L2_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION, INSTANCE_NORMALIZATION, LOG_SOFTMAX."""

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import round_away, saturate
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, fixed_scale, resolve_axis, shape_of_input
from neurald.hal.operations.machinery.signature import Form, scalar, tensor
from neurald.hal.operations.reduction.softmax import require_positive_beta

_RANKS = (1, 4)
_AXIS = scalar("axis", default=-1, level=FeatureLevel.LEVEL_3)

#: Lower bound for norms, so that zeros stay zeros.
MIN_NORM = np.float32(1e-6)


def _level(call: Call) -> FeatureLevel:
    """Returns LEVEL_3 for ranks below 4, otherwise LEVEL_1."""
    dimensions = call.operand("input").dimensions
    return FeatureLevel.LEVEL_1 if dimensions is None or len(dimensions) == 4 else FeatureLevel.LEVEL_3


def _axis(call: Call) -> int:
    return resolve_axis(call.scalar("axis"), len(call.shape("input")), call.name("axis"))


def _shape_along_axis(call: Call) -> tuple[Shape, ...]:
    _axis(call)
    return (call.shape("input"),)


def _l2(call: Call) -> tuple[Array, ...]:
    """Normalises vectors. Quantised values need no scale: it cancels out."""
    values, operand, output = call.array("input"), call.operand("input"), call.operand("output")
    axis = _axis(call)
    if is_quantized(operand):
        wide = values.astype(np.float64) - operand.zero_point
        norm = np.maximum(np.sqrt(np.square(wide).sum(axis=axis, keepdims=True)), 1)
        return (saturate(round_away(wide / norm / output.scale) + output.zero_point, output),)
    real = values.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        norm = np.maximum(np.sqrt(np.square(real).sum(axis=axis, keepdims=True)), MIN_NORM)
        return ((real / norm).astype(output.type.dtype),)


def _radius(call: Call) -> None:
    call.scalar_in("radius", 0)


def _local_response(call: Call) -> tuple[Array, ...]:
    values, axis = call.array("input").astype(np.float32), _axis(call)
    length = values.shape[axis]
    radius = min(call.scalar_in("radius", 0), max(0, length - 1))
    bias, alpha, beta = (np.float32(call.scalar(name)) for name in ("bias", "alpha", "beta"))
    with np.errstate(all="ignore"):
        squares = np.moveaxis(np.square(values), axis, 0)
        sums = squares.copy()
        for distance in range(1, radius + 1):
            sums[distance:] += squares[:-distance]
            sums[:-distance] += squares[distance:]
        factors = np.power(bias + alpha * sums, -beta)
        result = values * np.moveaxis(factors, 0, axis)
        return (result.astype(call.operand("output").type.dtype),)


def _instance(call: Call) -> tuple[Array, ...]:
    """Normalises each channel of each image separately."""
    values = call.array("input").astype(np.float32)
    if not values.size:
        return (call.array("input"),)
    spatial = (2, 3) if call.scalar("nchw") else (1, 2)
    gamma, beta, epsilon = (np.float32(call.scalar(name)) for name in ("gamma", "beta", "epsilon"))
    with np.errstate(all="ignore"):
        centered = values - values.mean(axis=spatial, keepdims=True)
        variance = np.square(centered).mean(axis=spatial, keepdims=True)
        result = centered * gamma / np.sqrt(variance + epsilon) + beta
        return (result.astype(call.operand("output").type.dtype),)


def _log_softmax(call: Call) -> tuple[Array, ...]:
    require_positive_beta(call)
    values, axis = call.array("input").astype(np.float32), _axis(call)
    if not values.size:
        return (call.array("input"),)
    with np.errstate(over="ignore", invalid="ignore"):
        # The largest exponent becomes 0: none overflows, and the sum is at least 1.
        exponents = (values - values.max(axis=axis, keepdims=True)) * np.float32(call.scalar("beta"))
        result = exponents - np.log(np.exp(exponents).sum(axis=axis, keepdims=True))
        return (result.astype(call.operand("output").type.dtype),)


DEFINITIONS = (
    Definition(
        type=OperationType.L2_NORMALIZATION,
        forms=(
            Form(
                inputs=(tensor("input", rank=_RANKS), _AXIS),
                outputs=(tensor("output", rank=_RANKS),),
            ),
        ),
        rows=data_rows(quant8=FeatureLevel.LEVEL_3),
        checks=(
            fixed_scale(
                {
                    OperandType.TENSOR_QUANT8_ASYMM: (1 / 128, 128),
                    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (1 / 128, 0),
                }
            ),
        ),
        shape=_shape_along_axis,
        reference=_l2,
        arithmetic=frozenset({"input"}),
        level=_level,
    ),
    Definition(
        type=OperationType.LOCAL_RESPONSE_NORMALIZATION,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=_RANKS),
                    scalar("radius"),
                    scalar("bias", "S"),
                    scalar("alpha", "S"),
                    scalar("beta", "S"),
                    _AXIS,
                ),
                outputs=(tensor("output", rank=_RANKS),),
            ),
        ),
        rows=data_rows(),
        checks=(_radius,),
        shape=_shape_along_axis,
        reference=_local_response,
        arithmetic=frozenset({"input"}),
        level=_level,
    ),
    Definition(
        type=OperationType.INSTANCE_NORMALIZATION,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=4),
                    scalar("gamma", "S"),
                    scalar("beta", "S"),
                    scalar("epsilon", "S"),
                    scalar("nchw", OperandType.BOOL),
                ),
                outputs=(tensor("output", rank=4),),
            ),
        ),
        rows=data_rows(FeatureLevel.LEVEL_3),
        shape=shape_of_input,
        reference=_instance,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.LOG_SOFTMAX,
        forms=(
            Form(
                inputs=(tensor("input"), scalar("beta", "S"), scalar("axis")),
                outputs=(tensor("output"),),
            ),
        ),
        rows=data_rows(FeatureLevel.LEVEL_3),
        checks=(require_positive_beta,),
        shape=_shape_along_axis,
        reference=_log_softmax,
        arithmetic=frozenset({"input"}),
    ),
)
