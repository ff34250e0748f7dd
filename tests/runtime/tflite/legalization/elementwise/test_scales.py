"""Scales and zero points that LiteRT accepts, against LiteRT's results."""

from typing import Any

import pytest
from support.tflite.operator import Load, fixed, shaped
from support.tflite.results import FIRST_VALUES, INT16_FIRST, INT16_RESULT, run_on_cpu

from neurald.hal.errors import BadData


@pytest.mark.parametrize(
    ("code", "more", "output", "options", "expected"),
    [
        ("NEG", [], shaped(2, 3, **INT16_RESULT), None, [-32768, 300, 5, -5, -40, -32767]),
        ("GELU", [], shaped(2, 3, **INT16_RESULT), "GeluOptions", [0, 0, -2, 1, 21, 19657]),
        (
            "PRELU",
            [fixed([[3, -4, 5]], "INT8", scale=0.01)],
            shaped(2, 3, **INT16_RESULT),
            None,
            [-580, 17, 10, 10, 31, 19667],
        ),
        (
            "TRANSPOSE",
            [fixed([1, 0], "INT32")],
            shaped(3, 2, **INT16_FIRST),
            None,
            [-32768, 5, -300, 40, -5, 32767],
        ),
        (
            "PAD",
            [fixed([[0, 0], [1, 0]], "INT32")],
            shaped(2, 4, **INT16_RESULT),
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
    assert (
        run_on_cpu(load(code, [shaped(2, 3, **INT16_FIRST), *more], output, options), FIRST_VALUES)
        == expected
    )


@pytest.mark.parametrize(
    ("code", "output", "options"),
    [
        ("TANH", {"type_": "INT16", "scale": 2.0**-15}, None),
        ("LOGISTIC", {"type_": "INT16", "scale": 2.0**-15}, None),
        ("SOFTMAX", {"type_": "INT16", "scale": 2.0**-15}, "SoftmaxOptions"),
        ("RELU", INT16_RESULT, None),
        ("EXP", INT16_RESULT, None),
        ("ABS", INT16_RESULT, None),
        ("DEQUANTIZE", {}, None),
        ("QUANTIZE", INT16_RESULT, None),
    ],
)
def test_operators_that_refuse_zero_points(
    load: Load, code: str, output: dict[str, Any], options: str | None
) -> None:
    with pytest.raises(BadData, match=r"has zero point 5; 0 is expected of TENSOR_QUANT16_SYMM"):
        load(code, [shaped(2, 3, **INT16_FIRST)], shaped(2, 3, **output), options)
