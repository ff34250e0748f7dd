"""The number of elements of a RANGE whose inputs are data, as operations of a flat graph."""

from collections.abc import Sequence

from neurald.drivers.compiler.frontend.control_flow.graph.added_operations import AddedOperations
from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import FlatGraph
from neurald.hal.model.graph import Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType

_T = OperationType
_FLOAT, _INT, _BOOL = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_BOOL8


def range_count(operation: Operation, flat: FlatGraph, added: AddedOperations) -> int:
    """Adds operations that count the elements of a RANGE.

    Args:
        operation: the RANGE.
        flat: the graph.
        added: adds operations to it.

    Returns:
        A scalar integer: the number of elements, or a number that is negative or the largest
            integer if the step does not lead from the start to the limit.
    """
    kind = flat.operands[operation.inputs[0]].type
    return (_float_count if kind is _FLOAT else _integer_count)(operation.inputs, kind, added)


def _float_count(inputs: Sequence[int], kind: OperandType, added: AddedOperations) -> int:
    start, limit, delta = inputs
    none = added.constant(FusedActivation.NONE, OperandType.INT32)
    distance = added.computed(_T.SUB, (limit, start, none), kind)
    steps = added.computed(_T.DIV, (distance, delta, none), kind)
    # NaN is not at least 0 either.
    leads = added.computed(_T.GREATER_EQUAL, (steps, added.constant(0.0, kind)), _BOOL)
    whole = added.computed(_T.TFLITE_CEIL, (steps,), kind)
    count = added.computed(_T.TFLITE_SELECT_V2, (leads, whole, added.constant(-1.0, kind)), kind)
    return added.computed(_T.TFLITE_CAST, (count,), _INT)


def _integer_count(inputs: Sequence[int], kind: OperandType, added: AddedOperations) -> int:
    start, limit, delta = inputs
    none = added.constant(FusedActivation.NONE, OperandType.INT32)
    zero, one, minus_one = (added.constant(each, kind) for each in (0, 1, -1))
    rises = added.computed(_T.TFLITE_GREATER, (delta, zero), _BOOL)
    sign = added.computed(_T.TFLITE_SELECT_V2, (rises, one, minus_one), kind)
    distance = added.computed(_T.TFLITE_SUB, (limit, start, none), kind)
    forward = added.computed(_T.TFLITE_MUL, (distance, sign, none), kind)
    leads = added.computed(_T.TFLITE_GREATER_EQUAL, (forward, zero), _BOOL)
    more = added.computed(_T.TFLITE_SUB, (delta, sign, none), kind)
    spanned = added.computed(_T.TFLITE_ADD, (distance, more, none), kind)
    steps = added.computed(_T.TFLITE_FLOOR_DIV, (spanned, delta), kind)
    return added.computed(_T.TFLITE_SELECT_V2, (leads, steps, minus_one), kind)
