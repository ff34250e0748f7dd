"""4-bit, BFLOAT16 and sparse constants."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.builder import Sparsity, TfliteModel
from support.tflite.operator import Load, fixed, inputs_of, random, shaped, types

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite
from neurald.runtime.tflite.conversion.unpacking import stored_values
from neurald.runtime.tflite.file.schema import INT2, UINT4, Tensor
from neurald.runtime.tflite.file.schema_enums import TensorType

DENSE, SPARSE = 0, 1


def packed(values: Array) -> bytes:
    """Packs two numbers into a byte, the first into its lower half."""
    flat = np.append(values.reshape(-1), [0] * (values.size % 2)).astype(np.uint8) & 0xF
    return bytes(flat[::2] | flat[1::2] << 4)


def int4(values: Array, **fields: Any) -> dict[str, Any]:
    return {"shape": values.shape, "type_": "INT4", "data": packed(values), **fields}


def rows_of(matrix: Array, dtype: str = "int32") -> tuple[Array, Sparsity]:
    """Returns the elements and the sparse format of a matrix with sparse rows."""
    columns = [np.flatnonzero(row) for row in matrix]
    segments = np.cumsum([0, *map(len, columns)]).astype(dtype)
    indices = np.concatenate(columns).astype(dtype)
    levels = [(DENSE, len(matrix)), (SPARSE, 0, segments, indices)]
    return matrix[matrix != 0], ((0, 1), (), levels)


def blocks_of(matrix: Array) -> tuple[Array, Sparsity]:
    """Returns a matrix of 4 columns as sparse blocks of 2 by 2."""
    blocks = matrix.reshape(-1, 2, 2, 2).swapaxes(1, 2)
    columns = [np.flatnonzero(row.any(axis=(1, 2))) for row in blocks]
    segments = np.cumsum([0, *map(len, columns)]).astype(np.int32)
    levels = [
        (DENSE, len(blocks)),
        (SPARSE, 0, segments, np.concatenate(columns).astype(np.uint16)),
        (DENSE, 2),
        (DENSE, 2),
    ]
    quantized = np.concatenate([row[column] for row, column in zip(blocks, columns, strict=True)])
    return quantized, ((0, 1, 2, 3), (0, 1), levels)


def sparse_matrix(rows: int, dtype: str = "f4") -> Array:
    generator = np.random.default_rng(rows)
    matrix = generator.integers(1, 100, (rows, 4)) * (generator.random((rows, 4)) < 0.4)
    return matrix.astype(dtype)


@pytest.mark.parametrize("shape", [(4, 3, 2), (5, 3), (1, 1)])
def test_4_bit_constants(load: Load, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).integers(-8, 8, shape)
    table = int4(values.reshape(len(values), -1), scale=0.5)
    model = load("EMBEDDING_LOOKUP", (shaped(2, type_="INT32"), table), shaped(0))
    _, constant = inputs_of(model)
    assert (constant.type, constant.scale) == (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, 0.5)
    found = model.constant(constant)
    assert found is not None
    np.testing.assert_array_equal(found, values.reshape(len(values), -1))
    (result,) = run_references(model, [len(values) - 1, 0])
    np.testing.assert_array_equal(result, found[[-1, 0]] * 0.5)


@pytest.mark.parametrize(
    ("type_", "bits", "lowest"), [(TensorType.INT4, 4, -8), (UINT4, 4, 0), (INT2, 2, -2)]
)
@pytest.mark.parametrize("left", range(4))
def test_every_byte_of_packed_numbers(type_: int, bits: int, lowest: int, left: int) -> None:
    """Compares with numbers of single bits; the last byte has `left` numbers less."""
    per_byte = 8 // bits
    count = 256 * per_byte - left % per_byte
    tensor = Tensor(
        index=0,
        name="",
        type=type_,
        shape=(count,),
        shape_signature=(),
        has_rank=True,
        data=None,
        is_variable=False,
        sparsity=None,
        _quantization=None,
    )
    expected = []
    for number in range(count):
        byte, part = divmod(number, per_byte)
        value = sum((byte >> bits * part + bit & 1) << bit for bit in range(bits))
        expected.append(value - (1 << bits) if value >= lowest + (1 << bits) else value)
    found = stored_values(tensor, memoryview(bytes(range(256))), np.dtype(np.int8 if lowest else np.uint8))
    np.testing.assert_array_equal(found, expected)


def test_4_bit_constants_with_channel_scales(load: Load) -> None:
    weights = np.random.default_rng(2).integers(-8, 8, (3, 5))
    model = load(
        "FULLY_CONNECTED",
        (shaped(2, 5), int4(weights, scale=(0.5, 0.25, 1.0))),
        shaped(2, 3),
        "FullyConnectedOptions",
    )
    assert inputs_of(model)[1].type is OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
    x = np.random.default_rng(3).integers(-127, 128, (2, 5)).astype(np.float32)
    x[:, 0] = 127
    (result,) = run_references(model, x)
    np.testing.assert_allclose(result, x @ weights.T * [0.5, 0.25, 1.0], rtol=1e-6)


@pytest.mark.parametrize("length", [0, 3, 5, 100])
def test_too_few_or_too_many_bytes(load: Load, length: int) -> None:
    table = {"shape": (4, 2), "type_": "INT4", "data": bytes(length), "scale": 1.0}
    with pytest.raises(BadData, match=r"has 4|which nothing before it writes"):
        load("EMBEDDING_LOOKUP", (shaped(2, type_="INT32"), table), shaped(0))


@pytest.mark.parametrize("layout", [rows_of, blocks_of])
@pytest.mark.parametrize(
    ("type_", "dtype"), [("FLOAT32", "f4"), ("FLOAT16", "f2"), ("INT32", "i4"), ("INT8", "i1")]
)
def test_densify(load: Load, layout: Any, type_: str, dtype: str) -> None:
    matrix = sparse_matrix(6, dtype)
    quantized, sparsity = layout(matrix)
    source = {"shape": (6, 4), "type_": type_, "data": quantized.tobytes(), "sparsity": sparsity}
    model = load("DENSIFY", (source,), shaped(6, 4, type_=type_))
    assert types(model) == [OperationType.RESHAPE]
    (result,) = run_references(model)
    np.testing.assert_array_equal(result, matrix)


@pytest.mark.parametrize("dtype", ["int32", "uint16", "uint8"])
def test_sparse_weights(load: Load, dtype: str) -> None:
    matrix = sparse_matrix(7)
    quantized, sparsity = rows_of(matrix, dtype)
    weights = {"shape": (7, 4), "data": quantized.tobytes(), "sparsity": sparsity}
    model = load("FULLY_CONNECTED", (shaped(2, 4), weights), shaped(2, 7), "FullyConnectedOptions")
    x = random(2, 4)
    np.testing.assert_allclose(run_references(model, x)[0], x @ matrix.T, rtol=1e-5, atol=1e-4)


def test_a_constant_is_unpacked_once(tmp_path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    table = graph.tensor(**int4(np.arange(8).reshape(4, 2), scale=1.0))
    ids = graph.tensor((2,), "INT32")
    graph.outputs = [graph.tensor((2, 2)) for _ in range(3)]
    for output in graph.outputs:
        graph.operator("EMBEDDING_LOOKUP", (ids, table), (output,))
    graph.inputs = (ids,)
    assert len(load_tflite(file.write(tmp_path / "model.tflite")).pools) == 2


def test_the_size_of_sparse_constants_is_limited(load: Load) -> None:
    side = 1 << 14
    nothing = np.zeros(1, np.float32)
    levels = [
        (SPARSE, 0, np.array([0, 1], np.int32), np.array([3], np.int32)),
        (SPARSE, 0, np.array([0, 1], np.int32), np.array([3], np.int32)),
    ]
    source = {"shape": (side, side), "data": nothing.tobytes(), "sparsity": ((0, 1), (), levels)}
    with pytest.raises(BadData, match="more than 4 times as large as the file"):
        load("DENSIFY", (source,), shaped(side, side))


ROW_LISTS = (np.array([0, 1, 2], np.int32), np.array([0, 2], np.int32))


@pytest.mark.parametrize(
    ("sparsity", "message"),
    [
        (((0, 1), (), [(DENSE, 2)]), "has 1 levels"),
        (((0,), (), [(DENSE, 2)]), "an order of 1"),
        (((0, 2), (), [(DENSE, 2), (SPARSE, 0, *ROW_LISTS)]), "a permutation"),
        (((0, 1), (), [(DENSE, 2), (7, 0, *ROW_LISTS)]), "lengths from 1|0 .dense. or 1 .sparse."),
        (((0, 1), (), [(DENSE, 2), (7, 3, *ROW_LISTS)]), "0 .dense. or 1 .sparse."),
        (((0, 1), (), [(DENSE, -2), (SPARSE, 0, *ROW_LISTS)]), "lengths from 1"),
        (((0, 1), (), [(DENSE, 4), (SPARSE, 0, *ROW_LISTS)]), r"the shape \[4, 3\]; \[2, 3\] is expected"),
        (((0, 1), (), [(DENSE, 2), (SPARSE, 0)]), "5|ascend|elements"),
        (
            ((0, 1), (), [(DENSE, 2), (SPARSE, 0, ROW_LISTS[0], np.array([0, 3], np.int32))]),
            "from 0 to 2 is expected",
        ),
        (
            ((0, 1), (), [(DENSE, 2), (SPARSE, 0, np.array([0, 9, 2], np.int32), ROW_LISTS[1])]),
            "that ascend from 0 to 2",
        ),
        (((0, 1), (), [(DENSE, 2), (DENSE, 3)]), "6, as many as the levels have leaves"),
        (((0, 1, 2), (5,), [(DENSE, 2), (DENSE, 3), (DENSE, 1)]), "block_map"),
    ],
)
def test_invalid_sparse_layouts(load: Load, sparsity: Sparsity, message: str) -> None:
    source = {"shape": (2, 3), "data": np.ones(2, np.float32).tobytes(), "sparsity": sparsity}
    with pytest.raises(BadData, match=message):
        load("DENSIFY", (source,), shaped(2, 3))


@pytest.mark.parametrize(("type_", "length"), [("INT64", 16), ("INT4", 1), ("FLOAT32", 7), ("FLOAT64", 16)])
def test_refuses_sparse_types(load: Load, type_: str, length: int) -> None:
    sparsity = ((0, 1), (), [(DENSE, 2), (SPARSE, 0, *ROW_LISTS)])
    source = {"shape": (2, 3), "type_": type_, "data": bytes(length), "sparsity": sparsity}
    with pytest.raises(BadData, match="which is not supported"):
        load("DENSIFY", (source,), shaped(2, 3, type_=type_))


def test_densify_of_a_dense_constant(load: Load) -> None:
    model = load("DENSIFY", (fixed([[1.0, 2.0]]),), shaped(1, 2))
    assert run_references(model)[0].tolist() == [[1, 2]]


@pytest.mark.parametrize("type_", ["INT8", "INT4"])
@pytest.mark.parametrize("dimension", [0, 1])
def test_channel_zero_points(load: Load, type_: str, dimension: int) -> None:
    """Operands do not support channel zero points, so the constant becomes real numbers."""
    values = np.random.default_rng(4).integers(-8, 8, (3, 2))
    count = values.shape[dimension]
    scales, zero_points = np.array([0.5, 0.25, 2.0][:count]), np.array([3, 0, -128][:count])
    source = {
        **(int4(values) if type_ == "INT4" else fixed(values, "INT8")),
        "scale": scales.tolist(),
        "zero_point": zero_points.tolist(),
        "quantized_dimension": dimension,
    }
    model = load("DEQUANTIZE", (source,), shaped(3, 2))
    along = (-1, 1) if dimension == 0 else (1, -1)
    expected = (values - zero_points.reshape(along)) * scales.reshape(along)
    np.testing.assert_array_equal(run_references(model)[0], expected)


def test_dequantized_constants_of_a_wrong_length(load: Load) -> None:
    source = {"shape": (2, 2), "type_": "INT8", "data": b"abc", "scale": (1, 2), "zero_point": (0, 1)}
    with pytest.raises(BadData, match=r"has 3 bytes of data; INT8.* has 4"):
        load("DEQUANTIZE", (source,), shaped(2, 2))


def bfloat16(values: Array) -> dict[str, Any]:
    """Describes a constant of the upper halves of FLOAT32 numbers."""
    halves = values.astype("<f4").view("<u4") >> 16
    return {"shape": values.shape, "type_": "BFLOAT16", "data": halves.astype("<u2").tobytes()}


def _moved(file: TfliteModel, values: Array) -> tuple[Any, int]:
    """Adds a lookup in a BFLOAT16 table; returns the graph and the tensor of its result."""
    graph = file.subgraph()
    rows = graph.tensor((3,), "INT32")
    result = graph.tensor((3, values.shape[1]), "BFLOAT16")
    graph.operator("GATHER", (graph.tensor(**bfloat16(values)), rows), (result,), "GatherOptions")
    graph.inputs = (rows,)
    return graph, result


_SPECIAL = np.array(
    [[0.0, -0.0, 1.5, -2.25], [np.inf, -np.inf, np.nan, 2.0**-133], [1.5 * 2.0**127, 1, 2, 3]]
)


def test_bfloat16_constants_keep_their_values(load: Load) -> None:
    model = load("CAST", (bfloat16(_SPECIAL),), shaped(3, 4), "CastOptions")
    (result,) = run_references(model)
    np.testing.assert_array_equal(result, _SPECIAL.astype(np.float32))


def test_bfloat16_elements_that_are_moved() -> None:
    file = TfliteModel()
    graph, moved = _moved(file, _SPECIAL)
    output = graph.tensor((3, 4))
    graph.operator("CAST", (moved,), (output,), "CastOptions")
    graph.outputs = (output,)
    (result,) = run_references(load_tflite(file.build()), np.array([2, 0, 1], np.int32))
    np.testing.assert_array_equal(result, _SPECIAL.astype(np.float32)[[2, 0, 1]])


def test_bfloat16_results_that_are_rounded_are_refused(load: Load) -> None:
    with pytest.raises(BadData, match=r"its result .* is of type BFLOAT16; only constants"):
        load("TANH", (bfloat16(_SPECIAL),), shaped(3, 4, type_="BFLOAT16"))


def test_bfloat16_inputs_and_outputs_are_refused(load: Load) -> None:
    with pytest.raises(BadData, match="is an input or output of type BFLOAT16"):
        load("CAST", (shaped(3, 4, type_="BFLOAT16"),), shaped(3, 4), "CastOptions")
    file = TfliteModel()
    graph, moved = _moved(file, _SPECIAL)
    graph.outputs = (moved,)
    with pytest.raises(BadData, match="is an input or output of type BFLOAT16"):
        load_tflite(file.build())


@pytest.mark.parametrize("length", [23, 26])
def test_bfloat16_constants_of_a_wrong_length(load: Load, length: int) -> None:
    wrong = {**bfloat16(_SPECIAL), "data": bytes(length)}
    with pytest.raises(BadData, match=f"has {length} bytes of data"):
        load("CAST", (wrong,), shaped(3, 4), "CastOptions")
