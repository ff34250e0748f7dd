"""Lowers operations that move complex numbers: real and imaginary parts are moved on their own."""

from collections.abc import Callable

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.complex_numbers import is_complex
from neurald.drivers.compiler.ir.expression import Expression, index, load, select
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations import FAMILIES
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.records import replace

#: Operations whose lowerings keep pairs together.
_OF_PAIRS = frozenset(
    (OperationType.TFLITE_RESHAPE, OperationType.TFLITE_EXPAND_DIMS, OperationType.TFLITE_SQUEEZE)
)
#: Operations that treat both parts of complex numbers alike, as if they were real numbers.
_PART_BY_PART = (
    frozenset(
        kind for family, kinds in FAMILIES.items() if family.startswith("tflite.movement.") for kind in kinds
    )
    .union(
        (
            OperationType.TFLITE_SELECT,
            OperationType.TFLITE_SELECT_V2,
            OperationType.TFLITE_HASHTABLE_LOOKUP,
        )
    )
    .difference(_OF_PAIRS)
)


def moves_complex(call: Call) -> bool:
    """Returns True if an operation moves complex numbers, so that `lower_parts` lowers it."""
    binding = call.binding
    return binding.type in _PART_BY_PART and any(
        is_complex(operand.type)
        for name in (*binding.inputs, *binding.outputs)
        for operand in call.operands(name)
    )


def lower_parts(call: Call, builder: Builder, lower: Lowering) -> tuple[Value, ...]:
    """Lowers an operation that moves complex numbers, by its lowering for real ones."""
    reals, imaginaries = (_lowered_part(call, builder, lower, part) for part in range(2))
    binding, results = call.binding, []
    operands = [operand for name in binding.outputs for operand in call.operands(name)]
    for operand, real, imaginary in zip(operands, reals, imaginaries, strict=True):
        if not is_complex(operand.type):
            results.append(real)
            continue

        def pair(*at: Expression, real: Value = real, imaginary: Value = imaginary) -> Expression:
            return select(at[-1].equals(0), load(real, at[:-1]), load(imaginary, at[:-1]))

        results.append(builder.compute((*real.shape, 2), pair))
    return tuple(results)


def _lowered_part(call: Call, builder: Builder, lower: Lowering, part: int) -> tuple[Value, ...]:
    """Lowers an operation on one part of its numbers."""
    values: dict[int, Value] = {}

    def part_of(number: int, value_of: Callable[[int], Value]) -> Value:
        if not is_complex(call.operand_at(number).type):
            return value_of(number)
        if number not in values:
            pairs = value_of(number)
            values[number] = (
                builder.compute(pairs.shape[:-1], lambda *at: load(pairs, (*at, index(part))))
                if pairs.constant is None
                else builder.constant(pairs.constant[..., part])
            )
        return values[number]

    def operand_of(operand: Operand) -> Operand:
        return replace(operand, type=OperandType.TENSOR_FLOAT32) if is_complex(operand.type) else operand

    def array_of(array: Array) -> Array:
        if array.dtype.kind != "c":
            return array
        return array.real if part == 0 else array.imag

    return lower(call.of_parts(operand_of, array_of), builder.with_values(part_of))
