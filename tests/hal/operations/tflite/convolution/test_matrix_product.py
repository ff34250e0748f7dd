import numpy as np
import pytest
from support.operations.single_operation import evaluate, given, scalars, wanted
from support.operations.weighted_sums import multiplied, multiplier
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.arithmetic.row_quantization import quantize_rows
from neurald.hal.operations.machinery.call import Array

BATCH_MATMUL = OperationType.TFLITE_BATCH_MATMUL
FLOAT32, FLOAT16, INT32 = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_INT32,
)
SIGNED, SHORT = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT16_SYMM
PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL

SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (3, 4, 5)),
    ((1, 2, 1, 3, 4), (2, 1, 2, 4, 5)),
    ((0, 3, 4), (1, 4, 5)),
    ((2, 3, 0), (2, 0, 5)),
]


def maybe_adjoint(values: Array, *, adjoint: bool) -> Array:
    return np.ascontiguousarray(values.swapaxes(-1, -2)) if adjoint else values


@sweep("shapes", SHAPES)
@sweep("adjoint1", [False, True])
@sweep("adjoint2", [False, True])
def test_batches_broadcast(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], *, adjoint1: bool, adjoint2: bool
) -> None:
    generator = np.random.default_rng(1)
    first, second = (generator.integers(-128, 128, shape) for shape in shapes)
    exact = first @ second
    flags = scalars(adjoint1, adjoint2)
    factors = maybe_adjoint(first, adjoint=adjoint1), maybe_adjoint(second, adjoint=adjoint2)
    for kind in (FLOAT32, INT32):
        inputs = (*(given(kind, factor) for factor in factors), *flags)
        np.testing.assert_array_equal(evaluate(BATCH_MATMUL, inputs, wanted(kind)), exact)
    inputs = (*(given(SIGNED, factor, 0.5, 3) for factor in factors), *flags)
    np.testing.assert_array_equal(evaluate(BATCH_MATMUL, inputs, wanted(INT32)), exact)


def test_float16_sums_in_float32() -> None:
    first, second = np.full((1, 3000), 1.0), np.full((3000, 1), 1.0)
    inputs = given(FLOAT16, first), given(FLOAT16, second)
    assert evaluate(BATCH_MATMUL, inputs, wanted(FLOAT16)).item() == 3000


@sweep("shapes", SHAPES)
@sweep("asymmetric", [False, True])
@sweep("adjoint2", [False, True])
@sweep("per_channel", [False, True])
def test_floats_times_an_8_bit_matrix(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], *, asymmetric: bool, adjoint2: bool, per_channel: bool
) -> None:
    generator = np.random.default_rng(2)
    first = generator.standard_normal(shapes[0]).astype(np.float32)
    matrix = maybe_adjoint(generator.integers(-128, 128, shapes[1]), adjoint=adjoint2)
    scales = np.array([0.5, 0.1, 2, 1, 0.25] if per_channel else [0.5], np.float32)
    if per_channel:
        quant = ChannelQuant(dimension=matrix.ndim - 2 + (not adjoint2), scales=tuple(scales.tolist()))
        second = given(PER_CHANNEL, matrix, channel_quant=quant)
    else:
        second = given(SIGNED, matrix, 0.5)
    inputs = (given(FLOAT32, first), second, *scalars(False, adjoint2, asymmetric))
    result = evaluate(BATCH_MATMUL, inputs, wanted(FLOAT32))
    rows = first.reshape(int(np.prod(first.shape[:-1])), first.shape[-1])
    quantized, row_scales, zero_points = quantize_rows(rows, asymmetric=asymmetric)
    centred = (quantized.astype(np.int64) - zero_points[:, None]).reshape(first.shape)
    exact = (centred @ maybe_adjoint(matrix, adjoint=adjoint2)).astype(float)
    expected = exact * row_scales.reshape(*first.shape[:-1], 1) * scales
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_quantized_products() -> None:
    generator = np.random.default_rng(3)
    first, second = generator.integers(-128, 128, (2, 9, 7)), generator.integers(-128, 128, (7, 8))
    inputs = given(SIGNED, first, 0.5, 3), given(SIGNED, second, 0.25, -9)
    result = evaluate(BATCH_MATMUL, inputs, wanted(SIGNED, 40.0, 5))
    totals = ((first - 3) @ (second + 9)).reshape(-1).tolist()
    expected = [max(-128, min(127, multiplied(v, *multiplier(0.125 / 40)) + 5)) for v in totals]
    assert result.reshape(-1).tolist() == expected


@sweep("second_type", [SHORT, SIGNED])
def test_16_bit_products(second_type: OperandType) -> None:
    generator = np.random.default_rng(4)
    limits = np.iinfo(second_type.dtype.name)
    first = generator.integers(-32768, 32768, (9, 7))
    second = generator.integers(limits.min, limits.max + 1, (7, 8))
    scale = 0.3 if second_type is SIGNED else 77.0
    inputs = given(SHORT, first, 0.05), given(second_type, second, 0.05)
    result = evaluate(BATCH_MATMUL, inputs, wanted(SHORT, scale))
    mantissa, exponent = multiplier(0.05 * 0.05 / scale)
    upper, shift = (mantissa + (1 << 15)) >> 16, 15 - exponent
    totals = (first @ second).reshape(-1).tolist()
    expected = [max(-32768, min(32767, (v * upper + (1 << (shift - 1))) >> shift)) for v in totals]
    assert result.reshape(-1).tolist() == expected


@sweep(("first", "second"), [((3, 4), (5, 4)), ((2, 3, 4), (3, 4, 5)), ((3, 4), (2, 3, 5))])
def test_refuses_matrices(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    with pytest.raises(BadData, match="cannot multiply matrices"):
        evaluate(
            BATCH_MATMUL, (given(FLOAT32, np.zeros(first)), given(FLOAT32, np.zeros(second))), wanted(FLOAT32)
        )


@sweep(("dimension", "count", "adjoint2"), [(0, 4, False), (1, 5, True)])
def test_channel_scales_must_belong_to_columns(dimension: int, count: int, *, adjoint2: bool) -> None:
    quant = ChannelQuant(dimension=dimension, scales=(0.5,) * count)
    second = given(PER_CHANNEL, np.zeros((4, 5)), channel_quant=quant)
    first = given(FLOAT32, np.zeros((3, 5 if adjoint2 else 4)))
    with pytest.raises(BadData, match="columns of the product"):
        evaluate(BATCH_MATMUL, (first, second, *scalars(False, adjoint2)), wanted(FLOAT32))
