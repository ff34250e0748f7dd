import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import (
    ACTIVATIONS,
    NONE,
    RELU6,
    TANH,
    VALID,
    Load,
    numbers,
    random,
    shaped,
    types,
)
from support.tflite.results import FIRST_VALUES, INT16_FIRST, run_on_cpu

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType


@pytest.mark.parametrize(
    ("code", "expected"), [("MAX_POOL_2D", [40, 32767]), ("AVERAGE_POOL_2D", [-8256, 8126])]
)
def test_int16_pooling(load: Load, code: str, expected: list[int]) -> None:
    lengths = {"StrideW": 1, "StrideH": 1, "FilterWidth": 2, "FilterHeight": 2}
    image, output = shaped(1, 2, 3, 1, **INT16_FIRST), shaped(1, 1, 2, 1, **INT16_FIRST)
    model = load(code, [image], output, "Pool2DOptions", Padding=1, **lengths)
    assert run_on_cpu(model, FIRST_VALUES.reshape(1, 2, 3, 1)) == expected


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
