"""Segment reductions, buckets and bit operations."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering, operation
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator


def bucketize(graph: Graph, operator: Operator, options: Options) -> None:
    """BUCKETIZE: the boundaries are options."""
    inputs = graph.input(operator), graph.reals(options["boundaries"])
    graph.emit(OperationType.TFLITE_BUCKETIZE, inputs, (graph.output(operator),))


def _of(operation_type: OperationType, inputs: int, *, typed_as: int | None = 0) -> Lowering:
    return Lowering(rule=operation(operation_type, typed_as=typed_as), inputs=(inputs, inputs))


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.BITWISE_XOR: _of(OperationType.TFLITE_BITWISE_XOR, 2),
    BuiltinOperator.BUCKETIZE: Lowering(rule=bucketize, options="BucketizeOptions"),
    BuiltinOperator.RIGHT_SHIFT: _of(OperationType.TFLITE_RIGHT_SHIFT, 2),
    BuiltinOperator.SEGMENT_SUM: _of(OperationType.TFLITE_SEGMENT_SUM, 2),
    BuiltinOperator.UNSORTED_SEGMENT_MAX: _of(OperationType.TFLITE_UNSORTED_SEGMENT_MAX, 3),
    BuiltinOperator.UNSORTED_SEGMENT_MIN: _of(OperationType.TFLITE_UNSORTED_SEGMENT_MIN, 3),
    BuiltinOperator.UNSORTED_SEGMENT_PROD: _of(OperationType.TFLITE_UNSORTED_SEGMENT_PROD, 3),
    BuiltinOperator.UNSORTED_SEGMENT_SUM: _of(OperationType.TFLITE_UNSORTED_SEGMENT_SUM, 3),
}
