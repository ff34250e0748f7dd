"""Products of matrices."""

from neurald.hal.operation_type import OperationType
from neurald.hal.operations.quantized import is_quantized
from neurald.hal.types import Dimensions
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.lowering.rule import Lowering
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator


def batch_matmul(graph: Graph, operator: Operator, options: Options) -> None:
    """The flag on how floats are quantised comes only where they are."""
    first, second = graph.input(operator, 0), graph.input(operator, 1)
    adjoints = (graph.boolean(value=bool(options[name])) for name in ("adj_x", "adj_y"))
    inputs = first, second, *adjoints
    is_hybrid = is_quantized(graph.operand(second)) and not is_quantized(graph.operand(first))
    if is_hybrid and options["asymmetric_quantize_inputs"]:
        asymmetric = graph.boolean(value=True)
        graph.emit(OperationType.TFLITE_BATCH_MATMUL, (*inputs, asymmetric), (graph.output(operator),))
        return
    is_alike = _is_alike(graph.operand(first).dimensions, graph.operand(second).dimensions)
    operation_type = OperationType.BATCH_MATMUL if is_alike else OperationType.TFLITE_BATCH_MATMUL
    graph.emit(operation_type, inputs, (graph.output(operator),))


def _is_alike(first: Dimensions, second: Dimensions) -> bool:
    """Whether it is certain that the batches are the same: Android NN's operation does not broadcast them."""
    return first is not None and second is not None and first[:-2] == second[:-2] and 0 not in first[:-2]


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.BATCH_MATMUL: Lowering(rule=batch_matmul, options="BatchMatMulOptions", inputs=(2, 2)),
}
