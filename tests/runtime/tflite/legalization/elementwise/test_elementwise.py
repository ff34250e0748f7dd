from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import Load, random, shaped, types

from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array

#: Operator → function of two numbers.
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "ATAN2": np.arctan2,
    "EQUAL": np.equal,
    "FLOOR_DIV": lambda x, y: np.floor(x / y),
    "FLOOR_MOD": np.mod,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "NOT_EQUAL": np.not_equal,
    "POW": np.power,
    "SQUARED_DIFFERENCE": lambda x, y: (x - y) ** 2,
}
UNARY: dict[str, Callable[[Array], Array]] = {
    "ABS": np.abs,
    "CEIL": np.ceil,
    "COS": np.cos,
    "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
    "EXP": np.exp,
    "FLOOR": np.floor,
    "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "LOG": np.log,
    "NEG": np.negative,
    "RELU_0_TO_1": lambda x: np.clip(x, 0, 1),
    "ROUND": np.round,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "SIGN": np.sign,
    "SIN": np.sin,
    "SQRT": np.sqrt,
    "SQUARE": np.square,
}


@pytest.mark.parametrize("code", BINARY)
@pytest.mark.parametrize(("first", "second"), [((2, 3), (2, 3)), ((2, 1, 3, 1, 2), (4, 1, 5, 1)), ((), (2,))])
def test_binary_operators(load: Load, code: str, first: Any, second: Any) -> None:
    shape = np.broadcast_shapes(first, second)
    x, y = (np.abs(random(*sides, seed=seed)) + 0.5 for seed, sides in enumerate((first, second)))
    is_truth = BINARY[code](np.ones(1), np.ones(1)).dtype == bool
    model = load(
        code, (shaped(*first), shaped(*second)), shaped(*shape, type_="BOOL" if is_truth else "FLOAT32")
    )
    (result,) = run_references(model, x, y)
    assert result.shape == shape
    np.testing.assert_allclose(result, BINARY[code](x, y), rtol=1e-5)


@pytest.mark.parametrize("code", UNARY)
@pytest.mark.parametrize("shape", [(), (5,), (2, 1, 3, 1, 2, 2)])
def test_unary_operators(load: Load, code: str, shape: tuple[int, ...]) -> None:
    x = random(*shape)
    x = np.abs(x) + 0.5 if code in ("LOG", "RSQRT", "SQRT") else x
    (result,) = run_references(load(code, (shaped(*shape),), shaped(*shape)), x)
    np.testing.assert_allclose(result, UNARY[code](x), rtol=1e-5, atol=1e-6)


def test_operations_of_android_are_preferred(load: Load) -> None:
    plain, wide = shaped(2, 3), shaped(1, 1, 1, 2, 3)
    assert types(load("ADD", (plain, plain), plain, "AddOptions")) == [OperationType.ADD]
    assert types(load("ADD", (wide, wide), wide, "AddOptions")) == [OperationType.TFLITE_ADD]
    whole = shaped(2, type_="INT32")
    assert types(load("DIV", (whole, whole), whole, "DivOptions")) == [OperationType.TFLITE_DIV]
    assert types(load("MAXIMUM", (plain, plain), plain)) == [OperationType.MAXIMUM]
    quantized = shaped(2, type_="INT8", scale=0.5)
    other = shaped(2, type_="INT8", scale=0.25)
    assert types(load("MAXIMUM", (quantized, quantized), quantized)) == [OperationType.MAXIMUM]
    assert types(load("MAXIMUM", (quantized, other), quantized)) == [OperationType.TFLITE_MAXIMUM]
    truth = shaped(2, type_="BOOL")
    assert types(load("LESS", (quantized, other), truth)) == [OperationType.TFLITE_LESS]
    assert types(load("SELECT_V2", (truth, whole, whole), whole)) == [OperationType.SELECT]
    assert types(load("RSQRT", (quantized,), quantized)) == [OperationType.TFLITE_RSQRT]
