import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import Given, evaluate, given, scalars, stored_values, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT32, FLOAT16, FLOAT64 = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_FLOAT64,
)
COMPLEX, BOOL = OperandType.TENSOR_COMPLEX64, OperandType.TENSOR_BOOL8
UINT8, INT8 = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
UINT16, INT16 = OperandType.TENSOR_QUANT16_ASYMM, OperandType.TENSOR_QUANT16_SYMM
INT32, UINT32 = OperandType.TENSOR_INT32, OperandType.TENSOR_UINT32
INT64, UINT64 = OperandType.TENSOR_INT64, OperandType.TENSOR_UINT64
STORED = (UINT8, INT8, UINT16, INT16)
WHOLE = (*STORED, INT32, UINT32, INT64, UINT64)
TYPES = (FLOAT32, FLOAT16, FLOAT64, *WHOLE, BOOL, COMPLEX)
CAST, BITCAST = OperationType.TFLITE_CAST, OperationType.TFLITE_BITCAST
QUANTIZE, DEQUANTIZE = OperationType.TFLITE_QUANTIZE, OperationType.TFLITE_DEQUANTIZE


def scale_of(operand_type: OperandType) -> float:
    return 1.0 if operand_type in STORED else 0.0


def plain(operand_type: OperandType, values: object) -> Given:
    return given(operand_type, values, scale_of(operand_type))


@sweep("source", TYPES)
@sweep("target", TYPES)
@sweep("shape", [(), (0, 2), (2, 1, 3, 1, 2)])
def test_small_numbers(source: OperandType, target: OperandType, shape: tuple[int, ...]) -> None:
    x = plain(source, np.random.default_rng(0).integers(0, 100, shape))
    result = evaluate(CAST, [x], wanted(target, scale_of(target)))
    np.testing.assert_array_equal(result, value(x).real.astype(target.dtype))


@sweep("target", WHOLE)
def test_reals_out_of_range(target: OperandType) -> None:
    limits = np.iinfo(target.dtype.name)
    x = given(FLOAT32, [np.inf, -np.inf, np.nan, 1e30, -1e30, 3.9, 0.9])
    result = evaluate(CAST, [x], wanted(target, scale_of(target)))
    assert result.tolist() == [limits.max, limits.min, limits.max, limits.max, limits.min, 3, 0]


def test_integers_keep_their_lowest_bits() -> None:
    x = given(INT32, [-1, 300, -129, 2**31 - 1])
    assert evaluate(CAST, [x], wanted(UINT8, 1.0)).tolist() == [255, 44, 127, 255]
    assert evaluate(CAST, [x], wanted(BOOL)).tolist() == [True] * 4


def test_parts_of_complex_numbers() -> None:
    x = given(COMPLEX, [[3 - 4j, 1j]])
    assert evaluate(OperationType.TFLITE_REAL, [x], wanted(FLOAT32)).tolist() == [[3, 0]]
    assert evaluate(OperationType.TFLITE_IMAG, [x], wanted(FLOAT32)).tolist() == [[-4, 1]]
    assert evaluate(OperationType.TFLITE_COMPLEX_ABS, [x], wanted(FLOAT32)).tolist() == [[5, 1]]
    assert evaluate(CAST, [x], wanted(INT32)).tolist() == [[3, 0]]


@sweep("source", WHOLE)
@sweep("target", WHOLE)
def test_bits(source: OperandType, target: OperandType) -> None:
    sizes = source.dtype.itemsize, target.dtype.itemsize
    shape = (3, max(1, sizes[1] // sizes[0])) if sizes[1] > sizes[0] else (3,)
    limits = np.iinfo(source.dtype.name)
    values = np.random.default_rng(0).integers(
        limits.min, limits.max, shape, source.dtype.name, endpoint=True
    )
    result = evaluate(BITCAST, [plain(source, values)], wanted(target, scale_of(target)))
    assert result.tobytes() == values.tobytes()
    assert result.shape == ((3, sizes[0] // sizes[1]) if sizes[0] > sizes[1] else (3,))


def test_bits_of_bools_and_of_complex_numbers_of_16_bytes() -> None:
    bools = given(BOOL, [[True, False, False, True], [False] * 4])
    assert evaluate(BITCAST, [bools], wanted(INT32)).tolist() == [0x01000001, 0]
    # Every byte but 0 is true.
    numbers = given(INT32, [0x00030001, 256])
    expected = [[True, False, True, False], [False, True, False, False]]
    assert evaluate(BITCAST, [numbers], wanted(BOOL)).tolist() == expected
    wide = given(OperandType.TENSOR_COMPLEX128, [1 + 2j, -3j])
    parts = evaluate(BITCAST, [wide], wanted(OperandType.TENSOR_FLOAT64))
    assert parts.tolist() == [[1, 2], [0, -3]]
    again = evaluate(
        BITCAST, [given(OperandType.TENSOR_FLOAT64, parts)], wanted(OperandType.TENSOR_COMPLEX128)
    )
    assert again.tolist() == [1 + 2j, -3j]


@sweep("shape", [(), (3,), (2, 3)])
def test_refuses_bitcasts(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadData, match="a last length of 4 is expected"):
        evaluate(BITCAST, [plain(UINT8, np.zeros(shape))], wanted(INT32))


@sweep("source", STORED)
@sweep("target", STORED)
@sweep("shape", [(), (0, 2), (2, 1, 3, 2, 20)])
def test_requantization(source: OperandType, target: OperandType, shape: tuple[int, ...]) -> None:
    zeros = {UINT8: 130, INT8: -3, UINT16: 30000, INT16: 0}
    x = given(source, stored_values(np.random.default_rng(0), source, shape), 0.375, zeros[source])
    result = evaluate(QUANTIZE, [x], wanted(target, 0.5, zeros[target])).astype(float)
    limits = np.iinfo(target.dtype.name)
    expected = (value(x).astype(float) - zeros[source]) * 0.75 + zeros[target]
    assert np.abs(result - np.clip(expected, limits.min, limits.max)).max(initial=0) <= 0.51


@sweep("quantized", STORED)
@sweep("real", [FLOAT32, FLOAT16])
def test_quantize_and_dequantize(quantized: OperandType, real: OperandType) -> None:
    limits = np.iinfo(quantized.dtype.name)
    zero = 0 if quantized is INT16 else limits.min + 50
    x = given(quantized, np.arange(limits.min, limits.min + 200).reshape(2, 1, 5, 1, 20), 0.25, zero)
    middle = evaluate(DEQUANTIZE, [x], wanted(real))
    np.testing.assert_array_equal(middle, ((value(x).astype(np.float64) - zero) * 0.25).astype(real.dtype))
    back = evaluate(QUANTIZE, [given(real, middle)], wanted(quantized, 0.25, zero)).astype(int)
    assert np.abs(back - value(x)).max() <= (0 if real is FLOAT32 or quantized in (UINT8, INT8) else 32)


def test_scales_of_channels() -> None:
    quant = ChannelQuant(dimension=1, scales=(0.5, 2.0))
    x = given(OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, np.ones((1, 2, 1, 1, 2)), channel_quant=quant)
    assert evaluate(DEQUANTIZE, [x], wanted(FLOAT32)).reshape(-1).tolist() == [0.5, 0.5, 2, 2]


@sweep(("low", "high"), [(-1.0, 1.0), (0.0, 6.0), (-0.3, 5.1), (-3.0, 0.0)])
@sweep("bits", [2, 8, 16])
def test_fake_quantization(low: float, high: float, bits: int) -> None:
    x = given(FLOAT32, np.random.default_rng(0).normal(size=(3, 40)) * 4)
    result = evaluate(OperationType.TFLITE_FAKE_QUANT, [x, *scalars(low, high, bits)], wanted(FLOAT32))
    step = (high - low) / (2**bits - 1)
    assert np.abs(result - np.clip(value(x), low, high)).max() <= 1.01 * step
    assert np.abs(result / step - np.round(result / step)).max() < 0.05
    zero = evaluate(
        OperationType.TFLITE_FAKE_QUANT, [given(FLOAT32, [0]), *scalars(low, high, bits)], wanted(FLOAT32)
    )
    assert abs(zero[0]) < 1e-6


@sweep(
    ("low", "high", "bits"),
    [(1.0, 2.0, 8), (0.0, 0.0, 8), (-1.0, 1.0, 1), (-1.0, 1.0, 17), (-1.0, float("inf"), 8)],
)
def test_refuses_ranges(low: float, high: float, bits: int) -> None:
    with pytest.raises(BadData, match=r"range|bits"):
        evaluate(
            OperationType.TFLITE_FAKE_QUANT, [given(FLOAT32, [0]), *scalars(low, high, bits)], wanted(FLOAT32)
        )
