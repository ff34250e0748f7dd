from support.compiler.lowering_beside_reference import expect_same
from support.compiler.moved import FLOAT32, expect_moved, kinds, several
from support.operations.pointwise import label, result, rows
from support.operations.single_operation import given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType


@sweep(
    ("shape", "multiples"),
    [((2, 3), (3, 2)), ((1, 3), (4, 1)), ((2, 3), (0, 2)), ((0, 2), (2, 2)), ((5,), (1,))],
)
def test_tile(shape: tuple[int, ...], multiples: tuple[int, ...]) -> None:
    expect_moved(OperationType.TILE, shape, ints(*multiples))


@sweep("dimensions", [(2, 3), (), (0, 4)])
@sweep("data", [(), (1,)])
@sweep(("operation", "types"), rows([OperationType.FILL]), ids=label)
def test_fill(
    operation: OperationType,
    types: dict[str, OperandType],
    data: tuple[int, ...],
    dimensions: tuple[int, ...],
) -> None:
    expect_same(operation, [ints(*dimensions), given(types["S"], 7)], result(types["T"]), data=data)


@sweep("kind", kinds(OperationType.PACK))
@sweep("axis", [0, 1, 2])
def test_pack(kind: OperandType, axis: int) -> None:
    inputs = [*scalars(axis), *several(kind, [(3, 2)] * 3)]
    expect_same(OperationType.PACK, inputs, result(kind), data=(1, 2, 3))


@sweep("shape", [(), (0,), (1, 2)])
def test_pack_small(shape: tuple[int, ...]) -> None:
    inputs = [*scalars(0), *several(FLOAT32, [shape] * 2)]
    expect_same(OperationType.PACK, inputs, result(FLOAT32), data=(1, 2))


@sweep(("shape", "axis"), [((2, 3), 1), ((2, 3), -1), ((), 0), ((0,), 0)])
def test_expand_dims(shape: tuple[int, ...], axis: int) -> None:
    expect_moved(OperationType.EXPAND_DIMS, shape, *scalars(axis))


@sweep("shape", [(2, 3), (), (0,)])
def test_rank(shape: tuple[int, ...]) -> None:
    expect_same(OperationType.RANK, several(FLOAT32, [shape]), wanted(OperandType.INT32))
