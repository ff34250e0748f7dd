"""Computes operations on constants by their references."""

from collections.abc import Mapping, Sequence

import numpy as np

from neurald.drivers.compiler.ir.extents.result_types import ResultType, result_types, total_bytes
from neurald.hal.accounting.account import charge, reserve
from neurald.hal.errors import Error
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.operations.machinery.working_memory import is_inflated, reference_working_bytes


def fold_constant_operation(call: Call, known: Mapping[int, Array]) -> Sequence[Array] | None:
    """Returns the reference's results for an operation on constants; None for other operations."""
    if not _reads_constants(call, known):
        return None
    binding = call.binding
    try:
        results = result_types(call)
        if results is None or _is_inflated(call, results, known):
            return None
        what = f"the results of {binding.type.name} on constants"
        charge(total_bytes(results), what)
        inputs = [known[index] for indexes in binding.inputs.values() for index in indexes if index in known]
        with reserve(reference_working_bytes(inputs, [shape for _, shape in results]), what):
            return [
                np.ascontiguousarray(result, kind.dtype).reshape(shape)
                for result, (kind, shape) in zip(
                    DEFINITIONS[binding.type].reference(call), results, strict=True
                )
            ]
    except UnknownValue:
        return None


def is_foldable(call: Call, known: Mapping[int, Array]) -> bool:
    """Returns True if an operation is deterministic, and all of its inputs are known numbers.

    Results that are far larger than these are not folded, since a tiny model may have them.
    """
    if not _reads_constants(call, known):
        return False
    try:
        results = result_types(call)
    except (Error, UnknownValue):
        return True
    return results is None or not _is_inflated(call, results, known)


def _reads_constants(call: Call, known: Mapping[int, Array]) -> bool:
    """Returns True if an operation is deterministic, and all of its inputs are known numbers."""
    if DEFINITIONS[call.binding.type].is_random:
        return False
    return all(
        index in known and known[index].dtype != object
        for name, indexes in call.binding.inputs.items()
        if call.has(name)
        for index in indexes
    )


def _is_inflated(call: Call, results: Sequence[ResultType], known: Mapping[int, Array]) -> bool:
    """Returns True if results are far larger than the constants that they are made of."""
    indexes = [each for name, own in call.binding.inputs.items() if call.has(name) for each in own]
    return is_inflated(total_bytes(results), [known[index] for index in indexes])
