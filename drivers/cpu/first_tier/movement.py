"""Binds operations that only move elements: transpositions, slices, concatenations and others.

Which element goes where is found out by the operation's reference, on the numbers of the elements in
the place of their values.
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.bound_call import (
    BoundCall,
    BoundConstant,
    BoundTemporary,
    NotBound,
)
from neurald.drivers.cpu.first_tier.layout import BLOCK
from neurald.hal.model.types import Operand, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.records import replace

#: Maximum number of elements of the inputs, whose numbers must be exact in 32 bits.
_MAX_ELEMENTS: Final = 1 << 24
#: Added to all numbers, to see whether the operation computes with them.
_DISTANCE: Final = 1 << 25
#: Estimated time of a run, and elements that it moves per nanosecond.
_RUN_NS: Final = 2.0
_ELEMENTS_PER_NS: Final = 4
#: Estimated bytes that a copy moves per nanosecond.
_BYTES_PER_NS: Final = 32


class Movements:
    """Binds the operations of a graph that only move elements; equal ones are examined once.

    Args:
        operands: of the graph.
        value_of: returns the value of an operand, if it is known.
    """

    def __init__(self, operands: Sequence[Operand], value_of: Callable[[int], Array | None]) -> None:
        self._operands, self._value_of = operands, value_of
        self._known: dict[object, tuple[tuple[int, ...], list[BoundCall]]] = {}

    def calls(self, call: Call) -> list[BoundCall]:
        """Returns the calls that move the elements of an operation; see `_moving_calls`."""
        given = tuple(index for indexes in call.binding.inputs.values() for index in indexes)
        made = tuple(index for indexes in call.binding.outputs.values() for index in indexes)
        key = (
            call.binding.type,
            tuple(call.binding.inputs),
            tuple(self._described(index, given.index(index)) for index in given),
            tuple(self._described(index, 0) for index in made),
        )
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = (
                (*given, *made),
                _moving_calls(call, self._operands, self._value_of),
            )
        earlier, calls = known
        now = dict(zip(earlier, (*given, *made), strict=True))
        return [
            replace(
                each,
                arguments=tuple(
                    now[argument] if isinstance(argument, int) else argument for argument in each.arguments
                ),
            )
            for each in calls
        ]

    def _described(self, index: int, first: int) -> object:
        """Returns what matters of an operand, and the first input that is the same one."""
        operand, value = self._operands[index], self._value_of(index)
        content = None if value is None else value.tobytes()
        return operand.type, operand.dimensions, operand.scale, operand.zero_point, first, content


def _moving_calls(
    call: Call, operands: Sequence[Operand], value_of: Callable[[int], Array | None]
) -> list[BoundCall]:
    """Returns the calls that move the elements of an operation's inputs to its outputs.

    Elements of outputs that come from no input, such as those of a pad, are copied from constants.

    Args:
        call: the operation.
        operands: of its graph.
        value_of: returns the value of an operand, if it is known.

    Raises:
        NotBound: it does more than moving, or has too many elements.
    """
    outputs = [index for indexes in call.binding.outputs.values() for index in indexes]
    kind = operands[outputs[0]]
    inputs = [
        index
        for indexes in call.binding.inputs.values()
        for index in indexes
        if operands[index].type.is_tensor and value_of(index) is None
    ]
    if kind.type is OperandType.TENSOR_STRING or any(
        (each.type, each.scale, each.zero_point) != (kind.type, kind.scale, kind.zero_point)
        for each in (operands[index] for index in (*inputs, *outputs))
    ):
        raise NotBound("the types differ")
    shapes = {index: operands[index].dimensions or () for index in inputs}
    counts = {index: math.prod(shape) for index, shape in shapes.items()}
    if sum(counts.values()) > _MAX_ELEMENTS:
        raise NotBound("there are too many elements")
    starts = dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))

    def results(given: Callable[[int], Array]) -> Sequence[Array]:
        known = Call(
            call.binding,
            operands,
            lambda index: operands[index].dimensions,
            lambda index: given(index) if index in counts else value_of(index),
        )
        return DEFINITIONS[call.binding.type].reference(known)

    def numbers(index: int, distance: int) -> Array:
        first = starts[index] + distance
        return np.arange(first, first + counts[index], dtype=np.int32).reshape(shapes[index])

    found = results(lambda index: numbers(index, 0))
    again = results(lambda index: numbers(index, _DISTANCE))
    filled: Sequence[Array] | None = None
    calls: list[BoundCall] = []
    size = kind.type.dtype.itemsize
    for place, (output, one, other) in enumerate(zip(outputs, found, again, strict=True)):
        flat, distance = one.reshape(-1), other.reshape(-1) - one.reshape(-1)
        is_moved = distance == _DISTANCE
        if flat.dtype != np.int32 or not (is_moved | (distance == 0)).all():
            raise NotBound("it does more than moving elements")
        if not is_moved.all():
            if filled is None:
                filled = results(lambda index: np.zeros(shapes[index], operands[index].type.dtype))
            contents = np.ascontiguousarray(filled[place], kind.type.dtype)
            calls.append(copying_call(output, BoundConstant.of(contents), contents.nbytes))
        for index, start in starts.items():
            places = np.flatnonzero(is_moved & (flat >= start) & (flat < start + counts[index]))
            if places.size:
                calls.append(moving_call(output, index, size, flat[places] - start, places))
    return calls


def copying_call(output: int, given: int | BoundConstant, size_bytes: int) -> BoundCall:
    """Returns the call that copies bytes."""
    return BoundCall(
        function="first_copy",
        arguments=(output, given),
        words=(size_bytes,),
        work_items=-(-size_bytes // BLOCK),
        cost_ns=size_bytes / _BYTES_PER_NS,
    )


def moving_call(
    output: int | BoundTemporary, given: int, itemsize: int, sources: Array, places: Array | None = None
) -> BoundCall:
    """Returns the call that moves elements.

    Args:
        output, given: where to, and from where.
        itemsize: size of an element in bytes.
        sources: numbers of the input's elements.
        places: the place of each in the output; None for all in order.

    Raises:
        NotBound: there is no kernel for elements of this size.
    """
    if itemsize not in (1, 2, 4, 8):
        raise NotBound("the type has no kernel")
    if places is None:
        places = np.arange(len(sources))
    is_start = np.ones(len(sources), bool)
    is_start[1:] = (np.diff(sources) != 1) | (np.diff(places) != 1)
    starts = np.flatnonzero(is_start)
    # All runs have the same length.
    length = int(np.gcd.reduce(np.diff(starts, append=len(sources))))
    table = np.stack((places[::length], sources[::length]), axis=1).astype(np.int32)
    is_single = length == 1
    return BoundCall(
        function=f"first_{'scatter' if is_single else 'move'}_{itemsize}",
        arguments=(output, given, BoundConstant.of(table)),
        words=(len(table) if is_single else length,),
        work_items=-(-len(table) // BLOCK) if is_single else len(table),
        cost_ns=len(table) * _RUN_NS + len(sources) / _ELEMENTS_PER_NS,
    )
