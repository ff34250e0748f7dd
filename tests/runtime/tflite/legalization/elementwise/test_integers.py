"""Operators on stored numbers of several widths; the expected numbers are LiteRT's."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.tflite.operator import NONE, RELU, Load, fixed, shaped, types

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.compilation import CompilationBuilder

INT16 = {"type_": "INT16", "scale": 0.5}


def run(
    load: Load,
    *arrays: Array,
    code: str,
    inputs: Sequence[dict[str, Any]],
    output: dict[str, Any],
    options: str | None = None,
    **values: Any,
) -> list[Any]:
    model = load(code, inputs, output, options, **values)
    (result,) = CompilationBuilder(model).finish().run(*arrays)
    return list(result.tolist())


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
    assert run(load, x, code="QUANTIZE", inputs=tensors[:1], output=tensors[1]) == expected


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
    ("kind", "zero_point", "activation", "expected"),
    [
        ("INT8", 0, NONE, [127, -64, 0, 1, -100]),
        ("INT8", 5, NONE, [127, -59, 5, 6, -95]),
        ("INT8", 5, RELU, [127, 5, 5, 6, 5]),
        ("UINT8", 100, NONE, [228, 36, 100, 101, 0]),
    ],
)
def test_16_bit_products_as_8_bits(
    load: Load, kind: str, zero_point: int, activation: int, expected: list[int]
) -> None:
    result = run(
        load,
        np.array([-32768, 16384, 40, 4096, 32767], np.int16),
        np.array([-32768, -32768, -30, 2048, -25600], np.int16),
        code="MUL",
        inputs=[shaped(5, **INT16)] * 2,
        output=shaped(5, type_=kind, scale=0.25, zero_point=zero_point),
        options="MulOptions",
        FusedActivationFunction=activation,
    )
    assert result == expected


@pytest.mark.parametrize(
    ("shapes", "output", "message"),
    [
        (((2, 3), (3,)), {"type_": "INT8", "scale": 0.5}, "shape \\[3\\]; \\[2, 3\\] is expected"),
        (((3,), (3,)), {"type_": "INT32"}, "TENSOR_INT32"),
        (((3,), (3,)), {"type_": "FLOAT32"}, "TENSOR_FLOAT32"),
    ],
)
def test_refuses_products(
    load: Load, shapes: tuple[tuple[int, ...], ...], output: dict[str, Any], message: str
) -> None:
    inputs = [shaped(*shape, **INT16) for shape in shapes]
    with pytest.raises(BadData, match=message):
        load("MUL", inputs, shaped(*shapes[0], **output), "MulOptions")


@pytest.mark.parametrize(("code", "expected"), [("ADD", [-25536, 5, -2]), ("MUL", [-31744, 6, 1])])
def test_16_bit_integers_wrap_around(load: Load, code: str, expected: list[int]) -> None:
    plain = {"shape": (3,), "type_": "INT16"}
    x, y = np.array([20000, 2, -1], np.int16), np.array([20000, 3, -1], np.int16)
    options = f"{code.title()}Options"
    assert run(load, x, y, code=code, inputs=[plain, plain], output=plain, options=options) == expected
    with pytest.raises(BadData, match="fused activation 1 of 16-bit integers"):
        load(code, [plain, plain], plain, options, FusedActivationFunction=RELU)


#: How the schema numbers types that its package does not know.
INT2, UINT4 = 19, 20


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("INT4", [-8, -8, -1, 0, 1, 7, 7]),
        (INT2, [-2, -2, -1, 0, 1, 1, 1]),
        (UINT4, [0, 0, 0, 0, 1, 15, 15]),
    ],
)
def test_casts_to_narrow_types(load: Load, kind: str | int, expected: list[int]) -> None:
    x = np.array([-1e20, -9.5, -1.5, 0.5, 1.5, 15.5, np.inf], np.float32)
    assert run(load, x, code="CAST", inputs=[shaped(7)], output=shaped(7, type_=kind)) == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("INT4", [-8, -8, -1, 0, 1, 7]), (UINT4, [0, 0, 0, 0, 1, 15])]
)
def test_quantizes_to_narrow_types(load: Load, kind: str | int, expected: list[int]) -> None:
    x = np.array([-100, -4.5, -0.5, 0.2, 0.5, 9], np.float32)
    output = shaped(6, type_=kind, scale=0.5)
    assert run(load, x, code="QUANTIZE", inputs=[shaped(6)], output=output) == expected


@pytest.mark.parametrize(
    ("kind", "stored", "expected"),
    [
        ("INT4", [0x18, 0xF7, 0x0A], [[-8, 1, 7], [-1, -6, 0]]),
        (UINT4, [0x18, 0xF7, 0x0A], [[8, 1, 7], [15, 10, 0]]),
        (INT2, [0b11100100, 0b1001], [[0, 1, -2], [-1, 1, -2]]),
    ],
)
def test_narrow_types_are_moved(
    load: Load, kind: str | int, stored: list[int], expected: list[list[int]]
) -> None:
    table = {"shape": (2, 3), "data": bytes(stored), "type_": kind, "scale": 0.5}
    rows = np.array([1, 0], np.int32)
    gathered = run(
        load,
        rows,
        code="GATHER",
        inputs=[table, shaped(2, type_="INT32")],
        output=shaped(2, 3, type_=kind, scale=0.5),
        options="GatherOptions",
    )
    assert gathered == expected[::-1]


@pytest.mark.parametrize("type_", ["INT8", "UINT8", "INT16", "INT32", "INT64", "UINT32", "BOOL"])
def test_and(load: Load, type_: str) -> None:
    dtype = np.dtype(type_.lower())
    x, y = np.array([0, 1, 1, 1], dtype), np.array([0, 0, 1, 1], dtype)
    tensor = shaped(4, type_=type_)
    model = load("STABLEHLO_AND", [tensor, tensor], tensor)
    assert types(model) == [OperationType.TFLITE_STABLEHLO_AND]
    (result,) = CompilationBuilder(model).finish().run(x, y)
    np.testing.assert_array_equal(result, x & y)


def test_shift_left(load: Load) -> None:
    tensor = shaped(5, type_="INT8")
    x, bits = np.array([1, -3, 127, 5, 5], np.int8), np.array([7, 2, 1, 8, -1], np.int8)
    result = run(load, x, bits, code="STABLEHLO_SHIFT_LEFT", inputs=[tensor, tensor], output=tensor)
    assert result == [-128, -12, -2, 0, 0]
    with pytest.raises(BadData, match="TENSOR_FLOAT32"):
        load("STABLEHLO_SHIFT_LEFT", [shaped(5), shaped(5)], shaped(5))


def test_bits_of_complex_numbers(load: Load) -> None:
    x = np.array([1.5 - 2j, 0], np.complex64)
    inputs, output = [shaped(2, type_="COMPLEX64")], shaped(2, type_="INT64")
    assert run(load, x, code="BITCAST", inputs=inputs, output=output) == x.view(np.int64).tolist()


def test_an_embedding_of_unsigned_bytes(load: Load) -> None:
    table = fixed([[0, 1], [255, 128]], "UINT8", scale=0.5, zero_point=128)
    result = run(
        load,
        np.array([1, 0], np.int32),
        code="EMBEDDING_LOOKUP",
        inputs=[shaped(2, type_="INT32"), table],
        output=shaped(2, 2),
    )
    assert result == [[-0.5, -64], [0, 0.5]]
