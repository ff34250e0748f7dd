"""Convolutions and FULLY_CONNECTED against the references."""

import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.single_operation import Given, given, ints, scalars, stored_values, wanted
from support.operations.weighted_sums import QUANT8, SAME, TYPES, VALID, Case, random_case
from support.sweeps import sweep

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

pytestmark = pytest.mark.quick

IDS = [f"{data.name}-{weights.name}" for data, weights in TYPES]


def assert_same(
    operation_type: OperationType, inputs: list[Given] | tuple[Given, ...], output: Operand, *fed: int
) -> None:
    expect_same(
        operation_type,
        inputs,
        output,
        data=fed,
        compare=np.testing.assert_array_equal if output.scale else close,
    )


@sweep("types", TYPES, ids=IDS)
@sweep("depth_multiplier", [None, 1, 3])
def test_convolutions(types: tuple[OperandType, OperandType], depth_multiplier: int | None) -> None:
    kind = OperationType.CONV_2D if depth_multiplier is None else OperationType.DEPTHWISE_CONV_2D
    for seed in range(6):
        case = random_case(np.random.default_rng(seed), types, depth_multiplier=depth_multiplier)
        assert_same(kind, case.inputs, case.output, *((0,) if seed % 2 else (0, 1, 2)))


@sweep("types", TYPES, ids=IDS)
def test_groups(types: tuple[OperandType, OperandType]) -> None:
    case = random_case(np.random.default_rng(1), types, shape=(2, 5, 4, 3))
    values, filter_, bias, *rest = case.inputs
    assert values.value is not None
    operand, doubled = values.operand, np.concatenate([values.value] * 2, 1 if case.placement.nchw else 3)
    assert bias.value is not None
    if len(bias.value) % 2:
        pytest.skip("an odd number of channels makes no two groups")
    activation = 6 if case.placement.scheme is None else 3
    arguments = [*rest[:activation], *scalars(2), rest[activation], *scalars(bool(case.placement.nchw))]
    source = given(operand.type, doubled, operand.scale, operand.zero_point)
    assert_same(OperationType.GROUPED_CONV_2D, [source, filter_, bias, *arguments], case.output, 0)


def _transposed(
    case: Case, stride: tuple[int, int], padding: tuple[Given, ...], *, nchw: bool
) -> list[Given]:
    operand, values = case.values.operand, case.values.value
    assert values is not None
    moved = np.moveaxis(values, 3, 1) if nchw else values
    return [
        given(operand.type, moved, operand.scale, operand.zero_point),
        case.filter,
        case.bias,
        *padding,
        *scalars(stride[1], stride[0], case.activation, nchw),
    ]


@sweep("types", TYPES, ids=IDS)
@sweep("nchw", [False, True])
def test_transposed(types: tuple[OperandType, OperandType], *, nchw: bool) -> None:
    """Includes strides longer than the window, large padding, and negative padding at the end."""
    for seed in range(8):
        generator = np.random.default_rng(seed)
        case = random_case(generator, types)
        assert case.values.value is not None
        assert case.filter.value is not None
        stride = (int(generator.integers(1, 5)), int(generator.integers(1, 5)))
        spans = [
            (n - 1) * s + k
            for n, s, k in zip(
                case.values.value.shape[1:3], stride, case.filter.value.shape[1:3], strict=True
            )
        ]
        pads = []
        for span in spans:
            head = int(generator.integers(0, span))
            pads.append((head, int(generator.integers(-2, span - head))))
        (top, bottom), (left, right) = pads
        inputs = _transposed(case, stride, scalars(left, right, top, bottom), nchw=nchw)
        assert_same(OperationType.TRANSPOSE_CONV_2D, inputs, case.output, *((0,) if seed % 2 else (0, 1, 2)))


@sweep("scheme", [SAME, VALID])
def test_transposed_to_a_shape(scheme: int) -> None:
    case = random_case(np.random.default_rng(3), (QUANT8, QUANT8), shape=(2, 3, 4, 2))
    assert case.filter.value is not None
    channels, rows, columns, _ = case.filter.value.shape
    lengths = (3 * 2, 4 * 3) if scheme == SAME else (2 * 2 + rows, 3 * 3 + columns + 1)
    inputs = _transposed(case, (2, 3), (ints(2, *lengths, channels), *scalars(scheme)), nchw=False)
    assert_same(OperationType.TRANSPOSE_CONV_2D, inputs, case.output, 0)


@sweep("types", [types for types in TYPES if "CHANNEL" not in types[1].name])
@sweep("shape", [(5, 6), (2, 3, 4), (1, 2, 3, 2), (0, 6), (1, 6)])
def test_fully_connected(types: tuple[OperandType, OperandType], shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(7)
    case = random_case(generator, types, shape=(1, 1, 1, 6))
    operand, filter_ = case.values.operand, case.filter.operand
    if not case.output.scale:
        values, weights = (
            given(types[0], generator.normal(size=shape)),
            given(types[0], generator.normal(size=(4, 6))),
        )
        bias = given(types[0], generator.normal(size=4))
    else:
        values = given(types[0], stored_values(generator, types[0], shape), operand.scale, operand.zero_point)
        weights = given(
            types[1], stored_values(generator, types[1], (4, 6)), filter_.scale, filter_.zero_point
        )
        bias = given(OperandType.TENSOR_INT32, generator.integers(-900, 900, 4), case.bias.operand.scale)
    inputs = [values, weights, bias, *scalars(case.activation)]
    output = wanted(types[0], case.output.scale, case.output.zero_point, rank=2)
    assert_same(OperationType.FULLY_CONNECTED, inputs, output, 0)
    assert_same(OperationType.FULLY_CONNECTED, inputs, output, 0, 1, 2)


def test_sums_beyond_32_bits() -> None:
    """Sums many products of the largest magnitudes, which the bias cancels."""
    count = 40_000
    values, weights = (given(QUANT8, np.full((1, count), 255), 1.0) for _ in range(2))
    bias = given(OperandType.TENSOR_INT32, [-(2**31)], 1.0)
    inputs = [values, weights, bias, *scalars(0)]
    assert_same(OperationType.FULLY_CONNECTED, inputs, wanted(QUANT8, 2.0**22, rank=2), 0)


@sweep("types", [types for types in TYPES if "QUANT" in types[0].name])
@sweep("extreme", [-(2**31), 2**31 - 1])
@sweep("operation_type", [OperationType.CONV_2D, OperationType.DEPTHWISE_CONV_2D])
@sweep("fed", [(0,), (0, 2)])
def test_biases_with_which_sums_exceed_32_bits(
    types: tuple[OperandType, OperandType], extreme: int, operation_type: OperationType, fed: tuple[int, ...]
) -> None:
    """The interpreter refuses to rescale what 32 bits do not hold."""
    multiplier = None if operation_type is OperationType.CONV_2D else 1
    case = random_case(np.random.default_rng(5), types, depth_multiplier=multiplier)
    assert case.bias.value is not None
    case.bias.value[...] = extreme
    assert_same(operation_type, case.inputs, case.output, *fed)
