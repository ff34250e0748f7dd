from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import (
    Load,
    fixed,
    shaped,
    types,
)
from support.tflite.results import FIRST_VALUES, INT16_FIRST, run_on_cpu, run_operator

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations import DEFINITIONS
from neurald.runtime.tflite.file.schema import UINT4


def test_quantization_operators(load: Load) -> None:
    source = shaped(2, type_="UINT8", scale=0.5, zero_point=100)
    target = shaped(2, type_="INT16", scale=0.25)
    model = load("QUANTIZE", (source,), target)
    assert types(model) == [OperationType.TFLITE_QUANTIZE]
    assert run_references(model, [101, 90])[0].tolist() == [2, -20]
    assert types(load("DEQUANTIZE", (target,), shaped(2))) == [OperationType.TFLITE_DEQUANTIZE]
    assert types(load("DEQUANTIZE", (source,), shaped(2))) == [OperationType.DEQUANTIZE]
    assert types(load("QUANTIZE", (shaped(2),), target)) == [OperationType.TFLITE_QUANTIZE]


def test_fake_quant(load: Load) -> None:
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


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        (("INT16", 0.01, 0), ("INT32", 0.003, 7), [-300, -1, 0, 2, 32767], [-993, 4, 7, 14, 109230]),
        (("INT32", 0.01, 5), ("INT8", 0.5, -3), [-100000, -46, 5, 30, 100000], [-128, -4, -3, -2, 127]),
        (("INT32", 0.001, -2), ("INT16", 0.004, 0), [-200000, -4, -2, 9, 200000], [-32768, -1, 0, 3, 32767]),
    ],
)
def test_quantize_from_and_to_32_bits(
    load: Load,
    source: tuple[str, float, int],
    target: tuple[str, float, int],
    values: list[int],
    expected: list[int],
) -> None:
    tensors = [
        shaped(len(values), type_=kind, scale=scale, zero_point=zero_point)
        for kind, scale, zero_point in (source, target)
    ]
    x = np.array(values, source[0].lower())
    assert run_operator(load, x, code="QUANTIZE", inputs=tensors[:1], output=tensors[1]) == expected


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ({"type_": "INT32", "scale": 0.5}, {"type_": "UINT8", "scale": 0.5}, "TENSOR_QUANT8_ASYMM"),
        ({"type_": "INT32"}, {"type_": "INT8", "scale": 0.5}, "does not have exactly one scale"),
        ({"type_": "FLOAT32"}, {"type_": "INT32", "scale": 0.5}, "TENSOR_INT32"),
    ],
)
def test_quantize_refuses(load: Load, source: dict[str, Any], target: dict[str, Any], message: str) -> None:
    with pytest.raises(BadData, match=message):
        load("QUANTIZE", [shaped(2, **source)], shaped(2, **target))


@pytest.mark.parametrize(
    ("kind", "expected"), [("INT4", [-8, -8, -1, 0, 1, 7]), (UINT4, [0, 0, 0, 0, 1, 15])]
)
def test_quantizes_to_narrow_types(load: Load, kind: str | int, expected: list[int]) -> None:
    x = np.array([-100, -4.5, -0.5, 0.2, 0.5, 9], np.float32)
    output = shaped(6, type_=kind, scale=0.5)
    assert run_operator(load, x, code="QUANTIZE", inputs=[shaped(6)], output=output) == expected


def test_quantizes_to_int16(load: Load) -> None:
    model = load("QUANTIZE", [shaped(2, 3)], shaped(2, 3, **INT16_FIRST))
    expected = [-10918, -95, 3, 7, 18, 10927]
    assert run_on_cpu(model, (FIRST_VALUES * 0.01).astype(np.float32)) == expected


def test_quantize(load: Load) -> None:
    real, quantized = shaped(3), shaped(3, type_="UINT8", scale=0.5, zero_point=10)
    model = load("QUANTIZE", (real,), quantized, "QuantizeOptions")
    assert types(model) == [OperationType.QUANTIZE]
    assert run_references(model, [-100, 0.5, 3])[0].tolist() == [0, 11, 16]
    other = shaped(3, type_="INT8", scale=1.0, zero_point=0)
    model = load("QUANTIZE", (quantized,), other)
    assert types(model) == [OperationType.TFLITE_QUANTIZE]
    assert run_references(model, [10, 12, 255])[0].tolist() == [0, 1, 123]


def test_dequantize(load: Load) -> None:
    model = load("DEQUANTIZE", (shaped(2, type_="INT8", scale=0.5, zero_point=1),), shaped(2))
    assert run_references(model, [1, 5])[0].tolist() == [0, 2]
    channels = fixed([[1, 2], [3, 4]], "INT8", scale=(0.5, 2), quantized_dimension=1)
    model = load("DEQUANTIZE", (channels,), shaped(2, 2))
    assert run_references(model)[0].tolist() == [[0.5, 4], [1.5, 8]]


@pytest.mark.skipif(OperationType.CAST not in DEFINITIONS, reason="CAST is not implemented")
def test_dequantize_of_float16_is_a_cast(load: Load) -> None:
    model = load("DEQUANTIZE", (fixed([0.5, 2], "FLOAT16"),), shaped(2))
    assert types(model) == [OperationType.CAST]
    assert run_references(model)[0].tolist() == [0.5, 2]
