"""Convolutions with TFLite's types against the references."""

from collections.abc import Sequence

import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.single_operation import Given, given, ints, scalars, wanted
from support.operations.windows import SAME, VALID
from support.sweeps import sweep

from neurald.hal.model.graph import ChannelQuant, Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

CONV_2D = OperationType.TFLITE_CONV_2D
DEPTHWISE = OperationType.TFLITE_DEPTHWISE_CONV_2D
TRANSPOSE = OperationType.TFLITE_TRANSPOSE_CONV
FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
SHORT, SIGNED = OperandType.TENSOR_QUANT16_SYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL

SCALES = (0.02, 0.1, 0.004, 0.05, 0.05, 0.3)
PLACEMENTS = [
    (SAME, (1, 1), (1, 1), False),
    (VALID, (2, 1), (1, 1), True),
    (SAME, (2, 3), (1, 1), True),
    (VALID, (1, 1), (2, 1), False),
]
Placement = tuple[int, tuple[int, int], tuple[int, int], bool]


def weights_of(shape: tuple[int, ...], dimension: int, *, per_channel: bool, zero_point: int = 0) -> Given:
    values = np.random.default_rng(0).integers(-127, 128, shape)
    if not per_channel:
        return given(SIGNED, values, SCALES[0], zero_point)
    scales = SCALES[: shape[dimension]]
    return given(PER_CHANNEL, values, channel_quant=ChannelQuant(dimension=dimension, scales=scales))


def images(depth: int, *, nchw: bool, count: int = 3) -> Array:
    generator = np.random.default_rng(1)
    values = generator.standard_normal((count, 6, 5, depth)).astype(np.float32)
    values *= np.array([1, 9, 0.01], np.float32)[:count, None, None, None]
    return np.moveaxis(values, 3, 1) if nchw else values


def tail(placement: Placement, *extra: int, activation: int = 0) -> tuple[Given, ...]:
    scheme, stride, dilation, nchw = placement
    return scalars(scheme, *stride[::-1], *extra, activation, nchw, *dilation[::-1])


def assert_same(kind: OperationType, inputs: Sequence[Given], output: Operand, *fed: int) -> None:
    compare = np.testing.assert_array_equal if output.scale else close
    expect_same(kind, inputs, output, data=fed, compare=compare)


@sweep("placement", PLACEMENTS)
@sweep("groups", [1, 2])
@sweep("per_channel", [False, True])
def test_floats_with_8_bit_weights(placement: Placement, groups: int, *, per_channel: bool) -> None:
    filter_ = weights_of(
        (6, 2, 3, 4 // groups), 0, per_channel=per_channel, zero_point=0 if per_channel else 5
    )
    inputs = (
        given(FLOAT32, images(4, nchw=placement[3])),
        filter_,
        given(FLOAT32, np.arange(6)),
        *tail(placement, activation=1),
    )
    assert_same(CONV_2D, inputs, wanted(FLOAT32, rank=4), 0)
    assert_same(CONV_2D, inputs, wanted(FLOAT32, rank=4), 0, 1, 2)


@sweep("stride", [(1, 1), (2, 1)])
@sweep("dilation", [(3, 2), (1, 4), (7, 2)])
@sweep("groups", [1, 2])
@sweep("per_channel", [False, True])
def test_dilated_windows_beyond_the_image(
    stride: tuple[int, int], dilation: tuple[int, int], groups: int, *, per_channel: bool
) -> None:
    # Images have other zero points, and borders other numbers of taps on them.
    values = images(4, nchw=False) + np.array([0, 5, -0.01], np.float32)[:, None, None, None]
    filter_ = weights_of((6, 3, 3, 4 // groups), 0, per_channel=per_channel)
    placement = (SAME, stride, dilation, False)
    inputs = (given(FLOAT32, values), filter_, given(FLOAT32, np.arange(6)), *tail(placement))
    assert_same(CONV_2D, inputs, wanted(FLOAT32, rank=4), 0)
    assert_same(CONV_2D, inputs, wanted(FLOAT32, rank=4), 0, 1)


@sweep("placement", PLACEMENTS)
@sweep("groups", [1, 2])
@sweep("bias_type", [INT64, INT32])
@sweep("per_channel", [False, True])
def test_16_bit_activations(
    placement: Placement, groups: int, bias_type: OperandType, *, per_channel: bool
) -> None:
    generator = np.random.default_rng(4)
    filter_ = weights_of(
        (6, 2, 3, 4 // groups), 0, per_channel=per_channel, zero_point=0 if per_channel else 3
    )
    scale = 0.0 if per_channel or bias_type is INT64 else float(np.float32(0.01 * SCALES[0]))
    bias = given(bias_type, generator.integers(-100_000, 100_000, 6), scale)
    shape = images(4, nchw=placement[3]).shape
    values = given(SHORT, generator.integers(-32768, 32768, shape), 0.01)
    assert_same(CONV_2D, (values, filter_, bias, *tail(placement)), wanted(SHORT, 2.0, rank=4), 0)
    assert_same(CONV_2D, (values, filter_, bias, *tail(placement)), wanted(SHORT, 2.0, rank=4), 0, 1, 2)


def test_16_bit_sums_beyond_32_bits() -> None:
    filter_ = given(SIGNED, np.full((1, 1, 1, 900), 127), 1.0)
    bias = given(INT64, [-(32767 * 127 * 900) + 77])
    inputs = (given(SHORT, np.full((1, 1, 1, 900), 32767), 1.0), filter_, bias, *tail(PLACEMENTS[0]))
    assert_same(CONV_2D, inputs, wanted(SHORT, 1.0, rank=4), 0)


@sweep("placement", PLACEMENTS)
@sweep("multiplier", [1, 3])
def test_depthwise(placement: Placement, multiplier: int) -> None:
    filter_ = weights_of((1, 2, 3, 2 * multiplier), 3, per_channel=True)
    values = images(2, nchw=placement[3])
    bias = np.arange(2 * multiplier)
    floats = (given(FLOAT32, values), filter_, given(FLOAT32, bias), *tail(placement, multiplier))
    for fed in ((0,), (0, 1, 2)):
        assert_same(DEPTHWISE, floats, wanted(FLOAT32, rank=4), *fed)
    quantized = given(SHORT, np.random.default_rng(3).integers(-32768, 32768, values.shape), 0.01)
    shorts = (quantized, filter_, given(INT64, bias), *tail(placement, multiplier))
    assert_same(DEPTHWISE, shorts, wanted(SHORT, 1.0, rank=4), 0)


@sweep(("scheme", "lengths"), [(SAME, (11, 5)), (VALID, (12, 7)), (VALID, (13, 7))])
@sweep("per_channel", [False, True])
def test_transposed(scheme: int, lengths: tuple[int, int], *, per_channel: bool) -> None:
    filter_ = weights_of((6, 2, 3, 4), 0, per_channel=per_channel, zero_point=0 if per_channel else 9)
    arguments = (ints(3, *lengths, 6), *scalars(scheme, 1, 2, 0, False))
    values = images(4, nchw=False)
    floats = (given(FLOAT32, values), filter_, given(FLOAT32, np.arange(6)), *arguments)
    for fed in ((0,), (0, 1, 2)):
        assert_same(TRANSPOSE, floats, wanted(FLOAT32, rank=4), *fed)
    quantized = given(SHORT, np.random.default_rng(3).integers(-32768, 32768, values.shape), 0.01)
    shorts = (quantized, filter_, given(INT64, np.arange(6)), *arguments)
    assert_same(TRANSPOSE, shorts, wanted(SHORT, 2.0, rank=4), 0)


def test_images_of_zeros_of_one_sign_and_none() -> None:
    filter_, bias = weights_of((6, 2, 3, 4), 0, per_channel=True), given(FLOAT32, np.zeros(6))
    values = np.abs(images(4, nchw=False)) * np.array([0, 1, -1], np.float32)[:, None, None, None]
    assert_same(
        CONV_2D, (given(FLOAT32, values), filter_, bias, *tail(PLACEMENTS[0])), wanted(FLOAT32, rank=4), 0
    )
    none = given(FLOAT32, values[:0])
    assert_same(CONV_2D, (none, filter_, bias, *tail(PLACEMENTS[0])), wanted(FLOAT32, rank=4), 0)
