"""Scales and zero points as LiteRT takes and combines them; the expected numbers are its own."""

from typing import Any

import numpy as np
import pytest
from support.tflite.operator import Load, fixed, shaped

from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.errors import BadData
from neurald.hal.model.types import Model
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.compilation import CompilationBuilder

INPUT = {"type_": "INT16", "scale": 0.03, "zero_point": 5}
OTHER = {"type_": "INT16", "scale": 0.02, "zero_point": -5}
RESULT = {"type_": "INT16", "scale": 0.05, "zero_point": 10}
VALUES = np.array([[-32768, -300, -5], [5, 40, 32767]], np.int16)
OTHERS = np.array([[-450, 200, -4], [8, -1000, 1]], np.int16)


def results(model: Model, *arrays: Array) -> list[Any]:
    """The first output, on which kernels and references agree."""
    first, second = (
        CompilationBuilder(model, [CpuDevice(compiles=compiles)]).finish().run(*arrays)[0]
        for compiles in (False, True)
    )
    np.testing.assert_array_equal(first, second)
    return list(first.ravel().tolist())


@pytest.mark.parametrize(
    ("code", "options", "expected"),
    [
        ("DIV", "DivOptions", [2219, -35, -290, 10, 9, 32767]),
        ("MINIMUM", None, [-32768, -300, -5, 5, -1000, 1]),
        ("MAXIMUM", None, [-450, 200, -4, 8, 40, 32767]),
        ("FLOOR_DIV", None, [72, -2, 1, 0, -1, 32767]),
        ("FLOOR_MOD", None, [-368, 100, -1, 5, -960, 0]),
    ],
)
def test_int16_binary_operators(load: Load, code: str, options: str | None, expected: list[int]) -> None:
    model = load(code, [shaped(2, 3, **INPUT), shaped(2, 3, **OTHER)], shaped(2, 3, **RESULT), options)
    assert results(model, VALUES, OTHERS) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("EQUAL", [False] * 6),
        ("NOT_EQUAL", [True] * 6),
        ("LESS", [True, True, True, True, False, False]),
        ("GREATER_EQUAL", [False, False, False, False, True, True]),
    ],
)
def test_int16_comparisons(load: Load, code: str, expected: list[bool]) -> None:
    inputs = [shaped(2, 3, **INPUT), shaped(2, 3, **OTHER)]
    assert results(load(code, inputs, shaped(2, 3, type_="BOOL")), VALUES, OTHERS) == expected


@pytest.mark.parametrize(
    ("code", "more", "output", "options", "expected"),
    [
        ("NEG", [], shaped(2, 3, **RESULT), None, [-32768, 300, 5, -5, -40, -32767]),
        ("GELU", [], shaped(2, 3, **RESULT), "GeluOptions", [0, 0, -2, 1, 21, 19657]),
        (
            "PRELU",
            [fixed([[3, -4, 5]], "INT8", scale=0.01)],
            shaped(2, 3, **RESULT),
            None,
            [-580, 17, 10, 10, 31, 19667],
        ),
        (
            "TRANSPOSE",
            [fixed([1, 0], "INT32")],
            shaped(3, 2, **INPUT),
            None,
            [-32768, 5, -300, 40, -5, 32767],
        ),
        (
            "PAD",
            [fixed([[0, 0], [1, 0]], "INT32")],
            shaped(2, 4, **RESULT),
            "PadOptions",
            [10, -32768, -300, -5, 10, 5, 40, 32767],
        ),
        ("CAST", [], shaped(2, 3), None, [-32768.0, -300.0, -5.0, 5.0, 40.0, 32767.0]),
        (
            "QUANTIZE",
            [],
            shaped(2, 3, type_="INT8", scale=7.0, zero_point=3),
            None,
            [-128, 2, 3, 3, 3, 127],
        ),
        (
            "QUANTIZE",
            [],
            shaped(2, 3, type_="INT32", scale=0.01, zero_point=3),
            None,
            [-98316, -912, -27, 3, 108, 98289],
        ),
    ],
)
def test_int16_unary_operators(
    load: Load,
    code: str,
    more: list[dict[str, Any]],
    output: dict[str, Any],
    options: str | None,
    expected: list[Any],
) -> None:
    assert results(load(code, [shaped(2, 3, **INPUT), *more], output, options), VALUES) == expected


@pytest.mark.parametrize(
    ("code", "expected"), [("MAX_POOL_2D", [40, 32767]), ("AVERAGE_POOL_2D", [-8256, 8126])]
)
def test_int16_pooling(load: Load, code: str, expected: list[int]) -> None:
    lengths = {"StrideW": 1, "StrideH": 1, "FilterWidth": 2, "FilterHeight": 2}
    image, output = shaped(1, 2, 3, 1, **INPUT), shaped(1, 1, 2, 1, **INPUT)
    model = load(code, [image], output, "Pool2DOptions", Padding=1, **lengths)
    assert results(model, VALUES.reshape(1, 2, 3, 1)) == expected


def test_int16_resizing(load: Load) -> None:
    inputs = [shaped(1, 2, 3, 1, **INPUT), fixed([3, 3], "INT32")]
    model = load("RESIZE_BILINEAR", inputs, shaped(1, 3, 3, 1, **INPUT), "ResizeBilinearOptions")
    expected = [-32768, -300, -5, -10909, -73, 21854, 5, 40, 32767]
    assert results(model, VALUES.reshape(1, 2, 3, 1)) == expected


def test_quantizes_to_int16(load: Load) -> None:
    model = load("QUANTIZE", [shaped(2, 3)], shaped(2, 3, **INPUT))
    expected = [-10918, -95, 3, 7, 18, 10927]
    assert results(model, (VALUES * 0.01).astype(np.float32)) == expected


@pytest.mark.parametrize(
    ("code", "output", "options"),
    [
        ("TANH", {"type_": "INT16", "scale": 2.0**-15}, None),
        ("LOGISTIC", {"type_": "INT16", "scale": 2.0**-15}, None),
        ("SOFTMAX", {"type_": "INT16", "scale": 2.0**-15}, "SoftmaxOptions"),
        ("RELU", RESULT, None),
        ("EXP", RESULT, None),
        ("ABS", RESULT, None),
        ("DEQUANTIZE", {}, None),
        ("QUANTIZE", RESULT, None),
    ],
)
def test_operators_that_refuse_zero_points(
    load: Load, code: str, output: dict[str, Any], options: str | None
) -> None:
    with pytest.raises(BadData, match=r"has zero point 5; 0 is expected of TENSOR_QUANT16_SYMM"):
        load(code, [shaped(2, 3, **INPUT)], shaped(2, 3, **output), options)


def byte(zero_point: int, scale: float = 0.03) -> dict[str, Any]:
    return {"type_": "INT8", "scale": scale, "zero_point": zero_point}


@pytest.mark.parametrize(
    ("code", "source", "target"),
    [
        ("DEPTH_TO_SPACE", (1, 2, 2, 4), (1, 4, 4, 1)),
        ("SPACE_TO_DEPTH", (1, 4, 4, 1), (1, 2, 2, 4)),
    ],
)
def test_blocks_are_moved_for_any_scales(
    load: Load, code: str, source: tuple[int, ...], target: tuple[int, ...]
) -> None:
    options = "".join(word.title() for word in code.split("_")) + "Options"
    inputs = [shaped(*source, **byte(1))]
    model = load(code, inputs, shaped(*target, **byte(4, 0.05)), options, BlockSize=2)
    expected = [-8, -7, -4, -3, -6, -5, -2, -1, 0, 1, 4, 5, 2, 3, 6, 7]
    assert results(model, np.arange(-8, 8, dtype=np.int8).reshape(source)) == expected


def test_padding_is_the_zero_point_of_the_output(load: Load) -> None:
    inputs = [shaped(2, 3, **byte(1)), fixed([[0, 0], [1, 0]], "INT32")]
    model = load("PAD", inputs, shaped(2, 4, **byte(4)), "PadOptions")
    assert results(model, np.arange(6, dtype=np.int8).reshape(2, 3)) == [4, 0, 1, 2, 4, 3, 4, 5]


def test_rows_are_looked_up_for_any_scales(load: Load) -> None:
    table = fixed(np.arange(6).reshape(2, 3), **byte(1))
    model = load("EMBEDDING_LOOKUP", [shaped(2, type_="INT32"), table], shaped(2, 3, **byte(4, 0.05)))
    assert results(model, np.array([1, 0], np.int32)) == [3, 4, 5, 0, 1, 2]


@pytest.mark.parametrize(
    ("scales", "first", "second", "expected"),
    [
        (
            (0.0123, 0.00034, 0.0021),
            [-1514, 9583, -2546, -5353],
            [10151, 1103, 3769, -1349],
            [-30606, 21050, -19110, 14381],
        ),
        (
            (0.0007, 0.0003, 0.003),
            [-10000, -14519, 17018, -12225],
            [32265, -13809, 23787, 30000],
            [-22585, 14034, 28336, -25672],
        ),
    ],
)
def test_scales_of_a_product_are_multiplied_in_float32(
    load: Load,
    scales: tuple[float, float, float],
    first: list[int],
    second: list[int],
    expected: list[int],
) -> None:
    """In float64, all of these numbers differ by one."""
    tensors = [shaped(4, type_="INT16", scale=scale) for scale in scales]
    model = load("MUL", tensors[:2], tensors[2], "MulOptions")
    assert results(model, np.array(first, np.int16), np.array(second, np.int16)) == expected


@pytest.mark.parametrize(
    ("scales", "values", "slopes", "expected"),
    [
        (
            (0.0123, 0.034, 0.021),
            [-15810, -9986, -8426, -9672],
            [42, 70, 52, 117],
            [-13223, -13920, -8725, -22535],
        ),
        (
            (0.0031, 0.041, 0.0113),
            [-22630, -22797, -20911, -23391],
            [-120, -107, 37, 36],
            [30544, 27436, -8702, -9471],
        ),
    ],
)
def test_scales_of_a_slope_are_multiplied_in_float32(
    load: Load,
    scales: tuple[float, float, float],
    values: list[int],
    slopes: list[int],
    expected: list[int],
) -> None:
    source, result = (shaped(1, 4, type_="INT16", scale=scale) for scale in (scales[0], scales[2]))
    model = load("PRELU", [source, fixed([slopes], "INT8", scale=scales[1])], result)
    assert results(model, np.array([values], np.int16)) == expected


def test_sums_are_rescaled_in_float32(load: Load) -> None:
    """Fixed-point arithmetic rounds twice, and differs by one for all of these sums but the first."""
    values = np.zeros((5, 7), np.int8)
    values[:, 0] = [120, -39, -61, 115, 5]
    model = load(
        "SUM",
        [shaped(5, 7, type_="INT8", scale=0.004844472743570805, zero_point=66), fixed([1], "INT32")],
        shaped(5, type_="INT8", scale=0.05339296534657478, zero_point=12),
        "ReducerOptions",
    )
    assert results(model, values) == [-19, -33, -35, -19, -29]
