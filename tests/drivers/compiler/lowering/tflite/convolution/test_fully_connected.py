"""FULLY_CONNECTED with TFLite's types against the reference."""

import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.single_operation import Given, given, omitted, scalars, stored_values, wanted
from support.sweeps import sweep

from neurald.drivers.compiler.ir.builder import Unsupported
from neurald.hal.model.graph import ChannelQuant, Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FULLY_CONNECTED = OperationType.TFLITE_FULLY_CONNECTED
FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
QUANT8, SIGNED = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
SHORT, PER_CHANNEL = OperandType.TENSOR_QUANT16_SYMM, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL

SCALES = (0.02, 0.3, 0.004, 0.05)


def weights_of(units: int, depth: int, *, per_channel: bool) -> Given:
    values = np.random.default_rng(1).integers(-127, 128, (units, depth))
    if not per_channel:
        return given(SIGNED, values, SCALES[0])
    return given(PER_CHANNEL, values, channel_quant=ChannelQuant(dimension=0, scales=SCALES[:units]))


def assert_same(inputs: tuple[Given, ...], output: Operand, *fed: int) -> None:
    compare = np.testing.assert_array_equal if output.scale else close
    expect_same(FULLY_CONNECTED, inputs, output, data=fed, compare=compare)


@sweep(
    ("shape", "keep"),
    [
        ((5, 6), False),
        ((6,), False),
        ((6,), True),
        ((2, 3, 6), True),
        ((2, 1, 2, 1, 3, 6), True),
        ((4, 3), False),
        ((0, 6), False),
        ((2, 0, 6), True),
    ],
)
def test_shapes(shape: tuple[int, ...], *, keep: bool) -> None:
    generator = np.random.default_rng(2)
    values, weights = generator.standard_normal(shape), generator.standard_normal((4, 6))
    inputs = (given(FLOAT32, values), given(FLOAT32, weights), omitted(FLOAT32), *scalars(0, keep))
    assert_same(inputs, wanted(FLOAT32), 0)
    assert_same((given(FLOAT32, values), weights_of(4, 6, per_channel=True), *inputs[2:]), wanted(FLOAT32), 0)


@sweep(("shape", "depth"), [((2, 6), 6), ((2, 3, 6), 6), ((0, 6), 6), ((2, 0), 0), ((2, 3, 0), 0)])
@sweep("units", [0, 3])
@sweep("keep", [False, True])
def test_products_of_no_elements(shape: tuple[int, ...], depth: int, units: int, *, keep: bool) -> None:
    values, weights = given(FLOAT32, np.ones(shape)), given(FLOAT32, np.ones((units, depth)))
    bias = given(FLOAT32, np.arange(units))
    assert_same((values, weights, bias, *scalars(0, keep)), wanted(FLOAT32), 0)
    bytes_ = given(SIGNED, np.ones((units, depth)), 0.5)
    assert_same((values, bytes_, bias, *scalars(0, keep)), wanted(FLOAT32), 0)
    inputs = given(SIGNED, np.ones(shape), 0.5), bytes_, given(INT32, np.arange(units), 0.25)
    assert_same((*inputs, *scalars(0, keep)), wanted(SIGNED, 0.5), 0)


@sweep("asymmetric", [False, True])
@sweep("per_channel", [False, True])
@sweep("has_bias", [False, True])
def test_floats_with_8_bit_weights(*, asymmetric: bool, per_channel: bool, has_bias: bool) -> None:
    generator = np.random.default_rng(4)
    values = generator.standard_normal((9, 9)) * np.logspace(-2, 3, 9)[:, None]
    values[7], values[8] = 0, np.abs(values[8])
    bias = given(FLOAT32, [1, 2, -3, 4]) if has_bias else omitted(FLOAT32)
    weights = weights_of(4, 9, per_channel=per_channel)
    inputs = (given(FLOAT32, values), weights, bias, *scalars(1, False, asymmetric))
    assert_same(inputs, wanted(FLOAT32), 0)
    assert_same(inputs, wanted(FLOAT32), 0, 1)


@sweep("asymmetric", [False, True])
def test_nan_is_quantized_to_zero(*, asymmetric: bool) -> None:
    values = [[1.0, float("nan"), -3.0], [float("inf"), 2.0, 0.0]]
    weights = weights_of(2, 3, per_channel=False)
    inputs = (given(FLOAT32, values), weights, omitted(FLOAT32), *scalars(0, False, asymmetric))
    assert_same(inputs, wanted(FLOAT32), 0)


STORED = [
    (QUANT8, QUANT8, QUANT8, INT32),
    (QUANT8, PER_CHANNEL, QUANT8, INT32),
    (SIGNED, SIGNED, SIGNED, None),
    (SIGNED, PER_CHANNEL, SIGNED, None),
    *(
        (SHORT, filter_, SHORT, bias)
        for filter_ in (SIGNED, PER_CHANNEL, SHORT)
        for bias in (None, INT32, INT64)
    ),
    (QUANT8, QUANT8, SHORT, INT32),
]


@sweep(("kind", "filter_type", "output_type", "bias"), STORED)
@sweep("rounds_twice", [False, True])
def test_quantized_values(
    kind: OperandType,
    filter_type: OperandType,
    output_type: OperandType,
    bias: OperandType | None,
    *,
    rounds_twice: bool,
) -> None:
    generator = np.random.default_rng(5)
    scale, zero_point = (0.001, 0) if kind is SHORT else (0.05, 7)
    filter_zero = 0 if filter_type in (SHORT, PER_CHANNEL) else 11
    quant = ChannelQuant(dimension=0, scales=SCALES) if filter_type is PER_CHANNEL else None
    filter_scale = 0.0 if quant else SCALES[0]
    matrix = stored_values(generator, filter_type, (4, 6))
    bias_scale = 0.0 if quant or bias is INT64 else float(np.float32(scale * filter_scale))
    inputs = (
        given(kind, stored_values(generator, kind, (90, 6)), scale, zero_point),
        given(filter_type, matrix, filter_scale, filter_zero, channel_quant=quant),
        omitted(FLOAT32) if bias is None else given(bias, generator.integers(-1000, 1000, 4), bias_scale),
        *scalars(2, False, False, rounds_twice),
    )
    output = wanted(output_type, 0.03, 0 if output_type is SHORT else 5)
    assert_same(inputs, output, 0)
    assert_same(inputs, output, 0, 1, *(() if bias is None else (2,)))


@sweep("zero_point", [0, 3])
@sweep("bias", [None, INT32, INT64])
def test_16_bit_ties(bias: OperandType | None, zero_point: int) -> None:
    values = given(SHORT, np.arange(-40, 40)[:, None], 0.125)
    offset = omitted(FLOAT32) if bias is None else given(bias, [0], 0.125 if bias is INT32 else 0.0)
    inputs = (values, given(SIGNED, [[1 + zero_point]], 1.0, zero_point), offset, *scalars(0))
    assert_same(inputs, wanted(SHORT, 1.0), 0)


def test_a_multiplier_too_large_for_single_rounding_is_refused() -> None:
    inputs = (given(SIGNED, [[1]], 1.0), given(SIGNED, [[1]], 1.0), omitted(FLOAT32), *scalars(0))
    with pytest.raises(Unsupported, match="too large for single rounding"):
        expect_same(FULLY_CONNECTED, inputs, wanted(SIGNED, 1e-6))


@sweep("asymmetric", [False, True])
@sweep(("rows", "blocks"), [(1, 3), (7, 1), (7, 4), (0, 2)])
@sweep("fed", [(0,), (0, 1, 7)])
def test_a_scale_for_each_block(rows: int, blocks: int, fed: tuple[int, ...], *, asymmetric: bool) -> None:
    generator = np.random.default_rng(6)
    values = generator.uniform(-1, 3, (rows, 12))
    weights = given(SIGNED, generator.integers(-8, 8, (4, 12)), 0.5)
    scales = given(FLOAT32, generator.uniform(0.01, 0.1, (4, blocks)))
    bias = given(FLOAT32, [1, 2, -3, 4])
    inputs = (given(FLOAT32, values), weights, bias, *scalars(1, False, asymmetric, False), scales)
    assert_same(inputs, wanted(FLOAT32), *fed)
