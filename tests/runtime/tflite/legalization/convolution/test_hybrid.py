"""Weighted sums that Android has no operation for, and those of which it has one of another name."""

from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.operations.windows import convolution_sums, transposed_sums
from support.tflite.operator import RELU, SAME, VALID, Load, fixed, inputs_of, numbers, random, shaped, types

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

SCALES = (0.5, 0.25, 1.0)
#: How TFLite numbers paddings, and how Android does.
SCHEMES = {SAME: 1, VALID: 2}


def bytes_of(*shape: int) -> Array:
    return np.random.default_rng(1).integers(-127, 128, shape)


def whole(*shape: int, seed: int = 0) -> Array:
    """Floats that are stored exactly whether there is a zero point or not."""
    x = np.random.default_rng(seed).integers(-127, 128, shape).astype(np.float32)
    x.reshape(shape[0], -1)[:, 0] = 127
    return x


@pytest.mark.parametrize("scales", [0.5, SCALES])
def test_floats_with_quantized_weights(load: Load, scales: Any) -> None:
    weights, x = bytes_of(3, 2, 2, 4), random(2, 5, 5, 4, seed=3)
    kernel = fixed(weights, "INT8", scale=scales)
    model = load("CONV_2D", (shaped(2, 5, 5, 4), kernel), shaped(0), "Conv2DOptions", StrideW=1, StrideH=1)
    assert types(model) == [OperationType.TFLITE_CONV_2D]
    assert inputs_of(model)[2].type is OperandType.TENSOR_FLOAT32
    real = np.moveaxis(weights, 0, 3) * np.array(scales)
    expected = convolution_sums(x, real, 1, (1, 1), (1, 1))
    # Inputs are stored in steps of a 127th or 255th of their range.
    np.testing.assert_allclose(run_references(model, x)[0], expected, atol=0.01 * np.abs(expected).max())


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("type_", "scale"), [("FLOAT32", ()), ("INT8", 0.5), ("INT16", 0.5)])
def test_groups(load: Load, type_: str, scale: Any, dilation: int) -> None:
    """Android's operation of that name has no dilations, and takes no activations of 16 bits."""
    weights, x = bytes_of(6, 2, 2, 2), np.random.default_rng(2).integers(-128, 128, (2, 5, 5, 4))
    is_float = type_ == "FLOAT32"
    kernel = fixed(weights) if is_float else fixed(weights, "INT8", scale=0.5)
    model = load(
        "CONV_2D",
        (shaped(2, 5, 5, 4, type_=type_, scale=scale), kernel),
        shaped(0, type_=type_, scale=() if is_float else 50.0),
        "Conv2DOptions",
        StrideW=2,
        StrideH=1,
        DilationWFactor=dilation,
        DilationHFactor=dilation,
    )
    is_android = dilation == 1 and type_ != "INT16"
    name = OperationType.GROUPED_CONV_2D if is_android else OperationType.TFLITE_CONV_2D
    assert types(model) == [name]
    expected = np.concatenate(
        [
            convolution_sums(part, np.moveaxis(kernel_, 0, 3), 1, (1, 2), (dilation, dilation))
            for part, kernel_ in zip(np.split(x, 2, axis=3), np.split(weights, 2), strict=True)
        ],
        axis=3,
    )
    (result,) = run_references(model, x)
    if is_float:
        np.testing.assert_allclose(result, expected, rtol=1e-5)
    else:
        limits = np.iinfo(type_.lower())
        np.testing.assert_allclose(result, np.clip(expected * 0.25 / 50, limits.min, limits.max), atol=0.51)


@pytest.mark.parametrize("code", ["CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"])
def test_float16_weights(load: Load, code: str) -> None:
    weights, bias = random(3, 1, 1, 4), random(3, seed=1)
    x = random(1, 2, 2, 4, seed=2)
    matrix = weights.reshape(3, 4) if code == "FULLY_CONNECTED" else weights
    fed = [shaped(1, 2, 2, 4), fixed(matrix, "FLOAT16"), fixed(bias, "FLOAT16")]
    options: dict[str, Any] = {} if code == "FULLY_CONNECTED" else {"StrideW": 1, "StrideH": 1}
    kind = {"CONV_2D": "Conv2D", "FULLY_CONNECTED": "FullyConnected", "TRANSPOSE_CONV": "TransposeConv"}
    if code == "TRANSPOSE_CONV":
        fed = [fixed([1, 2, 2, 3], "INT32"), fed[1], fed[0], fed[2]]
    model = load(code, fed, shaped(0), f"{kind[code]}Options", **options)
    assert set(types(model)[:-1]) <= {OperationType.CAST}
    expected = x.reshape(-1, 4) @ weights.reshape(3, 4).astype(np.float16).astype(float).T
    expected += bias.astype(np.float16).astype(float)
    (result,) = run_references(model, x)
    np.testing.assert_allclose(result.reshape(-1, 3), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("is_constant", [True, False])
def test_transpose_conv(load: Load, padding: int, *, is_constant: bool) -> None:
    lengths = (7, 4) if padding == SAME else (8, 6)
    shape, weights, x = [2, *lengths, 3], random(3, 2, 3, 4, seed=1), random(2, 4, 4, 4)
    target = fixed(shape, "INT32") if is_constant else shaped(4, type_="INT32")
    model = load(
        "TRANSPOSE_CONV",
        (target, fixed(weights), shaped(2, 4, 4, 4)),
        shaped(*shape),
        "TransposeConvOptions",
        Padding=padding,
        StrideW=1,
        StrideH=2,
        FusedActivationFunction=RELU,
    )
    assert types(model) == [OperationType.TRANSPOSE_CONV_2D]
    (result,) = run_references(model, *([] if is_constant else [shape]), x)
    sums = transposed_sums(x, np.moveaxis(weights, 0, 3), lengths, SCHEMES[padding], (2, 1), (1, 1))
    np.testing.assert_allclose(result, np.maximum(sums, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("code", "bias_type"), [("CONV_2D", "INT64"), ("FULLY_CONNECTED", "INT64")])
@pytest.mark.parametrize("has_bias", [True, False])
def test_16_bit_activations(load: Load, code: str, bias_type: str, *, has_bias: bool) -> None:
    weights, x = bytes_of(3, 1, 1, 4), np.random.default_rng(2).integers(-32768, 32768, (1, 2, 2, 4))
    matrix = weights.reshape(3, 4) if code == "FULLY_CONNECTED" else weights
    bias = fixed([1000, -2000, 3000], bias_type) if has_bias else None
    options: dict[str, Any] = {} if code == "FULLY_CONNECTED" else {"StrideW": 1, "StrideH": 1}
    model = load(
        code,
        (shaped(1, 2, 2, 4, type_="INT16", scale=0.5), fixed(matrix, "INT8", scale=SCALES), bias),
        shaped(0, type_="INT16", scale=200.0),
        "FullyConnectedOptions" if code == "FULLY_CONNECTED" else "Conv2DOptions",
        **options,
    )
    assert types(model) == [OperationType[f"TFLITE_{code}"]]
    totals = x.reshape(-1, 4) @ weights.reshape(3, 4).T + ([1000, -2000, 3000] if has_bias else 0)
    expected = np.clip(totals * (0.5 * np.array(SCALES)) / 200, -32768, 32767)
    (result,) = run_references(model, x)
    assert np.abs(result.reshape(-1, 3) - expected).max() < 1.6


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_fully_connected_floats_with_quantized_weights(load: Load, *, asymmetric: bool, keep: bool) -> None:
    weights, x = bytes_of(3, 4), whole(2, 5, 4)
    x[..., 0] = 127
    model = load(
        "FULLY_CONNECTED",
        (shaped(2, 5, 4), fixed(weights, "INT8", scale=SCALES)),
        shaped(0),
        "FullyConnectedOptions",
        KeepNumDims=keep,
        AsymmetricQuantizeInputs=asymmetric,
    )
    assert types(model) == [OperationType.TFLITE_FULLY_CONNECTED]
    assert numbers(model, start=3) == [0, keep, asymmetric]
    expected = x @ weights.T * np.array(SCALES)
    (result,) = run_references(model, x)
    assert result.shape == ((2, 5, 3) if keep else (10, 3))
    limit = 0.01 * np.abs(expected).max() if asymmetric else 1e-3
    np.testing.assert_allclose(result.reshape(expected.shape), expected, atol=limit)


@pytest.mark.parametrize(
    ("type_", "name"), [("FLOAT32", "FULLY_CONNECTED"), ("INT8", "TFLITE_FULLY_CONNECTED")]
)
def test_weights_that_are_computed(load: Load, type_: str, name: str) -> None:
    scale = () if type_ == "FLOAT32" else 1.0
    fed = (shaped(2, 4, type_=type_, scale=scale), shaped(3, 4, type_=type_, scale=scale))
    model = load("FULLY_CONNECTED", fed, shaped(2, 3, type_=type_, scale=scale), "FullyConnectedOptions")
    assert types(model) == [OperationType[name]]
    x, weights = np.arange(8).reshape(2, 4), np.arange(12).reshape(3, 4) % 5
    np.testing.assert_array_equal(run_references(model, x, weights)[0], x @ weights.T)


def test_weights_of_unknown_shape(load: Load) -> None:
    fed = (shaped(2, 4), shaped(3, 4, shape_signature=(-1, -1)))
    model = load("FULLY_CONNECTED", fed, shaped(2, 3), "FullyConnectedOptions")
    assert types(model) == [OperationType.TFLITE_FULLY_CONNECTED]
    x, weights = random(2, 4), random(5, 4)
    np.testing.assert_allclose(run_references(model, x, weights)[0], x @ weights.T, rtol=1e-5)


def test_keeping_several_unknown_dimensions(load: Load) -> None:
    source = shaped(1, 1, 4, shape_signature=(-1, -1, 4))
    model = load(
        "FULLY_CONNECTED",
        (source, fixed(np.eye(4))),
        shaped(1, 1, 4),
        "FullyConnectedOptions",
        KeepNumDims=True,
    )
    x = random(2, 3, 4)
    np.testing.assert_array_equal(run_references(model, x)[0], x)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("kind", ["floats", "broadcast", "stored", "hybrid"])
def test_batch_matmul(load: Load, kind: str, *, adjoint: bool, asymmetric: bool) -> None:
    first, second = whole(2, 3, 4), bytes_of(2, 4, 5)
    second = second[:1] if kind == "broadcast" else second
    fed = second.swapaxes(1, 2) if adjoint else second
    stored: dict[str, Any] = {"type_": "INT8", "scale": 1.0}
    model = load(
        "BATCH_MATMUL",
        (
            shaped(2, 3, 4, **(stored if kind == "stored" else {})),
            fixed(fed, "INT8", scale=1.0) if kind in ("stored", "hybrid") else fixed(fed),
        ),
        shaped(0, **({"type_": "INT8", "scale": 1000.0} if kind == "stored" else {})),
        "BatchMatMulOptions",
        AdjY=adjoint,
        AsymmetricQuantizeInputs=asymmetric,
    )
    is_android = kind in ("floats", "stored")
    name = "BATCH_MATMUL" if is_android else "TFLITE_BATCH_MATMUL"
    assert types(model) == [OperationType[name]]
    (result,) = run_references(model, first)
    expected = first @ second
    if kind == "stored":
        np.testing.assert_allclose(result, np.clip(expected / 1000, -128, 127), atol=0.51)
    else:
        np.testing.assert_allclose(result, expected, atol=0.02 * np.abs(expected).max())


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (4, 4), (1, 1, 4, 3), (2, 4)])
@pytest.mark.parametrize("back", [1, 2])
def test_a_matrix_with_several_scales(
    load: Load, shape: tuple[int, ...], back: int, *, adjoint: bool
) -> None:
    """As LiteRT takes them, the scales are those of the columns, whatever dimension the file says they are along."""
    matrix = bytes_of(*shape)
    stored = matrix.swapaxes(-1, -2) if adjoint else matrix
    axis = len(shape) - back
    scales = [0.25 * (place + 1) for place in range(stored.shape[axis])]
    fields: dict[str, Any] = {"scale": scales, "quantized_dimension": axis}
    columns = shape[-1]
    arguments: Any = (
        "BATCH_MATMUL",
        (shaped(*shape[:-2], 5, shape[-2]), fixed(stored, "INT8", **fields)),
        shaped(0),
        "BatchMatMulOptions",
    )
    if len(scales) < columns:
        with pytest.raises(BadData, match="the columns of the product"):
            load(*arguments, AdjY=adjoint)
        return
    x = whole(*shape[:-2], 5, shape[-2])
    (result,) = run_references(load(*arguments, AdjY=adjoint), x)
    expected = (x @ matrix) * np.array(scales[:columns])
    np.testing.assert_allclose(result, expected, atol=0.02 * np.abs(expected).max())


@pytest.mark.parametrize("has_bias", [False, True])
def test_volumes(load: Load, *, has_bias: bool) -> None:
    x, weights, bias = random(2, 3, 4, 5, 2), random(2, 1, 3, 2, 3, seed=1), random(3, seed=2)
    steps = {"StrideD": 1, "StrideH": 2, "StrideW": 1, "DilationDFactor": 2, "Padding": VALID}
    tail = (fixed(bias),) if has_bias else ()
    offsets = bias if has_bias else 0
    model = load("CONV_3D", (shaped(*x.shape), fixed(weights), *tail), shaped(0), "Conv3DOptions", **steps)
    sums = convolution_sums(x, weights, 2, (1, 2, 1), (2, 1, 1)) + offsets
    (result,) = run_references(model, x)
    np.testing.assert_allclose(result, sums, rtol=1e-4, atol=1e-3)
    back = fixed(weights.swapaxes(3, 4))
    lengths, y = (5, 7, 7), random(2, 3, 4, 5, 2)
    model = load(
        "CONV_3D_TRANSPOSE",
        (fixed([2, *lengths, 3], "INT32"), back, shaped(*y.shape), *tail),
        shaped(0),
        "Conv3DOptions",
        **steps,
    )
    sums = transposed_sums(y, weights, lengths, 2, (1, 2, 1), (2, 1, 1)) + offsets
    np.testing.assert_allclose(run_references(model, y)[0], sums, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("crops", "type_", "name"),
    [
        ([[0, 0], [0, 0]], "FLOAT32", "BATCH_TO_SPACE_ND"),
        ([[0, 0], [0, 0]], "INT64", "TFLITE_BATCH_TO_SPACE_ND"),
        ([[1, 0], [0, 1]], "FLOAT32", "TFLITE_BATCH_TO_SPACE_ND"),
    ],
)
def test_batch_to_space(load: Load, crops: list[list[int]], type_: str, name: str) -> None:
    image = shaped(4, 1, 2, 1, type_=type_)
    model = load(
        "BATCH_TO_SPACE_ND", (image, fixed([2, 2], "INT32"), fixed(crops, "INT32")), shaped(0, type_=type_)
    )
    assert types(model) == [OperationType[name]]
    x = np.arange(8).reshape(4, 1, 2, 1)
    (top, left), (bottom, right) = (crops[0][0], crops[1][0]), (crops[0][1], crops[1][1])
    expected = np.array([[0, 2, 1, 3], [4, 6, 5, 7]])[top : 2 - bottom, left : 4 - right]
    np.testing.assert_array_equal(run_references(model, x)[0][0, ..., 0], expected)


@pytest.mark.parametrize(
    ("type_", "name"), [("INT8", "SPACE_TO_BATCH_ND"), ("BOOL", "TFLITE_SPACE_TO_BATCH_ND")]
)
def test_space_to_batch(load: Load, type_: str, name: str) -> None:
    image = shaped(1, 2, 2, 1, type_=type_)
    arguments = fixed([2, 1], "INT32"), fixed([[0, 0], [1, 0]], "INT32")
    model = load("SPACE_TO_BATCH_ND", (image, *arguments), image)
    assert types(model) == [OperationType[name]]
    (result,) = run_references(model, np.ones((1, 2, 2, 1)))
    np.testing.assert_array_equal(result[..., 0], [[[0, 1, 1]], [[0, 1, 1]]])


@pytest.mark.parametrize(
    ("code", "shape"), [("DEPTH_TO_SPACE", (1, 4, 6, 2)), ("SPACE_TO_DEPTH", (1, 1, 1, 32))]
)
@pytest.mark.parametrize(("type_", "prefix"), [("FLOAT32", ""), ("INT32", "TFLITE_")])
def test_depth_and_space(load: Load, code: str, shape: tuple[int, ...], type_: str, prefix: str) -> None:
    kind = "DepthToSpaceOptions" if code == "DEPTH_TO_SPACE" else "SpaceToDepthOptions"
    model = load(code, (shaped(1, 2, 2, 8, type_=type_),), shaped(0, type_=type_), kind, BlockSize=2)
    assert types(model) == [OperationType[prefix + code]]
    (result,) = run_references(model, np.zeros((1, 2, 2, 8)))
    assert result.shape == ((1, 4, 4, 2) if code == "DEPTH_TO_SPACE" else shape)


def test_combined_lookups(load: Load) -> None:
    table = random(3, 2)
    model = load(
        "EMBEDDING_LOOKUP_SPARSE",
        (
            fixed([2, 0], "INT32"),
            fixed([[0, 0], [0, 1]], "INT32"),
            fixed([2, 2], "INT32"),
            shaped(2),
            fixed(table),
        ),
        shaped(0),
        "EmbeddingLookupSparseOptions",
        Combiner=1,
    )
    (result,) = run_references(model, [1.0, 3.0])
    np.testing.assert_allclose(result, [(table[2] + 3 * table[0]) / 4, [0, 0]], rtol=1e-6)


@pytest.mark.parametrize("type_", ["FLOAT32", "INT16"])
@pytest.mark.parametrize("code", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_16_bit_pools(load: Load, code: str, type_: str) -> None:
    scale = () if type_ == "FLOAT32" else 0.5
    image = shaped(1, 2, 2, 1, type_=type_, scale=scale)
    sizes = {"StrideW": 2, "StrideH": 2, "FilterWidth": 2, "FilterHeight": 2}
    model = load(code, (image,), shaped(0, type_=type_, scale=scale), "Pool2DOptions", **sizes)
    prefix = "TFLITE_" if type_ == "INT16" else ""
    assert types(model) == [OperationType[prefix + code]]
    (result,) = run_references(model, np.array([1, 2, 4, 5]).reshape(1, 2, 2, 1))
    assert result.item() == (5 if code == "MAX_POOL_2D" else 3)
