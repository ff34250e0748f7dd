"""Computes operations on constants by their references."""

from collections.abc import Mapping, Sequence

import numpy as np

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.lowering.movement.indexing import output_bytes
from neurald.hal.accounting.account import charge, reserve
from neurald.hal.errors import Error
from neurald.hal.model.types import byte_size
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.operations.machinery.working_memory import is_inflated, reference_working_bytes


def fold_constant_operation(call: Call, known: Mapping[int, Array]) -> Sequence[Array] | None:
    """Returns the reference's results for an operation on constants; None for other operations."""
    binding = call.binding
    if not is_foldable(call, known):
        return None
    definition = DEFINITIONS[binding.type]
    try:
        shapes = definition.output_shapes(call)
        if any(isinstance(length, Extent) for shape in shapes for length in shape):
            return None
        kinds = [operand.type for name in binding.outputs for operand in call.operands(name)]
        sizes = [byte_size(kind, shape) for kind, shape in zip(kinds, shapes, strict=True)]
        what = f"the results of {binding.type.name} on constants"
        charge(sum(sizes), what)
        inputs = [known[index] for indexes in binding.inputs.values() for index in indexes if index in known]
        with reserve(reference_working_bytes(inputs, shapes), what):
            return [
                np.ascontiguousarray(result, kind.dtype).reshape(shape)
                for result, kind, shape in zip(definition.reference(call), kinds, shapes, strict=True)
            ]
    except UnknownValue:
        return None


def is_foldable(call: Call, known: Mapping[int, Array]) -> bool:
    """Returns True if an operation is deterministic, and all of its inputs are known numbers.

    Results that are far larger than these are not folded, since a tiny model may have them.
    """
    definition, binding = DEFINITIONS[call.binding.type], call.binding
    if definition.is_random:
        return False
    inputs = [index for name, indexes in binding.inputs.items() if call.has(name) for index in indexes]
    if not all(index in known and known[index].dtype != object for index in inputs):
        return False
    try:
        size_bytes = output_bytes(call)
    except (Error, UnknownValue):
        return True
    return not is_inflated(size_bytes, [known[index] for index in inputs])
