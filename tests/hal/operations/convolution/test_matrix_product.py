from typing import Any

import numpy as np
import pytest
from support.operations.exact import cut, multiplier, times
from support.operations.single_operation import (
    Given,
    evaluate,
    given,
    level_of,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array

MATMUL = OperationType.BATCH_MATMUL
FLOAT32, FLOAT16 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16
SIGNED, INT32 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_INT32

#: Batches, rows, depth, columns.
SIZES = [
    ((), 2, 3, 4),
    ((3,), 1, 5, 2),
    ((2, 3), 4, 1, 1),
    ((1, 2), 3, 7, 2),
    ((0,), 2, 3, 2),
    ((2,), 0, 3, 2),
    ((2,), 2, 0, 3),
]


def product(first: Array, second: Array) -> Array:
    """Computes one sum after the other with Python's numbers."""
    shape = (*first.shape[:-1], second.shape[-1])
    result = np.zeros(shape, object)
    for index in np.ndindex(shape):
        *batch, row, column = index
        lefts, rights = first[(*batch, row)], second[(*batch, slice(None), column)]
        result[index] = sum(
            (left.item() * right.item() for left, right in zip(lefts, rights, strict=True)), 0
        )
    return result


def maybe_adjoint(source: Given, adjoint: bool) -> Given:
    assert source.value is not None
    operand = source.operand
    values = np.swapaxes(source.value, -1, -2) if adjoint else source.value
    return given(operand.type, values, operand.scale, operand.zero_point)


def run(first: Given, second: Given, output: Any, adjoints: tuple[bool, bool]) -> Array:
    flags = adjoints[: 1 + max((i for i, flag in enumerate(adjoints) if flag), default=-1)]
    factors = [
        maybe_adjoint(source, adjoint) for source, adjoint in zip((first, second), adjoints, strict=True)
    ]
    return evaluate(MATMUL, [*factors, *scalars(*flags)], output)


ADJOINTS = [(False, False), (True, False), (False, True), (True, True)]


@sweep("adjoints", ADJOINTS)
@sweep("size", SIZES)
@sweep("operand_type", [FLOAT32, FLOAT16])
def test_floats(operand_type: OperandType, size: Any, adjoints: tuple[bool, bool]) -> None:
    batches, rows, depth, columns = size
    generator = np.random.default_rng(depth)
    first = given(operand_type, generator.normal(size=(*batches, rows, depth)))
    second = given(operand_type, generator.normal(size=(*batches, depth, columns)))
    assert first.value is not None
    assert second.value is not None
    result = run(first, second, wanted(operand_type), adjoints)
    rounding = 2e-6 if operand_type is FLOAT32 else 2.0**-10
    expected = product(first.value, second.value).astype(np.float64)
    np.testing.assert_allclose(result, expected, rtol=rounding, atol=rounding)


@sweep("adjoints", ADJOINTS)
@sweep("size", SIZES)
def test_integers_wrap_around(size: Any, adjoints: tuple[bool, bool]) -> None:
    batches, rows, depth, columns = size
    generator = np.random.default_rng(depth)
    first, second = (
        given(INT32, generator.integers(-(2**31), 2**31, shape))
        for shape in ((*batches, rows, depth), (*batches, depth, columns))
    )
    assert first.value is not None
    assert second.value is not None
    expected = [(sum_ + 2**31) % 2**32 - 2**31 for sum_ in product(first.value, second.value).ravel()]
    assert run(first, second, wanted(INT32), adjoints).ravel().tolist() == expected


@sweep("adjoints", ADJOINTS)
@sweep("scale", [0.5, 0.013, 0.0001])
@sweep("size", SIZES)
def test_quantized_values(size: Any, scale: float, adjoints: tuple[bool, bool]) -> None:
    batches, rows, depth, columns = size
    generator = np.random.default_rng(depth)
    first, second = (
        given(SIGNED, stored_values(generator, SIGNED, shape), 0.05, zero_point)
        for shape, zero_point in (((*batches, rows, depth), -128), ((*batches, depth, columns), 17))
    )
    assert first.value is not None
    assert second.value is not None
    sums = product(first.value.astype(np.int64) + 128, second.value.astype(np.int64) - 17)
    factor = multiplier(0.05 * 0.05 / scale)
    expected = [cut(times(int(sum_), *factor) - 40, "int8") for sum_ in sums.ravel()]
    assert run(first, second, wanted(SIGNED, scale, -40), adjoints).ravel().tolist() == expected


@sweep(
    ("first", "second", "flags"),
    [
        ((2, 3), (2, 3), ()),
        ((2, 3), (3, 2), (True,)),
        ((2, 3), (3, 2), (False, True)),
        ((2, 2, 3), (1, 3, 2), ()),
        ((1, 2, 3), (3, 2), ()),
    ],
)
def test_refuses_shapes(first: tuple[int, ...], second: tuple[int, ...], flags: tuple[bool, ...]) -> None:
    inputs = [given(FLOAT32, np.zeros(first)), given(FLOAT32, np.zeros(second)), *scalars(*flags)]
    with pytest.raises(BadData, match=r"BATCH_MATMUL cannot multiply matrices of shapes \["):
        evaluate(MATMUL, inputs, wanted(FLOAT32))


@sweep("shape", [(3,), (1, 1, 1, 2, 2)])
def test_refuses_ranks(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadData, match=r"input1 of BATCH_MATMUL.*; a rank from 2 to 4 is expected"):
        evaluate(MATMUL, [given(FLOAT32, np.zeros(shape)), given(FLOAT32, np.zeros((2, 2)))], wanted(FLOAT32))


def test_refuses_different_types() -> None:
    with pytest.raises(BadData, match=r"input2 of BATCH_MATMUL.* has type TENSOR_FLOAT16"):
        evaluate(
            MATMUL, [given(FLOAT32, np.zeros((2, 2))), given(FLOAT16, np.zeros((2, 2)))], wanted(FLOAT32)
        )


def test_level() -> None:
    matrix = given(FLOAT32, np.zeros((2, 2)))
    assert level_of(MATMUL, [matrix, matrix], wanted(FLOAT32)) == FeatureLevel.LEVEL_6
