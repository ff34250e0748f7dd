"""QUANTIZE, DEQUANTIZE and FAKE_QUANT."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.elementwise.casting import REALS
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, emit_clamped, unary


def dequantize(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes DEQUANTIZE, which TFLite also uses to convert float16 weights to float32."""
    is_float = graph.operand(graph.input(operator)).type in REALS
    unary(OperationType.CAST if is_float else OperationType.DEQUANTIZE)(graph, operator, options)


def quantize(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes QUANTIZE. A 32-bit operand has no scale; that of the file becomes an argument."""
    source, result = graph.input(operator), graph.output(operator)
    wide: tuple[int, ...] = ()
    for index, tensor in ((source, operator.inputs[0]), (result, operator.outputs[0])):
        if graph.operand(index).type is OperandType.TENSOR_INT32:
            scale, zero_point = graph.quantization(tensor)
            wide = graph.real(scale, like=index), graph.int32(zero_point)
    emit_clamped(graph, operator, OperationType.QUANTIZE, (source, *wide), result)


def fake_quantize(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes FAKE_QUANT: quantises numbers and converts them back."""
    if options["narrow_range"]:
        raise UnsupportedFeature("a narrow range is not supported")
    source = graph.input(operator)
    ends = (graph.real(options[name], like=source) for name in ("minimum", "maximum"))
    inputs = source, *ends, graph.int32(options["bits"])
    graph.emit(OperationType.TFLITE_FAKE_QUANT, inputs, (graph.output(operator),))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.DEQUANTIZE: Legalization(rule=dequantize),
    BuiltinOperator.FAKE_QUANT: Legalization(rule=fake_quantize, options="FakeQuantOptions"),
    BuiltinOperator.QUANTIZE: Legalization(rule=quantize),
}
