from collections.abc import Callable

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import (
    ACTIVATIONS,
    RELU,
    RELU6,
    RELU_N1_TO_1,
    Load,
    fixed,
    numbers,
    random,
    shaped,
    types,
)
from support.tflite.results import run_on_cpu

from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array


@pytest.mark.parametrize("options", [{"Approximate": False}, {"Approximate": True}])
def test_gelu(load: Load, options: dict[str, bool]) -> None:
    model = load("GELU", (shaped(3),), shaped(3), "GeluOptions", **options)
    assert numbers(model) == [options["Approximate"]]
    result = run_references(model, [-1, 0, 2])[0]
    np.testing.assert_allclose(result, [-0.1587, 0, 1.9545], atol=3e-4)


def test_leaky_relu(load: Load) -> None:
    leaky = load("LEAKY_RELU", (shaped(2),), shaped(2), "LeakyReluOptions", Alpha=0.25)
    assert run_references(leaky, [-4, 4])[0].tolist() == [-1, 4]


def test_prelu(load: Load) -> None:
    x = random(2, 3)
    prelu = load("PRELU", (shaped(2, 3), fixed([0.5, 0, 2])), shaped(2, 3))
    np.testing.assert_allclose(run_references(prelu, -np.abs(x))[0], -np.abs(x) * [0.5, 0, 2], rtol=1e-6)


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
    assert run_on_cpu(model, np.array([values], np.int16)) == expected


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
    """TFLite changes the scale first and clamps in the new one: 6 / 0.1 - 8 = 52."""
    source = shaped(256, type_="INT8", scale=0.25, zero_point=3)
    model = load(code, (source,), shaped(256, type_="INT8", scale=0.1, zero_point=-8))
    assert types(model) == [OperationType["TFLITE_" + code]]
    x = np.arange(-128, 128)
    (result,) = run_references(model, x)
    real = np.clip(np.floor((x - 3) * 2.5 + 0.5) - 8, -18 if code == "RELU_N1_TO_1" else -8, limit)
    assert np.abs(result - real).max() <= 1
    assert result.max() == limit


def test_a_clamp_that_keeps_the_scale(load: Load) -> None:
    quantized = shaped(2, type_="INT8", scale=0.25, zero_point=3)
    assert types(load("RELU", (quantized,), quantized)) == [OperationType.RELU]
