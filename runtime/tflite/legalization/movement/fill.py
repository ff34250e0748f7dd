"""FILL, RANGE and ZEROS_LIKE."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, narrow_to_int32, operation


def fill(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes FILL. Android NN's operation takes a scalar."""
    shape, index, result = (
        narrow_to_int32(graph, graph.input(operator, 0)),
        graph.input(operator, 1),
        graph.output(operator),
    )
    value, operand_type = graph.value(index), graph.operand(index).type
    is_plain = (
        value is not None and value.shape == () and graph.operand(shape).type is OperandType.TENSOR_INT32
    )
    if is_plain and value is not None and operand_type is OperandType.TENSOR_INT32:
        graph.emit(OperationType.FILL, (shape, graph.int32(int(value))), (result,))
    elif is_plain and value is not None and value.dtype.char in "fe":
        graph.emit(OperationType.FILL, (shape, graph.real(float(value), like=index)), (result,))
    else:
        graph.emit(OperationType.TFLITE_FILL, (shape, index), (result,))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.FILL: Legalization(rule=fill, inputs=(2, 2)),
    BuiltinOperator.RANGE: Legalization(rule=operation(OperationType.TFLITE_RANGE), inputs=(3, 3)),
    BuiltinOperator.ZEROS_LIKE: Legalization(rule=operation(OperationType.TFLITE_ZEROS_LIKE)),
}
