import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same, lowered_all
from support.operations.pointwise import PAIRS_OF_SHAPES, label, numbers, quantization, result, rows, same
from support.operations.random_tensors import value
from support.operations.single_operation import Given, given
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType

FLOAT, HALF = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16
INT32, INT64 = OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
INT8, INT16 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT16_SYMM
FUSED = (OperationType.TFLITE_ADD, OperationType.TFLITE_SUB, OperationType.TFLITE_MUL)
PLAIN = (OperationType.TFLITE_SQUARED_DIFFERENCE, OperationType.TFLITE_ATAN2)
QUOTIENTS = (OperationType.TFLITE_FLOOR_DIV, OperationType.TFLITE_FLOOR_MOD)
Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def divisors(kind: OperandType, shape: tuple[int, ...], scale: float = 0.05) -> Given:
    """Returns divisors other than 0."""
    found = numbers(kind, shape, seed=1, scale=scale)
    zero = found.operand.zero_point
    values = np.where(value(found) == zero, zero + 1, value(found))
    return given(kind, values, *quantization(kind, scale))


def without_scale(source: Given) -> Given:
    return given(source.operand.type, np.where(value(source) == 0, 1, value(source)))


@sweep("shapes", PAIRS_OF_SHAPES)
@sweep(("operation", "types"), rows(FUSED), ids=label)
def test_sums_and_products(operation: OperationType, types: dict[str, OperandType], shapes: Shapes) -> None:
    kind, output = types["T"], types.get("U", types["T"])
    if kind is OperandType.TENSOR_COMPLEX64:
        # Their products may be rounded once or twice, and take no activation.
        inputs = [numbers(kind, shape, seed=seed) for seed, shape in enumerate(shapes)]
        no_activation = given(OperandType.INT32, FusedActivation.NONE.value)
        expect_same(operation, [*inputs, no_activation], result(output), data=(0, 1), compare=close)
        return
    if kind is not output:
        shapes = (shapes[0], shapes[0])
    inputs = [numbers(kind, shapes[0], scale=0.5), numbers(kind, shapes[1], seed=1, scale=0.25)]
    for activation in FusedActivation:
        fused = given(OperandType.INT32, activation.value)
        expect_same(operation, [*inputs, fused], result(output, 0.7), data=(0, 1), compare=same)


@sweep("scales", [(0.5, 0.125, 0.5), (0.25, 0.5, 0.5), (0.5, 0.5, 0.5), (0.3, 0.5, 0.5)])
@sweep("operation", FUSED[:2])
def test_sums_by_shifting(operation: OperationType, scales: tuple[float, float, float]) -> None:
    inputs = [numbers(INT16, (4, 9), scale=scales[0]), numbers(INT16, (9,), seed=1, scale=scales[1])]
    inputs += [given(OperandType.INT32, 0), given(OperandType.BOOL, True)]
    expect_same(operation, inputs, result(INT16, scales[2]), data=(0, 1))


@sweep("shapes", PAIRS_OF_SHAPES)
@sweep(("operation", "types"), rows([OperationType.TFLITE_DIV]), ids=label)
def test_quotients(operation: OperationType, types: dict[str, OperandType], shapes: Shapes) -> None:
    kind = types["T"]
    for output_scale in (0.7, 0.01):
        for activation in FusedActivation:
            inputs = [numbers(kind, shapes[0], scale=0.5), divisors(kind, shapes[1], 0.25)]
            inputs.append(given(OperandType.INT32, activation.value))
            expect_same(operation, inputs, result(kind, output_scale), data=(0, 1), compare=same)


@sweep("shapes", PAIRS_OF_SHAPES)
@sweep(("operation", "types"), rows(PLAIN), ids=label)
def test_others(operation: OperationType, types: dict[str, OperandType], shapes: Shapes) -> None:
    kind = types["T"]
    inputs = [numbers(kind, shapes[0], scale=0.5), numbers(kind, shapes[1], seed=1, scale=0.25)]
    expect_same(operation, inputs, result(kind, 0.7), data=(0, 1), compare=same)


@sweep("shapes", PAIRS_OF_SHAPES)
@sweep(("operation", "types"), rows(QUOTIENTS), ids=label)
def test_floored_division(operation: OperationType, types: dict[str, OperandType], shapes: Shapes) -> None:
    kind = types["T"]
    inputs = [numbers(kind, shapes[0]), without_scale(numbers(kind, shapes[1], seed=1))]
    inputs[0] = given(kind, inputs[0].value)
    expect_same(operation, inputs, result(kind), data=(0, 1), compare=same)


def test_float_quotients_are_floored_exactly() -> None:
    generator = np.random.default_rng(0)
    divisor = generator.uniform(0.01, 7, 4000).astype(np.float32) * generator.choice([-1, 1], 4000)
    near = np.float32(divisor) * generator.integers(-3000, 3000, 4000).astype(np.float32)
    first = np.nextafter(near, generator.choice([-np.inf, np.inf, 0], 4000), dtype=np.float32)
    expect_same(
        OperationType.TFLITE_FLOOR_DIV,
        [given(FLOAT, first), given(FLOAT, divisor)],
        result(FLOAT),
        data=(0, 1),
    )


@sweep("kind", [FLOAT, HALF, INT32])
@sweep("shapes", PAIRS_OF_SHAPES)
def test_powers(kind: OperandType, shapes: Shapes) -> None:
    exponent = numbers(kind, shapes[1], seed=1)
    if kind is INT32:
        exponent = given(kind, np.abs(value(exponent).astype(np.int64)) % 40)
    inputs = [numbers(kind, shapes[0]), exponent]
    expect_same(OperationType.TFLITE_POW, inputs, result(kind), data=(0, 1), compare=same)


def test_integer_powers() -> None:
    bases = np.array([*range(-12, 13), 46341, -46341, 2**31 - 1, -(2**31)])[:, np.newaxis]
    exponents = np.array([*range(70), 255, 256, 2**31 - 1, 2**31 - 2])
    inputs = [given(INT32, bases), given(INT32, exponents)]
    expect_same(OperationType.TFLITE_POW, inputs, result(INT32), data=(0, 1))


@sweep(
    ("operation", "kind"),
    [
        *((operation, kind) for operation in QUOTIENTS for kind in (INT32, INT64, INT8)),
        (OperationType.TFLITE_FLOOR_DIV, FLOAT),
    ],
)
def test_divisors_of_zero_fail(operation: OperationType, kind: OperandType) -> None:
    with pytest.raises(RequirementFailed, match="non-zero divisors"):
        lowered_all(operation, [given(kind, [3, 4]), given(kind, [1, 0])], result(kind), data=(0, 1))


def test_negative_integer_exponents_fail() -> None:
    inputs = [given(INT32, [3, 4]), given(INT32, [1, -1])]
    with pytest.raises(RequirementFailed, match="negative"):
        lowered_all(OperationType.TFLITE_POW, inputs, result(INT32), data=(0, 1))


@sweep("count", [1, 3])
@sweep("kind", [FLOAT, INT32])
def test_sum_of_all(kind: OperandType, count: int) -> None:
    addends = [numbers(kind, (2, 3), seed=seed) for seed in range(count)]
    expect_same(OperationType.TFLITE_ADD_N, addends, result(kind), data=tuple(range(count)), compare=same)


def test_integer_divisors_of_zero_fail() -> None:
    inputs = [given(INT32, [3, 4]), given(INT32, [1, 0]), given(OperandType.INT32, 0)]
    with pytest.raises(RequirementFailed, match="non-zero divisors"):
        lowered_all(OperationType.TFLITE_DIV, inputs, result(INT32), data=(0, 1))
