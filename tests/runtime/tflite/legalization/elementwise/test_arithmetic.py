from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import (
    ACTIVATIONS,
    NONE,
    RELU,
    TANH,
    Load,
    numbers,
    random,
    shaped,
    types,
)
from support.tflite.results import (
    FIRST_VALUES,
    INT16_FIRST,
    INT16_RESULT,
    INT16_SECOND,
    SECOND_VALUES,
    run_on_cpu,
    run_operator,
)

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType

INT16 = {"type_": "INT16", "scale": 0.5}


@pytest.mark.parametrize("is_power_of_two", [False, True])
def test_16_bit_sums(load: Load, *, is_power_of_two: bool) -> None:
    """Shifts round -1.5 to -2 before the addition; rescaling rounds 0.5 to 1 after it."""
    x, y = shaped(1, type_="INT16", scale=1.0), shaped(1, type_="INT16", scale=0.5)
    model = load("ADD", (x, y), x, "AddOptions", PotScaleInt16=is_power_of_two)
    assert types(model) == [OperationType.TFLITE_ADD]
    assert run_references(model, [2], [-3])[0].tolist() == [0 if is_power_of_two else 1]


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
    result = run_operator(
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
    assert (
        run_operator(load, x, y, code=code, inputs=[plain, plain], output=plain, options=options) == expected
    )
    with pytest.raises(BadData, match="fused activation 1 of 16-bit integers"):
        load(code, [plain, plain], plain, options, FusedActivationFunction=RELU)


@pytest.mark.parametrize(
    ("code", "options", "expected"),
    [
        ("DIV", "DivOptions", [2219, -35, -290, 10, 9, 32767]),
        ("MINIMUM", None, [-32768, -300, -5, 5, -1000, 1]),
        ("MAXIMUM", None, [-450, 200, -4, 8, 40, 32767]),
        ("FLOOR_DIV", None, [72, -2, 1, 0, -1, 32767]),
        ("FLOOR_MOD", None, [-368, 100, -1, 5, -960, 0]),
    ],
)
def test_int16_binary_operators(load: Load, code: str, options: str | None, expected: list[int]) -> None:
    model = load(
        code,
        [shaped(2, 3, **INT16_FIRST), shaped(2, 3, **INT16_SECOND)],
        shaped(2, 3, **INT16_RESULT),
        options,
    )
    assert run_on_cpu(model, FIRST_VALUES, SECOND_VALUES) == expected


@pytest.mark.parametrize(
    ("scales", "first", "second", "expected"),
    [
        (
            (0.0123, 0.00034, 0.0021),
            [-1514, 9583, -2546, -5353],
            [10151, 1103, 3769, -1349],
            [-30606, 21050, -19110, 14381],
        ),
        (
            (0.0007, 0.0003, 0.003),
            [-10000, -14519, 17018, -12225],
            [32265, -13809, 23787, 30000],
            [-22585, 14034, 28336, -25672],
        ),
    ],
)
def test_scales_of_a_product_are_multiplied_in_float32(
    load: Load,
    scales: tuple[float, float, float],
    first: list[int],
    second: list[int],
    expected: list[int],
) -> None:
    """In float64, all of these results would differ by one."""
    tensors = [shaped(4, type_="INT16", scale=scale) for scale in scales]
    model = load("MUL", tensors[:2], tensors[2], "MulOptions")
    assert run_on_cpu(model, np.array(first, np.int16), np.array(second, np.int16)) == expected


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


def test_fused_tanh_of_quantized_values_is_refused(load: Load) -> None:
    quantized = shaped(2, type_="UINT8", scale=0.5)
    with pytest.raises(BadData, match="TANH of a quantised operator"):
        load("ADD", (quantized, quantized), quantized, "AddOptions", FusedActivationFunction=TANH)


def test_a_sum_has_the_type_of_its_inputs(load: Load) -> None:
    quantized = shaped(2, type_="UINT8", scale=0.5, zero_point=1)
    model = load(
        "ADD", (quantized, quantized), shaped(2, type_="FLOAT32", scale=0.5, zero_point=1), "AddOptions"
    )
    (result,) = run_references(model, [3, 4], [5, 1])
    assert result.dtype == np.uint8
    assert result.tolist() == [7, 4]
