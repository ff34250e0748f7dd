"""Conversions between types of numbers."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering, emit_limited, unary
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.operands import Unsupported
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator

_REALS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, OperandType.TENSOR_FLOAT64)


def dequantize(graph: Graph, operator: Operator, options: Options) -> None:
    """DEQUANTIZE, which TFLite also uses to convert float16 weights to float32."""
    is_float = graph.operand(graph.input(operator)).type in _REALS
    unary(OperationType.CAST if is_float else OperationType.DEQUANTIZE)(graph, operator, options)


def quantize(graph: Graph, operator: Operator, _: Options) -> None:
    """QUANTIZE. A 32-bit operand has no scale; that of the file becomes an argument."""
    source, result = graph.input(operator), graph.output(operator)
    wide: tuple[int, ...] = ()
    for index, tensor in ((source, operator.inputs[0]), (result, operator.outputs[0])):
        if graph.operand(index).type is OperandType.TENSOR_INT32:
            scale, zero_point = graph.quantization(tensor)
            wide = graph.real(scale, like=index), graph.int32(zero_point)
    emit_limited(graph, operator, OperationType.QUANTIZE, (source, *wide), result)


def cast(graph: Graph, operator: Operator, _: Options) -> None:
    """CAST. TFLite wraps integers that do not fit, while Android NN saturates them."""
    source, result = graph.input(operator), graph.output(operator)
    kinds = (graph.operand(source).type, graph.operand(result).type)
    is_plain = any(kind in _REALS for kind in kinds) or kinds[0] is kinds[1]
    emit_limited(
        graph, operator, OperationType.CAST if is_plain else OperationType.TFLITE_CAST, (source,), result
    )


def fake_quantize(graph: Graph, operator: Operator, options: Options) -> None:
    """FAKE_QUANT: quantises numbers and converts them back."""
    if options["narrow_range"]:
        raise Unsupported("a narrow range is not supported")
    source = graph.input(operator)
    ends = (graph.real(options[name], like=source) for name in ("minimum", "maximum"))
    inputs = source, *ends, graph.int32(options["bits"])
    graph.emit(OperationType.TFLITE_FAKE_QUANT, inputs, (graph.output(operator),))


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.BITCAST: Lowering(rule=unary(OperationType.TFLITE_BITCAST)),
    BuiltinOperator.CAST: Lowering(rule=cast),
    BuiltinOperator.COMPLEX_ABS: Lowering(rule=unary(OperationType.TFLITE_COMPLEX_ABS)),
    BuiltinOperator.DEQUANTIZE: Lowering(rule=dequantize),
    BuiltinOperator.FAKE_QUANT: Lowering(rule=fake_quantize, options="FakeQuantOptions"),
    BuiltinOperator.IMAG: Lowering(rule=unary(OperationType.TFLITE_IMAG)),
    BuiltinOperator.QUANTIZE: Lowering(rule=quantize),
    BuiltinOperator.REAL: Lowering(rule=unary(OperationType.TFLITE_REAL)),
}
