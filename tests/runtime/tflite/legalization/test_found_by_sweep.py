"""Forms that LiteRT runs and that once were refused or wrong here; `tests/sweep` found them."""

from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import Load, fixed, random, shaped

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.model.types import Model
from neurald.hal.operations.machinery.call import Array


def computed(model: Model, *inputs: Array) -> Array:
    """The only output, which references and kernels compute alike."""
    (reference,) = run_references(model, *inputs)
    (compiled,) = nd.CompilationBuilder(model, [CpuDevice()]).finish().run(*inputs)
    np.testing.assert_allclose(compiled, reference, rtol=1e-5)
    return reference


@pytest.mark.parametrize("kind", ["FLOAT32", "INT8"])
@pytest.mark.parametrize("is_fed", [False, True])
def test_a_permutation_may_count_from_the_end(load: Load, kind: str, *, is_fed: bool) -> None:
    order = shaped(3, type_="INT32") if is_fed else fixed([-1, 0, -2], "INT32")
    scale: dict[str, Any] = {"scale": 0.5} if kind == "INT8" else {}
    model = load(
        "TRANSPOSE", (shaped(2, 3, 4, type_=kind, **scale), order), shaped(4, 2, 3, type_=kind, **scale)
    )
    x = np.arange(24).reshape(2, 3, 4).astype(np.float32 if kind == "FLOAT32" else np.int8)
    fed = (np.array([-1, 0, -2], np.int32),) if is_fed else ()
    np.testing.assert_array_equal(computed(model, x, *fed), x.transpose(2, 0, 1))


@pytest.mark.parametrize("code", ["REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize("axes", [[1], [0, 1]])
def test_extremes_are_copied_to_another_scale(load: Load, code: str, axes: list[int]) -> None:
    source, target = shaped(2, 3, type_="INT8", scale=0.5), {"type_": "INT8", "scale": 0.25, "zero_point": 3}
    model = load(
        code, (source, fixed(axes, "INT32")), shaped(*[2][len(axes) - 1 :], **target), "ReducerOptions"
    )
    x = np.array([[1, -9, 5], [7, 0, 2]], np.int8)
    expected = (np.max if code == "REDUCE_MAX" else np.min)(x, axis=tuple(axes))
    np.testing.assert_array_equal(computed(model, x), expected)


@pytest.mark.parametrize("kind", ["FLOAT32", "INT8"])
@pytest.mark.parametrize("keeps", [False, True])
def test_a_mean_of_nothing(load: Load, kind: str, *, keeps: bool) -> None:
    fields: dict[str, Any] = {"type_": kind, **({"scale": 0.5} if kind == "INT8" else {})}
    source = shaped(1, 3, shape_signature=(-1, 3), **fields)
    result = shaped(*((1, 3) if keeps else (3,)), **fields)
    model = load("MEAN", (source, fixed([0], "INT32")), result, "ReducerOptions", KeepDims=keeps)
    nothing = np.zeros((0, 3), np.float32 if kind == "FLOAT32" else np.int8)
    expected = np.full((1, 3) if keeps else (3,), np.nan if kind == "FLOAT32" else 0, nothing.dtype)
    np.testing.assert_array_equal(computed(model, nothing), expected)
    some = np.array([[2, 4, 6], [4, 8, 10]], nothing.dtype)
    np.testing.assert_array_equal(computed(model, some).ravel(), [3, 6, 8])


def test_the_padding_is_the_zero_point_of_the_output(load: Load) -> None:
    source = shaped(2, type_="INT8", scale=0.5, zero_point=7)
    result = shaped(4, type_="INT8", scale=0.25, zero_point=-5)
    model = load("PAD", (source, fixed([[1, 1]], "INT32")), result)
    np.testing.assert_array_equal(computed(model, np.array([3, 4], np.int8)), [-5, 3, 4, -5])


def test_constant_data_and_float16_weights(load: Load) -> None:
    data, weights = random(1, 4, 4, 2), random(3, 1, 1, 2, seed=1).astype(np.float16)
    model = load(
        "CONV_2D",
        (fixed(data), fixed(weights, "FLOAT16"), fixed(np.zeros(3))),
        shaped(1, 4, 4, 3),
        "Conv2DOptions",
        StrideW=1,
        StrideH=1,
    )
    expected = data.reshape(16, 2) @ weights.reshape(3, 2).astype(np.float32).T
    np.testing.assert_allclose(computed(model).reshape(16, 3), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("code", "function"),
    [
        ("BITWISE_XOR", np.bitwise_xor),
        ("RIGHT_SHIFT", np.right_shift),
        ("STABLEHLO_AND", np.bitwise_and),
        ("STABLEHLO_SHIFT_LEFT", np.left_shift),
    ],
)
def test_bits_of_int16_with_a_zero_point(load: Load, code: str, function: np.ufunc) -> None:
    source = shaped(3, type_="INT16", scale=0.5, zero_point=40)
    x, y = np.array([300, -7, 12], np.int16), np.array([1, 2, 3], np.int16)
    np.testing.assert_array_equal(computed(load(code, (source, source), source), x, y), function(x, y))
