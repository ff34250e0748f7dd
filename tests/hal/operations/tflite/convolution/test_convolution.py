import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import (
    Given,
    call_of,
    evaluate,
    given,
    ints,
    scalars,
    unknown,
    wanted,
)
from support.operations.weighted_sums import multiplier
from support.operations.windows import SAME, VALID, convolution_sums, transposed_sums
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.arithmetic.row_quantization import quantize_rows
from neurald.hal.operations.machinery.call import Array, UnknownValue

CONV_2D = OperationType.TFLITE_CONV_2D
DEPTHWISE = OperationType.TFLITE_DEPTHWISE_CONV_2D
TRANSPOSE = OperationType.TFLITE_TRANSPOSE_CONV
FLOAT32, INT32, INT64 = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64)
SHORT, SIGNED = OperandType.TENSOR_QUANT16_SYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL

PLACEMENTS = [
    (SAME, (1, 1), (1, 1)),
    (VALID, (2, 1), (1, 1)),
    (SAME, (2, 3), (1, 1)),
    (VALID, (1, 1), (2, 1)),
]
SCALES: Array = np.array([0.02, 0.1, 0.004, 0.05, 0.05, 0.3], np.float32)


def byte_weights(shape: tuple[int, ...], dimension: int, scales: Array, *, seed: int = 0) -> Given:
    """Returns weights with the given scales: one for each channel, or a single one."""
    values = np.random.default_rng(seed).integers(-127, 128, shape)
    if len(scales) == 1:
        return given(SIGNED, values, float(scales[0]))
    quant = ChannelQuant(dimension=dimension, scales=tuple(map(float, scales)))
    return given(PER_CHANNEL, values, channel_quant=quant)


def tail(placement: tuple[int, tuple[int, int], tuple[int, int]], *extra: int) -> tuple[Given, ...]:
    """Returns padding, strides, extra arguments, no activation, NHWC and dilations."""
    scheme, stride, dilation = placement
    return scalars(scheme, *stride[::-1], *extra, 0, False, *dilation[::-1])


def sums_of(
    x: Array, filter_: Array, groups: int, placement: tuple[int, tuple[int, int], tuple[int, int]]
) -> Array:
    """Returns the sums of a convolution; the filter is (channels, height, width, group depth)."""
    parts = zip(np.split(x, groups, axis=3), np.split(filter_, groups), strict=True)
    scheme, stride, dilation = placement
    return np.concatenate(
        [
            convolution_sums(part.astype(float), np.moveaxis(f.astype(float), 0, 3), scheme, stride, dilation)
            for part, f in parts
        ],
        axis=3,
    )


def quantized_images(x: Array, *, asymmetric: bool) -> tuple[Array, Array]:
    """Returns quantised images without their zero points, and their scales."""
    quantized, scales, zero_points = quantize_rows(x.reshape(len(x), -1), asymmetric=asymmetric)
    centred = quantized.astype(np.int64) - zero_points[:, None]
    return centred.reshape(x.shape), scales.reshape(-1, 1, 1, 1).astype(float)


def random_images(depth: int, seed: int = 1) -> Array:
    generator = np.random.default_rng(seed)
    return (generator.standard_normal((3, 6, 5, depth)) * [[[[1]]], [[[9]]], [[[0.01]]]]).astype(np.float32)


@sweep("placement", PLACEMENTS)
@sweep("groups", [1, 2])
@sweep(("scales", "asymmetric"), [(SCALES, True), (SCALES[:1], False), (SCALES[[1] * 6], False)])
def test_floats_with_8_bit_weights(
    placement: tuple[int, tuple[int, int], tuple[int, int]], groups: int, scales: Array, *, asymmetric: bool
) -> None:
    """Each image has its own scale, and a zero point if the scales of the weights differ."""
    x, filter_ = random_images(4), byte_weights((6, 2, 3, 4 // groups), 0, scales)
    bias = np.arange(6, dtype=np.float32)
    result = evaluate(
        CONV_2D, (given(FLOAT32, x), filter_, given(FLOAT32, bias), *tail(placement)), wanted(FLOAT32, rank=4)
    )
    quantized, image_scales = quantized_images(x, asymmetric=asymmetric)
    expected = sums_of(quantized, value(filter_), groups, placement) * scales * image_scales + bias
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def short(total: int, real: float) -> int:
    """Rescales a sum to 16 bits, with a multiplier of 15 bits and ties upwards."""
    mantissa, exponent = multiplier(real)
    upper = min((mantissa + (1 << 15)) >> 16, 0x7FFF)
    shift = 15 - exponent
    return max(-32768, min(32767, (total * upper + (1 << (shift - 1))) >> shift))


@sweep("placement", PLACEMENTS)
@sweep("groups", [1, 2])
@sweep("bias_type", [INT64, INT32])
def test_16_bit_activations(
    placement: tuple[int, tuple[int, int], tuple[int, int]], groups: int, bias_type: OperandType
) -> None:
    generator = np.random.default_rng(4)
    x = generator.integers(-32768, 32768, (2, 6, 5, 4))
    filter_ = byte_weights((6, 2, 3, 4 // groups), 0, SCALES)
    bias = generator.integers(-100_000, 100_000, 6)
    inputs = (given(SHORT, x, 0.01), filter_, given(bias_type, bias), *tail(placement))
    result = evaluate(CONV_2D, inputs, wanted(SHORT, 2.0, rank=4))
    totals = sums_of(x, value(filter_), groups, placement).astype(np.int64) + bias
    for channel, scale in enumerate(SCALES.tolist()):
        expected = [short(total, scale * 0.01 / 2.0) for total in totals[..., channel].reshape(-1).tolist()]
        assert result[..., channel].reshape(-1).tolist() == expected


def test_16_bit_sums_beyond_float32_are_exact() -> None:
    x = np.full((1, 1, 1, 900), 32767)
    filter_ = given(SIGNED, np.full((1, 1, 1, 900), 127), 1.0)
    inputs = (given(SHORT, x, 1.0), filter_, given(INT64, [-(32767 * 127 * 900) + 77]), *tail(PLACEMENTS[0]))
    assert evaluate(CONV_2D, inputs, wanted(SHORT, 1.0, rank=4)).item() == 77


@sweep("multiplier_", [1, 3])
def test_depthwise(multiplier_: int) -> None:
    x, placement = random_images(2), (SAME, (2, 2), (1, 1))
    channels = 2 * multiplier_
    filter_ = byte_weights((1, 2, 3, channels), 3, SCALES[:channels])
    dense = np.zeros((channels, 2, 3, 2))
    for channel in range(channels):
        dense[channel, ..., channel // multiplier_] = value(filter_)[0, ..., channel]
    bias = np.arange(channels)
    inputs = (given(FLOAT32, x), filter_, given(FLOAT32, bias), *tail(placement, multiplier_))
    result = evaluate(DEPTHWISE, inputs, wanted(FLOAT32, rank=4))
    quantized, image_scales = quantized_images(x, asymmetric=True)
    expected = sums_of(quantized, dense, 1, placement) * SCALES[:channels] * image_scales + bias
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)

    shorts = np.asarray(np.random.default_rng(3).integers(-32768, 32768, x.shape))
    inputs = (given(SHORT, shorts, 0.01), filter_, given(INT64, bias), *tail(placement, multiplier_))
    result = evaluate(DEPTHWISE, inputs, wanted(SHORT, 1.0, rank=4))
    totals = sums_of(shorts, dense, 1, placement).astype(np.int64) + bias
    for channel, scale in enumerate(SCALES[:channels].tolist()):
        expected_shorts = [short(t, scale * 0.01) for t in totals[..., channel].reshape(-1).tolist()]
        assert result[..., channel].reshape(-1).tolist() == expected_shorts


@sweep(("scheme", "lengths"), [(SAME, (11, 5)), (VALID, (12, 7)), (VALID, (13, 7))])
def test_transposed(scheme: int, lengths: tuple[int, int]) -> None:
    x, filter_ = random_images(4), byte_weights((6, 2, 3, 4), 0, SCALES)
    shape = ints(3, *lengths, 6)
    taps = np.moveaxis(value(filter_), 0, 3).astype(float)
    placement = (lengths, scheme, (2, 1), (1, 1))
    arguments = (shape, *scalars(scheme, 1, 2, 0, False))
    bias = np.arange(6)
    inputs = (given(FLOAT32, x), filter_, given(FLOAT32, bias), *arguments)
    result = evaluate(TRANSPOSE, inputs, wanted(FLOAT32, rank=4))
    quantized, image_scales = quantized_images(x, asymmetric=True)
    expected = transposed_sums(quantized.astype(float), taps, *placement) * SCALES * image_scales + bias
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)

    shorts = np.asarray(np.random.default_rng(3).integers(-32768, 32768, x.shape))
    inputs = (given(SHORT, shorts, 0.01), filter_, given(INT64, bias), *arguments)
    result = evaluate(TRANSPOSE, inputs, wanted(SHORT, 2.0, rank=4))
    totals = transposed_sums(shorts.astype(float), taps, *placement).astype(np.int64) + bias
    for channel, scale in enumerate(SCALES.tolist()):
        expected_shorts = [short(t, scale * 0.01 / 2) for t in totals[..., channel].reshape(-1).tolist()]
        assert result[..., channel].reshape(-1).tolist() == expected_shorts


@sweep("nchw", [False, True])
def test_layouts_and_activations(*, nchw: bool) -> None:
    x, filter_ = random_images(4), byte_weights((6, 1, 1, 4), 0, SCALES)
    fed = np.moveaxis(x, 3, 1) if nchw else x
    bias = given(FLOAT32, np.zeros(6))
    inputs = (given(FLOAT32, fed), filter_, bias, *scalars(SAME, 1, 1, 3, nchw))
    result = evaluate(CONV_2D, inputs, wanted(FLOAT32, rank=4))
    plain = evaluate(
        CONV_2D, (given(FLOAT32, x), filter_, bias, *tail(PLACEMENTS[0])), wanted(FLOAT32, rank=4)
    )
    expected = np.clip(plain, 0, 6)
    np.testing.assert_array_equal(result, np.moveaxis(expected, 3, 1) if nchw else expected)


@sweep(
    ("depth", "filter_shape", "message"),
    [
        (4, (6, 1, 1, 3), "the same depth"),
        (4, (5, 1, 1, 2), "a multiple of 2, the number of groups"),
        (4, (6, 1, 1, 8), "the same depth"),
    ],
)
def test_refuses_uneven_groups(depth: int, filter_shape: tuple[int, int, int, int], message: str) -> None:
    bias = given(FLOAT32, np.zeros(filter_shape[0]))
    filter_ = given(SIGNED, np.zeros(filter_shape), 1.0)
    inputs = (given(FLOAT32, np.zeros((1, 2, 2, depth))), filter_, bias, *tail(PLACEMENTS[0]))
    with pytest.raises(BadData, match=message):
        evaluate(CONV_2D, inputs, wanted(FLOAT32, rank=4))


def test_no_images_and_unknown_shapes() -> None:
    filter_, bias = byte_weights((6, 2, 3, 4), 0, SCALES), given(FLOAT32, np.zeros(6))
    x = given(FLOAT32, np.zeros((0, 5, 5, 4)))
    inputs = (x, filter_, bias, *tail(PLACEMENTS[0]))
    assert evaluate(CONV_2D, inputs, wanted(FLOAT32, rank=4)).shape == (0, 5, 5, 6)
    call = call_of(CONV_2D, (unknown(x), filter_, bias, *tail(PLACEMENTS[0])), wanted(FLOAT32, rank=4))
    DEFINITIONS[CONV_2D].check(call)
    with pytest.raises(UnknownValue):
        DEFINITIONS[CONV_2D].output_shapes(call)
