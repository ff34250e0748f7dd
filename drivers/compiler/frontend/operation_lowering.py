"""Lowers one operation, and checks its results."""

from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.frontend.operand_values import scalar_of
from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.complex_numbers import is_complex, part_type, value_shape
from neurald.drivers.compiler.ir.extents.extent import Extent, has_extents
from neurald.drivers.compiler.ir.string_references import is_string
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering import LOWERINGS
from neurald.drivers.compiler.lowering.machinery.complex_parts import lower_parts, moves_complex
from neurald.hal.model.graph import Operand
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call, UnknownValue


def lowered(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers an operation; returns its results.

    Raises:
        Unsupported: it has no lowering, or not in this form.
    """
    lowering = LOWERINGS.get(call.binding.type)
    if lowering is None:
        raise Unsupported(f"{call.binding.type.name} has no lowering")
    try:
        if moves_complex(call):
            return lower_parts(call, builder, lowering)
        return lowering(call, builder)
    except UnknownValue as error:
        raise Unsupported(f"argument {error} must be known before execution") from None


def lowered_to(shapes: Sequence[Shape], call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers an operation, given its results' shapes. No code computes results without elements."""
    kinds = [operand.type for name in call.binding.outputs for operand in call.operands(name)]
    has_elements = any(all(isinstance(length, Extent) or length for length in shape) for shape in shapes)
    if has_elements or not shapes or any(map(is_string, kinds)):
        return lowered(call, builder)
    return tuple(
        builder.constant(
            np.zeros(value_shape(kind, shape), part_type(kind) if is_complex(kind) else kind.dtype)
        )
        for kind, shape in zip(kinds, shapes, strict=True)
    )


def result_shapes(call: Call) -> tuple[Shape, ...]:
    """Returns the shapes of an operation's results.

    Raises:
        Unsupported: they depend on what is not known before execution.
    """
    try:
        return DEFINITIONS[call.binding.type].output_shapes(call)
    except UnknownValue as error:
        results = [operand for name in call.binding.outputs for operand in call.operands(name)]
        if results and all(has_extents(operand.dimensions or ()) for operand in results):
            # The program sets these lengths.
            return tuple(operand.dimensions or () for operand in results)
        raise Unsupported(
            f"the shape of the result depends on {error}, which is not known before execution"
        ) from None


def require_result(result: Value, operand: Operand, shape: Shape, call: Call) -> None:
    """Raises AssertionError if a lowering's result has the wrong shape or type, which is a bug."""
    expected, stored = scalar_of(operand.type), value_shape(operand.type, shape)
    if result.shape != stored or result.type is not expected:
        raise AssertionError(
            f"the lowering of {call.binding.type.name} returned {result.type.name} {list(result.shape)}; "
            f"expected {expected.name} {list(stored)}"
        )
