from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import PAIRS_OF_SHAPES, label, numbers, result, rows
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import constant
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.lowering.elementwise.comparison import ordered
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

COMPARISONS = (
    OperationType.TFLITE_EQUAL,
    OperationType.TFLITE_NOT_EQUAL,
    OperationType.TFLITE_LESS,
    OperationType.TFLITE_LESS_EQUAL,
    OperationType.TFLITE_GREATER,
    OperationType.TFLITE_GREATER_EQUAL,
)
EXTREMES = (OperationType.TFLITE_MAXIMUM, OperationType.TFLITE_MINIMUM)
BOOL8 = OperandType.TENSOR_BOOL8
Shapes = tuple[tuple[int, ...], ...]


@sweep("shapes", PAIRS_OF_SHAPES)
@sweep(("operation", "types"), rows(COMPARISONS), ids=label)
def test_comparisons(operation: OperationType, types: dict[str, OperandType], shapes: Shapes) -> None:
    first = numbers(types["T"], shapes[0], scale=0.5)
    second = numbers(types["T"], shapes[1], seed=1, scale=0.25)
    expect_same(operation, [first, second], result(BOOL8), data=(0, 1))


def test_bools_are_compared_as_bytes() -> None:
    """Vectors of bytes have four times as many elements as those of INT32."""
    assert ordered(constant(1, Scalar.BOOL)).type.size_bytes == 1


@sweep("scale", [1.0, 0.004, 0.0001, 300.0])
@sweep(("operation", "types"), rows(COMPARISONS), ids=label)
def test_numbers_of_the_same_scale(
    operation: OperationType, types: dict[str, OperandType], scale: float
) -> None:
    """With a small scale different numbers compare equal, with a large one those that saturate."""
    inputs = [numbers(types["T"], (700,), seed=seed, scale=scale) for seed in (0, 1)]
    expect_same(operation, inputs, result(BOOL8), data=(0, 1))


@sweep("shapes", PAIRS_OF_SHAPES)
@sweep(("operation", "types"), rows(EXTREMES), ids=label)
def test_extremes(operation: OperationType, types: dict[str, OperandType], shapes: Shapes) -> None:
    if types["T"] is OperandType.TENSOR_COMPLEX64:
        return  # Only empty tensors are accepted, and references return these.
    inputs = [numbers(types["T"], shapes[0]), numbers(types["T"], shapes[1], seed=1)]
    expect_same(operation, inputs, result(types["T"]), data=(0, 1))


@sweep(
    ("condition", "shape"),
    [((), (3, 4)), ((3,), (3, 4, 2)), ((3, 4), (3, 4)), ((), ()), ((), (1,)), ((1,), (1, 5)), ((0,), (0, 2))],
)
@sweep(("operation", "types"), rows([OperationType.TFLITE_SELECT]), ids=label)
def test_select(
    operation: OperationType,
    types: dict[str, OperandType],
    condition: tuple[int, ...],
    shape: tuple[int, ...],
) -> None:
    chosen = numbers(types["T"], shape), numbers(types["T"], shape, seed=1)
    expect_same(operation, [numbers(BOOL8, condition), *chosen], result(types["T"]), data=(0, 1, 2))


@sweep(
    "shapes",
    [
        ((), (3,), (2, 1)),
        ((2, 1, 5), (7, 1), ()),
        ((4,), (4,), (0, 4)),
        ((1,), (), ()),
        ((1, 1), (1,), (1,)),
    ],
)
@sweep(("operation", "types"), rows([OperationType.TFLITE_SELECT_V2]), ids=label)
def test_select_broadcasts(operation: OperationType, types: dict[str, OperandType], shapes: Shapes) -> None:
    chosen = numbers(types["T"], shapes[1]), numbers(types["T"], shapes[2], seed=1)
    expect_same(operation, [numbers(BOOL8, shapes[0]), *chosen], result(types["T"]), data=(0, 1, 2))
