"""Operations that move elements, by their lowerings and by their references, with every type that kernels know."""

from collections.abc import Sequence

from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import numbers, result, rows
from support.operations.single_operation import Given

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT32 = OperandType.TENSOR_FLOAT32


def kinds(operation: OperationType) -> list[OperandType]:
    """The types of its data."""
    return list(dict.fromkeys(types["T"] for _, types in rows([operation])))


def expect_moved(
    operation: OperationType,
    shape: tuple[int, ...],
    *arguments: Given,
    kind: OperandType | None = None,
    outputs: int = 1,
) -> None:
    """A random tensor, and then arguments that are constants, give what the reference gives.

    Args:
        operation: under test.
        shape: of the tensor.
        arguments: what comes after it.
        kind: of its elements; every one that there is where it is left out.
        outputs: how many.
    """
    for each in [kind] if kind else kinds(operation):
        expect_same(operation, [numbers(each, shape), *arguments], *(result(each),) * outputs)


def several(kind: OperandType, shapes: Sequence[tuple[int, ...]]) -> list[Given]:
    """Random tensors, all different."""
    return [numbers(kind, shape, seed=seed) for seed, shape in enumerate(shapes)]
