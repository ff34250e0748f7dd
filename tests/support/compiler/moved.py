"""Compares lowerings of data movement operations with references, for all supported types."""

from collections.abc import Sequence

from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import numbers, result, rows
from support.operations.single_operation import Given

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT32 = OperandType.TENSOR_FLOAT32


def kinds(operation: OperationType) -> list[OperandType]:
    """Returns the data types of an operation."""
    return list(dict.fromkeys(types["T"] for _, types in rows([operation])))


def expect_moved(
    operation: OperationType,
    shape: tuple[int, ...],
    *arguments: Given,
    kind: OperandType | None = None,
    outputs: int = 1,
) -> None:
    """Asserts that a random tensor and constant arguments give the reference's results.

    Args:
        operation: the operation under test.
        shape: of the tensor.
        arguments: the constant inputs after the tensor.
        kind: type of the tensor; None tests every supported type.
        outputs: number of outputs.
    """
    for each in [kind] if kind else kinds(operation):
        expect_same(operation, [numbers(each, shape), *arguments], *(result(each),) * outputs)


def several(kind: OperandType, shapes: Sequence[tuple[int, ...]]) -> list[Given]:
    """Returns different random tensors."""
    return [numbers(kind, shape, seed=seed) for seed, shape in enumerate(shapes)]
