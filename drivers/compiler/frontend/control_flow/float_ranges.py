"""The number of elements of a RANGE of floats that are data, as operations of a flat graph."""

from collections.abc import Sequence

from neurald.drivers.compiler.frontend.control_flow.added_operations import AddedOperations, Append
from neurald.drivers.compiler.frontend.control_flow.flat_graph import FlatGraph
from neurald.hal.model.graph import Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType

_T = OperationType
_FLOAT, _INT, _BOOL = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_BOOL8


def float_range_count(operation: Operation, flat: FlatGraph, append: Append) -> int:
    """Adds operations that count the elements of a RANGE.

    Args:
        operation: the RANGE.
        flat: the graph.
        append: adds an operation to it.

    Returns:
        A scalar of INT32: the number of elements, or a number that is negative or the largest
            integer if the step does not lead from the start to the limit.
    """
    added = AddedOperations(flat, append, operation.number)
    constant = added.constant

    def computed(kind: OperationType, inputs: Sequence[int], result: OperandType = _FLOAT) -> int:
        return added.computed(kind, inputs, result)

    start, limit, delta = operation.inputs
    activation = constant(FusedActivation.NONE, OperandType.INT32)
    distance = computed(_T.SUB, (limit, start, activation))
    steps = computed(_T.DIV, (distance, delta, activation))
    # NaN is not at least 0 either.
    leads = computed(_T.GREATER_EQUAL, (steps, constant(0.0, _FLOAT)), _BOOL)
    whole = computed(_T.TFLITE_CEIL, (steps,))
    count = computed(_T.TFLITE_SELECT_V2, (leads, whole, constant(-1.0, _FLOAT)))
    return computed(_T.TFLITE_CAST, (count,), _INT)
