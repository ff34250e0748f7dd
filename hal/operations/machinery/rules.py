"""Type tables, checks and shape rules shared by several families."""

from collections.abc import Mapping
from functools import cache

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Call, Shape
from neurald.hal.operations.machinery.definition import Check
from neurald.hal.operations.machinery.signature import Row, row

#: Required scale and zero point of an output, by its type.
OutputScales = Mapping[OperandType, tuple[float, int]]


@cache
def data_rows(
    float32: FeatureLevel | None = FeatureLevel.LEVEL_1,
    *,
    quant8: FeatureLevel | None = None,
    int32: FeatureLevel | None = None,
    bool8: FeatureLevel | None = None,
) -> tuple[Row, ...]:
    """Returns the rows of an operation with data of type T and real scalars of type S.

    Args:
        float32: level of TENSOR_FLOAT32; includes TENSOR_FLOAT16 from level 3 on.
        quant8: level of TENSOR_QUANT8_ASYMM; includes its signed counterpart from level 4 on.
        int32: level of TENSOR_INT32.
        bool8: level of TENSOR_BOOL8.
    """
    levels: list[tuple[FeatureLevel, OperandType]] = []
    if float32 is not None:
        levels.append((float32, OperandType.TENSOR_FLOAT32))
        levels.append((max(float32, FeatureLevel.LEVEL_3), OperandType.TENSOR_FLOAT16))
    if int32 is not None:
        levels.append((int32, OperandType.TENSOR_INT32))
    if bool8 is not None:
        levels.append((bool8, OperandType.TENSOR_BOOL8))
    if quant8 is not None:
        levels.append((quant8, OperandType.TENSOR_QUANT8_ASYMM))
        levels.append((max(quant8, FeatureLevel.LEVEL_4), OperandType.TENSOR_QUANT8_ASYMM_SIGNED))
    return tuple(
        row(
            level,
            T=data,
            S=OperandType.FLOAT16 if data is OperandType.TENSOR_FLOAT16 else OperandType.FLOAT32,
        )
        for level, data in levels
    )


def has_same_scale(call: Call, *names: str) -> bool:
    """Returns True if the named inputs have the output's scale (in float32) and zero point."""
    output = call.operand("output")
    return all(have_same_scale(operand, output) for name in names for operand in call.operands(name))


def have_same_scale(operand: Operand, other: Operand) -> bool:
    """Returns True if two operands have the same scale (in float32) and zero point."""
    return operand.zero_point == other.zero_point and (
        operand.scale == other.scale or bool(np.float32(operand.scale) == np.float32(other.scale))
    )


def same_scale(*names: str) -> Check:
    """Returns a check that a quantised output has the scale and zero point of the named inputs."""

    def check(call: Call) -> None:
        output = call.operand("output")
        for name in names:
            if is_quantized(output) and not has_same_scale(call, name):
                operand = call.operand(name)
                raise BadData(
                    f"{call.name('output')} has scale {output.scale:g} and zero point {output.zero_point}; "
                    f"those of {name}, {operand.scale:g} and {operand.zero_point}, are expected"
                )

    return check


def fixed_scale(scales: OutputScales) -> Check:
    """Returns a check that an output of one of these types has that scale and zero point."""

    def check(call: Call) -> None:
        output = call.operand("output")
        expected = scales.get(output.type)
        if expected is not None and (float(np.float32(output.scale)), output.zero_point) != expected:
            raise BadData(
                f"{call.name('output')} has scale {output.scale:g} and zero point {output.zero_point}; "
                f"{expected[0]:g} and {expected[1]} are expected"
            )

    return check


def known_activation(call: Call) -> None:
    """Checks that the fused activation is valid."""
    _ = call.activation


def shape_of_input(call: Call) -> tuple[Shape, ...]:
    """Returns the shape of `input`, for operations that keep the shape of their only tensor."""
    return (call.shape("input"),)


def resolve_axis(axis: int, rank: int, what: str) -> int:
    """Converts an axis that may count from the end to one that counts from 0.

    Raises:
        BadData: there is no such axis; `what` names the argument.
    """
    if not -rank <= axis < rank:
        raise BadData(f"{what} is {axis}; an axis of rank {rank}, from {-rank} to {rank - 1}, is expected")
    return axis % rank


def require_representable(call: Call, number: int, output: str) -> None:
    """Checks that an output's type can represent a number that may be one of its elements.

    Raises:
        BadData: it cannot; the result would wrap around.
    """
    kind = call.operand(output).type
    most = int(np.iinfo(kind.dtype.name).max)
    if number > most:
        raise BadData(
            f"{call.name(output)} is {kind.name}, which holds numbers up to {most}; "
            f"input {list(call.shape('input'))} needs {number}"
        )


def resolve_axes(call: Call, name: str) -> tuple[int, ...]:
    """Returns the axes of `input` in the list `name`, sorted, unique and counted from 0.

    Raises:
        BadData: one of them is not an axis of `input`.
        UnknownValue: the list or the rank is not known yet.
    """
    rank, what = len(call.shape("input")), call.name(name)
    call.shape(name)  # The rank of the list itself may be unspecified in the model.
    given = set(call.array(name).reshape(-1).tolist())
    return tuple(sorted({resolve_axis(axis, rank, what) for axis in given}))
