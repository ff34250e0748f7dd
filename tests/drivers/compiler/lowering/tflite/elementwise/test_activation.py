import pytest
from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import PAIRS_OF_SHAPES, SHAPES, label, numbers, result, rows, same
from support.operations.single_operation import given, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

pytestmark = pytest.mark.quick

CLAMPS = (
    OperationType.TFLITE_RELU,
    OperationType.TFLITE_RELU6,
    OperationType.TFLITE_RELU_N1_TO_1,
    OperationType.TFLITE_RELU_0_TO_1,
)
CURVES = (OperationType.TFLITE_LOGISTIC, OperationType.TFLITE_TANH)
SLOPES = (OperationType.TFLITE_ELU, OperationType.TFLITE_LEAKY_RELU)
INT16 = OperandType.TENSOR_QUANT16_SYMM


@sweep("output_scale", [0.05, 0.03])
@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows(CLAMPS), ids=label)
def test_clamps(
    operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...], output_scale: float
) -> None:
    expect_same(operation, [numbers(types["T"], shape)], result(types["T"], output_scale), compare=same)


@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows(CURVES), ids=label)
def test_curves(operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...]) -> None:
    kind = types["T"]
    output = wanted(INT16, 1 / 32768) if kind is INT16 else result(kind, 1 / 200)
    x = numbers(kind, shape, scale=0.0003 if kind is INT16 else 0.05)
    expect_same(operation, [x], output, compare=same)


@sweep("alpha", [0.25, 1.5, -0.5])
@sweep(("operation", "types"), rows(SLOPES), ids=label)
def test_slopes(operation: OperationType, types: dict[str, OperandType], alpha: float) -> None:
    inputs = [numbers(types["T"], (4, 9)), given(types["S"], alpha)]
    expect_same(operation, inputs, result(types["T"], 0.04), compare=same)


@sweep("approximate", [False, True])
@sweep("shape", [(4, 9), (0,)])
@sweep(("operation", "types"), rows([OperationType.TFLITE_GELU]), ids=label)
def test_gelu(
    operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...], approximate: bool
) -> None:
    inputs = [numbers(types["T"], shape), given(OperandType.BOOL, approximate)]
    expect_same(operation, inputs, result(types["T"], 0.04), compare=same)


@sweep("shapes", PAIRS_OF_SHAPES)
@sweep(("operation", "types"), rows([OperationType.TFLITE_PRELU]), ids=label)
def test_prelu(
    operation: OperationType,
    types: dict[str, OperandType],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    inputs = [numbers(types["T"], shapes[0]), numbers(types["A"], shapes[1], seed=1)]
    expect_same(operation, inputs, result(types["T"], 0.07), data=(0, 1), compare=same)
