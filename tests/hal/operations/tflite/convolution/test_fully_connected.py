import math
from fractions import Fraction

import numpy as np
import pytest
from support.operations.single_operation import (
    Given,
    call_of,
    evaluate,
    given,
    omitted,
    scalars,
    unknown,
    wanted,
)
from support.operations.weighted_sums import multiplier
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.arithmetic.fixed_point import single_ratio
from neurald.hal.operations.arithmetic.row_quantization import quantize_rows
from neurald.hal.operations.machinery.call import UnknownValue

FULLY_CONNECTED = OperationType.TFLITE_FULLY_CONNECTED
FLOAT32, INT32, INT64 = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64)
QUANT8, SIGNED = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
SHORT, PER_CHANNEL = OperandType.TENSOR_QUANT16_SYMM, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL

SCALES = (0.02, 0.3, 0.004, 0.05)


def weights_of(units: int, depth: int, *, per_channel: bool) -> Given:
    values = np.random.default_rng(1).integers(-127, 128, (units, depth))
    if not per_channel:
        return given(SIGNED, values, SCALES[0])
    return given(PER_CHANNEL, values, channel_quant=ChannelQuant(dimension=0, scales=SCALES[:units]))


def rounded_once(total: int, real: float) -> int:
    mantissa, exponent = multiplier(real)
    return math.floor(Fraction(total * mantissa) * Fraction(2) ** (exponent - 31) + Fraction(1, 2))


@sweep(
    ("shape", "keep", "expected"),
    [
        ((5, 6), False, (5, 4)),
        ((6,), False, (1, 4)),
        ((6,), True, (4,)),
        ((2, 3, 6), False, (6, 4)),
        ((2, 3, 6), True, (2, 3, 4)),
        ((2, 1, 2, 1, 3, 6), True, (2, 1, 2, 1, 3, 4)),
        ((4, 3), False, (2, 4)),
        ((0, 6), False, (0, 4)),
        ((2, 0, 6), True, (2, 0, 4)),
    ],
)
def test_shapes(shape: tuple[int, ...], expected: tuple[int, ...], *, keep: bool) -> None:
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    weights = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
    inputs = (given(FLOAT32, x), given(FLOAT32, weights), omitted(FLOAT32), *scalars(0, keep))
    result = evaluate(FULLY_CONNECTED, inputs, wanted(FLOAT32))
    assert result.shape == expected
    np.testing.assert_allclose(result, (x.reshape(-1, 6) @ weights.T).reshape(expected), rtol=1e-5, atol=1e-5)


@sweep(
    ("shape", "depth", "keep", "expected"),
    [
        ((5, 6), 6, False, (5, 0)),
        ((2, 3, 6), 6, True, (2, 3, 0)),
        ((4, 3), 6, False, (2, 0)),
        ((0, 6), 6, False, (0, 0)),
        ((2, 0), 0, False, (2, 0)),
        ((3, 2**18), 2**18, False, (3, 0)),
    ],
)
@sweep("kind", [FLOAT32, SIGNED])
def test_filters_without_rows(
    shape: tuple[int, ...], depth: int, kind: OperandType, expected: tuple[int, ...], *, keep: bool
) -> None:
    scale = 0.5 if kind is SIGNED else 0.0
    inputs = given(kind, np.zeros(shape), scale), given(kind, np.zeros((0, depth)), scale)
    for bias in (omitted(FLOAT32), given(FLOAT32, [])) if kind is FLOAT32 else (given(INT32, [], scale**2),):
        result = evaluate(FULLY_CONNECTED, (*inputs, bias, *scalars(0, keep)), wanted(kind, scale))
        assert result.shape == expected


@sweep("asymmetric", [False, True])
@sweep("per_channel", [False, True])
@sweep("has_bias", [False, True])
def test_floats_with_8_bit_weights(*, asymmetric: bool, per_channel: bool, has_bias: bool) -> None:
    x = (np.random.default_rng(4).standard_normal((7, 9)) * np.logspace(-2, 3, 7)[:, None]).astype(np.float32)
    weights = weights_of(4, 9, per_channel=per_channel)
    bias = given(FLOAT32, [1, 2, -3, 4]) if has_bias else omitted(FLOAT32)
    inputs = (given(FLOAT32, x), weights, bias, *scalars(1, False, asymmetric))
    result = evaluate(FULLY_CONNECTED, inputs, wanted(FLOAT32))
    quantized, scales, zero_points = quantize_rows(x, asymmetric=asymmetric)
    assert weights.value is not None
    sums = (quantized.astype(np.int64) - zero_points[:, None]) @ weights.value.T.astype(np.int64)
    expected = sums * scales[:, None].astype(float) * (SCALES if per_channel else SCALES[0])
    if has_bias:
        expected += [1, 2, -3, 4]
    np.testing.assert_allclose(result, np.maximum(expected, 0), rtol=1e-5, atol=1e-5)


@sweep(
    ("kind", "scale", "zero_point", "out_scale"),
    [(QUANT8, 0.05, 7, 0.6), (SIGNED, 0.05, -11, 0.6), (SHORT, 0.001, 0, 0.0018)],
)
@sweep("per_channel", [False, True])
@sweep("has_bias", [False, True])
def test_quantized_sums_are_rounded_once(
    kind: OperandType, scale: float, zero_point: int, out_scale: float, *, per_channel: bool, has_bias: bool
) -> None:
    limits = np.iinfo(kind.dtype.name)
    generator = np.random.default_rng(5)
    x = generator.integers(limits.min, limits.max + 1, (50, 6))
    weights = weights_of(4, 6, per_channel=per_channel)
    assert weights.value is not None
    matrix = weights.value.astype(np.int64)
    offsets = generator.integers(-1000, 1000, 4) if has_bias else np.zeros(4, np.int64)
    bias_type = INT64 if kind is SHORT else INT32
    bias_scale = 0.0 if per_channel or kind is SHORT else float(np.float32(scale * SCALES[0]))
    bias = given(bias_type, offsets, bias_scale) if has_bias else omitted(FLOAT32)
    is_unsigned = kind is QUANT8 and not per_channel
    fed = given(QUANT8, matrix + 128, SCALES[0], 128) if is_unsigned else weights
    inputs = (given(kind, x, scale, zero_point), fed, bias, *scalars(0))
    out_zero = 0 if kind is SHORT else zero_point + 3
    result = evaluate(FULLY_CONNECTED, inputs, wanted(kind, out_scale, out_zero))
    totals = (x - zero_point) @ matrix.T + offsets
    for unit in range(4):
        # One scale for all weights is multiplied in float32, but not for biases of 64 bits.
        is_exact = per_channel or (kind is SHORT and has_bias)
        product = scale * SCALES[unit * per_channel] if is_exact else single_ratio(scale, SCALES[0], 1.0)
        real = product / out_scale
        expected = [
            max(limits.min, min(limits.max, rounded_once(total, real) + out_zero))
            for total in totals[:, unit].tolist()
        ]
        assert result[:, unit].tolist() == expected


@sweep("zero_point", [0, 3])
@sweep("bias", [None, INT32, INT64])
def test_16_bit_multipliers(bias: OperandType | None, zero_point: int) -> None:
    """LiteRT's reference kernel multiplies the scales in float64, others in float32."""
    scale, weight_scale, sums = float(np.float32(0.002)), float(np.float32(0.05)), -np.arange(10, 32760, 20)
    product = single_ratio(scale, weight_scale, 1.0)
    x = given(SHORT, sums[:, None], scale)
    offset = omitted(FLOAT32) if bias is None else given(bias, [0], product if bias is INT32 else 0.0)
    inputs = (x, given(SIGNED, [[1 + zero_point]], weight_scale, zero_point), offset, *scalars(0))
    result = evaluate(FULLY_CONNECTED, inputs, wanted(SHORT, scale))
    # The scale of weights is a little larger than 1/20, so that every sum is below a tie.
    is_exact = bias is INT64 or zero_point != 0
    assert (result[:, 0] == sums // 20).all() == is_exact


@sweep("zero_point", [0, 3])
@sweep("bias", [None, INT32, INT64])
def test_16_bit_ties(bias: OperandType | None, zero_point: int) -> None:
    """With weights of a zero point or 64-bit biases, LiteRT's kernel rounds ties away from 0."""
    x = given(SHORT, np.arange(-40, 40)[:, None], 0.125)
    offset = omitted(FLOAT32) if bias is None else given(bias, [0], 0.125 if bias is INT32 else 0.0)
    inputs = (x, given(SIGNED, [[1 + zero_point]], 1.0, zero_point), offset, *scalars(0))
    result = evaluate(FULLY_CONNECTED, inputs, wanted(SHORT, 1.0))
    sums = np.arange(-40, 40)
    once = np.sign(sums) * ((np.abs(sums) + 4) >> 3)
    twice = (((sums + 1) >> 1) + 2) >> 2
    is_once = bias is INT64 or zero_point
    assert result[:, 0].tolist() == (once if is_once else twice).tolist()


@sweep(
    ("kinds", "message"),
    [
        ((SIGNED, SIGNED, SHORT), "expected with the types of the other operands"),
        ((QUANT8, SIGNED, SHORT), "expected with the types of the other operands"),
        ((SHORT, SHORT, SIGNED), "expected with the types of the other operands"),
        ((SIGNED, SHORT, SIGNED), "expected with the types of the other operands"),
    ],
)
def test_refuses_mixed_types(kinds: tuple[OperandType, ...], message: str) -> None:
    first, second, output = kinds
    inputs = (given(first, [[1, 2]], 1.0), given(second, [[1, 2]], 1.0), omitted(FLOAT32), *scalars(0))
    with pytest.raises(BadData, match=message):
        evaluate(FULLY_CONNECTED, inputs, wanted(output, 1.0))


def test_8_bit_weights_with_a_zero_point() -> None:
    """The zero point is used if all operands are quantised, and ignored for float inputs."""
    weights = given(SIGNED, [[1, 2], [3, 4]], 1.0, 10)
    quantized = (given(SIGNED, [[5, 6]], 1.0), weights, omitted(FLOAT32), *scalars(0))
    assert evaluate(FULLY_CONNECTED, quantized, wanted(SIGNED, 1.0)).tolist() == [[-93, -71]]
    floats = (given(FLOAT32, [[127, 127]]), weights, omitted(FLOAT32), *scalars(0))
    assert evaluate(FULLY_CONNECTED, floats, wanted(FLOAT32)).tolist() == [[381, 889]]


@sweep(
    ("shape", "keep", "message"),
    [
        ((2, 3, 4), True, "a last dimension of 6"),
        ((), True, "a last dimension of 6"),
        ((5,), False, "a multiple of 6"),
    ],
)
def test_refuses_rows_of_other_lengths(shape: tuple[int, ...], message: str, *, keep: bool) -> None:
    inputs = (
        given(FLOAT32, np.zeros(shape)),
        given(FLOAT32, np.zeros((4, 6))),
        omitted(FLOAT32),
        *scalars(0, keep),
    )
    with pytest.raises(BadData, match=message):
        evaluate(FULLY_CONNECTED, inputs, wanted(FLOAT32))


def test_unknown_shapes() -> None:
    inputs = (
        unknown(given(FLOAT32, np.zeros((1, 6)))),
        unknown(given(FLOAT32, np.zeros((4, 6)))),
        omitted(FLOAT32),
        *scalars(0, True),
    )
    call = call_of(FULLY_CONNECTED, inputs, wanted(FLOAT32))
    DEFINITIONS[FULLY_CONNECTED].check(call)
    with pytest.raises(UnknownValue):
        DEFINITIONS[FULLY_CONNECTED].output_shapes(call)


def blockwise(depth: int, blocks: int) -> tuple[Given, Given]:
    """Returns weights of 3 units with scale 1, and the scales of their blocks."""
    generator = np.random.default_rng(11)
    scales = generator.uniform(0.01, 0.1, (3, blocks)).astype(np.float16)
    return given(SIGNED, generator.integers(-8, 8, (3, depth)), 1.0), given(FLOAT32, scales)


@sweep("asymmetric", [False, True])
@sweep(("depth", "blocks"), [(12, 1), (12, 3), (12, 12)])
@sweep("has_bias", [False, True])
def test_a_scale_for_each_block(depth: int, blocks: int, *, asymmetric: bool, has_bias: bool) -> None:
    x = np.random.default_rng(12).uniform(-1, 3, (2, 5, depth)).astype(np.float32)
    weights, scales = blockwise(depth, blocks)
    bias = given(FLOAT32, [1, 2, -3]) if has_bias else omitted(FLOAT32)
    inputs = (given(FLOAT32, x), weights, bias, *scalars(1, True, asymmetric, False), scales)
    result = evaluate(FULLY_CONNECTED, inputs, wanted(FLOAT32))
    quantized, row_scales, zero_points = quantize_rows(x.reshape(10, depth), asymmetric=asymmetric)
    assert weights.value is not None
    assert scales.value is not None
    real = (quantized.astype(float) - zero_points[:, None]) * row_scales[:, None]
    matrix = weights.value * np.repeat(scales.value, depth // blocks, axis=1)
    expected = np.maximum(real @ matrix.T + ([1, 2, -3] if has_bias else 0), 0)
    assert result.shape == (2, 5, 3)
    np.testing.assert_allclose(result.reshape(10, 3), expected, rtol=1e-5, atol=1e-5)


@sweep(
    ("shape", "zero_point", "rule"),
    [((3, 5), 0, "as many scales"), ((2, 4), 0, "3 rows"), ((3, 0), 0, "blocks"), ((3, 4), 1, "zero point")],
)
def test_refuses_blocks(shape: tuple[int, int], zero_point: int, rule: str) -> None:
    weights = given(SIGNED, np.ones((3, 12)), 1.0, zero_point)
    inputs = (given(FLOAT32, np.ones((2, 12))), weights, omitted(FLOAT32), *scalars(0, False, False, False))
    call = call_of(FULLY_CONNECTED, (*inputs, given(FLOAT32, np.ones(shape))), wanted(FLOAT32))
    with pytest.raises(BadData, match=rule):
        DEFINITIONS[FULLY_CONNECTED].check(call)


def test_blockwise_weights_need_a_single_scale() -> None:
    inputs = (given(FLOAT32, np.ones((2, 12))), weights_of(3, 12, per_channel=True), omitted(FLOAT32))
    scales = given(FLOAT32, np.ones((3, 4)))
    call = call_of(FULLY_CONNECTED, (*inputs, *scalars(0, False, False, False), scales), wanted(FLOAT32))
    with pytest.raises(BadData, match="TENSOR_QUANT8_ASYMM_SIGNED"):
        DEFINITIONS[FULLY_CONNECTED].check(call)
