from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import Load, fixed, numbers, random, shaped, types

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array

#: Operator → function of two numbers.
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "ATAN2": np.arctan2,
    "EQUAL": np.equal,
    "FLOOR_DIV": lambda x, y: np.floor(x / y),
    "FLOOR_MOD": np.mod,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "NOT_EQUAL": np.not_equal,
    "POW": np.power,
    "SQUARED_DIFFERENCE": lambda x, y: (x - y) ** 2,
}
UNARY: dict[str, Callable[[Array], Array]] = {
    "ABS": np.abs,
    "CEIL": np.ceil,
    "COS": np.cos,
    "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
    "EXP": np.exp,
    "FLOOR": np.floor,
    "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "LOG": np.log,
    "NEG": np.negative,
    "RELU_0_TO_1": lambda x: np.clip(x, 0, 1),
    "ROUND": np.round,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "SIGN": np.sign,
    "SIN": np.sin,
    "SQRT": np.sqrt,
    "SQUARE": np.square,
}
REDUCTIONS: dict[str, Any] = {
    "MEAN": np.mean,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
    "REDUCE_PROD": np.prod,
    "SUM": np.sum,
}


@pytest.mark.parametrize("code", BINARY)
@pytest.mark.parametrize(("first", "second"), [((2, 3), (2, 3)), ((2, 1, 3, 1, 2), (4, 1, 5, 1)), ((), (2,))])
def test_binary_operators(load: Load, code: str, first: Any, second: Any) -> None:
    shape = np.broadcast_shapes(first, second)
    x, y = (np.abs(random(*sides, seed=seed)) + 0.5 for seed, sides in enumerate((first, second)))
    is_truth = BINARY[code](np.ones(1), np.ones(1)).dtype == bool
    model = load(
        code, (shaped(*first), shaped(*second)), shaped(*shape, type_="BOOL" if is_truth else "FLOAT32")
    )
    (result,) = run_references(model, x, y)
    assert result.shape == shape
    np.testing.assert_allclose(result, BINARY[code](x, y), rtol=1e-5)


@pytest.mark.parametrize("code", UNARY)
@pytest.mark.parametrize("shape", [(), (5,), (2, 1, 3, 1, 2, 2)])
def test_unary_operators(load: Load, code: str, shape: tuple[int, ...]) -> None:
    x = random(*shape)
    x = np.abs(x) + 0.5 if code in ("LOG", "RSQRT", "SQRT") else x
    (result,) = run_references(load(code, (shaped(*shape),), shaped(*shape)), x)
    np.testing.assert_allclose(result, UNARY[code](x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("code", REDUCTIONS)
@pytest.mark.parametrize("axes", [1, [-1, 0], [0, 1, 2], []])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("type_", ["FLOAT32", "INT64"])
@pytest.mark.parametrize("is_fed", [False, True])
def test_reductions(load: Load, code: str, axes: Any, type_: str, *, keep: bool, is_fed: bool) -> None:
    x = np.round(random(2, 3, 4))
    given = shaped(*np.shape(axes), type_="INT32") if is_fed else fixed(axes, "INT32")
    source = shaped(2, 3, 4, type_=type_)
    model = load(code, (source, given), shaped(1, type_=type_), "ReducerOptions", KeepDims=keep)
    (result,) = run_references(model, x, *([axes] if is_fed else []))
    expected = REDUCTIONS[code](x, axis=tuple(np.atleast_1d(np.array(axes, int))), keepdims=keep)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(
        result, expected if type_ == "FLOAT32" else np.trunc(expected), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(("code", "function"), [("REDUCE_ALL", np.all), ("REDUCE_ANY", np.any)])
def test_reductions_of_booleans(load: Load, code: str, function: Callable[..., Array]) -> None:
    x = random(2, 3) > 2
    model = load(
        code, (shaped(2, 3, type_="BOOL"), fixed([1], "INT32")), shaped(2, type_="BOOL"), "ReducerOptions"
    )
    assert types(model) == [OperationType[code]]
    np.testing.assert_array_equal(run_references(model, x)[0], function(x, axis=1))


@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 3, 2, 2)])
def test_a_reduction_to_a_scalar(load: Load, shape: tuple[int, ...]) -> None:
    axes = fixed(list(range(len(shape))), "INT32")
    (result,) = run_references(
        load("SUM", (shaped(*shape), axes), shaped(), "ReducerOptions"), random(*shape)
    )
    assert result.shape == ()
    np.testing.assert_allclose(result, random(*shape).sum(), rtol=1e-5)


def test_operations_of_android_are_preferred(load: Load) -> None:
    plain, wide = shaped(2, 3), shaped(1, 1, 1, 2, 3)
    assert types(load("ADD", (plain, plain), plain, "AddOptions")) == [OperationType.ADD]
    assert types(load("ADD", (wide, wide), wide, "AddOptions")) == [OperationType.TFLITE_ADD]
    whole = shaped(2, type_="INT32")
    assert types(load("DIV", (whole, whole), whole, "DivOptions")) == [OperationType.TFLITE_DIV]
    assert types(load("MAXIMUM", (plain, plain), plain)) == [OperationType.MAXIMUM]
    stored = shaped(2, type_="INT8", scale=0.5)
    other = shaped(2, type_="INT8", scale=0.25)
    assert types(load("MAXIMUM", (stored, stored), stored)) == [OperationType.MAXIMUM]
    assert types(load("MAXIMUM", (stored, other), stored)) == [OperationType.TFLITE_MAXIMUM]
    truth = shaped(2, type_="BOOL")
    assert types(load("LESS", (stored, other), truth)) == [OperationType.TFLITE_LESS]
    assert types(load("SELECT_V2", (truth, whole, whole), whole)) == [OperationType.SELECT]
    assert types(load("RSQRT", (stored,), stored)) == [OperationType.TFLITE_RSQRT]


@pytest.mark.parametrize("is_power_of_two", [False, True])
def test_16_bit_sums(load: Load, *, is_power_of_two: bool) -> None:
    """1.5 is 2 where it is rounded before it is added to -1, and 0.5 is 1 where it is rounded after it."""
    x, y = shaped(1, type_="INT16", scale=1.0), shaped(1, type_="INT16", scale=0.5)
    model = load("ADD", (x, y), x, "AddOptions", PotScaleInt16=is_power_of_two)
    assert types(model) == [OperationType.TFLITE_ADD]
    assert run_references(model, [2], [-3])[0].tolist() == [0 if is_power_of_two else 1]


@pytest.mark.parametrize("options", [{"Approximate": False}, {"Approximate": True}])
def test_gelu(load: Load, options: dict[str, bool]) -> None:
    model = load("GELU", (shaped(3),), shaped(3), "GeluOptions", **options)
    assert numbers(model) == [options["Approximate"]]
    result = run_references(model, [-1, 0, 2])[0]
    np.testing.assert_allclose(result, [-0.1587, 0, 1.9545], atol=3e-4)


def test_numeric_options(load: Load) -> None:
    leaky = load("LEAKY_RELU", (shaped(2),), shaped(2), "LeakyReluOptions", Alpha=0.25)
    assert run_references(leaky, [-4, 4])[0].tolist() == [-1, 4]
    image = shaped(1, 1, 1, 3)
    response = load(
        "LOCAL_RESPONSE_NORMALIZATION",
        (image,),
        image,
        "LocalResponseNormalizationOptions",
        Radius=1,
        Bias=1.0,
        Alpha=2.0,
        Beta=0.5,
    )
    result = run_references(response, [[[[0, 2, 0]]]])[0]
    np.testing.assert_allclose(result.reshape(-1), [0, 2 / 3, 0], rtol=1e-6)
    fake = load(
        "FAKE_QUANT",
        (shaped(2),),
        shaped(2),
        "FakeQuantOptions",
        Min=0.0,
        Max=15.0,
        NumBits=4,
        NarrowRange=False,
    )
    assert run_references(fake, [3.3, 20])[0].tolist() == [3, 15]
    with pytest.raises(BadData, match="narrow range"):
        load("FAKE_QUANT", (shaped(2),), shaped(2), "FakeQuantOptions", Max=1.0, NumBits=8, NarrowRange=True)
    boundaries = np.array([0, 1], np.float32)
    buckets = load(
        "BUCKETIZE", (shaped(3),), shaped(3, type_="INT32"), "BucketizeOptions", Boundaries=boundaries
    )
    assert run_references(buckets, [-1, 0.5, 1])[0].tolist() == [0, 1, 2]
    sums = load(
        "CUMSUM",
        (shaped(3), fixed(0, "INT32")),
        shaped(3),
        "CumsumOptions",
        Exclusive=True,
        Reverse=True,
    )
    assert run_references(sums, [1, 2, 4])[0].tolist() == [6, 4, 0]


def test_normalizations(load: Load) -> None:
    x = random(2, 3)
    norm = load("L2_NORMALIZATION", (shaped(2, 3),), shaped(2, 3), "L2NormOptions")
    np.testing.assert_allclose(
        run_references(norm, x)[0], x / np.linalg.norm(x, axis=1, keepdims=True), rtol=1e-5
    )
    logarithms = run_references(load("LOG_SOFTMAX", (shaped(2, 3),), shaped(2, 3)), x)[0]
    np.testing.assert_allclose(np.exp(logarithms).sum(axis=1), 1, rtol=1e-5)
    prelu = load("PRELU", (shaped(2, 3), fixed([0.5, 0, 2])), shaped(2, 3))
    np.testing.assert_allclose(run_references(prelu, -np.abs(x))[0], -np.abs(x) * [0.5, 0, 2], rtol=1e-6)


def test_booleans(load: Load) -> None:
    truth = shaped(2, type_="BOOL")
    x, y = [True, True], [True, False]
    assert run_references(load("LOGICAL_AND", (truth, truth), truth), x, y)[0].tolist() == [True, False]
    assert run_references(load("LOGICAL_OR", (truth, truth), truth), x, y)[0].tolist() == [True, True]
    assert run_references(load("LOGICAL_NOT", (truth,), truth), y)[0].tolist() == [False, True]
    selected = load("SELECT", (shaped(type_="BOOL"), shaped(2), shaped(2)), shaped(2))
    assert run_references(selected, False, [1, 2], [3, 4])[0].tolist() == [3, 4]
    selected = load("SELECT_V2", (truth, shaped(3, 1), shaped()), shaped(3, 2))
    assert run_references(selected, y, [[1], [2], [3]], 0)[0].tolist() == [[1, 0], [2, 0], [3, 0]]


def test_types_of_numbers(load: Load) -> None:
    cast = load("CAST", (shaped(3),), shaped(3, type_="INT32"))
    assert types(cast) == [OperationType.CAST]
    assert run_references(cast, [1.5, -1.5, 1e20])[0].tolist() == [1, -1, 2**31 - 1]
    wrapped = load("CAST", (shaped(2, type_="INT32"),), shaped(2, type_="UINT8"))
    assert run_references(wrapped, [300, -1])[0].tolist() == [44, 255]
    bits = load("BITCAST", (shaped(1),), shaped(1, 4, type_="UINT8"))
    assert run_references(bits, [1.0])[0].tolist() == [[0, 0, 128, 63]]
    number = shaped(2, type_="COMPLEX64")
    for code, expected in (("REAL", [3, 0]), ("IMAG", [4, -1]), ("COMPLEX_ABS", [5, 1])):
        assert run_references(load(code, (number,), shaped(2)), [3 + 4j, -1j])[0].tolist() == expected
    xor = load("BITWISE_XOR", (shaped(2, type_="INT32"),) * 2, shaped(2, type_="INT32"))
    assert run_references(xor, [5, -1], [3, 1])[0].tolist() == [6, -2]


def test_segments(load: Load) -> None:
    segments = shaped(3, type_="INT32")
    sums = load("SEGMENT_SUM", (shaped(3, 2), segments), shaped(2, 2))
    assert run_references(sums, np.ones((3, 2)), [0, 0, 1])[0].tolist() == [[2, 2], [1, 1]]
    largest = load("UNSORTED_SEGMENT_MAX", (shaped(3), segments, fixed(2, "INT32")), shaped(2))
    assert run_references(largest, [1, 5, 3], [1, 0, 1])[0].tolist() == [5, 3]


def test_quantization_operators(load: Load) -> None:
    source = shaped(2, type_="UINT8", scale=0.5, zero_point=100)
    target = shaped(2, type_="INT16", scale=0.25)
    model = load("QUANTIZE", (source,), target)
    assert types(model) == [OperationType.TFLITE_QUANTIZE]
    assert run_references(model, [101, 90])[0].tolist() == [2, -20]
    assert types(load("DEQUANTIZE", (target,), shaped(2))) == [OperationType.TFLITE_DEQUANTIZE]
    assert types(load("DEQUANTIZE", (source,), shaped(2))) == [OperationType.DEQUANTIZE]
    assert types(load("QUANTIZE", (shaped(2),), target)) == [OperationType.TFLITE_QUANTIZE]
