"""NumericVerify: the differences between a quantised value and its reference."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.machinery.steps import step


def numeric_verify(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes NumericVerify.

    Differences above the tolerance in its options are results like any other; LiteRT can be told to
    log them.
    """
    source, reference = graph.input(operator, 0), graph.input(operator, 1)
    operand = graph.operand(source)
    if operand.type is OperandType.TENSOR_FLOAT16:
        real = step(graph, OperationType.CAST, source)
    elif is_quantized(operand):
        real = step(graph, OperationType.TFLITE_DEQUANTIZE, source)
    else:
        raise UnsupportedFeature(f"input 0 has type {operand.type.name}; a quantised type is expected")
    none = graph.int32(FusedActivation.NONE)
    # TensorFlow's converter declares the type of the source for them.
    difference = graph.output(operator, typed_as=1)
    graph.emit(OperationType.SUB, (real, reference, none), (difference,))


#: Custom operators by name.
CUSTOM: dict[str, Legalization] = {"NumericVerify": Legalization(rule=numeric_verify, inputs=(2, 2))}
