"""Strided slices with steps that are data, or that begin or end at data and have steps.

The number of elements along each axis is computed from the step, which may be negative, as are the
indices of these elements. They are gathered.
"""

from typing import Any

import numpy as np

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import FlatGraph, Place
from neurald.drivers.compiler.frontend.control_flow.graph.length_symbols import LengthSymbols
from neurald.drivers.compiler.frontend.control_flow.graph.stored_operands import StoredOperands
from neurald.drivers.compiler.frontend.lengths.open_lengths import as_objects
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import Sum
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.records import replace

_T = OperationType
_INT, _BOOL = OperandType.TENSOR_INT32, OperandType.TENSOR_BOOL8
_OTHER_MASKS = ("ellipsis_mask", "new_axis_mask", "offset")


class SteppedSlices:
    """Adds strided slices.

    Args:
        flat: the graph.
        symbols: the symbols of its lengths.
        operands: adds operations to it.
        operation: the slice.
        place: its place in the model.
    """

    def __init__(
        self,
        flat: FlatGraph,
        symbols: LengthSymbols,
        operands: StoredOperands,
        operation: Operation,
        place: Place,
    ) -> None:
        self._flat, self._symbols, self._operation = flat, symbols, operation
        self._call = flat.call(operation)
        self._source = self._call.index("input")
        self._shape = flat.shape(self._source)
        self._masks = [
            int(self._call.scalar(name)) for name in ("begin_mask", "end_mask", "shrink_axis_mask")
        ]
        self._added = operands.adding(operation, place)

    def add(self) -> None:
        """Adds the slice.

        Raises:
            BadData: it is of another kind.
        """
        names = ("begin", "end", "strides")
        sums = [self._flat.sums_of(self._call.index(name)) for name in names]
        known = [each.tolist() for each in sums if each is not None and each.ndim == 1]
        if (
            any(name in self._call.binding.inputs and self._call.scalar(name) for name in _OTHER_MASKS)
            or len(known) < len(names)
            or len(set(map(len, known))) > 1
            or len(known[0]) > len(self._shape)
            or (self._masks[2] and self._operation.type is _T.STRIDED_SLICE)
        ):
            raise BadData("a strided slice also changes the rank")
        axes = [axis for axis in range(len(known[0])) if self._cuts(axis, known[2][axis])]
        if not axes:
            raise BadData("a strided slice takes everything")
        firsts, singles, steps, counts = self._ranges(len(known[0]))
        source, declared = self._source, self._flat.operands[self._operation.outputs[0]].dimensions
        # Axes are removed from the last one on, so that the numbers of others stay.
        for axis in reversed(axes):
            removes = bool(self._masks[2] >> axis & 1)
            first = self._element(singles if removes else firsts, axis)
            if removes:
                indices = self._compute(_T.TFLITE_RESHAPE, first, self._added.constant(np.zeros(0), _INT))
            else:
                removed_before = (self._masks[2] & (1 << axis) - 1).bit_count()
                wanted = declared[axis - removed_before] if declared else 0
                numbers = self._numbers(self._count(counts, axis, wanted))
                scaled = self._compute(
                    _T.MUL, numbers, self._element(steps, axis), self._added.no_activation()
                )
                indices = self._compute(_T.ADD, scaled, first, self._added.no_activation())
            inputs = source, self._scalar(axis), indices, self._scalar(0)
            if axis == axes[0]:
                self._added.add(_T.TFLITE_GATHER, inputs, self._operation.outputs[0])
            else:
                like = self._flat.operands[self._operation.outputs[0]]
                part = replace(like, lifetime=Lifetime.TEMPORARY_VARIABLE, dimensions=None)
                source = self._added.computed_as(_T.TFLITE_GATHER, inputs, part)

    def _cuts(self, axis: int, step: Sum) -> bool:
        """Returns True unless the slice takes everything along an axis."""
        begins_open, ends_open, removes = (bool(mask >> axis & 1) for mask in self._masks)
        return removes or not begins_open or not ends_open or step != Sum(1)

    def _ranges(self, axes: int) -> tuple[int, int, int, int]:
        """Adds what computes the first index, the step and the number of elements of each axis.

        The index of a single element is the second one. It does not exist if the step is 0.

        Args:
            axes: the number of axes.
        """
        whole = self._flat.integers(as_objects(tuple(self._shape[:axes])))
        zero, one, minus_one = (self._vector(each, axes) for each in (0, 1, -1))
        more = self._sum(whole, one)
        step = self._integers("strides")
        # Longer steps than the axis leave the first element alone, and their sums may overflow.
        step = self._compute(_T.TFLITE_MINIMUM, step, more)
        step = self._compute(_T.TFLITE_MAXIMUM, step, self._difference(zero, more))
        rises = self._compute(_T.GREATER, step, zero, kind=_BOOL)
        sign = self._chosen(rises, one, minus_one)
        low, last = self._chosen(rises, zero, minus_one), self._difference(whole, one)
        high = self._chosen(rises, whole, last)

        def limited(name: str, mask: int, otherwise: int) -> int:
            given = self._integers(name)
            is_negative = self._compute(_T.LESS, given, zero, kind=_BOOL)
            counted = self._chosen(is_negative, self._sum(given, whole), given)
            inside = self._compute(_T.TFLITE_MINIMUM, self._compute(_T.TFLITE_MAXIMUM, counted, low), high)
            is_open = self._added.constant([bool(mask >> axis & 1) for axis in range(axes)], _BOOL)
            return self._chosen(is_open, otherwise, inside)

        first = limited("begin", self._masks[0], self._chosen(rises, zero, last))
        end = limited("end", self._masks[1], self._chosen(rises, whole, minus_one))
        spanned = self._sum(self._difference(end, first), self._difference(step, sign))
        steps = self._compute(_T.TFLITE_FLOOR_DIV, spanned, step)
        has_step = self._compute(_T.NOT_EQUAL, step, zero, kind=_BOOL)
        single = self._chosen(has_step, first, whole)
        return first, single, step, self._compute(_T.TFLITE_MAXIMUM, steps, zero)

    def _count(self, counts: int, axis: int, wanted: int) -> Any:
        """Returns the number of elements along an axis, which must be one that is declared."""
        found = self._symbols.extent_of(Sum(0, (((counts, axis), 1),)))
        if not wanted:
            return found
        self._symbols.require_zero(found - wanted)
        return wanted

    def _numbers(self, count: Any) -> int:
        """Returns the vector 0, 1, … of a number of elements."""
        ends = (self._flat.integers(as_objects(each)) for each in (0, count, 1))
        return self._compute(_T.TFLITE_RANGE, *ends)

    def _element(self, vector: int, axis: int) -> int:
        """Returns an element of a vector as a vector."""
        begin, size = (self._added.constant([each], _INT) for each in (axis, 1))
        return self._compute(_T.TFLITE_SLICE, vector, begin, size)

    def _integers(self, name: str) -> int:
        """Returns an input as a vector of INT32; what does not fit becomes the closest number."""
        return self._added.limited(self._call.index(name))

    def _vector(self, value: int, count: int) -> int:
        return self._added.constant([value] * count, _INT)

    def _scalar(self, value: int) -> int:
        return self._added.constant(value, OperandType.INT32)

    def _sum(self, one: int, other: int) -> int:
        return self._compute(_T.ADD, one, other, self._added.no_activation())

    def _difference(self, one: int, other: int) -> int:
        return self._compute(_T.SUB, one, other, self._added.no_activation())

    def _chosen(self, condition: int, one: int, other: int) -> int:
        return self._compute(_T.TFLITE_SELECT_V2, condition, one, other)

    def _compute(self, operation: OperationType, *inputs: int, kind: OperandType = _INT) -> int:
        return self._added.computed(operation, inputs, kind)
