"""The types and shapes of an operation's results, as far as they are known."""

from collections.abc import Sequence
from typing import TypeAlias

from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.hal.model.types import OperandType, byte_size
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call, Shape

#: The type of a result, and its shape.
ResultType: TypeAlias = tuple[OperandType, Shape]


def result_types(call: Call) -> Sequence[ResultType] | None:
    """Returns the types of an operation's results; None if lengths of them are not known.

    Raises:
        Error, UnknownValue: see `Definition.output_shapes`.
    """
    shapes = DEFINITIONS[call.binding.type].output_shapes(call)
    if any(map(has_extents, shapes)):
        return None
    kinds = [operand.type for name in call.binding.outputs for operand in call.operands(name)]
    return [*zip(kinds, shapes, strict=True)]


def total_bytes(results: Sequence[ResultType]) -> int:
    """Returns how many bytes results have."""
    return sum(byte_size(kind, shape) for kind, shape in results)
