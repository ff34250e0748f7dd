from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteModel

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant, Operand
from neurald.hal.model.types import Lifetime, OperandType
from neurald.runtime.tflite.file.schema import Tensor, TfliteFile
from neurald.runtime.tflite.graph.operands import (
    UnsupportedFeature,
    expected_dimensions,
    input_dimensions,
    to_operand,
)


def tensor(*arguments: Any, **fields: Any) -> Tensor:
    """Returns a tensor that was written to a file and read again."""
    file = TfliteModel()
    file.subgraph().tensor(*arguments, **fields)
    return TfliteFile(memoryview(file.build())).subgraph(0).tensors[0]


def operand(*arguments: Any, lifetime: Lifetime = Lifetime.SUBGRAPH_INPUT, **fields: Any) -> Operand:
    source = tensor(*arguments, **fields)
    return to_operand(source, input_dimensions(source), lifetime)


@sweep(
    ("name", "expected"),
    [
        ("FLOAT32", OperandType.TENSOR_FLOAT32),
        ("FLOAT16", OperandType.TENSOR_FLOAT16),
        ("INT32", OperandType.TENSOR_INT32),
        ("BOOL", OperandType.TENSOR_BOOL8),
    ],
)
def test_types_without_scales(name: str, expected: OperandType) -> None:
    """Some converters write scales for these types, which are ignored."""
    made = operand((2, 3), name, name="it", scale=0.5, zero_point=1)
    assert made == Operand(type=expected, dimensions=(2, 3), lifetime=Lifetime.SUBGRAPH_INPUT, name="it")


@sweep(
    ("name", "zero_point", "expected"),
    [
        ("UINT8", 255, OperandType.TENSOR_QUANT8_ASYMM),
        ("INT8", -128, OperandType.TENSOR_QUANT8_ASYMM_SIGNED),
        ("INT16", 0, OperandType.TENSOR_QUANT16_SYMM),
    ],
)
def test_quantized_types(name: str, zero_point: int, expected: OperandType) -> None:
    made = operand((2,), name, scale=0.25, zero_point=zero_point)
    assert (made.type, made.scale, made.zero_point) == (expected, 0.25, zero_point)


@sweep("name", ["UINT8", "INT8", "INT16"])
def test_integers_without_a_scale_have_scale_1(name: str) -> None:
    made = operand((2,), name)
    assert (made.scale, made.zero_point) == (1.0, 0)


def test_a_scale_is_the_float32_of_the_file() -> None:
    assert operand((2,), "UINT8", scale=0.1).scale == float(np.float32(0.1))


def test_a_constant_of_several_scales() -> None:
    made = operand((2, 3), "INT8", data=np.arange(6), scale=(0.5, 0.25, 2), quantized_dimension=1)
    assert made.type is OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
    assert made.channel_quant == ChannelQuant(dimension=1, scales=(0.5, 0.25, 2.0))
    assert (made.scale, made.zero_point) == (0.0, 0)
    assert made.lifetime is Lifetime.CONSTANT_POOL


def test_constants_with_a_scale_of_0_have_a_tiny_one() -> None:
    """Converters write it for filters of zeros; LiteRT runs such models."""
    made = operand((2,), "INT16", data=np.zeros(2, np.int16), scale=0.0)
    assert 0 < made.scale < 2.0**-70
    made = operand(
        (2, 3), "INT8", data=np.zeros((2, 3), np.int8), scale=(0.5, 0.0, 2.0), quantized_dimension=1
    )
    assert made.channel_quant is not None
    assert made.channel_quant.scales[::2] == (0.5, 2.0)
    assert 0 < made.channel_quant.scales[1] < 2.0**-70
    with pytest.raises(BadData, match="needs a positive one"):
        operand((2,), "INT8", scale=0.0)


def test_an_input_of_several_scales() -> None:
    made = operand((2, 3), "INT8", scale=(0.5, 0.25, 2), quantized_dimension=1)
    assert made.type is OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
    assert made.channel_quant == ChannelQuant(dimension=1, scales=(0.5, 0.25, 2.0))
    assert (made.dimensions, made.lifetime) == ((2, 3), Lifetime.SUBGRAPH_INPUT)


def test_a_result_of_several_scales_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeature, match="only constants and inputs of a graph may have them"):
        operand((2,), "INT8", lifetime=Lifetime.TEMPORARY_VARIABLE, scale=(1, 2))


def test_the_axis_of_a_single_scale_is_ignored() -> None:
    made = operand((1, 3), "INT8", data=np.arange(3), scale=(0.5,), zero_point=3, quantized_dimension=9)
    assert made.type is OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    assert made.zero_point == 3


@sweep("name", ["FLOAT32", "FLOAT16", "INT32", "INT16", "INT8", "UINT8", "BOOL"])
@sweep("shape", [(), (1,), (2, 3), (1, 2, 1, 2, 1, 2, 1, 2)])
def test_the_location_of_constants(name: str, shape: tuple[int, ...]) -> None:
    made = operand(shape, name, data=np.ones(shape))
    assert made.dimensions == shape
    assert made.location is not None
    assert made.location.length == int(np.prod(shape)) * made.type.dtype.itemsize


@sweep(
    ("fields", "message"),
    [
        ({"type_": "RESOURCE"}, "type RESOURCE"),
        ({"type_": 99}, "type 99"),
        ({"is_sparse": True}, "is sparse and no constant"),
        ({"shape": (1,) * 17}, "rank 17"),
        ({"type_": "INT8", "scale": (1, 2), "zero_point": (0, 1)}, "a zero point other than 0 for a channel"),
        ({"type_": "UINT8", "scale": (1, 2), "data": b"ab"}, "a scale for each channel"),
        ({"type_": "INT16", "scale": (1, 2), "data": b"abcd"}, "a scale for each channel"),
    ],
)
def test_unsupported_tensors(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedFeature, match=message):
        operand(**({"shape": (2,), "name": "it"} | fields))


def test_a_variable_is_unsupported_unless_it_is_fed() -> None:
    source = tensor((2,), is_variable=True)
    assert to_operand(source, (2,), Lifetime.SUBGRAPH_INPUT).dimensions == (2,)
    with pytest.raises(UnsupportedFeature, match="variable"):
        to_operand(source, (2,), Lifetime.TEMPORARY_VARIABLE)


@sweep(
    ("fields", "message"),
    [
        ({"data": b"1234567"}, r"7 bytes of data; FLOAT32\[2\] has 8"),
        ({"data": b"123456789"}, "9 bytes of data"),
        ({"type_": "INT8", "scale": 0}, "scale 0"),
        ({"type_": "INT8", "scale": -1}, "scale -1"),
        ({"type_": "INT8", "scale": float("nan")}, "scale nan"),
        ({"type_": "INT8", "scale": float("inf")}, "scale inf"),
        ({"type_": "INT8", "scale": 1, "zero_point": 128}, "zero point 128"),
        ({"type_": "UINT8", "scale": 1, "zero_point": -1}, "zero point -1"),
        ({"type_": "INT8", "scale": 1, "zero_point": 2**62}, "zero point"),
        ({"type_": "INT8", "scale": 1, "zero_point": ()}, "1 scales and 0 zero points"),
        ({"type_": "INT8", "scale": (), "zero_point": 3}, "zero point 3 and no scale"),
        ({"type_": "INT8", "scale": 1, "zero_point": (0, 0)}, "1 scales and 2 zero points"),
        ({"type_": "INT8", "scale": (1, 2, 3)}, "3 scales along dimension 0"),
        ({"type_": "INT8", "scale": (1, 2), "quantized_dimension": 1}, "dimension 1"),
        ({"type_": "INT8", "scale": (1, 2), "quantized_dimension": -1}, "dimension -1"),
        ({"type_": "INT8", "scale": (1, -1), "data": b"ab"}, "channel scale"),
        ({"type_": "INT8", "scale": (1, float("nan")), "data": b"ab"}, "channel scale"),
        ({"shape": (2**31 - 1, 2**31 - 1)}, "bytes"),
        ({"shape": (2**31 - 1,) * 8}, "bytes"),
        ({"shape": (2**31 - 1,) * 8, "data": b"12"}, "2 bytes of data"),
    ],
)
def test_invalid_descriptions(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadData, match=message):
        operand(**({"shape": (2,), "name": "it"} | fields))


@sweep(
    ("shape", "signature", "has_rank", "as_input", "as_result"),
    [
        ((2, 3), None, False, (2, 3), (0, 0)),
        ((1, 3), (-1, 3), False, (0, 3), (0, 3)),
        ((), None, False, (), None),
        ((), None, True, (), ()),
        ((0, 3), None, False, (0, 3), (0, 0)),
    ],
)
def test_dimensions(
    shape: tuple[int, ...],
    signature: tuple[int, ...] | None,
    as_input: tuple[int, ...],
    as_result: tuple[int, ...] | None,
    *,
    has_rank: bool,
) -> None:
    source = tensor(shape, shape_signature=signature, has_rank=has_rank)
    assert input_dimensions(source) == as_input
    assert expected_dimensions(source) == as_result


def test_a_constant_has_the_shape_of_its_value() -> None:
    assert operand((1, 2), data=[[1, 2]], shape_signature=(-1, 2)).dimensions == (1, 2)
