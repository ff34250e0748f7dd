"""PAD with zeros, PAD_V2 with a value, MIRROR_PAD with mirrored elements."""

from typing import Literal

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED, is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.arguments import integers
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, same_scale
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, Parameter, row, scalar, tensor

#: Elements before and after, along one dimension.
PaddingPair = tuple[int, int]

#: MIRROR_PAD's modes: without and with the border element.
_MODES: dict[int, Literal["reflect", "symmetric"]] = {0: "reflect", 1: "symmetric"}

_ROWS = data_rows(FeatureLevel.LEVEL_2, quant8=FeatureLevel.LEVEL_2)
#: For quantised inputs the value of PAD_V2 is an INT32, at the input's scale and zero point.
_VALUE_ROWS = tuple(
    row(
        source.level,
        T=source.types["T"],
        S=OperandType.INT32 if source.types["T"] in QUANTIZED else source.types["S"],
    )
    for source in data_rows(FeatureLevel.LEVEL_3, quant8=FeatureLevel.LEVEL_3)
)
_MIRROR_ROWS = data_rows(FeatureLevel.LEVEL_7, quant8=FeatureLevel.LEVEL_7, int32=FeatureLevel.LEVEL_7)


def _form(max_rank: int, *more: Parameter) -> Form:
    ranks = (1, max_rank)
    return Form(
        inputs=(tensor("input", rank=ranks), tensor("paddings", OperandType.TENSOR_INT32, rank=2), *more),
        outputs=(tensor("output", rank=ranks),),
    )


def zero_point_level(call: Call) -> FeatureLevel:
    """Returns LEVEL_3 for a non-zero zero point.

    Up to level 2 the padding of such inputs was undefined.
    """
    return FeatureLevel.LEVEL_3 if call.operand("input").zero_point else FeatureLevel.LEVEL_1


def paddings(call: Call, dimensions: int) -> tuple[PaddingPair, ...]:
    """Returns the input `paddings`, one pair for each dimension.

    Raises:
        BadData: it has another shape, or a number is negative.
    """
    pairs = tuple((before, after) for before, after in integers(call, "paddings", (dimensions, 2)).tolist())
    if any(each < 0 for pair in pairs for each in pair):
        raise BadData(f"{call.name('paddings')} is {[*map(list, pairs)]}; no number may be negative")
    return pairs


def _shape(call: Call) -> tuple[Shape, ...]:
    shape = call.shape("input")
    pairs = paddings(call, len(shape))
    padded = tuple(before + length + after for length, (before, after) in zip(shape, pairs, strict=True))
    return (padded,)


def pad(values: Array, pairs: tuple[PaddingPair, ...], value: int | float) -> Array:
    """Pads `values` with the raw `value`."""
    return np.pad(values, pairs, constant_values=value) if pairs else values


def _pad_reference(call: Call) -> tuple[Array, ...]:
    values = call.array("input")
    # TFLite does not compare the scales: the padding is the output's zero point.
    return (pad(values, paddings(call, values.ndim), call.operand("output").zero_point),)


def padding_value(call: Call) -> int | float:
    """Returns the raw padding value of PAD_V2."""
    output = call.operand("output")
    return (
        call.scalar_in("value", *quantized_limits(output)) if is_quantized(output) else call.scalar("value")
    )


def _value_fits(call: Call) -> None:
    padding_value(call)


def _pad_v2_reference(call: Call) -> tuple[Array, ...]:
    values = call.array("input")
    return (pad(values, paddings(call, values.ndim), padding_value(call)),)


def mirror_mode(call: Call) -> Literal["reflect", "symmetric"]:
    """Returns NumPy's name of MIRROR_PAD's mode.

    Raises:
        BadData: the number is not a mode.
    """
    number = call.scalar("mode")
    if number not in _MODES:
        raise BadData(f"{call.name('mode')} is {number}; 0 (REFLECT) or 1 (SYMMETRIC) is expected")
    return _MODES[number]


def _mirror_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the output shape; paddings must not exceed the number of elements to mirror."""
    mode, shape = mirror_mode(call), call.shape("input")
    for axis, (pair, length) in enumerate(zip(paddings(call, len(shape)), shape, strict=True)):
        longest = max(0, length - 1) if mode == "reflect" else length
        if any(each > longest for each in pair):
            raise BadData(
                f"{call.name('paddings')} is {list(pair)} along axis {axis}, of length {length}; "
                f"at most {longest} is allowed for mode {mode.upper()}"
            )
    return _shape(call)


def _mirror_reference(call: Call) -> tuple[Array, ...]:
    values = call.array("input")
    pairs = paddings(call, values.ndim)
    return (np.pad(values, pairs, mode=mirror_mode(call)) if pairs else values,)


DEFINITIONS = (
    Definition(
        type=OperationType.PAD,
        forms=(_form(4),),
        rows=_ROWS,
        checks=(same_scale("input"),),
        shape=_shape,
        reference=_pad_reference,
        arithmetic=frozenset({"input"}),
        level=zero_point_level,
    ),
    Definition(
        type=OperationType.PAD_V2,
        forms=(_form(4, scalar("value", "S")),),
        rows=_VALUE_ROWS,
        checks=(same_scale("input"), _value_fits),
        shape=_shape,
        reference=_pad_v2_reference,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.MIRROR_PAD,
        forms=(_form(MAX_RANK, scalar("mode")),),
        rows=_MIRROR_ROWS,
        checks=(same_scale("input"),),
        shape=_mirror_shape,
        reference=_mirror_reference,
        arithmetic=frozenset({"input"}),
    ),
)
