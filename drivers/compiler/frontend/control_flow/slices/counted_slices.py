"""Slices that begin at a counter, whose lengths are known although the counter is not.

A concatenation of the elements before a slice, new elements, and the elements after it, as
TensorFlow writes an element of a list, becomes an update of that slice.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.frontend.control_flow.graph.added_operations import AddedOperations
from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import (
    CONCATENATIONS,
    SLICES,
    STRIDED_SLICES,
    FlatGraph,
    NotStructured,
    Part,
    Place,
    ShapeChanges,
)
from neurald.drivers.compiler.frontend.control_flow.graph.stored_operands import StoredOperands
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    Update,
)
from neurald.drivers.compiler.frontend.lengths.open_lengths import as_objects
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import (
    Sum,
)
from neurald.drivers.compiler.ir.extents.extent import is_zero
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations.machinery.arguments import slice_range
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.movement.concatenation import concatenation_axis
from neurald.hal.records import replace

_INT = OperandType.TENSOR_INT32


class CountedSlices:
    """Adds slices and updates of slices.

    Args:
        flat: the graph.
        operands: adds operations to it.
    """

    def __init__(self, flat: FlatGraph, operands: StoredOperands) -> None:
        self._flat, self._operands = flat, operands

    def add(self, operation: Operation, call: Call, place: Place) -> int | None:
        """Adds an operation whose shape depends on integers that are not known.

        Returns:
            The operand that replaces its result; None if it keeps its own, or has none yet.
        """
        kind = operation.type
        if kind in SLICES:
            return self._slice(operation, call, place)
        if kind in STRIDED_SLICES:
            return self._strided_slice(operation, call, place)
        if kind in CONCATENATIONS:
            return self._list_update(operation, call, place)
        raise ShapeChanges(f"the shape of the result of {kind.name} depends on data")

    def _slice(self, operation: Operation, call: Call, place: Place) -> int | None:
        source = call.index("input")
        shape = self._flat.shape(source)
        begins, sizes = (self._flat.sums_of(call.index(name)) for name in ("begin", "size"))
        if begins is None or sizes is None or begins.shape != (len(shape),) or sizes.shape != begins.shape:
            raise ShapeChanges("a slice has a length that depends on data")
        lengths = tuple(
            Sum(length) - begin if size == Sum(-1) else size
            for length, begin, size in zip(shape, begins.tolist(), sizes.tolist(), strict=True)
        )
        if any(length.terms for length in lengths):
            self._flat.parts[operation.outputs[0]] = Part(
                source=source,
                begins=tuple(begins.tolist()),
                lengths=lengths,
                operation=operation,
                place=place,
            )
            return None
        known = tuple(length.constant for length in lengths)
        if any(not 0 <= length <= whole for length, whole in zip(known, shape, strict=True)):
            raise BadData(f"a slice of {list(known)} elements does not fit into {list(shape)}")
        begin = self._vector(begins.tolist(), call, operation, place)
        inputs = (source, begin, self._flat.integers(known))
        self._operands.append(replace(operation, inputs=inputs), (known,), place)
        return None

    def _strided_slice(self, operation: Operation, call: Call, place: Place) -> int | None:
        """Adds a slice of consecutive elements whose begin is not known, but whose length is."""
        source, output = call.index("input"), operation.outputs[0]
        shape = self._flat.shape(source)
        bounds = self._bounds(call, len(shape))
        ranges = [bounds.range(axis, whole) for axis, whole in enumerate(shape)]
        taken = tuple(length for _, length in ranges)
        kept = tuple(length for axis, length in enumerate(taken) if not bounds.removes(axis))
        result = kept or ((1,) if operation.type is OperationType.STRIDED_SLICE else ())
        whole_slice = (
            output
            if taken == result
            else self._flat.add_operand(
                replace(self._flat.operands[output], lifetime=Lifetime.TEMPORARY_VARIABLE, dimensions=taken)
            )
        )
        begin = self._vector([first for first, _ in ranges], call, operation, place)
        if operation.type is OperationType.TFLITE_STRIDED_SLICE and begin not in self._flat.known:
            counted = [whole if bounds.removes(axis) else 0 for axis, whole in enumerate(shape)]
            begin = self._counted_from_end(begin, counted, operation, place)
        self._operands.append(
            Operation(
                type=OperationType.TFLITE_SLICE,
                inputs=(source, begin, self._flat.integers(taken)),
                outputs=(whole_slice,),
                number=operation.number,
            ),
            (taken,),
            place,
        )
        if whole_slice != output:
            self._operands.append(
                Operation(
                    type=OperationType.TFLITE_RESHAPE,
                    inputs=(whole_slice, self._flat.integers(result)),
                    outputs=(output,),
                    number=operation.number,
                ),
                (result,),
                place,
            )
        return None

    def _bounds(self, call: Call, rank: int) -> "_Bounds":
        """Returns the bounds of a strided slice of an operand of this rank.

        Raises:
            ShapeChanges: they depend on data otherwise than as sums of integers.
            BadData: they are not valid.
        """
        begins, ends, strides = (self._flat.sums_of(call.index(name)) for name in ("begin", "end", "strides"))
        if begins is None or ends is None or strides is None or begins.ndim != 1:
            raise ShapeChanges("a slice has a length that depends on data")
        for mask in ("new_axis_mask", "offset"):
            if mask in call.binding.inputs and call.scalar(mask):
                raise ShapeChanges(f"a slice with {mask} begins at an index that depends on data")
        if not len(begins) == len(ends) == len(strides):
            raise BadData("begin, end and strides of a slice have different lengths")
        masks = [int(call.scalar(name)) for name in ("begin_mask", "end_mask", "shrink_axis_mask")]
        ellipsis = int(call.scalar("ellipsis_mask")) if "ellipsis_mask" in call.binding.inputs else 0
        if ellipsis := ellipsis & (1 << len(begins)) - 1:
            place, count = ellipsis.bit_length() - 1, max(0, rank - len(begins) + 1)
            begins, ends, strides = (_with_whole_axes(each, place, count) for each in (begins, ends, strides))
            masks = [
                _mask_with_axes(mask, place, count, is_set=is_set)
                for mask, is_set in zip(masks, (True, True, False), strict=True)
            ]
        if len(begins) > rank:
            raise BadData(f"a slice of {len(begins)} axes does not fit into {rank} dimensions")
        return _Bounds(begins=begins, ends=ends, strides=strides, masks=(masks[0], masks[1], masks[2]))

    def _vector(self, sums: Sequence[Sum], call: Call, operation: Operation, place: Place) -> int:
        """Returns an INT32 vector of these sums; adds the operations that compute it."""
        if not any(each.terms for each in sums):
            return self._flat.integers(as_objects(tuple([each.constant for each in sums])))
        for name in ("begin", "start"):
            if name in call.binding.inputs:
                index = call.index(name)
                existing = self._flat.sums.get(index)
                is_vector = existing is not None and existing.ndim == 1
                is_int32 = self._flat.operands[index].type is OperandType.TENSOR_INT32
                if existing is not None and is_vector and is_int32 and existing.tolist() == list(sums):
                    return index
        added = self._operands.adding(operation, place)
        vector = self._flat.integers(as_objects(tuple([each.constant for each in sums])))
        none = added.no_activation()
        for element in dict.fromkeys(key for each in sums for key, _ in each.terms):
            factors = self._flat.integers([dict(each.terms).get(element, 0) for each in sums])
            scaled = added.computed(OperationType.MUL, (self._element(element, added), factors, none), _INT)
            vector = added.computed(OperationType.ADD, (scaled, vector, none), _INT)
        return vector

    def _element(self, element: tuple[int, int], added: AddedOperations) -> int:
        """Returns an element of an operand of integers as an INT32 vector; adds its operations.

        An element that does not fit is replaced by the closest one that does.
        """
        operand, number = element
        kind = self._flat.operands[operand].type
        if not kind.is_tensor:
            raise NotStructured("a slice begins at an index that is a scalar operand")
        count = int(np.prod(self._flat.shape(operand)))
        shape = self._flat.integers([count])
        found = added.computed(OperationType.TFLITE_RESHAPE, (operand, shape), kind)
        if count > 1:
            slicing = (found, self._flat.integers([number]), self._flat.integers([1]))
            found = added.computed(OperationType.TFLITE_SLICE, slicing, kind)
        return added.limited(found)

    def _counted_from_end(
        self, begin: int, lengths: Sequence[int], operation: Operation, place: Place
    ) -> int:
        """Adds lengths to the negative elements of an INT32 vector; what stays negative becomes 0.

        Elements to which 0 is added stay as they are.
        """
        added = self._operands.adding(operation, place)
        none, zero = added.no_activation(), self._flat.integers([0])
        negative = added.computed(OperationType.LESS, (begin, zero), OperandType.TENSOR_BOOL8)
        ones = added.computed(OperationType.TFLITE_CAST, (negative,), _INT)
        more = added.computed(OperationType.MUL, (ones, self._flat.integers(lengths), none), _INT)
        counted = added.computed(OperationType.ADD, (more, begin, none), _INT)
        least = np.where(np.array([is_zero(each) for each in lengths]), np.iinfo(np.int32).min, 0)
        limits = self._flat.integers(least.tolist())
        return added.computed(OperationType.TFLITE_MAXIMUM, (counted, limits), _INT)

    def _list_update(self, operation: Operation, call: Call, place: Place) -> int:
        """Adds a concatenation of a prefix, new elements, and the rest of the same operand."""
        parts = call.indexes("inputs")
        unknown = [index for index in parts if index in self._flat.parts]
        shapes = [self._flat.shapes.get(index) for index in parts if index not in self._flat.parts]
        if (
            len(parts) != 3
            or len(shapes) != 1
            or shapes[0] is None
            or 0 in shapes[0]
            or parts[1] in self._flat.parts
        ):
            raise ShapeChanges("a concatenation has a length that depends on data")
        head, tail, new = self._flat.parts[unknown[0]], self._flat.parts[unknown[-1]], shapes[0]
        source, item = head.source, parts[1]
        shape = self._flat.shape(source)
        axis = concatenation_axis(call.with_values({index: np.zeros(new, np.int8) for index in parts}))
        lengths = [*new]
        is_update = (
            tail.source == source
            and len(new) == len(shape)
            and head.begins == (Sum(0),) * len(shape)
            and tail.begins[axis] == head.lengths[axis] + Sum(new[axis])
            and tail.lengths[axis] == Sum(shape[axis]) - tail.begins[axis]
            and all(
                part.lengths[d] == Sum(shape[d]) and part.begins[d] == Sum(0) and lengths[d] == shape[d]
                for part in (head, tail)
                for d in range(len(shape))
                if d != axis
            )
            and self._is_plain_concatenation(operation, (source, item))
        )
        if not is_update:
            raise ShapeChanges("a concatenation has a length that depends on data")
        starts = [Sum(0)] * len(shape)
        starts[axis] = head.lengths[axis]
        start = self._vector(starts, call, operation, place)
        slicing = head.operation
        return self._add_update(
            slicing,
            source,
            item,
            start,
            f"a slice of length {new[axis]} along axis {axis} exceeds the length {shape[axis]}",
            place,
        )

    def _is_plain_concatenation(self, operation: Operation, parts: Sequence[int]) -> bool:
        """Returns True if no element needs another scale."""
        result = self._flat.operands[operation.outputs[0]]
        return all(
            (self._flat.operands[each].scale, self._flat.operands[each].zero_point)
            == (result.scale, result.zero_point)
            for each in parts
        )

    def update_of(self, operation: Operation, call: Call, place: Place) -> int | None:
        """Adds a DYNAMIC_UPDATE_SLICE as an update; None for other operations."""
        if operation.type is not OperationType.TFLITE_DYNAMIC_UPDATE_SLICE:
            return None
        from neurald.drivers.compiler.ir.complex_numbers import is_complex  # Few models have updates.

        source, part, start = (call.index(name) for name in ("input", "update", "start"))
        is_int32 = self._flat.operands[start].type is OperandType.TENSOR_INT32
        if is_complex(self._flat.operands[source].type) or not is_int32 or 0 in self._flat.shape(part):
            return None
        if start in self._flat.known or source in self._flat.known:
            return None
        return self._add_update(operation, source, part, start, "", place)

    def _add_update(
        self,
        operation: Operation,
        source: int,
        part: int,
        start: int,
        message: str,
        place: Place,
    ) -> int:
        """Adds an update; `operation` is named in messages."""
        target = self._flat.variable(source)
        # The operation is in no block; it is kept for its name.
        position = self._flat.listed(operation, place)
        self._flat.regions[-1].items.append(
            Update(target=target, source=source, part=part, start=start, message=message, operation=position)
        )
        return target


class _Bounds(Struct, frozen=True, kw_only=True):
    """The bounds of a strided slice along its first axes; it takes all elements along the others.

    Attributes:
        begins, ends, strides: sums, for each axis.
        masks: bits of the axes that begin at the first element, that end at the last one, and of
            which a single element is taken, so that they are removed.
    """

    begins: Array
    ends: Array
    strides: Array
    masks: tuple[int, int, int]

    def removes(self, axis: int) -> bool:
        """Returns True if an axis is removed."""
        return axis < len(self.begins) and bool(self.masks[2] >> axis & 1)

    def range(self, axis: int, whole: Any) -> tuple[Sum, Any]:
        """Returns the first index and the number of elements along an axis of length `whole`."""
        if axis >= len(self.begins):
            return Sum(0), whole
        return _strided_axis(
            whole,
            None if self.masks[0] >> axis & 1 else self.begins[axis],
            None if self.masks[1] >> axis & 1 else self.ends[axis],
            self.strides[axis],
            shrinks=self.removes(axis),
        )


def _with_whole_axes(numbers: Array, place: int, count: int) -> Array:
    """Returns numbers of a slice with as many of 1 in the place of that of an ellipsis."""
    return np.concatenate([numbers[:place], as_objects((Sum(1),) * count), numbers[place + 1 :]])


def _mask_with_axes(mask: int, place: int, count: int, *, is_set: bool) -> int:
    """Returns a mask with a bit for each axis in the place of that of an ellipsis."""
    low, high = mask & ((1 << place) - 1), mask >> (place + 1)
    middle = (1 << count) - 1 if is_set else 0
    return low | middle << place | high << (place + count)


def _strided_axis(
    whole: int, begin: Sum | None, end: Sum | None, stride: Sum, *, shrinks: bool
) -> tuple[Sum, Any]:
    """Returns the first index and the number of elements of a strided slice along an axis.

    An index that depends on data must be valid: the kernel does not count it from the end.

    Raises:
        ShapeChanges: the number of elements depends on data.
    """
    known = [each is None or not each.terms for each in (begin, end)]
    if not stride.terms and all(known):
        if not stride.constant:
            raise BadData("the stride of a slice is 0")
        part = slice(
            None if begin is None else begin.constant, None if end is None else end.constant, stride.constant
        )
        if shrinks and begin is not None:
            return Sum(begin.constant + (whole if begin.constant < 0 else 0)), 1
        first_taken, count, step = slice_range(part, whole)
        if shrinks:
            return Sum(first_taken), 1
        if step != 1 and count:
            raise ShapeChanges("a slice with steps begins at an index that depends on data")
        return Sum(first_taken), count
    if stride != Sum(1):
        raise ShapeChanges("a slice with steps begins at an index that depends on data")
    first = Sum(0) if begin is None else begin
    if shrinks:
        return first, 1
    length = (Sum(whole) if end is None else end) - first
    if length.terms:
        raise ShapeChanges("a slice has a length that depends on data")
    taken: Any = length.constant
    return first, max(0, taken)
