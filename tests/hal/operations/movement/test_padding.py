import numpy as np
import pytest
from support.operations.random_tensors import (
    INT32_TYPES,
    PLAIN_TYPES,
    ZERO_POINT,
    levels,
    like,
    tensor,
    value,
)
from support.operations.single_operation import (
    QUANT8_TYPES,
    Given,
    call_of,
    evaluate,
    given,
    ints,
    level_of,
    scalars,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, UnknownValue

PAD, PAD_V2, MIRROR_PAD = OperationType.PAD, OperationType.PAD_V2, OperationType.MIRROR_PAD
FLOAT32, FLOAT16 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16
QUANT8 = OperandType.TENSOR_QUANT8_ASYMM
REFLECT, SYMMETRIC = 0, 1

CASES = [
    ((4,), ((2, 3),)),
    ((2, 3), ((0, 0), (1, 0))),
    ((1, 2, 3), ((1, 1), (0, 2), (3, 0))),
    ((2, 1, 3, 2), ((0, 1), (2, 0), (0, 0), (1, 3))),
    ((0, 3), ((1, 2), (0, 1))),
]


def pairs(*numbers: tuple[int, int]) -> Given:
    return given(OperandType.TENSOR_INT32, np.array(numbers).reshape(-1, 2))


def padded(values: Array, paddings: tuple[tuple[int, int], ...], filling: float) -> Array:
    """Pads element by element."""
    shape = tuple(a + n + b for n, (a, b) in zip(values.shape, paddings, strict=True))
    result = np.zeros(shape, values.dtype)
    for index in np.ndindex(shape):
        source = tuple(i - before for i, (before, _) in zip(index, paddings, strict=True))
        inside = all(0 <= i < n for i, n in zip(source, values.shape, strict=True))
        result[index] = values[source] if inside else filling
    return result


def value_for(operand_type: OperandType, number: int) -> Given:
    kinds = {FLOAT32: OperandType.FLOAT32, FLOAT16: OperandType.FLOAT16}
    return given(kinds.get(operand_type, OperandType.INT32), number)


@sweep(("shape", "paddings"), CASES)
@sweep("operand_type", PLAIN_TYPES)
def test_pads_with_zero(
    operand_type: OperandType, shape: tuple[int, ...], paddings: tuple[tuple[int, int], ...]
) -> None:
    data = tensor(operand_type, *shape)
    result = evaluate(PAD, [data, pairs(*paddings)], like(operand_type))
    zero = ZERO_POINT if operand_type in QUANT8_TYPES else 0
    assert (result == padded(value(data), paddings, zero)).all()


@sweep(("shape", "paddings"), CASES)
@sweep("operand_type", PLAIN_TYPES)
def test_pads_with_a_value(
    operand_type: OperandType, shape: tuple[int, ...], paddings: tuple[tuple[int, int], ...]
) -> None:
    data = tensor(operand_type, *shape)
    result = evaluate(PAD_V2, [data, pairs(*paddings), value_for(operand_type, 9)], like(operand_type))
    assert (result == padded(value(data), paddings, 9)).all()


@sweep(("operand_type", "limits"), [(QUANT8_TYPES[0], (0, 255)), (QUANT8_TYPES[1], (-128, 127))])
def test_the_padding_value_is_a_raw_number(operand_type: OperandType, limits: tuple[int, int]) -> None:
    data, around = tensor(operand_type, 1), pairs((1, 0))
    for limit in limits:
        assert evaluate(PAD_V2, [data, around, *scalars(limit)], like(operand_type))[0] == limit
    for beyond in (limits[0] - 1, limits[1] + 1):
        message = rf"operand 2 \(value of PAD_V2\) is {beyond}; it must be from {limits[0]} to {limits[1]}"
        with pytest.raises(BadData, match=message):
            evaluate(PAD_V2, [data, around, *scalars(beyond)], like(operand_type))


def mirrored(values: Array, paddings: tuple[tuple[int, int], ...], mode: int) -> Array:
    """Mirrors element by element, with or without the border element."""
    shape = tuple(a + n + b for n, (a, b) in zip(values.shape, paddings, strict=True))
    result = np.zeros(shape, values.dtype)
    border = 0 if mode == REFLECT else 1
    for index in np.ndindex(shape):
        source = []
        for position, length, (before, _) in zip(index, values.shape, paddings, strict=True):
            inner = position - before
            if inner < 0:
                inner = -inner - border
            elif inner >= length:
                inner = 2 * (length - 1) - inner + border
            source.append(inner)
        result[index] = values[tuple(source)]
    return result


MIRROR_CASES = [
    ((4,), ((3, 2),), REFLECT),
    ((4,), ((4, 4),), SYMMETRIC),
    ((1, 3), ((0, 0), (2, 1)), REFLECT),
    ((1, 3), ((1, 1), (3, 0)), SYMMETRIC),
    ((2, 3, 4), ((1, 0), (2, 2), (0, 3)), REFLECT),
    ((2, 1, 2, 1, 3), ((2, 1), (0, 1), (0, 0), (1, 0), (1, 3)), SYMMETRIC),
    ((1, 2) * 5, ((0, 0), (1, 0)) * 5, REFLECT),
    ((0, 2), ((0, 0), (1, 1)), REFLECT),
]


@sweep(("shape", "paddings", "mode"), MIRROR_CASES)
@sweep("operand_type", INT32_TYPES)
def test_mirrors(
    operand_type: OperandType, shape: tuple[int, ...], paddings: tuple[tuple[int, int], ...], mode: int
) -> None:
    data = tensor(operand_type, *shape)
    result = evaluate(MIRROR_PAD, [data, pairs(*paddings), *scalars(mode)], like(operand_type))
    assert (result == mirrored(value(data), paddings, mode)).all()


@sweep(
    ("shape", "paddings", "mode", "message"),
    [
        (
            (2, 3),
            ((0, 0), (3, 0)),
            REFLECT,
            r"is \[3, 0\] along axis 1, of length 3; at most 2 .* mode REFLECT",
        ),
        ((2, 3), ((0, 3), (0, 0)), SYMMETRIC, r"is \[0, 3\] along axis 0, of length 2; at most 2"),
        ((0,), ((1, 0),), SYMMETRIC, "at most 0 is allowed"),
        ((0,), ((1, 0),), REFLECT, "at most 0 is allowed"),
        ((2,), ((-1, 0),), REFLECT, r"is \[\[-1, 0\]\]; no number may be negative"),
        ((2,), ((0, 0),), 2, r"operand 2 \(mode of MIRROR_PAD\) is 2; 0 \(REFLECT\) or 1 \(SYMMETRIC\)"),
    ],
)
def test_refuses_to_mirror_too_many_elements(
    shape: tuple[int, ...], paddings: tuple[tuple[int, int], ...], mode: int, message: str
) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(MIRROR_PAD, [tensor(FLOAT32, *shape), pairs(*paddings), *scalars(mode)], like(FLOAT32))


@sweep(
    ("paddings", "message"),
    [
        (pairs((0, 0)), r"operand 1 \(paddings of PAD\) has shape \[1, 2\]; \[2, 2\] is expected"),
        (given(OperandType.TENSOR_INT32, np.zeros((2, 3))), r"has shape \[2, 3\]; \[2, 2\] is expected"),
        (pairs((0, 0), (0, -1)), r"is \[\[0, 0\], \[0, -1\]\]; no number may be negative"),
        (pairs((2**31 - 1, 0), (2**31 - 1, 0)), r"output of PAD\) would have shape .* more than 2\^32 - 1"),
        (ints(0, 0), "has rank 1; rank 2 is expected"),
    ],
)
def test_refuses_paddings(paddings: Given, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(PAD, [tensor(FLOAT32, 2, 3), paddings], like(FLOAT32))


@sweep("operation", [PAD, PAD_V2, MIRROR_PAD])
def test_refuses_another_scale(operation: OperationType) -> None:
    more = [] if operation is PAD else scalars(0)
    with pytest.raises(BadData, match=rf"output of {operation.name}\) has scale 0.5 and zero point 4"):
        evaluate(operation, [tensor(QUANT8, 2), pairs((0, 0)), *more], wanted(QUANT8, 0.5, 4))


@sweep("operation", [PAD, PAD_V2])
def test_refuses_rank_5(operation: OperationType) -> None:
    more = [] if operation is PAD else [value_for(FLOAT32, 0)]
    with pytest.raises(BadData, match="has rank 5; a rank from 1 to 4 is expected"):
        evaluate(operation, [tensor(FLOAT32, 1, 1, 1, 1, 1), pairs(*((0, 0),) * 5), *more], like(FLOAT32))


def test_the_shape_is_unknown_without_paddings() -> None:
    call = call_of(PAD, [tensor(FLOAT32, 2), unknown(pairs((0, 0)))], like(FLOAT32))
    with pytest.raises(UnknownValue):
        DEFINITIONS[PAD].shape(call)


def test_levels() -> None:
    around = pairs((0, 0))
    assert levels(PAD, PLAIN_TYPES, (2,), around) == {
        FLOAT32: FeatureLevel.LEVEL_2,
        FLOAT16: FeatureLevel.LEVEL_3,
        QUANT8: FeatureLevel.LEVEL_2,
        QUANT8_TYPES[1]: FeatureLevel.LEVEL_4,
    }
    assert level_of(PAD, [tensor(QUANT8, 2), around], like(QUANT8)) == FeatureLevel.LEVEL_3
    for operand_type in PLAIN_TYPES:
        expected = FeatureLevel.LEVEL_4 if operand_type is QUANT8_TYPES[1] else FeatureLevel.LEVEL_3
        inputs = [tensor(operand_type, 2), around, value_for(operand_type, 0)]
        assert level_of(PAD_V2, inputs, like(operand_type)) == expected
    assert set(levels(MIRROR_PAD, INT32_TYPES, (2,), around, *scalars(0)).values()) == {FeatureLevel.LEVEL_7}
