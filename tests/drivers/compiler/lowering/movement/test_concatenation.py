from support.compiler.lowering_beside_reference import expect_same
from support.compiler.moved import FLOAT32, kinds, several
from support.operations.pointwise import numbers, result
from support.operations.single_operation import QUANT8_TYPES, scalars
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

CONCATENATION = OperationType.CONCATENATION


@sweep("kind", kinds(CONCATENATION))
@sweep("axis", [0, 1, 2])
def test_along_every_axis(kind: OperandType, axis: int) -> None:
    shapes = [tuple(length if d == axis else 3 for d in range(3)) for length in (2, 5, 1)]
    expect_same(CONCATENATION, [*several(kind, shapes), *scalars(axis)], result(kind), data=(0, 1, 2))


@sweep("kind", QUANT8_TYPES)
def test_inputs_of_other_scales(kind: OperandType) -> None:
    # All quantised values.
    inputs = [
        numbers(kind, (64, 64), seed=seed, scale=scale) for seed, scale in enumerate((0.05, 0.021, 0.7))
    ]
    expect_same(CONCATENATION, [*inputs, *scalars(1)], result(kind, 0.05), data=(0, 1, 2))


@sweep("shapes", [[(0, 2), (3, 2), (0, 2)], [(0, 2), (0, 2)], [(3, 0), (2, 0)], [(4, 1)]])
def test_without_elements(shapes: list[tuple[int, ...]]) -> None:
    inputs = [*several(FLOAT32, shapes), *scalars(0)]
    expect_same(CONCATENATION, inputs, result(FLOAT32), data=range(len(shapes)))


def test_many_inputs() -> None:
    shapes = [(1 + n % 3, 2) for n in range(150)]
    expect_same(CONCATENATION, [*several(FLOAT32, shapes), *scalars(0)], result(FLOAT32), data=range(150))


def test_with_constants() -> None:
    inputs = [*several(FLOAT32, [(1, 1), (1, 1), (1, 2)]), *scalars(1)]
    expect_same(CONCATENATION, inputs, result(FLOAT32), data=(1,))
