"""Segment reductions and BUCKETIZE."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, operation


def bucketize(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes BUCKETIZE: the boundaries are options."""
    inputs = graph.input(operator), graph.reals(options["boundaries"])
    graph.emit(OperationType.TFLITE_BUCKETIZE, inputs, (graph.output(operator),))


def _of(operation_type: OperationType, inputs: int) -> Legalization:
    return Legalization(rule=operation(operation_type, typed_as=0), inputs=(inputs, inputs))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.BUCKETIZE: Legalization(rule=bucketize, options="BucketizeOptions"),
    BuiltinOperator.SEGMENT_SUM: _of(OperationType.TFLITE_SEGMENT_SUM, 2),
    BuiltinOperator.UNSORTED_SEGMENT_MAX: _of(OperationType.TFLITE_UNSORTED_SEGMENT_MAX, 3),
    BuiltinOperator.UNSORTED_SEGMENT_MIN: _of(OperationType.TFLITE_UNSORTED_SEGMENT_MIN, 3),
    BuiltinOperator.UNSORTED_SEGMENT_PROD: _of(OperationType.TFLITE_UNSORTED_SEGMENT_PROD, 3),
    BuiltinOperator.UNSORTED_SEGMENT_SUM: _of(OperationType.TFLITE_UNSORTED_SEGMENT_SUM, 3),
}
