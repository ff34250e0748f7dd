"""Operations whose number of results follows from data, with all rows that there may be.

WHERE, UNIQUE and SEGMENT_SUM have at most as many rows as their input has elements. The operation
gets a result of this size, and operations that count the rows follow it. Who adds them slices the
rows that exist.
"""

from math import prod

import numpy as np

from neurald.drivers.compiler.frontend.control_flow.graph.added_operations import AddedOperations, Append
from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import (
    FlatGraph,
    Part,
    Place,
    ShapeChanges,
)
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import Sum
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.model.graph import Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.records import replace

_T = OperationType
_BOOL = OperandType.TENSOR_BOOL8

#: Types of conditions; 0 is false.
_CONDITIONS = (_BOOL, OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64)
#: The operations that have counted rows. The first result has the rows.
COUNTED = frozenset((_T.TFLITE_WHERE, _T.TFLITE_UNIQUE, _T.TFLITE_SEGMENT_SUM))


def counted_rows(operation: Operation, flat: FlatGraph, append: Append, place: Place) -> Part:
    """Adds an operation with all rows that there may be, and what counts those that exist.

    Args:
        operation: its type is one of `COUNTED`.
        flat: the graph.
        append: adds an operation to it.
        place: see `Part`.

    Returns:
        The rows that exist.

    Raises:
        ShapeChanges: the rows are not counted for inputs such as these.
    """
    return _CountedRows(flat, append, operation).added(place)


class _CountedRows:
    """Adds operations.

    Args:
        flat, append, operation: see `counted_rows`.
    """

    def __init__(self, flat: FlatGraph, append: Append, operation: Operation) -> None:
        self._flat, self._append, self._operation = flat, append, operation
        self._added = AddedOperations(flat, append, operation.number)

    def added(self, place: Place) -> Part:
        """See `counted_rows`."""
        flat, operation = self._flat, self._operation
        first, others = operation.outputs[0], operation.outputs[1:]
        source = flat.shape(operation.inputs[0])
        if operation.type is _T.TFLITE_WHERE:
            if not source or flat.operands[operation.inputs[0]].type not in _CONDITIONS:
                raise ShapeChanges("the rows of WHERE are counted for vectors of booleans and numbers only")
            shape: Shape = (prod(source), len(source))
        else:
            shape = source
        everything = flat.add_operand(
            replace(flat.operands[first], lifetime=Lifetime.TEMPORARY_VARIABLE, dimensions=shape)
        )
        self._append(
            replace(operation, outputs=(everything, *others)), (shape, *((shape[0],) for _ in others))
        )
        rows = Sum(0 if operation.type is _T.TFLITE_WHERE else 1, (((self._count(), 0), 1),))
        return Part(
            source=everything,
            begins=(Sum(0),) * len(shape),
            lengths=(rows, *map(Sum, shape[1:])),
            operation=operation,
            place=place,
        )

    def _count(self) -> int:
        """Returns a scalar, the number of rows or 1 less; adds what computes it if needed."""
        flat, operation = self._flat, self._operation
        # The numbers of segments, or of distinct elements, begin with 0, and none is left out.
        counted = {
            _T.TFLITE_WHERE: operation.inputs[0],
            _T.TFLITE_SEGMENT_SUM: operation.inputs[-1],
            _T.TFLITE_UNIQUE: operation.outputs[-1],
        }[operation.type]
        known = flat.counts.get(counted)
        if known is not None and any(known[0] is each for each in flat.regions):
            return known[1]
        if operation.type is _T.TFLITE_WHERE:
            count = self._reduced(_T.TFLITE_SUM, self._flags(counted))
        else:
            count = self._reduced(_T.TFLITE_REDUCE_MAX, counted)
        flat.counts[counted] = flat.regions[-1], count
        return count

    def _flags(self, condition: int) -> int:
        """Adds what is 1 where a condition holds."""
        kind = self._flat.operands[condition].type
        if kind is not _BOOL:
            zero = self._added.constant(np.zeros(1), kind)
            condition = self._added.computed(_T.TFLITE_NOT_EQUAL, (condition, zero), _BOOL)
        return self._added.computed(_T.TFLITE_CAST, (condition,), OperandType.TENSOR_INT32)

    def _reduced(self, kind: OperationType, value: int) -> int:
        axes = self._added.constant(np.arange(len(self._flat.shape(value))), OperandType.TENSOR_INT32)
        keeps = self._added.constant(value=False, kind=OperandType.BOOL)
        return self._added.computed(kind, (value, axes, keeps), self._flat.operands[value].type)
