import numpy as np
import pytest
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    Given,
    call_of,
    evaluate,
    given,
    ints,
    level_of,
    omitted,
    scalars,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import UnknownValue

RESHAPE, SQUEEZE = OperationType.RESHAPE, OperationType.SQUEEZE
TYPES = [*FLOAT_TYPES, *QUANT8_TYPES, OperandType.TENSOR_INT32]
FLOAT32 = OperandType.TENSOR_FLOAT32


def form(operand_type: OperandType) -> tuple[float, int]:
    return (0.5, 3) if operand_type in QUANT8_TYPES else (0.0, 0)


@sweep(
    ("shape", "target", "expected"),
    [
        ((2, 3, 4), (4, 6), (4, 6)),
        ((2, 3, 4), (-1,), (24,)),
        ((5,), (1, -1, 1, 5), (1, 1, 1, 5)),
        ((2, 3), (3, -1), (3, 2)),
        ((0, 4), (-1, 4), (0, 4)),
        ((0, 4), (2, 0), (2, 0)),
        ((), (1, 1), (1, 1)),
        ((1, 1), (), ()),
    ],
)
@sweep("operand_type", TYPES)
def test_reshape(
    operand_type: OperandType, shape: tuple[int, ...], target: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    arguments = [given(operand_type, values, *form(operand_type)), ints(*target)]
    result = evaluate(RESHAPE, arguments, wanted(operand_type, *form(operand_type)))
    assert result.shape == expected
    assert result.ravel().tolist() == values.ravel().tolist()


@sweep(
    ("shape", "target", "message"),
    [
        ((2, 3), (4, 2), r"operand 1 \(shape of RESHAPE\) is \[4, 2\], 8 elements; input \[2, 3\] has 6"),
        ((2, 3), (-1, -1), r"is \[-1, -1\]; lengths from 0, and -1 at most once"),
        ((2, 3), (-2, 3), r"is \[-2, 3\]; lengths from 0"),
        ((2, 3), (-1, 4), r"the 6 elements of \[2, 3\] leave no length for -1"),
        ((2, 3), (-1, 0), r"leave no length for -1"),
        ((0, 3), (-1, 0), r"the 0 elements of \[0, 3\] leave no length for -1"),
        ((1,), (1,) * 17, r"operand 1 \(shape of RESHAPE\) has 17 lengths; at most 16 are allowed"),
        ((2, 3), (2**31 - 1, 2**31 - 1, 4), r"elements; input \[2, 3\] has 6"),
    ],
)
def test_refuses_targets(shape: tuple[int, ...], target: tuple[int, ...], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(RESHAPE, [given(FLOAT32, np.zeros(shape)), ints(*target)], wanted(FLOAT32))


@sweep("operation", [RESHAPE, SQUEEZE])
def test_refuses_a_list_of_wrong_rank_at_execution(operation: OperationType) -> None:
    for value in (1, [[1]]):
        late = unknown(given(OperandType.TENSOR_INT32, value))
        listed = Given(operand=late.operand, value=np.asarray(value, np.int32))
        with pytest.raises(BadData, match=r"has rank [02]; rank 1 is expected"):
            evaluate(operation, [given(FLOAT32, np.zeros((1, 1))), listed], wanted(FLOAT32))


def test_the_target_shape_may_be_unknown() -> None:
    arguments = [given(FLOAT32, np.zeros((2, 3))), unknown(ints(3, 2))]
    call = call_of(RESHAPE, arguments, wanted(FLOAT32))
    DEFINITIONS[RESHAPE].check(call)
    with pytest.raises(UnknownValue):
        DEFINITIONS[RESHAPE].shape(call)


@sweep(
    ("shape", "axes", "expected"),
    [
        ((1, 3, 1, 2), (0,), (3, 1, 2)),
        ((1, 3, 1, 2), (-2, 0), (3, 2)),
        ((1, 3, 1, 2), (2, 2, -2), (1, 3, 2)),
        ((1, 3, 1, 2), None, (3, 2)),
        ((3, 2), None, (3, 2)),
        ((1, 1, 1), None, (1,)),
        ((1, 1), (0, 1), (1,)),
        ((1, 0, 1), None, (0,)),
        ((1, 2), (), (1, 2)),
    ],
)
@sweep("operand_type", TYPES[:-1])
def test_squeeze(
    operand_type: OperandType,
    shape: tuple[int, ...],
    axes: tuple[int, ...] | None,
    expected: tuple[int, ...],
) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    listed = omitted(OperandType.TENSOR_INT32) if axes is None else ints(*axes)
    arguments = [given(operand_type, values, *form(operand_type)), listed]
    result = evaluate(SQUEEZE, arguments, wanted(operand_type, *form(operand_type)))
    assert result.shape == expected
    assert result.ravel().tolist() == values.ravel().tolist()


def test_squeeze_refuses_axes() -> None:
    data = given(FLOAT32, np.zeros((1, 3)))
    with pytest.raises(BadData, match=r"axes of SQUEEZE\): axis 1 of \[1, 3\] has length 3; 1 is expected"):
        evaluate(SQUEEZE, [data, ints(-1)], wanted(FLOAT32))
    with pytest.raises(BadData, match=r"axes of SQUEEZE\) is 2; an axis of rank 2, from -2 to 1"):
        evaluate(SQUEEZE, [data, ints(2)], wanted(FLOAT32))


@sweep("operation", [RESHAPE, SQUEEZE])
def test_keeps_scale_and_zero_point(operation: OperationType) -> None:
    data = given(QUANT8_TYPES[0], np.zeros((1, 1)), 0.5, 3)
    with pytest.raises(BadData, match=r"those of input, 0.5 and 3, are expected"):
        evaluate(operation, [data, ints(0)], wanted(QUANT8_TYPES[0], 0.5, 4))


def test_refuses_other_operands() -> None:
    data = given(FLOAT32, np.zeros((1, 3)))
    with pytest.raises(BadData, match=r"operand 1 \(shape of RESHAPE\) has type INT32; TENSOR_INT32"):
        evaluate(RESHAPE, [data, *scalars(3)], wanted(FLOAT32))
    with pytest.raises(BadData, match=r"operand 1 \(shape of RESHAPE\) is omitted; it is not optional"):
        evaluate(RESHAPE, [data, omitted(OperandType.TENSOR_INT32)], wanted(FLOAT32))
    with pytest.raises(BadData, match=r"operand 1 \(shape of RESHAPE\) has rank 2; rank 1 is expected"):
        evaluate(RESHAPE, [data, given(OperandType.TENSOR_INT32, [[3]])], wanted(FLOAT32))


def test_levels() -> None:
    def level(operation: OperationType, operand_type: OperandType) -> FeatureLevel:
        data = given(operand_type, [[1]], *form(operand_type))
        return level_of(operation, [data, ints(0)], wanted(operand_type, *form(operand_type), rank=1))

    levels = [level(RESHAPE, operand_type) for operand_type in TYPES]
    one, three, four = FeatureLevel.LEVEL_1, FeatureLevel.LEVEL_3, FeatureLevel.LEVEL_4
    assert levels == [one, three, one, four, FeatureLevel.LEVEL_6]
    levels = [level(SQUEEZE, operand_type) for operand_type in TYPES[:-1]]
    assert levels == [FeatureLevel.LEVEL_2, three, FeatureLevel.LEVEL_2, four]
