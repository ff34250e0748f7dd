from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.operator import (
    ACTIVATIONS,
    NONE,
    RELU,
    RELU6,
    RELU_N1_TO_1,
    SIGN_BIT,
    TANH,
    VALID,
    Load,
    fixed,
    inputs_of,
    numbers,
    random,
    shaped,
    types,
)

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("code", "function"),
    [("ADD", np.add), ("SUB", np.subtract), ("MUL", np.multiply), ("DIV", np.divide)],
)
def test_arithmetic(load: Load, code: str, function: np.ufunc, activation: int) -> None:
    options = code.capitalize() + "Options"
    model = load(code, (shaped(2, 3), shaped(3)), shaped(2, 3), options, FusedActivationFunction=activation)
    assert types(model)[0] is OperationType[code]
    x, y = random(2, 3), random(3, seed=1)
    (result,) = run_references(model, x, y)
    np.testing.assert_allclose(result, ACTIVATIONS[activation](function(x, y)), rtol=1e-6)


def test_arithmetic_without_options(load: Load) -> None:
    model = load("ADD", (shaped(2), shaped(2)), shaped(2))
    assert numbers(model) == [0]


@pytest.mark.parametrize("activation", [SIGN_BIT, 6, -1])
@pytest.mark.parametrize(
    ("code", "options"), [("ADD", "AddOptions"), ("CONCATENATION", "ConcatenationOptions")]
)
def test_an_unknown_activation(load: Load, code: str, options: str, activation: int) -> None:
    with pytest.raises(BadData, match="fused activation"):
        load(code, (shaped(2), shaped(2)), shaped(2), options, FusedActivationFunction=activation)


def test_fused_tanh_of_quantized_values_is_refused(load: Load) -> None:
    stored = shaped(2, type_="UINT8", scale=0.5)
    with pytest.raises(BadData, match="TANH of a quantised operator"):
        load("ADD", (stored, stored), stored, "AddOptions", FusedActivationFunction=TANH)


def test_a_sum_has_the_type_of_its_inputs(load: Load) -> None:
    stored = shaped(2, type_="UINT8", scale=0.5, zero_point=1)
    model = load("ADD", (stored, stored), shaped(2, type_="FLOAT32", scale=0.5, zero_point=1), "AddOptions")
    (result,) = run_references(model, [3, 4], [5, 1])
    assert result.dtype == np.uint8
    assert result.tolist() == [7, 4]


@pytest.mark.parametrize("code", ["LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 1, 4)])
def test_activations(load: Load, code: str, shape: tuple[int, ...]) -> None:
    functions: dict[str, Callable[[Array], Array]] = {
        "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
        "TANH": np.tanh,
        "RELU": ACTIVATIONS[RELU],
        "RELU6": ACTIVATIONS[RELU6],
        "RELU_N1_TO_1": ACTIVATIONS[RELU_N1_TO_1],
    }
    x = random(*shape)
    (result,) = run_references(load(code, (shaped(*shape),), shaped(*shape)), x)
    np.testing.assert_allclose(result, functions[code](x), rtol=1e-6)


@pytest.mark.parametrize(("code", "limit"), [("RELU", 127), ("RELU6", 52), ("RELU_N1_TO_1", 2)])
def test_a_clamp_with_another_output_scale(load: Load, code: str, limit: int) -> None:
    """TFLite changes the scale first and cuts off in the new one: 6 / 0.1 - 8 = 52."""
    source = shaped(256, type_="INT8", scale=0.25, zero_point=3)
    model = load(code, (source,), shaped(256, type_="INT8", scale=0.1, zero_point=-8))
    assert types(model) == [OperationType["TFLITE_" + code]]
    x = np.arange(-128, 128)
    (result,) = run_references(model, x)
    real = np.clip(np.floor((x - 3) * 2.5 + 0.5) - 8, -18 if code == "RELU_N1_TO_1" else -8, limit)
    assert np.abs(result - real).max() <= 1
    assert result.max() == limit


def test_a_clamp_that_keeps_the_scale(load: Load) -> None:
    stored = shaped(2, type_="INT8", scale=0.25, zero_point=3)
    assert types(load("RELU", (stored,), stored)) == [OperationType.RELU]


@pytest.mark.parametrize("code", ["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"])
@pytest.mark.parametrize("activation", [RELU6, TANH])
def test_pools(load: Load, code: str, activation: int) -> None:
    model = load(
        code,
        (shaped(1, 6, 4, 2),),
        shaped(1, 3, 4, 2),
        "Pool2DOptions",
        Padding=VALID,
        StrideW=1,
        StrideH=2,
        FilterWidth=1,
        FilterHeight=2,
        FusedActivationFunction=activation,
    )
    assert numbers(model) == [2, 1, 2, 1, 2, RELU6 if activation == RELU6 else NONE]
    x = random(1, 6, 4, 2)
    windows = x.reshape(1, 3, 2, 4, 2)
    expected = {
        "AVERAGE_POOL_2D": windows.mean(axis=2),
        "MAX_POOL_2D": windows.max(axis=2),
        "L2_POOL_2D": np.sqrt(np.square(windows).mean(axis=2)),
    }[code]
    (result,) = run_references(model, x)
    np.testing.assert_allclose(result, ACTIVATIONS[activation](expected), rtol=1e-5)


@pytest.mark.parametrize("padding", [2, -1])
def test_an_unknown_padding(load: Load, padding: int) -> None:
    with pytest.raises(BadData, match=f"padding {padding} is unknown"):
        load("MAX_POOL_2D", (shaped(1, 2, 2, 1),), shaped(1, 2, 2, 1), "Pool2DOptions", Padding=padding)


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_concatenation(load: Load, axis: int, activation: int) -> None:
    parts = [random(2, 3), random(2, 3, seed=1), random(2, 3, seed=2)]
    model = load(
        "CONCATENATION",
        (shaped(2, 3), fixed(parts[1]), shaped(2, 3)),
        shaped(1, 1),
        "ConcatenationOptions",
        Axis=axis,
        FusedActivationFunction=activation,
    )
    (result,) = run_references(model, parts[0], parts[2])
    np.testing.assert_allclose(result, ACTIVATIONS[activation](np.concatenate(parts, axis)), rtol=1e-6)


@pytest.mark.parametrize("axis", [2, -3, 2**31 - 1, -(2**31)])
def test_concatenation_refuses_axes(load: Load, axis: int) -> None:
    with pytest.raises(BadData, match="axis"):
        load("CONCATENATION", (shaped(2, 3),), shaped(2, 3), "ConcatenationOptions", Axis=axis)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axes", [1, [1], [-1], [0, 2], [0, 1, 2], [2, -3, 1, 1]])
def test_mean(load: Load, axes: Any, *, keep: bool) -> None:
    model = load("MEAN", (shaped(2, 3, 4), fixed(axes, "INT32")), shaped(1), "ReducerOptions", KeepDims=keep)
    x: Any = random(2, 3, 4)
    (result,) = run_references(model, x)
    expected = x.mean(axis=tuple({axis % 3 for axis in np.atleast_1d(axes)}), keepdims=keep)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_mean_over_an_axis_that_is_an_input(load: Load, shape: tuple[int, ...]) -> None:
    model = load("MEAN", (shaped(2, 3), shaped(*shape, type_="INT32")), shaped(1, 1), "ReducerOptions")
    x = random(2, 3)
    (result,) = run_references(model, x, np.full(shape, 1))
    np.testing.assert_allclose(result, x.mean(axis=1), rtol=1e-6)


def test_mean_with_another_output_scale(load: Load) -> None:
    source, axis = shaped(1, 4, type_="INT8", scale=0.5), fixed([1], "INT32")
    same = load("MEAN", (source, axis), shaped(1, type_="INT8", scale=0.5), "ReducerOptions")
    assert types(same) == [OperationType.MEAN]
    other = load("MEAN", (source, axis), shaped(1, type_="INT8", scale=0.25), "ReducerOptions")
    assert types(other) == [OperationType.TFLITE_MEAN]
    assert run_references(other, [[1, 2, 3, 6]])[0].tolist() == [6]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (fixed([0] * 17, "INT32"), "list of at most 16"),
        (fixed([[0]], "INT32"), "list of at most 16"),
        (fixed(float("nan")), "TENSOR_INT32 is expected"),
        (fixed([0, 1], "INT8"), "TENSOR_INT32 is expected"),
        (fixed([2], "INT32"), "axis"),
    ],
)
def test_refuses_axes(load: Load, axes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadData, match=message):
        load("MEAN", (shaped(2, 3), axes), shaped(1), "ReducerOptions")


def test_quantize(load: Load) -> None:
    real, stored = shaped(3), shaped(3, type_="UINT8", scale=0.5, zero_point=10)
    model = load("QUANTIZE", (real,), stored, "QuantizeOptions")
    assert types(model) == [OperationType.QUANTIZE]
    assert run_references(model, [-100, 0.5, 3])[0].tolist() == [0, 11, 16]
    other = shaped(3, type_="INT8", scale=1.0, zero_point=0)
    model = load("QUANTIZE", (stored,), other)
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


@pytest.mark.parametrize(
    ("new_shape", "expected"),
    [([3, 2], (3, 2)), ([-1, 2], (3, 2)), ([6], (6,)), ([1, 2, 3, 1], (1, 2, 3, 1))],
)
@pytest.mark.parametrize("given", ["option", "constant", "fed"])
def test_reshape(load: Load, new_shape: list[int], expected: tuple[int, ...], given: str) -> None:
    tail: dict[str, list[dict[str, Any]]] = {
        "option": [],
        "constant": [fixed(new_shape, "INT32")],
        "fed": [shaped(len(new_shape), type_="INT32")],
    }
    values = {"NewShape": new_shape if given == "option" else [7, 7]}
    output = shaped(*(1,) * len(new_shape))
    model = load("RESHAPE", (shaped(2, 3), *tail[given]), output, "ReshapeOptions", **values)
    x = random(2, 3)
    (result,) = run_references(model, x, *([new_shape] if given == "fed" else []))
    np.testing.assert_array_equal(result, x.reshape(expected))


@sweep(
    ("tail", "values"),
    [
        ((), {"NewShape": [0]}),
        ((), {"NewShape": []}),
        ((), {}),
        ((shaped(0, type_="INT32", name="none"),), {"NewShape": [5]}),
    ],
)
def test_reshape_to_a_scalar(tmp_path: Path, tail: Sequence[dict[str, Any]], values: dict[str, Any]) -> None:
    """A list of no lengths has no bytes, so the file cannot tell it from a tensor that is not written."""
    file = TfliteModel()
    graph = file.subgraph()
    x, y = graph.tensor((1, 1)), graph.tensor(())
    graph.operator(
        "RESHAPE", (x, *(graph.tensor(**fields) for fields in tail)), (y,), "ReshapeOptions", **values
    )
    graph.inputs, graph.outputs = (x,), (y,)
    (result,) = run_references(load_tflite(file.write(tmp_path / "model.tflite")), [[3.0]])
    assert result.shape == ()
    assert result == 3


def test_a_constant_batch_in_the_new_shape(load: Load) -> None:
    source = shaped(1, 2, 2, shape_signature=(-1, 2, 2))
    for new_shape, works in (([1, 4], False), ([-1, 4], True)):
        model = load("RESHAPE", (source, fixed(new_shape, "INT32")), shaped(1, 4), "ReshapeOptions")
        assert run_references(model, np.zeros((1, 2, 2)))[0].shape == (1, 4)
        if works:
            assert run_references(model, np.zeros((3, 2, 2)))[0].shape == (3, 4)
        else:
            with pytest.raises(BadData, match="12"):
                run_references(model, np.zeros((3, 2, 2)))


@pytest.mark.parametrize("new_shape", [[4, 2], [-1, -1], [-2, 3], [-1, 0], [1] * 17])
@pytest.mark.parametrize("as_constant", [False, True])
def test_reshape_refuses(load: Load, new_shape: list[int], *, as_constant: bool) -> None:
    tail = [fixed(new_shape, "INT32")] if as_constant else []
    with pytest.raises(BadData, match="operator 0 RESHAPE"):
        load("RESHAPE", (shaped(2, 3), *tail), shaped(2, 3), "ReshapeOptions", NewShape=new_shape)


@pytest.mark.parametrize("code", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)])
def test_resize(load: Load, code: str, flags: tuple[bool, bool]) -> None:
    options = "ResizeBilinearOptions" if code == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    model = load(
        code,
        (shaped(1, 2, 3, 1), fixed([4, 9], "INT32")),
        shaped(1, 1, 1, 1),
        options,
        AlignCorners=flags[0],
        HalfPixelCenters=flags[1],
    )
    least = 3 if code == "RESIZE_BILINEAR" else 4
    assert len(inputs_of(model)) == (6 if any(flags) else least)
    assert numbers(model)[:2] == [9, 4]
    if any(flags):
        assert numbers(model)[2:] == [False, *flags]
    assert run_references(model, random(1, 2, 3, 1))[0].shape == (1, 4, 9, 1)


@pytest.mark.parametrize("size", [fixed([2], "INT32"), fixed([2.0, 2.0]), fixed([[2, 2]], "INT32")])
def test_resize_refuses_sizes(load: Load, size: dict[str, Any]) -> None:
    with pytest.raises(BadData, match="operator 0 RESIZE_BILINEAR"):
        load("RESIZE_BILINEAR", (shaped(1, 2, 2, 1), size), shaped(1, 2, 2, 1), "ResizeBilinearOptions")


@pytest.mark.parametrize("code", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_resize_to_a_computed_size(load: Load, code: str) -> None:
    options = "ResizeBilinearOptions" if code == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    model = load(
        code,
        (shaped(1, 2, 3, 1), shaped(2, type_="INT32")),
        shaped(1, 4, 6, 1),
        options,
        AlignCorners=True,
    )
    assert types(model) == [OperationType[f"TFLITE_{code}"]]
    known = load(code, (shaped(1, 2, 3, 1), fixed([4, 9], "INT32")), shaped(0), options, AlignCorners=True)
    x = random(1, 2, 3, 1)
    (result,) = run_references(model, x, [4, 9])
    np.testing.assert_allclose(result, run_references(known, x)[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("type_", "name"),
    [("FLOAT32", "RESIZE_BILINEAR"), ("INT8", "TFLITE_RESIZE_BILINEAR"), ("INT16", "TFLITE_RESIZE_BILINEAR")],
)
def test_resize_of_quantized_values_rounds_like_tflite(load: Load, type_: str, name: str) -> None:
    image = shaped(1, 2, 3, 1, type_=type_, scale=() if type_ == "FLOAT32" else 0.5)
    model = load("RESIZE_BILINEAR", (image, fixed([4, 9], "INT32")), image, "ResizeBilinearOptions")
    assert types(model) == [OperationType[name]]


@pytest.mark.parametrize("size", [[0, 2], [2, -1], [2**31 - 1, 2**31 - 1]])
def test_resize_to_empty_and_huge_images(load: Load, size: list[int]) -> None:
    with pytest.raises(BadData, match="operator 0 RESIZE_BILINEAR"):
        load(
            "RESIZE_BILINEAR",
            (shaped(1, 2, 2, 1), fixed(size, "INT32")),
            shaped(1, 2, 2, 1),
            "ResizeBilinearOptions",
        )


@pytest.mark.parametrize("type_", ["FLOAT32", "FLOAT16"])
def test_softmax(load: Load, type_: str) -> None:
    data = shaped(2, 5, type_=type_)
    model = load("SOFTMAX", (data,), data, "SoftmaxOptions", Beta=0.5)
    x = random(2, 5)
    (result,) = run_references(model, x)
    powers = np.exp(x / 2)
    tolerance = 1e-5 if type_ == "FLOAT32" else 1e-2
    np.testing.assert_allclose(result, powers / powers.sum(axis=1, keepdims=True), rtol=tolerance)


def test_softmax_refuses_a_beta_out_of_range(load: Load) -> None:
    half = shaped(2, 5, type_="FLOAT16")
    with pytest.raises(BadData, match="too large for FLOAT16"):
        load("SOFTMAX", (half,), half, "SoftmaxOptions", Beta=1e6)
    for beta in (-1.0, float("inf"), float("nan")):
        with pytest.raises(BadData, match="beta"):
            load("SOFTMAX", (shaped(2, 5),), shaped(2, 5), "SoftmaxOptions", Beta=beta)


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((1, 2, 1, 3), [], (2, 3)),
        ((1, 2, 1, 3), [0], (2, 1, 3)),
        ((1, 2, 1, 3), [-2], (1, 2, 3)),
        ((1, 2, 1, 3), [0, 2, -2], (2, 3)),
        ((1, 1), [], ()),
        ((1, 1), [0, -1], ()),
        ((2, 3), [], (2, 3)),
        ((), [], ()),
    ],
)
def test_squeeze(load: Load, shape: tuple[int, ...], axes: list[int], expected: tuple[int, ...]) -> None:
    model = load("SQUEEZE", (shaped(*shape),), shaped(1), "SqueezeOptions", SqueezeDims=axes)
    x = random(*shape)
    (result,) = run_references(model, x)
    assert result.shape == expected
    np.testing.assert_array_equal(result.ravel(), x.ravel())


def test_squeeze_of_an_open_batch(load: Load) -> None:
    source = shaped(1, 1, 3, shape_signature=(-1, 1, 3))
    model = load("SQUEEZE", (source,), shaped(1, 3), "SqueezeOptions", SqueezeDims=[1])
    assert run_references(model, np.zeros((5, 1, 3)))[0].shape == (5, 3)


@pytest.mark.parametrize("axes", [[1], [4], [-5], [0] * 17])
def test_squeeze_refuses_axes(load: Load, axes: list[int]) -> None:
    with pytest.raises(BadData, match="operator 0 SQUEEZE"):
        load("SQUEEZE", (shaped(1, 2, 1, 3),), shaped(1), "SqueezeOptions", SqueezeDims=axes)


@pytest.mark.parametrize(
    ("code", "count", "options"),
    [
        ("ADD", 1, "AddOptions"),
        ("ADD", 3, "AddOptions"),
        ("RELU", 0, None),
        ("RELU", 2, None),
        ("CONCATENATION", 0, "ConcatenationOptions"),
        ("CONV_2D", 4, "Conv2DOptions"),
        ("FULLY_CONNECTED", 1, "FullyConnectedOptions"),
    ],
)
def test_numbers_of_inputs(load: Load, code: str, count: int, options: str | None) -> None:
    with pytest.raises(BadData, match=f"operator 0 {code}: it has {count} inputs and 1 outputs"):
        load(code, [shaped(2, 2)] * count, shaped(2, 2), options)


def test_an_input_that_must_not_be_omitted(load: Load) -> None:
    with pytest.raises(BadData, match="input 1 is omitted"):
        load("ADD", (shaped(2), None), shaped(2), "AddOptions")


def test_options_of_another_operator(load: Load) -> None:
    with pytest.raises(BadData, match="its options are Pool2DOptions; AddOptions are expected"):
        load("ADD", (shaped(2), shaped(2)), shaped(2), "Pool2DOptions")


def test_scalars_are_shared(tmp_path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = (graph.tensor((2,)),)
    for _ in range(3):
        graph.outputs = (graph.tensor((2,)),)
        graph.operator("ADD", (graph.inputs[0], graph.inputs[0]), graph.outputs, "AddOptions")
    model = load_tflite(file.write(tmp_path / "model.tflite"))
    assert [operand.lifetime for operand in model.main.operands].count(Lifetime.CONSTANT_COPY) == 1
